//! `simulate --seeds N [--first SEED]`: N simulated fleets, one seed each; a seed that fails does so again.
//!
//! The last line is `N seeds, M differences`; the exit code is 1 if M is not 0, and 2 if there could be no simulation.

use opcell_tests::simulation::Undisturbed;
use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const USAGE: &str = "usage: simulate --seeds N [--first SEED]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (seeds, first) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--seeds", seeds] => (seeds.parse::<u64>(), Ok(1)),
        ["--seeds", seeds, "--first", first] => (seeds.parse::<u64>(), first.parse::<u64>()),
        _ => return wrong(USAGE),
    };
    let (Ok(seeds), Ok(first)) = (seeds, first) else { return wrong(USAGE) };
    let undisturbed = match Undisturbed::find() {
        Ok(undisturbed) => undisturbed,
        Err(error) => return wrong(&format!("{error:#}")),
    };
    let (next, differences) = (AtomicU64::new(first), AtomicU64::new(0));
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::SeqCst);
                    if seed >= first + seeds {
                        return;
                    }
                    let found = undisturbed.differences(seed).unwrap_or_else(|error| vec![format!("{error:#}")]);
                    if !found.is_empty() {
                        differences.fetch_add(1, Ordering::SeqCst);
                        println!("seed {seed} (again: --seeds 1 --first {seed}):\n  {}", found.join("\n  "));
                    }
                }
            });
        }
    });
    let differences = differences.into_inner();
    println!("{seeds} seeds, {differences} differences");
    if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn wrong(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
