//! The call that a step, or an element, is about to make, before anything of it is recorded.
//!
//! Most steps are entered, call an operation, and end with what it returns. Where repeating that call changes nothing,
//! a driver may make it first: if it ends at once and well, one event says it all ([`Event::StepCalled`],
//! [`Event::ElementCalled`]); otherwise the driver records [`DirectCall::begun`], as [`decide`](super::decide) would
//! have, and continues from there. Only calls that would be the run's only effects are made so: one, or those of the
//! next elements of one step ([`Elements`]), of which a driver records what came of them in their order.

use super::{At, bounds, limits, line, step};
use crate::{
    call::{Call, EffectContext, Reply, Success},
    event::{Called, EffectId, Event, FrameId, Request},
    scope::arguments,
    state::{Accepted, Body, Each, Line, LineAt, Pause, Phase, Raw, State},
};
use opcell_ir::ir::{Form, Invoke, Lifecycle, Step};
use opcell_types::{ProgressLog, Value};
use std::sync::Arc;

/// A step, or an element of one, that is about to call an operation, as the run's only effect.
pub struct Upcoming<'a> {
    at: At<'a>,
    step: &'a Step,
    invoke: &'a Invoke,
    /// Position of the step.
    index: u32,
    of: Place<'a>,
}

impl std::fmt::Debug for Upcoming<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Upcoming").field("step", &self.step.name).finish_non_exhaustive()
    }
}

enum Place<'a> {
    Line(&'a Line),
    Each(&'a Each, u32),
}

/// A call that can be made now.
pub struct DirectCall<'a> {
    at: At<'a>,
    step: &'a Step,
    /// Position of the step.
    index: u32,
    invoke: &'a Invoke,
    arguments: Value,
    of: CallSite<'a>,
}

impl std::fmt::Debug for DirectCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DirectCall").field("step", &self.step.name).finish_non_exhaustive()
    }
}

/// The part of a step that makes the call.
enum CallSite<'a> {
    Step { visit: u32 },
    Element { index: u32, item: &'a Value, visit: u32 },
}

/// The only ready frame of the run, if nothing is in flight yet and no limit has to be watched.
fn alone(state: &State) -> Option<At<'_>> {
    let id = state.ready.only()?;
    if !state.effects.is_empty() || state.end.is_some() || state.cancel.is_some() || state.limit_reached.is_some() {
        return None;
    }
    // What has a time limit, or shares a limit with a part of the run, is called in the open.
    if state.limits.wall_time_seconds.is_some() || state.limits_parts() {
        return None;
    }
    place(state, id)
}

fn place(state: &State, id: FrameId) -> Option<At<'_>> {
    let frame = state.frames.get(&id)?;
    let instance = state.instance(frame.instance)?;
    Some(At { state, id, frame, instance })
}

/// Returns the call of an operation that comes next, if it does and nothing else is in flight.
#[must_use]
pub fn upcoming(state: &State) -> Option<Upcoming<'_>> {
    let at = alone(state)?;
    let (frame, instance) = (at.frame, at.instance);
    let (index, of) = match &frame.body {
        Body::Line(line) => {
            let LineAt::Before(place) = line.at else { return None };
            let index = line::step_at(&at, line, place)?;
            (instance.program.is_one_call(index).then_some(index)?, Place::Line(line))
        }
        Body::Step(entry) => match &entry.phase {
            Phase::Each(each) if is_next_alone(each) => (entry.step, Place::Each(each, entry.visit)),
            _ => return None,
        },
        Body::Element(_) => return None,
    };
    let step = instance.program.step(index)?;
    match &step.form {
        Form::Invoke { invoke } if step.timeout_ms.is_none() => Some(Upcoming { at, step, invoke, index, of }),
        _ => None,
    }
}

impl<'a> Upcoming<'a> {
    /// Returns the operation that it would call.
    #[must_use]
    pub fn operation(&self) -> &'a Arc<str> {
        &self.invoke.operation
    }

    /// The call, if it can be made. Otherwise [`decide`](super::decide) says what comes next.
    ///
    /// # Errors
    /// What is decided instead, where a guard or a limit had to be looked at for that: to be recorded.
    pub fn call(self) -> Option<Result<DirectCall<'a>, Vec<Event>>> {
        let Self { at, step, invoke, index, of } = self;
        let of = match of {
            Place::Line(line) => match line::entering(&at, line, index, step) {
                Ok(visit) => CallSite::Step { visit },
                Err(events) => return Some(Err(bounds::checked(&at, None, events))),
            },
            Place::Each(each, visit) => {
                CallSite::Element { index: each.next, item: each.items.get(each.next as usize)?, visit }
            }
        };
        let program = &at.instance.program;
        let arguments = match program.constants(index) {
            Some(constants) => constants.clone(),
            None => arguments(&at.view(of.item()), &invoke.args, program.arguments(index)).ok()?,
        };
        let allowed = bounds::fit(at.state, [&arguments]) && limits::allows_invoke(at.state);
        allowed.then_some(Ok(DirectCall { at, step, index, invoke, arguments, of }))
    }
}

/// Returns `true` if there is a next element, and nothing is in flight beside it.
fn is_next_alone(each: &Each) -> bool {
    let left = each.items.len().saturating_sub(each.next as usize);
    left > 0 && each.running == 0 && each.pause == Pause::Over && (each.concurrency == 1 || left == 1)
}

/// The next elements of a step, which may be called several at a time.
///
/// They are numbered from the next one on, which is 0. The frame and the effect of each follow from that number as long
/// as nothing but their calls is recorded, and these in their order.
pub struct Elements<'a> {
    at: At<'a>,
    step: &'a Step,
    invoke: &'a Invoke,
    index: u32,
    each: &'a Each,
    visit: u32,
}

impl std::fmt::Debug for Elements<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Elements").field("step", &self.step.name).finish_non_exhaustive()
    }
}

/// Bytes that a run's values must leave before its elements are called several at a time.
const MAX_ELEMENTS_BYTES: u64 = 64 << 20;

/// The elements that come next, if several of them may be called at a time and nothing else is in flight.
#[must_use]
pub fn elements(state: &State) -> Option<Elements<'_>> {
    let elements = Elements::of(alone(state)?)?;
    let each = elements.each;
    let left = each.items.len().saturating_sub(each.next as usize);
    let several = each.concurrency > 1 && left > 1;
    // What those under way make is counted when they are recorded.
    let has_room = state.value_limits.run_bytes.saturating_sub(state.made) >= MAX_ELEMENTS_BYTES;
    (several
        && has_room
        && limits::allows_invokes(state, left)
        && each.running == 0
        && each.pause == Pause::Over
        && elements.step.timeout_ms.is_none())
    .then_some(elements)
    .filter(|elements| elements.step.each.as_ref().is_some_and(|each| each.delay_ms.is_none()))
}

impl<'a> Elements<'a> {
    /// Those of a frame, whatever is in flight beside them.
    #[must_use]
    pub fn in_frame(state: &'a State, frame: FrameId) -> Option<Self> {
        Self::of(place(state, frame)?)
    }

    fn of(at: At<'a>) -> Option<Self> {
        let Body::Step(entry) = &at.frame.body else { return None };
        let Phase::Each(each) = &entry.phase else { return None };
        let step = at.instance.program.step(entry.step)?;
        let Form::Invoke { invoke } = &step.form else { return None };
        Some(Self { at, step, invoke, index: entry.step, each, visit: entry.visit })
    }

    /// The frame of their step.
    #[must_use]
    pub fn frame(&self) -> FrameId {
        self.at.id
    }

    /// Returns the operation that they call.
    #[must_use]
    pub fn operation(&self) -> &'a Arc<str> {
        &self.invoke.operation
    }

    /// Returns the maximum number of them in flight.
    #[must_use]
    pub fn at_once(&self) -> usize {
        self.each.concurrency as usize
    }

    /// The effect that an element's call is, while `ahead` elements before it have been called and not been recorded.
    #[must_use]
    pub fn effect(&self, ahead: u32) -> EffectId {
        EffectId(self.at.state.next_effect + u64::from(ahead))
    }

    /// The call of an element, if there is such an element, and its call can be made now.
    #[must_use]
    pub fn call(&self, ahead: u32) -> Option<Call> {
        let (state, index) = (self.at.state, self.each.next.checked_add(ahead)?);
        let item = self.each.items.get(index as usize)?;
        let view = self.at.view(Some((item, index as usize)));
        let arguments = arguments(&view, &self.invoke.args, self.at.instance.program.arguments(self.index)).ok()?;
        if !bounds::fit(state, [&arguments]) {
            return None;
        }
        let frame = FrameId(state.next_frame + u64::from(ahead));
        Some(call(&self.at, self.step, self.invoke, arguments, (frame, self.effect(ahead)), self.visit))
    }

    /// The next element, of which this call was made.
    #[must_use]
    pub fn next(self, arguments: Value) -> Option<DirectCall<'a>> {
        let index = self.each.next;
        let of = CallSite::Element { index, item: self.each.items.get(index as usize)?, visit: self.visit };
        Some(DirectCall { at: self.at, step: self.step, index: self.index, invoke: self.invoke, arguments, of })
    }
}

/// Returns the record of an element's direct call, decided again from the reply that `recorded` holds; `None` for
/// another event, or where the element would not be called so.
#[must_use]
pub fn called_again(state: &State, recorded: &Event) -> Option<Event> {
    let Event::ElementCalled { parent, call, .. } = recorded else { return None };
    let elements = Elements::in_frame(state, *parent)?;
    let arguments = elements.call(0)?.arguments;
    let reply = Reply { result: Ok(call.success.clone()), receipt: call.receipt.clone() };
    elements.next(arguments)?.ended(reply, call.took).ok()
}

/// A call, for a driver to perform.
#[inline]
fn call(
    at: &At<'_>,
    step: &Step,
    invoke: &Invoke,
    arguments: Value,
    (frame, effect): (FrameId, EffectId),
    visit: u32,
) -> Call {
    let state = at.state;
    Call {
        id: invoke.operation.clone(),
        arguments,
        context: EffectContext {
            run: state.run.clone(),
            step: step.name.clone(),
            visit,
            attempt: 1,
            idempotency_key: state.invocation_key(frame),
            traceparent: state.traceparent.clone(),
            user: state.user.clone(),
            tenant: state.tenant.clone(),
            nesting: 0,
            progress: ProgressLog::default(),
        },
        capabilities: step.capabilities.as_ref().map(|own| Box::new(own.clone())),
        granted: state.granted_to(effect),
        timeout_ms: None,
        given: None,
    }
}

impl DirectCall<'_> {
    /// Returns the call, for a driver to perform.
    #[must_use]
    #[inline]
    pub fn call(&self) -> Call {
        let (CallSite::Step { visit } | CallSite::Element { visit, .. }) = self.of;
        call(&self.at, self.step, self.invoke, self.arguments.clone(), (self.frame(), self.effect()), visit)
    }

    /// The effect that the call is.
    #[must_use]
    pub fn effect(&self) -> EffectId {
        EffectId(self.at.state.next_effect)
    }

    fn frame(&self) -> FrameId {
        self.at.next_frame()
    }

    /// Returns the events that request the call; to be recorded if it does not end at once, or not well.
    #[must_use]
    pub fn requested(self) -> [Event; 2] {
        let (frame, parent, effect) = (self.frame(), self.at.id, self.effect());
        let entered = match self.of {
            CallSite::Step { visit } => {
                Event::StepEntered { frame, parent, step: self.index, name: self.step.name.clone(), visit }
            }
            CallSite::Element { index, .. } => Event::ElementEntered { frame, parent, index },
        };
        [entered, Event::Requested { effect, frame, request: Request::Invoke { arguments: self.arguments } }]
    }

    /// Returns the event of a call that was made and ended so.
    ///
    /// # Errors
    /// The call and its reply, where there is more to decide about that.
    #[expect(clippy::result_large_err, reason = "both are moved on at once, and a box would cost what this saves")]
    pub fn ended(self, reply: Reply<Success>, took: u64) -> Result<Event, (Self, Reply<Success>)> {
        let mut output = Value::Undefined;
        let is_made = match &reply.result {
            Ok(success) => self.at.state.value_limits.accept(success).is_ok() && self.makes(success, &mut output),
            Err(_) => false,
        };
        let (success, receipt) = match reply {
            Reply { result: Ok(success), receipt } if is_made => (success, receipt),
            reply => return Err((self, reply)),
        };
        let (frame, parent, effect) = (self.frame(), self.at.id, self.effect());
        let call = Box::new(Called { effect, arguments: self.arguments, success, receipt, output, took });
        Ok(match self.of {
            CallSite::Step { visit } => {
                Event::StepCalled { frame, parent, step: self.index, name: self.step.name.clone(), visit, call }
            }
            CallSite::Element { index, .. } => Event::ElementCalled { frame, parent, index, call },
        })
    }

    /// Returns `true` if [`Called::output`] can be computed, and is within the bounds. It is left undefined, as it
    /// comes, where it is what the call returned: most are, and a value that is handed on right after it was made is
    /// waited for.
    fn makes(&self, success: &Success, output: &mut Value) -> bool {
        let (at, step) = (&self.at, self.step);
        if step::maps(step) {
            let shape = at.instance.program.mapped(self.index);
            match step::mapped(at, step, shape, || success.data.clone(), self.of.item()) {
                Ok(mapped) => *output = mapped,
                Err(_) => return false,
            }
        }
        let made = match self.of {
            CallSite::Step { .. } => return bounds::fit(at.state, [&self.arguments, &Value::Undefined, output]),
            CallSite::Element { .. } if is_result(at, step, output) => &success.data,
            CallSite::Element { .. } => {
                let mapped = std::mem::replace(output, Value::Undefined);
                let mapped = (!matches!(mapped, Value::Undefined)).then_some(mapped);
                let accepted = Accepted { raw: Raw::Invoke(success.clone()), mapped, receipt: None };
                *output = at.lifecycle().element_output(&accepted, step);
                // It would say that the result is what the call returned.
                if matches!(output, Value::Undefined) {
                    return false;
                }
                output
            }
        };
        bounds::fit(at.state, [&self.arguments, made])
    }
}

/// Returns `true` if the result of an element is its call's reply.
fn is_result(at: &At<'_>, step: &Step, mapped: &Value) -> bool {
    let plain = at.instance.program.lifecycle() == Lifecycle::Sequential || step.yields.is_none();
    plain && matches!(mapped, Value::Undefined)
}

impl<'a> CallSite<'a> {
    fn item(&self) -> Option<(&'a Value, usize)> {
        match self {
            Self::Step { .. } => None,
            Self::Element { index, item, .. } => Some((item, *index as usize)),
        }
    }
}
