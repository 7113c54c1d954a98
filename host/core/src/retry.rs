//! The place at which a run is forked so that a call is made again: before it was requested.

use crate::{
    event::{Event, FrameId, Recorded},
    outcome::Status,
};
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The calls of a run, as far as going back to one of them needs.
#[derive(Debug, Default)]
pub struct RetryPoints {
    names: HashMap<FrameId, Arc<str>>,
    /// By step, the event with which it was last entered.
    entered: HashMap<Arc<str>, u64>,
    /// By step, the event with which its last call was first requested.
    requested: HashMap<Arc<str>, u64>,
    /// Frames whose next request is another attempt.
    retrying: HashSet<FrameId>,
    failed: Option<Arc<str>>,
}

impl RetryPoints {
    /// Takes the next event of the run.
    pub fn observe(&mut self, recorded: &Recorded) {
        for part in recorded.parts() {
            self.observe_part(&part);
        }
    }

    fn observe_part(&mut self, recorded: &Recorded) {
        match &recorded.event {
            Event::StepEntered { frame, name, .. } => {
                self.names.insert(*frame, name.clone());
                self.entered.insert(name.clone(), recorded.seq);
                self.requested.remove(name);
            }
            Event::ElementEntered { frame, parent, .. } => {
                if let Some(name) = self.names.get(parent).cloned() {
                    self.names.insert(*frame, name);
                }
            }
            // A frame that has ended makes no more calls.
            Event::ElementFinished { frame, .. } => drop(self.names.remove(frame)),
            Event::Requested { frame, .. } => {
                let is_first = !self.retrying.remove(frame);
                if let Some(name) = self.names.get(frame).filter(|_| is_first) {
                    self.requested.insert(name.clone(), recorded.seq);
                }
            }
            Event::Retrying { frame, .. } => drop(self.retrying.insert(*frame)),
            Event::RunFinished(end) if end.status != Status::Completed => self.failed.clone_from(&end.step),
            _ => {}
        }
    }

    /// The last event before the call with which the run failed.
    #[must_use]
    pub fn before_failure(&self) -> Option<u64> {
        let step = self.failed.as_ref()?;
        self.requested.get(step).or_else(|| self.entered.get(step)).map(|seq| seq - 1).filter(|seq| *seq > 0)
    }

    /// The last event before a step was last entered.
    #[must_use]
    pub fn before_step(&self, step: &str) -> Option<u64> {
        self.entered.get(step).map(|seq| seq - 1).filter(|seq| *seq > 0)
    }

    /// The steps that were entered.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.entered.keys().map(AsRef::as_ref)
    }
}
