//! Cells beside the bare engine and other ways to isolate a call, and workflows of cells.

use super::{Bound, Target, median};
use crate::work::{self, Nothing};
use anyhow::{Context as _, Result, ensure};
use opcell::{Config, Host, Workflow};
use opcell_bench::{Bench, Guest, Options, Report, peer};
use opcell_engine::Engine;
use opcell_sandbox::{CellRequest, CompileMode, LoadRequest, Plugin, PluginSource, Sandbox, SandboxConfig};
use opcell_types::Value;
use std::{
    path::Path,
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

const STEPS: usize = 100;
const ELEMENTS_IN_CELLS: usize = 1_000;

/// Returns the cost of a cell, and other findings.
///
/// # Errors
/// When a peer does not do its work.
pub async fn cells(
    echo: &Path,
    default_stack: Option<&Path>,
    extism: Option<&Extism>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(Vec<Target>, Report)> {
    let report = report(echo, default_stack, extism, say).await?;
    let us = |name: &str| report.rows.iter().find(|row| row.name == name).map(|row| row.median_us);
    let over = |over: &str, under: &str| Some(us(over)? / us(under)?);
    let both = |a: &str, b: &str| match (us(a), us(b)) {
        (Some(a), Some(b)) => format!("{a:.1} us beside {b:.1} us"),
        _ => "not measured here".to_owned(),
    };
    let targets = vec![
        Target::new(
            "cell / bare wasmtime, same component",
            Bound::AtMost,
            1.1,
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
    Ok((targets, report))
}

const DEFAULT_STACK: &str = "bare-wasmtime-1mib-stack";

/// The program that measures Extism, and what it runs.
#[derive(Debug)]
pub struct Extism {
    /// The program.
    pub program: String,
    /// The plugin that it runs.
    pub plugin: String,
}

async fn report(
    echo: &Path,
    default_stack: Option<&Path>,
    extism: Option<&Extism>,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Report> {
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
    bench.run(say).await
}

/// One step's share of a workflow of cells, and of one without; one element's share of an `each` over cells. `bare_us`:
/// what a cell takes in the engine alone.
///
/// # Errors
/// When a workflow fails.
pub async fn steps(echo: &Path, bare_us: Option<f64>) -> Result<[Target; 3]> {
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
        let outcome = run.finished().await?;
        step.push(started.elapsed() / STEPS as u32);
        ensure!(outcome.message.is_none(), "the workflow failed: {:?}", outcome.message);
        let started = Instant::now();
        let outcome = of_elements.start(&each_of_cells, xs.clone()).await?.finished().await?;
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
