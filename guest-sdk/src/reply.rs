//! The results of operations and judges.

use crate::bindings::imports::opcell::plugin0_1_0::types;
use crate::bindings::judges::exports::opcell::plugin0_1_0::judges;
use crate::bindings::operations::exports::opcell::plugin0_1_0::operations;
use crate::{Denial, Outcome};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use std::fmt;

/// A failure on purpose. It ends a judge's run, and an operation's unless its workflow says otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    /// Stable and machine-readable: kebab-case, a namespace separated by `/`.
    pub reason: String,
    /// One sentence for a person.
    pub message: String,
    /// Structured details.
    pub details: Option<Value>,
}

impl Failure {
    /// A failure without details.
    pub fn new(reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason: reason.into(), message: message.into(), details: None }
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.reason, self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Denial> for Failure {
    fn from(denial: Denial) -> Self {
        Self {
            reason: "denied".to_owned(),
            message: denial.to_string(),
            details: Some(json!({ "capability": denial.capability, "rule": denial.rule, "remedy": denial.remedy })),
        }
    }
}

impl fmt::Display for Denial {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} is denied by {}; to grant it: {}", self.capability, self.rule, self.remedy)
    }
}

impl From<types::Failure> for Failure {
    fn from(failure: types::Failure) -> Self {
        // Details that are not JSON are a host's fault that must not hide the failure itself.
        let details = failure.details.map(|text| serde_json::from_str(&text).unwrap_or(Value::String(text)));
        Self { reason: failure.reason, message: failure.message, details }
    }
}

impl From<Failure> for types::Failure {
    fn from(failure: Failure) -> Self {
        Self {
            reason: failure.reason,
            message: failure.message,
            details: failure.details.map(|details| details.to_string()),
        }
    }
}

/// Data with what people want to see beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Success<T> {
    /// The data that later steps refer to.
    pub data: T,
    /// One sentence, or a short text, for a person or a model.
    pub summary: Option<String>,
    /// Whatever helps to understand how `data` came about.
    pub details: Option<Value>,
}

impl<T> Success<T> {
    /// Data alone.
    pub fn new(data: T) -> Self {
        Self { data, summary: None, details: None }
    }

    /// Adds a summary.
    #[must_use]
    pub fn with_summary(mut self, summary: impl Into<String>) -> Self {
        self.summary = Some(summary.into());
        self
    }

    /// Adds details.
    #[must_use]
    pub fn with_details(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

/// A value that an operation may return: any data, or a [`Success`].
pub trait IntoReply {
    /// The type whose schema describes the data.
    type Data: JsonSchema;

    /// The reply as it crosses the boundary. Fails when the data cannot be written as JSON.
    fn into_reply(self) -> Result<operations::Success, Failure>;
}

impl<T: Serialize + JsonSchema> IntoReply for T {
    type Data = T;

    fn into_reply(self) -> Result<operations::Success, Failure> {
        Success::new(self).into_reply()
    }
}

impl<T: Serialize + JsonSchema> IntoReply for Success<T> {
    type Data = T;

    fn into_reply(self) -> Result<operations::Success, Failure> {
        let data = serde_json::to_string(&self.data)
            .map_err(|error| Failure::new("malformed-data", format!("the data is not JSON: {error}")))?;
        Ok(operations::Success {
            data,
            summary: self.summary,
            details: self.details.map(|details| details.to_string()),
        })
    }
}

/// A judge's decision.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// Exactly one.
    pub outcome: Outcome,
    /// Why the judge decided so, for people.
    pub rationale: Option<String>,
}

impl Verdict {
    /// The outcome `"text"`.
    pub fn text(text: impl Into<String>) -> Self {
        Outcome::Text(text.into()).into()
    }

    /// The outcome `:keyword`, given without its colon.
    pub fn keyword(keyword: impl Into<String>) -> Self {
        Outcome::Keyword(keyword.into()).into()
    }

    /// Says why.
    #[must_use]
    pub fn because(mut self, rationale: impl Into<String>) -> Self {
        self.rationale = Some(rationale.into());
        self
    }
}

impl From<Outcome> for Verdict {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, rationale: None }
    }
}

impl From<Verdict> for judges::Verdict {
    fn from(verdict: Verdict) -> Self {
        Self { outcome: verdict.outcome, rationale: verdict.rationale }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => write!(formatter, "{text:?}"),
            Self::Keyword(keyword) => write!(formatter, ":{keyword}"),
        }
    }
}
