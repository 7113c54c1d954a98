//! Objects: a shape, and one shared, measured allocation for the values.

use super::{
    Map, Measure, Shape, Text, Value, deep,
    shape::{Distinct, Keys, merge},
};
use std::fmt;
use triomphe::{Arc, ThinArc};

/// The entries of an object in order.
pub type Entries<'a> = std::iter::Zip<Keys<'a>, std::slice::Iter<'a, Value>>;

/// The entries of a JSON object, in the order in which they were written. Cloning is constant time; a clone is the
/// *same* object.
#[derive(Clone)]
pub struct Object(ThinArc<Head, Value>);

struct Head {
    shape: Shape,
    measure: Measure,
}

impl Object {
    /// The object of a shape: the values of its keys, in their order. Missing values are undefined, further ones are
    /// dropped.
    #[must_use]
    pub fn of_shape(shape: Shape, mut values: Vec<Value>) -> Self {
        values.resize(shape.len(), Value::Undefined);
        Self::new(shape, values)
    }

    /// The same, of values that are there as an array: without a list in between.
    #[must_use]
    pub fn of_slots<const N: usize>(shape: Shape, values: [Value; N]) -> Self {
        if shape.len() != N {
            return Self::of_shape(shape, values.into());
        }
        let measure = Measure::of_entries(&shape, &values);
        Self(ThinArc::from_header_and_iter(Head { shape, measure }, values.into_iter()))
    }

    /// The same, of all values of a list, which is empty afterwards and can be used again.
    #[must_use]
    pub fn of_all(shape: Shape, values: &mut Vec<Value>) -> Self {
        values.resize(shape.len(), Value::Undefined);
        Self::drain(shape, values, 0)
    }

    fn new(shape: Shape, values: Vec<Value>) -> Self {
        let measure = Measure::of_entries(&shape, &values);
        Self(ThinArc::from_header_and_iter(Head { shape, measure }, values.into_iter()))
    }

    /// The object of a shape and of the last values of a list, which loses them.
    pub(super) fn drain(shape: Shape, values: &mut Vec<Value>, from: usize) -> Self {
        let from = from.min(values.len());
        let measure = Measure::of_entries(&shape, values.get(from..).unwrap_or_default());
        Self(ThinArc::from_header_and_iter(Head { shape, measure }, values.drain(from..)))
    }

    /// The object of keys that may be there twice: the last value counts, at the place of the first.
    pub(super) fn of_keys(keys: Vec<Text>, mut values: Vec<Value>) -> Self {
        match Shape::distinct(keys) {
            Distinct::All(shape) => Self::of_shape(shape, values),
            Distinct::Merged(shape, places) => {
                let merged = merge(values.drain(..), &places, shape.len());
                Self::new(shape, merged)
            }
        }
    }

    /// Returns the size of the object when it is written, and its nesting.
    #[must_use]
    #[inline]
    pub fn measure(&self) -> Measure {
        self.0.header.header.measure
    }

    /// The keys, in the order of the object.
    #[must_use]
    #[inline]
    pub fn shape(&self) -> &Shape {
        &self.0.header.header.shape
    }

    #[inline]
    fn slots(&self) -> &[Value] {
        &self.0.slice
    }

    /// The value of a key.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.shape().place(key).and_then(|place| self.slots().get(place))
    }

    /// The value at a place of the object's shape.
    #[must_use]
    #[inline]
    pub fn value_at(&self, place: usize) -> Option<&Value> {
        self.slots().get(place)
    }

    /// The entry at a place.
    #[must_use]
    pub fn get_index(&self, place: usize) -> Option<(&Text, &Value)> {
        Some((self.shape().key(place)?, self.slots().get(place)?))
    }

    /// Returns `true` if the object has the key.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.shape().place(key).is_some()
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots().len()
    }

    /// Returns `true` if there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots().is_empty()
    }

    /// The entries in order.
    pub fn iter(&self) -> Entries<'_> {
        self.shape().keys().zip(self.slots())
    }

    /// The keys in order.
    #[must_use]
    pub fn keys(&self) -> Keys<'_> {
        self.shape().keys()
    }

    /// The values in order.
    pub fn values(&self) -> std::slice::Iter<'_, Value> {
        self.slots().iter()
    }

    /// Returns `true` if both are the same object, not just equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr() == other.0.ptr()
    }

    pub(super) fn address(&self) -> usize {
        self.0.ptr().addr()
    }

    /// The entries, to be changed.
    #[must_use]
    pub fn to_map(&self) -> Map {
        self.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Sets the value of a key: in place where the key is known and no one else holds the object.
    pub fn insert(&mut self, key: &str, value: Value) {
        let Some(place) = self.shape().place(key) else {
            let keys = self.keys().cloned().chain([key.into()]).collect();
            let values = self.values().cloned().chain([value]).collect();
            *self = Self::of_keys(keys, values);
            return;
        };
        self.set_at(place, value);
    }

    /// Sets the value at a place of the shape: in place where no one else holds the object.
    pub fn set_at(&mut self, place: usize, value: Value) {
        let Some(before) = self.slots().get(place) else { return };
        let (shape, taken) = (self.shape(), value.measure());
        let key = shape.written_key(place);
        let entry = |value: &Value, bytes: u64| match value {
            Value::Undefined => 0,
            // With its comma.
            _ => key.saturating_add(bytes).saturating_add(1),
        };
        let (before, after) = (entry(before, before.measure().bytes()), entry(&value, taken.bytes()));
        let measure = self.measure().replace(before, after, taken.depth() + shape.levels());
        let unset = self.0.with_arc_mut(|shared| match Arc::get_mut(shared) {
            Some(owned) => {
                owned.header_mut().measure = measure;
                if let Some(slot) = owned.slice_mut().get_mut(place) {
                    *slot = value;
                }
                None
            }
            None => Some(value),
        });
        if let Some(value) = unset {
            let shape = self.shape().clone();
            let mut values = self.slots().to_vec();
            if let Some(slot) = values.get_mut(place) {
                *slot = value;
            }
            self.0 = ThinArc::from_header_and_iter(Head { shape, measure }, values.into_iter());
        }
    }

    /// Removes a key and gives its value.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        let mut map = self.to_map();
        let value = map.shift_remove(key)?;
        *self = map.into();
        Some(value)
    }

    pub(super) fn take_deep_parts(&mut self, into: &mut Vec<Value>) {
        self.0.with_arc_mut(|shared| {
            if let Some(owned) = Arc::get_mut(shared) {
                deep::take(owned.slice_mut(), into);
            }
        });
    }
}

impl Drop for Object {
    #[inline]
    fn drop(&mut self) {
        if self.measure().depth() > deep::MAX_PLAIN_NESTING {
            let mut parts = Vec::new();
            self.take_deep_parts(&mut parts);
            deep::release(parts);
        }
    }
}

impl From<Map> for Object {
    fn from(map: Map) -> Self {
        let (keys, values) = map.into_iter().unzip();
        Self::of_keys(keys, values)
    }
}

impl<K: Into<Text>> FromIterator<(K, Value)> for Object {
    fn from_iter<I: IntoIterator<Item = (K, Value)>>(entries: I) -> Self {
        let (keys, values) = entries.into_iter().map(|(key, value)| (key.into(), value)).unzip();
        Self::of_keys(keys, values)
    }
}

impl Default for Object {
    fn default() -> Self {
        Self::of_keys(Vec::new(), Vec::new())
    }
}

impl<'a> IntoIterator for &'a Object {
    type Item = (&'a Text, &'a Value);
    type IntoIter = Entries<'a>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Structural equality, without regard to order.
impl PartialEq for Object {
    fn eq(&self, other: &Self) -> bool {
        deep::equal(&Value::Object(self.clone()), &Value::Object(other.clone()))
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl serde::Serialize for Object {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde::Serialize::serialize(&Value::Object(self.clone()), serializer)
    }
}
