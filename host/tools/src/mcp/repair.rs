//! JSON as servers write it: a byte-order mark, bytes that are no UTF-8, halves of surrogate pairs.

use super::deep;
use opcell_schema::json::{repaired, values_in};
use opcell_types::{text::one_line, value::with_exact_integers};
use serde_json::Value as Json;

/// Values of one message: what is made of it holds most of them two or three times.
const MAX_VALUES: usize = 1 << 19;

/// Documents of one text.
const MAX_DOCUMENTS: usize = 1_000;

/// Braces of one text that are tried as the beginning of a document. Each takes a look at all of it.
const MAX_STARTS: usize = 16;

/// Bytes around a mistake that are shown.
const NEAR_BYTES: usize = 40;

/// A byte-order mark in UTF-8.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// The fault of a text that [`is_utf16`].
pub(super) const UTF16: &str = "it is text in UTF-16, and messages are sent in UTF-8";

/// Returns `true` if a text begins with the byte-order mark of UTF-16, or with a character of ASCII and the zero beside
/// it.
pub(super) fn is_utf16(text: &[u8]) -> bool {
    matches!(text, [0xff, 0xfe, ..] | [0xfe, 0xff, ..] | [1..=0x7f, 0, ..] | [0, 1..=0x7f, ..])
}

/// Reads one value. A byte that is no UTF-8 and half of a surrogate pair are U+FFFD, for a person to see. An integer
/// that would be rounded is a text of its digits.
///
/// # Errors
/// With what is wrong, as the end of a sentence.
pub(super) fn parse(text: &[u8]) -> Result<Json, String> {
    if values_in(text) > MAX_VALUES {
        return Err(format!("it has more than {MAX_VALUES} values"));
    }
    if is_utf16(text) {
        return Err(UTF16.to_owned());
    }
    let text = with_exact_integers(text.strip_prefix(MARK).unwrap_or(text));
    let first = match serde_json::from_slice(&text) {
        Ok(value) => return Ok(value),
        Err(error) => error,
    };
    if let Some(value) = is_too_deep(&first).then(|| deep::with_shallow_tools(&text)).flatten() {
        return Ok(value);
    }
    serde_json::from_str(&repaired(&text)).map_err(|_| mistake(&String::from_utf8_lossy(&text), &first))
}

/// The JSON values in a text that is not one value: several documents, or documents among other words.
#[derive(Debug, PartialEq)]
pub(super) struct Documents {
    pub(super) values: Vec<Json>,
    /// `true` if there is nothing else in the text.
    pub(super) alone: bool,
}

/// Reads the documents of a text that [`parse`] refuses. Among other words only objects that name the protocol are any:
/// programs print progress without an end of line, and prefixes of their logs.
pub(super) fn documents(text: &[u8]) -> Option<Documents> {
    if values_in(text) > MAX_VALUES {
        return None;
    }
    let text = repaired(text.strip_prefix(MARK).unwrap_or(text));
    let text = text.trim();
    if text.starts_with(['{', '[']) {
        let (values, rest) = sequence(text);
        if !values.is_empty() && rest.is_empty() {
            return Some(Documents { values, alone: true });
        }
    }
    for at in text.match_indices('{').map(|(at, _)| at).filter(|at| begins_object(text, *at)).take(MAX_STARTS) {
        let (mut values, _) = sequence(text.get(at..).unwrap_or_default());
        values.retain(|value| value.get("jsonrpc").is_some());
        if !values.is_empty() {
            return Some(Documents { values, alone: false });
        }
    }
    None
}

/// Returns `true` if a brace is followed by a key.
fn begins_object(text: &str, at: usize) -> bool {
    text.get(at + 1..).is_some_and(|rest| rest.trim_start().starts_with('"'))
}

/// The documents that a text begins with, and what is after them.
fn sequence(text: &str) -> (Vec<Json>, String) {
    let text = with_exact_integers(text.as_bytes());
    let mut values = Vec::new();
    let mut found = serde_json::Deserializer::from_slice(&text).into_iter::<Json>();
    let mut end = 0;
    while values.len() < MAX_DOCUMENTS
        && let Some(Ok(value)) = found.next()
        && (value.is_object() || value.is_array())
    {
        values.push(value);
        end = found.byte_offset();
    }
    let rest = String::from_utf8_lossy(text.get(end..).unwrap_or_default()).trim().to_owned();
    (values, rest)
}

fn is_too_deep(error: &serde_json::Error) -> bool {
    error.to_string().contains("recursion limit")
}

fn mistake(text: &str, error: &serde_json::Error) -> String {
    if is_too_deep(error) {
        return format!("it is {}", deep::TOO_DEEP);
    }
    let reason = error.to_string();
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

#[cfg(test)]
mod tests {
    use super::{Documents, documents, parse};
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
        for utf16 in [&b"\xff\xfe{\0"[..], b"\xfe\xff\0{", b"{\0}\0", b"\0{\0}"] {
            assert_eq!(parse(utf16), Err("it is text in UTF-16, and messages are sent in UTF-8".to_owned()));
        }
        assert_eq!(parse(b"[1e999]"), Err("it has a number that is too large".to_owned()));
    }

    #[test]
    fn documents_are_found_one_after_another_and_those_of_the_protocol_among_other_words() {
        let message = json!({"jsonrpc": "2.0", "id": 1});
        let among = Some(Documents { values: vec![message.clone()], alone: false });
        for text in [
            r#"progress 10%...{"jsonrpc":"2.0","id":1}"#,
            "10%\r20%\r{\"jsonrpc\":\"2.0\",\"id\":1}\r",
            "\u{1b}[2K\r{\"id\":1,\"jsonrpc\":\"2.0\"}",
            r#"[DEBUG] {x} {"level":"info"} -> {"jsonrpc":"2.0","id":1}"#,
            r#"{"jsonrpc":"2.0","id":1} <-- sent"#,
        ] {
            assert_eq!(documents(text.as_bytes()), among, "{text}");
        }
        let both = Some(Documents { values: vec![json!({"a": 1}), message], alone: true });
        assert_eq!(documents(br#"{"a":1}{"jsonrpc":"2.0","id":1}"#), both);
        assert_eq!(documents(b"{\"a\":1}\n{\"jsonrpc\":\"2.0\",\"id\":1}\n"), both);
        for text in [r#"sent {"id":1}"#, "{\"jsonrpc\":", "10% {", "", r#"x {"sent":"{\"jsonrpc\":1}"}"#] {
            assert_eq!(documents(text.as_bytes()), None, "{text}");
        }
    }
}
