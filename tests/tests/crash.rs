//! A short campaign; `cargo run --release -p opcell-tests --bin crash -- --kills 500` is the long one.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

#[test]
fn a_killed_run_goes_on_as_if_nothing_had_happened() {
    let output = Command::new(env!("CARGO_BIN_EXE_crash")).args(["--kills", "20"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("20 kills, 0 differences"), "{said}");
    assert!(output.status.success());
}

/// `cargo run --release -p opcell-tests --bin crash -- --questions 200` is the long one.
#[test]
fn a_call_is_made_at_most_once_and_as_it_was_approved_whoever_is_killed_between_question_answer_and_call() {
    let output = Command::new(env!("CARGO_BIN_EXE_crash")).args(["--questions", "12"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("12 kills, 0 differences"), "{said}");
    assert!(output.status.success());
}

/// `cargo run --release -p opcell-tests --bin crash -- --programs 500` is the long one, also in Python where its runtime
/// is installed.
#[test]
fn a_program_whose_host_is_killed_continues_with_its_answers_and_makes_no_call_twice() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
    // No user: programs in JavaScript alone.
    for name in ["HOME", "XDG_STATE_HOME"] {
        command.env_remove(name);
    }
    let output = command.args(["--programs", "30"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("30 kills, 0 differences"), "{said}");
    assert!(output.status.success());
}

/// The folder of a campaign: its component, and a cache that is no one else's.
fn cache(directory: &Path) -> PathBuf {
    let cache = directory.join("cache");
    std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700).create(&cache).unwrap();
    let wat = include_str!("../src/crash/plugin.wat");
    let component = opcell_cli::selftest::component_from_wat(wat, None, "operation-plugin", None).unwrap();
    std::fs::write(cache.join("test.wasm"), component).unwrap();
    cache
}

/// The disk of the campaign is full indeed: what it does after a write that failed is what is compared.
#[test]
fn a_process_whose_disk_is_full_says_so_before_it_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path());
    let mut said = String::new();
    for write in 1..=6 {
        let place = directory.path().join(write.to_string());
        std::fs::create_dir(&place).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_crash"));
        let output = child.arg("child").arg(&place).arg(&cache).arg(format!("full:{write}")).output().unwrap();
        said += &format!("{write}: {:?}: {}\n", output.status, String::from_utf8_lossy(&output.stderr));
        assert_eq!(output.status.code(), None, "it was not killed: {said}");
    }
    assert!(said.contains("the journal's storage failed"), "{said}");
}

#[test]
fn of_processes_that_fight_for_one_run_one_wins_and_the_others_say_why() {
    let directory = tempfile::tempdir().unwrap();
    let cache = cache(directory.path());
    let child = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_crash"));
        command.arg("child").arg(directory.path()).arg(&cache).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let children: Vec<_> = (0..4).map(|_| child()).collect();
    let ended: Vec<_> = children.into_iter().map(|child| child.wait_with_output().unwrap()).collect();
    let lost: Vec<_> = ended.iter().filter(|child| !child.status.success()).collect();
    assert!(!lost.is_empty() && lost.len() < ended.len(), "{} of {} lost", lost.len(), ended.len());
    for child in lost {
        let why = String::from_utf8_lossy(&child.stderr);
        let reasons = ["another process drives it", "already exists", "the journal is locked by another process"];
        assert!(reasons.iter().any(|reason| why.contains(reason)), "{why}");
    }
    let recorded = std::fs::read_to_string(directory.path().join("recorder")).unwrap();
    let mut lines: Vec<&str> = recorded.lines().filter(|line| line.contains("Deed")).collect();
    assert!(!lines.is_empty());
    let all = lines.len();
    lines.sort_unstable();
    lines.dedup();
    assert_eq!(lines.len(), all, "nothing was done twice");
}
