//! The profile of a cell's time: by phase, as far as it can be measured from outside, and by function, as `perf` of
//! Linux samples it.

use super::{
    Bench,
    figures::{Phases, median_us},
    sample::rounded,
};
use anyhow::{Context as _, Result, anyhow};
use opcell_sandbox::CellRequest;
use opcell_schema::Schema;
use opcell_types::{Value, text::printable};
use serde::Serialize;
use std::{
    collections::HashMap,
    hint::black_box,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The time for which cells run for `perf`.
const SAMPLED: Duration = Duration::from_secs(3);

/// Samples a second. Not a round number: nothing that happens on a clock may fall in step with it.
const FREQUENCY: &str = "1999";

/// Functions of the report.
const FUNCTIONS: usize = 40;

/// Batches of a phase that is measured by itself, and its calls in one batch: the clock costs as much as some of them.
const BATCHES: usize = 40;
const BATCH: u32 = 500;

/// The profile of a cell's time.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Profile {
    /// Parts of the median of the row `cell`, in the order in which they happen; the last one is what the others leave.
    pub parts: Vec<Part>,
    /// The functions that ran while one thread called cell after cell; absent without `perf`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampled: Option<Sampled>,
}

/// A part of a cell's median.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Part {
    /// The name of the phase.
    pub name: &'static str,
    /// Whose it is: `engine` or `opcell`.
    pub of: &'static str,
    /// The duration in microseconds.
    pub us: f64,
}

/// The samples of `perf`.
#[derive(Debug, Clone, Serialize, schemars::JsonSchema)]
pub struct Sampled {
    /// The number of samples.
    pub samples: u64,
    /// Whose code was running, from the most.
    pub owners: Vec<Share>,
    /// The functions that were running most, each without those that it calls.
    pub functions: Vec<Share>,
}

/// A part of all samples.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Share {
    /// The owner, or the function.
    pub name: String,
    /// The owner of the function; absent of an owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<&'static str>,
    /// Of all samples.
    pub percent: f64,
}

/// The parts of a cell, and what `perf` sees; where it sees nothing, why.
pub(super) async fn measure(bench: &Bench, cell_us: f64, phases: Option<&Phases>) -> Result<(Profile, Option<String>)> {
    let parts = parts(bench, cell_us, phases).await?;
    Ok(match sampled(bench).await {
        Ok(sampled) => (Profile { parts, sampled: Some(sampled) }, None),
        Err(error) => (Profile { parts, sampled: None }, Some(format!("functions are not listed: {error:#}"))),
    })
}

async fn parts(bench: &Bench, cell_us: f64, phases: Option<&Phases>) -> Result<Vec<Part>> {
    let guest = bench.guest();
    let operation = bench.plugin().operations().iter().find(|operation| &*operation.id == guest.operation.as_str());
    let operation = operation.context("the operation is not described")?;
    let schema = |schema: &serde_json::Value| Schema::compile(schema).map_err(|error| anyhow!(error));
    let (arguments, data) = (schema(&operation.arguments_schema)?, schema(&operation.data_schema)?);
    let answer = bench.plugin().invoke(CellRequest::new(&guest.operation, &guest.arguments)).await.result?;
    let answer = answer.data.to_json();
    let fits = || Value::from_json(black_box(&answer)).is_ok_and(|value| data.surely_fits(&value));
    let mut parts = vec![Part {
        name: "arguments read and checked",
        of: "opcell",
        us: timed(|| arguments.surely_fits_text(black_box(&guest.arguments))),
    }];
    if let Some(phases) = phases {
        parts.push(Part { name: "instance made", of: "engine", us: phases.instantiate_us });
        parts.push(Part { name: "guest called", of: "engine", us: phases.call_us });
        parts.push(Part { name: "instance dropped", of: "engine", us: phases.drop_us });
    }
    parts.push(Part { name: "result read and checked", of: "opcell", us: timed(fits) });
    let known: f64 = parts.iter().map(|part| part.us).sum();
    let rest = match phases {
        Some(_) => "limits, deadline, budget, queue, receipt",
        None => "the engine, and limits, deadline, budget, queue, receipt",
    };
    parts.push(Part { name: rest, of: "opcell", us: rounded((cell_us - known).max(0.0)) });
    Ok(parts)
}

/// Returns the time of one check of a text, as a cell does it.
fn timed(fits: impl Fn() -> bool) -> f64 {
    let batch = || {
        let started = Instant::now();
        for _ in 0..BATCH {
            black_box(fits());
        }
        started.elapsed()
    };
    rounded(median_us(std::iter::repeat_with(batch).take(BATCHES).collect()) / f64::from(BATCH))
}

async fn sampled(bench: &Bench) -> Result<Sampled> {
    let folder = tempfile::tempdir()?;
    let data = folder.path().join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "--quiet", "--event", "cpu-clock", "--freq", FREQUENCY, "--pid"])
        .arg(std::process::id().to_string())
        .arg("--output")
        .arg(&data)
        .args(["--", "sleep", &SAMPLED.as_secs().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut recording = perf.spawn().context(
        "`perf` is not on the path; it is in the package `linux-perf` of Debian and in `linux-tools-generic` of Ubuntu",
    )?;
    let guest = bench.guest();
    // Twice the time, whatever becomes of it.
    let until = Instant::now() + 2 * SAMPLED;
    let status = loop {
        for _ in 0..1_000 {
            bench.plugin().invoke(CellRequest::new(&guest.operation, &guest.arguments)).await.result?;
            if Instant::now() > until {
                break;
            }
        }
        if let Some(status) = recording.try_wait()? {
            break status;
        }
        if Instant::now() > until {
            recording.kill()?;
            break recording.wait()?;
        }
    };
    if !status.success() {
        let mut said = String::new();
        if let Some(stderr) = recording.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut std::io::Read::take(stderr, 16 << 10), &mut said);
        }
        let said = printable(said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default(), 200);
        return Err(anyhow!(
            "`perf record` ended with {status}: {said}; a user may profile their own processes with `sysctl \
             kernel.perf_event_paranoid=2` or less"
        ));
    }
    counted(&data)
}

/// Counts the functions that ran in the samples.
fn counted(data: &Path) -> Result<Sampled> {
    let mut script = Command::new("perf")
        .args(["script", "--fields", "ip,sym,dso", "--input"])
        .arg(data)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()?;
    let output = script.stdout.take().context("no pipe")?;
    let mut functions: HashMap<(String, &'static str), u64> = HashMap::new();
    for line in BufReader::new(output).lines() {
        if let Some(function) = function(&line?) {
            *functions.entry(function).or_default() += 1;
        }
    }
    anyhow::ensure!(script.wait()?.success(), "`perf script` failed");
    let samples: u64 = functions.values().sum();
    anyhow::ensure!(samples > 0, "`perf` took no samples");
    let percent = |count: u64| rounded(count as f64 * 100.0 / samples as f64);
    let mut owners: HashMap<&'static str, u64> = HashMap::new();
    functions.iter().for_each(|((_, owner), count)| *owners.entry(owner).or_default() += count);
    let mut owners: Vec<Share> = owners
        .into_iter()
        .map(|(owner, count)| Share { name: owner.to_owned(), owner: None, percent: percent(count) })
        .collect();
    let mut functions: Vec<Share> = functions
        .into_iter()
        .map(|((name, owner), count)| Share { name, owner: Some(owner), percent: percent(count) })
        .collect();
    for shares in [&mut owners, &mut functions] {
        shares.sort_by(|a, b| b.percent.total_cmp(&a.percent).then_with(|| a.name.cmp(&b.name)));
    }
    functions.truncate(FUNCTIONS);
    Ok(Sampled { samples, owners, functions })
}

/// The function of a line of `perf script`, and whose it is: `  7f01 memset+0x4 (/lib/libc.so.6)`.
fn function(line: &str) -> Option<(String, &'static str)> {
    let line = line.trim_end().strip_suffix(')')?;
    let (rest, object) = line.strip_suffix(" (deleted)").unwrap_or(line).rsplit_once(" (")?;
    let (_, symbol) = rest.trim_start().split_once(' ')?;
    let symbol = symbol.rsplit_once("+0x").map_or(symbol, |(symbol, _)| symbol).trim();
    let owner = owner(symbol, object);
    let name = if owner == "guest" { "the guest's own code" } else { symbol };
    Some((printable(name, 160), owner))
}

fn owner(symbol: &str, object: &str) -> &'static str {
    const CRATES: [(&str, &str); 7] = [
        ("wasmtime", "engine"),
        ("cranelift", "engine"),
        ("opcell", "opcell"),
        ("tokio", "tokio"),
        ("serde_json", "serde_json"),
        ("_mi_", "allocator"),
        ("mi_", "allocator"),
    ];
    if object.contains("kernel") {
        return "kernel";
    }
    if object.starts_with("[vdso") || object.contains("libc.so") || object.contains("libm.so") {
        return "C library";
    }
    if symbol == "[unknown]" {
        // What has no name in a file that has none either is what the engine made.
        let is_file = object.starts_with('/') && !object.starts_with("//") && !object.contains("memfd");
        return if is_file && !object.contains("/perf-") { "other" } else { "guest" };
    }
    // A function of Rust's standard library belongs to whoever it was made for.
    let found = CRATES.iter().filter_map(|(name, owner)| Some((symbol.find(name)?, *owner)));
    let of_rust = ["core::", "alloc::", "std::"].iter().any(|library| symbol.contains(library));
    let rest = if of_rust { "standard library" } else { "other" };
    found.min_by_key(|(at, _)| *at).map_or(rest, |(_, owner)| owner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_belongs_to_whoever_wrote_the_code() {
        for (line, name, owner) in [
            (
                "    7f2b wasmtime::runtime::vm::instance::Instance::new+0x10 (/usr/bin/opcell)",
                "wasmtime::runtime::vm::instance::Instance::new",
                "engine",
            ),
            (
                "    7f2b core::ptr::drop_in_place<opcell_sandbox::state::CellState>+0x1 (/usr/bin/opcell)",
                "core::ptr::drop_in_place<opcell_sandbox::state::CellState>",
                "opcell",
            ),
            (
                "    7f2b __memset_avx2_unaligned_erms+0x8 (/usr/lib/libc.so.6)",
                "__memset_avx2_unaligned_erms",
                "C library",
            ),
            ("ffff8000 finish_task_switch.isra.0+0x90 ([kernel.kallsyms])", "finish_task_switch.isra.0", "kernel"),
            ("    7f2b _mi_theap_malloc_zero+0x9 (/usr/bin/opcell)", "_mi_theap_malloc_zero", "allocator"),
            ("    7f2b [unknown] (/memfd:wasm-memory-image (deleted))", "the guest's own code", "guest"),
            ("    7f2b [unknown] ([unknown])", "the guest's own code", "guest"),
            (
                "    7f2b <alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop+0x1 (/usr/bin/opcell)",
                "<alloc::sync::Arc<T,A> as core::ops::drop::Drop>::drop",
                "standard library",
            ),
            ("    7f2b [unknown] (//anon)", "the guest's own code", "guest"),
            ("    7f2b [unknown] (/tmp/perf-15213.map)", "the guest's own code", "guest"),
            ("    7f2b [unknown] (/usr/lib/libgcc_s.so.1)", "[unknown]", "other"),
        ] {
            assert_eq!(function(line), Some((name.to_owned(), owner)), "{line}");
        }
        assert_eq!(function(""), None);
    }
}
