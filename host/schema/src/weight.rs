//! The cost of a JSON text as a value, known before it is parsed.

/// A value and the place that it takes in a list that grows.
const VALUE_BYTES: u64 = 160;

/// A member's name and its share of the table of names, beside its value.
const MEMBER_BYTES: u64 = 80;

/// An array or object for itself: none begins with room for fewer than four values.
const CONTAINER_BYTES: u64 = 480;

/// The size of the value of one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Weight {
    /// Bytes of memory, at most.
    pub bytes: u64,
    /// Values, members' names not counted.
    pub values: u64,
    /// Arrays and objects inside one another.
    pub depth: usize,
}

impl Weight {
    /// More memory than any text of this length takes, known without looking at it.
    #[must_use]
    pub fn most(text: &str) -> u64 {
        // Each byte is at most the bracket of one more array or object.
        (text.len() as u64).saturating_mul(1 + VALUE_BYTES + CONTAINER_BYTES).saturating_add(VALUE_BYTES)
    }

    /// Weighs a text in one pass that keeps nothing; a text that is not JSON has a weight as well, and the parser
    /// refuses it.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let (mut containers, mut commas, mut members) = (0_u64, 0_u64, 0_u64);
        let (mut depth, mut deepest) = (0_usize, 0_usize);
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            match byte {
                b'"' => {
                    while let Some(byte) = bytes.next() {
                        match byte {
                            b'"' => break,
                            b'\\' => drop(bytes.next()),
                            _ => {}
                        }
                    }
                }
                b'[' | b'{' => {
                    containers += 1;
                    depth += 1;
                    deepest = deepest.max(depth);
                }
                b']' | b'}' => depth = depth.saturating_sub(1),
                b',' => commas += 1,
                b':' => members += 1,
                _ => {}
            }
        }
        let values = 1 + containers + commas;
        let bytes = text.len() as u64 + values * VALUE_BYTES + members * MEMBER_BYTES + containers * CONTAINER_BYTES;
        Self { bytes, values, depth: deepest }
    }
}

#[cfg(test)]
mod tests {
    use super::Weight;

    #[test]
    fn what_stands_in_texts_weighs_nothing_but_its_bytes() {
        let text = r#""[[[[{,,,:\"]]]""#;
        let weight = Weight::of(text);
        assert_eq!((weight.values, weight.depth), (1, 0));
        assert_eq!(Weight::of("[[1,2],{\"a\":{}}]").depth, 3);
    }

    #[test]
    fn values_take_less_memory_than_their_texts_promise_and_not_a_fifth_of_it() {
        let rows = |row: &str, count| format!("[{}]", vec![row; count].join(","));
        for text in [
            rows("1", 100_000),
            rows("{}", 50_000),
            rows("[]", 50_000),
            rows("[1]", 50_000),
            rows(r#"{"a":1}"#, 50_000),
            rows(r#""""#, 100_000),
            rows(r#"{"id":1,"name":"a name","tags":["a","b"],"price":1.5,"at":"2024-01-01"}"#, 10_000),
            rows("{\"a\":{\"b\":[[]]}}", 20_000),
            format!("{}1{}", "[".repeat(100), "]".repeat(100)),
            format!("{{{}}}", (0..50_000).map(|at| format!("\"{at}\":{at}")).collect::<Vec<_>>().join(",")),
            format!("\"{}\"", "x".repeat(1 << 20)),
        ] {
            let weight = Weight::of(&text);
            let mut value = None;
            let used = allocation_counter::measure(|| value = serde_json::from_str::<serde_json::Value>(&text).ok());
            assert!(value.is_some(), "{text:.40}");
            assert!(weight.bytes <= Weight::most(&text), "{text:.40}");
            assert!(used.bytes_max <= weight.bytes, "{text:.40}: {} > {}", used.bytes_max, weight.bytes);
            assert!(used.bytes_max * 8 + 2_000 >= weight.bytes, "{text:.40}: {} ≪ {}", used.bytes_max, weight.bytes);
        }
    }
}
