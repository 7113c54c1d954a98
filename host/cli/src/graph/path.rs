//! The way that a run took through its own workflow, read off its events.

use super::Target;
use opcell_engine::{
    Status,
    event::{Destination, Event, FrameId, Recorded},
};
use opcell_ir::names::Outcome;
use std::{collections::HashMap, sync::Arc};

/// The number of times a run entered each step and took each route. Workflows that it delegated to are runs of their
/// own pictures.
#[derive(Debug, Clone, Default)]
pub struct Path {
    visits: HashMap<usize, u32>,
    taken: HashMap<Taken, u32>,
    /// The step that ended the run with a failure.
    pub(super) failed: Option<usize>,
    /// Lines of steps that belong to the run's own workflow (the main one, and those of its groups), each with the
    /// steps after which it continues without a decision.
    lines: HashMap<FrameId, Vec<usize>>,
    main: Option<FrameId>,
    /// The step that a frame is an entry into, and its line.
    entries: HashMap<FrameId, (usize, FrameId)>,
    /// The step that opened a group.
    groups: HashMap<FrameId, FrameId>,
    names: HashMap<Arc<str>, usize>,
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
        match event {
            Event::StepEntered { frame, parent, step, name, .. } => {
                // Nothing is entered before the first step of the run's own workflow.
                let main = *self.main.get_or_insert(*parent);
                self.lines.entry(main).or_default();
                let step = *step as usize;
                if self.goes_on(*parent, step) {
                    self.entries.insert(*frame, (step, *parent));
                    self.names.insert(name.clone(), step);
                    *self.visits.entry(step).or_default() += 1;
                }
            }
            Event::StepSkipped { parent, step, .. } => {
                self.goes_on(*parent, *step as usize);
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
            Event::RunFinished(end) if end.status == Status::Failed => {
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

    /// A line comes to its next step; whether the line is one of the run's own workflow.
    fn goes_on(&mut self, line: FrameId, step: usize) -> bool {
        let Some(before) = self.lines.get_mut(&line).map(|before| std::mem::replace(before, vec![step])) else {
            return false;
        };
        before.into_iter().for_each(|before| self.take(Taken::plain(before, Target::Step(step))));
        true
    }

    /// What comes after a group comes after its last step, not after the one that opened it.
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
