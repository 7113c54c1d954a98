//! Several alternating plugins beside one alone: the cost of fairness while nothing waits.

use super::{Bound, Target, median};
use anyhow::{Result, anyhow};
use opcell_sandbox::{CellRequest, CompileMode, HandOvers, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig};
use std::{
    path::Path,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tokio::runtime::Handle;

/// Calls of each thread in one round.
const CALLS: usize = 2_000;

/// Rounds, in which all rows alternate.
const ROUNDS: usize = 25;

/// The plugins, the threads, and the figure.
const ROWS: [(usize, usize, &str); 4] = [
    (2, 1, "two alternating plugins / one alone, one thread"),
    (8, 1, "eight alternating plugins / one alone, one thread"),
    (2, 2, "two alternating plugins / one alone, two threads"),
    (8, 2, "eight alternating plugins / one alone, two threads"),
];

/// Returns the time of a call of one plugin among several, relative to one alone, and the 99th percentile of a call.
///
/// # Errors
/// When a plugin cannot be loaded or called.
pub async fn in_turns(echo: &Path) -> Result<Vec<Target>> {
    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess))?;
    let bytes: Arc<[u8]> = std::fs::read(echo)?.into();
    let mut plugins = Vec::new();
    for number in 0..8 {
        let source = PluginSource::Bytes(Arc::clone(&bytes));
        plugins.push(sandbox.load(LoadRequest::new(format!("echo-{number}"), source)).await?);
    }
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || measured(&runtime, &plugins)).await?
}

/// The times of calls, and the cells that began among the workers meanwhile.
#[derive(Default, Clone)]
struct Calls {
    times: Vec<Duration>,
    handed_over: u64,
}

fn measured(runtime: &Handle, plugins: &[Arc<Plugin>]) -> Result<Vec<Target>> {
    let mut alone = [Calls::default(), Calls::default()];
    let mut rows = ROWS.map(|row| (row, Calls::default()));
    for _ in 0..ROUNDS {
        for (threads, calls) in (1..).zip(&mut alone) {
            round(runtime, plugins.get(..1).unwrap_or_default(), threads, calls)?;
        }
        for ((count, threads, _), calls) in &mut rows {
            round(runtime, plugins.get(..*count).unwrap_or_default(), *threads, calls)?;
        }
    }
    let p99 = p99(&alone[0].times);
    let [one, two] = alone.map(|calls| median(calls.times));
    let row = |((_, threads, figure), calls): ((usize, usize, &'static str), Calls)| {
        let (handed_over, together) = (calls.handed_over, median(calls.times));
        let alone = if threads == 1 { one } else { two };
        let how = format!("{together:.1} us beside {alone:.1} us; {handed_over} hand-overs");
        Target::new(figure, Bound::AtMost, 1.05, Some(together / alone), how)
    };
    let mut targets: Vec<_> = rows.into_iter().map(row).collect();
    let how = format!("{p99:.1} us beside {one:.1} us");
    targets.push(Target::new("99th percentile of a cell / its median", Bound::AtMost, 3.0, Some(p99 / one), how));
    Ok(targets)
}

fn round(runtime: &Handle, plugins: &[Arc<Plugin>], threads: usize, calls: &mut Calls) -> Result<()> {
    let before = HandOvers::so_far().contended;
    thread::scope(|scope| {
        let caller = |first| scope.spawn(move || runtime.block_on(caller(plugins, first)));
        let callers: Vec<_> = (0..threads).map(caller).collect();
        for caller in callers {
            calls.times.extend(caller.join().map_err(|_| anyhow!("a caller panicked"))??);
        }
        Ok::<_, anyhow::Error>(())
    })?;
    calls.handed_over += HandOvers::so_far().contended - before;
    Ok(())
}

async fn caller(plugins: &[Arc<Plugin>], first: usize) -> Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(CALLS);
    for plugin in plugins.iter().cycle().skip(first).take(CALLS) {
        let started = Instant::now();
        plugin.invoke(CellRequest::new("echo/echo", r#"{"text":"hello world"}"#)).await.result?;
        times.push(started.elapsed());
    }
    Ok(times)
}

fn p99(times: &[Duration]) -> f64 {
    let mut times = times.to_vec();
    times.sort_unstable();
    times.get(times.len() * 99 / 100).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}
