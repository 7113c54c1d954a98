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
       cargo xtask bench --targets [--json] [--extism]
                                                 every target, met or not; Extism's program is built first, which takes minutes
       cargo xtask bench --instructions [--save] instructions of the hot paths, against those that were saved; needs valgrind";

/// More instructions than this, in percent, are a regression: counts repeat to a fraction of it.
const TOLERANCE: f64 = 2.0;

/// How often a path runs in the two runs whose difference counts.
const TIMES: (u64, u64) = (5, 25);

/// Where `--instructions --save` keeps its counts.
const SAVED: &str = "benches/instructions.json";

pub fn bench(rest: &[String]) -> Result<()> {
    let words: Vec<&str> = rest.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--save", rest @ ..] => criterion(rest, &["--save-baseline", "saved"]),
        ["--compare", rest @ ..] => criterion(rest, &["--baseline", "saved"]),
        ["--targets", rest @ ..] if rest.iter().all(|word| matches!(*word, "--json" | "--extism")) => {
            targets(rest.contains(&"--json"), rest.contains(&"--extism"))
        }
        ["--instructions"] => instructions(false),
        ["--instructions", "--save"] => instructions(true),
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

fn targets(json: bool, with_extism: bool) -> Result<()> {
    guests::build()?;
    let programs = programs()?;
    let mut command = Command::new(programs.join("targets"));
    command.args(json.then_some("--json")).arg(root().join("example-operations/dist/echo.wasm")).current_dir(root());
    match guests::echo_with_default_stack() {
        Ok(path) => command.arg("--default-stack").arg(path),
        Err(error) => {
            eprintln!("bench: without the echo of the default stack: {error:#}");
            &mut command
        }
    };
    if with_extism {
        command.arg("--extism").args([extism()?, guests::extism_echo()?]);
    }
    run(&mut command)
}

/// Extism's program; the first build takes minutes, an engine being part of it.
fn extism() -> Result<PathBuf> {
    let package = root().join("benches/extism");
    let target = package.join("target");
    run(cargo().args(["build", "--release", "--locked", "--target-dir"]).arg(&target).current_dir(&package))?;
    Ok(target.join("release/extism-peer"))
}

fn instructions(save: bool) -> Result<()> {
    if output(Command::new("valgrind").arg("--version")).is_none() {
        bail!("valgrind counts the instructions, and it is not here: `sudo apt-get install valgrind`");
    }
    let program = programs()?.join("hot_paths");
    let names = output(&mut Command::new(&program)).context("the hot paths cannot be listed")?;
    let saved_at = root().join(SAVED);
    let saved: BTreeMap<String, u64> = match fs::read_to_string(&saved_at) {
        Ok(text) => serde_json::from_str(&text).with_context(|| format!("{SAVED} is not what was saved"))?,
        Err(_) => BTreeMap::new(),
    };
    let (mut counts, mut worse) = (BTreeMap::new(), Vec::new());
    for name in names.lines() {
        let few = count(&program, name, TIMES.0)?;
        let many = count(&program, name, TIMES.1)?;
        let each = many.saturating_sub(few) / (TIMES.1 - TIMES.0);
        let change = saved.get(name).map(|before| (each as f64 / (*before).max(1) as f64 - 1.0) * 100.0);
        let shown = change.map_or_else(|| "not saved before".to_owned(), |change| format!("{change:+.2} %"));
        println!("{name:<36} {each:>14} instructions  {shown}");
        if change.is_some_and(|change| change > TOLERANCE) {
            worse.push(name.to_owned());
        }
        counts.insert(name.to_owned(), each);
    }
    if save {
        fs::write(&saved_at, format!("{}\n", serde_json::to_string_pretty(&counts)?))?;
        eprintln!("bench: saved in {SAVED}");
        return Ok(());
    }
    if !worse.is_empty() {
        bail!("more than {TOLERANCE} % more instructions than saved: {}", worse.join(", "));
    }
    Ok(())
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
