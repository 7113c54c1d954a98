//! The ids of the parts of a run, and moments.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A moment: microseconds since 1970-01-01T00:00:00Z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Milliseconds from `earlier` to this moment; 0 if the clock went back.
    #[must_use]
    pub fn ms_since(self, earlier: Self) -> f64 {
        self.0.saturating_sub(earlier.0).max(0) as f64 / 1000.0
    }

    /// RFC 3339, in UTC, to the microsecond.
    #[must_use]
    pub fn to_text(self) -> String {
        jiff::Timestamp::from_microsecond(self.0).map_or_else(|_| self.0.to_string(), |moment| format!("{moment:.6}"))
    }

    /// The moment `ms` milliseconds later.
    #[must_use]
    pub fn plus_ms(self, ms: f64) -> Self {
        Self(self.0.saturating_add((ms * 1000.0) as i64))
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id! {
    /// One running workflow of a run: the run's own is 0, each delegate opens another.
    InstanceId(u32)
}
id! {
    /// One place of control: a line of steps, an entry into a step, or one element of a step with `each`. Never reused
    /// in a run.
    FrameId(u64)
}
id! {
    /// One effect. Never reused in a run.
    EffectId(u64)
}
