//! WorkflowSkill: declaration order, outputs that are built whatever happened, and a run that is given up where a value
//! cannot be resolved.

use super::{Lifecycle, exited};
use crate::{
    decide::{At, ended, failure, problem},
    event::{Event, StepResult},
    failure::Failure,
    outcome::{RunEnd, Status},
    state::{Accepted, Line, Raw},
};
use opcell_ir::{
    ir::{Exit, ExitStatus, Form, OnError, OutputSpec, Step},
    resolve::{self, ResolveError},
};
use opcell_types::{Value, value::Object};
use std::sync::Arc;

pub(super) struct Sequential;

impl Lifecycle for Sequential {
    fn done(&self, at: &At<'_>, _: Option<u32>) -> Event {
        end(at, None)
    }

    fn failed(&self, at: &At<'_>, step: u32, failure: &Failure) -> Event {
        end(at, Some((step, failure)))
    }

    fn exited(&self, at: &At<'_>) -> Event {
        end(at, None)
    }

    fn failure_in_group_halts(&self) -> bool {
        true
    }

    fn give_up(&self, at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
        give_up(at, step, failure)
    }

    fn unresolved(&self, at: &At<'_>, place: u32, step: &Step, name: &Arc<str>, error: &ResolveError) -> Vec<Event> {
        // The line is the step's, so what an element cannot resolve, its step cannot.
        give_up(at, place, failure(error.reason(), error.of_input(&step.name, name)))
    }

    fn resolves_each_up_front(&self) -> bool {
        true
    }

    fn element_output(&self, accepted: &Accepted, _: &Step) -> Value {
        accepted.mapped_or_raw()
    }

    fn unmapped_output(&self, result: &Value, name: &str) -> Option<Value> {
        Some(match result.get(name) {
            None | Some(Value::Undefined) => Value::Null,
            Some(value) => value.clone(),
        })
    }
}

/// The run is given up, or, inside a group, the step that chose the group fails and the group's records go
/// (WorkflowSkill 0.5.0).
fn give_up(at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
    match at.state.line_of(at.id) {
        Some((id, Line { group: Some(_), .. })) => {
            let Some(owner) = at.state.frames.get(&id).and_then(|frame| frame.parent) else { return Vec::new() };
            let ignored = at.state.step_of(owner).is_some_and(|(_, step)| step.on_error == OnError::Ignore);
            let result = StepResult { failure: Some(failure), ignored, discards_group: true, ..StepResult::default() };
            vec![Event::StepFinished { frame: owner, result: Box::new(result) }]
        }
        _ => vec![abort(at, Some(step), failure.message, failure.details)],
    }
}

fn abort(at: &At<'_>, step: Option<u32>, message: String, details: Option<Value>) -> Event {
    let step = step.and_then(|step| at.instance.program.step(step)).map(|step| step.name.clone());
    at.end(RunEnd {
        step,
        aborted: true,
        details,
        result: Value::Object(Object::default()),
        ..ended(Status::Failed, "aborted", message)
    })
}

/// Outputs are built whatever happened.
fn end(at: &At<'_>, failed: Option<(u32, &Failure)>) -> Event {
    let exit = exited(at);
    // An exit whose output is undefined leaves the outputs to the steps before it.
    let is_undefined = |exit: &Exit| {
        let output = exit.output.as_ref().map(|output| at.view(None).value(output));
        matches!(output, Some(Ok(Value::Undefined)))
    };
    let ended_with = exit.filter(|(exit, _, _)| !is_undefined(exit)).map(|(_, _, accepted)| accepted.raw.plain());
    let gave = if failed.is_some() || exit.is_some() { last_output(at) } else { None };
    let built = match outputs(at, ended_with, gave) {
        Ok(outputs) => outputs,
        Err(message) => return abort(at, None, message, None),
    };
    let base = match (failed, exit) {
        (Some((step, failure)), _) => {
            let step = at.instance.program.step(step).map(|step| step.name.clone());
            RunEnd {
                step,
                source: Some(failure.source),
                details: failure.details.clone(),
                denial: failure.denial.clone(),
                ..ended(Status::Failed, &failure.reason, failure.message.clone())
            }
        }
        (None, Some((Exit { status: ExitStatus::Failed, .. }, name, _))) => RunEnd {
            step: Some(name.clone()),
            ..ended(Status::Failed, "exit-failed", format!("Step \"{name}\" ended the run as failed"))
        },
        (None, _) => {
            let last = exit.map(|(_, name, _)| name.clone());
            let step = last.or_else(|| {
                at.instance.last.and_then(|last| at.instance.program.step(last)).map(|step| step.name.clone())
            });
            RunEnd { step, source: None, reason: None, message: None, ..ended(Status::Completed, "", String::new()) }
        }
    };
    at.end(RunEnd { result: built, ..base })
}

/// The output of the step that has one and ended last; steps that were skipped have none.
fn last_output(at: &At<'_>) -> Option<Value> {
    let outputs = at.instance.outputs.as_object()?;
    outputs.iter().rev().find_map(|(name, entry)| {
        let index = at.instance.program.index(name)?;
        let accepted = at.instance.memory.get(index as usize)?.accepted.as_ref()?;
        let is_exit = matches!(at.instance.program.step(index)?.form, Form::Exit { .. });
        let output = entry.get("output").filter(|output| !matches!(output, Value::Undefined))?;
        (!is_exit && !matches!(accepted.raw, Raw::Nothing)).then(|| output.clone())
    })
}

/// WorkflowSkill's outputs (0.5.0): an exit's output by key; else computed values; else the last main step's output by
/// key.
fn outputs(at: &At<'_>, exit: Option<Value>, gave: Option<Value>) -> Result<Value, String> {
    let declared = &at.instance.program.ir().outputs;
    let Some((first, _)) = declared.first() else { return Ok(Value::Object(Object::default())) };
    let by_key = |from: &Value, name: &Arc<str>| match from.get(name) {
        None | Some(Value::Undefined) => Value::Null,
        Some(value) => value.clone(),
    };
    let all_by_key = |from: &Value| Value::object(declared.keys().map(|name| (name.clone(), by_key(from, name))));
    if let Some(exit) = exit {
        return Ok(if exit.as_object().is_some() { all_by_key(&exit) } else { Value::object([(first.clone(), exit)]) });
    }
    let last = at.instance.last.and_then(|last| at.instance.program.step(last));
    let last = last.and_then(|step| at.instance.outputs.get(&step.name)).and_then(|entry| entry.get("output"));
    let last = gave.or_else(|| last.cloned()).unwrap_or(Value::Null);
    if declared.values().all(|spec: &OutputSpec| spec.value.is_none()) {
        return Ok(if last.as_object().is_some() { all_by_key(&last) } else { Value::object([(first.clone(), last)]) });
    }
    let (view, mut made) = (at.view(None), resolve::ValueBudget::default());
    let outputs: Result<Object, String> = declared
        .iter()
        .map(|(name, spec)| match &spec.value {
            Some(spec) => {
                let value = view.value(spec).and_then(|value| made.counted(spec, value));
                value.map(|value| (name.clone(), value)).map_err(|error| problem(&error))
            }
            None => Ok((name.clone(), by_key(&last, name))),
        })
        .collect();
    outputs.map(Value::Object)
}
