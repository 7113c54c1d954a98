//! Cases that drive a state machine, its tools and its tool set operation by operation.

use super::{any_of, broken, compare, read_spec};
use crate::conformance::Failure;
use jiff::{SignedDuration, Timestamp};
use opcell_promptpack_reference::context::{ArtifactSnapshot, Context, StateTransition};
use opcell_promptpack_reference::tools::{
    ARTIFACT_TOOL, ArtifactExecutor, TRANSITION_TOOL, ToolSet, TransitionExecutor, artifact_tool, transition_tool,
};
use opcell_promptpack_reference::{StateMachine, TransitionError, TransitionResult};
use opcell_types::Value as Data;
use opcell_workflow::promptpack::Spec;
use serde_json::{Map, Value as Json, json};
use std::sync::Arc;

/// The clock of every case starts here.
const START: &str = "2026-02-17T12:00:00Z";

struct Drive {
    spec: Arc<Spec>,
    machine: StateMachine,
    transitions: TransitionExecutor,
    tools: ToolSet,
    now: Timestamp,
    on_commit: Vec<Json>,
    on_commit_error: Vec<Json>,
    /// As a host journals them: the context itself keeps the newest ones only.
    snapshots: Vec<ArtifactSnapshot>,
}

/// Runs one case.
pub(super) fn run(case: &Json) -> Result<(), Failure> {
    let spec = Arc::new(read_spec(case)?);
    let now: Timestamp = START.parse().map_err(broken)?;
    if case["kind"] == "descriptors" {
        return compare("expected", &case["expected"], &descriptors(&spec));
    }
    let machine = match (case.get("context"), case.get("start_state").and_then(Json::as_str)) {
        (Some(context), _) if !context.is_null() => {
            let context = read_context(context)?;
            StateMachine::from_context(Arc::clone(&spec), context)
        }
        (_, Some(state)) if !state.is_empty() => {
            StateMachine::from_context(Arc::clone(&spec), Context::new(state, now))
        }
        _ => StateMachine::new(Arc::clone(&spec), now),
    };
    let mut drive = Drive {
        snapshots: machine.context().artifact_history.iter().cloned().collect(),
        spec,
        machine,
        transitions: TransitionExecutor::default(),
        tools: ToolSet::default(),
        now,
        on_commit: Vec::new(),
        on_commit_error: Vec::new(),
    };
    let operations = case["events"].as_array().cloned().unwrap_or_default();
    let mut observed = Vec::new();
    for (index, operation) in operations.iter().enumerate() {
        let step = drive.apply(operation)?;
        if let Some(expected) = operation.get("expect") {
            compare(&format!("events[{index}]"), expected, &step)?;
        }
        observed.push(step);
    }
    let last = final_state(&drive.machine, &drive.snapshots);
    if case["expected"].is_null() {
        return one_of(case, &observed, &last);
    }
    compare("expected", &case["expected"], &last)?;
    let hooks = json!({"on_commit": drive.on_commit, "on_commit_error": drive.on_commit_error});
    case.get("expected_hooks").map_or(Ok(()), |expected| compare("expected_hooks", expected, &hooks))
}

fn read_context(json: &Json) -> Result<Context, Failure> {
    serde_json::from_value(json.clone()).map_err(broken)
}

fn one_of(case: &Json, steps: &[Json], last: &Json) -> Result<(), Failure> {
    any_of(case["expected_one_of"].as_array().into_iter().flatten().map(|alternative| {
        let expected = alternative["steps"].as_array().cloned().unwrap_or_default();
        expected
            .iter()
            .zip(steps)
            .enumerate()
            .try_for_each(|(index, (expected, step))| compare(&format!("events[{index}]"), expected, step))
            .and_then(|()| compare("final", &alternative["final"], last))
    }))
}

fn descriptors(spec: &Spec) -> Json {
    let by_state: Map<String, Json> = spec
        .states
        .iter()
        .map(|(name, state)| {
            (name.clone(), json!(transition_tool(&state.on_event.keys().cloned().collect::<Vec<_>>())))
        })
        .collect();
    json!({"transition_tool": by_state, "artifact_tool": artifact_tool(spec)})
}

impl Drive {
    fn apply(&mut self, operation: &Json) -> Result<Json, Failure> {
        let text = |key: &str| operation[key].as_str().unwrap_or_default();
        let arguments = Data::from(operation["args"].clone());
        Ok(match text("op") {
            "event" => outcome(self.process(text("event")).map(|result| json!(result))),
            "repeat" => self.repeat(operation),
            "set_artifact" => {
                self.machine.set_artifact(text("name"), text("value"));
                json!({"artifacts": self.artifacts()})
            }
            "inc_tool_calls" => {
                self.machine.increment_tool_calls(operation["n"].as_u64().unwrap_or(0));
                json!({})
            }
            "advance" => {
                self.advance(SignedDuration::from_secs_f64(operation["seconds"].as_f64().unwrap_or_default()))?;
                json!({})
            }
            "restore" => {
                let written = json!(self.machine.context());
                let context = read_context(&written)?;
                self.machine = StateMachine::from_context(Arc::clone(&self.spec), context);
                json!({"context_json": written})
            }
            "call_transition" => match self.transitions.execute(&self.machine, &arguments) {
                Ok(result) => json!({"tool_result": result, "state_after_call": self.machine.current_state()}),
                Err(error) => other_error(&error.to_string()),
            },
            "call_artifact" => match ArtifactExecutor.execute(&mut self.machine, &arguments) {
                Ok(result) => json!({"tool_result": result, "artifacts": self.artifacts()}),
                Err(error) => other_error(&error.to_string()),
            },
            "commit" => self.commit(),
            "clear_pending" => {
                self.transitions.clear_pending();
                json!({"pending": self.transitions.pending()})
            }
            "pending" => json!({"pending": self.transitions.pending()}),
            "register" => {
                if let Some(state) = self.spec.states.get(text("state")) {
                    self.tools.register_transition(state);
                }
                json!({"transition_tool": self.tools.get(TRANSITION_TOOL)})
            }
            "register_artifact_tool" => {
                self.tools.register_artifact(&self.spec);
                json!({"artifact_tool": self.tools.get(ARTIFACT_TOOL)})
            }
            "registry_execute_transition" => match self.tools.admit(TRANSITION_TOOL, &arguments) {
                Err(error) => registry_error(&error.to_string(), &json!(self.transitions.pending())),
                Ok(arguments) => match self.transitions.execute(&self.machine, &arguments) {
                    Ok(result) => json!({"tool_result": result, "tool_error": ""}),
                    Err(error) => json!({"tool_error": error.to_string()}),
                },
            },
            "registry_execute_artifact" => match self.tools.admit(ARTIFACT_TOOL, &arguments) {
                Err(error) => registry_error(&error.to_string(), &Json::Null),
                Ok(arguments) => match ArtifactExecutor.execute(&mut self.machine, &arguments) {
                    Ok(result) => json!({"tool_result": result, "tool_error": "", "artifacts": self.artifacts()}),
                    Err(error) => json!({"tool_error": error.to_string()}),
                },
            },
            "mutate_snapshot" => {
                let mut snapshot = self.machine.context().clone();
                snapshot.current_state = "mutated".to_owned();
                snapshot.history.clear();
                snapshot.visit_counts.clear();
                snapshot.set_artifact("mutated", "x", false);
                json!({})
            }
            unknown => return Err(broken(format!("unknown operation {unknown}"))),
        })
    }

    fn repeat(&mut self, operation: &Json) -> Json {
        let events = super::strings(&operation["events"]);
        let mut succeeded = 0;
        for _ in 0..operation["times"].as_u64().unwrap_or(0) {
            for event in &events {
                if self.advance(SignedDuration::from_millis(1)).is_err() {
                    return json!({"succeeded": succeeded, "first_error": "the clock ran over"});
                }
                match self.process(event) {
                    Ok(_) => succeeded += 1,
                    Err(error) => return json!({"succeeded": succeeded, "first_error": describe(&error)}),
                }
            }
        }
        json!({"succeeded": succeeded, "first_error": null})
    }

    fn process(&mut self, event: &str) -> Result<TransitionResult, TransitionError> {
        let result = self.machine.process_event(event, self.now)?;
        self.journal();
        Ok(result)
    }

    /// Takes down what a transition has just recorded.
    fn journal(&mut self) {
        let context = self.machine.context();
        if !context.artifacts.is_empty() {
            self.snapshots.extend(context.artifact_history.back().cloned());
        }
    }

    fn advance(&mut self, by: SignedDuration) -> Result<(), Failure> {
        self.now = self.now.checked_add(by).map_err(broken)?;
        Ok(())
    }

    fn commit(&mut self) -> Json {
        let event = self.transitions.pending().map(|pending| pending.event.clone());
        let result = self.transitions.commit_pending(&mut self.machine, self.now);
        if let Ok(Some(_)) = &result {
            self.journal();
        }
        match &result {
            Ok(Some(done)) => self.on_commit.push(json!(done)),
            Ok(None) => {}
            Err(error) => self.on_commit_error.push(json!({"event": event, "error": describe(error)})),
        }
        let mut observed = outcome(result.map(|result| json!(result)));
        observed["pending_after"] = json!(self.transitions.pending());
        observed
    }

    fn artifacts(&self) -> Json {
        let artifacts = self.machine.artifacts();
        if artifacts.is_empty() { Json::Null } else { json!(artifacts) }
    }
}

fn outcome(result: Result<Json, TransitionError>) -> Json {
    match result {
        Ok(result) => json!({"result": result}),
        Err(error) => json!({"error": describe(&error)}),
    }
}

fn describe(error: &TransitionError) -> Json {
    let message = error.to_string();
    match error {
        TransitionError::UnknownState { .. } | TransitionError::InvalidEvent { .. } => {
            json!({"code": "invalid_event", "message": message})
        }
        TransitionError::TerminalState { .. } => json!({"code": "terminal_state", "message": message}),
        TransitionError::MaxVisitsExceeded { from_state, original_target, event, visit_count, max_visits } => json!({
            "code": "max_visits_exceeded",
            "message": message,
            "detail": {
                "from_state": from_state,
                "original_target": original_target,
                "event": event,
                "visit_count": visit_count,
                "max_visits": max_visits,
            },
        }),
        TransitionError::BudgetExhausted { limit, current, max, current_state } => json!({
            "code": "budget_exhausted",
            "message": message,
            "detail": {"limit": limit.key(), "current": current, "max": max, "current_state": current_state},
        }),
    }
}

fn other_error(message: &str) -> Json {
    json!({"error": {"code": "other", "message": message}})
}

fn registry_error(message: &str, pending: &Json) -> Json {
    json!({"error": {"code": "registry", "message": message}, "pending": pending})
}

/// Returns the end of a run in the form in which a case states it.
fn final_state(machine: &StateMachine, snapshots: &[ArtifactSnapshot]) -> Json {
    let context = machine.context();
    let or_null = |empty: bool, value: Json| if empty { Json::Null } else { value };
    let history: Vec<String> = context.history.iter().map(line).collect();
    let snapshots: Vec<Json> = snapshots
        .iter()
        .map(
            |at| json!({"event": at.event, "from_state": at.from_state, "to_state": at.to_state, "values": *at.values}),
        )
        .collect();
    let events = machine.available_events();
    json!({
        "current_state": machine.current_state(),
        "prompt_task": machine.current_prompt_task(),
        "is_terminal": machine.is_terminal(),
        "available_events": or_null(events.is_empty(), json!(events)),
        "history_first": history.first(),
        "history_last": history.last(),
        "history_len": history.len(),
        "history": history,
        "transition_count": context.transition_count(),
        "visit_counts": or_null(context.visit_counts.is_empty(), json!(context.visit_counts)),
        "total_visits": context.total_visits(),
        "total_tool_calls": context.total_tool_calls,
        "artifacts": or_null(context.artifacts.is_empty(), json!(*context.artifacts)),
        "artifact_history_len": snapshots.len(),
        "artifact_history_first": snapshots.first(),
        "artifact_history_last": snapshots.last(),
        "artifact_history": snapshots,
        "started_at": context.started_at.to_string(),
        "updated_at": context.updated_at.to_string(),
        "metadata": or_null(context.metadata.is_empty(), json!(Data::from(context.metadata.clone()))),
    })
}

fn line(transition: &StateTransition) -> String {
    format!("{} -{}-> {} @{}", transition.from, transition.event, transition.to, transition.timestamp)
}
