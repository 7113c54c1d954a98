//! JSON values with cheap clones, and JavaScript's `undefined` beside `null`.

mod ser;

pub use ser::Unrepresentable;

use indexmap::IndexMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, ser::SerializeMap, ser::SerializeSeq};
use std::sync::Arc;

/// An object's entries, in the order in which they were written.
pub type Map = IndexMap<Arc<str>, Value>;

/// A JSON value. Aggregates are shared: cloning is constant time, and two clones are the *same* aggregate
/// ([`Value::is_same`]), which is what WorkflowSkill's `==` compares.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// Not there at all. Never equal to `null`; left out of objects and written as `null` in arrays.
    Undefined,
    /// JSON `null`.
    #[default]
    Null,
    /// JSON booleans.
    Bool(bool),
    /// JSON numbers, as exact as their text was.
    Number(Number),
    /// JSON strings.
    String(Arc<str>),
    /// JSON arrays.
    Array(Arc<Vec<Value>>),
    /// JSON objects.
    Object(Arc<Map>),
}

/// A number: an integer where its text was one that fits, else a double. Doubles may be non-finite inside the host
/// (WorkflowSkill computes with them); JSON writes those as `null`.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer above `i64::MAX`.
    Unsigned(u64),
    /// Anything else.
    Float(f64),
}

impl Number {
    /// The nearest double.
    #[must_use]
    #[allow(clippy::cast_precision_loss)]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Integer(n) => n as f64,
            Self::Unsigned(n) => n as f64,
            Self::Float(n) => n,
        }
    }

    /// The integer, where the number is one that fits.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Integer(n) => Some(n),
            Self::Unsigned(_) | Self::Float(_) => None,
        }
    }

    /// The integer, where the number is one from 0 that fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        match self {
            Self::Integer(n) => u64::try_from(n).ok(),
            Self::Unsigned(n) => Some(n),
            Self::Float(_) => None,
        }
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(a), Self::Integer(b)) => a == b,
            (Self::Unsigned(a), Self::Unsigned(b)) => a == b,
            (a, b) => a.as_f64() == b.as_f64(),
        }
    }
}

/// Structural equality. Object entries compare without regard to order.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(a), Self::Array(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => a == b,
            _ => false,
        }
    }
}

impl Value {
    /// An object.
    pub fn object<K: Into<Arc<str>>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Object(Arc::new(entries.into_iter().map(|(k, v)| (k.into(), v)).collect()))
    }

    /// An array.
    pub fn array(items: impl IntoIterator<Item = Value>) -> Self {
        Self::Array(Arc::new(items.into_iter().collect()))
    }

    /// The text of a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The items of an array.
    #[must_use]
    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The entries of an object.
    #[must_use]
    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(entries) => Some(entries),
            _ => None,
        }
    }

    /// An object's own entry.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object().and_then(|entries| entries.get(key))
    }

    /// Whether this is `undefined` or `null`.
    #[must_use]
    pub fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    /// Identity for aggregates, equality for everything else.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => Arc::ptr_eq(a, b),
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(a, b),
            (a, b) => a == b,
        }
    }

    /// Parses JSON text.
    ///
    /// # Errors
    /// When the text is not one JSON value, or nests deeper than 128.
    pub fn from_json(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// JSON text without spaces. `undefined` at the top is `null`.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(Arc::new(items))
    }
}

impl From<Map> for Value {
    fn from(entries: Map) -> Self {
        Self::Object(Arc::new(entries))
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Number(Number::Integer(n))
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Number(Number::Float(n))
    }
}

impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        match json {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(b) => Self::Bool(b),
            serde_json::Value::Number(n) => Self::Number(match (n.as_i64(), n.as_u64()) {
                (Some(n), _) => Number::Integer(n),
                (None, Some(n)) => Number::Unsigned(n),
                (None, None) => Number::Float(n.as_f64().unwrap_or(f64::NAN)),
            }),
            serde_json::Value::String(text) => Self::String(text.into()),
            serde_json::Value::Array(items) => Self::array(items.into_iter().map(Self::from)),
            serde_json::Value::Object(entries) => Self::object(entries.into_iter().map(|(k, v)| (k, Self::from(v)))),
        }
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Undefined | Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(Number::Integer(n)) => Self::from(*n),
            Value::Number(Number::Unsigned(n)) => Self::from(*n),
            Value::Number(Number::Float(n)) => serde_json::Number::from_f64(*n).map_or(Self::Null, Self::Number),
            Value::String(text) => Self::String(text.as_ref().to_owned()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(entries) => Self::Object(
                entries
                    .iter()
                    .filter(|(_, v)| !matches!(v, Value::Undefined))
                    .map(|(k, v)| (k.as_ref().to_owned(), Self::from(v)))
                    .collect(),
            ),
        }
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Undefined | Self::Null => serializer.serialize_unit(),
            Self::Bool(b) => serializer.serialize_bool(*b),
            Self::Number(Number::Integer(n)) => serializer.serialize_i64(*n),
            Self::Number(Number::Unsigned(n)) => serializer.serialize_u64(*n),
            Self::Number(Number::Float(n)) if n.is_finite() => serializer.serialize_f64(*n),
            Self::Number(Number::Float(_)) => serializer.serialize_unit(),
            Self::String(text) => serializer.serialize_str(text),
            Self::Array(items) => {
                let mut seq = serializer.serialize_seq(Some(items.len()))?;
                for item in items.iter() {
                    seq.serialize_element(item)?;
                }
                seq.end()
            }
            Self::Object(entries) => {
                let mut map = serializer.serialize_map(None)?;
                for (key, value) in entries.iter().filter(|(_, v)| !matches!(v, Self::Undefined)) {
                    map.serialize_entry(key.as_ref(), value)?;
                }
                map.end()
            }
        }
    }
}

struct ValueVisitor;

impl<'de> serde::de::Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        Value::deserialize(deserializer)
    }

    fn visit_bool<E>(self, b: bool) -> Result<Value, E> {
        Ok(Value::Bool(b))
    }

    fn visit_i64<E>(self, n: i64) -> Result<Value, E> {
        Ok(Value::Number(Number::Integer(n)))
    }

    fn visit_u64<E>(self, n: u64) -> Result<Value, E> {
        Ok(Value::Number(i64::try_from(n).map_or(Number::Unsigned(n), Number::Integer)))
    }

    fn visit_f64<E>(self, n: f64) -> Result<Value, E> {
        Ok(Value::Number(Number::Float(n)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text.into()))
    }

    fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(1024));
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Value::Array(Arc::new(items)))
    }

    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some((key, value)) = map.next_entry::<String, Value>()? {
            entries.insert(key.into(), value);
        }
        Ok(Value::Object(Arc::new(entries)))
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}
