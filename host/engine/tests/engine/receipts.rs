//! Calls that are stopped leave a record that says so: which call, whose, for how long, why. Replaying decides the
//! same.

use crate::{
    lasting::{crashed, engine},
    support::*,
};
use opcell_engine::{
    Event, Recorded, ResumeOptions, RunOptions, RunOutcome, Status, Trace,
    conversation::Message,
    event::{Answer, Request},
    outcome::{Question, Used},
};
use opcell_ir::ir::RunLimits;
use opcell_journal::MemoryJournal;
use opcell_types::Value;

/// No one may read this in a receipt.
const ARGUMENTS: &str = r#"{"secret":"swordfish"}"#;

fn session(name: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"session","session":{{"tools":["slow-look","look"],"contributions":[{{"type":"template","text":"go","vars":{{}}}}]}}{rest}}}"#
    )
}

/// Members of a step that runs in its group only.
const GROUPED: &str = r#","grouped":true"#;

/// Two sessions side by side, one of which waits long for its tool while the other calls one after the other.
fn side_by_side(rest: &str) -> String {
    let parallel = format!(
        r#"{{"name":"p","type":"parallel","parallel":{{"branches":[["slow"],["quick"]],"reduce":"barrier","into":"r"}}{rest}}}"#
    );
    [parallel, session("slow", GROUPED), session("quick", GROUPED)].join(",")
}

/// A model that asks for three calls at once, for slow ones in the step `slow` and for one in `quick` and `brief`; it
/// only ends in `brief`.
fn script() -> Script {
    let script = Script::new().tool("look", r#""seen""#).tool("slow-look", r#""seen late""#);
    script.world().parallel_tools = vec!["look".to_owned(), "slow-look".to_owned()];
    script.answers(|round| match round.context.step.as_ref() {
        "slow" => calling(&[("slow-look", ARGUMENTS)]),
        "brief" if round.messages.len() > 1 => Message::assistant("done"),
        "quick" | "brief" => calling(&[("look", ARGUMENTS)]),
        _ => calling(&[("slow-look", ARGUMENTS), ("look", ARGUMENTS), ("look", ARGUMENTS)]),
    })
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
    let reported = receipts.map(|(reason, receipt)| {
        assert_eq!(receipt.get("error").and_then(Value::as_str), reason.as_deref());
        let part = |key: &str| match receipt.get(key) {
            Some(Value::String(text)) => text.to_string(),
            Some(other) => other.to_json(),
            None => "-".to_owned(),
        };
        let called = if receipt.get("tool").is_some() { part("tool") } else { part("operation") };
        format!("{called} {} {} {}", part("provider"), part("status"), part("error"))
    });
    reported.collect()
}

#[tokio::test]
async fn calls_of_a_round_that_the_budget_forbids_say_that_they_never_began() {
    let limits = RunLimits { tool_calls: Some(2), ..RunLimits::default() };
    let script = script();
    let (outcome, history) = run(&script, &session("s", ""), "{}", limits).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    assert_eq!(script.called(), [""; 0]);
    let reported = ["slow-look host not-started budget-exhausted", "look host not-started budget-exhausted"];
    assert_eq!(stopped(&history), reported);
    assert_eq!(kinds(&history)[history.len() - 4..], ["limit-reached", "abandoned", "abandoned", "run-finished"]);
}

#[tokio::test]
async fn a_call_that_the_runs_budget_stops_under_way_says_so() {
    let limits = RunLimits { tool_calls: Some(3), ..RunLimits::default() };
    let (outcome, history) = run(&script(), &side_by_side(""), "{}", limits).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("budget-exhausted")));
    assert_eq!(stopped(&history), ["slow-look host stopped budget-exhausted"]);
    let count = |kind: &str| history.iter().filter(|recorded| recorded.event.kind() == kind).count();
    assert_eq!(count("requested"), count("replied") + count("abandoned"), "every effect has an end");

    let trace = Trace::of(&"run".into(), &history).unwrap();
    let slow = trace.steps.iter().find(|step| step.step.as_ref() == "slow").unwrap();
    let shown = slow.receipts.iter().map(|receipt| receipt.to_json()).collect::<Vec<_>>().join("\n");
    assert!(shown.contains(r#""tool":"slow-look","provider":"host","status":"stopped""#), "{shown}");
    assert!(!shown.contains("swordfish"), "arguments are no part of a receipt: {shown}");
    assert!(shown.contains(r#""bytes-in":22"#), "their size is: {shown}");
}

#[tokio::test]
async fn a_call_that_a_steps_budget_stops_says_so_and_the_run_goes_on() {
    let then =
        r#"{"name":"t","type":"invoke","invoke":{"operation":"t"},"yields":{"type":"data","data":"data"}}"#.to_owned();
    let steps = [side_by_side(r#","limits":{"tool-calls":3},"on-error":"ignore""#), then].join(",");
    let script = script().operation("t", |_| Ok(json("1")));
    let (outcome, history) = run(&script, &steps, "{}", RunLimits::default()).await;
    assert_eq!((outcome.status, outcome.result.clone()), (Status::Completed, json("1")), "{outcome:?}");
    assert_eq!(stopped(&history), ["slow-look host stopped budget-exhausted"]);
    let happened = kinds(&history);
    let at = happened.iter().position(|kind| *kind == "abandoned").unwrap();
    assert_eq!(happened[at + 1], "step-finished", "{happened:?}");
    assert_eq!(
        (outcome.used.cells, outcome.used.tool_calls),
        (1, 4),
        "what was stopped counts, and so does the step's own call"
    );
}

#[tokio::test]
async fn a_call_that_an_exit_in_another_branch_stops_says_so() {
    let exit = r#",{"name":"x","type":"exit","grouped":true,"exit":{"status":"success","output":{"value":1}}}"#;
    let steps = side_by_side("").replace("[\"quick\"]", "[\"brief\",\"x\"]") + "," + &session("brief", GROUPED) + exit;
    let (outcome, history) = run(&script(), &steps, "{}", RunLimits::default()).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(stopped(&history), ["slow-look host stopped completed"]);
}

#[tokio::test]
async fn a_call_whose_step_ran_out_of_time_leaves_a_receipt() {
    let step = session("slow", r#","timeout-ms":10"#);
    let (_, history) = run(&script(), &step, "{}", RunLimits::default()).await;
    let trace = Trace::of(&"run".into(), &history).unwrap();
    let receipt = trace.steps[0].receipts[0].to_json();
    let begins = r#"{"tool":"slow-look","provider":"host","status":"stopped","error":"timeout""#;
    assert!(receipt.starts_with(begins), "{receipt}");
}

#[tokio::test]
async fn a_tool_that_a_step_calls_is_no_cell() {
    let step = r#"{"name":"t","type":"invoke","invoke":{"operation":"t"}}"#;
    let count = async |receipt: &'static str| {
        let script = Script::new().operation("t", |_| Ok(json("1"))).leaves(receipt);
        run(&script, step, "{}", RunLimits::default()).await.0.used
    };
    let of_cell = Used { visits: 1, cells: 1, host_calls: 3, tool_calls: 1, ..Used::default() };
    assert_eq!(count(r#"{"host-calls":3}"#).await, of_cell);
    let tool = r#"{"tool":"t","provider":"host","status":"completed"}"#;
    assert_eq!(count(tool).await, Used { visits: 1, tool_calls: 1, ..Used::default() });
    let of_plugin = r#"{"tool":"t","provider":"plugin:p","status":"completed","receipt":{"host-calls":3}}"#;
    assert_eq!(count(of_plugin).await, of_cell);
}

#[test]
fn stores_without_receipts_of_stopped_calls_are_read() {
    let old = r#"{"abandoned":{"effect":7}}"#;
    let event: Event = serde_json::from_str(old).unwrap();
    assert!(matches!(&event, Event::Abandoned { reason: None, receipt: None, .. }));
    assert_eq!(serde_json::to_string(&event).unwrap(), old);
}

#[tokio::test]
async fn a_call_of_a_model_that_a_person_settled_is_in_the_conversation_that_is_shown() {
    let once = |script: Script| {
        script.world().once = vec!["run".to_owned()];
        script
    };
    let program = routed(
        r#"{"name":"talk","type":"session","session":{"tools":["run"],"contributions":[{"type":"template","text":"work","vars":{}}]}}"#,
    );
    let whole = MemoryJournal::new();
    let script = once(Script::new().calls_tool("1", "run", r#"{"x":1}"#).tool("run", "1").says(["done"]));
    let first = engine(&script, &whole);
    let handle = first.start(program, json("{}"), RunOptions::default()).await.unwrap();
    handle.finished().await.unwrap();
    let (run, history) = (handle.run().clone(), first.history(handle.run()).await.unwrap());
    let is_call = |recorded: &&Recorded| matches!(&recorded.event, Event::Requested { request, .. } if matches!(request, Request::Tool { .. }));
    let requested = history.iter().find(is_call).unwrap().seq;
    for (answer, said) in [(Answer::Skip, "null"), (Answer::Fail, "settled as failed")] {
        let journal = crashed(&whole, &run, requested).await;
        let engine = engine(&once(Script::new().says(["done"])), &journal);
        let options = || ResumeOptions { detach: true, ..ResumeOptions::default() };
        let waiting = engine.resume(&run, options()).await.unwrap().finished().await.unwrap();
        let [Question::Doubt { effect, .. }] = &waiting.questions[..] else { panic!("{waiting:?}") };
        engine.settle(&run, *effect, answer, Some("ann".into())).await.unwrap();
        let outcome = engine.resume(&run, options()).await.unwrap().finished().await.unwrap();
        assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
        let trace = Trace::of(&run, &engine.history(&run).await.unwrap()).unwrap();
        let shown = &trace.steps[0].conversation.as_ref().unwrap().messages;
        let answered = shown.iter().find(|message| message.tool_call_id.as_deref() == Some("1"));
        assert!(answered.is_some_and(|message| message.content.contains(said)), "{answer:?}: {shown:#?}");
    }
}
