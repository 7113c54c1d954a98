//! Budgets of steps and of delegated workflows; those of a whole run stand with the languages that have them.

use crate::support::{Script, drive_by_hand, json, program, retriable, routed};
use opcell_engine::{Engine, Event, RunOptions, RunOutcome, Status, event::RunStarted, ports::SystemTimer};
use opcell_ir::{ir::RunLimits, names::Outcome};
use std::{sync::Arc, time::Duration};

fn invoke(name: &str, rest: &str) -> String {
    format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t"}}{rest}}}"#)
}

fn session(name: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"session","session":{{"tools":["read"],"contributions":[{{"type":"template","text":"go","vars":{{}}}}]}}{rest}}}"#
    )
}

fn delegate(rest: &str) -> String {
    format!(r#"{{"name":"d","type":"delegate","delegate":{{"target":"inner","prompt-string":{{"text":"go"}}}}{rest}}}"#)
}

/// Calls of `t` never fail; each makes two host calls, as its receipt says.
fn script() -> Script {
    Script::new().operation("t", |_| Ok(json("1")))
}

fn details(outcome: &RunOutcome) -> String {
    outcome.details.clone().unwrap_or_default().to_json()
}

fn exhausted(outcome: &RunOutcome) -> bool {
    outcome.status == Status::Failed && outcome.reason.as_deref() == Some("budget-exhausted")
}

#[tokio::test]
async fn what_a_step_uses_is_counted_over_all_entries_into_it() {
    let step = invoke(
        "a",
        r#","limits":{"host-calls":3},"judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"AGAIN"},"goto":{"step":"a"}}]"#,
    );
    let script = script().judge("j", vec![Outcome::Text("AGAIN".into()); 9]);
    let outcome = script.run(&routed(&step), "{}").await;
    assert!(exhausted(&outcome), "{outcome:?}");
    assert_eq!(details(&outcome), r#"{"limit":"host-calls","used":4,"max":3,"step":"a"}"#);
    assert_eq!(outcome.message.as_deref(), Some("Step 'a' used 4 of 3 host-calls"));
    assert_eq!(script.called().iter().filter(|call| call.starts_with("t ")).count(), 2);
}

#[tokio::test]
async fn a_step_is_stopped_before_the_call_that_its_budget_forbids() {
    for (limit, kind) in [(r#""tool-calls":1"#, "tool-calls"), (r#""tokens":20"#, "tokens"), (r#""cost":0.9"#, "cost")]
    {
        let script =
            Script::new().calls_tool("1", "read", "{}").calls_tool("2", "read", "{}").says(["done"]).tool("read", "1");
        let outcome = script.run(&routed(&session("s", &format!(r#","limits":{{{limit}}}"#))), "{}").await;
        assert!(exhausted(&outcome), "{kind}: {outcome:?}");
        assert_eq!(outcome.details.unwrap().get("limit").unwrap().as_str(), Some(kind));
        assert_eq!((script.world().rounds.len(), outcome.step.as_deref()), (2, Some("s")), "{kind}");
    }
}

#[tokio::test]
async fn another_step_has_an_account_of_its_own() {
    let two = [session("a", r#","limits":{"tokens":20}"#), session("b", r#","limits":{"tokens":20}"#)].join(",");
    let outcome = Script::new().says(["one", "two"]).run(&routed(&two), "{}").await;
    assert_eq!((outcome.status, outcome.used.tokens), (Status::Completed, 30));
}

#[tokio::test]
async fn an_exhausted_step_fails_as_any_other_so_its_failure_can_be_ignored() {
    let steps = [
        session("s", r#","limits":{"tool-calls":1},"on-error":"ignore""#),
        invoke("t", r#","yields":{"type":"data","data":"data"}"#),
    ]
    .join(",");
    let script = script().calls_tool("1", "read", "{}").calls_tool("2", "read", "{}").tool("read", "1");
    let outcome = script.run(&routed(&steps), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json("1")));
}

#[tokio::test]
async fn what_a_step_delegates_is_on_its_account() {
    let inner = program(&format!(
        r#"{{"version":"workflow-ir/v1","name":"inner","steps":[{}]}}"#,
        [invoke("x", ""), invoke("y", ""), invoke("z", "")].join(",")
    ));
    let script = script().workflow(&inner);
    let outer = routed(&delegate(r#","limits":{"host-calls":3}"#));
    let outcome = script.run(&outer, "{}").await;
    assert!(exhausted(&outcome), "{outcome:?}");
    assert_eq!((outcome.step.as_deref(), script.called().len()), (Some("d"), 2));
    // The callee and what it wanted are gone, and stay gone in a snapshot.
    let state = drive_by_hand(&script, vec![started(outer)], 1).await;
    assert_eq!((state.in_flight(), state.outcome().reason.as_deref()), (0, Some("budget-exhausted")));
}

#[tokio::test]
async fn a_delegated_workflow_keeps_its_own_limits() {
    let inner = |limits: &str| {
        program(&format!(
            r#"{{"version":"workflow-ir/v1","name":"inner","limits":{{{limits}}},"steps":[{}]}}"#,
            [invoke("x", ""), invoke("y", "")].join(",")
        ))
    };
    for (limits, calls) in [(r#""total-visits":1"#, 1), (r#""host-calls":2"#, 1), (r#""host-calls":9"#, 2)] {
        let script = script().workflow(&inner(limits));
        let outcome = script.run(&routed(&delegate("")), "{}").await;
        assert_eq!(script.called().len(), calls, "{limits}");
        if calls == 1 {
            assert_eq!(outcome.reason.as_deref(), Some("budget-exhausted"), "{limits}");
            assert!(details(&outcome).contains(r#""reason":"budget-exhausted""#), "{}", details(&outcome));
        } else {
            assert_eq!(outcome.status, Status::Completed);
        }
    }
}

#[tokio::test]
async fn elements_that_went_well_stay_visible() {
    let each = invoke(
        "e",
        r#","limits":{"host-calls":4},"on-error":"ignore","each":{"over":"$inputs.xs"},"yields":{"type":"data","data":"data"}"#,
    );
    let script = script();
    let outcome = script.run(&routed(&each), r#"{"xs":[1,2,3,4]}"#).await;
    assert_eq!((outcome.status, script.called().len()), (Status::Completed, 2));
    assert_eq!(outcome.result, json("[1,1,null,null]"));
}

#[tokio::test]
async fn a_judges_model_is_on_the_steps_account_and_without_it_there_is_no_way_to_go() {
    let judged = invoke(
        "a",
        r#","limits":{"tokens":20},"judge":{"type":"llm","session":{"tools":["read"],"contributions":[{"type":"template","text":"well?","vars":{}}]}},"on":[{"outcome":{"text":"YES"},"goto":"done"}],"on-error":"ignore""#,
    );
    let script = script().calls_tool("1", "read", "{}").calls_tool("2", "read", "{}").says(["YES"]).tool("read", "1");
    let outcome = script.run(&routed(&judged), "{}").await;
    assert!(exhausted(&outcome), "an ignored failure must not choose a way: {outcome:?}");
    assert_eq!(script.world().rounds.len(), 2);
}

#[tokio::test]
async fn the_time_of_earlier_entries_counts() {
    let step = invoke(
        "a",
        r#","limits":{"wall-time-seconds":3},"retry":{"max":1,"delay-ms":2000.0,"backoff":1.0},"judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"AGAIN"},"goto":{"step":"a"}}]"#,
    );
    // Each entry fails once and waits for two seconds of the script's clock.
    let script = Script::new()
        .gives("t", [Err(retriable("busy", "")), Ok(json("1")), Err(retriable("busy", "")), Ok(json("2"))])
        .judge("j", vec![Outcome::Text("AGAIN".into()); 9]);
    let outcome = script.run(&routed(&step), "{}").await;
    assert!(exhausted(&outcome), "{outcome:?}");
    assert_eq!(details(&outcome), r#"{"limit":"wall-time-seconds","used":4,"max":3,"step":"a"}"#);
}

#[tokio::test]
async fn a_step_that_waits_too_long_ends_although_nothing_happens() {
    let wait =
        r#"{"name":"w","type":"wait","wait":{"signal":"go"},"limits":{"wall-time-seconds":1},"on-error":"ignore"}"#;
    let steps = [wait.to_owned(), invoke("t", r#","yields":{"type":"data","data":"data"}"#)].join(",");
    let script = script();
    let engine = Engine::builder().operations(Arc::new(script.clone())).timer(Arc::new(SystemTimer)).build();
    let handle = engine.start(routed(&steps), json("{}"), RunOptions::default()).await.unwrap();
    let outcome = tokio::time::timeout(Duration::from_secs(20), handle.finished()).await.unwrap().unwrap();
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json("1")));
}

fn started(program: Arc<opcell_engine::Program>) -> Event {
    Event::RunStarted(Box::new(RunStarted {
        run: "r".into(),
        program,
        input: json("{}"),
        original: json("{}"),
        inputs: json("{}"),
        limits: RunLimits::default(),
        value_limits: Default::default(),
        max_depth: 8,
        visit_bound: 1_000,
        pins: indexmap::IndexMap::default(),
        session: None,
        authorizer: None,
        traceparent: None,
        user: None,
        tenant: None,
        forked: None,
    }))
}
