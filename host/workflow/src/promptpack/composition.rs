//! Compositions (RFC 0010): named step graphs over a pack's prompts, tools and evals.

mod order;
mod validate;

pub use validate::{Available, RESERVED_NAMES, validate, validate_all};

use super::decode::{DecodeError, Decoder, Struct};
use opcell_types::value::{Map, Value};

/// A named step graph.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Composition {
    /// Always 1.
    pub version: i64,
    /// One sentence.
    pub description: String,
    /// Names the schema of the input.
    pub input_schema: String,
    /// Names the schema of the output.
    pub output_schema: String,
    /// The step whose output is the composition's; empty: the last one that has any.
    pub output: String,
    /// In the order in which they run.
    pub steps: Vec<Step>,
    /// Host settings.
    pub engine: Map,
}

/// One step. Which fields may be set depends on its kind, and [`validate`] says which are wrong.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    /// Unique within the composition.
    pub id: String,
    /// `prompt`, `agent`, `tool`, `branch` or `parallel`; anything else is a vendor's.
    pub kind: String,
    /// One sentence.
    pub description: String,
    /// The step is skipped when all of these were.
    pub depends_on: Vec<String>,
    /// Repeats and evals.
    pub modifiers: Option<Modifiers>,
    /// prompt, agent: the prompt that is asked.
    pub prompt_task: String,
    /// prompt, agent: what it is asked; null when absent.
    pub input: Value,
    /// prompt, agent: names the schema of the answer.
    pub output_schema: String,
    /// agent: what it may call.
    pub tools: Vec<String>,
    /// agent: when it stops.
    pub termination: Option<Termination>,
    /// tool: which one.
    pub tool: String,
    /// tool: its arguments.
    pub args: Map,
    /// prompt, agent: which of the pack's providers speaks; empty: the prompt's own.
    pub provider: String,
    /// branch: what is asked.
    pub predicate: Option<Predicate>,
    /// branch: the step to take when it holds.
    pub then: String,
    /// branch: the step to take when it does not.
    pub otherwise: String,
    /// parallel: what runs at once.
    pub branches: Vec<Step>,
    /// parallel: how the outputs become one.
    pub reduce: Option<Reducer>,
}

/// The modifiers that may be added to a step of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Modifiers {
    /// Attempts in all; 0 and 1 are one attempt.
    pub max_attempts: i64,
    /// Evals by key.
    pub eval: Vec<String>,
}

/// When an agent step stops.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Termination {
    /// Model rounds; 0: not said.
    pub max_steps: i64,
    /// A tool whose call ends the step; empty: not said.
    pub tool_called: String,
}

/// The reduction of the outputs of parallel branches to one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reducer {
    /// `append`, `replace` or `barrier`.
    pub strategy: String,
    /// The key under which the result stands.
    pub into: String,
}

/// The condition of a branch: exactly one of a comparison, `exists`, `all_of`, `any_of` and `not`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Predicate {
    /// A reference, `${…}`.
    pub path: String,
    /// A comparison.
    pub op: String,
    /// With what; null when absent.
    pub value: Value,
    /// `true` if the reference must have a value, `false` if it must have none.
    pub exists: Option<bool>,
    /// All of them hold.
    pub all_of: Option<Vec<Predicate>>,
    /// One of them holds.
    pub any_of: Option<Vec<Predicate>>,
    /// It does not hold.
    pub not: Option<Box<Predicate>>,
}

/// The comparisons of a predicate.
pub const COMPARISONS: [&str; 8] = [
    "equals",
    "not_equals",
    "in",
    "not_in",
    "less_than",
    "less_than_or_equals",
    "greater_than",
    "greater_than_or_equals",
];

const COMPOSITION: Struct = Struct {
    full: "composition.Composition",
    name: "Composition",
    fields: &["version", "description", "input_schema", "output_schema", "output", "steps", "engine"],
};

const STEP: Struct = Struct {
    full: "composition.Step",
    name: "Step",
    fields: &[
        "id",
        "kind",
        "description",
        "depends_on",
        "modifiers",
        "prompt_task",
        "input",
        "output_schema",
        "tools",
        "termination",
        "tool",
        "args",
        "predicate",
        "then",
        "else",
        "branches",
        "reduce",
        "provider",
    ],
};

const MODIFIERS: Struct =
    Struct { full: "composition.StepModifiers", name: "StepModifiers", fields: &["retry", "eval"] };
const RETRY: Struct = Struct { full: "composition.RetryModifier", name: "RetryModifier", fields: &["max_attempts"] };
const TERMINATION: Struct =
    Struct { full: "composition.Termination", name: "Termination", fields: &["max_steps", "tool_called"] };
const REDUCER: Struct = Struct { full: "composition.Reducer", name: "Reducer", fields: &["strategy", "into"] };
const PREDICATE: Struct = Struct {
    full: "composition.Predicate",
    name: "Predicate",
    fields: &["path", "op", "value", "exists", "all_of", "any_of", "not"],
};

impl Composition {
    /// Reads a composition by the reference's rules. Depth is bounded by the depth of the JSON value.
    ///
    /// # Errors
    /// When a value has the wrong type.
    pub fn from_value(value: &Value) -> Result<Self, DecodeError> {
        let mut composition = Self::default();
        let mut decoder = Decoder::default();
        decoder.object(value, COMPOSITION, |d, field, value| match field {
            "version" => d.int(value, &mut composition.version),
            "description" => d.string(value, &mut composition.description),
            "input_schema" => d.string(value, &mut composition.input_schema),
            "output_schema" => d.string(value, &mut composition.output_schema),
            "output" => d.string(value, &mut composition.output),
            "steps" => composition.steps = Step::decode_list(d, value),
            "engine" => d.any_map(value, &mut composition.engine),
            _ => {}
        });
        decoder.finish()?;
        Ok(composition)
    }

    /// References to steps that cannot have run when they are read.
    pub(crate) fn forward_references(&self) -> Vec<order::Forward<'_>> {
        order::forward(self)
    }

    /// Every step, branches of parallel steps included, in document order.
    #[must_use]
    pub fn all_steps(&self) -> Vec<&Step> {
        let mut found = Vec::new();
        let mut waiting: Vec<&Step> = self.steps.iter().rev().collect();
        while let Some(step) = waiting.pop() {
            found.push(step);
            if step.kind == "parallel" {
                waiting.extend(step.branches.iter().rev());
            }
        }
        found
    }
}

impl Step {
    fn decode_list(decoder: &mut Decoder, value: &Value) -> Vec<Self> {
        let mut steps = Vec::new();
        decoder.list(value, "[]*composition.Step", |d, item| {
            if !item.is_nullish() {
                steps.push(Self::decode(d, item));
            }
        });
        steps
    }

    fn decode(decoder: &mut Decoder, value: &Value) -> Self {
        let mut step = Self { input: Value::Null, ..Self::default() };
        decoder.object(value, STEP, |d, field, value| match field {
            "id" => d.string(value, &mut step.id),
            "kind" => d.named_string(value, "composition.StepKind", &mut step.kind),
            "description" => d.string(value, &mut step.description),
            "depends_on" => d.strings(value, &mut step.depends_on),
            "modifiers" => step.modifiers = Modifiers::decode(d, value),
            "prompt_task" => d.string(value, &mut step.prompt_task),
            "input" => step.input = value.clone(),
            "output_schema" => d.string(value, &mut step.output_schema),
            "tools" => d.strings(value, &mut step.tools),
            "termination" => step.termination = Termination::decode(d, value),
            "tool" => d.string(value, &mut step.tool),
            "args" => d.any_map(value, &mut step.args),
            "predicate" => step.predicate = Predicate::decode(d, value),
            "then" => d.string(value, &mut step.then),
            "else" => d.string(value, &mut step.otherwise),
            "branches" => step.branches = Self::decode_list(d, value),
            "reduce" => step.reduce = Reducer::decode(d, value),
            "provider" => d.string(value, &mut step.provider),
            _ => {}
        });
        step
    }
}

impl Modifiers {
    fn decode(decoder: &mut Decoder, value: &Value) -> Option<Self> {
        let mut modifiers = Self::default();
        decoder.object(value, MODIFIERS, |d, field, value| match field {
            "retry" => d.object(value, RETRY, |d, _, value| d.int(value, &mut modifiers.max_attempts)),
            _ => d.strings(value, &mut modifiers.eval),
        });
        (!value.is_nullish()).then_some(modifiers)
    }
}

impl Termination {
    fn decode(decoder: &mut Decoder, value: &Value) -> Option<Self> {
        let mut termination = Self::default();
        decoder.object(value, TERMINATION, |d, field, value| match field {
            "max_steps" => d.int(value, &mut termination.max_steps),
            _ => d.string(value, &mut termination.tool_called),
        });
        (!value.is_nullish()).then_some(termination)
    }
}

impl Reducer {
    fn decode(decoder: &mut Decoder, value: &Value) -> Option<Self> {
        let mut reducer = Self::default();
        decoder.object(value, REDUCER, |d, field, value| match field {
            "strategy" => d.string(value, &mut reducer.strategy),
            _ => d.string(value, &mut reducer.into),
        });
        (!value.is_nullish()).then_some(reducer)
    }
}

impl Predicate {
    fn decode(decoder: &mut Decoder, value: &Value) -> Option<Self> {
        let mut predicate = Self { value: Value::Null, ..Self::default() };
        decoder.object(value, PREDICATE, |d, field, value| match field {
            "path" => d.string(value, &mut predicate.path),
            "op" => d.string(value, &mut predicate.op),
            "value" => predicate.value = value.clone(),
            "exists" if value.is_nullish() => {}
            "exists" => d.bool(value, predicate.exists.insert(false)),
            "all_of" => predicate.all_of = Self::decode_list(d, value),
            "any_of" => predicate.any_of = Self::decode_list(d, value),
            _ => predicate.not = Self::decode(d, value).map(Box::new),
        });
        (!value.is_nullish()).then_some(predicate)
    }

    fn decode_list(decoder: &mut Decoder, value: &Value) -> Option<Vec<Self>> {
        let mut predicates = Vec::new();
        decoder.list(value, "[]*composition.Predicate", |d, item| predicates.extend(Self::decode(d, item)));
        (!value.is_nullish()).then_some(predicates)
    }
}
