//! `opcell runs`: what a journal holds, and what its runs can be told. Nothing here loads a plugin unless a run is to go on.

mod list;
mod resume;
mod show;
mod tell;

use super::{Exit, Failure, Global, Terminal};
use clap::{Args, Subcommand};
use opcell::{
    config::{Config, JournalSettings},
    report::Rejected,
    store,
};
use opcell_engine::Engine;
use opcell_journal::{RunEntry, RunId};
use opcell_workflow::{Diagnostic, diagnostic::did_you_mean};
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(subcommand)]
    command: RunsCommand,
}

/// Which journal.
#[derive(Debug, Args)]
pub struct StoreArgs {
    /// The journal; without it, the project's, or `.opcell/runs.db`.
    #[arg(long, global = true, value_name = "PATH")]
    journal: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// Lists runs, newest first.
    List(list::ListArgs),
    /// Shows what a run did, step by step, up to its last event or any other.
    Show(show::ShowArgs),
    /// Takes up a run that was interrupted, or that waits and has been told something.
    Resume(resume::ResumeArgs),
    /// Makes a run stop.
    Cancel(tell::CancelArgs),
    /// Sends a run a signal.
    Signal(tell::SignalArgs),
    /// Approves, or refuses, what a run asks.
    Approve(tell::ApproveArgs),
    /// Decides a run again from its journal, and fails where this version decides otherwise.
    Replay(show::ReplayArgs),
    /// Starts a new run that shares the beginning of another.
    Fork(resume::ForkArgs),
}

pub async fn runs(global: &Global, args: &RunsArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = args.store.config(global)?;
    match &args.command {
        RunsCommand::List(list) => list::list(&Open::journal(&config).await?, list, terminal).await,
        RunsCommand::Show(show) => show::show(&Open::journal(&config).await?, show, terminal).await,
        RunsCommand::Resume(resume) => resume::resume(config, resume, terminal).await,
        RunsCommand::Cancel(cancel) => tell::cancel(&Open::journal(&config).await?, cancel, terminal).await,
        RunsCommand::Signal(signal) => tell::signal(&Open::journal(&config).await?, signal, terminal).await,
        RunsCommand::Approve(approve) => tell::approve(&Open::journal(&config).await?, approve, terminal).await,
        RunsCommand::Replay(replay) => show::replay(&Open::journal(&config).await?, replay, terminal).await,
        RunsCommand::Fork(fork) => resume::fork(config, fork, terminal).await,
    }
}

impl StoreArgs {
    /// The project, with the journal that is meant; it has to be there.
    pub fn config(&self, global: &Global) -> Result<Config, Failure> {
        let mut config = global.config()?;
        let default = config.root.join(JournalSettings::DEFAULT_PATH);
        let settings = match &self.journal {
            Some(path) => JournalSettings::at(path.clone()),
            None => config.journal.take().unwrap_or_else(|| JournalSettings::at(default)),
        };
        if !settings.path.is_file() {
            let missing = format!("there is no journal `{}`", settings.path.display());
            let help = "`opcell run --journal WORKFLOW` makes one; `--journal PATH` names another";
            return Err(Diagnostic::error("no-journal", missing).help(help.to_owned()).into());
        }
        config.journal = Some(settings);
        Ok(config)
    }
}

/// Who tells.
#[derive(Debug, Args)]
struct Teller {
    /// Who says so; unless given, the user that runs this command.
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

impl Teller {
    fn name(&self) -> Option<Arc<str>> {
        let user = || ["USER", "LOGNAME"].iter().find_map(|name| std::env::var(name).ok());
        self.by.clone().or_else(user).filter(|name| !name.is_empty()).map(Into::into)
    }
}

/// A journal with an engine that can ask and tell, and perform nothing.
pub(super) struct Open {
    pub(super) engine: Engine,
}

impl Open {
    pub(super) async fn journal(config: &Config) -> Result<Self, Failure> {
        let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
        Ok(Self { engine: Engine::builder().journal(Arc::new(store::open(settings).await?)).build() })
    }

    /// The run that a person means.
    pub(super) async fn run(&self, named: &str) -> Result<RunId, Failure> {
        Ok(meant(&self.engine.runs().await?, named)?.run.clone())
    }
}

/// The run of this name, the only one whose name begins like this, or the `last` one.
fn meant<'a>(runs: &'a [RunEntry], named: &str) -> Result<&'a RunEntry, Rejected> {
    if let Some(exact) = runs.iter().find(|run| run.run.as_ref() == named) {
        return Ok(exact);
    }
    if named == "last"
        && let Some(newest) = runs.first()
    {
        return Ok(newest);
    }
    let like: Vec<&RunEntry> = runs.iter().filter(|run| !named.is_empty() && run.run.starts_with(named)).collect();
    let unknown =
        |message: String, help: String| Err(Rejected::plain(Diagnostic::error("unknown-run", message).help(help)));
    match like.as_slice() {
        [one] => Ok(one),
        [] => {
            let near = did_you_mean(named, runs.iter().map(|run| run.run.as_ref()));
            let help = near.map_or_else(
                || "`opcell runs list` shows what there is".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            unknown(format!("the journal has no run `{named}`"), help)
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|run| run.run.as_ref()).collect();
            unknown(format!("{} runs begin with `{named}`", several.len()), format!("such as {}", names.join(", ")))
        }
    }
}
