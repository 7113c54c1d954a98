//! Text that others write for models, before a model sees it: without hidden characters, and short. There is one such
//! cleaner, for schemas and descriptions of plugins, of MCP servers, and of what MCP clients of this host are told.

use serde_json::Value;

/// Bytes of a summary, and of one text in a schema.
const TEXT: usize = 1_000;

/// Bytes of one operation's schema in a prompt.
const SCHEMA: usize = 32 << 10;

/// Keys whose texts only explain; they go first when a schema is too long.
const ANNOTATIONS: [&str; 5] = ["title", "description", "$comment", "examples", "default"];

/// A summary.
#[must_use]
pub fn text(text: &str) -> String {
    opcell_types::text::printable(text, TEXT)
}

/// A schema for showing. What the host checks arguments against is the schema as it was written.
#[must_use]
pub fn schema(schema: &Value) -> Value {
    let mut shown = schema.clone();
    clean(&mut shown);
    if shown.to_string().len() > SCHEMA {
        strip(&mut shown);
    }
    if shown.to_string().len() > SCHEMA {
        return serde_json::json!({"type": "object", "description": "the schema is too long to be shown"});
    }
    shown
}

/// Goes no deeper than JSON is parsed, 128 levels.
fn clean(value: &mut Value) {
    match value {
        Value::String(inner) => *inner = text(inner),
        Value::Array(items) => items.iter_mut().for_each(clean),
        Value::Object(entries) => {
            let old = std::mem::take(entries);
            entries.extend(old.into_iter().map(|(key, mut value)| {
                clean(&mut value);
                (text(&key), value)
            }));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(strip),
        Value::Object(entries) => {
            // A property may have the name of an annotation; its value is a schema then, and no text.
            entries.retain(|key, value| !ANNOTATIONS.contains(&key.as_str()) || value.is_object());
            entries.values_mut().for_each(strip);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn hidden_text_in_a_schema_reaches_no_model() {
        let hidden = "note\u{e0049}\u{e0067}\u{202e}";
        let shown = schema(&json!({
            "type": "object", "description": hidden,
            "properties": {hidden: {"enum": [hidden], "title": "x".repeat(5_000)}},
        }))
        .to_string();
        assert!(!shown.contains(['\u{e0049}', '\u{202e}']), "{shown}");
        assert!(shown.len() < 2_000, "{}", shown.len());
    }

    #[test]
    fn a_schema_that_is_too_long_loses_its_explanations_and_then_itself() {
        let property = json!({"type": "string", "description": "y".repeat(900)});
        let many = |count: usize| {
            let properties: serde_json::Map<String, Value> =
                (0..count).map(|number| (format!("p{number}"), property.clone())).collect();
            schema(&json!({"type": "object", "properties": properties}))
        };
        assert_eq!(many(100)["properties"]["p7"], json!({"type": "string"}));
        assert_eq!(many(5_000).get("properties"), None);
        assert_eq!(many(3)["properties"]["p1"], property);
    }
}
