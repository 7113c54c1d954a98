//! `cargo xtask bench`: everything that is measured, each by one command.

use crate::{
    guests,
    process::{cargo, output, root, run, target_directory},
};
use anyhow::{Context, Result, bail};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

pub const USAGE: &str = "\
usage: cargo xtask bench [CRITERION ARGUMENTS]   the criterion suites
       cargo xtask bench --save                  and keeps their figures as the baseline
       cargo xtask bench --compare               and compares them with the baseline
       cargo xtask bench --targets [--json] [--extism] [--only GROUP,…] [--occasions N]
                                                 every target, met or not, or those of some groups (cells, turns, workflows,
                                                 start, memory, commands, each-cells, transforms, engine, sessions):
                                                 medians and spread of three occasions, or of N; Extism's program is built first, which
                                                 takes minutes
       cargo xtask bench --scale [--json] [--only GROUP,…] [--most N] [--directory DIRECTORY]
                                                 cost as work grows by factors of ten, drawn, or that of some groups (runs,
                                                 plugins, steps, tools, questions, tenants), up to N of each; fails if a
                                                 curve is worse than linear
       cargo xtask bench --peers [ARGUMENTS OF opcell bench]
                                                 the echo's cell beside QuickJS, wasmi and a JavaScript plugin; their
                                                 programs are built first, which takes minutes
       cargo xtask bench --server [--json] [--only NAME,…] [--seconds N] [--directory DIRECTORY]
                                                 the server over HTTP, with the client on the same machine
       cargo xtask bench --programs [--rounds N] [--json]
                                                 programs that models write, beside other sandboxes; installs these from
                                                 npm, and the runtime for Python where componentize-py is on the path
       cargo xtask bench --program-tokens [FILE.json…]
                                                 declarations of tools beside their JSON, and five tasks by tools and by
                                                 programs; each file is the answer of `tools/list` of a server
       cargo xtask bench --three-steps [--only NAME,…] [--rounds N] [--samples N] [--batch N] [--json]
                                                 three durable steps over HTTP in Opcell, Restate and DBOS, which come from
                                                 npm; needs PostgreSQL for two of the rows
       cargo xtask bench --instructions [--release]
                                                 instructions of the hot paths, against their budgets; needs valgrind;
                                                 built as the tests are, or optimised
       cargo xtask bench --instructions [--release] --save REASON
                                                 and keeps them as the budgets, with the reason for the change";

/// This many percent more, or less, than its budget fail a path: counts repeat to a tenth of it.
const TOLERANCE: f64 = 5.0;

/// The same for a path that writes on a thread of its own: how many batches it makes depends on when that thread runs,
/// and 28 to 31 million instructions were seen for one build.
const TOLERANCE_THREADED: f64 = 15.0;

/// The number of times a path runs in the two runs whose difference counts: what is not optimised takes long under
/// valgrind.
const TIMES: (u64, u64) = (1, 3);

/// The same, optimised.
const TIMES_OPTIMISED: (u64, u64) = (5, 25);

/// A path, what it does with something more, and the most that this may take, in percent: of an unoptimised build, where
/// the target of 2 % is missed by half of one.
const SURCHARGES: [(&str, &str, f64); 1] = [("session/1000-calls", "session/1000-calls-unless-pure", 3.0)];

/// The file in which `--instructions --save` keeps its counts.
const BUDGETS: &str = "benches/instructions.json";

/// The budget of each hot path.
#[derive(Default, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Budgets {
    /// Why they are what they are: what was changed last.
    reason: String,
    /// Instructions of one run of a path, by its name, built as the tests are: what CI checks.
    dev: BTreeMap<String, u64>,
    /// The same, optimised.
    release: BTreeMap<String, u64>,
}

pub fn bench(rest: &[String]) -> Result<()> {
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--save", rest @ ..] => criterion(rest, &["--save-baseline", "saved"]),
        ["--compare", rest @ ..] => criterion(rest, &["--baseline", "saved"]),
        ["--targets", rest @ ..] => targets(rest),
        ["--scale", rest @ ..] => scale(rest),
        ["--peers", rest @ ..] => peers(rest),
        ["--server", rest @ ..] => server(rest),
        ["--programs", rest @ ..] => model_programs(rest),
        ["--program-tokens", rest @ ..] => program_tokens(rest),
        ["--three-steps", rest @ ..] => three_steps(rest),
        ["--instructions"] => instructions(false, None),
        ["--instructions", "--release"] => instructions(true, None),
        ["--instructions", "--save", reason] if !reason.trim().is_empty() => instructions(false, Some(reason)),
        ["--instructions", "--release", "--save", reason] if !reason.trim().is_empty() => {
            instructions(true, Some(reason))
        }
        ["--instructions", ..] => bail!("budgets are changed with a reason\n\n{USAGE}"),
        ["--help" | "-h"] => {
            println!("{USAGE}");
            Ok(())
        }
        rest => criterion(rest, &[]),
    }
}

fn criterion(rest: &[&str], baseline: &[&str]) -> Result<()> {
    guests::build()?;
    let mut command = cargo();
    command.args(["bench", "--package", "opcell-benches"]).current_dir(root());
    // By name: `--benches` would hand criterion's arguments to the libraries' and programs' own tests as well.
    for suite in fs::read_dir(root().join("benches/benches"))? {
        if let Some(suite) = suite?.path().file_stem() {
            command.arg("--bench").arg(suite);
        }
    }
    command.args(rest);
    if !baseline.is_empty() {
        command.arg("--").args(baseline);
    }
    run(&mut command)
}

/// Builds what belongs to this repository, optimised; where its programs are.
fn programs() -> Result<PathBuf> {
    run(cargo()
        .args(["build", "--release", "--package", "opcell-cli", "--package", "opcell-benches", "--bins"])
        .current_dir(root()))?;
    Ok(target_directory()?.join("release"))
}

fn targets(rest: &[&str]) -> Result<()> {
    let (mut json, mut with_extism, mut only, mut occasions) = (false, false, None, None);
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        match *word {
            "--json" => json = true,
            "--extism" => with_extism = true,
            "--only" => only = Some(words.next().context("`--only` needs groups")?),
            "--occasions" => occasions = Some(words.next().context("`--occasions` needs a number")?),
            other => bail!("no option `{other}`\n\n{USAGE}"),
        }
    }
    guests::build()?;
    let programs = programs()?;
    let mut command = Command::new(programs.join("targets"));
    command.args(json.then_some("--json")).current_dir(root());
    if let Some(only) = only {
        command.args(["--only", only]);
    }
    if let Some(occasions) = occasions {
        command.args(["--occasions", occasions]);
    }
    command.arg(root().join("example-operations/dist/echo.wasm"));
    if only.is_none_or(|only| only.split(',').any(|group| group == "cells")) {
        match guests::echo_with_default_stack() {
            Ok(path) => {
                command.arg("--default-stack").arg(path);
            }
            Err(error) => eprintln!("bench: without the echo of the default stack: {error:#}"),
        }
    }
    if with_extism {
        command.arg("--extism").args([extism()?, guests::extism_echo()?]);
    }
    run(&mut command)
}

fn server(rest: &[&str]) -> Result<()> {
    guests::build()?;
    let programs = programs()?;
    run(Command::new(programs.join("server")).arg(root().join("example-operations/dist/echo.wasm")).args(rest))
}

fn scale(rest: &[&str]) -> Result<()> {
    let programs = programs()?;
    run(Command::new(programs.join("growth")).args(rest))
}

/// The Node packages of the other sandboxes.
const SANDBOXES: [&str; 3] = ["quickjs-emscripten@0.32.0", "isolated-vm@5.0.4", "pyodide@314.0.7"];

/// Programs that models write, beside other sandboxes in one run.
fn model_programs(rest: &[&str]) -> Result<()> {
    let programs = programs()?;
    let folder = target_directory()?.join("program-peers");
    fs::create_dir_all(&folder)?;
    for file in fs::read_dir(root().join("benches/programs"))? {
        let file = file?;
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    let mut command = Command::new(programs.join("programs"));
    command.args(rest);
    fs::write(folder.join("package.json"), "{\"private\": true}\n")?;
    for package in SANDBOXES {
        let install = ["install", "--no-audit", "--no-fund", "--silent", package];
        if let Err(error) = run(Command::new("npm").args(install).current_dir(&folder)) {
            eprintln!("bench: SKIPPED {package}: {error:#}");
        }
    }
    if Command::new("node").arg("--version").output().is_ok_and(|output| output.status.success()) {
        command.arg("--peers").arg(&folder);
    } else {
        eprintln!("bench: SKIPPED the other sandboxes: there is no `node`");
    }
    if let Err(error) = run(Command::new(programs.join("opcell")).args(["code", "install", "python", "--quiet"])) {
        eprintln!("bench: the runtime for Python is not built anew: {error:#}");
    }
    run(&mut command)
}

/// Three durable steps over HTTP, beside other durable engines in one run.
fn three_steps(rest: &[&str]) -> Result<()> {
    let programs = programs()?;
    let folder = target_directory()?.join("three-steps");
    fs::create_dir_all(&folder)?;
    for file in fs::read_dir(root().join("benches/three-steps"))? {
        let file = file?;
        fs::copy(file.path(), folder.join(file.file_name()))?;
    }
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund", "--silent"]).current_dir(&folder))?;
    let mut harness = Command::new("node");
    harness.arg("harness.mjs").arg("--opcell").arg(programs.join("opcell")).args(rest);
    run(harness.current_dir(&folder))
}

/// The bytes that a model reads, with tools and with programs.
fn program_tokens(rest: &[&str]) -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "--package", "opcell-benches", "--no-default-features", "--bin", "program-tokens"]);
    run(command.arg("--").args(rest).current_dir(root()))
}

/// `opcell bench` with what is too heavy for it: engines in programs of their own, and an interpreter in a component.
fn peers(rest: &[&str]) -> Result<()> {
    guests::build()?;
    let programs = programs()?;
    let package = root().join("benches/peers");
    let target = package.join("target");
    run(cargo().args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(&package))?;
    let program = |name: &str| target.join("release").join(name).display().to_string();
    let (quickjs, wasmi) = (program("quickjs-peer"), program("wasmi-peer"));
    let module = guests::plain_echo()?;
    let mut command = Command::new(programs.join("opcell"));
    command.arg("bench").current_dir(root());
    for how in ["fresh", "reused"] {
        let row = |engine: &str| if how == "fresh" { engine.to_owned() } else { format!("{engine}-reused") };
        command.arg("--library").arg(format!("{}='{quickjs}' {how}", row("quickjs")));
        command.arg("--library").arg(format!("{}='{wasmi}' {how} '{}'", row("wasmi"), module.display()));
    }
    match javascript_echo(&programs.join("opcell"), &target) {
        Ok(path) => command.arg("--component").arg(format!("javascript={}", path.display())),
        Err(error) => {
            eprintln!("bench: SKIPPED the JavaScript plugin: {error:#}");
            &mut command
        }
    };
    run(command.args(rest))
}

/// An echo in JavaScript, made as an author makes one: the component holds an interpreter.
fn javascript_echo(opcell: &Path, target: &Path) -> Result<PathBuf> {
    let plugin = target.join("echo-js");
    if !plugin.is_dir() {
        fs::create_dir_all(target)?;
        run(Command::new(opcell).args(["plugin", "new", "echo-js", "--lang", "javascript"]).current_dir(target))?;
    }
    fs::copy(root().join("benches/peers/echo.js"), plugin.join("src/plugin.js"))?;
    run(Command::new("npm").args(["install", "--no-audit", "--no-fund"]).current_dir(&plugin))
        .context("`npm` installs what makes a component of JavaScript")?;
    run(Command::new(opcell).args(["plugin", "build"]).current_dir(&plugin))?;
    Ok(plugin.join("dist/echo-js.wasm"))
}

/// Extism's program; the first build takes minutes, an engine being part of it.
fn extism() -> Result<PathBuf> {
    let package = root().join("benches/extism");
    let target = package.join("target");
    run(cargo().args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(&package))?;
    Ok(target.join("release/extism-peer"))
}

/// Counts every hot path, and compares with what it may take, or keeps that.
fn instructions(release: bool, save: Option<&str>) -> Result<()> {
    if output(Command::new("valgrind").arg("--version")).is_none() {
        bail!("valgrind counts the instructions, and it is not here: `sudo apt-get install valgrind`");
    }
    let program = hot_paths(release)?;
    let names = output(&mut Command::new(&program)).context("the hot paths cannot be listed")?;
    let at = root().join(BUDGETS);
    let mut budgets: Budgets = match fs::read_to_string(&at) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{BUDGETS} cannot be read"))?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Budgets::default(),
        Err(error) => return Err(error).with_context(|| format!("{BUDGETS} cannot be read")),
    };
    let kept = if release { &mut budgets.release } else { &mut budgets.dev };
    let times = if release { TIMES_OPTIMISED } else { TIMES };
    let (mut counts, mut outside) = (BTreeMap::new(), Vec::new());
    for name in names.lines() {
        let few = count(&program, name, times.0)?;
        let many = count(&program, name, times.1)?;
        let each = many.saturating_sub(few) / (times.1 - times.0);
        let change = kept.get(name).map(|budget| (each as f64 / (*budget).max(1) as f64 - 1.0) * 100.0);
        let shown = change.map_or_else(|| "no budget".to_owned(), |change| format!("{change:+.2} %"));
        println!("{name:<36} {each:>14} instructions  {shown}");
        if change.is_none_or(|change| change.abs() > tolerance(name)) {
            outside.push(name.to_owned());
        }
        counts.insert(name.to_owned(), each);
    }
    surcharges(&counts)?;
    if let Some(reason) = save {
        *kept = counts;
        reason.trim().clone_into(&mut budgets.reason);
        fs::write(&at, format!("{}\n", serde_json::to_string_pretty(&budgets)?))?;
        eprintln!("bench: saved in {BUDGETS}");
        return Ok(());
    }
    let gone: Vec<&String> = kept.keys().filter(|name| !counts.contains_key(*name)).collect();
    if !outside.is_empty() || !gone.is_empty() {
        let gone = gone.into_iter().map(|name| format!("{name} (measured no more)"));
        let paths: Vec<String> = outside.into_iter().chain(gone).collect();
        bail!(
            "more than {TOLERANCE} % from the budget ({TOLERANCE_THREADED} % for what is written on disk): {}; if that is meant: \
             cargo xtask bench --instructions --save \"why\"",
            paths.join(", ")
        );
    }
    Ok(())
}

/// Compares paths with what they do with something more.
fn surcharges(counts: &BTreeMap<String, u64>) -> Result<()> {
    for (plain, more, most) in SURCHARGES {
        let (Some(plain_count), Some(more_count)) = (counts.get(plain), counts.get(more)) else { continue };
        let surcharge = (*more_count as f64 / (*plain_count).max(1) as f64 - 1.0) * 100.0;
        println!("{more} takes {surcharge:+.2} % more than {plain} (at most {most} %)");
        if surcharge > most {
            bail!("{more} takes {surcharge:.2} % more than {plain}; at most {most} % is allowed");
        }
    }
    Ok(())
}

fn tolerance(name: &str) -> f64 {
    if name.ends_with("on-disk") { TOLERANCE_THREADED } else { TOLERANCE }
}

/// Builds the program of the hot paths: together with the tests, so that it is built only once, or optimised, and then
/// without the WebAssembly engine, which it does not need.
fn hot_paths(release: bool) -> Result<PathBuf> {
    let mut command = cargo();
    if release {
        command.args(["build", "--release", "--package", "opcell-benches", "--no-default-features"]);
        command.args(["--bin", "hot_paths"]);
    } else {
        command.args(["test", "--workspace", "--no-run"]);
    }
    run(command.arg("--locked").current_dir(root()))?;
    Ok(target_directory()?.join(if release { "release/hot_paths" } else { "debug/hot_paths" }))
}

/// Instructions of a whole process, as callgrind collected them.
fn count(program: &Path, name: &str, times: u64) -> Result<u64> {
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args([name, &times.to_string()])
        .output()
        .context("valgrind does not start")?;
    let said = String::from_utf8_lossy(&ran.stderr);
    let collected = said.lines().find_map(|line| line.split_once("Collected :").map(|(_, count)| count.trim()));
    match collected.and_then(|count| count.parse().ok()) {
        Some(count) if ran.status.success() => Ok(count),
        _ => bail!("`{name}` fails under valgrind ({}): {}", ran.status, said.lines().last().unwrap_or_default()),
    }
}
