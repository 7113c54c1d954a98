//! The next decision: a pure function of the state.
//!
//! [`decide`] takes the oldest frame that has something to decide and gives the events that say what it decided. Events
//! that wait for the world are requests; whoever performs them (the shell here, or another durable engine) appends what
//! came of them. The function reads no clock and calls no one, so deciding twice gives the same events, and a journal
//! can be checked by deciding again.

mod bounds;
mod calls;
mod converse;
mod direct;
mod event;
mod group;
mod judge;
mod lifecycle;
mod limits;
mod line;
mod results;
mod session;
mod step;

pub use direct::{DirectCall, Elements, Upcoming, called_again, elements, upcoming};
pub use event::is_mid_transition;
pub use judge::outcome_of;
pub(crate) use session::structured_spec;

use crate::{
    event::{EffectId, Event, FrameId, InstanceId, Request},
    failure::Failure,
    outcome::{RunEnd, Status},
    scope::View,
    state::{Body, Frame, Instance, State},
};
use opcell_ir::{
    expr::{ExprError, Expression},
    resolve::ResolveError,
};
use opcell_types::{Source, Value};
use std::sync::Arc;

/// The next decision.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Something was decided: append these, in order, apply them, and ask again.
    Record(Vec<Event>),
    /// Effects are wanted ([`State::wanted`]); what comes of one is the next event.
    Perform,
    /// Nothing can go on until a signal or an answer comes.
    Wait,
    /// The run was asked to stop: stop every effect, append [`Event::Abandoned`] or [`Event::Replied`] for each, and
    /// decide again.
    Stop,
    /// The run has ended.
    Finished(Status),
}

/// Decides what comes next.
#[must_use]
pub fn decide(state: &State) -> Next {
    if let Some(end) = &state.end {
        return Next::Finished(end.status);
    }
    if let Some(reason) = &state.cancel {
        if state.effects.is_empty() {
            return Next::Record(vec![Event::RunFinished(Box::new(cancelled(state, reason)))]);
        }
        return Next::Stop;
    }
    if let Some((limit, used, max)) = state.limit_reached {
        // An answer that is coming says what came of it when it is stopped.
        if limits::has_answer_in_flight(state) {
            return Next::Stop;
        }
        return Next::Record(vec![Event::RunFinished(Box::new(limits::exhausted(state, limit, used, max)))]);
    }
    if let Some((id, frame)) = state.ready.first().and_then(|id| Some((id, state.frames.get(&id)?))) {
        let events = frame_events(state, id, frame);
        return Next::Record(if events.is_empty() { vec![stuck(state, id)] } else { events });
    }
    if let Some(frame) = state.overdue_answers() {
        return Next::Record(vec![Event::CallsExpired { frame }]);
    }
    if let Some(over) = limits::overdue(state) {
        return Next::Record(vec![over]);
    }
    if state.wanted(EffectId(0)).next().is_some() {
        return Next::Perform;
    }
    if state.effects.is_empty() && !state.frames.values().any(|frame| frame.is_waiting() || frame.is_asking()) {
        return Next::Record(vec![stuck(state, FrameId(0))]);
    }
    Next::Wait
}

impl State {
    /// Effects that should be in flight, oldest first, from `from` on: requested, not ended, and not in doubt.
    pub fn wanted(&self, from: EffectId) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.from(from).filter(|(_, effect)| !effect.in_doubt).map(|(id, _)| *id)
    }
}

fn frame_events(state: &State, id: FrameId, frame: &Frame) -> Vec<Event> {
    let Some(instance) = state.instance(frame.instance) else { return Vec::new() };
    match &frame.body {
        Body::Line(line) => {
            let at = At { state, id, frame, instance };
            bounds::checked(&at, None, line::decide(&at, line))
        }
        Body::Step(entry) => match instance.program.step(entry.step) {
            Some(step) => {
                let at = At { state, id, frame, instance };
                bounds::checked(&at, Some(step), step::decide(&at, entry, step))
            }
            None => Vec::new(),
        },
        Body::Element(element) => match state.step_of(id) {
            Some((_, step)) => {
                let at = At { state, id, frame, instance };
                bounds::checked(&at, Some(step), step::element(&at, element, step))
            }
            None => Vec::new(),
        },
    }
}

pub(crate) use bounds::made;
pub use bounds::{ValueLimits, accepted};

/// The place of a decision.
#[derive(Clone, Copy)]
struct At<'a> {
    state: &'a State,
    id: FrameId,
    frame: &'a Frame,
    instance: &'a Instance,
}

impl<'a> At<'a> {
    fn lifecycle(&self) -> &'static dyn lifecycle::Lifecycle {
        lifecycle::of(&self.instance.program)
    }

    fn view(&self, item: Option<(&'a Value, usize)>) -> View<'a> {
        View::new(self.instance, &self.state.artifacts, item)
    }

    fn view_of<'b>(&'b self, item: Option<(&'b Value, usize)>) -> View<'b> {
        View::new(self.instance, &self.state.artifacts, item)
    }

    fn next_frame(&self) -> FrameId {
        FrameId(self.state.next_frame)
    }

    /// An effect, or what the limit that forbids it ends.
    fn request(&self, request: Request) -> Event {
        if let Some(instead) = limits::forbids(self, &request) {
            return instead;
        }
        Event::Requested { effect: EffectId(self.state.next_effect), frame: self.id, request }
    }

    /// The end of the workflow that this belongs to.
    fn end(&self, end: RunEnd) -> Event {
        let end = line::returned(self.instance.program.ir(), end);
        if self.frame.instance == InstanceId(0) {
            Event::RunFinished(Box::new(end))
        } else {
            Event::InstanceFinished { instance: self.frame.instance, end: Box::new(end) }
        }
    }

    /// The end of the workflow, failed at a step.
    fn end_failed(&self, step: u32, failure: &Failure) -> Event {
        if let Some(reached) = limits::out_of_time(self, failure) {
            return reached;
        }
        let name = self.instance.program.step(step).map(|step| step.name.clone());
        let accepted = self.instance.memory.get(step as usize).and_then(|memory| memory.accepted.as_ref());
        let dialect = self.instance.program.ir().dialect;
        let is_blocked = dialect.has_blocked_runs() && &*failure.reason == NO_STRUCTURED_OUTPUT;
        self.end(RunEnd {
            status: if is_blocked { Status::Blocked } else { Status::Failed },
            source: Some(failure.source),
            reason: Some(failure.reason.clone()),
            message: Some(failure.message.clone()),
            step: name,
            result: Value::Null,
            is_text: false,
            handoff: None,
            details: failure.details.clone(),
            denial: failure.denial.clone(),
            receipt: accepted.and_then(|accepted| accepted.receipt.clone()),
            aborted: false,
        })
    }
}

/// The reason of a failure without the structured output that was asked for.
const NO_STRUCTURED_OUTPUT: &str = "invalid-structured-output";

fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::engine(reason, message)
}

/// A guard, or what an `each` goes over, has no value. The message is the reference's, which does not say of which
/// expression; the details do.
fn expression_failed(expression: &Expression, error: ExprError) -> Failure {
    failure("expression-failed", error.message)
        .with_details(Value::object([("expression", Value::from(expression.text()))]))
}

fn unresolved(error: &ResolveError) -> Failure {
    let failed = failure(error.reason(), error.to_string());
    let missing: Vec<&str> = match error {
        ResolveError::Reference(reference) => reference.in_input().collect(),
        _ => Vec::new(),
    };
    if missing.is_empty() {
        return failed;
    }
    let listed: Vec<String> = missing.iter().map(|path| format!("`{path}`")).collect();
    let message = format!("{}; the run's input has no {}", failed.message, listed.join(", "));
    // Whoever started the run knows how it is given one.
    let details = Value::object([("missing-inputs", Value::array(missing.into_iter().map(Value::from)))]);
    Failure { message, ..failed }.with_details(details)
}

/// Returns the sequential lifecycle's text for an expression without a value: only the problem.
fn problem(error: &ResolveError) -> String {
    match error {
        ResolveError::Expression { problem, .. } => problem.clone(),
        other => other.to_string(),
    }
}

fn ended(status: Status, reason: &str, message: String) -> RunEnd {
    RunEnd {
        status,
        source: Some(Source::Engine),
        reason: Some(reason.into()),
        message: Some(message),
        step: None,
        result: Value::Null,
        is_text: false,
        handoff: None,
        details: None,
        denial: None,
        receipt: None,
        aborted: false,
    }
}

fn current_step(state: &State) -> Option<Arc<str>> {
    state.current_steps().pop().map(|(name, _)| name)
}

fn cancelled(state: &State, reason: &Arc<str>) -> RunEnd {
    RunEnd { step: current_step(state), ..ended(Status::Cancelled, reason, "The run was cancelled".to_owned()) }
}

fn stuck(state: &State, frame: FrameId) -> Event {
    let message =
        format!("Frame {frame} has nothing to do and nothing to wait for; the journal was not written by this engine");
    let end = RunEnd { step: current_step(state), ..ended(Status::Failed, "corrupt-state", message) };
    Event::RunFinished(Box::new(end))
}
