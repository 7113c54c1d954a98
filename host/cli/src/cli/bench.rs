//! `opcell bench`: what a cell costs on this machine, and how fast it stops a runaway guest.

use super::{Exit, Failure, Global, Terminal, input};
use crate::bench::{self, Bench, Guest, Options, Report, contain};
use anyhow::Context as _;
use clap::Args;
use opcell::{CompileMode, config::Config};
use opcell_workflow::Diagnostic;
use std::{path::PathBuf, time::Duration};

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// Component file, or name of a plugin of the project. Defaults to the project's plugin `echo`, else a built-in
    /// echo.
    #[arg(requires = "op")]
    plugin: Option<String>,
    /// Operation to call.
    #[arg(long, value_name = "ID", requires = "plugin")]
    op: Option<String>,
    /// Arguments: a JSON object, `@FILE`, or `key=value` (repeatable).
    #[arg(long, value_name = "ARGS", requires = "plugin")]
    args: Vec<String>,
    /// Time for the peers that are measured alternately, in seconds; setting up and the memory figures take longer.
    #[arg(long, value_name = "SECONDS", default_value_t = 12, value_parser = clap::value_parser!(u64).range(1..=3_600))]
    seconds: u64,
    /// Folder for `bench.json` and its chart, `bench.svg`.
    #[arg(long, value_name = "FOLDER", default_value = ".opcell/bench")]
    out: PathBuf,
    /// Bytes of each memory that the pool keeps resident and clears when a cell ends; the sandbox's default if omitted.
    #[arg(long, value_name = "BYTES")]
    keep_resident: Option<usize>,
    /// Do not write any files.
    #[arg(long, conflicts_with = "out")]
    no_files: bool,
    /// Measure containment instead: how long after its deadline a guest is stopped, and how much its neighbours are
    /// slowed.
    #[arg(long, conflicts_with_all = ["plugin", "out", "no_files"])]
    contain: bool,
}

pub async fn bench(global: &Global, args: &BenchArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let options = Options {
        time: Duration::from_secs(args.seconds),
        compile: CompileMode::find().map_err(anyhow::Error::from)?,
        keep_resident: args.keep_resident,
    };
    let progress = |text: &str| terminal.note(&format!("bench: {text}"));
    if cfg!(debug_assertions) {
        terminal.note("bench: this build is not optimised; measure one made with `cargo build --release`");
    }
    if args.contain {
        let containment = contain::contain(&options, &progress).await?;
        if terminal.json {
            terminal.json(&serde_json::to_value(&containment).context("the report")?)?;
        } else {
            contained(&containment, terminal)?;
        }
        let damage: usize = containment.neighbour.iter().map(|row| row.failures).sum();
        let through = containment.rows.iter().any(|row| row.by.iter().any(|kind| kind == "ok"));
        return Ok(if damage == 0 && !through { Exit::Done } else { Exit::RunFailed });
    }
    let guest = guest(global, args, terminal)?;
    progress(&format!("{}, {}", guest.name, guest.operation));
    let report = Bench::new(guest, &options).await?.run(&progress).await?;
    let value = serde_json::to_value(&report).context("the report")?;
    if terminal.json {
        terminal.json(&value)?;
    } else {
        table(&report, terminal)?;
    }
    if !args.no_files {
        let title = format!("{} of {}, {} bytes of arguments", report.operation, report.guest, report.argument_bytes);
        let (data, picture) = (args.out.join("bench.json"), args.out.join("bench.svg"));
        std::fs::create_dir_all(&args.out).with_context(|| format!("cannot create `{}`", args.out.display()))?;
        let write = |path: &PathBuf, text: &str| {
            std::fs::write(path, text).with_context(|| format!("cannot write `{}`", path.display()))
        };
        write(&data, &format!("{value:#}\n"))?;
        write(&picture, &bench::chart(&title, &report.rows)?)?;
        progress(&format!("wrote {} and {}", data.display(), picture.display()));
    }
    Ok(Exit::Done)
}

/// What the command line names; without a name, the project's echo if it is built.
fn guest(global: &Global, args: &BenchArgs, terminal: &Terminal) -> Result<Guest, Failure> {
    let config = if global.has_project()? { Some(global.config()?) } else { None };
    let of_project = |name: &str| config.as_ref().and_then(|config: &Config| config.plugins.get(name));
    let (Some(plugin), Some(operation)) = (&args.plugin, &args.op) else {
        if let Some(echo) = of_project("echo") {
            match std::fs::read(&echo.path) {
                Ok(component) => return Ok(Guest::echo(&echo.path.display().to_string(), component)),
                Err(error) => terminal.note(&format!(
                    "bench: measuring the built-in echo, because the project's plugin `echo` cannot be read ({error})"
                )),
            }
        }
        return Ok(Guest::built_in()?);
    };
    let path = of_project(plugin).map_or_else(|| PathBuf::from(plugin), |plugin| plugin.path.clone());
    let component = std::fs::read(&path).map_err(|error| {
        Diagnostic::error("no-plugin", format!("`{}` cannot be read: {error}", path.display()))
            .help("expected a component file, or a plugin of the project")
    })?;
    let arguments = input::arguments(&args.args)?.to_json();
    Ok(Guest {
        name: path.display().to_string(),
        component: component.into(),
        echo: false,
        operation: operation.clone(),
        arguments,
    })
}

fn table(report: &Report, terminal: &Terminal) -> std::io::Result<()> {
    let width = report.rows.iter().map(|row| row.name.len()).max().unwrap_or(0);
    terminal.line(&format!(
        "{:width$} {:>12} {:>12} {:>12} {:>10} {:>8}",
        "", "median us", "p99 us", "p25-p75 us", "x a cell", "calls"
    ))?;
    for row in &report.rows {
        let spread = format!("{:.1}-{:.1}", row.p25_us, row.p75_us);
        terminal.line(&format!(
            "{:width$} {:>12.2} {:>12.2} {:>12} {:>10.2} {:>8}",
            row.name, row.median_us, row.p99_us, spread, row.times_a_cell, row.calls
        ))?;
    }
    let figures = &report.figures;
    terminal.line("")?;
    terminal.line(&format!("cold compile and load   {:>10.2} ms", figures.cold_compile_ms))?;
    terminal.line(&format!("warm load               {:>10.2} ms", figures.warm_load_ms))?;
    if let Some(phases) = &figures.phases {
        terminal.line(&format!(
            "engine, phase by phase  {:>10.2} us instantiate, {:.2} us call, {:.2} us drop",
            phases.instantiate_us, phases.call_us, phases.drop_us
        ))?;
    }
    terminal.line(&format!("call of the host        {:>10.0} ns", figures.host_call_ns))?;
    terminal.line(&format!("each waiting cell       {:>10} KiB", figures.kib_per_waiting_cell))?;
    terminal.line(&format!("each loaded plugin      {:>10} KiB", figures.kib_per_loaded_plugin))?;
    let throughput = &figures.throughput;
    terminal.line(&format!(
        "cells per second        {:>10.0} on one core, {:.0} on {}",
        throughput.cells_per_second_one_core, throughput.cells_per_second_all_cores, throughput.cores
    ))?;
    let bare = throughput.bare_all_cores_to_one.map(|ratio| format!(", the bare engine {ratio:.2}"));
    terminal.line(&format!(
        "all cores to one        {:>10.2}{}, a native function {:.2}",
        throughput.cells_per_second_all_cores / throughput.cells_per_second_one_core,
        bare.unwrap_or_default(),
        throughput.native_all_cores_to_one
    ))?;
    terminal.line("")?;
    terminal.line(&format!("{}, {} cores, {}", report.machine.cpu, report.machine.cores, report.machine.system))?;
    terminal.line(&report.noise)?;
    for note in &report.notes {
        terminal.line(note)?;
    }
    Ok(())
}

fn contained(containment: &contain::Containment, terminal: &Terminal) -> std::io::Result<()> {
    let millis = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}"));
    terminal.line(&format!(
        "{:20} {:>12} {:>12} {:>12} {:>12}  stopped by",
        "", "deadline ms", "ended ms", "late ms", "at most"
    ))?;
    for row in &containment.rows {
        terminal.line(&format!(
            "{:20} {:>12} {:>12.2} {:>12} {:>12}  {}",
            row.name,
            millis(row.deadline_ms),
            row.stopped_after_ms,
            millis(row.late_ms),
            millis(row.worst_late_ms),
            row.by.join(", ")
        ))?;
    }
    terminal.line("")?;
    terminal
        .line(&format!("{:20} {:>12} {:>12} {:>12}  failures", "an honest plugin", "median us", "p99 us", "calls"))?;
    for row in &containment.neighbour {
        terminal.line(&format!(
            "{:20} {:>12.1} {:>12.1} {:>12}  {}",
            format!("beside {}", row.beside),
            row.median_us,
            row.p99_us,
            row.calls,
            row.failures
        ))?;
    }
    terminal.line(&containment.noise)
}
