//! `workflow-ir/v1`: the one normalised execution model that every document compiles to.
//!
//! Field names are the seed document's, written as JSON. Every reference, output and yielded value is explicit; nothing
//! here is filled in later. The additive features (`when`, `each`, `retry`, …) exist because one of the three languages
//! needs them, and [`Dialect`] says which rule applies where two languages disagree, so that the engine never asks for
//! a language.

mod approval;
mod callee;
mod form;
mod governance;
pub mod guard;
mod routing;
mod session;
mod values;

pub use approval::{ApprovalRule, ApprovalRules, ArgumentMatch, Ask, Then, matches_word};
pub use callee::Callee;
pub use form::{
    Branch, Condition, Delegate, DelegateTarget, Exit, ExitStatus, Form, Invoke, Parallel, Predicate, PromptString,
    Reduce, Transform, TransformOperation, Wait,
};
pub use governance::Governance;
pub use guard::{Guard, GuardRule};
pub use routing::{Control, Goto, Judge, Orchestration, Route};
pub use session::{
    AgentTool, CodeMode, Compaction, CompactionBy, Generation, MediaLimit, MediaLimits, ModelOverride, ModelQuery,
    ModelSelection, OwnSkill, Pin, PromptGroup, PromptMode, ResponseMode, Session, SpeedMode, ThinkingLevel, ToolShape,
};
pub use values::{
    Contribution, OutputSpec, PathSegment, Projection, SourceRef, SourceSpec, StructuredOutput, Template, ValueSpec,
    Yields,
};

use crate::expr::Expression;
use indexmap::IndexMap;
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The JSON Schema of [`WorkflowIr`], version 1, as text.
pub const SCHEMA: &str = include_str!("ir/schema.json");

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
    /// `true` if models see it in their list of workflows.
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
    /// The step where a run starts; absent: the first one; empty: the caller has to choose one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entry: Option<StepName>,
    /// At least one, in authored order.
    pub steps: Vec<Step>,
    /// The contract that the terminal text must keep.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal_contract: Option<TerminalContract>,
    /// Ceilings of a whole run.
    #[serde(default, skip_serializing_if = "RunLimits::is_unlimited")]
    pub limits: RunLimits,
    /// Rules that the document declares about its own use.
    #[serde(default, skip_serializing_if = "Governance::is_empty")]
    pub governance: Governance,
    /// Run-scoped named values.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub artifacts: IndexMap<Arc<str>, Artifact>,
    /// Workflows that the document brings along for its delegates, each under the name that it has (PromptPack's
    /// compositions).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workflows: Vec<Arc<WorkflowIr>>,
}

fn yes() -> bool {
    true
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_true(b: &bool) -> bool {
    *b
}

fn is_false(b: &bool) -> bool {
    !*b
}

/// The rules in which languages differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Dialect {
    /// The printing of a value inside a text.
    pub printing: Printing,
    /// The rule by which a run continues after its last step, a skipped step or a failure.
    pub lifecycle: Lifecycle,
    /// The meaning of `${…}` in a text.
    #[serde(skip_serializing_if = "is_default")]
    pub references: References,
    /// The declarations that a step has to make.
    #[serde(skip_serializing_if = "is_default")]
    pub declarations: Declarations,
}

/// The meaning of `${…}` in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum References {
    /// An expression ([`crate::expr`]).
    #[default]
    Expressions,
    /// A dotted path ([`crate::reference`]).
    Paths,
}

/// The declarations that a step has to make.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Declarations {
    /// Everything: what it yields, what a session asks, and the tool through which it reads its skills.
    #[default]
    Explicit,
    /// A declaration that is left out follows from the form.
    Implied,
}

impl Dialect {
    /// Returns `true` if a run without structured output from a model, its own or that of a callee, ends as blocked.
    #[must_use]
    pub fn has_blocked_runs(self) -> bool {
        self.printing == Printing::Edn
    }

    /// Returns the name that a document has for a limit of its run.
    #[must_use]
    pub fn limit_key(self, limit: &str) -> std::borrow::Cow<'_, str> {
        match (self.printing, limit) {
            (Printing::Go, "total-visits") => "max_total_visits".into(),
            (Printing::Go, "tool-calls") => "max_tool_calls".into(),
            (Printing::Go, "wall-time-seconds") => "max_wall_time_sec".into(),
            (_, limit) => limit.to_owned().into(),
        }
    }
}

/// The printing of a value that is not a string inside a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Printing {
    /// psi: as EDN (`["a" "b"]`, `{:k 1}`); null is empty.
    #[default]
    Edn,
    /// WorkflowSkill: scalars as JavaScript prints them, aggregates as JSON; null and undefined are empty.
    Javascript,
    /// PromptPack: everything but texts as JSON, numbers in full. (The reference is written in Go and prints as Go
    /// does.)
    Go,
}

/// The treatment of values and failures around a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// psi and PromptPack: judges route; the result is the yielded value of the step that reached `:done`; a failed
    /// step ends the run.
    #[default]
    Routed,
    /// WorkflowSkill: declaration order; `on-error`; outputs are built by name; a failure to resolve a guard or an
    /// input aborts.
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
    /// A description of its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The effect of setting it again.
    #[serde(default)]
    pub mode: ArtifactMode,
}

/// The effect of setting an artifact again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArtifactMode {
    /// The new value takes the old one's place.
    #[default]
    Replace,
    /// The new text is appended without a separator.
    Append,
}

/// Ceilings of a whole run; `None` is no limit.
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
    /// Returns `true` if no ceiling is set.
    #[must_use]
    pub fn is_unlimited(&self) -> bool {
        *self == Self::default()
    }

    /// The tighter of two sets of limits, one by one.
    #[must_use]
    pub fn tighter(self, other: Self) -> Self {
        fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(if b < a { b } else { a }),
                (a, b) => a.or(b),
            }
        }
        Self {
            total_visits: least(self.total_visits, other.total_visits),
            tool_calls: least(self.tool_calls, other.tool_calls),
            wall_time_seconds: least(self.wall_time_seconds, other.wall_time_seconds),
            tokens: least(self.tokens, other.tokens),
            cost: least(self.cost, other.cost),
            host_calls: least(self.host_calls, other.host_calls),
        }
    }
}

/// Ceilings of all that one step does in one run of its workflow: every entry into it, every attempt and element, its
/// judge, and what it delegates. `None` is no limit. (Entries are counted by `max-visits`, the time of one attempt by
/// `timeout-ms`.)
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
    /// Returns `true` if no ceiling is set.
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

/// The content that the text at the end of a workflow must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct TerminalContract {
    /// `markdown-handoff-data`: a `## Handoff Data` section with `- key: value` items.
    pub handoff: HandoffContract,
}

/// The place of handoff data in a text.
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
    /// The form, which says how the step executes.
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
    /// The effect of a failure on the run.
    #[serde(default, skip_serializing_if = "OnError::is_fail")]
    pub on_error: OnError,
    /// Wall time of one attempt, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Ceilings of all that the step does; the step fails when one is reached.
    #[serde(default, skip_serializing_if = "StepLimits::is_unlimited")]
    pub limits: StepLimits,
    /// The capabilities that the step may use, narrower than its plugin's grant.
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
    /// The number of times the step may be entered by any path before entering it again fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_iterations: Option<u64>,
    /// Entries into the step after which `on-max-visits` is entered instead (PromptPack RFC 0009).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_visits: Option<u64>,
    /// The step to go to instead, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_max_visits: Option<StepName>,
    /// Entering the step ends the run once it has run, whatever `on` says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub terminal: bool,
    /// The document's hint about keeping the state (PromptPack RFC 0005); every step is journaled regardless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
}

/// A document's hint about keeping a state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// It need not be kept.
    Transient,
    /// It must be kept.
    Persistent,
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

/// The effect of a step's failure on the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnError {
    /// The run fails.
    #[default]
    Fail,
    /// The step's output is null and the run continues.
    Ignore,
}

impl OnError {
    fn is_fail(&self) -> bool {
        matches!(self, Self::Fail)
    }
}

/// The capabilities that a step may use, narrower than its plugin's grant; `None` leaves a kind as granted, an empty
/// list takes all of it away.
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
    /// Stores by grant name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stores: Option<Vec<String>>,
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
            persistence: None,
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
