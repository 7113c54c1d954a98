//! Host tools: what the operator lets this plugin do beyond its own computation. Only what is granted is listed.

use crate::bindings::imports::opcell::plugin0_1_0::tools as raw;
use crate::{Denial, Failure, host};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;

/// A granted tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// Such as `http.fetch`.
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// JSON Schema of what [`call`] takes.
    pub arguments_schema: Value,
}

/// Why a tool call gave no result.
#[derive(Debug, Clone, PartialEq)]
pub enum ToolError {
    /// The host refused the call.
    Denied(Denial),
    /// The tool ran and failed, or its arguments were wrong.
    Failed(Failure),
    /// The arguments cannot be written, or the result cannot be read, as the types the caller named.
    Mismatch(String),
}

impl fmt::Display for ToolError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(formatter),
            Self::Failed(failure) => failure.fmt(formatter),
            Self::Mismatch(message) => formatter.write_str(message),
        }
    }
}

impl std::error::Error for ToolError {}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        match error {
            ToolError::Denied(denial) => denial.into(),
            ToolError::Failed(failure) => failure,
            ToolError::Mismatch(message) => Self::new("tool-mismatch", message),
        }
    }
}

/// The granted tools.
#[must_use]
pub fn list() -> Vec<Tool> {
    host::tools::list()
        .into_iter()
        .map(|tool| Tool {
            name: tool.name,
            summary: tool.summary,
            arguments_schema: serde_json::from_str(&tool.arguments_schema).unwrap_or(Value::Bool(true)),
        })
        .collect()
}

/// Calls one tool.
///
/// # Errors
/// When the host refuses, when the tool fails, and when arguments or result are not of the named types.
pub fn call<A: Serialize + ?Sized, R: DeserializeOwned>(name: &str, arguments: &A) -> Result<R, ToolError> {
    let arguments = serde_json::to_string(arguments)
        .map_err(|error| ToolError::Mismatch(format!("arguments of {name} are not JSON: {error}")))?;
    let result = host::tools::call(name, &arguments).map_err(|error| match error {
        raw::ToolError::Denied(denial) => ToolError::Denied(denial),
        raw::ToolError::Failed(failure) => ToolError::Failed(failure.into()),
    })?;
    serde_json::from_str(&result)
        .map_err(|error| ToolError::Mismatch(format!("{name} returned something unexpected: {error}")))
}
