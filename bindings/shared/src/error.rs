//! Errors, failures and refusals as data.

use opcell::{
    Denial, Failure, FailureKind, Fault, HostError, NotEnded, Rejected, RunError, SandboxError, StartError, Value,
    remedy,
};

/// As [`SandboxError::NoCompiler`], with the remedy of a program that has a package of Opcell's.
const NO_COMPILER: &str = "there is nowhere to compile plugins: the package has no `opcell-compile`, and there is none \
                           on the PATH; install the package again, or have the host compile in its own process, for \
                           plugins that you trust as your own code";

/// An error as data, which a package turns into an exception of its own.
#[derive(Debug)]
pub struct Raised {
    /// The class of error: `rejected`, `run`, `host`, or one of the package's own.
    pub kind: &'static str,
    /// `code` and `message`, and of one that is `rejected` its `findings`.
    pub fields: Value,
}

impl Raised {
    /// An error that has a code and a message, and nothing else.
    #[must_use]
    pub fn new(kind: &'static str, code: &str, message: &str) -> Self {
        Self { kind, fields: Value::object([("code", Value::from(code)), ("message", Value::from(message))]) }
    }
}

impl From<Rejected> for Raised {
    fn from(rejected: Rejected) -> Self {
        let code = rejected.diagnostics.first().map_or("rejected", |finding| finding.code);
        let findings = Value::from(serde_json::Value::from(rejected.to_json()));
        let message = Value::from(rejected.to_string());
        let fields = Value::object([("code", Value::from(code)), ("message", message), ("findings", findings)]);
        Self { kind: "rejected", fields }
    }
}

impl From<RunError> for Raised {
    fn from(error: RunError) -> Self {
        Self::new("run", error.kind(), &error.to_string())
    }
}

impl From<StartError> for Raised {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => rejected.into(),
            StartError::Run(error) => error.into(),
            other => Self::new("run", "run-not-started", &other.to_string()),
        }
    }
}

impl From<NotEnded> for Raised {
    fn from(error: NotEnded) -> Self {
        Self::new("run", "run-not-ended", &error.to_string())
    }
}

impl From<HostError> for Raised {
    fn from(error: HostError) -> Self {
        let (code, message) = match error {
            HostError::Rejected(rejected) => return rejected.into(),
            HostError::Plugin(error) => return error.to_rejected().into(),
            HostError::Sandbox(SandboxError::NoCompiler) => ("no-compiler", NO_COMPILER.to_owned()),
            HostError::Sandbox(error) => ("sandbox-unavailable", error.to_string()),
            HostError::Journal(error) => (error.kind(), error.to_string()),
            HostError::Duplicate(error) => ("duplicate", error.to_string()),
            other => ("host-not-built", other.to_string()),
        };
        Self::new("host", code, &message)
    }
}

/// A refusal as data, with the command that would allow it where there is one.
#[must_use]
pub fn denial(denial: &Denial) -> Value {
    let mut data = Value::of(denial).unwrap_or_default();
    if let Value::Object(entries) = &mut data {
        entries.insert("message", Value::from(denial.to_string()));
        entries.insert("command", Value::from(remedy::render(&denial.remedy)));
    }
    data
}

/// A failure of a call as data. `kind` is for programs: no plugin can choose it.
#[must_use]
pub fn failure(failure: &Failure) -> Value {
    let kind = match failure.kind() {
        FailureKind::Busy => "busy",
        FailureKind::Timeout => "timeout",
        FailureKind::Cancelled => "cancelled",
        FailureKind::Denied(_) => "denied",
        FailureKind::InvalidArguments => "invalid-arguments",
        FailureKind::Unknown => "unknown",
        FailureKind::Limit(_) => "limit",
        FailureKind::Trap => "trap",
        FailureKind::Malformed => "malformed",
        FailureKind::Panicked => "panicked",
        FailureKind::Closing => "closing",
        FailureKind::Plugin(_) => "plugin",
        FailureKind::Model(_) => "model",
        FailureKind::Tool(_) => "tool",
        FailureKind::Engine(_) => "engine",
        _ => "host",
    };
    let fault = match failure.fault() {
        Fault::Caller => "caller",
        Fault::Operator => "operator",
        Fault::Plugin => "plugin",
        Fault::Load => "load",
        Fault::Remote => "remote",
        Fault::Document => "document",
        _ => "host",
    };
    Value::object([
        ("kind", Value::from(kind)),
        ("code", Value::from(failure.reason.clone())),
        ("source", Value::from(failure.source.as_str())),
        ("fault", Value::from(fault)),
        ("message", Value::from(failure.message.clone())),
        ("details", Value::from(failure.details.clone())),
        ("denial", Value::from(failure.denial.as_deref().map(denial))),
        ("retriable", Value::from(failure.retriable)),
    ])
}
