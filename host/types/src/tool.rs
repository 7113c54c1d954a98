//! The description of a tool.

use crate::value::Value;
use serde::{Deserialize, Serialize};

/// A tool as its callers see it: a plugin that lists its tools, a model whose session has it, a person. What the host
/// has to know beside this, in order to call it, is in the engine's `Tool`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct ToolDescription {
    /// The name that it is called by, such as `http.fetch`.
    pub name: String,
    /// The description of its effect, in a sentence or two.
    pub description: String,
    /// JSON Schema of its arguments, which are an object.
    pub parameters: Value,
    /// JSON Schema of its results, where it is known and someone reads it: programs do, models get none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results: Option<Value>,
}

impl ToolDescription {
    /// A tool that is called by `name` with arguments that match `parameters`, a JSON Schema.
    #[must_use]
    pub fn new(name: impl Into<String>, description: impl Into<String>, parameters: impl Into<Value>) -> Self {
        Self { name: name.into(), description: description.into(), parameters: parameters.into(), results: None }
    }

    /// The same with the schema of its results, if there is one.
    #[must_use]
    pub fn with_results(self, results: Option<Value>) -> Self {
        Self { results, ..self }
    }

    /// The same under another name.
    #[must_use]
    pub fn named(&self, name: impl Into<String>) -> Self {
        Self { name: name.into(), ..self.clone() }
    }
}
