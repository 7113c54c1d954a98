//! The counters of events: cells, and writes of the journal.

use super::{count, escaped, genai::GenAi};
use opcell::{JournalSink, LogSink, RoundFigures};
use opcell_engine::ports::Failure;
use opcell_sandbox::{Receipt, host::LogEvent};
use opcell_types::CallContext;
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// Upper bounds of the buckets, in seconds: cells take tens of microseconds, waits for the disk milliseconds.
const BOUNDS: [f64; 12] = [0.000_025, 0.000_1, 0.000_5, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 10.0];

/// The same for runs, which take from milliseconds to days.
const RUN_BOUNDS: [f64; 12] = [0.01, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 1_800.0, 7_200.0, 43_200.0, 259_200.0];

/// The durations of something.
pub(super) struct Histogram {
    bounds: &'static [f64; BOUNDS.len()],
    buckets: [AtomicU64; BOUNDS.len()],
    count: AtomicU64,
    micros: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { bounds: &BOUNDS, buckets: Default::default(), count: AtomicU64::new(0), micros: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Returns a histogram for durations of runs.
    pub(super) fn of_runs() -> Self {
        Self { bounds: &RUN_BOUNDS, ..Self::default() }
    }

    pub(super) fn observe(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(bucket) = self.bounds.iter().position(|bound| seconds <= *bound).and_then(|at| self.buckets.get(at))
        {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.count.fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    pub(super) fn write(&self, out: &mut String, name: &str, label: &str) {
        let mut below = 0;
        for (bound, bucket) in self.bounds.iter().zip(&self.buckets) {
            below += bucket.load(Ordering::Relaxed);
            let _ = writeln!(out, "opcell_{name}_bucket{{{label},le=\"{bound}\"}} {below}");
        }
        let count = self.count.load(Ordering::Relaxed).max(below);
        let seconds = Duration::from_micros(self.micros.load(Ordering::Relaxed)).as_secs_f64();
        let _ = writeln!(out, "opcell_{name}_bucket{{{label},le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "opcell_{name}_sum{{{label}}} {seconds}\nopcell_{name}_count{{{label}}} {count}");
    }
}

#[derive(Default)]
struct Figures {
    cells: Histogram,
    waits: Histogram,
    writes: Histogram,
    failed_writes: AtomicU64,
    /// Denials by plugin and rule, and cells that failed by the error's kind.
    denials: Mutex<BTreeMap<String, u64>>,
    failures: Mutex<BTreeMap<String, u64>>,
    genai: GenAi,
}

/// Counts what the host of one tenant does: give it to the host as its log and as its journal's sink, and to the
/// tenant.
#[derive(Clone, Default)]
pub struct Meter(Arc<Figures>);

impl Meter {
    pub(super) fn genai(&self) -> &GenAi {
        &self.0.genai
    }

    /// A run has ended here.
    pub(crate) fn run_ended(&self, workflow: &str, took: Duration, reason: Option<&str>) {
        self.0.genai.ended(workflow, took, reason);
    }
}

impl LogSink for Meter {
    fn log(&self, _plugin: &str, _context: &CallContext, _event: LogEvent<'_>) {}

    fn ended(&self, _context: &CallContext, receipt: &Receipt) {
        self.0.cells.observe(Duration::from_micros(receipt.duration_us));
        if receipt.queued_us > 0 {
            self.0.waits.observe(Duration::from_micros(receipt.queued_us));
        }
        if let Some(error) = &receipt.error {
            let mut failures = self.0.failures.lock().unwrap_or_else(PoisonError::into_inner);
            count(&mut failures, &format!("plugin=\"{}\",error=\"{}\"", escaped(&receipt.plugin), escaped(error)));
        }
        if !receipt.denials.is_empty() {
            let mut denials = self.0.denials.lock().unwrap_or_else(PoisonError::into_inner);
            for denial in &receipt.denials {
                let kind = denial.capability.split(' ').next().unwrap_or("other");
                let (plugin, kind, rule) = (escaped(&receipt.plugin), escaped(kind), escaped(&denial.rule));
                count(&mut denials, &format!("plugin=\"{plugin}\",capability=\"{kind}\",rule=\"{rule}\""));
            }
        }
    }

    fn answered(&self, round: RoundFigures<'_>) {
        self.0.genai.answered(&round);
    }

    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        self.0.genai.called(tool, took, failure);
    }
}

impl JournalSink for Meter {
    fn wrote(&self, took: Duration, is_durable: bool) {
        self.0.writes.observe(took);
        if !is_durable {
            self.0.failed_writes.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Adds the families of some meters, each with the label of its tenant.
pub(super) fn write(out: &mut String, meters: &[(String, &Meter)]) {
    let mut family = |name: &str, kind: &str, help: &str, rows: &dyn Fn(&mut String, &str, &Figures)| {
        let _ = writeln!(out, "# HELP opcell_{name} {help}\n# TYPE opcell_{name} {kind}");
        for (label, meter) in meters {
            rows(out, label, &meter.0);
        }
    };
    family("cell_seconds", "histogram", "Wall time of cells, waiting included.", &|out, label, of| {
        of.cells.write(out, "cell_seconds", label);
    });
    family("cell_wait_seconds", "histogram", "Time of calls that waited for a free cell.", &|out, label, of| {
        of.waits.write(out, "cell_wait_seconds", label);
    });
    family("cells_failed_total", "counter", "Cells that ended with an error: limits, traps.", &|out, label, of| {
        by(out, "cells_failed_total", label, &of.failures);
    });
    family("cell_denials_total", "counter", "Refusals by plugin, capability and rule.", &|out, label, of| {
        by(out, "cell_denials_total", label, &of.denials);
    });
    family("journal_write_seconds", "histogram", "Time until what was written was durable.", &|out, label, of| {
        of.writes.write(out, "journal_write_seconds", label);
    });
    family("journal_writes_failed_total", "counter", "Writes that the journal refused or lost.", &|out, label, of| {
        let failed = of.failed_writes.load(Ordering::Relaxed);
        let _ = writeln!(out, "opcell_journal_writes_failed_total{{{label}}} {failed}");
    });
}

fn by(out: &mut String, name: &str, label: &str, of: &Mutex<BTreeMap<String, u64>>) {
    for (labels, count) in &*of.lock().unwrap_or_else(PoisonError::into_inner) {
        let labels =
            if labels == super::OTHER { format!("{}=\"{}\"", super::OTHER, super::OTHER) } else { labels.clone() };
        let _ = writeln!(out, "opcell_{name}{{{label},{labels}}} {count}");
    }
}
