//! Invoke steps, invoke judges and routing (psi, sections 4.4 to 4.6).

use crate::support::{Script, failure, json, program, retriable, routed};
use opcell_engine::{RunOptions, Status};
use opcell_ir::names::Outcome;

fn text(outcome: &str) -> Outcome {
    Outcome::Text(outcome.into())
}

fn keyword(outcome: &str) -> Outcome {
    Outcome::Keyword(outcome.into())
}

/// An invoke step `name` that calls `op/name`, judged by `judge/name`.
fn judged(name: &str, on: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"op/{name}"}},
            "outputs":{{"data":{{"source":"invoke/data"}}}},"yields":{{"type":"data","data":"data"}},
            "judge":{{"type":"invoke","invoke":{{"operation":"judge/{name}"}}}},"on":[{on}]}}"#
    )
}

fn plain(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"op/{name}"}},
            "outputs":{{"data":{{"source":"invoke/data"}}}},"yields":{{"type":"data","data":"data"}}}}"#
    )
}

fn counting() -> Script {
    Script::new().operation("op/a", |_| Ok(json(r#""A""#))).operation("op/b", |_| Ok(json(r#""B""#)))
}

#[tokio::test]
async fn arguments_come_from_the_input_and_the_result_is_the_last_yield() {
    let step = r#"{"name":"find","type":"invoke","invoke":{"operation":"op/find","args":{"repo":{"from":"workflow-input","path":["repo"]},"state":{"value":"open"}}},
        "outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"}}"#;
    let script = Script::new().operation("op/find", |call| Ok(call.arguments.clone()));
    let outcome = script.run(&routed(step), r#"{"repo":"org/repo"}"#).await;
    assert_eq!(outcome.status, Status::Completed);
    assert_eq!(outcome.result, json(r#"{"repo":"org/repo","state":"open"}"#));
    assert_eq!(outcome.step.as_deref(), Some("find"));
}

#[tokio::test]
async fn steps_without_a_judge_fall_through_in_authored_order() {
    let script = counting();
    let outcome = script.run(&routed(&[plain("a"), plain("b")].join(",")), "{}").await;
    assert_eq!(outcome.result, json(r#""B""#));
    assert_eq!(script.called(), ["op/a {}", "op/b {}"]);
}

#[tokio::test]
async fn the_result_is_the_yield_of_the_step_that_reached_done_not_of_the_last_step() {
    let script = counting().judge("judge/a", [text("STOP")]);
    let steps = [judged("a", r#"{"outcome":{"text":"STOP"},"goto":"done"}"#), plain("b")].join(",");
    let outcome = script.run(&routed(&steps), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#""A""#)));
    assert_eq!(script.called(), ["op/a {}", "judge/a {}"]);
}

#[tokio::test]
async fn a_text_and_a_keyword_are_never_confused() {
    let on = r#"{"outcome":{"keyword":"X"},"goto":"done"}"#;
    let outcome = counting().judge("judge/a", [text("X")]).run(&routed(&judged("a", on)), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("no-match")));
    let outcome = counting().judge("judge/a", [keyword("X")]).run(&routed(&judged("a", on)), "{}").await;
    assert_eq!(outcome.status, Status::Completed);
}

#[tokio::test]
async fn matching_is_case_sensitive_and_ignores_white_space_around_a_text() {
    let on = r#"{"outcome":{"text":"DONE"},"goto":"done"}"#;
    for (said, status) in [(" DONE\n", Status::Completed), ("done", Status::Failed), ("DONE.", Status::Failed)] {
        let outcome = counting().judge("judge/a", [text(said)]).run(&routed(&judged("a", on)), "{}").await;
        assert_eq!(outcome.status, status, "{said:?}");
    }
}

#[tokio::test]
async fn an_operation_can_be_a_judge_and_says_a_keyword_as_an_object() {
    let on = r#"{"outcome":{"keyword":"good"},"goto":"done"}"#;
    let script = counting().operation("judge/a", |_| Ok(json(r#"{"keyword":"good"}"#)));
    assert_eq!(script.run(&routed(&judged("a", on)), "{}").await.status, Status::Completed);
    let script = counting().operation("judge/a", |_| Ok(json("7")));
    assert_eq!(script.run(&routed(&judged("a", on)), "{}").await.reason.as_deref(), Some("malformed-outcome"));
}

#[tokio::test]
async fn a_judge_that_fails_ends_the_run_with_its_reason() {
    let on = r#"{"outcome":{"text":"X"},"goto":"done"}"#;
    let outcome = counting().judge("judge/a", []).run(&routed(&judged("a", on)), "{}").await;
    assert_eq!(
        (outcome.status, outcome.reason.as_deref(), outcome.step.as_deref()),
        (Status::Failed, Some("judge-broke"), Some("a"))
    );
}

#[tokio::test]
async fn a_failed_operation_ends_the_run_with_its_reason_step_and_receipt() {
    let script = Script::new().gives("op/a", [Err(failure("no-matching-issue", "none found"))]);
    let outcome = script.run(&routed(&[plain("a"), plain("b")].join(",")), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("no-matching-issue"));
    assert_eq!(outcome.message.as_deref(), Some("none found"));
    assert_eq!(outcome.step.as_deref(), Some("a"));
    assert_eq!(outcome.receipt, Some(json(r#"{"host-calls":{"tools":1,"log":1}}"#).into()));
    assert_eq!(script.called(), ["op/a {}"]);
}

#[tokio::test]
async fn a_judge_sees_its_own_steps_outputs() {
    let step = r#"{"name":"a","type":"invoke","invoke":{"operation":"op/a"},"outputs":{"data":{"source":"invoke/data"}},
        "yields":{"type":"data","data":"data"},
        "judge":{"type":"invoke","invoke":{"operation":"judge/a","args":{"seen":{"from":{"step":"a","output":"data"}}}}},
        "on":[{"outcome":{"text":"OK"},"goto":"done"}]}"#;
    let script = counting().judge("judge/a", [text("OK")]);
    script.run(&routed(step), "{}").await;
    assert_eq!(script.called()[1], r#"judge/a {"seen":"A"}"#);
}

/// Three entries into `a` are allowed by `max`; the fourth is not.
fn loop_back(max: &str) -> String {
    [judged("a", r#"{"outcome":{"text":"GO"},"goto":"next"}"#), judged("b", &format!(r#"{{"outcome":{{"text":"AGAIN"}},"goto":{{"step":"a"}}{max}}},{{"outcome":{{"text":"END"}},"goto":"done"}}"#))].join(",")
}

fn looping() -> Script {
    counting().judge("judge/a", vec![text("GO"); 50]).judge("judge/b", vec![text("AGAIN"); 50])
}

#[tokio::test]
async fn an_exhausted_transition_fails_with_the_step_and_its_count() {
    let script = looping();
    let outcome = script.run(&routed(&loop_back(r#","max-iterations":3"#)), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("iteration-exhausted")));
    assert_eq!(outcome.details, Some(json(r#"{"step-id":"a","iteration-count":3}"#)));
    assert_eq!(script.called().iter().filter(|call| *call == "op/a {}").count(), 3);
}

#[tokio::test]
async fn an_exhausted_transition_can_go_elsewhere() {
    let outcome = looping().run(&routed(&loop_back(r#","max-iterations":3,"on-max-iterations":"done""#)), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#""B""#)));
}

#[tokio::test]
async fn a_steps_own_bound_holds_on_every_path() {
    let steps = loop_back("").replacen(r#""name":"a","#, r#""name":"a","max-iterations":2,"#, 1);
    let script = looping();
    let outcome = script.run(&routed(&steps), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("iteration-exhausted"));
    assert_eq!(script.called().iter().filter(|call| *call == "op/a {}").count(), 2);
}

#[tokio::test]
async fn a_loop_without_any_bound_ends_at_the_safety_bound() {
    let options = RunOptions { visit_bound: Some(20), ..RunOptions::default() };
    let outcome = looping().run_with(&routed(&loop_back("")), "{}", options).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    assert_eq!(outcome.details.unwrap().get("limit"), Some(&json(r#""visit-bound""#)));
}

#[tokio::test]
async fn a_run_limit_is_a_status_with_what_was_used() {
    let mut options = RunOptions::default();
    options.limits.total_visits = Some(5);
    let outcome = looping().run_with(&routed(&loop_back("")), "{}", options).await;
    assert_eq!(outcome.reason.as_deref(), Some("budget-exhausted"));
    assert_eq!(outcome.used.visits, 5);
}

#[tokio::test]
async fn host_calls_and_wall_time_are_looked_at_before_the_next_effect() {
    let step =
        |name: &str, rest: &str| format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t"}}{rest}}}"#);
    // Every call makes two host calls, and the failed attempt waits for two seconds of the script's clock.
    let three = [step("a", ""), step("b", ""), step("c", "")].join(",");
    let patient = [step("a", r#","retry":{"max":1,"delay-ms":2000.0,"backoff":1.0}"#), step("b", "")].join(",");
    for (limit, steps, fails, calls) in
        [(r#""host-calls":3"#, three, false, 2), (r#""wall-time-seconds":1"#, patient, true, 1)]
    {
        let ok = || Ok(json("1"));
        let first = if fails { Err(retriable("busy", "busy")) } else { ok() };
        let script = Script::new().gives("t", [first, ok(), ok()]);
        let text = format!(r#"{{"version":"workflow-ir/v1","name":"w","limits":{{{limit}}},"steps":[{steps}]}}"#);
        let outcome = script.run(&program(&text), "{}").await;
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")), "{limit}");
        assert_eq!(script.called().len(), calls, "{limit}: nothing is done beyond it");
    }
}

#[tokio::test]
async fn next_from_the_last_step_is_the_end_and_previous_from_the_first_is_a_failure() {
    let next = judged("a", r#"{"outcome":{"text":"X"},"goto":"next"}"#);
    assert_eq!(counting().judge("judge/a", [text("X")]).run(&routed(&next), "{}").await.status, Status::Completed);
    let previous = judged("a", r#"{"outcome":{"text":"X"},"goto":"previous"}"#);
    let outcome = counting().judge("judge/a", [text("X")]).run(&routed(&previous), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("no-previous-step"));
    let nowhere = judged("a", r#"{"outcome":{"text":"X"},"goto":{"step":"nonexistent"}}"#);
    let outcome = counting().judge("judge/a", [text("X")]).run(&routed(&nowhere), "{}").await;
    assert_eq!(outcome.reason.as_deref(), Some("unknown-step"));
}

#[tokio::test]
async fn a_yielded_error_fails_the_run_as_authored() {
    let step = r#"{"name":"a","type":"invoke","invoke":{"operation":"op/a"},"yields":{"type":"error","reason":"not-ours","message":"Not our bug"}}"#;
    let outcome = counting().run(&routed(step), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("not-ours")));
    assert_eq!(outcome.message.as_deref(), Some("Not our bug"));
}

#[tokio::test]
async fn an_expression_judges_too() {
    let step = r#"{"name":"a","type":"invoke","invoke":{"operation":"op/a"},"outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"},
        "judge":{"type":"expression","expression":"$steps.a.output"},"on":[{"outcome":{"text":"A"},"goto":"done"}]}"#;
    assert_eq!(counting().run(&routed(step), "{}").await.status, Status::Completed);
}
