//! Host tools: what the operator lets this plugin do beyond its own computation. Only what is granted is listed.
//!
//! Several calls may be in progress at once, up to the limit `concurrent-calls` of the cell; [`call_all`] makes as many as
//! it is given, and [`start`] one. A cell ends after its calls.
//!
//! ```
//! use opcell_sdk::{testing::Host, tools};
//! use serde_json::json;
//!
//! let _host = Host::new().tool("double", |number| Ok(json!(number["of"].as_u64().unwrap() * 2))).install();
//! let calls = [1, 2, 3].map(|of| ("double", json!({ "of": of })));
//! let doubled: Vec<u64> = tools::call_all(&calls).into_iter().map(Result::unwrap).collect();
//! assert_eq!(doubled, [2, 4, 6]);
//! ```

use crate::bindings::imports::opcell::plugin0_1_0::tools as raw;
use crate::{Denial, Failure, host};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fmt;
use std::marker::PhantomData;

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

impl From<raw::ToolError> for ToolError {
    fn from(error: raw::ToolError) -> Self {
        match error {
            raw::ToolError::Denied(denial) => Self::Denied(denial),
            raw::ToolError::Failed(failure) => Self::Failed(failure.into()),
        }
    }
}

/// Calls one tool.
///
/// # Errors
/// When the host refuses, when the tool fails, and when arguments or result are not of the named types.
pub fn call<A: Serialize + ?Sized, R: DeserializeOwned>(name: &str, arguments: &A) -> Result<R, ToolError> {
    let arguments = written(name, arguments)?;
    read(name, host::tools::call(name, &arguments))
}

fn written<A: Serialize + ?Sized>(name: &str, arguments: &A) -> Result<String, ToolError> {
    serde_json::to_string(arguments)
        .map_err(|error| ToolError::Mismatch(format!("arguments of {name} are not JSON: {error}")))
}

fn read<R: DeserializeOwned>(name: &str, answer: Result<String, raw::ToolError>) -> Result<R, ToolError> {
    serde_json::from_str(&answer?)
        .map_err(|error| ToolError::Mismatch(format!("{name} returned something unexpected: {error}")))
}

/// A call that was started.
#[derive(Debug)]
pub struct StartedCall<R> {
    number: u32,
    name: String,
    result: PhantomData<fn() -> R>,
}

/// Starts a call of one tool. Other calls may be in progress.
///
/// # Errors
/// When the host refuses, and when the arguments cannot be written.
pub fn start<A: Serialize + ?Sized, R: DeserializeOwned>(
    name: &str,
    arguments: &A,
) -> Result<StartedCall<R>, ToolError> {
    let arguments = written(name, arguments)?;
    let number = host::calls::start(name, &arguments)?;
    Ok(StartedCall { number, name: name.to_owned(), result: PhantomData })
}

impl<R: DeserializeOwned> StartedCall<R> {
    /// Waits until the call has ended.
    ///
    /// # Errors
    /// As [`call`].
    pub fn wait(self) -> Result<R, ToolError> {
        let ended = host::calls::wait_any(&[self.number]);
        read(&self.name, ended.map_err(|failure| ToolError::Failed(failure.into()))?.answer)
    }
}

/// Waits until one of these calls has ended, and removes it: the place that it had, and its result. Of several, it is the
/// one that ended first. `None` if there are no calls.
pub fn wait_any<R: DeserializeOwned>(calls: &mut Vec<StartedCall<R>>) -> Option<(usize, Result<R, ToolError>)> {
    if calls.is_empty() {
        return None;
    }
    let numbers: Vec<u32> = calls.iter().map(|call| call.number).collect();
    match host::calls::wait_any(&numbers) {
        Ok(ended) => {
            let at = numbers.iter().position(|number| *number == ended.call)?;
            Some((at, read(&calls.remove(at).name, ended.answer)))
        }
        Err(failure) => {
            calls.remove(0);
            Some((0, Err(ToolError::Failed(failure.into()))))
        }
    }
}

/// Makes several calls at once; the results are in the order of the calls.
pub fn call_all<A: Serialize, R: DeserializeOwned>(calls: &[(&str, A)]) -> Vec<Result<R, ToolError>> {
    let started: Vec<_> = calls.iter().map(|(name, arguments)| start(name, arguments)).collect();
    started.into_iter().map(|call| call.and_then(StartedCall::wait)).collect()
}
