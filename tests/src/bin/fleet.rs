//! `fleet --kills N`: N rounds of workers on one PostgreSQL journal, and something that goes wrong in each; with
//! `--restate`, a Restate server gives the workers their turns.
//!
//! The last line is `N rounds, M differences`; the exit code is 1 if M is not 0, and 2 if there could be no campaign.

use opcell_tests::fleet::{
    campaign,
    network::{Entered, Networks, enter},
};
use std::{path::Path, process::ExitCode};

const USAGE: &str = "usage: fleet --kills N [--first ROUND] [--restate]";

fn main() -> ExitCode {
    // How the campaign starts the command: under its name.
    let name = std::env::args_os().next();
    if name.is_some_and(|name| Path::new(&name).file_name().is_some_and(|name| name == campaign::COMMAND)) {
        return opcell_cli::cli::main();
    }
    opcell::prepare();
    let (restate, arguments): (Vec<String>, Vec<String>) =
        std::env::args().skip(1).partition(|argument| argument == "--restate");
    let (rounds, first) = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["--kills", rounds] => (rounds.parse(), Ok(0)),
        ["--kills", rounds, "--first", first] => (rounds.parse(), first.parse()),
        _ => return wrong(USAGE),
    };
    let (Ok(rounds), Ok(first)) = (rounds, first) else { return wrong(USAGE) };
    // A Restate server calls the workers: they stay where it finds them.
    let networks = match restate.is_empty() {
        true => match enter() {
            Ok(Entered::Here(networks)) => networks,
            Ok(Entered::Elsewhere(code)) => return code,
            Err(error) => return wrong(&format!("{error:#}")),
        },
        false => Networks::NONE,
    };
    match campaign::run(first, rounds, !restate.is_empty(), networks, |line| println!("{line}")) {
        Ok(Some(differences)) => {
            println!("{rounds} rounds, {differences} differences");
            if differences == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        // Said on stderr already.
        Ok(None) => ExitCode::from(2),
        Err(error) => wrong(&format!("{error:#}")),
    }
}

fn wrong(message: &str) -> ExitCode {
    eprintln!("{message}");
    ExitCode::from(2)
}
