//! The parts of a cell's time, and its other costs: loading, host calls, memory, throughput.

use super::{
    Bench, Guest, Peer,
    guest::native_echo,
    peer, resident_kib,
    sample::{micros, percentile, rounded},
};
use anyhow::{Context as _, Result, anyhow};
use async_trait::async_trait;
use futures_util::{FutureExt as _, future::BoxFuture};
use opcell_sandbox::{CellRequest, Grants, HostServices, LimitRequest, LoadRequest, PluginSource, Sandbox, bare::Bare};
use opcell_selftest::Case;
use opcell_types::{CallContext, Failure, TouchLog};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Calls of the host in one call of the built-in guest's `echo/log`.
const HOST_CALLS: f64 = 100.0;
const SAMPLES: usize = 400;
/// As many as the small pool has slots, less some for what else runs.
const WAITING_CELLS: u64 = 48;
const LOADED_PLUGINS: u64 = 16;

/// Medians, unless a name says otherwise.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Figures {
    /// From bytes to a plugin with nothing cached, its compilation in a process of its own included.
    pub cold_compile_ms: f64,
    /// The same with its native code in the cache.
    pub warm_load_ms: f64,
    /// The engine's part of a call, by phase; absent where the operation cannot run without a host.
    pub phases: Option<Phases>,
    /// One call of `log` by a guest.
    pub host_call_ns: f64,
    /// Resident memory that each cell adds which waits for its host.
    pub kib_per_waiting_cell: u64,
    /// Resident memory that cells which wait for their host add together, by their number.
    pub memory_by_cells: Vec<WaitingCells>,
    /// Resident memory that each further loaded plugin adds.
    pub kib_per_loaded_plugin: u64,
    /// Cells per second.
    pub throughput: Throughput,
}

/// Cells that wait at once.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct WaitingCells {
    /// The number of cells.
    pub cells: u64,
    /// The growth of the process since there were none.
    pub kib: u64,
}

/// Cells of one plugin on several threads.
#[derive(Debug, Clone, Copy, Serialize, schemars::JsonSchema)]
pub struct Threads {
    /// The number of threads that call.
    pub threads: usize,
    /// All together.
    pub cells_per_second: f64,
}

/// Of the bare engine, in microseconds.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Phases {
    /// Store and instance.
    pub instantiate_us: f64,
    /// The call, arguments and result copied.
    pub call_us: f64,
    /// Dropping the store.
    pub drop_us: f64,
}

/// Cells of one plugin after each other on every thread.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Throughput {
    /// Cores used.
    pub cores: usize,
    /// With one thread.
    pub cells_per_second_one_core: f64,
    /// With a thread per core.
    pub cells_per_second_all_cores: f64,
    /// With one thread, and twice as many each time, up to twice the cores.
    pub by_threads: Vec<Threads>,
    /// The same of the bare engine: how many times as many instances all cores make as one; absent where the operation
    /// cannot run without a host.
    pub bare_all_cores_to_one: Option<f64>,
    /// The same of the native function, which shares nothing: what the machine gives.
    pub native_all_cores_to_one: f64,
    /// Calls per second of what runs in other processes; those of this process are above.
    pub others: Vec<Rate>,
}

/// Calls per second of one peer.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Rate {
    /// The peer.
    pub name: &'static str,
    /// With one thread that calls.
    pub per_second_one_core: f64,
    /// With a thread per core, each with a process of its own where the peer keeps one.
    pub per_second_all_cores: f64,
}

/// Makes a peer for these arguments.
type Make = fn(&Arc<str>) -> Result<Peer>;

/// The peers in other processes.
const OTHERS: [(&str, Make); 4] = [
    ("process", peer::process),
    ("pipe", |arguments| peer::pipe(arguments)),
    ("node-worker", |arguments| peer::node_worker(arguments)),
    ("node-warm", |arguments| peer::node_warm(arguments)),
];

/// A peer that is missing here has no rate; the report says why it is missing.
async fn others(cores: usize, arguments: &Arc<str>) -> Result<Vec<Rate>> {
    let mut rates = Vec::new();
    for (name, make) in OTHERS {
        if make(arguments).is_err() {
            continue;
        }
        let mut of = [0.0; 2];
        for (threads, rate) in [1, cores].into_iter().zip(&mut of) {
            let arguments = Arc::clone(arguments);
            *rate = on_threads(threads, move |stop| {
                let (arguments, stop) = (Arc::clone(&arguments), Arc::clone(stop));
                async move {
                    let (mut peer, mut times) = (make(&arguments)?, Vec::new());
                    while !stop.load(Ordering::Relaxed) {
                        peer.turn(1, &mut times).await?;
                    }
                    Ok(times.len() as u64)
                }
            })
            .await?
            .round();
        }
        let [per_second_one_core, per_second_all_cores] = of;
        rates.push(Rate { name, per_second_one_core, per_second_all_cores });
    }
    Ok(rates)
}

pub(super) async fn measure(bench: &Bench, progress: &(dyn Fn(&str) + Sync)) -> Result<Figures> {
    let Guest { operation, arguments, .. } = bench.guest();
    progress("the phases of a call, host calls");
    let phases = match &bench.bare {
        Some(bare) => Some(phases(bare, operation, arguments).await?),
        None => None,
    };
    let host_call_ns = host_call(bench.sandbox()).await?;
    progress("memory of cells and plugins");
    let memory_by_cells = waiting_cells(bench.sandbox()).await?;
    let kib_per_waiting_cell = memory_by_cells.last().map_or(0, |all| all.kib / all.cells);
    let kib_per_loaded_plugin = loaded_plugins(bench.sandbox(), bench.guest()).await?;
    progress("cells per second on one core and on all");
    let throughput = throughput(bench).await?;
    let millis = |time: Duration| rounded(time.as_secs_f64() * 1e3);
    Ok(Figures {
        cold_compile_ms: millis(bench.cold_load),
        warm_load_ms: millis(bench.warm_load),
        phases,
        host_call_ns,
        kib_per_waiting_cell,
        memory_by_cells,
        kib_per_loaded_plugin,
        throughput,
    })
}

pub(super) fn median_us(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    let nanos: Vec<u64> = times.iter().map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)).collect();
    micros(percentile(&nanos, 0.5))
}

async fn phases(bare: &Bare, id: &str, arguments: &str) -> Result<Phases> {
    let mut all = Vec::with_capacity(SAMPLES);
    for _ in 0..SAMPLES {
        all.push(bare.phases(id, arguments).await.map_err(|error| anyhow!(error))?);
    }
    Ok(Phases {
        instantiate_us: median_us(all.iter().map(|phases| phases.instantiate).collect()),
        call_us: median_us(all.iter().map(|phases| phases.call).collect()),
        drop_us: median_us(all.iter().map(|phases| phases.drop).collect()),
    })
}

/// A cell that calls its host a hundred times against one that does not; the two alternate.
async fn host_call(sandbox: &Sandbox) -> Result<f64> {
    let guest = Guest::built_in()?;
    let plugin = sandbox.load(LoadRequest::new("host-calls", PluginSource::Bytes(guest.component))).await?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        for (id, times) in [("echo/log", &mut with), ("echo/echo", &mut without)] {
            let started = Instant::now();
            plugin.invoke(CellRequest::new(id, "{}")).await.result?;
            times.push(started.elapsed());
        }
    }
    Ok(((median_us(with) - median_us(without)) * 1e3 / HOST_CALLS).max(0.0).round())
}

/// A tool that answers on request.
struct Gate {
    waiting: AtomicU64,
    open: tokio::sync::Notify,
}

#[async_trait]
impl HostServices for Gate {
    async fn call_tool(
        &self,
        _name: &str,
        _arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        let opened = self.open.notified();
        self.waiting.fetch_add(1, Ordering::Relaxed);
        opened.await;
        Ok("null".to_owned())
    }
}

async fn waiting_cells(sandbox: &Sandbox) -> Result<Vec<WaitingCells>> {
    let case =
        Case::all()?.into_iter().find(|case| case.name == "sleeping-host-call").context("no guest that waits")?;
    let grants = Grants { tools: case.grant_tools.iter().cloned().collect(), ..Grants::default() };
    let limits = LimitRequest { concurrent_cells: Some(WAITING_CELLS), ..LimitRequest::default() };
    let source = PluginSource::Bytes(case.component.into());
    let plugin = sandbox.load(LoadRequest { grants, limits, ..LoadRequest::new("waiting", source) }).await?;
    let gate = Arc::new(Gate { waiting: AtomicU64::new(0), open: tokio::sync::Notify::new() });
    let before = resident_kib();
    let (mut waiting, mut grown) = (Vec::new(), Vec::new());
    for cells in [1, 8, 16, 32, WAITING_CELLS] {
        while (waiting.len() as u64) < cells {
            let (plugin, host) = (Arc::clone(&plugin), Arc::clone(&gate));
            waiting.push(tokio::spawn(async move {
                plugin.invoke(CellRequest { host, ..CellRequest::new("hostile/run", "{}") }).await.result.map(drop)
            }));
        }
        let deadline = Instant::now() + Duration::from_secs(5);
        while gate.waiting.load(Ordering::Relaxed) < cells && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        grown.push(WaitingCells { cells, kib: resident_kib().saturating_sub(before) });
    }
    gate.open.notify_waiters();
    for cell in waiting {
        cell.await??;
    }
    Ok(grown)
}

async fn loaded_plugins(sandbox: &Sandbox, guest: &Guest) -> Result<u64> {
    let mut plugins = Vec::new();
    let mut before = 0;
    for at in 0..=LOADED_PLUGINS {
        let (name, grants) = (format!("copy-{at}"), Grants::default());
        plugins.push(sandbox.load(LoadRequest { name, grants, ..guest.load_request() }).await?);
        if at == 0 {
            before = resident_kib();
        }
    }
    Ok(resident_kib().saturating_sub(before) / LOADED_PLUGINS)
}

/// One call of what is measured, from one of several threads.
type Work = Arc<dyn Fn() -> BoxFuture<'static, Result<()>> + Send + Sync>;

async fn throughput(bench: &Bench) -> Result<Throughput> {
    let (id, arguments): (Arc<str>, Arc<str>) =
        (bench.guest().operation.as_str().into(), bench.guest().arguments.as_str().into());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let cell: Work = {
        let (plugin, id, arguments) = (Arc::clone(bench.plugin()), id.clone(), arguments.clone());
        Arc::new(move || {
            let (plugin, id, arguments) = (plugin.clone(), id.clone(), arguments.clone());
            async move { Ok(plugin.invoke(CellRequest::new(&id, &arguments)).await.result.map(drop)?) }.boxed()
        })
    };
    let (one, all) = rates(cores, Arc::clone(&cell)).await?;
    let mut by_threads = vec![Threads { threads: 1, cells_per_second: one.round() }];
    for threads in [2, 4, 8, 16, 32, 64, 128].into_iter().take_while(|threads| *threads <= 2 * cores) {
        by_threads.push(Threads { threads, cells_per_second: rate(&cell, threads).await?.round() });
    }
    let bare = match &bench.bare {
        Some(bare) => {
            let (bare, id, arguments) = (Arc::clone(bare), id.clone(), arguments.clone());
            let work: Work = Arc::new(move || {
                let (bare, id, arguments) = (bare.clone(), id.clone(), arguments.clone());
                async move { bare.call(&id, &arguments).await.map(drop).map_err(|error| anyhow!(error)) }.boxed()
            });
            let (one, all) = rates(cores, work).await?;
            Some(rounded(all / one))
        }
        None => None,
    };
    let others = others(cores, &arguments).await?;
    let native: Work = Arc::new(move || {
        let arguments = arguments.clone();
        async move { Ok(native_echo(&arguments).map(drop)?) }.boxed()
    });
    let (native_one, native_all) = rates(cores, native).await?;
    Ok(Throughput {
        cores,
        cells_per_second_one_core: one.round(),
        cells_per_second_all_cores: all.round(),
        bare_all_cores_to_one: bare,
        by_threads,
        native_all_cores_to_one: rounded(native_all / native_one),
        others,
    })
}

/// Calls per second with one thread and with one per core.
async fn rates(cores: usize, work: Work) -> Result<(f64, f64)> {
    let (mut one, mut all) = (0.0_f64, 0.0_f64);
    // In turns, and the best of each: whatever else runs can only take away.
    for _ in 0..4 {
        one = one.max(rate(&work, 1).await?);
        all = all.max(rate(&work, cores).await?);
    }
    Ok((one, all))
}

async fn rate(work: &Work, threads: usize) -> Result<f64> {
    let work = Arc::clone(work);
    on_threads(threads, move |stop| {
        let (work, stop) = (Arc::clone(&work), Arc::clone(stop));
        async move {
            let mut calls = 0;
            while !stop.load(Ordering::Relaxed) {
                work().await?;
                calls += 1;
            }
            Ok(calls)
        }
    })
    .await
}

/// Calls per second of threads that each make calls, and count them, until they are told to stop.
async fn on_threads<F: Future<Output = Result<u64>>>(
    threads: usize,
    calls: impl Fn(&Arc<AtomicBool>) -> F + Send + Sync + 'static,
) -> Result<f64> {
    let (stop, calls) = (Arc::new(AtomicBool::new(false)), Arc::new(calls));
    let started = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let (calls, stop) = (Arc::clone(&calls), Arc::clone(&stop));
            std::thread::spawn(move || -> Result<u64> {
                tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(calls(&stop))
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    stop.store(true, Ordering::Relaxed);
    let (mut calls, mut failed) = (0, None);
    for worker in workers {
        match worker.join().map_err(|_| anyhow!("a measuring thread panicked"))? {
            Ok(done) => calls += done,
            Err(error) => failed = Some(error),
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    failed.map_or(Ok(calls as f64 / seconds), Err)
}
