//! The shell: performs what the core wants, and appends what happened before anything depends on it.
//!
//! One iteration of `run_loop` decides until the world is needed, makes the decisions durable, starts the effects that
//! they ask for, and waits for a reply, a message or a timer. Four shortcuts keep an iteration short; each has a bound,
//! because a run that never waits must not starve the others:
//!
//! - *Direct calls.* If the only thing to do is a call of a pure operation, it is made before its request is recorded
//!   (`direct`, `elements`): one event then stands for four. A crash loses the call and nothing else, because repeating
//!   it changes nothing. At most `DIRECT_CALL_BATCH` of them follow each other before the loop polls for messages.
//! - *Pending appends.* While only pure calls are in flight, the loop does not wait for the journal (`durable`): the
//!   append continues beside them, for at most `MAX_APPEND_DELAY`. Any other effect waits until it is durable.
//! - *Few clock readings.* Reading the clock takes a good part of a short step, so a reading stamps several decisions
//!   (`clock_reading`) until something that may take long happens, and the inbox is polled by a clock that is read in
//!   every sixteenth iteration.
//! - *Few yields.* Yielding to other runs moves the run to a thread whose caches know nothing of it, which takes as long
//!   as dozens of steps: it happens in every 64th iteration, and after `YIELD_INTERVAL` of direct calls.

mod direct;
mod durable;
mod elements;
mod inbox;
mod inner;

use crate::{
    error::RunError,
    handle::Listeners,
    in_flight::{Done, InFlight, Work},
    inner::InnerEvents,
    perform::perform,
    pieces::RoundSink,
    ports::{Cancellable, EffectContext, Ports, Reply, RunText, TextSink},
    progress,
    record::{Unread, to_record},
    shutdown::Shutdown,
    updates::Suspension,
};
pub(crate) use durable::Appending;
use durable::appended;
use futures_util::FutureExt;
use opcell_core::{
    Next, Program, RunOutcome, State, Status, decide,
    decide::is_mid_transition,
    effect::{Effect, Task},
    event::{EffectReply, Event, Recorded, Request},
    failure::Failure,
    id::{EffectId, FrameId, Timestamp},
    large::LargeValues,
    message::Message,
    state::InnerCalls,
};
use opcell_journal::{Fence, Journal, JournalError, NewRun, Ownership, Record, RunId, RunState};
use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};
use tokio::{
    sync::{mpsc, watch},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

/// Decisions between two appends; bounds how much a crash can lose and how long a cancel waits.
const DECISION_BATCH: usize = 512;

/// The time that effects may take to stop after the run is cancelled, in milliseconds.
const GRACE_MS: f64 = 5_000.0;

/// Bytes of events between two snapshots, at least.
const MIN_SNAPSHOT_BYTES: usize = 256 << 10;

/// Direct calls before the loop polls for messages.
const DIRECT_CALL_BATCH: usize = 64;

/// The time for which a run whose calls all end at once continues before it yields to others.
const YIELD_INTERVAL: Duration = Duration::from_micros(250);

/// Records that wait for a journal that keeps them as they are: nothing is won by more of them.
const UNREAD_BATCH: usize = 64;

/// The time for which events may wait to become durable while nothing but pure calls depends on them.
const MAX_APPEND_DELAY: Duration = Duration::from_millis(20);

/// The interval at which a suspended run polls its inbox.
const INBOX_POLL: Duration = Duration::from_millis(200);

/// One run being driven.
pub(crate) struct Driver {
    pub ports: Arc<Ports>,
    pub journal: Arc<dyn Journal>,
    pub fence: Fence,
    /// Under which the run was taken.
    pub ownership: Ownership,
    pub run: RunId,
    pub state: State,
    pub inbox: mpsc::UnboundedReceiver<Message>,
    pub listeners: Arc<Listeners>,
    pub sink: Option<Arc<dyn RunText>>,
    /// Published whenever the run stops for a while, and at its end.
    pub outcome: watch::Sender<Option<Result<RunOutcome, RunError>>>,
    /// Published whenever the run is suspended.
    pub suspension: watch::Sender<Suspension>,
    pub cancel: Arc<CancellationToken>,
    /// `true` to release the run when it is suspended.
    pub detach: bool,
    /// The longest timer that a run may wait for alone without being released.
    pub park: Option<Duration>,
    /// Cancelled to release the run.
    pub release: CancellationToken,
    /// Begins when the engine shall end.
    pub shutdown: Shutdown,
    /// Every effect before this one that has not ended is a call of a pure operation.
    pub pure_before: EffectId,
    /// The run's state as the journal last recorded it.
    pub last_state: Option<RunState>,
    pub snapshots: SnapshotBytes,
    /// The large values that the run has written, if the journal keeps values.
    pub values: Option<LargeValues>,
    /// The reading of the clock that stamps what is decided now; `None`: it is read again.
    pub clock_reading: Option<Timestamp>,
    /// The append in flight while pure calls continue.
    pub pending_append: Option<Appending>,
    /// Effects whose questions were answered: they start although later ones have started.
    pub resumed_effects: Vec<EffectId>,
    /// Events of the cells of effects in flight.
    pub inner: (mpsc::UnboundedSender<InnerEvents>, mpsc::UnboundedReceiver<InnerEvents>),
    /// The frame of a step whose elements are too slow to be called ahead.
    pub slow_elements: Option<FrameId>,
    /// When it last yielded to other runs.
    pub last_yield: Instant,
}

/// The sizes that decide when a snapshot is written.
pub(crate) struct SnapshotBytes {
    /// Bytes of events since the last one.
    pub since_last: usize,
    /// Bytes of the last one.
    pub last: usize,
}

/// The events that the journal has not seen yet.
#[derive(Default)]
struct Batch {
    events: Vec<Recorded>,
    /// The same as the journal keeps them, if it reads them.
    records: Vec<Record>,
    /// When the first of them happened.
    since: Option<Instant>,
    /// The last inbox message that is among them.
    inbox: Option<u64>,
}

/// The next request of the run.
#[derive(PartialEq)]
enum Wanted {
    PureCalls,
    Anything,
}

impl Driver {
    /// Makes the run, with all that can be decided before anything happens. A run that is left to another driver is
    /// made without: what was decided to happen might have happened, as far as that driver knows.
    ///
    /// # Errors
    /// When the journal does not take the run.
    pub(crate) async fn begin(&mut self, workflow: &Arc<str>, first: Vec<Event>) -> Result<(), RunError> {
        let mut batch = Batch::default();
        for event in first {
            self.record(&mut batch, event)?;
        }
        let decides = !self.release.is_cancelled();
        while let (true, Next::Record(events)) =
            (decides && batch.events.len() < DECISION_BATCH && !self.calls_next(), decide(&self.state))
        {
            for event in events {
                self.record_decided(&mut batch, event, EffectId(0))?;
            }
        }
        let state = self.run_state();
        let events = Unread::new(batch.events);
        let new = NewRun {
            run: self.run.clone(),
            workflow: workflow.clone(),
            at: self.state.started_at().0,
            records: if self.journal.reads_payloads() { batch.records } else { events.records() },
            state: state.clone(),
        };
        self.fence = self.journal.create(new).await?;
        self.last_state = Some(state);
        self.listeners.notify(self.state.seq(), events.events().iter().cloned());
        Ok(())
    }

    /// Drives the run until it ends or is suspended. `resumed`: another driver drove it before.
    pub(crate) async fn drive(mut self, resumed: bool) {
        let mut result = self.run_loop(resumed).await;
        if result.is_ok() {
            result = self.settle().await;
        }
        if let Err(error) = &result {
            // Whoever took the run over drives it: an ordinary hand-over.
            match error.kind() {
                "run-fenced" | "lease-lost" => tracing::info!(run = %self.run, %error, "run handed over"),
                _ => tracing::error!(run = %self.run, %error, "run stopped"),
            }
        }
        if result.is_ok() && self.state.status() == Status::Suspended {
            self.publish_suspension();
        }
        // A run that has ended has no owner any more.
        let released = result.is_ok() && self.last_state.as_ref().is_some_and(|state| state.ended);
        if !released && let Err(error) = self.journal.release(&self.run, self.fence).await {
            tracing::warn!(run = %self.run, %error, "the run could not be released");
        }
        self.listeners.leave();
        self.outcome.send_replace(Some(result.map(|()| self.state.outcome())));
    }

    /// The loop described at the head of this file.
    async fn run_loop(&mut self, mut resumed: bool) -> Result<(), RunError> {
        let mut batch = Batch::default();
        let mut in_flight = InFlight::new();
        // Whoever drove the run before may have begun these.
        let taken_over = EffectId(if resumed { self.state.next_effect().0 } else { 0 });
        if resumed {
            self.doubt(&mut batch)?;
            self.read_inbox(&mut batch).await?;
        }
        let (mut now, mut stamp) = (Instant::now(), self.state.now());
        let (mut looked, mut decides, mut waited) = (now, false, false);
        for iteration in 1u64.. {
            // Looking costs a lock each time, and a short step takes less than a microsecond.
            let looks = waited || iteration % 16 == 1;
            // Every effect has ended, so that none is in doubt for the next driver.
            if looks && self.release.is_cancelled() && in_flight.is_empty() && (decides || !resumed) {
                return self.flush(&mut batch).await;
            }
            // A run whose effects all end at once must not keep other runs waiting.
            if iteration % 64 == 0 {
                tokio::task::yield_now().await;
                self.clock_reading = None;
            }
            if looks && self.shutdown.has_started() && (decides || !resumed) {
                return self.shut_down(&mut in_flight, &mut batch).await;
            }
            // Reading the clock takes a good part of what a short step takes.
            if waited || iteration % 16 == 0 || self.state.now().ms_since(stamp) >= 1.0 {
                (now, stamp) = (Instant::now(), self.state.now());
            }
            if now.duration_since(looked) >= INBOX_POLL {
                looked = now;
                self.read_inbox(&mut batch).await?;
            }
            if in_flight.is_empty() {
                let called = match self.call_elements(&mut batch, &mut in_flight, taken_over).await? {
                    Some(called) => called,
                    None => self.call_directly(&mut batch, &mut in_flight, taken_over).await?,
                };
                if called > 0 {
                    self.keep_up(&mut batch, Wanted::PureCalls, now).await?;
                    if called >= DIRECT_CALL_BATCH {
                        self.yield_to_others(now).await;
                    }
                    (waited, decides) = (true, false);
                    continue;
                }
            }
            let Some(next) = self.decide_on(&mut batch, in_flight.next().max(taken_over))? else {
                self.keep_up(&mut batch, Wanted::PureCalls, now).await?;
                decides = false;
                continue;
            };
            let is_pure = matches!(next, Next::Perform) && self.only_pure_calls();
            if matches!(next, Next::Perform) && !is_pure {
                self.journal_inner_calls(&mut batch, in_flight.next().max(taken_over))?;
            }
            self.keep_up(&mut batch, if is_pure { Wanted::PureCalls } else { Wanted::Anything }, now).await?;
            self.stop_abandoned(&mut in_flight);
            decides = matches!(next, Next::Record(_));
            match next {
                Next::Finished(_) => return Ok(()),
                Next::Stop => {
                    self.stop_all(&mut in_flight, &mut batch, taken_over).await?;
                    continue;
                }
                Next::Record(_) => {
                    // Many decisions in a row must not keep other runs waiting, and must still poll for a cancellation.
                    if let Ok(message) = self.inbox.try_recv() {
                        self.receive(&mut batch, message)?;
                    }
                    tokio::task::yield_now().await;
                    continue;
                }
                Next::Perform | Next::Wait => {}
            }
            if self.only_time_is_left() {
                return Ok(());
            }
            if !self.ownership.is_held() {
                return Err(self.lease_lost());
            }
            self.start_effects(&mut in_flight, resumed.then(|| self.ports.timer.now()));
            resumed = false;
            if in_flight.is_empty() && self.state.status() == Status::Suspended {
                // The time for an answer may have passed while the run had no driver.
                if self.detach && self.state.answers_are_overdue(self.ports.timer.now()) {
                    self.record(&mut batch, Event::Ticked)?;
                    continue;
                }
                if self.detach {
                    return Ok(());
                }
                self.publish_suspension();
            }
            waited = self.wait(&mut in_flight, &mut batch).await?;
        }
        Ok(())
    }

    /// Tells readers what the suspended run waits for, once for each time that it comes to wait.
    fn publish_suspension(&self) {
        let seq = self.state.seq();
        self.suspension.send_if_modified(|suspension| {
            let is_new = suspension.seq != seq;
            if is_new {
                *suspension = Suspension { seq, questions: self.state.questions() };
            }
            is_new
        });
    }

    /// A run whose calls all end at once must not keep other runs waiting. Yielding wakes another thread, which then
    /// has all that this one had at hand to fetch: it takes as long as dozens of steps.
    async fn yield_to_others(&mut self, now: Instant) {
        if now.duration_since(self.last_yield) >= YIELD_INTERVAL {
            self.last_yield = now;
            self.clock_reading = None;
            tokio::task::yield_now().await;
        }
    }

    /// Returns `true` if every effect is a call of a pure operation. What an effect is does not change, so each is
    /// looked at once.
    fn only_pure_calls(&mut self) -> bool {
        while let Some(effect) = self.state.first_effect(self.pure_before) {
            if !self.state.is_pure_call(effect, self.ports.as_ref()) {
                return false;
            }
            self.pure_before = EffectId(effect.0 + 1);
        }
        true
    }

    /// Returns `true` if the run waits for nothing but time, and for too long to be kept at hand.
    #[allow(clippy::cast_precision_loss)]
    fn only_time_is_left(&self) -> bool {
        let (Some(park), Some(due)) = (self.park, self.state.due()) else { return false };
        due.ms_since(self.ports.timer.now()) > park.as_millis() as f64
    }

    fn run_state(&self) -> RunState {
        let status = self.state.status();
        RunState { status: status.as_str().into(), ended: status.has_ended(), due: self.state.due().map(|due| due.0) }
    }

    /// Decides until the world is needed.
    ///
    /// [`Next::Record`]: there is more to decide, and what has been decided is enough for one append. Nothing: what
    /// comes next is a call that may be made directly. Effects from `waiting` on have not been started.
    fn decide_on(&mut self, batch: &mut Batch, waiting: EffectId) -> Result<Option<Next>, RunError> {
        let next = loop {
            match decide(&self.state) {
                Next::Record(events) => {
                    for event in events {
                        self.record_decided(batch, event, waiting)?;
                    }
                    let last = batch.events.last();
                    if batch.events.len() >= DECISION_BATCH
                        && !last.is_some_and(|last| is_mid_transition(&self.state, &last.event))
                    {
                        break Some(Next::Record(Vec::new()));
                    }
                    if self.calls_next() {
                        break None;
                    }
                }
                next => break Some(next),
            }
        };
        self.clock_reading = None;
        Ok(next)
    }

    /// Records what was decided. Calls that it puts an end to are recorded as stopped before it, for afterwards their
    /// step or the run is over, and at the moment for which it was decided, so that deciding again decides the same.
    fn record_decided(&mut self, batch: &mut Batch, event: Event, waiting: EffectId) -> Result<(), RunError> {
        for (effect, why) in self.state.cut_off(&event) {
            let at = self.state.now();
            let stopped = self.state.abandoned(effect, &why, (effect < waiting).then_some(at), self.ports.as_ref());
            self.record_at(batch, stopped, at)?;
        }
        // Cells that wait for a person are run again when the time for an answer is over.
        if let Event::CallsExpired { frame } = &event {
            self.resumed_effects.extend(self.state.waiting_cells(*frame));
        }
        let at = self.clock_reading.unwrap_or_else(|| self.ports.timer.now());
        // What comes next was computed after this one, which may have taken long.
        let computes =
            matches!(event, Event::StepPrepared { .. } | Event::EachStarted { .. } | Event::TurnStarted { .. });
        self.clock_reading = (!computes).then_some(at);
        self.record_at(batch, event, at)
    }

    fn record(&mut self, batch: &mut Batch, event: Event) -> Result<(), RunError> {
        let at = self.ports.timer.now();
        self.clock_reading = Some(at);
        self.record_at(batch, event, at)
    }

    fn record_at(&mut self, batch: &mut Batch, event: Event, at: Timestamp) -> Result<(), RunError> {
        batch.events.push(Recorded::new(self.state.seq() + 1, at, event));
        let Some(recorded) = batch.events.last() else { return Ok(()) };
        self.state.apply(recorded).map_err(|source| RunError::Replay { run: self.run.clone(), source })?;
        batch.since.get_or_insert_with(Instant::now);
        if self.journal.reads_payloads() {
            batch.records.push(to_record(recorded, self.values.as_mut()));
        }
        Ok(())
    }

    /// After a crash: effects that may have happened and must not happen twice wait for an answer.
    fn doubt(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        let wanted: Vec<EffectId> = self.state.wanted(EffectId(0)).collect();
        for effect in wanted {
            if self.state.may_have_happened(effect, self.ports.as_ref()) {
                self.record(batch, Event::InDoubt { effect })?;
            }
        }
        Ok(())
    }

    fn start_effects(&mut self, in_flight: &mut InFlight, taken_over: Option<Timestamp>) {
        let next = in_flight.next();
        // Those that were held back until someone answered; a driver that has just begun starts them with all others.
        let mut again: Vec<EffectId> =
            std::mem::take(&mut self.resumed_effects).into_iter().filter(|id| *id < next).collect();
        // A cell whose calls waited for several answers is run again once.
        again.sort_unstable();
        again.dedup();
        let wanted = |id: &EffectId| self.state.wanted(*id).next() == Some(*id);
        let again = again.into_iter().filter(wanted).filter_map(|id| Some((id, self.work(id, taken_over)?)));
        in_flight.start(again);
        in_flight.start(self.state.wanted(next).filter_map(|id| Some((id, self.work(id, taken_over)?))));
    }

    /// Returns the future that performs an effect.
    fn work(&self, id: EffectId, taken_over: Option<Timestamp>) -> Option<Work> {
        let mut effect = self.state.effect(id, taken_over)?;
        if let Some(context) = context_of(&mut effect.task) {
            context.progress = progress::of_run(self.sink.as_ref(), id);
        }
        let (ports, cancel) = (self.ports.clone(), self.cancel.clone());
        // The most frequent one is the shortest.
        let inner = self.inner_journal(&effect);
        let effect = match effect {
            Effect { task: Task::Invoke(call), timeout_ms: None, .. } if inner.is_none() => {
                let call = Cancellable::new(call, cancel);
                let work = async move {
                    let reply = AssertUnwindSafe(ports.operations.invoke(call)).catch_unwind().await;
                    EffectReply::Invoke(reply.unwrap_or_else(|_| Reply { result: Err(panicked()), receipt: None }))
                };
                return Some(work.boxed());
            }
            effect => effect,
        };
        let request = self.state.request_of(id).cloned()?;
        // Of a cell that sleeps, nothing is there before the first of its timers ends.
        let now = self.ports.timer.now();
        let asleep = self.state.inner_calls(id).and_then(InnerCalls::asleep).map(|until| until.ms_since(now));
        let asleep = asleep.filter(|ms| *ms > 0.0);
        let is_round = matches!(effect.task, Task::Round(_));
        let sink = self.sink.clone().filter(|sink| is_round && sink.takes_answers());
        let sink = sink.map(|sink| RoundSink::new(sink, id));
        let work = async move {
            let mut effect = effect;
            if let Some(ms) = asleep {
                // The time of the step may be over before.
                let slept = effect.timeout_ms.map_or(ms, |left| ms.min(left));
                tokio::select! {
                    () = ports.timer.sleep(slept) => {}
                    () = cancel.cancelled() => {}
                }
                effect.timeout_ms = effect.timeout_ms.map(|left| (left - slept).max(0.0));
            }
            let told = sink.as_ref().map(|sink| sink as &dyn TextSink);
            let performed = perform(&ports, effect, cancel, told, inner.clone());
            let performed = AssertUnwindSafe(performed).catch_unwind().await;
            let reply = performed.unwrap_or_else(|_| EffectReply::failed(&request, panicked()));
            let reply = match &sink {
                Some(sink) => sink.keep(reply),
                None => reply,
            };
            match inner {
                Some(inner) => inner.concluded(reply),
                None => reply,
            }
        };
        Some(work.boxed())
    }

    fn stop_abandoned(&self, in_flight: &mut InFlight) {
        if in_flight.len() > self.state.in_flight() {
            in_flight.keep(|id| self.state.wants(id));
        }
    }

    /// Waits until something happens. Returns `true` if it had to wait: replies that are there already are taken at once.
    async fn wait(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<bool, RunError> {
        // Most effects end at once: look before arming timers.
        if let Ok(message) = self.inbox.try_recv() {
            return self.receive(batch, message).map(|()| false);
        }
        self.look_behind().await?;
        // Not all of them: those that work elsewhere should find more to do before they have ended what they have.
        let enough = in_flight.len().div_ceil(4);
        let mut ended = 0;
        while ended < enough
            && let Some(done) = in_flight.ended().now_or_never()
        {
            self.take(batch, done)?;
            ended += 1;
        }
        if ended > 0 {
            return Ok(false);
        }
        let left = self.state.wall_time_left_ms(self.ports.timer.now());
        let timer = self.ports.timer.clone();
        let wall = async {
            match left {
                Some(ms) => timer.deadline(ms).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            message = self.inbox.recv() => match message {
                Some(message) => self.receive(batch, message)?,
                // No one can say anything any more; inbox messages still can.
                None => self.wait_alone(in_flight, batch).await?,
            },
            done = in_flight.ended() => self.take(batch, done)?,
            Some(events) = self.inner.1.recv() => self.record_inner(in_flight, batch, events).await?,
            done = appended(&mut self.pending_append) => self.appended(done)?,
            () = wall => self.record(batch, Event::Ticked)?,
            () = self.ownership.lost() => return Err(self.lease_lost()),
            () = self.shutdown.started() => {}
            () = tokio::time::sleep(if batch.since.is_some() { MAX_APPEND_DELAY } else { INBOX_POLL }) => {}
        }
        Ok(true)
    }

    /// Another process may drive the run from now on: whatever this one performs for it stops, and nothing of it is
    /// recorded.
    fn lease_lost(&self) -> RunError {
        self.cancel.cancel();
        JournalError::LeaseLost { run: self.run.clone() }.into()
    }

    /// Waits when every handle is gone.
    async fn wait_alone(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<(), RunError> {
        tokio::select! {
            biased;
            done = in_flight.ended() => self.take(batch, done),
            Some(events) = self.inner.1.recv() => self.record_inner(in_flight, batch, events).await,
            () = self.ownership.lost() => Err(self.lease_lost()),
            () = self.shutdown.started() => Ok(()),
            () = tokio::time::sleep(if batch.since.is_some() { MAX_APPEND_DELAY } else { INBOX_POLL }) => Ok(()),
        }
    }

    fn take(&mut self, batch: &mut Batch, (effect, reply): Done) -> Result<(), RunError> {
        if !self.state.wants(effect) {
            return Ok(());
        }
        if let (EffectReply::Found, Some(Request::Find { name })) = (&reply, self.state.request_of(effect)) {
            let name = name.clone();
            let program = self.find(&name);
            self.record(batch, Event::DefinitionPinned { name, program })?;
        }
        let reply = match self.state.request_of(effect) {
            Some(request) => decide::accepted(&self.state, request, reply),
            None => reply,
        };
        // A person may grant what a call was refused, before that counts. What they grant is the project's, and what a
        // tenant may reach is decided by whoever embeds the host: there the question could have no answer that helps.
        if self.state.tenant().is_none()
            && let (Some((refused, receipt)), Some(operation)) = (reply.refused(), self.state.called(effect))
            && let Some(resumed) = self.state.continues_after_refusal(effect, refused)
            && let Some(why) = self.ports.operations.asks(operation, refused, receipt, resumed)
        {
            let why = Some(why).filter(|why| !why.is_empty());
            return self.record(batch, Event::GrantAsked { effect, reply: Box::new(reply), why });
        }
        if reply.input().is_none() {
            return self.record(batch, Event::Replied { effect, reply: Box::new(reply) });
        }
        // A person answers the tool, and the call continues: until then, nothing of it is in flight.
        if self.state.may_ask_for_input(effect) {
            // A task waits for no person: it is polled for at once.
            if reply.input().is_some_and(|request| request.forms.is_empty()) {
                self.resumed_effects.push(effect);
            }
            return self.record(batch, Event::InputAsked { effect, place: None, reply: Box::new(reply) });
        }
        self.record(batch, Event::Replied { effect, reply: Box::new(reply.without_input()) })
    }

    fn find(&self, name: &str) -> Option<Arc<Program>> {
        let ir = self.ports.workflows.find(name)?;
        Program::new(ir).inspect_err(|error| tracing::warn!(%error, "a delegated workflow cannot be run")).ok()
    }

    /// Begins nothing new, and lets what is under way end within the grace. What has not ended then is stopped: it is
    /// still wanted when the run is resumed, and asked about first if it must not happen twice.
    async fn shut_down(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<(), RunError> {
        let grace = tokio::time::sleep(self.shutdown.grace());
        tokio::pin!(grace);
        while !in_flight.is_empty() {
            self.flush(batch).await?;
            tokio::select! {
                biased;
                done = in_flight.ended() => self.take(batch, done)?,
                Some(events) = self.inner.1.recv() => self.record_inner(in_flight, batch, events).await?,
                () = &mut grace => break,
                () = tokio::time::sleep(INBOX_POLL) => self.read_inbox(batch).await?,
            }
        }
        if !in_flight.is_empty() {
            // A cell that is asked to stop does so at once; its failure is ours and none of the run's.
            self.cancel.cancel();
            in_flight.keep(|_| false);
            self.doubt(batch)?;
        }
        self.flush(batch).await
    }

    /// Lets effects stop by themselves for a while, then stops them.
    async fn stop_all(
        &mut self,
        in_flight: &mut InFlight,
        batch: &mut Batch,
        taken_over: EffectId,
    ) -> Result<(), RunError> {
        self.cancel.cancel();
        let timer = self.ports.timer.clone();
        let grace = timer.deadline(GRACE_MS);
        tokio::pin!(grace);
        loop {
            if in_flight.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                done = in_flight.ended() => self.take(batch, done)?,
                Some(events) = self.inner.1.recv() => self.record_inner(in_flight, batch, events).await?,
                () = &mut grace => break,
            }
        }
        in_flight.keep(|_| false);
        let left: Vec<EffectId> = self.state.all_effects().collect();
        let waiting = in_flight.next().max(taken_over);
        for effect in left {
            let now = self.ports.timer.now();
            let stopped =
                self.state.abandoned(effect, "cancelled", (effect < waiting).then_some(now), self.ports.as_ref());
            self.record(batch, stopped)?;
        }
        self.flush(batch).await
    }
}

/// The place of a call that may tell its progress.
fn context_of(task: &mut Task) -> Option<&mut EffectContext> {
    match task {
        Task::Invoke(call) | Task::Judge(call) => Some(&mut call.context),
        Task::Tool(call) => Some(&mut call.context),
        Task::Open(_) | Task::Round(_) | Task::Sleep { .. } | Task::Timeout { .. } | Task::Find { .. } => None,
    }
}

pub(crate) fn panicked() -> Failure {
    Failure::host("panicked", "The host panicked while performing this effect; see its log")
}
