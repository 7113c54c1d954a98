//! Cells with a well-behaved guest, and with one that breaks each limit, one after the other.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::{Guest, LOG, config, limits, load, request, run, sandbox, tool_caller};
use opcell_sandbox::{
    Allocation, CallContext, CellError, CellRequest, CellResult, Denial, Failure, Grants, HostServices, LoadRequest,
    LogEvent, Metering, Narrowing, OperationSuccess, Outcome, Plugin, Remedy, Sandbox, SandboxConfig, ToolDescription,
};
use opcell_types::{Capability, Source, TouchLog};
use serde_json::json;
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

fn kind<T>(result: &CellResult<T>) -> &'static str {
    let error = result.result.as_ref().err().expect("the cell should have failed");
    assert_eq!(result.receipt.error.as_deref(), Some(error.kind()));
    error.kind()
}

#[tokio::test]
async fn an_operation_gets_its_arguments_and_its_result_comes_back_with_a_receipt() {
    let plugin = load(&Guest::default()).await.unwrap();
    assert_eq!((plugin.name(), plugin.pool()), ("guest", "small"));
    assert_eq!(&*plugin.operations()[0].id, "test/run");
    let done = plugin.invoke(CellRequest::new("test/run", r#"{"n":[1,2,{"x":"é"}]}"#)).await;
    assert_eq!(done.result.unwrap().data, json!({"n":[1,2,{"x":"é"}]}));
    let receipt = done.receipt;
    assert_eq!((receipt.bytes_in, receipt.bytes_out), (22, 22));
    assert_eq!((receipt.peak_memory, receipt.host_calls.total(), receipt.error), (2 << 16, 0, None));
    assert!(receipt.duration_us > 0);
}

#[tokio::test]
async fn every_pool_and_the_on_demand_fallback_give_the_same_result() {
    for (allocation, metering) in [
        (Allocation::Auto, Metering::Ticks),
        (Allocation::OnDemand, Metering::Ticks),
        (Allocation::Auto, Metering::Deterministic),
    ] {
        let sandbox = Sandbox::new(SandboxConfig { allocation, metering, ..config() }).unwrap();
        let plugin = sandbox.load(request(&Guest::default())).await.unwrap();
        let done = plugin.invoke(CellRequest::new("test/run", "[1]")).await;
        assert_eq!(done.result.unwrap().data, json!([1]), "{allocation:?} {metering:?}");
        assert_eq!(done.receipt.fuel.is_some(), metering == Metering::Deterministic);
    }
}

#[tokio::test]
async fn nothing_is_left_from_one_call_to_the_next() {
    // Counts calls in a global and returns the count as one digit.
    let guest = Guest::invoke(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (i32.store8 (i32.const 8) (i32.add (global.get $n) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1))",
    )
    .with("(global $n (mut i32) (i32.const 0))");
    let plugin = load(&guest).await.unwrap();
    for _ in 0..20 {
        let done = plugin.invoke(CellRequest::new("test/run", "{}")).await;
        assert_eq!(done.result.unwrap().data, json!(1));
    }
}

/// Calls alternately from several threads, until the plugin runs on several engines and each thread has called again.
fn call_from_threads(plugin: &Arc<Plugin>, check: impl Fn(CellResult<OperationSuccess>) + Copy + Send + 'static) {
    const THREADS: usize = 8;
    let started = Instant::now();
    let call = move |plugin: &Arc<Plugin>| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        check(runtime.block_on(plugin.invoke(CellRequest::new("test/run", "{}"))));
    };
    let (turns, takers): (Vec<_>, Vec<_>) = (0..THREADS).map(|_| std::sync::mpsc::sync_channel::<()>(0)).unzip();
    let (done, ended) = std::sync::mpsc::channel();
    let threads: Vec<_> = takers
        .into_iter()
        .map(|taker| {
            let (plugin, done) = (Arc::clone(plugin), done.clone());
            std::thread::spawn(move || {
                for () in taker {
                    call(&plugin);
                    done.send(()).unwrap();
                }
            })
        })
        .collect();
    let mut rounds_since = 0;
    while rounds_since < 3 {
        for turn in &turns {
            turn.send(()).unwrap();
            ended.recv_timeout(Duration::from_secs(20)).expect("the call ends");
        }
        rounds_since += usize::from(plugin.engines() > 1);
        assert!(started.elapsed() < Duration::from_secs(60), "there is no second engine");
    }
    drop(turns);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn on_every_engine_that_a_plugin_runs_on_nothing_is_left_and_every_limit_holds() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() < 2) {
        eprintln!("SKIPPED: one processor needs one engine");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let counts = Guest::invoke(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (i32.store8 (i32.const 8) (i32.add (global.get $n) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1))",
    )
    .with("(global $n (mut i32) (i32.const 0))");
    let plugin = runtime.block_on(load(&counts)).unwrap();
    assert_eq!(plugin.engines(), 1);
    call_from_threads(&plugin, |done| assert_eq!(done.result.unwrap().data, json!(1)));

    let endless = Guest::invoke("(loop br 0) unreachable");
    let request = LoadRequest { limits: limits(r#"{"ticks": 1}"#), ..request(&endless) };
    let plugin = runtime.block_on(sandbox().load(request)).unwrap();
    call_from_threads(&plugin, |done| assert_eq!(done.result.unwrap_err().kind(), "interrupted"));
}

#[tokio::test]
async fn arguments_are_checked_before_and_data_after_the_call() {
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#.to_owned();
    let plugin = load(&Guest { schema: schema.clone(), ..Guest::default() }).await.unwrap();
    for (arguments, place) in
        [(r#"{"n":"x"}"#, "`/n`"), ("{}", "\"n\" is a required property"), ("{", "not JSON"), ("", "not JSON")]
    {
        let done = plugin.invoke(CellRequest::new("test/run", arguments)).await;
        assert_eq!(kind(&done), "invalid-arguments");
        assert!(done.result.unwrap_err().to_string().contains(place), "{arguments}");
        assert_eq!(done.receipt.peak_memory, 0, "nothing ran");
    }
    let liar = Guest { schema, ..Guest::invoke("(call $ok (i32.const 1024) (i32.const 2))") };
    let done = load(&liar).await.unwrap().invoke(CellRequest::new("test/run", r#"{"n":1}"#)).await;
    assert_eq!(kind(&done), "malformed-result");
    let nonsense = Guest::invoke("(call $ok (i32.const 16) (i32.const 8))");
    let done = run(&nonsense, "{}").await;
    assert_eq!(kind(&done), "malformed-result");
    assert!(done.result.unwrap_err().to_string().contains("in its data: it is not JSON"));
}

#[tokio::test]
async fn an_unknown_operation_is_an_error_with_a_suggestion() {
    let done = load(&Guest::default()).await.unwrap().invoke(CellRequest::new("test/rum", "{}")).await;
    assert_eq!(kind(&done), "unknown-operation");
    assert!(done.result.unwrap_err().to_string().contains("did you mean `test/run`?"));
}

#[tokio::test]
async fn a_failure_that_the_plugin_reports_keeps_its_reason() {
    let done = run(&Guest::invoke("(call $fail (i32.const 16) (i32.const 8))"), "{}").await;
    let Err(CellError::PluginFailure(failure)) = done.result else { panic!("{:?}", done.result) };
    assert_eq!((failure.reason.as_ref(), failure.message.as_str()), ("test/run", "test/run"));
}

#[tokio::test]
async fn a_busy_loop_ends_by_ticks_and_by_wall_time_and_by_fuel() {
    let busy = Guest::invoke("(loop (br 0)) (unreachable)");
    let started = Instant::now();
    let done = run(&busy, r#"{"ticks":5}"#).await;
    assert_eq!(kind(&done), "interrupted");
    assert_eq!(done.receipt.ticks, 5);
    let done = run(&busy, r#"{"wall-time":"100 ms"}"#).await;
    assert_eq!(kind(&done), "timeout");
    assert!(started.elapsed() < Duration::from_secs(20));
    let sandbox = Sandbox::new(SandboxConfig { metering: Metering::Deterministic, ..config() }).unwrap();
    let plugin = sandbox.load(LoadRequest { limits: limits(r#"{"fuel":1000000}"#), ..request(&busy) }).await.unwrap();
    let first = plugin.invoke(CellRequest::new("test/run", "{}")).await;
    assert_eq!(kind(&first), "out-of-fuel");
    let second = plugin.invoke(CellRequest::new("test/run", "{}")).await;
    assert_eq!(first.receipt.fuel, second.receipt.fuel);
}

#[tokio::test]
async fn a_loop_in_the_start_function_ends_before_the_plugin_is_loaded() {
    let guest = Guest::default().with("(func $spin (loop (br 0))) (start $spin)");
    let error = sandbox().load(LoadRequest { limits: limits(r#"{"ticks":5}"#), ..request(&guest) }).await.unwrap_err();
    assert_eq!(error.kind(), "describe-failed");
    assert!(error.to_string().contains("50 ms (limit `ticks`)"), "{error}");
}

#[tokio::test(flavor = "current_thread")]
async fn a_busy_cell_does_not_starve_its_neighbours_on_one_thread() {
    let sandbox = sandbox();
    let busy = sandbox.load(request(&Guest::invoke("(loop (br 0)) (unreachable)"))).await.unwrap();
    let honest = sandbox.load(request(&Guest::default())).await.unwrap();
    let cancel = CellRequest::new("test/run", "{}").cancel;
    let cancelled = cancel.clone();
    let attacker = tokio::spawn(async move {
        let request = CellRequest { cancel: cancelled, ..CellRequest::new("test/run", "{}") };
        busy.invoke(request).await
    });
    tokio::task::yield_now().await;
    for _ in 0..10 {
        assert!(honest.invoke(CellRequest::new("test/run", "{}")).await.result.is_ok());
    }
    assert!(!attacker.is_finished(), "the honest cells waited for the end of the busy one");
    cancel.cancel();
    assert_eq!(kind(&attacker.await.unwrap()), "cancelled");
}

#[tokio::test]
async fn a_cancelled_run_ends_its_cell_at_once() {
    let plugin = load(&Guest::invoke("(loop (br 0)) (unreachable)")).await.unwrap();
    let request = CellRequest::new("test/run", "{}");
    let cancel = request.cancel.clone();
    let started = Instant::now();
    let (done, ()) = tokio::join!(plugin.invoke(request), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    assert_eq!(kind(&done), "cancelled");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn memory_stops_growing_at_the_limit_and_the_receipt_tells_even_if_the_guest_does_not_mind() {
    let grow = Guest::invoke(
        "(block (loop (br_if 1 (i32.eq (memory.grow (i32.const 16)) (i32.const -1))) (br 0))) (call $ok (i32.const 1024) (i32.const 2))",
    );
    let done = run(&grow, r#"{"memory":"8 MiB"}"#).await;
    assert!(done.result.is_ok());
    assert!(done.receipt.peak_memory <= 8 << 20 && done.receipt.peak_memory > 6 << 20, "{}", done.receipt.peak_memory);
    assert_eq!(done.receipt.refused_growths, 1);
    let grumpy = Guest::invoke("(drop (memory.grow (i32.const 60000))) (unreachable)");
    assert_eq!(kind(&run(&grumpy, "{}").await), "memory");
}

#[tokio::test]
async fn a_memory_that_starts_above_the_limit_is_refused_when_the_plugin_is_loaded() {
    let error = sandbox()
        .load(LoadRequest {
            limits: limits(r#"{"memory":"1 MiB"}"#),
            ..request(&Guest { pages: 100, ..Guest::default() })
        })
        .await
        .unwrap_err();
    assert_eq!(error.kind(), "describe-failed");
    assert!(error.to_string().contains("out of memory"), "{error}");
}

#[tokio::test]
async fn table_growth_stops_at_the_limit() {
    let guest = Guest::invoke(
        "(drop (table.grow $t (ref.null func) (i32.const 500))) (drop (table.grow $t (ref.null func) (i32.const 5000)))
         (i32.store8 (i32.const 8) (i32.add (i32.div_u (table.size $t) (i32.const 100)) (i32.const 48))) (call $ok (i32.const 8) (i32.const 1))",
    )
    .with("(table $t 1 funcref)");
    let done = run(&guest, r#"{"table-elements":1000}"#).await;
    assert_eq!(done.result.unwrap().data, json!(5));
    assert_eq!(done.receipt.refused_growths, 1);
}

#[tokio::test]
async fn deep_recursion_is_a_stack_overflow_of_the_guest_and_not_of_the_host() {
    let guest = Guest::invoke("(drop (call $deep (i32.const 1))) (unreachable)")
        .with("(func $deep (param i32) (result i32) (i32.add (local.get 0) (call $deep (i32.add (local.get 0) (i32.const 1)))))");
    assert_eq!(kind(&run(&guest, "{}").await), "stack-overflow");
}

#[tokio::test]
async fn a_fault_below_the_first_address_is_a_stack_that_is_used_up() {
    let below = Guest::invoke("(drop (i32.load (i32.const -64))) (unreachable)");
    assert_eq!(kind(&run(&below, "{}").await), "stack-overflow");
    let elsewhere = Guest::invoke("(drop (i32.load (i32.const 0x40000000))) (unreachable)");
    assert_eq!(kind(&run(&elsewhere, "{}").await), "trap");
}

#[tokio::test]
async fn a_trap_names_the_functions_that_led_to_it_and_a_limit_its_key() {
    let guest = Guest::invoke("(call $outer) (unreachable)")
        .with("(func $inner (unreachable)) (func $outer (call $inner) (nop))");
    let done = run(&guest, "{}").await;
    assert_eq!(
        done.receipt.backtrace.get(..2),
        Some(&["inner".to_owned(), "outer".to_owned()][..]),
        "{:?}",
        done.receipt
    );
    assert_eq!(done.receipt.limit, None);
    let grumpy = Guest::invoke("(drop (memory.grow (i32.const 60000))) (unreachable)");
    assert_eq!(run(&grumpy, "{}").await.receipt.limit.as_deref(), Some("memory"));
}

#[tokio::test]
async fn traps_keep_their_code_and_a_panic_its_message() {
    let done = run(&Guest::invoke("(i32.div_u (i32.const 1) (i32.const 0))"), "{}").await;
    assert_eq!(kind(&done), "trap");
    assert!(done.result.unwrap_err().to_string().contains("integer divide by zero"));
    let panics = Guest::invoke("(call $panicked (i32.const 16) (i32.const 8)) (unreachable)").with(LOG);
    let done = run(&panics, "{}").await;
    assert_eq!(done.result.as_ref().unwrap_err().to_string(), "the plugin panicked: test/run");
    assert_eq!(done.receipt.panic.as_deref(), Some("test/run"));
}

#[tokio::test]
async fn results_outside_of_memory_or_not_utf8_break_the_rules_of_the_boundary() {
    for body in [
        "(call $ok (i32.const -16) (i32.const 100))",
        "(i32.const -4)",
        "(i32.store8 (i32.const 8) (i32.const 255)) (call $ok (i32.const 8) (i32.const 1))",
        "(i32.store8 (i32.const 3000) (i32.const 9)) (i32.const 3000)",
    ] {
        let done = run(&Guest::invoke(body), "{}").await;
        assert_eq!(kind(&done), "abi-violation", "{body}: {:?}", done.result);
    }
}

#[tokio::test]
async fn a_result_and_an_import_argument_above_the_transfer_limit_are_refused() {
    let huge = Guest { pages: 40, ..Guest::invoke("(call $ok (i32.const 65536) (i32.const 2000000))") };
    assert_eq!(kind(&run(&huge, r#"{"result-bytes":"1 MiB"}"#).await), "transfer-limit");
    let shout = Guest {
        pages: 40,
        ..Guest::invoke("(call $log (i32.const 0) (i32.const 65536) (i32.const 2000000)) (unreachable)")
    };
    assert_eq!(kind(&run(&shout.with(LOG), r#"{"result-bytes":"1 MiB"}"#).await), "transfer-limit");
}

#[tokio::test]
async fn a_flood_of_host_calls_ends_at_its_count_and_keeps_the_end_of_the_log() {
    let flood = Guest::invoke(
        "(loop (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (i32.store8 (i32.const 16) (i32.add (i32.const 65) (i32.rem_u (local.get $i) (i32.const 26))))
           (call $log (i32.const 2) (i32.const 16) (i32.const 8)) (br 0)) (unreachable)",
    )
    .with(LOG);
    let started = Instant::now();
    let done = run(&flood, r#"{"host-calls":200,"log-bytes":80}"#).await;
    assert_eq!(kind(&done), "host-call-limit");
    assert_eq!(done.receipt.host_calls.log, 201);
    let lines: Vec<&str> = done.receipt.log.lines.iter().map(|line| line.message.as_str()).collect();
    assert_eq!(lines.len(), 10);
    // The last line that was allowed is that of call 200.
    assert_eq!(lines[9], format!("{}est/run", char::from(65 + (200 % 26) as u8)));
    assert_eq!(done.receipt.log.dropped_bytes, 190 * 8);
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn bytes_over_the_boundary_are_counted_over_all_calls() {
    let flood = Guest {
        pages: 40,
        ..Guest::invoke("(loop (call $log (i32.const 2) (i32.const 65536) (i32.const 4096)) (br 0)) (unreachable)")
    };
    let done = run(&flood.with(LOG), r#"{"boundary-bytes":"64 KiB"}"#).await;
    assert_eq!(kind(&done), "transfer-limit");
    // The two bytes of the arguments count as well.
    assert_eq!(done.receipt.host_calls.log, 16);
}

/// A host whose one tool waits, and which remembers what it was asked.
#[derive(Default)]
struct Host {
    wait: Duration,
    calls: Mutex<Vec<String>>,
    lines: Mutex<Vec<String>>,
}

#[async_trait::async_trait]
impl HostServices for Host {
    fn tools(&self) -> Vec<ToolDescription> {
        let tool = |name: &str| ToolDescription::new(name, "", json!({}));
        vec![tool("test/run"), tool("secret")]
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        context: &CallContext,
        touched: &TouchLog,
    ) -> Result<String, Failure> {
        let sent = arguments.len() as u64;
        touched.note(|touched| touched.request("POST", "https://a.example", "/x", sent));
        self.calls.lock().unwrap().push(format!("{name} {arguments} {}", context.step));
        tokio::time::sleep(self.wait).await;
        if arguments == "[0]" {
            return Err(Failure::denied(Denial::new("host x", "r", Remedy::Nothing)));
        }
        Ok("{}".to_owned())
    }

    fn log(&self, plugin: &str, _context: &CallContext, event: LogEvent<'_>) {
        if let LogEvent::Line { message, .. } = event {
            self.lines.lock().unwrap().push(format!("{plugin}: {message}"));
        }
    }
}

async fn call_tool(
    guest: Guest,
    grants: Grants,
    narrowing: Option<Narrowing>,
    host: &Arc<Host>,
) -> CellResult<OperationSuccess> {
    let limits = limits(r#"{"wall-time":"2 s","host-call-time":"200 ms"}"#);
    let plugin = sandbox().load(LoadRequest { grants, limits, ..request(&guest) }).await.unwrap();
    let context = CallContext { step: "triage".into(), ..CallContext::default() };
    let request = CellRequest {
        host: Arc::clone(host) as Arc<dyn HostServices>,
        narrowing,
        context,
        ..CellRequest::new("test/run", "[1]")
    };
    plugin.invoke(request).await
}

fn granting(tool: &str) -> Grants {
    Grants { tools: [tool.to_owned()].into(), ..Grants::default() }
}

#[tokio::test]
async fn a_tool_that_is_asked_for_and_granted_is_called_and_no_other() {
    let host = Arc::new(Host::default());
    let done = call_tool(tool_caller().asking(&["test/run"], &[]), granting("test/run"), None, &host).await;
    assert_eq!(done.result.unwrap().data, json!({}));
    assert_eq!(*host.calls.lock().unwrap(), ["test/run [1] triage"]);
    assert_eq!(done.receipt.host_calls.tools, 1);
}

#[tokio::test]
async fn a_refused_tool_is_a_typed_denial_that_never_reaches_the_host() {
    let name = || "test/run".to_owned();
    let no_tools = Narrowing { tools: Some([].into()), ..Narrowing::default() };
    for (guest, grants, narrowing, rule, remedy) in [
        (
            tool_caller(),
            granting("test/run"),
            None,
            "does not ask for it",
            Remedy::AskInManifest { plugin: "guest".into(), capability: Capability::Tool, name: name(), access: None },
        ),
        (
            tool_caller().asking(&["test/run"], &[]),
            Grants::default(),
            None,
            "has not granted",
            Remedy::Grant { plugin: "guest".into(), capability: Capability::Tool, name: name(), access: None },
        ),
        (
            tool_caller().asking(&["test/run"], &[]),
            granting("test/run"),
            Some(no_tools),
            "step narrows",
            Remedy::LeaveInStep { capability: Capability::Tool, name: name() },
        ),
    ] {
        let host = Arc::new(Host::default());
        let done = call_tool(guest, grants, narrowing, &host).await;
        assert_eq!(kind(&done), "denied");
        let Err(CellError::Denied(denial)) = done.result else { panic!() };
        assert_eq!(denial.capability, "tool test/run");
        assert!(denial.rule.contains(rule), "{denial}");
        assert_eq!(denial.remedy, remedy);
        assert_eq!(done.receipt.denials, [denial]);
        assert!(host.calls.lock().unwrap().is_empty());
    }
}

#[tokio::test]
async fn a_slow_host_is_a_failure_for_the_guest_and_wall_time_counts_while_it_waits() {
    let host = Arc::new(Host { wait: Duration::from_secs(30), ..Host::default() });
    let guest = || tool_caller().asking(&["test/run"], &[]);
    let done = call_tool(guest(), granting("test/run"), None, &host).await;
    let Err(CellError::PluginFailure(failure)) = done.result else { panic!("{:?}", done.result) };
    assert_eq!(
        (failure.source, &*failure.reason),
        (Source::Plugin, "timeout"),
        "the plugin passes on what it was given"
    );
    assert_eq!(done.receipt.touched.http[0].path, "/x", "what a call that was given up had touched is known");
    let plugin = sandbox().load(LoadRequest { grants: granting("test/run"), ..request(&guest()) }).await.unwrap();
    let started = Instant::now();
    let waiting =
        CellRequest { host, timeout: Some(Duration::from_millis(100)), ..CellRequest::new("test/run", "[1]") };
    assert_eq!(kind(&plugin.invoke(waiting).await), "timeout");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[tokio::test]
async fn a_judge_gives_exactly_one_of_its_outcomes_or_an_error() {
    let judged =
        |guest: Guest| async move { load(&guest).await.unwrap().judge(CellRequest::new("test/gate", "{}")).await };
    let done = judged(Guest::judge("(call $text (i32.const 24) (i32.const 4))")).await;
    assert_eq!(done.result.unwrap().outcome, Outcome::Text("pass".into()));
    // `:pass` is not `"pass"`.
    let keyword =
        "(drop (call $text (i32.const 24) (i32.const 4))) (i32.store8 (i32.const 3004) (i32.const 1)) (i32.const 3000)";
    for (body, expected) in [
        (keyword, "malformed-result"),
        ("(call $text (i32.const 28) (i32.const 4))", "malformed-result"),
        ("(unreachable)", "trap"),
        ("(call $fail (i32.const 16) (i32.const 8))", "plugin-failure"),
    ] {
        let done = judged(Guest::judge(body)).await;
        assert_eq!(kind(&done), expected, "{body}");
    }
    let done = judged(Guest::judge(
        "(drop (call $text (i32.const 28) (i32.const 4))) (i32.store8 (i32.const 3004) (i32.const 1)) (i32.const 3000)",
    ))
    .await;
    assert_eq!(done.result.unwrap().outcome, Outcome::Keyword("fail".into()));
}

#[tokio::test]
async fn a_judge_that_never_ends_does_not_route() {
    let plugin = load(&Guest::judge("(loop (br 0)) (unreachable)")).await.unwrap();
    let request = CellRequest { timeout: Some(Duration::from_millis(50)), ..CellRequest::new("test/gate", "{}") };
    assert_eq!(kind(&plugin.judge(request).await), "timeout");
}

#[tokio::test]
async fn cells_beyond_the_limit_wait_their_turn_within_their_wall_time() {
    let limits = limits(r#"{"concurrent-cells":1}"#);
    let plugin =
        sandbox().load(LoadRequest { limits, ..request(&Guest::invoke("(loop (br 0)) (unreachable)")) }).await.unwrap();
    let call = |ms| {
        plugin.invoke(CellRequest { timeout: Some(Duration::from_millis(ms)), ..CellRequest::new("test/run", "{}") })
    };
    let (first, second) = tokio::join!(call(600), call(100));
    assert_eq!((kind(&first), kind(&second)), ("timeout", "busy"));
    assert_eq!(second.receipt.peak_memory, 0, "the second never started");
    assert_eq!(first.receipt.queued_us, 0);
    assert!(second.receipt.queued_us >= 100_000, "{} us", second.receipt.queued_us);
}

#[tokio::test]
async fn a_call_beyond_those_that_may_wait_is_refused_at_once() {
    let limits = limits(r#"{"concurrent-cells":1,"waiting-cells":1}"#);
    let plugin =
        sandbox().load(LoadRequest { limits, ..request(&Guest::invoke("(loop (br 0)) (unreachable)")) }).await.unwrap();
    let call = |ms| {
        plugin.invoke(CellRequest { timeout: Some(Duration::from_millis(ms)), ..CellRequest::new("test/run", "{}") })
    };
    let (first, second, third) = tokio::join!(call(2_000), call(200), call(60_000));
    assert_eq!([kind(&first), kind(&second), kind(&third)], ["timeout", "busy", "busy"]);
    assert_eq!(third.receipt.queued_us, 0, "it did not wait");
    let error = third.result.unwrap_err();
    assert!(error.to_string().contains("`waiting-cells`"), "{error}");
    assert!(opcell_types::Failure::from(error).retriable);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_cells_than_the_pool_holds_all_succeed() {
    let sandbox = Sandbox::new(SandboxConfig { cells: 2, ..config() }).unwrap();
    let plugin = sandbox
        .load(LoadRequest { limits: limits(r#"{"concurrent-cells":64}"#), ..request(&Guest::default()) })
        .await
        .unwrap();
    let calls = (0..500).map(|_| {
        let plugin = Arc::clone(&plugin);
        tokio::spawn(async move { plugin.invoke(CellRequest::new("test/run", "{}")).await.result.is_ok() })
    });
    for call in calls.collect::<Vec<_>>() {
        assert!(call.await.unwrap());
    }
}

#[tokio::test]
async fn log_lines_reach_the_host_while_the_cell_runs() {
    let guest = Guest::invoke(
        "(call $log (i32.const 2) (i32.const 16) (i32.const 8)) (call $ok (i32.const 1024) (i32.const 2))",
    )
    .with(LOG);
    let plugin = load(&guest).await.unwrap();
    let host = Arc::new(Host::default());
    let request =
        CellRequest { host: Arc::clone(&host) as Arc<dyn HostServices>, ..CellRequest::new("test/run", "{}") };
    assert!(plugin.invoke(request).await.result.is_ok());
    assert_eq!(*host.lines.lock().unwrap(), ["guest: test/run"]);
}
