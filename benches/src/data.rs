//! Data as users bring it, and the whole command over it: time from start to end, and memory at the peak.

use anyhow::{Context as _, Result, ensure};
use opcell_types::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The number of rows of a file.
pub const ROWS: usize = 100_000;

/// Kinds of rows: which cost is the largest differs between them.
pub const SHAPES: [&str; 5] = ["rows", "wide", "deep", "long", "numbers"];

/// One row; every kind has a `score` from 0 to 999.
#[must_use]
pub fn row(shape: &str, at: usize) -> Value {
    let number = |factor: usize, below: usize| Value::from(((at * factor) % below) as i64);
    let (id, score) = (("id", Value::from(at as i64)), ("score", number(7_919, 1_000)));
    match shape {
        "wide" => {
            let fields = (0..40).map(|field| (format!("field_{field}"), number(7_919 + field, 1_000_003)));
            Value::object([("id".to_owned(), id.1), ("score".to_owned(), score.1)].into_iter().chain(fields))
        }
        "deep" => {
            let leaf = Value::object([("leaf", Value::from(at as i64))]);
            let deep = (0..20).fold(leaf, |inner, level| Value::object([("d", inner), ("k", Value::from(level))]));
            Value::object([id, score, ("deep", deep)])
        }
        "long" => Value::object([id, score, ("text", Value::from("Lorem \"ipsum\"\ndolor sit amet é. ".repeat(20)))]),
        "numbers" => Value::object([
            id,
            score,
            ("x", Value::from((at as f64).sqrt())),
            ("y", Value::from(at as f64 / 7.0)),
            ("z", number(104_729, 1_000_003)),
        ]),
        _ => Value::object([
            id,
            ("name", Value::from(format!("name-{}", (at * 104_729) % 1_000_003))),
            score,
            (
                "city",
                Value::from(match at % 4 {
                    0 => "Berlin",
                    1 => "Lisbon",
                    2 => "Osaka",
                    _ => "Santiago de Compostela",
                }),
            ),
            ("active", Value::Bool(at.is_multiple_of(3))),
        ]),
    }
}

/// Returns the number of rows of a kind that take some eight megabytes of JSON.
#[must_use]
pub fn count(shape: &str) -> usize {
    match shape {
        "wide" | "long" => ROWS / 10,
        "deep" => ROWS / 5,
        _ => ROWS,
    }
}

/// Rows of a kind.
#[must_use]
pub fn rows(shape: &str) -> Vec<Value> {
    (0..count(shape)).map(|at| row(shape, at)).collect()
}

/// Writes `SHAPE.json` for each kind of rows, and `filter.md`, `sort.md` and `map.md`, which take them.
///
/// # Errors
/// The file system's.
pub fn write(folder: &Path) -> Result<()> {
    for shape in SHAPES {
        let input = Value::object([("rows", Value::array(rows(shape)))]);
        fs::write(folder.join(format!("{shape}.json")), input.to_json())?;
    }
    for (name, operation) in [
        ("filter", "operation: filter\n    where: $item.score >= 500"),
        ("sort", "operation: sort\n    field: score"),
        ("map", "operation: map\n    expression: { id: $item.id, name: $item.name, score: $item.score, at: $index }"),
    ] {
        let text = format!(
            "---\nname: {name}\ndescription: Measured.\n---\n\n```workflow\ninputs:\n  rows: {{ type: array }}\noutputs:\n  n: {{ type: int, value: $steps.it.output.items.length }}\nsteps:\n  - id: it\n    type: transform\n    {operation}\n    inputs:\n      items: {{ type: array, value: $inputs.rows }}\n    outputs:\n      items: {{ type: array }}\n```\n"
        );
        fs::write(folder.join(format!("{name}.md")), text)?;
    }
    Ok(())
}

/// The resources that a process took: the least of several, because others use the machine as well.
#[derive(Debug, Clone, Copy)]
pub struct Took {
    /// From its start to its end.
    pub time: Duration,
    /// Most resident memory, in KiB.
    pub peak_kib: u64,
}

/// Runs a command several times; `before` prepares each.
///
/// # Errors
/// When it does not start or does not succeed.
pub fn least(times: usize, command: &mut Command, mut before: impl FnMut() -> Result<()>) -> Result<Took> {
    let mut least: Option<Took> = None;
    for _ in 0..times {
        before()?;
        let took = once(command)?;
        least = Some(least.map_or(took, |least| Took {
            time: least.time.min(took.time),
            peak_kib: least.peak_kib.min(took.peak_kib),
        }));
    }
    least.context("nothing was run")
}

fn once(command: &mut Command) -> Result<Took> {
    let started = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
    let status = format!("/proc/{}/status", child.id());
    let mut peak_kib = 0;
    // The peak only grows, and what a process frees at its end it does not take at its end: looking often is enough.
    let ended = loop {
        peak_kib = peak_kib.max(peak_of(&status));
        if let Some(ended) = child.try_wait()? {
            break ended;
        }
        std::thread::sleep(Duration::from_micros(500));
    };
    let time = started.elapsed();
    ensure!(ended.success(), "{command:?} ended with {ended}");
    Ok(Took { time, peak_kib })
}

/// Most resident memory of a process so far, in KiB, as its status in `/proc` has it.
#[must_use]
pub fn peak_of(status: &str) -> u64 {
    let text = fs::read_to_string(status).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|text| text.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Resident memory of this process, in KiB.
#[must_use]
pub fn resident_kib() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4)
}
