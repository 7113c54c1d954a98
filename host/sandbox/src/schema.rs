//! JSON Schemas that plugins bring for their arguments and results: untrusted, and therefore weighed before they are used.

mod effort;
mod patterns;

use effort::Effort;
use jsonschema::{Draft, PatternOptions, Validator};
use patterns::{MAX_PATTERN_BYTES, Patterns};
use serde_json::Value;
use std::sync::Arc;

/// Longest schema text.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Steps that one check may take at most.
const MAX_STEPS: u64 = 50_000_000;

/// Bytes of text that count as one part of a value: looking through them is about as much work as looking at one.
const PART_BYTES: usize = 8;

/// Steps that a check may take on the runtime's own threads: well below a millisecond.
const QUICK_STEPS: u64 = 50_000;

/// A compiled schema.
#[derive(Debug)]
pub(crate) struct Schema {
    validator: Validator,
    effort: Effort,
    /// States of its patterns, which count against a limit over all schemas of a plugin.
    states: u64,
}

impl Schema {
    /// Compiles a schema of draft 2020-12; the value is the schema as JSON.
    pub(crate) fn compile(text: &str) -> Result<(Value, Arc<Self>), String> {
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has {} bytes, more than {MAX_SCHEMA_BYTES}", text.len()));
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("the schema is not JSON: {error}"))?;
        let unusable = |error| format!("the schema cannot be used: {error}");
        let (patterns, states) = Patterns::of(&value).map_err(unusable)?;
        let effort = Effort::of(&value, &patterns).map_err(unusable)?;
        let validator = jsonschema::options()
            .with_draft(Draft::Draft202012)
            .should_validate_formats(false)
            // Linear in the length of the text, whatever the pattern.
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(1 << 20))
            .build(&value)
            .map_err(|error| format!("not a JSON Schema: {}", crate::text::printable(&error.to_string(), 500)))?;
        Ok((value, Arc::new(Self { validator, effort, states })))
    }

    /// Whether the patterns of these schemas may be kept together.
    pub(crate) fn check_patterns<'a>(schemas: impl Iterator<Item = &'a Self>) -> Result<(), String> {
        patterns::check_total(schemas.map(|schema| schema.states).sum())
    }

    /// Parses a text and checks that the value fits; the message names the first misfit with its place.
    pub(crate) async fn parse(self: &Arc<Self>, text: &str) -> Result<Value, String> {
        let value: Value = serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))?;
        // Of two bytes, one is a comma, a colon, a bracket or a quote, except in long texts, where a part has more of them.
        if self.effort.worst().saturating_mul(text.len() as u64 / 2 + 1) <= QUICK_STEPS {
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

/// How many parts a value has, long texts counting as several, and how deep it is nested. The parser allows 128 levels, so this recursion ends.
fn measure(value: &Value, depth: usize) -> (u64, usize) {
    let fold = |(parts, deepest): (u64, usize), inner: &Value| {
        let (more, deeper) = measure(inner, depth + 1);
        (parts + more, deepest.max(deeper))
    };
    match value {
        Value::Array(list) => list.iter().fold((1, depth), fold),
        Value::Object(map) => {
            let names: u64 = map.keys().map(|name| length(name)).sum();
            map.values().fold((1 + names, depth), fold)
        }
        Value::String(text) => (1 + length(text), depth),
        _ => (1, depth),
    }
}

/// The parts that a text counts as beside the value that it belongs to.
fn length(text: &str) -> u64 {
    (text.len() / PART_BYTES) as u64
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
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }

    #[test]
    fn automata_are_counted_over_the_whole_schema_used_or_not() {
        let many = |keyword: &dyn Fn(usize) -> String| {
            let schemas: Vec<String> = (0..5_000).map(keyword).collect();
            format!(r#"{{"$defs":{{"unused":{{"anyOf":[{}]}}}}}}"#, schemas.join(","))
        };
        let started = Instant::now();
        for text in [
            many(&|at| format!(r#"{{"pattern":"[0-9a-f]{{30}}x{at}"}}"#)),
            many(&|at| format!(r#"{{"patternProperties":{{"^x{at}":true}}}}"#)),
            many(&|_| r#"{"pattern":"^same$"}"#.to_owned()),
        ] {
            let error = Schema::compile(&text).unwrap_err();
            assert!(error.contains("its patterns need more than"), "{error}");
        }
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
        let few = r#"{"properties":{"id":{"pattern":"^[a-z0-9-]{1,63}$"},"day":{"pattern":"^\\d{4}-\\d{2}-\\d{2}$"}}}"#;
        assert!(Schema::compile(few).is_ok());
    }

    #[tokio::test]
    async fn a_text_that_would_take_for_ever_to_match_is_refused_and_a_short_one_still_passes() {
        // Its automaton cannot be made deterministic, so that thousands of states are looked at for every byte.
        let (_, heavy) = Schema::compile(r#"{"pattern": "^[01]*1[01]{3000}[^a]*[01]$"}"#).unwrap();
        let started = Instant::now();
        let error = heavy.parse(&format!("\"{}\"", "01".repeat(1 << 20))).await.unwrap_err();
        assert!(error.contains("too large for its schema"), "{error}");
        assert!(heavy.parse(&format!("\"{}\"", "1".repeat(3_010))).await.is_ok());
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());

        let (_, light) = Schema::compile(r#"{"pattern": "\\S"}"#).unwrap();
        assert!(light.parse(&format!("\"{}\"", " x".repeat(1 << 20))).await.is_ok());
    }

    #[tokio::test]
    async fn a_pattern_cannot_backtrack() {
        let (_, schema) = Schema::compile(r#"{"pattern": "^(a+)+$"}"#).unwrap();
        let started = Instant::now();
        assert!(schema.parse(&format!("\"{}!\"", "a".repeat(5_000))).await.is_err());
        assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
    }
}
