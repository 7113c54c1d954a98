//! The record of a program that is continued by and by: each time it is run again from its start, with the answers that
//! its calls had, and then continues. Held in memory, outside of any run.

use crate::{
    inner::{InnerEvents, InnerJournal, Unasked, seed},
    ports::{Failure, SystemTimer},
};
use opcell_core::{decide::ValueLimits, state::InnerCalls};
use opcell_types::{ClockReadings, Timeline};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc;

/// The calls of a program with their answers, its randomness, and the readings of its clocks.
#[derive(Debug, Clone)]
pub struct ProgramRecord {
    calls: InnerCalls,
    clocks: ClockReadings,
}

/// The record of a program while it runs.
#[derive(Debug)]
pub struct OpenRecord {
    calls: Arc<Mutex<InnerCalls>>,
    timeline: Timeline,
}

impl Default for ProgramRecord {
    fn default() -> Self {
        Self { calls: InnerCalls::new(seed()), clocks: ClockReadings::default() }
    }
}

impl ProgramRecord {
    /// The number of calls.
    #[must_use]
    pub fn calls(&self) -> usize {
        self.calls.calls.len()
    }

    /// The journal of the next time that the program is run. No person is asked about its calls, and none by its tools.
    /// Needs a Tokio runtime.
    #[must_use]
    pub fn open(&self) -> (InnerJournal, OpenRecord) {
        let timeline = Timeline::new(self.calls.seed.to_bytes(), self.clocks.clone());
        let (events, received) = mpsc::unbounded_channel();
        let ports = (events, Arc::new(SystemTimer) as _);
        let journal = InnerJournal::outside_of_runs(&self.calls, timeline.clone(), ValueLimits::default(), ports);
        let calls = Arc::new(Mutex::new(self.calls.clone()));
        tokio::spawn(keep(received, calls.clone()));
        (journal, OpenRecord { calls, timeline })
    }
}

impl OpenRecord {
    /// The record with what the program has called since.
    #[must_use]
    pub fn ended(self) -> ProgramRecord {
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone();
        ProgramRecord { calls, clocks: self.timeline.readings() }
    }
}

/// Keeps what happens, until the program has ended.
async fn keep(mut received: mpsc::UnboundedReceiver<InnerEvents>, calls: Arc<Mutex<InnerCalls>>) {
    while let Some(event) = received.recv().await {
        match event {
            InnerEvents::Record { events, durable, .. } => {
                let mut calls = calls.lock().unwrap_or_else(PoisonError::into_inner);
                events.iter().for_each(|event| calls.record(event));
                let _ = durable.send(());
            }
            InnerEvents::Ask { calls, .. } => {
                for suspended in calls {
                    let failure =
                        Failure::host("approval-needed", "a person has to answer first, and none is asked here");
                    let _ = suspended.told.send(Unasked::Refused(failure));
                }
            }
            // Its timers end all the same.
            InnerEvents::Sleep { .. } => {}
        }
    }
}
