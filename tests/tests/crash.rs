//! A short campaign; `cargo run --release -p opcell-tests --bin crash -- --kills 500` is the long one.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::process::Command;

#[test]
fn a_killed_run_goes_on_as_if_nothing_had_happened() {
    let output = Command::new(env!("CARGO_BIN_EXE_crash")).args(["--kills", "20"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("20 kills, 0 differences"), "{said}");
    assert!(output.status.success());
}
