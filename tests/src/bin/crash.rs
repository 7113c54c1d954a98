//! `crash --kills N`: kills a run N times, each time takes it up again, and compares what it leaves with an undisturbed
//! run.
//!
//! `crash --questions N`: the same N times between a question about a model's call, its answer and the call.
//!
//! `crash --programs N`: the same N times of runs whose models write programs, in JavaScript, and in Python where its
//! runtime is installed: `opcell code install python`.
//!
//! The last line is `N kills, D differences`; the exit code is 1 if D is not 0, and 2 if there could be no campaign.

use opcell::places::Places;
use opcell_tests::crash::{campaign, child, programs, questions};
use std::{path::Path, process::ExitCode};

const USAGE: &str = "usage: crash --kills N | --questions N | --programs N";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [what @ ("--kills" | "--questions" | "--programs"), kills] => match kills.parse() {
            Ok(kills) if *what == "--kills" => fight(kills, campaign::run(kills, tell)),
            Ok(kills) if *what == "--programs" => {
                let python = Places::of_user().python_runtime().filter(|runtime| runtime.is_file());
                fight(kills, programs::run(kills, python.as_deref(), tell))
            }
            Ok(kills) => fight(kills, questions::run(kills, tell)),
            Err(_) => wrong(&format!("`{kills}` is not a number\n{USAGE}")),
        },
        // How the campaigns start this same program: … [before:N | after:N].
        ["child", directory, cache, death @ ..] => {
            live(child::live(Path::new(directory), Path::new(cache), death.first().copied()))
        }
        ["program", directory, cache, language, death @ ..] => {
            live(programs::live(Path::new(directory), Path::new(cache), language, death.first().copied()))
        }
        ["drive", directory, stays, death @ ..] => {
            live(questions::drive(Path::new(directory), *stays == "stays", death.first().copied()))
        }
        ["answer", directory, voice, death @ ..] => {
            live(questions::answer(Path::new(directory), voice, death.first().copied()))
        }
        _ => wrong(USAGE),
    }
}

fn wrong(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}

fn tell(line: String) {
    println!("{line}");
}

fn fight(kills: usize, differences: anyhow::Result<usize>) -> ExitCode {
    match differences {
        Ok(differences) => {
            println!("{kills} kills, {differences} differences");
            if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => wrong(&format!("{error:#}")),
    }
}

fn live<T: serde::Serialize>(life: impl Future<Output = anyhow::Result<T>>) -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return wrong(&error.to_string()),
    };
    match runtime.block_on(life) {
        Ok(report) => {
            println!("{}", serde_json::to_string(&report).unwrap_or_default());
            ExitCode::SUCCESS
        }
        Err(error) => wrong(&format!("{error:#}")),
    }
}
