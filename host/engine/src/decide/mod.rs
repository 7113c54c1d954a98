//! What comes next: a pure function of the state.
//!
//! [`decide`] takes the oldest frame that has something to decide and gives the events that say what it decided. Events that wait
//! for the world are requests; whoever performs them (the shell here, or another durable engine) appends what came of them. The
//! function reads no clock and calls nobody, so deciding twice gives the same events, and a journal can be checked by deciding again.

pub(crate) mod dialogue;
mod event;
mod group;
pub(crate) mod judge;
mod line;
pub(crate) mod session;
mod step;

pub use dialogue::{MESSAGE_SIGNAL, tools as engine_tools};

use crate::{
    event::{EffectId, Event, FrameId, InstanceId, Request},
    outcome::{LimitKind, RunEnd, Status},
    ports::Failure,
    scope::View,
    state::{Body, Frame, Instance, State},
};
use opcell_workflow::{Value, ir::Step, resolve::ResolveError, routing};
use std::sync::Arc;

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Next {
    /// Something was decided: append these, in order, apply them, and ask again.
    Record(Vec<Event>),
    /// Effects are wanted ([`State::wanted`]); what comes of one is the next event.
    Perform,
    /// Nothing can go on until a signal or an answer comes.
    Wait,
    /// Somebody wants the run to stop: stop every effect, append [`Event::Abandoned`] or [`Event::Replied`] for each, and ask again.
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
        return Next::Record(vec![Event::RunFinished(Box::new(exhausted(state, limit, used, max)))]);
    }
    if let Some((id, frame)) = state.ready.first().and_then(|id| Some((*id, state.frames.get(id)?))) {
        let events = frame_events(state, id, frame);
        return Next::Record(if events.is_empty() { vec![stuck(state, id)] } else { events });
    }
    if let Some(reached) = limits(state, None) {
        return Next::Record(vec![reached]);
    }
    if state.wanted(EffectId(0)).next().is_some() {
        return Next::Perform;
    }
    if state.effects.is_empty() && !state.frames.values().any(Frame::is_waiting) {
        return Next::Record(vec![stuck(state, FrameId(0))]);
    }
    Next::Wait
}

impl State {
    /// Effects that should be in flight, oldest first, from `from` on: requested, not ended, and not in doubt.
    pub fn wanted(&self, from: EffectId) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.range(from..).filter(|(_, effect)| !effect.in_doubt).map(|(id, _)| *id)
    }
}

fn frame_events(state: &State, id: FrameId, frame: &Frame) -> Vec<Event> {
    let Some(instance) = state.instance(frame.instance) else { return Vec::new() };
    match &frame.body {
        Body::Line(line) => line::decide(&At { state, id, frame, instance }, line),
        Body::Step(entry) => match instance.program.step(entry.step) {
            Some(step) => step::decide(&At { state, id, frame, instance }, entry, step),
            None => Vec::new(),
        },
        Body::Element(element) => match state.step_of(id) {
            Some((_, step)) => step::element(&At { state, id, frame, instance }, element, step),
            None => Vec::new(),
        },
    }
}

/// Where a decision is made.
#[derive(Clone, Copy)]
struct At<'a> {
    state: &'a State,
    id: FrameId,
    frame: &'a Frame,
    instance: &'a Instance,
}

impl<'a> At<'a> {
    fn is_sequential(&self) -> bool {
        self.instance.program.is_sequential()
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

    /// An effect, or the limit that forbids it.
    fn request(&self, request: Request) -> Event {
        if let Some(reached) = limits(self.state, Some(&request)) {
            return reached;
        }
        Event::Requested { effect: EffectId(self.state.next_effect), frame: self.id, request }
    }

    /// The end of the workflow that this belongs to.
    fn end(&self, end: RunEnd) -> Event {
        if self.frame.instance == InstanceId(0) {
            Event::RunFinished(Box::new(end))
        } else {
            Event::InstanceFinished { instance: self.frame.instance, end }
        }
    }

    /// The end of the workflow, failed at a step.
    fn end_failed(&self, step: u32, failure: &Failure) -> Event {
        let name = self.instance.program.step(step).map(|step| step.name.clone());
        let accepted = self.instance.memory.get(step as usize).and_then(|memory| memory.accepted.as_ref());
        self.end(RunEnd {
            status: Status::Failed,
            reason: Some(failure.reason.clone()),
            message: Some(failure.message.clone()),
            step: name,
            result: Value::Null,
            is_text: false,
            handoff: None,
            details: failure.details.clone(),
            receipt: accepted.and_then(|accepted| accepted.receipt.clone()),
            aborted: false,
        })
    }
}

fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure { reason: reason.into(), message: message.into(), details: None, retriable: false }
}

fn unresolved(error: &ResolveError) -> Failure {
    failure(error.reason(), error.to_string())
}

/// What the sequential lifecycle says about an expression without a value: only the problem.
fn problem(error: &ResolveError) -> String {
    match error {
        ResolveError::Expression { problem, .. } => problem.clone(),
        other => other.to_string(),
    }
}

/// How WorkflowSkill words an input that cannot be resolved.
fn input_problem(step: &Step, input: &Arc<str>, error: &ResolveError) -> String {
    match error {
        ResolveError::Expression { text, problem } => {
            format!("Step \"{}\" input \"{input}\": failed to resolve expression {text}: {problem}", step.name)
        }
        other => format!("Step \"{}\" input \"{input}\": {other}", step.name),
    }
}

fn ended(status: Status, reason: &str, message: String) -> RunEnd {
    RunEnd {
        status,
        reason: Some(reason.into()),
        message: Some(message),
        step: None,
        result: Value::Null,
        is_text: false,
        handoff: None,
        details: None,
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

fn exhausted(state: &State, limit: LimitKind, used: f64, max: f64) -> RunEnd {
    let message = match limit {
        LimitKind::VisitBound => format!(
            "The run went back to a step {used} times on routes without a limit; set `max-iterations`, or a limit of the run, to allow more"
        ),
        _ => format!("The run used {used} of {max} {}", limit.as_str()),
    };
    let details =
        Value::object([("limit", Value::from(limit.as_str())), ("used", Value::from(used)), ("max", Value::from(max))]);
    RunEnd { step: current_step(state), details: Some(details), ..ended(Status::Failed, "budget-exhausted", message) }
}

/// The limit that is reached, if one is: before an effect of this kind, or, without one, while the run waits.
#[allow(clippy::cast_precision_loss)]
fn limits(state: &State, request: Option<&Request>) -> Option<Event> {
    if state.limits.is_unlimited() {
        return None;
    }
    let used = &state.used;
    let limit = &state.limits;
    let seconds = elapsed_seconds(state) as f64;
    let reached =
        |kind: LimitKind, used: f64, max: Option<f64>| max.filter(|max| used >= *max).map(|max| (kind, used, max));
    let count = |max: Option<u64>| max.map(|max| max as f64);
    let model = matches!(request, Some(Request::Round { .. }));
    let found = reached(LimitKind::WallTimeSeconds, seconds, count(limit.wall_time_seconds))
        .or_else(|| {
            let asks = matches!(request, Some(Request::Tool { .. }));
            asks.then(|| reached(LimitKind::ToolCalls, used.tool_calls as f64, count(limit.tool_calls))).flatten()
        })
        .or_else(|| model.then(|| reached(LimitKind::Tokens, used.tokens as f64, count(limit.tokens))).flatten())
        .or_else(|| model.then(|| reached(LimitKind::Cost, used.cost, limit.cost)).flatten())
        .or_else(|| {
            let cell = matches!(request, Some(Request::Invoke { .. } | Request::Judge { .. } | Request::Tool { .. }));
            cell.then(|| reached(LimitKind::HostCalls, used.host_calls as f64, count(limit.host_calls))).flatten()
        });
    found.map(|(limit, used, max)| Event::LimitReached { limit, used, max })
}

/// Whole seconds since the run started.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn elapsed_seconds(state: &State) -> u64 {
    (state.now.ms_since(state.started_at) / 1000.0) as u64
}

/// A limit that the rule of events found.
#[allow(clippy::cast_precision_loss)]
fn limit_reached(reached: routing::LimitReached) -> Event {
    let limit = match reached.limit {
        routing::LimitKind::TotalVisits => LimitKind::TotalVisits,
        routing::LimitKind::ToolCalls => LimitKind::ToolCalls,
        routing::LimitKind::WallTime => LimitKind::WallTimeSeconds,
    };
    Event::LimitReached { limit, used: reached.current as f64, max: reached.max as f64 }
}

/// The limit that forbids entering one more step.
#[allow(clippy::cast_precision_loss)]
fn visit_limits(state: &State) -> Option<Event> {
    if let Some(max) = state.limits.total_visits
        && state.used.visits >= max
    {
        return Some(Event::LimitReached {
            limit: LimitKind::TotalVisits,
            used: state.used.visits as f64,
            max: max as f64,
        });
    }
    if state.unbounded_transitions >= state.visit_bound {
        let used = state.unbounded_transitions as f64;
        return Some(Event::LimitReached { limit: LimitKind::VisitBound, used, max: state.visit_bound as f64 });
    }
    limits(state, None)
}
