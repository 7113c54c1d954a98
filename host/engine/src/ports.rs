//! What the engine asks of the world. Each trait is implemented outside and wired in the `opcell` crate.
//!
//! An implementation may be asked for the same effect twice (a crash between effect and journal): the idempotency key says so.

use crate::{
    conversation::{Message, Messages, ToolCallRequest, ToolSpec, Usage},
    event::{EffectId, Timestamp},
    receipt::{Provider, Receipt},
};
use async_trait::async_trait;
use opcell_types::Value;
use opcell_workflow::{WorkflowIr, ir, names::Outcome};
use serde::{Deserialize, Serialize};
use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio_util::sync::CancellationToken;

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

/// Where in a run an effect belongs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EffectContext {
    /// The run.
    pub run: Arc<str>,
    /// The step as authored.
    pub step: Arc<str>,
    /// How often the step has been entered, from 1.
    pub visit: u32,
    /// Attempt within the visit, from 1.
    pub attempt: u32,
    /// Stable across retries by the shell and resumes.
    pub idempotency_key: Arc<str>,
}

/// A call of an operation or of an invoke judge.
#[derive(Debug, Clone)]
pub struct Call {
    /// Which one.
    pub id: Arc<str>,
    /// An object.
    pub arguments: Value,
    /// Where in the run.
    pub context: EffectContext,
    /// Narrower than the grant.
    pub capabilities: Option<ir::CapabilityNarrowing>,
    /// Milliseconds for this attempt, if the step says.
    pub timeout_ms: Option<u64>,
    /// Cancelled when the run is.
    pub cancel: CancellationToken,
}

/// What an operation returned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Success {
    /// Machine-readable.
    #[serde(
        with = "crate::wire",
        default = "crate::wire::undefined",
        skip_serializing_if = "crate::wire::is_undefined"
    )]
    pub data: Value,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// For debugging.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
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

/// The end of a call, with what it used. The receipt is an object whose shape belongs to whoever performed the call, but for this: a
/// cell's says under `host-calls` how many it made, as a number or by interface, and has no `status`; every other one has, and holds
/// that of the cell that it ran, if it ran one, under `receipt`. See [`CallReceipt`](crate::receipt::CallReceipt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reply<T> {
    /// How it ended.
    pub result: Result<T, Failure>,
    /// What it used and touched, if anything ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// Deterministic operations.
#[async_trait]
pub trait Operations: Send + Sync {
    /// What repeating the operation does; `None` when there is no such operation.
    fn effects(&self, operation: &str) -> Option<Effects>;

    /// Runs one operation. Never panics, never blocks; ends soon after the call is cancelled.
    async fn invoke(&self, call: Call) -> Reply<Success>;
}

/// A judge's decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Verdict {
    /// Exactly one.
    pub outcome: Outcome,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
}

/// Invoke judges: judge exports of plugins. Operations that serve as judges go through [`Operations`].
#[async_trait]
pub trait Judges: Send + Sync {
    /// Whether there is a judge of this id.
    fn knows(&self, judge: &str) -> bool;

    /// Decides. Every failure ends the run: a judge fails closed.
    async fn judge(&self, call: Call) -> Reply<Verdict>;
}

/// A session to open.
#[derive(Debug, Clone)]
pub struct OpenSession {
    /// Where in the run.
    pub context: EffectContext,
    /// What the step or the judge declares, its system prompt's variables rendered.
    pub session: ir::Session,
    /// Whether it is a judge's.
    pub judge: bool,
    /// Tools that the engine adds, such as a transition tool; their calls never reach [`Sessions::call_tool`].
    pub engine_tools: Vec<ToolSpec>,
    /// What sessions of this run inherit from the delegating step.
    pub inherited: Option<ir::Session>,
}

/// An open session: everything a model round needs beside its messages. Journaled, so that a resumed run goes on with the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OpenedSession {
    /// The assembled system prompt.
    pub system: String,
    /// Its sections, for people.
    pub sections: Value,
    /// Models to try, best first.
    pub models: Vec<String>,
    /// What the model may call; enforced when it does.
    pub tools: Vec<ToolSpec>,
    /// Temperature, thinking level and the like, as the session declares them.
    pub settings: ir::Session,
    /// Tools, of those above, that change nothing: calls of such tools that follow each other in one answer are made at once. All others
    /// are made one after the other, so that each sees what the ones before it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_once: Vec<String>,
}

/// One question to a model.
#[derive(Debug, Clone)]
pub struct ModelRound {
    /// Where in the run.
    pub context: EffectContext,
    /// The session.
    pub session: Arc<OpenedSession>,
    /// Which of the session's models.
    pub model: String,
    /// The whole conversation so far.
    pub messages: Messages,
    /// JSON Schema that the answer must pass, with its name.
    pub schema: Option<(String, Value)>,
    /// Cancelled when the run is.
    pub cancel: CancellationToken,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelReply {
    /// Text and tool calls.
    pub message: Message,
    /// What it used.
    #[serde(default)]
    pub usage: Usage,
    /// Which model answered.
    pub model: String,
}

/// A tool call by a model, already checked against the session's tool list.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// Where in the run.
    pub context: EffectContext,
    /// The session.
    pub session: Arc<OpenedSession>,
    /// What is called.
    pub request: ToolCallRequest,
    /// Cancelled when the run is.
    pub cancel: CancellationToken,
}

/// Receives the text of all models of a run while it comes.
pub trait RunText: Send + Sync {
    /// The next piece of the answer to a model round, between the round's `requested` and `replied` events.
    fn text(&self, round: EffectId, piece: &str);
}

/// Receives a model's text while it comes.
pub trait TextSink: Send + Sync {
    /// The next piece.
    fn text(&self, piece: &str);
}

/// Model conversations. The engine drives them round by round, so that every round and every tool call is journaled singly.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// Assembles the prompt and finds the models and tools.
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure>;

    /// Asks the model once.
    async fn complete(&self, round: ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure>;

    /// What repeating a tool call does.
    fn tool_effects(&self, tool: &str) -> Effects;

    /// Who performs a tool; asked for a call that is stopped, which cannot say it itself. `None`: nobody knows.
    fn tool_provider(&self, _tool: &str) -> Option<Provider> {
        None
    }

    /// Calls one tool; a failure is told to the model.
    async fn call_tool(&self, call: ToolCall) -> Reply<Value>;
}

/// Time. Everything that a run waits for goes through here, so that a test can let hours pass at once.
#[async_trait]
pub trait Timer: Send + Sync {
    /// The time that stamps events.
    fn now(&self) -> Timestamp;

    /// Waits for a delay that the workflow asks for, in milliseconds; fractions count.
    async fn sleep(&self, ms: f64);

    /// Ends when something in flight has had `ms` milliseconds. Unlike [`Timer::sleep`] nobody asked for this time to pass.
    async fn deadline(&self, ms: f64);
}

/// The computer's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemTimer;

#[async_trait]
impl Timer for SystemTimer {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    async fn sleep(&self, ms: f64) {
        // Longer than the clock can count is for ever, not at once.
        tokio::time::sleep(Duration::try_from_secs_f64(ms.max(0.0) / 1000.0).unwrap_or(Duration::MAX)).await;
    }

    async fn deadline(&self, ms: f64) {
        self.sleep(ms).await;
    }
}

/// The workflows that delegates can call.
pub trait Workflows: Send + Sync {
    /// The newest definition of a name.
    fn find(&self, name: &str) -> Option<Arc<WorkflowIr>>;

    /// Every name, for "did you mean".
    fn names(&self) -> Vec<String>;
}
