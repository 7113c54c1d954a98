//! States that speak: events, artifacts, and whose turn it is.

use crate::support::*;
use opcell_engine::{Message, Program, ResumeOptions, RunOptions, Status, conversation, outcome::Question};
use opcell_ir::{SourceFile, names::Outcome};
use opcell_types::Value;
use opcell_workflow::promptpack;
use std::sync::Arc;

/// A pack whose states speak, each with the prompt `p`, and which starts in `a`.
fn pack(states: &str) -> Arc<Program> {
    let text = format!(
        r#"{{"id":"p","name":"P","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief."}}}},
        "workflow":{{"version":2,"entry":"a","states":{states}}}}}"#
    );
    Program::new(promptpack::compile(&SourceFile::new("p.pack.json", text)).ir.unwrap()).unwrap()
}

const ASK_THEN_END: &str = r#"{
    "a":{"prompt_task":"p","on_event":{"Done":"z"},"artifacts":{"note":{"type":"text/plain","mode":"append"}}},
    "z":{"prompt_task":"p","terminal":true}}"#;

fn goes(event: &str) -> String {
    format!(r#"{{"event":"{event}","context":"because"}}"#)
}

#[tokio::test]
async fn an_event_that_the_model_raises_is_followed_at_the_end_of_its_round() {
    let script = Script::new()
        .calls_tool("1", "workflow__set_artifact", r#"{"name":"note","value":"x"}"#)
        .calls_tool("2", "workflow__transition", &goes("Done"))
        .says(["goodbye"]);
    let outcome = script.run(&pack(ASK_THEN_END), r#""hello""#).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Completed, Some("z")));
    assert_eq!(outcome.artifacts.get("note"), Some(&Value::from("x")));
    assert_eq!(outcome.used.tool_calls, 2);
    assert_eq!(script.world().rounds.len(), 3, "the terminal state spoke at once");
}

#[tokio::test]
async fn an_event_that_the_state_does_not_have_is_refused_when_it_is_raised() {
    let script = Script::new().calls_tool("1", "workflow__transition", &goes("Nonsense")).says(["what now?"]);
    let outcome = script.run(&pack(ASK_THEN_END), r#""hello""#).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Suspended, Some("a")));
    let reported = script.world().rounds[1].messages.last().unwrap().clone();
    assert!(
        reported.is_error && reported.content.ends_with("`event` must be one of Done, got `Nonsense`"),
        "{}",
        reported.content
    );
}

#[tokio::test]
async fn a_state_that_has_spoken_waits_for_the_user_and_says_what_it_said() {
    let script = Script::new().says(["what is your name?"]);
    let outcome = script.run(&pack(ASK_THEN_END), r#""hello""#).await;
    let [Question::Signal { name, step, question, .. }] = outcome.questions.as_slice() else { panic!("one question") };
    assert_eq!((name.as_ref(), step.as_ref(), question.as_deref()), ("message", "a", Some("what is your name?")));
}

#[tokio::test]
async fn an_external_state_moves_by_a_signal_and_has_no_transition_tool() {
    let states = ASK_THEN_END.replace(r#""on_event""#, r#""orchestration":"external","on_event""#);
    let script = Script::new().says(["please wait", "thank you"]);
    let engine = script.engine();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(pack(&states), json(r#""hello""#), options).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Suspended);
    let tools = script.world().rounds[0].session.tools.clone();
    assert!(tools.iter().all(|tool| tool.name != "workflow__transition"));
    engine
        .send(
            handle.run(),
            &Message::Signal {
                name: "Done".into(),
                data: Value::Null,
                by: None,
                key: None,
                question: None,
                may_approve: false,
            },
        )
        .await
        .unwrap();
    let resumed =
        engine.resume(handle.run(), ResumeOptions { detach: true, ..ResumeOptions::default() }).await.unwrap();
    assert_eq!(resumed.finished().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn a_state_whose_visits_are_used_up_leads_elsewhere_once() {
    let states = r#"{
        "a":{"prompt_task":"p","on_event":{"Again":"a"},"max_visits":1,"on_max_visits":"z"},
        "z":{"prompt_task":"p","terminal":true}}"#;
    let script = Script::new().calls_tool("1", "workflow__transition", &goes("Again")).says(["enough"]);
    let outcome = script.run(&pack(states), r#""hello""#).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Completed, Some("z")));
}

/// A pack whose state `a` runs a composition, with prompts `p` and `q` and the tools `look` and `submit`.
fn composed(state: &str, steps: &str, more_states: &str) -> Arc<Program> {
    let text = format!(
        r#"{{"id":"c","name":"C","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"For {{{{company}}}}. {{{{workflow_context}}}}",
                        "variables":[{{"name":"company","type":"string","required":true}}]}}}},
        "tools":{{"look":{{"name":"look","description":"Looks.","parameters":{{"type":"object","properties":{{}}}}}},
                 "submit":{{"name":"submit","description":"Submits.","parameters":{{"type":"object","properties":{{}}}}}}}},
        "compositions":{{"work":{{"version":1,"steps":{steps}}}}},
        "workflow":{{"version":2,"entry":"a","states":{{"a":{{"orchestration":"composition","composition":"work",{state}}}{more_states}}}}}}}"#
    );
    let compiled = promptpack::compile(&SourceFile::new("c.pack.json", text));
    Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap()
}

const GIVEN: &str = r#"{"input":"read this","company":"Acme"}"#;

#[tokio::test]
async fn a_composition_sees_what_was_said_and_its_output_is_the_result_of_a_terminal_state() {
    let steps = r#"[{"id":"kind","kind":"prompt","prompt_task":"p","input":"${input.input}"},
                    {"id":"route","kind":"branch","predicate":{"path":"${kind.output.type}","op":"equals","value":"memo"},"then":"short","else":"long"},
                    {"id":"short","kind":"prompt","prompt_task":"p","depends_on":["route"],"input":"sum up ${input.input}"},
                    {"id":"long","kind":"prompt","prompt_task":"p","depends_on":["route"],"input":"analyse"}]"#;
    let script = Script::new().says([r#"{"type":"memo"}"#, "a memo about nothing"]);
    let outcome = script.run(&composed(r#""terminal":true"#, steps, ""), GIVEN).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Value::from("a memo about nothing"));
    assert_eq!(script.world().rounds[1].messages.last().unwrap().content, "sum up read this");
    assert_eq!(
        script.world().rounds[0].session.system,
        "For Acme. ",
        "application variables are there in compositions too"
    );
    assert_eq!(outcome.used.visits, 1, "the steps of a composition are no visits");
}

#[tokio::test]
async fn the_output_of_a_composition_chooses_its_state_s_event_and_tells_the_next_state() {
    let steps = r#"[{"id":"judge","kind":"prompt","prompt_task":"p","input":"${input.input}"}]"#;
    let next = r#","z":{"prompt_task":"p","terminal":true}"#;
    for answer in ["Good", r#"{"event":"Good","context":"all is well"}"#] {
        let script = Script::new().says([answer, "bye"]);
        let outcome = script.run(&composed(r#""on_event":{"Good":"z","Bad":"a"}"#, steps, next), GIVEN).await;
        assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Completed, Some("z")), "{outcome:?}");
        let reported = if answer == "Good" { "For Acme. Good" } else { "For Acme. all is well" };
        assert_eq!(script.world().rounds[1].session.system, reported);
    }
}

#[tokio::test]
async fn a_composition_that_chooses_its_own_state_again_and_again_ends_at_the_safety_bound() {
    let steps = r#"[{"id":"judge","kind":"prompt","prompt_task":"p","input":"${input.input}"}]"#;
    let next = r#","z":{"prompt_task":"p","terminal":true}"#;
    let script = Script::new().answers(|_| conversation::Message::assistant("Again"));
    let program = composed(r#""on_event":{"Again":"a","Good":"z"}"#, steps, next);
    let options = RunOptions { visit_bound: Some(5), detach: true, ..RunOptions::default() };
    let outcome = script.run_with(&program, GIVEN, options).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")), "{outcome:?}");
    assert_eq!(script.world().rounds.len(), 5);
}

#[tokio::test]
async fn a_composition_whose_output_is_no_event_waits_for_a_signal() {
    let steps = r#"[{"id":"judge","kind":"prompt","prompt_task":"p","input":"${input.input}"}]"#;
    let next = r#","z":{"prompt_task":"p","terminal":true}"#;
    let script = Script::new().says(["no idea", "bye"]);
    let engine = script.engine();
    let program = composed(r#""on_event":{"Good":"z"}"#, steps, next);
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(program, json(GIVEN), options).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Suspended);
    engine.signal(handle.run(), &"Good".into(), Value::Null, None).await.unwrap();
    let resumed =
        engine.resume(handle.run(), ResumeOptions { detach: true, ..ResumeOptions::default() }).await.unwrap();
    assert_eq!(resumed.finished().await.unwrap().status, Status::Completed);
}

#[tokio::test]
async fn an_agent_step_ends_when_its_final_tool_was_called() {
    let steps = r#"[{"id":"work","kind":"agent","prompt_task":"p","input":"go","tools":["look","submit"],
                     "termination":{"max_steps":9,"tool_called":"submit"}}]"#;
    let script = Script::new()
        .calls_tool("1", "look", "{}")
        .calls_tool("2", "submit", "{}")
        .tool("look", r#""a book""#)
        .tool("submit", r#"{"grade":"good"}"#);
    let outcome = script.run(&composed(r#""terminal":true"#, steps, ""), GIVEN).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, json(r#"{"grade":"good"}"#));
    assert_eq!(script.world().rounds.len(), 2, "the model is not asked again");
}

#[tokio::test]
async fn a_final_tool_that_fails_does_not_end_the_step() {
    let steps = r#"[{"id":"work","kind":"agent","prompt_task":"p","input":"go","tools":["submit"],
                     "termination":{"max_steps":9,"tool_called":"submit"}}]"#;
    let script = Script::new().calls_tool("1", "submit", "{}").says(["I could not"]);
    let outcome = script.run(&composed(r#""terminal":true"#, steps, ""), GIVEN).await;
    assert_eq!(outcome.result, Value::from("I could not"), "{outcome:?}");
}

/// A pack with the prompt policy and the budget given.
fn bounded(policy: &str, budget: &str, states: &str) -> Arc<Program> {
    let text = format!(
        r#"{{"id":"b","name":"B","version":"1.0.0","template_engine":{{"version":"v1","syntax":"{{{{variable}}}}"}},
        "prompts":{{"p":{{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief.","tools":["look"],"tool_policy":{policy}}}}},
        "tools":{{"look":{{"name":"look","description":"Looks.","parameters":{{"type":"object","properties":{{}}}}}}}},
        "workflow":{{"version":2,"entry":"a","engine":{{"budget":{budget}}},"states":{states}}}}}"#
    );
    Program::new(promptpack::compile(&SourceFile::new("b.pack.json", text)).ir.unwrap()).unwrap()
}

#[tokio::test]
async fn a_turn_makes_no_more_tool_calls_than_its_policy_allows() {
    let program = bounded(r#"{"max_tool_calls_per_turn":1}"#, "{}", r#"{"a":{"prompt_task":"p","terminal":true}}"#);
    let script = Script::new()
        .calls_tool("1", "look", "{}")
        .calls_tool("2", "look", "{}")
        .says(["what I saw once"])
        .tool("look", r#""a book""#);
    let outcome = script.run(&program, r#""hello""#).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.called(), ["look {}"]);
    let refusal = script.world().rounds[2].messages.last().unwrap().clone();
    assert!(
        refusal.is_error && refusal.content.starts_with("denied: this turn has used its 1 tool calls"),
        "{refusal:?}"
    );
}

#[tokio::test]
async fn a_budget_stops_a_state_before_the_tool_call_that_would_break_it_and_keeps_the_artifacts() {
    let states = r#"{"a":{"prompt_task":"p","on_event":{"Done":"z"},"artifacts":{"note":{"type":"text/plain"}}},
                     "z":{"prompt_task":"p","terminal":true}}"#;
    let program = bounded("{}", r#"{"max_tool_calls":2}"#, states);
    let script = Script::new()
        .calls_tool("1", "workflow__set_artifact", r#"{"name":"note","value":"kept"}"#)
        .calls_tool("2", "look", "{}")
        .calls_tool("3", "look", "{}")
        .tool("look", r#""a book""#);
    let outcome = script.run(&program, r#""hello""#).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    assert_eq!(outcome.artifacts.get("note"), Some(&Value::from("kept")));
    assert_eq!(script.called(), ["look {}"], "the call beyond the budget is not made");
}

#[tokio::test]
async fn an_event_is_refused_when_the_budget_is_used_up_as_process_event_does() {
    let states = r#"{"a":{"prompt_task":"p","on_event":{"Done":"z"}},"z":{"prompt_task":"p","terminal":true}}"#;
    let program = bounded("{}", r#"{"max_tool_calls":1}"#, states);
    let script = Script::new().calls_tool("1", "workflow__transition", &goes("Done"));
    let outcome = script.run(&program, r#""hello""#).await;
    assert_eq!((outcome.reason.as_deref(), outcome.step.as_deref()), (Some("budget-exhausted"), Some("a")));
    let details = outcome.details.unwrap();
    assert_eq!(details.get("limit"), Some(&Value::from("tool-calls")));
}

#[tokio::test]
async fn a_tool_that_the_state_does_not_have_is_never_called() {
    let program = bounded(r#"{"blocklist":["look"]}"#, "{}", r#"{"a":{"prompt_task":"p","terminal":true}}"#);
    let script = Script::new().calls_tool("1", "look", "{}").says(["then not"]).tool("look", r#""a book""#);
    assert_eq!(script.run(&program, r#""hello""#).await.status, Status::Completed);
    assert!(script.called().is_empty());
    assert!(
        script.world().rounds[1]
            .messages
            .last()
            .unwrap()
            .content
            .starts_with("denied: this session has no tool `look`")
    );
}

#[tokio::test]
async fn the_model_is_told_the_target_of_its_own_state_and_an_event_may_be_spelled_otherwise() {
    let states = r#"{"a":{"prompt_task":"p","on_event":{"Next":"b"},"control":"agent"},
                     "b":{"prompt_task":"p","on_event":{"Next":"z"},"control":"agent"},
                     "z":{"prompt_task":"p","terminal":true}}"#;
    let script = Script::new()
        .calls_tool("1", "workflow__transition", &goes("Next"))
        .calls_tool("2", "workflow__transition", &goes(" next "))
        .says(["there"]);
    let outcome = script.run(&pack(states), r#""hello""#).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Completed, Some("z")));
    let reported = |round: usize| {
        let round = script.world().rounds[round].messages.clone();
        round.iter().rev().find(|message| message.tool_call_id.is_some()).unwrap().content.clone()
    };
    assert!(reported(1).contains(r#""target_state":"b""#), "{}", reported(1));
    assert!(reported(2).contains(r#""target_state":"z""#), "{}", reported(2));
}

/// The library's machine and the engine get the same events, one after the other.
#[tokio::test]
async fn the_engine_and_the_state_machine_follow_one_rule() {
    let workflow = r#"{"version":2,"entry":"a","engine":{"budget":{"max_total_visits":9}},"states":{
        "a":{"prompt_task":"p","on_event":{"X":"b","Y":"c"},"max_visits":2,"on_max_visits":"c","control":"agent"},
        "b":{"prompt_task":"p","on_event":{"X":"a","Y":"b"},"max_visits":2,"control":"agent"},
        "c":{"prompt_task":"p","on_event":{"X":"a","Y":"d"},"control":"agent"},
        "d":{"prompt_task":"p","terminal":true}}}"#;
    let spec = promptpack::Spec::from_config(&json(workflow)).unwrap().unwrap();
    let states = json(workflow).get("states").unwrap().to_json();
    let program = bounded("{}", r#"{"max_total_visits":9}"#, &states);
    for bits in 0..64_u32 {
        let events: Vec<&str> = (0..6).map(|at| if bits >> at & 1 == 0 { "X" } else { "Y" }).collect();
        let mut machine =
            opcell_promptpack_reference::StateMachine::new(spec.clone(), "2026-01-01T00:00:00Z".parse().unwrap());
        let mut script = Script::new();
        let mut failed = None;
        for (at, event) in events.iter().enumerate() {
            if machine.is_terminal() {
                break;
            }
            script = script.calls_tool(&at.to_string(), "workflow__transition", &goes(event));
            if let Err(error) = machine.process_event(event, "2026-01-01T00:00:01Z".parse().unwrap()) {
                failed = Some(error);
                break;
            }
        }
        let script = script.says(["said"]);
        let outcome = script.run(&program, r#""hello""#).await;
        let place = format!("{events:?}: {outcome:?}, {failed:?}");
        assert_eq!(outcome.step.as_deref(), Some(machine.current_state()), "{place}");
        match failed {
            Some(opcell_promptpack_reference::TransitionError::BudgetExhausted { .. }) => {
                assert_eq!(outcome.reason.as_deref(), Some("budget-exhausted"), "{place}");
            }
            Some(error) => assert_eq!(outcome.message.as_deref(), Some(error.to_string().as_str()), "{place}"),
            None => assert!(matches!(outcome.status, Status::Completed | Status::Suspended), "{place}"),
        }
    }
}

#[tokio::test]
async fn a_model_reads_the_pack_s_own_skills_and_no_others() {
    let text = r#"{"id":"s","name":"S","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
        "prompts":{"p":{"id":"p","name":"P","version":"1.0.0","system_template":"Be brief."}},
        "skills":[{"name":"greet","description":"Greets.","instructions":"Say {{hello}}."}],
        "workflow":{"version":2,"entry":"a","states":{"a":{"prompt_task":"p","terminal":true}}}}"#;
    let program = Program::new(promptpack::compile(&SourceFile::new("s.pack.json", text)).ir.unwrap()).unwrap();
    let script = Script::new()
        .calls_tool("1", "skill__activate", r#"{"name":"greet"}"#)
        .calls_tool("2", "skill__activate", r#"{"name":"secrets"}"#)
        .says(["hello"]);
    assert_eq!(script.run(&program, r#""hi""#).await.status, Status::Completed);
    let reported = |round: usize| script.world().rounds[round].messages.last().unwrap().clone();
    assert_eq!(reported(1).content, r#"{"instructions":"Say {{hello}}.","added_tools":[]}"#);
    assert!(reported(2).is_error, "{:?}", reported(2));
}

#[tokio::test]
async fn a_state_that_listens_for_events_says_which() {
    let states = ASK_THEN_END.replace(r#""on_event""#, r#""orchestration":"hybrid","on_event""#);
    let script = Script::new().says(["please wait"]);
    let outcome = script.run(&pack(&states), r#""hello""#).await;
    let names: Vec<_> = outcome
        .questions
        .iter()
        .map(|question| match question {
            Question::Signal { name, .. } => name.to_string(),
            Question::Doubt { .. } | Question::Grant { .. } | Question::Call { .. } | Question::Input { .. } => {
                "doubt".to_owned()
            }
        })
        .collect();
    assert_eq!(names, ["message", "Done"]);
}

#[tokio::test]
async fn a_state_that_a_composition_leads_to_speaks_about_what_it_found() {
    let steps = r#"[{"id":"judge","kind":"prompt","prompt_task":"p","input":"${input.text}"}]"#;
    let next = r#","z":{"prompt_task":"p","terminal":true}"#;
    let script = Script::new().says([r#"{"event":"Good","context":"all is well"}"#, "bye"]);
    let program = composed(r#""on_event":{"Good":"z"}"#, steps, next);
    let outcome = script.run(&program, r#"{"text":"a letter","company":"Acme"}"#).await;
    assert_eq!(outcome.result, Value::from("bye"), "{outcome:?}");
    assert_eq!(script.world().rounds[1].messages.last().unwrap().content, "all is well");
}

fn authorized(outcomes: &[&str]) -> (Script, RunOptions) {
    let outcomes: Vec<Outcome> = outcomes.iter().map(|outcome| Outcome::Text((*outcome).into())).collect();
    let options = RunOptions { authorizer: Some("house/may".into()), detach: true, ..RunOptions::default() };
    (Script::new().judge("house/may", outcomes), options)
}

#[tokio::test]
async fn a_transition_of_the_model_takes_place_when_the_authorizer_lets_it() {
    let (script, options) = authorized(&["refuse", "allow"]);
    let script = script
        .calls_tool("1", "workflow__transition", &goes("Done"))
        .calls_tool("2", "workflow__transition", &goes("Done"))
        .says(["goodbye"]);
    let outcome = script.run_with(&pack(ASK_THEN_END), r#""hello""#, options).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Completed, Some("z")), "{outcome:?}");
    let told = script.world().rounds[1].messages.last().unwrap().clone();
    let why = "transition-refused: this transition is not allowed: the authorizer answered `refuse`";
    assert_eq!((told.is_error, told.content.as_str()), (true, why));
    let (id, asked) = script.world().calls[0].clone();
    assert_eq!(id, "house/may");
    let expected =
        r#"{"workflow":"p","from":"a","event":"Done","to":"z","context":"because","by":"model","artifacts":{}}"#;
    assert_eq!(asked.to_json(), expected);
}

#[tokio::test]
async fn an_authorizer_that_fails_lets_no_transition_take_place() {
    let (script, options) = authorized(&[]);
    let script = script.calls_tool("1", "workflow__transition", &goes("Done")).says(["what now?"]);
    let outcome = script.run_with(&pack(ASK_THEN_END), r#""hello""#, options).await;
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Suspended, Some("a")));
    let told = script.world().rounds[1].messages.last().unwrap().content.clone();
    assert!(told.ends_with("not allowed: judge-broke: the judge broke"), "{told}");
}

#[tokio::test]
async fn a_signal_moves_an_external_state_when_the_authorizer_lets_it() {
    let states = ASK_THEN_END.replace(r#""on_event""#, r#""orchestration":"external","on_event""#);
    let (script, options) = authorized(&["refuse", "allow"]);
    let script = script.says(["please wait", "thank you"]);
    let engine = script.engine();
    let handle = engine.start(pack(&states), json(r#""hello""#), options).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Suspended);
    for expected in [Status::Suspended, Status::Completed] {
        engine.signal(handle.run(), &"Done".into(), Value::Null, None).await.unwrap();
        let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
        let resumed = engine.resume(handle.run(), options).await.unwrap();
        assert_eq!(resumed.finished().await.unwrap().status, expected);
    }
    assert_eq!(script.world().calls[1].1.get("by"), Some(&Value::from("signal")));
}

#[tokio::test]
async fn an_event_that_a_composition_chooses_and_the_authorizer_refuses_fails_the_run() {
    let steps = r#"[{"id":"judge","kind":"prompt","prompt_task":"p","input":"${input.input}"}]"#;
    let next = r#","z":{"prompt_task":"p","terminal":true}"#;
    for (outcomes, status, reason) in
        [(["allow"], Status::Completed, None), (["refuse"], Status::Failed, Some("transition-refused"))]
    {
        let (script, options) = authorized(&outcomes);
        let script = script.says(["Good", "bye"]);
        let program = composed(r#""on_event":{"Good":"z","Bad":"a"}"#, steps, next);
        let outcome = script.run_with(&program, GIVEN, options).await;
        assert_eq!((outcome.status, outcome.reason.as_deref()), (status, reason), "{outcome:?}");
    }
}
