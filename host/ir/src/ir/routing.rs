//! Judges, and where an outcome leads.

use super::{Invoke, OutputSpec, Projection, Session, StepName};
use crate::expr::Expression;
use crate::names::Outcome;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Decides exactly one outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Judge {
    /// A model.
    Llm {
        /// The judge's own conversation.
        session: Box<Session>,
        /// The part of the step's conversation that it sees; absent: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        projection: Option<Projection>,
        /// The judge's structured output; its `decision` field, or the value itself, is the outcome.
        #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
        outputs: IndexMap<Arc<str>, OutputSpec>,
    },
    /// A judge export of a plugin, or an operation whose data is the outcome.
    Invoke {
        /// The call; its arguments may use the step's own outputs.
        invoke: Invoke,
    },
    /// An event raised by the model's transition tool, by an external signal, or by either.
    Event {
        /// The party that may raise it.
        orchestration: Orchestration,
        /// The party that speaks after a transition.
        #[serde(default)]
        control: Control,
    },
    /// An expression's value.
    Expression {
        /// Must give a string.
        expression: Expression,
    },
}

/// The party that may raise a state's events (PromptPack RFC 0005).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Orchestration {
    /// The model, through its transition tool.
    #[default]
    Internal,
    /// The host, through a signal.
    External,
    /// Either.
    Hybrid,
}

/// The party that speaks after a transition (PromptPack RFC 0014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The run waits for the user.
    #[default]
    User,
    /// The destination continues at once.
    Agent,
}

/// The effect of an outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Route {
    /// Matched exactly.
    pub outcome: Outcome,
    /// The destination of the run.
    pub goto: Goto,
    /// Entries into the target, by any path, after which this transition is exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u64>,
    /// The destination of an exhausted transition; absent: the run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_max_iterations: Option<Goto>,
}

/// The destination of a transition.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goto {
    /// The next step in authored order, or the end after the last.
    Next,
    /// The step before in authored order.
    Previous,
    /// The end.
    Done,
    /// A step by name.
    Step(StepName),
}
