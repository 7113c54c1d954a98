//! Names that parse once and cannot be wrong later.

use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// `namespace/name`, each part `[a-z0-9][a-z0-9-]*` (the rule of psi's operation registry).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct OperationId(Arc<str>);

/// A text that is not an [`OperationId`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an operation id: expected `namespace/name`, each part matching [a-z0-9][a-z0-9-]*")]
pub struct InvalidOperationId(String);

impl OperationId {
    /// The whole id.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn part_is_valid(part: &str) -> bool {
        let mut bytes = part.bytes();
        bytes.next().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            && bytes.all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    }
}

impl std::str::FromStr for OperationId {
    type Err = InvalidOperationId;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('/') {
            Some((namespace, name)) if Self::part_is_valid(namespace) && Self::part_is_valid(name) => {
                Ok(Self(text.into()))
            }
            _ => Err(InvalidOperationId(text.to_owned())),
        }
    }
}

impl TryFrom<String> for OperationId {
    type Error = InvalidOperationId;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<OperationId> for String {
    fn from(id: OperationId) -> Self {
        id.0.as_ref().to_owned()
    }
}

impl fmt::Display for OperationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A judge's decision. `"X"` and `:X` are different outcomes, and nothing converts one into the other.
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
