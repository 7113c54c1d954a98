//! Why something did not succeed, and who says so.

use crate::{denial::Denial, value::Value};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The party that reports a failure. A reason is only unique within its source: a plugin may fail with the reason
/// `timeout`, and that is not the sandbox's `timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Source {
    /// The host: its tools, its sessions, its configuration.
    #[default]
    Host,
    /// The sandbox around a plugin: limits, traps, denials.
    Sandbox,
    /// The plugin's own code, with a reason of its own choice.
    Plugin,
    /// The engine, by the rules of the document.
    Engine,
    /// A model or its provider.
    Model,
    /// A tool server outside of the host, with a message of its own choice.
    Tool,
}

impl Source {
    /// As JSON has it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Sandbox => "sandbox",
            Self::Plugin => "plugin",
            Self::Engine => "engine",
            Self::Model => "model",
            Self::Tool => "tool",
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why an effect did not succeed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Failure {
    /// The party that reports it.
    #[serde(default)]
    pub source: Source,
    /// Stable and machine-readable, kebab-case; unique within its source.
    pub reason: Arc<str>,
    /// One sentence for people.
    pub message: String,
    /// Structured details.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The refusal, where the host or the sandbox refused something. A plugin's own failure never has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Box<Denial>>,
    /// `true` if a `retry` may repeat it.
    #[serde(default)]
    pub retriable: bool,
}

impl Failure {
    /// The reason of every refusal, and the one with which a plugin passes a refusal on.
    pub const DENIED: &'static str = "denied";

    /// A failure that a retry does not change.
    #[must_use]
    pub fn new(source: Source, reason: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self { source, reason: reason.into(), message: message.into(), details: None, denial: None, retriable: false }
    }

    /// As [`Self::new`], said by the host.
    #[must_use]
    pub fn host(reason: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self::new(Source::Host, reason, message)
    }

    /// As [`Self::new`], said by the engine.
    #[must_use]
    pub fn engine(reason: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self::new(Source::Engine, reason, message)
    }

    /// The refusal of something by the host, with the reason `denied` and the refusal as its message.
    #[must_use]
    pub fn denied(denial: Denial) -> Self {
        let message = denial.to_string();
        Self { denial: Some(Box::new(denial)), ..Self::host(Self::DENIED, message) }
    }

    /// The same with structured details.
    #[must_use]
    pub fn with_details(self, details: impl Into<Value>) -> Self {
        Self { details: Some(details.into()), ..self }
    }

    /// The same with the refusal that caused it.
    #[must_use]
    pub fn with_denial(self, denial: Denial) -> Self {
        Self { denial: Some(Box::new(denial)), ..self }
    }

    /// The same, and a retry may repeat it.
    #[must_use]
    pub fn retriable(self) -> Self {
        Self { retriable: true, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::{Failure, Source};
    use crate::{
        Denial,
        denial::{Access, Capability, Remedy},
    };

    #[test]
    fn the_same_reason_from_another_source_is_another_failure() {
        let of = |source| Failure::new(source, "timeout", "too slow");
        assert_ne!(of(Source::Plugin), of(Source::Sandbox));
        let json = serde_json::to_value(of(Source::Plugin)).unwrap();
        assert_eq!(json["source"], "plugin");
        assert_eq!(serde_json::from_value::<Failure>(json).unwrap(), of(Source::Plugin));
    }

    #[test]
    fn a_refusal_keeps_its_remedy_as_data() {
        let remedy = Remedy::Grant {
            plugin: "triage".into(),
            capability: Capability::Files,
            name: "repo".to_owned(),
            access: Some(Access::ReadWrite),
        };
        let failure = Failure::denied(Denial::new("files repo", "it is not granted", remedy));
        assert_eq!(failure.message, "files repo is denied: it is not granted");
        let json = serde_json::to_value(&failure).unwrap();
        assert_eq!(
            json["denial"]["remedy"],
            serde_json::json!({"kind": "grant", "plugin": "triage", "capability": "files", "name": "repo", "access": "read-write"})
        );
        assert_eq!(serde_json::from_value::<Failure>(json).unwrap(), failure);
    }
}
