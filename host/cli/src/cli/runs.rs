//! `opcell runs`: the runs of a journal, and messages to them. No plugin is loaded unless a run is resumed.

mod adopt;
mod answer;
#[cfg(feature = "server")]
mod export;
mod keep;
mod list;
mod repin;
mod resume;
mod send;
mod show;

use super::{Exit, Failure, Global, Terminal, run::journal_place};
use clap::{Args, Subcommand};
use opcell::{
    config::{Config, JournalPlace, JournalSettings},
    journals,
    report::Rejected,
};
use opcell_engine::Engine;
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_journal::{JournalError, RunEntry, RunId};
use std::sync::Arc;

#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(flatten)]
    pub(super) store: StoreArgs,
    #[command(subcommand)]
    command: RunsCommand,
}

/// The journal to read.
#[derive(Debug, Default, Args)]
pub struct StoreArgs {
    /// Journal file, or URL of a PostgreSQL server; by default the project's, else `.opcell/runs.db`.
    #[arg(long, global = true, value_name = "PATH|URL", value_parser = journal_place)]
    journal: Option<JournalPlace>,
}

#[derive(Debug, Subcommand)]
enum RunsCommand {
    /// List runs, newest first.
    List(list::ListArgs),
    /// Show what a run did, step by step.
    Show(show::ShowArgs),
    /// Resume an interrupted or suspended run.
    Resume(resume::ResumeArgs),
    /// Cancel a run.
    Cancel(send::CancelArgs),
    /// Send a signal to a run.
    Signal(send::SignalArgs),
    /// Approve what a run asks for, or refuse it.
    Approve(send::ApproveArgs),
    /// Fill in the form of a tool that asks for input, or decline to.
    Answer(answer::AnswerArgs),
    /// Replay a run from its journal; fail where this version decides otherwise.
    Replay(show::ReplayArgs),
    /// Start a new run that shares the first events of another.
    Fork(resume::ForkArgs),
    /// Start a new run that makes the failed call of another again.
    Retry(resume::RetryArgs),
    /// Move runs to the versions of plugins that the project has now.
    Repin(repin::RepinArgs),
    /// Print every event of a run for other tools, or a trace for an OpenTelemetry collector.
    #[cfg(feature = "server")]
    Export(export::ExportArgs),
    /// Adopt runs that came with a journal from elsewhere, so that they can continue.
    Adopt(adopt::AdoptArgs),
    /// Delete runs that have ended.
    Delete(keep::DeleteArgs),
    /// Trust the clock where it disagrees with the journal, so that retention continues.
    TrustClock,
    /// Copy the journal into a new file while workers continue.
    Backup(keep::BackupArgs),
    /// Restore the journal from a backup.
    Restore(keep::RestoreArgs),
}

pub async fn runs(global: &Global, args: &RunsArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let config = match &args.command {
        RunsCommand::Resume(_) | RunsCommand::Fork(_) | RunsCommand::Retry(_) | RunsCommand::Repin(_) => {
            args.store.config(global)?
        }
        // The journal may be missing: that is what a copy is for.
        RunsCommand::Restore(_) => args.store.chosen(args.store.looking_at(global)?)?,
        RunsCommand::List(_) | RunsCommand::Show(_) => args.store.reading(global)?,
        _ => args.store.looking(global)?,
    };
    match &args.command {
        RunsCommand::List(list) => list::list(&Open::journal(&config).await?, &config, list, terminal).await,
        RunsCommand::Show(show) => show::show(&Open::journal(&config).await?, &config, show, terminal).await,
        RunsCommand::Resume(resume) => resume::resume(config, resume, terminal).await,
        RunsCommand::Cancel(cancel) => send::cancel(&Open::journal(&config).await?, cancel, terminal).await,
        RunsCommand::Signal(signal) => send::signal(&Open::journal(&config).await?, signal, terminal).await,
        RunsCommand::Approve(approve) => send::approve(&Open::journal(&config).await?, global, approve, terminal).await,
        RunsCommand::Answer(args) => answer::answer(&Open::journal(&config).await?, args, terminal).await,
        RunsCommand::Replay(replay) => show::replay(&Open::journal(&config).await?, replay, terminal).await,
        #[cfg(feature = "server")]
        RunsCommand::Export(export) => export::export(&Open::journal(&config).await?, export, terminal).await,
        RunsCommand::Adopt(adopt) => adopt::adopt(&Open::journal(&config).await?, adopt, terminal).await,
        RunsCommand::Delete(delete) => keep::delete(&Open::journal(&config).await?, delete, terminal).await,
        RunsCommand::TrustClock => keep::trust_clock(&config, terminal).await,
        RunsCommand::Backup(backup) => keep::backup(&config, backup, terminal).await,
        RunsCommand::Restore(restore) => keep::restore(&config, restore, terminal).await,
        RunsCommand::Fork(fork) => resume::fork(config, fork, terminal).await,
        RunsCommand::Repin(repin) => repin::repin(config, repin, terminal).await,
        RunsCommand::Retry(retry) => resume::retry(config, retry, terminal).await,
    }
}

impl StoreArgs {
    /// The project and the chosen journal, which must exist.
    pub fn config(&self, global: &Global) -> Result<Config, Failure> {
        self.with(global.trusted()?)
    }

    /// As [`Self::config`], for looking into a journal and sending messages to its runs. A journal that is named here
    /// is the user's own word; one that the project names takes consent.
    pub(super) fn looking(&self, global: &Global) -> Result<Config, Failure> {
        self.with(self.looking_at(global)?)
    }

    /// As [`Self::looking`], for what only reads. A file that lies in the project's own folder is read without consent
    /// to whatever else the project asks for.
    pub(super) fn reading(&self, global: &Global) -> Result<Config, Failure> {
        if self.journal.is_some() {
            return self.looking(global);
        }
        // Without consent the project has no journal any more: it is the one that the file names.
        let Some(own) = global.proposed()?.own_journal().cloned() else { return self.looking(global) };
        let mut config = global.config()?;
        config.journal = Some(own);
        self.with(config)
    }

    fn looking_at(&self, global: &Global) -> Result<Config, Failure> {
        if self.journal.is_some() { global.config() } else { global.trusted() }
    }

    /// The project with the chosen journal, which may be missing.
    fn chosen(&self, mut config: Config) -> Result<Config, Failure> {
        config.journal = Some(match (&self.journal, config.journal.take()) {
            (Some(place), _) => JournalSettings::at(place.clone()),
            (None, Some(journal)) => journal,
            (None, None) => JournalSettings::usual(&config.root)?,
        });
        Ok(config)
    }

    fn with(&self, config: Config) -> Result<Config, Failure> {
        let config = self.chosen(config)?;
        let file = config.journal.as_ref().and_then(|settings| settings.place.file());
        if let Some(path) = file.filter(|path| !path.is_file()) {
            let missing = format!("there is no journal `{}`", path.display());
            let help = match &self.journal {
                Some(_) => format!(
                    "`opcell run --journal={} WORKFLOW` creates it; `--journal PATH` chooses another",
                    path.display()
                ),
                None => "`opcell run --journal WORKFLOW` creates it; `--journal PATH` chooses another".to_owned(),
            };
            return Err(Diagnostic::error("no-journal", missing).help(help).into());
        }
        Ok(config)
    }
}

/// The sender.
#[derive(Debug, Default, Args)]
struct Sender {
    /// Name to record as the sender. Defaults to the current user.
    #[arg(long, value_name = "WHO")]
    by: Option<String>,
}

impl Sender {
    fn name(&self) -> Option<Arc<str>> {
        // The user that the kernel knows; a variable or an option may say anything, and is shown beside it.
        let user = format!("uid {}", rustix::process::getuid().as_raw());
        Some(match self.by.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => format!("{name} ({user})").into(),
            None => user.into(),
        })
    }
}

/// A journal with an engine that reads runs and sends messages, and performs no effect.
pub(super) struct Open {
    pub(super) engine: Engine,
}

impl Open {
    pub(super) async fn journal(config: &Config) -> Result<Self, Failure> {
        let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
        Ok(Self { engine: Engine::builder().journal(journals::open(settings).await?).build() })
    }

    /// A run as lists have it.
    async fn entry(&self, run: &RunId) -> Result<RunEntry, Failure> {
        let entry = self.engine.runs().await?.into_iter().find(|entry| entry.run == *run);
        Ok(entry.ok_or_else(|| JournalError::UnknownRun(run.clone()))?)
    }

    /// The run that the argument names.
    pub(super) async fn run(&self, named: &str) -> Result<RunId, Failure> {
        Ok(meant(&self.engine.runs().await?, named)?.run.clone())
    }
}

/// The run with this ID, the only one with this prefix, or the `last` one.
fn meant<'a>(runs: &'a [RunEntry], named: &str) -> Result<&'a RunEntry, Rejected> {
    if let Some(exact) = runs.iter().find(|run| run.run.as_ref() == named) {
        return Ok(exact);
    }
    if named == opcell::run::NEWEST
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
                || "`opcell runs list` lists the runs".to_owned(),
                |near| format!("did you mean `{near}`?"),
            );
            unknown(format!("the journal has no run `{named}`"), help)
        }
        several => {
            let names: Vec<&str> = several.iter().take(5).map(|run| run.run.as_ref()).collect();
            unknown(
                format!("the prefix `{named}` matches {} runs", several.len()),
                format!("such as {}", names.join(", ")),
            )
        }
    }
}
