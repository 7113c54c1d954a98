//! Values on the command line.

use opcell::report::Rejected;
use opcell_ir::Diagnostic;
use opcell_types::Value;
use std::{io::Read, path::Path};

/// Maximum bytes read from `@FILE` and `-`.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Input of a run: JSON, `@FILE`, `-` for standard input, one or more `key=value`, or plain text. Text becomes
/// `{"input": text, "original": text}`, as psi's own `/delegate` hands it over.
pub fn run_input(parts: &[String]) -> Result<Value, Rejected> {
    match parts {
        [] => Ok(Value::object::<&str>([])),
        [one] if pair(one).is_none() || looks_like_json(one) => {
            let text = text_of(one)?;
            Ok(match Value::from_json(&text) {
                Ok(value) if value.as_str().is_none() => value,
                // Broken JSON must not silently become a text.
                Err(error) if looks_like_json(&text) => {
                    return Err(wrong(
                        "invalid-input",
                        format!("the input looks like JSON but cannot be read: {error}"),
                    ));
                }
                Ok(text) => as_request(text),
                Err(_) => as_request(Value::from(text)),
            })
        }
        several => pairs(several),
    }
}

/// Arguments of an operation: a JSON object, `@FILE`, `-`, or `key=value` (repeatable).
pub fn arguments(parts: &[String]) -> Result<Value, Rejected> {
    match parts {
        [] => Ok(Value::object::<&str>([])),
        [one] if pair(one).is_none() || looks_like_json(one) => {
            let text = text_of(one)?;
            let invalid = |message: String| wrong("invalid-arguments", message);
            let value =
                Value::from_json(&text).map_err(|error| invalid(format!("the arguments are not JSON: {error}")))?;
            if value.as_object().is_some() {
                Ok(value)
            } else {
                Err(invalid("the arguments are not a JSON object".to_owned()))
            }
        }
        several => pairs(several),
    }
}

/// One value: JSON, `@FILE`, `-`, or text.
pub fn value(part: &str) -> Result<Value, Rejected> {
    let text = text_of(part)?;
    match Value::from_json(&text) {
        Ok(value) => Ok(value),
        // Broken JSON must not silently become a text.
        Err(error) if looks_like_json(&text) => {
            Err(wrong("invalid-data", format!("`{part}` looks like JSON but cannot be read: {error}")))
        }
        Err(_) => Ok(Value::from(text)),
    }
}

fn wrong(code: &'static str, message: String) -> Rejected {
    Rejected::plain(Diagnostic::error(code, message))
}

fn as_request(text: Value) -> Value {
    Value::object([("input", text.clone()), ("original", text)])
}

fn looks_like_json(text: &str) -> bool {
    text.trim_start().starts_with(['{', '['])
}

fn text_of(part: &str) -> Result<String, Rejected> {
    let read = |name: &str, from: &mut dyn Read, size: u64| {
        let failed = |what: String| wrong("input-unreadable", format!("{name}: {what}"));
        // One more, in which a reader finds the end.
        let mut bytes = Vec::with_capacity(usize::try_from(size.min(MAX_INPUT_BYTES)).unwrap_or(0) + 1);
        from.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(|error| failed(error.to_string()))?;
        if bytes.len() as u64 > MAX_INPUT_BYTES {
            return Err(failed(format!("has more than {MAX_INPUT_BYTES} bytes")));
        }
        String::from_utf8(bytes).map_err(|error| failed(format!("is not UTF-8: {}", error.utf8_error())))
    };
    match part.strip_prefix('@') {
        Some(path) => {
            let opened = std::fs::File::open(Path::new(path));
            let mut file = opened.map_err(|error| wrong("input-unreadable", format!("{path}: {error}")))?;
            let size = file.metadata().map_or(0, |data| data.len());
            read(path, &mut file, size)
        }
        None if part == "-" => read("standard input", &mut std::io::stdin().lock(), 0),
        None => Ok(part.to_owned()),
    }
}

/// `key=value`, as it is written.
pub fn written_pair(part: &str) -> Option<(&str, &str)> {
    let (key, value) = part.split_once('=')?;
    let named = key.chars().next().is_some_and(|c| c.is_alphabetic() || c == '_')
        && key.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
    named.then_some((key, value))
}

/// `key=value`; the value is parsed as JSON if it is JSON, else taken as text.
fn pair(part: &str) -> Option<(&str, Value)> {
    let (key, value) = written_pair(part)?;
    Some((key, Value::from_json(value).unwrap_or_else(|_| Value::from(value))))
}

fn pairs(parts: &[String]) -> Result<Value, Rejected> {
    let mut entries = Vec::new();
    for part in parts {
        let (key, value) = pair(part).ok_or_else(|| {
            wrong(
                "invalid-input",
                format!("`{part}` is not `key=value`; an input of several parts must consist of such pairs"),
            )
        })?;
        if entries.iter().any(|(earlier, _)| *earlier == key) {
            return Err(wrong("invalid-input", format!("`{key}` is given twice")));
        }
        entries.push((key, value));
    }
    Ok(Value::object(entries))
}

#[cfg(test)]
mod tests {
    use super::{arguments, run_input};

    fn json(parts: &[&str]) -> String {
        run_input(&parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>()).unwrap().to_json()
    }

    #[test]
    fn json_text_and_pairs_are_told_apart() {
        assert_eq!(json(&[]), "{}");
        assert_eq!(json(&[r#"{"a":"x=y"}"#]), r#"{"a":"x=y"}"#);
        assert_eq!(json(&["fix the bug"]), r#"{"input":"fix the bug","original":"fix the bug"}"#);
        assert_eq!(json(&["1 + 1 = 2"]), r#"{"input":"1 + 1 = 2","original":"1 + 1 = 2"}"#);
        assert_eq!(json(&["n=3", "name=a b", "list=[1]"]), r#"{"n":3,"name":"a b","list":[1]}"#);
        assert_eq!(json(&["42"]), "42");
    }

    #[test]
    fn what_begins_like_json_and_is_none_is_an_error() {
        assert!(run_input(&["{\"a\":".to_owned()]).unwrap_err().to_string().contains("cannot be read"));
        assert!(run_input(&["a=1".to_owned(), "b".to_owned()]).is_err());
        assert!(run_input(&["a=1".to_owned(), "a=2".to_owned()]).is_err());
        assert!(run_input(&["@no/such/file".to_owned()]).is_err());
    }

    #[test]
    fn arguments_are_an_object() {
        assert!(arguments(&["[1]".to_owned()]).is_err());
        assert!(arguments(&["text".to_owned()]).is_err());
        assert_eq!(arguments(&["a=1".to_owned()]).unwrap().to_json(), r#"{"a":1}"#);
    }
}
