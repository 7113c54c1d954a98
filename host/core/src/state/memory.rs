//! A workflow's memory of the steps that ran.

use crate::{
    call::Success,
    conversation::{Message, Messages},
    outcome::{RunEnd, Used},
    receipt::{self, Receipt},
    wire,
};
use opcell_ir::ir::{Lifecycle, Step, Yields};
use opcell_types::{Value, value::Map};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The memory of one step.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct StepMemory {
    /// The number of times the step has been entered.
    pub visits: u32,
    /// Its latest result.
    pub accepted: Option<Accepted>,
    /// The usage, where it has limits of its own.
    pub used: Used,
    /// Milliseconds that entries took which are over, where something in the workflow has limits of its own.
    pub spent_ms: f64,
    /// A branch did not choose it.
    pub excluded: bool,
    /// It was passed by when its turn came last, because a branch did not choose it or all that it depends on was
    /// passed by.
    pub passed_by: bool,
}

/// A step's result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Accepted {
    /// The raw result of its form.
    pub raw: Raw,
    /// Outputs that are computed from it, by name.
    #[serde(with = "wire::option")]
    pub mapped: Option<Value>,
    /// The receipt of its last cell.
    #[serde(with = "receipt::option")]
    pub receipt: Option<Receipt>,
}

/// The raw result of a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum Raw {
    /// The step was skipped, or its failure is ignored.
    Nothing,
    Invoke(Success),
    Session(Box<SessionRecord>),
    Delegate(Box<RunEnd>),
    /// Every other form, and every step with `each`.
    Value(#[serde(with = "wire")] Value),
}

/// The record of a conversation.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct SessionRecord {
    pub messages: Messages,
    pub turns: Vec<TurnRecord>,
    #[serde(with = "wire::option")]
    pub structured: Option<Value>,
    /// The last event that the model raised.
    pub raised: Option<Raised>,
}

/// An event of the state that a model raised; the round's end commits it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Raised {
    pub event: Arc<str>,
    pub context: Arc<str>,
    #[serde(with = "wire")]
    pub extras: Value,
}

/// The record of one turn.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TurnRecord {
    /// The prompt group's name, if the session has groups.
    pub name: Option<Arc<str>>,
    pub text: Arc<str>,
    /// The turn's messages: a range of the session's.
    pub from: usize,
    pub to: usize,
    /// The log probabilities of the answer's tokens, where they were requested and given.
    #[serde(default)]
    pub logprobs: Option<Value>,
}

impl SessionRecord {
    fn text(&self) -> Value {
        self.turns.last().map_or(Value::Null, |turn| Value::from(turn.text.clone()))
    }

    fn logprobs(&self) -> Value {
        self.turns.last().and_then(|turn| turn.logprobs.clone()).unwrap_or_default()
    }

    fn turn(&self, name: &str) -> Option<&TurnRecord> {
        self.turns.iter().find(|turn| turn.name.as_deref() == Some(name))
    }
}

/// Messages as the values that references see.
pub(crate) fn transcript<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Value {
    let values = messages.into_iter().map(|message| Value::of(&message.said()).unwrap_or_default());
    Value::array(values)
}

/// A text as JSON where it is JSON.
fn json_or_text(text: Value) -> Value {
    text.as_str().and_then(|json| Value::from_json(json).ok()).unwrap_or(text)
}

impl Accepted {
    pub(crate) fn nothing() -> Self {
        Self { raw: Raw::Nothing, mapped: None, receipt: None }
    }

    /// The output of one key. A key that the step does not declare is taken as a source's name.
    pub(crate) fn output(&self, step: &Step, prompt: Option<&str>, key: &str) -> Value {
        if let Raw::Nothing = self.raw {
            return Value::Null;
        }
        if let Some(value) = self.mapped.as_ref().and_then(|mapped| mapped.get(key)) {
            return value.clone();
        }
        let source = step.outputs.get(key).and_then(|spec| spec.source.as_deref()).unwrap_or(key);
        let part = source.rsplit('/').next().unwrap_or(source);
        match (prompt, &self.raw) {
            (Some(prompt), Raw::Session(record)) => record.turn(prompt).map_or(Value::Null, |turn| match part {
                "final-llm-reply" | "text" => Value::from(turn.text.clone()),
                "transcript" => transcript(record.messages.range(turn.from..turn.to)),
                "logprobs" => turn.logprobs.clone().unwrap_or_default(),
                _ => Value::Null,
            }),
            _ => self.part(step, part),
        }
    }

    fn part(&self, step: &Step, part: &str) -> Value {
        match (&self.raw, part) {
            (Raw::Nothing, _) => Value::Null,
            (_, "result") => self.envelope(step),
            (Raw::Invoke(success), "data") => success.data.clone(),
            (Raw::Invoke(success), "summary") => success.summary.clone().map_or(Value::Null, Value::from),
            (Raw::Invoke(success), "details") => success.details.clone().unwrap_or(Value::Null),
            (Raw::Session(record), "final-llm-reply" | "text") => record.text(),
            (Raw::Session(record), "json-or-text") => json_or_text(record.text()),
            (Raw::Session(record), "transcript") => transcript(record.messages.iter()),
            (Raw::Session(record), "logprobs") => record.logprobs(),
            (Raw::Session(record), "structured-output") => record.structured.clone().unwrap_or(Value::Null),
            (Raw::Delegate(end), "handoff") => end.handoff.clone().unwrap_or(Value::Null),
            (Raw::Delegate(end), "data") => end.result.clone(),
            (Raw::Delegate(end), "text" | "final-llm-reply") if end.is_text => end.result.clone(),
            (Raw::Value(value), "data" | "items") => value.clone(),
            (Raw::Value(value), _) => value.get(part).cloned().unwrap_or(Value::Null),
            _ => Value::Null,
        }
    }

    /// The whole accepted result, as psi's `:result` output gives it: `{outcome, outputs}`.
    fn envelope(&self, step: &Step) -> Value {
        let mut outputs: Map = Map::new();
        match &self.raw {
            Raw::Invoke(success) => {
                let mut result: Map =
                    [("status".into(), Value::from("ok")), ("data".into(), success.data.clone())].into_iter().collect();
                if let Some(summary) = &success.summary {
                    result.insert("summary".into(), Value::from(summary.as_str()));
                    outputs.insert("summary".into(), Value::from(summary.as_str()));
                }
                if let Some(details) = &success.details {
                    result.insert("details".into(), details.clone());
                }
                outputs.insert("data".into(), success.data.clone());
                outputs.insert("result".into(), Value::from(result));
            }
            Raw::Session(record) => {
                outputs.insert("final-llm-reply".into(), record.text());
                outputs.insert("text".into(), record.text());
                outputs.insert("transcript".into(), transcript(record.messages.iter()));
            }
            Raw::Delegate(end) => {
                outputs.insert(if end.is_text { "text" } else { "data" }.into(), end.result.clone());
                if let Some(handoff) = &end.handoff {
                    outputs.insert("handoff".into(), handoff.clone());
                }
            }
            Raw::Value(value) => {
                outputs.insert("data".into(), value.clone());
            }
            Raw::Nothing => {}
        }
        let declared = step
            .outputs
            .iter()
            .filter(|(_, spec)| spec.source.as_deref().is_none_or(|source| !source.ends_with("/result")));
        for (key, _) in declared {
            outputs.entry(key.into()).or_insert_with(|| self.output(step, None, key));
        }
        Value::object([("outcome", Value::from("ok")), ("outputs", Value::from(outputs))])
    }

    /// A field of the step's yielded value.
    pub(crate) fn yielded(&self, step: &Step, field: &str) -> Value {
        match (&step.yields, field) {
            (Some(Yields::Error { reason, .. }), "reason") => Value::from(reason.clone()),
            (Some(Yields::Error { message, .. }), "message") => Value::from(message.clone()),
            (Some(Yields::Error { details, .. }), "details") => details.clone().unwrap_or(Value::Null),
            (Some(Yields::Error { .. }), _) => Value::Null,
            _ => {
                let (value, is_text) = self.value(step);
                match (field, is_text) {
                    ("text", true) | ("data", false) => value,
                    _ => Value::Null,
                }
            }
        }
    }

    /// The step's yielded value, and whether it is a text for people. An authored error yields its object.
    pub(crate) fn value(&self, step: &Step) -> (Value, bool) {
        if let Raw::Nothing = self.raw {
            return (Value::Null, false);
        }
        match (&step.yields, &self.raw) {
            (_, Raw::Value(value)) if step.each.is_some() => (value.clone(), false),
            (Some(Yields::Data { data }), _) => (self.output(step, None, data), false),
            (Some(Yields::Text { text }), _) => (self.output(step, None, text), true),
            (Some(Yields::Error { reason, message, details }), _) => {
                let mut error: Map =
                    [("reason".into(), Value::from(reason.clone())), ("message".into(), Value::from(message.clone()))]
                        .into_iter()
                        .collect();
                if let Some(details) = details {
                    error.insert("details".into(), details.clone());
                }
                (Value::from(error), false)
            }
            (Some(Yields::Delegated) | None, Raw::Delegate(end)) => (end.result.clone(), end.is_text),
            (_, Raw::Session(record)) => (record.text(), true),
            (_, Raw::Invoke(success)) => (self.mapped.clone().unwrap_or_else(|| success.data.clone()), false),
            (_, Raw::Value(value)) => (self.mapped.clone().unwrap_or_else(|| value.clone()), false),
            (_, Raw::Nothing) => (Value::Null, false),
        }
    }

    /// Returns the value of `$steps.NAME.output`.
    pub(crate) fn expression_output(&self, step: &Step, lifecycle: Lifecycle) -> Value {
        match lifecycle {
            Lifecycle::Routed => self.value(step).0,
            Lifecycle::Sequential => self.mapped_or_raw(),
        }
    }

    /// The mapped outputs, or the raw result; null when the step produced nothing.
    pub(crate) fn mapped_or_raw(&self) -> Value {
        match &self.raw {
            Raw::Nothing => Value::Null,
            raw => self.mapped.clone().unwrap_or_else(|| raw.plain()),
        }
    }
}

impl Raw {
    /// The raw result as one value: `$result` of output mappings.
    pub(crate) fn plain(&self) -> Value {
        match self {
            Self::Nothing => Value::Null,
            Self::Invoke(success) => success.data.clone(),
            Self::Session(record) => record.structured.clone().unwrap_or_else(|| record.text()),
            Self::Delegate(end) => end.result.clone(),
            Self::Value(value) => value.clone(),
        }
    }
}
