//! `conformance FILE.json…`: runs case files and prints the id of each failing case, what was expected and what was
//! got, then `N passed, M failed`. Exit code 1 if any failed, 2 if a file cannot be run at all.

use opcell_tests::conformance;
use std::{path::Path, process::ExitCode};

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: conformance FILE.json…");
        return ExitCode::from(2);
    }
    let (mut passed, mut failed, mut broken) = (0, 0, false);
    for file in &files {
        match conformance::run_file(Path::new(file)) {
            Ok(outcomes) => {
                for outcome in outcomes {
                    match outcome.failure {
                        None => passed += 1,
                        Some(failure) => {
                            failed += 1;
                            println!(
                                "FAIL {}\n  expected: {}\n  got:      {}",
                                outcome.id, failure.expected, failure.got
                            );
                        }
                    }
                }
            }
            Err(error) => {
                eprintln!("{file}: {error}");
                broken = true;
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    match (broken, failed) {
        (true, _) => ExitCode::from(2),
        (false, 0) => ExitCode::SUCCESS,
        (false, _) => ExitCode::FAILURE,
    }
}
