//! Workflows and runs.

use crate::{
    error::exception,
    host::{given, raising, returning},
    pending::{Finish, Pending},
    value::to_python,
};
use opcell::{Decision, Delivery, Diagnostic, EffectId, Run, RunError, RunRef, Value, Workflow};
use opcell_bindings::{
    data,
    updates::{TextFeed, Updates},
};
use pyo3::{
    exceptions::{PyRuntimeError, PyValueError},
    prelude::*,
};
use std::{path::PathBuf, sync::Arc};
use tokio::sync::Mutex;

/// A compiled workflow.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct NativeWorkflow {
    pub(crate) workflow: Workflow,
}

/// Compiles a text; its name decides the language.
#[pyfunction]
pub(crate) fn compile_workflow(py: Python<'_>, name: &str, text: String) -> PyResult<NativeWorkflow> {
    let compiled = py.detach(|| Workflow::compile(name, text));
    compiled.map(NativeWorkflow::new).map_err(|rejected| exception(py, &rejected.into()))
}

/// Reads and compiles a document.
#[pyfunction]
pub(crate) fn load_workflow(py: Python<'_>, path: PathBuf) -> PyResult<NativeWorkflow> {
    let compiled = py.detach(|| Workflow::load(path));
    compiled.map(NativeWorkflow::new).map_err(|rejected| exception(py, &rejected.into()))
}

impl NativeWorkflow {
    pub(crate) fn new(workflow: Workflow) -> Self {
        Self { workflow }
    }

    /// Findings as data, with their places in the document.
    pub(crate) fn findings(&self, py: Python<'_>, findings: &[Diagnostic]) -> PyResult<Py<PyAny>> {
        let source = self.workflow.document().map(|document| document.source.as_ref());
        let findings = findings.iter().map(|finding| Value::from(opcell::report::to_json(source, finding)));
        Ok(to_python(py, &Value::from(findings.collect::<Vec<_>>()))?.unbind())
    }
}

#[pymethods]
impl NativeWorkflow {
    /// The workflow's name.
    #[getter]
    fn name(&self) -> &str {
        &self.workflow.ir().name
    }

    /// The names of its steps.
    fn steps(&self) -> Vec<String> {
        self.workflow.step_names().iter().map(ToString::to_string).collect()
    }

    /// Warnings about the document.
    fn warnings(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.findings(py, self.workflow.warnings())
    }
}

/// A run that this host drives, or one of the journal.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct NativeRun {
    driven: Option<Run>,
    by_id: RunRef,
    /// The text of its models, if that was asked for.
    text: Option<Arc<TextFeed>>,
}

impl NativeRun {
    pub(crate) fn of_journal(by_id: RunRef) -> Self {
        Self { driven: None, by_id, text: None }
    }

    pub(crate) fn finish(run: Run, text: Option<Arc<TextFeed>>) -> Finish {
        let run = Self { by_id: run.by_id().clone(), driven: Some(run), text };
        Box::new(move |py| Ok(Py::new(py, run)?.into_any()))
    }

    fn driven(&self) -> PyResult<&Run> {
        self.driven.as_ref().ok_or_else(|| {
            PyRuntimeError::new_err("this host does not drive the run: resume it to follow it, or read its history")
        })
    }

    fn decide(&self, question: String, decision: Decision) -> Pending {
        let run = self.by_id.clone();
        Pending::new(async move { delivered(run.approve(&question, decision).await) })
    }
}

fn delivered(delivery: Result<Delivery, RunError>) -> Finish {
    match delivery {
        Ok(Delivery::Now(step)) => returning(Value::from(step)),
        Ok(Delivery::Queued) => returning(Value::Null),
        Err(error) => raising(error),
    }
}

/// The step that takes an answer now, or `None` of one that a later step takes.
#[pymethods]
impl NativeRun {
    #[getter]
    fn id(&self) -> &str {
        self.by_id.id()
    }

    /// Returns `True` if this host drives the run.
    #[getter]
    fn is_driven(&self) -> bool {
        self.driven.is_some()
    }

    /// Waits until this host no longer drives the run, or, of a run of the journal, until it has ended.
    fn outcome(&self) -> Pending {
        let (driven, by_id) = (self.driven.clone(), self.by_id.clone());
        Pending::new(async move {
            let finished = match driven {
                Some(run) => run.finished().await,
                None => by_id.wait().await,
            };
            finished.map_or_else(raising, |outcome| returning(data::outcome(outcome)))
        })
    }

    /// The state of the run now.
    fn state(&self) -> Pending {
        let run = self.by_id.clone();
        Pending::new(async move { run.state().await.map_or_else(raising, |outcome| returning(data::outcome(outcome))) })
    }

    /// Every event until now.
    fn history(&self) -> Pending {
        let run = self.by_id.clone();
        Pending::new(
            async move { run.history().await.map_or_else(raising, |history| returning(data::history(&history))) },
        )
    }

    /// The updates of the run from the first one on; the result is a `NativeUpdates`.
    fn updates(&self) -> PyResult<Pending> {
        let (run, text) = (self.driven()?.clone(), self.text.clone());
        Ok(Pending::new(async move {
            match run.updates().await {
                Ok(updates) => {
                    let updates = Arc::new(Mutex::new(Updates::new(updates, text.as_deref())));
                    let updates = NativeUpdates { updates };
                    Box::new(move |py: Python<'_>| Ok(Py::new(py, updates)?.into_any())) as Finish
                }
                Err(error) => raising(error),
            }
        }))
    }

    /// Answers an open question with yes.
    fn approve(
        &self,
        question: String,
        by: Option<String>,
        why: Option<String>,
        for_the_run: bool,
        arguments: Option<&Bound<'_, PyAny>>,
        values: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Pending> {
        let mut decision = with(Decision::approve(), by, why);
        if for_the_run {
            decision = decision.for_the_run();
        }
        if let Some(arguments) = arguments {
            decision = decision.arguments(given("the arguments of the call", arguments)?);
        }
        if let Some(values) = values {
            decision = decision.values(given("the values of the form", values)?);
        }
        Ok(self.decide(question, decision))
    }

    /// Answers an open question with no.
    fn refuse(&self, question: String, by: Option<String>, why: Option<String>) -> Pending {
        self.decide(question, with(Decision::refuse(), by, why))
    }

    /// Answers an effect in doubt.
    fn settle(&self, effect: u64, answer: &str, by: Option<String>) -> PyResult<Pending> {
        let answer = data::settlement(answer).map_err(PyValueError::new_err)?;
        let run = self.by_id.clone();
        Ok(Pending::new(async move { delivered(run.settle(EffectId(effect), answer, by.as_deref()).await) }))
    }

    /// Sends a signal.
    fn signal(&self, name: String, data: &Bound<'_, PyAny>, by: Option<String>) -> PyResult<Pending> {
        let data = given("the data of the signal", data)?;
        let run = self.by_id.clone();
        Ok(Pending::new(async move { delivered(run.signal(&name, data, by.as_deref()).await) }))
    }

    /// Asks the run to stop.
    fn cancel(&self, reason: String, by: Option<String>) -> Pending {
        let run = self.by_id.clone();
        Pending::new(async move {
            run.cancel(&reason, by.as_deref()).await.map_or_else(raising, |()| returning(Value::Null))
        })
    }
}

fn with(decision: Decision, by: Option<String>, why: Option<String>) -> Decision {
    let decision = by.into_iter().fold(decision, Decision::by);
    why.into_iter().fold(decision, Decision::why)
}

/// The updates of a run.
#[pyclass(frozen, module = "opcell._native")]
pub(crate) struct NativeUpdates {
    updates: Arc<Mutex<Updates>>,
}

#[pymethods]
impl NativeUpdates {
    /// The next update: an object with `event`, `questions` or `text`, or `None` at the end.
    fn next(&self) -> Pending {
        let updates = self.updates.clone();
        Pending::new(async move {
            let update = updates.lock().await.next().await;
            returning(update)
        })
    }
}
