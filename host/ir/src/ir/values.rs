//! The sources of values, the outputs of a step, and the value that it yields.

use super::{StepName, is_false};
use crate::expr::Expression;
use crate::interpolate::Interpolation;
use indexmap::IndexMap;
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The source of a value. Told apart by its keys.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ValueSpec {
    /// The value itself.
    Literal {
        /// Any JSON value.
        #[serde(deserialize_with = "Value::deserialize")]
        value: Value,
    },
    /// A part of something the run has.
    Source(SourceSpec),
    /// The value of an expression.
    Expression {
        /// Evaluated when the step starts.
        expression: Expression,
    },
    /// Text with `${…}` references (WorkflowSkill); a text that is one reference keeps its type.
    Interpolation {
        /// The text.
        interpolation: Interpolation,
    },
    /// psi's `{{name}}` template.
    Template(Template),
    /// An object whose fields come from somewhere each.
    Fields {
        /// By name.
        fields: IndexMap<Arc<str>, ValueSpec>,
    },
    /// An array whose items come from somewhere each.
    Items {
        /// In order.
        items: Vec<ValueSpec>,
    },
}

/// A part of something the run has.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct SourceSpec {
    /// The value that it is a part of.
    pub from: SourceRef,
    /// The part: keys and indexes from the outside in. Never together with `projection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<PathSegment>>,
    /// The part of a transcript.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub projection: Option<Projection>,
}

/// One key or index.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PathSegment {
    /// An index into an array.
    Index(u64),
    /// A key of an object.
    Key(Arc<str>),
}

/// Something the run has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SourceRef {
    /// The input of this invocation of the workflow.
    WorkflowInput,
    /// The request that started it all, as this invocation sees it.
    WorkflowOriginal,
    /// The message that a conversation hands to a workflow that takes its turn: the fields of this workflow's input,
    /// over them what the user said last, under `text` or as the fields of the object that it spells (PromptPack RFC
    /// 0010).
    Handover,
    /// An output of an earlier step.
    #[serde(untagged)]
    Output {
        /// Name of the step.
        step: StepName,
        /// One prompt group of the step's session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Arc<str>>,
        /// The output.
        output: Arc<str>,
    },
    /// A field of an earlier step's yielded value.
    #[serde(untagged)]
    Yield {
        /// Name of the step.
        step: StepName,
        /// `data`, `text`, `reason`, `message` or `details`.
        #[serde(rename = "yield")]
        field: Arc<str>,
    },
    /// A run-scoped named value; unset is null.
    #[serde(untagged)]
    Artifact {
        /// Its name.
        artifact: Arc<str>,
    },
}

/// The part of a transcript.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Projection {
    /// Nothing of it.
    None,
    /// All of it.
    Full,
    /// Its last turns; a turn starts at a user message.
    #[serde(rename_all = "kebab-case")]
    Tail {
        /// Turns that are kept, counted from the last.
        turns: u64,
        /// `false` keeps only text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool_output: Option<bool>,
    },
}

/// Text with `{{name}}` tokens. A value is never expanded again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Template {
    /// The text.
    pub text: Arc<str>,
    /// The reference behind each token.
    #[serde(default)]
    pub vars: IndexMap<Arc<str>, SourceSpec>,
}

/// An ordered part of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Contribution {
    /// Messages or a value from somewhere.
    Source(SourceSpec),
    /// A user message.
    Template(Template),
    /// A user message that is a value: a text as it is, anything else as JSON; null is none (PromptPack RFC 0010).
    Value {
        /// Resolved when the turn starts.
        value: ValueSpec,
    },
}

/// The source of an output's value, and its shape.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OutputSpec {
    /// The product of the executor: `invoke/data`, `session/final-llm-reply`, `delegate/handoff`,
    /// `session/structured-output`, `session/json-or-text` (the last reply as JSON where it is JSON), ….
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// Computed from the raw result, `$result`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<ValueSpec>,
    /// The declared type, as the language names it.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The contract of a structured output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub structured: Option<StructuredOutput>,
}

/// The contract of a structured output.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StructuredOutput {
    /// The schema's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_id: Option<String>,
    /// The schema's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema_version: Option<u64>,
    /// JSON Schema that the value must pass.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json_schema: Option<Value>,
    /// The Malli schema that psi authors write beside it, as EDN text; for people, nothing validates by it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub malli_schema: Option<String>,
    /// Asks the provider first (`provider-native`) or the prompt first (`prompted-json`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strategy_preference: Option<String>,
    /// The fallback when the provider cannot: `prompted-json` or `none`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Fails rather than asking through the prompt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub require_provider_native: bool,
    /// Attempts before the step fails; 1 is fail-fast.
    #[serde(default = "one")]
    pub max_attempts: u32,
}

fn one() -> u32 {
    1
}

/// A step's value as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Yields {
    /// Machine-readable.
    Data {
        /// The output that holds it.
        data: Arc<str>,
    },
    /// For people.
    Text {
        /// The output that holds it.
        text: Arc<str>,
    },
    /// The workflow's result is an error.
    Error {
        /// A keyword's name.
        reason: Arc<str>,
        /// One sentence.
        message: Arc<str>,
        /// Structured details.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        details: Option<Value>,
    },
    /// The value that the called workflow yielded, unchanged.
    Delegated,
}
