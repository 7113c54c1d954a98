//! The journal of the calls that an effect's cell makes.
//!
//! Each call has its place: the first call of a cell, the second, and so on. A call that may change something begins
//! after its request is durable, and the cell gets no answer that is not. After a crash, or when a person was asked,
//! the cell is run again from its start: with its seed and the readings of its clocks, and with the recorded answer for
//! each call that it made before. It does the same again, and continues where its record ends. A cell that calls something
//! else than its record says has *diverged*: nothing more is called for it, and its effect fails.

mod placed;

pub use placed::{Approval, Concurrency, EndedCall, PlacedCall, Turn};

use crate::ports::{Effects, Failure, Reply, SystemTimer, Timer};
use opcell_core::{
    decide::ValueLimits,
    event::{AskedInnerCall, EffectReply, Event, InnerRequest, Timestamp},
    id::EffectId,
    state::{Changed, InnerApproval, InnerCall, InnerCalls},
};
use opcell_types::{
    CallContext, ClockReadings, Digest, GivenInput, InputRequest, Source, Timeline, TouchLog, Touched, Value,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::{mpsc, oneshot};

/// The journal of the calls of one cell. Clones share it.
#[derive(Debug, Clone)]
pub struct InnerJournal(Arc<Shared>);

struct Shared {
    effect: EffectId,
    /// The key of the effect, of which each call has its own.
    key: Arc<str>,
    recorded: Vec<InnerCall>,
    /// The answers of people about its calls.
    approvals: Vec<InnerApproval>,
    timeline: Timeline,
    limits: ValueLimits,
    /// `true` if nothing is called: a cell that calls what its record does not answer has diverged.
    is_closed: bool,
    progress: Mutex<Progress>,
    events: mpsc::UnboundedSender<InnerEvents>,
    timer: Arc<dyn Timer>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InnerJournal").field("effect", &self.effect).finish_non_exhaustive()
    }
}

/// The name of a timer among the calls of a cell.
const TIMER: &str = "sleep";

/// Milliseconds for which a cell that waits for nothing but time is kept.
const MAX_AWAKE_MS: f64 = 5_000.0;

/// Milliseconds after which a task of a server is polled for again by a cell that was dropped: a tenth of its age, within
/// these bounds.
const TASK_POLL_MS: (f64, f64) = (MAX_AWAKE_MS + 1_000.0, 60_000.0);

#[derive(Debug, Default)]
struct Progress {
    /// The place of the next call.
    next: usize,
    diverged: Option<Failure>,
    /// The calls in progress, while the cell waits for them; `None` while it runs.
    awaited: Option<usize>,
    /// The calls that wait for a person, in the order in which they came to it.
    suspended: Vec<SuspendedCall>,
    /// The timers that have not ended, and the next polls for tasks, by their places.
    timers: BTreeMap<u32, Timestamp>,
    /// The turn of the call that ended last, of several at once.
    last_turn: Option<oneshot::Receiver<Infallible>>,
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
    /// Questions about calls of one effect's cell, which can do nothing before they have answers.
    Ask { effect: EffectId, calls: Vec<SuspendedCall> },
    /// Nothing but time: the cell is dropped, and run again when its first timer ends.
    Sleep { effect: EffectId, until: Timestamp },
}

/// The answer that a call waits for.
#[derive(Debug)]
pub(crate) enum SuspendedFor {
    /// A person has to approve it.
    Approval(AskedInnerCall),
    /// Its tool asks a person for input, by this event.
    Input(Event),
}

/// A call that waits for a person.
#[derive(Debug)]
pub(crate) struct SuspendedCall {
    pub place: u32,
    pub waits: SuspendedFor,
    /// Told if no person is asked about it; dropped if one is, and the cell with it.
    pub told: oneshot::Sender<Unasked>,
}

/// The reason for which no person is asked about a call now.
#[derive(Debug)]
pub(crate) enum Unasked {
    /// It may be made.
    Approved,
    /// It is not made.
    Refused(Failure),
    /// Other calls of the cell continue first.
    Later,
}

/// The record of a call.
#[derive(Debug)]
enum Recorded {
    /// It was answered.
    Answered { nth: u32, reply: Reply<Value> },
    /// It was requested, and is made again.
    Requested,
    /// It has its place, and waits for a person.
    Waits,
    /// The record ends before it.
    Not,
}

/// The state of the question about a call.
#[derive(Debug)]
enum Asking {
    /// No rule asks, or a person has approved it.
    No { changed: Option<Value> },
    /// A person has refused it.
    Refused(Failure),
    /// A person has to be asked.
    Yes,
}

impl Shared {
    fn of(
        known: &InnerCalls,
        (effect, key): (EffectId, Arc<str>),
        timeline: Timeline,
        limits: ValueLimits,
        (events, timer): (mpsc::UnboundedSender<InnerEvents>, Arc<dyn Timer>),
    ) -> Self {
        let (recorded, approvals) = (known.calls.clone(), known.approvals.clone());
        // Cells that make one call after another never say that they wait for it.
        let progress = Mutex::new(Progress { awaited: Some(1), ..Progress::default() });
        let is_closed = false;
        Self { effect, key, recorded, approvals, timeline, limits, is_closed, progress, events, timer }
    }
}

impl InnerJournal {
    pub(crate) fn new(
        effect: EffectId,
        key: Arc<str>,
        known: &InnerCalls,
        limits: ValueLimits,
        (events, timer): (mpsc::UnboundedSender<InnerEvents>, Arc<dyn Timer>),
    ) -> Self {
        let timeline = Timeline::new(known.seed.to_bytes(), known.clocks());
        Self(Arc::new(Shared::of(known, (effect, key), timeline, limits, (events, timer))))
    }

    /// The journal of a cell that belongs to no run.
    pub(crate) fn outside_of_runs(
        known: &InnerCalls,
        timeline: Timeline,
        limits: ValueLimits,
        (events, timer): (mpsc::UnboundedSender<InnerEvents>, Arc<dyn Timer>),
    ) -> Self {
        Self(Arc::new(Shared::of(known, (EffectId(0), "".into()), timeline, limits, (events, timer))))
    }

    /// The journal of a cell that calls nothing: each of its calls has the recorded answer, or fails as diverged.
    pub(crate) fn closed(known: &InnerCalls) -> Self {
        // No driver listens: nothing is recorded.
        let ports = (mpsc::unbounded_channel().0, Arc::new(SystemTimer) as _);
        let timeline = Timeline::new(known.seed.to_bytes(), known.clocks());
        let mut shared = Shared::of(known, (EffectId(0), "".into()), timeline, ValueLimits::default(), ports);
        // What the calls touched then is touched no more.
        shared.recorded.iter_mut().filter_map(|call| call.reply.as_mut()).for_each(|reply| reply.receipt = None);
        shared.is_closed = true;
        Self(Arc::new(shared))
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
        make: impl Fn(CallContext) -> F,
    ) -> Reply<Value> {
        let make = |context: CallContext, _| make(context);
        match self.begin(tool, arguments, false, Concurrency::Alone) {
            Ok(call) => call.make(effects, context, make).await.reply,
            Err(failure) => Err(failure).into(),
        }
    }

    /// Gives the next call of the cell its place. The order in which this is called decides it. `asks`: a person has to
    /// approve the call.
    ///
    /// # Errors
    /// When the arguments are beyond the limits of values, or the cell calls something else than its record says.
    pub fn begin(
        &self,
        tool: &str,
        arguments: &Value,
        asks: bool,
        concurrency: Concurrency,
    ) -> Result<PlacedCall, Failure> {
        self.0.limits.check(arguments)?;
        let mut progress = self.progress();
        if let Some(diverged) = &progress.diverged {
            return Err(diverged.clone());
        }
        let at = progress.next;
        let place = u32::try_from(at).map_err(|_| Failure::host("host-call-limit", "the cell makes too many calls"))?;
        let request = |tool: &str, arguments: &Value| InnerRequest {
            place,
            tool: tool.into(),
            arguments: arguments.clone(),
            effects: Effects::Once,
            clocks: ClockReadings::default(),
            waits: false,
            until: None,
        };
        let mut check = |known: InnerRequest, arguments: &Value| {
            if *known.tool == *tool && known.arguments == *arguments {
                return Ok(());
            }
            let failure = diverged(&known, Some(&request(tool, arguments)));
            progress.diverged = Some(failure.clone());
            Err(failure)
        };
        let answer = self.0.approvals.iter().find(|approval| asks && approval.asked.place == place);
        let recorded = self.0.recorded.get(at);
        let asking = match answer {
            Some(InnerApproval { asked, answer }) => {
                check(request(&asked.tool, &asked.arguments), arguments)?;
                match answer {
                    Ok(Changed(changed)) => Asking::No { changed: Some(changed.clone()).filter(|of| !of.is_nullish()) },
                    Err(refused) => Asking::Refused(refused.clone()),
                }
            }
            // One that was made without a question is made without one again.
            None if asks && recorded.is_none_or(|call| call.request.waits) => Asking::Yes,
            None => Asking::No { changed: None },
        };
        let asked = arguments;
        let arguments = match &asking {
            Asking::No { changed: Some(changed) } => changed.clone(),
            _ => arguments.clone(),
        };
        let recorded = match recorded {
            None => Recorded::Not,
            Some(InnerCall { request, reply, nth, .. }) => {
                check(request.clone(), if request.waits { asked } else { &arguments })?;
                match reply {
                    Some(reply) => Recorded::Answered { nth: *nth, reply: reply.clone() },
                    None if request.waits => Recorded::Waits,
                    None => Recorded::Requested,
                }
            }
        };
        if self.0.is_closed && !matches!(recorded, Recorded::Answered { .. }) {
            let failure = unanswered(&request(tool, &arguments), matches!(recorded, Recorded::Not));
            progress.diverged = Some(failure.clone());
            return Err(failure);
        }
        progress.next = at + 1;
        let until = self.0.recorded.get(at).and_then(|call| call.request.until);
        let (journal, tool, requested) = (self.clone(), tool.into(), None);
        Ok(PlacedCall { journal, place, tool, arguments, recorded, asking, concurrency, requested, until })
    }

    /// Starts a timer of the cell, which has its place among the calls.
    ///
    /// # Errors
    /// When the cell does something else than its record says, or has read its clocks too often.
    pub fn start_timer(&self, ms: u64) -> Result<PlacedCall, Failure> {
        let arguments = Value::from(json!({ "ms": ms }));
        let mut timer = self.begin(TIMER, &arguments, false, Concurrency::AmongOthers)?;
        timer.until.get_or_insert_with(|| self.0.timer.now().plus_ms(ms as f64));
        timer.request(Effects::Pure)?;
        Ok(timer)
    }

    /// The cell waits for calls of which this many are in progress, or, with `None`, continues. When all of them wait
    /// for people, they are asked.
    pub fn awaits(&self, calls: Option<usize>) {
        let mut progress = self.progress();
        progress.awaited = calls;
        self.ask_if_nothing_continues(&mut progress);
    }

    fn ask_if_nothing_continues(&self, progress: &mut Progress) {
        let waiting = progress.suspended.len() + progress.timers.len();
        if waiting == 0 || progress.awaited.is_none_or(|calls| waiting < calls) {
            return;
        }
        if progress.suspended.is_empty() {
            let first = progress.timers.values().copied().min();
            let effect = self.0.effect;
            if let Some(until) = first.filter(|until| until.ms_since(self.0.timer.now()) > MAX_AWAKE_MS) {
                let _ = self.0.events.send(InnerEvents::Sleep { effect, until });
            }
            return;
        }
        let mut calls = std::mem::take(&mut progress.suspended);
        calls.sort_by_key(|suspended| suspended.place);
        // Without a driver nothing more happens: the calls never end.
        let _ = self.0.events.send(InnerEvents::Ask { effect: self.0.effect, calls });
    }

    /// A call waits for a person; returns why no person is asked about it now.
    fn suspend(&self, place: u32, waits: SuspendedFor) -> oneshot::Receiver<Unasked> {
        let (told, answer) = oneshot::channel();
        let mut progress = self.progress();
        progress.suspended.push(SuspendedCall { place, waits, told });
        self.ask_if_nothing_continues(&mut progress);
        answer
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.0.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keyed(&self, context: CallContext, place: u32) -> CallContext {
        let idempotency_key = match self.0.key.as_ref() {
            "" => context.idempotency_key,
            key => format!("{key}/{}", u64::from(place) + 1).into(),
        };
        CallContext { idempotency_key, ..context }
    }

    /// Hands events over to be made durable; tells when they are.
    fn send(&self, events: Vec<Event>) -> oneshot::Receiver<()> {
        let (durable, told) = oneshot::channel();
        // Without a driver the receiver learns that they never will be.
        let _ = self.0.events.send(InnerEvents::Record { effect: self.0.effect, events, durable });
        told
    }

    /// The reply of the effect, or its failure where its cell has diverged.
    pub(crate) fn concluded(&self, reply: EffectReply) -> EffectReply {
        match reply {
            EffectReply::Invoke(reply) => EffectReply::Invoke(self.checked(reply)),
            EffectReply::Tool(reply) => EffectReply::Tool(self.checked(reply)),
            other => other,
        }
    }

    /// The reply of a cell, or its failure where it has diverged from its record.
    #[must_use]
    pub fn checked<T>(&self, reply: Reply<T>) -> Reply<T> {
        let progress = self.progress();
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

impl InnerJournal {
    /// Waits until a task of a server is polled for again. Never ends if the cell waits for nothing else: the cell is
    /// dropped, and run again then.
    async fn poll_later(&self, place: u32, began: Timestamp) {
        let now = self.0.timer.now();
        let wait = (now.ms_since(began) / 10.0).clamp(TASK_POLL_MS.0, TASK_POLL_MS.1);
        {
            let mut progress = self.progress();
            progress.timers.insert(place, now.plus_ms(wait));
            self.ask_if_nothing_continues(&mut progress);
        }
        self.0.timer.sleep(wait).await;
        self.progress().timers.remove(&place);
    }
}

/// The reply of a call of a cell, or its failure where it takes longer than `limit`. A call that continues as a task of
/// its server (`given`) is polled for a short time, and then later again.
pub async fn within(
    limit: Duration,
    given: Option<&GivenInput>,
    call: impl Future<Output = Reply<Value>>,
) -> Reply<Value> {
    let task = given.and_then(|given| given.task.clone());
    let limit = if task.is_some() { limit.min(Duration::from_secs_f64(MAX_AWAKE_MS / 1000.0)) } else { limit };
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
        let late = Failure::host("timeout", format!("the tool did not answer within {} ms", limit.as_millis()));
        let Some(task) = task else { return Err(late).into() };
        let (server, tool) = ("".into(), "".into());
        let request = InputRequest { server, tool, forms: Vec::new(), state: None, task: Some(task) };
        Err(late.with_input(request)).into()
    })
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

/// The failure of a cell that calls nothing, and calls what its record does not answer.
fn unanswered(now: &InnerRequest, is_unknown: bool) -> Failure {
    let number = u64::from(now.place) + 1;
    let shown = now.shown();
    let (message, recorded) = match is_unknown {
        true => (format!("it took another way than its record, which ends before call {number}: now `{shown}`"), None),
        false => {
            (format!("its record has no answer to call {number}, `{shown}`: the run was interrupted"), Some(&shown))
        }
    };
    Failure::host("diverged", message).with_details(json!({"call": number, "recorded": recorded, "now": shown}))
}

/// A seed that no one can guess.
pub(crate) fn seed() -> Digest {
    let mut seed = [0; 32];
    for part in seed.as_chunks_mut::<16>().0 {
        *part = uuid::Uuid::new_v4().into_bytes();
    }
    Digest::of_hash(seed)
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
