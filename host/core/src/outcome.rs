//! The status of runs, and their outcomes.

use crate::{approval::CallArguments, conversation::is_zero, id::Timestamp, receipt::Receipt, wire};
use opcell_types::{Denial, Effects, Source, Value};
use serde::{Deserialize, Serialize};
use std::{fmt, sync::Arc};

/// The status of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Made, and nothing has happened yet.
    #[default]
    Pending,
    /// Something is in flight or about to be.
    Running,
    /// It waits for a signal or an answer, and for nothing else.
    Suspended,
    /// It reached its end.
    Completed,
    /// It ended without reaching it.
    Failed,
    /// A psi workflow ended because a model gave no structured output. It stays ended; a fork continues before the
    /// step.
    Blocked,
    /// It was cancelled.
    Cancelled,
}

impl Status {
    /// As written everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Suspended => "suspended",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Blocked => "blocked",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns `true` if nothing can follow.
    #[must_use]
    pub fn has_ended(self) -> bool {
        matches!(self, Self::Completed | Self::Failed | Self::Blocked | Self::Cancelled)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The end of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunEnd {
    /// `completed`, `failed`, `blocked` or `cancelled`.
    pub status: Status,
    /// The source of the reason; always there unless the run completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Stable and machine-readable, kebab-case, unique within its source; always there unless the run completed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Arc<str>>,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The step at which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<Arc<str>>,
    /// The yielded value of the step that reached the end; under the sequential lifecycle, the workflow's outputs.
    #[serde(with = "wire")]
    pub result: Value,
    /// `true` if `result` is a text for people rather than data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_text: bool,
    /// The data that the terminal contract found in the text: `handoff`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Value>,
    /// Structured details of a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
    /// The denial that failed the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub denial: Option<Box<Denial>>,
    /// The receipt of the last cell or tool that the run's last step called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// The run failed while it resolved a guard, an input or an output, and none of its results count (sequential
    /// lifecycle).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub aborted: bool,
}

/// A limit that a run can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// Entries into steps.
    TotalVisits,
    /// Tool calls by models.
    ToolCalls,
    /// Seconds since the run started.
    WallTimeSeconds,
    /// Model tokens, in and out.
    Tokens,
    /// US dollars.
    Cost,
    /// Host calls by cells.
    HostCalls,
    /// Entries into steps of a workflow that has no limit of its own.
    VisitBound,
}

impl LimitKind {
    /// As written everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::TotalVisits => "total-visits",
            Self::ToolCalls => "tool-calls",
            Self::WallTimeSeconds => "wall-time-seconds",
            Self::Tokens => "tokens",
            Self::Cost => "cost",
            Self::HostCalls => "host-calls",
            Self::VisitBound => "visit-bound",
        }
    }
}

/// The usage of a run so far.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Used {
    /// Entries into steps.
    pub visits: u64,
    /// Calls of tools and operations, by models and by steps.
    pub tool_calls: u64,
    /// Model rounds.
    pub rounds: u64,
    /// Model tokens, in and out.
    pub tokens: u64,
    /// The tokens among them that came from a provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The tokens among them that a provider kept in its cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// US dollars.
    pub cost: f64,
    /// Cells that ran.
    pub cells: u64,
    /// Host calls by cells, as their receipts say (`host-calls`).
    pub host_calls: u64,
}

impl Used {
    /// Counts what another run used, which this one started.
    pub fn add(&mut self, other: &Self) {
        let Self { visits, tool_calls, rounds, tokens, cache_read_tokens, cache_write_tokens, cost, cells, host_calls } =
            other;
        self.visits = self.visits.saturating_add(*visits);
        self.tool_calls = self.tool_calls.saturating_add(*tool_calls);
        self.rounds = self.rounds.saturating_add(*rounds);
        self.tokens = self.tokens.saturating_add(*tokens);
        self.cache_read_tokens = self.cache_read_tokens.saturating_add(*cache_read_tokens);
        self.cache_write_tokens = self.cache_write_tokens.saturating_add(*cache_write_tokens);
        self.cost += cost;
        self.cells = self.cells.saturating_add(*cells);
        self.host_calls = self.host_calls.saturating_add(*host_calls);
    }
}

/// The outcome of a run that ended, or stopped until a message arrives.
#[derive(Debug, Clone, PartialEq)]
pub struct RunOutcome {
    /// ID of the run.
    pub run: Arc<str>,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The status: ended, or `suspended`.
    pub status: Status,
    /// When it was started; a fork: when it was forked.
    pub began: Timestamp,
    /// Number of the last event.
    pub events: u64,
    /// The steps that it is in, outermost first, each with the number of its visit.
    pub steps: Vec<(Arc<str>, u32)>,
    /// When it can go on without anybody's doing: at once if that is past, or when its next timer ends. `None`: it has
    /// ended, or waits for a message.
    pub due: Option<Timestamp>,
    /// See [`RunEnd::source`].
    pub source: Option<Source>,
    /// See [`RunEnd::reason`].
    pub reason: Option<Arc<str>>,
    /// See [`RunEnd::message`].
    pub message: Option<String>,
    /// See [`RunEnd::step`].
    pub step: Option<Arc<str>>,
    /// See [`RunEnd::result`].
    pub result: Value,
    /// See [`RunEnd::is_text`].
    pub is_text: bool,
    /// See [`RunEnd::handoff`].
    pub handoff: Option<Value>,
    /// See [`RunEnd::details`].
    pub details: Option<Value>,
    /// See [`RunEnd::denial`].
    pub denial: Option<Box<Denial>>,
    /// See [`RunEnd::receipt`].
    pub receipt: Option<Receipt>,
    /// See [`RunEnd::aborted`].
    pub aborted: bool,
    /// Named values, as they were last set.
    pub artifacts: Value,
    /// The usage of the run.
    pub used: Used,
    /// The questions that it waits for, when it is suspended.
    pub questions: Vec<Question>,
}

/// A question that a suspended run waits for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Question {
    /// A signal.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// The step that waits.
        step: Arc<str>,
        /// The text of the question.
        question: Option<String>,
        /// `true` if the answer is an approval.
        approval: bool,
        /// Names this question: the place in the run, the visit and attempt, and what is asked. An answer that carries
        /// it answers this question and no other.
        #[serde(default)]
        id: Arc<str>,
        /// The step after those that it belongs to, such as `review/law` or `each[2]`.
        #[serde(default)]
        path: Arc<str>,
        /// The number of times that the step has been entered, from 1.
        #[serde(default)]
        visit: u32,
        /// An approval of this name was answered before: the name alone does not say which is meant.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// An effect in doubt, which may have happened before a crash: it is to be repeated, skipped or taken as failed.
    Doubt {
        /// ID of the effect.
        effect: crate::id::EffectId,
        /// Name of the step whose effect is in doubt.
        step: Arc<str>,
        /// A description of it.
        what: String,
    },
    /// A call that asks for what it was refused.
    Grant {
        /// ID of the effect.
        effect: crate::id::EffectId,
        /// Name of the step whose call was refused.
        step: Arc<str>,
        /// A description of the call.
        what: String,
        /// The refusal, with its rule and its remedy.
        denial: Box<Denial>,
        /// The plugin's reason for its request.
        why: Option<Arc<str>>,
        /// Names this question: the effect, and what was refused.
        #[serde(default)]
        id: Arc<str>,
        /// The same was granted or refused before: what it is called does not say which call is meant.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        again: bool,
    },
    /// A call that a model asks for and a person decides on.
    Call {
        /// Names this question: a digest of all that is shown here but for the time, and of the tool as it was when the
        /// session opened. An answer that carries it answers this question and no other.
        id: Arc<str>,
        /// Name of the step whose model calls.
        step: Arc<str>,
        /// The step after those that it belongs to.
        path: Arc<str>,
        /// The number of times that the step has been entered, from 1.
        visit: u32,
        /// The tool.
        tool: Arc<str>,
        /// The effect of repeating the call, as the tool says.
        effects: Effects,
        /// The arguments for people.
        shown: Box<CallArguments>,
        /// The arguments.
        arguments: Value,
        /// The last text of the model.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        said: Option<String>,
        /// The rules that ask.
        rule: Arc<str>,
        /// The part of its budgets that the run had used.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        budget: Option<Arc<str>>,
        /// The time until which it can be answered.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        due: Option<Timestamp>,
        /// Different people who must approve it.
        people: u32,
        /// Those who have. Versions up to 0.1.0 wrote `approved_by`.
        #[serde(rename = "approved-by", alias = "approved_by", default, skip_serializing_if = "Vec::is_empty")]
        approved_by: Vec<Arc<str>>,
    },
    /// A form that a tool asks a person to fill in, in the middle of a call.
    Input {
        /// ID of the effect.
        effect: crate::id::EffectId,
        /// Names this question: the effect, how often its tool has asked, and all that is shown here.
        id: Arc<str>,
        /// Name of the step whose call asks.
        step: Arc<str>,
        /// The step after those that it belongs to.
        path: Arc<str>,
        /// The number of times that the step has been entered, from 1.
        visit: u32,
        /// The server that asks, by its name in the project.
        server: Arc<str>,
        /// The server's own name of the tool.
        tool: Arc<str>,
        /// The server's question.
        message: Arc<str>,
        /// A flat JSON Schema of the answer: an object of texts, numbers, booleans and choices.
        schema: Value,
        /// The number of times that the tool has asked in this call, from 1.
        round: u32,
    },
}

impl Question {
    /// The ID that an answer carries; none for an effect in doubt, which its number names.
    #[must_use]
    pub fn id(&self) -> Option<&Arc<str>> {
        match self {
            Self::Signal { id, .. } | Self::Grant { id, .. } | Self::Call { id, .. } | Self::Input { id, .. } => {
                Some(id)
            }
            Self::Doubt { .. } => None,
        }
    }
}
