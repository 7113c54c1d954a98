//! PromptPack's predicates (RFC 0010) over what a composition has so far.

use crate::state::Instance;
use opcell_workflow::{Value, ir::Predicate, value::Number};

/// Whether a predicate holds. A reference that gives nothing is null, except for `exists`.
///
/// The recursion is as deep as the predicate was written, which its parser limits.
pub(crate) fn holds(predicate: &Predicate, instance: &Instance) -> Result<bool, String> {
    match predicate {
        Predicate::All { all_of } => try_all(all_of, instance, true).map(|stopped| !stopped),
        Predicate::Any { any_of } => try_all(any_of, instance, false),
        Predicate::Not { not } => holds(not, instance).map(|holds| !holds),
        Predicate::Exists { path, exists } => Ok(find(path, instance).is_some() == *exists),
        Predicate::Compare { path, op, value } => compare(op, find(path, instance).unwrap_or(&Value::Null), value),
    }
}

/// Whether one of them is found that does not hold (`all`), or that does.
fn try_all(predicates: &[Predicate], instance: &Instance, all: bool) -> Result<bool, String> {
    for predicate in predicates {
        if holds(predicate, instance)? != all {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `input.a.b`, or `step.a.b`: objects only, as the RFC has it.
fn find<'a>(path: &str, instance: &'a Instance) -> Option<&'a Value> {
    let path = path.strip_prefix("${").and_then(|path| path.strip_suffix('}')).unwrap_or(path);
    let mut parts = path.split('.');
    let root = match parts.next()? {
        "input" => &instance.input,
        step => instance.outputs.get(step)?.get("output")?,
    };
    parts.try_fold(root, |value, part| value.get(part))
}

fn compare(op: &str, found: &Value, value: &Value) -> Result<bool, String> {
    match op {
        "equals" => Ok(found == value),
        "not_equals" => Ok(found != value),
        "in" | "not_in" => match value.as_array() {
            Some(items) => Ok(items.contains(found) == (op == "in")),
            None => Err(format!("`{op}` needs a list to look in, got {}", value.to_json())),
        },
        "less_than" => ordered(op, found, value).map(|order| order.is_some_and(std::cmp::Ordering::is_lt)),
        "less_than_or_equals" => ordered(op, found, value).map(|order| order.is_some_and(std::cmp::Ordering::is_le)),
        "greater_than" => ordered(op, found, value).map(|order| order.is_some_and(std::cmp::Ordering::is_gt)),
        "greater_than_or_equals" => ordered(op, found, value).map(|order| order.is_some_and(std::cmp::Ordering::is_ge)),
        _ => Err(format!("unknown comparison `{op}`")),
    }
}

fn ordered(op: &str, found: &Value, value: &Value) -> Result<Option<std::cmp::Ordering>, String> {
    let number = |value: &Value| match value {
        Value::Number(number) => Some(Number::as_f64(*number)),
        _ => None,
    };
    match (number(found), number(value)) {
        (Some(a), Some(b)) => Ok(a.partial_cmp(&b)),
        _ => Err(format!("`{op}` compares numbers, got {} and {}", found.to_json(), value.to_json())),
    }
}
