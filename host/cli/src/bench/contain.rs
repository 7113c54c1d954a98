//! Whether isolation holds in time: how long after its deadline a guest is stopped, and what its neighbours notice.

use super::{
    Guest, Machine, Options, machine,
    sample::{micros, percentile, rounded},
};
use crate::selftest::Case;
use anyhow::{Context as _, Result};
use async_trait::async_trait;
use opcell_sandbox::{CellRequest, Grants, HostServices, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig};
use opcell_types::{CallContext, Failure, TouchLog};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// What is run: the name in the report, and the case of `tests/hostile/` that it is.
const ATTACKS: [(&str, &str); 3] =
    [("loop", "loop-in-export"), ("sleeping-host-call", "sleeping-host-call"), ("memory-bomb", "memory-bomb-touched")];

/// Attacking plugins beside the honest one.
const ATTACKERS: usize = 4;

/// How long attacks are stopped after, and what they do to others.
#[derive(Debug, Clone, Serialize)]
pub struct Containment {
    /// One per attack.
    pub rows: Vec<Stopped>,
    /// An honest plugin alone, then beside each attack.
    pub neighbour: Vec<Neighbour>,
    /// Where this ran.
    pub machine: Machine,
    /// How far the machine can be trusted.
    pub noise: String,
}

/// How one attack ended, over some rounds.
#[derive(Debug, Clone, Serialize)]
pub struct Stopped {
    /// The attack.
    pub name: String,
    /// The kind of error that ended it, of every round.
    pub by: Vec<String>,
    /// Its limit of wall time; absent for an attack that another limit ends first.
    pub deadline_ms: Option<f64>,
    /// From the start to the end.
    pub stopped_after_ms: f64,
    /// From the deadline to the end: the median.
    pub late_ms: Option<f64>,
    /// From the deadline to the end: the worst.
    pub worst_late_ms: Option<f64>,
    /// Rounds.
    pub rounds: usize,
}

/// An honest plugin, called every millisecond.
#[derive(Debug, Clone, Serialize)]
pub struct Neighbour {
    /// What runs beside it, or `nothing`.
    pub beside: String,
    /// Calls that were made.
    pub calls: usize,
    /// Half had ended this long after they were due.
    pub median_us: f64,
    /// All but one in a hundred; of up to fifty calls, the slowest.
    pub p99_us: f64,
    /// Calls that gave no result. Any is damage.
    pub failures: usize,
}

/// A host whose tools never answer.
struct Silence;

#[async_trait]
impl HostServices for Silence {
    async fn call_tool(
        &self,
        _name: &str,
        _arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        std::future::pending().await
    }
}

async fn attack(plugin: &Plugin) -> (Duration, Option<&'static str>) {
    let started = Instant::now();
    let cell = plugin.invoke(CellRequest { host: Arc::new(Silence), ..CellRequest::new("hostile/run", "{}") }).await;
    (started.elapsed(), cell.result.err().map(|error| error.kind()))
}

/// Measures containment. `progress` receives the current phase.
///
/// # Errors
/// When a guest does not load.
pub async fn contain(options: &Options, progress: &(dyn Fn(&str) + Sync)) -> Result<Containment> {
    let load = machine::load_average();
    let sandbox = Sandbox::new(SandboxConfig::new(options.compile.clone()))?;
    let guest = Guest::built_in()?;
    let honest = sandbox.load(LoadRequest::new("honest", PluginSource::Bytes(Arc::clone(&guest.component)))).await?;
    let share = options.time / 8;
    progress("the honest plugin alone");
    let mut neighbour = vec![beside_nothing(&honest, &guest, share).await?];
    let cases = Case::all()?;
    let mut rows = Vec::new();
    for (name, case) in ATTACKS {
        let case = cases.iter().find(|found| found.name == case).with_context(|| format!("no case `{case}`"))?;
        progress(&format!("{name}: {}", case.title));
        let mut attackers = Vec::new();
        for _ in 0..ATTACKERS {
            let grants = Grants { tools: case.grant_tools.iter().cloned().collect(), ..Grants::default() };
            let source = PluginSource::Bytes(case.component.clone().into());
            let request = LoadRequest { grants, limits: case.limits.clone(), ..LoadRequest::new(name, source) };
            attackers.push(sandbox.load(request).await?);
        }
        if let Some(attacker) = attackers.first() {
            rows.push(stopped(name, attacker, case.limits.wall_time, share).await);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let running: Vec<_> = attackers
            .into_iter()
            .map(|plugin| {
                let stop = Arc::clone(&stop);
                tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        attack(&plugin).await;
                    }
                })
            })
            .collect();
        let lived = live(&honest, &guest, name, share).await;
        stop.store(true, Ordering::Relaxed);
        for attacker in running {
            attacker.await?;
        }
        neighbour.push(lived?);
    }
    let noise = format!(
        "load average {load:.1} before and {:.1} after, {ATTACKERS} attackers at once beside the honest plugin",
        machine::load_average()
    );
    Ok(Containment { rows, neighbour, machine: Machine::this(), noise })
}

async fn stopped(name: &str, plugin: &Plugin, deadline: Option<u64>, time: Duration) -> Stopped {
    let (mut times, mut by) = (Vec::new(), Vec::new());
    let end = Instant::now() + time;
    while times.len() < 3 || (Instant::now() < end && times.len() < 200) {
        let (took, kind) = attack(plugin).await;
        times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let kind = kind.unwrap_or("ok").to_owned();
        if !by.contains(&kind) {
            by.push(kind);
        }
    }
    times.sort_unstable();
    let at = |share| micros(percentile(&times, share)) / 1e3;
    let deadline_ms = deadline.map(|millis| millis as f64);
    Stopped {
        name: name.to_owned(),
        by,
        deadline_ms,
        stopped_after_ms: rounded(at(0.5)),
        late_ms: deadline_ms.map(|deadline| rounded(at(0.5) - deadline)),
        worst_late_ms: deadline_ms.map(|deadline| rounded(at(1.0) - deadline)),
        rounds: times.len(),
    }
}

async fn beside_nothing(honest: &Arc<Plugin>, guest: &Guest, time: Duration) -> Result<Neighbour> {
    // Once for nothing: what comes first warms up.
    live(honest, guest, "nothing", Duration::from_millis(200)).await?;
    live(honest, guest, "nothing", time).await
}

/// In a task of the runtime, as an honest run would be.
async fn live(honest: &Arc<Plugin>, guest: &Guest, beside: &str, time: Duration) -> Result<Neighbour> {
    let (honest, guest) = (Arc::clone(honest), guest.clone());
    let (mut times, failures) = tokio::spawn(async move {
        let (mut times, mut failures) = (Vec::new(), 0);
        let end = Instant::now() + time;
        while Instant::now() < end {
            // From when the call was due: waiting for the runtime to look at its timers is waiting too.
            let due = Instant::now() + Duration::from_millis(1);
            tokio::time::sleep_until(due.into()).await;
            let cell = honest.invoke(CellRequest::new(&guest.operation, &guest.arguments)).await;
            times.push(u64::try_from(due.elapsed().as_nanos()).unwrap_or(u64::MAX));
            failures += usize::from(cell.result.is_err());
        }
        (times, failures)
    })
    .await?;
    times.sort_unstable();
    let at = |share| micros(percentile(&times, share));
    Ok(Neighbour { beside: beside.to_owned(), calls: times.len(), median_us: at(0.5), p99_us: at(0.99), failures })
}
