//! The meters of usage and time: for the run, the steps that have limits, and the delegated workflows that have.

use super::{Body, Frame, Instance, Pending, State, StepFrame};
use crate::{
    event::{FrameId, InstanceId, Timestamp},
    outcome::Used,
};
use opcell_ir::ir::{RunLimits, Step};
use std::sync::Arc;

/// Something that has limits of its own within a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// One entry into a step; what earlier entries used counts as well.
    Step(FrameId),
    /// A delegated workflow.
    Instance(InstanceId),
}

/// The account of a scope.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Account {
    pub limits: RunLimits,
    pub used: Used,
    pub elapsed_ms: f64,
    /// The step's name, or the workflow's.
    pub name: Arc<str>,
}

impl Account {
    /// When its wall time is over, if time continues as it does at `now`.
    fn deadline(&self, now: Timestamp) -> Option<Timestamp> {
        let ms = self.limits.wall_time_seconds? as f64 * 1000.0;
        Some(now.plus_ms(ms - self.elapsed_ms))
    }
}

impl State {
    /// The steps and delegated workflows that a frame is part of, innermost first.
    pub(crate) fn scopes(&self, frame: FrameId) -> impl Iterator<Item = Scope> + '_ {
        let mut next = Some(Ok(frame));
        std::iter::from_fn(move || {
            loop {
                let id = match next.take()? {
                    Ok(id) => id,
                    Err((instance, caller)) => {
                        next = Some(Ok(caller));
                        return Some(Scope::Instance(instance));
                    }
                };
                let frame = self.frames.get(&id)?;
                next = frame.parent.map(|parent| match self.frames.get(&parent) {
                    Some(outer) if outer.instance != frame.instance => Err((frame.instance, parent)),
                    _ => Ok(parent),
                });
                if let Body::Step(_) = frame.body {
                    return Some(Scope::Step(id));
                }
            }
        })
    }

    /// The account of a scope that has limits.
    pub(crate) fn account(&self, scope: Scope) -> Option<Account> {
        match scope {
            Scope::Step(id) => {
                let (instance, entry, step) = self.entered(id)?;
                if step.limits.is_unlimited() {
                    return None;
                }
                let memory = instance.memory.get(entry.step as usize)?;
                Some(Account {
                    limits: step.limits.into(),
                    used: memory.used,
                    elapsed_ms: memory.spent_ms + self.now.ms_since(entry.since),
                    name: step.name.clone(),
                })
            }
            Scope::Instance(id) => {
                let instance = self.instance(id)?;
                let limits = &instance.program.ir().limits;
                // The run's own are the run's, narrowed by the host.
                if instance.parent.is_none() || limits.is_unlimited() {
                    return None;
                }
                Some(Account {
                    limits: *limits,
                    used: instance.used,
                    elapsed_ms: self.now.ms_since(instance.since),
                    name: instance.program.name().clone(),
                })
            }
        }
    }

    /// Returns `true` if a workflow as a part of the run, or a step, has limits of its own.
    pub(crate) fn limits_parts(&self) -> bool {
        self.instances.values().any(|instance| instance.program.limits_parts())
    }

    /// Books what was used on behalf of a frame: for the run, and for everything around it that has limits.
    pub(super) fn charge(&mut self, frame: FrameId, book: impl Fn(&mut Used)) {
        book(&mut self.used);
        if !self.limits_parts() {
            return;
        }
        let scopes: Vec<Scope> = self.scopes(frame).collect();
        for scope in scopes {
            let used = match scope {
                Scope::Instance(id) => self.instances.get_mut(&id).map(|instance| &mut instance.used),
                Scope::Step(id) => {
                    let Some((step, instance)) = self.frames.get(&id).and_then(step_and_instance) else { continue };
                    let instance = self.instances.get_mut(&instance);
                    instance.and_then(|instance| instance.memory.get_mut(step as usize)).map(|memory| &mut memory.used)
                }
            };
            if let Some(used) = used {
                book(used);
            }
        }
    }

    /// Returns the rest, for a frame, of the run's limits and of those of everything around it.
    pub(crate) fn left(&self, frame: FrameId) -> RunLimits {
        let run = after(&self.limits, &self.used, self.now.ms_since(self.started_at));
        let accounts = self.scopes(frame).filter_map(|scope| self.account(scope));
        accounts.map(|account| after(&account.limits, &account.used, account.elapsed_ms)).fold(run, tighter)
    }

    /// Returns the limits of a call that may start a run. What is left is shared with the conversations that go on
    /// beside it, for their calls may start runs too: together they use no more than one of them could.
    pub(super) fn share(&self, frame: FrameId, call: &str) -> Option<Box<RunLimits>> {
        let talk = self.conversation(frame)?;
        let name = &talk.call(call)?.name;
        if talk.opened.as_ref().is_some_and(|opened| opened.parallel_tools.contains(name)) {
            // A tool that changes nothing starts nothing.
            return None;
        }
        let left = self.left(frame);
        if (RunLimits { wall_time_seconds: None, ..left }).is_unlimited() {
            return None;
        }
        let run = after(&self.limits, &self.used, self.now.ms_since(self.started_at));
        let run = self.shared(run, frame, |_| true);
        let scopes = self.scopes(frame).filter_map(|scope| Some((scope, self.account(scope)?)));
        let shares = scopes.map(|(scope, account)| {
            let left = after(&account.limits, &account.used, account.elapsed_ms);
            self.shared(left, frame, |other| self.scopes(other).any(|around| around == scope))
        });
        Some(Box::new(shares.fold(run, tighter)))
    }

    /// An equal share of what is left for `frame`, among the conversations that a limit holds for.
    fn shared(&self, left: RunLimits, frame: FrameId, holds_for: impl Fn(FrameId) -> bool) -> RunLimits {
        let given: Vec<(FrameId, RunLimits)> = self
            .effects
            .values()
            .filter_map(|pending| Some((pending.frame, **pending.share.as_ref()?)))
            .filter(|(other, _)| *other != frame && holds_for(*other))
            .collect();
        let talking = self.frames.keys().filter(|other| self.conversation(**other).is_some() && holds_for(**other));
        let without = talking.filter(|other| !given.iter().any(|(given, _)| given == *other)).count().max(1);
        let count = |left: Option<u64>, of: fn(&RunLimits) -> Option<u64>| {
            let given = given.iter().filter_map(|(_, share)| of(share)).fold(0_u64, u64::saturating_add);
            left.map(|left| left.saturating_sub(given).div_ceil(without as u64))
        };
        let cost = given.iter().filter_map(|(_, share)| share.cost).sum::<f64>();
        RunLimits {
            total_visits: count(left.total_visits, |share| share.total_visits),
            tool_calls: count(left.tool_calls, |share| share.tool_calls),
            // Time passes for all of them.
            wall_time_seconds: left.wall_time_seconds,
            tokens: count(left.tokens, |share| share.tokens),
            cost: left.cost.map(|left| (left - cost).max(0.0) / without as f64),
            host_calls: count(left.host_calls, |share| share.host_calls),
        }
    }

    /// Returns the limits of the run that a call starts.
    pub(crate) fn left_of(&self, pending: &Pending) -> RunLimits {
        let left = self.left(pending.frame);
        pending.share.as_deref().map_or(left, |share| tighter(*share, left))
    }

    /// Notes how long a step took that is left now.
    pub(super) fn note_time(&mut self, frame: &Frame) {
        let Body::Step(entry) = &frame.body else { return };
        let spent = self.now.ms_since(entry.since);
        let slot = self.instances.get_mut(&frame.instance).filter(|instance| instance.program.limits_parts());
        if let Some(memory) = slot.and_then(|instance| instance.memory.get_mut(entry.step as usize)) {
            memory.spent_ms += spent;
        }
    }

    /// Every scope that is at work and has limits, outermost first.
    pub(crate) fn limited(&self) -> impl Iterator<Item = (Scope, Account)> + '_ {
        let any = self.limits_parts();
        let steps = self.frames.iter().filter(|(_, frame)| matches!(frame.body, Body::Step(_)));
        let steps = steps.map(|(id, _)| Scope::Step(*id));
        let instances = self.instances.keys().map(|id| Scope::Instance(*id));
        let all = any.then(|| instances.chain(steps));
        all.into_iter().flatten().filter_map(|scope| Some((scope, self.account(scope)?)))
    }

    /// The first moment at which some wall time is over.
    pub(crate) fn wall_deadline(&self) -> Option<Timestamp> {
        let run = self.limits.wall_time_seconds.map(|seconds| self.started_at.plus_ms(seconds as f64 * 1000.0));
        self.limited().filter_map(|(_, account)| account.deadline(self.now)).chain(run).chain(self.answers_due).min()
    }

    fn entered(&self, id: FrameId) -> Option<(&Instance, &StepFrame, &Step)> {
        let frame = self.frames.get(&id)?;
        let Body::Step(entry) = &frame.body else { return None };
        let instance = self.instance(frame.instance)?;
        Some((instance, entry, instance.program.step(entry.step)?))
    }
}

/// Returns the rest of limits after this usage.
fn after(limits: &RunLimits, used: &Used, elapsed_ms: f64) -> RunLimits {
    let count = |max: Option<u64>, used: u64| max.map(|max| max.saturating_sub(used));
    let ms_left = |seconds: u64| (seconds as f64).mul_add(1000.0, -elapsed_ms).max(0.0);
    RunLimits {
        total_visits: count(limits.total_visits, used.visits),
        tool_calls: count(limits.tool_calls, used.tool_calls),
        // A second that has begun is not over: rounding down would leave a short budget nothing.
        wall_time_seconds: limits.wall_time_seconds.map(|seconds| (ms_left(seconds) / 1000.0).ceil() as u64),
        tokens: count(limits.tokens, used.tokens),
        cost: limits.cost.map(|max| (max - used.cost).max(0.0)),
        host_calls: count(limits.host_calls, used.host_calls),
    }
}

fn tighter(a: RunLimits, b: RunLimits) -> RunLimits {
    fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (a, b) => a.or(b),
        }
    }
    RunLimits {
        total_visits: least(a.total_visits, b.total_visits),
        tool_calls: least(a.tool_calls, b.tool_calls),
        wall_time_seconds: least(a.wall_time_seconds, b.wall_time_seconds),
        tokens: least(a.tokens, b.tokens),
        cost: least(a.cost, b.cost),
        host_calls: least(a.host_calls, b.host_calls),
    }
}

fn step_and_instance(frame: &Frame) -> Option<(u32, InstanceId)> {
    match &frame.body {
        Body::Step(entry) => Some((entry.step, frame.instance)),
        _ => None,
    }
}
