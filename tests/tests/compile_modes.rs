//! The program that compiles plugins for an embedder. This test is a program of its own, because it starts itself: as
//! one that has called `opcell::prepare` first in its `main`, as one that has not, and as one that is started as a
//! compiler and has forgotten the call.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

use opcell::{CompileProgram, LoadError, SandboxError, prelude::*};
use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

/// If everything that should stop generations fails, this does.
const TOO_MANY: usize = 5;

fn main() {
    let words: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    match words.as_slice() {
        [role, folder] if role.as_os_str() == "forgets" => return forgets(folder),
        [role, folder] if role.as_os_str() == "unprepared" => return unprepared(folder),
        _ => opcell::prepare(),
    }
    a_prepared_program_compiles_in_a_child_of_itself();
    a_program_that_is_not_prepared_is_told_what_to_do_and_starts_nothing();
    a_program_that_forgets_the_call_is_stopped_at_the_handshake_and_starts_no_second_generation();
    println!("3 passed");
}

fn build(folder: &Path, cache: &str, mode: Option<CompileMode>) -> Result<Host, HostError> {
    let plugin = PluginConfig::new("test", folder.join("test.wasm"));
    let host = Host::builder().plugin(plugin).cache(folder.join(cache));
    let host = match mode {
        Some(mode) => host.compile(mode),
        None => host,
    };
    opcell::runtime().unwrap().block_on(host.build())
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let wat = include_str!("../src/crash/plugin.wat");
    let component = opcell_cli::selftest::component_from_wat(wat, None, "operation-plugin", None).unwrap();
    fs::write(folder.path().join("test.wasm"), component).unwrap();
    folder
}

fn started_as(role: &str, folder: &Path) -> Output {
    // Nothing that is installed on this machine shall help.
    Command::new(std::env::current_exe().unwrap()).arg(role).arg(folder).env("PATH", "").output().unwrap()
}

fn a_prepared_program_compiles_in_a_child_of_itself() {
    let folder = folder();
    assert!(matches!(CompileMode::find(), Ok(CompileMode::Child(_))));
    let host = build(folder.path(), "cache", None).unwrap();
    assert_eq!(host.catalog().entries().len(), 1);
}

fn unprepared(folder: &Path) {
    match build(folder, "cache", None) {
        Err(HostError::Sandbox(error @ SandboxError::NoCompiler)) => println!("{error}"),
        other => println!("{:?}", other.err()),
    }
}

fn a_program_that_is_not_prepared_is_told_what_to_do_and_starts_nothing() {
    let folder = folder();
    let output = started_as("unprepared", folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    for remedy in ["call", "first in its `main`", "opcell-compile", "TrustedInProcess"] {
        assert!(text.contains(remedy), "{text}");
    }
}

/// A program that was started as a compiler and does not know it does what it always does.
fn forgets(folder: &Path) {
    let log = folder.join("generations");
    let before = fs::read_to_string(&log).unwrap_or_default().lines().count();
    let what = if before < TOO_MANY {
        format!("{:?}", build(folder, "own", Some(forgetful(folder))).err())
    } else {
        "many".into()
    };
    let mut log = fs::File::options().create(true).append(true).open(log).unwrap();
    writeln!(log, "{what}").unwrap();
}

fn forgetful(folder: &Path) -> CompileMode {
    let args = vec!["forgets".into(), folder.as_os_str().to_owned()];
    CompileMode::Child(CompileProgram { path: std::env::current_exe().unwrap(), args })
}

fn a_program_that_forgets_the_call_is_stopped_at_the_handshake_and_starts_no_second_generation() {
    let folder = folder();
    let error = build(folder.path(), "cache", Some(forgetful(folder.path()))).err().unwrap();
    let HostError::Plugin(error) = error else { panic!("{error}") };
    assert!(matches!(error.error, LoadError::Compile(_)), "{error}");
    assert!(error.to_string().contains("gave no answer"), "{error}");
    let generations = fs::read_to_string(folder.path().join("generations")).unwrap();
    // One generation, which says what it lacks.
    assert!(generations.lines().count() == 1 && generations.contains("call `prepare` first"), "{generations}");
}
