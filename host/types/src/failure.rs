//! Why something did not succeed, and who says so.

use crate::{denial::Denial, input::InputRequest, value::Value};
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
    /// The input that the call needs from a person before it can continue, where a tool asks for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<InputRequest>>,
    /// `true` if a `retry` may repeat it.
    #[serde(default)]
    pub retriable: bool,
}

impl Failure {
    /// The reason of every refusal, and the one with which a plugin passes a refusal on.
    pub const DENIED: &'static str = "denied";

    /// The reason, with the source [`Source::Host`], of a panic in the embedding program's code.
    pub const PANICKED: &'static str = "panicked";

    /// The reason, with the source [`Source::Host`], of a call on a host that is closing.
    pub const CLOSING: &'static str = "shutting-down";

    /// A failure that a retry does not change.
    #[must_use]
    pub fn new(source: Source, reason: impl Into<Arc<str>>, message: impl Into<String>) -> Self {
        Self {
            source,
            reason: reason.into(),
            message: message.into(),
            details: None,
            denial: None,
            input: None,
            retriable: false,
        }
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

    /// The same with the input that the call needs.
    #[must_use]
    pub fn with_input(self, request: InputRequest) -> Self {
        Self { input: Some(Box::new(request)), ..self }
    }

    /// The same, and a retry may repeat it.
    #[must_use]
    pub fn retriable(self) -> Self {
        Self { retriable: true, ..self }
    }
}

/// Kinds of failures, for programs that act on them: [`Failure::kind`].
///
/// A kind follows from the source *and* the reason of a failure. A plugin, a model's provider and a tool server choose
/// their reasons themselves, and whatever they choose, theirs are [`Plugin`](Self::Plugin), [`Model`](Self::Model) and
/// [`Tool`](Self::Tool): a plugin that fails with the reason `busy` has run, and is not [`Busy`](Self::Busy).
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum FailureKind<'a> {
    /// No cell became free in time, or too many calls wait already. Nothing has run: the same call may be made again.
    Busy,
    /// The time of the call was up. What it had begun may have happened.
    Timeout,
    /// The caller cancelled it.
    Cancelled,
    /// A rule of the operator refused something.
    Denied(&'a Denial),
    /// The arguments are not what the operation or the tool takes. Nothing has run.
    InvalidArguments,
    /// There is no such operation, judge or tool. Nothing has run.
    Unknown,
    /// A limit of the cell other than its wall time, by its reason: `memory`, `out-of-fuel`, `interrupted`,
    /// `stack-overflow`, `transfer-limit`, `handle-limit` or `host-call-limit`.
    Limit(&'a str),
    /// The plugin's code trapped or panicked.
    Trap,
    /// The plugin broke its contract: a result that does not match its own schema, or is malformed.
    Malformed,
    /// A tool, a model or a sink of the embedding program panicked.
    Panicked,
    /// The host is closing, and accepts no calls.
    Closing,
    /// The plugin's own failure, with a reason of its choice.
    Plugin(&'a str),
    /// A failure of a model or its provider, with its reason.
    Model(&'a str),
    /// A failure of a tool server, with its reason.
    Tool(&'a str),
    /// Any other failure of the host, by its reason; a tool of the embedding program fails so.
    Host(&'a str),
    /// Any other failure by the rules of the document, by its reason.
    Engine(&'a str),
}

/// Parties that can correct the cause of a failure: [`Failure::fault`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Fault {
    /// The caller: the arguments, the name, or the decision to cancel.
    Caller,
    /// The operator: a grant, a limit, a part that is not configured.
    Operator,
    /// The author of the plugin.
    Plugin,
    /// The load of this machine; the call may be made again.
    Load,
    /// The host: the embedding program, or Opcell itself.
    Host,
    /// Something outside of this machine: a model's provider or a tool server.
    Remote,
    /// The author of the document.
    Document,
}

impl Failure {
    /// The kind of the failure, from its source and its reason.
    ///
    /// ```
    /// use opcell_types::{Failure, FailureKind, Source};
    ///
    /// assert_eq!(Failure::new(Source::Sandbox, "busy", "no free cell").kind(), FailureKind::Busy);
    /// // A plugin that has run may say what it likes.
    /// assert_eq!(Failure::new(Source::Plugin, "busy", "try again").kind(), FailureKind::Plugin("busy"));
    /// ```
    #[must_use]
    pub fn kind(&self) -> FailureKind<'_> {
        let reason = self.reason.as_ref();
        match self.source {
            Source::Plugin => return FailureKind::Plugin(reason),
            Source::Model => return FailureKind::Model(reason),
            Source::Tool => return FailureKind::Tool(reason),
            Source::Host | Source::Sandbox | Source::Engine => {}
        }
        if let Some(denial) = &self.denial {
            return FailureKind::Denied(denial);
        }
        match (self.source, reason) {
            (Source::Sandbox, "busy") => FailureKind::Busy,
            (_, "timeout") => FailureKind::Timeout,
            (_, "cancelled") => FailureKind::Cancelled,
            (_, "invalid-arguments") => FailureKind::InvalidArguments,
            (
                _,
                "unknown-operation"
                | "unknown-judge"
                | "unknown-tool"
                | "missing-deterministic-operation"
                | "missing-judge",
            ) => FailureKind::Unknown,
            (
                Source::Sandbox,
                "memory" | "out-of-fuel" | "interrupted" | "stack-overflow" | "transfer-limit" | "handle-limit"
                | "host-call-limit",
            ) => FailureKind::Limit(reason),
            (Source::Sandbox, "trap") => FailureKind::Trap,
            (Source::Sandbox, "abi-violation" | "malformed-result") => FailureKind::Malformed,
            (Source::Host, Self::PANICKED) => FailureKind::Panicked,
            (Source::Host, Self::CLOSING) => FailureKind::Closing,
            (Source::Engine, _) => FailureKind::Engine(reason),
            _ => FailureKind::Host(reason),
        }
    }

    /// The party that can correct the cause.
    #[must_use]
    pub fn fault(&self) -> Fault {
        match self.kind() {
            FailureKind::InvalidArguments | FailureKind::Unknown | FailureKind::Cancelled => Fault::Caller,
            FailureKind::Denied(_) => Fault::Operator,
            FailureKind::Plugin(_) | FailureKind::Limit(_) | FailureKind::Trap | FailureKind::Malformed => {
                Fault::Plugin
            }
            FailureKind::Busy | FailureKind::Timeout => Fault::Load,
            FailureKind::Panicked | FailureKind::Closing | FailureKind::Host(_) => Fault::Host,
            FailureKind::Model(_) | FailureKind::Tool(_) => Fault::Remote,
            FailureKind::Engine(_) => Fault::Document,
        }
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
    use super::{Failure, FailureKind, Fault, Source};
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
    fn only_the_host_and_its_sandbox_can_say_their_own_words() {
        let words = [
            "busy",
            "timeout",
            "cancelled",
            "denied",
            "invalid-arguments",
            "unknown-operation",
            "memory",
            "trap",
            "malformed-result",
            "panicked",
            "shutting-down",
        ];
        for word in words {
            let kind = |source| format!("{:?}", Failure::new(source, word, "said").kind());
            assert_eq!(kind(Source::Plugin), format!("Plugin({word:?})"));
            assert_eq!(kind(Source::Model), format!("Model({word:?})"));
            assert_eq!(kind(Source::Tool), format!("Tool({word:?})"));
            assert_eq!(Failure::new(Source::Plugin, word, "said").fault(), Fault::Plugin);
        }
        // A refusal that is said to be a plugin's is a plugin's all the same.
        let remedy =
            Remedy::Grant { plugin: "p".into(), capability: Capability::Tool, name: "t".to_owned(), access: None };
        let refused = Failure::denied(Denial::new("tool t", "it is not granted", remedy));
        assert!(matches!(refused.kind(), FailureKind::Denied(_)));
        assert_eq!(Failure { source: Source::Plugin, ..refused }.kind(), FailureKind::Plugin("denied"));
        // A tool of the host that is busy has been called: only the sandbox knows that nothing has run.
        assert_eq!(Failure::host("busy", "later").kind(), FailureKind::Host("busy"));
        assert_eq!(Failure::new(Source::Sandbox, "busy", "no cell").kind(), FailureKind::Busy);
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
