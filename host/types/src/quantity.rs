//! Sizes and durations as people write them, read once.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use std::{fmt, str::FromStr, time::Duration};

/// A text that is not a quantity of the wanted unit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not {expected}{}", crate::text::one_line(.text, 100), meant.as_deref().unwrap_or_default())]
pub struct InvalidQuantity {
    text: String,
    /// The form of a valid text.
    pub expected: &'static str,
    /// The end of the message, if the unit is a known one in another spelling.
    meant: Option<String>,
}

/// Other spellings of units, in lower case, and how many of which unit each is.
const SPELLINGS: [(&[&str], u64, &str); 13] = [
    (&["b", "byte", "bytes"], 1, "B"),
    (&["k", "kb", "kilobyte", "kilobytes"], 1, "kB"),
    (&["m", "mb", "megabyte", "megabytes"], 1, "MB"),
    (&["g", "gb", "gigabyte", "gigabytes"], 1, "GB"),
    (&["ki", "kib"], 1, "KiB"),
    (&["mi", "mib"], 1, "MiB"),
    (&["gi", "gib"], 1, "GiB"),
    (&["ms", "msec", "millis", "millisecond", "milliseconds"], 1, "ms"),
    (&["s", "sec", "secs", "second", "seconds"], 1, "s"),
    (&["m", "min", "mins", "minute", "minutes"], 1, "min"),
    (&["h", "hr", "hrs", "hour", "hours"], 1, "h"),
    (&["d", "day", "days"], 24, "h"),
    (&["w", "week", "weeks"], 168, "h"),
];

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
                let factor = |unit: &str| -> Option<u64> {
                    Some(match unit {
                        $($unit => $factor,)+
                        _ => return None,
                    })
                };
                let wrong = |meant| InvalidQuantity { text: text.to_owned(), expected: Self::EXPECTED, meant };
                let (number, unit) = split(text).ok_or_else(|| wrong(None))?;
                let Some(factor) = factor(unit) else {
                    let spelling = unit.to_lowercase();
                    let known = SPELLINGS.iter().filter(|(_, _, unit)| factor(unit).is_some());
                    let meant = known.filter(|(spellings, ..)| spellings.contains(&&*spelling)).find_map(
                        |(_, times, unit)| Some(format!("; did you mean `{} {unit}`?", number.checked_mul(*times)?)),
                    );
                    return Err(wrong(meant));
                };
                number.checked_mul(factor).map(Self).ok_or_else(|| wrong(None))
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
        let message = |error: super::InvalidQuantity| error.to_string();
        let size = |text: &str| message(text.parse::<ByteSize>().unwrap_err());
        assert!(size("64 mib").ends_with("; did you mean `64 MiB`?"), "{}", size("64 mib"));
        assert!(size("64 M").ends_with("; did you mean `64 MB`?"), "{}", size("64 M"));
        assert!(size("5 s").ends_with("`64 MB`"), "{}", size("5 s"));
        let time = |text: &str| message(text.parse::<Milliseconds>().unwrap_err());
        assert!(time("3 Secs").ends_with("; did you mean `3 s`?"), "{}", time("3 Secs"));
        assert!(time("2 days").ends_with("; did you mean `48 h`?"), "{}", time("2 days"));
        assert!(time("99999999999999999999 days").ends_with("`2 min`"));
        assert!(time("9999999999999999999 days").ends_with("`2 min`"));
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
