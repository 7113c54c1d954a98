//! A few simulated fleets; `cargo run --release -p opcell-tests --bin simulate -- --seeds 100000` is the long campaign.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::process::Command;

/// Runs the simulation; its output, and whether it found no difference.
fn simulate(arguments: &[&str]) -> (String, bool) {
    let output = Command::new(env!("CARGO_BIN_EXE_simulate")).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (said, output.status.success())
}

#[test]
fn runs_of_simulated_fleets_end_as_if_nothing_had_happened() {
    let (said, whole) = simulate(&["--seeds", "60"]);
    assert_eq!(said.lines().last(), Some("60 seeds, 0 differences"), "{said}");
    assert!(whole, "{said}");
}

#[test]
fn a_planted_fault_is_found_and_its_seed_fails_again_in_the_same_words() {
    for planted in ["lost-append", "blind-retry"] {
        let (said, whole) = simulate(&["--seeds", "40", "--planted", planted]);
        assert!(!whole, "{planted} was not found: {said}");
        let seed = said.lines().find_map(|line| line.strip_prefix("seed ")?.split(' ').next()).unwrap();
        let again = || simulate(&["--seeds", "1", "--first", seed, "--planted", planted]).0;
        let (first, second) = (again(), again());
        assert!(first.starts_with(&format!("seed {seed} ")), "{first}");
        assert_eq!(first, second);
        let detail = first.lines().nth(1).unwrap();
        assert!(said.contains(detail), "{said}\nagain:\n{first}");
    }
}
