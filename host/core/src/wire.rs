//! Values in events, exactly: JSON alone would turn `undefined` into `null` and lose numbers that are not finite, and a
//! resumed run would then differ from one that never stopped.
//!
//! `{"$undefined": true}`, `{"$number": "NaN" | "Infinity" | "-Infinity"}`; an object that looks like one of these (or
//! like this) is written as `{"$object": {…}}`. `{"$value": DIGEST}` names a large value ([`crate::large`]).

use crate::large::{VALUE, name_of, named};
use opcell_types::{
    Value,
    value::{Map, Object},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error, ser::SerializeMap};

const UNDEFINED: &str = "$undefined";
const NUMBER: &str = "$number";
const OBJECT: &str = "$object";

/// A value to leave out of an event.
#[must_use]
pub fn undefined() -> Value {
    Value::Undefined
}

/// Returns `true` if a value is left out of an event.
#[must_use]
pub fn is_undefined(value: &Value) -> bool {
    matches!(value, Value::Undefined)
}

/// Writes a value exactly.
///
/// # Errors
/// The serializer's.
pub fn serialize<S: Serializer>(value: &Value, serializer: S) -> Result<S::Ok, S::Error> {
    Encoded(value).serialize(serializer)
}

/// Reads a value that [`serialize`] wrote.
///
/// # Errors
/// The deserializer's, or a tag of the wrong shape.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    Value::deserialize(deserializer).and_then(|value| restore(value).map_err(D::Error::custom))
}

/// A value that may be there; `[]` or `[value]`, since null is a value.
pub mod option {
    use super::{Decoded, Perhaps, Value};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(value: &Option<Value>, serializer: S) -> Result<S::Ok, S::Error> {
        Perhaps(value).serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
        Ok(Vec::<Decoded>::deserialize(deserializer)?.pop().map(|kept| kept.0))
    }
}

/// Values that may be there, in order.
pub mod option_seq {
    use super::{Decoded, Perhaps, Value};
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[Option<Value>], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(Perhaps))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Option<Value>>, D::Error> {
        let kept = Vec::<Vec<Decoded>>::deserialize(deserializer)?;
        Ok(kept.into_iter().map(|mut one| one.pop().map(|kept| kept.0)).collect())
    }
}

/// Values in order.
pub mod list {
    use super::Value;
    use opcell_types::value::Array;
    use serde::{Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(values: &Array, serializer: S) -> Result<S::Ok, S::Error> {
        super::serialize(&Value::Array(values.clone()), serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Array, D::Error> {
        match super::deserialize(deserializer)? {
            Value::Array(values) => Ok(values),
            left_out if crate::large::elides() => Ok(vec![left_out].into()),
            other => Err(D::Error::custom(format!("expected a list of values, got {}", other.to_json()))),
        }
    }
}

/// Values by name.
pub mod map {
    use super::{Decoded, Encoded, Map};
    use indexmap::IndexMap;
    use opcell_types::value::Text;
    use serde::{Deserialize, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &Map, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(values.iter().map(|(name, value)| (name.as_ref(), Encoded(value))))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map, D::Error> {
        let kept = IndexMap::<Text, Decoded>::deserialize(deserializer)?;
        Ok(kept.into_iter().map(|(name, kept)| (name, kept.0)).collect())
    }
}

/// A value as it was before [`serialize`].
struct Decoded(Value);

impl<'de> Deserialize<'de> for Decoded {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserialize(deserializer).map(Self)
    }
}

struct Encoded<'a>(&'a Value);

/// A value that may be there: `[]` or `[value]`.
struct Perhaps<'a>(&'a Option<Value>);

impl Serialize for Perhaps<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(Encoded))
    }
}

fn tagged<S: Serializer, T: Serialize + ?Sized>(serializer: S, tag: &str, content: &T) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(1))?;
    map.serialize_entry(tag, content)?;
    map.end()
}

struct Entries<'a>(&'a Object);

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(key, value)| (key.as_ref(), Encoded(value))))
    }
}

fn tag_of(entries: &Object) -> Option<&str> {
    match entries.get_index(0) {
        Some((key, _)) if entries.len() == 1 && matches!(key.as_ref(), UNDEFINED | NUMBER | OBJECT | VALUE) => {
            Some(key)
        }
        _ => None,
    }
}

/// The text of an aggregate, which names its large parts, but not itself.
pub(crate) fn parts_to_json(value: &Value) -> Result<String, serde_json::Error> {
    serde_json::to_string(&Parts(value))
}

/// An aggregate by its parts.
struct Parts<'a>(&'a Value);

impl Serialize for Parts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(Encoded)),
            Value::Object(entries) if tag_of(entries).is_some() => tagged(serializer, OBJECT, &Entries(entries)),
            Value::Object(entries) => Entries(entries).serialize(serializer),
            scalar => scalar.serialize(serializer),
        }
    }
}

/// A value by itself, as [`serialize`] writes it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Exact(#[serde(with = "self")] pub(crate) Value);

impl Serialize for Encoded<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Some(digest) = name_of(self.0) {
            return tagged(serializer, VALUE, digest.as_str());
        }
        match self.0 {
            Value::Undefined => tagged(serializer, UNDEFINED, &true),
            Value::Number(n) if n.as_f64().is_nan() => tagged(serializer, NUMBER, "NaN"),
            Value::Number(n) if n.as_f64() == f64::INFINITY => tagged(serializer, NUMBER, "Infinity"),
            Value::Number(n) if n.as_f64() == f64::NEG_INFINITY => tagged(serializer, NUMBER, "-Infinity"),
            value => Parts(value).serialize(serializer),
        }
    }
}

/// Values come out of a parser that limits depth, so this recursion is as bounded as the text was.
fn restore(value: Value) -> Result<Value, String> {
    match value {
        Value::Array(items) if items.iter().any(needs_restoring) => {
            let items: Result<Vec<Value>, String> = items.iter().cloned().map(restore).collect();
            items.map(Value::from)
        }
        Value::Object(entries) => match (tag_of(&entries), entries.get_index(0)) {
            (Some(UNDEFINED), _) => Ok(Value::Undefined),
            (Some(NUMBER), Some((_, name))) => match name.as_str() {
                Some("NaN") => Ok(Value::from(f64::NAN)),
                Some("Infinity") => Ok(Value::from(f64::INFINITY)),
                Some("-Infinity") => Ok(Value::from(f64::NEG_INFINITY)),
                _ => Err(format!("`{NUMBER}` must be NaN, Infinity or -Infinity, not {}", name.to_json())),
            },
            (Some(VALUE), Some((_, name))) => match name.as_str().and_then(named) {
                Some(value) => value,
                // Written before values had names.
                None => Ok(Value::Object(entries)),
            },
            (Some(_), Some((_, Value::Object(inner)))) => restore_entries(inner),
            (Some(_), _) => Err(format!("`{OBJECT}` must hold an object")),
            (None, _) if entries.values().any(needs_restoring) => restore_entries(&entries),
            (None, _) => Ok(Value::Object(entries)),
        },
        other => Ok(other),
    }
}

fn restore_entries(entries: &Object) -> Result<Value, String> {
    let entries: Result<Object, String> =
        entries.iter().map(|(key, value)| Ok((key.clone(), restore(value.clone())?))).collect();
    entries.map(Value::from)
}

fn needs_restoring(value: &Value) -> bool {
    matches!(value, Value::Array(_) | Value::Object(_))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Holder(#[serde(with = "super")] Value);

    fn there_and_back(value: &Value) -> Value {
        let text = serde_json::to_string(&Holder(value.clone())).unwrap();
        serde_json::from_str::<Holder>(&text).unwrap().0
    }

    fn any_value() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Undefined),
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_filter("NaN is not equal to itself", |n| !n.is_nan()).prop_map(Value::from),
            "[a-z$]{0,4}".prop_map(Value::from),
        ];
        let key = prop_oneof![
            Just(UNDEFINED.to_owned()),
            Just(NUMBER.to_owned()),
            Just(OBJECT.to_owned()),
            Just(VALUE.to_owned()),
            "[a-z]{1,3}"
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::array),
                prop::collection::vec((key.clone(), inner), 0..4).prop_map(Value::object),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_survives_an_event(value in any_value()) {
            prop_assert_eq!(there_and_back(&value), value);
        }
    }

    #[test]
    fn not_a_number_survives_an_event() {
        let Value::Number(number) = there_and_back(&Value::from(f64::NAN)) else { unreachable!() };
        assert!(number.as_f64().is_nan());
    }
}
