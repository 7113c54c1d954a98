//! The isolation of time: the delay after its deadline with which a guest is stopped, and the effect on its neighbours.

use super::{
    Guest, Machine, Options, Origin,
    interval::of_percentile,
    sample::{micros, percentile, rounded},
};
use anyhow::{Context as _, Result};
use async_trait::async_trait;
use opcell_sandbox::{
    CellRequest, Exports, Grants, HostServices, LimitRequest, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig,
};
use opcell_selftest::{Case, load_average};
use opcell_types::{CallContext, Failure, TouchLog};
use serde::Serialize;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

/// The attacks: the name in the report, and the case of `tests/hostile/`.
const ATTACKS: [(&str, &str); 3] =
    [("loop", "loop-in-export"), ("sleeping-host-call", "sleeping-host-call"), ("memory-bomb", "memory-bomb-touched")];

/// Attacking plugins beside the honest one.
const ATTACKERS: usize = 4;

/// The interval at which a call of the honest plugin is due, whatever became of the calls before it.
const CALL_INTERVAL: Duration = Duration::from_millis(1);

/// Rounds in which one attack is stopped, at most.
const ROUNDS: usize = 200;

/// The delays after which attacks are stopped, and their effect on others.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Containment {
    /// One per attack.
    pub rows: Vec<Stopped>,
    /// An honest plugin alone, then beside each attack.
    pub neighbour: Vec<Neighbour>,
    /// Attacking plugins at once.
    pub attackers: usize,
    /// The machine.
    pub machine: Machine,
    /// The origin of the report.
    pub origin: Origin,
    /// The trustworthiness of the machine.
    pub noise: String,
}

/// The end of one attack, over some rounds.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Stopped {
    /// The attack.
    pub name: String,
    /// The kind of error that ended it, of every round; `completed` for a call that nothing stopped.
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

/// An honest plugin, a call of which is due every millisecond whether or not the one before it has ended. Times are
/// from when a call was due to its end, so that a stall counts for every call that was due in it.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Neighbour {
    /// The load beside it, or `nothing`.
    pub beside: String,
    /// Calls that were due, each of which was made.
    pub calls: usize,
    /// Half had ended this long after they were due.
    pub median_us: f64,
    /// The interval of the median, in 95 of 100 cases.
    pub median_interval_us: Option<(f64, f64)>,
    /// All but one in a hundred.
    pub p99_us: f64,
    /// The interval of that.
    pub p99_interval_us: Option<(f64, f64)>,
    /// The slowest.
    pub max_us: f64,
    /// The median from the beginning of a call to its end: what the call itself takes.
    pub service_us: f64,
    /// Calls that gave no result. Any is damage.
    pub failures: usize,
}

/// An attack.
#[derive(Debug, Clone)]
pub struct Attack {
    /// For the report.
    pub name: String,
    /// A component with an operation to call again and again.
    pub guest: Guest,
    /// Its limits.
    pub limits: LimitRequest,
}

impl Attack {
    fn built_in() -> Result<Vec<Self>> {
        let cases = Case::all()?;
        let attack = |(name, case): (&str, &str)| {
            let case = cases.iter().find(|found| found.name == case).with_context(|| format!("no case `{case}`"))?;
            let guest = Guest {
                name: case.name.clone(),
                component: case.component.clone().into(),
                operation: "hostile/run".to_owned(),
                arguments: "{}".to_owned(),
                echo: false,
                grants: Grants { tools: case.grant_tools.iter().cloned().collect(), ..Grants::default() },
                exports: Exports::Contract,
            };
            Ok(Self { name: name.to_owned(), guest, limits: case.limits.clone() })
        };
        ATTACKS.into_iter().map(attack).collect()
    }
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

async fn attack(plugin: &Plugin, guest: &Guest) -> (Duration, Option<&'static str>) {
    let started = Instant::now();
    let request = CellRequest { host: Arc::new(Silence), ..CellRequest::new(&guest.operation, &guest.arguments) };
    let cell = plugin.invoke(request).await;
    (started.elapsed(), cell.result.err().map(|error| error.kind()))
}

/// Measures containment of the built-in attacks, or of one's own. `progress` receives the current phase.
///
/// # Errors
/// When a guest does not load.
pub async fn contain(options: &Options, own: Option<Attack>, progress: &(dyn Fn(&str) + Sync)) -> Result<Containment> {
    let load = load_average();
    let sandbox = Sandbox::new(SandboxConfig::new(options.compile.clone()))?;
    let guest = Guest::built_in()?;
    let honest = sandbox.load(LoadRequest::new("honest", PluginSource::Bytes(Arc::clone(&guest.component)))).await?;
    let attacks = own.map_or_else(Attack::built_in, |own| Ok(vec![own]))?;
    let origin = Origin::of(attacks.first().map_or(&[][..], |attack| &attack.guest.component));
    let share = options.time / (2 + 2 * u32::try_from(attacks.len())?);
    progress("the honest plugin alone");
    let mut neighbour = vec![beside_nothing(&honest, &guest, share).await?];
    let mut rows = Vec::new();
    for Attack { name, guest: mut attacking, limits } in attacks {
        progress(&format!("{name}: {}", attacking.name));
        let mut attackers = Vec::new();
        for _ in 0..ATTACKERS {
            let (name, limits) = (name.clone(), limits.clone());
            attackers.push(sandbox.load(LoadRequest { name, limits, ..attacking.load_request() }).await?);
        }
        if let Some(plugin) = attackers.first().filter(|_| attacking.operation.is_empty()) {
            attacking.operation = super::only_operation(plugin)?;
        }
        let attacking = Arc::new(attacking);
        if let Some(attacker) = attackers.first() {
            rows.push(stopped(&name, attacker, &attacking, limits.wall_time, share).await);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let running: Vec<_> = attackers
            .into_iter()
            .map(|plugin| {
                let (stop, attacking) = (Arc::clone(&stop), Arc::clone(&attacking));
                tokio::spawn(async move {
                    while !stop.load(Ordering::Relaxed) {
                        attack(&plugin, &attacking).await;
                    }
                })
            })
            .collect();
        let lived = live(&honest, &guest, &name, share).await;
        stop.store(true, Ordering::Relaxed);
        for attacker in running {
            attacker.await?;
        }
        neighbour.push(lived?);
    }
    let noise = format!(
        "load average {load:.1} before and {:.1} after, {ATTACKERS} attackers at once beside the honest plugin, a call of which is \
         due every millisecond: times are from when it was due",
        load_average()
    );
    Ok(Containment { rows, neighbour, attackers: ATTACKERS, machine: Machine::this(), origin, noise })
}

async fn stopped(name: &str, plugin: &Plugin, guest: &Guest, deadline: Option<u64>, time: Duration) -> Stopped {
    let (mut times, mut by) = (Vec::new(), Vec::new());
    let end = Instant::now() + time;
    while times.len() < 3 || (Instant::now() < end && times.len() < ROUNDS) {
        let (took, kind) = attack(plugin, guest).await;
        times.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
        let kind = kind.unwrap_or(NOT_STOPPED).to_owned();
        if !by.contains(&kind) {
            by.push(kind);
        }
    }
    times.sort_unstable();
    let at = |share| micros(percentile(&times, share)) / 1e3;
    let deadline_ms = deadline.map(|millis| millis as f64);
    // What ended before its deadline was not stopped by it.
    let late = |ms: f64| deadline_ms.map(|deadline| rounded(ms - deadline)).filter(|late| *late >= 0.0);
    Stopped {
        name: name.to_owned(),
        by,
        deadline_ms,
        stopped_after_ms: rounded(at(0.5)),
        late_ms: late(at(0.5)),
        worst_late_ms: late(at(1.0)),
        rounds: times.len(),
    }
}

/// The report of a call that nothing stopped.
pub const NOT_STOPPED: &str = "completed";

async fn beside_nothing(honest: &Arc<Plugin>, guest: &Guest, time: Duration) -> Result<Neighbour> {
    // Once for nothing: what comes first warms up.
    live(honest, guest, "nothing", Duration::from_millis(200)).await?;
    live(honest, guest, "nothing", time).await
}

/// An open loop: a clock of its own makes each call due, and every call is a task of the runtime, as an honest run
/// would be. The clock is a thread, for the runtime's timers round up to a millisecond.
async fn live(honest: &Arc<Plugin>, guest: &Guest, beside: &str, time: Duration) -> Result<Neighbour> {
    let (due, mut calls) = tokio::sync::mpsc::unbounded_channel();
    let clock = std::thread::spawn(move || {
        let started = Instant::now();
        let count = u32::try_from(time.as_nanos() / CALL_INTERVAL.as_nanos()).unwrap_or(u32::MAX);
        for at in 0..count {
            let at = started + CALL_INTERVAL * at;
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            if due.send(at).is_err() {
                return;
            }
        }
    });
    let (honest, guest) = (Arc::clone(honest), Arc::new(guest.clone()));
    let mut made = tokio::task::JoinSet::new();
    while let Some(due) = calls.recv().await {
        let (honest, guest) = (Arc::clone(&honest), Arc::clone(&guest));
        made.spawn(async move {
            let began = Instant::now();
            let cell = honest.invoke(CellRequest::new(&guest.operation, &guest.arguments)).await;
            (nanos(due.elapsed()), nanos(began.elapsed()), cell.result.is_err())
        });
    }
    clock.join().map_err(|_| anyhow::anyhow!("the clock of the calls failed"))?;
    let (mut waited, mut service, mut failures) = (Vec::new(), Vec::new(), 0);
    for (since_due, itself, failed) in made.join_all().await {
        waited.push(since_due);
        service.push(itself);
        failures += usize::from(failed);
    }
    waited.sort_unstable();
    service.sort_unstable();
    let at = |share| micros(percentile(&waited, share));
    let interval = |share| of_percentile(&waited, share).map(|(low, high)| (micros(low), micros(high)));
    Ok(Neighbour {
        beside: beside.to_owned(),
        calls: waited.len(),
        median_us: at(0.5),
        median_interval_us: interval(0.5),
        p99_us: at(0.99),
        p99_interval_us: interval(0.99),
        max_us: at(1.0),
        service_us: micros(percentile(&service, 0.5)),
        failures,
    })
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_sandbox::CompileMode;

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn every_call_that_was_due_is_made_and_counted_from_when_it_was_due() {
        let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess)).unwrap();
        let guest = Guest::built_in().unwrap();
        let honest =
            sandbox.load(LoadRequest::new("honest", PluginSource::Bytes(Arc::clone(&guest.component)))).await.unwrap();
        let row = live(&honest, &guest, "nothing", Duration::from_millis(50)).await.unwrap();
        assert_eq!((row.calls, row.failures), (50, 0), "{row:?}");
        assert!(row.max_us >= row.p99_us && row.p99_us >= row.median_us && row.median_us >= row.service_us, "{row:?}");
    }
}
