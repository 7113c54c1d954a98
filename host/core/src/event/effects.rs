//! Requests of effects, the replies that they end with, and the calls of an effect's cell.

use crate::{
    call::{ModelReply, OpenedSession, Reply, Success, Verdict},
    failure::Failure,
    id::Timestamp,
    receipt::Receipt,
    wire,
};
use opcell_types::{ClockReadings, Denial, Effects, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Something wanted. What is not said here follows from the state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Request {
    /// The step's operation.
    Invoke {
        /// An object.
        #[serde(with = "wire")]
        arguments: Value,
    },
    /// The step's invoke judge.
    Judge {
        /// An object.
        #[serde(with = "wire")]
        arguments: Value,
    },
    /// The step's session, or its LLM judge's.
    Open {
        /// The instruction layer with its variables filled in; absent: as declared.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        system_prompt: Option<Arc<str>>,
    },
    /// The authorizer of transitions, before one takes place.
    Authorize {
        /// The event.
        event: Arc<str>,
        /// The context for the next state; empty where none is given.
        #[serde(default)]
        context: Arc<str>,
        /// The party that raised the event.
        by: RaisedBy,
    },
    /// An augmenter of the session, which adds to what the turn sends or refuses it.
    Augment {
        /// Position among the session's augmenters.
        at: u32,
    },
    /// One answer of the session's model.
    Round {
        /// Position among the session's models.
        model: u32,
    },
    /// One tool call that the model asked for.
    Tool {
        /// The model's name for the call.
        call: Arc<str>,
        /// The question that a person approved, if the call needed an approval.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
        /// The arguments, where a person changed those of the model.
        #[serde(with = "wire", default = "wire::undefined", skip_serializing_if = "wire::is_undefined")]
        arguments: Value,
    },
    /// A pause between attempts or elements.
    Sleep {
        /// The time, in milliseconds; fractions count.
        ms: f64,
    },
    /// A workflow by name.
    Find {
        /// Its name.
        name: Arc<str>,
    },
    /// A timer that runs while a step waits for a signal.
    Timeout {
        /// The time, in milliseconds.
        ms: f64,
    },
}

impl Request {
    /// A tool call as the model asked for it.
    #[must_use]
    pub fn tool(call: &str) -> Self {
        Self::Tool { call: call.into(), question: None, arguments: Value::Undefined }
    }
}

/// The party that raises an event of a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RaisedBy {
    /// The state's model, by its transition tool.
    Model,
    /// The output of the state's composition.
    Output,
    /// A signal.
    Signal,
}

impl RaisedBy {
    /// Its name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RaisedBy::Model => "model",
            RaisedBy::Output => "output",
            RaisedBy::Signal => "signal",
        }
    }
}

/// The reply that an effect ended with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EffectReply {
    /// The answer to [`Request::Invoke`] and [`Request::Augment`].
    Invoke(Reply<Success>),
    /// The answer to [`Request::Judge`] and [`Request::Authorize`].
    Judge(Reply<Verdict>),
    /// The answer to [`Request::Open`].
    Open(Result<Arc<OpenedSession>, Failure>),
    /// The answer to [`Request::Round`].
    Round(Result<Box<ModelReply>, Failure>),
    /// The answer to [`Request::Tool`].
    Tool(Reply<Value>),
    /// The answer to [`Request::Sleep`] and [`Request::Timeout`].
    Slept,
    /// The answer to [`Request::Find`]; the previous event pins the workflow.
    Found,
}

impl EffectReply {
    /// The refusal with which a call failed.
    #[must_use]
    pub fn denial(&self) -> Option<&Denial> {
        self.refused().and_then(|(failure, _)| failure.denial.as_deref())
    }

    /// The failure of a call that was refused something, and what the call used.
    #[must_use]
    pub fn refused(&self) -> Option<(&Failure, Option<&Receipt>)> {
        let (failure, receipt) = match self {
            Self::Invoke(Reply { result: Err(failure), receipt }) => (failure, receipt),
            Self::Judge(Reply { result: Err(failure), receipt }) => (failure, receipt),
            _ => return None,
        };
        failure.denial.as_ref().map(|_| (failure, receipt.as_ref()))
    }

    /// The reply that says that a request failed.
    #[must_use]
    pub fn failed(request: &Request, failure: Failure) -> Self {
        match request {
            Request::Invoke { .. } | Request::Augment { .. } => {
                Self::Invoke(Reply { result: Err(failure), receipt: None })
            }
            Request::Judge { .. } | Request::Authorize { .. } => {
                Self::Judge(Reply { result: Err(failure), receipt: None })
            }
            Request::Open { .. } => Self::Open(Err(failure)),
            Request::Round { .. } => Self::Round(Err(failure)),
            Request::Tool { .. } => Self::Tool(Reply { result: Err(failure), receipt: None }),
            Request::Find { .. } => Self::Found,
            Request::Sleep { .. } | Request::Timeout { .. } => Self::Slept,
        }
    }
}

/// A call that an effect's cell makes: of a tool, or of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InnerRequest {
    /// Its place among the calls of the cell, from 0.
    pub place: u32,
    /// The name that the cell called.
    pub tool: Arc<str>,
    /// The arguments.
    #[serde(with = "wire")]
    pub arguments: Value,
    /// The effect of repeating it.
    pub effects: Effects,
    /// The readings of the cell's clocks since the call before.
    #[serde(default, skip_serializing_if = "ClockReadings::is_empty")]
    pub clocks: ClockReadings,
    /// `true` if it has its place among several calls at once and waits for a person: it has not begun. It is requested
    /// once more when it begins.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Of a timer of the cell, when it ends: no tool is called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}
