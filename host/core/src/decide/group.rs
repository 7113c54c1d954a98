//! Branches and parallel steps.

use super::{At, failure, step};
use crate::{
    event::{Event, Settled, StepResult},
    failure::Failure,
    state::{Groups, StepFrame},
};
use opcell_ir::{
    ir::{Branch, Condition, Form, Reduce, Step},
    predicate,
};
use opcell_types::{Value, value::Object};
use std::sync::Arc;

pub(super) fn begin_branch(at: &At<'_>, entry: &StepFrame, step: &Step, branch: &Branch) -> Vec<Event> {
    let inputs = match step::inputs(at, step, None) {
        Ok(inputs) => inputs,
        Err(events) => return events,
    };
    let mut events = vec![Event::StepPrepared { frame: at.id, inputs }];
    let holds = match &branch.condition {
        Condition::Expression(expression) => expression
            .evaluate_cow(&at.view(None).context())
            .map(|value| step::holds(&value))
            .map_err(|error| failure("expression-failed", error.message)),
        Condition::Predicate(predicate) => predicate::evaluate(predicate, at.view(None).paths())
            .map_err(|error| failure("predicate-failed", error.to_string())),
    };
    let settled = match holds {
        Err(failure) => step::failed(at, step, failure),
        Ok(holds) if branch.in_place => {
            events.push(Event::Chosen { frame: at.id, group: u32::from(!holds) });
            finished(at, Value::Null)
        }
        Ok(holds) => {
            let group = u32::from(!holds);
            let is_empty =
                at.instance.program.groups(entry.step).get(group as usize).is_none_or(|steps| steps.is_empty());
            if is_empty { finished(at, Value::Null) } else { enter(at, group) }
        }
    };
    events.push(settled);
    events
}

pub(super) fn begin_parallel(at: &At<'_>, entry: &StepFrame) -> Vec<Event> {
    if at.instance.program.groups(entry.step).is_empty() {
        return vec![finished(at, Value::Object(Object::default()))];
    }
    vec![enter(at, 0)]
}

fn enter(at: &At<'_>, group: u32) -> Event {
    Event::GroupEntered { frame: at.next_frame(), parent: at.id, group }
}

fn finished(at: &At<'_>, value: Value) -> Event {
    Event::StepFinished { frame: at.id, result: Box::new(StepResult { value, ..StepResult::default() }) }
}

pub(super) fn decide(at: &At<'_>, entry: &StepFrame, step: &Step, groups: &Groups) -> Vec<Event> {
    if !groups.is_done() {
        let group = groups.wanted.get(groups.next as usize).copied().unwrap_or(groups.next);
        return vec![enter(at, group)];
    }
    if let Form::Parallel { parallel } = &step.form
        && groups.halted.is_none()
    {
        return vec![match outputs(at, entry, groups) {
            Ok(outputs) => {
                let reduced = reduce(at, entry, parallel.reduce, outputs);
                let made = Value::object([(parallel.into.clone(), reduced)]);
                finished(at, step::named_by_source(step, Some(&parallel.into), "parallel/data", made))
            }
            Err(failure) => step::failed(at, step, failure),
        }];
    }
    let at_end = groups.halted.unwrap_or(0) as usize;
    vec![match groups.results.get(at_end).cloned().flatten() {
        Some(Settled::Ok(value)) => finished(at, value),
        // A branch whose step failed has done its own part: the run halts at that step.
        Some(Settled::Failed(_)) if groups.halted.is_some() => {
            let last =
                at.instance.program.groups(entry.step).get(groups.wanted.get(at_end).copied().unwrap_or(0) as usize);
            let listed = last.and_then(|steps| steps.last()).and_then(|index| at.instance.program.step(*index));
            let output =
                listed.and_then(|step| at.instance.outputs.get(&step.name)).and_then(|entry| entry.get("output"));
            finished(at, output.filter(|value| !matches!(value, Value::Undefined)).cloned().unwrap_or(Value::Null))
        }
        Some(Settled::Failed(failure)) => step::failed(at, step, failure),
        None => finished(at, Value::Null),
    }]
}

/// Every group's output, or all that went wrong.
fn outputs(at: &At<'_>, entry: &StepFrame, groups: &Groups) -> Result<Vec<Value>, Failure> {
    let mut outputs = Vec::with_capacity(groups.results.len());
    let mut failures = Vec::new();
    for (result, name) in groups.results.iter().zip(last_names(at, entry)) {
        match result {
            Some(Settled::Ok(value)) => outputs.push(value.clone()),
            Some(Settled::Failed(failure)) => {
                let message = format!("branch \"{name}\": {}", failure.message);
                failures.push(Failure { message, ..failure.clone() });
            }
            None => {}
        }
    }
    match failures.as_slice() {
        [] => Ok(outputs),
        [only] => Err(only.clone()),
        [first, ..] => {
            let messages: Vec<&str> = failures.iter().map(|failure| failure.message.as_str()).collect();
            let details = Value::array(failures.iter().map(|failure| Value::from(failure.reason.clone())));
            Err(Failure { message: messages.join("\n"), details: Some(details), ..first.clone() })
        }
    }
}

/// Returns the names of a parallel step's groups: those of their last steps.
fn last_names(at: &At<'_>, entry: &StepFrame) -> impl Iterator<Item = Arc<str>> {
    let program = at.instance.program.clone();
    program.clone().groups(entry.step).to_vec().into_iter().map(move |steps| {
        let last = steps.last().and_then(|index| program.step(*index));
        last.map_or_else(|| Arc::from(""), |step| step.name.clone())
    })
}

fn reduce(at: &At<'_>, entry: &StepFrame, how: Reduce, outputs: Vec<Value>) -> Value {
    match how {
        Reduce::Append => Value::array(outputs),
        Reduce::Replace => outputs.into_iter().last().unwrap_or_default(),
        Reduce::Barrier => {
            let entries: Object = last_names(at, entry).zip(outputs).collect();
            Value::from(entries)
        }
    }
}
