//! JSON of a provider, within a bound for the values that it unpacks to.

use opcell_schema::json::{MAX_VALUES, values_in};
use opcell_types::value::with_exact_integers;
use serde_json::Value as Json;
use std::borrow::Cow;

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
    parse(repaired(&String::from_utf8_lossy(&exact)).as_bytes()).map_err(|second| match second.is_eof() {
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

/// The text with escapes of single surrogates replaced, and with `NaN` and `Infinity` outside of texts.
fn repaired(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut in_text) = (text, false);
    while let Some(next) = rest.chars().next() {
        let mut words = ["NaN", "-NaN", "Infinity", "-Infinity"].into_iter();
        let no_number = words.find(|word| !in_text && rest.starts_with(word));
        let (kept, length) = match (no_number, next) {
            (Some(word), _) => (Some("null"), word.len()),
            (None, '\\') if in_text => match (unit(rest), rest.get(ESCAPE..).and_then(unit)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (rest.get(..2 * ESCAPE), 2 * ESCAPE),
                (Some(0xd800..=0xdfff), _) => (Some("\\ufffd"), ESCAPE),
                // The next character as well: it may be another backslash.
                _ => {
                    let length = 1 + rest.chars().nth(1).map_or(0, char::len_utf8);
                    (rest.get(..length), length)
                }
            },
            (None, next) => {
                in_text ^= next == '"';
                (rest.get(..next.len_utf8()), next.len_utf8())
            }
        };
        out.push_str(kept.unwrap_or_default());
        rest = rest.get(length..).unwrap_or_default();
    }
    out
}

/// Half of a surrogate pair at the end of a text of a stream, whose other half begins a text of a later event.
#[derive(Debug, Default)]
pub(super) struct Half(Option<String>);

impl Half {
    /// The event, without a first half that ends one of its texts, and with the half that was kept before a second one.
    pub(super) fn join<'a>(&mut self, event: &'a [u8]) -> Cow<'a, [u8]> {
        let has_half = |bytes: &[u8]| bytes.windows(3).any(|bytes| matches!(bytes, [b'\\', b'u', b'd' | b'D']));
        let Some(text) = Some(event).filter(|event| has_half(event)).and_then(|event| std::str::from_utf8(event).ok())
        else {
            return Cow::Borrowed(event);
        };
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut begins_text) = (text, false);
        while let Some(next) = rest.chars().next() {
            let after = rest.get(ESCAPE..).unwrap_or_default();
            let length = match (next, unit(rest)) {
                ('\\', Some(0xd800..=0xdbff)) if after.starts_with('"') => {
                    self.0 = rest.get(..ESCAPE).map(str::to_owned);
                    rest = after;
                    begins_text = false;
                    continue;
                }
                ('\\', Some(0xd800..=0xdbff)) if unit(after).is_some() => 2 * ESCAPE,
                ('\\', Some(low)) => {
                    if begins_text && (0xdc00..=0xdfff).contains(&low) {
                        out.push_str(&self.0.take().unwrap_or_default());
                    }
                    ESCAPE
                }
                ('\\', None) => 1 + rest.chars().nth(1).map_or(0, char::len_utf8),
                _ => next.len_utf8(),
            };
            begins_text = next == '"';
            out.push_str(rest.get(..length).unwrap_or(rest));
            rest = rest.get(length..).unwrap_or_default();
        }
        Cow::Owned(out.into_bytes())
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
        let mut half = Half::default();
        let events = [
            r#"{"a":"x\ud83d"}"#,
            r#"{"ping":"\\ud83d"}"#,
            r#"{"a":"\ude00y","b":"\ud83d\ude00"}"#,
            r#"{"a":"\ude00"}"#,
        ];
        let joined: Vec<Json> = events.iter().map(|event| parse(&half.join(event.as_bytes())).unwrap()).collect();
        let expected =
            [json!({"a": "x"}), json!({"ping": "\\ud83d"}), json!({"a": "😀y", "b": "😀"}), json!({"a": "\u{fffd}"})];
        assert_eq!(joined, expected);
    }
}
