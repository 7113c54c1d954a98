//! Rules that a document declares about its own use.

use serde::{Deserialize, Serialize};

/// The rules of a document's governance that its host decides about before a run starts (PromptPack RFC 0013, 0016).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Governance {
    /// The environments that the document is approved for; absent: any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environments: Option<Vec<String>>,
    /// Declared rules that no host of this version enforces, by the names of their fields: a run needs its operator's
    /// consent to each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unenforced: Vec<String>,
}

impl Governance {
    /// Returns `true` if a host has nothing to decide about.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
