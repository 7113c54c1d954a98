//! A few simulated fleets; `cargo run --release -p opcell-tests --bin simulate -- --seeds 100000` is the long campaign.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::process::Command;

#[test]
fn runs_of_simulated_fleets_end_as_if_nothing_had_happened() {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate")).args(["--seeds", "60"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(said.lines().last(), Some("60 seeds, 0 differences"), "{said}");
}
