//! PromptPack where Opcell does better than the reference, and where its own surface must stay as it is.

#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

use opcell_workflow::ir::{ArtifactMode, Control, Form, Goto, Judge, Orchestration};
use opcell_workflow::promptpack::context::{ContextError, MAX_HISTORY_LENGTH};
use opcell_workflow::promptpack::template::{self, TemplateError, Variables, render, render_nested};
use opcell_workflow::promptpack::tools::{ToolSet, TransitionExecutor};
use opcell_workflow::promptpack::{self, Context, Spec, StateMachine, TransitionError};
use opcell_workflow::{Severity, SourceFile, Value};
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

/// A pack with one prompt `p` and this workflow.
fn pack(workflow: Json) -> Json {
    json!({
        "id": "a-pack", "name": "A pack", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {"p": {"id": "p", "name": "P", "version": "1.0.0", "system_template": "Be brief."}},
        "workflow": workflow,
    })
}

fn compile(pack: &Json) -> opcell_workflow::Compiled {
    promptpack::compile(&SourceFile::new("a.pack.json", serde_json::to_string_pretty(pack).unwrap()))
}

/// The codes of all findings of one severity, sorted.
fn codes(pack: &Json, severity: Severity) -> Vec<&'static str> {
    let mut codes: Vec<_> =
        compile(pack).diagnostics.iter().filter(|found| found.severity == severity).map(|found| found.code).collect();
    codes.sort_unstable();
    codes
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
        let told = TransitionExecutor::default().execute(&machine, &arguments).unwrap();
        assert_eq!(told.target_state.as_deref(), Some("c"));
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
    fn two_runs_never_see_each_others_tools() {
        let mut one = ToolSet::default();
        let other = ToolSet::default();
        one.register_transition(&two_states().states["ask"]);
        assert!(one.get("workflow__transition").is_some());
        assert!(other.get("workflow__transition").is_none());
    }
}

mod templates {
    use super::*;

    fn variables(entries: &[(&str, &str)]) -> Variables {
        entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_value_is_never_expanded_again() {
        let values = variables(&[("artifacts.note", "see {{secret}}"), ("secret", "hunter2")]);
        assert_eq!(render("Note: {{artifacts.note}}", &values).unwrap(), "Note: see {{secret}}");
    }

    #[test]
    fn unset_artifacts_and_an_absent_summary_are_empty() {
        assert_eq!(render("[{{artifacts.sha}}|{{workflow_context}}]", &Variables::new()).unwrap(), "[|]");
    }

    #[test]
    fn a_token_that_names_nothing_is_an_error_that_names_it() {
        let error = render("{{company}} and {{ spaced }}", &Variables::new()).unwrap_err();
        assert_eq!(error.to_string(), "unresolved template placeholders: [{{company}} {{ spaced }}]");
    }

    #[test]
    fn required_variables_must_be_there_and_not_empty() {
        let values = variables(&[("a", "x"), ("b", "")]);
        let required = ["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let error = template::require(&required, &values).unwrap_err();
        assert_eq!(error.to_string(), "missing required variables: [b c]");
    }

    #[test]
    fn a_value_that_refers_to_itself_cannot_blow_up_the_reference_rule() {
        let bomb = "{{n}}".repeat(5);
        assert_eq!(render_nested("{{n}}", &variables(&[("n", &bomb)])), Err(TemplateError::TooLarge));
        assert_eq!(render("{{n}}", &variables(&[("n", &bomb)])).unwrap(), bomb);
    }

    #[test]
    fn a_cut_never_splits_a_character() {
        assert_eq!(template::shorten("naïve", 3), "na...");
        assert_eq!(template::shorten("naïve", 10), "naïve");
    }
}

mod packs {
    use super::*;

    #[test]
    fn states_become_steps_with_their_events_limits_and_artifacts() {
        let compiled = compile(&pack(json!({
            "version": 2, "entry": "work", "engine": {"budget": {"max_total_visits": 9}},
            "states": {
                "work": {"prompt_task": "p", "on_event": {"Done": "end", "More": "work"}, "max_visits": 3,
                    "on_max_visits": "end", "orchestration": "hybrid", "control": "agent",
                    "artifacts": {"log": {"type": "text/plain", "mode": "append"}}},
                "end": {"prompt_task": "p", "terminal": true},
            },
        })));
        let ir = compiled.ir.unwrap();
        assert_eq!(ir.entry.as_deref(), Some("work"));
        assert_eq!(ir.limits.total_visits, Some(9));
        assert_eq!(ir.artifacts["log"].mode, ArtifactMode::Append);
        let work = ir.step("work").unwrap();
        assert_eq!(work.judge, Some(Judge::Event { orchestration: Orchestration::Hybrid, control: Control::Agent }));
        assert_eq!((work.max_visits, work.on_max_visits.as_deref()), (Some(3), Some("end")));
        assert_eq!(work.on[0].goto, Goto::Step("end".into()));
        assert!(ir.step("end").unwrap().terminal);
    }

    #[test]
    fn fragments_are_the_authors_text_and_their_tokens_count() {
        let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
        pack["fragments"] = json!({"tone": "Be {{mood}}."});
        pack["prompts"]["p"]["system_template"] = json!("{{tone}} Help {{company}}.");
        pack["prompts"]["p"]["variables"] = json!([
            {"name": "mood", "type": "string", "required": false, "default": "kind"},
            {"name": "company", "type": "string", "required": true},
        ]);
        let ir = compile(&pack).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
        assert_eq!(session.system_prompt.as_deref(), Some("Be {{mood}}. Help {{company}}."));
        assert_eq!(ir.inputs["mood"].default, Some(Value::from("kind")));
        assert_eq!(ir.inputs["company"].default, None);
    }

    #[test]
    fn a_fragment_that_contains_itself_is_an_error() {
        let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
        pack["fragments"] = json!({"loop": "{{loop}}"});
        pack["prompts"]["p"]["system_template"] = json!("{{loop}}");
        assert_eq!(codes(&pack, Severity::Error), ["fragments"]);
    }

    #[test]
    fn tools_are_what_the_prompt_lists_without_what_its_policy_blocks() {
        let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p"}}}));
        pack["tools"] = json!({"look": {"name": "look", "description": "Looks."}, "wipe": {"name": "wipe", "description": "Wipes."}});
        pack["prompts"]["p"]["tools"] = json!(["look", "wipe"]);
        pack["prompts"]["p"]["tool_policy"] = json!({"blocklist": ["wipe"], "max_rounds": 4});
        let ir = compile(&pack).ir.unwrap();
        let Form::Session { session } = &ir.steps[0].form else { panic!("a state is a session") };
        assert_eq!(session.tools.as_deref(), Some(["look".to_owned()].as_slice()));
        assert_eq!(session.max_rounds, Some(4));
    }

    #[test]
    fn what_the_reference_drops_is_kept() {
        let workflow = json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p", "control": "agent"}}});
        let spec = spec(workflow);
        assert_eq!(serde_json::to_value(&spec).unwrap()["states"]["a"]["control"], "agent");
        assert_eq!(serde_json::to_value(spec.reference_form()).unwrap()["states"]["a"].get("control"), None);
    }

    #[test]
    fn a_finding_points_at_its_place() {
        let text = serde_json::to_string_pretty(&pack(json!({
            "version": 1, "entry": "a", "states": {"a": {"prompt_task": "nope"}},
        })))
        .unwrap();
        let compiled = promptpack::compile(&SourceFile::new("a.pack.json", text.clone()));
        let found = &compiled.diagnostics[0];
        assert_eq!(found.message, r#"workflow.states["a"].prompt_task "nope" does not reference a valid prompt"#);
        let span = found.span.unwrap();
        assert_eq!(&text[span.start..span.end], "\"nope\"");
    }
}

mod checks {
    use super::*;

    fn with_states(states: Json) -> Json {
        pack(json!({"version": 1, "entry": "a", "states": states}))
    }

    #[test]
    fn states_that_nothing_leads_to_and_states_without_a_way_out_are_told() {
        let pack = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b", "End": "z"}},
            "b": {"prompt_task": "p", "on_event": {"Stay": "b"}},
            "z": {"prompt_task": "p", "terminal": true},
            "island": {"prompt_task": "p", "terminal": true},
        }));
        assert_eq!(codes(&pack, Severity::Warning), ["no-way-out", "pack-workflow", "unreachable-state"]);
    }

    #[test]
    fn a_fallback_to_itself_is_an_error_and_a_ring_of_fallbacks_a_warning() {
        let own = with_states(
            json!({"a": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "a"}}),
        );
        assert_eq!(codes(&own, Severity::Error), ["self-fallback"]);
        let ring = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b", "End": "z"}, "max_visits": 1, "on_max_visits": "b"},
            "b": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "a"},
            "z": {"prompt_task": "p", "terminal": true},
        }));
        let warnings = codes(&ring, Severity::Warning);
        assert_eq!(warnings.iter().filter(|code| **code == "redirect-cycle").count(), 2);
    }

    #[test]
    fn a_ghost_fallback_is_an_error() {
        let pack = with_states(
            json!({"a": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "ghost"}}),
        );
        assert_eq!(codes(&pack, Severity::Error), ["pack-workflow"]);
    }

    #[test]
    fn an_artifact_has_one_mode() {
        let pack = with_states(json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b"}, "artifacts": {"x": {"type": "text/plain", "mode": "append"}}},
            "b": {"prompt_task": "p", "artifacts": {"x": {"type": "text/plain"}}},
        }));
        assert_eq!(codes(&pack, Severity::Error), ["conflicting-artifact-modes"]);
    }

    #[test]
    fn artifacts_that_no_state_declares_are_told_with_a_suggestion() {
        let mut pack =
            with_states(json!({"a": {"prompt_task": "p", "artifacts": {"commit_sha": {"type": "text/plain"}}}}));
        pack["prompts"]["p"]["system_template"] = json!("At {{artifacts.commit_sh}}");
        let compiled = compile(&pack);
        assert_eq!(compiled.diagnostics[0].code, "unknown-artifact");
        assert_eq!(compiled.diagnostics[0].help.as_deref(), Some("did you mean commit_sha?"));
    }

    #[test]
    fn malformed_budgets_negative_limits_and_null_states_are_errors() {
        let budget = |budget: Json| {
            let mut pack = with_states(json!({"a": {"prompt_task": "p"}}));
            pack["workflow"]["engine"] = json!({"budget": budget});
            codes(&pack, Severity::Error)
        };
        assert_eq!(budget(json!({"max_total_visits": "many"})), ["pack-schema"]);
        assert_eq!(budget(json!({"max_tool_calls": -1})), ["pack-schema"]);
        assert_eq!(budget(json!({"max_visits": 3})), ["pack-schema"]);
        assert_eq!(
            codes(&with_states(json!({"a": {"prompt_task": "p", "max_visits": -2}})), Severity::Error),
            ["pack-schema"]
        );
        assert_eq!(
            codes(&with_states(json!({"a": {"prompt_task": "p"}, "b": null})), Severity::Error),
            ["pack-schema"]
        );
        assert!(Spec::from_config(&Value::from(json!({"version": 1, "entry": "a", "states": {"a": null}}))).is_err());
    }

    #[test]
    fn an_event_without_a_name_is_an_error() {
        let pack = with_states(json!({"a": {"prompt_task": "p", "on_event": {"": "b"}}, "b": {"prompt_task": "p"}}));
        assert_eq!(codes(&pack, Severity::Error), ["empty-event"]);
    }

    #[test]
    fn unknown_compositions_and_agent_states_are_errors() {
        let mut pack =
            with_states(json!({"a": {"orchestration": "composition", "composition": "nope", "terminal": true}}));
        pack["agents"] = json!({"entry": "p", "members": {"p": {"state": "ghost"}}});
        assert_eq!(codes(&pack, Severity::Error), ["unknown-composition", "unknown-state"]);
    }

    #[test]
    fn many_states_are_checked_in_linear_time() {
        let states: serde_json::Map<String, Json> = (0..20_000)
            .map(|n| {
                let next = format!("s{}", n + 1);
                (
                    format!("s{n}"),
                    json!({"prompt_task": "p", "on_event": {"Go": next}, "max_visits": 1, "on_max_visits": next}),
                )
            })
            .chain([("s20000".to_owned(), json!({"prompt_task": "p", "terminal": true}))])
            .collect();
        let spec = spec(json!({"version": 1, "entry": "s0", "states": states}));
        let found = promptpack::validate(&spec, &["p".to_owned()]);
        assert!(!found.has_errors());
    }
}
