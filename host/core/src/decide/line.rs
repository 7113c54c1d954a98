//! Lines: entering one step after the other, and what a workflow ends with.

use super::{At, ended, failure, limits, problem};
use crate::{
    event::{Event, Settled, StepResult},
    failure::Failure,
    outcome::{RunEnd, Status},
    state::{Accepted, Line, LineAt, Raw},
    structured,
};
use opcell_types::{Source, Value, value::Object};
use opcell_workflow::{
    WorkflowIr, handoff,
    ir::{Exit, ExitStatus, Form, OutputSpec, Step, Yields},
    js,
};
use std::sync::Arc;

pub(super) fn decide(at: &At<'_>, line: &Line) -> Vec<Event> {
    match (&line.at, line.group) {
        (LineAt::Before(place), None) => match at.instance.program.step(*place) {
            Some(_) => match refused(at, *place) {
                Some(end) => vec![end],
                None => enter(at, *place),
            },
            None => vec![end_of_main(at, at.instance.last)],
        },
        (LineAt::Before(place), Some(group)) => {
            let steps = group_steps(at, group);
            match steps.get(*place as usize) {
                Some(step) => enter(at, *step),
                None => vec![leave(at, Settled::Ok(group_output(at, &steps)), false)],
            }
        }
        (LineAt::Done(step), None) => vec![end_of_main(at, Some(*step))],
        (LineAt::Done(_), Some(group)) => {
            vec![leave(at, Settled::Ok(group_output(at, &group_steps(at, group))), false)]
        }
        (LineAt::Failed(step, failure), None) if at.is_sequential() => vec![sequential_end(at, Some((*step, failure)))],
        (LineAt::Failed(step, failure), None) => vec![at.end_failed(*step, failure)],
        // Under the sequential lifecycle a failed step halts the run, whichever group it is in.
        (LineAt::Failed(_, failure), Some(_)) => vec![leave(at, Settled::Failed(failure.clone()), at.is_sequential())],
        (LineAt::Exited(_), Some(group)) => {
            vec![leave(at, Settled::Ok(group_output(at, &group_steps(at, group))), true)]
        }
        (LineAt::Exited(_), None) if at.is_sequential() => vec![sequential_end(at, None)],
        (LineAt::Exited(_), None) => vec![routed_exit(at)],
        (LineAt::In(_), _) => Vec::new(),
    }
}

/// The end of a workflow that was given what it does not take: none of its steps is entered.
fn refused(at: &At<'_>, place: u32) -> Option<Event> {
    let schema = at.instance.program.ir().input_schema.as_ref()?;
    if place != at.instance.program.entry() || at.instance.memory.iter().any(|memory| memory.visits > 0) {
        return None;
    }
    let violations = structured::check(schema, &at.instance.input).err()?;
    let message =
        format!("The input does not match the input schema of `{}`: {violations}", at.instance.program.name());
    Some(at.end(ended(Status::Failed, "invalid-input", message)))
}

/// The end of a workflow as it counts: one that returns what it must not has failed.
pub(super) fn returned(ir: &WorkflowIr, end: RunEnd) -> RunEnd {
    let Some(schema) = ir.output_schema.as_ref().filter(|_| end.status == Status::Completed) else { return end };
    let Err(violations) = structured::check(schema, &end.result) else { return end };
    let message = format!("The output does not match the output schema of `{}`: {violations}", ir.name);
    RunEnd { step: end.step, ..ended(Status::Failed, "invalid-output", message) }
}

fn leave(at: &At<'_>, result: Settled, halted: bool) -> Event {
    Event::GroupFinished { frame: at.id, result, halted }
}

fn group_steps(at: &At<'_>, group: u32) -> Arc<[u32]> {
    let step = at.frame.parent.and_then(|parent| at.state.entry_of(parent)).map(|entry| entry.step);
    let groups = step.map_or(&[][..], |step| at.instance.program.groups(step));
    groups.get(group as usize).cloned().unwrap_or_default()
}

/// The output of the last listed step, whether or not it ran.
fn group_output(at: &At<'_>, steps: &[u32]) -> Value {
    let last = steps.last().and_then(|step| at.instance.program.step(*step));
    let output = last.and_then(|step| at.instance.outputs.get(&step.name)).and_then(|entry| entry.get("output"));
    match output {
        None | Some(Value::Undefined) => Value::Null,
        Some(value) => value.clone(),
    }
}

fn enter(at: &At<'_>, index: u32) -> Vec<Event> {
    let Some(step) = at.instance.program.step(index) else { return Vec::new() };
    if at.instance.passes_by(index) {
        return vec![Event::StepSkipped { parent: at.id, step: index, name: step.name.clone() }];
    }
    if let Some(when) = &step.when {
        match when.evaluate_cow(&at.view(None).context()) {
            Err(error) => return give_up(at, index, failure("expression-failed", error.message)),
            Ok(value) if !js::is_truthy(&value) => {
                return vec![Event::StepSkipped { parent: at.id, step: index, name: step.name.clone() }];
            }
            Ok(_) => {}
        }
    }
    if let Some(instead) = limits::forbids_entry(at) {
        return vec![instead];
    }
    let visits = at.instance.memory.get(index as usize).map_or(0, |memory| memory.visits);
    if let Some(max) = step.max_iterations.filter(|max| u64::from(visits) >= *max) {
        return fail_line(at, index, super::judge::exhausted(&step.name, visits, max));
    }
    let event = Event::StepEntered {
        frame: at.next_frame(),
        parent: at.id,
        step: index,
        name: step.name.clone(),
        visit: visits + 1,
    };
    vec![event]
}

/// A step could not even begin, or its judge could not route.
pub(super) fn fail_line(at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
    let line = at.state.line_of(at.id);
    match line {
        Some((id, Line { group: Some(_), .. })) => {
            vec![Event::GroupFinished { frame: id, result: Settled::Failed(failure), halted: at.is_sequential() }]
        }
        _ if at.is_sequential() => vec![sequential_end(at, Some((step, &failure)))],
        _ => vec![at.end_failed(step, &failure)],
    }
}

/// A guard, an `each` or an input has no value. Routed: the step fails. Sequential: the run is given up, or, inside a
/// group, the step that chose the group fails and the group's records go (WorkflowSkill 0.5.0).
pub(super) fn give_up(at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
    if !at.is_sequential() {
        return fail_line(at, step, failure);
    }
    match at.state.line_of(at.id) {
        Some((id, Line { group: Some(_), .. })) => {
            let Some(owner) = at.state.frames.get(&id).and_then(|frame| frame.parent) else { return Vec::new() };
            let ignored =
                at.state.step_of(owner).is_some_and(|(_, step)| step.on_error == opcell_workflow::ir::OnError::Ignore);
            let result = StepResult { failure: Some(failure), ignored, discards_group: true, ..StepResult::default() };
            vec![Event::StepFinished { frame: owner, result: Box::new(result) }]
        }
        _ => vec![abort(at, Some(step), failure.message)],
    }
}

fn abort(at: &At<'_>, step: Option<u32>, message: String) -> Event {
    let step = step.and_then(|step| at.instance.program.step(step)).map(|step| step.name.clone());
    at.end(RunEnd {
        step,
        aborted: true,
        result: Value::Object(Object::default()),
        ..ended(Status::Failed, "aborted", message)
    })
}

/// The end of a main line: sequential, or routed to `:done` at `step`.
fn end_of_main(at: &At<'_>, step: Option<u32>) -> Event {
    if at.is_sequential() {
        return sequential_end(at, None);
    }
    let program = &at.instance.program;
    let step = match &program.ir().result {
        Some(name) => program.index(name),
        None => step,
    };
    let found =
        step.and_then(|index| Some((program.step(index)?, at.instance.memory.get(index as usize)?.accepted.as_ref()?)));
    if let Some(name) = &program.ir().result
        && found.is_none_or(|(step, accepted)| is_control(step) || matches!(accepted.raw, Raw::Nothing))
    {
        let message = format!(
            "output step \"{name}\" produced no bindable output (it did not complete, or is a branch/control step)"
        );
        return at.end(RunEnd { step: Some(name.clone()), ..ended(Status::Failed, "no-output", message) });
    }
    let mut end = RunEnd {
        status: Status::Completed,
        source: None,
        reason: None,
        message: None,
        step: found.map(|(step, _)| step.name.clone()),
        result: Value::Null,
        is_text: false,
        handoff: None,
        details: None,
        denial: None,
        receipt: found.and_then(|(_, accepted)| accepted.receipt.clone()),
        aborted: false,
    };
    if let Some((step, accepted)) = found {
        (end.result, end.is_text) = accepted.value(step);
        if let (Some(Yields::Error { reason, message, details }), false) =
            (&step.yields, matches!(accepted.raw, Raw::Nothing))
        {
            end.status = Status::Failed;
            end.source = Some(Source::Engine);
            end.reason = Some(reason.clone());
            end.message = Some(message.as_ref().to_owned());
            end.details.clone_from(details);
        }
    }
    if !program.ir().outputs.is_empty() {
        match declared_outputs(at, &end.result) {
            Ok(outputs) => (end.result, end.is_text) = (outputs, false),
            Err(message) => {
                return at.end(RunEnd { step: end.step, ..ended(Status::Failed, "expression-failed", message) });
            }
        }
    }
    if let (Some(_), true, Value::String(text)) = (&program.ir().terminal_contract, end.is_text, &end.result) {
        end.handoff = handoff::parse(text).map(Value::from);
    }
    at.end(end)
}

/// A branch among steps that stay where they are yields nothing of its own.
fn is_control(step: &Step) -> bool {
    matches!(&step.form, Form::Branch { branch } if branch.in_place)
}

/// Typed outputs of a routed workflow: computed, or by key from what the last step yielded.
fn declared_outputs(at: &At<'_>, last: &Value) -> Result<Value, String> {
    let view = at.view(None);
    let outputs: Result<Object, String> = at
        .instance
        .program
        .ir()
        .outputs
        .iter()
        .map(|(name, spec)| match &spec.value {
            Some(value) => view.value(value).map(|value| (name.clone(), value)).map_err(|error| error.to_string()),
            None => Ok((name.clone(), last.get(name).cloned().unwrap_or(Value::Null))),
        })
        .collect();
    outputs.map(Value::Object)
}

fn exited<'a>(at: &At<'a>) -> Option<(&'a Exit, &'a Arc<str>, &'a Accepted)> {
    let index = at.instance.exited?;
    let step = at.instance.program.step(index)?;
    let Form::Exit { exit } = &step.form else { return None };
    Some((exit, &step.name, at.instance.memory.get(index as usize)?.accepted.as_ref()?))
}

fn routed_exit(at: &At<'_>) -> Event {
    let Some((exit, name, accepted)) = exited(at) else { return end_of_main(at, None) };
    let message = format!("Step '{name}' ended the run as failed");
    let end = match exit.status {
        ExitStatus::Success => RunEnd {
            status: Status::Completed,
            source: None,
            reason: None,
            message: None,
            ..ended(Status::Completed, "", String::new())
        },
        ExitStatus::Failed => ended(Status::Failed, "exit-failed", message),
    };
    at.end(RunEnd { step: Some(name.clone()), result: accepted.raw.plain(), ..end })
}

/// The end of a sequential workflow: outputs are built whatever happened.
fn sequential_end(at: &At<'_>, failed: Option<(u32, &Failure)>) -> Event {
    let exit = exited(at);
    // An exit whose output is undefined leaves the outputs to the steps before it.
    let is_undefined = |exit: &Exit| {
        let output = exit.output.as_ref().map(|output| at.view(None).value(output));
        matches!(output, Some(Ok(Value::Undefined)))
    };
    let ended_with = exit.filter(|(exit, _, _)| !is_undefined(exit)).map(|(_, _, accepted)| accepted.raw.plain());
    let gave = if failed.is_some() || exit.is_some() { last_output(at) } else { None };
    let outputs = match sequential_outputs(at, ended_with, gave) {
        Ok(outputs) => outputs,
        Err(message) => return abort(at, None, message),
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
    at.end(RunEnd { result: outputs, ..base })
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
fn sequential_outputs(at: &At<'_>, exit: Option<Value>, gave: Option<Value>) -> Result<Value, String> {
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
    let view = at.view(None);
    let outputs: Result<Object, String> = declared
        .iter()
        .map(|(name, spec)| match &spec.value {
            Some(value) => view.value(value).map(|value| (name.clone(), value)).map_err(|error| problem(&error)),
            None => Ok((name.clone(), by_key(&last, name))),
        })
        .collect();
    outputs.map(Value::Object)
}
