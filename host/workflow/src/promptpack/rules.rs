//! Rules of a prompt's variables: `type` and `validation`, as JSON Schemas that a run's input is checked with.

use super::pack::Variable;
use indexmap::IndexMap;
use opcell_ir::ir::Input;
use opcell_schema::Schema;
use opcell_types::{Value, value::Map};
use std::sync::Arc;

/// The types that a schema can check; a host's own types are not.
const TYPES: [&str; 6] = ["string", "number", "integer", "boolean", "object", "array"];

/// The rules of `validation` and what JSON Schema calls them.
const RULES: [(&str, &str); 6] = [
    ("pattern", "pattern"),
    ("min_length", "minLength"),
    ("max_length", "maxLength"),
    ("minimum", "minimum"),
    ("maximum", "maximum"),
    ("enum", "enum"),
];

/// The schema of a variable's values; `None` where nothing is said of them.
pub(super) fn schema(variable: &Variable) -> Option<Value> {
    let mut schema = Map::default();
    let rules = variable.rest.get("validation");
    for (rule, keyword) in RULES {
        if let Some(value) = rules.and_then(|rules| rules.get(rule)).filter(|value| !value.is_nullish()) {
            schema.insert(keyword.into(), value.clone());
        }
    }
    let is_text = variable.kind == "string";
    if is_text && let Some(Value::Array(allowed)) = schema.get("enum") {
        // A text spells the numbers among the allowed values.
        let spelled = allowed.iter().filter(|value| value.as_str().is_none()).map(|value| Value::from(value.to_json()));
        let all = Value::array(allowed.iter().cloned().chain(spelled));
        schema.insert("enum".into(), all);
    }
    if TYPES.contains(&variable.kind.as_str()) {
        // A number or a flag is a text when it is written; rules for texts are for texts only.
        let kinds: &[&str] = match schema.is_empty() && is_text {
            true => &["string", "number", "boolean"],
            false => &[variable.kind.as_str()],
        };
        let kind = match kinds {
            [one] => Value::from(*one),
            several => Value::array(several.iter().map(|kind| Value::from(*kind))),
        };
        schema.insert("type".into(), kind);
    }
    (!schema.is_empty()).then(|| Value::from(schema))
}

/// The schema of a run's input: its variables keep their rules, and whatever else it holds is free.
pub(super) fn input_schema(inputs: &IndexMap<Arc<str>, Input>) -> Option<Value> {
    let properties: Vec<(Arc<str>, Value)> =
        inputs.iter().filter_map(|(name, input)| Some((name.clone(), optional(input.schema.as_ref()?)))).collect();
    (!properties.is_empty()).then(|| Value::object([("properties", Value::object(properties))]))
}

/// A variable that is given as null is not given.
fn optional(schema: &Value) -> Value {
    let null = Value::object([("type", Value::from("null"))]);
    Value::object([("anyOf", Value::array([schema.clone(), null]))])
}

/// The reason that the rules of a variable cannot be kept, or that its default breaks them.
pub(super) fn problem(variable: &Variable) -> Option<Problem> {
    let default = variable.default.as_ref().filter(|default| !default.is_nullish());
    // A type alone can always be kept.
    if default.is_none() && variable.rest.get("validation").is_none_or(Value::is_nullish) {
        return None;
    }
    let authored = schema(variable)?;
    let compiled = match Schema::compile(&serde_json::Value::from(&authored)) {
        Ok(compiled) => compiled,
        Err(problem) => return Some(Problem::Unenforced(problem)),
    };
    let violations = compiled.violations(&serde_json::Value::from(default?), 1);
    violations.into_iter().next().map(Problem::Default)
}

/// A problem of the rules of a variable.
pub(super) enum Problem {
    /// They are none that can be checked.
    Unenforced(String),
    /// The default breaks them.
    Default(String),
}
