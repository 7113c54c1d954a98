//! JSON Schemas that plugins bring for their arguments and results.

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// Longest schema text.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Errors that one message lists.
const LISTED_ERRORS: usize = 3;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
}

impl Schema {
    /// Compiles a schema of draft 2020-12; the value is the schema as JSON.
    pub(crate) fn compile(text: &str) -> Result<(Value, Self), String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has {} bytes, more than {MAX_SCHEMA_BYTES}", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("the schema is not JSON: {error}"))?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(false)
            // Linear in the length of the text, whatever the pattern.
            .with_pattern_options(PatternOptions::regex().size_limit(1 << 20).dfa_size_limit(1 << 20))
            .build(&value)
            .map_err(|error| format!("not a JSON Schema: {}", crate::text::printable(&error.to_string(), 500)))?;
        Ok((value, Self { validator }))
    }

    /// Whether a value fits; the message lists the first errors with their places.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        if self.validator.is_valid(value) {
            return Ok(());
        }
        let mut errors = self.validator.iter_errors(value);
        let mut listed: Vec<String> = errors
            .by_ref()
            .take(LISTED_ERRORS)
            .map(|error| {
                let path = error.instance_path().to_string();
                let place = if path.is_empty() { "the value itself".to_owned() } else { format!("`{path}`") };
                crate::text::printable(&format!("at {place}: {error}"), 500)
            })
            .collect();
        if errors.next().is_some() {
            listed.push("and more".to_owned());
        }
        Err(listed.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_misfit_is_named_with_its_place() {
        let (_, schema) =
            Schema::compile(r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#).unwrap();
        assert!(schema.check(&json!({"n": 1})).is_ok());
        let error = schema.check(&json!({"n": "one"})).unwrap_err();
        assert!(error.starts_with("at `/n`:"), "{error}");
        let error = schema.check(&json!({})).unwrap_err();
        assert!(error.starts_with("at the value itself:") && error.contains('n'), "{error}");
    }

    #[test]
    fn what_is_no_schema_is_refused() {
        for text in
            ["", "nonsense", r#"{"type": 5}"#, r#"{"$ref": "https://example.com/schema.json"}"#, r#"{"pattern": "("}"#]
        {
            assert!(Schema::compile(text).is_err(), "{text}");
        }
    }
}
