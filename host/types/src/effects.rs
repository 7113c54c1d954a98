//! The effects of repeating a call.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The effect of making the same call twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effects {
    /// No effect outside the result.
    Pure,
    /// Repeating it with the same idempotency key has the effect of doing it once.
    Idempotent,
    /// Must not be repeated without a person's consent.
    #[default]
    Once,
}

impl Effects {
    /// `pure`, `idempotent` or `once`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Once => "once",
        }
    }
}

impl fmt::Display for Effects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
