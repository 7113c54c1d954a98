//! Findings about packs.

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
    assert_eq!(codes(&pack, Severity::Warning), ["no-terminal-path", "pack-workflow", "unreachable-state"]);
}

#[test]
fn a_fallback_to_itself_is_an_error_and_a_ring_of_fallbacks_a_warning() {
    let own =
        with_states(json!({"a": {"prompt_task": "p", "on_event": {"Go": "a"}, "max_visits": 1, "on_max_visits": "a"}}));
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
fn a_loop_that_only_models_walk_needs_a_bound() {
    let talk = |b: Json| {
        json!({
            "a": {"prompt_task": "p", "on_event": {"Go": "b"}, "control": "agent"},
            "b": b,
            "z": {"prompt_task": "p", "terminal": true},
        })
    };
    let reported = |pack: &Json| {
        let warnings = codes(pack, Severity::Warning);
        warnings.iter().filter(|code| **code == "unbounded-agent-loop").count()
    };
    let free = with_states(talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}, "control": "agent"})));
    assert_eq!(reported(&free), 1, "one loop of two states");
    let waits = with_states(talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}})));
    assert_eq!(reported(&waits), 0, "someone has to speak in `b`");
    let limited =
        talk(json!({"prompt_task": "p", "on_event": {"Go": "a", "End": "z"}, "control": "agent", "max_visits": 3}));
    assert_eq!(reported(&with_states(limited)), 0);
    let mut budget = free;
    budget["workflow"]["engine"] = json!({"budget": {"max_total_visits": 9}});
    assert_eq!(reported(&budget), 0);
}

#[test]
fn an_artifact_that_only_a_fragment_uses_must_be_declared_too() {
    let mut pack = with_states(json!({"a": {"prompt_task": "p", "terminal": true}}));
    pack["fragments"] = json!({"notes": "So far: {{artifacts.ghost}}"});
    pack["prompts"]["p"]["system_template"] = json!("{{notes}}");
    assert_eq!(codes(&pack, Severity::Error), ["unknown-artifact"]);
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
    let mut pack = with_states(json!({"a": {"prompt_task": "p", "artifacts": {"commit_sha": {"type": "text/plain"}}}}));
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
    assert_eq!(codes(&with_states(json!({"a": {"prompt_task": "p"}, "b": null})), Severity::Error), ["pack-schema"]);
    assert!(Spec::from_config(&Value::from(json!({"version": 1, "entry": "a", "states": {"a": null}}))).is_err());
}

#[test]
fn validators_become_rules_of_the_session_and_one_that_would_guard_nothing_is_refused() {
    let mut pack = with_states(json!({"a": {"prompt_task": "p", "terminal": true}}));
    pack["prompts"]["p"]["validators"] = json!([
        {"type": "max_length", "params": {"max_characters": 9}},
        {"type": "banned_words", "fail_on_violation": false, "params": {"words": ["x"]}, "message": "No."},
        {"type": "sentiment", "enabled": false}
    ]);
    assert_eq!(codes(&pack, Severity::Warning), ["deprecated-field"]);
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!() };
    let names: Vec<&str> = session.guards.iter().map(|guard| guard.name.as_str()).collect();
    assert_eq!(names, ["max_length", "banned_words"]);
    for wrong in [
        json!({"type": "sentiment"}),
        json!({"type": "max_length"}),
        json!({"type": "max_length", "params": {"max_charaters": 9}}),
        json!({"type": "regex_match", "params": {"pattern": "("}}),
    ] {
        let mut pack = pack.clone();
        pack["prompts"]["p"]["validators"] = json!([wrong]);
        assert_eq!(codes(&pack, Severity::Error), ["unenforced-validator"], "{wrong}");
    }
    for (wrong, says) in [
        (json!({"type": "max_length", "params": {"max_charaters": 9}}), "did you mean max_characters?"),
        (json!({"type": "max_length", "params": {"max_length": 9}}), "max_length takes: max_characters, max_tokens"),
        (json!({"type": "regex", "params": {"pattern": "^(?!x)"}}), "read here: look-around"),
    ] {
        let mut pack = pack.clone();
        pack["prompts"]["p"]["validators"] = json!([wrong]);
        let found = compile(&pack).diagnostics;
        let told = format!("{}; {}", found[0].message, found[0].help.as_deref().unwrap_or_default());
        assert!(told.contains(says) && !told.contains('\n'), "{told}");
    }
    let found = compile(&pack).diagnostics;
    let deprecated = found.iter().find(|found| found.code == "deprecated-field").unwrap();
    assert_eq!(deprecated.path.as_deref(), Some("/prompts/p/validators/1/fail_on_violation"));
}

#[test]
fn an_event_without_a_name_is_an_error() {
    let pack = with_states(json!({"a": {"prompt_task": "p", "on_event": {"": "b"}}, "b": {"prompt_task": "p"}}));
    assert_eq!(codes(&pack, Severity::Error), ["empty-event"]);
}

#[test]
fn unknown_compositions_and_agent_states_are_errors() {
    let mut pack = with_states(json!({"a": {"orchestration": "composition", "composition": "nope", "terminal": true}}));
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
