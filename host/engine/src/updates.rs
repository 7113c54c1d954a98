//! Updates of a run for its readers, while it is driven.

use crate::handle::EventStream;
use opcell_core::{Recorded, outcome::Question};
use std::{collections::VecDeque, sync::Arc};
use tokio::sync::watch;

/// Something that a reader of a run is told: `RunHandle::updates`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum RunUpdate {
    /// One thing that happened. A step has one shape, however fast it was: entered, requested, replied, finished. The
    /// journal keeps a call that ended at once as one event; its four parts share the event's number.
    Happened(Arc<Recorded>),
    /// The run waits for answers or signals, and for nothing else. It continues when it has got one.
    Suspended(Vec<Question>),
}

/// The questions of a run that is suspended, and the last event before.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Suspension {
    pub seq: u64,
    pub questions: Vec<Question>,
}

/// A run's updates, in order. Ends when the run is no longer driven.
#[derive(Debug)]
pub struct UpdateStream {
    events: EventStream,
    suspensions: watch::Receiver<Suspension>,
    /// Parts of the event that was read last.
    parts: VecDeque<Arc<Recorded>>,
    last: u64,
    is_driven: bool,
}

impl UpdateStream {
    pub(crate) fn new(events: EventStream, suspensions: watch::Receiver<Suspension>) -> Self {
        Self { events, suspensions, parts: VecDeque::new(), last: 0, is_driven: true }
    }

    /// The next update; `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<RunUpdate> {
        loop {
            if let Some(part) = self.parts.pop_front() {
                return Some(RunUpdate::Happened(part));
            }
            tokio::select! {
                // What happened before the run was suspended comes first.
                biased;
                recorded = self.events.next() => match recorded {
                    Some(recorded) => {
                        self.last = recorded.seq;
                        self.parts.extend(recorded.parts().map(|part| Arc::new(part.into_owned())));
                    }
                    // A run that was released because it is suspended says so last.
                    None => return self.suspended().map(RunUpdate::Suspended),
                },
                changed = self.suspensions.changed(), if self.is_driven => match changed {
                    Ok(()) => {
                        if let Some(questions) = self.suspended() {
                            return Some(RunUpdate::Suspended(questions));
                        }
                    }
                    Err(_) => self.is_driven = false,
                },
            }
        }
    }

    /// The questions, unless the reader has them already or the run has continued.
    fn suspended(&mut self) -> Option<Vec<Question>> {
        let suspension = self.suspensions.borrow_and_update().clone();
        let is_new = suspension.seq >= self.last && !suspension.questions.is_empty();
        // Not told twice.
        self.last = self.last.max(suspension.seq.saturating_add(u64::from(is_new)));
        is_new.then_some(suspension.questions)
    }
}
