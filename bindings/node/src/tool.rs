//! JavaScript functions as tools.

use crate::{
    connection::{Connection, Subject, make},
    value::{Given, Json},
};
use napi_derive::napi;
use opcell::{
    CallContext, Caller, Effects, Failure, Tool, ToolDescription, ToolInput, Value, async_trait,
    layers::types::text::one_line,
};
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicU64, Ordering},
};
use tokio::sync::oneshot;

/// The longest reason of a failure that a JavaScript function chooses, in bytes.
const REASON_BYTES: usize = 100;

/// The longest message of such a failure, in bytes.
const MESSAGE_BYTES: usize = 2_000;

/// The number of the next call of a function.
static NEXT_CALL: AtomicU64 = AtomicU64::new(1);

/// A tool that a JavaScript function performs.
pub(crate) struct JsTool {
    pub(crate) connection: Arc<Connection>,
    /// The host's number, under which calls are reported.
    pub(crate) host: f64,
    /// The place in the list of the host's tools.
    pub(crate) index: u32,
    pub(crate) description: ToolDescription,
    pub(crate) effects: Effects,
}

/// A failure of a function, as it chooses it.
pub(crate) fn failed(reason: &str, message: &str, retriable: bool) -> Failure {
    let failure = Failure::host(one_line(reason, REASON_BYTES), one_line(message, MESSAGE_BYTES));
    if retriable { failure.retriable() } else { failure }
}

/// The answer that a caller waits for, which JavaScript gives once.
pub(crate) struct Answer<T>(Mutex<Option<oneshot::Sender<Result<T, Failure>>>>);

impl<T> Answer<T> {
    pub(crate) fn new() -> (Self, oneshot::Receiver<Result<T, Failure>>) {
        let (answer, answered) = oneshot::channel();
        (Self(Mutex::new(Some(answer))), answered)
    }

    /// Answers, if no one has.
    pub(crate) fn give(&self, answer: Result<T, Failure>) {
        if let Some(waiting) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = waiting.send(answer);
        }
    }
}

/// A call that JavaScript performs: when it is dropped before its answer, the function learns that no one waits.
pub(crate) struct Waiting {
    connection: Arc<Connection>,
    pub(crate) number: f64,
    is_answered: bool,
}

impl Waiting {
    pub(crate) fn new(connection: &Arc<Connection>) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "no process makes 2^53 calls")]
        let number = NEXT_CALL.fetch_add(1, Ordering::Relaxed) as f64;
        Self { connection: connection.clone(), number, is_answered: false }
    }

    /// Waits for the answer.
    pub(crate) async fn answer<T>(
        mut self,
        name: &str,
        answered: oneshot::Receiver<Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let answer = answered.await;
        self.is_answered = true;
        answer.unwrap_or_else(|_| {
            Err(Failure::host(Failure::PANICKED, format!("`{name}` of this program ended without an answer")))
        })
    }

    /// Reports that the caller is about to leave.
    pub(crate) fn abandon(&self) {
        self.connection.report(Subject::Abandoned, self.number, make(Json(Value::Null)));
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if !self.is_answered {
            self.abandon();
        }
    }
}

/// One call of a tool, for the function that performs it.
#[napi]
pub struct NativeToolCall {
    number: f64,
    index: u32,
    tool: String,
    arguments: Value,
    context: CallContext,
    caller: Caller,
    answer: Answer<Value>,
}

#[napi]
impl NativeToolCall {
    /// The number under which it is reported that no one waits any more.
    #[napi(getter)]
    pub fn number(&self) -> f64 {
        self.number
    }

    /// The place in the list of the host's tools.
    #[napi(getter)]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// The arguments, which match the tool's schema.
    #[napi]
    pub fn arguments(&self) -> Json {
        Json(self.arguments.clone())
    }

    /// The caller: `plugin`, `step` or `model`.
    #[napi(getter)]
    pub fn caller(&self) -> &'static str {
        match self.caller {
            Caller::Plugin(_) => "plugin",
            Caller::Model(_) => "model",
            _ => "step",
        }
    }

    /// The name of the plugin that calls.
    #[napi(getter)]
    pub fn plugin(&self) -> Option<&str> {
        match &self.caller {
            Caller::Plugin(name) => Some(name),
            _ => None,
        }
    }

    /// The ID of the run, or of the call outside of a run.
    #[napi(getter)]
    pub fn run(&self) -> &str {
        &self.context.run
    }

    /// The key by which a call that is made again is recognised.
    #[napi(getter)]
    pub fn idempotency_key(&self) -> &str {
        &self.context.idempotency_key
    }

    /// The user on whose behalf the call is.
    #[napi(getter)]
    pub fn user(&self) -> Option<&str> {
        self.context.user.as_deref()
    }

    /// The tenant on whose behalf the call is.
    #[napi(getter)]
    pub fn tenant(&self) -> Option<&str> {
        self.context.tenant.as_deref()
    }

    /// Answers with a result.
    #[napi]
    pub fn succeed(&self, result: Given) {
        self.answer.give(result.read().map_err(|problem| {
            let message = format!("the result of `{}` cannot be written as JSON: {problem}", self.tool);
            Failure::host("malformed-result", message)
        }));
    }

    /// Answers with a failure.
    #[napi]
    pub fn fail(&self, reason: String, message: String, retriable: bool) {
        self.answer.give(Err(failed(&reason, &message, retriable)));
    }
}

#[async_trait]
impl Tool for JsTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let (answer, answered) = Answer::new();
        let waiting = Waiting::new(&self.connection);
        let call = NativeToolCall {
            number: waiting.number,
            index: self.index,
            tool: self.description.name.clone(),
            arguments: input.arguments.clone(),
            context: input.context.clone(),
            caller: input.caller.clone(),
            answer,
        };
        self.connection.report(Subject::Tool, self.host, make(call));
        waiting.answer(&self.description.name, answered).await
    }
}
