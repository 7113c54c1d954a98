//! The arguments that several commands have, each with its own reading of them.

use super::failure::Failure;
use clap::{Args, ValueEnum};
use opcell::{
    config::{Config, JournalPlace, JournalSettings},
    run::{InvalidRunId, NewRunId},
};
use std::{io::IsTerminal, path::PathBuf, sync::Arc, time::Duration};

/// Options of every command.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Options of every command")]
pub(super) struct Global {
    /// Project file; by default `opcell.toml` in this directory or the nearest one above.
    #[arg(long, global = true, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Withdraw a grant of the project file for this command: `PLUGIN:KIND[:NAME]`, such as `repo:files`.
    #[arg(long, global = true, value_name = "GRANT")]
    pub(super) without_grant: Vec<String>,
    /// Allow what the project asks for, for this command, if its list has this digest (see `opcell trust --show`).
    /// OPCELL_TRUST does the same for several digests, separated by spaces.
    #[arg(long, global = true, value_name = "DIGEST")]
    pub(super) trust: Vec<String>,
    /// Load only plugins that `opcell.lock` holds with their digest, and do not write it: for CI.
    #[arg(long, global = true)]
    pub(super) locked: bool,
    /// Print results as JSON.
    #[arg(long, global = true)]
    pub(super) json: bool,
    /// Print results and errors only.
    #[arg(long, short, global = true)]
    pub(super) quiet: bool,
    /// Print every call of a plugin or a tool, even if there were many.
    #[arg(long, short, global = true, conflicts_with = "quiet")]
    pub(super) verbose: bool,
    /// Level of the log on stderr; RUST_LOG is more precise, such as `warn,opcell_engine=debug`.
    #[arg(long, global = true, value_name = "LEVEL")]
    pub(super) log_level: Option<LogLevel>,
    /// Format of the log.
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub(super) log_format: LogFormat,
    /// Use of colours. `auto`: on a terminal, unless `NO_COLOR` is set.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub(super) color: Color,
}

/// When output has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}

impl Color {
    pub(super) fn on(self, stream: &impl IsTerminal) -> bool {
        match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }
}

/// The level of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// The format of a line of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    Text,
    Json,
}

/// The part of a pack that is asked.
#[derive(Debug, Args)]
pub struct PackArgs {
    /// Ask this prompt of the PromptPack by itself, whether or not the pack has a workflow.
    #[arg(long, value_name = "KEY")]
    pub(super) prompt: Option<String>,
    /// Ask this agent of the pack: start in its state, or ask its prompt if it has none (RFC 0011).
    #[arg(long, value_name = "NAME", conflicts_with = "prompt")]
    pub(super) agent: Option<String>,
}

/// The journal of a run, and its ID.
#[derive(Debug, Args)]
pub struct JournalArgs {
    /// Keep the run in a journal, so that it survives this process: this file or `postgres://` URL, else the project's,
    /// else `.opcell/runs.db`.
    #[arg(long, value_name = "PATH|URL", require_equals = true, value_parser = journal_place)]
    journal: Option<Option<JournalPlace>>,
    /// Keep the run in memory only, even if the project has a journal.
    #[arg(long, conflicts_with = "journal")]
    no_journal: bool,
    /// Run ID; must be unique. Generated if omitted.
    #[arg(long = "as", value_name = "NAME", value_parser = run_id)]
    name: Option<NewRunId>,
}

impl JournalArgs {
    /// Sets the project's journal to what is asked for.
    pub fn choose(&self, config: &mut Config) -> Result<(), Failure> {
        match &self.journal {
            Some(Some(place)) => config.journal = Some(JournalSettings::at(place.clone())),
            Some(None) if config.journal.is_none() => config.journal = Some(JournalSettings::usual(&config.root)?),
            None if self.no_journal => config.journal = None,
            _ => {}
        }
        Ok(())
    }

    /// The name that the run shall have.
    pub fn name(&self) -> Option<NewRunId> {
        self.name.clone()
    }
}

/// An ID that a user gives a run.
pub fn run_id(id: &str) -> Result<NewRunId, InvalidRunId> {
    id.parse()
}

/// A journal that the user names: the password of a server may come from the usual variable.
pub fn journal_place(text: &str) -> Result<JournalPlace, String> {
    let mut place = text.parse()?;
    if let JournalPlace::Server(server) = &mut place {
        server.usual_password = true;
    }
    Ok(place)
}

/// The journal to read.
#[derive(Debug, Default, Args)]
pub struct StoreArgs {
    /// Journal file, or URL of a PostgreSQL server; by default the project's, else `.opcell/runs.db`.
    #[arg(long, global = true, value_name = "PATH|URL", value_parser = journal_place)]
    pub(super) journal: Option<JournalPlace>,
}

/// The sender.
#[derive(Debug, Default, Args)]
pub(super) struct Sender {
    /// Name to record as the sender. Defaults to the current user.
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

impl Sender {
    pub(super) fn name(&self) -> Option<Arc<str>> {
        // The user that the kernel knows; a variable or an option may say anything, and is shown beside it.
        let user = format!("uid {}", rustix::process::getuid().as_raw());
        Some(match self.by.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} ({user})").into(),
            None => user.into(),
        })
    }
}

/// A recorded call of a run.
#[derive(Debug, Args)]
pub struct CallArgs {
    /// Step whose call to replay.
    #[arg(long, value_name = "NAME")]
    pub step: String,
    /// Number of the step's recorded call, from 1; the last one if omitted.
    #[arg(long, value_name = "N")]
    pub call: Option<usize>,
}

/// The run that a command starts from another.
#[derive(Debug, Args)]
pub(super) struct NewRunOptions {
    /// ID of the new run; must be unique. Generated if omitted.
    #[arg(long = "as", value_name = "NAME", value_parser = run_id)]
    pub(super) name: Option<NewRunId>,
    /// Create the run without driving it, to look at it before you resume it or leave it to a worker.
    #[arg(long)]
    pub(super) hold: bool,
    #[command(flatten)]
    pub(super) stop: StopArgs,
}

/// The answer for calls that wait for a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Approve {
    /// They are asked about: in a terminal at once, elsewhere the run is suspended.
    Ask,
    /// They are refused.
    Deny,
    /// They are made.
    Yes,
}

/// The stopping of a command that drives runs.
#[derive(Debug, Clone, Copy, Args)]
pub struct StopArgs {
    /// Seconds that a step in progress may take to end after SIGINT or SIGTERM, before it is stopped.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    grace: u64,
}

impl StopArgs {
    /// The time that a step under way has.
    pub fn grace(self) -> Duration {
        Duration::from_secs(self.grace)
    }
}

/// A language of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ProgramLanguage {
    Javascript,
    Python,
}
