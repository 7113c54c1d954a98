//! JSON Schemas that plugins bring for their arguments and results: untrusted, and therefore weighed before they are used.

mod effort;

use effort::Effort;
use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;
use std::sync::Arc;

/// Longest schema text.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Steps that one check may take at most.
const MAX_STEPS: u64 = 50_000_000;

/// Steps that a check may take on the runtime's own threads: well below a millisecond.
const QUICK_STEPS: u64 = 50_000;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    effort: Effort,
}

impl Schema {
    /// Compiles a schema of draft 2020-12; the value is the schema as JSON.
    pub(crate) fn compile(text: &str) -> Result<(Value, Arc<Self>), String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has {} bytes, more than {MAX_SCHEMA_BYTES}", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("the schema is not JSON: {error}"))?;
        let effort = Effort::of(&value).map_err(|error| format!("the schema cannot be used: {error}"))?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(false)
            // Linear in the length of the text, whatever the pattern.
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
            .build(&value)
            .map_err(|error| format!("not a JSON Schema: {}", crate::text::printable(&error.to_string(), 500)))?;
        Ok((value, Arc::new(Self { validator, effort })))
    }

    /// Parses a text and checks that the value fits; the message names the first misfit with its place.
    pub(crate) async fn parse(self: &Arc<Self>, text: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        // A value has no more parts than its text has bytes.
        if self.effort.worst().saturating_mul(text.len() as u64) <= QUICK_STEPS {
            self.check(&value)?;
            return Ok(value);
        }
        let schema = Arc::clone(self);
        let checked = tokio::task::spawn_blocking(move || {
            let (parts, depth) = measure(&value, 0);
            if schema.effort.at(depth).saturating_mul(parts) > MAX_STEPS {
                return Err(format!(
                    "it is too large for its schema: {parts} parts, nested {depth} deep, would take too long to check"
                ));
            }
            schema.check(&value).map(|()| value)
        });
        checked.await.map_err(|_| "it cannot be checked".to_owned())?
    }

    fn check(&self, value: &Value) -> Result<(), String> {
        self.validator.validate(value).map_err(|error| {
            let path = error.instance_path().to_string();
            let place = if path.is_empty() { "the value itself".to_owned() } else { format!("`{path}`") };
            crate::text::printable(&format!("at {place}: {error}"), 500)
        })
    }
}

/// How many parts a value has, and how deep it is nested. The parser allows 128 levels, so this recursion ends.
fn measure(value: &Value, depth: usize) -> (u64, usize) {
    let fold = |(parts, deepest): (u64, usize), inner: &Value| {
        let (more, deeper) = measure(inner, depth + 1);
        (parts + more, deepest.max(deeper))
    };
    match value {
        Value::Array(list) => list.iter().fold((1, depth), fold),
        Value::Object(map) => map.values().fold((1, depth), fold),
        _ => (1, depth),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::time::{Duration, Instant};

    #[tokio::test]
    async fn a_misfit_is_named_with_its_place() {
        let (_, schema) =
            Schema::compile(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#).unwrap();
        assert_eq!(schema.parse(r#"{"n": 1}"#).await, Ok(json!({"n": 1})));
        let error = schema.parse(r#"{"n": "one"}"#).await.unwrap_err();
        assert!(error.starts_with("at `/n`:"), "{error}");
        let error = schema.parse("{}").await.unwrap_err();
        assert!(error.starts_with("at the value itself:") && error.contains('n'), "{error}");
        assert!(schema.parse("{").await.unwrap_err().starts_with("it is not JSON"));
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in [
            "",
            "nonsense",
            "5",
            r#"{"type": 5}"#,
            r#"{"$ref": "https://example.com/schema.json"}"#,
            r#"{"pattern": "("}"#,
        ] {
            assert!(Schema::compile(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_schema_that_would_recurse_for_ever_is_refused() {
        assert!(Schema::compile(r##"{"$ref": "#"}"##).unwrap_err().contains("refers to itself"));
    }

    #[tokio::test]
    async fn a_check_that_would_take_for_ever_is_refused_and_a_shallow_value_still_passes() {
        let (_, schema) =
            Schema::compile(r##"{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"additionalProperties":{"$ref":"#"}}]}"##)
                .unwrap();
        assert!(schema.parse(r#"{"a":{"a":1}}"#).await.is_ok());
        let started = Instant::now();
        let deep = format!("{}1{}", r#"{"a":"#.repeat(100), "}".repeat(100));
        let error = schema.parse(&deep).await.unwrap_err();
        assert!(error.contains("nested 100 deep"), "{error}");
        assert!(started.elapsed() < Duration::from_secs(2));
    }

    #[tokio::test]
    async fn a_pattern_cannot_backtrack() {
        let (_, schema) = Schema::compile(r#"{"pattern": "^(a+)+$"}"#).unwrap();
        let started = Instant::now();
        assert!(schema.parse(&format!("\"{}!\"", "a".repeat(5_000))).await.is_err());
        assert!(started.elapsed() < Duration::from_secs(2));
    }
}
