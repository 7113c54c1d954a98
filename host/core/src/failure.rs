//! Why an effect did not succeed, and what repeating one would do.

use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What happens when the same effect is performed twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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

/// Why an effect did not succeed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failure {
    /// Stable and machine-readable, kebab-case: what the plugin said, or the sandbox's error kind (`timeout`, `denied`, …).
    pub reason: Arc<str>,
    /// One sentence.
    pub message: String,
    /// Structured details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// Whether a `retry` may repeat it.
    #[serde(default)]
    pub retriable: bool,
}
