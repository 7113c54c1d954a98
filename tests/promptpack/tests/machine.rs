//! The state machine where it does better than the reference, and the reference's package operation by operation.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "helpers of tests are tests")]

use opcell_promptpack_reference::context::{ContextError, MAX_HISTORY_LENGTH};
use opcell_promptpack_reference::tools::{ToolSet, TransitionExecutor};
use opcell_promptpack_reference::{Context, StateMachine, TransitionError};
use opcell_types::Value;
use opcell_workflow::promptpack::Spec;
use serde_json::{Value as Json, json};

fn now() -> jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn spec(json: Json) -> Spec {
    Spec::from_config(&Value::from(json)).unwrap().unwrap()
}

fn two_states() -> Spec {
    spec(json!({"version": 2, "entry": "ask", "states": {
        "ask": {"prompt_task": "p", "on_event": {"Answered": "done", "Again": "ask"}},
        "done": {"prompt_task": "p", "terminal": true},
    }}))
}

mod contexts {
    use super::*;

    #[test]
    fn a_context_that_a_run_wrote_is_restored() {
        let mut machine = StateMachine::new(two_states(), now());
        machine.set_artifact("note", "x");
        machine.process_event("Again", now()).unwrap();
        let written = serde_json::to_string(machine.context()).unwrap();
        let read: Context = serde_json::from_str(&written).unwrap();
        assert_eq!(&read, machine.context());
        assert!(StateMachine::restore(two_states(), read).is_ok());
    }

    #[test]
    fn a_forged_context_is_refused() {
        let mut moved = Context::new("ask", now());
        moved.record_transition("ask", "done", "Answered", now());

        let mut elsewhere = moved.clone();
        elsewhere.current_state = "ask".to_owned();
        assert!(matches!(elsewhere.check(&two_states()), Err(ContextError::HistoryElsewhere { .. })));

        let mut fewer = moved.clone();
        fewer.visit_counts.insert("done".to_owned(), 0);
        assert!(matches!(fewer.check(&two_states()), Err(ContextError::TooFewVisits { .. })));

        let mut uncounted = moved.clone();
        uncounted.visit_counts.remove("done");
        assert!(matches!(uncounted.check(&two_states()), Err(ContextError::CurrentNeverEntered(_))));

        let mut broken = moved;
        broken.record_transition("ask", "done", "Answered", now());
        assert!(matches!(broken.check(&two_states()), Err(ContextError::BrokenHistory { .. })));

        let ghost = Context::new("ghost", now());
        let error = StateMachine::restore(two_states(), ghost).unwrap_err();
        assert_eq!(error.to_string(), r#"current_state names state "ghost", which the workflow does not have"#);
    }

    #[test]
    fn history_keeps_the_newest_transitions_and_visits_stay_exact() {
        let mut machine = StateMachine::new(two_states(), now());
        for _ in 0..MAX_HISTORY_LENGTH + 500 {
            machine.process_event("Again", now()).unwrap();
        }
        assert_eq!(machine.context().transition_count(), MAX_HISTORY_LENGTH);
        assert_eq!(machine.context().total_visits(), MAX_HISTORY_LENGTH as u64 + 501);
    }

    #[test]
    fn artifact_history_keeps_the_newest_snapshots_and_the_last_one_is_the_latest() {
        let mut machine = StateMachine::new(two_states(), now());
        machine.set_artifact("note", "x");
        for _ in 0..MAX_HISTORY_LENGTH + 500 {
            machine.process_event("Again", now()).unwrap();
        }
        machine.set_artifact("note", "y");
        machine.process_event("Answered", now()).unwrap();
        let kept = &machine.context().artifact_history;
        assert_eq!(kept.len(), MAX_HISTORY_LENGTH);
        assert_eq!(kept.back().unwrap().values["note"], "y");
    }

    #[test]
    fn a_context_with_more_history_than_its_limit_is_cut_when_it_continues() {
        let mut long = Context::new("ask", now());
        for _ in 0..MAX_HISTORY_LENGTH {
            long.record_transition("ask", "ask", "Again", now());
        }
        let more: Vec<_> = long.history.iter().cloned().cycle().take(MAX_HISTORY_LENGTH * 3).collect();
        long.history = more.into();
        long.visit_counts.insert("ask".to_owned(), 3001);
        let mut machine = StateMachine::restore(two_states(), long).unwrap();
        machine.process_event("Again", now()).unwrap();
        assert_eq!(machine.context().transition_count(), MAX_HISTORY_LENGTH);
    }

    #[test]
    fn a_snapshot_does_not_see_what_comes_after_it() {
        let mut machine = StateMachine::new(two_states(), now());
        machine.set_artifact("note", "first");
        machine.process_event("Again", now()).unwrap();
        machine.set_artifact("note", "second");
        assert_eq!(machine.context().artifact_history[0].values["note"], "first");
        assert_eq!(machine.artifacts()["note"], "second");
    }
}

mod tools {
    use super::*;

    #[test]
    fn the_target_that_a_model_is_told_is_its_own_states_target() {
        let shared_event = spec(json!({"version": 1, "entry": "b", "states": {
            "a": {"prompt_task": "p", "on_event": {"Next": "b"}},
            "b": {"prompt_task": "p", "on_event": {"Next": "c"}},
            "c": {"prompt_task": "p"},
        }}));
        let machine = StateMachine::new(shared_event, now());
        let arguments = Value::from(json!({"event": "Next", "context": ""}));
        let reported = TransitionExecutor::default().execute(&machine, &arguments).unwrap();
        assert_eq!(reported.target_state.as_deref(), Some("c"));
    }

    #[test]
    fn the_last_call_of_a_round_wins_and_a_refused_commit_changes_nothing() {
        let mut machine = StateMachine::new(two_states(), now());
        let mut tool = TransitionExecutor::default();
        for event in ["Answered", "Nonsense"] {
            tool.execute(&machine, &Value::from(json!({"event": event, "context": ""}))).unwrap();
        }
        assert!(matches!(tool.commit_pending(&mut machine, now()), Err(TransitionError::InvalidEvent { .. })));
        assert_eq!(machine.current_state(), "ask");
        assert!(tool.pending().is_none());
    }

    #[test]
    fn arguments_are_made_to_fit_before_they_are_checked() {
        let mut tools = ToolSet::default();
        tools.register_transition(&two_states().states["ask"]);
        let call = |arguments: Json| tools.admit("workflow__transition", &Value::from(arguments));
        let fitted = call(json!({"event": " answered ", "context": "x", "extra": 1})).unwrap();
        assert_eq!(fitted, Value::from(json!({"event": "Answered", "context": "x", "extra": 1})));
        assert_eq!(
            call(json!({"event": "Nope", "context": 5})).unwrap_err().to_string(),
            "tool workflow__transition validation error (args_invalid): argument validation failed: \
             [context: Invalid type. Expected: string, given: integer \
             event: event must be one of the following: \"Again\", \"Answered\"]"
        );
        assert_eq!(tools.admit("nothing", &Value::Null).unwrap_err().to_string(), "tool not found: nothing");
    }

    #[test]
    fn two_runs_never_see_each_others_tools() {
        let mut one = ToolSet::default();
        let other = ToolSet::default();
        one.register_transition(&two_states().states["ask"]);
        assert!(one.get("workflow__transition").is_some());
        assert!(other.get("workflow__transition").is_none());
    }
}

/// The promises of the table in the documentation of `promptpack`, used as a host of the reference's package uses it.
mod surface {
    use super::*;
    use opcell_promptpack_reference::TransitionResult;
    use opcell_promptpack_reference::context::{ArtifactSnapshot, StateTransition};
    use opcell_promptpack_reference::tools::{
        ARTIFACT_MODE, ARTIFACT_TOOL, ArtifactExecutor, PendingTransition, TRANSITION_MODE, TRANSITION_TOOL,
        artifact_tool, transition_tool,
    };
    use opcell_workflow::promptpack::spec::{ArtifactDef, Budget, sorted_events};
    use opcell_workflow::promptpack::{State, ValidationResult, validate};

    fn drafts() -> Spec {
        spec(
            json!({"version": 2, "entry": "draft", "engine": {"budget": {"max_total_visits": 4, "max_tool_calls": 9}}, "states": {
                "draft": {"prompt_task": "p", "persistence": "persistent", "orchestration": "hybrid",
                    "on_event": {"Submit": "review"}, "artifacts": {"text": {"type": "text/plain", "mode": "append"}}},
                "review": {"prompt_task": "p", "on_event": {"Reject": "draft", "Accept": "end"}},
                "end": {"prompt_task": "p", "terminal": true},
            }}),
        )
    }

    #[test]
    fn every_operation_of_the_reference_s_package_is_there() {
        let spec = drafts();
        assert_eq!(spec.budget(), Some(Budget { max_total_visits: 4, max_tool_calls: 9, max_wall_time_sec: 0 }));
        let draft: &State = &spec.states["draft"];
        assert_eq!((draft.persistence.as_str(), draft.orchestration.as_str()), ("persistent", "hybrid"));
        let text: &ArtifactDef = &draft.artifacts["text"];
        assert_eq!((text.kind.as_str(), text.mode.as_str()), ("text/plain", "append"));
        assert_eq!(sorted_events(&spec.states["review"].on_event), ["Accept", "Reject"]);
        let found: ValidationResult = validate(&spec, &["p".to_owned()]);
        assert!(!found.has_errors());

        let mut machine = StateMachine::new(spec.clone(), now());
        assert_eq!((machine.current_state(), machine.current_prompt_task()), ("draft", "p"));
        assert_eq!((machine.available_events(), machine.is_terminal()), (vec!["Submit"], false));
        machine.set_artifact("text", "one ");
        machine.set_artifact("text", "two");
        machine.increment_tool_calls(2);
        assert_eq!(machine.artifacts()["text"], "one two");
        let moved: TransitionResult = machine.process_event("Submit", now()).unwrap();
        assert_eq!((moved.from.as_str(), moved.to.as_str(), moved.redirected), ("draft", "review", false));
        let context = machine.context();
        let last: &StateTransition = context.last_transition().unwrap();
        assert_eq!((last.event.as_str(), context.transition_count(), context.total_visits()), ("Submit", 1, 2));
        let snapshot: &ArtifactSnapshot = context.artifact_history.back().unwrap();
        assert_eq!((snapshot.to_state.as_str(), snapshot.values["text"].as_str()), ("review", "one two"));
        assert_eq!((context.artifact("text"), context.artifact("none"), context.total_tool_calls), ("one two", "", 2));

        assert_eq!(
            (transition_tool(&[]).name, transition_tool(&[]).mode),
            (TRANSITION_TOOL.into(), TRANSITION_MODE.into())
        );
        assert_eq!(
            (artifact_tool(&spec).name, artifact_tool(&spec).mode),
            (ARTIFACT_TOOL.into(), String::new()),
            "the reference sets its mode when the tool is registered"
        );
        let mut tools = ToolSet::default();
        tools.register_artifact(&spec);
        assert_eq!(tools.get(ARTIFACT_TOOL).unwrap().mode, ARTIFACT_MODE);
        tools.register_transition(&spec.states["review"]);
        tools.register_artifact(&spec);
        assert!(tools.get(TRANSITION_TOOL).is_some() && tools.get(ARTIFACT_TOOL).is_some());
        ArtifactExecutor.execute(&mut machine, &Value::from(json!({"name": "text", "value": "!"}))).unwrap();
        let mut executor = TransitionExecutor::default();
        let accept = Value::from(json!({"event": "Accept", "context": "fine", "ticket": 7}));
        executor.execute(&machine, &accept).unwrap();
        let pending: &PendingTransition = executor.pending().unwrap();
        assert_eq!((pending.event.as_str(), pending.context.as_str()), ("Accept", "fine"));
        executor.clear_pending();
        assert_eq!(executor.commit_pending(&mut machine, now()), Ok(None));
        executor.execute(&machine, &accept).unwrap();
        let done = executor.commit_pending(&mut machine, now()).unwrap().unwrap();
        assert_eq!((done.to.as_str(), done.host_extras.get("ticket")), ("end", Some(&Value::from(7))));
        assert!(machine.is_terminal());
    }

    #[test]
    fn each_error_says_what_was_tried_and_changes_nothing() {
        let mut machine = StateMachine::new(drafts(), now());
        let text = |result: Result<TransitionResult, TransitionError>| result.unwrap_err().to_string();
        let before = machine.context().clone();
        assert_eq!(
            text(machine.process_event("Nope", now())),
            r#"invalid event for current state: event "Nope" not defined for state "draft" (available: [Submit])"#
        );
        assert_eq!(machine.context(), &before);
        for event in ["Submit", "Reject", "Submit"] {
            machine.process_event(event, now()).unwrap();
        }
        let before = machine.context().clone();
        assert_eq!(
            text(machine.process_event("Nope", now())),
            "workflow budget exhausted: max_total_visits 4 reached limit 4",
            "the budget is looked at before the event"
        );
        assert_eq!(machine.context(), &before);
    }

    #[test]
    fn wall_time_is_counted_in_whole_seconds_from_the_start_downtime_included() {
        let mut workflow =
            json!({"version": 2, "entry": "a", "states": {"a": {"prompt_task": "p", "on_event": {"Go": "a"}}}});
        workflow["engine"] = json!({"budget": {"max_wall_time_sec": 2}});
        let spec = spec(workflow);
        let at = |ms: i64| now().checked_add(jiff::SignedDuration::from_millis(ms)).unwrap();
        let mut machine = StateMachine::new(spec.clone(), now());
        machine.process_event("Go", at(1_999)).unwrap();
        let written = serde_json::to_string(machine.context()).unwrap();
        let mut restored = StateMachine::restore(spec, serde_json::from_str(&written).unwrap()).unwrap();
        let error = restored.process_event("Go", at(2_000)).unwrap_err();
        assert_eq!(error.to_string(), "workflow budget exhausted: max_wall_time_sec 2 reached limit 2");
    }

    #[test]
    fn a_written_context_leaves_out_what_is_empty_but_never_history() {
        let written = serde_json::to_value(Context::new("draft", now())).unwrap();
        let keys: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, ["current_state", "history", "visit_counts", "started_at", "updated_at"]);
        assert_eq!(written["history"], json!([]));
        let legacy = json!({"current_state": "draft", "history": null, "started_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"});
        let read: Context = serde_json::from_value(legacy).unwrap();
        assert_eq!((read.total_visits(), read.transition_count()), (0, 0));
    }
}
