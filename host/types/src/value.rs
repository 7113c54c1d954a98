//! JSON values, small and built once, and JavaScript's `undefined` beside `null`.
//!
//! A [`Value`] has sixteen bytes. Short texts stand in it; long texts, arrays and objects are one allocation each,
//! shared when they are cloned. Objects that come in rows share their keys ([`Shape`]). An aggregate knows what it
//! would take to write it ([`Measure`]), so that bounds cost nothing to check. Nothing here recurses on the depth of a
//! value, apart from serde, which refuses values deeper than [`MAX_DEPTH`].

mod array;
mod de;
mod deep;
mod exact;
mod measure;
mod number;
mod object;
mod read;
mod ser;
mod shape;
mod text;
mod write;

pub use array::Array;
pub use exact::{is_rounded_integer, rounded_integer, rounded_message, with_exact_integers};
pub use measure::Measure;
pub use number::{Number, NumberKind};
pub use object::{Entries, Object};
pub use ser::Unrepresentable;
pub use shape::{Keys, Shape};
pub use text::Text;

use indexmap::IndexMap;

/// Entries of an object that is being made, in order. [`Object`] is what it becomes.
pub type Map = IndexMap<Text, Value>;

/// The maximum nesting of arrays and objects in a value, wherever values are read, made, written and kept.
pub const MAX_DEPTH: u32 = 100;

/// The maximum size of one value of a run in bytes, written as JSON: the result of a step, and each text that is put
/// together.
pub const MAX_BYTES: u64 = 64 << 20;

/// A JSON value. Long texts and aggregates are shared: cloning is constant time, and two clones are the *same*
/// aggregate ([`Value::is_same`]), which is what WorkflowSkill's `==` compares.
#[derive(Default)]
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
    String(Text),
    /// JSON arrays.
    Array(Array),
    /// JSON objects.
    Object(Object),
}

const _: () = assert!(size_of::<Value>() == 16);

/// All sixteen bytes at once: copied field by field, which are not aligned, a value that was just made is waited for
/// before it can be read.
impl Clone for Value {
    #[inline]
    fn clone(&self) -> Self {
        match self {
            Self::String(text) => text.count_once_more(),
            Self::Array(items) => std::mem::forget(items.clone()),
            Self::Object(entries) => std::mem::forget(entries.clone()),
            Self::Undefined | Self::Null | Self::Bool(_) | Self::Number(_) => {}
        }
        // SAFETY: `self` is a valid value. What it shares has been counted once more, and everything else in it is
        // plain bytes, so that both can be dropped.
        unsafe { std::ptr::read(self) }
    }
}

/// Structural equality. Object entries compare without regard to order; an aggregate equals itself.
impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Undefined, Self::Undefined) | (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a == b,
            (Self::String(a), Self::String(b)) => a == b,
            (Self::Array(_), Self::Array(_)) | (Self::Object(_), Self::Object(_)) => deep::equal(self, other),
            _ => false,
        }
    }
}

/// The JSON of a value, which has neither [`Value::Undefined`] nor numbers that are not finite.
impl PartialEq<serde_json::Value> for Value {
    fn eq(&self, other: &serde_json::Value) -> bool {
        let other = Self::from(other.clone());
        *self == other
    }
}

impl Value {
    /// An object. The last of two values with the same key counts.
    pub fn object<K: Into<Text>>(entries: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Object(entries.into_iter().collect())
    }

    /// An array.
    pub fn array(items: impl IntoIterator<Item = Value>) -> Self {
        Self::Array(items.into_iter().collect())
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
    pub fn as_object(&self) -> Option<&Object> {
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

    /// Returns `true` if this is `undefined` or `null`.
    #[must_use]
    pub fn is_nullish(&self) -> bool {
        matches!(self, Self::Undefined | Self::Null)
    }

    /// Identity for aggregates, equality for everything else.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Array(a), Self::Array(b)) => a.is_same(b),
            (Self::Object(a), Self::Object(b)) => a.is_same(b),
            (a, b) => a == b,
        }
    }

    /// Returns the address of an aggregate: equal for two values exactly if they are the same aggregate, as long as one
    /// is held.
    #[must_use]
    pub fn address(&self) -> Option<usize> {
        match self {
            Self::Array(items) => Some(items.address()),
            Self::Object(entries) => Some(entries.address()),
            _ => None,
        }
    }

    /// Returns the size of the value when it is written, and its nesting: constant time for everything but a short
    /// text.
    #[must_use]
    pub fn measure(&self) -> Measure {
        Measure::of(self)
    }
}

impl std::fmt::Debug for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Undefined => f.write_str("Undefined"),
            Self::Null => f.write_str("Null"),
            Self::Bool(b) => f.debug_tuple("Bool").field(b).finish(),
            Self::Number(n) => f.debug_tuple("Number").field(n).finish(),
            Self::String(text) => f.debug_tuple("String").field(text).finish(),
            aggregate if aggregate.measure().depth() > MAX_DEPTH => f.write_str("…"),
            Self::Array(items) => f.debug_tuple("Array").field(items).finish(),
            Self::Object(entries) => f.debug_tuple("Object").field(entries).finish(),
        }
    }
}

/// As JSON.
impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.to_json())
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

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::String(text)
    }
}

impl From<&Text> for Value {
    fn from(text: &Text) -> Self {
        Self::String(text.clone())
    }
}

impl From<std::sync::Arc<str>> for Value {
    fn from(text: std::sync::Arc<str>) -> Self {
        Self::String(text.into())
    }
}

impl From<&std::sync::Arc<str>> for Value {
    fn from(text: &std::sync::Arc<str>) -> Self {
        Self::String(text.into())
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::Array(items.into())
    }
}

impl From<Map> for Value {
    fn from(entries: Map) -> Self {
        Self::Object(entries.into())
    }
}

impl From<Array> for Value {
    fn from(items: Array) -> Self {
        Self::Array(items)
    }
}

impl From<Object> for Value {
    fn from(entries: Object) -> Self {
        Self::Object(entries)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Self {
        Self::Number(n.into())
    }
}

impl From<f64> for Value {
    fn from(n: f64) -> Self {
        Self::Number(n.into())
    }
}

macro_rules! from_integers {
    ($wide:ty: $($narrow:ty),+) => {$(
        impl From<$narrow> for Value {
            fn from(n: $narrow) -> Self {
                Self::Number(<$wide>::from(n).into())
            }
        }
    )+};
}

from_integers!(i64: i8, i16, i32);
from_integers!(u64: u8, u16, u32);

impl From<u64> for Value {
    fn from(n: u64) -> Self {
        Self::Number(n.into())
    }
}

/// Sizes and lengths.
impl From<usize> for Value {
    fn from(n: usize) -> Self {
        // No machine that this runs on counts further.
        Self::Number(u64::try_from(n).unwrap_or(u64::MAX).into())
    }
}

/// `null` where there is nothing.
impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<const N: usize> From<[Value; N]> for Value {
    fn from(items: [Value; N]) -> Self {
        Self::array(items)
    }
}

impl From<Number> for Value {
    fn from(n: Number) -> Self {
        Self::Number(n)
    }
}

/// By way of serde, so that rows share their shape. What JSON text cannot nest, a JSON tree does not either.
impl From<serde_json::Value> for Value {
    fn from(json: serde_json::Value) -> Self {
        serde::Deserialize::deserialize(json).unwrap_or_default()
    }
}

impl From<Value> for serde_json::Value {
    fn from(value: Value) -> Self {
        Self::from(&value)
    }
}

impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Undefined | Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(*b),
            Value::Number(n) => match n.kind() {
                NumberKind::Integer(n) => Self::from(n),
                NumberKind::Unsigned(n) => Self::from(n),
                NumberKind::Float(n) => serde_json::Number::from_f64(n).map_or(Self::Null, Self::Number),
            },
            Value::String(text) => Self::String(text.as_str().to_owned()),
            Value::Array(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Object(entries) => Self::Object(
                entries
                    .iter()
                    .filter(|(_, v)| !matches!(v, Value::Undefined))
                    .map(|(k, v)| (k.as_str().to_owned(), Self::from(v)))
                    .collect(),
            ),
        }
    }
}

#[cfg(test)]
mod tests;
