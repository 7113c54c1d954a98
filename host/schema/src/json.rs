//! JSON texts of others, whose values are counted before they are read.
//!
//! A value takes 72 bytes, and an object or list with something in it some hundred more, while two bytes of text are
//! enough to write one: sixteen mebibytes of zeros would take a gigabyte.

use serde::de::{DeserializeOwned, Error as _, IgnoredAny};

/// Values of one text, the names of members counted as well: some 200 MiB at most.
pub const MAX_VALUES: usize = 1 << 20;

/// The number of values that a text has at most, the names of members counted as well. It keeps nothing of the text,
/// which need not be JSON.
#[must_use]
pub fn values_in(text: &[u8]) -> usize {
    let (mut values, mut in_text, mut is_escaped) = (1_usize, false, false);
    for byte in text {
        match (in_text, byte) {
            (true, _) if is_escaped => is_escaped = false,
            (true, b'\\') => is_escaped = true,
            (_, b'"') => in_text = !in_text,
            (false, b',' | b'[' | b'{' | b':') => values += 1,
            _ => {}
        }
    }
    values
}

/// Reads JSON of another party.
///
/// # Errors
/// The parser's, and when the text has more than [`MAX_VALUES`] values.
pub fn from_slice<T: DeserializeOwned>(text: &[u8]) -> Result<T, serde_json::Error> {
    // A text that is shorter has fewer.
    if text.len() > MAX_VALUES && values_in(text) > MAX_VALUES {
        return Err(serde_json::Error::custom(format!("it has more than {MAX_VALUES} values")));
    }
    serde_json::from_slice(text)
}

/// Returns `true` if a text is JSON. It keeps nothing of it.
#[must_use]
pub fn is_json(text: &[u8]) -> bool {
    serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// A text that is nearly JSON, with U+FFFD for each byte that is no UTF-8 and for each escape of half a surrogate pair:
/// JavaScript and Python write them, and models cut them.
#[must_use]
pub fn repaired(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let mut out = String::with_capacity(text.len());
    let mut rest = &*text;
    while let Some(at) = rest.find('\\') {
        let (before, escape) = rest.split_at(at);
        out.push_str(before);
        let unit = |escape: &str| {
            let digits = escape.strip_prefix("\\u")?.get(..4)?;
            u16::from_str_radix(digits, 16).ok()
        };
        let length = match (unit(escape), escape.get(6..).and_then(unit)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 12,
            (Some(0xd800..=0xdfff), _) => {
                out.push_str("\\ufffd");
                rest = escape.get(6..).unwrap_or_default();
                continue;
            }
            // The next character as well: it may be another backslash.
            _ => 1 + escape.chars().nth(1).map_or(0, char::len_utf8),
        };
        let (kept, after) = escape.split_at(length);
        out.push_str(kept);
        rest = after;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    #[test]
    fn a_text_of_more_values_than_may_be_is_not_read() {
        let rows = |row: &str, count: usize| format!("[{}0]", format!("{row},").repeat(count));
        for row in ["0", "[]", "{}", "\"\"", "[[]]", r#"{"":0}"#, "[[[[0]]]]"] {
            let text = rows(row, 6_000_000 / (row.len() + 1));
            let mut error = None;
            let used = allocation_counter::measure(|| error = from_slice::<Value>(text.as_bytes()).err());
            assert!(error.unwrap().to_string().starts_with("it has more than 1048576 values"), "{row}");
            assert!(used.bytes_max < 1 << 10, "{row}: {used:?}");
        }
    }

    #[test]
    fn what_is_read_takes_a_bounded_memory_however_it_is_written() {
        for (row, values) in [("0", 1), ("[]", 2), ("{}", 2), ("[0]", 2), (r#"{"":0}"#, 3), (r#"{"":{"":0}}"#, 5)] {
            // As many as there may be.
            let text = format!("[{}0]", format!("{row},").repeat((MAX_VALUES - 4) / values));
            let mut read = None;
            let used = allocation_counter::measure(|| read = from_slice::<Value>(text.as_bytes()).ok());
            assert!(read.is_some_and(|read| read[0] == serde_json::from_str::<Value>(row).unwrap()), "{row}");
            assert!(used.bytes_max < 400 << 20, "{row}: {used:?}");
        }
    }

    #[test]
    fn halves_of_pairs_and_bytes_that_are_no_text_are_replaced_and_the_rest_stays() {
        assert_eq!(repaired(br#"\ud83d\ude00 \ud83d \\ud83d \udc00x"#), r"\ud83d\ude00 \ufffd \\ud83d \ufffdx");
        assert_eq!(repaired(b"caf\xe9 \\"), "caf\u{fffd} \\");
    }

    #[test]
    fn what_stands_in_texts_is_one_value() {
        assert_eq!(values_in(br#""[[,,{:\"{{,,""#), 1);
        assert_eq!(values_in(br#"{"a":[1,"b"]}"#), 5);
        let text = format!("\"{}\"", "[,".repeat(4_000_000));
        assert!(from_slice::<Value>(text.as_bytes()).is_ok());
    }
}
