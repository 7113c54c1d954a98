//! Numbers, as exact as their text was.

use std::{cmp::Ordering, fmt};

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

    /// The order of two numbers by their exact values: an integer is never rounded to be compared with a double. `None`
    /// where one is not a number.
    #[must_use]
    #[inline]
    pub fn compare(self, other: Self) -> Option<Ordering> {
        match (self.kind(), other.kind()) {
            (NumberKind::Integer(a), NumberKind::Integer(b)) => Some(a.cmp(&b)),
            (NumberKind::Float(a), NumberKind::Float(b)) => a.partial_cmp(&b),
            (NumberKind::Float(a), b) => compare_double(wide(b), a).map(Ordering::reverse),
            (a, NumberKind::Float(b)) => compare_double(wide(a), b),
            (a, b) => Some(wide(a).cmp(&wide(b))),
        }
    }

    /// Returns the number of bytes that the number takes as JSON.
    pub(super) fn written(self) -> usize {
        match self.kind() {
            NumberKind::Integer(n) => usize::from(n < 0) + digits(n.unsigned_abs()),
            NumberKind::Unsigned(n) => digits(n),
            NumberKind::Float(n) if n.is_finite() => zmij::Buffer::new().format_finite(n).len(),
            NumberKind::Float(_) => "null".len(),
        }
    }
}

/// An integer of either form; 0 for a double, which is none.
fn wide(n: NumberKind) -> i128 {
    match n {
        NumberKind::Integer(n) => n.into(),
        NumberKind::Unsigned(n) => n.into(),
        NumberKind::Float(_) => 0,
    }
}

/// The order of an integer of 64 bits and a double.
#[expect(clippy::cast_possible_truncation, reason = "whole doubles of this size fit in 128 bits, larger ones saturate")]
fn compare_double(integer: i128, double: f64) -> Option<Ordering> {
    if double.is_nan() {
        return None;
    }
    let whole = double.trunc();
    // What the double has beyond its whole part decides where the integer equals that.
    Some(integer.cmp(&(whole as i128)).then_with(|| whole.total_cmp(&double)))
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
        self.compare(*other) == Some(Ordering::Equal)
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

#[cfg(test)]
mod tests {
    use super::Number;
    use std::cmp::Ordering::{Equal, Greater, Less};

    #[test]
    fn integers_are_compared_whole_with_integers_and_with_doubles() {
        let (i, u, f) = (|n: i64| Number::from(n), |n: u64| Number::from(n), |n: f64| Number::from(n));
        for (a, b, order) in [
            (i(9_007_199_254_740_993), i(9_007_199_254_740_992), Greater),
            (i(9_007_199_254_740_993), f(9_007_199_254_740_992.0), Greater),
            (i(-9_007_199_254_740_993), f(-9_007_199_254_740_992.0), Less),
            (u(u64::MAX), u(u64::MAX - 1), Greater),
            (u(u64::MAX), f(18_446_744_073_709_551_616.0), Less),
            (i(i64::MAX), f(9_223_372_036_854_775_808.0), Less),
            (i(i64::MIN), f(-9_223_372_036_854_775_808.0), Equal),
            (u(u64::MAX), i(-1), Greater),
            (i(5), f(5.0), Equal),
            (i(5), f(5.5), Less),
            (i(-5), f(-5.5), Greater),
            (i(0), f(-0.5), Greater),
            (i(0), f(-0.0), Equal),
            (i(i64::MAX), f(f64::INFINITY), Less),
            (i(i64::MIN), f(f64::NEG_INFINITY), Greater),
        ] {
            assert_eq!(a.compare(b), Some(order), "{a:?} {b:?}");
            assert_eq!(b.compare(a), Some(order.reverse()), "{b:?} {a:?}");
            assert_eq!(a == b, order == Equal, "{a:?} {b:?}");
        }
        assert_eq!(i(1).compare(f(f64::NAN)), None);
        assert!(f(f64::NAN) != f(f64::NAN));
    }
}
