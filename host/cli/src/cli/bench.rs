//! `opcell bench`: what a cell costs on this machine, and how fast it stops a runaway guest.

mod compare;
pub(super) mod grants;
mod table;

use super::{
    Exit, Failure, Global, Terminal, input,
    passing::Passing,
    plugin::component::{MAX_COMPONENT, project_here, unloadable},
    units,
};
use crate::bench::{
    self, Bench, Guest, Options,
    contain::{self, Attack},
};
use anyhow::Context as _;
use clap::{Args, Subcommand};
use opcell::{CompileMode, LimitRequest, config::Config};
use opcell_ir::Diagnostic;
use opcell_sandbox::{Exports, inspect};
use opcell_types::files::{Readers, make_folder, replace};
use std::{
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The command that installs a build with pictures, in a checkout of the repository.
const WITH_PLOTS: &str = "cargo install --path host/cli --features plots";

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    /// Component file, or name of a plugin of the project. Defaults to the project's plugin `echo`, else a built-in
    /// echo.
    plugin: Option<String>,
    /// Operation to call; may be omitted if the plugin has only one.
    #[arg(long, value_name = "ID", requires = "plugin")]
    op: Option<String>,
    /// Arguments: a JSON object, `@FILE`, or `key=value` (repeatable).
    #[arg(long, value_name = "ARGS", requires = "plugin")]
    args: Vec<String>,
    /// Grant the plugin a directory: `files:NAME=PATH` to read, `files-write:NAME=PATH` to read and write (repeatable).
    #[arg(long, value_name = "GRANT", requires = "plugin", value_parser = grants::parse)]
    grant: Vec<grants::Granted>,
    /// Time for the peers that are measured alternately, in seconds; setting up and the other figures take some 15 s
    /// more.
    #[arg(long, value_name = "SECONDS", default_value = "12", value_parser = units::seconds)]
    seconds: Duration,
    /// Measure a program beside the others: it answers each line of arguments with a line (repeatable).
    #[arg(long, value_name = "NAME=COMMAND", value_parser = own_peer)]
    peer: Vec<(String, String)>,
    /// Measure a library beside the others: a program that calls it in its own process and times each call
    /// (repeatable). docs/measuring.md says what such a program is asked, and `benches/peers` has two.
    #[arg(long, value_name = "NAME=COMMAND", value_parser = own_peer)]
    library: Vec<(String, String)>,
    /// Measure another component beside the others, in fresh cells and as one reused instance, such as an interpreter
    /// with the same operation (repeatable).
    #[arg(long, value_name = "NAME=FILE", value_parser = component)]
    component: Vec<(String, PathBuf)>,
    /// Break down the time of a cell: phases of Opcell and of the engine, and, where `perf` is installed, the
    /// functions that run most.
    #[arg(long, conflicts_with = "contain")]
    profile: bool,
    /// Measure arguments from 50 bytes to 1 MB as well. Only for an echo.
    #[arg(long, conflicts_with_all = ["plugin", "contain"])]
    sizes: bool,
    /// Run on these cores only, such as `0` or `0,1`, with every program that is measured.
    #[arg(long, value_name = "CORES")]
    pin: Option<String>,
    /// Write every single call to `samples.csv` as well.
    #[arg(long, conflicts_with_all = ["no_files", "contain"])]
    samples: bool,
    /// Folder for `bench.json` and, in a build with the feature `plots`, its pictures: `bench.svg`, and plots of
    /// latency, phases, memory and throughput.
    #[arg(long, value_name = "FOLDER", default_value = ".opcell/bench")]
    out: PathBuf,
    /// Bytes of each memory that the pool keeps resident and clears when a cell ends; the sandbox's default if omitted.
    #[arg(long, value_name = "BYTES")]
    keep_resident: Option<usize>,
    /// Do not write any files.
    #[arg(long, conflicts_with = "out")]
    no_files: bool,
    /// Measure containment instead: how long after its deadline a guest is stopped, and how much its neighbours are
    /// slowed. Measures the built-in attacks, or the plugin's operation.
    #[arg(long, conflicts_with_all = ["out", "no_files", "peer", "library", "component"])]
    contain: bool,
    /// Deadline of the plugin's operation.
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 100, requires = "contain")]
    deadline: u64,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// Compare two reports: which rows differ by more than their rounds vary.
    Compare(compare::CompareArgs),
}

fn own_peer(text: &str) -> Result<(String, String), String> {
    let named = text.split_once('=').filter(|(name, command)| !name.is_empty() && !command.trim().is_empty());
    let (name, command) = named.ok_or("expected NAME=COMMAND, such as `deno=deno run echo.ts`")?;
    Ok((name.to_owned(), command.to_owned()))
}

fn component(text: &str) -> Result<(String, PathBuf), String> {
    let named = text.split_once('=').filter(|(name, file)| !name.is_empty() && !file.is_empty());
    let (name, file) = named.ok_or("expected NAME=FILE, such as `python=dist/echo.wasm`")?;
    Ok((name.to_owned(), file.into()))
}

pub async fn bench(global: &Global, args: &BenchArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    if let Some(BenchCommand::Compare(args)) = &args.command {
        return compare::compare(args, terminal);
    }
    if let Some(cores) = &args.pin {
        pin(cores)?;
    }
    let mut options = Options::new(args.seconds, CompileMode::find().map_err(anyhow::Error::from)?);
    options.keep_resident = args.keep_resident;
    options.peers.clone_from(&args.peer);
    options.libraries.clone_from(&args.library);
    (options.samples, options.sizes, options.profile) = (args.samples, args.sizes, args.profile);
    for (name, file) in &args.component {
        options.components.push((name.clone(), read_component(file)?.into()));
    }
    if cfg!(debug_assertions) {
        terminal.note("bench: this build is not optimised; measure one made with `cargo build --release`");
    }
    let guest = guest(global, args, terminal)?;
    let passing = Passing::new(terminal);
    let progress = |text: &str| passing.say(&format!("bench: {text}"));
    if args.contain {
        let own = args.plugin.as_ref().map(|_| Attack {
            name: guest.plugin_name(),
            limits: LimitRequest { wall_time: Some(args.deadline.max(1)), ..LimitRequest::default() },
            guest,
        });
        let containment = contain::contain(&options, own, &progress).await?;
        drop(passing);
        return contained(&containment, args.plugin.is_some(), terminal);
    }
    if !args.no_files {
        // Before anything is measured: a folder that cannot be written is found at once.
        make(&args.out)?;
    }
    progress(&format!("{}, {}", guest.name, guest.operation));
    let report = Bench::new(guest, &options).await?.run(&progress).await?;
    drop(passing);
    let value = serde_json::to_value(&report).context("the report")?;
    if terminal.json {
        terminal.json(&value)?;
    } else {
        table::report(&report, terminal)?;
    }
    if !args.no_files {
        let write = |name: &str, text: &str| {
            let path = args.out.join(name);
            replace(&path, text.as_bytes(), Readers::Shared)
                .with_context(|| format!("cannot write `{}`", path.display()))
        };
        write("bench.json", &format!("{value:#}\n"))?;
        let pictures = bench::pictures(&report)?;
        for (name, svg) in &pictures {
            write(name, svg)?;
        }
        if args.samples {
            write("samples.csv", &report.samples)?;
        }
        let names: Vec<&str> = pictures.iter().map(|(name, _)| *name).collect();
        terminal.note(&format!("bench: {}", written(&args.out.join("bench.json"), &names)));
    }
    Ok(Exit::Done)
}

/// Returns a sentence about the files; a build that draws no pictures says how to get one that does.
fn written(report: &Path, pictures: &[&str]) -> String {
    match pictures {
        [] => format!("wrote {}; its pictures need a build with the feature `plots`: {WITH_PLOTS}", report.display()),
        names => format!("wrote {}, and as pictures {}", report.display(), names.join(", ")),
    }
}

fn contained(containment: &contain::Containment, is_own: bool, terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&serde_json::to_value(containment).context("the report")?)?;
    } else {
        table::containment(containment, terminal)?;
    }
    let damage: usize = containment.neighbour.iter().map(|row| row.failures).sum();
    // An attack that is known to be one must not end by itself; of another plugin that is no fault.
    let through = !is_own && containment.rows.iter().any(|row| row.by.iter().any(|kind| kind == contain::NOT_STOPPED));
    Ok(if damage == 0 && !through { Exit::Done } else { Exit::RunFailed })
}

fn make(folder: &Path) -> Result<(), Failure> {
    make_folder(folder, Readers::Shared).with_context(|| format!("cannot create `{}`", folder.display()))?;
    let probe = tempfile::tempfile_in(folder);
    Ok(probe.map(drop).with_context(|| format!("cannot write into `{}`", folder.display()))?)
}

/// Marks a process that runs on chosen cores already.
const PINNED: &str = "OPCELL_BENCH_PINNED";

/// Begins again on these cores. What is measured is started by this process, and stays there as well.
fn pin(cores: &str) -> Result<(), Failure> {
    if std::env::var_os(PINNED).is_some_and(|pinned| pinned == cores) {
        return Ok(());
    }
    let listed = |c: char| c.is_ascii_digit() || c == ',' || c == '-';
    if cores.is_empty() || !cores.chars().all(listed) {
        let message = format!("`{cores}` is not a list of cores");
        return Err(Diagnostic::error("invalid-cores", message).help("expected such as `0`, `0,1` or `2-5`").into());
    }
    let program = std::env::current_exe().context("this program's path")?;
    let mut again = Command::new("taskset");
    again.args(["-c", cores]).arg(program).args(std::env::args_os().skip(1)).env(PINNED, cores);
    let error = again.exec();
    let message = format!("cannot pin to cores {cores}: `taskset`: {error}");
    Err(Diagnostic::error("cannot-pin", message).help("install util-linux, or measure without `--pin`").into())
}

/// Returns the guest that the command line names; without a name, the project's echo if it is built.
fn guest(global: &Global, args: &BenchArgs, terminal: &Terminal) -> Result<Guest, Failure> {
    let config = if global.has_project()? { Some(global.config()?) } else { None };
    let of_project = |name: &str| config.as_ref().and_then(|config: &Config| config.plugins.get(name));
    let Some(plugin) = &args.plugin else {
        if let Some(echo) = of_project("echo").filter(|_| !args.contain) {
            match std::fs::read(&echo.path) {
                Ok(component) => return Ok(Guest::echo(&echo.path.display().to_string(), component)),
                Err(error) => terminal.note(&format!(
                    "bench: measuring the built-in echo, because the project's plugin `echo` cannot be read ({error})"
                )),
            }
        }
        return Ok(Guest::built_in()?);
    };
    let project = of_project(plugin);
    let path = project.map_or_else(|| PathBuf::from(plugin), |plugin| plugin.path.clone());
    let component = read_component(&path)?;
    let exports = project.map_or_else(|| inspect::exports_of(&component), |plugin| plugin.exports.clone());
    let surface = match exports {
        Exports::Contract => inspect::inspect(&component),
        _ => inspect::inspect_typed(&component),
    };
    let surface = surface.map_err(|error| unloadable(&error, &path))?;
    let mut grants = project.map(|plugin| plugin.grants.capabilities.clone()).unwrap_or_default();
    // No host serves what is measured: its tools and skills would fail one by one.
    grants.tools.clear();
    grants.skills.clear();
    for granted in &args.grant {
        granted.check(&surface.manifest)?;
        grants.files.insert(granted.name.clone(), granted.files.clone());
    }
    Ok(Guest {
        name: path.display().to_string(),
        operation: args.op.clone().unwrap_or_default(),
        component: component.into(),
        echo: false,
        arguments: input::arguments(&args.args, &serde_json::Value::Null)?.to_json(),
        grants,
        exports,
    })
}

fn read_component(path: &Path) -> Result<Vec<u8>, Failure> {
    let read = opcell::source::read_component(path, project_here().as_deref(), MAX_COMPONENT);
    Ok(read.map_err(|error| {
        Diagnostic::error("no-plugin", format!("`{}`: {error}", path.display()))
            .help("expected a component file, or a plugin of the project")
    })?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_draws_nothing_says_which_one_does() {
        let path = Path::new("out/bench.json");
        let without = written(path, &[]);
        assert!(without.starts_with("wrote out/bench.json") && without.ends_with(WITH_PLOTS), "{without}");
        assert_eq!(written(path, &["bench.svg", "a.svg"]), "wrote out/bench.json, and as pictures bench.svg, a.svg");
    }
}
