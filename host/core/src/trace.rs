//! The trace of a run, entry by entry: a projection of its events for people and programs. Nothing here is known that
//! the journal does not hold.

mod inner;
mod reader;
mod within;

pub use inner::InnerCallTrace;

use crate::{
    call::{Compacted, Summary},
    conversation::{Message, Usage},
    event::{Answer, CallAnswer, EffectId, Event, ForkOrigin, FrameId, GrantScope, Recorded, Timestamp},
    failure::Failure,
    located::located,
    outcome::{Question, RunOutcome, Used},
    receipt::Receipt,
    state::ApplyError,
};
use indexmap::IndexMap;
use opcell_ir::{ir::RunLimits, names::Outcome};
use opcell_types::{Denial, InputAnswer, Source, Value};
use reader::Reader;
use serde::{Serialize, Serializer};
use std::sync::Arc;

/// A run up to one of its events.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Trace {
    /// ID of the run.
    pub run: Arc<str>,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The status of the run after the last of the events.
    #[serde(flatten)]
    pub end: End,
    /// The last of the events.
    pub seq: u64,
    /// When the run started.
    #[serde(serialize_with = "as_text")]
    pub started_at: Timestamp,
    /// When the last of the events happened.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// For a fork, where it comes from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forked: Option<ForkOrigin>,
    /// The input of the run.
    pub input: Value,
    /// The workflow's limits, narrowed by the host's.
    pub limits: RunLimits,
    /// Digests of what the run depends on.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// Every entry into a step and every element of one, in the order in which they began.
    pub steps: Vec<StepTrace>,
    /// The messages that people and programs sent to the run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<SentMessage>,
    /// The usage of the run.
    pub used: Used,
    /// The number of visits of each step of the workflow itself, in authored order; steps without visits are left out.
    pub visits: IndexMap<Arc<str>, u32>,
    /// Named values.
    pub artifacts: Value,
    /// The questions that the run waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub questions: Vec<Question>,
}

/// The status of a run; see [`RunOutcome`].
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub struct End {
    pub status: crate::outcome::Status,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<Arc<str>>,
    pub result: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denial: Option<Box<Denial>>,
}

impl End {
    fn of(outcome: &RunOutcome) -> Self {
        Self {
            status: outcome.status,
            source: outcome.source,
            reason: outcome.reason.clone(),
            message: outcome.message.clone(),
            step: outcome.step.clone(),
            result: outcome.result.clone(),
            details: outcome.details.clone(),
            denial: outcome.denial.clone(),
        }
    }
}

/// One entry into a step, or one element of it.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct StepTrace {
    /// The entry.
    pub frame: FrameId,
    /// The entry inside which it happened: the parallel, branching or delegating step, or the step that it is an
    /// element of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inside: Option<FrameId>,
    /// The number of entries around it.
    pub depth: u32,
    /// The workflow that the step belongs to.
    pub workflow: Arc<str>,
    /// Name of the step.
    pub step: Arc<str>,
    /// `invoke`, `session`, …; `element` for one element of a step with `each`.
    pub form: &'static str,
    /// The target: an operation, a workflow, a signal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<Arc<str>>,
    /// The number of times that the step has been entered, from 1.
    pub visit: u32,
    /// Position of the element, from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub element: Option<u32>,
    /// A guard was false.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub skipped: bool,
    /// The event that began it.
    pub seq: u64,
    /// When it began.
    #[serde(serialize_with = "as_text")]
    pub began: Timestamp,
    /// When its last event happened.
    #[serde(serialize_with = "as_text")]
    pub ended: Timestamp,
    /// Its inputs as they were resolved: an operation's arguments, a transform's inputs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// The callee's original input that a delegate passes on, where that is not the input itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Value>,
    /// Its conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationTrace>,
    /// The question to the party that it waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<str>>,
    /// Failed attempts that were followed by another.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retried: Vec<Failure>,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The run went on in spite of the failure.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// Its judge at work.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judge: Option<JudgeTrace>,
    /// The transition of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transition: Option<Transition>,
    /// The usage of the run when it continued.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used: Option<Used>,
    /// Named values when it went on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifacts: Option<Value>,
    /// Receipts of its cells and tool calls, in the order of the calls; those of its judge are with the judge.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
    /// The calls of its cells that have not ended, or whose host died; of the others, the receipts list the calls.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inner_calls: Vec<InnerCallTrace>,
    #[serde(skip)]
    order: ReceiptOrder,
    #[serde(skip)]
    done: bool,
}

/// The effect of each receipt of a step and of its judge.
///
/// Calls of one round run at once, and the same run must not read differently because another call ended first.
#[derive(Debug, Clone, Default)]
struct ReceiptOrder {
    step: Vec<u64>,
    judge: Vec<u64>,
}

/// A model conversation.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct ConversationTrace {
    /// The assembled system prompt.
    pub system: String,
    /// Its sections.
    pub sections: Value,
    /// Models to try, best first.
    pub models: Vec<String>,
    /// The tools that the model could call.
    pub tools: Vec<String>,
    /// The messages, in order.
    pub messages: Vec<Message>,
    /// The usage of each model round.
    pub rounds: Vec<Round>,
    /// Why models or the session did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// One model round.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Round {
    /// The model that answered.
    pub model: String,
    /// The usage.
    pub usage: Usage,
    /// The shortening of the conversation that it was sent, if it was not sent whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compacted: Option<Box<Compacted>>,
    /// The summary of older messages that the model wrote instead of an answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Box<Summary>>,
    /// The things that the model was not shown as the session has them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Arc<str>>,
}

/// A judge at work.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct JudgeTrace {
    /// An invoke judge's arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Value>,
    /// An LLM judge's conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub conversation: Option<ConversationTrace>,
    /// The outcome that it decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Why the judge decided so, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rationale: Option<String>,
    /// Why it did not decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Receipts of its cells and of its calls of tools.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub receipts: Vec<Receipt>,
}

/// A way that the run went.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transition {
    /// Number of the event, from 1.
    pub seq: u64,
    /// The outcome that was routed; absent: a step without a judge.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// A step, or `:done`.
    pub to: Arc<str>,
    /// Why not where the route says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redirected: Option<Arc<str>>,
    /// The target of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub original_target: Option<Arc<str>>,
}

/// A message to the run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct SentMessage {
    /// Number of the event, from 1.
    pub seq: u64,
    /// When the run recorded it.
    #[serde(serialize_with = "as_text")]
    pub at: Timestamp,
    /// The sender, as the host knows them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The kind: a signal, an answer, a request to stop.
    #[serde(flatten)]
    pub what: What,
    /// The step that took it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub taken_by: Option<Arc<str>>,
}

/// The content of a message to a run.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum What {
    Signal { id: u64, name: Arc<str>, data: Value },
    Answer { effect: EffectId, answer: Answer },
    Grant { effect: EffectId, grant: Option<GrantScope> },
    Call(Box<CallTrace>),
    Input(Box<InputTrace>),
    Cancel { reason: Arc<str> },
    Repin { pins: IndexMap<Arc<str>, Arc<str>> },
}

/// A call of a model that waited for a person: what was shown, what was answered, what ran.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct CallTrace {
    /// ID of the question: the digest of what was shown.
    pub question: Arc<str>,
    /// The tool.
    pub tool: Arc<str>,
    /// The arguments that were shown.
    pub arguments: Value,
    /// The rules that asked.
    pub rule: Arc<str>,
    /// Approve or refuse.
    pub answer: CallAnswer,
    /// The place of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
}

/// A form that a person answered for a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputTrace {
    /// ID of the question: the digest of what was shown.
    pub question: Arc<str>,
    /// The server that asked.
    pub server: Arc<str>,
    /// The server's own name of the tool.
    pub tool: Arc<str>,
    /// The question that was shown.
    pub message: Arc<str>,
    /// The values, or that there were none.
    pub answer: InputAnswer,
    /// The place of the answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<Arc<str>>,
}

impl Trace {
    /// Puts a run's events together.
    ///
    /// # Errors
    /// When they do not follow from each other.
    pub fn of(run: &Arc<str>, events: &[Recorded]) -> Result<Self, ApplyError> {
        let mut reader = Reader::default();
        for located in located(events) {
            reader.state.apply_part(&located.recorded)?;
            reader.read(&located);
        }
        let (state, first) = (&reader.state, events.first());
        let input = match first.map(|first| &first.event) {
            Some(Event::RunStarted(started)) => started.input.clone(),
            _ => Value::Null,
        };
        Ok(Self {
            run: run.clone(),
            workflow: state.program().map_or_else(|| "".into(), |program| program.name().clone()),
            end: End::of(&state.outcome()),
            seq: state.seq(),
            started_at: state.own_start(),
            forked: state.forked().cloned(),
            at: events.last().map_or_else(Timestamp::default, |last| last.at),
            input,
            limits: *state.limits(),
            pins: state.pins().clone(),
            used: state.used(),
            visits: state.visits(),
            artifacts: Value::from(state.artifacts().clone()),
            questions: state.questions(),
            steps: reader.steps,
            messages: reader.messages,
        })
    }
}

/// A time as people read it.
fn as_text<S: Serializer>(at: &Timestamp, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&at.to_text())
}
