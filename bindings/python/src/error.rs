//! Errors as data, and as the exceptions of the package.

use crate::{runtime::fields, value};
use opcell::{
    Denial, Failure, FailureKind, Fault, HostError, NotEnded, Rejected, RunError, SandboxError, StartError, Value,
    remedy,
};
use pyo3::{
    exceptions::{PyRuntimeError, PyTypeError},
    prelude::*,
};

/// As [`SandboxError::NoCompiler`], with what a Python program can do about it.
const NO_COMPILER: &str = "there is nowhere to compile plugins: the package has no `opcell-compile`, and there is none \
                           on the PATH; install the wheel, or give `trusted_in_process=True` for plugins that you \
                           trust as your own code";

/// An exception of the package: `_errors.make(kind, fields)` chooses the class.
pub(crate) fn exception(py: Python<'_>, kind: &str, fields: &Value) -> PyErr {
    let made = || -> PyResult<PyErr> {
        let fields = value::to_python(py, fields)?;
        Ok(PyErr::from_value(py.import("opcell._errors")?.getattr("make")?.call1((kind, fields))?))
    };
    made().unwrap_or_else(|error| error)
}

/// An exception of a code and a message.
pub(crate) fn plain(kind: &str, code: &str, message: &str) -> PyErr {
    let made = Python::try_attach(|py| exception(py, kind, &fields(code, message)));
    made.unwrap_or_else(|| PyRuntimeError::new_err(message.to_owned()))
}

/// A value of the caller's that is not JSON.
pub(crate) fn unfit(what: &str, problem: &str) -> PyErr {
    PyTypeError::new_err(format!("{what}: {problem}"))
}

/// An error that becomes an exception once its reader is attached to the interpreter.
pub(crate) struct Raised {
    kind: &'static str,
    fields: Value,
}

impl Raised {
    pub(crate) fn into_exception(self, py: Python<'_>) -> PyErr {
        exception(py, self.kind, &self.fields)
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
        Self { kind: "run", fields: fields(error.kind(), &error.to_string()) }
    }
}

impl From<StartError> for Raised {
    fn from(error: StartError) -> Self {
        match error {
            StartError::Rejected(rejected) => rejected.into(),
            StartError::Run(error) => error.into(),
            other => Self { kind: "run", fields: fields("run-not-started", &other.to_string()) },
        }
    }
}

impl From<NotEnded> for Raised {
    fn from(error: NotEnded) -> Self {
        Self { kind: "run", fields: fields("run-not-ended", &error.to_string()) }
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
        Self { kind: "host", fields: fields(code, &message) }
    }
}

/// A refusal as data, with the command that would allow it where there is one.
pub(crate) fn denial(denial: &Denial) -> Value {
    let mut data = Value::of(denial).unwrap_or_default();
    if let Value::Object(entries) = &mut data {
        entries.insert("message", Value::from(denial.to_string()));
        entries.insert("command", Value::from(remedy::render(&denial.remedy)));
    }
    data
}

/// A failure of a call as data. `kind` is for programs: no plugin can choose it.
pub(crate) fn failure(failure: &Failure) -> Value {
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
