//! The call that a step, or an element, is about to make, before anything of it is recorded.
//!
//! Most steps are entered, call an operation, and end with what it returns. Where repeating that call changes nothing, a
//! driver may make it first: if it ends at once and well, one event says it all ([`Event::StepCalled`],
//! [`Event::ElementCalled`]); otherwise the driver records [`DirectCall::begun`], as [`decide`](super::decide) would
//! have, and goes on from there. Only a call that would be the run's only effect is made so.

use super::{At, bounds, limits, line, step};
use crate::{
    call::{Call, EffectContext, Reply, Success},
    event::{Called, EffectId, Event, FrameId, Request},
    scope::arguments,
    state::{Accepted, Body, Each, Line, LineAt, Pause, Phase, Raw, State},
};
use opcell_types::Value;
use opcell_workflow::ir::{Form, Invoke, Lifecycle, Step};
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

enum Place<'a> {
    Line(&'a Line),
    Each(&'a Each, u32),
}

/// A call that can be made now.
pub struct DirectCall<'a> {
    at: At<'a>,
    step: &'a Step,
    invoke: &'a Invoke,
    arguments: Value,
    of: Of<'a>,
}

/// What makes the call.
enum Of<'a> {
    Step { index: u32, visit: u32 },
    Element { index: u32, item: &'a Value, visit: u32 },
}

/// What is about to call an operation, if that is what comes next and all that goes on.
#[must_use]
pub fn upcoming(state: &State) -> Option<Upcoming<'_>> {
    let id = state.ready.only()?;
    if !state.effects.is_empty() || state.end.is_some() || state.cancel.is_some() || state.limit_reached.is_some() {
        return None;
    }
    // One that has a time limit, or shares a limit with a part of the run, is made in the open.
    if state.limits.wall_time_seconds.is_some() || state.limits_parts() {
        return None;
    }
    let frame = state.frames.get(&id)?;
    let instance = state.instance(frame.instance)?;
    let at = At { state, id, frame, instance };
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
    /// What it would call.
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
                Ok(visit) => Of::Step { index, visit },
                Err(events) => return Some(Err(bounds::checked(&at, None, events))),
            },
            Place::Each(each, visit) => {
                Of::Element { index: each.next, item: each.items.get(each.next as usize)?, visit }
            }
        };
        let arguments = arguments(&at.view(of.item()), &invoke.args, at.instance.program.arguments(index)).ok()?;
        let allowed = bounds::fit(at.state, [&arguments]) && limits::allows_invoke(at.state);
        allowed.then_some(Ok(DirectCall { at, step, invoke, arguments, of }))
    }
}

/// Whether there is a next element, and nothing goes on beside it.
fn is_next_alone(each: &Each) -> bool {
    let left = each.items.len().saturating_sub(each.next as usize);
    left > 0 && each.running == 0 && each.pause == Pause::Over && (each.concurrency == 1 || left == 1)
}

impl DirectCall<'_> {
    /// What is called, for a driver to perform.
    #[must_use]
    pub fn call(&self) -> Call {
        let (state, step) = (self.at.state, self.step);
        let (Of::Step { visit, .. } | Of::Element { visit, .. }) = self.of;
        Call {
            id: self.invoke.operation.clone(),
            arguments: self.arguments.clone(),
            context: EffectContext {
                run: state.run.clone(),
                step: step.name.clone(),
                visit,
                attempt: 1,
                idempotency_key: state.invocation_key(self.frame()),
                traceparent: state.traceparent.clone(),
            },
            capabilities: step.capabilities.clone(),
            granted: state.granted_to(self.effect()),
            timeout_ms: None,
        }
    }

    /// The effect that the call is.
    #[must_use]
    pub fn effect(&self) -> EffectId {
        EffectId(self.at.state.next_effect)
    }

    fn frame(&self) -> FrameId {
        self.at.next_frame()
    }

    /// What says that the call is wanted; to be recorded if it does not end at once, or not well.
    #[must_use]
    pub fn begun(self) -> [Event; 2] {
        let (frame, parent, effect) = (self.frame(), self.at.id, self.effect());
        let entered = match self.of {
            Of::Step { index, visit } => {
                Event::StepEntered { frame, parent, step: index, name: self.step.name.clone(), visit }
            }
            Of::Element { index, .. } => Event::ElementEntered { frame, parent, index },
        };
        [entered, Event::Requested { effect, frame, request: Request::Invoke { arguments: self.arguments } }]
    }

    /// What says that the call was made and ended so.
    ///
    /// # Errors
    /// The call and its reply, where there is more to decide about that.
    #[expect(clippy::result_large_err, reason = "both are moved on at once, and a box would cost what this saves")]
    pub fn ended(self, reply: Reply<Success>, took: u64) -> Result<Event, (Self, Reply<Success>)> {
        let at = &self.at;
        let (success, receipt) = match reply {
            Reply { result: Ok(success), receipt } if at.state.value_limits.accept(&success).is_ok() => {
                (success, receipt)
            }
            reply => return Err((self, reply)),
        };
        let made = |output: &Value| match (&self.of, output) {
            (Of::Step { .. }, output) => bounds::fit(at.state, [&self.arguments, &Value::Undefined, output]),
            (Of::Element { .. }, Value::Undefined) => bounds::fit(at.state, [&self.arguments, &success.data]),
            (Of::Element { .. }, output) => bounds::fit(at.state, [&self.arguments, output]),
        };
        let Some(output) = self.output(&success).filter(made) else {
            return Err((self, Reply { result: Ok(success), receipt }));
        };
        let (frame, parent, effect) = (self.frame(), self.at.id, self.effect());
        let (name, arguments) = (&self.step.name, self.arguments);
        let call = Box::new(Called { effect, arguments, success, receipt, output, took });
        Ok(match self.of {
            Of::Step { index, visit } => {
                Event::StepCalled { frame, parent, step: index, name: name.clone(), visit, call }
            }
            Of::Element { index, .. } => Event::ElementCalled { frame, parent, index, call },
        })
    }
}

impl DirectCall<'_> {
    /// [`Called::output`]; nothing where it is not to be had, or cannot be said.
    fn output(&self, success: &Success) -> Option<Value> {
        let (at, step) = (&self.at, self.step);
        let mapped = step::mapped(at, step, || success.data.clone(), self.of.item()).ok()?;
        if matches!(self.of, Of::Step { .. }) || is_result(at, step, &mapped) {
            return Some(mapped);
        }
        let mapped = (!matches!(mapped, Value::Undefined)).then_some(mapped);
        let accepted = Accepted { raw: Raw::Invoke(success.clone()), mapped, receipt: None };
        Some(at.lifecycle().element_output(&accepted, step)).filter(|output| !matches!(output, Value::Undefined))
    }
}

/// Whether what an element gives is what its call replied.
fn is_result(at: &At<'_>, step: &Step, mapped: &Value) -> bool {
    let plain = at.instance.program.lifecycle() == Lifecycle::Sequential || step.yields.is_none();
    plain && matches!(mapped, Value::Undefined)
}

impl<'a> Of<'a> {
    fn item(&self) -> Option<(&'a Value, usize)> {
        match self {
            Self::Step { .. } => None,
            Self::Element { index, item, .. } => Some((item, *index as usize)),
        }
    }
}
