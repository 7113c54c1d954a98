//! JavaScript's conversions, for the languages whose reference runtimes are JavaScript: numbers as text and back, text
//! of values, truthiness, JSON as `JSON.stringify` writes it, and the order of strings and of object keys.

use opcell_types::value::{Number, NumberKind, Object, Text, Value};
use std::{cmp::Ordering, fmt::Write as _};

/// A character that a regular expression's `\s`, `String.trim` and `Number()` take for white space.
#[must_use]
pub fn is_space(c: char) -> bool {
    (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}'
}

/// `String(n)`: `7`, `0.1`, `1e+21`, `NaN`, `-Infinity`.
#[must_use]
pub fn number_to_string(n: f64) -> String {
    ryu_js::Buffer::new().format(n).to_owned()
}

/// `Number(text)`: NaN where the text is not a number; blank text is 0.
#[must_use]
pub fn string_to_number(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    let radix = match text.as_bytes() {
        [] => return 0.0,
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', b'b' | b'B', ..] => 2,
        _ => 10,
    };
    if radix != 10 {
        return digits_to_number(text.get(2..).unwrap_or_default(), radix);
    }
    match text.strip_prefix(['+', '-']).unwrap_or(text) {
        "Infinity" if text.starts_with('-') => f64::NEG_INFINITY,
        "Infinity" => f64::INFINITY,
        // Rust's own grammar is JavaScript's decimal one plus the words for infinity and NaN, which have no digit
        // first.
        unsigned if unsigned.starts_with(|c: char| c.is_ascii_digit() || c == '.') => text.parse().unwrap_or(f64::NAN),
        _ => f64::NAN,
    }
}

fn digits_to_number(digits: &str, radix: u32) -> f64 {
    if digits.is_empty() {
        return f64::NAN;
    }
    // Radixes are powers of two: what does not fit is a shift, and one bit remembers whether it was zero, so that the
    // one rounding at the end is right.
    let (mut significant, mut shift, mut rest) = (0u128, 0i32, false);
    for digit in digits.chars() {
        let Some(digit) = digit.to_digit(radix) else { return f64::NAN };
        if significant >> 120 == 0 {
            significant = significant * u128::from(radix) + u128::from(digit);
        } else {
            shift = shift.saturating_add(radix.trailing_zeros().cast_signed());
            rest |= digit != 0;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "rounds to the nearest double, as JavaScript does")]
    let rounded = (significant | u128::from(rest)) as f64;
    rounded * 2f64.powi(shift)
}

/// The number that a text is, as [`string_to_number`] reads it, but with every integer of 64 bits kept whole.
#[must_use]
pub fn parse_number(text: &str) -> Number {
    let digits = text.trim_matches(is_space);
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    // `-0` is a double of its own.
    let is_integer = !unsigned.is_empty() && unsigned.bytes().all(|byte| byte.is_ascii_digit()) && digits != "-0";
    let signed = is_integer.then(|| digits.parse::<i64>().ok()).flatten();
    let parsed =
        signed.map(Number::from).or_else(|| digits.parse::<u64>().ok().filter(|_| is_integer).map(Number::from));
    parsed.unwrap_or_else(|| Number::from(string_to_number(text)))
}

/// The value of a JavaScript number: an integer where it is a safe one, so that it also prints as one in JSON.
#[must_use]
pub fn number(n: f64) -> Value {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "checked to be a safe integer, which a double holds exactly"
    )]
    if n.fract() == 0.0 && n.abs() <= MAX_SAFE_INTEGER as f64 && !(n == 0.0 && n.is_sign_negative()) {
        Value::from(n as i64)
    } else {
        Value::from(n)
    }
}

/// `String(value)`: arrays joined with commas, objects as `[object Object]`.
#[must_use]
pub fn to_text(value: &Value) -> String {
    let mut out = String::new();
    write_text(value, &mut out);
    out
}

fn write_text(value: &Value, out: &mut String) {
    match value {
        Value::Undefined => out.push_str("undefined"),
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => write_number(*n, out),
        Value::String(text) => out.push_str(text),
        Value::Array(items) => {
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                if !item.is_nullish() {
                    write_text(item, out);
                }
            }
        }
        Value::Object(_) => out.push_str("[object Object]"),
    }
}

/// The largest integer up to which every integer is a double of its own.
pub const MAX_SAFE_INTEGER: u64 = (1 << 53) - 1;

/// Integers in full, where JavaScript would round them to a double: an identifier is never another one.
pub(crate) fn write_number(n: Number, out: &mut String) {
    match n.kind() {
        NumberKind::Integer(n) => out.push_str(itoa::Buffer::new().format(n)),
        NumberKind::Unsigned(n) => out.push_str(itoa::Buffer::new().format(n)),
        NumberKind::Float(n) => out.push_str(ryu_js::Buffer::new().format(n)),
    }
}

/// `Boolean(value)`: empty arrays and objects are true. (Inside expressions another rule holds:
/// [`crate::expr::is_truthy`].)
#[must_use]
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != 0.0 && !n.as_f64().is_nan(),
        Value::String(text) => !text.is_empty(),
        Value::Array(_) | Value::Object(_) => true,
    }
}

/// `JSON.stringify(value)`, without spaces; integer-like keys first, as JavaScript objects hold them.
#[must_use]
pub fn to_json(value: &Value) -> String {
    let mut out = String::new();
    write_json(value, &mut out);
    out
}

fn write_json(value: &Value, out: &mut String) {
    match value {
        Value::Undefined | Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) if !n.as_f64().is_finite() => out.push_str("null"),
        Value::Number(n) => write_number(*n, out),
        Value::String(text) => write_json_string(text, out),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_json(item, out);
            }
            out.push(']');
        }
        Value::Object(entries) => {
            out.push('{');
            let mut first = true;
            for (key, item) in in_key_order(entries) {
                if matches!(item, Value::Undefined) {
                    continue;
                }
                if !first {
                    out.push(',');
                }
                first = false;
                write_json_string(key, out);
                out.push(':');
                write_json(item, out);
            }
            out.push('}');
        }
    }
}

fn write_json_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The index that an object key means: `0`, `7`, but not `07`, `-1` or `1.0`.
#[must_use]
pub fn integer_key(key: &str) -> Option<u32> {
    let canonical = key == "0" || !key.starts_with(['0', '+']);
    key.parse().ok().filter(|n| canonical && *n != u32::MAX)
}

fn in_key_order(entries: &Object) -> impl Iterator<Item = (&Text, &Value)> {
    let mut keys: Vec<(u32, usize)> =
        entries.keys().enumerate().filter_map(|(position, key)| Some((integer_key(key)?, position))).collect();
    keys.sort_unstable();
    let rest = entries.iter().filter(|(key, _)| integer_key(key).is_none());
    keys.into_iter().filter_map(|(_, position)| entries.get_index(position)).chain(rest)
}

/// Puts integer-like keys first, ascending, as JavaScript objects hold them.
pub fn order_keys<K: AsRef<str> + std::hash::Hash + Eq, V>(entries: &mut indexmap::IndexMap<K, V>) {
    if entries.keys().any(|key| integer_key(key.as_ref()).is_some()) {
        let rank = |key: &K| integer_key(key.as_ref()).map_or(u64::MAX, u64::from);
        entries.sort_by(|a, _, b, _| rank(a).cmp(&rank(b)));
    }
}

/// Compares strings by their UTF-16 code units, as `<` does. (UTF-8 order differs above U+D7FF.)
#[must_use]
pub fn compare_strings(a: &str, b: &str) -> Ordering {
    match a.bytes().zip(b.bytes()).find(|(a, b)| a != b) {
        Some((a, b)) => byte_rank(a).cmp(&byte_rank(b)),
        None => a.len().cmp(&b.len()),
    }
}

/// Returns the rank to compare in the place of a byte of UTF-8, so that texts order by UTF-16 code units: surrogates,
/// which stand for four bytes from 0xF0, come before U+E000 and up, which begin with 0xEE and 0xEF.
#[must_use]
pub const fn byte_rank(byte: u8) -> u8 {
    if matches!(byte, 0xee | 0xef) { byte + 0x10 } else { byte }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_as_javascript_prints_them() {
        for (n, text) in [(7.0, "7"), (-0.0, "0"), (0.1, "0.1"), (1e21, "1e+21"), (1e-7, "1e-7"), (5e-324, "5e-324")] {
            assert_eq!(number_to_string(n), text);
        }
    }

    #[test]
    fn integers_of_64_bits_are_read_and_written_whole() {
        for text in ["9007199254740993", "-9007199254740993", "18446744073709551615", "2512292042121000001", "0", "7"] {
            assert_eq!(to_text(&Value::Number(parse_number(text))), text);
            assert_eq!(to_json(&Value::array([Value::Number(parse_number(text))])), format!("[{text}]"));
        }
        for (text, printed) in
            [("1e21", "1e+21"), ("0x10", "16"), (" 7 ", "7"), ("5.50", "5.5"), ("-0", "0"), ("x", "NaN")]
        {
            assert_eq!(to_text(&Value::Number(parse_number(text))), printed, "{text}");
        }
    }

    #[test]
    fn text_becomes_a_number_as_in_javascript() {
        for (text, n) in
            [("", 0.0), (" 7 ", 7.0), ("0x10", 16.0), ("0b11", 3.0), ("1e3", 1000.0), (".5", 0.5), ("5.", 5.0)]
        {
            assert!(string_to_number(text) == n, "{text}");
        }
        assert!(string_to_number("-Infinity") == f64::NEG_INFINITY);
        // What node gives for `Number(text)`: rounded once, at the end.
        for (text, n) in [
            ("0X500688944099229700", 1.4762103150629924e21),
            ("0x252673411891855360b1", 1.7543684108717898e23),
            ("0x20000000000001", 9_007_199_254_740_992.0),
            ("0x20000000000003", 9_007_199_254_740_996.0),
            ("0x800000000000040000000000000000000000000000", 1.8707220957835557e50),
            ("0x800000000000040000000000000000000000000001", 1.870722095783556e50),
        ] {
            assert_eq!(string_to_number(text), n, "{text}");
        }
        assert_eq!(string_to_number(&format!("0x{}", "f".repeat(300))), f64::INFINITY);
        for text in ["1_000", "inf", "nan", "infinity", "0x", "-0x10", "1e", ".", "+", "1 2"] {
            assert!(string_to_number(text).is_nan(), "{text}");
        }
    }

    #[test]
    fn integer_like_keys_come_first() {
        let value =
            Value::object([("b", Value::Null), ("10", Value::Undefined), ("2", true.into()), ("01", Value::Null)]);
        assert_eq!(to_json(&value), r#"{"2":true,"b":null,"01":null}"#);
    }

    #[test]
    fn strings_compare_by_utf16_code_units() {
        assert_eq!(compare_strings("\u{ff5e}", "\u{1f600}"), Ordering::Greater);
        assert_eq!(compare_strings("a", "b"), Ordering::Less);
        let texts = ["", "a", "ab", "é", "\u{d7ff}", "\u{e000}", "\u{fffd}", "\u{10000}", "\u{10ffff}", "a\u{e000}"];
        for (a, b) in texts.iter().flat_map(|a| texts.iter().map(move |b| (a, b))) {
            assert_eq!(compare_strings(a, b), a.encode_utf16().cmp(b.encode_utf16()), "{a:?} {b:?}");
        }
    }
}
