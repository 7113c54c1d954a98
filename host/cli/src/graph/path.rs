//! The way that a run took through its own workflow, read off its events.

use super::{Mark, Target};
use opcell_engine::{
    Status,
    event::{Destination, EffectId, Event, FrameId, Recorded, Request},
};
use opcell_ir::names::Outcome;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The number of times a run entered each step and took each route. Workflows that it delegated to are runs of their
/// own pictures.
#[derive(Debug, Clone, Default)]
pub struct Path {
    visits: HashMap<usize, u32>,
    taken: HashMap<Taken, u32>,
    /// The step that ended the run with a failure.
    failed: Option<usize>,
    /// Lines of steps that belong to the run's own workflow (the main one, and those of its groups), each with the
    /// steps after which it continues without a decision.
    lines: HashMap<FrameId, Vec<usize>>,
    main: Option<FrameId>,
    /// The step that a frame is an entry into, and its line.
    entries: HashMap<FrameId, (usize, FrameId)>,
    /// The step that opened a group.
    groups: HashMap<FrameId, FrameId>,
    names: HashMap<Arc<str>, usize>,
    /// Steps whose guard was false.
    skipped: HashSet<usize>,
    /// Frames of steps that have not ended.
    open: HashSet<FrameId>,
    /// The frame around a frame that is no entry into a step of the run's own workflow.
    around: HashMap<FrameId, FrameId>,
    /// The frames of effects that have not ended.
    effects: HashMap<EffectId, FrameId>,
    /// The steps that wait, by the frame or the effect that does.
    waits: HashMap<Waiting, usize>,
}

/// The part of a run that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Waiting {
    Frame(FrameId),
    Effect(EffectId),
}

/// A way that a run went.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Taken {
    /// From one step to the next.
    Route {
        /// Index of the step that is left.
        step: usize,
        /// Destination.
        to: Target,
        /// The judge's outcome, if the step has one.
        outcome: Option<Outcome>,
        /// `true` if a limit sent it elsewhere than the outcome says.
        redirected: bool,
    },
    /// Into a group of steps.
    Group {
        /// From which branch or parallel step.
        step: usize,
        /// The one of its groups.
        group: usize,
    },
}

impl Taken {
    pub(super) fn plain(step: usize, to: Target) -> Self {
        Self::Route { step, to, outcome: None, redirected: false }
    }
}

impl Path {
    /// The path of a run so far.
    pub fn of<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Self {
        let mut path = Self::default();
        for part in events.into_iter().flat_map(Recorded::parts) {
            path.observe(&part.event);
        }
        path
    }

    /// Takes the next event of the run; of one with parts, each of these.
    pub fn observe(&mut self, event: &Event) {
        self.follow_waits(event);
        match event {
            Event::StepEntered { frame, parent, step, name, .. } => {
                // Nothing is entered before the first step of the run's own workflow.
                let main = *self.main.get_or_insert(*parent);
                self.lines.entry(main).or_default();
                let step = *step as usize;
                if self.goes_on(*parent, step) {
                    self.open.insert(*frame);
                    self.entries.insert(*frame, (step, *parent));
                    self.names.insert(name.clone(), step);
                    *self.visits.entry(step).or_default() += 1;
                }
            }
            Event::StepSkipped { parent, step, .. } => {
                if self.goes_on(*parent, *step as usize) {
                    self.skipped.insert(*step as usize);
                }
            }
            Event::GroupEntered { frame, parent, group } => {
                if let Some(&(step, _)) = self.entries.get(parent) {
                    self.lines.insert(*frame, Vec::new());
                    self.groups.insert(*frame, *parent);
                    self.take(Taken::Group { step, group: *group as usize });
                }
            }
            Event::GroupFinished { frame, .. } => self.group_finished(*frame),
            Event::Chosen { frame, group } => {
                if let Some(&(step, _)) = self.entries.get(frame) {
                    self.take(Taken::Group { step, group: *group as usize });
                }
            }
            Event::Routed { frame, outcome, to, redirected, .. } => {
                if let Some(&(step, line)) = self.entries.get(frame) {
                    let to = match to {
                        Destination::Done => Target::Done,
                        Destination::Step(step) => Target::Step(*step as usize),
                    };
                    self.take(Taken::Route { step, to, outcome: outcome.clone(), redirected: redirected.is_some() });
                    self.lines.insert(line, Vec::new());
                }
            }
            Event::RunFinished(end) if matches!(end.status, Status::Failed | Status::Blocked) => {
                self.failed = end.step.as_ref().and_then(|step| self.names.get(step)).copied();
            }
            Event::RunFinished(end) if end.status == Status::Completed => {
                let last = self.main.and_then(|main| self.lines.remove(&main)).unwrap_or_default();
                last.into_iter().for_each(|step| self.take(Taken::plain(step, Target::Done)));
            }
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::StepPrepared { .. }
            | Event::EachStarted { .. }
            | Event::ElementEntered { .. }
            | Event::ElementFinished { .. }
            | Event::Requested { .. }
            | Event::Replied { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::Retrying { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::InstanceStarted { .. }
            | Event::InstanceFinished { .. }
            | Event::StepFinished { .. }
            | Event::Judged { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAsked { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAsked { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::InputAnswered { .. }
            | Event::CallsAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallsExpired { .. }
            | Event::Abandoned { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked
            | Event::RunFinished(_) => {}
        }
    }

    /// Notes which steps wait, and which do not any more.
    fn follow_waits(&mut self, event: &Event) {
        match event {
            Event::StepEntered { frame, parent, .. }
            | Event::ElementEntered { frame, parent, .. }
            | Event::GroupEntered { frame, parent, .. }
            | Event::InstanceStarted { frame, parent, .. } => {
                self.around.insert(*frame, *parent);
            }
            Event::StepFinished { frame, .. } | Event::ElementFinished { frame, .. } => {
                self.open.remove(frame);
                self.around.remove(frame);
                self.waits.remove(&Waiting::Frame(*frame));
            }
            Event::Requested { effect, frame, request } => {
                self.effects.insert(*effect, *frame);
                self.waits.remove(&Waiting::Frame(*frame));
                if matches!(request, Request::Sleep { .. } | Request::Timeout { .. }) {
                    self.waits_at(Waiting::Effect(*effect), *frame);
                }
            }
            Event::Replied { effect, .. } | Event::Abandoned { effect, .. } => {
                self.effects.remove(effect);
                self.waits.remove(&Waiting::Effect(*effect));
            }
            Event::Answered { effect, .. }
            | Event::GrantAnswered { effect, .. }
            | Event::InputAnswered { effect, .. } => {
                self.waits.remove(&Waiting::Effect(*effect));
            }
            Event::WaitStarted { frame, .. } | Event::CallsAsked { frame, .. } => {
                self.waits_at(Waiting::Frame(*frame), *frame);
            }
            Event::SignalTaken { frame, .. } | Event::Interjected { frame, .. } | Event::CallsExpired { frame } => {
                self.waits.remove(&Waiting::Frame(*frame));
            }
            Event::InDoubt { effect } | Event::GrantAsked { effect, .. } | Event::InputAsked { effect, .. } => {
                if let Some(frame) = self.effects.get(effect).copied() {
                    self.waits_at(Waiting::Effect(*effect), frame);
                }
            }
            Event::RunFinished(_) => {
                self.open.clear();
                self.waits.clear();
            }
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::StepSkipped { .. }
            | Event::StepPrepared { .. }
            | Event::EachStarted { .. }
            | Event::Chosen { .. }
            | Event::GroupFinished { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::Retrying { .. }
            | Event::TurnStarted { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::InstanceFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::CallAnswered { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked => {}
        }
    }

    /// Notes a wait at the step of the run's own workflow that a frame belongs to.
    fn waits_at(&mut self, what: Waiting, frame: FrameId) {
        let mut at = frame;
        loop {
            if let Some((step, _)) = self.entries.get(&at) {
                self.waits.insert(what, *step);
                return;
            }
            match self.around.get(&at) {
                // A frame is younger than the one around it.
                Some(above) if *above < at => at = *above,
                _ => return,
            }
        }
    }

    /// The state of a step.
    pub(super) fn mark(&self, step: usize) -> Mark {
        let is_open = || self.open.iter().any(|frame| self.entries.get(frame).is_some_and(|entry| entry.0 == step));
        match step {
            _ if self.failed == Some(step) => Mark::Failed,
            _ if self.waits.values().any(|waits| *waits == step) => Mark::Waiting,
            _ if is_open() => Mark::Running,
            _ if self.visits(step) > 0 => Mark::Done,
            _ if self.skipped.contains(&step) => Mark::Skipped,
            _ => Mark::Plain,
        }
    }

    /// A line comes to its next step; whether the line is one of the run's own workflow.
    fn goes_on(&mut self, line: FrameId, step: usize) -> bool {
        let Some(before) = self.lines.get_mut(&line).map(|before| std::mem::replace(before, vec![step])) else {
            return false;
        };
        before.into_iter().for_each(|before| self.take(Taken::plain(before, Target::Step(step))));
        true
    }

    /// Continues after a group: the next step follows its last step, not after the one that opened it.
    fn group_finished(&mut self, group: FrameId) {
        let (Some(last), Some(opener)) = (self.lines.remove(&group), self.groups.remove(&group)) else { return };
        let Some(&(step, line)) = self.entries.get(&opener) else { return };
        if let Some(before) = self.lines.get_mut(&line).filter(|_| !last.is_empty()) {
            before.retain(|before| *before != step);
            before.extend(last);
        }
    }

    fn take(&mut self, taken: Taken) {
        *self.taken.entry(taken).or_default() += 1;
    }

    /// The number of times a step was entered.
    #[must_use]
    pub fn visits(&self, step: usize) -> u32 {
        self.visits.get(&step).copied().unwrap_or(0)
    }

    /// The number of times the run went a way.
    #[must_use]
    pub fn count(&self, taken: &Taken) -> u32 {
        self.taken.get(taken).copied().unwrap_or(0)
    }
}
