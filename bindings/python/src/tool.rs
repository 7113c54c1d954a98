//! Python functions as tools.

use crate::{
    runtime,
    value::{from_python, to_python},
};
use opcell::{
    Caller, Effects, Failure, Tool, ToolDescription, ToolInput, Value, async_trait, layers::types::text::one_line,
};
use pyo3::prelude::*;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

/// The longest reason of a failure that a Python function chooses, in bytes.
const REASON_BYTES: usize = 100;

/// The longest message of such a failure, in bytes.
const MESSAGE_BYTES: usize = 2_000;

/// A tool that a Python function performs.
pub(crate) struct PythonTool {
    pub(crate) description: ToolDescription,
    pub(crate) effects: Effects,
    /// Takes a [`ToolCall`], has it performed on a thread of Python's, and returns at once.
    pub(crate) submit: Arc<Py<PyAny>>,
}

/// A failure of a function, as it chooses it.
pub(crate) fn failed(reason: &str, message: &str, retriable: bool) -> Failure {
    let failure = Failure::host(one_line(reason, REASON_BYTES), one_line(message, MESSAGE_BYTES));
    if retriable { failure.retriable() } else { failure }
}

type Answer = Result<Value, Failure>;

/// One call of a tool, for the thread that performs it.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct ToolCall {
    tool: String,
    input: ToolInput,
    /// Cancelled when the caller no longer waits.
    abandoned: CancellationToken,
    answer: Mutex<Option<oneshot::Sender<Answer>>>,
}

impl ToolCall {
    fn answer(&self, answer: Answer) {
        if let Some(waiting) = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = waiting.send(answer);
        }
    }
}

#[pymethods]
impl ToolCall {
    /// The arguments, which match the tool's schema.
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.input.arguments)
    }

    /// The caller: `plugin`, `step` or `model`.
    #[getter]
    fn caller(&self) -> &'static str {
        match self.input.caller {
            Caller::Plugin(_) => "plugin",
            Caller::Model(_) => "model",
            _ => "step",
        }
    }

    /// The name of the plugin that calls.
    #[getter]
    fn plugin(&self) -> Option<&str> {
        match &self.input.caller {
            Caller::Plugin(name) => Some(name),
            _ => None,
        }
    }

    /// The ID of the run, or of the call outside of a run.
    #[getter]
    fn run(&self) -> &str {
        &self.input.context.run
    }

    /// The key by which a call that is made again is recognised.
    #[getter]
    fn idempotency_key(&self) -> &str {
        &self.input.context.idempotency_key
    }

    /// The user on whose behalf the call is.
    #[getter]
    fn user(&self) -> Option<&str> {
        self.input.context.user.as_deref()
    }

    /// The tenant on whose behalf the call is.
    #[getter]
    fn tenant(&self) -> Option<&str> {
        self.input.context.tenant.as_deref()
    }

    /// Returns `True` if the caller no longer waits.
    fn is_cancelled(&self) -> bool {
        self.abandoned.is_cancelled() || self.input.cancel.is_cancelled()
    }

    /// Answers with a result.
    fn succeed(&self, result: &Bound<'_, PyAny>) {
        self.answer(from_python(result).map_err(|problem| {
            let message = format!("the result of `{}` cannot be written as JSON: {problem}", self.tool);
            Failure::host("malformed-result", message)
        }));
    }

    /// Answers with a failure.
    fn fail(&self, reason: &str, message: &str, retriable: bool) {
        self.answer(Err(failed(reason, message, retriable)));
    }
}

#[async_trait]
impl Tool for PythonTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn call(&self, input: &ToolInput) -> Answer {
        let (answer, answered) = oneshot::channel();
        let abandoned = CancellationToken::new();
        let _no_longer_waits = abandoned.clone().drop_guard();
        let tool = self.description.name.clone();
        let call = ToolCall { tool, input: input.clone(), abandoned, answer: Mutex::new(Some(answer)) };
        let submit = self.submit.clone();
        runtime::report(Box::new(move |py| {
            // An error drops the call, and with it the sender of its answer.
            if let Err(error) = submit.call1(py, (call,)) {
                error.write_unraisable(py, None);
            }
        }));
        answered.await.unwrap_or_else(|_| {
            let name = &self.description.name;
            Err(Failure::host(Failure::PANICKED, format!("the tool `{name}` of this program ended without an answer")))
        })
    }
}
