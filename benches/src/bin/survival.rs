//! One honest plugin among sixteen hostile ones: `cargo run --release -p opcell-benches --bin survival -- PLUGIN.wasm
//! ID ARGUMENTS [SECONDS]`.
//!
//! First the honest plugin alone for a sixth of the time, then beside the attackers, then alone again. Prints its
//! latencies, its failures (there must be none: exit 1 otherwise) and the process's resident memory before, at its peak
//! and at the end.

use anyhow::{Context as _, Result};
use opcell_sandbox::{CellRequest, CompileMode, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig};
use opcell_selftest::{Case, Stage};
use std::{
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

const ATTACKERS: usize = 16;
/// Between two calls of the honest plugin, so that its latency and not its throughput is measured.
const PAUSE: Duration = Duration::from_millis(1);

/// The experience of the honest plugin.
#[derive(Default)]
struct Honest {
    times: Vec<Duration>,
    failures: Vec<String>,
}

impl Honest {
    /// Calls that come from outside of the runtime, as requests do: its timers go by milliseconds, which is more than
    /// what is measured. A call begins when it is due, and waiting for a thread of the runtime is waiting too.
    async fn live(plugin: &Arc<Plugin>, id: &str, arguments: &str, time: Duration) -> Result<Self> {
        let (plugin, id, arguments) = (Arc::clone(plugin), id.to_owned(), arguments.to_owned());
        let runtime = tokio::runtime::Handle::current();
        tokio::task::spawn_blocking(move || {
            let mut honest = Self::default();
            let end = Instant::now() + time;
            while Instant::now() < end {
                std::thread::sleep(PAUSE);
                let due = Instant::now();
                let (plugin, id, arguments) = (Arc::clone(&plugin), id.clone(), arguments.clone());
                let call = async move {
                    let cell = plugin.invoke(CellRequest::new(&id, &arguments)).await;
                    (due.elapsed(), cell.result.err())
                };
                let (took, failure) = runtime.block_on(runtime.spawn(call))?;
                honest.times.push(took);
                honest.failures.extend(failure.map(|error| error.to_string()));
            }
            honest.times.sort_unstable();
            Ok(honest)
        })
        .await?
    }

    fn report(&self, when: &str) {
        let at = |share: f64| {
            let index = (self.times.len() as f64 * share) as usize;
            self.times.get(index).map_or(0.0, |time| time.as_secs_f64() * 1e3)
        };
        println!(
            "{when:<16} {:>7} calls  p50 {:>8.3} ms  p99 {:>8.3} ms  max {:>8.3} ms  {} failures",
            self.times.len(),
            at(0.5),
            at(0.99),
            at(1.0 - f64::EPSILON),
            self.failures.len()
        );
        for failure in self.failures.iter().take(3) {
            println!("  {failure}");
        }
    }
}

fn resident_mib() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or(0.0) * 4096.0 / f64::from(1 << 20)
}

/// Sixteen plugins from the cases that load and misbehave when they are called.
async fn attackers(sandbox: &Sandbox) -> Result<Vec<Arc<Plugin>>> {
    let cases: Vec<Case> = Case::all()?
        .into_iter()
        .filter(|case| {
            case.at == Stage::Invoke && !case.judge && case.grant_files.is_none() && case.grant_tools.is_empty()
        })
        .collect();
    let mut plugins = Vec::new();
    for case in cases.iter().cycle().take(ATTACKERS) {
        let source = PluginSource::Bytes(case.component.clone().into());
        let request = LoadRequest { limits: case.limits.clone(), ..LoadRequest::new(&case.name, source) };
        plugins.push(sandbox.load(request).await.with_context(|| case.name.clone())?);
    }
    Ok(plugins)
}

fn main() -> Result<ExitCode> {
    opcell::host::runtime()?.block_on(survive())
}

async fn survive() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().context("which component?")?;
    let id = arguments.next().context("which operation?")?;
    let input = arguments.next().context("which arguments?")?;
    let time = Duration::from_secs(arguments.next().map_or(Ok(120), |text| text.parse())?);

    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess))?;
    let honest = sandbox.load(LoadRequest::new("honest", PluginSource::File(path.into()))).await?;
    let attackers = attackers(&sandbox).await?;

    let alone = Honest::live(&honest, &id, &input, time / 6).await?;
    let before = resident_mib();
    let stop = Arc::new(AtomicBool::new(false));
    let attacks = Arc::new(AtomicU64::new(0));
    let running: Vec<_> = attackers
        .into_iter()
        .map(|plugin| {
            let (stop, attacks) = (stop.clone(), attacks.clone());
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let _ = plugin.invoke(CellRequest::new("hostile/run", "{}")).await;
                    attacks.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();
    let peak = tokio::spawn({
        let stop = stop.clone();
        async move {
            let mut peak = 0.0_f64;
            while !stop.load(Ordering::Relaxed) {
                peak = peak.max(resident_mib());
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            peak
        }
    });
    let beside = Honest::live(&honest, &id, &input, time).await?;
    stop.store(true, Ordering::Relaxed);
    for attacker in running {
        attacker.await?;
    }
    let peak = peak.await?;
    let after = Honest::live(&honest, &id, &input, time / 6).await?;

    alone.report("alone");
    beside.report("beside attackers");
    after.report("alone again");
    println!(
        "{} attacks by {ATTACKERS} plugins; resident memory {before:.1} MiB before, {peak:.1} MiB at its peak, {:.1} MiB at the end",
        attacks.load(Ordering::Relaxed),
        resident_mib()
    );
    let failed = [&alone, &beside, &after].iter().any(|honest| !honest.failures.is_empty());
    Ok(if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
