//! The arguments and the results of effects: plain data, so that any driver can perform them.

use crate::{
    approval::ToolApproval,
    conversation::{Message, Messages, ToolCallRequest, Usage},
    failure::Failure,
    receipt::Receipt,
};
use opcell_ir::ir;
pub use opcell_types::{CallContext as EffectContext, Verdict};
use opcell_types::{GivenInput, ToolDescription, Value, denial::Remedy};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A call of an operation or of an invoke judge.
#[derive(Debug, Clone)]
pub struct Call {
    /// ID of the operation or judge: `namespace/name`.
    pub id: Arc<str>,
    /// An object.
    pub arguments: Value,
    /// The place in the run.
    pub context: EffectContext,
    /// Narrower than the grant.
    pub capabilities: Option<Box<ir::CapabilityNarrowing>>,
    /// The remedies that a person granted to the plugin since the run began.
    pub granted: Vec<Remedy>,
    /// Milliseconds for this attempt, if the step says.
    pub timeout_ms: Option<u64>,
    /// The answers with which the call continues, where its tool asked for input.
    pub given: Option<Arc<GivenInput>>,
}

/// The result of an operation.
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

/// The end of a call, with what it used. The receipt is an object whose shape belongs to whoever performed the call,
/// but for this: a cell's says under `host-calls` how many it made, as a number or by interface, and has no `status`;
/// every other one has, and holds that of the cell that it ran, if it ran one, under `receipt`. See
/// [`CallReceipt`](crate::receipt::CallReceipt).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reply<T> {
    /// The result.
    pub result: Result<T, Failure>,
    /// The receipt, if anything ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
}

/// A reply without a receipt.
impl<T> From<Result<T, Failure>> for Reply<T> {
    fn from(result: Result<T, Failure>) -> Self {
        Self { result, receipt: None }
    }
}

/// A session to open.
#[derive(Debug, Clone)]
pub struct OpenSession {
    /// The place in the run.
    pub context: EffectContext,
    /// The session that the step or the judge declares, its system prompt's variables rendered.
    pub session: ir::Session,
    /// `true` if it is a judge's.
    pub judge: bool,
    /// Tools that the engine adds, such as a transition tool; the core answers their calls itself.
    pub engine_tools: Vec<ToolDescription>,
    /// The settings that sessions of this run inherit from the delegating step.
    pub inherited: Option<ir::Session>,
}

/// An open session: everything a model round needs beside its messages. Journaled, so that a resumed run continues with
/// the same.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct OpenedSession {
    /// The assembled system prompt.
    pub system: String,
    /// Its sections, for people.
    pub sections: Value,
    /// Models to try, best first.
    pub models: Vec<String>,
    /// The tools that the model may call; enforced when it does.
    pub tools: Vec<ToolDescription>,
    /// Temperature, thinking level and the like, as the session declares them.
    pub settings: ir::Session,
    /// Tools, of those above, that change nothing: calls of such tools that follow each other in one answer are made at
    /// once. All others are made one after the other, so that each sees what the ones before it did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parallel_tools: Vec<String>,
    /// The most that sessions of workflows that this session's model calls may have: `tools`, `skills`, `extensions`
    /// and `workflows` only. Absent: nothing is narrowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrowing: Option<Box<ir::Session>>,
    /// The rules for calls that wait for a person, for each of the tools that has any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ToolApproval>,
    /// The tools that the model calls by programs, if it does: not those that it calls itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Box<CodeTools>>,
    /// The operations that each turn is shown to before its model is asked, in this order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub augmenters: Vec<Arc<str>>,
    /// The context windows of its models, and of the one that writes its summaries, as known when it was opened: a run
    /// that is resumed elsewhere shortens its conversations at the same places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<ModelWindow>,
    /// Maximum bytes of a tool's result that the model is shown: of a longer one it is shown the beginning, the end and
    /// a handle, by which it reads the rest. Absent: results come cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_limit: Option<u32>,
}

/// The context window of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelWindow {
    /// The model.
    pub model: String,
    /// The tokens that it takes and gives in one round, where an operator listed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// The corrections by its provider's answers.
    #[serde(default, skip_serializing_if = "WindowLesson::is_none")]
    pub lesson: WindowLesson,
}

/// The knowledge of a model's context window that answers gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct WindowLesson {
    /// Tokens per estimated token, in eighths; only grows.
    pub eighths: u64,
    /// Estimated tokens that a provider refused as too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<u64>,
}

impl Default for WindowLesson {
    fn default() -> Self {
        Self { eighths: 8, refused: None }
    }
}

impl WindowLesson {
    /// Returns `true` if nothing was learned.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the stricter of each part.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let refused = self.refused.into_iter().chain(other.refused).min();
        Self { eighths: self.eighths.max(other.eighths), refused }
    }
}

/// The tools of a session that its model calls by programs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct CodeTools {
    /// The language of the programs.
    pub language: ir::CodeMode,
    /// The tools; enforced when a program calls one.
    pub tools: Vec<ToolDescription>,
}

/// One question to a model.
#[derive(Debug, Clone)]
pub struct ModelRound {
    /// The place in the run.
    pub context: EffectContext,
    /// The session.
    pub session: Arc<OpenedSession>,
    /// The session's model that is asked.
    pub model: String,
    /// The whole conversation so far.
    pub messages: Messages,
    /// JSON Schema that the answer must pass, with its name.
    pub schema: Option<(String, Value)>,
    /// The context window of the model, as the conversation knows it; `None` in journals of earlier versions.
    pub window: Option<ModelWindow>,
    /// The summaries of the conversation's older messages.
    pub summaries: Summaries,
}

/// A model's answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ModelReply {
    /// Text and tool calls.
    pub message: Message,
    /// The usage.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered.
    pub model: String,
    /// The log probabilities of the model's tokens, where the session asks for them and the provider gives them: an
    /// array of `{token, logprob, top-logprobs: [{token, logprob}]}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<Value>,
    /// The shortening of the conversation that this answers, if it was not sent whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Box<Compacted>>,
    /// The knowledge of the model's context window after this answer, if it changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lesson: Option<WindowLesson>,
    /// A summary of older messages instead of an answer: the conversation is asked about again with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<Box<Summary>>,
    /// The things that the model was not shown as the session has them, for people.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

/// A summary of a conversation's older messages, which a model wrote. The run keeps all of the messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summary {
    /// Why the conversation was not sent whole.
    pub reason: CompactionReason,
    /// Position of the first message that it replaces.
    pub from: u64,
    /// Position after the last one.
    pub to: u64,
    /// The text; empty if there is none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Estimated tokens of what it replaces, an earlier summary included.
    pub tokens_before: u64,
    /// Estimated tokens of the text.
    pub tokens_after: u64,
    /// The limit by which it was decided, in estimated tokens.
    pub limit: u64,
    /// Why there is none that could be used: older parts are left out by rule instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

/// The summaries of a conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Summaries {
    /// The newest one; it stands for the earlier ones as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub newest: Option<Arc<Summary>>,
    /// The attempts that failed since then.
    #[serde(default)]
    pub failures: u32,
    /// The messages that the conversation had when the last of them failed.
    #[serde(default)]
    pub failed_at: u64,
}

impl Summaries {
    /// Takes in what a model answered; `messages` is the length of the conversation.
    pub(crate) fn add(&mut self, summary: &Summary, messages: usize) {
        let messages = messages as u64;
        let is_sound = summary.from <= summary.to && summary.to <= messages && !summary.text.is_empty();
        if summary.failure.is_none() && is_sound {
            *self = Self { newest: Some(Arc::new(summary.clone())), ..Self::default() };
        } else {
            self.failures = self.failures.saturating_add(1);
            self.failed_at = messages;
        }
    }
}

/// The shortening of a conversation for one round. The run keeps all of its messages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Compacted {
    /// Why it was not sent whole.
    pub reason: CompactionReason,
    /// Tool results of which only the size was sent.
    pub results: u32,
    /// Rounds that were left out: answers of the model, their tool calls and the results.
    pub rounds: u32,
    /// Estimated tokens of the whole conversation, prompt and tools included.
    pub tokens_before: u64,
    /// Estimated tokens of what was sent.
    pub tokens_after: u64,
    /// The limit by which it was decided, in estimated tokens.
    #[serde(default, skip_serializing_if = "crate::conversation::is_zero")]
    pub limit: u64,
}

/// Why a conversation was shortened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionReason {
    /// It neared the model's context.
    Threshold,
    /// The provider had no room for it.
    ContextFull,
}

impl ModelReply {
    /// An answer of text alone, by the model of this name; its usage is unknown.
    #[must_use]
    pub fn text(model: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            message: Message::assistant(text),
            usage: Usage::default(),
            model: model.into(),
            logprobs: None,
            compacted: None,
            lesson: None,
            summary: None,
            warnings: Vec::new(),
        }
    }

    /// Adds a call of a tool to the answer. The ID must be unique in the conversation.
    #[must_use]
    pub fn calling(mut self, id: impl Into<String>, tool: impl Into<String>, arguments: impl Into<Value>) -> Self {
        let call = ToolCallRequest { id: id.into(), name: tool.into(), arguments: arguments.into() };
        self.message.tool_calls.push(call);
        self
    }
}

/// A tool call by a model, already checked against the session's tool list.
#[derive(Debug, Clone)]
pub struct ToolCall {
    /// The place in the run.
    pub context: EffectContext,
    /// The session.
    pub session: Arc<OpenedSession>,
    /// The call.
    pub request: ToolCallRequest,
    /// The rest of the limits of the run, and of the steps and workflows around the call: the most that a run may use
    /// which the call starts.
    pub left: ir::RunLimits,
    /// The [identity](ToolApproval::identity) of the tool that it was approved for.
    pub approved: Option<Arc<str>>,
    /// The answers with which the call continues, where its tool asked for input.
    pub given: Option<Arc<GivenInput>>,
}
