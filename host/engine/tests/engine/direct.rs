//! Calls of pure operations that end at once: one event each, and otherwise as if each had been made in the open.

use crate::support::*;
use async_trait::async_trait;
use futures_util::FutureExt;
use opcell_engine::{
    Engine, Event, Program, Recorded, ResumeOptions, RunHandle, RunOptions, RunOutcome, State, Status, Trace,
    decide::ValueLimits,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_ir::ir::RunLimits;
use opcell_journal::{Journal, MemoryJournal, NewRun, SqliteJournal};
use opcell_types::Value;
use proptest::prelude::*;
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

const INPUT: &str = r#"{"xs":[{"id":1},{"id":2},{"id":3}],"none":[],"no":false}"#;

fn invoke(name: &str, rest: &str) -> String {
    format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t","args":{{"n":{{"value":7}}}}}}{rest}}}"#)
}

fn calls(name: &str, operation: &str, args: &str, rest: &str) -> String {
    format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"{operation}","args":{args}}}{rest}}}"#)
}

const OUTPUTS: &str =
    r#","outputs":{"id":{"value":{"expression":"$result.n"}},"all":{"value":{"expression":"$result"}}}"#;
const OVER: &str = r#","each":{"over":"$inputs.xs"}"#;

/// Steps, of a sequential and of a routed workflow.
fn programs() -> Vec<(&'static str, Arc<Program>)> {
    let item = r#"{"n":{"expression":"$item.id"}}"#;
    let over = |rest: &str| format!(r#","each":{{"over":"$inputs.xs"{rest}}}"#);
    let steps = [
        ("a chain", [invoke("a", ""), calls("b", "t", r#"{"x":{"expression":"$steps.a.output"}}"#, "")].join(",")),
        ("outputs", [invoke("a", OUTPUTS), invoke("b", "")].join(",")),
        ("an output without a value", [invoke("a", r#","outputs":{"id":{"value":{"expression":"$result.n + "}}}"#), invoke("b", "")].join(",")),
        ("an argument without a value", [calls("a", "t", r#"{"x":{"expression":"$steps.gone.output"}}"#, ""), invoke("b", "")].join(",")),
        ("a guard that is false", [invoke("a", ""), invoke("b", r#","when":"$inputs.no""#), invoke("c", "")].join(",")),
        ("a guard that is true", [invoke("a", r#","when":"!$inputs.no""#), invoke("c", "")].join(",")),
        ("a failure", [invoke("a", ""), calls("b", "fails", "{}", ""), invoke("c", "")].join(",")),
        ("a failure that is ignored", [calls("b", "fails", "{}", r#","on-error":"ignore""#), invoke("c", "")].join(",")),
        ("a retry", [calls("b", "flaky", "{}", r#","retry":{"max":2,"delay-ms":5.0,"backoff":2.0}"#), invoke("c", "")].join(",")),
        ("each", [calls("a", "t", item, &over("")), invoke("b", "")].join(",")),
        ("each with outputs", calls("a", "t", item, &format!("{OUTPUTS}{OVER}"))),
        ("each with pauses", calls("a", "t", item, &over(r#","delay-ms":1.5"#))),
        ("each of two at once", calls("a", "t", item, &over(r#","concurrency":2"#))),
        ("each of two at once with outputs", calls("a", "t", item, &format!("{OUTPUTS}{}", over(r#","concurrency":2"#)))),
        ("each of all at once", [calls("a", "t", item, &over(r#","concurrency":8"#)), invoke("b", "")].join(",")),
        ("one of two at once that fails", [calls("a", "odd", item, &over(r#","concurrency":2"#)), invoke("b", "")].join(",")),
        ("one of two at once that fails and is ignored", calls("a", "odd", item, &format!(r#"{},"on-error":"ignore""#, over(r#","concurrency":2"#)))),
        ("two at once that are tried again", calls("a", "flaky", item, &format!(r#"{},"retry":{{"max":2,"delay-ms":5.0,"backoff":2.0}}"#, over(r#","concurrency":2"#)))),
        ("two at once that panic", calls("a", "panics", item, &over(r#","concurrency":2"#))),
        ("two at once of an argument without a value", calls("a", "t", r#"{"n":{"expression":"$item.id + "}}"#, &over(r#","concurrency":2"#))),
        ("each of none", [calls("a", "t", item, r#","each":{"over":"$inputs.none"}"#), invoke("b", "")].join(",")),
        ("each of a single one", calls("a", "t", item, r#","each":{"over":"[1]","concurrency":4}"#)),
        ("an element that fails", [calls("a", "odd", item, &over("")), invoke("b", "")].join(",")),
        ("an element that fails and is ignored", [calls("a", "odd", item, &format!(r#"{},"on-error":"ignore""#, over(""))), invoke("b", "")].join(",")),
        ("an element that is tried again", calls("a", "flaky", item, &format!(r#"{},"retry":{{"max":2,"delay-ms":5.0,"backoff":2.0}}"#, over("")))),
        ("a time limit", [invoke("a", r#","timeout-ms":60000"#), invoke("b", "")].join(",")),
        ("groups", [
            r#"{"name":"split","type":"parallel","parallel":{"branches":[["p"],["q","r"]],"reduce":"barrier","into":"x"}}"#.to_owned(),
            invoke("p", r#","grouped":true"#), invoke("q", r#","grouped":true"#), invoke("r", r#","grouped":true"#), invoke("z", ""),
        ].join(",")),
        ("one group", [
            r#"{"name":"split","type":"parallel","parallel":{"branches":[["p","q"]],"reduce":"barrier","into":"x"}}"#.to_owned(),
            invoke("p", r#","grouped":true"#), invoke("q", r#","grouped":true"#), invoke("z", ""),
        ].join(",")),
        ("a callee", [invoke("a", ""), r#"{"name":"d","type":"delegate","delegate":{"target":"inner","prompt-string":"hello"},"yields":{"type":"delegated"}}"#.to_owned(), invoke("z", "")].join(",")),
        ("a judge", invoke("a", r#","judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"GO"},"goto":"done"},{"outcome":{"text":"AGAIN"},"goto":{"step":"a"},"max-iterations":3}]"#)),
        ("steps with limits", [invoke("a", r#","limits":{"tool-calls":5}"#), invoke("b", "")].join(",")),
        ("an artefact of what is large", calls("a", "large", "{}", "")),
        ("an operation that panics", [calls("a", "panics", "{}", ""), invoke("b", "")].join(",")),
        ("an operation that waits", [calls("a", "waits", "{}", ""), invoke("b", "")].join(",")),
    ];
    let both = steps.iter().flat_map(|(what, steps)| {
        let routed = (!what.starts_with("an output") && !what.contains("outputs")).then(|| (*what, routed(steps)));
        [Some((*what, sequential(steps, "{}"))), routed]
    });
    both.flatten().collect()
}

fn script(effects: Effects) -> Script {
    let inner = program(&format!(
        r#"{{"version":"workflow-ir/v1","name":"inner","steps":[{},{}]}}"#,
        invoke("i", ""),
        invoke("k", r#","yields":{"type":"data","data":"data"}"#)
    ));
    let number = |value: &Value| value.get("n").and_then(|n| n.to_json().parse::<u32>().ok()).unwrap_or_default();
    Script::new()
        .operation_with("t", effects, |call| Ok(call.arguments.clone()))
        .operation_with("fails", effects, |_| Err(failure("broken", "it broke")))
        .operation_with("odd", effects, move |call| match number(&call.arguments) % 2 {
            1 => Err(failure("odd", "an odd number")),
            _ => Ok(call.arguments.clone()),
        })
        .operation_with("flaky", effects, |call| match call.context.attempt {
            1 => Err(retriable("flaky", "not yet")),
            _ => Ok(call.arguments.clone()),
        })
        .operation_with("large", effects, |_| Ok(Value::from("x".repeat(2_000))))
        .operation_with("panics", effects, |_| Ok(Value::Null))
        .operation_with("waits", effects, |_| Ok(json("1")))
        .operation("j", |call| Ok(json(if call.context.visit == 1 { r#""AGAIN""# } else { r#""GO""# })))
        .workflow(&inner)
}

/// Some operations of a script wait, or panic.
struct Slow(Script);

#[async_trait]
impl Operations for Slow {
    fn effects(&self, operation: &str) -> Option<Effects> {
        self.0.effects(operation)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        match call.id.as_ref() {
            "waits" => tokio::time::sleep(std::time::Duration::from_millis(1)).await,
            "panics" => panic!("as it should"),
            _ => {}
        }
        self.0.invoke(call).await
    }
}

struct Ran {
    outcome: RunOutcome,
    history: Vec<Recorded>,
    called: Vec<String>,
    keys: Vec<String>,
    engine: Engine,
}

async fn ran(program: &Arc<Program>, effects: Effects, options: &RunOptions) -> Ran {
    let script = script(effects);
    let ports = script.ports();
    let engine = Engine::builder()
        .operations(Arc::new(Slow(script.clone())))
        .judges(ports.judges)
        .workflows(ports.workflows)
        .timer(ports.timer)
        .build();
    let options = RunOptions { run: Some("r".parse().unwrap()), ..options.clone() };
    let handle = engine.start(program.clone(), json(INPUT), options).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    check_history(&engine, &outcome).await;
    let history = engine.history(handle.run()).await.unwrap();
    let (called, keys) = (script.called(), script.world().keys.clone());
    Ran { outcome, history, called, keys, engine }
}

fn is_direct(event: &Event) -> bool {
    matches!(event, Event::StepCalled { .. } | Event::ElementCalled { .. })
}

/// The events of a run, without their numbers.
fn trace(history: &[Recorded]) -> String {
    let mut trace = serde_json::to_value(Trace::of(&"r".into(), history).unwrap()).unwrap();
    trace["seq"].take();
    for step in trace["steps"].as_array_mut().unwrap() {
        step["seq"].take();
        if let Some(transition) = step.get_mut("transition") {
            transition["seq"].take();
        }
    }
    serde_json::to_string_pretty(&trace).unwrap()
}

/// All that tells a run with direct calls from one without is how many events it has.
async fn assert_same(what: &str, program: &Arc<Program>, options: &RunOptions) -> usize {
    let direct = ran(program, Effects::Pure, options).await;
    let open = ran(program, Effects::Idempotent, options).await;
    assert!(!open.history.iter().any(|recorded| is_direct(&recorded.event)), "{what}");
    let events = open.outcome.events;
    assert_eq!(RunOutcome { events, ..direct.outcome.clone() }, open.outcome, "{what}");
    assert_eq!((&direct.called, &direct.keys), (&open.called, &open.keys), "{what}");
    assert_eq!(trace(&direct.history), trace(&open.history), "{what}");
    direct.history.iter().filter(|recorded| is_direct(&recorded.event)).count()
}

#[tokio::test]
async fn a_call_that_ends_at_once_does_what_it_would_do_in_the_open() {
    let mut direct = 0;
    for (what, program) in programs() {
        direct += assert_same(what, &program, &RunOptions::default()).await;
    }
    assert!(direct > 60, "only {direct} calls were direct");
}

/// Generated steps: an operation, a list to go over, a guard, the treatment of a failure, a retry and outputs, each
/// combined with any of the others.
fn any_steps() -> impl Strategy<Value = String> {
    let each = ["", OVER, r#","each":{"over":"$inputs.xs","concurrency":2}"#, r#","each":{"over":"$inputs.none"}"#];
    let retry = r#","retry":{"max":2,"delay-ms":5.0,"backoff":2.0}"#;
    let guards = ["", r#","when":"$inputs.no""#, r#","when":"!$inputs.no""#];
    let step = (0..7_usize, 0..each.len(), 0..guards.len(), any::<[bool; 3]>());
    proptest::collection::vec(step, 1..5).prop_map(move |steps| {
        let one = |(at, (operation, over, guard, [ignores, retries, outputs])): (
            usize,
            &(usize, usize, usize, [bool; 3]),
        )| {
            let operation = ["t", "fails", "odd", "flaky", "large", "waits", "panics"][*operation];
            let args = match (over, at) {
                (0, 0) => r#"{"n":{"value":7}}"#.to_owned(),
                (0, _) => format!(r#"{{"n":{{"value":6}},"x":{{"expression":"$steps.s{}.output"}}}}"#, at - 1),
                _ => r#"{"n":{"expression":"$item.id"}}"#.to_owned(),
            };
            let rest = [
                each[*over],
                guards[*guard],
                if *ignores { r#","on-error":"ignore""# } else { "" },
                if *retries { retry } else { "" },
                if *outputs { OUTPUTS } else { "" },
            ];
            calls(&format!("s{at}"), operation, &args, &rest.concat())
        };
        steps.iter().enumerate().map(one).collect::<Vec<_>>().join(",")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn generated_workflows_do_the_same_by_direct_and_by_journaled_calls(steps in any_steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(assert_same(&steps, &sequential(&steps, "{}"), &RunOptions::default()));
    }
}

#[tokio::test]
async fn limits_end_a_run_of_direct_calls_where_they_would_end_it_otherwise() {
    let limits = |limits: RunLimits| RunOptions { limits, ..RunOptions::default() };
    let values = |values: ValueLimits| RunOptions { values, ..RunOptions::default() };
    for options in [
        limits(RunLimits { tool_calls: Some(1), ..RunLimits::default() }),
        limits(RunLimits { total_visits: Some(1), ..RunLimits::default() }),
        limits(RunLimits { host_calls: Some(3), ..RunLimits::default() }),
        limits(RunLimits { wall_time_seconds: Some(1_000), ..RunLimits::default() }),
        values(ValueLimits { bytes: 1_000, ..ValueLimits::default() }),
        values(ValueLimits { bytes: 60, ..ValueLimits::default() }),
        values(ValueLimits { run_bytes: 60, ..ValueLimits::default() }),
    ] {
        for (what, program) in programs() {
            assert_same(what, &program, &options).await;
        }
    }
}

#[tokio::test]
async fn the_parts_of_an_event_are_the_event() {
    for (what, program) in programs() {
        let ran = ran(&program, Effects::Pure, &RunOptions::default()).await;
        let (mut whole, mut by_part, mut read) = (State::default(), State::default(), State::default());
        for recorded in &ran.history {
            whole.apply(recorded).unwrap();
            for part in recorded.parts() {
                by_part.apply_part(&part).unwrap();
            }
            assert_eq!(whole, by_part, "{what}: {recorded:?}");
            let text = recorded.event.to_json();
            let event: Event = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"));
            assert_eq!(event, recorded.event, "{what}");
            read.apply(&Recorded::new(recorded.seq, recorded.at, event)).unwrap();
            assert_eq!(whole, read, "{what}");
        }
        assert_eq!(ran.engine.replay(&"r".into()).await.unwrap(), None, "{what}");
    }
}

#[tokio::test]
async fn a_run_of_direct_calls_that_is_resumed_after_any_event_ends_as_if_nothing_had_happened() {
    for (what, program) in programs() {
        let expected = ran(&program, Effects::Pure, &RunOptions::default()).await;
        let folder = tempfile::tempdir().unwrap();
        for keep in 1..expected.outcome.events {
            // What is decided at once is appended at once: no crash comes in between.
            let last = &expected.history[usize::try_from(keep).unwrap() - 1];
            if matches!(last.event, Event::EachStarted { .. }) {
                continue;
            }
            let journal: Arc<dyn Journal> = match keep % 5 {
                3 => Arc::new(SqliteJournal::open(folder.path().join(format!("{keep}.db"))).unwrap()),
                _ => Arc::new(MemoryJournal::new()),
            };
            let records =
                expected.history.iter().take(usize::try_from(keep).unwrap()).map(|recorded| opcell_journal::Record {
                    seq: recorded.seq,
                    kind: recorded.event.kind().into(),
                    version: opcell_engine::event::SCHEMA_VERSION,
                    at: recorded.at.0,
                    payload: recorded.event.to_json().into(),
                });
            let records = records.collect();
            let fence = journal.create(NewRun { records, ..NewRun::empty(&"r".into(), "w", 0) }).await.unwrap();
            journal.release(&"r".into(), fence).await.unwrap();
            let script = script(Effects::Pure);
            let ports = script.ports();
            let engine = Engine::builder()
                .operations(Arc::new(Slow(script)))
                .judges(ports.judges)
                .workflows(ports.workflows)
                .timer(ports.timer)
                .journal(journal)
                .build();
            let outcome = engine.resume(&"r".into(), ResumeOptions::default()).await.unwrap().finished().await.unwrap();
            let said = |outcome: &RunOutcome| {
                (outcome.status, outcome.result.clone(), outcome.reason.clone(), outcome.message.clone())
            };
            assert_eq!(said(&outcome), said(&expected.outcome), "{what}: after event {keep}");
            check_history(&engine, &outcome).await;
        }
    }
}

/// A call that must be durable before it starts is never made directly.
#[tokio::test]
async fn only_pure_operations_are_called_before_their_request_is_recorded() {
    let program = sequential(&[invoke("a", ""), invoke("b", "")].join(","), "{}");
    for (effects, direct) in [(Effects::Pure, 2), (Effects::Idempotent, 0), (Effects::Once, 0)] {
        let ran = ran(&program, effects, &RunOptions::default()).await;
        assert_eq!(ran.history.iter().filter(|it| is_direct(&it.event)).count(), direct, "{effects:?}");
    }
}

#[tokio::test]
async fn a_run_of_many_direct_calls_can_be_cancelled() {
    let steps: Vec<String> = (0..20_000).map(|at| invoke(&format!("s{at}"), "")).collect();
    let engine = script(Effects::Pure).engine();
    let handle = engine.start(sequential(&steps.join(","), "{}"), json(INPUT), RunOptions::default()).await.unwrap();
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert!(outcome.events < 1_000, "{} events", outcome.events);
    check_history(&engine, &outcome).await;
}

#[tokio::test]
async fn a_run_of_many_calls_that_end_at_once_lets_others_run() {
    let engine = script(Effects::Pure).engine();
    let xs = Value::object([("xs", Value::array((0..100_000_i64).map(Value::from)))]);
    for concurrency in [1, 4] {
        let over = format!(r#","each":{{"over":"$inputs.xs","concurrency":{concurrency}}}"#);
        let long = sequential(&calls("a", "t", r#"{"n":{"expression":"$item"}}"#, &over), "{}");
        let long = engine.start(long, xs.clone(), RunOptions::default()).await.unwrap();
        let short = sequential(&invoke("a", ""), "{}");
        let short = engine.start(short, json(INPUT), RunOptions::default()).await.unwrap();
        assert_eq!(short.finished().await.unwrap().status, Status::Completed);
        assert!(long.finished().now_or_never().is_none(), "the other run had to wait for all {concurrency} at a time");
        long.cancel("enough");
        assert_eq!(long.finished().await.unwrap().status, Status::Cancelled);
    }
}

/// An operation whose elements end in an order of their own.
struct Disorder {
    /// The number of times that the element of a number lets others run before it ends; never, for `None`.
    takes: fn(i64) -> Option<u32>,
    under_way: AtomicUsize,
    most: AtomicUsize,
    stopped: AtomicUsize,
}

impl Disorder {
    fn new(takes: fn(i64) -> Option<u32>) -> Arc<Self> {
        Arc::new(Self { takes, under_way: 0.into(), most: 0.into(), stopped: 0.into() })
    }

    /// Runs an `each` over this many numbers, this many at once.
    async fn run(self: &Arc<Self>, elements: i64, concurrency: u32) -> (Engine, RunHandle) {
        let over = format!(r#","each":{{"over":"$inputs.xs","concurrency":{concurrency}}}"#);
        let program = sequential(
            &calls("a", "t", r#"{"n":{"expression":"$item"}}"#, &over),
            r#"{"a":{"value":{"expression":"$steps.a.output"}}}"#,
        );
        let engine = Engine::builder().operations(self.clone()).build();
        let xs = Value::object([("xs", Value::array((0..elements).map(Value::from)))]);
        let handle = engine.start(program, xs, RunOptions::default()).await.unwrap();
        (engine, handle)
    }
}

#[async_trait]
impl Operations for Disorder {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let n = call.arguments.get("n").and_then(|n| n.to_json().parse().ok()).unwrap_or_default();
        self.most.fetch_max(self.under_way.fetch_add(1, SeqCst) + 1, SeqCst);
        let yields = async {
            match (self.takes)(n) {
                None => std::future::pending().await,
                Some(times) => {
                    for _ in 0..times {
                        tokio::task::yield_now().await;
                    }
                }
            }
        };
        tokio::select! {
            () = yields => {}
            () = call.cancel.cancelled() => { self.stopped.fetch_add(1, SeqCst); }
        }
        self.under_way.fetch_sub(1, SeqCst);
        Reply { result: Ok(Success { data: Value::from(n), summary: None, details: None }), receipt: None }
    }
}

fn elements(history: &[Recorded]) -> Vec<u32> {
    let index = |recorded: &Recorded| match recorded.event {
        Event::ElementCalled { index, .. } | Event::ElementEntered { index, .. } => Some(index),
        _ => None,
    };
    history.iter().filter_map(index).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn elements_are_recorded_in_their_order_whichever_ends_first() {
    let operation = Disorder::new(|n| Some((n as u32 * 5) % 7));
    let (engine, handle) = operation.run(100, 16).await;
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{:?}", outcome.message);
    assert_eq!(outcome.result.get("a"), Some(&Value::array((0..100_i64).map(Value::from))));
    let history = engine.history(handle.run()).await.unwrap();
    assert_eq!(elements(&history), (0..100).collect::<Vec<_>>());
    let direct = history.iter().filter(|it| is_direct(&it.event)).count();
    assert!(direct > 0);
    let most = operation.most.load(SeqCst);
    assert!((2..=16).contains(&most), "{most} at once");
    check_history(&engine, &outcome).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_element_that_takes_long_is_seen_to_be_under_way() {
    let operation = Disorder::new(|n| (n != 3).then_some(0));
    let (engine, handle) = operation.run(20, 4).await;
    let wanted = async {
        loop {
            let history = engine.history(handle.run()).await.unwrap();
            if elements(&history).contains(&3) && elements(&history).contains(&19) {
                return history;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let history = tokio::time::timeout(std::time::Duration::from_secs(60), wanted).await.unwrap();
    let entered = |it: &&Recorded| matches!(it.event, Event::ElementEntered { index: 3, .. });
    assert_eq!(history.iter().filter(entered).count(), 1);
    assert!(operation.most.load(SeqCst) <= 4);
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(operation.stopped.load(SeqCst), 1);
    check_history(&engine, &outcome).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn elements_under_way_are_recorded_before_the_run_is_cancelled() {
    let operation = Disorder::new(|_| None);
    let (engine, handle) = operation.run(20, 4).await;
    while operation.most.load(SeqCst) < 4 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    let history = engine.history(handle.run()).await.unwrap();
    assert_eq!(elements(&history), [0, 1, 2, 3]);
    assert_eq!(operation.stopped.load(SeqCst), 4);
    check_history(&engine, &outcome).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_each_of_elements_that_all_end_at_once_can_be_cancelled() {
    let engine = script(Effects::Pure).engine();
    let xs = Value::object([("xs", Value::array((0..100_000_i64).map(Value::from)))]);
    let over = r#","each":{"over":"$inputs.xs","concurrency":4}"#;
    let program = sequential(&calls("a", "t", r#"{"n":{"expression":"$item"}}"#, over), "{}");
    let handle = engine.start(program, xs, RunOptions::default()).await.unwrap();
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert!(outcome.events < 5_000, "{} events", outcome.events);
    check_history(&engine, &outcome).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn an_each_whose_elements_cannot_be_called_can_be_cancelled() {
    // The first fails, so that what is under way is decided in the open; all that come after two are too large to be
    // called.
    let items = (0..100_000_i64).map(|n| if n < 2 { Value::from(n) } else { Value::from("xs") });
    let input = Value::object([("xs", Value::array(items))]);
    let values = ValueLimits { bytes: input.measure().bytes(), ..ValueLimits::default() };
    let over = r#","each":{"over":"$inputs.xs","concurrency":4}"#;
    let program = sequential(&calls("a", "fails", r#"{"all-of-it":{"expression":"$inputs[$item]"}}"#, over), "{}");
    let engine = script(Effects::Pure).engine();
    let handle = engine.start(program, input, RunOptions { values, ..RunOptions::default() }).await.unwrap();
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert!(outcome.events < 5_000, "{} events", outcome.events);
}

/// An operation whose call does not even begin.
struct Refusing;

impl Operations for Refusing {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(Effects::Pure)
    }

    fn invoke<'a, 'b>(&'a self, call: Call) -> futures_util::future::BoxFuture<'b, Reply<Success>>
    where
        'a: 'b,
    {
        panic!("{} is not there", call.id)
    }
}

#[tokio::test]
async fn a_call_that_panics_before_it_begins_fails() {
    for each in ["", r#","each":{"over":"[1,2]"}"#, r#","each":{"over":"[1,2]","concurrency":2}"#] {
        let engine = Engine::builder().operations(Arc::new(Refusing)).build();
        let program = sequential(&calls("a", "t", "{}", each), "{}");
        let handle = engine.start(program, Value::object::<&str>([]), RunOptions::default()).await.unwrap();
        let outcome = handle.finished().await.unwrap();
        let reason = if each.is_empty() { "panicked" } else { "aborted" };
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some(reason)), "{each}");
        check_history(&engine, &outcome).await;
    }
}

#[tokio::test]
async fn many_texts_of_one_step_are_bounded_together() {
    let text = |place: usize| format!(r#""t{place}":{{"interpolation":"{place}: ${{inputs.t}}"}}"#);
    let args = (0..50).map(text).collect::<Vec<_>>().join(",");
    let nested = format!(r#"{{"all":{{"fields":{{{args}}}}}}}"#);
    let outputs =
        (0..50).map(|place| format!(r#""o{place}":{{"value":{{"interpolation":"{place}: ${{inputs.t}}"}}}}"#));
    let outputs = format!(r#","outputs":{{{}}}"#, outputs.collect::<Vec<_>>().join(","));
    let input = Value::object([("t", Value::from("x".repeat(10 << 20)))]);
    for step in
        [calls("a", "t", &format!("{{{args}}}"), ""), calls("a", "t", &nested, ""), calls("a", "t", "{}", &outputs)]
    {
        let engine = script(Effects::Pure).engine();
        let handle = engine.start(sequential(&step, "{}"), input.clone(), RunOptions::default()).await.unwrap();
        let outcome = handle.finished().await.unwrap();
        let message = outcome.message.unwrap_or_default();
        assert_eq!(outcome.status, Status::Failed, "{message}");
        // Seven of them are too much, and no more are made.
        assert!(message.contains("would take 7340"), "{message}");
    }
}
