//! The metrics for a monitoring system, in the text format of Prometheus.

mod genai;
mod http;
mod meter;
mod process;

use crate::tenant::Tenant;
use opcell_engine::{RunOutcome, event::Timestamp};
use opcell_journal::{RunEntry, StatusTally};
use opcell_sandbox::PoolUse;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use meter::Histogram;

pub(crate) use http::{HttpCounters, counted};
pub use meter::Meter;
pub(crate) use process::begin;

/// The usage of one tenant's runs since the server started, counted when a run ends here.
#[derive(Default)]
pub(crate) struct RunCounters {
    pub started: AtomicU64,
    pub requests: AtomicU64,
    pub invocations: AtomicU64,
    pub invocation_us: AtomicU64,
    pub failed_invocations: AtomicU64,
    pub refused: AtomicU64,
    pub http: HttpCounters,
    triggers: Mutex<BTreeMap<(String, &'static str), u64>>,
    ended: Mutex<Ended>,
}

#[derive(Default)]
struct Ended {
    /// Durations of runs, by workflow and status.
    took: BTreeMap<(String, &'static str), Histogram>,
    by_status: BTreeMap<&'static str, u64>,
    by_denial: BTreeMap<String, u64>,
    by_limit: BTreeMap<String, u64>,
    cells: u64,
    rounds: u64,
    tokens: u64,
    cache_read_tokens: u64,
    cache_write_tokens: u64,
    cost: f64,
    host_calls: u64,
    tool_calls: u64,
}

/// Label values that others chose are counted up to this many; the rest is `other`.
const MAX_LABELS: usize = 64;

/// The statuses of runs that have not ended.
const OPEN: [&str; 5] = ["pending", "running", "waiting", "interrupted", "suspended"];

/// The label of the rest.
const OTHER: &str = "other";

impl RunCounters {
    /// A trigger came to an outcome: `fired`, `repeated`, `ignored`, `delayed` or `failed`. Triggers are those of the
    /// project, so they need no bound here.
    pub(crate) fn triggered(&self, trigger: &str, outcome: &'static str) {
        let mut triggers = self.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        *triggers.entry((trigger.to_owned(), outcome)).or_default() += 1;
    }

    /// A run has stopped here.
    pub(crate) fn stopped(&self, outcome: &RunOutcome) {
        if !outcome.status.has_ended() {
            return;
        }
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        *ended.by_status.entry(outcome.status.as_str()).or_default() += 1;
        let is_known = ended.took.keys().any(|(workflow, _)| **workflow == *outcome.workflow);
        let workflow = if is_known || ended.took.len() < MAX_LABELS { outcome.workflow.as_ref() } else { OTHER };
        let key = (workflow.to_owned(), outcome.status.as_str());
        ended.took.entry(key).or_insert_with(Histogram::of_runs).observe(age(outcome.began));
        ended.cells += outcome.used.cells;
        ended.rounds += outcome.used.rounds;
        ended.tokens += outcome.used.tokens;
        ended.cache_read_tokens += outcome.used.cache_read_tokens;
        ended.cache_write_tokens += outcome.used.cache_write_tokens;
        ended.cost += outcome.used.cost;
        ended.host_calls += outcome.used.host_calls;
        ended.tool_calls += outcome.used.tool_calls;
        if let Some(denial) = &outcome.denial {
            count(&mut ended.by_denial, denial.capability.split(' ').next().unwrap_or("other"));
        }
        if let Some(limit @ "budget-exhausted") = outcome.reason.as_deref() {
            count(&mut ended.by_limit, limit);
        }
    }
}

/// The time since a moment; none for one to come.
pub(crate) fn age(since: Timestamp) -> Duration {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(Duration::from_micros(u64::try_from(since.0).unwrap_or(0)))
}

fn count(of: &mut BTreeMap<String, u64>, label: &str) {
    let label = if of.len() >= MAX_LABELS && !of.contains_key(label) { OTHER } else { label };
    *of.entry(label.to_owned()).or_default() += 1;
}

/// Runs of a tenant's journal by status.
pub(crate) type RunStates = BTreeMap<String, StatusTally>;

/// The figures of a tenant's journal.
pub(crate) struct Journaled {
    pub states: RunStates,
    /// Runs that could continue now.
    pub runnable: u64,
    /// The time that it took to answer.
    pub answered: Duration,
}

/// Returns the text for some tenants, each with the figures of its journal if that answered.
pub(crate) fn text(tenants: &[(&Tenant, Option<Journaled>)]) -> String {
    let mut out = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, String)>| {
        let _ = writeln!(out, "# HELP opcell_{name} {help}\n# TYPE opcell_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(out, "opcell_{name}{{{labels}}} {value}");
        }
    };
    let label = |tenant: &Tenant| format!("tenant=\"{}\"", escaped(&tenant.name));
    let by = |tenant: &Tenant, key: &str, value: &str| format!("{},{key}=\"{}\"", label(tenant), escaped(value));
    let journals: Vec<(&Tenant, &Journaled)> =
        tenants.iter().filter_map(|(tenant, journaled)| Some((*tenant, journaled.as_ref()?))).collect();
    let answers = tenants.iter().map(|(tenant, of)| (label(tenant), u8::from(of.is_some()).to_string())).collect();
    family("journal_up", "gauge", "1 if the journal answered just now, 0 if its figures are missing below.", answers);
    let (mut runs, mut oldest) = (Vec::new(), Vec::new());
    for (tenant, journaled) in &journals {
        // A status without runs is 0 and not absent: alarms compare numbers.
        let count = |status: &str| journaled.states.get(status).map_or(0, |tally| tally.runs);
        runs.extend(RunEntry::STATUSES.map(|status| (by(tenant, "status", status), count(status).to_string())));
        let idle =
            |status: &str| journaled.states.get(status).map_or(Duration::ZERO, |tally| age(Timestamp(tally.oldest)));
        oldest.extend(OPEN.map(|status| (by(tenant, "status", status), idle(status).as_secs_f64().to_string())));
    }
    family("runs", "gauge", "Runs of the journal by status.", runs);
    let help = "Time since the last event of the run of each status that has been quiet for longest.";
    family("runs_oldest_seconds", "gauge", help, oldest);
    let of = |read: fn(&Journaled) -> String| {
        journals.iter().map(|(tenant, journaled)| (label(tenant), read(journaled))).collect()
    };
    let runnable = of(|journaled| journaled.runnable.to_string());
    family("runs_runnable", "gauge", "Runs that could continue and that no worker has taken, up to 10000.", runnable);
    let answered = of(|journaled| journaled.answered.as_secs_f64().to_string());
    family("journal_answer_seconds", "gauge", "How long the journal took just now to list these.", answered);
    let atomic = |read: fn(&RunCounters) -> &AtomicU64| {
        tenants
            .iter()
            .map(|(tenant, _)| (label(tenant), read(&tenant.counters).load(Ordering::Relaxed).to_string()))
            .collect()
    };
    family("requests_total", "counter", "Requests that were admitted.", atomic(|c| &c.requests));
    family("requests_refused_total", "counter", "Requests over a limit of the tenant.", atomic(|c| &c.refused));
    family("runs_started_total", "counter", "Runs started by requests.", atomic(|c| &c.started));
    family("invocations_total", "counter", "Operations called outside of runs.", atomic(|c| &c.invocations));
    family("invocations_failed_total", "counter", "Of these, those that failed.", atomic(|c| &c.failed_invocations));
    family("invocation_microseconds_total", "counter", "Wall time of these calls.", atomic(|c| &c.invocation_us));
    let readers = tenants.iter().map(|(tenant, _)| (label(tenant), tenant.feeds.len().to_string())).collect();
    family("runs_followed", "gauge", "Runs whose events someone reads.", readers);
    let (mut cache_reads, mut cache_writes) = (Vec::new(), Vec::new());
    let mut ended: [Vec<(String, String)>; 9] = Default::default();
    for (tenant, _) in tenants {
        let of = tenant.counters.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let [statuses, denials, limits, cells, rounds, tokens, cost, host_calls, tool_calls] = &mut ended;
        statuses.extend(of.by_status.iter().map(|(status, n)| (by(tenant, "status", status), n.to_string())));
        denials.extend(of.by_denial.iter().map(|(kind, n)| (by(tenant, "capability", kind), n.to_string())));
        limits.extend(of.by_limit.iter().map(|(kind, n)| (by(tenant, "limit", kind), n.to_string())));
        cells.push((label(tenant), of.cells.to_string()));
        rounds.push((label(tenant), of.rounds.to_string()));
        tokens.push((label(tenant), of.tokens.to_string()));
        cache_reads.push((label(tenant), of.cache_read_tokens.to_string()));
        cache_writes.push((label(tenant), of.cache_write_tokens.to_string()));
        cost.push((label(tenant), of.cost.to_string()));
        host_calls.push((label(tenant), of.host_calls.to_string()));
        tool_calls.push((label(tenant), of.tool_calls.to_string()));
    }
    let [statuses, denials, limits, cells, rounds, tokens, cost, host_calls, tool_calls] = ended;
    family("runs_ended_total", "counter", "Runs that ended here.", statuses);
    family("denials_total", "counter", "Runs that ended with a denial, by capability.", denials);
    family("limits_reached_total", "counter", "Runs that a run limit ended.", limits);
    family("cells_total", "counter", "Cells of runs that ended here.", cells);
    family("model_rounds_total", "counter", "Model rounds of runs that ended here.", rounds);
    family("model_tokens_total", "counter", "Model tokens, in and out, of runs that ended here.", tokens);
    family("model_cache_read_tokens_total", "counter", "Of these, those from a provider's cache.", cache_reads);
    family("model_cache_write_tokens_total", "counter", "Of these, those that a provider kept.", cache_writes);
    family("model_cost_dollars_total", "counter", "US dollars, as the models' providers charge.", cost);
    family("host_calls_total", "counter", "Host calls by cells of runs that ended here.", host_calls);
    let pools =
        tenants.iter().flat_map(|(tenant, _)| tenant.host.now().pools().into_iter().map(|pool| (*tenant, pool)));
    let pools: Vec<(&Tenant, PoolUse)> = pools.collect();
    let of = |read: fn(&PoolUse) -> u32| -> Vec<(String, String)> {
        pools.iter().map(|(tenant, pool)| (by(tenant, "pool", pool.pool), read(pool).to_string())).collect()
    };
    family("pool_cells", "gauge", "Cells of each pool.", of(|pool| pool.cells));
    family("pool_cells_busy", "gauge", "Of these, those that run now.", of(|pool| pool.busy));
    let exported: Vec<_> =
        tenants.iter().filter_map(|(tenant, _)| Some((label(tenant), tenant.exporter.get()?.counts()))).collect();
    let of = |read: fn(&crate::otlp::Counts) -> &AtomicU64| {
        exported
            .iter()
            .map(|(label, counts)| (label.clone(), read(counts).load(Ordering::Relaxed).to_string()))
            .collect()
    };
    family("traces_sent_total", "counter", "Runs whose traces the collector has.", of(|counts| &counts.sent));
    family("traces_waiting", "gauge", "Runs whose traces wait for the collector.", of(|counts| &counts.waiting));
    family("traces_lost_total", "counter", "Runs whose traces could not be sent.", of(|counts| &counts.lost));
    family("tool_calls_total", "counter", "Calls of tools and operations of runs that ended here.", tool_calls);
    let meters: Vec<(String, &Meter)> =
        tenants.iter().filter_map(|(tenant, _)| Some((label(tenant), tenant.meter.as_ref()?))).collect();
    meter::write(&mut out, &meters);
    let genai: Vec<_> = meters.iter().map(|(label, meter)| (label.clone(), meter.genai())).collect();
    genai::write(&mut out, &genai);
    let _ = writeln!(
        out,
        "# HELP opcell_run_seconds Time from the start of runs that ended here to their end.\n# TYPE opcell_run_seconds histogram"
    );
    for (tenant, _) in tenants {
        let of = tenant.counters.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for ((workflow, status), took) in &of.took {
            let labels = format!("{},workflow=\"{}\",status=\"{status}\"", label(tenant), escaped(workflow));
            took.write(&mut out, "run_seconds", &labels);
        }
    }
    let triggers = tenants.iter().flat_map(|(tenant, _)| {
        let of = tenant.counters.triggers.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |((trigger, outcome), n): (&(String, &str), &u64)| {
            format!("{},trigger=\"{}\",outcome=\"{outcome}\"}} {n}", label(tenant), escaped(trigger))
        };
        of.iter().map(row).collect::<Vec<_>>()
    });
    let _ = writeln!(
        out,
        "# HELP opcell_triggers_total Schedules that came due and webhooks that were taken.\n# TYPE opcell_triggers_total counter"
    );
    for row in triggers {
        let _ = writeln!(out, "opcell_triggers_total{{{row}");
    }
    let https: Vec<(String, &HttpCounters)> =
        tenants.iter().map(|(tenant, _)| (label(tenant), &tenant.counters.http)).collect();
    http::write(&mut out, &https);
    process::write(&mut out);
    out
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}
