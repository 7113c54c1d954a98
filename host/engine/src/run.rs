//! The shell: performs what the core wants, and appends what happened before anything depends on it.

use crate::{
    decide::{Next, decide},
    effect::{Effect, Ports, failed_reply, perform},
    error::RunError,
    event::{EffectId, EffectReply, Event, Recorded, Request, Signal},
    handle::Listeners,
    message::Message,
    outcome::{RunOutcome, Status},
    ports::{Effects, Failure, RunText, TextSink},
    program::Program,
    record::{to_record, to_snapshot},
    state::State,
};
use futures_util::{
    FutureExt, StreamExt,
    future::{BoxFuture, abortable},
    stream::FuturesUnordered,
};
use opcell_journal::{Append, Fence, Journal, NewRun, Record, RunId, RunState, Snapshot};
use std::{
    collections::HashMap,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Decisions between two looks at the world; bounds how much a crash can lose and how long a cancel waits.
const BATCH: usize = 512;

/// How long effects may take to stop after the run is cancelled, in milliseconds.
const GRACE_MS: f64 = 5_000.0;

/// Bytes of events between two snapshots, at least.
const SNAPSHOT: usize = 256 << 10;

/// How long events may wait to become durable while nothing but pure calls depends on them.
const LAG: Duration = Duration::from_millis(20);

/// How often a run that waits looks into its letter box.
const LETTERS: Duration = Duration::from_millis(200);

/// One run being driven.
pub(crate) struct Driver {
    pub ports: Ports,
    pub journal: Arc<dyn Journal>,
    pub fence: Fence,
    pub run: RunId,
    pub state: State,
    pub inbox: mpsc::UnboundedReceiver<Message>,
    pub listeners: Arc<Listeners>,
    pub sink: Option<Arc<dyn RunText>>,
    /// Published whenever the run stops for a while, and at its end.
    pub outcome: watch::Sender<Option<Result<RunOutcome, RunError>>>,
    pub cancel: CancellationToken,
    /// Whether to let go of a run that waits for somebody.
    pub detach: bool,
    /// Whether to let go of a run that has to wait longer than this for nothing but time.
    pub park: Option<Duration>,
    /// Cancelled when the run shall be let go of.
    pub let_go: CancellationToken,
    /// How the run stood when the journal was last told.
    pub stands: Option<RunState>,
    /// Bytes of events since the last snapshot.
    pub unsaved: usize,
    /// Bytes of the last snapshot.
    pub saved: usize,
}

/// What the journal has not seen yet.
#[derive(Default)]
struct Batch {
    events: Vec<Recorded>,
    records: Vec<Record>,
    /// When the first of them happened.
    since: Option<Instant>,
    /// The last letter whose message is among them.
    letters: Option<u64>,
}

type Done = (EffectId, EffectReply);

/// How to stop an effect.
enum Stop {
    /// It runs inside the run's own task.
    Here(futures_util::future::AbortHandle),
    /// It has a task of its own.
    Elsewhere(tokio::task::AbortHandle),
}

impl Stop {
    fn now(&self) {
        match self {
            Self::Here(stop) => stop.abort(),
            Self::Elsewhere(task) => task.abort(),
        }
    }
}

struct InFlight {
    done: FuturesUnordered<BoxFuture<'static, Option<Done>>>,
    stop: HashMap<EffectId, Stop>,
    /// Effects before this one have been started.
    next: EffectId,
}

/// One round's part of a run's text.
struct OfRound {
    sink: Arc<dyn RunText>,
    round: EffectId,
}

impl TextSink for OfRound {
    fn text(&self, piece: &str) {
        self.sink.text(self.round, piece);
    }
}

impl Driver {
    /// Makes the run, with all that can be decided before anything happens.
    ///
    /// # Errors
    /// When the journal does not take the run.
    pub(crate) async fn begin(&mut self, workflow: &Arc<str>, first: Vec<Event>) -> Result<(), RunError> {
        let mut batch = Batch::default();
        for event in first {
            self.record(&mut batch, event)?;
        }
        while let (true, Next::Record(events)) = (batch.records.len() < BATCH, decide(&self.state)) {
            for event in events {
                self.record(&mut batch, event)?;
            }
        }
        let state = self.run_state();
        let new = NewRun {
            run: self.run.clone(),
            workflow: workflow.clone(),
            at: self.state.started_at().0,
            records: batch.records,
            state: state.clone(),
        };
        self.fence = self.journal.create(new).await?;
        self.stands = Some(state);
        self.listeners.tell(batch.events);
        Ok(())
    }

    /// Drives the run to its end, or to where it waits for somebody. `resumed`: somebody else drove it before.
    pub(crate) async fn drive(mut self, resumed: bool) {
        let result = self.go_on(resumed).await;
        if let Err(error) = &result {
            tracing::error!(run = %self.run, %error, "run stopped");
        }
        // A run that has ended has no owner any more.
        let released = result.is_ok() && self.stands.as_ref().is_some_and(|state| state.ended);
        if !released && let Err(error) = self.journal.release(&self.run, self.fence).await {
            tracing::warn!(run = %self.run, %error, "the run could not be released");
        }
        self.listeners.leave();
        self.outcome.send_replace(Some(result.map(|()| self.state.outcome())));
    }

    async fn go_on(&mut self, mut resumed: bool) -> Result<(), RunError> {
        let mut batch = Batch::default();
        let mut in_flight = InFlight { done: FuturesUnordered::new(), stop: HashMap::new(), next: EffectId(0) };
        if resumed {
            self.doubt(&mut batch)?;
            self.read_letters(&mut batch).await?;
        }
        let mut looked = Instant::now();
        for turn in 1u64.. {
            // Everything that was asked for has ended, so whoever takes the run up has nothing to doubt.
            if self.let_go.is_cancelled() && in_flight.stop.is_empty() && !resumed {
                return self.flush(&mut batch).await;
            }
            // A run whose effects all end at once must not keep other runs waiting.
            if turn % 64 == 0 {
                tokio::task::yield_now().await;
            }
            if looked.elapsed() >= LETTERS {
                looked = Instant::now();
                self.read_letters(&mut batch).await?;
            }
            let next = self.decide_on(&mut batch).await?;
            if !self.may_lag(&batch, &next) {
                self.flush(&mut batch).await?;
            }
            self.stop_abandoned(&mut in_flight);
            match next {
                Next::Finished(_) => return Ok(()),
                Next::Stop => {
                    self.stop_all(&mut in_flight, &mut batch).await?;
                    continue;
                }
                Next::Perform | Next::Wait | Next::Record(_) => {}
            }
            if self.only_time_is_left() {
                return Ok(());
            }
            self.start_effects(&mut in_flight, resumed);
            resumed = false;
            if self.detach && in_flight.stop.is_empty() && self.state.status() == Status::Suspended {
                return Ok(());
            }
            self.wait(&mut in_flight, &mut batch).await?;
        }
        Ok(())
    }

    /// Whether what happened may become durable a little later, together with what comes next, instead of waiting for the disk once
    /// per call: nothing is wanted but pure calls, and after a crash making those again is as good as never having made them.
    fn may_lag(&self, batch: &Batch, next: &Next) -> bool {
        matches!(next, Next::Perform)
            && batch.letters.is_none()
            && batch.records.len() < BATCH
            && batch.since.is_none_or(|since| since.elapsed() < LAG)
            && self.state.all_effects().all(|effect| self.state.is_pure_call(effect, &self.ports))
    }

    /// Whether the run waits for nothing but time, and for too long to be kept at hand.
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
    async fn decide_on(&mut self, batch: &mut Batch) -> Result<Next, RunError> {
        loop {
            match decide(&self.state) {
                Next::Record(events) => {
                    for event in events {
                        self.record(batch, event)?;
                    }
                    if batch.records.len() >= BATCH {
                        self.flush(batch).await?;
                        if let Ok(message) = self.inbox.try_recv() {
                            self.hear(batch, message)?;
                        }
                        // A long stretch of pure decisions must not keep other runs waiting.
                        tokio::task::yield_now().await;
                    }
                }
                next => return Ok(next),
            }
        }
    }

    fn record(&mut self, batch: &mut Batch, event: Event) -> Result<(), RunError> {
        let recorded = Recorded { seq: self.state.seq() + 1, at: self.ports.timer.now(), event };
        self.state.apply(&recorded).map_err(|source| RunError::Replay { run: self.run.clone(), source })?;
        batch.since.get_or_insert_with(Instant::now);
        batch.records.push(to_record(&recorded));
        batch.events.push(recorded);
        Ok(())
    }

    async fn flush(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        if batch.records.is_empty() && batch.letters.is_none() {
            return Ok(());
        }
        let state = self.run_state();
        let changed = self.stands.as_ref() != Some(&state);
        batch.since = None;
        let records = std::mem::take(&mut batch.records);
        let append = Append {
            run: self.run.clone(),
            fence: self.fence,
            snapshot: self.snapshot(&records, state.ended),
            records,
            state: changed.then(|| state.clone()),
            letters: batch.letters.take(),
        };
        self.journal.append(append).await?;
        self.stands = Some(state);
        self.listeners.tell(std::mem::take(&mut batch.events));
        Ok(())
    }

    /// A snapshot, when enough has happened since the last one that reading it all again would take longer than reading that.
    fn snapshot(&mut self, records: &[Record], ended: bool) -> Option<Snapshot> {
        self.unsaved += records.iter().map(|record| record.payload.len()).sum::<usize>();
        if ended || self.unsaved < SNAPSHOT.max(4 * self.saved) {
            return None;
        }
        let snapshot = to_snapshot(&self.state)?;
        (self.unsaved, self.saved) = (0, snapshot.payload.len());
        Some(snapshot)
    }

    /// After a crash: effects that may have happened and must not happen twice wait for an answer.
    fn doubt(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        let wanted: Vec<EffectId> = self.state.wanted(EffectId(0)).collect();
        for effect in wanted {
            if self.state.repeatable(effect, &self.ports) == Effects::Once {
                self.record(batch, Event::InDoubt { effect })?;
            }
        }
        Ok(())
    }

    fn start_effects(&self, in_flight: &mut InFlight, resumed: bool) {
        let wanted: Vec<EffectId> = self.state.wanted(in_flight.next).collect();
        let alone = wanted.len() == 1 && in_flight.stop.is_empty();
        for id in wanted {
            in_flight.next = EffectId(id.0 + 1);
            if let Some(effect) = self.state.effect(id, &self.cancel, resumed) {
                self.start(in_flight, effect, alone);
            }
        }
    }

    /// Several effects at once run on several threads; a lone one saves the way there and back.
    fn start(&self, in_flight: &mut InFlight, effect: Effect, alone: bool) {
        let id = effect.id;
        let Some(request) = self.state.request_of(id).cloned() else { return };
        let ports = self.ports.clone();
        let sink = self.sink.clone().map(|sink| OfRound { sink, round: id });
        let work = async move {
            let sink = sink.as_ref().map(|sink| sink as &dyn TextSink);
            let performed = AssertUnwindSafe(perform(&ports, effect, sink)).catch_unwind().await;
            (id, performed.unwrap_or_else(|_| failed_reply(&request, panicked())))
        };
        if alone {
            let (work, stop) = abortable(work);
            in_flight.stop.insert(id, Stop::Here(stop));
            in_flight.done.push(async move { work.await.ok() }.boxed());
        } else {
            let task = tokio::spawn(work);
            in_flight.stop.insert(id, Stop::Elsewhere(task.abort_handle()));
            in_flight.done.push(async move { task.await.ok() }.boxed());
        }
    }

    /// Effects that the run no longer wants are stopped; what they might still say is not heard.
    fn stop_abandoned(&self, in_flight: &mut InFlight) {
        if in_flight.stop.len() > self.state.in_flight() {
            in_flight.stop.retain(|id, task| {
                let wanted = self.state.wants(*id);
                if !wanted {
                    task.now();
                }
                wanted
            });
        }
    }

    async fn wait(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<(), RunError> {
        // Most effects end at once: look before arming timers.
        if let Ok(message) = self.inbox.try_recv() {
            return self.hear(batch, message);
        }
        let mut ended = false;
        while let Some(Some(done)) = in_flight.done.next().now_or_never() {
            self.take(in_flight, batch, done)?;
            ended = true;
        }
        if ended {
            return Ok(());
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
                Some(message) => self.hear(batch, message)?,
                // Nobody can say anything any more; letters still can.
                None => self.wait_alone(in_flight, batch).await?,
            },
            Some(done) = in_flight.done.next(), if !in_flight.done.is_empty() => self.take(in_flight, batch, done)?,
            () = wall => self.record(batch, Event::Ticked)?,
            () = tokio::time::sleep(if batch.since.is_some() { LAG } else { LETTERS }) => {}
        }
        Ok(())
    }

    /// Waits when every handle is gone.
    async fn wait_alone(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<(), RunError> {
        tokio::select! {
            biased;
            Some(done) = in_flight.done.next(), if !in_flight.done.is_empty() => self.take(in_flight, batch, done),
            () = tokio::time::sleep(if batch.since.is_some() { LAG } else { LETTERS }) => Ok(()),
        }
    }

    fn take(&mut self, in_flight: &mut InFlight, batch: &mut Batch, done: Option<Done>) -> Result<(), RunError> {
        let Some((effect, reply)) = done else { return Ok(()) };
        if in_flight.stop.remove(&effect).is_none() || !self.state.wants(effect) {
            return Ok(());
        }
        if let (EffectReply::Found, Some(Request::Find { name })) = (&reply, self.state.request_of(effect)) {
            let name = name.clone();
            let program = self.find(&name);
            self.record(batch, Event::DefinitionPinned { name, program })?;
        }
        self.record(batch, Event::Replied { effect, reply })
    }

    fn find(&self, name: &str) -> Option<Arc<Program>> {
        let ir = self.ports.workflows.find(name)?;
        Program::new(ir).inspect_err(|error| tracing::warn!(%error, "a delegated workflow cannot run")).ok()
    }

    fn hear(&mut self, batch: &mut Batch, message: Message) -> Result<(), RunError> {
        match message {
            Message::Signal { name, data, by } => {
                let id = self.state.next_signal();
                self.record(batch, Event::SignalReceived(Signal { id, name, data, by }))
            }
            Message::Cancel { reason, by } if !self.state.is_cancelled() => {
                self.cancel.cancel();
                self.record(batch, Event::CancelRequested { reason, by })
            }
            Message::Cancel { .. } => Ok(()),
            Message::Answer { effect, answer, by } => {
                let doubts: Vec<EffectId> =
                    self.state.doubts().filter(|doubt| effect.is_none_or(|effect| effect == *doubt)).collect();
                for effect in doubts {
                    self.record(batch, Event::Answered { effect, answer, by: by.clone() })?;
                }
                Ok(())
            }
        }
    }

    async fn read_letters(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        let letters = self.journal.letters(&self.run).await?;
        for letter in letters {
            match serde_json::from_str(&letter.payload) {
                Ok(message) => self.hear(batch, message)?,
                Err(error) => tracing::warn!(run = %self.run, letter = letter.id, %error, "a letter cannot be read"),
            }
            batch.letters = Some(letter.id);
        }
        Ok(())
    }

    /// Lets effects stop by themselves for a while, then stops them.
    async fn stop_all(&mut self, in_flight: &mut InFlight, batch: &mut Batch) -> Result<(), RunError> {
        self.cancel.cancel();
        let timer = self.ports.timer.clone();
        let grace = timer.deadline(GRACE_MS);
        tokio::pin!(grace);
        loop {
            if in_flight.stop.is_empty() {
                break;
            }
            tokio::select! {
                biased;
                Some(done) = in_flight.done.next(), if !in_flight.done.is_empty() => self.take(in_flight, batch, done)?,
                () = &mut grace => break,
            }
        }
        for task in in_flight.stop.values() {
            task.now();
        }
        in_flight.stop.clear();
        let left: Vec<EffectId> = self.state.all_effects().collect();
        for effect in left {
            self.record(batch, Event::Abandoned { effect })?;
        }
        self.flush(batch).await
    }
}

fn panicked() -> Failure {
    Failure {
        reason: "panicked".into(),
        message: "The host's own code panicked while it performed this; see its log".to_owned(),
        details: None,
        retriable: false,
    }
}
