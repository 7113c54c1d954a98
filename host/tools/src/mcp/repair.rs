//! JSON as servers write it: a byte-order mark, bytes that are no UTF-8, halves of surrogate pairs.

use opcell_schema::json::values_in;
use opcell_types::{text::one_line, value::with_exact_integers};
use serde_json::Value as Json;

/// Values of one message: what is made of it holds most of them two or three times.
const MAX_VALUES: usize = 1 << 19;

/// Bytes around a mistake that are shown.
const NEAR_BYTES: usize = 40;

/// A byte-order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads one value. A byte that is no UTF-8 and half of a surrogate pair are U+FFFD, for a person to see. An integer
/// that would be rounded is a text of its digits.
///
/// # Errors
/// With what is wrong, as the end of a sentence.
pub(super) fn parse(text: &[u8]) -> Result<Json, String> {
    if values_in(text) > MAX_VALUES {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    let text = with_exact_integers(text.strip_prefix(MARK).unwrap_or(text));
    let first = match serde_json::from_slice(&text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    let readable = String::from_utf8_lossy(&text);
    let repaired = paired(&readable);
    serde_json::from_str(&repaired).map_err(|_| mistake(&readable, &first))
}

fn mistake(text: &str, error: &serde_json::Error) -> String {
    let reason = error.to_string();
    if reason.contains("recursion limit") {
        return "it is nested deeper than 128 levels".to_owned();
    }
    if reason.contains("out of range") {
        return "it has a number that is too large".to_owned();
    }
    if error.is_eof() {
        return "it ends too early".to_owned();
    }
    let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
    let from = line.floor_char_boundary(error.column().saturating_sub(1).min(line.len()));
    let near = line.get(from..).unwrap_or_default();
    format!("it is not JSON, near `{}`", one_line(near, NEAR_BYTES))
}

/// The text with escapes of single surrogates replaced: JavaScript and Python write them.
fn paired(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
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
    use super::parse;
    use serde_json::json;

    #[test]
    fn what_is_nearly_json_is_read_and_what_is_not_is_named() {
        assert_eq!(parse(b"\xef\xbb\xbf{\"a\":1}\r"), Ok(json!({"a": 1})));
        assert_eq!(parse(b"[\"caf\xe9\"]"), Ok(json!(["caf\u{fffd}"])));
        assert_eq!(parse(br#"["\ud83d\ude00 \ud83d \\ud83d \udc00x"]"#), Ok(json!(["😀 \u{fffd} \\ud83d \u{fffd}x"])));
        assert_eq!(parse(b"[99999999999999999999, 1]"), Ok(json!(["99999999999999999999", 1])));
        assert_eq!(parse(br#"{"a": NaN}"#), Err("it is not JSON, near `NaN}`".to_owned()));
        assert_eq!(parse(b"{\"a\": 1"), Err("it ends too early".to_owned()));
        assert_eq!(parse("[".repeat(200).as_bytes()), Err("it is nested deeper than 128 levels".to_owned()));
        assert_eq!(parse(b"[1e999]"), Err("it has a number that is too large".to_owned()));
    }
}
