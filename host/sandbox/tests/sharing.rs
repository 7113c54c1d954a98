//! Sandboxes over shared pools: what is there once, and what none of them has of another.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(clippy::disallowed_methods, reason = "a test makes what it looks at")]

mod common;

use common::{Guest, config, limits, request, tool_caller};
use opcell_sandbox::{
    CellError, CellRequest, CompileMode, CompileProgram, Failure, Grants, HostServices, LoadError, LoadRequest,
    PartConfig, Plugin, PluginSource, Pools, PoolsConfig, Sandbox,
};
use opcell_types::{CallContext, TouchLog};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::sync::Semaphore;

fn pools(cells: u32) -> Arc<Pools> {
    Arc::new(Pools::new(PoolsConfig { cells, ..PoolsConfig::new(config().compile) }).unwrap())
}

fn part(pools: &Arc<Pools>, cells: Option<u32>) -> Sandbox {
    Sandbox::over(Arc::clone(pools), PartConfig { cells, ..PartConfig::default() })
}

/// A host whose tool says in which order calls arrive, and answers once it is let through.
struct Gate {
    name: &'static str,
    arrived: Arc<Mutex<Vec<&'static str>>>,
    open: Arc<Semaphore>,
}

#[async_trait::async_trait]
impl HostServices for Gate {
    async fn call_tool(
        &self,
        _name: &str,
        _arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        self.arrived.lock().unwrap().push(self.name);
        self.open.acquire().await.unwrap().forget();
        Ok("null".to_owned())
    }
}

/// A plugin whose calls wait at the gate, as many at a time as its sandbox lets it.
async fn waiting(sandbox: &Sandbox) -> Arc<Plugin> {
    let guest = tool_caller().asking(&["test/run"], &[]);
    let grants = Grants { tools: ["test/run".to_owned()].into(), ..Grants::default() };
    let limits = limits(r#"{"concurrent-cells":64,"host-call-time":60000,"wall-time":60000}"#);
    sandbox.load(LoadRequest { grants, limits, ..request(&guest) }).await.unwrap()
}

struct Calls {
    arrived: Arc<Mutex<Vec<&'static str>>>,
    open: Arc<Semaphore>,
    tasks: Vec<tokio::task::JoinHandle<Result<(), CellError>>>,
}

impl Calls {
    fn new() -> Self {
        Self { arrived: Arc::default(), open: Arc::new(Semaphore::new(0)), tasks: Vec::new() }
    }

    fn begin(&mut self, name: &'static str, plugin: &Arc<Plugin>, count: usize) {
        for _ in 0..count {
            let (plugin, arrived, open) = (Arc::clone(plugin), Arc::clone(&self.arrived), Arc::clone(&self.open));
            let host = Arc::new(Gate { name, arrived, open });
            self.tasks.push(tokio::spawn(async move {
                let called = plugin.invoke(CellRequest { host, ..CellRequest::new("test/run", "{}") }).await;
                called.result.map(drop)
            }));
        }
    }

    async fn arrived(&self, count: usize) -> Vec<&'static str> {
        let arriving = async {
            while self.arrived.lock().unwrap().len() < count {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), arriving).await.expect("calls arrive");
        self.arrived.lock().unwrap().clone()
    }

    async fn end(self) {
        self.open.add_permits(self.tasks.len());
        for task in self.tasks {
            task.await.unwrap().unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sandbox_has_its_part_of_the_cells_and_no_more() {
    let pools = pools(8);
    let (greedy, modest) = (part(&pools, None), part(&pools, Some(2)));
    let (of_greedy, of_modest) = (waiting(&greedy).await, waiting(&modest).await);
    let mut calls = Calls::new();
    calls.begin("greedy", &of_greedy, 20);
    assert_eq!(calls.arrived(4).await, ["greedy"; 4], "half of the cells, where nothing is said");
    // The other one has its cells at once, although sixteen calls were there before.
    calls.begin("modest", &of_modest, 5);
    assert_eq!(calls.arrived(6).await[4..], ["modest"; 2]);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(calls.arrived(6).await.len(), 6, "two cells are free, and neither sandbox takes them");
    for (sandbox, cells, busy) in [(&greedy, 4, 4), (&modest, 2, 2)] {
        let used = sandbox.pools();
        assert_eq!(
            (used.len(), used[0].pool, used[0].cells, used[0].busy),
            (1, "shared", cells, busy),
            "its own alone"
        );
    }
    assert_eq!(pools.in_use().iter().map(|pool| pool.busy).sum::<u32>(), 6);
    calls.end().await;
    assert!(pools.in_use().iter().all(|pool| pool.busy == 0));
}

/// Waits until this number of cells of a sandbox have a place in line or a slot.
async fn lined_up(sandbox: &Sandbox, cells: u32) {
    let lining = async {
        while sandbox.pools()[0].busy < cells {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), lining).await.expect("calls line up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_one_call_of_each_other_sandbox() {
    let pools = pools(4);
    let [first, greedy, modest] = std::array::from_fn(|_| part(&pools, Some(4)));
    let (of_first, of_greedy, of_modest) = (waiting(&first).await, waiting(&greedy).await, waiting(&modest).await);
    let mut calls = Calls::new();
    calls.begin("first", &of_first, 4);
    calls.arrived(4).await;
    calls.begin("greedy", &of_greedy, 30);
    lined_up(&greedy, 4).await;
    calls.begin("modest", &of_modest, 1);
    lined_up(&modest, 1).await;
    calls.open.add_permits(1);
    assert_eq!(calls.arrived(5).await[4], "greedy", "it was there first");
    calls.open.add_permits(1);
    assert_eq!(calls.arrived(6).await[5], "modest", "it does not wait for what the other one has in line");
    calls.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_has_the_grants_limits_and_settings_of_its_own_sandbox() {
    let pools = pools(4);
    let (acme, zeta) = (part(&pools, None), part(&pools, None));
    let guest = tool_caller().asking(&["test/run"], &[]);
    let grants = Grants { tools: ["test/run".to_owned()].into(), ..Grants::default() };
    let granted = acme.load(LoadRequest { grants, ..request(&guest) }).await.unwrap();
    let denied = zeta.load(LoadRequest { limits: limits(r#"{"memory":1048576}"#), ..request(&guest) }).await.unwrap();
    assert_eq!(granted.digest(), denied.digest());
    assert_ne!(granted.limits().memory, denied.limits().memory);
    let mut calls = Calls::new();
    calls.begin("acme", &granted, 1);
    calls.arrived(1).await;
    let host = Arc::new(Gate { name: "zeta", arrived: Arc::clone(&calls.arrived), open: Arc::clone(&calls.open) });
    let called = denied.invoke(CellRequest { host, ..CellRequest::new("test/run", "{}") }).await;
    assert_eq!(called.receipt.denials.len(), 1, "{:?}", called.result);
    assert_eq!(calls.arrived(1).await, ["acme"], "the denied call reaches no service");
    calls.end().await;
}

/// Counts in its memory, and says how often it has been called there.
fn counting() -> Guest {
    let body = "(i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
        (i32.store8 (i32.const 1100) (i32.add (i32.const 48) (i32.load (i32.const 70000))))
        (call $ok (i32.const 1100) (i32.const 1))";
    Guest::invoke(body)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_of_one_sandboxes_cell_is_fresh_for_the_next() {
    // One slot, in which the cells of both run alternately.
    let pools = pools(1);
    let (acme, zeta) = (part(&pools, None), part(&pools, None));
    let (acme, zeta) = (acme.load(request(&counting())).await.unwrap(), zeta.load(request(&counting())).await.unwrap());
    for plugin in [&acme, &zeta, &acme, &acme, &zeta] {
        let called = plugin.invoke(CellRequest::new("test/run", "{}")).await.result.unwrap();
        assert_eq!(called.data, opcell_types::Value::from(1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_is_there_once_and_only_for_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("opcell-compile");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_opcell-compile"), &path).unwrap();
    let compile = CompileMode::Child(CompileProgram { path: path.clone(), args: Vec::new() });
    let pools = Arc::new(Pools::new(PoolsConfig { cells: 4, ..PoolsConfig::new(compile) }).unwrap());
    let (acme, zeta) = (part(&pools, None), part(&pools, None));
    let echo = LoadRequest::new("repo", PluginSource::Bytes(Guest::default().component().into()));
    let other = LoadRequest::new("repo", PluginSource::Bytes(counting().component().into()));
    let first = acme.load(echo.clone()).await.unwrap();
    // The same name with other bytes is other code.
    let differs = zeta.load(other).await.unwrap();
    std::fs::remove_file(path).unwrap();
    let same = zeta.load(echo.clone()).await.expect("there is no compiler any more, and no cache");
    for (plugin, data) in [(&first, "7"), (&same, "7"), (&differs, "1")] {
        let called = plugin.invoke(CellRequest::new("test/run", "7")).await.result.unwrap();
        assert_eq!(called.data.to_string(), data);
    }
    // Code that is loaded vouches for nothing: what the second sandbox requires of the bytes is asked first.
    let pinned = LoadRequest { digest: Some(differs.digest().clone()), ..echo.clone() };
    assert!(matches!(zeta.load(pinned).await, Err(LoadError::Changed { .. })));
    // Code goes with the last plugin that uses it.
    drop((first, same));
    assert!(zeta.load(echo).await.is_err(), "it would have to be compiled");
}
