//! `crash --kills N`: kills a run N times, each time takes it up again, and compares what it leaves with an undisturbed
//! run.
//!
//! The last line is `N kills, D differences`; the exit code is 1 if D is not 0, and 2 if there could be no campaign.

use opcell_tests::crash::{campaign, child};
use std::{path::Path, process::ExitCode};

const USAGE: &str = "usage: crash --kills N";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--kills", kills] => match kills.parse() {
            Ok(kills) => fight(kills),
            Err(_) => wrong(&format!("`{kills}` is not a number\n{USAGE}")),
        },
        // How the campaign starts this same program: DIRECTORY CACHE [before:N | after:N].
        ["child", directory, cache, death @ ..] => live(directory, cache, death.first().copied()),
        _ => wrong(USAGE),
    }
}

fn wrong(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

fn fight(kills: usize) -> ExitCode {
    match campaign::run(kills, |line| println!("{line}")) {
        Ok(differences) => {
            println!("{kills} kills, {differences} differences");
            if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => wrong(&format!("{error:#}")),
    }
}

fn live(directory: &str, cache: &str, death: Option<&str>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&error.to_string()),
    };
    match runtime.block_on(child::live(Path::new(directory), Path::new(cache), death)) {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => wrong(&format!("{error:#}")),
    }
}
