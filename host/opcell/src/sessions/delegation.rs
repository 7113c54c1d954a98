//! Workflows that models call: each call is a run of its own, named by the run and the call that started it, so that a
//! call that is repeated after a crash finds the run that it started then, and a name says how deep its run is nested.

use crate::{catalog::Catalog, host::WeakHost, library::Library, pins};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Event, MESSAGE_SIGNAL, Program, Recorded, ResumeOptions, RunError, RunHandle, RunOptions, RunOutcome,
    Status,
    outcome::Question,
    ports::{Failure, Reply, Workflows},
    receipt::{Receipt, of_started_run},
    tool::{ModelCaller, ToolInput},
};
use opcell_ir::{
    WorkflowIr, agent,
    ir::{AgentTool, Session},
};
use opcell_journal::JournalError;
use opcell_session::tools::Delegation;
use opcell_types::{FollowUp, NewRunId, Value};
use std::{
    convert::Infallible,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

/// The maximum nesting of runs that start runs through models' calls.
const MAX_DEPTH: usize = 4;

/// Stands between a run's name and the call that started another one; no more of them than [`MAX_DEPTH`] are in a name
/// made here.
const CALLED_BY: char = '~';

/// The interval at which a run of another driver is polled.
const POLL: Duration = Duration::from_millis(200);

/// Starts the runs that models ask for. It is made before the engine that drives them, and does not keep it alive.
#[derive(Default)]
pub(crate) struct ChildRuns {
    engine: OnceLock<Weak<Engine>>,
    library: OnceLock<Weak<Library>>,
    catalog: OnceLock<Arc<Catalog>>,
    /// Resumes runs with the versions of plugins that they pinned.
    host: OnceLock<WeakHost>,
    /// Workflows whose sessions have what they declare, whoever calls them.
    unnarrowed: Vec<String>,
}

impl ChildRuns {
    /// Sessions of these workflows have what they declare, also when the session that calls them does not.
    pub(crate) fn new(unnarrowed: Vec<String>) -> Self {
        Self { unnarrowed, ..Self::default() }
    }

    /// Returns the most that sessions of the run that a call starts may have. An agent has what its own prompt says,
    /// within what the run that it is called in was given; a workflow has no more than the session that calls it.
    async fn narrowing(&self, wanted: &Wanted<'_>, call: &ToolInput) -> Result<Option<Session>, Failure> {
        if !wanted.is_agent() {
            let narrowing = wanted.by.session.narrowing.as_deref().cloned();
            return Ok(narrowing.filter(|_| !self.unnarrowed.iter().any(|name| name == wanted.workflow)));
        }
        let past =
            self.engine()?.history_up_to(&call.context.run, Some(1)).await.map_err(|error| not_started(&error))?;
        Ok(past.first().and_then(|first| match &first.event {
            Event::RunStarted(caller) => caller.session.clone(),
            _ => None,
        }))
    }

    /// Says who drives the runs, once.
    pub(crate) fn connect(&self, engine: &Arc<Engine>, library: &Arc<Library>, catalog: &Arc<Catalog>) {
        let _ = self.engine.set(Arc::downgrade(engine));
        let _ = self.library.set(Arc::downgrade(library));
        let _ = self.catalog.set(catalog.clone());
    }

    /// Sets the host that resumes runs, once.
    pub(crate) fn resume_by(&self, host: WeakHost) {
        let _ = self.host.set(host);
    }

    /// Resumes a run that a call started.
    async fn resume(&self, catalog: &Catalog, run: &Arc<str>, detach: bool) -> Result<RunHandle, RunError> {
        let options = ResumeOptions { detach, ..ResumeOptions::default() };
        match self.host.get().and_then(WeakHost::upgrade) {
            Some(host) => Ok(host.resume_with_versions(run, options).await?.0),
            None => match self.engine.get().and_then(Weak::upgrade) {
                Some(engine) => engine.resume(run, ResumeOptions { pins: pins::all(catalog), ..options }).await,
                None => Err(RunError::Gone(run.clone())),
            },
        }
    }

    fn engine(&self) -> Result<Arc<Engine>, Failure> {
        self.engine.get().and_then(Weak::upgrade).ok_or_else(gone)
    }

    /// An agent that the document of the caller's run brings along. Its run has the whole document's workflows, as its
    /// caller's has.
    async fn agent<'a>(
        &self,
        agent: &'a AgentTool,
        query: &str,
        call: &ToolInput,
        by: &'a ModelCaller,
    ) -> Result<Wanted<'a>, Failure> {
        let past =
            self.engine()?.history_up_to(&call.context.run, Some(1)).await.map_err(|error| not_started(&error))?;
        let found = past.first().and_then(|first| match &first.event {
            Event::RunStarted(caller) => {
                let own = caller.program.own().iter().find(|own| *own.name() == agent.workflow)?;
                let workflows = caller.program.ir().workflows.clone();
                let ir = WorkflowIr { workflows, ..own.ir().as_ref().clone() };
                Some((Arc::new(ir), agent::input(&caller.input, query)))
            }
            _ => None,
        });
        let (definition, input) =
            found.ok_or_else(|| failed("unknown-workflow", format!("there is no workflow `{}`", agent.workflow)))?;
        Ok(Wanted { workflow: &agent.workflow, input, definition: Some(definition), by })
    }

    async fn start(&self, wanted: &Wanted<'_>, call: &ToolInput) -> Reply<Value> {
        let mut receipt = None;
        let result = self.outcome(wanted, call, &mut receipt).await;
        Reply { result, receipt }
    }

    async fn outcome(
        &self,
        wanted: &Wanted<'_>,
        call: &ToolInput,
        receipt: &mut Option<Receipt>,
    ) -> Result<Value, Failure> {
        let Wanted { workflow, input, definition, by } = wanted;
        let engine = self.engine()?;
        let library = self.library.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let catalog = self.catalog.get().ok_or_else(gone)?;
        let parent = &call.context.run;
        if parent.matches(CALLED_BY).count() >= MAX_DEPTH {
            let message = format!("runs started by models may nest at most {MAX_DEPTH} deep");
            return Err(failed("delegation-too-deep", message));
        }
        let key = &call.context.idempotency_key;
        let of_call = key.strip_prefix(parent.as_ref()).and_then(|rest| rest.strip_prefix('/')).unwrap_or(key);
        let run: Arc<str> = format!("{parent}{CALLED_BY}{}", of_call.replace('/', ".")).into();
        let handle = match engine.history_up_to(&run, Some(1)).await {
            Ok(past) => self.take_up(catalog, &run, &past, wanted, call).await?,
            Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => {
                let definition = definition.clone().or_else(|| library.find(workflow));
                let definition = definition
                    .ok_or_else(|| failed("unknown-workflow", format!("there is no workflow `{workflow}`")))?;
                let program =
                    Program::new(definition).map_err(|error| failed("invalid-workflow", error.to_string()))?;
                let session = self.narrowing(wanted, call).await?;
                let pins = pins::of(catalog, &library, program.ir(), session.as_ref());
                let detach = wanted.is_agent() || !is_durable(&engine);
                // What the caller has left is what it may use.
                let limits = by.left;
                // It reaches no more than its caller: what a tenant is granted.
                let (user, tenant) = (call.context.user.clone(), call.context.tenant.clone());
                let run = Some(NewRunId::derived(run.clone()));
                let authorizer = catalog.authorizer().cloned();
                let options = RunOptions {
                    run,
                    pins,
                    detach,
                    session,
                    limits,
                    user,
                    tenant,
                    authorizer,
                    ..RunOptions::default()
                };
                let started = engine.start(program, input.clone(), options).await;
                started.map_err(|error| not_started(&error))?
            }
            Err(error) => return Err(not_started(&error)),
        };
        let mut stop = CancelOnDrop(handle);
        let lost = |error: RunError| failed("run-lost", error.to_string());
        let mut outcome = tokio::select! {
            outcome = ended(&stop.0, call) => outcome.map_err(lost)?,
            never = says_what_it_waits_for(&engine, &run) => match never {},
        };
        // What it waits for is for a person to say, and not for a caller to skip.
        while outcome.status == Status::Suspended && !(wanted.is_agent() && waits_for_a_word(&outcome)) {
            if !is_durable(&engine) {
                // No one can answer a run that is nowhere but here.
                stop.0.cancel("no one can answer it");
                let message = format!(
                    "the workflow `{workflow}` waits for {}, and the run is not kept; it needs a journal",
                    waited_for(&outcome.questions)
                );
                return Err(failed("delegated-run-waits", message));
            }
            pause(&run, call).await?;
            let past = engine.history_up_to(&run, Some(1)).await.map_err(lost)?;
            stop = CancelOnDrop(self.take_up(catalog, &run, &past, wanted, call).await?);
            outcome = ended(&stop.0, call).await.map_err(lost)?;
        }
        *receipt = of_started_run(&run, &outcome.used);
        match outcome.status {
            Status::Completed => Ok(outcome.result),
            // An agent is asked once: what it said before it waits to be spoken to is its answer.
            Status::Suspended if wanted.is_agent() && waits_for_a_word(&outcome) => {
                last_words(&engine.history(&run).await.map_err(lost)?).ok_or_else(|| {
                    let message = format!("`{workflow}` is suspended without a result");
                    failed("delegated-run-waits", message)
                })
            }
            status => {
                let because = outcome.message.or(outcome.reason.map(|reason| reason.as_ref().to_owned()));
                let because = because.map(|because| format!(": {because}")).unwrap_or_default();
                Err(failed("delegated-run-failed", format!("the workflow `{workflow}` {status}{because}")))
            }
        }
    }

    /// The run that this call started before. Whoever else drives it is waited for.
    async fn take_up(
        &self,
        catalog: &Catalog,
        run: &Arc<str>,
        past: &[Recorded],
        wanted: &Wanted<'_>,
        call: &ToolInput,
    ) -> Result<RunHandle, Failure> {
        let is_ours = past.first().is_some_and(|first| match &first.event {
            Event::RunStarted(started) => {
                started.program.name().as_ref() == wanted.workflow && started.input == wanted.input
            }
            _ => false,
        });
        if !is_ours {
            let message = format!("run `{run}` already exists and was not started by this call");
            return Err(failed("run-not-started", message));
        }
        loop {
            match self.resume(catalog, run, wanted.is_agent()).await {
                Ok(handle) => return Ok(handle),
                Err(RunError::Journal(error)) if matches!(*error, JournalError::Held { .. }) => {}
                Err(error) => return Err(not_started(&error)),
            }
            pause(run, call).await?;
        }
    }
}

/// The end of a run that a call started. A caller that is cancelled cancels it, and still learns what it used.
async fn ended(run: &RunHandle, call: &ToolInput) -> Result<RunOutcome, RunError> {
    tokio::select! {
        outcome = run.finished() => outcome,
        () = call.cancel.cancelled() => {
            run.cancel("its caller was cancelled");
            run.finished().await
        }
    }
}

/// The run that a call starts.
struct Wanted<'a> {
    workflow: &'a str,
    input: Value,
    /// Absent: the library's.
    definition: Option<Arc<WorkflowIr>>,
    by: &'a ModelCaller,
}

impl Wanted<'_> {
    fn is_agent(&self) -> bool {
        self.definition.is_some()
    }
}

fn waits_for_a_word(outcome: &RunOutcome) -> bool {
    let is_message =
        |question: &Question| matches!(question, Question::Signal { name, .. } if name.as_ref() == MESSAGE_SIGNAL);
    outcome.questions.iter().any(is_message)
}

/// Returns `true` if a run outlives this process.
fn is_durable(engine: &Engine) -> bool {
    engine.journal().reads_payloads()
}

/// Says once, in the log, what the run waits for: its caller's own run looks as if it only took long.
async fn says_what_it_waits_for(engine: &Engine, run: &Arc<str>) -> Infallible {
    let mut pause = Duration::from_secs(1);
    loop {
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(60));
        let Ok(state) = engine.state_at(run, None).await else { continue };
        if state.status() == Status::Suspended {
            let what = waited_for(&state.questions());
            tracing::warn!(
                "run `{run}`, which a model's call started, waits for {what}; {} says how to answer",
                FollowUp::ShowRun(run.to_string())
            );
            return std::future::pending().await;
        }
    }
}

fn waited_for(questions: &[Question]) -> String {
    let what: Vec<String> = questions
        .iter()
        .map(|question| match question {
            Question::Signal { step, name, approval: true, .. } => format!("approval `{name}` of step `{step}`"),
            Question::Signal { step, name, .. } => format!("signal `{name}` of step `{step}`"),
            Question::Doubt { step, .. } => format!("a decision on step `{step}`"),
            Question::Grant { denial, .. } => format!("a grant of {}", denial.capability),
            Question::Call { step, tool, .. } => format!("approval of a call of `{tool}` by step `{step}`"),
            Question::Input { step, server, tool, .. } => {
                format!("input of step `{step}` for tool `{tool}` of MCP server `{server}`")
            }
        })
        .collect();
    if what.is_empty() { "an answer".to_owned() } else { what.join(", ") }
}

/// Returns the last message.
fn last_words(history: &[Recorded]) -> Option<Value> {
    history.iter().rev().find_map(|recorded| match &recorded.event {
        Event::TurnFinished { text, .. } => Some(Value::from(text.clone())),
        _ => None,
    })
}

/// Lets some time pass, unless the caller is gone.
async fn pause(run: &str, call: &ToolInput) -> Result<(), Failure> {
    tokio::select! {
        () = tokio::time::sleep(POLL) => Ok(()),
        () = call.cancel.cancelled() => Err(failed("cancelled", format!("the caller of run `{run}` no longer waits for it"))),
    }
}

fn gone() -> Failure {
    failed("host-gone", "the host that ran the workflow has shut down".to_owned())
}

fn not_started(error: &RunError) -> Failure {
    failed("run-not-started", error.to_string())
}

#[async_trait]
impl Delegation for ChildRuns {
    async fn run(&self, workflow: &str, prompt: &str, input: &ToolInput, by: &ModelCaller) -> Reply<Value> {
        let wanted = Wanted { workflow, input: Value::from(prompt), definition: None, by };
        self.start(&wanted, input).await
    }

    async fn ask(&self, agent: &AgentTool, query: &str, input: &ToolInput, by: &ModelCaller) -> Reply<Value> {
        let said = match self.agent(agent, query, input, by).await {
            Ok(wanted) => self.start(&wanted, input).await,
            Err(unknown) => Err(unknown).into(),
        };
        Reply { result: said.result.map(|said| Value::object([(agent::RESPONSE, said)])), ..said }
    }
}

/// A call that is given up takes its run with it; a run that has ended does not mind.
struct CancelOnDrop(RunHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel("the call that started it was abandoned");
    }
}

fn failed(reason: &str, message: String) -> Failure {
    Failure::host(reason, message)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::panic, reason = "a failed test")]

    use super::*;
    use crate::run::Workflow;
    use opcell_engine::{ports::OpenedSession, tool::Caller};
    use opcell_journal::SqliteJournal;
    use opcell_types::CallContext;
    use std::path::Path;

    const ASK: &str = r#"{"version":"workflow-ir/v1","name":"ask","steps":[
        {"name":"w","type":"wait","wait":{"signal":"go"},"yields":{"type":"data","data":"data"}}]}"#;

    struct Process {
        engine: Arc<Engine>,
        _library: Arc<Library>,
        children: Arc<ChildRuns>,
    }

    fn process(store: &Path) -> Process {
        let library = Arc::new(Library::default());
        library.add(Workflow::from_ir(Arc::new(serde_json::from_str(ASK).unwrap())));
        let journal = Arc::new(SqliteJournal::open(store).unwrap());
        let engine = Arc::new(Engine::builder().journal(journal).build());
        let children = Arc::new(ChildRuns::default());
        children.connect(&engine, &library, &Arc::new(Catalog::default()));
        Process { engine, _library: library, children }
    }

    fn call() -> ToolInput {
        let context = CallContext {
            run: "parent".into(),
            step: "talk".into(),
            visit: 1,
            attempt: 1,
            idempotency_key: "parent/2/7".into(),
            ..CallContext::default()
        };
        let session = OpenedSession {
            system: String::new(),
            sections: Value::Null,
            models: Vec::new(),
            tools: Vec::new(),
            settings: opcell_ir::ir::Session::default(),
            parallel_tools: Vec::new(),
            narrowing: None,
            approvals: Vec::new(),
            code: None,
            augmenters: Vec::new(),
            windows: Vec::new(),
            result_limit: None,
        };
        let left = opcell_ir::ir::RunLimits::default();
        let by = ModelCaller { called: "delegate".to_owned(), session: Arc::new(session), left, in_program: false };
        ToolInput { context, ..ToolInput::new(Value::object::<&str>([]), Caller::Model(by)) }
    }

    async fn ask(children: &ChildRuns, prompt: &str, call: &ToolInput) -> Reply<Value> {
        children.run("ask", prompt, call, call.model().unwrap()).await
    }

    /// Until the run waits.
    async fn waits(engine: &Engine) {
        let run = Arc::from("parent~2.7");
        while !engine.state_at(&run, None).await.is_ok_and(|state| state.status() == Status::Suspended) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    #[tokio::test]
    async fn a_run_that_is_too_deep_by_its_name_starts_no_other_whoever_drives_it_now() {
        let folder = tempfile::tempdir().unwrap();
        let process = process(&folder.path().join("runs.db"));
        let mut call = call();
        call.context.run = "parent~2.7~2.7~2.7~2.7".into();
        let refused = ask(&process.children, "please", &call).await.result.unwrap_err();
        assert_eq!(refused.reason.as_ref(), "delegation-too-deep");
        assert!(process.engine.runs().await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_a_call_starts_has_what_its_caller_has_left_and_is_charged_when_the_caller_is_cancelled() {
        let folder = tempfile::tempdir().unwrap();
        let process = process(&folder.path().join("runs.db"));
        let mut call = call();
        if let Caller::Model(by) = &mut call.caller {
            by.left.total_visits = Some(7);
            by.left.tokens = Some(100);
        }
        let cancel = call.cancel.clone();
        let cancelled = async {
            waits(&process.engine).await;
            cancel.cancel();
        };
        let (reply, ()) = tokio::join!(ask(&process.children, "please", &call), cancelled);
        let failure = reply.result.unwrap_err();
        assert!(failure.message.contains("was cancelled"), "{}", failure.message);
        let receipt = reply.receipt.unwrap();
        let used = opcell_engine::receipt::used_by_started_run(&receipt).unwrap();
        assert_eq!(used.visits, 1, "what was begun is on the caller's account");
        let history = process.engine.history(&"parent~2.7".into()).await.unwrap();
        let Event::RunStarted(started) = &history[0].event else { panic!("{:?}", history[0]) };
        assert_eq!((started.limits.total_visits, started.limits.tokens), (Some(7), Some(100)));
        let last = history.last().unwrap().event.kind();
        assert_eq!(last, "run-finished", "it does not go on by itself");
    }

    #[tokio::test]
    async fn a_run_that_no_one_can_answer_fails_the_call_that_started_it() {
        let library = Arc::new(Library::default());
        library.add(Workflow::from_ir(Arc::new(serde_json::from_str(ASK).unwrap())));
        let engine = Arc::new(Engine::builder().build());
        let children = ChildRuns::default();
        children.connect(&engine, &library, &Arc::new(Catalog::default()));
        let call = call();
        let answered = tokio::time::timeout(Duration::from_secs(30), ask(&children, "please", &call));
        let failure = answered.await.unwrap().result.unwrap_err();
        assert_eq!(failure.reason.as_ref(), "delegated-run-waits");
        assert!(failure.message.contains("waits for signal `go` of step `w`"), "{}", failure.message);
    }

    #[test]
    fn a_call_that_is_repeated_after_a_crash_goes_on_with_the_run_that_it_started() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("runs.db");
        let runtime = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();

        let first = runtime();
        first.block_on(async {
            let first = process(&store);
            let children = first.children.clone();
            tokio::spawn(async move { ask(&children, "please", &call()).await });
            waits(&first.engine).await;
        });
        // Everything that this process did stops where it is.
        first.shutdown_timeout(Duration::from_secs(5));

        runtime().block_on(async {
            let second = process(&store);
            let again = async { ask(&second.children, "please", &call()).await.result.unwrap() };
            let signal = async {
                waits(&second.engine).await;
                second.engine.signal(&"parent~2.7".into(), &"go".into(), Value::from("now"), None).await.unwrap();
            };
            assert_eq!(tokio::join!(again, signal).0, Value::from("now"));
            let third = ask(&second.children, "please", &call()).await.result.unwrap();
            assert_eq!(third, Value::from("now"), "what it gave is known");
            assert_eq!(second.engine.runs().await.unwrap().len(), 1);
            let other = ask(&second.children, "something else", &call()).await.result.unwrap_err();
            assert!(other.message.contains("was not started by this call"), "{}", other.message);
        });
    }
}
