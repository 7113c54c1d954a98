//! Agents of a pack, called as tools.

use super::*;
use opcell_ir::agent::{input, parameters};

/// `boss` calls `clerk`, who calls `boss` and `cook`; `maid` is called by no one.
fn house() -> Json {
    let prompt = |id: &str, tools: Json| json!({"id": id, "name": id.to_uppercase(), "version": "1.0.0", "system_template": "Be brief.", "tools": tools});
    json!({
        "id": "house", "name": "House", "version": "1.0.0",
        "template_engine": {"version": "v1", "syntax": "{{variable}}"},
        "prompts": {
            "boss": prompt("boss", json!(["bell", "clerk"])),
            "clerk": prompt("clerk", json!(["boss", "cook"])),
            "cook": prompt("cook", json!([])),
            "maid": prompt("maid", json!([])),
        },
        "tools": {"bell": {"name": "bell", "description": "Rings."}},
        "agents": {"entry": "boss", "members": {
            "boss": {}, "clerk": {"description": "Keeps the books."}, "cook": {}, "maid": {},
        }},
    })
}

#[test]
fn members_among_a_prompt_s_tools_are_called_and_come_along_with_the_pack() {
    let ir = compile(&house()).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
    assert_eq!(session.tools.as_deref(), Some(&["bell".to_owned()][..]), "an agent is not a tool of the host");
    let clerk = &session.agents["clerk"];
    assert_eq!((clerk.description.as_str(), clerk.workflow.as_ref()), ("Keeps the books.", "house/agents/clerk"));
    let mut along: Vec<&str> = ir.workflows.iter().map(|own| own.name.as_ref()).collect();
    along.sort_unstable();
    assert_eq!(along, ["house/agents/boss", "house/agents/clerk", "house/agents/cook"], "each once, no one else");
    let clerk = ir.workflows.iter().find(|own| own.name.ends_with("clerk")).unwrap();
    let Form::Session { session } = &clerk.steps[0].form else { panic!("a session") };
    assert_eq!(session.tools.as_deref(), Some(&[][..]), "none of its caller's");
    assert_eq!(session.agents["cook"].description, "COOK", "its name, where nothing else describes it");
    assert!(clerk.steps[0].terminal && clerk.workflows.is_empty());
    let again: opcell_ir::WorkflowIr = serde_json::from_str(&serde_json::to_string(&*ir).unwrap()).unwrap();
    assert_eq!(again, *ir, "the execution model survives JSON");
}

#[test]
fn what_a_policy_blocks_is_not_called_either() {
    let mut pack = house();
    pack["prompts"]["boss"]["tool_policy"] = json!({"blocklist": ["clerk"]});
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
    assert!(session.agents.is_empty());
}

#[test]
fn a_member_with_a_state_is_the_workflow_from_there_and_nobody_speaks_in_between() {
    let mut pack = house();
    pack["agents"]["members"]["clerk"] = json!({"state": "books"});
    pack["workflow"] = json!({"version": 2, "entry": "door", "engine": {"budget": {"max_total_visits": 9}}, "states": {
        "door": {"prompt_task": "boss", "on_event": {"In": "books"}},
        "books": {"prompt_task": "clerk", "on_event": {"Out": "door", "Shut": "end"}},
        "end": {"prompt_task": "cook", "terminal": true},
    }});
    let ir = compile(&pack).ir.unwrap();
    let clerk = ir.workflows.iter().find(|own| own.name.ends_with("clerk")).unwrap();
    assert_eq!((clerk.entry.as_deref(), clerk.steps.len(), clerk.limits.total_visits), (Some("books"), 3, Some(9)));
    let controls = |ir: &opcell_ir::WorkflowIr| {
        let all: Vec<_> = ir.steps.iter().map(|step| step.judge.clone()).collect();
        all.into_iter()
            .map(|judge| match judge {
                Some(Judge::Event { control, .. }) => control,
                other => panic!("{other:?}"),
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(controls(clerk), [Control::Agent; 3]);
    assert_eq!(controls(&ir), [Control::User; 3]);
}

#[test]
fn an_agent_is_given_what_its_caller_was_given_and_the_query() {
    let given = Value::from(json!({"company": "Acme", "input": "hello"}));
    assert_eq!(input(&given, "why"), Value::from(json!({"company": "Acme", "input": "why"})));
    assert_eq!(input(&Value::from("hello"), "why"), Value::from("why"));
    assert_eq!(parameters().get("required"), Some(&Value::from(json!(["query"]))));
}

#[test]
fn a_misused_agent_is_told() {
    let mut pack = house();
    pack["prompts"]["boss"]["tools"] = json!(["boss", "clerk", "cook", "guest", "bell"]);
    pack["prompts"]["guest"] = pack["prompts"]["maid"].clone();
    pack["tools"]["clerk"] = json!({"name": "clerk", "description": "Another."});
    pack["agents"]["members"]["cook"] = json!({"input_modes": ["image/*"]});
    let expected = ["agent-of-itself", "agent-or-tool", "agent-without-text", "undeclared-tool"];
    let mut reported = codes(&pack, Severity::Warning);
    reported.dedup();
    assert_eq!(reported, expected, "{:?}", compile(&pack).diagnostics);
    let ir = compile(&pack).ir.unwrap();
    let Form::Session { session } = &ir.steps[0].form else { panic!("a session") };
    assert_eq!(session.agents.keys().collect::<Vec<_>>(), ["clerk", "cook"]);
    assert_eq!(session.tools.as_deref(), Some(&["guest".to_owned(), "bell".to_owned()][..]));
}
