//! Arrays: one shared, measured allocation.

use super::{Measure, Value, deep};
use std::{fmt, ops::Deref};
use triomphe::{Arc, ThinArc};

/// The items of a JSON array. Cloning is constant time; a clone is the *same* array.
#[derive(Clone)]
pub struct Array(ThinArc<Measure, Value>);

impl Array {
    /// An array of what an iterator gives, which knows how much that is.
    fn new(items: impl ExactSizeIterator<Item = Value> + AsRef<[Value]>) -> Self {
        Self(ThinArc::from_header_and_iter(Measure::of_items(items.as_ref()), items))
    }

    /// An array of the last items of a list, which loses them.
    pub(super) fn drain(items: &mut Vec<Value>, from: usize) -> Self {
        let measure = Measure::of_items(items.get(from..).unwrap_or_default());
        Self(ThinArc::from_header_and_iter(measure, items.drain(from.min(items.len())..)))
    }

    /// The items in another order: the position of each, once.
    #[must_use]
    pub fn in_order(items: &[Value], order: impl ExactSizeIterator<Item = usize>) -> Self {
        // Items are where they were made, one after the other. Each is read once and in that order, for in the new one
        // most would have to come from memory.
        let mut cloned = items.to_vec();
        let ordered = order.map(|at| cloned.get_mut(at).map(std::mem::take).unwrap_or_default());
        Self(ThinArc::from_header_and_iter(Measure::of_items(items), ordered))
    }

    /// Returns the size of the array when it is written, and its nesting.
    #[must_use]
    #[inline]
    pub fn measure(&self) -> Measure {
        self.0.header.header
    }

    /// Returns `true` if both are the same array, not just equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.0.ptr() == other.0.ptr()
    }

    pub(super) fn address(&self) -> usize {
        self.0.ptr().addr()
    }

    pub(super) fn take_deep_parts(&mut self, into: &mut Vec<Value>) {
        self.0.with_arc_mut(|shared| {
            if let Some(owned) = Arc::get_mut(shared) {
                deep::take(owned.slice_mut(), into);
            }
        });
    }
}

impl Drop for Array {
    #[inline]
    fn drop(&mut self) {
        if self.measure().depth() > deep::MAX_PLAIN_NESTING {
            let mut parts = Vec::new();
            self.take_deep_parts(&mut parts);
            deep::release(parts);
        }
    }
}

impl Deref for Array {
    type Target = [Value];

    #[inline]
    fn deref(&self) -> &[Value] {
        &self.0.slice
    }
}

impl From<Vec<Value>> for Array {
    fn from(items: Vec<Value>) -> Self {
        Self::new(items.into_iter())
    }
}

impl FromIterator<Value> for Array {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        items.into_iter().collect::<Vec<_>>().into()
    }
}

impl<'a> IntoIterator for &'a Array {
    type Item = &'a Value;
    type IntoIter = std::slice::Iter<'a, Value>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Default for Array {
    fn default() -> Self {
        Vec::new().into()
    }
}

/// Structural equality.
impl PartialEq for Array {
    fn eq(&self, other: &Self) -> bool {
        deep::equal(&Value::Array(self.clone()), &Value::Array(other.clone()))
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
