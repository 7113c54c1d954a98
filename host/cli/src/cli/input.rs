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
        several => pairs(several, |_, text| read(text)),
    }
}

/// Arguments of an operation: a JSON object, `@FILE`, `-`, or `key=value` (repeatable). A value is what the operation's
/// schema says: where it takes text and no number, `1.0` is a text.
pub fn arguments(parts: &[String], schema: &serde_json::Value) -> Result<Value, Rejected> {
    match parts {
        [] => Ok(Value::object::<&str>([])),
        [one] if pair(one).is_none() || looks_like_json(one) => {
            let text = text_of(one)?;
            let invalid = |message: String| wrong("invalid-arguments", message);
            if text == *one && !looks_like_json(one) && Value::from_json(one).is_err() {
                let message = format!("`{one}` is neither a JSON object nor `key=value`");
                let help =
                    format!("write `--args {one}=VALUE` for an argument, or `--args @FILE` for a file with JSON");
                return Err(Rejected::plain(Diagnostic::error("invalid-arguments", message).help(help)));
            }
            let value =
                Value::from_json(&text).map_err(|error| invalid(format!("the arguments are not JSON: {error}")))?;
            if value.as_object().is_some() {
                Ok(value)
            } else {
                Err(invalid("the arguments are not a JSON object".to_owned()))
            }
        }
        several => pairs(several, |key, text| by_schema(schema, key, text)),
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

/// A value of `key=value`: JSON if it is JSON, else text.
fn read(text: &str) -> Value {
    Value::from_json(text).unwrap_or_else(|_| Value::from(text))
}

fn pair(part: &str) -> Option<(&str, &str)> {
    written_pair(part)
}

/// A value of an argument. A text that is JSON stays a text where the schema takes texts, and not what the JSON is.
fn by_schema(schema: &serde_json::Value, key: &str, text: &str) -> Value {
    let value = read(text);
    let Some(property) = schema.get("properties").and_then(|properties| properties.get(key)) else { return value };
    let mut types = Vec::new();
    let mut pending = vec![property];
    while let Some(part) = pending.pop() {
        match part.get("type") {
            Some(serde_json::Value::String(name)) => types.push(name.as_str()),
            Some(serde_json::Value::Array(names)) => types.extend(names.iter().filter_map(serde_json::Value::as_str)),
            _ => {}
        }
        if let Some(values) = part.get("enum").and_then(serde_json::Value::as_array) {
            types.extend(values.iter().map(|value| match value {
                serde_json::Value::String(_) => "string",
                serde_json::Value::Number(_) => "number",
                serde_json::Value::Bool(_) => "boolean",
                serde_json::Value::Null => "null",
                serde_json::Value::Array(_) => "array",
                serde_json::Value::Object(_) => "object",
            }));
        }
        for key in ["anyOf", "oneOf"] {
            pending.extend(part.get(key).and_then(serde_json::Value::as_array).into_iter().flatten());
        }
    }
    let fits = |name: &&str| match &value {
        Value::Number(_) => ["number", "integer"].contains(name),
        Value::Bool(_) => *name == "boolean",
        value if value.as_array().is_some() => *name == "array",
        value if value.as_object().is_some() => *name == "object",
        value if value.is_nullish() => *name == "null",
        _ => true,
    };
    if types.contains(&"string") && !types.iter().any(fits) { Value::from(text) } else { value }
}

fn pairs(parts: &[String], value: impl Fn(&str, &str) -> Value) -> Result<Value, Rejected> {
    let mut entries = Vec::new();
    for part in parts {
        let (key, text) = pair(part).ok_or_else(|| {
            wrong(
                "invalid-input",
                format!("`{part}` is not `key=value`; an input of several parts must consist of such pairs"),
            )
        })?;
        if entries.iter().any(|(earlier, _)| *earlier == key) {
            return Err(wrong("invalid-input", format!("`{key}` is given twice")));
        }
        entries.push((key, value(key, text)));
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
        let any = serde_json::json!({});
        assert!(arguments(&["[1]".to_owned()], &any).is_err());
        let error = arguments(&["path".to_owned()], &any).unwrap_err().to_string();
        assert!(error.contains("neither a JSON object nor `key=value`"), "{error}");
        assert_eq!(arguments(&["a=1".to_owned()], &any).unwrap().to_json(), r#"{"a":1}"#);
    }

    #[test]
    fn a_value_is_what_the_schema_says() {
        let schema = serde_json::json!({"properties": {
            "version": {"type": "string"}, "n": {"type": "integer"}, "both": {"type": ["string", "number"]},
            "some": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "one": {"enum": ["1", "2"]},
        }});
        let given = ["version=1.0", "n=2", "both=3", "some=true", "one=1", "other=4"].map(str::to_owned);
        let expected = r#"{"version":"1.0","n":2,"both":3,"some":"true","one":"1","other":4}"#;
        assert_eq!(arguments(&given, &schema).unwrap().to_json(), expected);
        assert_eq!(arguments(&["some=null".to_owned()], &schema).unwrap().to_json(), r#"{"some":null}"#);
    }
}
