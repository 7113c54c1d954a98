//! Workflows that models call: each call is a run of its own.

use crate::library::Library;
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunHandle, RunOptions, Status,
    ports::{Failure, Reply, ToolCall, Workflows},
};
use opcell_session::tools::Delegation;
use opcell_workflow::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
};

/// How deep runs may start runs through models' calls.
const MAX_DEPTH: u32 = 4;

/// Starts the runs that models ask for. It is made before the engine that drives them, and does not keep it alive.
#[derive(Default)]
pub(crate) struct ChildRuns {
    engine: OnceLock<Weak<Engine>>,
    library: OnceLock<Weak<Library>>,
    /// How deep the runs are that were started here and have not ended.
    depths: Mutex<HashMap<Arc<str>, u32>>,
}

impl ChildRuns {
    /// Says who drives the runs, once.
    pub(crate) fn connect(&self, engine: &Arc<Engine>, library: &Arc<Library>) {
        let _ = self.engine.set(Arc::downgrade(engine));
        let _ = self.library.set(Arc::downgrade(library));
    }

    async fn start(&self, workflow: &str, prompt: &str, call: &ToolCall) -> Result<Value, Failure> {
        let gone = || failed("host-gone", "the host that ran workflows is gone".to_owned());
        let engine = self.engine.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let library = self.library.get().and_then(Weak::upgrade).ok_or_else(gone)?;
        let definition = library
            .find(workflow)
            .ok_or_else(|| failed("unknown-workflow", format!("there is no workflow `{workflow}`")))?;
        let program = Program::new(definition).map_err(|error| failed("invalid-workflow", error.to_string()))?;
        let parent = self.depth(&call.context.run);
        if parent >= MAX_DEPTH {
            let message = format!("runs that models start may nest {MAX_DEPTH} deep, and this one is at that depth");
            return Err(failed("delegation-too-deep", message));
        }
        let run: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let _entry = Entry::new(self, run.clone(), parent + 1);
        let options = RunOptions { run: Some(run), ..RunOptions::default() };
        let handle = engine
            .start(program, Value::from(prompt), options)
            .await
            .map_err(|error| failed("run-not-started", error.to_string()))?;
        let _stop = CancelOnDrop(handle.clone());
        let outcome = handle.finished().await.map_err(|error| failed("run-lost", error.to_string()))?;
        match outcome.status {
            Status::Completed => Ok(outcome.result),
            status => {
                let because = outcome.message.or(outcome.reason.map(|reason| reason.as_ref().to_owned()));
                let because = because.map(|because| format!(": {because}")).unwrap_or_default();
                Err(failed("delegated-run-failed", format!("the workflow `{workflow}` {status}{because}")))
            }
        }
    }

    fn depth(&self, run: &str) -> u32 {
        self.depths.lock().unwrap_or_else(PoisonError::into_inner).get(run).copied().unwrap_or(0)
    }
}

#[async_trait]
impl Delegation for ChildRuns {
    async fn run(&self, workflow: &str, prompt: &str, call: &ToolCall) -> Reply<Value> {
        Reply { result: self.start(workflow, prompt, call).await, receipt: None }
    }
}

/// Remembers a run's depth while the run lasts.
struct Entry<'a> {
    runs: &'a ChildRuns,
    run: Arc<str>,
}

impl<'a> Entry<'a> {
    fn new(runs: &'a ChildRuns, run: Arc<str>, depth: u32) -> Self {
        runs.depths.lock().unwrap_or_else(PoisonError::into_inner).insert(run.clone(), depth);
        Self { runs, run }
    }
}

impl Drop for Entry<'_> {
    fn drop(&mut self) {
        self.runs.depths.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
}

/// A call that is given up takes its run with it; a run that has ended does not mind.
struct CancelOnDrop(RunHandle);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel("the call that started it was given up");
    }
}

fn failed(reason: &str, message: String) -> Failure {
    Failure { reason: reason.into(), message, details: None, retriable: false }
}
