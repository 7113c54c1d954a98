//! Input that a tool asks a person for in the middle of a call.
//!
//! A tool that cannot end without a person fails with a [`Failure`](crate::Failure) that has an [`InputRequest`]. The
//! caller's run waits for the answers, and then makes the same call again with them: [`GivenInput`]. Between the two,
//! nothing of the call is held but what the request says.

use crate::value::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

mod field;

pub use field::{Choice, Field, FieldKind, fields};

/// A tool's request for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputRequest {
    /// The server that asks, by its name in the project.
    pub server: Arc<str>,
    /// The server's own name of the tool.
    pub tool: Arc<str>,
    /// The forms to fill in, in order; at least one, unless the call continues as a task.
    pub forms: Vec<InputForm>,
    /// Text that the call continues with, as the tool gave it. Its meaning is the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<Arc<str>>,
    /// The name of the task as which the call continues at the server: from then on it is polled for, and not repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<Arc<str>>,
}

/// A form of a request for input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InputForm {
    /// The tool's name for it.
    pub key: Arc<str>,
    /// The question, printable and bounded.
    pub message: Arc<str>,
    /// A flat JSON Schema of the answer: an object of texts, numbers, booleans and choices.
    pub schema: Value,
}

impl InputForm {
    /// Values for a form, completed by the defaults of the fields that they leave out.
    #[must_use]
    pub fn completed(&self, values: &Value) -> Value {
        let Some(given) = values.as_object() else { return values.clone() };
        let fields = self.schema.get("properties").and_then(Value::as_object);
        let defaults = fields.into_iter().flat_map(|fields| fields.iter()).filter_map(|(name, field)| {
            let default = field.get("default").filter(|_| given.get(name).is_none())?;
            Some((name.clone(), default.clone()))
        });
        let present = given.iter().map(|(name, value)| (name.clone(), value.clone()));
        Value::object(present.chain(defaults).collect::<Vec<_>>())
    }
}

/// An answer to a form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputAnswer {
    /// The values that a person gave: an object.
    Accept(Value),
    /// The person refuses to give any, and the tool decides what follows.
    Decline,
    /// The person gave none, without a decision.
    Cancel,
}

impl InputAnswer {
    /// The word for it, as the protocol has it.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Accept(_) => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }
}

/// The answers with which a call continues.
#[derive(Debug, Clone, PartialEq)]
pub struct GivenInput {
    /// The text of the request.
    pub state: Option<Arc<str>>,
    /// The answers, by the tool's names for the forms.
    pub answers: Vec<(Arc<str>, InputAnswer)>,
    /// The task as which the call continues, if it does.
    pub task: Option<Arc<str>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_left_out_are_the_defaults_of_the_form() {
        let schema = r#"{"type":"object","properties":{"name":{"type":"string","default":"Ada"},
            "age":{"type":"integer","default":30},"note":{"type":"string"}}}"#;
        let form = InputForm { key: "k".into(), message: "m".into(), schema: Value::from_json(schema).unwrap() };
        let completed = |values: &str| form.completed(&Value::from_json(values).unwrap()).to_json();
        assert_eq!(completed(r#"{"age":7}"#), r#"{"age":7,"name":"Ada"}"#);
        assert_eq!(completed(r#"{"name":""}"#), r#"{"name":"","age":30}"#);
        assert_eq!(completed("[1]"), "[1]");
    }
}
