//! Predicates over references: what a branch asks.

use crate::ir::Predicate;
use crate::print::go;
use crate::reference::{Scope, resolve_path, strip};
use opcell_types::Value;
use std::cmp::Ordering;

/// Why a predicate has no answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PredicateError {
    /// `in` wants a list.
    #[error("in/not_in requires a list value, got {0}")]
    NotAList(&'static str),
    /// Only numbers have an order.
    #[error("ordered comparison {} requires numeric operands, got {actual} and {value}", go::quote(.op))]
    NotNumeric {
        /// The comparison.
        op: String,
        /// The type of what the reference gave.
        actual: &'static str,
        /// The type of what it was compared with.
        value: &'static str,
    },
    /// No such comparison.
    #[error("unknown predicate op {}", go::quote(.0))]
    UnknownOp(String),
}

/// Evaluates a predicate. A reference that gives nothing counts as null, except for `exists`. Recursion is bounded by
/// the depth that JSON parsing admits.
///
/// # Errors
/// When values cannot be compared in this way.
pub fn evaluate(predicate: &Predicate, scope: Scope<'_>) -> Result<bool, PredicateError> {
    match predicate {
        Predicate::All { all_of } => {
            for one in all_of {
                if !evaluate(one, scope)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
        Predicate::Any { any_of } => {
            for one in any_of {
                if evaluate(one, scope)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Predicate::Not { not } => evaluate(not, scope).map(|holds| !holds),
        Predicate::Exists { path, exists } => Ok(find(path, scope).is_some() == *exists),
        Predicate::Compare { path, op, value } => compare(op, find(path, scope).unwrap_or(&Value::Null), value),
    }
}

/// Returns the value of a reference, with or without its `${…}`.
fn find<'s>(path: &str, scope: Scope<'s>) -> Option<&'s Value> {
    resolve_path(strip(path).unwrap_or(path), scope)
}

/// Compares by the name of a comparison.
fn compare(op: &str, actual: &Value, value: &Value) -> Result<bool, PredicateError> {
    match op {
        "equals" => Ok(actual == value),
        "not_equals" => Ok(actual != value),
        "in" => is_in(actual, value),
        "not_in" => is_in(actual, value).map(|found| !found),
        "less_than" => ordered(op, actual, value, Ordering::is_lt),
        "less_than_or_equals" => ordered(op, actual, value, Ordering::is_le),
        "greater_than" => ordered(op, actual, value, Ordering::is_gt),
        "greater_than_or_equals" => ordered(op, actual, value, Ordering::is_ge),
        other => Err(PredicateError::UnknownOp(other.to_owned())),
    }
}

fn is_in(actual: &Value, list: &Value) -> Result<bool, PredicateError> {
    let items = list.as_array().ok_or_else(|| PredicateError::NotAList(go::type_name(list)))?;
    Ok(items.contains(actual))
}

fn ordered(op: &str, actual: &Value, value: &Value, holds: fn(Ordering) -> bool) -> Result<bool, PredicateError> {
    match (actual, value) {
        (Value::Number(a), Value::Number(b)) => Ok(a.compare(*b).is_some_and(holds)),
        _ => Err(PredicateError::NotNumeric {
            op: op.to_owned(),
            actual: go::type_name(actual),
            value: go::type_name(value),
        }),
    }
}
