//! Elements of one step whose calls are pure: several are called at a time before anything of them is recorded, and
//! each that ends well is one event.
//!
//! Events come in the order of the elements: what ends early waits, in memory, for those before it. A crash loses it,
//! and it is called again, which changes nothing. When one does not end soon, or not well, or the run has something
//! else to see to, all that are under way are recorded as wanted, as if each had been called in the open.

use super::{
    Batch, DIRECT_CALL_BATCH, Driver, INBOX_POLL, MAX_APPEND_DELAY, Wanted, appended, direct::DIRECT_CALL_WAIT,
    panicked,
};
use crate::{
    error::RunError,
    in_flight::{Done, InFlight, Work},
    invoking::Invoking,
    ports::{Call, Cancellable, Reply, Success},
    progress,
};
use futures_util::{FutureExt, poll};
use opcell_core::{
    Next,
    decide::{self, Elements, decide},
    event::EffectReply,
    failure::Effects,
    id::{EffectId, FrameId, Timestamp},
    message::Message,
};
use opcell_types::Value;
use std::{collections::VecDeque, panic::AssertUnwindSafe, sync::Arc, task::Poll};
use tokio::time::Instant;

/// An element that takes longer than this, in microseconds, is slow: what its events take hardly matters, and those
/// after it should not wait for it.
const SLOW_CALL_US: u64 = 5_000;

/// The number of slow elements after which, if most are slow, the rest are called in the open.
const SLOW_ONES: u32 = 8;

/// Elements that are called ahead at most, however many may be under way: those that end at once gain nothing by more,
/// and the run looks at nothing else while it starts them.
const MAX_SPECULATIVE_CALLS: usize = 256;

/// A call that takes longer than this, in microseconds, is worth another thread.
const OFFLOAD_THRESHOLD_US: i64 = 3;

/// The number of such calls in a row after which others are expected to be, too. Fewer may have been interrupted, or be the first to touch
/// something.
const LONG_ONES: u32 = 4;

/// Elements that have been called and not been recorded, in their order.
struct Ahead {
    /// The frame of their step.
    frame: FrameId,
    at_once: usize,
    calls: VecDeque<SpeculativeCall>,
    running: usize,
    /// The number of times in a row that no element ended for a while.
    waits: u32,
    /// The number of elements that were recorded, and of those that were slow.
    recorded: u32,
    slow: u32,
    /// The number of calls in a row that were worth another thread.
    long: u32,
    /// `true` if calls are made on several threads. Calls that end at once are soonest made where they are asked for.
    spread: bool,
}

/// A call that was made before it was recorded.
struct SpeculativeCall {
    effect: EffectId,
    arguments: Value,
    began: Timestamp,
    ended: Option<(Reply<Success>, Timestamp)>,
}

/// The event that interrupts the waiting.
enum Interrupt {
    Nothing,
    /// Something that must not wait for the elements under way.
    Else(Option<Message>),
}

impl Driver {
    /// The elements that come next, if they may be called so.
    pub(super) fn elements(&self) -> Option<Elements<'_>> {
        decide::elements(&self.state)
            .filter(|next| self.slow_elements != Some(next.frame()))
            .filter(|next| self.ports.operations.effects(next.operation()) == Some(Effects::Pure))
    }

    /// Calls elements, several at a time, until the run has something else to do. How many events came of it; nothing
    /// where no element is to be called so.
    pub(super) async fn call_elements(
        &mut self,
        batch: &mut Batch,
        in_flight: &mut InFlight,
        taken_over: EffectId,
    ) -> Result<Option<usize>, RunError> {
        let Some(next) = self.elements() else { return Ok(None) };
        let before = self.state.seq();
        let mut ahead = Ahead {
            frame: next.frame(),
            at_once: next.at_once().min(MAX_SPECULATIVE_CALLS),
            calls: VecDeque::new(),
            running: 0,
            waits: 0,
            recorded: 0,
            slow: 0,
            long: 0,
            spread: false,
        };
        let began = Instant::now();
        let (mut more, mut recorded) = (true, 0_usize);
        loop {
            if !self.ownership.is_held() {
                return Err(self.lease_lost());
            }
            more = more && self.call_more(&mut ahead, in_flight).await;
            recorded += self.record_ended(batch, &mut ahead)?;
            if ahead.calls.front().is_some_and(|first| first.ended.is_some()) {
                // It did not end well: what comes of that is decided.
                self.record_started(batch, &mut ahead, in_flight.next().max(taken_over))?;
                break;
            }
            if ahead.slow >= SLOW_ONES && ahead.slow > ahead.recorded / 2 {
                self.slow_elements = Some(ahead.frame);
                more = false;
            }
            if ahead.calls.is_empty() && !more {
                break;
            }
            let mut heard = Interrupt::Nothing;
            if recorded >= DIRECT_CALL_BATCH {
                recorded = 0;
                let now = Instant::now();
                self.keep_up(batch, Wanted::PureCalls, now).await?;
                self.yield_to_others(now).await;
                let ends = self.shutdown.has_started() || self.release.is_cancelled();
                more = more && !ends && now.duration_since(began) < INBOX_POLL;
                heard = self.inbox.try_recv().map_or(heard, |message| Interrupt::Else(Some(message)));
            }
            if ahead.running > 0 && matches!(heard, Interrupt::Nothing) {
                heard = self.hear(batch, &mut ahead, in_flight).await?;
            }
            if let Interrupt::Else(message) = heard {
                self.record_started(batch, &mut ahead, in_flight.next().max(taken_over))?;
                if let Some(message) = message {
                    self.receive(batch, message)?;
                }
                break;
            }
        }
        Ok(Some(usize::try_from(self.state.seq() - before).unwrap_or(usize::MAX)))
    }

    /// Calls as many more as may be under way. Whether there may be others later.
    async fn call_more(&mut self, ahead: &mut Ahead, in_flight: &mut InFlight) -> bool {
        let mut started: Vec<(EffectId, Work)> = Vec::new();
        let mut more = true;
        while ahead.calls.len() < ahead.at_once {
            let Some((call, effect)) = self.element_call(ahead) else {
                more = false;
                break;
            };
            let began = self.clock_reading.take().unwrap_or_else(|| self.ports.timer.now());
            let arguments = call.arguments.clone();
            let mut ended = None;
            if ahead.spread {
                started.push((effect, self.venture(call)));
                self.clock_reading = Some(began);
            } else {
                let mut work = Invoking::of(&self.ports, call);
                let polled = poll!(&mut work);
                let now = self.ports.timer.now();
                ahead.long = if now.0 - began.0 >= OFFLOAD_THRESHOLD_US { ahead.long + 1 } else { 0 };
                ahead.spread = polled.is_pending() || ahead.long >= LONG_ONES;
                match polled {
                    Poll::Ready(reply) => {
                        self.clock_reading = Some(now);
                        ended = Some((reply, now));
                    }
                    Poll::Pending => started.push((effect, work.going_on().map(EffectReply::Invoke).boxed())),
                }
            }
            ahead.running += usize::from(ended.is_none());
            ahead.calls.push_back(SpeculativeCall { effect, arguments, began, ended });
        }
        in_flight.start(started);
        self.clock_reading = None;
        more
    }

    /// The call of the element after those that have been called.
    fn element_call(&self, ahead: &Ahead) -> Option<(Call, EffectId)> {
        let elements = Elements::in_frame(&self.state, ahead.frame)?;
        let number = u32::try_from(ahead.calls.len()).ok()?;
        let (mut call, effect) = (elements.call(number)?, elements.effect(number));
        call.context.progress = progress::of_run(self.sink.as_ref(), effect);
        Some((Cancellable::new(call, Arc::clone(&self.cancel)), effect))
    }

    fn venture(&self, call: Call) -> Work {
        let ports = Arc::clone(&self.ports);
        let work = async move {
            let reply = AssertUnwindSafe(ports.operations.invoke(call)).catch_unwind().await;
            EffectReply::Invoke(reply.unwrap_or_else(|_| Reply { result: Err(panicked()), receipt: None }))
        };
        work.boxed()
    }

    /// Records the first ones, as far as they have ended well. How many.
    fn record_ended(&mut self, batch: &mut Batch, ahead: &mut Ahead) -> Result<usize, RunError> {
        let mut recorded = 0;
        while let Some(SpeculativeCall { ended: ended @ Some(_), .. }) = ahead.calls.front_mut()
            && let Some((reply, at)) = ended.take()
        {
            let Some(first) = ahead.calls.pop_front() else { break };
            let took = u64::try_from(at.0 - first.began.0).unwrap_or_default();
            ahead.recorded += 1;
            ahead.slow += u32::from(took >= SLOW_CALL_US);
            // Those of several threads end in another order than the one in which they are recorded.
            let at = at.max(self.state.now());
            let next = Elements::in_frame(&self.state, ahead.frame).and_then(|next| next.next(first.arguments.clone()));
            let event = match next {
                Some(call) => call.ended(reply, took).map_err(|(_, reply)| reply),
                None => Err(reply),
            };
            match event {
                Ok(event) => self.record_at(batch, event, at)?,
                Err(reply) => {
                    ahead.calls.push_front(SpeculativeCall { ended: Some((reply, at)), ..first });
                    break;
                }
            }
            recorded += 1;
        }
        Ok(recorded)
    }

    /// Records all that were called as wanted, as it is decided in the open, and what came of those that have ended.
    /// Effects from `waiting` on have not been started.
    fn record_started(&mut self, batch: &mut Batch, ahead: &mut Ahead, waiting: EffectId) -> Result<(), RunError> {
        self.clock_reading = ahead.calls.front().map(|first| first.began.max(self.state.now()));
        let last = ahead.calls.back().map(|last| last.effect);
        // No more of them are under way than may be, so that all of them come before anything else. What comes after
        // them may be a lot, and is decided where the run looks at the world now and then.
        while last.is_some_and(|last| self.state.next_effect() <= last)
            && let Next::Record(events) = decide(&self.state)
        {
            for event in events {
                self.record_decided(batch, event, waiting)?;
            }
        }
        self.clock_reading = None;
        ahead.running = 0;
        for call in ahead.calls.drain(..) {
            if let Some((reply, _)) = call.ended {
                self.take(batch, (call.effect, EffectReply::Invoke(reply)))?;
            }
        }
        Ok(())
    }

    /// Waits until something happens.
    async fn hear(
        &mut self,
        batch: &mut Batch,
        ahead: &mut Ahead,
        in_flight: &mut InFlight,
    ) -> Result<Interrupt, RunError> {
        if let Ok(message) = self.inbox.try_recv() {
            return Ok(Interrupt::Else(Some(message)));
        }
        self.look_behind().await?;
        let mut heard = false;
        while let Some(done) = in_flight.ended().now_or_never() {
            ahead.end(done, self.ports.timer.now());
            heard = true;
            // Those that work elsewhere should find more to do before they have ended what they have.
            if ahead.running * 4 <= ahead.at_once * 3 {
                break;
            }
        }
        if heard {
            return Ok(Interrupt::Nothing);
        }
        tokio::select! {
            biased;
            done = in_flight.ended() => ahead.end(done, self.ports.timer.now()),
            Some(message) = self.inbox.recv() => return Ok(Interrupt::Else(Some(message))),
            done = appended(&mut self.pending_append) => self.appended(done)?,
            () = self.ownership.lost() => return Err(self.lease_lost()),
            () = self.shutdown.started() => return Ok(Interrupt::Else(None)),
            () = self.release.cancelled() => return Ok(Interrupt::Else(None)),
            () = tokio::time::sleep(MAX_APPEND_DELAY) => {
                if !batch.events.is_empty() {
                    self.flush_behind(batch).await?;
                }
                ahead.waits += 1;
                if MAX_APPEND_DELAY * ahead.waits >= DIRECT_CALL_WAIT {
                    return Ok(Interrupt::Else(None));
                }
            }
        }
        Ok(Interrupt::Nothing)
    }
}

impl Ahead {
    fn end(&mut self, (effect, reply): Done, at: Timestamp) {
        let call = self.calls.iter_mut().find(|call| call.effect == effect);
        if let (Some(call), EffectReply::Invoke(reply)) = (call, reply) {
            call.ended = Some((reply, at));
            self.running -= 1;
            self.waits = 0;
        }
    }
}
