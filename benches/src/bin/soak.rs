//! A day's work in minutes: `cargo run --release -p opcell-benches --bin soak -- ECHO.wasm [SECONDS]`, 600 seconds
//! unless given.
//!
//! Runs workflows of cells, wide `each` steps, hostile cells and plugins that are loaded anew, one after the other, in
//! a journal on disk that keeps the last hundred runs. Prints the process's resident memory twenty times, and ends with
//! 1 when it is not flat: when its median in the last quarter of the time is more than 5 % and 4 MiB above that in the
//! second. The first quarter warms up.

use anyhow::{Context as _, Result, ensure};
use opcell::{Config, Host, Workflow};
use opcell_benches::work;
use opcell_engine::Status;
use opcell_journal::{Journal as _, Retention, SqliteJournal};
use opcell_sandbox::{
    CellRequest, CompileMode, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig, cache::CachePlace,
};
use opcell_selftest::{Case, Stage, resident_kib};
use opcell_types::Value;
use std::{
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

const LINES: u32 = 20;
const RETAINED_RUNS: u64 = 100;
const ELEMENTS: i64 = 200;
/// The memory that the last quarter may have beyond the second one: a part of it, and this many KiB.
const SLACK: (f64, f64) = (0.05, 4096.0);

struct Soak {
    host: Host,
    journal: SqliteJournal,
    chain: Workflow,
    each: Workflow,
    sandbox: Sandbox,
    hostile: Vec<Arc<Plugin>>,
    echo: PathBuf,
    runs: u64,
}

impl Soak {
    async fn new(folder: &Path, echo: &Path) -> Result<Self> {
        let project = work::project(folder, echo)?;
        let journal = SqliteJournal::open(folder.join("runs.db"))?;
        let host = Host::builder()
            .config(Config::load(&project)?)
            .compile(CompileMode::TrustedInProcess)
            .journal(journal.clone())
            .build()
            .await?;
        let ir = |text: String| -> Result<Workflow> { Ok(Workflow::from_ir(Arc::new(serde_json::from_str(&text)?))) };
        let cache = Some(CachePlace { directory: folder.join("components"), keys: folder.join("keys") });
        let sandbox = Sandbox::new(SandboxConfig { cache, ..SandboxConfig::new(CompileMode::TrustedInProcess) })?;
        let mut hostile = Vec::new();
        for case in Case::all()?.into_iter().filter(|case| {
            case.at == Stage::Invoke && !case.judge && case.grant_files.is_none() && case.grant_tools.is_empty()
        }) {
            let source = PluginSource::Bytes(case.component.clone().into());
            let request = LoadRequest { limits: case.limits.clone(), ..LoadRequest::new(&case.name, source) };
            hostile.push(sandbox.load(request).await.with_context(|| case.name.clone())?);
        }
        ensure!(!hostile.is_empty(), "there are no hostile cases to run");
        Ok(Self {
            host,
            journal,
            chain: ir(work::chain(20, "echo/echo"))?,
            each: ir(work::each("echo/echo"))?,
            sandbox,
            hostile,
            echo: echo.to_owned(),
            runs: 0,
        })
    }

    async fn run(&mut self, workflow: &Workflow, input: Value) -> Result<()> {
        let outcome = self.host.start(workflow, input).await?.finished().await?;
        ensure!(outcome.status == Status::Completed, "a run ended as {:?}: {:?}", outcome.status, outcome.message);
        self.runs += 1;
        Ok(())
    }

    /// Some of everything.
    async fn round(&mut self, at: usize) -> Result<()> {
        let (chain, each) = (self.chain.clone(), self.each.clone());
        for _ in 0..10 {
            self.run(&chain, Value::object::<&str>([])).await?;
        }
        let xs = Value::array((0..ELEMENTS).map(Value::from));
        self.run(&each, Value::object([("xs", xs)])).await?;
        if let Some(plugin) = self.hostile.get(at % self.hostile.len()) {
            // How it ends is the hostile suite's business; here it has to leave nothing behind.
            let _ = plugin.invoke(CellRequest::new("hostile/run", "{}")).await;
        }
        let plugin = self.sandbox.load(LoadRequest::new("anew", PluginSource::File(self.echo.clone()))).await?;
        plugin.invoke(CellRequest::new("echo/echo", r#"{"n":1}"#)).await.result?;
        self.journal.retain(Retention { keep: Some(RETAINED_RUNS), ended_after: None }).await?;
        Ok(())
    }
}

fn median(kib: &[u64]) -> f64 {
    let mut sorted = kib.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map_or(0.0, |middle| *middle as f64)
}

/// Medians of the second and the last quarter, and whether the one allows the other.
fn flat(samples: &[u64]) -> (f64, f64, bool) {
    let quarter = samples.len() / 4;
    let second = median(samples.get(quarter..2 * quarter).unwrap_or_default());
    let last = median(samples.get(3 * quarter..).unwrap_or_default());
    (second, last, last <= second * (1.0 + SLACK.0) + SLACK.1)
}

fn main() -> Result<ExitCode> {
    opcell::host::runtime()?.block_on(soak())
}

async fn soak() -> Result<ExitCode> {
    let mut arguments = std::env::args().skip(1);
    let echo = PathBuf::from(arguments.next().context("which echo component?")?);
    let time = Duration::from_secs(arguments.next().map_or(Ok(600), |text| text.parse())?);
    let folder = tempfile::tempdir()?;
    let mut soak = Soak::new(folder.path(), &echo).await?;
    let started = Instant::now();
    let (mut samples, mut printed) = (Vec::new(), 0);
    while started.elapsed() < time || samples.len() < 8 {
        soak.round(samples.len()).await?;
        samples.push(resident_kib());
        if started.elapsed() >= time * printed / LINES {
            printed += 1;
            let mib = samples.last().map_or(0, |kib| kib >> 10);
            println!("{:>6.0} s  {:>8} runs  {mib:>6} MiB", started.elapsed().as_secs_f64(), soak.runs);
        }
    }
    let (second, last, is_flat) = flat(&samples);
    let verdict = if is_flat { "flat" } else { "NOT FLAT" };
    println!(
        "{} runs in {:.0} s; medians of {:.1} MiB in the second quarter and {:.1} MiB in the last: {verdict}",
        soak.runs,
        started.elapsed().as_secs_f64(),
        second / 1024.0,
        last / 1024.0
    );
    Ok(if is_flat { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_grows_is_not_flat_and_what_warms_up_is() {
        let growing: Vec<u64> = (0..100).map(|at| 50_000 + at * 500).collect();
        let warming: Vec<u64> = (0..100).map(|at| 50_000 + at.min(20) * 500).collect();
        assert_eq!((flat(&growing).2, flat(&warming).2), (false, true));
    }
}
