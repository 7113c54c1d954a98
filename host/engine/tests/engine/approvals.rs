//! Calls of models that wait for a person: what is asked, what an answer is good for, and that each call is made at
//! most once and only as it was approved.

use crate::support::{Script, calling, check_history, json, routed};
use opcell_engine::{
    Decision, Delivery, Engine, Event, Message, Program, ResumeOptions, RunError, RunOptions, RunOutcome, Status,
    event::{CallAnswer, Request},
    outcome::Question,
};
use opcell_types::Value;
use std::sync::Arc;

fn program(rules: &str, rest: &str) -> Arc<Program> {
    routed(&format!(
        r#"{{"name":"s","type":"session","session":{{"tools":["run","look"],"approve":{rules},
            "contributions":[{{"type":"template","text":"work","vars":{{}}}}]}},
            "outputs":{{"final-llm-reply":{{"source":"session/final-llm-reply"}}}},
            "yields":{{"type":"text","text":"final-llm-reply"}}{rest}}}"#
    ))
}

fn detached() -> RunOptions {
    RunOptions { detach: true, ..RunOptions::default() }
}

async fn start(engine: &Engine, rules: &str) -> RunOutcome {
    engine.start(program(rules, ""), json("{}"), detached()).await.unwrap().finished().await.unwrap()
}

async fn go_on(engine: &Engine, run: &Arc<str>) -> RunOutcome {
    let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
    let outcome = engine.resume(run, options).await.unwrap().finished().await.unwrap();
    check_history(engine, &outcome).await;
    outcome
}

fn ids(outcome: &RunOutcome) -> Vec<Arc<str>> {
    outcome.questions.iter().filter_map(Question::id).cloned().collect()
}

fn yes() -> CallAnswer {
    CallAnswer::approve()
}

fn no(reason: &str) -> CallAnswer {
    CallAnswer::Refuse { reason: Some(reason.into()) }
}

async fn answer(engine: &Engine, outcome: &RunOutcome, id: &str, answer: CallAnswer) {
    engine.answer_call(&outcome.run, id, answer, Some("ann".into()), Some("test".into())).await.unwrap();
}

fn script() -> Script {
    Script::new().tool("run", r#""ran""#).tool("look", r#""seen""#)
}

/// Two equal calls, one after the other, and one with other arguments.
fn calls_twice_alike_and_once_otherwise() -> Script {
    script()
        .calls_tool("1", "run", r#"{"x":1}"#)
        .calls_tool("2", "run", r#"{"x":1}"#)
        .calls_tool("3", "run", r#"{"x":2}"#)
        .says(["done"])
}

#[tokio::test]
async fn a_call_waits_for_a_person_and_nothing_is_called_before() {
    let script = script().calls_tool("1", "run", r#"{"command":"rm -rf x"}"#).says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    assert_eq!(outcome.status, Status::Suspended);
    let [Question::Call { tool, arguments, step, rule, shown, id, .. }] = outcome.questions.as_slice() else {
        panic!("{:?}", outcome.questions)
    };
    assert_eq!((&**tool, &**step, &**rule), ("run", "s", "always"));
    assert_eq!(*arguments, json(r#"{"command":"rm -rf x"}"#));
    assert!(shown.text.contains("rm -rf x"));
    assert!(script.called().is_empty());
    answer(&engine, &outcome, id, yes()).await;
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.called(), [r#"run {"command":"rm -rf x"}"#]);
}

#[tokio::test]
async fn a_decision_answers_a_call_by_the_id_of_its_question() {
    let script = calls_twice_alike_and_once_otherwise();
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let decision = Decision::approve().by("ann").for_the_run();
    let delivery = engine.decide(&outcome.run, &ids(&outcome)[0], &decision).await.unwrap();
    assert_eq!(delivery, Delivery::Now("s".into()));
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(script.called(), [r#"run {"x":1}"#, r#"run {"x":1}"#]);
    engine.decide(&outcome.run, &ids(&outcome)[0], &Decision::refuse().by("ann").why("not on a Friday")).await.unwrap();
    assert_eq!(go_on(&engine, &outcome.run).await.status, Status::Completed);
    assert_eq!(script.called().len(), 2);
}

#[tokio::test]
async fn a_decision_changes_the_arguments_of_a_call() {
    let script = script().calls_tool("1", "run", r#"{"x":1}"#).says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let id = ids(&outcome)[0].clone();
    for wrong in [json("[1]"), Value::Null, Value::Undefined] {
        let decision = Decision::approve().arguments(wrong);
        assert_eq!(engine.decide(&outcome.run, &id, &decision).await.unwrap_err().kind(), "answer-not-taken");
    }
    engine.decide(&outcome.run, &id, &Decision::approve().by("ann").arguments(json(r#"{"x":2}"#))).await.unwrap();
    assert_eq!(go_on(&engine, &outcome.run).await.status, Status::Completed);
    assert_eq!(script.called(), [r#"run {"x":2}"#]);
}

#[tokio::test]
async fn a_part_that_a_question_does_not_take_is_an_error_and_answers_nothing() {
    let script = script().calls_tool("1", "run", r#"{"x":1}"#).says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let id = ids(&outcome)[0].clone();
    let changed = || Decision::approve().arguments(json(r#"{"x":2}"#));
    for (decision, named) in [
        (Decision::approve().why("it is safe"), "a reason cannot be part of the approval"),
        (Decision::approve().values(json("{}")), "values cannot be part of the approval"),
        (Decision::refuse().arguments(json("{}")), "arguments cannot be part of the refusal"),
        (Decision::refuse().for_the_run(), "a decision for the whole run cannot be part of the refusal"),
        (changed().for_the_run(), "for this one call"),
    ] {
        let error = engine.decide(&outcome.run, &id, &decision).await.unwrap_err();
        assert!(error.kind() == "answer-not-taken" && error.to_string().contains(named), "{error}");
    }
    assert_eq!(engine.state_at(&outcome.run, None).await.unwrap().questions().len(), 1);
    let remembered = CallAnswer::Approve { arguments: json(r#"{"x":2}"#), run: true };
    let error = engine.answer_call(&outcome.run, &id, remembered, None, None).await.unwrap_err();
    assert_eq!(error.kind(), "answer-not-taken");
    assert!(script.called().is_empty());
}

#[tokio::test]
async fn a_refusal_reaches_the_model_with_its_reason_and_is_not_asked_again() {
    let script = calls_twice_alike_and_once_otherwise();
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    answer(&engine, &outcome, &ids(&outcome)[0], no("not on a Friday")).await;
    let outcome = go_on(&engine, &outcome.run).await;
    // The second, equal call was refused without a question; the third one is another.
    let [Question::Call { arguments, .. }] = outcome.questions.as_slice() else { panic!("{:?}", outcome.questions) };
    assert_eq!(*arguments, json(r#"{"x":2}"#));
    let said: Vec<String> = script.world().rounds[2].messages.iter().map(|message| message.content.clone()).collect();
    assert!(said.contains(&"refused: a person (ann) refused this call: not on a Friday".to_owned()), "{said:?}");
    assert!(said.iter().any(|text| text.contains("refused before in this turn")), "{said:?}");
    assert!(script.called().is_empty());
}

#[tokio::test]
async fn changed_arguments_run_and_the_model_is_told_what_ran() {
    let script = script().calls_tool("1", "run", r#"{"x":1}"#).says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let id = ids(&outcome)[0].clone();
    let changed = |arguments| CallAnswer::Approve { arguments, run: false };
    let wrong = engine.answer_call(&outcome.run, &id, changed(json("[1]")), None, None).await.unwrap_err();
    assert_eq!(wrong.kind(), "answer-not-taken");
    answer(&engine, &outcome, &id, changed(json(r#"{"x":2}"#))).await;
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.called(), [r#"run {"x":2}"#]);
    let told = script.world().rounds[1].messages.last().unwrap().content.clone();
    assert_eq!(told, "[A person changed the arguments of this call. It ran with: {\"x\":2}]\nran");
    // Both versions are kept.
    let history = engine.history(&outcome.run).await.unwrap();
    let asked = history.iter().any(|recorded| recorded.event.to_json().contains(r#""arguments":{"x":1}"#));
    let ran = history.iter().any(|recorded| {
        matches!(&recorded.event, Event::Requested { request: Request::Tool { question: Some(question), arguments, .. }, .. }
            if *question == id && *arguments == json(r#"{"x":2}"#))
    });
    assert!(asked && ran);
}

#[tokio::test]
async fn a_second_answer_and_an_answer_to_another_question_change_nothing() {
    let script = script().calls_tool("1", "run", "{}").calls_tool("2", "run", r#"{"x":1}"#).says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let first = ids(&outcome)[0].clone();
    let unknown = engine.answer_call(&outcome.run, "0000", yes(), None, None).await.unwrap_err();
    assert_eq!(unknown.kind(), "not-asked");
    answer(&engine, &outcome, &first, yes()).await;
    let again = engine.answer_call(&outcome.run, &first, no("late"), Some("ann".into()), None).await.unwrap_err();
    assert_eq!(again.kind(), "already-answered");
    // Past every check, in the inbox itself.
    let late = |question: &str, answer| Message::Call { question: question.into(), answer, by: None, from: None };
    engine.send(&outcome.run, &late(&first, no("late"))).await.unwrap();
    engine.send(&outcome.run, &late(&first, yes())).await.unwrap();
    engine.send(&outcome.run, &late("0000", yes())).await.unwrap();
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(outcome.status, Status::Suspended, "the second call has a question of its own");
    assert_ne!(ids(&outcome)[0], first);
    assert_eq!(script.called(), ["run {}"]);
}

#[tokio::test]
async fn calls_of_one_answer_are_asked_together_and_made_in_their_order() {
    let script = script().answers(|round| match round.messages.len() {
        1 => calling(&[("run", r#"{"n":1}"#), ("look", "{}"), ("run", r#"{"n":2}"#), ("run", r#"{"n":3}"#)]),
        _ => opcell_engine::conversation::Message::assistant("done"),
    });
    let engine = script.engine();
    let rules = r#"[{"ask":"always","tools":["run"]}]"#;
    // The rules of the script's sessions are for every tool that it has; `look` asks too.
    let outcome = start(&engine, rules).await;
    let asked = ids(&outcome);
    assert!(asked.len() >= 3, "{:?}", outcome.questions);
    // Answered from the last one to the first.
    for id in asked.iter().rev().skip(1) {
        answer(&engine, &outcome, id, yes()).await;
    }
    answer(&engine, &outcome, asked.last().unwrap(), no("enough")).await;
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(outcome.status, Status::Completed);
    let called: Vec<String> = script.called().into_iter().filter(|call| call.starts_with("run")).collect();
    assert_eq!(called, [r#"run {"n":1}"#, r#"run {"n":2}"#]);
}

#[tokio::test]
async fn a_call_with_the_id_of_one_under_way_is_not_asked_about_as_if_it_were_that_one() {
    let script = script();
    let mut answers = calling(&[("look", r#"{"n":1}"#), ("look", r#"{"n":2}"#), ("run", r#"{"n":3}"#)]);
    for (call, id) in answers.tool_calls.iter_mut().zip(["same", "other", "same"]) {
        id.clone_into(&mut call.id);
    }
    script.world().parallel_tools = vec!["look".to_owned()];
    script.world().script([answers, opcell_engine::conversation::Message::assistant("done")]);
    let engine = script.engine();
    let mut outcome = start(&engine, r#"[{"when":{"expression":"$inputs.n > 1"}}]"#).await;
    for shown in [r#"{"n":2}"#, r#"{"n":3}"#] {
        let [Question::Call { arguments, id, .. }] = outcome.questions.as_slice() else {
            panic!("{:?}", outcome.questions)
        };
        assert_eq!(*arguments, json(shown));
        answer(&engine, &outcome, id, yes()).await;
        outcome = go_on(&engine, &outcome.run).await;
    }
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(script.called(), [r#"look {"n":1}"#, r#"look {"n":2}"#, r#"run {"n":3}"#]);
}

#[tokio::test]
async fn what_is_remembered_for_the_run_is_this_call_and_no_other() {
    let script = script()
        .calls_tool("1", "run", r#"{"x":1}"#)
        .calls_tool("2", "run", r#"{"x":1}"#)
        .calls_tool("3", "run", r#"{"x":1,"y":2}"#)
        .says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    answer(&engine, &outcome, &ids(&outcome)[0], CallAnswer::Approve { arguments: Value::Undefined, run: true }).await;
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(script.called(), [r#"run {"x":1}"#, r#"run {"x":1}"#]);
    let [Question::Call { arguments, .. }] = outcome.questions.as_slice() else { panic!("{:?}", outcome.questions) };
    assert_eq!(*arguments, json(r#"{"x":1,"y":2}"#));
}

#[tokio::test]
async fn two_people_must_approve_where_the_rule_says_so() {
    let script = script().calls_tool("1", "run", "{}").says(["done"]);
    let engine = script.engine();
    let outcome = start(&engine, r#"[{"ask":"always","people":2}]"#).await;
    let id = ids(&outcome)[0].clone();
    let by = |who: &str| Some(Arc::<str>::from(who));
    engine.answer_call(&outcome.run, &id, yes(), by("ann (uid 7)"), None).await.unwrap();
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!(outcome.status, Status::Suspended);
    // The name that a sender gives is not another person.
    let same = engine.answer_call(&outcome.run, &id, yes(), by("bob (uid 7)"), None).await.unwrap_err();
    assert_eq!(same.kind(), "answer-not-taken");
    let anonymous = engine.answer_call(&outcome.run, &id, yes(), None, None).await.unwrap_err();
    assert_eq!(anonymous.kind(), "answer-not-taken");
    let changed = CallAnswer::Approve { arguments: json(r#"{"x":1}"#), run: false };
    assert!(engine.answer_call(&outcome.run, &id, changed, by("bob (uid 8)"), None).await.is_err());
    let later = CallAnswer::Approve { arguments: Value::Undefined, run: true };
    assert!(engine.answer_call(&outcome.run, &id, later, by("bob (uid 8)"), None).await.is_err());
    engine.answer_call(&outcome.run, &id, yes(), by("bob (uid 8)"), None).await.unwrap();
    assert_eq!(go_on(&engine, &outcome.run).await.status, Status::Completed);
    assert_eq!(script.called(), ["run {}"]);
}

#[tokio::test]
async fn without_an_answer_in_time_the_call_is_refused_or_the_step_fails() {
    for (then, status) in [("refuse", Status::Completed), ("fail", Status::Failed)] {
        let script = script().calls_tool("1", "run", "{}").says(["done"]);
        let engine = script.engine();
        let rules = format!(r#"[{{"ask":"always","within-seconds":60,"then":"{then}"}}]"#);
        let outcome = start(&engine, &rules).await;
        assert_eq!(outcome.status, Status::Suspended);
        assert!(outcome.due.is_some(), "a worker takes it up in time");
        script.passes(59_000_000);
        assert_eq!(go_on(&engine, &outcome.run).await.status, Status::Suspended);
        script.passes(1_000_000);
        let late = engine.answer_call(&outcome.run, &ids(&outcome)[0], yes(), Some("ann".into()), None).await;
        assert!(matches!(late, Err(RunError::NotAsked { .. })), "{late:?}");
        let ended = go_on(&engine, &outcome.run).await;
        assert_eq!(ended.status, status, "{:?}", ended.message);
        assert!(script.called().is_empty());
        if then == "fail" {
            assert_eq!(ended.reason.as_deref(), Some("approval-timeout"));
        }
    }
}

#[tokio::test]
async fn a_question_whose_step_is_gone_keeps_no_one_waiting() {
    let script = script().calls_tool("1", "run", "{}").operation("t", |_| Ok(json("1")));
    let engine = script.engine();
    // The other branch fails while a person is asked, and the run with it.
    let asking = r#"{"name":"s","grouped":true,"type":"session","session":{"tools":["run"],"approve":[{"within-seconds":60}],
        "contributions":[{"type":"template","text":"work","vars":{}}]}}"#;
    let waiting = r#"{"name":"w","grouped":true,"type":"wait","wait":{"signal":"go","approval":true}}"#;
    let all = r#"{"name":"all","type":"parallel","parallel":{"branches":[["s"],["w"]],"reduce":"barrier","into":"r"},"on-error":"ignore"}"#;
    let after = r#"{"name":"after","type":"wait","wait":{"signal":"on"}}"#;
    let program = routed(&[all, asking, waiting, after].join(","));
    let outcome = engine.start(program, json("{}"), detached()).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.questions.len(), 2, "{:?}", outcome.questions);
    let refusal = json(r#"{"approved":false}"#);
    engine
        .send(
            &outcome.run,
            &Message::Signal {
                name: "go".into(),
                data: refusal,
                by: None,
                key: None,
                question: None,
                may_approve: true,
            },
        )
        .await
        .unwrap();
    let outcome = go_on(&engine, &outcome.run).await;
    script.passes(120_000_000);
    let outcome = match outcome.status {
        Status::Suspended => go_on(&engine, &outcome.run).await,
        _ => outcome,
    };
    assert!(outcome.due.is_none(), "{outcome:?}");
    assert!(script.called().is_empty());
}

#[tokio::test]
async fn the_time_in_which_a_person_thinks_is_not_the_steps() {
    let script = script().calls_tool("1", "run", "{}").says(["done"]);
    let engine = script.engine();
    let program = program(r#"[{"ask":"always"}]"#, r#","timeout-ms":60000"#);
    let outcome = engine.start(program, json("{}"), detached()).await.unwrap().finished().await.unwrap();
    script.passes(3_600_000_000);
    answer(&engine, &outcome, &ids(&outcome)[0], yes()).await;
    assert_eq!(go_on(&engine, &outcome.run).await.status, Status::Completed);
    assert_eq!(script.called(), ["run {}"]);
}

#[tokio::test]
async fn a_model_that_floods_with_questions_is_refused_after_a_while() {
    let script = script().answers(|round| match round.messages.len() {
        0..1_000 => {
            let n = round.messages.len();
            let arguments: Vec<String> = (0..40).map(|at| format!(r#"{{"n":{n},"at":{at}}}"#)).collect();
            let calls: Vec<(&str, &str)> = arguments.iter().map(|arguments| ("run", arguments.as_str())).collect();
            calling(&calls)
        }
        _ => opcell_engine::conversation::Message::assistant("done"),
    });
    let engine = script.engine();
    let mut outcome = start(&engine, r#"[{"ask":"always"}]"#).await;
    let mut asked = 0;
    while outcome.status == Status::Suspended {
        assert!(outcome.questions.len() <= 16, "{}", outcome.questions.len());
        for id in ids(&outcome) {
            asked += 1;
            answer(&engine, &outcome, &id, no("no")).await;
        }
        outcome = go_on(&engine, &outcome.run).await;
    }
    assert_eq!((outcome.status, asked), (Status::Completed, 100));
    assert!(script.called().is_empty());
}

#[tokio::test]
async fn a_judge_and_an_element_ask_like_a_session() {
    let script = script().calls_tool("1", "run", "{}").calls_tool("1", "run", "{}").says(["a", "b"]);
    let engine = script.engine();
    let program = program(r#"[{"ask":"always"}]"#, r#","each":{"over":"$inputs.items","concurrency":2}"#);
    let started = engine.start(program, json(r#"{"items":[1,2]}"#), detached()).await.unwrap();
    let outcome = started.finished().await.unwrap();
    let asked = ids(&outcome);
    assert_eq!(asked.len(), 2);
    assert_ne!(asked[0], asked[1], "the same call of two elements is two questions");
    for id in asked {
        answer(&engine, &outcome, &id, yes()).await;
    }
    let outcome = go_on(&engine, &outcome.run).await;
    assert_eq!((outcome.status, script.called().len()), (Status::Completed, 2));
}
