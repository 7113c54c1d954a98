//! Fairness between plugins: what is handed over between threads, and when.
//!
//! A process has one set of workers and one count of hand-overs, so these tests have a binary of their own, and run one
//! after the other.
#![allow(clippy::unwrap_used, reason = "a failed test")]

mod common;

use common::{Guest, limits, sandbox};
use opcell_sandbox::{CellRequest, HandOvers, LoadRequest, Plugin, PluginSource, Sandbox};
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};
use tokio_util::sync::CancellationToken;

/// Iterations of a cell that ends within its slice, but is too long for its plugin to count as one of short cells: some
/// 150 µs.
const SHORT: u32 = 200_000;

/// Iterations of a cell that outlives its slice on any machine: some 10 ms.
const LONG: u32 = 20_000_000;

/// Calls of each plugin: together, they use several times the time after which its cells can be handed over.
const CALLS: usize = 400;

fn one_at_a_time() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A component that counts to a number, and ends.
fn counting(iterations: u32) -> Vec<u8> {
    let body = format!(
        "(loop $again (local.set $i (i32.add (local.get $i) (i32.const 1)))
           (br_if $again (i32.lt_u (local.get $i) (i32.const {iterations}))))
         (call $ok (local.get $args) (local.get $args_len))"
    );
    Guest::invoke(&body).component()
}

async fn load(sandbox: &Sandbox, name: &str, component: Vec<u8>) -> Arc<Plugin> {
    let limits = limits(r#"{"ticks": 100000, "wall-time": 600000}"#);
    let request = LoadRequest { limits, ..LoadRequest::new(name, PluginSource::Bytes(component.into())) };
    sandbox.load(request).await.unwrap()
}

async fn plugins(count: usize, iterations: u32) -> Vec<Arc<Plugin>> {
    let (sandbox, component) = (sandbox(), counting(iterations));
    let mut plugins = Vec::new();
    for number in 0..count {
        plugins.push(load(&sandbox, &format!("plugin-{number}"), component.clone()).await);
    }
    plugins
}

async fn call(plugin: &Plugin) {
    plugin.invoke(CellRequest::new("test/run", "{}")).await.result.unwrap();
}

async fn in_turns(plugins: &[Arc<Plugin>]) {
    for plugin in plugins.iter().cycle().take(CALLS * plugins.len()) {
        call(plugin).await;
    }
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

/// Cells that a busy machine interrupts may outlive their slice, and continue among the workers. None begins there,
/// unless the machine itself stood still meanwhile: a task that is late counts as one that waits.
#[test]
fn plugins_called_in_turns_from_one_thread_are_not_handed_over_while_nothing_waits() {
    let _one = one_at_a_time();
    let contended = |run: &dyn Fn()| {
        let before = HandOvers::so_far().contended;
        run();
        HandOvers::so_far().contended - before
    };
    for count in [2, 8] {
        let outside = || runtime(2).block_on(async { in_turns(&plugins(count, SHORT).await).await });
        let least = (0..5).map(|_| contended(&outside)).find(|contended| *contended == 0);
        assert_eq!(least, Some(0), "{count} plugins, called from outside of the runtime");
        let inside = || {
            let task = async move { in_turns(&plugins(count, SHORT).await).await };
            runtime(2).block_on(async { tokio::spawn(task).await.unwrap() });
        };
        let least = (0..5).map(|_| contended(&inside)).find(|contended| *contended == 0);
        assert_eq!(least, Some(0), "{count} plugins, called by a task of the runtime");
    }
}

/// Hand-overs for either reason.
fn all() -> u64 {
    let HandOvers { contended, outlived } = HandOvers::so_far();
    contended + outlived
}

/// Cells of another plugin that end only when they are cancelled: one more than there are workers, so that one always
/// waits.
struct Endless {
    cancel: Arc<CancellationToken>,
    cells: Vec<tokio::task::JoinHandle<()>>,
}

impl Endless {
    async fn start() -> Self {
        let plugin = load(&sandbox(), "endless", Guest::invoke("(loop br 0) (i32.const 0)").component()).await;
        let (cancel, before) = (Arc::new(CancellationToken::new()), all());
        let count = thread::available_parallelism().map_or(2, usize::from) + 1;
        let cell = || {
            let (plugin, cancel) = (Arc::clone(&plugin), Arc::clone(&cancel));
            tokio::spawn(async move {
                let request = CellRequest { cancel, ..CellRequest::new("test/run", "{}") };
                plugin.invoke(request).await.result.unwrap_err();
            })
        };
        let cells: Vec<_> = (0..count).map(|_| cell()).collect();
        while all() < before + count as u64 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Self { cancel, cells }
    }

    async fn end(self) {
        self.cancel.cancel();
        for cell in self.cells {
            cell.await.unwrap();
        }
    }
}

#[test]
fn a_plugin_whose_cells_outlive_their_slice_begins_among_the_workers_while_cells_wait_for_them() {
    let _one = one_at_a_time();
    runtime(2).block_on(async {
        let long = plugins(1, LONG).await.remove(0);
        let alone = HandOvers::so_far();
        for _ in 0..20 {
            call(&long).await;
        }
        let after = HandOvers::so_far();
        assert_eq!(after.contended, alone.contended, "nothing waited");
        assert!(after.outlived > alone.outlived, "its cells are too short for this test");

        let endless = Endless::start().await;
        let (before, mut calls) = (HandOvers::so_far().contended, 0);
        while HandOvers::so_far().contended == before {
            call(&long).await;
            calls += 1;
            assert!(calls < 200, "its cells begin on their caller's thread although cells wait");
        }
        endless.end().await;
    });
}
