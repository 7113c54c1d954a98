//! Instances that are made ahead of their calls: each serves one call, knows of no other, and has every limit.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a failed test")]

mod common;

use common::{Guest, config, limits, load, request, sandbox};
use opcell_sandbox::{CellRequest, CellResult, OperationSuccess, Plugin, Sandbox, SandboxConfig};
use opcell_types::CallContext;
use serde_json::json;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};

/// Calls until so many calls have found an instance ready, and says how many calls that took.
async fn call_until_ready(
    plugin: &Plugin,
    ready: u64,
    arguments: &str,
    check: impl Fn(CellResult<OperationSuccess>),
) -> u64 {
    let (started, mut calls) = (Instant::now(), 0);
    while plugin.found_ready() < ready {
        check(plugin.invoke(CellRequest::new("test/run", arguments)).await);
        calls += 1;
        if calls % 64 == 0 {
            // Leaves the thread that makes them some of a processor, wherever this runs.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(
            started.elapsed() < Duration::from_secs(120),
            "after {calls} calls {} were ready",
            plugin.found_ready()
        );
    }
    calls
}

/// As often as makes instances ready of every plugin that may have them.
async fn call_often(plugin: &Plugin, check: impl Fn(CellResult<OperationSuccess>)) {
    for call in 0..1_000 {
        check(plugin.invoke(CellRequest::new("test/run", "{}")).await);
        if call % 100 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
}

/// Counts calls in a global and in memory, and returns what it found as one digit.
fn counts() -> Guest {
    Guest::invoke(
        "(global.set $n (i32.add (global.get $n) (i32.const 1)))
         (i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (global.get $n)))
         (i32.store8 (i32.const 8) (i32.add (i32.load (i32.const 70000)) (i32.const 48)))
         (call $ok (i32.const 8) (i32.const 1))",
    )
    .with("(global $n (mut i32) (i32.const 0))")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_serves_one_call() {
    let plugin = load(&counts()).await.unwrap();
    call_until_ready(&plugin, 2_000, "{}", |done| assert_eq!(done.result.unwrap().data, json!(1))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_serves_one_call_of_many_at_once() {
    let plugin = load(&counts()).await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let plugin = Arc::clone(&plugin);
            tokio::spawn(async move {
                call_until_ready(&plugin, 2_000, "{}", |done| assert_eq!(done.result.unwrap().data, json!(1))).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_has_its_own_context_and_receipt() {
    // Returns the run that it was called in.
    let plugin = load(&Guest::invoke("(call $ok (global.get $run) (global.get $run_len))")).await.unwrap();
    let started = Instant::now();
    let mut call = 0;
    while plugin.found_ready() < 500 {
        call += 1;
        let context = CallContext { run: format!("{call}").into(), ..CallContext::default() };
        let done = plugin.invoke(CellRequest { context, ..CellRequest::new("test/run", "{}") }).await;
        assert_eq!(done.result.unwrap().data, json!(call));
        assert_eq!((done.receipt.bytes_in, done.receipt.host_calls.total()), (2, 0));
        assert_eq!((&*done.receipt.operation, done.receipt.peak_memory), ("test/run", 2 << 16));
        if call % 64 == 0 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        assert!(started.elapsed() < Duration::from_secs(120), "{} were ready", plugin.found_ready());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_in_each() {
    // Loops when it is given arguments of more than two bytes, and grows its memory when they are more than twenty.
    let guest = Guest::invoke(
        "(if (i32.gt_u (local.get $args_len) (i32.const 20))
           (then (if (i32.lt_s (memory.grow (i32.const 100)) (i32.const 0)) (then (unreachable)))))
         (if (i32.gt_u (local.get $args_len) (i32.const 2)) (then (loop br 0)))
         (call $ok (local.get $args) (local.get $args_len))",
    );
    let ceiling = limits(r#"{"ticks": 1, "memory": "1 MiB"}"#);
    let plugin = sandbox().load(opcell_sandbox::LoadRequest { limits: ceiling, ..request(&guest) }).await.unwrap();
    for (arguments, error) in [("[1,2]", "interrupted"), (r#"["as long as this text is"]"#, "memory")] {
        for _ in 0..5 {
            call_until_ready(&plugin, plugin.found_ready() + 8, "{}", |done| assert!(done.result.is_ok())).await;
            let before = plugin.found_ready();
            let mut found = 0;
            while found == 0 {
                let done = plugin.invoke(CellRequest::new("test/run", arguments)).await;
                assert_eq!(done.result.unwrap_err().kind(), error);
                found = plugin.found_ready() - before;
                call_until_ready(&plugin, before + found + 1, "{}", |done| assert!(done.result.is_ok())).await;
            }
        }
    }
    let timeout = Some(Duration::from_millis(5));
    let done = plugin.invoke(CellRequest { timeout, ..CellRequest::new("test/run", "[1,2]") }).await;
    assert_eq!(done.result.unwrap_err().kind(), "timeout");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_is_made_of_a_plugin_that_may_look_at_clocks_and_random_numbers_before_it_is_called() {
    let reads = "(import \"wasi:clocks/monotonic-clock@0.2.0\" \"now\" (func $now (result i64)))
        (func $reads (drop (call $now))) (start $reads)";
    let wasi = "package test:wasi;
        world with-wasi {
          include opcell:plugin/operation-plugin@0.1.0;
          import wasi:clocks/monotonic-clock@0.2.0;
        }
        package wasi:clocks@0.2.0 { interface monotonic-clock { now: func() -> u64; } }";
    let plugin = load(&Guest { wasi: Some(wasi), ..Guest::default() }.with(reads)).await.unwrap();
    call_often(&plugin, |done| {
        assert!(done.result.is_ok());
        assert_eq!(done.receipt.host_calls.total(), 1, "its own");
    })
    .await;
    assert_eq!(plugin.found_ready(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_is_made_of_a_plugin_that_takes_long_before_it_is_called_and_others_are() {
    let turns = "(global $turns (mut i32) (i32.const 8000000))
        (func $waits (loop (global.set $turns (i32.sub (global.get $turns) (i32.const 1)))
          (br_if 0 (i32.gt_s (global.get $turns) (i32.const 0))))) (start $waits)";
    let sandbox = sandbox();
    let slow = sandbox.load(request(&Guest::default().with(turns))).await.unwrap();
    let quick = sandbox.load(request(&counts())).await.unwrap();
    let calls: Vec<_> = (0..32)
        .map(|_| {
            let slow = Arc::clone(&slow);
            tokio::spawn(async move {
                for _ in 0..4 {
                    assert!(slow.invoke(CellRequest::new("test/run", "{}")).await.result.is_ok());
                }
            })
        })
        .collect();
    call_until_ready(&quick, 100, "{}", |done| assert_eq!(done.result.unwrap().data, json!(1))).await;
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(slow.found_ready(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn none_is_made_where_the_host_wants_none_and_all_are_gone_with_the_plugin() {
    let none = Sandbox::new(SandboxConfig { ahead: false, ..config() }).unwrap();
    let plugin = none.load(request(&counts())).await.unwrap();
    call_often(&plugin, |done| assert_eq!(done.result.unwrap().data, json!(1))).await;
    assert_eq!(plugin.found_ready(), 0);

    // As many cells as there may be, again and again: instances that are ready take no place of theirs.
    let sandbox = Sandbox::new(SandboxConfig { cells: 4, ..config() }).unwrap();
    for _ in 0..5 {
        let plugin = sandbox.load(request(&counts())).await.unwrap();
        let calls: Vec<_> = (0..8)
            .map(|_| {
                let plugin = Arc::clone(&plugin);
                tokio::spawn(async move {
                    call_until_ready(&plugin, 50, "{}", |done| assert_eq!(done.result.unwrap().data, json!(1))).await
                })
            })
            .collect();
        for call in calls {
            call.await.unwrap();
        }
        let gone = Arc::downgrade(&plugin);
        drop(plugin);
        assert!(gone.upgrade().is_none());
    }
}
