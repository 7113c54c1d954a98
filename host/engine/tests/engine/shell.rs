//! The shell: time, panics, cancelling what is in flight, wall time, and a journal in a file.

use crate::support::{Script, failure, json, program, routed};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Event, ResumeOptions, RunOptions, Status,
    ports::{Call, Effects, Operations, Reply, Success},
};
use opcell_journal::{Journal, SqliteJournal};
use opcell_types::Value;
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

/// `never` does not end by itself, `panic` panics, everything else says its arguments. Counts calls and what was
/// dropped unfinished.
#[derive(Clone, Default)]
struct Odd {
    calls: Arc<AtomicUsize>,
    dropped: Arc<AtomicUsize>,
    /// `true` if `never` ends when it is asked to.
    polite: bool,
}

struct Dropped(Arc<AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[async_trait]
impl Operations for Odd {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(Effects::Idempotent)
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let result = match call.id.as_ref() {
            "never" => {
                let _dropped = Dropped(self.dropped.clone());
                if self.polite {
                    call.cancel.cancelled().await;
                } else {
                    std::future::pending::<()>().await;
                }
                Err(failure("interrupted", "stopped"))
            }
            #[allow(clippy::panic, reason = "what is tested")]
            "panic" => panic!("this is a test"),
            _ => Ok(Success { data: call.of.arguments, summary: None, details: None }),
        };
        Reply { result, receipt: Some(json("{}").into()) }
    }
}

fn invoke(name: &str, operation: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"{operation}"}},"yields":{{"type":"data","data":"data"}}{rest}}}"#
    )
}

fn engine(odd: &Odd) -> Engine {
    Engine::builder().operations(Arc::new(odd.clone())).build()
}

#[tokio::test]
async fn an_attempt_that_takes_too_long_fails_and_can_be_repeated() {
    let odd = Odd::default();
    let step = invoke("a", "never", r#","timeout-ms":20,"retry":{"max":2,"delay-ms":1.0,"backoff":1.0}"#);
    let handle = engine(&odd).start(routed(&step), json("{}"), RunOptions::default()).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("timeout")));
    assert_eq!((odd.calls.load(Ordering::SeqCst), odd.dropped.load(Ordering::SeqCst)), (3, 3));
}

#[tokio::test]
async fn a_panic_of_the_host_fails_the_step_and_not_the_host() {
    let outcome = engine(&Odd::default())
        .start(routed(&invoke("a", "panic", r#","on-error":"ignore""#)), json("{}"), RunOptions::default())
        .await
        .unwrap()
        .finished()
        .await
        .unwrap();
    assert_eq!(outcome.status, Status::Completed);
    let each = invoke("a", "panic", r#","each":{"over":"$inputs.xs","concurrency":2}"#);
    let handle =
        engine(&Odd::default()).start(routed(&each), json(r#"{"xs":[1,2]}"#), RunOptions::default()).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().reason.as_deref(), Some("panicked"));
}

/// psi catches what goes wrong in a step and not what goes wrong in its judge.
#[tokio::test]
async fn a_panic_in_a_judge_fails_the_run_with_its_step_like_any_other() {
    let judge =
        r#","judge":{"type":"invoke","invoke":{"operation":"panic"}},"on":[{"outcome":{"text":"A"},"goto":"done"}]"#;
    let handle = engine(&Odd::default())
        .start(routed(&invoke("a", "fine", judge)), json("{}"), RunOptions::default())
        .await
        .unwrap();
    let outcome = handle.finished().await.unwrap();
    assert_eq!(
        (outcome.status, outcome.reason.as_deref(), outcome.step.as_deref()),
        (Status::Failed, Some("panicked"), Some("a"))
    );
}

#[tokio::test]
async fn cancelling_stops_what_is_in_flight_and_keeps_its_receipt() {
    let odd = Odd { polite: true, ..Odd::default() };
    let engine = engine(&odd);
    let steps = [invoke("a", "never", ""), invoke("b", "echo", "")].join(",");
    let handle = engine.start(routed(&steps), json("{}"), RunOptions::default()).await.unwrap();
    while odd.calls.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    handle.cancel("enough");
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Cancelled);
    assert_eq!(odd.calls.load(Ordering::SeqCst), 1, "nothing begins after a run is cancelled");
    let kinds: Vec<&str> =
        engine.history(handle.run()).await.unwrap().iter().map(|recorded| recorded.event.kind()).collect();
    assert_eq!(kinds[kinds.len() - 3..], ["cancel-requested", "replied", "run-finished"]);
    crate::support::check_history(&engine, &outcome).await;
}

#[tokio::test(start_paused = true)]
async fn what_does_not_stop_when_asked_is_dropped() {
    let odd = Odd::default();
    let engine = engine(&odd);
    let each = invoke("a", "never", r#","each":{"over":"$inputs.xs","concurrency":3}"#);
    let handle = engine.start(routed(&each), json(r#"{"xs":[1,2,3]}"#), RunOptions::default()).await.unwrap();
    while odd.calls.load(Ordering::SeqCst) < 3 {
        tokio::task::yield_now().await;
    }
    handle.cancel("enough");
    assert_eq!(handle.finished().await.unwrap().status, Status::Cancelled);
    let abandoned = engine.history(handle.run()).await.unwrap();
    assert_eq!(abandoned.iter().filter(|recorded| matches!(recorded.event, Event::Abandoned { .. })).count(), 3);
    tokio::task::yield_now().await;
    assert_eq!(odd.dropped.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn wall_time_ends_a_run_that_waits_as_well_as_one_that_works() {
    for step in [invoke("a", "never", ""), r#"{"name":"a","type":"wait","wait":{"signal":"go"}}"#.to_owned()] {
        let text =
            format!(r#"{{"version":"workflow-ir/v1","name":"w","limits":{{"wall-time-seconds":1}},"steps":[{step}]}}"#);
        let begun = Instant::now();
        let handle = engine(&Odd::default()).start(program(&text), json("{}"), RunOptions::default()).await.unwrap();
        let outcome = handle.finished().await.unwrap();
        assert_eq!(outcome.status, Status::Failed);
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(matches!(outcome.reason.as_deref(), Some("budget-exhausted" | "timeout")), "{:?}", outcome.reason);
    }
}

#[tokio::test]
async fn a_run_in_a_file_outlives_its_engine() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let open = || -> Arc<dyn Journal> { Arc::new(SqliteJournal::open(&path).unwrap()) };
    let steps = [
        invoke("a", "echo", ""),
        r#"{"name":"w","type":"wait","wait":{"signal":"go"}}"#.to_owned(),
        r#"{"name":"z","type":"invoke","invoke":{"operation":"echo","args":{"n":{"expression":"$steps.w.output"}}},"yields":{"type":"data","data":"data"}}"#.to_owned(),
    ]
    .join(",");
    let odd = Odd::default();
    let build = || Engine::builder().operations(Arc::new(odd.clone())).journal(open()).build();
    let options = RunOptions { run: Some("r".parse().unwrap()), detach: true, ..RunOptions::default() };
    let first = build();
    let waiting = first.start(routed(&steps), json("{}"), options).await.unwrap().finished().await.unwrap();
    assert_eq!(waiting.status, Status::Suspended);
    drop(first);
    let second = build();
    let entry = second.runs().await.unwrap().remove(0);
    assert_eq!((entry.run.as_ref(), entry.state.status.as_ref(), entry.driven), ("r", "suspended", false));
    let handle = second.resume(&"r".into(), ResumeOptions::default()).await.unwrap();
    handle.signal("go", json("7"), None);
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.result.clone()), (Status::Completed, json(r#"{"n":7}"#)));
    assert_eq!(odd.calls.load(Ordering::SeqCst), 2, "what was done is not done again");
    crate::support::check_history(&second, &outcome).await;
    let again = second.resume(&"r".into(), ResumeOptions::default()).await.unwrap().finished().await.unwrap();
    assert_eq!(again, outcome, "a run that has ended is given back as it ended");
}

#[tokio::test]
async fn another_process_can_tell_a_run_something() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("runs.db");
    let driving = Engine::builder().journal(Arc::new(SqliteJournal::open(&path).unwrap())).build();
    let handle = driving
        .start(
            routed(r#"{"name":"w","type":"wait","wait":{"signal":"go"},"yields":{"type":"data","data":"data"}}"#),
            json("{}"),
            RunOptions::default(),
        )
        .await
        .unwrap();
    let telling = Engine::builder().journal(Arc::new(SqliteJournal::open(&path).unwrap())).build();
    let signal = opcell_engine::Message::Signal {
        name: "go".into(),
        data: json("1"),
        by: None,
        key: None,
        question: None,
        may_approve: true,
    };
    telling.send(handle.run(), &signal).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().result, json("1"));
}

#[test]
fn a_long_run_of_steps_stays_linear() {
    let chain = |steps: usize| {
        let steps: Vec<String> = (0..steps).map(|i| invoke(&format!("s{i}"), "echo", "")).collect();
        routed(&steps.join(","))
    };
    // What a run allocates is what it copies, and does not depend on what else the machine does.
    let allocated = |steps: usize| {
        let program = chain(steps);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let run = async {
            let handle = engine(&Odd::default()).start(program, json("{}"), RunOptions::default()).await.unwrap();
            assert_eq!(handle.finished().await.unwrap().status, Status::Completed);
        };
        allocation_counter::measure(|| runtime.block_on(run)).bytes_total
    };
    let (short, long) = (allocated(500), allocated(5_000));
    assert!(long < short * 12, "ten times the steps took {long} bytes instead of {short}");
}

#[tokio::test]
async fn nothing_of_a_value_gets_lost_on_the_way() {
    let input = Value::object([
        ("n", Value::from(0.1)),
        ("big", Value::from(i64::MAX)),
        ("deep", json(r#"[[[{"a":[null,true]}]]]"#)),
    ]);
    let step = r#"{"name":"a","type":"invoke","invoke":{"operation":"t","args":{"v":{"from":"workflow-input"}}},"yields":{"type":"data","data":"data"}}"#;
    let script = Script::new().operation("t", |call| Ok(call.arguments.get("v").cloned().unwrap_or_default()));
    let engine = script.engine();
    let handle = engine.start(routed(step), input.clone(), RunOptions::default()).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().result, input);
    assert_eq!(engine.state_at(handle.run(), None).await.unwrap().outcome().result, input);
}
