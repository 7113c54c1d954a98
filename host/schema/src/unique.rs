//! `uniqueItems`, in time that grows with the size of the elements whatever they are.
//!
//! The validator's own hashes arrays without their length or a tag, so that all trees of empty arrays collide and each
//! is compared with every other.

use jsonschema::{Keyword, ValidationError, paths::Location};
use serde_json::{Map, Number, Value};
use std::{
    collections::HashMap,
    hash::{Hash, Hasher},
};

/// `true` if elements must differ.
struct UniqueItems(bool);

/// Makes the keyword; what is not a boolean has been refused by the meta-schema.
#[expect(clippy::unnecessary_wraps, reason = "the signature that the validator asks for")]
pub(crate) fn keyword<'a>(
    _parent: &'a Map<String, Value>,
    value: &'a Value,
    _place: Location,
) -> Result<Box<dyn for<'i> Keyword<'i>>, ValidationError<'a>> {
    Ok(Box::new(UniqueItems(value == &Value::Bool(true))))
}

impl<'i> Keyword<'i> for UniqueItems {
    fn validate(&self, value: &'i Value) -> Result<(), ValidationError<'i>> {
        match twice(value).filter(|_| self.0) {
            None => Ok(()),
            Some((first, second)) => Err(ValidationError::custom(format!(
                "its elements {first} and {second} (from 0) are equal, and all must differ"
            ))),
        }
    }

    fn is_valid(&self, value: &'i Value) -> bool {
        !self.0 || twice(value).is_none()
    }
}

/// The first two elements that are equal.
fn twice(value: &Value) -> Option<(usize, usize)> {
    let list = value.as_array().filter(|list| list.len() > 1)?;
    let mut seen = HashMap::with_capacity(list.len());
    for (at, element) in list.iter().enumerate() {
        if let Some(first) = seen.insert(Element(element), at) {
            return Some((first, at));
        }
    }
    None
}

/// An element, compared as JSON Schema compares: `1` equals `1.0`, and the order of members does not matter.
#[derive(Clone, Copy)]
struct Element<'a>(&'a Value);

impl Hash for Element<'_> {
    /// With the standard library's keyed hash, and unambiguous: different values collide by chance only.
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self.0 {
            Value::Null => state.write_u8(0),
            Value::Bool(value) => state.write_u8(1 + u8::from(*value)),
            Value::Number(number) => match exact(number) {
                Exact::Whole(whole) => {
                    state.write_u8(3);
                    state.write_i128(whole);
                }
                Exact::Float(bits) => {
                    state.write_u8(4);
                    state.write_u64(bits);
                }
            },
            Value::String(text) => {
                state.write_u8(5);
                text.hash(state);
            }
            Value::Array(list) => {
                state.write_u8(6);
                state.write_usize(list.len());
                list.iter().for_each(|element| Element(element).hash(state));
            }
            Value::Object(map) => {
                state.write_u8(7);
                state.write_usize(map.len());
                let mut members: Vec<_> = map.iter().collect();
                members.sort_unstable_by_key(|(name, _)| *name);
                for (name, value) in members {
                    name.hash(state);
                    Element(value).hash(state);
                }
            }
        }
    }
}

impl PartialEq for Element<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Value::Number(one), Value::Number(other)) => exact(one) == exact(other),
            (Value::Array(one), Value::Array(other)) => {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Element(one) == Element(other))
            }
            (Value::Object(one), Value::Object(other)) => {
                one.len() == other.len()
                    && one.iter().all(|(name, one)| other.get(name).is_some_and(|other| Element(one) == Element(other)))
            }
            (one, other) => one == other,
        }
    }
}

impl Eq for Element<'_> {}

/// A number without the two ways of writing a whole one.
#[derive(PartialEq, Eq)]
enum Exact {
    Whole(i128),
    Float(u64),
}

fn exact(number: &Number) -> Exact {
    /// Above it, a whole floating-point number is not one that anybody writes as an integer.
    const LARGEST: f64 = 1e30;
    if let Some(whole) = number.as_i64() {
        return Exact::Whole(whole.into());
    }
    if let Some(whole) = number.as_u64() {
        return Exact::Whole(whole.into());
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && float.abs() < LARGEST {
        #[expect(clippy::cast_possible_truncation, reason = "it is whole and in range")]
        return Exact::Whole(float as i128);
    }
    Exact::Float(float.to_bits())
}

#[cfg(test)]
mod tests {
    use super::twice;
    use serde_json::{Value, json};

    #[test]
    fn equal_elements_are_found_however_they_are_written() {
        for (list, expected) in [
            (json!([1, 2, 1.0]), Some((0, 2))),
            (json!([0, -0.0]), Some((0, 1))),
            (json!([{"a": 1, "b": [2]}, {"b": [2.0], "a": 1}]), Some((0, 1))),
            (json!(["x", "y", "x"]), Some((0, 2))),
            (json!([1, "1", true, null, [], {}, [[]], [null]]), None),
            (json!([[[], []], [[[]]], [[], [], []]]), None),
            (json!([9_007_199_254_740_993_i64, 9_007_199_254_740_992.0]), None),
            (json!(["a"]), None),
            (json!({"a": 1}), None),
        ] {
            assert_eq!(twice(&list), expected, "{list}");
        }
    }

    #[test]
    fn trees_that_other_hashes_take_for_equal_are_told_apart_at_once() {
        // Counted, not timed: with colliding hashes this is half a billion deep comparisons, and the test does not end.
        let tree = |at: usize| {
            (0..15).fold(json!([]), |tree, bit| if at >> bit & 1 == 1 { json!([tree, []]) } else { json!([tree]) })
        };
        let list: Vec<Value> = (0..32_768).map(tree).collect();
        assert_eq!(twice(&Value::from(list)), None);
    }
}
