//! The record of a program that is run again from its start, with the answers that its calls had: one that is continued
//! by and by, held in memory, outside of any run; or one that a run has journaled.

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
    /// The record of a program that a run has journaled.
    #[must_use]
    pub fn journaled(calls: InnerCalls) -> Self {
        Self { clocks: calls.clocks(), calls }
    }

    /// The names of the tools that were called.
    pub fn tools(&self) -> impl Iterator<Item = &str> {
        self.calls.calls.iter().map(|call| &*call.request.tool)
    }

    /// The journal of a program that is run again and makes no call: each has its recorded answer, or fails as diverged.
    #[must_use]
    pub fn replayed(&self) -> InnerJournal {
        InnerJournal::closed(&self.calls)
    }

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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use crate::{
        inner::{Concurrency, PlacedCall},
        ports::{Effects, Reply},
    };
    use opcell_core::{
        event::{Event, InnerRequest},
        id::EffectId,
    };
    use opcell_types::Value;

    /// A record of calls of these tools, of which the first ones were answered.
    fn record(tools: &[&str], answered: u32) -> ProgramRecord {
        let (mut calls, effect) = (InnerCalls::new(seed()), EffectId(0));
        for (place, tool) in (0..).zip(tools) {
            let (tool, arguments, effects) = (Arc::from(*tool), Value::Null, Effects::Once);
            let (clocks, waits, until) = (ClockReadings::default(), false, None);
            let call = Box::new(InnerRequest { place, tool, arguments, effects, clocks, waits, until });
            calls.record(&Event::InnerRequested { effect, call });
            if place < answered {
                let reply = Box::new(Reply::from(Ok(Value::from(i64::from(place)))));
                calls.record(&Event::InnerReplied { effect, place, reply });
            }
        }
        ProgramRecord::journaled(calls)
    }

    /// The answers to calls of these tools, as far as there are any; then the failure of the program, if it has diverged.
    fn replayed(record: &ProgramRecord, tools: &[&str]) -> (Vec<Value>, Option<String>) {
        let journal = record.replayed();
        let call = |tool: &&str| {
            let placed = journal.begin(tool, &Value::Null, true, Concurrency::Alone);
            placed.map(PlacedCall::recorded).ok()?.ok()?.reply.result.ok()
        };
        let answers = tools.iter().filter_map(call).collect();
        // It has caught whatever failed.
        let end = journal.checked(Reply::from(Ok(()))).result;
        (answers, end.err().map(|failure| failure.message))
    }

    #[test]
    fn a_program_that_is_replayed_has_the_recorded_answers_and_makes_no_call() {
        let record_of_two = record(&["a", "b"], 2);
        assert_eq!(replayed(&record_of_two, &["a", "b"]), (vec![Value::from(0), Value::from(1)], None));
        for (tools, answers, said) in [
            (&["a", "z", "b"][..], 1, "call 2 was `b null`, and now is `z null`"),
            (&["a"][..], 1, "it ended before call 2, which was `b null`"),
            (&["a", "b", "c", "d"][..], 2, "its record, which ends before call 3: now `c null`"),
        ] {
            let (found, message) = replayed(&record_of_two, tools);
            assert_eq!(found.len(), answers, "{tools:?}");
            assert!(message.as_deref().is_some_and(|message| message.contains(said)), "{tools:?}: {message:?}");
        }
        let (found, message) = replayed(&record(&["a", "b"], 1), &["a", "b"]);
        assert_eq!(found.len(), 1);
        assert!(message.is_some_and(|message| message.contains("has no answer to call 2, `b null`")), "{found:?}");
    }
}
