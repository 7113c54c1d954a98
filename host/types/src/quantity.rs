//! Sizes and durations as people write them, read once.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr, time::Duration};

/// A text that is not a quantity of the wanted unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}", crate::text::one_line(.text, 100))]
pub struct InvalidQuantity {
    text: String,
    /// The form of a valid text.
    pub expected: &'static str,
}

/// The number before the unit, and the unit.
fn split(text: &str) -> Option<(u64, &str)> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    Some((number.replace('_', "").parse().ok()?, unit.trim()))
}

/// The largest unit that loses nothing.
fn show(f: &mut fmt::Formatter<'_>, mut value: u64, units: &[(&str, u64)]) -> fmt::Result {
    let mut unit = units.first().map_or("", |(name, _)| name);
    for (larger, step) in units.iter().skip(1) {
        if value < *step || !value.is_multiple_of(*step) {
            break;
        }
        (value, unit) = (value / step, larger);
    }
    write!(f, "{value} {unit}")
}

macro_rules! quantity {
    ($(#[$doc:meta])+ $name:ident, $expected:literal, [$($unit:pat => $factor:expr),+], [$($shown:expr),+]) => {
        $(#[$doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// An example of a text of this kind, for messages.
            pub const EXPECTED: &'static str = $expected;
        }

        impl FromStr for $name {
            type Err = InvalidQuantity;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                let wrong = || InvalidQuantity { text: text.to_owned(), expected: Self::EXPECTED };
                let (number, unit) = split(text).ok_or_else(wrong)?;
                let factor: u64 = match unit {
                    $($unit => $factor,)+
                    _ => return Err(wrong()),
                };
                number.checked_mul(factor).map(Self).ok_or_else(wrong)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                show(f, self.0, &[$($shown),+])
            }
        }

        impl<'de> Deserialize<'de> for $name {
            /// From a number, or a text with a unit.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Deserialize)]
                #[serde(untagged)]
                enum Written {
                    Number(u64),
                    Text(String),
                }
                match Written::deserialize(deserializer)? {
                    Written::Number(number) => Ok(Self(number)),
                    Written::Text(text) => text.parse().map_err(D::Error::custom),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(self.0)
            }
        }
    };
}

quantity! {
    /// Bytes: `4096`, `64 KiB`, `1 MiB`, `64 MB`.
    ByteSize, "a size such as `4096`, `64 KiB` or `64 MB`",
    ["" | "B" => 1, "kB" | "KB" => 1_000, "MB" => 1_000_000, "GB" => 1_000_000_000,
     "KiB" => 1 << 10, "MiB" => 1 << 20, "GiB" => 1 << 30],
    [("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 10), ("GiB", 1 << 10)]
}

quantity! {
    /// Milliseconds: `500`, `500 ms`, `30 s`, `2 min`, `1 h`.
    Milliseconds, "a duration such as `500 ms`, `30 s` or `2 min`",
    ["" | "ms" => 1, "s" => 1_000, "min" | "m" => 60_000, "h" => 3_600_000],
    [("ms", 1), ("s", 1_000)]
}

impl From<Milliseconds> for Duration {
    fn from(time: Milliseconds) -> Self {
        Self::from_millis(time.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{ByteSize, Milliseconds};

    #[test]
    fn quantities_are_read_with_or_without_a_unit() {
        let size = |text: &str| text.parse::<ByteSize>().map(|size| size.0);
        assert_eq!((size("4096"), size("64 KiB"), size("1_000 kB")), (Ok(4096), Ok(65536), Ok(1_000_000)));
        let time = |text: &str| text.parse::<Milliseconds>().map(|time| time.0);
        assert_eq!((time("30s"), time("2 min"), time("1 h")), (Ok(30_000), Ok(120_000), Ok(3_600_000)));
        assert_eq!(serde_json::from_str::<ByteSize>("\"1 MiB\"").unwrap(), ByteSize(1 << 20));
        assert_eq!(serde_json::from_str::<ByteSize>("7").unwrap(), ByteSize(7));
    }

    #[test]
    fn what_is_not_a_quantity_is_refused_with_what_would_be_one() {
        let error = "12 potatoes".parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(error, "`12 potatoes` is not a size such as `4096`, `64 KiB` or `64 MB`");
        assert!("99999999999 GiB".parse::<ByteSize>().is_err());
        assert!("1 MiB".parse::<Milliseconds>().is_err());
    }

    #[test]
    fn quantities_are_shown_in_the_largest_unit_that_loses_nothing() {
        assert_eq!(ByteSize(64 << 20).to_string(), "64 MiB");
        assert_eq!(ByteSize(1_500).to_string(), "1500 B");
        assert_eq!(Milliseconds(30_000).to_string(), "30 s");
    }
}
