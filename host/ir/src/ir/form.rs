//! The forms of a step.

use super::{Contribution, Session, SourceSpec, StepName, Template, ValueSpec, is_default, is_false};
use crate::expr::Expression;
use crate::transform::Shape;
use indexmap::IndexMap;
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The form of a step, which says how it executes. The payload is under the form's own name, as the seed has it.
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
        /// The transform.
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
        /// Status and output of the run.
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

/// A call of another workflow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Delegate {
    /// The workflow to call.
    pub target: DelegateTarget,
    /// The workflow input of the callee.
    pub prompt_string: PromptString,
    /// The workflow original of the callee, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub context: Vec<Contribution>,
    /// Session settings that the callee's sessions inherit: `tools`, `skills`, `extensions` and `workflows` narrow
    /// theirs, `system-prompt` is a layer of instructions before theirs, and everything else counts where they say
    /// nothing.
    #[serde(default, skip_serializing_if = "is_default")]
    pub session: Box<Session>,
}

/// The workflow that a delegate step calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum DelegateTarget {
    /// By name.
    Name(Arc<str>),
    /// A value of the shape `{"type": "workflow-ref", "name": …}`, found at run time.
    Dynamic(SourceSpec),
}

/// The request to a delegated workflow.
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
    /// The operation on it.
    #[serde(flatten)]
    pub operation: TransformOperation,
}

/// The operation of a transform.
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
    /// The steps stay where they are, in the sequence that the branch is in: it runs the chosen ones when it comes to
    /// them, and skips the others (PromptPack RFC 0010).
    #[serde(default, skip_serializing_if = "is_false")]
    pub in_place: bool,
}

/// The condition of a branch.
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
        /// Every one must hold.
        all_of: Vec<Predicate>,
    },
    /// One of them holds.
    Any {
        /// At least one must hold.
        any_of: Vec<Predicate>,
    },
    /// It does not hold.
    Not {
        /// Must not hold.
        not: Box<Predicate>,
    },
    /// Compares what a reference gives.
    Compare {
        /// The reference, `${step.field}` without its braces.
        path: String,
        /// `equals`, `not_equals`, `in`, `not_in`, `less_than`, `less_than_or_equals`, `greater_than`,
        /// `greater_than_or_equals`.
        op: String,
        /// The value that is compared with.
        #[serde(deserialize_with = "Value::deserialize")]
        value: Value,
    },
    /// A test for a reference that has a value.
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
    /// The reduction of their outputs to one.
    pub reduce: Reduce,
    /// The key under which the result stands.
    pub into: Arc<str>,
    /// Groups in flight at once; all of them unless said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
}

/// The reduction of the outputs of parallel groups to one.
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
    /// The status that the run ends with.
    pub status: ExitStatus,
    /// The value that the run returns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<ValueSpec>,
    /// Recorded with the step.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub inputs: IndexMap<Arc<str>, ValueSpec>,
}

/// The status that an exit step ends the run with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
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
    /// The question to the person or program that answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub question: Option<Template>,
    /// The signal is an approval: who, when and why are recorded, and a refusal fails the step.
    #[serde(default, skip_serializing_if = "is_false")]
    pub approval: bool,
}
