//! Numbers, as exact as their text was.

use std::fmt;

/// A number: an integer where its text was one that fits, else a double. Doubles may be non-finite inside the host
/// (WorkflowSkill computes with them); JSON writes those as `null`.
// Packed, so that a value of sixteen bytes has room for it beside its own tag.
#[derive(Clone, Copy)]
#[repr(Rust, packed)]
pub struct Number {
    form: Form,
    bits: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Integer,
    Unsigned,
    Float,
}

/// A number, to match on.
#[derive(Debug, Clone, Copy)]
pub enum NumberKind {
    /// A signed integer.
    Integer(i64),
    /// An unsigned integer above `i64::MAX`.
    Unsigned(u64),
    /// Anything else.
    Float(f64),
}

impl Number {
    /// The number, to match on.
    #[must_use]
    #[inline]
    pub fn kind(self) -> NumberKind {
        match self.form {
            Form::Integer => NumberKind::Integer(self.bits.cast_signed()),
            Form::Unsigned => NumberKind::Unsigned(self.bits),
            Form::Float => NumberKind::Float(f64::from_bits(self.bits)),
        }
    }

    /// The nearest double.
    #[must_use]
    #[inline]
    pub fn as_f64(self) -> f64 {
        match self.kind() {
            NumberKind::Integer(n) => n as f64,
            NumberKind::Unsigned(n) => n as f64,
            NumberKind::Float(n) => n,
        }
    }

    /// The integer, where the number is one that fits.
    #[must_use]
    pub fn as_i64(self) -> Option<i64> {
        match self.kind() {
            NumberKind::Integer(n) => Some(n),
            NumberKind::Unsigned(_) | NumberKind::Float(_) => None,
        }
    }

    /// The integer, where the number is one from 0 that fits.
    #[must_use]
    pub fn as_u64(self) -> Option<u64> {
        match self.kind() {
            NumberKind::Integer(n) => u64::try_from(n).ok(),
            NumberKind::Unsigned(n) => Some(n),
            NumberKind::Float(_) => None,
        }
    }

    /// How many bytes the number takes as JSON.
    pub(super) fn written(self) -> usize {
        match self.kind() {
            NumberKind::Integer(n) => usize::from(n < 0) + digits(n.unsigned_abs()),
            NumberKind::Unsigned(n) => digits(n),
            NumberKind::Float(n) if n.is_finite() => zmij::Buffer::new().format_finite(n).len(),
            NumberKind::Float(_) => "null".len(),
        }
    }
}

fn digits(n: u64) -> usize {
    n.checked_ilog10().map_or(1, |log| log as usize + 1)
}

impl From<i64> for Number {
    #[inline]
    fn from(n: i64) -> Self {
        Self { form: Form::Integer, bits: n.cast_unsigned() }
    }
}

impl From<u64> for Number {
    #[inline]
    fn from(n: u64) -> Self {
        i64::try_from(n).map_or(Self { form: Form::Unsigned, bits: n }, Self::from)
    }
}

impl From<f64> for Number {
    #[inline]
    fn from(n: f64) -> Self {
        Self { form: Form::Float, bits: n.to_bits() }
    }
}

impl PartialEq for Number {
    #[inline]
    fn eq(&self, other: &Self) -> bool {
        match (self.kind(), other.kind()) {
            (NumberKind::Integer(a), NumberKind::Integer(b)) => a == b,
            (NumberKind::Unsigned(a), NumberKind::Unsigned(b)) => a == b,
            _ => self.as_f64() == other.as_f64(),
        }
    }
}

impl fmt::Debug for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind() {
            NumberKind::Integer(n) => n.fmt(f),
            NumberKind::Unsigned(n) => n.fmt(f),
            NumberKind::Float(n) => fmt::Debug::fmt(&n, f),
        }
    }
}
