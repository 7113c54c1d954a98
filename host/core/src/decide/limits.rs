//! Budgets: of a run, of a step, of a delegated workflow. Looked at before every effect and entry, and while a run
//! waits.

use super::{At, current_step, ended, failure, line::fail_line, step};
use crate::{
    event::{Event, InstanceId, Request},
    failure::Failure,
    outcome::{LimitKind, RunEnd, Status, Used},
    state::{Account, Body, Phase, Scope, State},
};
use opcell_ir::{ir::RunLimits, routing};
use opcell_types::{Source, Value};

/// A limit that is reached: the limit, the amount used, the amount allowed.
pub(super) type Reached = (LimitKind, f64, f64);

/// An action that a limit could forbid.
#[derive(Clone, Copy)]
enum Before<'a> {
    /// Nothing but waiting.
    Waiting,
    /// Entering one more step.
    Entry,
    /// An effect.
    Effect(&'a Request),
}

/// The event that forbids an effect, if a limit does: the run's, or that of a step or a workflow around it.
pub(super) fn forbids(at: &At<'_>, request: &Request) -> Option<Event> {
    let before = Before::Effect(request);
    of_run(at.state, before).map(limit_reached).or_else(|| of_scopes(at, before))
}

/// Returns `true` if the run's limits allow one more call of an operation, entering a step for it included.
pub(super) fn allows_invoke(state: &State) -> bool {
    of_run(state, Before::Effect(&INVOKE)).is_none()
}

/// Returns `true` if as many more calls of operations cannot reach a limit of the run, whatever they use.
pub(super) fn allows_invokes(state: &State, calls: usize) -> bool {
    let limits = &state.limits;
    let after = state.used.tool_calls.saturating_add(calls as u64);
    limits.host_calls.is_none() && limits.tool_calls.is_none_or(|max| after <= max)
}

/// A call of an operation, as limits see it.
const INVOKE: Request = Request::Invoke { arguments: Value::Null };

/// Returns `true` if a model's answer is in flight.
pub(super) fn has_answer_in_flight(state: &State) -> bool {
    state.effects.values().any(|effect| matches!(effect.request, Request::Round { .. }))
}

/// The limit that is exceeded while an answer is in flight, which would use still more. Calls that are made already may
/// use up a limit, and the run continues with what they gave.
fn overspent(state: &State) -> Option<Reached> {
    let (limits, used) = (&state.limits, &state.used);
    let tokens = limits.tokens.filter(|max| used.tokens > *max);
    let cost = limits.cost.filter(|max| used.cost > *max);
    let tokens = tokens.map(|max| (LimitKind::Tokens, used.tokens as f64, max as f64));
    let reached = tokens.or_else(|| cost.map(|max| (LimitKind::Cost, used.cost, max)))?;
    has_answer_in_flight(state).then_some(reached)
}

/// The end of the run's time, where a call of the run failed for it: what a call is left of the run's time is no limit
/// of its own.
pub(super) fn out_of_time(at: &At<'_>, failure: &Failure) -> Option<Event> {
    let is_late = failure.source == Source::Engine && &*failure.reason == "timeout";
    let is_late = is_late && at.frame.instance == InstanceId(0);
    of_run(at.state, Before::Waiting).filter(|_| is_late).map(limit_reached)
}

/// The event that forbids entering one more step on a line.
pub(super) fn forbids_entry(at: &At<'_>) -> Option<Event> {
    let state = at.state;
    if !state.counts_visits(at.frame.instance) {
        return of_run(state, Before::Waiting).map(limit_reached);
    }
    if let Some(reached) = of_run(state, Before::Entry) {
        return Some(limit_reached(reached));
    }
    if state.unbounded_transitions >= state.visit_bound {
        let used = state.unbounded_transitions as f64;
        return Some(limit_reached((LimitKind::VisitBound, used, state.visit_bound as f64)));
    }
    of_scopes(at, Before::Entry)
}

/// The end of whatever has run out of time while nothing else happened.
pub(super) fn overdue(state: &State) -> Option<Event> {
    if let Some(reached) = of_run(state, Before::Waiting).or_else(|| overspent(state)) {
        return Some(limit_reached(reached));
    }
    state.limited().find_map(|(scope, account)| of_scope(state, scope, &account, Before::Waiting))
}

/// A limit that the rule of events found.
pub(super) fn of_event(reached: routing::LimitReached) -> Event {
    let limit = match reached.limit {
        routing::LimitKind::TotalVisits => LimitKind::TotalVisits,
        routing::LimitKind::ToolCalls => LimitKind::ToolCalls,
        routing::LimitKind::WallTime => LimitKind::WallTimeSeconds,
    };
    limit_reached((limit, reached.current as f64, reached.max as f64))
}

/// The end of a run whose limit is reached.
pub(super) fn exhausted(state: &State, limit: LimitKind, used: f64, max: f64) -> RunEnd {
    let message = match limit {
        LimitKind::VisitBound => format!(
            "The run went back to a step {used} times on routes without a limit; set `max-iterations`, or a limit of the run, to allow more"
        ),
        _ => {
            let key = state
                .program()
                .map_or_else(|| limit.as_str().into(), |program| program.ir().dialect.limit_key(limit.as_str()));
            format!("The run used {used} of {max} {key}")
        }
    };
    RunEnd {
        step: current_step(state),
        details: Some(details((limit, used, max), [])),
        ..ended(Status::Failed, EXHAUSTED, message)
    }
}

/// Whole seconds since the run started.
pub(super) fn elapsed_seconds(state: &State) -> u64 {
    whole_seconds(state.now.ms_since(state.started_at))
}

const EXHAUSTED: &str = "budget-exhausted";

fn whole_seconds(ms: f64) -> u64 {
    (ms / 1000.0) as u64
}

fn limit_reached((limit, used, max): Reached) -> Event {
    Event::LimitReached { limit, used, max }
}

fn details<const N: usize>((limit, used, max): Reached, more: [(&str, Value); N]) -> Value {
    let reached = [("limit", Value::from(limit.as_str())), ("used", amount(used)), ("max", amount(max))];
    Value::object(reached.into_iter().chain(more))
}

/// Counts are written as such.
fn amount(of: f64) -> Value {
    if of.fract() == 0.0 && of.abs() < 1e15 { Value::from(of as i64) } else { Value::from(of) }
}

fn of_run(state: &State, before: Before<'_>) -> Option<Reached> {
    if state.limits.is_unlimited() {
        return None;
    }
    reached(&state.limits, &state.used, elapsed_seconds(state), before)
}

fn of_scopes(at: &At<'_>, before: Before<'_>) -> Option<Event> {
    if !at.state.instances.values().any(|instance| instance.program.limits_parts()) {
        return None;
    }
    at.state.scopes(at.id).find_map(|scope| of_scope(at.state, scope, &at.state.account(scope)?, before))
}

/// The end of a step or of a delegated workflow whose limit is reached.
fn of_scope(state: &State, scope: Scope, account: &Account, before: Before<'_>) -> Option<Event> {
    let found @ (limit, used, max) =
        reached(&account.limits, &account.used, whole_seconds(account.elapsed_ms), before)?;
    let name = &account.name;
    let text = |what: &str| format!("{what} '{name}' used {used} of {max} {}", limit.as_str());
    match scope {
        Scope::Instance(instance) => {
            let details = details(found, [("workflow", Value::from(name.clone()))]);
            let end = RunEnd { details: Some(details), ..ended(Status::Failed, EXHAUSTED, text("Workflow")) };
            Some(end_of(instance, end))
        }
        Scope::Step(id) => {
            let details = details(found, [("step", Value::from(name.clone()))]);
            let failure = Failure { details: Some(details), ..failure(EXHAUSTED, text("Step")) };
            let frame = state.frames.get(&id)?;
            let Body::Step(entry) = &frame.body else { return None };
            let instance = state.instance(frame.instance)?;
            let at = At { state, id, frame, instance };
            let step = instance.program.step(entry.step)?;
            match &entry.phase {
                // The step has done its work; what fails is to decide where to go.
                Phase::Judging(_) => fail_line(&at, entry.step, failure).into_iter().next(),
                Phase::Each(each) => Some(step::each_failed(&at, step, each, &failure)),
                _ => Some(step::failed(&at, step, failure)),
            }
        }
    }
}

fn end_of(instance: InstanceId, end: RunEnd) -> Event {
    Event::InstanceFinished { instance, end: Box::new(end) }
}

/// The limit that is reached, if one is.
fn reached(limits: &RunLimits, used: &Used, seconds: u64, before: Before<'_>) -> Option<Reached> {
    let count = |kind: LimitKind, used: u64, max: Option<u64>| {
        max.filter(|max| used >= *max).map(|max| (kind, used as f64, max as f64))
    };
    let time = || count(LimitKind::WallTimeSeconds, seconds, limits.wall_time_seconds);
    let host_calls = || count(LimitKind::HostCalls, used.host_calls, limits.host_calls);
    match before {
        Before::Entry => count(LimitKind::TotalVisits, used.visits, limits.total_visits).or_else(time),
        Before::Effect(Request::Tool { .. }) => {
            time().or_else(|| count(LimitKind::ToolCalls, used.tool_calls, limits.tool_calls)).or_else(host_calls)
        }
        Before::Effect(Request::Invoke { .. } | Request::Augment { .. }) => {
            time().or_else(|| count(LimitKind::ToolCalls, used.tool_calls, limits.tool_calls)).or_else(host_calls)
        }
        Before::Effect(Request::Judge { .. } | Request::Authorize { .. }) => time().or_else(host_calls),
        Before::Effect(Request::Round { .. }) => {
            let cost = || limits.cost.filter(|max| used.cost >= *max).map(|max| (LimitKind::Cost, used.cost, max));
            time().or_else(|| count(LimitKind::Tokens, used.tokens, limits.tokens)).or_else(cost)
        }
        Before::Waiting | Before::Effect(_) => time(),
    }
}
