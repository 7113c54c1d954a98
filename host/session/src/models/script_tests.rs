use super::*;
use crate::testing::{Pieces, round};
use opcell_engine::conversation::{Message, Role};
use opcell_engine::ports::{Failure, ModelReply};
use std::sync::Arc;

fn model(text: &str) -> ScriptedModel {
    ScriptedModel::parse("test.yaml", text).unwrap()
}

async fn ask(model: &dyn Model, step: &str, text: &str) -> Result<ModelReply, Failure> {
    model.complete(&round(step, vec![Message::user(text)]), None).await
}

async fn say(model: &dyn Model, step: &str, text: &str) -> String {
    ask(model, step, text).await.unwrap().message.content
}

#[tokio::test]
async fn strict_turns_answer_in_order() {
    let model = model("version: 1\nturns:\n- text: one\n- json: {decision: DONE}\n");
    assert_eq!(say(&model, "a", "x").await, "one");
    assert_eq!(model.unused(), [2]);
    assert_eq!(say(&model, "b", "y").await, r#"{"decision":"DONE"}"#);
    assert_eq!(model.unused(), [] as [usize; 0]);
}

#[tokio::test]
async fn a_strict_turn_that_does_not_match_says_what_it_got_and_expected_and_stays() {
    let model = model("version: 1\nturns:\n- when: {step: plan, contains: tea}\n  text: one\n- text: two\n");
    let failed = ask(&model, "brew", "coffee").await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "script-mismatch");
    insta::assert_snapshot!(failed.message);
    let failed = ask(&model, "plan", "coffee").await.unwrap_err();
    assert!(failed.message.contains(r#"turn 1 expects `contains` "tea", got "coffee""#), "{}", failed.message);
    assert_eq!(say(&model, "plan", "tea please").await, "one");
}

#[tokio::test]
async fn an_exhausted_script_says_what_it_was_asked() {
    let model = model("version: 1\nturns: [{text: one}]");
    say(&model, "a", "x").await;
    let failed = ask(&model, "b", "more").await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "script-exhausted");
    assert!(failed.message.contains("step `b`") && failed.message.contains("\"more\""), "{}", failed.message);
}

#[tokio::test]
async fn with_any_order_the_first_unused_match_answers() {
    let model = model(
        "version: 1\norder: any\nturns:\n- when: {step: b}\n  text: for b\n- when: {matches: '^h[ae]llo'}\n  text: hi\n  repeat: true\n- text: rest\n",
    );
    assert_eq!(say(&model, "a", "hello").await, "hi");
    assert_eq!(say(&model, "b", "hello").await, "for b");
    assert_eq!(say(&model, "b", "hallo").await, "hi");
    assert_eq!(say(&model, "b", "other").await, "rest");
    let failed = ask(&model, "b", "other").await.unwrap_err();
    assert!(failed.message.contains("turn 2 expects `matches`"), "{}", failed.message);
}

#[tokio::test]
async fn a_repeating_strict_turn_answers_until_it_no_longer_matches() {
    let model = model("version: 1\nturns:\n- {when: {step: a}, text: again, repeat: true}\n- text: after\n");
    assert_eq!(say(&model, "a", "1").await, "again");
    assert_eq!(say(&model, "a", "2").await, "again");
    assert_eq!(say(&model, "b", "3").await, "after");
    assert_eq!(ask(&model, "a", "4").await.unwrap_err().reason.as_ref(), "script-exhausted");
}

#[tokio::test]
async fn tool_calls_get_ids_unique_in_their_conversation_and_text_is_streamed() {
    let model = model(
        "version: 1\nturns:\n- {text: let me look, tool-calls: [{name: read}, {name: ls, arguments: {path: x}}], usage: {input-tokens: 7, output-tokens: 3}}\n",
    );
    let pieces = Pieces::default();
    let mut asked = round("a", vec![Message::user("q"), Message::assistant("earlier"), Message::user("go")]);
    asked.model = "other/name".to_owned();
    let reply = model.complete(&asked, Some(&pieces)).await.unwrap();
    assert_eq!(pieces.0.into_inner().unwrap(), ["let ", "me ", "look"]);
    assert_eq!(
        reply.message.tool_calls.iter().map(|call| call.id.as_str()).collect::<Vec<_>>(),
        ["call-1-0", "call-1-1"]
    );
    assert_eq!(reply.message.role, Role::Assistant);
    assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (7, 3));
    assert_eq!(reply.model, "other/name");
}

#[test]
fn a_script_that_makes_no_sense_is_refused_with_the_place() {
    let error = |text: &str| ScriptedModel::parse("s.yaml", text).unwrap_err().to_string();
    let empty_turn = error("version: 1\nturns: [{repeat: true}]");
    assert_eq!(empty_turn, "turn 1 of the model script s.yaml: needs one of `text`, `json`, `tool-calls` and `fail`");
    assert!(error("version: 1\nturns: [{text: a, json: 1}]").contains("not several"));
    assert!(error("version: 2\nturns: []").contains("`version` must be 1, got 2"));
    assert!(error("version: 1\nturns: [{txt: a}]").contains("txt"));
    assert!(error(r#"{"version": 1, "turns": [{"when": {"stepp": "a"}, "text": ""}]}"#).contains("stepp"));
    assert!(error("version: 1\nturns: [{when: {matches: '('}, text: a}]").contains("not a regular expression"));
}

#[tokio::test]
async fn a_recording_replays_the_session_in_any_order_and_refuses_another() {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("session.json");
    let inner = model(
        "version: 1\nturns:\n- tool-calls: [{name: read, arguments: {path: a}}]\n- text: done\n- fail: {reason: provider-unavailable, message: gone}\n",
    );
    let recorder = Recorder::create(Arc::new(inner), &path).unwrap();
    let first = ask(&recorder, "a", "start").await.unwrap();
    let mut second = round("a", vec![Message::user("start"), first.message.clone()]);
    second.messages.push(Message {
        role: Role::Tool,
        tool_call_id: Some("call-0-0".to_owned()),
        ..Message::user("text")
    });
    let done = recorder.complete(&second, None).await.unwrap();
    assert_eq!(ask(&recorder, "b", "next").await.unwrap_err().message, "gone");

    let replay = ScriptedModel::load(&path).unwrap();
    assert_eq!(ask(&replay, "b", "next").await.unwrap_err().reason.as_ref(), "provider-unavailable");
    assert_eq!(replay.complete(&second, None).await.unwrap(), done);
    assert_eq!(ask(&replay, "a", "start?").await.unwrap_err().reason.as_ref(), "script-mismatch");
    assert_eq!(ask(&replay, "a", "start").await.unwrap(), first);
    assert_eq!(replay.unused(), [] as [usize; 0]);
}

#[test]
fn a_misspelt_key_is_refused_with_its_line_and_the_one_that_was_meant() {
    for (text, expected) in [
        (
            "version: 1\nturn: []\n",
            "line 2 column 1: unknown key `turn`, expected one of version, order, turns; did you mean `turns`?",
        ),
        ("version: 1\norder: anny\nturns: []\n", "line 2 column 8: unknown value `anny`"),
        ("version: 1\nturns:\n- text: a\n  usage: { input_tokens: 3 }\n", "did you mean `input-tokens`?"),
        ("version: 1\nturns:\n- fail: { reson: x, message: m }\n", "did you mean `reason`?"),
        ("version: 1\nturns:\n- when: { system_contains: x }\n  text: a\n", "did you mean `system-contains`?"),
        ("{\"version\": 1, \"turns\": [{\"txt\": \"a\"}]}", ": unknown key `txt`, expected one of `when`"),
    ] {
        let error = ScriptedModel::parse("test.yaml", text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(!error.contains('\n') && !error.contains("<input>"), "{error}");
    }
}

#[test]
fn the_published_schema_has_the_keys_that_are_read() {
    let schema: serde_json::Value = serde_json::from_str(SCRIPT_SCHEMA).unwrap();
    let keys = |of: &serde_json::Value| of["properties"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let part = |name: &str| keys(&schema["$defs"][name]);
    let known = |text: &str| {
        let error = ScriptedModel::parse("test.yaml", text).unwrap_err().to_string();
        let known = error.split_once("expected one of ").unwrap().1;
        known.split(", ").map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(known("zzzz: 1"), keys(&schema));
    for (name, turn) in [
        ("turn", "zzzz: 1"),
        ("when", "when: { zzzz: 1 }"),
        ("call", "tool-calls: [{ zzzz: 1 }]"),
        ("failure", "fail: { zzzz: 1 }"),
        ("usage", "usage: { zzzz: 1 }"),
    ] {
        assert_eq!(known(&format!("version: 1\nturns:\n- {turn}\n")), part(name), "{name}");
    }
    let whole = serde_json::json!({"version": 1, "order": "any", "turns": [
        {"when": {"step": "a", "visit": 1, "round": 0}, "text": "t", "repeat": true, "usage": {"input-tokens": 1, "cost": 0.5}},
        {"tool-calls": [{"name": "n", "arguments": {}, "id": "i"}]},
        {"fail": {"reason": "r", "message": "m", "retriable": true}},
    ]});
    opcell_schema::Schema::compile(&schema).unwrap().check(&whole).unwrap();
    ScriptedModel::parse("test.json", &whole.to_string()).unwrap();
}
