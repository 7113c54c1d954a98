//! The types that are known before a run: those that are declared, and those that follow from the kind of a step.

use super::definition::{Body, Definition, Field};
use opcell_ir::expr::Expression;
use opcell_types::value::{NumberKind, Value};
use std::collections::HashMap;

/// The type of an expression that is one reference to a whole input, a step's output, or a declared part of one.
pub(super) fn of_expression<'a>(
    definition: &'a Definition,
    inputs: &HashMap<&str, &'a Field>,
    order: &HashMap<&str, usize>,
    expression: &Expression,
) -> Option<&'a str> {
    let references = expression.references();
    let [reference] = references.as_slice() else { return None };
    let is_whole = expression.text().chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '$' | '.' | '_'));
    if !is_whole {
        return None;
    }
    let path: Vec<&str> = reference.path.iter().map(AsRef::as_ref).collect();
    let step = |name: &str| order.get(name).and_then(|at| definition.steps.get(*at));
    let declared = match (reference.root.as_ref(), path.as_slice()) {
        ("inputs", [name]) => inputs.get(name).copied(),
        ("steps", [name, "output"]) => {
            let step = step(name)?;
            let is_transform = matches!(step.body, Body::Filter { .. } | Body::Map { .. } | Body::Sort { .. });
            let is_mapped = step.outputs.iter().any(|output| output.value.is_some());
            return match &step.body {
                Body::Conditional { .. } | Body::Exit { .. } => None,
                _ if step.each.is_some() => Some("array"),
                // A transform's array is inside an object, under its first output.
                _ => (is_transform || is_mapped).then_some("object"),
            };
        }
        ("steps", [name, "output", key]) => step(name)
            .filter(|step| step.each.is_none())
            .and_then(|step| step.outputs.iter().find(|field| field.name.text.as_ref() == *key)),
        _ => None,
    };
    declared.map(|field| field.kind.text.as_ref())
}

/// The type of a literal value; null is of every type.
pub(super) fn of_literal(value: &Value) -> Option<&'static str> {
    match value {
        Value::Undefined | Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) if fits("int", value) => Some("int"),
        Value::Number(_) => Some("float"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    }
}

/// Returns `true` if a literal value is of its declared type; null fits everywhere.
pub(super) fn fits(kind: &str, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) | ("string", Value::String(_)) | ("boolean", Value::Bool(_)) => true,
        ("float", Value::Number(_)) => true,
        ("int", Value::Number(n)) => match n.kind() {
            NumberKind::Integer(_) | NumberKind::Unsigned(_) => true,
            NumberKind::Float(n) => n.fract() == 0.0,
        },
        ("array", Value::Array(_)) | ("object", Value::Object(_)) => true,
        _ => false,
    }
}
