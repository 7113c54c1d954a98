//! WorkflowSkill's runs: the real engine with scripted tools and a clock that no one waits for, compared by run log,
//! events, tool calls and requested sleeps.

use super::{
    Adapter, Failure, Outcome, cases, check,
    encoding::{decode, show},
    first_case, text,
    workflowskill_validation::same_message,
};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunOptions,
    event::Timestamp,
    ports::{self, Call, Effects, Operations, Reply, Success, Timer},
};
use opcell_types::{Value, value::Map};
use opcell_workflow::workflowskill;
use opcell_workflow::workflowskill::run_log::{LogEvent, Projection, RunLog};
use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
};

/// `{cases: [{api, content | workflow_yaml, inputs, tools, expected: {log, events, tool_calls, sleeps_ms}}]}`
pub(super) const RUNS: Adapter = Adapter {
    name: "WorkflowSkill runs",
    recognizes: |document| {
        first_case(document).is_some_and(|case| {
            case.get("api").is_some() && case.get("expected").is_some_and(|expected| expected.get("log").is_some())
        })
    },
    run: runs,
};

/// Answers calls in the order of a case's transcript, and notes what does not follow it.
struct Script {
    tools: Vec<String>,
    calls: Mutex<VecDeque<Value>>,
    surprises: Mutex<Vec<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn failed(message: impl Into<String>, retriable: bool) -> Reply<Success> {
    let failure = ports::Failure { retriable, ..ports::Failure::host("tool-failed", message) };
    Reply { result: Err(failure), receipt: None }
}

#[async_trait]
impl Operations for Script {
    fn effects(&self, operation: &str) -> Option<Effects> {
        self.tools.iter().any(|tool| tool == operation).then_some(Effects::Once)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let arguments = json(&call.arguments);
        let Some(expected) = lock(&self.calls).pop_front() else {
            lock(&self.surprises).push(format!("{} {}", call.id, show(&arguments)));
            return failed("the transcript has no further call", false);
        };
        let wanted = expected.get("args").map_or(Value::Null, |args| json(&decode(args)));
        if expected.get("tool").and_then(Value::as_str) != Some(&call.id) || wanted != arguments {
            lock(&self.surprises).push(format!("{} {}", call.id, show(&arguments)));
        }
        if let Some(thrown) = expected.get("throws") {
            return failed(thrown.get("message").and_then(Value::as_str).unwrap_or_default(), false);
        }
        let result = expected.get("result").map_or(Value::Undefined, decode);
        match result.get("error").and_then(Value::as_str) {
            Some(error) if !error.is_empty() => failed(error, true),
            _ => {
                let data = result.get("output").cloned().unwrap_or(Value::Undefined);
                Reply { result: Ok(Success { data, summary: None, details: None }), receipt: None }
            }
        }
    }
}

/// Returns the value after it was written as JSON: undefined is gone, and what is not finite is null.
fn json(value: &Value) -> Value {
    Value::from_json(&value.to_json()).unwrap_or_default()
}

/// A clock that moves only when someone sleeps.
#[derive(Default)]
struct VirtualTime {
    now: AtomicI64,
    sleeps: Mutex<Vec<f64>>,
}

#[async_trait]
impl Timer for VirtualTime {
    fn now(&self) -> Timestamp {
        Timestamp(self.now.load(Ordering::SeqCst))
    }

    async fn sleep(&self, ms: f64) {
        lock(&self.sleeps).push(ms);
        #[expect(clippy::cast_possible_truncation, reason = "a float to integer conversion saturates")]
        self.now.fetch_add((ms * 1000.0) as i64, Ordering::SeqCst);
    }

    async fn deadline(&self, _ms: f64) {
        std::future::pending().await
    }
}

fn runs(document: &Value) -> Result<Vec<Outcome>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(|error| error.to_string())?;
    cases(document)?
        .iter()
        .map(|case| {
            let outcome = runtime.block_on(run(case))?;
            Ok(Outcome::new(text(case, "id")?, outcome))
        })
        .collect()
}

async fn run(case: &Value) -> Result<Result<(), Failure>, String> {
    let expected = case.get("expected").ok_or("a case expects nothing")?;
    let list = |key: &str| expected.get(key).and_then(Value::as_array).unwrap_or_default();
    let tools = case.get("tools").and_then(Value::as_array).unwrap_or_default();
    let script = Arc::new(Script {
        tools: tools.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        calls: Mutex::new(list("tool_calls").iter().cloned().collect()),
        surprises: Mutex::default(),
    });
    let time = Arc::new(VirtualTime::default());
    let (log, events) = perform(case, &script, &time).await?;

    let mut result = same_log(expected.get("log").unwrap_or(&Value::Null), &log);
    let reported: Vec<Value> = events.iter().map(|event| without_times(&as_value(event))).collect();
    let wanted: Vec<Value> = list("events").iter().map(without_times).collect();
    result =
        result.and_then(|()| check(wanted == reported, show(&Value::array(wanted)), show(&Value::array(reported))));
    let slept: Vec<Value> = lock(&time.sleeps).iter().map(|ms| Value::from(*ms)).collect();
    let sleeps = list("sleeps_ms").to_vec();
    result = result.and_then(|()| {
        check(sleeps == slept, format!("sleeps {}", show(&Value::array(sleeps))), show(&Value::array(slept)))
    });
    let surprises = lock(&script.surprises).join("; ");
    let missing = lock(&script.calls).len();
    Ok(result
        .and_then(|()| check(surprises.is_empty(), "the transcript's calls", surprises))
        .and_then(|()| check(missing == 0, "all of the transcript's calls", format!("{missing} calls less"))))
}

/// Performs the work of the reference's `runWorkflowSkill` and `runWorkflow`.
async fn perform(
    case: &Value,
    script: &Arc<Script>,
    time: &Arc<VirtualTime>,
) -> Result<(RunLog, Vec<LogEvent>), String> {
    let given_name = case.get("workflow_name").and_then(Value::as_str);
    let is_skill = text(case, "api")? == "runWorkflowSkill";
    let name = given_name.unwrap_or(if is_skill { "inline" } else { "unnamed" });
    let parsed = if is_skill {
        workflowskill::parse_content(text(case, "content")?)
    } else {
        workflowskill::parse_workflow_yaml(text(case, "workflow_yaml")?)
    };
    let skill = match parsed {
        Ok(skill) => skill,
        Err(error) => return Ok((RunLog::of_parse_error("run".into(), name, &error, time.now()), Vec::new())),
    };
    let info = skill.info(name);
    if case.get("tools").and_then(Value::as_str).is_some() {
        // The reference's registry threw while it was asked; Opcell's cannot, but a host's may be gone.
        return Ok((RunLog::of_failure("run".into(), &info.name, "Unexpected adapter error", time.now()), Vec::new()));
    }
    let issues = skill.validate(Some(&|tool| script.effects(tool).is_some()));
    if !issues.is_empty() {
        return Ok((RunLog::of_issues("run".into(), &info.name, &issues, time.now()), Vec::new()));
    }
    let program = Program::new(Arc::new(skill.compile(name))).map_err(|error| error.to_string())?;
    let input = case.get("inputs").map_or_else(|| Value::object::<&str>([]), decode);
    let engine = Engine::builder().operations(script.clone()).timer(time.clone()).build();
    let handle = engine.start(program, input, RunOptions::default()).await.map_err(|error| error.to_string())?;
    let mut stream = handle.events().await.map_err(|error| error.to_string())?;
    let (mut projection, mut events) = (Projection::default(), Vec::new());
    while let Some(recorded) = stream.next().await {
        events.extend(projection.apply(&recorded).map_err(|error| error.to_string())?);
    }
    Ok((projection.into_log().ok_or("the run did not end")?, events))
}

fn as_value<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_string(value).ok().and_then(|text| Value::from_json(&text).ok()).unwrap_or_default()
}

/// Replaces what differs from run to run.
fn without_times(value: &Value) -> Value {
    let Value::Object(entries) = value else { return value.clone() };
    let entries: Map = entries
        .iter()
        .map(|(key, value)| {
            let value = match key.as_ref() {
                "id" | "started_at" | "completed_at" | "duration_ms" | "total_duration_ms" => Value::from("<any>"),
                "summary" => without_times(value),
                _ => value.clone(),
            };
            (key.clone(), value)
        })
        .collect();
    Value::from(entries)
}

fn same_log(expected: &Value, log: &RunLog) -> Result<(), Failure> {
    let log = as_value(log);
    let step = |step: &Value| {
        let id = step.get("id").cloned().unwrap_or_default();
        Value::array([id, without_times(step)])
    };
    let parts = |log: &Value| {
        let steps: Vec<Value> =
            log.get("steps").and_then(Value::as_array).unwrap_or_default().iter().map(step).collect();
        let rest = match without_times(log) {
            Value::Object(entries) => {
                let rest = entries.iter().filter(|(key, _)| !matches!(key.as_ref(), "steps" | "error"));
                Value::object(rest.map(|(key, value)| (key.clone(), value.clone())))
            }
            other => other,
        };
        Value::array([rest, Value::from(steps)])
    };
    let (wanted, got) = (parts(expected), parts(&log));
    check(wanted == got, show(&wanted), show(&got))?;
    same_error(expected.get("error"), log.get("error"))
}

/// Texts of YAML and of the schema are advisory, as in the validation cases.
fn same_error(expected: Option<&Value>, got: Option<&Value>) -> Result<(), Failure> {
    let part = |error: Option<&Value>, key: &str| error.and_then(|error| error.get(key)).cloned().unwrap_or_default();
    let message = |error: Option<&Value>| part(error, "message").as_str().unwrap_or_default().to_owned();
    let is_parse = part(expected, "phase").as_str() == Some("parse");
    let details = |error: Option<&Value>| match part(error, "details") {
        Value::Array(details) if is_parse => Value::array(details.iter().map(|detail| part(Some(detail), "path"))),
        other => other,
    };
    let same = expected.is_some() == got.is_some()
        && part(expected, "phase") == part(got, "phase")
        && same_message(&message(expected), &message(got))
        && details(expected) == details(got);
    check(same, expected.map_or("no error".to_owned(), show), got.map_or("no error".to_owned(), show))
}
