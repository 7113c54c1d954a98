//! Calls of pure operations that end at once: made before anything of them is recorded, one event for each.

use super::{Batch, DIRECT_CALL_BATCH, Driver, MAX_APPEND_DELAY};
use crate::{
    error::RunError,
    in_flight::InFlight,
    invoking::{DetachedCall, Invoking},
    ports::{Cancellable, Ports, Reply, Success},
    progress,
};
use futures_util::{FutureExt, poll};
use opcell_core::{
    State,
    decide::{self, Upcoming},
    event::EffectReply,
    failure::Effects,
    id::{EffectId, Timestamp},
    message::Message,
};
use opcell_journal::JournalError;
use std::{sync::Arc, task::Poll, time::Duration};

/// The call that comes next, if it is one of a pure operation.
fn upcoming<'a>(state: &'a State, ports: &Ports) -> Option<Upcoming<'a>> {
    decide::upcoming(state).filter(|next| ports.operations.effects(next.operation()) == Some(Effects::Pure))
}

/// The time that such calls may take together before the run looks at its inbox and its timers, in microseconds.
const MAX_DIRECT_CALLS_US: i64 = 1_000;

/// The time for which the end of such a call is awaited before it is recorded as requested, and so shown as in flight.
pub(super) const DIRECT_CALL_WAIT: Duration = Duration::from_millis(100);

/// The progress of a call.
enum CallProgress {
    Ended(Reply<Success>),
    /// It continues: too long, or until something else has been seen to.
    GoesOn(DetachedCall, Option<Message>),
}

impl Driver {
    /// Returns `true` if the next thing to do is to make such a call, or several.
    pub(super) fn calls_next(&self) -> bool {
        upcoming(&self.state, &self.ports).is_some() || self.elements().is_some()
    }

    /// Makes such calls one after the other, as long as nothing else is to be done. How many events came of it.
    pub(super) async fn call_directly(
        &mut self,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<usize, RunError> {
        let (before, most, ports) = (self.state.seq(), self.batch(), Arc::clone(&self.ports));
        let mut began: Option<Timestamp> = None;
        let mut made = 0_usize;
        while made < DIRECT_CALL_BATCH && batch.events.len() < most && in_flight.is_empty() {
            if !self.call(&ports, batch, in_flight, taken_over).await? {
                break;
            }
            made += 1;
            let now = self.state.now();
            if now.0 - began.get_or_insert(now).0 >= MAX_DIRECT_CALLS_US {
                break;
            }
            // A run that is asked to stop does not make all of them first.
            if made.is_multiple_of(16)
                && let Ok(message) = self.inbox.try_recv()
            {
                self.receive(batch, message)?;
                break;
            }
        }
        Ok(usize::try_from(self.state.seq() - before).unwrap_or(usize::MAX))
    }

    /// Makes the call that comes next, if it is one of a pure operation. Whether anything was recorded.
    async fn call(
        &mut self,
        ports: &Arc<Ports>,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<bool, RunError> {
        let Some(upcoming) = upcoming(&self.state, ports) else { return Ok(false) };
        let call = match upcoming.call() {
            None => return Ok(false),
            Some(Ok(call)) => call,
            Some(Err(decided)) => {
                let waiting = in_flight.next().max(taken_over);
                for event in decided {
                    self.record_decided(batch, event, waiting)?;
                }
                return Ok(true);
            }
        };
        if !self.ownership.is_held() {
            return Err(JournalError::LeaseLost { run: self.run.clone() }.into());
        }
        let began = self.clock_reading.take().unwrap_or_else(|| ports.timer.now());
        let effect = call.effect();
        let mut made = call.call();
        made.context.progress = progress::of_run(self.sink.as_ref(), effect);
        let mut work = Invoking::of(ports, Cancellable::new(made, Arc::clone(&self.cancel)));
        let made = match poll!(&mut work) {
            Poll::Ready(reply) => CallProgress::Ended(reply),
            Poll::Pending => {
                let patience = if batch.events.is_empty() { DIRECT_CALL_WAIT } else { MAX_APPEND_DELAY };
                tokio::select! {
                    biased;
                    reply = &mut work => CallProgress::Ended(reply),
                    Some(message) = self.inbox.recv() => CallProgress::GoesOn(work.going_on(), Some(message)),
                    () = self.ownership.lost() => return Err(self.lease_lost()),
                    () = self.shutdown.started() => CallProgress::GoesOn(work.going_on(), None),
                    () = self.release.cancelled() => CallProgress::GoesOn(work.going_on(), None),
                    () = tokio::time::sleep(patience) => CallProgress::GoesOn(work.going_on(), None),
                }
            }
        };
        let reply = match made {
            CallProgress::Ended(reply) => reply,
            CallProgress::GoesOn(work, message) => {
                for event in call.requested() {
                    self.record_at(batch, event, began)?;
                }
                in_flight.start([(effect, work.map(EffectReply::Invoke).boxed())]);
                if let Some(message) = message {
                    self.receive(batch, message)?;
                }
                return Ok(true);
            }
        };
        let ended = ports.timer.now();
        let took = u64::try_from(ended.0 - began.0).unwrap_or_default();
        match call.ended(reply, took) {
            Ok(event) => {
                self.clock_reading = Some(ended);
                self.record_at(batch, event, ended)?;
            }
            Err((call, reply)) => {
                for event in call.requested() {
                    self.record_at(batch, event, began)?;
                }
                self.take(batch, (effect, EffectReply::Invoke(reply)))?;
            }
        }
        Ok(true)
    }
}
