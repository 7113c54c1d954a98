//! `simulate --seeds N [--first SEED]`: N simulated fleets, one seed each; a seed that fails does so again.
//! `--planted FAULT` shows that the simulation finds one: `lost-append` or `blind-retry`.
//!
//! The last line is `N seeds, M differences`; the exit code is 1 if M is not 0, and 2 if there could be no simulation.

use opcell_tests::simulation::{Planted, Undisturbed};
use std::{
    process::ExitCode,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

const USAGE: &str = "usage: simulate --seeds N [--first SEED] [--planted lost-append|blind-retry]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mut seeds, mut first, mut planted) = (None, 1, None);
    for pair in arguments.chunks(2) {
        let [option, value] = pair else { return wrong(USAGE) };
        match (option.as_str(), value.parse::<u64>()) {
            ("--seeds", Ok(number)) => seeds = Some(number),
            ("--first", Ok(number)) => first = number,
            ("--planted", _) if Planted::named(value).is_some() => planted = Planted::named(value),
            _ => return wrong(USAGE),
        }
    }
    let Some(seeds) = seeds else { return wrong(USAGE) };
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
                    let found =
                        undisturbed.differences(seed, planted).unwrap_or_else(|error| vec![format!("{error:#}")]);
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
