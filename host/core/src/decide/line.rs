//! Lines: entering one step after the other. How a line ends is for the [`lifecycle`](super::lifecycle).

use super::{At, ended, expression_failed, limits};
use crate::{
    event::{Event, Settled},
    failure::Failure,
    outcome::{RunEnd, Status},
    state::{Line, LineAt},
    structured,
};
use opcell_ir::{WorkflowIr, ir::Step, js};
use opcell_types::Value;
use std::sync::Arc;

pub(super) fn decide(at: &At<'_>, line: &Line) -> Vec<Event> {
    match (&line.at, line.group) {
        (LineAt::Before(place), None) => match at.instance.program.step(*place) {
            Some(_) => enter(at, line, *place),
            None => vec![at.lifecycle().done(at, at.instance.last)],
        },
        (LineAt::Before(place), Some(group)) => {
            let steps = group_steps(at, group);
            match steps.get(*place as usize) {
                Some(step) => enter(at, line, *step),
                None => vec![leave(at, Settled::Ok(group_output(at, &steps)), false)],
            }
        }
        (LineAt::Done(step), None) => vec![at.lifecycle().done(at, Some(*step))],
        (LineAt::Done(_), Some(group)) => {
            vec![leave(at, Settled::Ok(group_output(at, &group_steps(at, group))), false)]
        }
        (LineAt::Failed(step, failure), None) => vec![at.lifecycle().failed(at, *step, failure)],
        (LineAt::Failed(_, failure), Some(_)) => {
            vec![leave(at, Settled::Failed(failure.as_ref().clone()), at.lifecycle().failure_in_group_halts())]
        }
        (LineAt::Exited(_), Some(group)) => {
            vec![leave(at, Settled::Ok(group_output(at, &group_steps(at, group))), true)]
        }
        (LineAt::Exited(_), None) => vec![at.lifecycle().exited(at)],
        (LineAt::In(_), _) => Vec::new(),
    }
}

/// The end of a workflow that was given what it does not take: none of its steps is entered.
fn refused(at: &At<'_>, place: u32) -> Option<Event> {
    if place != at.instance.program.entry() || at.instance.memory.iter().any(|memory| memory.visits > 0) {
        return None;
    }
    let message = at.instance.program.refuses(&at.instance.input)?;
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

/// The step that a line is before, by position in the workflow.
pub(super) fn step_at(at: &At<'_>, line: &Line, place: u32) -> Option<u32> {
    match line.group {
        None => Some(place),
        Some(group) => group_steps(at, group).get(place as usize).copied(),
    }
}

fn enter(at: &At<'_>, line: &Line, index: u32) -> Vec<Event> {
    let Some(step) = at.instance.program.step(index) else { return Vec::new() };
    match entering(at, line, index, step) {
        Err(events) => events,
        Ok(visit) => vec![Event::StepEntered {
            frame: at.next_frame(),
            parent: at.id,
            step: index,
            name: step.name.clone(),
            visit,
        }],
    }
}

/// Returns the number of the step's next visit, or the events that are decided instead of entering it.
pub(super) fn entering(at: &At<'_>, line: &Line, index: u32, step: &Step) -> Result<u32, Vec<Event>> {
    if line.group.is_none()
        && let Some(end) = refused(at, index)
    {
        return Err(vec![end]);
    }
    let skipped = || vec![Event::StepSkipped { parent: at.id, step: index, name: step.name.clone() }];
    if at.instance.passes_by(index) {
        return Err(skipped());
    }
    if let Some(when) = &step.when {
        match when.evaluate_cow(&at.view(None).context()) {
            Err(error) => return Err(at.lifecycle().give_up(at, index, expression_failed(when, error))),
            Ok(value) if !js::is_truthy(&value) => return Err(skipped()),
            Ok(_) => {}
        }
    }
    if let Some(instead) = limits::forbids_entry(at) {
        return Err(vec![instead]);
    }
    let visits = at.instance.memory.get(index as usize).map_or(0, |memory| memory.visits);
    if let Some(max) = step.max_iterations.filter(|max| u64::from(visits) >= *max) {
        return Err(fail_line(at, index, super::judge::exhausted(&step.name, visits, max)));
    }
    Ok(visits + 1)
}

/// A step could not even begin, or its judge could not route.
pub(super) fn fail_line(at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
    let line = at.state.line_of(at.id);
    match line {
        Some((id, Line { group: Some(_), .. })) => {
            let halted = at.lifecycle().failure_in_group_halts();
            vec![Event::GroupFinished { frame: id, result: Settled::Failed(failure), halted }]
        }
        _ => vec![at.lifecycle().failed(at, step, &failure)],
    }
}
