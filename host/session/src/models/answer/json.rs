//! JSON of a provider, within a bound for the values that it unpacks to.

use opcell_schema::json::{MAX_VALUES, repaired, values_in};
use opcell_types::value::with_exact_integers;
use serde_json::Value as Json;

/// Bytes that are not a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) enum NotJson {
    /// They end within the document.
    Cut,
    /// They are something else.
    Broken(String),
}

/// Reads one document. An integer that would be rounded is a text of its digits, which a tool's schema may refuse and
/// the model is told of. Of what is not JSON as servers write it, a byte that is no UTF-8 and half of a surrogate pair
/// are U+FFFD, for a person to see, and a number that JSON does not have is null.
pub(in super::super) fn parse(bytes: &[u8]) -> Result<Json, NotJson> {
    read(bytes, |exact| serde_json::from_slice(exact))
}

/// Reads one document that is JSON as it stands, such as the arguments that a model wrote: it is told of a mistake, and
/// no value is made up for it.
pub(super) fn parse_strictly(bytes: &[u8]) -> Option<Json> {
    check(bytes).ok()?;
    serde_json::from_slice(&with_exact_integers(bytes)).ok()
}

/// Reads documents that follow each other, as lines of JSON do.
pub(super) fn parse_all(bytes: &[u8]) -> Result<Vec<Json>, NotJson> {
    read(bytes, |exact| serde_json::Deserializer::from_slice(exact).into_iter().collect())
}

fn read<T>(bytes: &[u8], parse: impl Fn(&[u8]) -> Result<T, serde_json::Error>) -> Result<T, NotJson> {
    check(bytes)?;
    let exact = with_exact_integers(bytes);
    let first = match parse(&exact) {
        Ok(document) => return Ok(document),
        Err(error) if error.is_eof() => return Err(NotJson::Cut),
        Err(error) => error,
    };
    parse(without_infinities(&repaired(&exact)).as_bytes()).map_err(|second| match second.is_eof() {
        true => NotJson::Cut,
        false => NotJson::Broken(first.to_string()),
    })
}

/// The length of an escape in bytes, `\u` with its digits.
const ESCAPE: usize = 6;

/// The unit of UTF-16 that a text begins with as an escape.
fn unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    u16::from_str_radix(digits, 16).ok()
}

/// The text with `null` in place of `NaN` and `Infinity` outside of strings.
fn without_infinities(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_text) = (text, false);
    while let Some(next) = rest.chars().next() {
        let mut words = ["NaN", "-NaN", "Infinity", "-Infinity"].into_iter();
        let word = words.find(|word| !in_text && rest.starts_with(word));
        let length = match (word, next) {
            (Some(word), _) => word.len(),
            // The next character as well: it may be a quotation mark.
            (None, '\\') if in_text => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
            (None, next) => {
                in_text ^= next == '"';
                next.len_utf8()
            }
        };
        let (kept, after) = rest.split_at(length);
        out.push_str(if word.is_some() { "null" } else { kept });
        rest = after;
    }
    out
}

/// The places of halves of surrogate pairs at the ends of texts.
#[derive(Debug, Default)]
struct Halves {
    /// The last first half that ends a text.
    ends: Option<usize>,
    /// The first second half that begins a text.
    begins: Option<usize>,
}

impl Halves {
    fn of(event: &[u8]) -> Self {
        let mut halves = Self::default();
        let has_any = event.windows(3).any(|bytes| matches!(bytes, [b'\\', b'u', b'd' | b'D']));
        let Some(text) = Some(event).filter(|_| has_any).and_then(|event| std::str::from_utf8(event).ok()) else {
            return halves;
        };
        let (mut at, mut begins_text) = (0, false);
        while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
            let next = rest.chars().next().unwrap_or_default();
            let after = rest.get(ESCAPE..).unwrap_or_default();
            let length = match (next, unit(rest)) {
                ('\\', Some(0xd800..=0xdbff)) if unit(after).is_some() => 2 * ESCAPE,
                ('\\', Some(found)) => {
                    if (0xd800..=0xdbff).contains(&found) && after.starts_with('"') {
                        halves.ends = Some(at);
                    }
                    if (0xdc00..=0xdfff).contains(&found) && begins_text {
                        halves.begins = halves.begins.or(Some(at));
                    }
                    ESCAPE
                }
                // The next character as well: it may be another backslash.
                ('\\', None) => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
                _ => next.len_utf8(),
            };
            begins_text = next == '"';
            at += length;
        }
        halves
    }
}

/// Returns `true` if a text of an event ends with half of a character, whose other half the next event may have.
pub(super) fn ends_in_half(event: &[u8]) -> bool {
    Halves::of(event).ends.is_some()
}

/// Moves the half of a character at the end of a text of an event to the other half in the next one, if it is there.
pub(super) fn join(event: &mut Vec<u8>, next: &mut Vec<u8>) {
    if let (Some(from), Some(to)) = (Halves::of(event).ends, Halves::of(next).begins) {
        let half: Vec<u8> = event.drain(from..from + ESCAPE).collect();
        next.splice(to..to, half);
    }
}

fn check(bytes: &[u8]) -> Result<(), NotJson> {
    match values_in(bytes) > MAX_VALUES {
        true => Err(NotJson::Broken(format!("it has more than {MAX_VALUES} values"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use serde_json::json;

    #[test]
    fn what_servers_write_in_place_of_json_is_read_and_a_cut_is_told_from_a_mistake() {
        assert_eq!(parse(br#"["\ud83d\ude00 \ud83d \\ud83d \udc00x"]"#), Ok(json!(["😀 \u{fffd} \\ud83d \u{fffd}x"])));
        assert_eq!(parse(b"[\"caf\xe9\"]"), Ok(json!(["caf\u{fffd}"])));
        assert_eq!(
            parse(br#"{"NaN": [NaN, -Infinity, Infinity, "NaN\" NaN"]}"#),
            Ok(json!({"NaN": [null, null, null, "NaN\" NaN"]}))
        );
        assert_eq!(parse_all(br#"{"a": NaN} ["\ud83d"]"#), Ok(vec![json!({"a": null}), json!(["\u{fffd}"])]));
        for cut in [&b"{\"a\": \"\\ud83d\", \"b"[..], b"{\"a\": NaN, ", b"{\"a\": \"\xe9"] {
            assert_eq!(parse(cut), Err(NotJson::Cut), "{}", String::from_utf8_lossy(cut));
        }
        assert!(matches!(parse(b"{'a': 1}"), Err(NotJson::Broken(_))));
    }

    #[test]
    fn a_character_in_two_events_is_put_together() {
        for (event, next, expected) in [
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"\ude00y"}"#, [json!({"a": "x"}), json!({"a": "😀y"})]),
            (
                r#"{"a":"\ud83d","b":"\\ud83d"}"#,
                r#"{"b":"","a":"\uDE00"}"#,
                [json!({"a": "", "b": "\\ud83d"}), json!({"b": "", "a": "😀"})],
            ),
            (r#"{"a":"x\ud83d"}"#, r#"{"a":"y\ude00"}"#, [json!({"a": "x\u{fffd}"}), json!({"a": "y\u{fffd}"})]),
            (r#"{"a":"\ud83d\ude00"}"#, r#"{"a":"\ude00"}"#, [json!({"a": "😀"}), json!({"a": "\u{fffd}"})]),
        ] {
            let (mut event, mut next) = (event.as_bytes().to_vec(), next.as_bytes().to_vec());
            join(&mut event, &mut next);
            assert_eq!([&event, &next].map(|event| parse(event).unwrap()), expected);
            assert!(!ends_in_half(&next));
        }
    }
}
