//! What a cell costs beside the bare engine: `cargo run --release -p opcell-sandbox --example cell_cost -- PLUGIN.wasm ID 'ARGUMENTS'`.
//!
//! Both run the same component, with a fresh store and instance per call, from a pool of the same shape. Bare is wasmtime with nothing
//! around it: no limits, no budget, no grants, no receipt, no JSON. The two take turns, so that a busy machine slows both.

use anyhow::{Context as _, Result};
use opcell_sandbox::{CellRequest, CompileMode, LoadRequest, PluginSource, Sandbox, SandboxConfig};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, ComponentExportIndex, ComponentType, InstancePre, Lift, Linker, Lower},
};

const ROUNDS: usize = 200;
const CALLS: usize = 50;

#[derive(Clone, ComponentType, Lower)]
#[component(record)]
struct Context {
    run: String,
    step: String,
    visit: u32,
    attempt: u32,
    #[component(name = "idempotency-key")]
    idempotency_key: String,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Success {
    data: String,
    summary: Option<String>,
    details: Option<String>,
}

#[derive(ComponentType, Lift)]
#[component(record)]
struct Failure {
    reason: String,
    message: String,
    details: Option<String>,
}

/// The engine alone.
struct Bare {
    pre: InstancePre<()>,
    invoke: ComponentExportIndex,
}

impl Bare {
    fn new(component: &[u8]) -> Result<Self> {
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(64)
            .total_core_instances(512)
            .total_memories(64)
            .total_tables(256)
            .total_stacks(64)
            .max_unused_warm_slots(64)
            .linear_memory_keep_resident(64 << 10)
            .table_keep_resident(64 << 10);
        let mut config = Config::new();
        config
            .gc_support(false)
            .concurrency_support(false)
            .epoch_interruption(true)
            .native_unwind_info(false)
            .allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config).map_err(anyhow::Error::msg)?;
        let component = Component::new(&engine, component).map_err(anyhow::Error::msg)?;
        let mut linker = Linker::new(&engine);
        linker.define_unknown_imports_as_traps(&component).map_err(anyhow::Error::msg)?;
        let (_, operations) = component
            .get_export(None, "opcell:plugin/operations@0.1.0")
            .context("the component exports no operations")?;
        let invoke = component.get_export_index(Some(&operations), "invoke").context("no `invoke`")?;
        let pre = linker.instantiate_pre(&component).map_err(anyhow::Error::msg)?;
        Ok(Self { pre, invoke })
    }

    async fn call(&self, id: &str, arguments: &str) -> wasmtime::Result<usize> {
        let mut store = Store::new(self.pre.engine(), ());
        store.set_epoch_deadline(1_000_000);
        let instance = self.pre.instantiate_async(&mut store).await?;
        let invoke =
            instance.get_typed_func::<(&str, &str, Context), (Result<Success, Failure>,)>(&mut store, &self.invoke)?;
        let context =
            Context { run: String::new(), step: String::new(), visit: 1, attempt: 1, idempotency_key: String::new() };
        let (answer,) = invoke.call_async(&mut store, (id, arguments, context)).await?;
        Ok(match answer {
            Ok(success) => {
                success.data.len() + success.summary.map_or(0, |s| s.len()) + success.details.map_or(0, |s| s.len())
            }
            Err(failure) => failure.reason.len() + failure.message.len() + failure.details.map_or(0, |s| s.len()),
        })
    }
}

fn report(name: &str, times: &mut [Duration]) -> f64 {
    times.sort_unstable();
    let at = |share: f64| times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e6);
    println!("{name:<28} p50 {:>8.2} us   p99 {:>8.2} us", at(0.5), at(0.99));
    at(0.5)
}

#[tokio::main]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path: PathBuf = arguments.next().context("which component?")?.into();
    let id = arguments.next().context("which operation?")?;
    let input = arguments.next().context("which arguments?")?;
    let bytes = std::fs::read(&path)?;
    let bare = Bare::new(&bytes)?;
    let directory = tempfile::tempdir()?;
    let cache = Some(directory.path().join("cache"));
    let sandbox = Sandbox::new(SandboxConfig { cache, ..SandboxConfig::new(CompileMode::TrustedInProcess) })?;
    let source = PluginSource::Bytes(bytes.into());
    for temperature in ["cold", "warm"] {
        let started = Instant::now();
        sandbox.load(LoadRequest::new("measured", source.clone())).await?;
        println!("{temperature} load {:>19.2} ms", started.elapsed().as_secs_f64() * 1e3);
    }
    let plugin = sandbox.load(LoadRequest::new("measured", source)).await?;
    let first = plugin.invoke(CellRequest::new(&id, &input)).await;
    first.result?;
    println!(
        "{} {id}, {} bytes of arguments, {} KiB of memory",
        path.display(),
        input.len(),
        first.receipt.peak_memory >> 10
    );
    let (mut bare_times, mut cell_times) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for _ in 0..CALLS {
            let started = Instant::now();
            bare.call(&id, &input).await.map_err(anyhow::Error::msg)?;
            bare_times.push(started.elapsed());
        }
        for _ in 0..CALLS {
            let started = Instant::now();
            let done = plugin.invoke(CellRequest::new(&id, &input)).await;
            cell_times.push(started.elapsed());
            done.result?;
        }
    }
    let bare = report("bare wasmtime", &mut bare_times);
    let cell = report("cell", &mut cell_times);
    println!("{:<28} {:>12.2}", "cell / bare", cell / bare);
    Ok(())
}
