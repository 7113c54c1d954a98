//! The size that an aggregate would have if it were written, computed once when it is built.

use super::{Shape, Value};

/// The number of bytes that a value takes as JSON without spaces, and its nesting. Parts that are shared count wherever
/// they appear, because that is what writing them costs. Both numbers saturate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Measure(u64);

const DEPTH_BITS: u32 = 16;

impl Measure {
    fn new(bytes: u64, depth: u32) -> Self {
        let depth = u64::from(depth).min((1 << DEPTH_BITS) - 1);
        Self(bytes.min(u64::MAX >> DEPTH_BITS) << DEPTH_BITS | depth)
    }

    /// Bytes of JSON text.
    #[must_use]
    pub fn bytes(self) -> u64 {
        self.0 >> DEPTH_BITS
    }

    /// Levels of arrays and objects: 0 for a scalar, 1 for `[]`, 2 for `[[]]`.
    #[must_use]
    pub fn depth(self) -> u32 {
        (self.0 & ((1 << DEPTH_BITS) - 1)) as u32
    }

    /// The same with an entry replaced. The depth never falls: what was replaced may not have been the deepest part.
    pub(super) fn replace(self, before: u64, after: u64, depth: u32) -> Self {
        // An entry is counted with its comma, which the only one does not have.
        let bytes = match (self.bytes(), before) {
            (bytes, 0) if bytes == 2 => bytes.saturating_add(after).saturating_sub(u64::from(after > 0)),
            (bytes, before) => bytes.saturating_sub(before).saturating_add(after).max(2),
        };
        Self::new(bytes, self.depth().max(depth))
    }

    pub(super) fn of(value: &Value) -> Self {
        let bytes = match value {
            Value::Undefined | Value::Null | Value::Bool(true) => 4,
            Value::Bool(false) => 5,
            Value::Number(n) => n.written(),
            Value::String(text) => text.len() + text.escapes() + 2,
            Value::Array(items) => return items.measure(),
            Value::Object(entries) => return entries.measure(),
        };
        Self((bytes as u64) << DEPTH_BITS)
    }

    pub(super) fn of_items(items: &[Value]) -> Self {
        let (mut bytes, mut depth) = (2 + (items.len() as u64).saturating_sub(1), 0);
        for item in items {
            let measure = Self::of(item);
            bytes = bytes.saturating_add(measure.bytes());
            depth = depth.max(measure.depth());
        }
        Self::new(bytes, depth + 1)
    }

    pub(super) fn of_entries(shape: &Shape, values: &[Value]) -> Self {
        let (mut bytes, mut depth, mut written) = (shape.written() + 2, 0, 0_u64);
        for (at, value) in values.iter().enumerate() {
            if let Value::Undefined = value {
                bytes = bytes.saturating_sub(shape.written_key(at));
                continue;
            }
            written += 1;
            let measure = Self::of(value);
            bytes = bytes.saturating_add(measure.bytes());
            depth = depth.max(measure.depth());
        }
        Self::new(bytes.saturating_add(written.saturating_sub(1)), depth + shape.levels())
    }
}
