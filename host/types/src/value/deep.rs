//! Values that nest deeply, released and compared without recursion: no depth can exhaust the stack.

use super::Value;
use std::mem;

/// The depth up to which recursion is harmless.
pub(super) const MAX_PLAIN_NESTING: u32 = 64;

/// Moves the parts that nest deeply out of an aggregate that no one else holds.
pub(super) fn take(parts: &mut [Value], into: &mut Vec<Value>) {
    for part in parts {
        if part.measure().depth() >= MAX_PLAIN_NESTING {
            into.push(mem::take(part));
        }
    }
}

/// Drops values level by level.
pub(super) fn release(mut parts: Vec<Value>) {
    while let Some(mut part) = parts.pop() {
        match &mut part {
            Value::Array(items) => items.take_deep_parts(&mut parts),
            Value::Object(entries) => entries.take_deep_parts(&mut parts),
            _ => {}
        }
    }
}

/// Structural equality. An aggregate equals itself, so that shared parts are compared once.
pub(super) fn equal(left: &Value, right: &Value) -> bool {
    let mut pairs = vec![(left, right)];
    while let Some((left, right)) = pairs.pop() {
        match (left, right) {
            (Value::Array(a), Value::Array(b)) => {
                if a.is_same(b) {
                    continue;
                }
                if a.len() != b.len() {
                    return false;
                }
                pairs.extend(a.iter().zip(b.iter()));
            }
            (Value::Object(a), Value::Object(b)) => {
                if a.is_same(b) {
                    continue;
                }
                if a.len() != b.len() {
                    return false;
                }
                if a.shape().is_same(b.shape()) {
                    pairs.extend(a.values().zip(b.values()));
                    continue;
                }
                for (key, value) in a {
                    match b.get(key) {
                        Some(other) => pairs.push((value, other)),
                        None => return false,
                    }
                }
            }
            (Value::Array(_) | Value::Object(_), _) | (_, Value::Array(_) | Value::Object(_)) => return false,
            (left, right) => {
                if left != right {
                    return false;
                }
            }
        }
    }
    true
}
