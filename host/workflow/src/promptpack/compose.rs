//! From a composition to steps of the execution model.

use super::compile::route;
use super::composition::{Composition, Predicate, Reducer, Step as Node};
use super::contracts::Contracts;
use super::pack::Pack;
use super::speaker;
use super::spec::State;
use indexmap::IndexMap;
use opcell_ir::interpolate::Interpolation;
use opcell_ir::ir::{
    Branch, Condition, Contribution, Delegate, DelegateTarget, Form, Governance, Invoke, OutputSpec, Parallel,
    Predicate as IrPredicate, PromptString, Reduce, Retry, RunLimits, Session, SourceRef, SourceSpec, Step,
    StructuredOutput, ValueSpec, Version, WorkflowIr, Yields,
};
use opcell_types::Value;
use std::sync::Arc;

/// The output under which a step's answer stands: `${step.output.x}` is a path into it.
pub const OUTPUT: &str = "output";

/// A composition as a workflow of its own, held to the schemas that it names. It must have passed validation.
#[must_use]
pub fn compile_composition(name: &str, composition: &Composition, pack: &Pack, contracts: &Contracts) -> WorkflowIr {
    WorkflowIr {
        version: Version::V1,
        name: name.into(),
        description: Some(composition.description.clone()).filter(|text| !text.is_empty()),
        advertise: true,
        dialect: super::compile::DIALECT,
        inputs: speaker::inputs(speaker::asked(composition).into_iter().filter_map(|key| pack.prompts.get(key))),
        outputs: IndexMap::new(),
        input_schema: contracts.get(&composition.input_schema).cloned(),
        output_schema: contracts.get(&composition.output_schema).cloned(),
        entry: None,
        steps: steps(composition, pack, contracts),
        result: Some(composition.output.as_str().into()).filter(|name: &Arc<str>| !name.is_empty()),
        terminal_contract: None,
        limits: RunLimits::default(),
        governance: Governance::default(),
        artifacts: IndexMap::new(),
        workflows: Vec::new(),
    }
}

/// A workflow state that a composition runs in: a call of the composition as a workflow of its own.
#[must_use]
pub(super) fn state(name: &str, state: &State, workflow: &WorkflowIr) -> Step {
    let handover = SourceSpec { from: SourceRef::Handover, path: None, projection: None };
    let delegate = Delegate {
        target: DelegateTarget::Name(workflow.name.clone()),
        prompt_string: PromptString::Source(handover),
        context: Vec::new(),
        session: Box::default(),
    };
    let mut step = Step::new(name, Form::Delegate { delegate });
    step.description = Some(state.description.clone()).filter(|text| !text.is_empty());
    route(&mut step, state);
    step
}

/// The steps of a composition, each followed by the branches that it runs at once, and theirs.
fn steps(composition: &Composition, pack: &Pack, contracts: &Contracts) -> Vec<Step> {
    let mut steps = Vec::new();
    // An explicit stack: branches may run further branches at once.
    let mut open: Vec<(&Node, bool)> = composition.steps.iter().rev().map(|node| (node, false)).collect();
    while let Some((node, grouped)) = open.pop() {
        let mut step = step(node, pack, contracts);
        step.grouped = grouped;
        steps.push(step);
        open.extend(node.branches.iter().rev().map(|branch| (branch, true)));
    }
    steps
}

fn step(node: &Node, pack: &Pack, contracts: &Contracts) -> Step {
    let named = |id: &String| -> Arc<str> { id.as_str().into() };
    let form = match node.kind.as_str() {
        "tool" => Form::Invoke {
            invoke: Invoke {
                operation: speaker::tool_name(pack, &node.tool).into(),
                args: node.args.iter().map(|(name, value)| (name.into(), spec(value))).collect(),
            },
        },
        "branch" => Form::Branch {
            branch: Branch {
                condition: Condition::Predicate(node.predicate.as_ref().map_or(nothing(), predicate)),
                inputs: IndexMap::new(),
                then: Some(&node.then).filter(|id| !id.is_empty()).map(named).into_iter().collect(),
                otherwise: Some(&node.otherwise).filter(|id| !id.is_empty()).map(named).into_iter().collect(),
                in_place: true,
            },
        },
        "parallel" => Form::Parallel {
            parallel: Parallel {
                branches: node.branches.iter().map(|branch| vec![named(&branch.id)]).collect(),
                reduce: reduce(node.reduce.as_ref()),
                into: node.reduce.as_ref().map_or("", |reduce| reduce.into.as_str()).into(),
                concurrency: None,
            },
        },
        _ => Form::Session { session: Box::new(session(node, pack)) },
    };
    let source = match form {
        Form::Invoke { .. } => Some("invoke/data"),
        Form::Session { .. } if !node.output_schema.is_empty() => Some("session/structured-output"),
        Form::Session { .. } => Some("session/json-or-text"),
        _ => None,
    };
    let mut step = Step::new(named(&node.id), form);
    step.description = Some(node.description.clone()).filter(|text| !text.is_empty());
    step.depends_on = node.depends_on.iter().map(named).collect();
    step.retry = retry(node);
    if let Some(source) = source {
        let structured = answer(&node.output_schema, contracts);
        let output = OutputSpec { source: Some(source.into()), structured, ..OutputSpec::default() };
        step.outputs.insert(OUTPUT.into(), output);
        step.yields = Some(Yields::Data { data: OUTPUT.into() });
    }
    step
}

/// Returns the form that the answer of a step must have. The provider is asked for it; an answer that is not fails the
/// attempt.
fn answer(reference: &str, contracts: &Contracts) -> Option<StructuredOutput> {
    (!reference.is_empty()).then(|| StructuredOutput {
        schema_id: Some(reference.to_owned()),
        schema_version: None,
        json_schema: contracts.get(reference).cloned(),
        malli_schema: None,
        strategy_preference: None,
        fallback: None,
        require_provider_native: false,
        max_attempts: 1,
    })
}

/// All attempts at once, without pauses: `max_attempts` counts the first one too.
fn retry(node: &Node) -> Option<Retry> {
    let attempts = node.modifiers.as_ref().map_or(0, |modifiers| modifiers.max_attempts);
    let max = u32::try_from(attempts.saturating_sub(1)).ok().filter(|max| *max > 0)?;
    Some(Retry { max, delay_ms: 0.0, backoff: 1.0 })
}

fn reduce(reducer: Option<&Reducer>) -> Reduce {
    match reducer.map(|reducer| reducer.strategy.as_str()) {
        Some("append") => Reduce::Append,
        Some("replace") => Reduce::Replace,
        _ => Reduce::Barrier,
    }
}

/// A prompt is asked once and calls no tools; an agent may call those it lists, round after round. The fields of an
/// input that is an object fill the prompt's variables, before what the host gave.
fn session(node: &Node, pack: &Pack) -> Session {
    let until = node.termination.as_ref();
    let rounds = until.and_then(|until| u32::try_from(until.max_steps).ok()).filter(|max| *max > 0);
    let final_tool = until.map(|until| until.tool_called.as_str()).filter(|tool| !tool.is_empty());
    let is_agent = node.kind == "agent";
    let tools = if is_agent { node.tools.as_slice() } else { &[] };
    let mut session = speaker::session(pack, &node.prompt_task, tools);
    if let Some(input) = node.input.as_object() {
        // `{{ name }}` is bound as it is written, and means the same.
        for (token, bound) in &mut session.variables {
            if let Some(value) = input.get(token.trim()) {
                *bound = spec(value);
            }
        }
        session.variables.extend(input.iter().map(|(name, value)| (name.into(), spec(value))));
    }
    if !node.provider.is_empty() {
        session.session_profile = Some(node.provider.clone());
    }
    session.max_rounds = if is_agent { rounds } else { Some(1) };
    session.final_tool = final_tool.map(|tool| speaker::tool_name(pack, tool).to_owned());
    session.contributions = vec![Contribution::Value { value: spec(&node.input) }];
    session
}

/// A value with `${…}` references in its texts. Recursion is bounded by the depth that JSON parsing admits.
fn spec(value: &Value) -> ValueSpec {
    match value {
        Value::String(text) if text.contains("${") => {
            ValueSpec::Interpolation { interpolation: Interpolation::new(text) }
        }
        Value::Array(items) => ValueSpec::Items { items: items.iter().map(spec).collect() },
        Value::Object(entries) => {
            ValueSpec::Fields { fields: entries.iter().map(|(name, value)| (name.into(), spec(value))).collect() }
        }
        other => ValueSpec::Literal { value: other.clone() },
    }
}

/// Holds never.
fn nothing() -> IrPredicate {
    IrPredicate::Any { any_of: Vec::new() }
}

/// A predicate with its references bare. A path that is not a reference gives nothing, as in the reference.
pub(super) fn predicate(authored: &Predicate) -> IrPredicate {
    let path = opcell_ir::reference::strip(&authored.path).unwrap_or("").to_owned();
    if let Some(all) = &authored.all_of {
        IrPredicate::All { all_of: all.iter().map(predicate).collect() }
    } else if let Some(any) = &authored.any_of {
        IrPredicate::Any { any_of: any.iter().map(predicate).collect() }
    } else if let Some(not) = &authored.not {
        IrPredicate::Not { not: Box::new(predicate(not)) }
    } else if let Some(exists) = authored.exists {
        IrPredicate::Exists { path, exists }
    } else {
        IrPredicate::Compare { path, op: authored.op.clone(), value: authored.value.clone() }
    }
}
