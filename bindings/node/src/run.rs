//! Workflows and runs.

use crate::{
    connection::{Connection, Ended, done},
    error,
    value::{Given, Json},
};
use napi::{Either, Status};
use napi_derive::napi;
use opcell::{Decision, Delivery, Diagnostic, EffectId, Rejected, Run, RunRef, Value, Workflow};
use opcell_bindings::{
    data,
    error::Raised,
    updates::{TextFeed, Updates},
};
use std::sync::Arc;
use tokio::sync::Mutex;

/// The largest integer that a number of JavaScript has exactly.
const MAX_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A compiled workflow.
#[napi]
pub struct NativeWorkflow {
    pub(crate) workflow: Workflow,
}

/// Compiles a text, whose name decides the language. The result is a workflow, or an error as data.
#[napi]
pub fn compile_workflow(name: String, text: String) -> Either<NativeWorkflow, Json> {
    match Workflow::compile(&name, text) {
        Ok(workflow) => Either::A(NativeWorkflow::new(workflow)),
        Err(rejected) => Either::B(error::data(rejected.into())),
    }
}

impl NativeWorkflow {
    pub(crate) fn new(workflow: Workflow) -> Self {
        Self { workflow }
    }

    /// Reads and compiles a document.
    pub(crate) fn load(path: String) -> impl Future<Output = Ended> + Send {
        Self::opened(move || Workflow::load(path))
    }

    /// Opens a document on a thread that may wait for files.
    pub(crate) async fn opened(open: impl FnOnce() -> Result<Workflow, Rejected> + Send + 'static) -> Ended {
        let opened = tokio::task::spawn_blocking(open).await;
        let workflow = opened.map_err(|error| Raised::new("host", "panicked", &error.to_string()))??;
        done(Self::new(workflow))
    }

    /// Findings as data, with their places in the document.
    pub(crate) fn findings(&self, findings: &[Diagnostic]) -> Json {
        let source = self.workflow.document().map(|document| document.source.as_ref());
        let findings = findings.iter().map(|finding| Value::from(opcell::report::to_json(source, finding)));
        Json(Value::from(findings.collect::<Vec<_>>()))
    }
}

#[napi]
impl NativeWorkflow {
    /// The workflow's name.
    #[napi(getter)]
    pub fn name(&self) -> &str {
        &self.workflow.ir().name
    }

    /// The names of its steps.
    #[napi]
    pub fn steps(&self) -> Vec<String> {
        self.workflow.step_names().iter().map(ToString::to_string).collect()
    }

    /// Warnings about the document.
    #[napi]
    pub fn warnings(&self) -> Json {
        self.findings(self.workflow.warnings())
    }
}

/// A run that this host drives, or one of the journal.
#[napi]
pub struct NativeRun {
    connection: Arc<Connection>,
    driven: Option<Run>,
    by_id: RunRef,
    /// The text of its models, if that was asked for.
    text: Option<Arc<TextFeed>>,
}

impl NativeRun {
    pub(crate) fn new(connection: Arc<Connection>, run: Run, text: Option<Arc<TextFeed>>) -> Self {
        Self { connection, by_id: run.by_id().clone(), driven: Some(run), text }
    }

    pub(crate) fn of_journal(connection: Arc<Connection>, by_id: RunRef) -> Self {
        Self { connection, driven: None, by_id, text: None }
    }

    fn decide(&self, number: f64, question: String, decision: Decision) {
        let run = self.by_id.clone();
        self.connection.begin(number, async move { delivered(run.approve(&question, decision).await?) });
    }
}

/// The step that takes an answer now, or `null` of one that a later step takes.
fn delivered(delivery: Delivery) -> Ended {
    done(Json(match delivery {
        Delivery::Now(step) => Value::from(step),
        Delivery::Queued => Value::Null,
    }))
}

fn with(decision: Decision, by: Option<String>, why: Option<String>) -> Decision {
    let decision = by.into_iter().fold(decision, Decision::by);
    why.into_iter().fold(decision, Decision::why)
}

#[napi]
impl NativeRun {
    /// The run's ID.
    #[napi(getter)]
    pub fn id(&self) -> &str {
        self.by_id.id()
    }

    /// Returns `true` if this host drives the run.
    #[napi(getter)]
    pub fn is_driven(&self) -> bool {
        self.driven.is_some()
    }

    /// Waits until this host no longer drives the run, or, of a run of the journal, until it has ended.
    #[napi]
    pub fn outcome(&self, number: f64) {
        let (driven, by_id) = (self.driven.clone(), self.by_id.clone());
        self.connection.begin(number, async move {
            let outcome = match driven {
                Some(run) => run.finished().await?,
                None => by_id.wait().await?,
            };
            done(Json(data::outcome(outcome)))
        });
    }

    /// Reads the state of the run now.
    #[napi]
    pub fn state(&self, number: f64) {
        let run = self.by_id.clone();
        self.connection.begin(number, async move { done(Json(data::outcome(run.state().await?))) });
    }

    /// Reads every event until now.
    #[napi]
    pub fn history(&self, number: f64) {
        let run = self.by_id.clone();
        self.connection.begin(number, async move { done(Json(data::history(&run.history().await?))) });
    }

    /// Follows the run from its first event on; the result is a `NativeUpdates`.
    #[napi]
    pub fn updates(&self, number: f64) -> napi::Result<()> {
        let Some(run) = self.driven.clone() else {
            let problem = "this host does not drive the run: resume it to follow it, or read its history";
            return Err(napi::Error::new(Status::GenericFailure, problem.to_owned()));
        };
        let (connection, text) = (self.connection.clone(), self.text.clone());
        self.connection.begin(number, async move {
            let updates = Updates::new(run.updates().await?, text.as_deref());
            done(NativeUpdates { connection, updates: Arc::new(Mutex::new(updates)) })
        });
        Ok(())
    }

    /// Answers an open question with yes.
    #[allow(clippy::too_many_arguments, reason = "JavaScript passes the fields of its options")]
    #[napi]
    pub fn approve(
        &self,
        number: f64,
        question: String,
        by: Option<String>,
        why: Option<String>,
        for_the_run: bool,
        arguments: Option<Given>,
        values: Option<Given>,
    ) -> napi::Result<()> {
        let mut decision = with(Decision::approve(), by, why);
        if for_the_run {
            decision = decision.for_the_run();
        }
        if let Some(arguments) = arguments {
            decision = decision.arguments(arguments.named("the arguments of the call")?);
        }
        if let Some(values) = values {
            decision = decision.values(values.named("the values of the form")?);
        }
        self.decide(number, question, decision);
        Ok(())
    }

    /// Answers an open question with no.
    #[napi]
    pub fn refuse(&self, number: f64, question: String, by: Option<String>, why: Option<String>) {
        self.decide(number, question, with(Decision::refuse(), by, why));
    }

    /// Answers an effect in doubt.
    #[napi]
    pub fn settle(&self, number: f64, effect: f64, answer: String, by: Option<String>) -> napi::Result<()> {
        let invalid = |problem: String| napi::Error::new(Status::InvalidArg, problem);
        let answer = data::settlement(&answer).map_err(invalid)?;
        if effect.fract() != 0.0 || !(0.0..=MAX_INTEGER).contains(&effect) {
            return Err(invalid(format!("`{effect}` is not the number of an effect")));
        }
        let run = self.by_id.clone();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a whole number within bounds")]
        let effect = EffectId(effect as u64);
        self.connection.begin(number, async move { delivered(run.settle(effect, answer, by.as_deref()).await?) });
        Ok(())
    }

    /// Sends a signal.
    #[napi]
    pub fn signal(&self, number: f64, name: String, data: Given, by: Option<String>) -> napi::Result<()> {
        let data = data.named("the data of the signal")?;
        let run = self.by_id.clone();
        self.connection.begin(number, async move { delivered(run.signal(&name, data, by.as_deref()).await?) });
        Ok(())
    }

    /// Asks the run to stop.
    #[napi]
    pub fn cancel(&self, number: f64, reason: String, by: Option<String>) {
        let run = self.by_id.clone();
        self.connection.begin(number, async move {
            run.cancel(&reason, by.as_deref()).await?;
            done(Json(Value::Null))
        });
    }
}

/// The updates of a run.
#[napi]
pub struct NativeUpdates {
    connection: Arc<Connection>,
    updates: Arc<Mutex<Updates>>,
}

#[napi]
impl NativeUpdates {
    /// Waits for the next update: an object with `event`, `questions` or `text`, or `null` at the end.
    #[napi]
    pub fn next(&self, number: f64) {
        let updates = self.updates.clone();
        self.connection.begin(number, async move {
            let update = updates.lock().await.next().await;
            done(Json(update))
        });
    }
}
