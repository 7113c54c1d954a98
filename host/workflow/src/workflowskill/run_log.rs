//! WorkflowSkill's run log and event stream, as a projection of a run's events: nothing here is known that the journal
//! does not hold.
//!
//! Shapes, key order and texts are those of the reference runtime 0.5.0. An aborted run's log has no step records, as
//! there; the journal keeps them.
//!
//! In and out: events of `opcell-core` in, records and texts out. Must not know: who drives the run, and where it is
//! kept.

use super::{Issue, ParseError};
use opcell_core::{
    event::{Event, FrameId, Recorded, StepResult, Timestamp},
    failure::Failure,
    located::{Located, Locator},
    outcome::{RunEnd, Status},
    program::Program,
    state::{ApplyError, State},
};
use opcell_ir::ir::{Form, OnError, Step};
use opcell_types::Value;
use serde::Serialize;
use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

/// The record of a run, once it has ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RunLog {
    /// The run; a UUID unless the host names runs otherwise.
    pub id: Arc<str>,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The status of the run.
    pub status: LogStatus,
    /// The number of steps of each status.
    pub summary: Summary,
    /// ISO 8601, UTC, milliseconds.
    pub started_at: String,
    /// ISO 8601, UTC, milliseconds.
    pub completed_at: String,
    /// From start to end, in milliseconds.
    pub duration_ms: i64,
    /// Given values and defaults.
    pub inputs: Value,
    /// In the order in which steps ran; those that did not, last.
    pub steps: Vec<StepRecord>,
    /// The workflow's outputs, by name.
    pub outputs: Value,
    /// Why the run did not begin or was given up; never a failed step's error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<LogError>,
}

/// The status that a run or a step ended with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum LogStatus {
    Success,
    Failed,
    Skipped,
}

/// Counts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Summary {
    /// Failed ones included.
    pub steps_executed: usize,
    /// Guards that were false, branches not selected, and whatever came after the end.
    pub steps_skipped: usize,
    /// Time of the whole run, in milliseconds.
    pub total_duration_ms: i64,
}

/// The record of a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct StepRecord {
    /// The step's name.
    pub id: Arc<str>,
    /// `tool`, `transform`, `conditional` or `exit`.
    pub executor: &'static str,
    /// The status of the step.
    pub status: LogStatus,
    /// Why it was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// From its first attempt to its end, in milliseconds.
    pub duration_ms: i64,
    /// Resolved, and without an element under `each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Value>,
    /// Elements of `each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iterations: Option<usize>,
    /// After its outputs were mapped.
    #[serde(skip_serializing_if = "is_absent")]
    pub output: Option<Value>,
    /// Why it failed; the last failure's under `each`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Failed attempts that were followed by another.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retries: Option<Retries>,
}

#[expect(clippy::ref_option, reason = "serde's skip_serializing_if passes the field by reference")]
fn is_absent(value: &Option<Value>) -> bool {
    matches!(value, None | Some(Value::Undefined))
}

/// Failed attempts that were followed by another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Retries {
    /// Failed attempts that another one followed.
    pub attempts: usize,
    /// Why each failed.
    pub errors: Vec<String>,
}

/// Why a run did not begin or was given up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogError {
    /// Phase in which the error occurred.
    pub phase: Phase,
    /// One sentence.
    pub message: String,
    /// One by one, where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Vec<LogIssue>>,
}

/// When a run was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum Phase {
    Parse,
    Validate,
    Execute,
}

/// One thing that is wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LogIssue {
    /// Path into the document, such as `steps[0].id`.
    pub path: String,
    /// One sentence.
    pub message: String,
}

/// Events of the log while a run is driven.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum LogEvent {
    /// First.
    #[serde(rename_all = "camelCase")]
    WorkflowStart {
        /// The workflow's name.
        workflow: Arc<str>,
        /// Steps of branches included.
        total_steps: usize,
    },
    /// A step's guard held.
    #[serde(rename_all = "camelCase")]
    StepStart {
        /// ID of the step.
        step_id: Arc<str>,
        /// `tool`, `transform`, `conditional` or `exit`.
        step_type: &'static str,
        /// The tool that the step called.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<Arc<str>>,
        /// The step's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// A step ended.
    StepComplete {
        /// ID of the step.
        #[serde(rename = "stepId")]
        step_id: Arc<str>,
        /// `success`, `failed` or `skipped`.
        status: LogStatus,
        /// From start to end, in milliseconds.
        duration_ms: i64,
        /// Elements of `each`.
        #[serde(skip_serializing_if = "Option::is_none")]
        iterations: Option<usize>,
    },
    /// A step did not run.
    #[serde(rename_all = "camelCase")]
    StepSkip {
        /// ID of the step.
        step_id: Arc<str>,
        /// The guard, the branch or the end of the workflow.
        reason: &'static str,
        /// The step's own.
        #[serde(skip_serializing_if = "Option::is_none")]
        description: Option<String>,
    },
    /// An attempt failed and another follows.
    #[serde(rename_all = "camelCase")]
    StepRetry {
        /// ID of the step.
        step_id: Arc<str>,
        /// Failed attempts so far.
        attempt: usize,
        /// Why this one failed.
        error: String,
    },
    /// A step failed.
    #[serde(rename_all = "camelCase")]
    StepError {
        /// ID of the step.
        step_id: Arc<str>,
        /// Message of the failure.
        error: String,
        /// The effect of that on the run.
        on_error: OnError,
    },
    /// An element's turn ended.
    #[serde(rename_all = "camelCase")]
    EachProgress {
        /// ID of the step.
        step_id: Arc<str>,
        /// Elements so far.
        current: usize,
        /// All elements.
        total: usize,
    },
    /// Last.
    WorkflowComplete {
        /// `success` or `failed`.
        status: LogStatus,
        /// From start to end, in milliseconds.
        duration_ms: i64,
        /// The number of steps of each status.
        summary: Summary,
    },
}

const GUARD: &str = "Guard condition evaluated to false";
const BRANCH: &str = "Branch not selected";
const HALTED: &str = "Workflow halted";

impl RunLog {
    /// The log of a run that did not begin because there is no workflow in the document.
    #[must_use]
    pub fn of_parse_error(id: Arc<str>, workflow: &str, error: &ParseError, at: Timestamp) -> Self {
        Self::failed(id, workflow, Phase::Parse, error.message.clone(), &error.details, at)
    }

    /// The log of a run that did not begin because the workflow is not valid.
    #[must_use]
    pub fn of_issues(id: Arc<str>, workflow: &str, issues: &[Issue], at: Timestamp) -> Self {
        let messages: Vec<&str> = issues.iter().map(|issue| issue.message.as_str()).collect();
        let message = format!("Workflow validation failed: {}", messages.join("; "));
        Self::failed(id, workflow, Phase::Validate, message, issues, at)
    }

    /// The log of a run that did not begin for another reason.
    #[must_use]
    pub fn of_failure(id: Arc<str>, workflow: &str, message: impl Into<String>, at: Timestamp) -> Self {
        Self::failed(id, workflow, Phase::Execute, message.into(), &[], at)
    }

    fn failed(id: Arc<str>, workflow: &str, phase: Phase, message: String, issues: &[Issue], at: Timestamp) -> Self {
        let detail = |issue: &Issue| LogIssue { path: issue.path.clone(), message: issue.message.clone() };
        let details = Some(issues.iter().map(detail).collect()).filter(|details: &Vec<_>| !details.is_empty());
        Self {
            id,
            workflow: workflow.into(),
            status: LogStatus::Failed,
            summary: Summary::default(),
            started_at: iso(at),
            completed_at: iso(at),
            duration_ms: 0,
            inputs: Value::object::<&str>([]),
            steps: Vec::new(),
            outputs: Value::object::<&str>([]),
            error: Some(LogError { phase, message, details }),
        }
    }

    /// The log of a run from its events; nothing while it has not ended.
    ///
    /// # Errors
    /// When the events make no sense.
    pub fn of_events<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> Result<Option<Self>, ApplyError> {
        let mut projection = Projection::default();
        for recorded in events {
            projection.apply(recorded)?;
        }
        Ok(projection.into_log())
    }
}

fn iso(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.0)
        .map_or_else(|_| String::new(), |at| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

#[expect(clippy::cast_possible_truncation, reason = "a float to integer conversion saturates")]
fn ms_between(from: Timestamp, to: Timestamp) -> i64 {
    to.ms_since(from).round() as i64
}

fn executor(step: &Step) -> &'static str {
    match &step.form {
        Form::Invoke { .. } => "tool",
        Form::Transform { .. } => "transform",
        Form::Branch { .. } => "conditional",
        Form::Exit { .. } => "exit",
        Form::Session { .. } => "session",
        Form::Delegate { .. } => "delegate",
        Form::Parallel { .. } => "parallel",
        Form::Wait { .. } => "wait",
    }
}

/// A step that has begun.
struct OpenStep {
    step: u32,
    line: FrameId,
    started: Timestamp,
    inputs: Option<Value>,
    elements: Option<usize>,
    elements_done: usize,
    retries: Vec<String>,
    groups: Vec<FrameId>,
}

/// The fold of a run's events into its log.
#[derive(Default)]
pub struct Projection {
    /// Records of a run that was given up.
    given_up: Vec<StepRecord>,
    /// Holds what steps gave; events name results that other events brought.
    state: State,
    run: Option<Run>,
    locator: Locator,
    steps: HashMap<FrameId, OpenStep>,
    /// Failed attempts of an element's turn.
    attempts: HashMap<FrameId, usize>,
    /// Finished records of every line; the main line is whichever is not a group.
    lines: HashMap<FrameId, Vec<StepRecord>>,
    main: Vec<StepRecord>,
    log: Option<RunLog>,
}

impl std::fmt::Debug for Projection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Projection").finish_non_exhaustive()
    }
}

struct Run {
    id: Arc<str>,
    program: Arc<Program>,
    started: Timestamp,
    inputs: Value,
}

impl Projection {
    /// Returns the records of all steps. Unlike the log's records, which the reference drops, those of a run that was
    /// given up are kept: the step that could not go on has failed with the reason.
    #[must_use]
    pub fn records(&self) -> &[StepRecord] {
        self.log.as_ref().map_or(&self.main, |log| if self.given_up.is_empty() { &log.steps } else { &self.given_up })
    }

    /// The log, once the run has ended.
    #[must_use]
    pub fn into_log(self) -> Option<RunLog> {
        self.log
    }

    /// Takes the next event; gives what the reference logs at this moment.
    ///
    /// # Errors
    /// When the event does not follow from those before.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<Vec<LogEvent>, ApplyError> {
        let mut told = Vec::new();
        for located in self.locator.locate(recorded) {
            self.state.apply_part(&located.recorded)?;
            told.append(&mut self.tell(&located));
        }
        Ok(told)
    }

    fn tell(&mut self, located: &Located<'_>) -> Vec<LogEvent> {
        let recorded = &located.recorded;
        match &recorded.event {
            Event::RunStarted(started) => {
                let workflow = started.program.name().clone();
                let total_steps = started.program.ir().steps.len();
                self.run = Some(Run {
                    id: started.run.clone(),
                    program: started.program.clone(),
                    started: recorded.at,
                    inputs: started.inputs.clone(),
                });
                vec![LogEvent::WorkflowStart { workflow, total_steps }]
            }
            Event::StepEntered { frame, parent, step, .. } => self.step_entered(*frame, *parent, *step, recorded.at),
            Event::StepSkipped { parent, step, .. } => self.step_skipped(*parent, *step),
            Event::StepPrepared { frame, inputs } => {
                self.set_inputs(*frame, inputs);
                Vec::new()
            }
            Event::Requested { frame, request: opcell_core::event::Request::Invoke { arguments }, .. } => {
                self.set_inputs(*frame, arguments);
                Vec::new()
            }
            Event::EachStarted { frame, items } => {
                if let Some(open) = self.steps.get_mut(frame) {
                    open.elements = Some(items.as_array().map_or(0, <[Value]>::len));
                }
                Vec::new()
            }
            Event::ElementFinished { .. } => self.element_finished(located.step_frame),
            Event::GroupEntered { frame, parent, .. } => {
                self.lines.insert(*frame, Vec::new());
                if let Some(open) = self.steps.get_mut(parent) {
                    open.groups.push(*frame);
                }
                Vec::new()
            }
            Event::Retrying { frame, failure, .. } => self.retrying(*frame, located.step_frame, failure),
            Event::StepFinished { frame, result } => self.step_finished(*frame, result, recorded.at),
            Event::RunFinished(end) => self.run_finished(end, recorded.at),
            Event::DefinitionPinned { .. }
            | Event::ElementEntered { .. }
            | Event::Chosen { .. }
            | Event::GroupFinished { .. }
            | Event::Requested { .. }
            | Event::Replied { .. }
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. }
            | Event::TurnStarted { .. }
            | Event::Interjected { .. }
            | Event::Guarded { .. }
            | Event::TurnFinished { .. }
            | Event::InstanceStarted { .. }
            | Event::InstanceFinished { .. }
            | Event::Judged { .. }
            | Event::Routed { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::SignalReceived(_)
            | Event::SignalTaken { .. }
            | Event::WaitStarted { .. }
            | Event::InDoubt { .. }
            | Event::Answered { .. }
            | Event::GrantAsked { .. }
            | Event::GrantAnswered { .. }
            | Event::InputAsked { .. }
            | Event::InnerStarted { .. }
            | Event::InnerRequested { .. }
            | Event::InnerSlept { .. }
            | Event::InnerReplied { .. }
            | Event::InputAnswered { .. }
            | Event::CallsAsked { .. }
            | Event::CallAnswered { .. }
            | Event::CallsExpired { .. }
            | Event::Abandoned { .. }
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked => Vec::new(),
        }
    }

    fn step_of(&self, index: u32) -> Option<&Step> {
        self.run.as_ref()?.program.step(index)
    }

    fn add(&mut self, line: FrameId, record: StepRecord) {
        self.lines.get_mut(&line).unwrap_or(&mut self.main).push(record);
    }

    fn step_entered(&mut self, frame: FrameId, line: FrameId, index: u32, started: Timestamp) -> Vec<LogEvent> {
        let open = OpenStep {
            step: index,
            line,
            started,
            inputs: None,
            elements: None,
            elements_done: 0,
            retries: Vec::new(),
            groups: Vec::new(),
        };
        self.steps.insert(frame, open);
        let Some(step) = self.step_of(index) else { return Vec::new() };
        let tool = match &step.form {
            Form::Invoke { invoke } => Some(invoke.operation.clone()),
            _ => None,
        };
        vec![LogEvent::StepStart {
            step_id: step.name.clone(),
            step_type: executor(step),
            tool,
            description: step.description.clone(),
        }]
    }

    fn skip(step: &Step, reason: &'static str) -> (StepRecord, LogEvent) {
        let record = StepRecord {
            id: step.name.clone(),
            executor: executor(step),
            status: LogStatus::Skipped,
            reason: Some(reason),
            duration_ms: 0,
            inputs: None,
            iterations: None,
            output: None,
            error: None,
            retries: None,
        };
        (record, LogEvent::StepSkip { step_id: step.name.clone(), reason, description: step.description.clone() })
    }

    fn step_skipped(&mut self, line: FrameId, index: u32) -> Vec<LogEvent> {
        let Some((record, event)) = self.step_of(index).map(|step| Self::skip(step, GUARD)) else { return Vec::new() };
        self.add(line, record);
        vec![event]
    }

    /// The inputs of a step itself; an element's are not recorded.
    fn set_inputs(&mut self, frame: FrameId, inputs: &Value) {
        if let Some(open) = self.steps.get_mut(&frame) {
            open.inputs = Some(inputs.clone());
        }
    }

    fn element_finished(&mut self, step: Option<FrameId>) -> Vec<LogEvent> {
        let Some(open) = step.and_then(|step| self.steps.get_mut(&step)) else { return Vec::new() };
        open.elements_done += 1;
        let (index, current, total) = (open.step, open.elements_done, open.elements.unwrap_or(0));
        let Some(step) = self.step_of(index) else { return Vec::new() };
        vec![LogEvent::EachProgress { step_id: step.name.clone(), current, total }]
    }

    fn retrying(&mut self, frame: FrameId, step: Option<FrameId>, failure: &Failure) -> Vec<LogEvent> {
        let attempt = self.attempts.entry(frame).or_default();
        *attempt += 1;
        let attempt = *attempt;
        let Some(open) = step.and_then(|step| self.steps.get_mut(&step)) else { return Vec::new() };
        open.retries.push(failure.message.clone());
        let index = open.step;
        let Some(step) = self.step_of(index) else { return Vec::new() };
        vec![LogEvent::StepRetry { step_id: step.name.clone(), attempt, error: failure.message.clone() }]
    }

    fn step_finished(&mut self, frame: FrameId, result: &StepResult, at: Timestamp) -> Vec<LogEvent> {
        let Some(open) = self.steps.remove(&frame) else { return Vec::new() };
        let groups: Vec<StepRecord> =
            open.groups.iter().flat_map(|group| self.lines.remove(group).unwrap_or_default()).collect();
        let Some(step) = self.step_of(open.step) else { return Vec::new() };
        let duration_ms = ms_between(open.started, at);
        let error = result.failure.as_ref().map(|failure| match &step.form {
            // What a tool itself reports names the tool; what breaks around it does not.
            Form::Invoke { invoke } if failure.retriable => {
                format!("Tool \"{}\": {}", invoke.operation, failure.message)
            }
            _ => failure.message.clone(),
        });
        let status = if error.is_some() { LogStatus::Failed } else { LogStatus::Success };
        let attempts = open.retries.len();
        let record = StepRecord {
            id: step.name.clone(),
            executor: executor(step),
            status,
            reason: None,
            duration_ms,
            inputs: open.inputs,
            iterations: open.elements,
            output: self.state.step_output(&step.name).cloned().filter(|_| error.is_none() || open.elements.is_some()),
            error: error.clone(),
            retries: (attempts > 0).then_some(Retries { attempts, errors: open.retries }),
        };
        let mut events = Vec::new();
        if let Some(error) = error {
            events.push(LogEvent::StepError { step_id: step.name.clone(), error, on_error: step.on_error });
        }
        let iterations = open.elements;
        events.push(LogEvent::StepComplete { step_id: step.name.clone(), status, duration_ms, iterations });
        self.add(open.line, record);
        if !result.discards_group {
            for record in groups {
                self.add(open.line, record);
            }
        }
        events
    }

    fn run_finished(&mut self, end: &RunEnd, at: Timestamp) -> Vec<LogEvent> {
        let Some(run) = self.run.take() else { return Vec::new() };
        let duration_ms = ms_between(run.started, at);
        let message = end.message.clone().unwrap_or_else(|| end.reason.as_deref().unwrap_or("aborted").to_owned());
        let mut events = Vec::new();
        let mut steps = std::mem::take(&mut self.main);
        let seen: HashSet<Arc<str>> = steps.iter().map(|record| record.id.clone()).collect();
        for step in run.program.ir().steps.iter().filter(|step| !seen.contains(&step.name)) {
            let (record, event) = Self::skip(step, if step.grouped { BRANCH } else { HALTED });
            steps.push(record);
            events.push(event);
        }
        if end.aborted {
            // Outputs are resolved when all steps have been accounted for; a guard or an input is not.
            if end.step.is_some() {
                events.clear();
            }
            for record in steps.iter_mut().filter(|record| Some(&record.id) == end.step.as_ref()) {
                (record.status, record.reason, record.error) = (LogStatus::Failed, None, Some(message.clone()));
            }
            self.given_up = steps;
            let mut log = RunLog::of_failure(run.id, run.program.name(), message, run.started);
            log.completed_at = iso(at);
            log.duration_ms = duration_ms;
            log.summary.total_duration_ms = duration_ms;
            self.log = Some(log);
            return events;
        }
        let steps_skipped = steps.iter().filter(|record| record.status == LogStatus::Skipped).count();
        let summary =
            Summary { steps_executed: steps.len() - steps_skipped, steps_skipped, total_duration_ms: duration_ms };
        let status = if end.status == Status::Completed { LogStatus::Success } else { LogStatus::Failed };
        // The reference has neither limits nor cancellation; a run that they end says so where it says why a run was
        // given up.
        let stopped = status == LogStatus::Failed && end.step.is_none();
        events.push(LogEvent::WorkflowComplete { status, duration_ms, summary });
        self.log = Some(RunLog {
            id: run.id,
            workflow: run.program.name().clone(),
            status,
            summary,
            started_at: iso(run.started),
            completed_at: iso(at),
            duration_ms,
            inputs: run.inputs,
            steps,
            outputs: end.result.clone(),
            error: stopped.then_some(LogError { phase: Phase::Execute, message, details: None }),
        });
        events
    }
}
