//! A run's state: the fold of its events.
//!
//! Places of control are frames. A *line* runs steps one after the other (the main line of a workflow, or a group that
//! a branch or a parallel step chose); a *step* frame is one entry into a step; an *element* frame is one element of a
//! step with `each`. A frame knows its parent, so nothing here recurses, and events and effects name frames by number.

mod apply;
mod calls;
mod choice;
mod frames;
mod inner;
mod inputs;
mod memory;
mod meter;
mod numbered;
mod questions;
mod signals;
mod work;

pub use apply::ApplyError;
pub(crate) use apply::{settled, tool_message};
pub(crate) use calls::{Ask, AskAnswer, MAX_QUESTIONS, MAX_QUESTIONS_AT_ONCE};
pub use choice::{AskedApproval, AskedGrant, NotChosen, Wanted};
pub(crate) use frames::{Body, Element, Frame, Instance, Line, LineAt, Pending, Phase, Ready, StepFrame};
pub use inner::{Changed, InnerApproval, InnerCall, InnerCalls, InnerQuestion};
pub use inputs::MAX_ROUNDS as MAX_INPUT_ROUNDS;
pub(crate) use inputs::{Inputs, MAX_FORMS};
pub(crate) use memory::{Accepted, Raw, TurnRecord, transcript};
pub(crate) use meter::{Account, Scope};
pub(crate) use questions::{Asked, Granted};
pub use signals::Signals;
pub(crate) use work::{
    Conversation, ConversationStage, ConversationStore, Each, Groups, Judging, Pause, Permit, Stage, Work,
};

use crate::{
    decide::ValueLimits,
    event::{EffectId, ForkOrigin, FrameId, InstanceId, Request, Signal, Timestamp},
    outcome::{LimitKind, RunEnd, RunOutcome, Status, Used},
    program::Program,
    wire,
};
use indexmap::IndexMap;
use numbered::Numbered;
use opcell_ir::ir::{Judge, RunLimits, Session, Step};
use opcell_types::{Value, value::Map};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

/// Version of a snapshot's content. A snapshot of another version is not read; the events are.
pub const SNAPSHOT_VERSION: u32 = 8;

/// A run's state. Made by folding events; see [`State::apply`]. As JSON it is a snapshot: [`SNAPSHOT_VERSION`] changes
/// with its shape and with what its parts mean.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct State {
    pub(crate) run: Arc<str>,
    pub(crate) seq: u64,
    pub(crate) now: Timestamp,
    pub(crate) started_at: Timestamp,
    pub(crate) limits: RunLimits,
    /// The limits on its values.
    #[serde(default)]
    pub(crate) value_limits: ValueLimits,
    pub(crate) max_depth: u32,
    pub(crate) visit_bound: u64,
    pub(crate) pins: IndexMap<Arc<str>, Arc<str>>,
    pub(crate) session: Option<Session>,
    /// The judge, or operation, that is asked before each transition of a pack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) authorizer: Option<Arc<str>>,
    /// W3C trace context of whoever started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) traceparent: Option<Arc<str>>,
    /// The user on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) user: Option<Arc<str>>,
    /// The tenant on whose behalf it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tenant: Option<Arc<str>>,
    /// For a fork, where it comes from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) forked: Option<Box<ForkOrigin>>,
    pub(crate) definitions: BTreeMap<Arc<str>, Option<Arc<Program>>>,
    pub(crate) instances: Numbered<InstanceId, Instance>,
    pub(crate) frames: Numbered<FrameId, Frame>,
    /// Frames that have something to decide.
    pub(crate) ready: Ready,
    pub(crate) effects: Numbered<EffectId, Pending>,
    /// The grants that a person gave to plugins since the run began.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) granted: Vec<Granted>,
    pub(crate) signals: VecDeque<Signal>,
    /// Approvals and grants that were answered, by what they are called.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) answered: BTreeSet<Arc<str>>,
    /// Calls that need no further answer in this run, by what was approved.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(crate) approved: BTreeSet<Arc<str>>,
    /// When the time for an answer about a call is over, for the first of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answers_due: Option<Timestamp>,
    /// Keys of the last signals that had one.
    #[serde(default)]
    pub(crate) signal_keys: VecDeque<Arc<str>>,
    pub(crate) next_frame: u64,
    pub(crate) next_effect: u64,
    pub(crate) next_instance: u32,
    pub(crate) next_signal: u64,
    /// Transitions back to a step, taken by routes without a limit of their own.
    pub(crate) unbounded_transitions: u64,
    pub(crate) used: Used,
    pub(crate) limit_reached: Option<(LimitKind, f64, f64)>,
    pub(crate) cancel: Option<Arc<str>>,
    /// Bytes of the values that steps have made so far, as JSON.
    #[serde(default)]
    pub(crate) made: u64,
    #[serde(with = "wire::map")]
    pub(crate) artifacts: Map,
    pub(crate) end: Option<RunEnd>,
}

impl State {
    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &Arc<str> {
        &self.run
    }

    /// Returns the number of folded events.
    #[must_use]
    pub fn seq(&self) -> u64 {
        self.seq
    }

    /// The workflow that runs.
    #[must_use]
    pub fn program(&self) -> Option<&Arc<Program>> {
        self.instances.get(&InstanceId(0)).map(|instance| &instance.program)
    }

    /// Returns the tenant on whose behalf it runs.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    /// Returns the run's dependencies, by name.
    #[must_use]
    pub fn pins(&self) -> &IndexMap<Arc<str>, Arc<str>> {
        &self.pins
    }

    /// Returns the usage of the run.
    #[must_use]
    pub fn used(&self) -> Used {
        self.used
    }

    /// Returns the value of `$steps.NAME.output` in the run's own workflow: none for a step that neither ran nor was
    /// skipped.
    #[must_use]
    pub fn step_output(&self, step: &str) -> Option<&Value> {
        self.instances.get(&InstanceId(0))?.outputs.get(step)?.get("output")
    }

    /// Named values as they were last set.
    #[must_use]
    pub fn artifacts(&self) -> &Map {
        &self.artifacts
    }

    /// Returns the end of the run, if it has ended.
    #[must_use]
    pub fn end(&self) -> Option<&RunEnd> {
        self.end.as_ref()
    }

    /// Returns the status of the run.
    #[must_use]
    pub fn status(&self) -> Status {
        match &self.end {
            Some(end) => end.status,
            None if self.seq == 0 => Status::Pending,
            None if self.ready.is_empty() && self.cancel.is_none() && self.waits_for_message() => Status::Suspended,
            None => Status::Running,
        }
    }

    /// Nothing is in flight but timers of steps that wait, and a message can change that.
    fn waits_for_message(&self) -> bool {
        self.effects.values().all(|effect| effect.in_doubt || matches!(effect.request, Request::Timeout { .. }))
    }

    /// When the run can go on without anybody's doing: at once (some moment in the past), or when a timer ends or some
    /// wall time does. `None`: it has ended, or waits for a message.
    #[must_use]
    pub fn due(&self) -> Option<Timestamp> {
        if self.end.is_some() {
            return None;
        }
        let timer = |effect: &Pending| match effect.request {
            Request::Sleep { ms } | Request::Timeout { ms } => Some(effect.at.plus_ms(ms)),
            // A cell may wait for nothing but time as well.
            _ => effect.inner.as_ref()?.asleep(),
        };
        let wanted = || self.effects.values().filter(|effect| !effect.in_doubt);
        if !self.ready.is_empty() || self.cancel.is_some() || wanted().any(|effect| timer(effect).is_none()) {
            return Some(Timestamp::default());
        }
        wanted().filter_map(timer).chain(self.wall_deadline()).min()
    }

    /// W3C trace context of whoever started the run, if it had one.
    #[must_use]
    pub fn traceparent(&self) -> Option<&Arc<str>> {
        self.traceparent.as_ref()
    }

    /// For a fork, where it comes from.
    #[must_use]
    pub fn forked(&self) -> Option<&ForkOrigin> {
        self.forked.as_deref()
    }

    /// When the run itself began: for a fork, when it was made.
    #[must_use]
    pub fn own_start(&self) -> Timestamp {
        self.forked().map_or(self.started_at, |origin| origin.at)
    }

    /// When the run started.
    #[must_use]
    pub fn started_at(&self) -> Timestamp {
        self.started_at
    }

    /// The limits of the run: the workflow's own and the host's, the tighter of the two.
    #[must_use]
    pub fn limits(&self) -> &RunLimits {
        &self.limits
    }

    /// Returns the limits on the run's values.
    #[must_use]
    pub fn value_limits(&self) -> &ValueLimits {
        &self.value_limits
    }

    /// Returns the number of visits of each step of the run's own workflow, in authored order; steps without visits are
    /// left out.
    #[must_use]
    pub fn visits(&self) -> IndexMap<Arc<str>, u32> {
        let Some(instance) = self.instances.get(&InstanceId(0)) else { return IndexMap::new() };
        let steps = instance.program.ir().steps.iter().zip(&instance.memory);
        steps.filter(|(_, memory)| memory.visits > 0).map(|(step, memory)| (step.name.clone(), memory.visits)).collect()
    }

    /// The steps that are at work, outermost first, with how often each has been entered.
    #[must_use]
    pub fn current_steps(&self) -> Vec<(Arc<str>, u32)> {
        let steps = self.frames.values().filter_map(|frame| match &frame.body {
            Body::Step(step) => Some((self.step_name(frame.instance, step.step), step.visit)),
            _ => None,
        });
        steps.collect()
    }

    /// The state as whoever waits for the run sees it.
    #[must_use]
    pub fn outcome(&self) -> RunOutcome {
        let end = self.end.clone();
        let (reason, message) = match &end {
            Some(end) => (end.reason.clone(), end.message.clone()),
            None => (None, None),
        };
        let steps = self.current_steps();
        RunOutcome {
            run: self.run.clone(),
            workflow: self.program().map_or_else(|| "".into(), |program| program.name().clone()),
            status: self.status(),
            events: self.seq(),
            began: self.own_start(),
            due: self.due(),
            source: end.as_ref().and_then(|end| end.source),
            reason,
            message,
            step: end.as_ref().map_or_else(|| steps.last().map(|(name, _)| name.clone()), |end| end.step.clone()),
            steps,
            result: end.as_ref().map_or(Value::Null, |end| end.result.clone()),
            is_text: end.as_ref().is_some_and(|end| end.is_text),
            handoff: end.as_ref().and_then(|end| end.handoff.clone()),
            details: end.as_ref().and_then(|end| end.details.clone()),
            denial: end.as_ref().and_then(|end| end.denial.clone()),
            receipt: end.as_ref().and_then(|end| end.receipt.clone()),
            aborted: end.as_ref().is_some_and(|end| end.aborted),
            artifacts: Value::from(self.artifacts.clone()),
            used: self.used,
            questions: self.questions(),
        }
    }

    pub(crate) fn instance(&self, id: InstanceId) -> Option<&Instance> {
        self.instances.get(&id)
    }

    /// Returns `true` if entries into a workflow's steps are visits of the run: the steps of a state's composition are
    /// no states.
    pub(crate) fn counts_visits(&self, instance: InstanceId) -> bool {
        let caller = self.instance(instance).and_then(|instance| self.step_of(instance.parent?));
        !caller.is_some_and(|(_, step)| matches!(step.judge, Some(Judge::Event { .. })))
    }

    /// The instance and the step that a step or element frame belongs to; for a line, the step that opened it.
    pub(crate) fn step_of(&self, frame: FrameId) -> Option<(&Instance, &Step)> {
        let frame = self.frames.get(&frame)?;
        let instance = self.instances.get(&frame.instance)?;
        let step = match &frame.body {
            Body::Step(step) => step.step,
            _ => self.step_frame_of(frame)?.step,
        };
        instance.program.step(step).map(|step| (instance, step))
    }

    /// The step frame that an element, or a group, belongs to.
    pub(crate) fn step_frame_of(&self, frame: &Frame) -> Option<&StepFrame> {
        match &self.frames.get(&frame.parent?)?.body {
            Body::Step(step) => Some(step),
            _ => None,
        }
    }

    /// The step frame itself, or an element's.
    pub(crate) fn entry_of(&self, id: FrameId) -> Option<&StepFrame> {
        let frame = self.frames.get(&id)?;
        match &frame.body {
            Body::Step(step) => Some(step),
            _ => self.step_frame_of(frame),
        }
    }

    pub(crate) fn step_name(&self, instance: InstanceId, step: u32) -> Arc<str> {
        let found = self.instances.get(&instance).and_then(|instance| instance.program.step(step));
        found.map_or_else(|| "".into(), |step| step.name.clone())
    }

    pub(crate) fn frame_step_name(&self, frame: FrameId) -> Arc<str> {
        self.step_of(frame).map_or_else(|| "".into(), |(_, step)| step.name.clone())
    }

    pub(crate) fn conversation(&self, frame: FrameId) -> Option<&Conversation> {
        match &self.frames.get(&frame)?.body {
            Body::Step(step) => match &step.phase {
                Phase::Work(Work { stage: Stage::Talking(talk), .. }) => Some(talk),
                Phase::Judging(Judging::Llm(talk)) => Some(talk),
                _ => None,
            },
            Body::Element(element) => match &element.work.stage {
                Stage::Talking(talk) => Some(talk),
                _ => None,
            },
            Body::Line(_) => None,
        }
    }
}

impl State {
    /// The line that a frame belongs to, or is.
    pub(crate) fn line_of(&self, id: FrameId) -> Option<(FrameId, &Line)> {
        let mut at = id;
        loop {
            let frame = self.frames.get(&at)?;
            match &frame.body {
                Body::Line(line) => return Some((at, line)),
                Body::Step(_) | Body::Element(_) => at = frame.parent?,
            }
        }
    }
}

/// The queries of a driver.
impl State {
    /// When the last event happened.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The number of the next effect: every effect so far has a smaller one.
    #[must_use]
    pub fn next_effect(&self) -> EffectId {
        EffectId(self.next_effect)
    }

    /// Returns the number of effects that are requested and have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.effects.len()
    }

    /// Returns the request of an effect that has not ended.
    #[must_use]
    pub fn request_of(&self, effect: EffectId) -> Option<&Request> {
        self.effects.get(&effect).map(|pending| &pending.request)
    }

    /// Returns `true` if an effect is requested and has not ended.
    #[must_use]
    pub fn wants(&self, effect: EffectId) -> bool {
        self.effects.contains_key(&effect)
    }

    /// Every effect that is requested and has not ended, oldest first.
    pub fn all_effects(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.keys().copied()
    }

    /// The first effect from `from` on that has not ended.
    #[must_use]
    pub fn first_effect(&self, from: EffectId) -> Option<EffectId> {
        self.effects.from(from).next().map(|(id, _)| *id)
    }

    /// The number of the next signal.
    #[must_use]
    pub fn next_signal(&self) -> u64 {
        self.next_signal
    }

    /// Returns `true` if a cancellation has been requested.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cancel.is_some()
    }

    /// Milliseconds until the wall time of the run, or of something in it, is over.
    #[must_use]
    pub fn wall_time_left_ms(&self, now: Timestamp) -> Option<f64> {
        Some(self.wall_deadline()?.ms_since(now).max(0.0))
    }
}
