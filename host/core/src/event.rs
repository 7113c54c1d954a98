//! The events of a run, as the journal keeps them.
//!
//! One schema, [`SCHEMA_VERSION`]; an event is written as `{"kind": {fields}}`. The state of a run is the fold of its
//! events ([`crate::state::State::apply`]) and nothing else: a clock is read only to stamp an event.

use crate::{
    call::{Reply, Verdict},
    conversation::Message,
    failure::Failure,
    message::approves,
    outcome::{LimitKind, RunEnd},
    program::Program,
    receipt::Receipt,
    wire,
};
use opcell_ir::names::Outcome;
use opcell_types::{Digest, InputAnswer, Value};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

mod answers;
mod called;
mod effects;
mod started;

pub use answers::{Answer, AskedCall, AskedInnerCall, CallAnswer, GrantScope};
pub use called::Called;
pub use effects::{EffectReply, InnerRequest, RaisedBy, Request};
pub use started::{ForkOrigin, Repinned, RunStarted};

pub use crate::id::{EffectId, FrameId, InstanceId, Timestamp};

/// The version of the event schema that this code writes. Since 3, events name large values ([`crate::large`]); since
/// 4, a call that ends at once is one event.
pub const SCHEMA_VERSION: u32 = 4;

/// An event, when it happened and where it is in its run.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// From 1, without gaps.
    pub seq: u64,
    /// When it happened.
    pub at: Timestamp,
    /// The event.
    pub event: Event,
}

impl Recorded {
    /// An event that happened.
    #[must_use]
    #[inline]
    pub fn new(seq: u64, at: Timestamp, event: Event) -> Self {
        Self { seq, at, event }
    }

    /// Returns the events one at a time: the event itself, or the several that one event of a direct call stands for.
    /// The parts of one event share its number, and [`State::apply_part`](crate::State::apply_part) folds them.
    pub fn parts(&self) -> impl Iterator<Item = Cow<'_, Self>> {
        let (whole, parts) = match called::parts(self) {
            Some(parts) => (None, Some(parts)),
            None => (Some(Cow::Borrowed(self)), None),
        };
        whole.into_iter().chain(parts.into_iter().flatten().map(Cow::Owned))
    }
}

/// An event of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Event {
    /// The first event of every run.
    RunStarted(Box<RunStarted>),
    /// Opcell looked up a workflow that a delegate step names; the run keeps this definition from now on.
    DefinitionPinned {
        /// Its name.
        name: Arc<str>,
        /// The definition; absent if there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        program: Option<Arc<Program>>,
    },
    /// A step was entered.
    StepEntered {
        /// The new frame.
        frame: FrameId,
        /// The line that entered it.
        parent: FrameId,
        /// Position in the workflow.
        step: u32,
        /// The step's name.
        name: Arc<str>,
        /// The number of the visit, from 1.
        visit: u32,
    },
    /// A guard was false; the step's outputs are null.
    StepSkipped {
        /// The line that skips it.
        parent: FrameId,
        /// Position in the workflow.
        step: u32,
        /// The step's name.
        name: Arc<str>,
    },
    /// The inputs of a step whose inputs are not arguments of an effect; with `each`, as seen without an element.
    StepPrepared {
        /// Frame of the step.
        frame: FrameId,
        /// By name.
        #[serde(with = "wire")]
        inputs: Value,
    },
    /// The start of an `each`, with its list.
    EachStarted {
        /// Frame of the step.
        frame: FrameId,
        /// An array.
        #[serde(with = "wire")]
        items: Value,
    },
    /// The step began for an element of an `each`.
    ElementEntered {
        /// The new frame.
        frame: FrameId,
        /// The step's.
        parent: FrameId,
        /// Position in the array.
        index: u32,
    },
    /// The step ended for an element; the other elements continue regardless of the result.
    ElementFinished {
        /// The element's.
        frame: FrameId,
        /// Its output, or the failure.
        result: Settled,
    },
    /// A group of steps began: the steps that a branch chose, or one branch of a parallel step.
    GroupEntered {
        /// The new frame.
        frame: FrameId,
        /// The step's.
        parent: FrameId,
        /// A branch: 0 `then`, 1 `else`. A parallel step: position among its branches.
        group: u32,
    },
    /// A branch chose among steps of its own line, and the run skips the others.
    Chosen {
        /// The branch.
        frame: FrameId,
        /// 0 `then`, 1 `else`.
        group: u32,
    },
    /// A group of steps ended.
    GroupFinished {
        /// The group's.
        frame: FrameId,
        /// The result that it ended with.
        result: Settled,
        /// The whole run ends with the group: a step inside failed or was an exit.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        halted: bool,
    },
    /// The run needs an effect, which may begin as soon as this event is durable.
    Requested {
        /// ID of the effect.
        effect: EffectId,
        /// The frame that needs it.
        frame: FrameId,
        /// The request.
        request: Request,
    },
    /// An effect ended.
    Replied {
        /// ID of the effect.
        effect: EffectId,
        /// Its reply.
        reply: Box<EffectReply>,
    },
    /// A step was entered, made its one call and ended, all at once. For a call that takes longer,
    /// [`Self::StepEntered`], [`Self::Requested`], [`Self::Replied`] and [`Self::StepFinished`] record the same. See
    /// [`Recorded::parts`].
    StepCalled {
        /// The frame that the step had.
        frame: FrameId,
        /// The line that entered it.
        parent: FrameId,
        /// Position in the workflow.
        step: u32,
        /// The step's name.
        name: Arc<str>,
        /// The number of the visit, from 1.
        visit: u32,
        /// The call.
        call: Box<Called>,
    },
    /// The same as `step-called`, for an element of an `each`.
    ElementCalled {
        /// The frame that the element had.
        frame: FrameId,
        /// The step's.
        parent: FrameId,
        /// Position in the array.
        index: u32,
        /// The call.
        call: Box<Called>,
    },
    /// An attempt failed and another one follows.
    Retrying {
        /// The step or the element.
        frame: FrameId,
        /// The failure of the previous attempt.
        failure: Failure,
        /// Milliseconds to wait first.
        delay_ms: f64,
    },
    /// A turn of a session (or of an LLM judge) began.
    TurnStarted {
        /// The step, or the step that is judged.
        frame: FrameId,
        /// Its prompt group, if it has several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<u32>,
        /// The added messages; the last one is the prompt.
        messages: Vec<Message>,
    },
    /// The engine itself added a message to a conversation: the answer to a refused tool call or to one of the engine's
    /// tools, or feedback on an answer.
    Interjected {
        /// The step, or the step that is judged.
        frame: FrameId,
        /// The added message.
        message: Box<Message>,
        /// `true` if the previous answer counts as a failed attempt of the turn.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        retry: bool,
    },
    /// Rules of the session rewrote the model's last answer.
    Guarded {
        /// Frame of the step.
        frame: FrameId,
        /// The rules, in order.
        guards: Vec<Arc<str>>,
        /// The new text of the answer.
        text: Arc<str>,
    },
    /// A turn ended.
    TurnFinished {
        /// The step, or the step that is judged.
        frame: FrameId,
        /// The text of the model's final answer.
        text: Arc<str>,
        /// The structured output, if the turn asked for one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        structured: Option<Value>,
    },
    /// A delegated workflow began.
    InstanceStarted {
        /// The new one.
        instance: InstanceId,
        /// Its main line.
        frame: FrameId,
        /// The step or element that delegates.
        parent: FrameId,
        /// The workflow's name; the definition is the pinned one.
        workflow: Arc<str>,
        /// Its `workflow-input`.
        #[serde(with = "wire")]
        input: Value,
        /// Its `workflow-original`.
        #[serde(with = "wire")]
        original: Value,
    },
    /// A delegated workflow ended.
    InstanceFinished {
        /// The instance that ended.
        instance: InstanceId,
        /// Status, result and failure.
        end: Box<RunEnd>,
    },
    /// A step ended.
    StepFinished {
        /// Its frame.
        frame: FrameId,
        /// Result, outputs and failure.
        result: Box<StepResult>,
    },
    /// A judge decided.
    Judged {
        /// Frame of the step.
        frame: FrameId,
        /// The verdict, or the failure.
        verdict: Result<Verdict, Failure>,
    },
    /// The run took a route.
    Routed {
        /// Frame of the step.
        frame: FrameId,
        /// The outcome; absent if the step has no judge.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        outcome: Option<Outcome>,
        /// The destination of the run.
        to: Destination,
        /// The reason for another destination than the route's: `max-iterations` or `max-visits`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        redirected: Option<Arc<str>>,
        /// The step that the route names, if the run takes another.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        original_target: Option<Arc<str>>,
        /// `true` if a limit of the workflow's own bounds the number of times that the run can take this route.
        bounded: bool,
    },
    /// A model raised an event of the state; the last one before the round ends counts.
    EventRaised {
        /// Frame of the step.
        frame: FrameId,
        /// Its name.
        event: Arc<str>,
        /// The context for the destination.
        context: Arc<str>,
        /// Further arguments of the model's call.
        #[serde(default, with = "wire", skip_serializing_if = "Value::is_nullish")]
        extras: Value,
    },
    /// A step set an artifact.
    ArtifactSet {
        /// The step that set it.
        frame: FrameId,
        /// Its name.
        name: Arc<str>,
        /// Its whole new value.
        #[serde(with = "wire")]
        value: Value,
    },
    /// The run received a signal, and keeps it until a step waits for it.
    SignalReceived(Signal),
    /// A step took a signal.
    SignalTaken {
        /// Frame of the step.
        frame: FrameId,
        /// ID of the signal, as in its `signal-received`.
        signal: u64,
    },
    /// A step began to wait for its signal.
    WaitStarted {
        /// Frame of the step.
        frame: FrameId,
        /// The question, rendered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
    },
    /// An effect may have happened before a crash and must not happen twice: a person has to decide.
    InDoubt {
        /// The effect that may have happened.
        effect: EffectId,
    },
    /// An effect in doubt was settled.
    Answered {
        /// The effect that was in doubt.
        effect: EffectId,
        /// Re-execute, skip or fail.
        answer: Answer,
        /// The sender, as the host knows them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A call was denied something, and the run asks for a grant before the denial counts.
    GrantAsked {
        /// The effect whose call was denied.
        effect: EffectId,
        /// The reply to the call; it counts if nothing is granted.
        reply: Box<EffectReply>,
        /// The plugin's reason for its request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<Arc<str>>,
    },
    /// The answer to a request for a grant: granted, and Opcell repeats the call; or refused, and the denial counts.
    GrantAnswered {
        /// The effect whose call was denied.
        effect: EffectId,
        /// The duration of the grant; absent if refused.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<GrantScope>,
        /// The sender, as the host knows them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A tool asks a person for input in the middle of a call, or continues as a task of its server, which the run
    /// polls for from now on, also after a crash.
    InputAsked {
        /// The effect whose call asks.
        effect: EffectId,
        /// The place of the call among those of the effect's cell, if one of them asks: the cell is dropped, and run again
        /// when the answers are there.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        place: Option<u32>,
        /// The reply to the call, with the request for input.
        reply: Box<EffectReply>,
    },
    /// A person answered a form of a tool's request for input. After the last form, Opcell makes the call again with
    /// the answers.
    InputAnswered {
        /// The effect whose call asks.
        effect: EffectId,
        /// ID of the question: a digest of its content.
        question: Arc<str>,
        /// The values, or that there are none.
        answer: InputAnswer,
        /// The person, as the host knows them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The place of the answer: `terminal`, `command`, `page`, `api`, `mcp`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// The calls that an effect's cell makes are journaled from now on: the cell can be run again with their answers.
    InnerStarted {
        /// The effect.
        effect: EffectId,
        /// The seed of the cell's random numbers, in hexadecimal.
        seed: Digest,
    },
    /// An effect's cell calls a tool. A call that changes something begins as soon as this event is durable.
    InnerRequested {
        /// The effect.
        effect: EffectId,
        /// The call.
        call: Box<InnerRequest>,
    },
    /// An effect's cell waits for nothing but time. It is dropped, and run again when the first of its timers is due.
    InnerSlept {
        /// The effect.
        effect: EffectId,
        /// When the cell is run again.
        until: Timestamp,
    },
    /// A call of an effect's cell ended. The cell has the answer as soon as this event is durable.
    InnerReplied {
        /// The effect.
        effect: EffectId,
        /// The place of the call among those of the cell, from 0.
        place: u32,
        /// The result, or the failure, and the receipt.
        reply: Box<Reply<Value>>,
    },
    /// Calls of a model wait for a person, each until it is answered.
    CallsAsked {
        /// The step, or the step that is judged.
        frame: FrameId,
        /// The calls, in the model's order.
        calls: Vec<AskedCall>,
    },
    /// A person answered for a call.
    CallAnswered {
        /// The step, or the step that is judged.
        frame: FrameId,
        /// ID of the question: a digest of its content.
        question: Arc<str>,
        /// Approve or refuse.
        answer: CallAnswer,
        /// The person, as the host knows them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The place of the answer: `terminal`, `command`, `page`, `api`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// The time for answers about calls ended.
    CallsExpired {
        /// The step, or the step that is judged.
        frame: FrameId,
    },
    /// Opcell stopped an effect: the part of the run that needed it ended, or it did not end in time after a
    /// cancellation.
    Abandoned {
        /// The effect that was stopped.
        effect: EffectId,
        /// The reason: that of the part that ended, or `cancelled`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
        /// The receipt, if the effect was a call: [`CallReceipt`](crate::receipt::CallReceipt).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        receipt: Option<Receipt>,
    },
    /// The next effect or step would exceed a limit.
    LimitReached {
        /// The limit that was reached.
        limit: LimitKind,
        /// The amount used.
        used: f64,
        /// The amount allowed.
        max: f64,
    },
    /// A request to stop the run arrived. No effect starts after this.
    CancelRequested {
        /// The reason, for people.
        reason: Arc<str>,
        /// The sender, as the host knows them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A person moved the run to other versions of what it pinned.
    RunRepinned(Box<Repinned>),
    /// Time passed; a limit on wall time may have been reached.
    Ticked,
    /// The last event of every run.
    RunFinished(Box<RunEnd>),
}

// Events are moved and kept as a whole: up to this many bytes, a copy takes a few instructions.
const _: () = assert!(size_of::<Recorded>() <= 128);

/// A value, or why there is none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Settled {
    /// A value.
    Ok(#[serde(with = "wire")] Value),
    /// A failure.
    Failed(Failure),
}

/// The result of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct StepResult {
    /// The result, unless it is the reply of the step's effect, its session's text or its workflow's result.
    #[serde(with = "wire", default = "wire::undefined", skip_serializing_if = "wire::is_undefined")]
    pub value: Value,
    /// Outputs that are computed from the result.
    #[serde(with = "wire", default = "wire::undefined", skip_serializing_if = "wire::is_undefined")]
    pub mapped: Value,
    /// The failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// The run continues in spite of the failure.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignored: bool,
    /// The failure happened in the step's group before the inner step's own work, and discards the group's records
    /// (WorkflowSkill 0.5.0).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub discards_group: bool,
}

/// The step did its work, and what came of it is the result.
impl Default for StepResult {
    fn default() -> Self {
        Self { value: Value::Undefined, mapped: Value::Undefined, failure: None, ignored: false, discards_group: false }
    }
}

/// The destination of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Destination {
    /// A step, by position.
    Step(u32),
    /// The end of the workflow.
    Done,
}

/// Something from outside, by name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Signal {
    /// Position among the run's signals, from 1.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// The data.
    #[serde(with = "wire")]
    pub data: Value,
    /// The sender, as the host knows them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// Its sender's key: a signal with a key that came before is not received again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Arc<str>>,
    /// The only question that it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Arc<str>>,
    /// `true` if its sender may approve: no other signal is taken as an approval. Where it is absent, in journals of
    /// earlier versions, a signal approves only if it answers a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub may_approve: Option<bool>,
}

impl Signal {
    /// Returns `true` if an approval takes it. An answer to a question was sent by someone who may approve.
    #[must_use]
    pub fn may_approve(&self) -> bool {
        self.may_approve.unwrap_or(self.question.is_some())
    }
}

impl Event {
    /// The receipt that it brings, if a cell or a call of a tool ended with it, or was stopped.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        let reply = match self {
            Self::Replied { reply, .. } | Self::GrantAsked { reply, .. } | Self::InputAsked { reply, .. } => {
                reply.as_ref()
            }
            Self::Abandoned { receipt, .. } => return receipt.as_ref(),
            Self::StepCalled { call, .. } | Self::ElementCalled { call, .. } => return call.receipt.as_ref(),
            Self::RunStarted(_)
            | Self::DefinitionPinned { .. }
            | Self::StepEntered { .. }
            | Self::StepSkipped { .. }
            | Self::StepPrepared { .. }
            | Self::EachStarted { .. }
            | Self::ElementEntered { .. }
            | Self::ElementFinished { .. }
            | Self::GroupEntered { .. }
            | Self::Chosen { .. }
            | Self::GroupFinished { .. }
            | Self::Requested { .. }
            | Self::Retrying { .. }
            | Self::TurnStarted { .. }
            | Self::Interjected { .. }
            | Self::Guarded { .. }
            | Self::TurnFinished { .. }
            | Self::InstanceStarted { .. }
            | Self::InstanceFinished { .. }
            | Self::StepFinished { .. }
            | Self::Judged { .. }
            | Self::Routed { .. }
            | Self::EventRaised { .. }
            | Self::ArtifactSet { .. }
            | Self::SignalReceived(_)
            | Self::SignalTaken { .. }
            | Self::WaitStarted { .. }
            | Self::InDoubt { .. }
            | Self::Answered { .. }
            | Self::GrantAnswered { .. }
            | Self::InputAnswered { .. }
            | Self::InnerStarted { .. }
            | Self::InnerRequested { .. }
            | Self::InnerSlept { .. }
            | Self::InnerReplied { .. }
            | Self::CallsAsked { .. }
            | Self::CallAnswered { .. }
            | Self::CallsExpired { .. }
            | Self::LimitReached { .. }
            | Self::CancelRequested { .. }
            | Self::RunRepinned(_)
            | Self::Ticked
            | Self::RunFinished(_) => return None,
        };
        match reply {
            EffectReply::Invoke(reply) => reply.receipt.as_ref(),
            EffectReply::Judge(reply) => reply.receipt.as_ref(),
            EffectReply::Tool(reply) => reply.receipt.as_ref(),
            EffectReply::Open(_) | EffectReply::Round(_) | EffectReply::Slept | EffectReply::Found => None,
        }
    }

    /// Returns `true` if the event came from outside; everything else the core decided.
    #[must_use]
    pub fn comes_from_outside(&self) -> bool {
        if let Self::CallsAsked { calls, .. } = self {
            // A program calls, or the model, whose calls the core decides on.
            return calls.iter().any(|call| call.inner.is_some());
        }
        matches!(
            self,
            Self::RunStarted(_)
                | Self::DefinitionPinned { .. }
                | Self::Replied { .. }
                | Self::StepCalled { .. }
                | Self::ElementCalled { .. }
                | Self::SignalReceived(_)
                | Self::InDoubt { .. }
                | Self::Answered { .. }
                | Self::GrantAsked { .. }
                | Self::GrantAnswered { .. }
                | Self::InputAsked { .. }
                | Self::InputAnswered { .. }
                | Self::InnerStarted { .. }
                | Self::InnerRequested { .. }
                | Self::InnerSlept { .. }
                | Self::InnerReplied { .. }
                | Self::CallAnswered { .. }
                | Self::Abandoned { .. }
                | Self::CancelRequested { .. }
                | Self::RunRepinned(_)
                | Self::Ticked
        )
    }

    /// Returns `true` if a person allowed something by it: a step to go on, a call, a grant.
    #[must_use]
    pub fn is_approval(&self) -> bool {
        match self {
            Self::SignalReceived(signal) => approves(&signal.data),
            Self::CallAnswered { answer, .. } => matches!(answer, CallAnswer::Approve { .. }),
            Self::GrantAnswered { grant, .. } => grant.is_some(),
            Self::InputAnswered { answer, .. } => matches!(answer, InputAnswer::Accept(_)),
            _ => false,
        }
    }

    /// The event as a journal keeps it.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Events hold strings, numbers and their own types only; none of them can fail to be written.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The kind, as the journal's records name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::RunStarted(_) => "run-started",
            Self::DefinitionPinned { .. } => "definition-pinned",
            Self::StepEntered { .. } => "step-entered",
            Self::StepSkipped { .. } => "step-skipped",
            Self::StepPrepared { .. } => "step-prepared",
            Self::EachStarted { .. } => "each-started",
            Self::ElementEntered { .. } => "element-entered",
            Self::ElementFinished { .. } => "element-finished",
            Self::GroupEntered { .. } => "group-entered",
            Self::Chosen { .. } => "chosen",
            Self::GroupFinished { .. } => "group-finished",
            Self::Requested { .. } => "requested",
            Self::Replied { .. } => "replied",
            Self::StepCalled { .. } => "step-called",
            Self::ElementCalled { .. } => "element-called",
            Self::Retrying { .. } => "retrying",
            Self::TurnStarted { .. } => "turn-started",
            Self::Interjected { .. } => "interjected",
            Self::Guarded { .. } => "guarded",
            Self::TurnFinished { .. } => "turn-finished",
            Self::InstanceStarted { .. } => "instance-started",
            Self::InstanceFinished { .. } => "instance-finished",
            Self::StepFinished { .. } => "step-finished",
            Self::Judged { .. } => "judged",
            Self::Routed { .. } => "routed",
            Self::EventRaised { .. } => "event-raised",
            Self::ArtifactSet { .. } => "artifact-set",
            Self::SignalReceived(_) => "signal-received",
            Self::SignalTaken { .. } => "signal-taken",
            Self::WaitStarted { .. } => "wait-started",
            Self::InDoubt { .. } => "in-doubt",
            Self::Answered { .. } => "answered",
            Self::GrantAsked { .. } => "grant-asked",
            Self::GrantAnswered { .. } => "grant-answered",
            Self::InputAsked { .. } => "input-asked",
            Self::InputAnswered { .. } => "input-answered",
            Self::InnerStarted { .. } => "inner-started",
            Self::InnerRequested { .. } => "inner-requested",
            Self::InnerSlept { .. } => "inner-slept",
            Self::InnerReplied { .. } => "inner-replied",
            Self::CallsAsked { .. } => "calls-asked",
            Self::CallAnswered { .. } => "call-answered",
            Self::CallsExpired { .. } => "calls-expired",
            Self::Abandoned { .. } => "abandoned",
            Self::LimitReached { .. } => "limit-reached",
            Self::CancelRequested { .. } => "cancel-requested",
            Self::RunRepinned(_) => "run-repinned",
            Self::Ticked => "ticked",
            Self::RunFinished(_) => "run-finished",
        }
    }
}
