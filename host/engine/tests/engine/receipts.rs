//! What is stopped leaves a record that says so: which call, whose, for how long, why. Replaying decides the same.

use crate::support::*;
use opcell_engine::{
    Event, Recorded, RunOptions, RunOutcome, Status, Trace, conversation::Message, outcome::Used, ports::Effects,
};
use opcell_workflow::{Value, ir::RunLimits};

/// One that takes long, and some that do not.
const CALLS: [(&str, &str); 10] = {
    let mut calls = [("look", r#"{"secret":"swordfish"}"#); 10];
    calls[0].0 = "slow-look";
    calls
};

fn session(rest: &str) -> String {
    format!(
        r#"{{"name":"s","type":"session","session":{{"tools":["slow-look","look"],"contributions":[{{"type":"template","text":"go","vars":{{}}}}]}}{rest}}}"#
    )
}

fn script(calls: &[(&str, &str)]) -> Script {
    let script = Script::new().tool("look", r#""seen""#).tool("slow-look", r#""seen late""#);
    script.world().at_once = vec!["look".to_owned(), "slow-look".to_owned()];
    script.world().script([calling(calls), Message::assistant("done")]);
    script
}

async fn run(script: &Script, steps: &str, input: &str, limits: RunLimits) -> (RunOutcome, Vec<Recorded>) {
    let engine = script.engine();
    let options = RunOptions { limits, ..RunOptions::default() };
    let run = engine.start(routed(steps), json(input), options).await.unwrap();
    let outcome = run.finished().await.unwrap();
    check_history(&engine, &outcome).await;
    (outcome, engine.history(run.run()).await.unwrap())
}

fn kinds(history: &[Recorded]) -> Vec<&'static str> {
    history.iter().map(|recorded| recorded.event.kind()).collect()
}

/// The receipts that only stopped calls have, without their times.
fn stopped(history: &[Recorded]) -> Vec<String> {
    let receipts = history.iter().filter_map(|recorded| match &recorded.event {
        Event::Abandoned { reason, receipt, .. } => Some((reason.clone(), receipt.clone().unwrap())),
        _ => None,
    });
    let told = receipts.map(|(reason, receipt)| {
        assert_eq!(receipt.get("error").and_then(Value::as_str), reason.as_deref());
        let part = |key: &str| match receipt.get(key) {
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_json(),
            None => "-".to_owned(),
        };
        let called = if receipt.get("tool").is_some() { part("tool") } else { part("operation") };
        format!("{called} {} {} {}", part("provider"), part("status"), part("error"))
    });
    told.collect()
}

#[tokio::test]
async fn a_call_that_the_runs_budget_stops_under_way_says_so() {
    let limits = RunLimits { tool_calls: Some(9), ..RunLimits::default() };
    let (outcome, history) = run(&script(&CALLS), &session(""), "{}", limits).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    // The slow one was under way; the ninth was wanted, and nothing began after it was known that there is no tenth.
    let told = stopped(&history);
    assert_eq!(told.first().map(String::as_str), Some("slow-look host stopped budget-exhausted"), "{told:?}");
    assert_eq!(told.last().map(String::as_str), Some("look host not-started budget-exhausted"), "{told:?}");
    assert_eq!(kinds(&history).last(), Some(&"run-finished"), "nothing comes after the end");

    let answered = history.iter().filter(|recorded| recorded.event.kind() == "replied").count();
    let asked = history.iter().filter(|recorded| recorded.event.kind() == "requested").count();
    assert_eq!(asked, answered + told.len(), "every effect has an end: {:?}", kinds(&history));

    let trace = Trace::of(&"run".into(), &history).unwrap();
    let shown = trace.steps[0].receipts.iter().map(Value::to_json).collect::<Vec<_>>().join("\n");
    assert!(shown.contains(r#""tool":"slow-look","provider":"host","status":"stopped""#), "{shown}");
    assert!(!shown.contains("swordfish"), "arguments are no part of a receipt: {shown}");
    assert!(shown.contains(r#""bytes-in":22"#), "their size is: {shown}");
}

#[tokio::test]
async fn a_call_that_a_steps_budget_stops_says_so_and_the_run_goes_on() {
    let steps = [
        session(r#","limits":{"tool-calls":9},"on-error":"ignore""#),
        r#"{"name":"t","type":"invoke","invoke":{"operation":"t"},"yields":{"type":"data","data":"data"}}"#.to_owned(),
    ]
    .join(",");
    let script = script(&CALLS).operation("t", |_| Ok(json("1")));
    let (outcome, history) = run(&script, &steps, "{}", RunLimits::default()).await;
    assert_eq!((outcome.status, outcome.result.clone()), (Status::Completed, json("1")));
    let told = stopped(&history);
    assert_eq!(told.first().map(String::as_str), Some("slow-look host stopped budget-exhausted"), "{told:?}");
    let happened = kinds(&history);
    let at = |kind: &str| happened.iter().position(|happened| *happened == kind).unwrap();
    assert!(at("abandoned") < at("step-finished"), "{happened:?}");
    assert_eq!(outcome.used, Used { visits: 2, cells: 1, host_calls: 2, rounds: 1, tool_calls: 9, ..outcome.used });
}

#[tokio::test]
async fn a_call_of_another_branch_is_stopped_with_the_reason_that_stopped_it() {
    let steps = [
        r#"{"name":"p","type":"parallel","parallel":{"branches":[["s"],["breaks"]],"reduce":"barrier"}}"#.to_owned(),
        session(""),
        r#"{"name":"breaks","type":"invoke","invoke":{"operation":"breaks"}}"#.to_owned(),
    ]
    .join(",");
    let script = script(&CALLS[..1]).operation_with("breaks", Effects::Once, |_| Err(failure("broken", "it broke")));
    let (outcome, history) = run(&script, &steps, "{}", RunLimits::default()).await;
    assert_eq!(outcome.status, Status::Failed, "{outcome:?}");
    let abandoned = history.iter().find_map(|recorded| match &recorded.event {
        Event::Abandoned { reason, .. } => Some(reason.clone()),
        _ => None,
    });
    assert_eq!(abandoned.flatten().as_deref(), Some("broken"), "{:?}", kinds(&history));
}

#[tokio::test]
async fn a_call_whose_step_ran_out_of_time_leaves_a_receipt() {
    let step = session(r#","timeout-ms":10"#);
    let (_, history) = run(&script(&CALLS[..1]), &step, "{}", RunLimits::default()).await;
    let trace = Trace::of(&"run".into(), &history).unwrap();
    let receipt = trace.steps[0].receipts[0].to_json();
    assert!(
        receipt.starts_with(r#"{"tool":"slow-look","provider":"host","status":"stopped","error":"timeout""#),
        "{receipt}"
    );
}

#[tokio::test]
async fn a_tool_that_a_step_calls_is_no_cell() {
    let step = r#"{"name":"t","type":"invoke","invoke":{"operation":"t"}}"#;
    let count = async |receipt: &'static str| {
        let script = Script::new().operation("t", |_| Ok(json("1"))).leaves(receipt);
        run(&script, step, "{}", RunLimits::default()).await.0.used
    };
    assert_eq!(count(r#"{"host-calls":3}"#).await, Used { visits: 1, cells: 1, host_calls: 3, ..Used::default() });
    let tool = r#"{"tool":"t","provider":"host","status":"completed"}"#;
    assert_eq!(count(tool).await, Used { visits: 1, ..Used::default() });
    let of_plugin = r#"{"tool":"t","provider":"plugin:p","status":"completed","receipt":{"host-calls":3}}"#;
    assert_eq!(count(of_plugin).await, Used { visits: 1, cells: 1, host_calls: 3, ..Used::default() });
}

#[test]
fn stores_without_receipts_of_stopped_calls_are_read() {
    let old = r#"{"abandoned":{"effect":7}}"#;
    let event: Event = serde_json::from_str(old).unwrap();
    assert!(matches!(&event, Event::Abandoned { reason: None, receipt: None, .. }));
    assert_eq!(serde_json::to_string(&event).unwrap(), old);
}
