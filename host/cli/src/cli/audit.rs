//! The line of the audit log for a command that may change something.

use clap::Command;

/// Commands, and the commands below others, that only look at something.
const LOOKS: [&str; 20] = [
    "bench",
    "check",
    "compile",
    "completions",
    "diff",
    "doctor",
    "explain",
    "export",
    "graph",
    "inspect",
    "list",
    "man",
    "prompt",
    "replay",
    "schema",
    "search",
    "selftest",
    "show",
    "triggers",
    "verify",
];

/// Logs the command of this process, if it may change something and the log wants to know. It ended with this code.
pub(super) fn note(code: u8, command: impl FnOnce() -> Command) {
    if tracing::enabled!(target: "opcell::audit", tracing::Level::INFO) {
        let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
        if let Some(acted) = Acted::of(words, command()) {
            acted.ended(code);
        }
    }
}

/// A command that may change something: its words, and the name that follows them.
#[derive(Debug, PartialEq, Eq)]
struct Acted {
    command: String,
    subject: String,
}

impl Acted {
    /// Parses the arguments of the program; `None` for a command that changes nothing. Options and their values, which
    /// may be secret, are left out.
    fn of(words: impl Iterator<Item = String>, mut command: Command) -> Option<Self> {
        let (mut path, mut subject) = (Vec::new(), String::new());
        for word in words {
            if let Some(below) = command.find_subcommand(&word) {
                path.push(word);
                command = below.clone();
            } else if !path.is_empty() {
                if !word.starts_with('-') && !word.contains('=') {
                    subject = word;
                }
                break;
            }
        }
        let last = path.last()?;
        let is_group = command.has_subcommands();
        (!is_group && !LOOKS.contains(&last.as_str())).then(|| Self { command: path.join(" "), subject })
    }

    /// It has ended with this code.
    fn ended(&self, code: u8) {
        let user = rustix::process::getuid().as_raw();
        let Self { command, subject } = self;
        tracing::info!(target: "opcell::audit", caller = format!("uid {user}"), address = "command", command, subject, code,
            "a command ended");
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory as _;

    fn acted(line: &str) -> Option<(String, String)> {
        Acted::of(line.split(' ').map(str::to_owned), Cli::command()).map(|acted| (acted.command, acted.subject))
    }

    #[test]
    fn a_command_that_changes_something_is_named_with_its_subject_and_without_values() {
        let named = |command: &str, subject: &str| Some((command.to_owned(), subject.to_owned()));
        assert_eq!(acted("runs approve r1 --by ann"), named("runs approve", "r1"));
        assert_eq!(acted("--quiet token new ci --scope read"), named("token new", "ci"));
        assert_eq!(acted("run --input token=secret"), named("run", ""));
        assert_eq!(acted("run token=secret"), named("run", ""));
        for looks in ["runs list", "runs show r1", "plugin diff", "check a.edn", "runs"] {
            assert_eq!(acted(looks), None, "{looks}");
        }
    }

    #[test]
    fn every_name_of_a_command_that_only_looks_is_that_of_a_command() {
        fn names(of: &clap::Command, all: &mut Vec<String>) {
            for below in of.get_subcommands() {
                all.push(below.get_name().to_owned());
                names(below, all);
            }
        }
        let mut all = Vec::new();
        names(&Cli::command(), &mut all);
        for look in LOOKS {
            assert!(all.iter().any(|name| name == look), "{look}");
        }
    }
}
