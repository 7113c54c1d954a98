//! `workflow-ir/v1`: the one normalised execution model that every document compiles to.
//!
//! Field names are the seed document's, written as JSON. Every reference, output and yielded value is explicit; nothing here is
//! filled in later. The additive features (`when`, `each`, `retry`, …) exist because one of the three languages needs them, and
//! [`Dialect`] says which rule applies where two languages disagree, so that the engine never asks for a language.

use crate::{expr::Expression, interpolate::Interpolation, names::Outcome, transform::Shape, value::Value};
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A step's name; any non-empty text, unique within its workflow.
pub type StepName = Arc<str>;

/// The only version there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Version {
    /// `workflow-ir/v1`.
    #[default]
    #[serde(rename = "workflow-ir/v1")]
    V1,
}

/// A whole workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct WorkflowIr {
    /// The version of this model.
    pub version: Version,
    /// The workflow's name; delegates call it by this name.
    pub name: Arc<str>,
    /// One sentence for people and models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether models see it in their list of workflows.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub advertise: bool,
    /// The rules in which languages differ.
    #[serde(default)]
    pub dialect: Dialect,
    /// The typed interface: what a run takes.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<Arc<str>, Input>,
    /// The typed interface: what a run returns. Empty: the yielded value of the step that reached the end.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<Arc<str>, OutputSpec>,
    /// JSON Schema that what a run takes must pass before its first step is entered (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Value>,
    /// JSON Schema that what a run returns must pass; a run whose result does not has failed (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Value>,
    /// The step whose yielded value is the run's result; absent: the step that reached the end (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<StepName>,
    /// Where a run starts; absent: the first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<StepName>,
    /// At least one, in authored order.
    pub steps: Vec<Step>,
    /// What the terminal text must contain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_contract: Option<TerminalContract>,
    /// Ceilings of a whole run.
    #[serde(default, skip_serializing_if = "RunLimits::is_unlimited")]
    pub limits: RunLimits,
    /// Run-scoped named values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub artifacts: IndexMap<Arc<str>, Artifact>,
    /// Workflows that the document brings along for its delegates, each under the name that it has (PromptPack's compositions).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workflows: Vec<Arc<WorkflowIr>>,
}

fn yes() -> bool {
    true
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_true(b: &bool) -> bool {
    *b
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_false(b: &bool) -> bool {
    !*b
}

/// The rules in which languages differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dialect {
    /// How a value prints inside a text.
    pub printing: Printing,
    /// How a run goes on after its last step, a skipped step or a failure.
    pub lifecycle: Lifecycle,
}

/// How a value that is not a string prints inside a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Printing {
    /// psi: as EDN (`["a" "b"]`, `{:k 1}`); null is empty.
    #[default]
    Edn,
    /// WorkflowSkill: scalars as JavaScript prints them, aggregates as JSON; null and undefined are empty.
    Javascript,
    /// PromptPack: Go's `fmt.Sprint`.
    Go,
}

/// What a run does with values and failures around a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// psi and PromptPack: judges route; the result is the yielded value of the step that reached `:done`; a failed step ends the run.
    #[default]
    Routed,
    /// WorkflowSkill: declaration order; `on-error`; outputs are built by name; a failure to resolve a guard or an input aborts.
    Sequential,
}

/// A declared input of a workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Input {
    /// The declared type, as the language names it.
    #[serde(rename = "type")]
    pub kind: String,
    /// Used when the caller gives no value; absent and `null` differ.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_value")]
    pub default: Option<Value>,
    /// One sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the value, where the language says more than a type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<Value>,
}

/// Keeps an explicit `null` apart from an absent key.
fn some_value<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(deserializer).map(Some)
}

/// A run-scoped named value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Artifact {
    /// MIME type.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it contains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What setting it again does.
    #[serde(default)]
    pub mode: ArtifactMode,
}

/// What setting an artifact again does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactMode {
    /// The new value takes the old one's place.
    #[default]
    Replace,
    /// The new text is appended without a separator.
    Append,
}

/// Ceilings of a whole run; `None` is no ceiling.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RunLimits {
    /// Entries into steps, the first included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_visits: Option<u64>,
    /// Tool calls by models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Seconds since the run started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time_seconds: Option<u64>,
    /// Model tokens, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in US dollars as the provider reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Host calls by cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u64>,
}

impl RunLimits {
    /// Whether no ceiling is set.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

/// Ceilings of all that one step does in one run of its workflow: every entry into it, every attempt and element, its judge, and
/// what it delegates. `None` is no ceiling. (Entries are counted by `max-visits`, the time of one attempt by `timeout-ms`.)
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct StepLimits {
    /// Tool calls by models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Seconds from entering the step to leaving it, all entries together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_time_seconds: Option<u64>,
    /// Model tokens, in and out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Cost in US dollars as the provider reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Host calls by cells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_calls: Option<u64>,
}

impl StepLimits {
    /// Whether no ceiling is set.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }
}

impl From<StepLimits> for RunLimits {
    fn from(step: StepLimits) -> Self {
        let StepLimits { tool_calls, wall_time_seconds, tokens, cost, host_calls } = step;
        Self { total_visits: None, tool_calls, wall_time_seconds, tokens, cost, host_calls }
    }
}

/// What the text that a workflow ends with must contain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TerminalContract {
    /// `markdown-handoff-data`: a `## Handoff Data` section with `- key: value` items.
    pub handoff: HandoffContract,
}

/// How handoff data is found in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum HandoffContract {
    /// A `## Handoff Data` section with `- key: value` items.
    MarkdownHandoffData,
}

/// One named unit of work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Step {
    /// Unique within the workflow.
    pub name: StepName,
    /// What the step executes.
    #[serde(flatten)]
    pub form: Form,
    /// One sentence for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The step runs only when a branch or a parallel step chooses it; the main sequence passes it by.
    #[serde(default, skip_serializing_if = "is_false")]
    pub grouped: bool,
    /// The step is skipped when all of these were (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<StepName>,
    /// Guard: when it is false the step is skipped and its outputs are null.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// Runs the step once per element.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub each: Option<Each>,
    /// Repeats failed attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// What a failure does to the run.
    #[serde(default, skip_serializing_if = "OnError::is_fail")]
    pub on_error: OnError,
    /// Wall time of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Ceilings of all that the step does; the step fails when one is reached.
    #[serde(default, skip_serializing_if = "StepLimits::is_unlimited")]
    pub limits: StepLimits,
    /// What the step may use, narrower than its plugin's grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilityNarrowing>,
    /// The step-local output surface, by key.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub outputs: IndexMap<Arc<str>, OutputSpec>,
    /// The step's value as a whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub yields: Option<Yields>,
    /// Decides where the run goes next; present exactly when `on` is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judge: Option<Judge>,
    /// Outcome to transition, in authored order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<Route>,
    /// How often the step may be entered by any path before entering it again fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u64>,
    /// Entries into the step after which `on-max-visits` is entered instead (PromptPack RFC 0009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u64>,
    /// Where to go instead, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_max_visits: Option<StepName>,
    /// Entering the step ends the run once it has run, whatever `on` says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminal: bool,
}

/// Runs a step once per element.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Each {
    /// Must give an array.
    pub over: Expression,
    /// Milliseconds between elements.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Elements in flight at once; 1 unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// Repeats failed attempts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Retry {
    /// Further attempts after the first.
    pub max: u32,
    /// Milliseconds before the first retry.
    pub delay_ms: f64,
    /// Factor from one retry to the next.
    pub backoff: f64,
}

/// What a step's failure does to the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The step's output is null and the run goes on.
    Ignore,
}

impl OnError {
    #[allow(clippy::trivially_copy_pass_by_ref)]
    fn is_fail(&self) -> bool {
        matches!(self, Self::Fail)
    }
}

/// What a step may use, narrower than its plugin's grant; `None` leaves a kind as granted, an empty list takes all of it away.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct CapabilityNarrowing {
    /// Host tools by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Skills by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// File roots by grant name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Vec<String>>,
}

/// What a step executes. The payload stands under the form's own name, as the seed has it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Form {
    /// A deterministic operation.
    Invoke {
        /// The call.
        invoke: Invoke,
    },
    /// A model conversation.
    Session {
        /// Its configuration.
        session: Box<Session>,
    },
    /// Another workflow.
    Delegate {
        /// The call.
        delegate: Delegate,
    },
    /// Filter, map or sort, natively.
    Transform {
        /// What to do.
        transform: Transform,
    },
    /// Runs one of two groups of steps.
    Branch {
        /// The choice.
        branch: Branch,
    },
    /// Runs groups of steps at once.
    Parallel {
        /// The groups.
        parallel: Parallel,
    },
    /// Ends the run.
    Exit {
        /// How.
        exit: Exit,
    },
    /// Waits for a named signal.
    Wait {
        /// For what.
        wait: Wait,
    },
}

/// A call of an operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Invoke {
    /// The operation's id, or a tool's name where the language calls tools.
    pub operation: Arc<str>,
    /// Arguments by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub args: IndexMap<Arc<str>, ValueSpec>,
}

/// Where a value comes from. Told apart by its keys.
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
    /// What an expression gives.
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
    /// Of what.
    pub from: SourceRef,
    /// Which part: keys and indexes from the outside in. Never together with `projection`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<Vec<PathSegment>>,
    /// Which part of a transcript.
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
    /// What this invocation of the workflow was given.
    WorkflowInput,
    /// The request that started it all, as this invocation sees it.
    WorkflowOriginal,
    /// What a conversation hands to a workflow that takes its turn: the fields of this workflow's input, over them what the user said
    /// last, under `text` or as the fields of the object that it spells (PromptPack RFC 0010).
    Handover,
    /// An output of an earlier step.
    #[serde(untagged)]
    Output {
        /// The step.
        step: StepName,
        /// One prompt group of the step's session.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Arc<str>>,
        /// Which output.
        output: Arc<str>,
    },
    /// A field of an earlier step's yielded value.
    #[serde(untagged)]
    Yield {
        /// The step.
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

/// Which part of a transcript.
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
        /// How many.
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
    /// What each token stands for.
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

/// A model conversation's configuration. `None` inherits; an empty list is none of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Session {
    /// Which model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSelection>,
    /// A named set of session settings, resolved when the run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_profile: Option<String>,
    /// Tools by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Skills by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Extensions by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// Workflows the session may delegate to, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflows: Option<Vec<String>>,
    /// The workflow's instruction layer in the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Takes the whole system prompt's place; explicit, never a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_system_prompt: Option<String>,
    /// `lambda` or `prose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_mode: Option<PromptMode>,
    /// Which parts of the system prompt are shown; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_component_selection: Option<Value>,
    /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// From 0.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// `streaming` or `non-streaming`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_mode: Option<ResponseMode>,
    /// Whether token log probabilities are asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// From 1 to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// Values that fill `{{name}}` tokens of `system-prompt` (PromptPack).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub variables: IndexMap<Arc<str>, ValueSpec>,
    /// The most model rounds of one turn, 100 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// The most tool calls of one turn, 1000 unless said; the model is told that further ones are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// A tool whose call ends the conversation: its result is the session's answer (PromptPack RFC 0010).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_tool: Option<String>,
    /// What the document says about tools that the host binds, by name: models are told this instead of what the host says.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub tool_shapes: IndexMap<String, ToolShape>,
    /// Agents of the document that the model may call, by the name of the tool that stands for each (PromptPack RFC 0007).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<String, AgentTool>,
    /// Skills that the document brings along, by name (PromptPack).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub own_skills: IndexMap<String, OwnSkill>,
    /// How the model generates, temperature aside.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: Generation,
    /// One conversation, in order. Exactly one of this and `prompts` is non-empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contributions: Vec<Contribution>,
    /// Several turns of one conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<PromptGroup>,
}

/// What a document says about a tool that the host binds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ToolShape {
    /// What it does.
    pub description: String,
    /// JSON Schema of its arguments; a call that does not pass it is refused.
    pub parameters: Value,
}

/// An agent of a document as a tool of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentTool {
    /// What it is asked for; a model decides by it.
    pub description: String,
    /// The workflow that the document brings along for it.
    pub workflow: Arc<str>,
}

/// A skill that a document brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnSkill {
    /// One sentence; a model decides by it.
    pub description: String,
    /// What it teaches.
    pub instructions: String,
    /// Whether the system prompt holds it from the start, rather than when the model asks for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preload: bool,
}

/// How a model generates. What a provider does not know is not sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Generation {
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The probability mass that tokens are drawn from, from 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most probable tokens that one is drawn from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// From -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// From -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// Whether the first round of a turn must call a tool; the provider enforces it.
    #[serde(skip_serializing_if = "is_false")]
    pub tool_required: bool,
}

/// One turn of a conversation with several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PromptGroup {
    /// Unique within the step.
    pub name: Arc<str>,
    /// The turn's messages.
    pub contributions: Vec<Contribution>,
}

/// Which preamble and which forms a system prompt uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptMode {
    /// Symbolic notation.
    #[default]
    Lambda,
    /// Plain sentences.
    Prose,
}

/// How much the model thinks before it answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// Whether the model's answer is streamed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum ResponseMode {
    Streaming,
    NonStreaming,
}

/// Which model a session talks to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ModelSelection {
    /// A model by its id.
    Id(String),
    /// The best model for a query.
    Query(ModelQuery),
}

/// A question to the model registry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelQuery {
    /// What a model must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Value>,
    /// What ranks one model before another, most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Value>,
    /// Asked when no model passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<ModelSelection>>,
}

/// A call of another workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Delegate {
    /// Which workflow.
    pub target: DelegateTarget,
    /// What the callee sees as its workflow input.
    pub prompt_string: PromptString,
    /// What the callee sees as its workflow original, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Contribution>,
    /// Session settings that the callee's sessions inherit: `model`, `session-profile` and `thinking-level` only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Box<Session>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Which workflow a delegate step calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DelegateTarget {
    /// By name.
    Name(Arc<str>),
    /// A value of the shape `{"type": "workflow-ref", "name": …}`, found at run time.
    Dynamic(SourceSpec),
}

/// What a delegated workflow is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PromptString {
    /// A text.
    Text(Arc<str>),
    /// A text with values in it.
    Template(Template),
    /// An object.
    Fields {
        /// By name.
        fields: IndexMap<Arc<str>, ValueSpec>,
    },
    /// Whatever there is.
    Source(SourceSpec),
}

/// Filter, map or sort, natively.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transform {
    /// Resolved like arguments; the array to work on is `items`, or the first array among them.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<Arc<str>, ValueSpec>,
    /// What to do with it.
    #[serde(flatten)]
    pub operation: TransformOperation,
}

/// What a transform does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "operation")]
pub enum TransformOperation {
    /// Keeps the elements for which the expression holds.
    Filter {
        /// Sees `$item` and `$index`.
        #[serde(rename = "where")]
        condition: Expression,
    },
    /// Makes a new element of each.
    Map {
        /// Strings that start with `$` are expressions; everything else is taken as it is.
        expression: Shape,
    },
    /// Sorts stably; null and undefined come last in both directions.
    Sort {
        /// Dotted path into an element.
        field: String,
        /// Descending instead of ascending.
        #[serde(default, skip_serializing_if = "is_false")]
        descending: bool,
    },
}

/// Runs one of two groups of steps, in the listed order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Branch {
    /// Chooses.
    pub condition: Condition,
    /// Recorded with the step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<Arc<str>, ValueSpec>,
    /// Runs when the condition holds.
    pub then: Vec<StepName>,
    /// Runs when it does not.
    #[serde(default, rename = "else", skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<StepName>,
    /// The steps stay where they are, in the sequence that the branch is in: it runs the chosen ones when it comes to them, and skips
    /// the others (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_place: bool,
}

/// What a branch asks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Condition {
    /// An expression, by its truthiness.
    Expression(Expression),
    /// A predicate over references (PromptPack RFC 0010).
    Predicate(Predicate),
}

/// A predicate over references (PromptPack RFC 0010).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, rename_all = "snake_case")]
pub enum Predicate {
    /// All of them hold.
    All {
        /// Which.
        all_of: Vec<Predicate>,
    },
    /// One of them holds.
    Any {
        /// Which.
        any_of: Vec<Predicate>,
    },
    /// It does not hold.
    Not {
        /// What.
        not: Box<Predicate>,
    },
    /// Compares what a reference gives.
    Compare {
        /// The reference, `${step.field}` without its braces.
        path: String,
        /// `equals`, `not_equals`, `in`, `not_in`, `less_than`, `less_than_or_equals`, `greater_than`, `greater_than_or_equals`.
        op: String,
        /// With what.
        #[serde(deserialize_with = "Value::deserialize")]
        value: Value,
    },
    /// Whether a reference gives something.
    Exists {
        /// The reference.
        path: String,
        /// Or nothing.
        exists: bool,
    },
}

/// Runs groups of steps at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Parallel {
    /// At least two groups.
    pub branches: Vec<Vec<StepName>>,
    /// How their outputs become one.
    pub reduce: Reduce,
    /// The key under which the result stands.
    pub into: Arc<str>,
    /// Groups in flight at once; all of them unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// How the outputs of parallel groups become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reduce {
    /// A list of outputs in declaration order.
    Append,
    /// The output of the last group in declaration order.
    Replace,
    /// An object, output by the name of the group's last step.
    Barrier,
}

/// Ends the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Exit {
    /// How the run ends.
    pub status: ExitStatus,
    /// With what.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ValueSpec>,
    /// Recorded with the step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<Arc<str>, ValueSpec>,
}

/// How an exit step ends the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs)]
pub enum ExitStatus {
    Success,
    Failed,
}

/// Waits for a named signal; its data is the step's `data`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Wait {
    /// The signal's name.
    pub signal: Arc<str>,
    /// What the person or program that answers is asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Template>,
    /// The signal is an approval: who, when and why are recorded, and a refusal fails the step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub approval: bool,
}

/// Where an output's value comes from, and what shape it has.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct OutputSpec {
    /// What the executor produced: `invoke/data`, `session/final-llm-reply`, `delegate/handoff`, `session/structured-output`,
    /// `session/json-or-text` (the last reply as JSON where it is JSON), ….
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
    /// What to do when the provider cannot: `prompted-json` or `none`.
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
    /// What the called workflow yielded, unchanged.
    Delegated,
}

/// Decides exactly one outcome.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "type")]
pub enum Judge {
    /// A model.
    Llm {
        /// The judge's own conversation.
        session: Box<Session>,
        /// How much of the step's conversation it sees; absent: all.
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
        /// Who may raise it.
        orchestration: Orchestration,
        /// Who speaks after a transition.
        #[serde(default)]
        control: Control,
    },
    /// An expression's value.
    Expression {
        /// Must give a string.
        expression: Expression,
    },
}

/// Who may raise a state's events (PromptPack RFC 0005).
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

/// Who speaks after a transition (PromptPack RFC 0014).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Control {
    /// The run waits for the user.
    #[default]
    User,
    /// The destination goes on at once.
    Agent,
}

/// What an outcome does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Route {
    /// Matched exactly.
    pub outcome: Outcome,
    /// Where the run goes.
    pub goto: Goto,
    /// Entries into the target, by any path, after which this transition is exhausted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u64>,
    /// Where an exhausted transition goes; absent: the run fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_max_iterations: Option<Goto>,
}

/// Where a transition goes.
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

impl Step {
    /// A step that only has a form.
    #[must_use]
    pub fn new(name: impl Into<StepName>, form: Form) -> Self {
        Self {
            name: name.into(),
            form,
            description: None,
            grouped: false,
            depends_on: Vec::new(),
            when: None,
            each: None,
            retry: None,
            on_error: OnError::Fail,
            timeout_ms: None,
            limits: StepLimits::default(),
            capabilities: None,
            outputs: IndexMap::new(),
            yields: None,
            judge: None,
            on: Vec::new(),
            max_iterations: None,
            max_visits: None,
            on_max_visits: None,
            terminal: false,
        }
    }
}

impl WorkflowIr {
    /// The index of a step.
    #[must_use]
    pub fn step_index(&self, name: &str) -> Option<usize> {
        self.steps.iter().position(|step| step.name.as_ref() == name)
    }

    /// A step by name.
    #[must_use]
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name.as_ref() == name)
    }
}
