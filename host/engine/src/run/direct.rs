//! Calls of pure operations that end at once: made before anything of them is recorded, one event for each.

use super::{AT_ONCE, Batch, Driver, panicked};
use crate::{
    error::RunError,
    in_flight::InFlight,
    ports::{Cancellable, Ports, Reply},
};
use futures_util::FutureExt;
use opcell_core::{
    State,
    decide::{self, Upcoming},
    event::EffectReply,
    failure::Effects,
    id::{EffectId, Timestamp},
};
use opcell_journal::JournalError;
use std::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    task::{Context, Poll},
};

/// The call that comes next, if it is one of a pure operation.
fn upcoming<'a>(state: &'a State, ports: &Ports) -> Option<Upcoming<'a>> {
    decide::upcoming(state).filter(|next| ports.operations.effects(next.operation()) == Some(Effects::Pure))
}

/// How long such calls may take together before the run looks at the world, in microseconds.
const TOGETHER: i64 = 1_000;

impl Driver {
    /// Whether the next thing to do is to make such a call.
    pub(super) fn calls_next(&self) -> bool {
        upcoming(&self.state, &self.ports).is_some()
    }

    /// Makes such calls one after the other, as long as nothing else is to be done. How many events came of it.
    pub(super) async fn call_directly(
        &mut self,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<usize, RunError> {
        poll_fn(|context| Poll::Ready(self.calls(context, batch, in_flight, taken_over))).await
    }

    fn calls(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<usize, RunError> {
        let (before, most) = (self.state.seq(), self.batch());
        let mut began: Option<Timestamp> = None;
        let mut made = 0_usize;
        while made < AT_ONCE && batch.events.len() < most && in_flight.is_empty() {
            if !self.call(context, batch, in_flight, taken_over)? {
                break;
            }
            made += 1;
            let now = self.state.now();
            if now.0 - began.get_or_insert(now).0 >= TOGETHER {
                break;
            }
            // A run that is asked to stop does not make all of them first.
            if made % 16 == 0
                && let Ok(message) = self.inbox.try_recv()
            {
                self.receive(batch, message)?;
                break;
            }
        }
        Ok(usize::try_from(self.state.seq() - before).unwrap_or(usize::MAX))
    }

    /// Makes the call that comes next, if it is one of a pure operation. Whether anything was recorded.
    fn call(
        &mut self,
        context: &mut Context<'_>,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<bool, RunError> {
        let Some(upcoming) = upcoming(&self.state, &self.ports) else { return Ok(false) };
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
        let began = self.moment.take().unwrap_or_else(|| self.ports.timer.now());
        let (effect, ports, cancel) = (call.effect(), self.ports.clone(), self.cancel.clone());
        let given = Cancellable::new(call.call(), cancel);
        let mut work = Box::pin(async move {
            let reply = AssertUnwindSafe(ports.operations.invoke(given)).catch_unwind().await;
            EffectReply::Invoke(reply.unwrap_or_else(|_| Reply { result: Err(panicked()), receipt: None }))
        });
        let reply = match work.as_mut().poll(context) {
            Poll::Ready(reply) => reply,
            Poll::Pending => {
                for event in call.begun() {
                    self.record_at(batch, event, began)?;
                }
                in_flight.start([(effect, work as _)]);
                return Ok(true);
            }
        };
        let ended = self.ports.timer.now();
        if let EffectReply::Invoke(Reply { result: Ok(success), receipt }) = &reply
            && let Some(event) =
                call.ended(success, receipt.as_ref(), u64::try_from(ended.0 - began.0).unwrap_or_default())
        {
            self.moment = Some(ended);
            self.record_at(batch, event, ended)?;
            return Ok(true);
        }
        for event in call.begun() {
            self.record_at(batch, event, began)?;
        }
        self.take(batch, (effect, reply))?;
        Ok(true)
    }
}
