//! The journal of the calls that an effect's cell makes.
//!
//! Each call has its place: the first call of a cell, the second, and so on. A call that may change something begins
//! after its request is durable, and the cell gets no answer that is not. After a crash, or when a person was asked,
//! the cell is run again from its start: with its seed and the readings of its clocks, and with the recorded answer for
//! each call that it made before. It does the same again, and continues where its record ends. A cell that calls something
//! else than its record says has *diverged*: nothing more is called for it, and its effect fails.

use crate::ports::{Effects, Failure, Reply};
use opcell_core::{
    decide::ValueLimits,
    event::{AskedInnerCall, EffectReply, Event, InnerRequest},
    id::EffectId,
    state::{Changed, InnerApproval, InnerCall, InnerCalls},
};
use opcell_types::{CallContext, ClockReadings, Source, Timeline, TouchLog, Touched, Value};
use serde_json::json;
use std::{
    future::{Future, pending},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{mpsc, oneshot};

/// The journal of the calls of one cell. Clones share it.
#[derive(Debug, Clone)]
pub struct InnerJournal(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    effect: EffectId,
    /// The key of the effect, of which each call has its own.
    key: Arc<str>,
    recorded: Vec<InnerCall>,
    /// The answers of people about its calls.
    approvals: Vec<InnerApproval>,
    timeline: Timeline,
    limits: ValueLimits,
    progress: Mutex<Progress>,
    events: mpsc::UnboundedSender<InnerEvents>,
}

#[derive(Debug, Default)]
struct Progress {
    /// The place of the next call.
    next: usize,
    diverged: Option<Failure>,
}

/// Something that an effect's cell needs of the driver of its run.
#[derive(Debug)]
pub(crate) enum InnerEvents {
    /// Events to be made durable.
    Record {
        effect: EffectId,
        events: Vec<Event>,
        /// Told when they are; dropped if they will not be.
        durable: oneshot::Sender<()>,
    },
    /// A question about its next call.
    Ask {
        call: AskedInnerCall,
        /// Told if no one needs to be asked; dropped if a person is, and the cell with it.
        told: oneshot::Sender<Result<(), Failure>>,
    },
}

/// A person's answer about a call.
#[derive(Debug)]
pub enum Approval {
    /// It is made; with these arguments, where they were changed.
    Approved(Option<Value>),
    /// It is not made. It takes its place all the same: it is a call that fails with this.
    Refused(Failure),
}

/// The place of a call in its record.
enum Recorded {
    /// It was answered.
    Answered(Reply<Value>),
    /// It was requested, and is made again.
    Requested,
    /// The record ends before it.
    Not,
}

impl InnerJournal {
    pub(crate) fn new(
        effect: EffectId,
        key: Arc<str>,
        known: &InnerCalls,
        limits: ValueLimits,
        events: mpsc::UnboundedSender<InnerEvents>,
    ) -> Self {
        let timeline = Timeline::new(known.seed.to_bytes(), known.clocks());
        let (recorded, approvals) = (known.calls.clone(), known.approvals.clone());
        Self(Arc::new(Shared {
            effect,
            key,
            recorded,
            approvals,
            timeline,
            limits,
            progress: Mutex::default(),
            events,
        }))
    }

    /// The randomness and the clocks of the cell.
    #[must_use]
    pub fn timeline(&self) -> Timeline {
        self.0.timeline.clone()
    }

    /// Makes the next call of the cell, or answers it from the record. `make` performs it, in the context that it is
    /// given: `context` with the call's own key.
    ///
    /// Never ends if the run has lost its driver, or begins nothing any more: the cell then ends with its effect.
    pub async fn call<F: Future<Output = Reply<Value>>>(
        &self,
        (tool, arguments, effects): (&str, &Value, Effects),
        context: CallContext,
        make: impl FnOnce(CallContext) -> F,
    ) -> Reply<Value> {
        if let Err(failure) = self.0.limits.check(arguments) {
            return Err(failure).into();
        }
        let (place, recorded) = match self.next(tool, arguments) {
            Ok(found) => found,
            Err(diverged) => return Err(diverged).into(),
        };
        let mut requested = Vec::new();
        match recorded {
            Recorded::Answered(reply) => return reply,
            Recorded::Requested => {}
            Recorded::Not => {
                let Some(clocks) = self.0.timeline.take_new() else { return Err(read_too_often()).into() };
                let (tool, arguments) = (tool.into(), arguments.clone());
                let call = Box::new(InnerRequest { place, tool, arguments, effects, clocks });
                requested.push(Event::InnerRequested { effect: self.0.effect, call });
                // A call that changes nothing may be made first: it is recorded with its answer.
                if effects != Effects::Pure {
                    self.record(std::mem::take(&mut requested)).await;
                }
            }
        }
        let Reply { result, receipt } = make(self.keyed(context, place)).await;
        let result = result.and_then(|value| self.0.limits.check(&value).map(|()| value));
        let reply = Reply { result, receipt: receipt.map(|receipt| receipt.without_record()) };
        requested.push(Event::InnerReplied { effect: self.0.effect, place, reply: Box::new(reply.clone()) });
        self.record(requested).await;
        reply
    }

    /// Asks a person about the next call of the cell, unless one has answered.
    ///
    /// Never ends if a person is asked now: the cell ends, and is run again when there is an answer.
    ///
    /// # Errors
    /// When the cell calls something else than what a person was shown.
    pub async fn approval(&self, tool: &str, arguments: &Value) -> Result<Approval, Failure> {
        if let Err(failure) = self.0.limits.check(arguments) {
            return Ok(Approval::Refused(failure));
        }
        let place = {
            let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(diverged) = &progress.diverged {
                return Err(diverged.clone());
            }
            let place = u32::try_from(progress.next).unwrap_or(u32::MAX);
            if let Some(InnerApproval { asked, answer }) =
                self.0.approvals.iter().find(|approval| approval.asked.place == place)
            {
                if *asked.tool != *tool || asked.arguments != *arguments {
                    let request = |tool: Arc<str>, arguments: Value| InnerRequest {
                        place,
                        tool,
                        arguments,
                        effects: Effects::Once,
                        clocks: ClockReadings::default(),
                    };
                    let shown = request(asked.tool.clone(), asked.arguments.clone());
                    let failure = diverged(&shown, Some(&request(tool.into(), arguments.clone())));
                    progress.diverged = Some(failure.clone());
                    return Err(failure);
                }
                return Ok(match answer {
                    Ok(Changed(arguments)) => Approval::Approved(Some(arguments.clone()).filter(|of| !of.is_nullish())),
                    Err(refused) => Approval::Refused(refused.clone()),
                });
            }
            if self.0.recorded.len() > progress.next {
                // It was made without a question.
                return Ok(Approval::Approved(None));
            }
            place
        };
        let call = AskedInnerCall { effect: self.0.effect, place, tool: tool.into(), arguments: arguments.clone() };
        let (told, answer) = oneshot::channel();
        if self.0.events.send(InnerEvents::Ask { call, told }).is_err() {
            return pending().await;
        }
        match answer.await {
            Ok(Ok(())) => Ok(Approval::Approved(None)),
            Ok(Err(refused)) => Ok(Approval::Refused(refused)),
            Err(_) => pending().await,
        }
    }

    /// The place of the next call, and its record.
    fn next(&self, tool: &str, arguments: &Value) -> Result<(u32, Recorded), Failure> {
        let mut progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(diverged) = &progress.diverged {
            return Err(diverged.clone());
        }
        let at = progress.next;
        let place = u32::try_from(at).map_err(|_| Failure::host("host-call-limit", "the cell makes too many calls"))?;
        let recorded = match self.0.recorded.get(at) {
            None => Recorded::Not,
            Some(InnerCall { request, .. }) if *request.tool != *tool || request.arguments != *arguments => {
                let now = InnerRequest { tool: tool.into(), arguments: arguments.clone(), ..request.clone() };
                let failure = diverged(request, Some(&now));
                progress.diverged = Some(failure.clone());
                return Err(failure);
            }
            Some(InnerCall { reply: Some(reply), .. }) => Recorded::Answered(reply.clone()),
            Some(InnerCall { reply: None, .. }) => Recorded::Requested,
        };
        progress.next = at + 1;
        Ok((place, recorded))
    }

    fn keyed(&self, context: CallContext, place: u32) -> CallContext {
        let idempotency_key = match self.0.key.as_ref() {
            "" => context.idempotency_key,
            key => format!("{key}/{}", u64::from(place) + 1).into(),
        };
        CallContext { idempotency_key, ..context }
    }

    /// Makes events durable.
    async fn record(&self, events: Vec<Event>) {
        let (durable, told) = oneshot::channel();
        let events = InnerEvents::Record { effect: self.0.effect, events, durable };
        if self.0.events.send(events).is_err() || told.await.is_err() {
            // The driver records nothing more, so that nothing more may happen.
            pending::<()>().await;
        }
    }

    /// The reply of the effect, or its failure where its cell has diverged.
    pub(crate) fn concluded(&self, reply: EffectReply) -> EffectReply {
        match reply {
            EffectReply::Invoke(reply) => EffectReply::Invoke(self.checked(reply)),
            EffectReply::Tool(reply) => EffectReply::Tool(self.checked(reply)),
            other => other,
        }
    }

    fn checked<T>(&self, reply: Reply<T>) -> Reply<T> {
        let progress = self.0.progress.lock().unwrap_or_else(PoisonError::into_inner);
        let failure = progress.diverged.clone().or_else(|| {
            // A cell that its host ended did not choose to end here.
            let chose = reply
                .result
                .as_ref()
                .err()
                .is_none_or(|failure| failure.source == Source::Plugin || failure.denial.is_some());
            let missed = self.0.recorded.get(progress.next).filter(|_| chose)?;
            Some(diverged(&missed.request, None))
        });
        match failure {
            Some(failure) => Reply { result: Err(failure), ..reply },
            None => reply,
        }
    }
}

/// The failure of a cell that called something else than its record says, or ended before it did.
fn diverged(recorded: &InnerRequest, now: Option<&InnerRequest>) -> Failure {
    let number = u64::from(recorded.place) + 1;
    let shown = recorded.shown();
    let (message, now) = match now.map(InnerRequest::shown) {
        Some(now) => (
            format!("it was run again and took another way: call {number} was `{shown}`, and now is `{now}`"),
            Some(now),
        ),
        None => {
            (format!("it was run again and took another way: it ended before call {number}, which was `{shown}`"), None)
        }
    };
    Failure::host("diverged", message).with_details(json!({"call": number, "recorded": shown, "now": now}))
}

fn read_too_often() -> Failure {
    let most = opcell_types::timeline::MAX_READINGS;
    let message = format!("the clocks were read more than {most} times, which cannot be recorded; call tools first");
    Failure::host("record-full", message)
}

/// The resources that one call of a cell touches, which are journaled with it. At its end, or when the call is dropped,
/// they are added to those of the cell.
#[derive(Debug)]
pub struct TouchPart<'a> {
    own: TouchLog,
    whole: &'a TouchLog,
}

impl<'a> TouchPart<'a> {
    /// A part of what a cell touches.
    #[must_use]
    pub fn of(whole: &'a TouchLog) -> Self {
        Self { own: TouchLog::default(), whole }
    }

    /// The log in which the call notes what it touches.
    #[must_use]
    pub fn log(&self) -> TouchLog {
        self.own.clone()
    }

    /// Ends a call with its receipt: a call that was answered from its record has noted nothing itself.
    pub fn end(self, receipt: Option<&Value>) {
        if self.own.so_far().is_empty()
            && let Some(touched) = receipt.and_then(|receipt| receipt.get("touched"))
            && let Ok(touched) = serde_json::from_value::<Touched>(touched.into())
        {
            self.own.note(|own| own.absorb(touched));
        }
    }
}

impl Drop for TouchPart<'_> {
    fn drop(&mut self) {
        let own = self.own.take();
        if !own.is_empty() {
            self.whole.note(|whole| whole.absorb(own));
        }
    }
}
