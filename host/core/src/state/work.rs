//! The work of a step, an element or a judge in progress.

use super::calls::Ask;
use super::memory::{Raw, SessionRecord};
use crate::{
    call::{ModelWindow, OpenedSession, Summaries, Verdict, WindowLesson},
    conversation::{Message, Role, ToolCallRequest},
    event::{EffectId, InstanceId, Settled, Timestamp},
    failure::Failure,
    receipt::{self, Receipt},
    results::{self, LongResults, READ_RESULT},
    wire,
};
use opcell_types::{Value, value::Array};
use serde::{Deserialize, Serialize};
use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

/// One execution of a step's form, retries included.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Work {
    /// From 1.
    pub attempt: u32,
    /// When the attempt began.
    pub since: Timestamp,
    pub stage: Stage,
    /// The receipt of the last cell.
    #[serde(with = "receipt::option")]
    pub receipt: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The attempt is about to begin.
    Start,
    /// An effect is in flight.
    Calling(EffectId),
    /// The pause before the attempt is in flight.
    Pausing(EffectId),
    /// The pause before the attempt is wanted.
    Pause { ms: f64 },
    /// A conversation.
    Talking(Box<Conversation>),
    /// A delegated workflow runs.
    Delegating(InstanceId),
    /// A signal is awaited, perhaps until a timer ends. `came`: a matching signal is there.
    Waiting { timer: Option<EffectId>, question: Option<Arc<str>>, came: bool },
    /// It produced something that is not yet consumed.
    Produced(Raw),
    /// It failed, and nothing has been decided about it.
    Failed(Failure),
}

impl Work {
    pub(crate) fn new(since: Timestamp) -> Self {
        Self { attempt: 1, since, stage: Stage::Start, receipt: None }
    }

    pub(crate) fn is_ready(&self) -> bool {
        match &self.stage {
            Stage::Calling(_) | Stage::Pausing(_) | Stage::Delegating(_) => false,
            Stage::Waiting { came, .. } => *came,
            Stage::Talking(talk) => talk.is_ready(),
            Stage::Start | Stage::Pause { .. } | Stage::Produced(_) | Stage::Failed(_) => true,
        }
    }
}

/// A step's elements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Each {
    #[serde(with = "wire::list")]
    pub items: Array,
    /// By position; `None` is not there yet.
    #[serde(with = "wire::option_seq")]
    pub results: Vec<Option<Value>>,
    pub next: u32,
    pub running: u32,
    pub concurrency: u32,
    /// The failure that ended last.
    pub failure: Option<Failure>,
    pub pause: Pause,
}

/// The delay between elements.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) enum Pause {
    /// There is none, or it has passed.
    Over,
    /// It comes before the next element.
    Due,
    /// It is in flight.
    Running(EffectId),
}

impl Each {
    pub(crate) fn is_done(&self) -> bool {
        self.next as usize >= self.items.len() && self.running == 0
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_done()
            || (!matches!(self.pause, Pause::Running(_))
                && (self.next as usize) < self.items.len()
                && self.running < self.concurrency)
    }
}

/// The groups of a branch (one, chosen) or of a parallel step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Groups {
    /// The groups that run, in order.
    pub wanted: Vec<u32>,
    /// By position in `wanted`.
    pub results: Vec<Option<Settled>>,
    pub next: u32,
    pub running: u32,
    pub concurrency: u32,
    /// A group ended the whole run: the position in `wanted`.
    pub halted: Option<u32>,
}

impl Groups {
    pub(crate) fn is_done(&self) -> bool {
        self.halted.is_some() || (self.next as usize >= self.wanted.len() && self.running == 0)
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.is_done() || ((self.next as usize) < self.wanted.len() && self.running < self.concurrency)
    }
}

/// A step's judge at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Judging {
    /// Nothing has been decided yet.
    Start,
    /// A call is in flight.
    Calling(EffectId),
    /// A call ended with this.
    Called(Result<Verdict, Failure>, #[serde(with = "receipt::option")] Option<Receipt>),
    /// A model decides.
    Llm(Box<Conversation>),
    /// An event from outside is awaited. `came`: one is there.
    Waiting { came: bool },
    /// It decided, or could not.
    Decided(Result<Verdict, Failure>),
}

impl Judging {
    pub(crate) fn is_ready(&self) -> bool {
        match self {
            Self::Calling(_) => false,
            Self::Waiting { came } => *came,
            Self::Llm(talk) => talk.is_ready(),
            Self::Start | Self::Called(..) | Self::Decided(_) => true,
        }
    }
}

/// The most calls of one answer that are made at once: enough to hide waiting, few enough for a host that runs many
/// sessions.
const AT_ONCE: usize = 8;

/// A model conversation, of a session step or of a judge.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conversation {
    pub stage: ConversationStage,
    pub opened: Option<Arc<OpenedSession>>,
    pub record: SessionRecord,
    /// The position at which the current turn's messages begin.
    pub turn_from: usize,
    /// The current prompt group.
    pub group: Option<u32>,
    /// Model rounds of the current turn.
    pub rounds: u32,
    /// Augmenters that have seen the current turn.
    #[serde(default)]
    pub augmented: u32,
    /// The answer of the authorizer about the transition that is to take place; absent: it has not been asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub permit: Option<Permit>,
    /// Answers of the current turn that were not what was asked for.
    pub failed_answers: u32,
    /// The session's model that answers.
    pub model: u32,
    /// Why earlier models did not answer.
    pub model_failures: Vec<Failure>,
    /// Tool calls of the current turn, refused ones included.
    #[serde(default)]
    pub turn_calls: usize,
    /// Calls of the last answer whose answers are not part of the conversation yet.
    pub calls: VecDeque<ToolCallRequest>,
    /// The number of them, from the first on, that have been made.
    #[serde(default)]
    pub asked: usize,
    /// Answers that came before those of earlier calls.
    #[serde(default)]
    pub answers: Vec<Message>,
    /// The log probabilities of the last answer's tokens, where they were requested and given.
    #[serde(default)]
    pub logprobs: Option<Value>,
    /// Rules of the session have rewritten the last answer.
    #[serde(default)]
    pub guarded: bool,
    /// Calls of the last answer that wait for a person, or were answered and not made yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<Ask>,
    /// Questions about calls of the current turn.
    #[serde(default)]
    pub questions: u32,
    /// The calls that were refused in the current turn: they are not asked about again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<Arc<str>>,
    /// The context windows of the session's models, as their answers corrected them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<ModelWindow>,
    /// The summaries and results beside its messages.
    #[serde(default)]
    pub kept: ConversationStore,
}

/// The summaries and results of a conversation, which go with its messages.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct ConversationStore {
    /// The summaries of older messages.
    #[serde(default)]
    pub summaries: Summaries,
    /// Long results of tools, of which the messages have a part.
    #[serde(default)]
    pub results: LongResults,
}

/// The authorizer's answer about one transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Permit {
    /// It has been asked.
    Asked,
    Given,
    /// With the reason.
    Refused(Arc<str>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum ConversationStage {
    /// The session is not open yet.
    Closed,
    /// Something is in flight.
    Busy(EffectId),
    /// A turn may begin, or the conversation end.
    Idle,
    /// The user, or an event from outside, is awaited. `came`: it is there.
    Waiting { came: bool },
    /// A turn is under way.
    Turn,
    /// It cannot go on.
    Failed(Failure),
}

impl Default for Conversation {
    fn default() -> Self {
        Self {
            stage: ConversationStage::Closed,
            opened: None,
            record: SessionRecord::default(),
            turn_from: 0,
            group: None,
            rounds: 0,
            augmented: 0,
            permit: None,
            failed_answers: 0,
            model: 0,
            model_failures: Vec::new(),
            turn_calls: 0,
            calls: VecDeque::new(),
            asked: 0,
            answers: Vec::new(),
            logprobs: None,
            guarded: false,
            asks: Vec::new(),
            questions: 0,
            refused: Vec::new(),
            windows: Vec::new(),
            kept: ConversationStore::default(),
        }
    }
}

impl Conversation {
    pub(crate) fn is_ready(&self) -> bool {
        match self.stage {
            ConversationStage::Busy(_) | ConversationStage::Waiting { came: false } => false,
            ConversationStage::Turn => !self.awaits_answer(),
            _ => true,
        }
    }

    /// The session is open.
    pub(crate) fn opened(&mut self, opened: &Arc<OpenedSession>) {
        self.windows.clone_from(&opened.windows);
        self.opened = Some(opened.clone());
        if !self.kept.results.is_empty() {
            self.offer_results();
        }
        self.stage = ConversationStage::Idle;
    }

    /// The model that is asked taught something of its context window.
    pub(crate) fn learn(&mut self, lesson: WindowLesson) {
        let asked = self.opened.as_ref().and_then(|opened| opened.models.get(self.model as usize));
        let Some(asked) = asked else { return };
        match self.windows.iter_mut().find(|window| window.model == *asked) {
            Some(window) => window.lesson = lesson,
            None => self.windows.push(ModelWindow { model: asked.clone(), tokens: None, lesson }),
        }
    }

    /// Shows a part of a long result in place of all of it, and keeps the rest for the model to read.
    pub(crate) fn shorten(&mut self, answer: &mut Message) {
        let Some(opened) = self.opened.as_ref() else { return };
        let Some(limit) = opened.result_limit.map(|limit| limit as usize) else { return };
        if answer.content.len() <= limit {
            return;
        }
        // The result of such a tool is the answer of the session.
        let called = answer.tool_call_id.as_deref().and_then(|id| self.call(id));
        if called.is_some_and(|call| opened.settings.final_tool.as_deref() == Some(&call.name)) {
            return;
        }
        answer.content = self.kept.results.keep(&answer.content, limit);
        self.offer_results();
    }

    /// Adds the tool that reads long results, once there is one.
    fn offer_results(&mut self) {
        let Some(opened) = self.opened.as_mut() else { return };
        let is_there = opened.tools.iter().any(|tool| tool.name == READ_RESULT);
        if opened.result_limit.is_some() && !is_there {
            Arc::make_mut(opened).tools.push(results::description());
        }
    }

    /// Returns `true` if the next call waits for a person.
    pub(crate) fn awaits_answer(&self) -> bool {
        !self.asks.is_empty()
            && self.next_call().is_some_and(|call| self.ask_of(&call.id).is_some_and(|ask| ask.answer.is_none()))
    }

    /// The question about a call.
    pub(crate) fn ask_of(&self, call: &str) -> Option<&Ask> {
        self.asks.iter().find(|ask| ask.of.inner.is_none() && ask.of.call.as_ref() == call)
    }

    /// The call that comes next.
    pub(crate) fn next_call(&self) -> Option<&ToolCallRequest> {
        self.calls.get(self.asked)
    }

    /// The next call was made. The one after it is made at once when both change nothing.
    pub(crate) fn call_made(&mut self, effect: EffectId) {
        let free = self.opened.as_ref().map_or(&[][..], |opened| &opened.parallel_tools);
        let changes_nothing = |call: &ToolCallRequest| free.contains(&call.name);
        // Calls are told apart by their ids; a model that gives one id twice has to wait.
        let is_told_apart =
            |call: &ToolCallRequest| self.calls.iter().take(self.asked + 1).all(|made| made.id != call.id);
        let goes_on = self.asked + 1 < self.answers.len() + AT_ONCE
            && self.next_call().is_some_and(changes_nothing)
            && self.calls.get(self.asked + 1).is_some_and(|next| changes_nothing(next) && is_told_apart(next));
        self.asked += 1;
        self.turn_calls += 1;
        self.stage = if goes_on { ConversationStage::Turn } else { ConversationStage::Busy(effect) };
    }

    /// A call was answered, or is answered without being made; `effect` is the newest one. Answers become part of the
    /// conversation in the order of the calls.
    pub(crate) fn call_answered(&mut self, answer: Message, effect: EffectId) {
        self.answers.push(answer);
        while let Some(at) = self.first_answer() {
            self.calls.pop_front();
            self.asked = self.asked.saturating_sub(1);
            self.record.messages.push(self.answers.remove(at));
        }
        let in_flight = self.asked > self.answers.len();
        self.stage = if in_flight { ConversationStage::Busy(effect) } else { ConversationStage::Turn };
    }

    /// Returns the position of the first call's answer, if it is there.
    fn first_answer(&self) -> Option<usize> {
        let first = self.calls.front()?;
        self.answers.iter().position(|answer| answer.tool_call_id.as_deref() == Some(&first.id))
    }

    /// A call that the model asked for and that has not been answered.
    pub(crate) fn call(&self, id: &str) -> Option<&ToolCallRequest> {
        self.calls.iter().find(|call| call.id == id)
    }

    /// The first call of each of the IDs.
    pub(crate) fn calls_by_id(&self, ids: HashSet<&str>) -> HashMap<&str, &ToolCallRequest> {
        let mut found = HashMap::new();
        for call in self.calls.iter().filter(|call| ids.contains(call.id.as_str())) {
            found.entry(call.id.as_str()).or_insert(call);
        }
        found
    }

    /// Returns a tool's answer in the round that has just ended, if it was called there and did not fail.
    pub(crate) fn result_of(&self, tool: &str) -> Option<&Message> {
        let said = || self.record.messages.since(self.turn_from).rev();
        let asked = said().find(|message| message.role == Role::Assistant)?;
        let call = asked.tool_calls.iter().find(|call| call.name == tool)?;
        let results = said().take_while(|message| message.role != Role::Assistant);
        results.into_iter().find(|result| result.tool_call_id.as_deref() == Some(&call.id) && !result.is_error)
    }

    /// The model's last words, when it has just spoken and asks for nothing. What it is only given to read is not an
    /// answer of its own.
    pub(crate) fn answer(&self) -> Option<&Message> {
        self.record
            .messages
            .since(self.turn_from)
            .next_back()
            .filter(|message| message.role == Role::Assistant && self.calls.is_empty() && self.rounds > 0)
    }
}
