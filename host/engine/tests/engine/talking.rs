//! Session steps, LLM judges, delegates (psi, sections 4.2, 4.3, 4.5, 4.7, 4.8).

use crate::support::{Script, failure, json, program, retriable, routed};
use opcell_engine::{RunOptions, Status, conversation::Role};

fn session(name: &str, text: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"session","session":{{"tools":["read"],"contributions":[{{"type":"template","text":"{text}","vars":{{}}}}]}},
            "outputs":{{"final-llm-reply":{{"source":"session/final-llm-reply"}},"transcript":{{"source":"session/transcript"}}}},
            "yields":{{"type":"text","text":"final-llm-reply"}}{rest}}}"#
    )
}

fn asked(script: &Script) -> Vec<String> {
    script.world().rounds.iter().map(|round| round.messages.last().unwrap().content.clone()).collect()
}

#[tokio::test]
async fn a_session_asks_the_model_and_yields_its_last_words() {
    let script = Script::new().says(["hello"]);
    let outcome = script.run(&routed(&session("s", "say hello", "")), "{}").await;
    assert_eq!((outcome.status, outcome.result, outcome.is_text), (Status::Completed, json(r#""hello""#), true));
    assert_eq!(asked(&script), ["say hello"]);
    assert_eq!((outcome.used.tokens, outcome.used.rounds), (15, 1));
}

#[tokio::test]
async fn what_earlier_steps_said_stands_before_the_prompt() {
    let second = r#"{"name":"b","type":"session","session":{"contributions":[
        {"type":"source","from":"workflow-original"},{"type":"source","from":{"step":"a","output":"final-llm-reply"}},
        {"type":"template","text":"Review {{reply}}","vars":{"reply":{"from":{"step":"a","output":"final-llm-reply"}}}}]},"yields":{"type":"text","text":"final-llm-reply"}}"#;
    let script = Script::new().says(["plan text", "fine"]);
    script.run(&routed(&[&session("a", "Plan", ""), second].join(",")), r#"{"original":{"ticket":123}}"#).await;
    let round = script.world().rounds[1].messages.clone();
    let said: Vec<&str> = round.iter().map(|message| message.content.as_str()).collect();
    assert_eq!(said, ["{:ticket 123}", "plan text", "Review plan text"]);
    assert!(round.iter().all(|message| message.role == Role::User));
}

#[tokio::test]
async fn tools_are_called_one_by_one_and_only_those_the_session_has() {
    let script = Script::new()
        .calls_tool("1", "read", r#"{"path":"a"}"#)
        .calls_tool("2", "write", "{}")
        .says(["done"])
        .tool("read", r#""text""#);
    let outcome = script.run(&routed(&session("s", "work", "")), "{}").await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.called(), [r#"read {"path":"a"}"#]);
    let last: Vec<_> = script.world().rounds[2].messages.iter().cloned().collect();
    assert_eq!(last[2].content, "text");
    assert!(last[4].is_error && last[4].content.starts_with("denied: this session has no tool `write`; it has: read"));
    assert_eq!(outcome.used.tool_calls, 1);
}

#[tokio::test]
async fn several_prompts_share_one_conversation_and_keep_their_replies_apart() {
    let steps = r#"{"name":"s","type":"session","session":{"prompts":[
        {"name":"one","contributions":[{"type":"template","text":"first","vars":{}}]},
        {"name":"two","contributions":[{"type":"template","text":"second","vars":{}}]}]},
        "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"yields":{"type":"text","text":"final-llm-reply"}},
        {"name":"i","type":"invoke","invoke":{"operation":"t","args":{
          "one":{"from":{"step":"s","prompt":"one","output":"final-llm-reply"}},"last":{"from":{"step":"s","output":"final-llm-reply"}}}}}"#;
    let script = Script::new().says(["1", "2"]).operation("t", |call| Ok(call.arguments.clone()));
    script.run(&routed(steps), "{}").await;
    assert_eq!(script.called(), [r#"t {"one":"1","last":"2"}"#]);
    assert_eq!(script.world().rounds[1].messages.len(), 3, "the second turn sees the first");
}

#[tokio::test]
async fn a_failing_prompt_says_which_one_it_was() {
    let steps = r#"{"name":"s","type":"session","session":{"prompts":[
        {"name":"one","contributions":[{"type":"template","text":"first","vars":{}}]},
        {"name":"two","contributions":[{"type":"template","text":"second","vars":{}}]}]},"yields":{"type":"text","text":"final-llm-reply"}}"#;
    let script = Script::new().says(["1"]).model_fails(failure("provider", "broke"));
    let outcome = script.run(&routed(steps), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("provider"));
    assert_eq!(outcome.details, Some(json(r#"{"failed-prompt":{"index":1,"name":"two"}}"#)));
}

#[tokio::test]
async fn the_next_model_is_asked_when_one_cannot_be_reached() {
    let script = Script::new().model_fails(retriable("unreachable", "refused")).says(["hi"]);
    assert_eq!(script.run(&routed(&session("s", "x", "")), "{}").await.status, Status::Completed);
    assert_eq!(script.world().rounds[1].model, "second");
    let script = Script::new().model_fails(retriable("unreachable", "1")).model_fails(retriable("unreachable", "2"));
    let outcome = script.run(&routed(&session("s", "x", "")), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("ranked-candidate-exhausted"));
}

const STRUCTURED: &str = r#","outputs":{"a":{"source":"session/structured-output","structured":{"schema-id":"s","json-schema":
    {"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]},"max-attempts":2}}},"yields":{"type":"data","data":"a"}"#;

fn structured() -> String {
    let plain =
        r#"{"name":"s","type":"session","session":{"contributions":[{"type":"template","text":"x","vars":{}}]}"#;
    format!("{plain}{STRUCTURED}}}")
}

#[tokio::test]
async fn a_structured_answer_is_checked_and_asked_for_again() {
    let script = Script::new().says([r#"{"n":"seven"}"#, "```json\n{\"n\":7}\n```"]);
    let outcome = script.run(&routed(&structured()), "{}").await;
    assert_eq!(outcome.result, json(r#"{"n":7}"#));
    assert!(asked(&script)[1].contains("is not of type"), "{}", asked(&script)[1]);
    let script = Script::new().says(["no", "still no"]);
    let outcome = script.run(&routed(&structured()), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Blocked, Some("invalid-structured-output")));
}

#[tokio::test]
async fn a_run_without_structured_output_is_blocked_and_so_is_its_caller_unless_its_language_has_no_such_word() {
    let inner = program(&format!(r#"{{"version":"workflow-ir/v1","name":"inner","steps":[{}]}}"#, structured()));
    let caller = r#"{"name":"d","type":"delegate","delegate":{"target":"inner","prompt-string":"x"},"yields":{"type":"delegated"}}"#;
    let outcome = Script::new().workflow(&inner).says(["no", "still no"]).run(&routed(caller), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Blocked, Some("invalid-structured-output")));
    assert!(
        outcome.message.as_deref().is_some_and(|message| message.contains("Delegated workflow blocked")),
        "{outcome:?}"
    );
    let pack = format!(
        r#"{{"version":"workflow-ir/v1","name":"w","dialect":{{"printing":"go","lifecycle":"routed"}},"steps":[{}]}}"#,
        structured()
    );
    let outcome = Script::new().says(["no", "still no"]).run(&program(&pack), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("invalid-structured-output")));
}

fn llm_judge(on: &str, rest: &str) -> String {
    session(
        "s",
        "work",
        &format!(
            r#","judge":{{"type":"llm","session":{{"model":"m","system-prompt":"judge!","contributions":[{{"type":"template","text":"Is {{{{x}}}} good?","vars":{{"x":{{"from":"workflow-input"}}}}}}]}}{rest}}},"on":[{on}]"#
        ),
    )
}

const ON: &str = r#"{"outcome":{"text":"APPROVED"},"goto":"done"},{"outcome":{"keyword":"again"},"goto":"next"}"#;

#[tokio::test]
async fn a_judge_sees_the_conversation_its_own_model_and_its_rendered_prompt() {
    let script = Script::new().says(["result", " APPROVED\n"]);
    let outcome = script.run(&routed(&llm_judge(ON, "")), r#""it""#).await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#""result""#)));
    let opened = script.world().opened[1].clone();
    assert!(opened.judge);
    assert_eq!(opened.session.system_prompt.as_deref(), Some("judge!"));
    assert_eq!(opened.session.tools, Some(Vec::new()));
    let said: Vec<String> = script.world().rounds[1].messages.iter().map(|message| message.content.clone()).collect();
    assert_eq!(said, ["work", "result", "Is it good?"]);
}

#[tokio::test]
async fn a_projection_narrows_what_a_judge_sees() {
    let script = Script::new().says(["result", "APPROVED"]);
    script.run(&routed(&llm_judge(ON, r#","projection":{"type":"none"}"#)), r#""it""#).await;
    assert_eq!(script.world().rounds[1].messages.len(), 1);
}

#[tokio::test]
async fn a_judge_is_told_what_was_expected_and_asked_again_twice() {
    let script = Script::new().says(["result", "I think it looks good", "APPROVED"]);
    assert_eq!(script.run(&routed(&llm_judge(ON, "")), "{}").await.status, Status::Completed);
    assert_eq!(
        asked(&script)[2],
        "Your response 'I think it looks good' did not match any expected signal. Expected exactly one of: :again, APPROVED. Respond with exactly one of those words, nothing else."
    );
    let script = Script::new().says(["result", "hmm", "hmm", "hmm"]);
    let outcome = script.run(&routed(&llm_judge(ON, "")), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("no-match")));
    assert_eq!(script.world().rounds.len(), 4);
}

#[tokio::test]
async fn a_judge_says_a_keyword_with_its_colon() {
    for (said, status) in [(":again", Status::Completed), (":APPROVED", Status::Failed), ("again", Status::Failed)] {
        let script = Script::new().says(["result", said, said, said]);
        assert_eq!(script.run(&routed(&llm_judge(ON, "")), "{}").await.status, status, "{said}");
    }
}

#[tokio::test]
async fn a_structured_judge_decides_by_its_decision() {
    let outputs = r#","outputs":{"d":{"source":"judge/structured-output","structured":{"json-schema":{"type":"object","required":["decision"]}}}}"#;
    let script = Script::new().says(["result", r#"{"decision":"APPROVED"}"#]);
    assert_eq!(script.run(&routed(&llm_judge(ON, outputs)), "{}").await.status, Status::Completed);
    assert!(script.world().rounds[1].schema.is_some());
}

fn delegate(prompt: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"d","type":"delegate","delegate":{{"target":"inner","prompt-string":{prompt}{rest}}},
            "outputs":{{"handoff":{{"source":"delegate/handoff"}}}},"yields":{{"type":"delegated"}}}}"#
    )
}

fn inner(steps: &str, rest: &str) -> std::sync::Arc<opcell_engine::Program> {
    program(&format!(r#"{{"version":"workflow-ir/v1","name":"inner","steps":[{steps}]{rest}}}"#))
}

const SEES: &str = r#"{"name":"i","type":"invoke","invoke":{"operation":"t","args":{"input":{"from":"workflow-input"},"original":{"from":"workflow-original"}}},
    "outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"}}"#;

#[tokio::test]
async fn a_delegate_hands_over_a_prompt_and_a_context_and_yields_what_the_callee_yields() {
    let script = Script::new().workflow(&inner(SEES, "")).operation("t", |call| Ok(call.arguments.clone()));
    let prompt = r#"{"fields":{"issue_number":{"from":"workflow-input","path":["ids",0]},"none":{"value":null}}}"#;
    let context = r#","context":[{"type":"source","from":"workflow-original"},{"type":"source","from":"workflow-input","path":["ids"]}]"#;
    let outcome = script.run(&routed(&delegate(prompt, context)), r#"{"original":{"ticket":1},"ids":["i-1"]}"#).await;
    assert_eq!(
        outcome.result,
        json(r#"{"input":{"issue_number":"i-1","none":null},"original":[{"ticket":1},["i-1"]]}"#)
    );
}

#[tokio::test]
async fn a_terminal_contract_hands_data_back() {
    let inner = inner(&session("s", "x", ""), r#","terminal-contract":{"handoff":{"type":"markdown-handoff-data"}}"#);
    let outer = [
        delegate(r#""go""#, ""),
        r#"{"name":"i","type":"invoke","invoke":{"operation":"t","args":{"n":{"from":{"step":"d","output":"handoff"},"path":["issue_number"]},"text":{"from":{"step":"d","yield":"text"}}}}}"#.to_owned(),
    ]
    .join(",");
    let text = "Found.\n\n## Handoff Data\n- issue_number: 42\n";
    let script = Script::new().workflow(&inner).says([text]).operation("t", |call| Ok(call.arguments.clone()));
    script.run(&routed(&outer), "{}").await;
    assert_eq!(script.world().calls[0].1, opcell_types::Value::object([("n", json(r#""42""#)), ("text", text.into())]));
}

/// psi finds an output by its name alone, so that a handoff under another name than `handoff` is nothing.
#[tokio::test]
async fn a_handoff_is_given_under_the_name_that_the_step_gives_it() {
    let inner = inner(&session("s", "x", ""), r#","terminal-contract":{"handoff":{"type":"markdown-handoff-data"}}"#);
    let renamed = delegate(r#""go""#, "").replace(r#"{"handoff":{"source""#, r#"{"data":{"source""#);
    let reader = r#"{"name":"i","type":"invoke","invoke":{"operation":"t","args":{
        "all":{"from":{"step":"d","output":"data"}},"n":{"from":{"step":"d","output":"data"},"path":["pr_number"]}}}}"#;
    let text = "Opened.\n\n## Handoff Data\n- pr_number: 9\n";
    let script = Script::new().workflow(&inner).says([text]).operation("t", |call| Ok(call.arguments.clone()));
    let outcome = script.run(&routed(&[&renamed, reader].join(",")), "{}").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(script.called(), [r#"t {"all":{"pr_number":"9"},"n":"9"}"#]);
}

#[tokio::test]
async fn a_failed_callee_fails_the_step_and_says_why() {
    let script = Script::new().workflow(&inner(SEES, "")).gives("t", [Err(failure("no-issue", "none"))]);
    let outcome = script.run(&routed(&delegate(r#""go""#, "")), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("no-issue"));
    assert_eq!(outcome.message.as_deref(), Some("Delegated workflow failed: `inner`: none"));
    assert_eq!(outcome.details, Some(json(r#"{"target":"inner","reason":"no-issue","step":"i","source":"host"}"#)));
}

#[tokio::test]
async fn an_unknown_callee_is_a_failure_with_a_name() {
    let outcome = Script::new().run(&routed(&delegate(r#""go""#, "")), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("unknown-workflow"));
}

#[tokio::test]
async fn a_target_can_be_found_at_run_time_but_only_as_a_reference() {
    let dynamic =
        delegate(r#""go""#, "").replace(r#""target":"inner""#, r#""target":{"from":"workflow-input","path":["w"]}"#);
    let script = Script::new().workflow(&inner(SEES, "")).operation("t", |_| Ok(json("1")));
    assert_eq!(
        script.run(&routed(&dynamic), r#"{"w":{"type":"workflow-ref","name":"inner"}}"#).await.result,
        json("1")
    );
    let outcome = script.run(&routed(&dynamic), r#"{"w":"inner"}"#).await;
    assert!(outcome.message.unwrap().starts_with("Dynamic delegate target must resolve to a workflow reference"));
}

#[tokio::test]
async fn a_workflow_that_calls_itself_stops_at_the_depth() {
    let itself = inner(&delegate(r#""go""#, ""), "");
    let script = Script::new().workflow(&itself);
    let options = RunOptions { max_depth: Some(3), ..RunOptions::default() };
    let outcome = script.run_with(&itself, "{}", options).await;
    assert_eq!(outcome.status, Status::Failed);
    assert!(outcome.message.unwrap().contains("at most 3 are allowed"));
}

#[tokio::test]
async fn budgets_are_checked_before_the_effect() {
    for (set, kind) in [("tool-calls", "tool-calls"), ("tokens", "tokens"), ("cost", "cost")] {
        let script =
            Script::new().calls_tool("1", "read", "{}").calls_tool("2", "read", "{}").says(["done"]).tool("read", "1");
        let limit = match set {
            "tool-calls" => r#""tool-calls":1"#,
            "tokens" => r#""tokens":20"#,
            _ => r#""cost":0.9"#,
        };
        let program = program(&format!(
            r#"{{"version":"workflow-ir/v1","name":"w","limits":{{{limit}}},"steps":[{}]}}"#,
            session("s", "x", "")
        ));
        let outcome = script.run(&program, "{}").await;
        assert_eq!(outcome.reason.as_deref(), Some("budget-exhausted"), "{set}");
        assert_eq!(outcome.details.unwrap().get("limit").unwrap().as_str(), Some(kind));
        assert_eq!(script.world().rounds.len(), 2, "{set}");
    }
}

#[tokio::test]
async fn augmenters_see_each_turn_once_in_order_and_their_additions_are_sent() {
    let script = Script::new()
        .operation("house/remind", |_| Ok(json(r#"{"add":"Be brief."}"#)))
        .operation("house/look", |_| Ok(json("{}")))
        .calls_tool("1", "read", r#"{"path":"a"}"#)
        .says(["one", "two"])
        .tool("read", r#""text""#);
    script.world().augmenters = vec!["house/remind".to_owned(), "house/look".to_owned()];
    let steps = r#"{"name":"s","type":"session","session":{"tools":["read"],"prompts":[
        {"name":"one","contributions":[{"type":"template","text":"first","vars":{}}]},
        {"name":"two","contributions":[{"type":"template","text":"second","vars":{}}]}]}}"#;
    let outcome = script.run(&routed(steps), "{}").await;
    assert_eq!(outcome.status, Status::Completed);
    // Not again after a tool's answer, which belongs to the same turn.
    let calls: Vec<_> = script.world().calls.iter().map(|(id, _)| id.clone()).collect();
    assert_eq!(calls, ["house/remind", "house/look", "read", "house/remind", "house/look"]);
    let seen = |at: usize| script.world().calls[at].1.get("messages").unwrap().to_json();
    assert_eq!(seen(0), r#"[{"role":"user","content":"first"}]"#);
    assert_eq!(seen(1), r#"[{"role":"user","content":"first\n\nBe brief."}]"#);
    let last: Vec<_> = script.world().rounds[2].messages.iter().map(|message| message.content.clone()).collect();
    assert_eq!(last, ["first\n\nBe brief.", "", "text", "one", "second\n\nBe brief."]);
}

#[tokio::test]
async fn a_turn_that_an_augmenter_refuses_or_fails_is_not_sent() {
    for (data, reason) in [
        (Ok(json(r#"{"refuse":"it holds a key"}"#)), "turn-refused"),
        (Ok(json(r#"{"keep":true}"#)), "augmenter-failed"),
        (Err(failure("memory-limit", "too much")), "memory-limit"),
    ] {
        let script = Script::new().operation("house/check", move |_| data.clone()).says(["never"]);
        script.world().augmenters = vec!["house/check".to_owned()];
        let outcome = script.run(&routed(&session("s", "hello", "")), "{}").await;
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some(reason)));
        assert!(script.world().rounds.is_empty(), "{reason}");
    }
}
