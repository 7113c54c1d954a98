//! States that speak: events, artifacts, and whose turn it is.

use crate::support::*;
use opcell_engine::{Message, Program, ResumeOptions, RunOptions, Status, outcome::Question};
use opcell_workflow::{SourceFile, Value, promptpack};
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
    let told = script.world().rounds[1].messages.last().unwrap().clone();
    assert!(told.is_error && told.content.ends_with("`event` must be one of Done, got `Nonsense`"), "{}", told.content);
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
    engine.tell(handle.run(), &Message::Signal { name: "Done".into(), data: Value::Null, by: None }).await.unwrap();
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
