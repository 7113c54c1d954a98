//! Governance: what is kept, what the pack itself breaks, and what a host's operator has to agree to.

use super::*;
use opcell_ir::ir::{ApprovalRules, Ask, Governance, Session};

fn tool(name: &str, effect: Option<&str>) -> Json {
    let mut tool = json!({"name": name, "description": "A tool."});
    if let Some(effect) = effect {
        tool["action_scope"] = json!({"effect": effect});
    }
    tool
}

fn governed(governance: Json, tools: &[&str]) -> Json {
    let mut pack = pack(json!({"version": 1, "entry": "a", "states": {"a": {"prompt_task": "p", "terminal": true}}}));
    pack["metadata"] = json!({"governance": governance});
    pack["tools"] =
        json!({"look": tool("look", Some("read")), "send": tool("send", Some("external")), "odd": tool("odd", None)});
    pack["prompts"]["p"]["tools"] = json!(tools);
    pack
}

fn governance(pack: &Json) -> Governance {
    let compiled = compile(pack);
    compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics)).governance.clone()
}

fn session(ir: &opcell_ir::WorkflowIr) -> &Session {
    let Form::Session { session } = &ir.steps[0].form else { panic!() };
    session
}

fn asked(pack: &Json) -> ApprovalRules {
    session(&compile(pack).ir.unwrap()).approve.clone()
}

#[test]
fn what_only_describes_asks_nothing_of_a_host() {
    let pack = governed(
        json!({
            "intended_purpose": "Answers questions.", "foreseeable_misuse": ["x"], "accountable_owner": "team",
            "risk_classification": "high", "capabilities": ["c"], "autonomy_level": "acts_with_oversight",
            "requires_ai_disclosure": false, "independent_of": {"axes": ["model"], "enforcement": "advisory"}
        }),
        &["send"],
    );
    assert_eq!(codes(&pack, Severity::Warning), Vec::<&str>::new());
    assert!(governance(&pack).is_empty() && asked(&pack).is_empty());
}

#[test]
fn what_something_else_has_to_keep_is_named_where_it_stands_and_in_the_ir() {
    let mut pack = governed(
        json!({
            "requires_ai_disclosure": true,
            "independent_of": {"axes": ["model"]},
            "obligations": [{"id": "o", "obligation": "x", "controls": [{"external": "A queue."}]}],
            "reviews": [{"id": "r", "type": "t", "cadence": "P3M", "owner": "team", "satisfies": ["o"]}]
        }),
        &[],
    );
    let all = ["requires_ai_disclosure", "obligations", "reviews", "independent_of"];
    assert_eq!(governance(&pack).unenforced, all);
    let found = compile(&pack).diagnostics;
    let paths: Vec<&str> = found.iter().filter_map(|found| found.path.as_deref()).collect();
    for field in all {
        assert!(paths.contains(&format!("/metadata/governance/{field}").as_str()), "{field}: {paths:?}");
    }
    assert!(found.iter().all(|found| found.code == "unenforced-governance" && found.severity == Severity::Warning));
    // An agent declares for itself, and counts as much.
    pack["metadata"] = json!({});
    pack["agents"] = json!({"entry": "p", "members": {"p": {"governance": {"requires_ai_disclosure": true}}}});
    assert_eq!(governance(&pack).unenforced, ["requires_ai_disclosure"]);
}

#[test]
fn an_obligation_whose_controls_are_fields_and_validators_is_met() {
    let obligation = |control: Json| json!({"accountable_owner": "team", "obligations": [{"id": "o", "obligation": "x", "controls": [control]}]});
    let mut pack = governed(obligation(json!({"validator": "short"})), &[]);
    pack["prompts"]["p"]["validators"] = json!([{"id": "short", "type": "max_length", "params": {"max_characters": 9}}, {"id": "off", "type": "x", "enabled": false}]);
    pack["evals"] = json!([{"id": "kind", "type": "x", "trigger": "every_turn"}]);
    assert!(governance(&pack).is_empty());
    pack["metadata"]["governance"] = obligation(json!({"field": "accountable_owner"}));
    assert!(governance(&pack).is_empty());
    pack["metadata"]["governance"] = obligation(json!({"eval": "kind"}));
    assert_eq!(governance(&pack).unenforced, ["obligations"]);
    for (control, says) in [
        (json!({"validator": "shrt"}), "no prompt of the pack has; did you mean \"short\"?"),
        (json!({"validator": "off"}), "is disabled"),
        (json!({"field": "autonomy_level"}), "which is not declared beside it"),
        (json!({"eval": "kint"}), "which the pack does not have; did you mean \"kind\"?"),
    ] {
        pack["metadata"]["governance"] = obligation(control);
        let found = compile(&pack).diagnostics;
        let error = found.iter().find(|found| found.severity == Severity::Error).unwrap();
        let told = format!("{}; {}", error.message, error.help.as_deref().unwrap_or_default());
        assert!(error.code == "governance-control" && told.contains(says), "{told}");
    }
    pack["metadata"]["governance"] = json!({"reviews": [
        {"id": "r", "type": "t", "cadence": "P1Y", "owner": "team", "satisfies": ["o"], "eval": "none"}]});
    assert_eq!(codes(&pack, Severity::Error), ["governance-control"; 2]);
}

#[test]
fn an_agent_that_acts_with_approval_asks_about_every_effect() {
    let pack = governed(json!({"autonomy_level": "acts_with_approval"}), &["look", "send", "odd"]);
    let rules = asked(&pack);
    let [unless_pure, declared] = rules.rules() else { panic!("{rules:?}") };
    assert_eq!((unless_pure.ask, &unless_pure.tools), (Ask::UnlessPure, &None));
    assert_eq!((declared.ask, &declared.tools), (Ask::Always, &Some(vec!["send".to_owned()])));
    assert_eq!(declared.from.as_deref(), Some("metadata.governance.autonomy_level"));
    let free = governed(json!({"autonomy_level": "acts_autonomously"}), &["send"]);
    assert!(asked(&free).is_empty());
}

#[test]
fn of_a_pack_and_its_agent_the_least_autonomy_counts() {
    let mut pack = governed(json!({"autonomy_level": "acts_autonomously"}), &["send"]);
    pack["agents"] = json!({"entry": "p", "members": {"p": {"governance": {"autonomy_level": "acts_with_approval"}}}});
    assert_eq!(asked(&pack).rules()[0].from.as_deref(), Some("agents.members[\"p\"].governance.autonomy_level"));
}

#[test]
fn an_agent_that_suggests_has_only_tools_that_read() {
    assert_eq!(codes(&governed(json!({"autonomy_level": "suggests"}), &["look"]), Severity::Error), Vec::<&str>::new());
    for tool in ["send", "odd"] {
        let mut pack = governed(json!({"autonomy_level": "suggests"}), &["look", tool]);
        let found = compile(&pack).diagnostics;
        let error = found.iter().find(|found| found.severity == Severity::Error).unwrap();
        assert_eq!((error.code, error.path.as_deref()), ("governance-autonomy", Some("/prompts/p/tools/1")));
        pack["prompts"]["p"]["tool_policy"] = json!({"blocklist": [tool]});
        assert_eq!(codes(&pack, Severity::Error), Vec::<&str>::new());
    }
}

#[test]
fn a_step_of_a_composition_does_not_act_past_the_person_who_approves() {
    let mut pack = governed(json!({"autonomy_level": "acts_with_approval"}), &[]);
    pack["compositions"] =
        json!({"c": {"version": 1, "steps": [{"id": "s", "kind": "tool", "tool": "send", "args": {}}]}});
    let found = compile(&pack).diagnostics;
    let error = found.iter().find(|found| found.severity == Severity::Error).unwrap();
    assert_eq!((error.code, error.path.as_deref()), ("governance-autonomy", Some("/compositions/c/steps/0/tool")));
    pack["compositions"]["c"]["steps"][0]["tool"] = json!("look");
    assert_eq!(codes(&pack, Severity::Error), Vec::<&str>::new());
}

#[test]
fn environments_have_to_be_approved_for_the_pack_and_its_agents() {
    let mut pack = governed(json!({"approved_environments": ["uk", "eu"]}), &[]);
    assert_eq!(governance(&pack).environments, Some(vec!["uk".to_owned(), "eu".to_owned()]));
    pack["agents"] = json!({"entry": "p", "members": {"p": {"governance": {"approved_environments": ["eu"]}}}});
    assert_eq!(governance(&pack).environments, Some(vec!["eu".to_owned()]));
}
