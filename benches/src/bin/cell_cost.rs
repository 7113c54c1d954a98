//! What a cell costs beside the bare engine: `cargo run --release -p opcell-benches --bin cell_cost -- PLUGIN.wasm ID 'ARGUMENTS'`.
//!
//! Both run the same component, with a fresh store and instance per call, from a pool of the same shape. Bare is wasmtime with nothing
//! around it: no limits, no budget, no grants, no receipt, no JSON. The two take turns, so that a busy machine slows both.

use anyhow::{Context as _, Result};
use opcell_benches::bare::Bare;
use opcell_sandbox::{CellRequest, CompileMode, LoadRequest, PluginSource, Sandbox, SandboxConfig};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

const ROUNDS: usize = 200;
const CALLS: usize = 50;

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
