//! Starting and resuming runs.

mod messages;

use crate::{
    error::RunError,
    handle::{Listeners, RunHandle},
    ports::{JournalTimer, Judges, Operations, Ports, RunText, Sessions, SystemTimer, Timer, Workflows},
    record::{Reader, fold},
    run::{Driver, SnapshotBytes},
    shutdown::Shutdown,
    unconfigured::Unconfigured,
    updates::Suspension,
};
use futures_util::FutureExt;
use indexmap::IndexMap;
use messages::accepts;
pub use messages::{Delivery, Sender};
use opcell_core::{
    Program, State,
    decide::ValueLimits,
    event::{Event, RunStarted},
    id::EffectId,
    large::LargeValues,
};
use opcell_ir::ir::{DelegateTarget, Form, RunLimits, Session};
use opcell_journal::{Cut, Damage, Fence, Journal, MemoryJournal, OpenedRun, Ownership, RunId};
use opcell_types::{NewRunId, Value};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// Runs workflows. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct Engine {
    pub(crate) ports: Arc<Ports>,
    values: ValueLimits,
    pub(crate) journal: Arc<dyn Journal>,
    shutdown: Shutdown,
    /// The runs that are driven.
    driven: TaskTracker,
}

/// Builds an [`Engine`]. What is not given is not there: no operations, no judges, no sessions, no other workflows, the
/// computer's clock, and a journal in memory.
#[must_use]
pub struct EngineBuilder {
    ports: Ports,
    timer: Option<Arc<dyn Timer>>,
    values: ValueLimits,
    journal: Arc<dyn Journal>,
    shutdown: Shutdown,
    driven: TaskTracker,
}

/// The options of a run's start.
#[derive(Clone, Default)]
pub struct RunOptions {
    /// The run's ID; a time-ordered UUID unless given.
    pub run: Option<NewRunId>,
    /// `workflow-original`; unless given, the input's `original`, or the whole input.
    pub original: Option<Value>,
    /// The host's limits; the workflow's own hold as well, and the tighter one wins.
    pub limits: RunLimits,
    /// The limits on the run's values.
    pub values: ValueLimits,
    /// The maximum nesting of delegates; 16 unless given.
    pub max_depth: Option<u32>,
    /// The maximum number of times the run may go back on routes without a limit; 1000 unless given (psi's drain
    /// bound).
    pub visit_bound: Option<u64>,
    /// Digests of what the run depends on, such as plugins; a resume with others is refused.
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// Session settings that every session of the run inherits.
    pub session: Option<Session>,
    /// The judge, or operation, that is asked before each transition of a pack.
    pub authorizer: Option<Arc<str>>,
    /// W3C trace context of whoever starts the run (`traceparent`): its trace becomes a part of theirs, and requests
    /// that its tools send say so.
    pub traceparent: Option<Arc<str>>,
    /// The user on whose behalf the run is, as tools, models and sinks of the program find them in the
    /// [`CallContext`](opcell_types::CallContext) of every call, also after a resume. Plugins do not learn it.
    pub user: Option<Arc<str>>,
    /// The tenant on whose behalf the run is; as `user`, and whoever performs operations may know tenants by their names
    /// and refuse others.
    pub tenant: Option<Arc<str>>,
    /// Receives models' text while it comes.
    pub sink: Option<Arc<dyn RunText>>,
    /// `true` to release the run when it is suspended: [`RunHandle::finished`] then reports `suspended`, and
    /// [`Engine::resume`] continues it.
    pub detach: bool,
    /// The longest timer that a run may wait for alone without being released; [`Engine::runnable`] lists it when the
    /// timer is due.
    pub park: Option<Duration>,
    /// As [`ResumeOptions::release`]. Cancelled from the start, the run is made and left to whoever takes it: a worker.
    pub release: CancellationToken,
}

/// The options of resuming a run.
#[derive(Clone, Default)]
pub struct ResumeOptions {
    /// Digests of what is there now. Every one that the run pinned must be among them, unchanged.
    pub pins: IndexMap<Arc<str>, Arc<str>>,
    /// As [`RunOptions::sink`].
    pub sink: Option<Arc<dyn RunText>>,
    /// As [`RunOptions::detach`].
    pub detach: bool,
    /// As [`RunOptions::park`].
    pub park: Option<Duration>,
    /// `true` to ignore the run's pins: only for a run that is being cancelled.
    pub unpinned: bool,
    /// Cancelled to release the run as soon as no effect is in flight: for fair scheduling, or an orderly shutdown.
    pub release: CancellationToken,
    /// The part of a damaged run that may be given up.
    pub cut: Cut,
}

/// Returns a new ID for a run; later ones sort after earlier ones.
#[must_use]
pub fn fresh_run_id() -> NewRunId {
    NewRunId::derived(uuid::Uuid::now_v7().to_string())
}

/// The number of events that are read before they are folded.
const EVENTS_PER_READ: usize = 1_000;

/// The default for the maximum nesting of delegated workflows.
const MAX_DEPTH: u32 = 16;

/// psi stops after this many events of one drain; here it is transitions back to a step on routes without a limit.
const VISIT_BOUND: u64 = 1000;

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Engine").field("driven", &self.driven.len()).finish_non_exhaustive()
    }
}

impl std::fmt::Debug for EngineBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineBuilder").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RunOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RunOptions")
            .field("run", &self.run)
            .field("user", &self.user)
            .field("tenant", &self.tenant)
            .field("detach", &self.detach)
            .field("park", &self.park)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for ResumeOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ResumeOptions").field("detach", &self.detach).field("park", &self.park).finish_non_exhaustive()
    }
}

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

    /// Time; by default the journal's, where it has a clock of its own, or the computer's.
    pub fn timer(mut self, timer: Arc<dyn Timer>) -> Self {
        self.timer = Some(timer);
        self
    }

    /// Sets the limits on the values of each run.
    pub fn values(mut self, values: ValueLimits) -> Self {
        self.values = values;
        self
    }

    /// Sets the journal of runs.
    pub fn journal(mut self, journal: Arc<dyn Journal>) -> Self {
        self.journal = journal;
        self
    }

    /// The engine.
    #[must_use]
    pub fn build(mut self) -> Engine {
        opcell_workers::install();
        if let Some(timer) = self.timer {
            self.ports.timer = timer;
        } else if self.journal.now().is_some() {
            self.ports.timer = Arc::new(JournalTimer(self.journal.clone()));
        }
        Engine {
            ports: Arc::new(self.ports),
            values: self.values,
            journal: self.journal,
            shutdown: self.shutdown,
            driven: self.driven,
        }
    }
}

impl Engine {
    /// Begins to build an engine.
    pub fn builder() -> EngineBuilder {
        let nothing = Arc::new(Unconfigured);
        let ports = Ports {
            operations: nothing.clone(),
            judges: nothing.clone(),
            sessions: nothing.clone(),
            workflows: nothing,
            timer: Arc::new(SystemTimer),
        };
        EngineBuilder {
            ports,
            timer: None,
            values: ValueLimits::default(),
            journal: Arc::new(MemoryJournal::new()),
            shutdown: Shutdown::default(),
            driven: TaskTracker::new(),
        }
    }

    /// Begins to build another engine on the same journal, with the same clock and the same end: to shut one of the two
    /// down is to shut down both. What it reaches is still to be given.
    pub fn sibling(&self) -> EngineBuilder {
        EngineBuilder {
            timer: Some(self.ports.timer.clone()),
            values: self.values,
            journal: self.journal.clone(),
            shutdown: self.shutdown.clone(),
            driven: self.driven.clone(),
            ..Self::builder()
        }
    }

    /// Returns the ports.
    #[must_use]
    pub fn ports(&self) -> &Ports {
        &self.ports
    }

    /// Returns the journal of its runs.
    #[must_use]
    pub fn journal(&self) -> &Arc<dyn Journal> {
        &self.journal
    }

    /// Ends in order: no run is started or resumed any more, no effect begins, and what is under way may end within
    /// `grace`. Then what is left is stopped, every run is given back to the journal as it is, and this returns. A run
    /// that was stopped continues with [`Engine::resume`], in this program's next process or in another; an effect that
    /// was stopped and must not happen twice waits for an answer then. Runs of a journal in memory are lost with it.
    ///
    /// Safe to call more than once, and to drop: the engine ends all the same.
    pub async fn shutdown(&self, grace: Duration) {
        self.shutdown.begin(grace);
        self.driven.close();
        self.driven.wait().await;
    }

    fn accepts_runs(&self) -> Result<(), RunError> {
        if self.shutdown.has_started() { Err(RunError::ShuttingDown) } else { Ok(()) }
    }

    /// Starts a run and drives it in a task of its own. Must be called inside a tokio runtime. Whoever drops the future
    /// does not learn whether the run was made; if it was, it is driven.
    ///
    /// # Errors
    /// When the journal does not take the run, the input is more than the limits allow, or the engine is shutting down.
    pub async fn start(&self, program: Arc<Program>, input: Value, options: RunOptions) -> Result<RunHandle, RunError> {
        self.accepts_runs()?;
        let values = options.values.tighter(&self.values);
        for (what, value) in [("the input", Some(&input)), ("the original request", options.original.as_ref())] {
            value.map_or(Ok(()), |value| accepts(&values, what, value))?;
        }
        let run: RunId = options.run.unwrap_or_else(fresh_run_id).into();
        let first = self.first_events(
            &run,
            program.clone(),
            input,
            &options.limits,
            FirstOptions {
                original: options.original,
                values,
                max_depth: options.max_depth,
                visit_bound: options.visit_bound,
                pins: options.pins,
                session: options.session,
                authorizer: options.authorizer,
                traceparent: options.traceparent,
                user: options.user,
                tenant: options.tenant,
            },
        );
        let workflow = program.name().clone();
        let ownership = self.journal.ownership();
        let (mut driver, mut handle) = self.driver(Drive {
            run,
            fence: Fence(0),
            ownership,
            state: State::default(),
            sink: options.sink,
            detach: options.detach,
            park: options.park,
            release: options.release,
            damage: None,
            unsaved: 0,
        });
        let name = handle.run.clone();
        let (told, tells) = oneshot::channel();
        // In a task of its own: a caller that goes away while the journal takes the run must not leave it without a
        // driver, and owned.
        // Moved once: a spawned future is copied several times before it runs, and this one is large.
        let driven = async move {
            match driver.begin(&workflow, first).await {
                Ok(()) => {
                    handle.begun = Arc::new(driver.state.outcome());
                    let _ = told.send(Ok(handle));
                    driver.drive(false).await;
                }
                Err(error) => drop(told.send(Err(error))),
            }
        };
        self.driven.spawn(driven.boxed());
        tells.await.unwrap_or_else(|_| Err(RunError::Gone(name)))
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
            limits: program.ir().limits.tighter(*host),
            value_limits: options.values,
            program: program.clone(),
            input,
            original,
            max_depth: options.max_depth.unwrap_or(MAX_DEPTH),
            visit_bound: options.visit_bound.unwrap_or(VISIT_BOUND),
            pins: options.pins,
            session: options.session,
            authorizer: options.authorizer,
            traceparent: options.traceparent,
            user: options.user,
            tenant: options.tenant,
            forked: None,
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
    /// Whoever drops the future does not learn whether the run was taken; if it was, it is driven.
    ///
    /// # Errors
    /// When the journal does not have the run, another process drives it, its events make no sense, or what it pinned
    /// is not there.
    pub async fn resume(&self, run: &RunId, options: ResumeOptions) -> Result<RunHandle, RunError> {
        self.accepts_runs()?;
        let (engine, run) = (self.clone(), run.clone());
        let name = run.clone();
        let (told, tells) = oneshot::channel();
        // As when a run is started: once it is taken, someone must drive it.
        let driven = async move {
            match engine.take(&run, options).await {
                Ok((driver, handle)) => {
                    let _ = told.send(Ok(handle));
                    driver.drive(true).await;
                }
                Err(error) => drop(told.send(Err(error))),
            }
        };
        self.driven.spawn(driven.boxed());
        tells.await.unwrap_or_else(|_| Err(RunError::Gone(name)))
    }

    async fn take(&self, run: &RunId, options: ResumeOptions) -> Result<(Driver, RunHandle), RunError> {
        // Before the run is taken: a lease that is lost in between is noticed at once, and never too late.
        let ownership = self.journal.ownership();
        let opened = self.journal.acquire(run, options.cut).await?;
        match self.state_for_resume(run, &opened, &options).await {
            Ok(state) => Ok(self.driver(Drive {
                run: run.clone(),
                fence: opened.fence,
                ownership,
                state,
                sink: options.sink,
                detach: options.detach,
                park: options.park,
                release: options.release,
                damage: opened.damage,
                unsaved: opened.records.iter().map(|record| record.payload.len()).sum(),
            })),
            Err(error) => {
                self.journal.release(run, opened.fence).await?;
                Err(error)
            }
        }
    }

    /// The state that a run was left in, checked against what is there now.
    pub(crate) async fn state_for_resume(
        &self,
        run: &RunId,
        opened: &OpenedRun,
        options: &ResumeOptions,
    ) -> Result<State, RunError> {
        let mut reader = Reader::new(self.journal.as_ref(), run);
        let mut state = match &opened.snapshot {
            Some(snapshot) => match reader.state(snapshot).await? {
                Some(state) => state,
                None => self.state_within(Reader::new(self.journal.as_ref(), run), Some(snapshot.seq)).await?,
            },
            None => State::default(),
        };
        for records in opened.records.chunks(EVENTS_PER_READ) {
            for recorded in reader.events(records).await? {
                fold(run, &mut state, &recorded)?;
            }
        }
        if state.program().is_none() {
            let problem = "the run has no first event: it was never started, or its first records are lost".to_owned();
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
        for (name, pinned) in state.pins().iter().filter(|_| !options.unpinned) {
            let found = options.pins.get(name);
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

    fn driver(&self, drive: Drive) -> (Driver, RunHandle) {
        let (sender, inbox) = mpsc::unbounded_channel();
        let (outcome, ended) = watch::channel(None);
        let (suspension, suspended) = watch::channel(Suspension::default());
        let listeners = Arc::new(Listeners::default());
        let driver = Driver {
            ports: self.ports.clone(),
            journal: self.journal.clone(),
            fence: drive.fence,
            ownership: drive.ownership,
            run: drive.run.clone(),
            listeners: listeners.clone(),
            inbox,
            outcome,
            suspension,
            cancel: Arc::new(CancellationToken::new()),
            sink: drive.sink,
            detach: drive.detach,
            park: drive.park,
            release: drive.release,
            shutdown: self.shutdown.clone(),
            state: drive.state,
            pure_before: EffectId(0),
            last_state: None,
            snapshots: SnapshotBytes { since_last: drive.unsaved, last: 0 },
            clock_reading: None,
            pending_append: None,
            resumed_effects: Vec::new(),
            inner: mpsc::unbounded_channel(),
            slow_elements: None,
            last_yield: tokio::time::Instant::now(),
            values: self.journal.keeps_values().then(LargeValues::default),
        };
        listeners.start_at(driver.state.seq());
        let handle = RunHandle {
            resumed_at: driver.state.seq(),
            begun: Arc::new(driver.state.outcome()),
            run: drive.run,
            journal: self.journal.clone(),
            inbox: sender,
            listeners,
            ended,
            suspended,
            damage: drive.damage,
        };
        (driver, handle)
    }
}

struct FirstOptions {
    values: ValueLimits,
    original: Option<Value>,
    max_depth: Option<u32>,
    visit_bound: Option<u64>,
    pins: IndexMap<Arc<str>, Arc<str>>,
    session: Option<Session>,
    authorizer: Option<Arc<str>>,
    traceparent: Option<Arc<str>>,
    user: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
}

struct Drive {
    run: RunId,
    fence: Fence,
    ownership: Ownership,
    state: State,
    sink: Option<Arc<dyn RunText>>,
    detach: bool,
    park: Option<Duration>,
    release: CancellationToken,
    damage: Option<Damage>,
    /// Bytes of events that no snapshot covers.
    unsaved: usize,
}
