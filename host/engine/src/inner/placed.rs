//! One call of a cell: its question to a person, its record, its turn.

use super::{Asking, InnerJournal, Recorded, SuspendedFor, Unasked, read_too_often};
use crate::ports::{Effects, Failure, Reply};
use opcell_core::{
    event::{AskedInnerCall, EffectReply, Event, InnerRequest, Timestamp},
    state::{InnerCall, MAX_INPUT_ROUNDS},
};
use opcell_types::{CallContext, ClockReadings, GivenInput, Value};
use std::{
    convert::Infallible,
    future::{Future, pending, ready},
    sync::Arc,
};
use tokio::sync::oneshot;

/// A person's answer about a call.
#[derive(Debug)]
pub enum Approval {
    /// It is made; with these arguments, where they were changed.
    Approved(Option<Value>),
    /// It is not made. It takes its place all the same: it is a call that fails with this.
    Refused(Failure),
}

/// The calls that a cell makes while a call is in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// None: the cell waits for it.
    Alone,
    /// Any number.
    AmongOthers,
}

/// A call of a cell that has its place.
#[derive(Debug)]
pub struct PlacedCall {
    pub(super) journal: InnerJournal,
    pub(super) place: u32,
    pub(super) tool: Arc<str>,
    /// As a person has changed them, if one has.
    pub(super) arguments: Value,
    pub(super) recorded: Recorded,
    pub(super) asking: Asking,
    pub(super) concurrency: Concurrency,
    /// Told when its request is durable.
    pub(super) requested: Option<oneshot::Receiver<()>>,
    /// The end of a timer.
    pub(super) until: Option<Timestamp>,
}

/// A call that has ended.
#[derive(Debug)]
pub struct EndedCall {
    /// The reply.
    pub reply: Reply<Value>,
    /// Its place in the order in which calls ended, if it was answered from the record.
    pub nth: Option<u32>,
    /// The turn among several calls at once. The next call ends when it is dropped, so that a cell learns of them in the
    /// recorded order.
    pub turn: Option<Turn>,
}

/// The turn of a call that has ended.
#[derive(Debug)]
pub struct Turn {
    _next: oneshot::Sender<Infallible>,
}

impl From<Reply<Value>> for EndedCall {
    fn from(reply: Reply<Value>) -> Self {
        Self { reply, nth: None, turn: None }
    }
}

impl PlacedCall {
    /// The arguments that it is made with: the cell's own, or as a person has changed them.
    #[must_use]
    pub fn arguments(&self) -> &Value {
        &self.arguments
    }

    /// The end of the call, if the record has it.
    ///
    /// # Errors
    /// Returns the call if it has to be made.
    #[allow(clippy::result_large_err, reason = "the call is moved once, to where it is made")]
    pub fn recorded(self) -> Result<EndedCall, Self> {
        match self.recorded {
            Recorded::Answered { nth, reply } => Ok(EndedCall { reply, nth: Some(nth), turn: None }),
            _ => Err(self),
        }
    }

    /// Records that the cell calls it, before others that get their places after it. A call that is made alone is
    /// recorded when it is made.
    ///
    /// # Errors
    /// When the clocks were read too often.
    pub fn request(&mut self, effects: Effects) -> Result<(), Failure> {
        if let Some(event) = self.take_request(effects)? {
            self.requested = Some(self.journal.send(vec![event]));
        }
        Ok(())
    }

    /// Its request, unless it is recorded.
    fn take_request(&mut self, effects: Effects) -> Result<Option<Event>, Failure> {
        let waits = matches!(self.asking, Asking::Yes);
        let clocks = match &self.recorded {
            Recorded::Not => self.journal.0.timeline.take_new().ok_or_else(read_too_often)?,
            Recorded::Waits if !waits => ClockReadings::default(),
            _ => return Ok(None),
        };
        self.recorded = if waits { Recorded::Waits } else { Recorded::Requested };
        let (place, tool, arguments) = (self.place, self.tool.clone(), self.arguments.clone());
        let call = Box::new(InnerRequest { place, tool, arguments, effects, clocks, waits, until: self.until });
        Ok(Some(Event::InnerRequested { effect: self.journal.0.effect, call }))
    }

    /// Waits for the person who has to approve it, if one has to and has not answered.
    ///
    /// Never ends if a person is asked now: the cell ends, and is run again when there is an answer. That happens when
    /// the cell waits, and no other call of it is in progress.
    pub async fn approval(&mut self) -> Approval {
        loop {
            match &self.asking {
                Asking::No { changed } => return Approval::Approved(changed.clone()),
                Asking::Refused(refused) => return Approval::Refused(refused.clone()),
                Asking::Yes => {}
            }
            let (effect, place, tool) = (self.journal.0.effect, self.place, self.tool.clone());
            let call = AskedInnerCall { effect, place, tool, arguments: self.arguments.clone() };
            match self.journal.suspend(place, SuspendedFor::Approval(call)).await {
                Ok(Unasked::Approved) => self.asking = Asking::No { changed: None },
                Ok(Unasked::Refused(refused)) => self.asking = Asking::Refused(refused),
                Ok(Unasked::Later) => {}
                Err(_) => return pending().await,
            }
        }
    }

    /// Waits until the time of a timer has come.
    ///
    /// Never ends if that is long, and the cell waits for nothing else: the cell ends, and is run again at that time.
    pub async fn end_timer(self) -> EndedCall {
        let (journal, place) = (self.journal.clone(), self.place);
        let Some(until) = self.until.filter(|_| !matches!(self.recorded, Recorded::Answered { .. })) else {
            return self.make(Effects::Pure, CallContext::default(), |_, _| ready(Ok(Value::Null).into())).await;
        };
        let left = until.ms_since(journal.0.timer.now());
        if left > 0.0 {
            {
                let mut progress = journal.progress();
                progress.timers.insert(place, until);
                journal.ask_if_nothing_continues(&mut progress);
            }
            journal.0.timer.sleep(left).await;
            journal.progress().timers.remove(&place);
        }
        self.make(Effects::Pure, CallContext::default(), |_, _| ready(Ok(Value::Null).into())).await
    }

    /// Makes the call, or answers it from the record. `make` performs it, in the context that it is given: `context`
    /// with the call's own key; and with the answers to what its tool asked for.
    ///
    /// Never ends if the run has lost its driver, or begins nothing any more: the cell then ends with its effect. The same
    /// if its tool asks a person for input: the cell is run again when the answers are there.
    pub async fn make<F: Future<Output = Reply<Value>>>(
        self,
        effects: Effects,
        context: CallContext,
        make: impl Fn(CallContext, Option<Arc<GivenInput>>) -> F,
    ) -> EndedCall {
        let mut call = match self.recorded() {
            Ok(ended) => return ended,
            Err(call) => call,
        };
        let journal = call.journal.clone();
        let limits = &journal.0.limits;
        if let Err(failure) = limits.check(&call.arguments) {
            return Reply::from(Err(failure)).into();
        }
        // A person who refused it decided as well: it is a call that fails.
        if let Asking::Refused(_) = call.asking {
            call.asking = Asking::No { changed: None };
        }
        let mut events: Vec<Event> = match call.take_request(effects) {
            Ok(request) => request.into_iter().collect(),
            Err(failure) => return Reply::from(Err(failure)).into(),
        };
        let is_alone = call.concurrency == Concurrency::Alone;
        // A call that changes nothing may be made first: made alone, it is recorded with its answer.
        let is_recorded_later = is_alone && effects == Effects::Pure;
        if !events.is_empty() && !is_recorded_later {
            call.requested = Some(journal.send(std::mem::take(&mut events)));
        }
        if effects != Effects::Pure
            && let Some(requested) = call.requested.take()
        {
            durable(requested).await;
        }
        let context = journal.keyed(context, call.place);
        let Reply { result, receipt } = call.end_call_or_wait(&mut events, |given| make(context.clone(), given)).await;
        let result = result.and_then(|value| limits.check(&value).map(|()| value));
        let reply = Reply { result, receipt: receipt.map(|receipt| receipt.without_record()) };
        let replied =
            Event::InnerReplied { effect: journal.0.effect, place: call.place, reply: Box::new(reply.clone()) };
        if is_alone {
            events.push(replied);
            durable(journal.send(events)).await;
            return reply.into();
        }
        if let Some(requested) = call.requested.take() {
            durable(requested).await;
        }
        let (next, turn) = oneshot::channel();
        let (told, previous) = {
            // The order of turns is the order of the events.
            let mut progress = journal.progress();
            (journal.send(vec![replied]), progress.last_turn.replace(turn))
        };
        durable(told).await;
        if let Some(previous) = previous {
            // It ends when its turn is over; nothing is ever sent.
            let _ = previous.await;
        }
        EndedCall { reply, nth: None, turn: Some(Turn { _next: next }) }
    }

    /// Makes the call until it has ended: one whose tool asks for input waits for a person, and one that continues as a
    /// task of its server is polled for. `events` are those to be recorded with what comes next.
    async fn end_call_or_wait<F: Future<Output = Reply<Value>>>(
        &mut self,
        events: &mut Vec<Event>,
        make: impl Fn(Option<Arc<GivenInput>>) -> F,
    ) -> Reply<Value> {
        let (journal, place) = (self.journal.clone(), self.place);
        let known = usize::try_from(place).ok().and_then(|at| journal.0.recorded.get(at));
        let mut given = known.and_then(InnerCall::given_input);
        let mut rounds = known.map_or(0, InnerCall::input_rounds);
        let began = known.and_then(InnerCall::asked_at).unwrap_or_else(|| journal.0.timer.now());
        loop {
            let reply = EffectReply::Tool(make(given.clone()).await);
            let Some(request) = reply.input().cloned() else { return of_tool(reply) };
            let is_same_task = given.as_ref().is_some_and(|given| given.task.is_some() && given.task == request.task);
            if request.forms.is_empty() && is_same_task {
                journal.poll_later(place, began).await;
                continue;
            }
            if rounds >= MAX_INPUT_ROUNDS {
                return of_tool(reply.without_input());
            }
            rounds += 1;
            let asked = Event::InputAsked { effect: journal.0.effect, place: Some(place), reply: Box::new(reply) };
            if request.forms.is_empty() {
                events.push(asked);
                durable(journal.send(std::mem::take(events))).await;
                given = Some(Arc::new(GivenInput { state: None, answers: Vec::new(), task: request.task.clone() }));
                continue;
            }
            // What was requested is durable before what was asked.
            if !events.is_empty() {
                durable(journal.send(std::mem::take(events))).await;
            }
            if let Some(requested) = self.requested.take() {
                durable(requested).await;
            }
            loop {
                match journal.suspend(place, SuspendedFor::Input(asked.clone())).await {
                    // Other calls of the cell continue first.
                    Ok(Unasked::Later | Unasked::Approved) => {}
                    Ok(Unasked::Refused(failure)) => return Err(failure).into(),
                    Err(_) => return pending().await,
                }
            }
        }
    }
}

/// Waits until events are durable.
async fn durable(told: oneshot::Receiver<()>) {
    if told.await.is_err() {
        // The driver records nothing more, so that nothing more may happen.
        pending::<()>().await;
    }
}

/// The reply of a tool, which [`EffectReply::Tool`] holds.
fn of_tool(reply: EffectReply) -> Reply<Value> {
    match reply {
        EffectReply::Tool(reply) => reply,
        _ => Err(Failure::host("internal", "the call has the reply of something else")).into(),
    }
}
