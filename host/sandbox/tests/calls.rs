//! Several calls of tools at once.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::{Guest, TOOLS, limits, request, sandbox};
use opcell_sandbox::{
    CellError, CellRequest, CellResult, Denial, Failure, Grants, HostCall, HostServices, LoadRequest, OperationSuccess,
    Recording, Remedy, Tape,
};
use opcell_types::{CallContext, TouchLog};
use serde_json::json;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};
use tokio::sync::{Barrier, Semaphore};

const CALLS: &str = r#"
    (import "opcell:plugin/calls@0.3.0" "start" (func $start (param i32 i32 i32 i32 i32)))
    (import "opcell:plugin/calls@0.3.0" "wait-any" (func $wait (param i32 i32 i32)))
    ;; Starts a call, and fails as the host did if it is not made. The numbers of the calls are from 8192 on.
    (func $begin (param $number i32)
      (i32.store8 (i32.const 1201) (i32.add (i32.const 48) (i32.rem_u (local.get $number) (i32.const 10))))
      (call $start (i32.const 16) (i32.const 8) (i32.const 1200) (i32.const 3) (i32.const 5120))
      (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
      (i32.store (i32.add (i32.const 8192) (i32.mul (i32.const 4) (local.get $number))) (i32.load (i32.const 5124))))
    ;; Waits for the first of so many calls, and says which it was.
    (func $first (param $at i32) (param $count i32) (result i32)
      (call $wait (local.get $at) (local.get $count) (i32.const 5120))
      (if (i32.load8_u (i32.const 5120)) (then (unreachable)))
      (i32.load (i32.const 5124)))
    (data (i32.const 1100) "denied") (data (i32.const 1200) "[0]")"#;

/// Starts `count` calls and waits for each; the result is the last one's.
fn starts(count: u32) -> Guest {
    guest(&format!(
        "(loop $more (call $begin (local.get $i)) (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $more (i32.lt_u (local.get $i) (i32.const {count}))))
         (loop $more (local.set $i (i32.sub (local.get $i) (i32.const 1)))
           (drop (call $first (i32.add (i32.const 8192) (i32.mul (i32.const 4) (local.get $i))) (i32.const 1)))
           (br_if $more (local.get $i)))
         (call $ok (i32.load (i32.const 5132)) (i32.load (i32.const 5136)))"
    ))
}

fn guest(body: &str) -> Guest {
    Guest { pages: 80, ..Guest::invoke(body).with(TOOLS).with(CALLS).asking(&["test/run"], &[]) }
}

type Answer = Box<dyn Fn(usize) -> Result<String, Failure> + Send + Sync>;

/// A host with one tool whose calls wait until enough of them run, or until they are released.
struct Host {
    barrier: Barrier,
    gate: Semaphore,
    begun: AtomicUsize,
    in_progress: AtomicUsize,
    most: AtomicUsize,
    ended: Mutex<Vec<String>>,
    answer: Answer,
}

impl Host {
    fn new(together: usize) -> Self {
        Self {
            barrier: Barrier::new(together),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            begun: AtomicUsize::new(0),
            in_progress: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            ended: Mutex::default(),
            answer: Box::new(|number| Ok(number.to_string())),
        }
    }
}

/// Counts a call while it is in progress.
struct InProgress<'a>(&'a Host);

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, SeqCst);
    }
}

#[async_trait::async_trait]
impl HostServices for Host {
    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        _context: &CallContext,
        touched: &TouchLog,
    ) -> Result<String, Failure> {
        let listed = touched.note(|touched| touched.call(name, arguments.len() as u64));
        let number = self.begun.fetch_add(1, SeqCst);
        let now = self.in_progress.fetch_add(1, SeqCst) + 1;
        let _in_progress = InProgress(self);
        self.most.fetch_max(now, SeqCst);
        self.barrier.wait().await;
        // Each permit is for one call.
        self.gate.acquire().await.unwrap().forget();
        self.ended.lock().unwrap().push(arguments.to_owned());
        touched.note(|touched| touched.called(listed, 1, Ok(1)));
        (self.answer)(number)
    }
}

async fn run(guest: &Guest, limit: &str, host: &Arc<Host>, tape: Tape) -> CellResult<OperationSuccess> {
    let grants = Grants { tools: ["test/run".to_owned()].into(), ..Grants::default() };
    let plugin = sandbox().load(LoadRequest { grants, limits: limits(limit), ..request(guest) }).await.unwrap();
    let host = Arc::clone(host) as Arc<dyn HostServices>;
    plugin.invoke(CellRequest { host, tape, ..CellRequest::new("test/run", "{}") }).await
}

#[tokio::test]
async fn calls_that_were_started_are_in_progress_at_once() {
    // Each waits until both have begun.
    let host = Arc::new(Host::new(2));
    let done = run(&starts(2), r#"{"host-call-time":"5 s"}"#, &host, Tape::Off).await;
    assert_eq!(done.result.unwrap().data, json!(0), "{:?}", done.receipt);
    assert_eq!(done.receipt.host_calls.tools, 2, "waiting is not a call");
}

#[tokio::test]
async fn no_more_calls_are_in_progress_than_the_limit_says_and_the_others_follow_in_order() {
    // A call ends when the test lets it, so that any that begins too early is seen.
    let host = Arc::new(Host { gate: Semaphore::new(0), ..Host::new(1) });
    let cell = tokio::spawn({
        let host = host.clone();
        async move { run(&starts(21), r#"{"concurrent-calls":3}"#, &host, Tape::Off).await }
    });
    for ended in 0..=21 {
        let due = (ended + 3).min(21);
        while host.begun.load(SeqCst) < due || host.ended.lock().unwrap().len() < ended {
            tokio::task::yield_now().await;
        }
        // On one thread, whatever else may begin now begins in these.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!((host.begun.load(SeqCst), host.in_progress.load(SeqCst)), (due, due - ended), "after {ended} ends");
        host.gate.add_permits(1);
    }
    let done = cell.await.unwrap();
    assert!(done.result.is_ok(), "{:?}", done.result);
    assert_eq!(host.most.load(SeqCst), 3);
    let expected: Vec<String> = (0..21).map(|of| format!("[{}]", of % 10)).collect();
    assert_eq!(*host.ended.lock().unwrap(), expected);
}

#[tokio::test]
async fn a_call_that_is_made_alone_is_made_among_those_that_are_in_progress() {
    let body = "(call $begin (i32.const 0))
        (call $tool (i32.const 16) (i32.const 8) (i32.const 1200) (i32.const 3) (i32.const 512))
        (if (i32.load8_u (i32.const 512)) (then (unreachable)))
        (drop (call $first (i32.const 8192) (i32.const 1)))
        (call $ok (i32.load (i32.const 5132)) (i32.load (i32.const 5136)))";
    let host = Arc::new(Host::new(2));
    let done = run(&guest(body), r#"{"host-call-time":"5 s"}"#, &host, Tape::Off).await;
    assert!(done.result.is_ok(), "{:?}", done.result);
    assert_eq!(host.begun.load(SeqCst), 2);
}

#[tokio::test]
async fn a_flood_of_calls_ends_at_the_limit_of_host_calls() {
    let body = "(loop $more (call $begin (i32.const 0)) (br $more)) (unreachable)";
    let host = Arc::new(Host { gate: Semaphore::new(0), ..Host::new(1) });
    let done = run(&guest(body), "{}", &host, Tape::Off).await;
    assert!(matches!(done.result, Err(CellError::HostCallLimit { limit: 10_000 })), "{:?}", done.result);
    assert!(host.most.load(SeqCst) <= 8);
    // What was in progress is cancelled with the cell.
    while host.in_progress.load(SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*host.ended.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test]
async fn waiting_for_no_call_for_one_that_is_not_there_and_twice_for_one_are_failures() {
    let fails = "(call $fail (i32.load (i32.const 5124)) (i32.load (i32.const 5128)))";
    let wait = |count| format!("(call $wait (i32.const 8192) (i32.const {count}) (i32.const 5120))");
    let twice = format!("(call $begin (i32.const 0)) {} {} {fails}", wait(1), wait(1));
    let unknown = format!("(i32.store (i32.const 8192) (i32.const 7)) {} {fails}", wait(1));
    let of_none = format!("{} {fails}", wait(0));
    for (body, reason) in [(twice, "unknown-call"), (unknown, "unknown-call"), (of_none, "no-calls")] {
        let done = run(&guest(&body), "{}", &Arc::new(Host::new(1)), Tape::Off).await;
        let Err(CellError::PluginFailure(failure)) = done.result else { panic!("{:?}", done.result) };
        assert_eq!(&*failure.reason, reason);
    }
    // And a cell that does nothing else ends.
    let body = format!("(loop $more {} (br $more)) (unreachable)", wait(0));
    let done = run(&guest(&body), "{}", &Arc::new(Host::new(1)), Tape::Off).await;
    assert!(matches!(done.result, Err(CellError::HostCallLimit { .. })), "{:?}", done.result);
}

#[tokio::test]
async fn a_cell_ends_after_its_calls_and_its_receipt_has_their_ends() {
    let body = "(call $begin (i32.const 0)) (call $begin (i32.const 1)) (call $ok (i32.const 1024) (i32.const 2))";
    let host = Arc::new(Host::new(2));
    let done = run(&guest(body), r#"{"concurrent-calls":2}"#, &host, Tape::Off).await;
    assert_eq!(done.result.unwrap().data, json!({}));
    assert_eq!(host.ended.lock().unwrap().len(), 2);
    let calls = &done.receipt.touched.calls;
    assert!(calls.len() == 2 && calls.iter().all(|call| call.duration_us.is_some()), "{calls:?}");
}

#[tokio::test]
async fn the_calls_of_a_cell_that_traps_are_cancelled_and_its_receipt_has_no_end_of_them() {
    let body = "(call $begin (i32.const 0)) (unreachable)";
    let host = Arc::new(Host { gate: Semaphore::new(0), ..Host::new(1) });
    let done = run(&guest(body), "{}", &host, Tape::Off).await;
    assert!(matches!(done.result, Err(CellError::Trap { .. })), "{:?}", done.result);
    while host.in_progress.load(SeqCst) > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(*host.ended.lock().unwrap(), Vec::<String>::new());
    assert!(done.receipt.touched.calls.iter().all(|call| call.duration_us.is_none()));
}

#[tokio::test]
async fn a_refused_call_is_not_started_and_a_failed_one_fails_alone() {
    let refused = "(call $start (i32.const 16) (i32.const 4) (i32.const 1200) (i32.const 3) (i32.const 5120))
        (if (i32.or (i32.ne (i32.load8_u (i32.const 5120)) (i32.const 1)) (i32.load8_u (i32.const 5124)))
          (then (unreachable)))
        (call $fail (i32.const 1100) (i32.const 6))";
    let host = Arc::new(Host::new(1));
    let done = run(&guest(refused), "{}", &host, Tape::Off).await;
    let Err(CellError::Denied(denial)) = done.result else { panic!("{:?}", done.result) };
    assert_eq!((&*denial.capability, host.begun.load(SeqCst)), ("tool test", 0));
    assert_eq!(done.receipt.denials, [denial]);
    // Of two, the host refuses the first.
    let answer: Answer = Box::new(|number| match number {
        0 => Err(Failure::denied(Denial::new("host x", "r", Remedy::Nothing))),
        _ => Ok("1".to_owned()),
    });
    let host = Arc::new(Host { answer, ..Host::new(1) });
    let body = "(call $begin (i32.const 0)) (call $begin (i32.const 1))
        (drop (call $first (i32.const 8192) (i32.const 1)))
        (if (i32.eqz (i32.load8_u (i32.const 5128))) (then (unreachable)))
        (drop (call $first (i32.const 8196) (i32.const 1)))
        (if (i32.load8_u (i32.const 5128)) (then (unreachable)))
        (call $ok (i32.load (i32.const 5132)) (i32.load (i32.const 5136)))";
    let done = run(&guest(body), r#"{"concurrent-calls":1}"#, &host, Tape::Off).await;
    assert_eq!(done.result.unwrap().data, json!(1));
    assert_eq!(done.receipt.denials.len(), 1);
}

#[tokio::test]
async fn a_recording_of_calls_one_after_another_answers_those_that_are_started() {
    let answer: Answer = Box::new(|number| match number {
        1 => Err(Failure::host("broken", "x")),
        _ => Ok("7".to_owned()),
    });
    let host = Arc::new(Host { answer, ..Host::new(1) });
    let recorded = run(&starts(3), "{}", &host, Tape::Record).await;
    let recording = recorded.receipt.recording.unwrap();
    // As an interpreter recorded it that made one call after another.
    let (starts_of, ends): (Vec<_>, Vec<_>) = recording.calls.iter().partition(|call| call.call == "calls.start");
    let one_by_one = starts_of.iter().map(|start| {
        let number = &start.answer.as_ref().unwrap()["Ok"];
        let is_end = |end: &&&HostCall| &end.answer.as_ref().unwrap()["Ok"]["call"] == number;
        let end = ends.iter().find(is_end).unwrap();
        let answer = Some(end.answer.as_ref().unwrap()["Ok"]["answer"].clone());
        let mut cost = end.cost;
        (cost.calls, cost.bytes_out) = (start.cost.calls, start.cost.bytes_out);
        HostCall { call: "tools.call".to_owned(), given: start.given.clone(), answer, cost, ..HostCall::default() }
    });
    let old = Recording { calls: one_by_one.collect(), ..recording.as_ref().clone() };
    assert!(old.calls.iter().any(|call| call.answer.as_ref().unwrap()["Err"]["Failed"]["reason"] == "broken"));
    let replayed = run(&starts(3), "{}", &host, Tape::Replay(Arc::new(old.clone()))).await;
    assert_eq!(replayed.result.unwrap().data, recorded.result.unwrap().data);
    assert_eq!(replayed.receipt.host_calls, recorded.receipt.host_calls);
    assert_eq!(host.begun.load(SeqCst), 3, "a replay reaches nothing");
    // A call that is not there is named all the same.
    let missing = run(&starts(4), "{}", &host, Tape::Replay(Arc::new(old))).await;
    let Err(CellError::NotRecorded(missing)) = missing.result else { panic!("{:?}", missing.result) };
    assert!(missing.to_string().contains("`calls.start [\"test/run\",[3]]` was not recorded"), "{missing}");
}

#[tokio::test]
async fn a_replay_learns_of_ends_in_the_recorded_order_and_reaches_nothing() {
    // The second call ends first; the result is the number of the call whose end came first.
    let body = "(call $begin (i32.const 0)) (call $begin (i32.const 1))
        (local.set $i (call $first (i32.const 8192) (i32.const 2)))
        (i32.store8 (i32.const 1200) (i32.add (i32.const 48) (local.get $i)))
        (local.set $j (i32.sub (i32.const 1) (local.get $i)))
        (drop (call $first (i32.add (i32.const 8192) (i32.mul (i32.const 4) (local.get $j))) (i32.const 1)))
        (call $ok (i32.const 1200) (i32.const 1))";
    let mut orders = Vec::new();
    for _ in 0..20 {
        let host = Arc::new(Host::new(2));
        let recorded = run(&guest(body), "{}", &host, Tape::Record).await;
        let recording = recorded.receipt.recording.unwrap();
        let names: Vec<&str> = recording.calls.iter().map(|call| &*call.call).collect();
        assert_eq!(names, ["calls.start", "calls.start", "calls.wait-any", "calls.wait-any"]);
        let text = serde_json::to_string(&recording).unwrap();
        let recording: Recording = serde_json::from_str(&text).unwrap();
        let first = recorded.result.unwrap().data;
        let replayed = run(&guest(body), "{}", &host, Tape::Replay(Arc::new(recording))).await;
        assert_eq!(replayed.result.unwrap().data, first);
        assert_eq!(host.begun.load(SeqCst), 2);
        orders.push(first);
    }
    assert!(!orders.is_empty());
}
