//! Event judges (PromptPack): the outcome is an event of the state, raised by the model's transition tool or by a signal.

use super::{At, judge};
use crate::{
    event::Event,
    ports::Verdict,
    state::{Raw, StepFrame},
};
use opcell_workflow::{
    ir::{Judge, Step},
    names::Outcome,
};
use std::sync::Arc;

/// What was raised in the step's conversation counts first, then the oldest signal that is an event of the
/// step; with neither, the step waits.
pub(super) fn decide(at: &At<'_>, entry: &StepFrame, step: &Step) -> Vec<Event> {
    let Some(Judge::Event { .. }) = &step.judge else { return Vec::new() };
    let accepted = at.instance.memory.get(entry.step as usize).and_then(|memory| memory.accepted.as_ref());
    let raised = match accepted.map(|accepted| &accepted.raw) {
        // Where only the host may raise events the model has no tool for it, so this was the host.
        Some(Raw::Session(record)) => record.raised.clone(),
        _ => None,
    };
    if let Some(raised) = raised {
        return decided(at, entry, step, raised.event);
    }
    match at.state.event_signal(step) {
        Some(signal) => {
            let mut events = vec![Event::SignalTaken { frame: at.id, signal: signal.id }];
            events.extend(decided(at, entry, step, signal.name.clone()));
            events
        }
        None => vec![Event::WaitStarted { frame: at.id, question: None }],
    }
}

fn decided(at: &At<'_>, entry: &StepFrame, step: &Step, event: Arc<str>) -> Vec<Event> {
    judge::conclude(at, entry, step, Ok(Verdict { outcome: Outcome::Text(event), rationale: None }))
}
