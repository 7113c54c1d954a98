//! `cargo xtask`: all the set-up there is.
//!
//! It owns how guests are built and in which order things run. It must not hold anything that a user of Opcell needs:
//! that belongs into the `opcell` command. Progress goes to stderr.

mod against;
mod authors;
mod bench;
mod bindings;
mod book;
mod guests;
mod javascript_runtime;
mod package;
mod process;
mod prose;
mod public_api;
mod release;
mod screenshots;
mod toolchain;

use anyhow::{Result, bail};
use process::{cargo, root, run};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask <task>

  guests      build every plugin of example-operations/ and every guest of tests/guests/ into their dist/ folders
  test        guests, then the tests of the workspace and of the plugins
  demo        guests, then a health report over this repository
  bench       guests, then the benchmarks; `cargo xtask bench --help` says what else is measured
  against     the twins of attacks in other hosts: a table, and a picture into docs/images; builds wasmi and Extism
  screenshots pictures of the server's page, into docs/images; needs Chromium
  book        docs/ as HTML in target/book; needs mdbook
  bindings    the packages for Python and Node.js; `--release`, and `--test` installs them where there is no Rust and
              tests them
  prose       English as the glossary wants it, counted crate by crate: a count may only shrink
  public-api  the public items of the crate `opcell`, compared with the list that was reviewed; `--save` writes it;
              needs cargo-public-api
  authors     install the tools of plugins in Python, JavaScript and C, or say what to type
  javascript-runtime  the plugin `code` and its engine, into host/opcell/builtin; needs clang
  release     everything that a person installs, into dist/; `--verify` installs it and runs it
  package     every published crate as crates.io would get it, and a crate elsewhere that builds against them";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match perform(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn perform(arguments: &[String]) -> Result<()> {
    let Some((task, rest)) = arguments.split_first() else { bail!("no task\n\n{USAGE}") };
    match task.as_str() {
        "guests" => guests::build(),
        "authors" => {
            authors::install();
            Ok(())
        }
        "test" => test(rest),
        "demo" => demo(rest),
        "bench" => bench::bench(rest),
        "against" => against::against(rest),
        "screenshots" => screenshots::screenshots(),
        "package" => package::package(),
        "javascript-runtime" => javascript_runtime::build(),
        "bindings" => bindings::bindings(rest),
        "book" => book::book(rest),
        "release" => release::release(rest),
        "prose" => prose::prose(rest),
        "public-api" => public_api::public_api(rest),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown task {other:?}\n\n{USAGE}"),
    }
}

fn test(rest: &[String]) -> Result<()> {
    guests::build()?;
    run(cargo().args(["test", "--workspace"]).args(rest).current_dir(root()))?;
    run(cargo().args(["test", "--workspace"]).args(rest).current_dir(root().join("example-operations")))
}

fn demo(rest: &[String]) -> Result<()> {
    guests::build()?;
    let opcell = |arguments: &[&str]| {
        let mut command = cargo();
        // What runs cells and keeps runs, without the quarter of the crates that speaks over a network.
        command.args(["run", "--package", "opcell-cli", "--no-default-features", "--features", "sqlite", "--"]);
        command.args(arguments).args(rest).current_dir(root());
        command
    };
    // The picture of the way that the run took: a file that can be opened or sent.
    let target = process::target_directory()?;
    std::fs::create_dir_all(&target)?;
    let picture = target.join("demo.svg");
    let file = picture.to_string_lossy();
    run(&mut opcell(&["run", "repo-health", "--graph", &file]))?;
    eprintln!("\nThe same without the files grant ends in a denial:");
    let denied = opcell(&["--without-grant", "repo:files", "run", "repo-health"]).status()?;
    if denied.code() != Some(1) {
        bail!("without its grant the report ended with {denied}, not with a failed run");
    }
    eprintln!("\nThe steps of the report, and the path that the run took: {}", picture.display());
    Ok(())
}
