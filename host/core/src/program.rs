//! A workflow made ready to run: every name looked up once.

use crate::structured;
use indexmap::IndexMap;
use opcell_ir::{
    WorkflowIr,
    ir::{Form, Goto, Lifecycle, Step, ValueSpec},
    names::Outcome,
    routing::{EventTable, VisitLimit},
};
use opcell_types::{
    Value,
    value::{Object, Shape},
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::{collections::HashMap, sync::Arc};

/// A workflow that an engine can run. Cheap to share; written and read as its [`WorkflowIr`].
#[derive(Debug, PartialEq)]
pub struct Program {
    ir: Arc<WorkflowIr>,
    index: HashMap<Arc<str>, u32>,
    /// Steps that the main line runs, in authored order.
    main: Arc<[u32]>,
    /// Per step: the groups it chooses from or runs at once.
    groups: Vec<Vec<Arc<[u32]>>>,
    entry: u32,
    /// The workflows that the document brings along.
    own: Vec<Arc<Program>>,
    /// `true` if the workflow as a part of a run, or a step of it, has limits of its own.
    limits_parts: bool,
    /// The names of all steps, which `$steps` is asked for.
    outputs: Shape,
    /// Per step: the names of what it resolves before it runs.
    arguments: Vec<Option<Shape>>,
    /// Per step: the names of its outputs, where some are computed from its result.
    mapped: Vec<Option<Shape>>,
    /// Per step: what it resolves before it runs, where that is the same whatever happens, and is wanted once an entry.
    constants: Vec<Option<Value>>,
    /// Per step: whether it calls an operation, and ends with what that returns.
    one_call: Vec<bool>,
}

/// Why a workflow cannot run at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// There is nothing to run.
    #[error("workflow `{workflow}` has no step that its main line runs")]
    NoSteps {
        /// The workflow.
        workflow: Arc<str>,
    },
    /// The workflow leaves it to its caller where a run begins.
    #[error("workflow `{workflow}` does not say where a run begins; it can begin at: {steps}")]
    NoEntry {
        /// The workflow.
        workflow: Arc<str>,
        /// The names of its steps, with commas between them.
        steps: String,
    },
    /// A name that refers to no step.
    #[error("workflow `{workflow}`: {user} names step `{name}`, which does not exist")]
    UnknownStep {
        /// The workflow.
        workflow: Arc<str>,
        /// The user of the name.
        user: String,
        /// The name.
        name: Arc<str>,
    },
}

impl Program {
    /// Looks every name up. Recursion is bounded by the depth of the document.
    ///
    /// # Errors
    /// When there are no steps, or the entry or a group names a step that does not exist. (A route that leads to an
    /// unknown step is an error of the run that takes it, as in psi; the static checks find it before.)
    pub fn new(ir: Arc<WorkflowIr>) -> Result<Arc<Self>, ProgramError> {
        let index: HashMap<Arc<str>, u32> = (0u32..).zip(&ir.steps).map(|(i, step)| (step.name.clone(), i)).collect();
        let main: Arc<[u32]> = (0u32..).zip(&ir.steps).filter(|(_, step)| !step.grouped).map(|(i, _)| i).collect();
        let unknown = |user: String, name: &Arc<str>| ProgramError::UnknownStep {
            workflow: ir.name.clone(),
            user,
            name: name.clone(),
        };
        let group = |step: &Step, names: &[Arc<str>]| -> Result<Arc<[u32]>, ProgramError> {
            names
                .iter()
                .map(|n| index.get(n).copied().ok_or_else(|| unknown(format!("step `{}`", step.name), n)))
                .collect()
        };
        let groups = ir
            .steps
            .iter()
            .map(|step| match &step.form {
                Form::Branch { branch } if branch.in_place => Ok(Vec::new()),
                Form::Branch { branch } => Ok(vec![group(step, &branch.then)?, group(step, &branch.otherwise)?]),
                Form::Parallel { parallel } => parallel.branches.iter().map(|names| group(step, names)).collect(),
                _ => Ok(Vec::new()),
            })
            .collect::<Result<_, _>>()?;
        let entry = match &ir.entry {
            Some(name) if name.is_empty() => {
                let steps: Vec<&str> = ir.steps.iter().map(|step| step.name.as_ref()).collect();
                return Err(ProgramError::NoEntry { workflow: ir.name.clone(), steps: steps.join(", ") });
            }
            Some(name) => *index.get(name).ok_or_else(|| unknown("the entry".to_owned(), name))?,
            None => match main.first() {
                Some(step) => *step,
                // A conditional in its own branch leaves nothing on the main line; WorkflowSkill then runs nothing and
                // ends well.
                None if ir.dialect.lifecycle == Lifecycle::Sequential && !ir.steps.is_empty() => {
                    u32::try_from(ir.steps.len()).unwrap_or(u32::MAX)
                }
                None => return Err(ProgramError::NoSteps { workflow: ir.name.clone() }),
            },
        };
        let own = ir.workflows.iter().map(|own| Self::new(own.clone())).collect::<Result<_, _>>()?;
        let limits_parts = !ir.limits.is_unlimited() || ir.steps.iter().any(|step| !step.limits.is_unlimited());
        let outputs = Shape::new(ir.steps.iter().map(|step| &step.name));
        let arguments = ir.steps.iter().map(|step| inputs_of(step).map(|inputs| Shape::new(inputs.keys()))).collect();
        let mapped = ir.steps.iter().map(mapped_names).collect();
        let constants = ir.steps.iter().map(constant_inputs).collect();
        let one_call = ir.steps.iter().map(is_one_call).collect();
        Ok(Arc::new(Self {
            ir,
            index,
            main,
            groups,
            entry,
            own,
            limits_parts,
            outputs,
            arguments,
            mapped,
            constants,
            one_call,
        }))
    }

    /// Returns the value of `$steps` before a step has run: a place for each, so that a result is put in its place and
    /// nothing moves.
    pub(crate) fn no_outputs(&self) -> Value {
        Value::Object(Object::of_shape(self.outputs.clone(), Vec::new()))
    }

    /// The names of what a step resolves before it runs.
    pub(crate) fn arguments(&self, step: u32) -> Option<&Shape> {
        self.arguments.get(step as usize)?.as_ref()
    }

    /// The names of a step's outputs, where some are computed from its result.
    pub(crate) fn mapped(&self, step: u32) -> Option<&Shape> {
        self.mapped.get(step as usize)?.as_ref()
    }

    /// Returns the values that a step resolves before it runs, where they are always the same. Elements of one step
    /// have no such thing: each is given an object of its own.
    pub(crate) fn constants(&self, step: u32) -> Option<&Value> {
        self.constants.get(step as usize)?.as_ref()
    }

    /// Returns `true` if the step does nothing but call an operation: its end is what the call returned.
    pub(crate) fn is_one_call(&self, step: u32) -> bool {
        self.one_call.get(step as usize).is_some_and(|one| *one)
    }

    /// The workflow.
    #[must_use]
    pub fn ir(&self) -> &Arc<WorkflowIr> {
        &self.ir
    }

    /// The workflow's name.
    #[must_use]
    pub fn name(&self) -> &Arc<str> {
        &self.ir.name
    }

    /// The workflows that the document brings along for its delegates.
    #[must_use]
    pub fn own(&self) -> &[Arc<Program>] {
        &self.own
    }

    pub(crate) fn limits_parts(&self) -> bool {
        self.limits_parts
    }

    /// A step's position.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<u32> {
        self.index.get(name).copied()
    }

    fn named(&self, step: &str) -> Option<&Step> {
        self.step(self.index(step)?)
    }

    /// A step by position.
    #[must_use]
    pub fn step(&self, index: u32) -> Option<&Step> {
        self.ir.steps.get(index as usize)
    }

    /// The main line, in authored order.
    #[must_use]
    pub fn main(&self) -> &Arc<[u32]> {
        &self.main
    }

    /// The main line's step after a step, in authored order; past the last one, a position that no step has.
    #[must_use]
    pub fn after(&self, step: u32) -> u32 {
        // Where no step before this one is in a group, its position in the line is its own.
        if self.main.get(step as usize) == Some(&step) {
            return self.main.get(step as usize + 1).copied().unwrap_or(u32::MAX);
        }
        let next = self.main.partition_point(|main| *main <= step);
        self.main.get(next).copied().unwrap_or(u32::MAX)
    }

    /// The main line's step before a step.
    #[must_use]
    pub fn before(&self, step: u32) -> Option<u32> {
        let at = self.main.partition_point(|main| *main < step);
        at.checked_sub(1).and_then(|at| self.main.get(at)).copied()
    }

    /// Returns the reason why the workflow does not take an input, if it has an input schema that says so.
    #[must_use]
    pub fn refuses(&self, input: &Value) -> Option<String> {
        let schema = self.ir().input_schema.as_ref()?;
        let violations = structured::check(schema, input).err()?;
        Some(format!("The input does not match the input schema of `{}`: {violations}", self.name()))
    }

    /// Returns the value of `$inputs`: the entries of an input that is an object, then defaults of declared inputs that
    /// it lacks. A given null counts as given.
    #[must_use]
    pub fn bind_inputs(&self, input: &Value) -> Value {
        let defaults = self.ir.inputs.iter().filter_map(|(name, declared)| Some((name, declared.default.as_ref()?)));
        let mut missing = defaults.filter(|(name, _)| input.get(name).is_none()).peekable();
        if missing.peek().is_none() && matches!(input, Value::Object(_)) {
            return input.clone();
        }
        let mut bound = input.as_object().map(Object::to_map).unwrap_or_default();
        bound.extend(missing.map(|(name, value)| (name.into(), value.clone())));
        Value::from(bound)
    }

    /// The groups of a branch (`then`, `else`) or of a parallel step.
    #[must_use]
    pub fn groups(&self, step: u32) -> &[Arc<[u32]>] {
        self.groups.get(step as usize).map_or(&[], Vec::as_slice)
    }

    /// Returns the first step of a run.
    #[must_use]
    pub fn entry(&self) -> u32 {
        self.entry
    }

    /// Returns the treatment of values and failures around a step.
    #[must_use]
    pub fn lifecycle(&self) -> Lifecycle {
        self.ir.dialect.lifecycle
    }
}

fn is_one_call(step: &Step) -> bool {
    let ends_plainly = step.judge.is_none() && !step.terminal && step.timeout_ms.is_none();
    matches!(step.form, Form::Invoke { .. }) && step.each.is_none() && ends_plainly
}

/// Returns the inputs that a step resolves before it runs, and that are recorded.
pub(crate) fn inputs_of(step: &Step) -> Option<&IndexMap<Arc<str>, ValueSpec>> {
    match &step.form {
        Form::Invoke { invoke } => Some(&invoke.args),
        Form::Transform { transform } => Some(&transform.inputs),
        Form::Branch { branch } => Some(&branch.inputs),
        Form::Exit { exit } => Some(&exit.inputs),
        _ => None,
    }
}

fn mapped_names(step: &Step) -> Option<Shape> {
    step.outputs.values().any(|spec| spec.value.is_some()).then(|| Shape::new(step.outputs.keys()))
}

fn constant_inputs(step: &Step) -> Option<Value> {
    let inputs = inputs_of(step).filter(|_| step.each.is_none())?;
    let entries = inputs.iter().map(|(name, spec)| match spec {
        ValueSpec::Literal { value } => Some((name, value.clone())),
        _ => None,
    });
    entries.collect::<Option<Object>>().map(Value::Object)
}

fn routes(step: &Step) -> impl Iterator<Item = (&str, &str)> {
    step.on.iter().filter_map(|route| match (&route.outcome, &route.goto) {
        (Outcome::Text(event) | Outcome::Keyword(event), Goto::Step(name)) => Some((event.as_ref(), name.as_ref())),
        (_, Goto::Next | Goto::Previous | Goto::Done) => None,
    })
}

/// Steps as states: an event is an outcome whose transition names a step.
impl EventTable for Program {
    fn has_state(&self, state: &str) -> bool {
        self.index.contains_key(state)
    }

    fn is_terminal(&self, state: &str) -> bool {
        self.named(state).is_none_or(|step| step.terminal || step.on.is_empty())
    }

    fn target(&self, state: &str, event: &str) -> Option<&str> {
        routes(self.named(state)?).find(|(name, _)| *name == event).map(|(_, target)| target)
    }

    fn events(&self, state: &str) -> Vec<&str> {
        let mut events: Vec<&str> =
            self.named(state).map(|step| routes(step).map(|(event, _)| event).collect()).unwrap_or_default();
        events.sort_unstable();
        events
    }

    fn visit_limit(&self, state: &str) -> Option<VisitLimit<'_>> {
        let step = self.named(state)?;
        step.max_visits.map(|max| VisitLimit { max, instead: step.on_max_visits.as_deref() })
    }
}

impl Serialize for Program {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.ir.serialize(serializer)
    }
}

/// Only a journal writes programs, and only after [`Program::new`] took them.
impl<'de> Deserialize<'de> for Program {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let ir = WorkflowIr::deserialize(deserializer)?;
        let program = Self::new(Arc::new(ir)).map_err(serde::de::Error::custom)?;
        Arc::try_unwrap(program).map_err(|_| serde::de::Error::custom("a new program has one owner"))
    }
}
