//! Whole commands, as a user runs them.

use super::{Bound, Target, median};
use crate::{data, work};
use anyhow::{Context as _, Result, ensure};
use opcell_types::Value;
use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// The number of elements of an `each` over cells.
const ELEMENTS: i64 = 100_000;

/// From process start to result, beside Node.js.
///
/// # Errors
/// When the command does not do its work.
pub fn start_up(opcell: &Path, echo: &Path) -> Result<Target> {
    const FIGURE: &str = "`opcell run hello`, warm, start to result / `node -e 0`";
    let folder = tempfile::tempdir()?;
    work::project(folder.path(), echo)?;
    let hello = || {
        let mut command = Command::new(opcell);
        command.args(["--quiet", "run", "hello"]).current_dir(folder.path());
        command
    };
    let mut node = Command::new("node");
    node.args(["-e", "0"]);
    let time = |command: &mut Command| -> Result<Duration> {
        let started = Instant::now();
        let status = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        ensure!(status.success(), "{command:?} ended with {status}");
        Ok(started.elapsed())
    };
    // The first one compiles.
    time(&mut hello()).context("is the `opcell` command beside this program?")?;
    if time(&mut node).is_err() {
        return Ok(Target::new(FIGURE, Bound::AtMost, 0.3, None, "no `node` on the path".to_owned()));
    }
    let (mut ours, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..40 {
        ours.push(time(&mut hello())?);
        nodes.push(time(&mut node)?);
    }
    let (ours, nodes) = (median(ours) / 1e3, median(nodes) / 1e3);
    Ok(Target::new(FIGURE, Bound::AtMost, 0.3, Some(ours / nodes), format!("{ours:.1} ms beside {nodes:.1} ms")))
}

/// The whole command over data: time from start to end, and memory at the peak. Targets are of the machine that the
/// README names.
///
/// # Errors
/// When a command does not do its work.
pub fn over_rows(opcell: &Path) -> Result<Vec<Target>> {
    const TIMES: usize = 7;
    let folder = tempfile::tempdir()?;
    data::write(folder.path())?;
    let mut targets = Vec::new();
    let rows: [(&str, &str, [&'static str; 2], [f64; 2]); 3] = [
        ("filter", "rows", ["`opcell run`, filter of 100,000 rows, s", "the same, MB at the peak"], [0.16, 76.0]),
        (
            "sort",
            "rows",
            ["`opcell run`, sort of 100,000 rows by a number, s", "the same, MB at the peak"],
            [0.12, 58.0],
        ),
        (
            "map",
            "rows",
            ["`opcell run`, map of four fields of 100,000 rows, s", "the same, MB at the peak"],
            [0.15, 79.0],
        ),
    ];
    let shapes = [
        ("wide", "of 10,000 rows of 42 fields"),
        ("deep", "of 20,000 rows of 22 levels"),
        ("long", "of long texts"),
        ("numbers", "of numbers"),
    ];
    let run = |document: &str, shape: &str| {
        let mut command = Command::new(opcell);
        let (document, input) = (format!("{document}.md"), format!("@{shape}.json"));
        command.args(["--quiet", "run", &document, "--input", &input, "--no-journal"]).current_dir(folder.path());
        data::least(TIMES, &mut command, || Ok(()))
    };
    for (document, shape, figures, most) in rows {
        let took = run(document, shape)?;
        let size = std::fs::metadata(folder.path().join(format!("{shape}.json")))?.len() as f64 / 1e6;
        let how = format!("the least of {TIMES}, {size:.1} MB of JSON");
        let [time, memory] = figures;
        targets.push(Target::new(time, Bound::AtMost, most[0], Some(took.time.as_secs_f64()), how.clone()));
        targets.push(Target::new(memory, Bound::AtMost, most[1], Some(took.peak_kib as f64 * 1024.0 / 1e6), how));
    }
    for (shape, what) in shapes {
        let took = run("filter", shape)?;
        let size = std::fs::metadata(folder.path().join(format!("{shape}.json")))?.len() as f64;
        let how =
            format!("filter {what}: {:.3} s, {:.0} MB", took.time.as_secs_f64(), took.peak_kib as f64 * 1024.0 / 1e6);
        let ratio = took.peak_kib as f64 * 1024.0 / size;
        targets.push(Target::new(
            "`opcell run`, bytes of memory per byte of JSON",
            Bound::AtMost,
            10.0,
            Some(ratio),
            how,
        ));
    }
    Ok(targets)
}

/// The whole command over a hundred thousand cells, each event of them in a journal on disk.
///
/// # Errors
/// When the command does not do its work.
pub fn each_of_cells(opcell: &Path, echo: &Path) -> Result<[Target; 2]> {
    let folder = tempfile::tempdir()?;
    work::project(folder.path(), echo)?;
    let document = "---\nname: each\ndescription: Measured.\n---\n\n```workflow\ninputs:\n  xs: { type: array }\noutputs:\n  n: { type: int, value: $steps.all.output.length }\nsteps:\n  - id: all\n    type: tool\n    tool: echo/echo\n    each: $inputs.xs\n    x-opcell: { concurrency: 16 }\n    inputs:\n      n: { type: int, value: $item }\n```\n";
    std::fs::write(folder.path().join("each.md"), document)?;
    let xs = Value::array((0..ELEMENTS).map(Value::from));
    std::fs::write(folder.path().join("xs.json"), Value::object([("xs", xs)]).to_json())?;
    let journal = folder.path().join("runs.db");
    let mut command = Command::new(opcell);
    command.args(["--quiet", "run", "each.md", "--input", "@xs.json", "--journal=runs.db"]).current_dir(folder.path());
    let clear = || {
        for file in ["runs.db", "runs.db-wal", "runs.db-shm"] {
            let _ = std::fs::remove_file(folder.path().join(file));
        }
        Ok(())
    };
    let took = data::least(3, &mut command, clear)?;
    let size = std::fs::metadata(&journal)?.len() as f64 / 1e6;
    let how = format!("the least of 3, {} KiB at the peak", took.peak_kib);
    Ok([
        Target::new(
            "`opcell run`, `each` over 100,000 cells, journal on disk, s",
            Bound::AtMost,
            2.0,
            Some(took.time.as_secs_f64()),
            how.clone(),
        ),
        Target::new("the same, MB of journal", Bound::AtMost, 25.0, Some(size), how),
    ])
}
