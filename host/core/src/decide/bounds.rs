//! What values may cost: none may be so large or so deep that writing, keeping or reading it again could end the process.
//!
//! Values share their parts, so a few steps can make a text of 2^40 bytes out of nothing. Every aggregate knows what it would take
//! to write it, so a look at each value that a decision makes is enough.

use super::{At, failure, step};
use crate::{
    event::{Event, Request, Settled},
    failure::Failure,
    outcome::{RunEnd, Status},
    state::State,
};
use opcell_types::{
    Value,
    value::{MAX_BYTES, MAX_DEPTH},
};
use opcell_workflow::ir::Step;

/// Maximum bytes of all values that a run's steps make, written as JSON.
pub const MAX_RUN_BYTES: u64 = 2 << 30;

/// What was decided, or the failure of the step that made too much.
pub(super) fn checked(at: &At<'_>, step: Option<&Step>, events: Vec<Event>) -> Vec<Event> {
    let Some(problem) = events.iter().find_map(|event| problem(at.state, event)) else { return events };
    match step {
        Some(step) => vec![step::failed(at, step, problem)],
        None => events.into_iter().map(|event| without_result(event, &problem)).collect(),
    }
}

/// Bytes of the values that an event makes.
pub(crate) fn made(event: &Event) -> u64 {
    let mut bytes = 0_u64;
    each_value(event, &mut |value| bytes = bytes.saturating_add(value.measure().bytes()));
    bytes
}

fn problem(state: &State, event: &Event) -> Option<Failure> {
    let (mut largest, mut deepest) = (0, 0);
    each_value(event, &mut |value| {
        largest = largest.max(value.measure().bytes());
        deepest = deepest.max(value.measure().depth());
    });
    if deepest > MAX_DEPTH {
        let message = format!("a value nests {deepest} levels deep; at most {MAX_DEPTH} are allowed");
        return Some(failure("value-too-deep", message));
    }
    if largest > MAX_BYTES {
        let message = format!("a value takes {largest} bytes as JSON; at most {MAX_BYTES} are allowed");
        return Some(failure("value-too-large", message));
    }
    let all = state.made.saturating_add(made(event));
    if all > MAX_RUN_BYTES {
        let message =
            format!("the run's steps have made {all} bytes of values as JSON; at most {MAX_RUN_BYTES} are allowed");
        return Some(failure("values-too-large", message));
    }
    None
}

fn each_value(event: &Event, look: &mut dyn FnMut(&Value)) {
    match event {
        Event::StepPrepared { inputs: value, .. }
        | Event::EachStarted { items: value, .. }
        | Event::ElementFinished { result: Settled::Ok(value), .. }
        | Event::Requested {
            request: Request::Invoke { arguments: value } | Request::Judge { arguments: value },
            ..
        } => {
            look(value);
        }
        Event::StepFinished { result, .. } => {
            look(&result.value);
            look(&result.mapped);
        }
        Event::InstanceStarted { input, original, .. } => {
            look(input);
            look(original);
        }
        Event::RunFinished(end) | Event::InstanceFinished { end, .. } => look(&end.result),
        _ => {}
    }
}

/// An end without the result that is too large.
fn without_result(event: Event, problem: &Failure) -> Event {
    let failed = |end: Box<RunEnd>| {
        Box::new(RunEnd {
            status: Status::Failed,
            reason: Some(problem.reason.clone()),
            message: Some(problem.message.clone()),
            result: Value::Null,
            ..*end
        })
    };
    match event {
        Event::RunFinished(end) => Event::RunFinished(failed(end)),
        Event::InstanceFinished { instance, end } => Event::InstanceFinished { instance, end: failed(end) },
        other => other,
    }
}
