//! The outcome that a judge decides.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// A judge's outcome. `"X"` and `:X` are different outcomes, and nothing converts one into the other.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// A string.
    Text(Arc<str>),
    /// A keyword, without its colon.
    Keyword(Arc<str>),
}

impl fmt::Display for Outcome {
    /// As EDN writes it: `"X"` or `:X`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Keyword(name) => write!(f, ":{name}"),
        }
    }
}

/// A judge's decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// Exactly one, of those that the judge declares.
    pub outcome: Outcome,
    /// The judge's explanation, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}
