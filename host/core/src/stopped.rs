//! Calls that do not end by themselves: which ones an event stops, and what is recorded of them.

use crate::{
    augment, authorize,
    effect::Catalogue,
    event::{Event, Request, Settled},
    id::{EffectId, FrameId, InstanceId, Timestamp},
    outcome::{RunEnd, Status},
    receipt::CallReceipt,
    state::{Body, Phase, State},
};
use opcell_ir::ir::{Form, Judge};
use std::sync::Arc;

/// Whose calls are stopped.
enum Under {
    Run,
    Instance(InstanceId),
    Frame(FrameId),
}

impl State {
    /// The calls that an event stops, and why. Timers just end.
    #[must_use]
    pub fn cut_off(&self, event: &Event) -> Vec<(EffectId, Arc<str>)> {
        if self.effects.is_empty() {
            return Vec::new();
        }
        let Some((under, why)) = self.stops(event) else { return Vec::new() };
        let is_call = |request: &Request| match request {
            Request::Invoke { .. } | Request::Judge { .. } | Request::Tool { .. } => true,
            Request::Open { .. } | Request::Authorize { .. } | Request::Augment { .. } | Request::Round { .. } => true,
            Request::Sleep { .. } | Request::Timeout { .. } | Request::Find { .. } => false,
        };
        let cut = self
            .effects
            .iter()
            .filter(|(_, effect)| !effect.in_doubt && is_call(&effect.request) && self.is_under(effect.frame, &under));
        cut.map(|(id, _)| (*id, why.clone())).collect()
    }

    /// Returns the frame or effect that an event stops before it has ended itself.
    fn stops(&self, event: &Event) -> Option<(Under, Arc<str>)> {
        let reason = |end: &RunEnd| end.reason.clone().unwrap_or_else(|| end.status.as_str().into());
        let of = |settled: &Settled| match settled {
            Settled::Failed(failure) => failure.reason.clone(),
            Settled::Ok(_) => Status::Completed.as_str().into(),
        };
        match event {
            Event::RunFinished(end) => Some((Under::Run, reason(end))),
            Event::InstanceFinished { instance, end } if end.status != Status::Completed => {
                Some((Under::Instance(*instance), reason(end)))
            }
            Event::GroupFinished { frame, result, halted } if *halted || matches!(result, Settled::Failed(_)) => {
                Some((Under::Frame(*frame), of(result)))
            }
            Event::StepFinished { frame, result } => {
                let halted = || match &self.frames.get(frame)?.body {
                    Body::Step(step) => match &step.phase {
                        Phase::Groups(groups) => groups.results.get(groups.halted? as usize)?.as_ref().map(of),
                        _ => None,
                    },
                    _ => None,
                };
                let why = result.failure.as_ref().map(|failure| failure.reason.clone()).or_else(halted)?;
                Some((Under::Frame(*frame), why))
            }
            _ => None,
        }
    }

    fn is_under(&self, frame: FrameId, under: &Under) -> bool {
        let mut next = Some(frame);
        while let Some((id, frame)) = next.and_then(|id| Some((id, self.frames.get(&id)?))) {
            let found = match under {
                Under::Run => true,
                Under::Instance(instance) => frame.instance == *instance,
                Under::Frame(root) => id == *root,
            };
            if found {
                return true;
            }
            next = frame.parent;
        }
        false
    }

    /// The event that an effect was stopped. `until`: when, if it had begun.
    #[must_use]
    pub fn abandoned(&self, effect: EffectId, why: &str, until: Option<Timestamp>, known: &impl Catalogue) -> Event {
        let receipt = self.call_under_way(effect, known).and_then(|(call, since)| match until {
            Some(until) => call.stopped(until.ms_since(since), why).to_receipt(),
            None => call.not_started(why).to_receipt(),
        });
        Event::Abandoned { effect, reason: Some(why.into()), receipt }
    }

    /// Returns the call of an effect in flight, and its start.
    fn call_under_way(&self, effect: EffectId, known: &impl Catalogue) -> Option<(CallReceipt, Timestamp)> {
        let pending = self.effects.get(&effect).filter(|effect| !effect.in_doubt)?;
        let (_, step) = self.step_of(pending.frame)?;
        let call = match &pending.request {
            Request::Invoke { arguments } => match &step.form {
                Form::Invoke { invoke } => CallReceipt::of_operation(&invoke.operation, arguments),
                _ => return None,
            },
            Request::Authorize { event, context, by } => {
                let arguments = authorize::arguments(self, pending.frame, event, context, *by)?;
                CallReceipt::of_operation(self.authorizer.as_ref()?, &arguments)
            }
            Request::Augment { at } => {
                let talk = self.conversation(pending.frame)?;
                let operation = talk.opened.as_ref()?.augmenters.get(*at as usize)?;
                CallReceipt::of_operation(operation, &augment::arguments(talk, step))
            }
            Request::Judge { arguments } => match &step.judge {
                Some(Judge::Invoke { invoke }) => CallReceipt::of_operation(&invoke.operation, arguments),
                _ => return None,
            },
            Request::Tool { call, arguments, .. } => {
                let request = self.conversation(pending.frame)?.call(call)?;
                let arguments = if arguments.is_nullish() { &request.arguments } else { arguments };
                CallReceipt::of_tool(&request.name, known.tool_provider(&request.name), arguments)
            }
            _ => return None,
        };
        Some((call, pending.at))
    }
}
