//! A few rounds of the fleet campaign; `cargo run -p opcell-tests --bin fleet -- --kills 200` is the long one.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

use std::process::Command;

#[test]
fn nothing_is_lost_or_repeated_when_a_restate_server_gives_the_turns() {
    // It is killed in the first of them, a worker in the second, and stopped for longer than the lease in the third.
    let rounds = ["--kills", "3", "--first", "9", "--restate"];
    let output = Command::new(env!("CARGO_BIN_EXE_fleet")).args(rounds).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2) && errors.contains("SKIPPED: no ") {
        eprint!("{errors}");
        return;
    }
    assert_eq!(said.lines().last(), Some("3 rounds, 0 differences"), "{said}{errors}");
    assert!(output.status.success(), "{said}{errors}");
}

/// Returns the output of a campaign of these rounds; `None`, after its line on stderr, where there is no PostgreSQL.
fn fought(rounds: &[&str]) -> Option<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_fleet")).args(rounds).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in errors.lines().filter(|line| line.starts_with("SKIPPED: ")) {
        eprintln!("{line}");
    }
    if output.status.code() == Some(2) && errors.contains("SKIPPED: no PostgreSQL") {
        return None;
    }
    let expected = format!("{} rounds, 0 differences", rounds[1]);
    assert_eq!(said.lines().last(), Some(expected.as_str()), "{said}{errors}");
    assert!(output.status.success(), "{said}{errors}");
    Some(said + &errors)
}

#[test]
fn real_workers_on_a_real_server_lose_and_repeat_nothing() {
    // A kill, a stop for longer than the lease, and cut connections.
    fought(&["--kills", "3"]);
}

#[test]
fn workers_whose_network_fails_lose_and_repeat_nothing() {
    // Everything is lost in the first, what goes in one direction in the second, and a worker's machine in the third.
    let Some(said) = fought(&["--kills", "3", "--first", "10"]) else { return };
    let skipped = said.contains("SKIPPED: no network namespaces");
    assert!(skipped || said.contains("Partition(Both)"), "{said}");
}
