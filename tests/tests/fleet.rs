//! A few rounds of the fleet campaign; `cargo run -p opcell-tests --bin fleet -- --kills 200` is the long one.

#![allow(clippy::unwrap_used, reason = "a failed test")]

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

#[test]
fn real_workers_on_a_real_server_lose_and_repeat_nothing() {
    // A kill, a stop for longer than the lease, and cut connections.
    let output = Command::new(env!("CARGO_BIN_EXE_fleet")).args(["--kills", "3"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.code() == Some(2) && errors.starts_with("SKIPPED: no PostgreSQL") {
        eprint!("{errors}");
        return;
    }
    assert_eq!(said.lines().last(), Some("3 rounds, 0 differences"), "{said}{errors}");
    assert!(output.status.success(), "{said}{errors}");
}
