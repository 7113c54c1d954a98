//! Event judges (PromptPack): the outcome is an event of the state, raised by the model's transition tool, by the
//! output of the state's composition, or by a signal. Whether it may happen, and where it leads, is [`route_event`]'s
//! to say.

use super::{At, judge, line::fail_line};
use crate::{
    authorize,
    call::Verdict,
    dialogue,
    event::{Destination, Event, RaisedBy, Request},
    failure::Failure,
    state::{Raw, State, StepFrame},
};
use opcell_ir::{
    ir::{Control, Judge, Step},
    names::Outcome,
    routing::{EventTable as _, Refusal, Usage, route_event},
};
use opcell_types::Value;
use std::sync::Arc;

/// Returns `true` if, after this event, one state of a pack is on its way out and the next one has not begun to open.
/// What is decided in between is appended at once, so that no crash leaves half a transition.
#[must_use]
pub fn is_mid_transition(state: &State, last: &Event) -> bool {
    let is_state =
        |frame| state.step_of(frame).is_some_and(|(_, step)| matches!(step.judge, Some(Judge::Event { .. })));
    match last {
        Event::EventRaised { .. } | Event::Routed { .. } => true,
        Event::Interjected { frame, .. } => {
            state.conversation(*frame).is_some_and(|talk| talk.record.raised.is_some() && talk.calls.is_empty())
        }
        Event::TurnFinished { frame, .. }
        | Event::StepFinished { frame, .. }
        | Event::Judged { frame, .. }
        | Event::StepEntered { frame, .. } => is_state(*frame),
        _ => false,
    }
}

/// Decides on a waiting step. An event that was raised in the step's conversation or chosen by its output counts first,
/// then the oldest signal that is an event of the step; with neither, the step waits.
pub(super) fn decide(at: &At<'_>, entry: &StepFrame, step: &Step) -> Vec<Event> {
    let accepted = at.instance.memory.get(entry.step as usize).and_then(|memory| memory.accepted.as_ref());
    let (raised, by) = match accepted.map(|accepted| &accepted.raw) {
        // Where only the host may raise events the model has no tool for it, so this was the host. The authorizer was
        // asked when it was raised.
        Some(Raw::Session(record)) if let Some(raised) = &record.raised => {
            return decided(at, entry, step, raised.event.clone());
        }
        Some(Raw::Delegate(end)) if let Some(event) = chosen(step, &end.result) => (event, RaisedBy::Output),
        _ => match at.state.event_signal(step) {
            Some(signal) => (signal.name.clone(), RaisedBy::Signal),
            None => return vec![Event::WaitStarted { frame: at.id, question: None }],
        },
    };
    if at.state.authorizer.is_some() {
        return vec![at.request(Request::Authorize { event: raised, context: "".into(), by })];
    }
    follow(at, entry, step, raised, by)
}

/// Follows an event that may lead to another state.
fn follow(at: &At<'_>, entry: &StepFrame, step: &Step, event: Arc<str>, by: RaisedBy) -> Vec<Event> {
    let signal = at.state.event_signal(step).filter(|_| by == RaisedBy::Signal);
    let taken = signal.map(|signal| Event::SignalTaken { frame: at.id, signal: signal.id });
    taken.into_iter().chain(decided(at, entry, step, event)).collect()
}

/// Decides on a step whose authorizer has answered: the event that it was asked about is the one that still comes
/// first.
pub(super) fn authorized(at: &At<'_>, entry: &StepFrame, step: &Step, answer: &Result<Verdict, Failure>) -> Vec<Event> {
    let accepted = at.instance.memory.get(entry.step as usize).and_then(|memory| memory.accepted.as_ref());
    let chosen = match accepted.map(|accepted| &accepted.raw) {
        Some(Raw::Delegate(end)) => chosen(step, &end.result),
        _ => None,
    };
    match (chosen, at.state.event_signal(step), authorize::allowed(answer)) {
        (Some(event), _, Ok(())) => follow(at, entry, step, event, RaisedBy::Output),
        (Some(event), _, Err(why)) => {
            let message = format!("the transition by `{event}` is not allowed: {why}");
            fail_line(at, entry.step, super::failure("transition-refused", message))
        }
        (None, Some(signal), Ok(())) => follow(at, entry, step, signal.name.clone(), RaisedBy::Signal),
        // The state keeps waiting for something else.
        (None, Some(signal), Err(_)) => {
            let taken = Event::SignalTaken { frame: at.id, signal: signal.id };
            vec![taken, Event::WaitStarted { frame: at.id, question: None }]
        }
        (None, None, _) => vec![Event::WaitStarted { frame: at.id, question: None }],
    }
}

/// The event that an output names: the output itself, or its field `event`. Anything else is not a choice.
fn chosen(step: &Step, output: &Value) -> Option<Arc<str>> {
    let named = output.as_str().or_else(|| output.get("event").and_then(Value::as_str))?;
    let outcome = Outcome::Text(named.into());
    judge::matching(step, &outcome).map(|_| named.trim().into())
}

fn decided(at: &At<'_>, entry: &StepFrame, step: &Step, event: Arc<str>) -> Vec<Event> {
    judge::conclude(at, entry, step, Ok(Verdict { outcome: Outcome::Text(event), rationale: None }))
}

/// Follows an event that leads to another state.
pub(super) fn route(at: &At<'_>, entry: &StepFrame, step: &Step, outcome: &Outcome) -> Vec<Event> {
    let (Outcome::Text(event) | Outcome::Keyword(event)) = outcome;
    let named = at.instance.program.target(&step.name, event.trim()).map(Arc::from);
    let routed = route_event(
        at.instance.program.as_ref(),
        &step.name,
        event.trim(),
        &at.state.limits,
        usage(at),
        judge::visits_by_name(at),
    );
    let routed = match routed {
        Ok(routed) => judge::reached(at, &routed),
        Err(Refusal::Limit(reached)) => return vec![super::limits::of_event(reached)],
        Err(refusal) => Err(judge::refused(&refusal)),
    };
    match routed {
        Ok((to, redirected)) => {
            let bounded = redirected.is_some() || is_bounded(at, &to);
            let original_target = named.filter(|_| redirected.is_some());
            vec![Event::Routed {
                frame: at.id,
                outcome: Some(outcome.clone()),
                to,
                redirected,
                original_target,
                bounded,
            }]
        }
        Err(failure) => fail_line(at, entry.step, failure),
    }
}

fn usage(at: &At<'_>) -> Usage {
    let used = &at.state.used;
    Usage {
        total_visits: used.visits,
        tool_calls: used.tool_calls,
        elapsed_seconds: super::limits::elapsed_seconds(at.state),
    }
}

/// Returns `true` if a limit, or a party that has to speak first, keeps the run from repeating this path forever.
fn is_bounded(at: &At<'_>, to: &Destination) -> bool {
    let Destination::Step(index) = to else { return true };
    let visits = at.instance.memory.get(*index as usize).map_or(0, |memory| memory.visits);
    let waits = at.instance.program.step(*index).is_some_and(|step| {
        // A state that runs a composition may choose its own event; no one has to speak first.
        step.max_visits.is_some() || matches!(dialogue::of(step), Some((_, Control::User)))
    });
    visits == 0 || waits || at.state.limits.total_visits.is_some()
}
