//! psi and PromptPack: judges route, and a failed step ends the run.

use super::{Lifecycle, exited};
use crate::{
    decide::{At, ended, line::fail_line, step, unresolved},
    event::Event,
    failure::Failure,
    outcome::{RunEnd, Status},
    state::{Accepted, Raw},
};
use opcell_ir::{
    handoff,
    ir::{ExitStatus, Form, Step, Yields},
    resolve::{self, ResolveError},
};
use opcell_types::{Source, Value, value::Object};
use std::sync::Arc;

pub(super) struct Routed;

impl Lifecycle for Routed {
    fn done(&self, at: &At<'_>, step: Option<u32>) -> Event {
        done(at, step)
    }

    fn failed(&self, at: &At<'_>, step: u32, failure: &Failure) -> Event {
        at.end_failed(step, failure)
    }

    fn exited(&self, at: &At<'_>) -> Event {
        exit(at)
    }

    fn failure_in_group_halts(&self) -> bool {
        false
    }

    fn give_up(&self, at: &At<'_>, step: u32, failure: Failure) -> Vec<Event> {
        fail_line(at, step, failure)
    }

    fn unresolved(&self, at: &At<'_>, _: u32, step: &Step, _: &Arc<str>, error: &ResolveError) -> Vec<Event> {
        vec![step::failed(at, step, unresolved(error))]
    }

    fn resolves_each_up_front(&self) -> bool {
        false
    }

    fn element_output(&self, accepted: &Accepted, step: &Step) -> Value {
        accepted.value(step).0
    }

    fn unmapped_output(&self, _: &Value, _: &str) -> Option<Value> {
        None
    }
}

fn done(at: &At<'_>, step: Option<u32>) -> Event {
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
    let (view, mut made) = (at.view(None), resolve::ValueBudget::default());
    let outputs: Result<Object, String> = at
        .instance
        .program
        .ir()
        .outputs
        .iter()
        .map(|(name, spec)| match &spec.value {
            Some(spec) => {
                let value = view.value(spec).and_then(|value| made.counted(spec, value));
                value.map(|value| (name.clone(), value)).map_err(|error| error.to_string())
            }
            None => Ok((name.clone(), last.get(name).cloned().unwrap_or(Value::Null))),
        })
        .collect();
    outputs.map(Value::Object)
}

fn exit(at: &At<'_>) -> Event {
    let Some((exit, name, accepted)) = exited(at) else { return done(at, None) };
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
