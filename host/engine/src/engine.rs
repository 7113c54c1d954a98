//! Starting, following, resuming and asking about runs.

use crate::{
    decide::{Next, decide},
    effect::Ports,
    event::{Event, Recorded, RunStarted},
    nothing::Nothing,
    outcome::RunOutcome,
    ports::{Judges, Operations, Sessions, SystemTimer, TextSink, Timer, Workflows},
    program::Program,
    run::{Driver, Listeners, Message, RunError, from_record},
    state::State,
};
use futures_util::Stream;
use indexmap::IndexMap;
use opcell_journal::{Damage, Fence, Journal, MemoryJournal, RunEntry, RunId};
use opcell_workflow::{
    Value,
    ir::{DelegateTarget, Form, RunLimits, Session},
};
use std::{
    collections::{BTreeMap, VecDeque},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

/// Runs workflows. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Engine {
    ports: Ports,
    journal: Arc<dyn Journal>,
}

/// Builds an [`Engine`]. What is not given is not there: no operations, no judges, no sessions, no other workflows, the computer's
/// clock, and a journal in memory.
#[must_use]
pub struct EngineBuilder {
    ports: Ports,
    journal: Arc<dyn Journal>,
}

/// How a run starts.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The run's name; a time-ordered UUID unless given.
    pub run: Option<RunId>,
    /// `workflow-original`; unless given, the input's `original`, or the whole input.
    pub original: Option<Value>,
    /// The host's limits; the workflow's own hold as well, and the tighter one wins.
    pub limits: RunLimits,
    /// How deep delegates may nest; 16 unless given.
    pub max_depth: Option<u32>,
    /// How often the run may go back on routes without a limit; 1000 unless given (psi's drain bound).
    pub visit_bound: Option<u64>,
    /// Digests of what the run depends on, such as plugins; a resume with others is refused.
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// Session settings that every session of the run inherits.
    pub session: Option<Session>,
    /// Receives models' text while it comes.
    pub sink: Option<Arc<dyn TextSink>>,
    /// Whether to let go of the run while it waits for somebody: [`RunHandle::finished`] then says `suspended`, and
    /// [`Engine::resume`] takes it up again.
    pub detach: bool,
}

/// How a run goes on.
#[derive(Clone, Default)]
pub struct ResumeOptions {
    /// Digests of what is there now. Every one that the run pinned must be among them, unchanged.
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// As [`RunOptions::sink`].
    pub sink: Option<Arc<dyn TextSink>>,
    /// As [`RunOptions::detach`].
    pub detach: bool,
}

/// Names by which a delegate's nesting is bounded unless a host says otherwise.
const MAX_DEPTH: u32 = 16;

/// psi stops after this many events of one drain; here it is transitions back to a step on routes without a limit.
const VISIT_BOUND: u64 = 1000;

/// How many records are read at once.
const PAGE: u64 = 10_000;

impl EngineBuilder {
    /// Operations of plugins.
    pub fn operations(mut self, operations: Arc<dyn Operations>) -> Self {
        self.ports.operations = operations;
        self
    }

    /// Judges of plugins.
    pub fn judges(mut self, judges: Arc<dyn Judges>) -> Self {
        self.ports.judges = judges;
        self
    }

    /// Model conversations.
    pub fn sessions(mut self, sessions: Arc<dyn Sessions>) -> Self {
        self.ports.sessions = sessions;
        self
    }

    /// Workflows that delegates name.
    pub fn workflows(mut self, workflows: Arc<dyn Workflows>) -> Self {
        self.ports.workflows = workflows;
        self
    }

    /// Time.
    pub fn timer(mut self, timer: Arc<dyn Timer>) -> Self {
        self.ports.timer = timer;
        self
    }

    /// Where runs are kept.
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// The engine.
    #[must_use]
    pub fn build(self) -> Engine {
        Engine { ports: self.ports, journal: self.journal }
    }
}

impl Engine {
    /// Begins to build an engine.
    pub fn builder() -> EngineBuilder {
        let nothing = Arc::new(Nothing);
        let ports = Ports {
            operations: nothing.clone(),
            judges: nothing.clone(),
            sessions: nothing.clone(),
            workflows: nothing,
            timer: Arc::new(SystemTimer),
        };
        EngineBuilder { ports, journal: Arc::new(MemoryJournal::new()) }
    }

    /// What the engine reaches.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Where its runs are kept.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Starts a run and drives it in a task of its own. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When the journal does not take the run.
    pub async fn start(&self, program: Arc<Program>, input: Value, options: RunOptions) -> Result<RunHandle, RunError> {
        let run: RunId = options.run.unwrap_or_else(|| uuid::Uuid::now_v7().to_string().into());
        let first = self.first_events(
            &run,
            program.clone(),
            input,
            &options.limits,
            FirstOptions {
                original: options.original,
                max_depth: options.max_depth,
                visit_bound: options.visit_bound,
                pins: options.pins,
                session: options.session,
            },
        );
        let fence = self.journal.create(&run, program.name(), self.ports.timer.now().0).await?;
        Ok(self.drive(Drive {
            run,
            fence,
            state: State::default(),
            first,
            sink: options.sink,
            detach: options.detach,
            damage: None,
        }))
    }

    fn first_events(
        &self,
        run: &RunId,
        program: Arc<Program>,
        input: Value,
        host: &RunLimits,
        options: FirstOptions,
    ) -> Vec<Event> {
        let original = options.original.unwrap_or_else(|| input.get("original").unwrap_or(&input).clone());
        let started = RunStarted {
            run: run.clone(),
            inputs: program.bind_inputs(&input),
            limits: tighter(&program.ir().limits, host),
            program: program.clone(),
            input,
            original,
            max_depth: options.max_depth.unwrap_or(MAX_DEPTH),
            visit_bound: options.visit_bound.unwrap_or(VISIT_BOUND),
            pins: options.pins,
            session: options.session,
        };
        let pinned = self
            .delegates(&program)
            .into_iter()
            .map(|(name, program)| Event::DefinitionPinned { name, program: Some(program) });
        std::iter::once(Event::RunStarted(Box::new(started))).chain(pinned).collect()
    }

    /// Every workflow that delegates name in the document, and those that theirs name: pinned when the run starts.
    fn delegates(&self, program: &Arc<Program>) -> BTreeMap<Arc<str>, Arc<Program>> {
        let mut found: BTreeMap<Arc<str>, Arc<Program>> = BTreeMap::new();
        let mut open = vec![program.clone()];
        while let Some(program) = open.pop() {
            for step in &program.ir().steps {
                let Form::Delegate { delegate } = &step.form else { continue };
                let DelegateTarget::Name(name) = &delegate.target else { continue };
                if found.contains_key(name) {
                    continue;
                }
                let callee = self.ports.workflows.find(name).and_then(|ir| Program::new(ir).ok());
                if let Some(callee) = callee {
                    open.push(callee.clone());
                    found.insert(name.clone(), callee);
                }
            }
        }
        found
    }

    /// Takes up a run whose driver is gone. A run that has ended is given back as it ended.
    ///
    /// # Errors
    /// When the journal does not have the run, another process drives it, its events make no sense, or what it pinned is not there.
    pub async fn resume(&self, run: &RunId, options: ResumeOptions) -> Result<RunHandle, RunError> {
        let opened = self.journal.acquire(run).await?;
        match self.fold_for_resume(run, &opened.records, &options.pins) {
            Ok(state) => Ok(self.drive(Drive {
                run: run.clone(),
                fence: opened.fence,
                state,
                first: Vec::new(),
                sink: options.sink,
                detach: options.detach,
                damage: opened.damage,
            })),
            Err(error) => {
                self.journal.release(run, opened.fence).await?;
                Err(error)
            }
        }
    }

    fn fold_for_resume(
        &self,
        run: &RunId,
        records: &[opcell_journal::Record],
        pins: &IndexMap<Arc<str>, Arc<str>>,
    ) -> Result<State, RunError> {
        let mut state = State::default();
        for record in records {
            fold(run, &mut state, &from_record(run, record)?)?;
        }
        if state.program().is_none() {
            let problem = "the run has no first event; it was never started, or its beginning is lost".to_owned();
            return Err(RunError::Unreadable {
                run: run.clone(),
                seq: 1,
                kind: "run-started".to_owned(),
                version: 0,
                problem,
            });
        }
        if state.end().is_some() {
            return Ok(state);
        }
        for (name, pinned) in state.pins() {
            let found = pins.get(name);
            if found != Some(pinned) {
                return Err(RunError::Pin {
                    run: run.clone(),
                    name: name.clone(),
                    pinned: pinned.clone(),
                    found: found.map_or_else(|| "none".to_owned(), |digest| digest.as_ref().to_owned()),
                });
            }
        }
        Ok(state)
    }

    fn drive(&self, drive: Drive) -> RunHandle {
        let (sender, inbox) = mpsc::unbounded_channel();
        let (outcome, ended) = watch::channel(None);
        let listeners = Arc::new(Listeners::default());
        let driver = Driver {
            ports: self.ports.clone(),
            journal: self.journal.clone(),
            fence: drive.fence,
            run: drive.run.clone(),
            listeners: listeners.clone(),
            inbox,
            outcome,
            cancel: CancellationToken::new(),
            sink: drive.sink,
            detach: drive.detach,
            state: drive.state,
        };
        listeners.start_at(driver.state.seq());
        tokio::spawn(driver.drive(drive.first));
        RunHandle {
            run: drive.run,
            journal: self.journal.clone(),
            inbox: sender,
            listeners,
            ended,
            damage: drive.damage,
        }
    }

    /// Tells a run something, whichever process drives it; what nobody drives now is told when it is resumed.
    ///
    /// # Errors
    /// When the journal does not have the run.
    pub async fn tell(&self, run: &RunId, message: &Message) -> Result<(), RunError> {
        let payload = serde_json::to_string(message).unwrap_or_default();
        Ok(self.journal.post(run, self.ports.timer.now().0, payload.into()).await?)
    }

    /// Every run of the journal, newest first.
    ///
    /// # Errors
    /// The journal's.
    pub async fn runs(&self) -> Result<Vec<RunEntry>, RunError> {
        Ok(self.journal.runs().await?)
    }

    /// A run's events, without owning it.
    ///
    /// # Errors
    /// When the journal does not have the run, or one of them cannot be read.
    pub async fn history(&self, run: &RunId) -> Result<Vec<Recorded>, RunError> {
        read_history(&self.journal, run, 0).await
    }

    /// A run's state after its `seq`th event, or after the last one.
    ///
    /// # Errors
    /// As [`Engine::history`], or when the events make no sense.
    pub async fn state_at(&self, run: &RunId, seq: Option<u64>) -> Result<State, RunError> {
        let mut state = State::default();
        for recorded in self.history(run).await?.iter().take_while(|recorded| seq.is_none_or(|seq| recorded.seq <= seq))
        {
            fold(run, &mut state, recorded)?;
        }
        Ok(state)
    }

    /// Decides a run again from its journal and gives the first event that this version would have decided otherwise, with what it
    /// would have decided; `None` when there is none.
    ///
    /// # Errors
    /// As [`Engine::state_at`].
    pub async fn replay(&self, run: &RunId) -> Result<Option<Divergence>, RunError> {
        let mut state = State::default();
        let mut expected: VecDeque<Event> = VecDeque::new();
        for recorded in self.history(run).await? {
            if !recorded.event.comes_from_outside() {
                if expected.is_empty()
                    && let Next::Record(events) = decide(&state)
                {
                    expected.extend(events);
                }
                let decided = expected.pop_front();
                if decided.as_ref() != Some(&recorded.event) {
                    return Ok(Some(Divergence { recorded, decided }));
                }
            }
            fold(run, &mut state, &recorded)?;
        }
        Ok(None)
    }

    /// Starts a new run that shares the first `seq` events of another.
    ///
    /// # Errors
    /// As [`Engine::resume`], or when the name is taken.
    pub async fn fork(
        &self,
        run: &RunId,
        seq: u64,
        name: Option<RunId>,
        options: ResumeOptions,
    ) -> Result<RunHandle, RunError> {
        let fork: RunId = name.unwrap_or_else(|| uuid::Uuid::now_v7().to_string().into());
        let mut events = self.history(run).await?;
        events.retain(|recorded| recorded.seq <= seq);
        for recorded in &mut events {
            if let Event::RunStarted(started) = &mut recorded.event {
                started.run = fork.clone();
            }
        }
        let workflow =
            self.state_at(run, Some(1)).await?.program().map_or_else(|| "".into(), |program| program.name().clone());
        let fence = self.journal.create(&fork, &workflow, self.ports.timer.now().0).await?;
        let records = events.iter().map(crate::run::to_record).collect();
        self.journal.append(opcell_journal::Append { run: fork.clone(), fence, records, state: None }).await?;
        self.journal.release(&fork, fence).await?;
        self.resume(&fork, options).await
    }
}

struct FirstOptions {
    original: Option<Value>,
    max_depth: Option<u32>,
    visit_bound: Option<u64>,
    pins: IndexMap<Arc<str>, Arc<str>>,
    session: Option<Session>,
}

struct Drive {
    run: RunId,
    fence: Fence,
    state: State,
    first: Vec<Event>,
    sink: Option<Arc<dyn TextSink>>,
    detach: bool,
    damage: Option<Damage>,
}

/// Where today's code would have decided otherwise.
#[derive(Debug, Clone, PartialEq)]
pub struct Divergence {
    /// What the journal has.
    pub recorded: Recorded,
    /// What would be decided now; absent: nothing.
    pub decided: Option<Event>,
}

fn fold(run: &RunId, state: &mut State, recorded: &Recorded) -> Result<(), RunError> {
    state.apply(recorded).map_err(|source| RunError::Replay { run: run.clone(), source })
}

async fn read_history(journal: &Arc<dyn Journal>, run: &RunId, up_to: u64) -> Result<Vec<Recorded>, RunError> {
    let mut events: Vec<Recorded> = Vec::new();
    loop {
        let after = events.last().map_or(0, |last| last.seq);
        let limit = if up_to == 0 { PAGE } else { PAGE.min(up_to - after) };
        let records = if limit == 0 { Vec::new() } else { journal.read(run, after, limit).await? };
        if records.is_empty() {
            return Ok(events);
        }
        for record in &records {
            events.push(from_record(run, record)?);
        }
    }
}

/// The tighter of two sets of limits, one by one.
fn tighter(a: &RunLimits, b: &RunLimits) -> RunLimits {
    fn least<T: PartialOrd>(a: Option<T>, b: Option<T>) -> Option<T> {
        match (a, b) {
            (Some(a), Some(b)) => Some(if b < a { b } else { a }),
            (a, b) => a.or(b),
        }
    }
    RunLimits {
        total_visits: least(a.total_visits, b.total_visits),
        tool_calls: least(a.tool_calls, b.tool_calls),
        wall_time_seconds: least(a.wall_time_seconds, b.wall_time_seconds),
        tokens: least(a.tokens, b.tokens),
        cost: least(a.cost, b.cost),
        host_calls: least(a.host_calls, b.host_calls),
    }
}

/// A run that is being driven. Dropping it changes nothing.
#[derive(Clone)]
pub struct RunHandle {
    run: RunId,
    journal: Arc<dyn Journal>,
    inbox: mpsc::UnboundedSender<Message>,
    listeners: Arc<Listeners>,
    ended: watch::Receiver<Option<Result<RunOutcome, RunError>>>,
    damage: Option<Damage>,
}

impl RunHandle {
    /// The run's name.
    #[must_use]
    pub fn run(&self) -> &RunId {
        &self.run
    }

    /// What was found broken at the end of the journal, and cut, when the run was resumed.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        self.damage.as_ref()
    }

    /// Every event of the run, from its first one: those of the past, then those to come, none twice, none left out.
    ///
    /// # Errors
    /// When the past cannot be read.
    pub async fn events(&self) -> Result<EventStream, RunError> {
        let (last, live) = self.listeners.join();
        let past = if last == 0 { Vec::new() } else { read_history(&self.journal, &self.run, last).await? };
        Ok(EventStream { past: past.into_iter().map(Arc::new).collect(), live })
    }

    /// Asks the run to stop. It ends as `cancelled` once everything in flight has stopped.
    pub fn cancel(&self, reason: impl Into<Arc<str>>) {
        self.tell(Message::Cancel { reason: reason.into(), by: None });
    }

    /// Sends a signal. It is kept until a step waits for it.
    pub fn signal(&self, name: impl Into<Arc<str>>, data: Value, by: Option<Arc<str>>) {
        self.tell(Message::Signal { name: name.into(), data, by });
    }

    /// Tells the run something. A run that has ended does not listen.
    pub fn tell(&self, message: Message) {
        // The receiver is gone only when the run has ended, and then nothing can be told any more.
        let _ = self.inbox.send(message);
    }

    /// Waits until the run has ended, or, if it was started with `detach`, waits for somebody.
    ///
    /// # Errors
    /// When it could not be driven to its end. It can then be resumed.
    pub async fn finished(&self) -> Result<RunOutcome, RunError> {
        let mut ended = self.ended.clone();
        match ended.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or_else(|| Err(RunError::Gone(self.run.clone()))),
            Err(_) => Err(RunError::Gone(self.run.clone())),
        }
    }
}

/// A run's events; see [`RunHandle::events`]. Ends when nobody drives the run any more.
#[derive(Debug)]
pub struct EventStream {
    past: VecDeque<Arc<Recorded>>,
    live: mpsc::UnboundedReceiver<Arc<Recorded>>,
}

impl EventStream {
    /// The next event; `None` at the end.
    pub async fn next(&mut self) -> Option<Arc<Recorded>> {
        match self.past.pop_front() {
            Some(event) => Some(event),
            None => self.live.recv().await,
        }
    }
}

impl Stream for EventStream {
    type Item = Arc<Recorded>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        match self.past.pop_front() {
            Some(event) => Poll::Ready(Some(event)),
            None => self.live.poll_recv(context),
        }
    }
}
