//! Every target, what was measured, met or not: `cargo xtask bench --targets`.
//!
//! `targets [--json] ECHO.wasm [--default-stack ECHO.wasm] [--extism PROGRAM PLUGIN]`; the `opcell` command is expected
//! beside this program.

use anyhow::{Context as _, Result, ensure};
use opcell::{Config, Host, Workflow};
use opcell_benches::{
    data,
    work::{self, Echo, Nothing},
};
use opcell_cli::bench::{Bench, Guest, Machine, Options, Report, peer, resident_kib};
use opcell_engine::{Engine, Program};
use opcell_journal::SqliteJournal;
use opcell_sandbox::{CellRequest, CompileMode, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig};
use opcell_types::Value;
use opcell_workflow::{expr::Context, ir::TransformOperation, transform};
use serde::Serialize;
use std::{
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: opcell_allocator::Allocator = opcell_allocator::Allocator;

const STEPS: usize = 100;
const ELEMENTS: i64 = 100_000;
const ELEMENTS_IN_CELLS: usize = 1_000;

/// Which side of a target is good.
#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Bound {
    AtMost,
    AtLeast,
}

#[derive(Debug, Serialize)]
struct Target {
    figure: &'static str,
    bound: Bound,
    target: f64,
    /// Absent where something that it needs is not here.
    measured: Option<f64>,
    met: Option<bool>,
    how: String,
}

impl Target {
    fn new(figure: &'static str, bound: Bound, target: f64, measured: Option<f64>, how: String) -> Self {
        let met = measured.map(|measured| match bound {
            Bound::AtMost => measured <= target,
            Bound::AtLeast => measured >= target,
        });
        Self { figure, bound, target, measured, met, how }
    }
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

fn say(text: &str) {
    eprintln!("targets: {text}");
}

#[tokio::main]
async fn main() -> Result<ExitCode> {
    let (mut json, mut echo, mut default_stack, mut extism) = (false, None, None, None);
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--json" => json = true,
            "--default-stack" => default_stack = Some(PathBuf::from(words.next().context("which component?")?)),
            "--extism" => {
                let program = words.next().context("which program?")?;
                extism = Some(Extism { program, plugin: words.next().context("which plugin of Extism's?")? });
            }
            _ => echo = Some(PathBuf::from(word)),
        }
    }
    let echo = echo.context("which echo component?")?;
    let opcell = std::env::current_exe()?.with_file_name("opcell");

    let report = cells(&echo, default_stack.as_deref(), extism.as_ref()).await?;
    let us = |name: &str| report.rows.iter().find(|row| row.name == name).map(|row| row.median_us);
    let over = |over: &str, under: &str| Some(us(over)? / us(under)?);
    let both = |a: &str, b: &str| match (us(a), us(b)) {
        (Some(a), Some(b)) => format!("{a:.1} us beside {b:.1} us"),
        _ => "not measured here".to_owned(),
    };
    let mut targets = vec![
        Target::new(
            "cell / bare wasmtime, same component",
            Bound::AtMost,
            1.25,
            over("cell", "bare-wasmtime"),
            both("cell", "bare-wasmtime"),
        ),
        Target::new(
            "cell of an SDK-built guest / bare wasmtime, same source, default 1 MiB stack",
            Bound::AtMost,
            0.75,
            over("cell", DEFAULT_STACK),
            both("cell", DEFAULT_STACK),
        ),
        Target::new("process per call / cell", Bound::AtLeast, 25.0, over("process", "cell"), both("process", "cell")),
        Target::new(
            "Extism, fresh plugin per call / cell",
            Bound::AtLeast,
            8.0,
            over("extism", "cell"),
            both("extism", "cell"),
        ),
        Target::new(
            "Extism, reused plugin / fresh cell",
            Bound::AtLeast,
            0.8,
            over("extism-reused", "cell"),
            both("extism-reused", "cell"),
        ),
        Target::new(
            "cells per second, two cores / one",
            Bound::AtLeast,
            1.8,
            report.ratios.all_cores_to_one,
            format!(
                "{:.0} on {} cores, {:.0} on one; the bare engine {:.2} times as many, a native function {:.2}",
                report.figures.throughput.cells_per_second_all_cores,
                report.figures.throughput.cores,
                report.figures.throughput.cells_per_second_one_core,
                report.figures.throughput.bare_all_cores_to_one.unwrap_or(f64::NAN),
                report.figures.throughput.native_all_cores_to_one
            ),
        ),
    ];
    say("a workflow of a hundred cells, and one of a hundred steps without any");
    // On a thread of the runtime, like the requests of a server: from outside, each run would begin with waking one up.
    let (component, bare) = (echo.clone(), us("bare-wasmtime"));
    targets.extend(tokio::spawn(async move { steps(&component, bare).await }).await??);
    say("from process start to result, beside `node -e 0`");
    targets.push(start_up(&opcell, &echo)?);
    say("each over a hundred thousand elements");
    targets.push(each().await?);
    say("the whole command over eight megabytes of rows, and over a hundred thousand cells");
    targets.extend(commands(&opcell, &echo)?);
    say("transforms of a hundred thousand rows");
    targets.extend(transforms()?);
    say("a chain of a thousand steps, and each over ten thousand elements");
    targets.extend(tokio::spawn(async { engine().await }).await??);

    if json {
        let value = serde_json::json!({"targets": targets, "machine": Machine::this(), "noise": report.noise});
        println!("{value:#}");
    } else {
        let machine = Machine::this();
        println!("| figure | target | measured | met | of |\n| --- | --- | --- | --- | --- |");
        for target in &targets {
            let sign = match target.bound {
                Bound::AtMost => "≤",
                Bound::AtLeast => "≥",
            };
            let measured = target.measured.map_or_else(|| "-".to_owned(), |measured| format!("{measured:.2}"));
            let met = target.met.map_or("not measured", |met| if met { "met" } else { "NOT MET" });
            println!("| {} | {sign} {} | {measured} | {met} | {} |", target.figure, target.target, target.how);
        }
        println!("\n{}, {} cores, {}, {}; {}", machine.cpu, machine.cores, machine.system, machine.date, report.noise);
        for note in &report.notes {
            println!("{note}");
        }
    }
    let missed = targets.iter().any(|target| target.met == Some(false));
    Ok(if missed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

const DEFAULT_STACK: &str = "bare-wasmtime-1mib-stack";

/// The program that measures Extism, and what it runs.
struct Extism {
    program: String,
    plugin: String,
}

async fn cells(echo: &Path, default_stack: Option<&Path>, extism: Option<&Extism>) -> Result<Report> {
    let guest = Guest::echo("echo.wasm", std::fs::read(echo).with_context(|| echo.display().to_string())?);
    let arguments: Arc<str> = guest.arguments.as_str().into();
    let options = Options::new(Duration::from_secs(20), CompileMode::TrustedInProcess);
    let mut bench = Bench::new(guest, &options).await?;
    match default_stack {
        Some(path) => {
            let source = PluginSource::Bytes(std::fs::read(path)?.into());
            let bare = bench.sandbox().bare(source).await?;
            let mut peer = peer::bare(Arc::new(bare), "echo/echo".into(), Arc::clone(&arguments));
            peer.name = DEFAULT_STACK.to_owned();
            bench.add(peer);
        }
        None => bench.note("no echo with the default stack was named"),
    }
    match extism {
        Some(Extism { program, plugin }) => {
            for (name, what, about) in [
                ("extism", "fresh", "a plugin of Extism made per call from a compiled one"),
                ("extism-reused", "reused", "one plugin of Extism for all calls"),
            ] {
                let mut lines = peer::Lines::start(Command::new(program).args([plugin.as_str(), &*arguments]))?;
                bench.add(peer::Peer::elsewhere(name, about, move |calls| {
                    let answer = lines.ask(&format!("{what} {calls}\n"))?;
                    answer.split_whitespace().map(|nanos| Ok(nanos.parse()?)).collect()
                }));
            }
        }
        None => bench.note("Extism is not measured: its program was not built"),
    }
    bench.run(&say).await
}

/// One step's share of a workflow of cells, and of one without; one element's share of an `each` over cells.
async fn steps(echo: &Path, bare_us: Option<f64>) -> Result<[Target; 3]> {
    let folder = tempfile::tempdir()?;
    let project = work::project(folder.path(), echo)?;
    // One each: a run pays for forgetting what the journal in memory had kept of the one before it.
    let (of_steps, of_elements) = (host(&project).await?, host(&project).await?);
    let with_cells = Workflow::from_ir(Arc::new(serde_json::from_str(&work::chain(STEPS, "echo/echo"))?));
    let each_of_cells = Workflow::from_ir(Arc::new(serde_json::from_str(&work::each("echo/echo"))?));
    let xs: Vec<usize> = (0..ELEMENTS_IN_CELLS).collect();
    let xs = Value::object([("xs", Value::from(serde_json::json!(xs)))]);
    let sandbox = Sandbox::new(SandboxConfig::new(CompileMode::TrustedInProcess))?;
    let plugin = sandbox.load(LoadRequest::new("echo", PluginSource::File(echo.to_owned()))).await?;
    let engine = Engine::builder().operations(Arc::new(Nothing)).build();
    let without = work::program(&work::chain(STEPS, "no/cell"))?;
    let (mut cell, mut step, mut element, mut empty) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..150 {
        let started = Instant::now();
        hundred_cells(&plugin).await?;
        cell.push(started.elapsed() / STEPS as u32);
        let started = Instant::now();
        let run = of_steps.start(&with_cells, Value::object::<&str>([])).await?;
        let outcome = run.outcome().await?;
        step.push(started.elapsed() / STEPS as u32);
        ensure!(outcome.message.is_none(), "the workflow failed: {:?}", outcome.message);
        let started = Instant::now();
        let outcome = of_elements.start(&each_of_cells, xs.clone()).await?.outcome().await?;
        element.push(started.elapsed() / ELEMENTS_IN_CELLS as u32);
        ensure!(outcome.message.is_none(), "the workflow failed: {:?}", outcome.message);
        let started = Instant::now();
        work::run(&engine, &without, Value::object::<&str>([])).await?;
        empty.push(started.elapsed() / STEPS as u32);
    }
    let (cell, step, element, empty) = (median(cell), median(step), median(element), median(empty));
    Ok([
        Target::new(
            "workflow of 100 cells, per step / one cell",
            Bound::AtMost,
            1.2,
            Some(step / cell),
            format!("{step:.1} us beside {cell:.1} us"),
        ),
        Target::new(
            "`each` over 1,000 cells, 16 at once, per element / one cell",
            Bound::AtMost,
            1.0,
            Some(element / cell),
            format!("{element:.1} us beside {cell:.1} us"),
        ),
        Target::new(
            "engine step without a cell / bare cell (2 us where that takes 15)",
            Bound::AtMost,
            2.0 / 15.0,
            bare_us.map(|bare| empty / bare),
            format!("{empty:.2} us"),
        ),
    ])
}

async fn host(project: &Path) -> Result<Host> {
    Ok(Host::builder().config(Config::load(project)?).compile(CompileMode::TrustedInProcess).build().await?)
}

async fn hundred_cells(plugin: &Plugin) -> Result<()> {
    for at in 0..STEPS {
        plugin.invoke(CellRequest::new("echo/echo", &format!(r#"{{"n":{at}}}"#))).await.result?;
    }
    Ok(())
}

fn start_up(opcell: &Path, echo: &Path) -> Result<Target> {
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
fn commands(opcell: &Path, echo: &Path) -> Result<Vec<Target>> {
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
    targets.extend(each_of_cells(opcell, echo)?);
    Ok(targets)
}

/// The whole command over a hundred thousand cells, each event of them in a journal on disk.
fn each_of_cells(opcell: &Path, echo: &Path) -> Result<[Target; 2]> {
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

/// Transforms in this process.
fn transforms() -> Result<Vec<Target>> {
    let row = |at: usize| {
        let title = format!("Row {at} about {}", if at.is_multiple_of(3) { "urgent" } else { "ordinary" });
        let nested = Value::object([("rank", Value::from(((at * 104_729) % 1000) as i64))]);
        Value::object([
            ("id", Value::from(at as i64)),
            ("score", Value::from(((at * 7919) % 100) as i64)),
            ("title", Value::from(title)),
            ("nested", nested),
        ])
    };
    // Read from text, as rows come: they share their keys.
    let items = Value::from_json(&Value::array((0..data::ROWS).map(row)).to_json())?;
    let items = items.as_array().context("rows are an array")?;
    let (inputs, steps) = (Value::object([("min", Value::from(50))]), Value::object::<&str>([]));
    let mut targets = Vec::new();
    for (figure, most, operation) in [
        ("filter of 100,000 rows, ms", 16.7, r#"{"operation":"filter","where":"$item.score >= $inputs.min"}"#),
        (
            "filter by three clauses, ms",
            30.0,
            r#"{"operation":"filter","where":"$item.score >= $inputs.min && $item.title contains 'URGENT' && $index > 10"}"#,
        ),
        (
            "map of four fields, ms",
            24.0,
            r#"{"operation":"map","expression":{"a":"$item.id","b":"$item.title","c":"$index","d":"$item.nested.rank"}}"#,
        ),
        ("sort by a number, ms", 13.8, r#"{"operation":"sort","field":"score"}"#),
        ("sort by a text, ms", 9.3, r#"{"operation":"sort","field":"title","descending":true}"#),
        ("sort by a nested number, ms", 25.0, r#"{"operation":"sort","field":"nested.rank"}"#),
    ] {
        let operation: TransformOperation = serde_json::from_str(operation)?;
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let started = Instant::now();
            let out = transform::apply(&operation, items, &Context::new(&inputs, &steps))
                .map_err(|error| anyhow::anyhow!("{error:?}"))?;
            least = least.min(started.elapsed().as_secs_f64() * 1e3);
            drop(out);
        }
        targets.push(Target::new(figure, Bound::AtMost, most, Some(least), "in process, the least of 20".to_owned()));
    }
    Ok(targets)
}

/// What the engine itself takes, with operations that do nothing and a journal in memory.
async fn engine() -> Result<[Target; 3]> {
    const CHAIN: usize = 1_000;
    const EACH: i64 = 10_000;
    let chain = work::program(&work::chain(CHAIN, "no/cell"))?;
    let (one, mapped) = (work::skill_each(false)?, work::skill_each(true)?);
    let items = Value::array((0..EACH).map(|id| Value::object([("id", Value::from(id))])));
    let items = Value::object([("items", items)]);
    let least = async |program: &Arc<Program>, input: Value, parts: f64| -> Result<f64> {
        let mut least = f64::INFINITY;
        for _ in 0..20 {
            let engine = Engine::builder().operations(Arc::new(Echo)).build();
            let started = Instant::now();
            work::run(&engine, program, input.clone()).await?;
            least = least.min(started.elapsed().as_secs_f64() * 1e6 / parts);
        }
        Ok(least)
    };
    let how = || "in process, the least of 20".to_owned();
    let step = least(&chain, Value::object::<&str>([]), CHAIN as f64).await?;
    let element = least(&one, items.clone(), EACH as f64).await?;
    let with_outputs = least(&mapped, items, EACH as f64).await?;
    Ok([
        Target::new("step of a chain of 1,000, us", Bound::AtMost, 0.39, Some(step), how()),
        Target::new("element of `each` over 10,000, us", Bound::AtMost, 0.40, Some(element), how()),
        Target::new("the same with a template and two outputs, us", Bound::AtMost, 0.94, Some(with_outputs), how()),
    ])
}

/// What a run over many elements leaves in memory, beside the text of its results.
async fn each() -> Result<Target> {
    let folder = tempfile::tempdir()?;
    let journal = SqliteJournal::open(folder.path().join("runs.db"))?;
    let engine = Engine::builder().operations(Arc::new(Nothing)).journal(Arc::new(journal)).build();
    let program = work::program(&work::each("no/cell"))?;
    let xs: Vec<i64> = (0..ELEMENTS).collect();
    let input = Value::object([("xs", Value::from(serde_json::json!(xs)))]);
    // Forgets the peak of what ran before; where the system does not let it, the figure is too high and never too low.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = resident_kib();
    let started = Instant::now();
    work::run(&engine, &program, input).await?;
    let took = started.elapsed().as_secs_f64();
    let peak = data::peak_of("/proc/self/status").saturating_sub(before);
    let per_element = peak as f64 * 1024.0 / ELEMENTS as f64;
    Ok(Target::new(
        "`each` over 100,000 elements, bytes of memory per element at the peak",
        Bound::AtMost,
        1024.0,
        Some(per_element),
        format!("{} MiB more at the peak, {took:.1} s, journal on disk", peak >> 10),
    ))
}
