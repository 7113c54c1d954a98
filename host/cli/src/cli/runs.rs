//! `opcell runs`: the runs of a journal, and messages to them. No plugin is loaded unless a run is resumed.

mod adopt;
mod answer;
mod approve;
mod backup;
mod cancel;
mod delete;
mod delivery;
#[cfg(feature = "server")]
mod export;
mod fork;
mod list;
mod repin;
mod replay;
mod restore;
mod resume;
mod retry;
mod show;
mod signal;
mod trust_clock;

use super::{
    Exit, Failure, Global, Terminal,
    args::StoreArgs,
    journal::{Open, meant},
};
use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub struct RunsArgs {
    #[command(flatten)]
    store: StoreArgs,
    #[command(subcommand)]
    command: RunsCommand,
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
    Cancel(cancel::CancelArgs),
    /// Send a signal to a run.
    Signal(signal::SignalArgs),
    /// Approve what a run asks for, or refuse it.
    Approve(approve::ApproveArgs),
    /// Fill in the form of a tool that asks for input, or decline to.
    Answer(answer::AnswerArgs),
    /// Replay a run from its journal; fail where this version decides otherwise.
    Replay(replay::ReplayArgs),
    /// Start a new run that shares the first events of another.
    Fork(fork::ForkArgs),
    /// Start a new run that makes the failed call of another again.
    Retry(retry::RetryArgs),
    /// Move runs to the versions of plugins that the project has now.
    Repin(repin::RepinArgs),
    /// Print every event of a run for other tools, or a trace for an OpenTelemetry collector.
    #[cfg(feature = "server")]
    Export(export::ExportArgs),
    /// Adopt runs that came with a journal from elsewhere, so that they can continue.
    Adopt(adopt::AdoptArgs),
    /// Delete runs that have ended.
    Delete(delete::DeleteArgs),
    /// Trust the clock where it disagrees with the journal, so that retention continues.
    TrustClock,
    /// Copy the journal into a new file while workers continue.
    Backup(backup::BackupArgs),
    /// Restore the journal from a backup.
    Restore(restore::RestoreArgs),
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
        RunsCommand::Cancel(cancel) => cancel::cancel(&Open::journal(&config).await?, cancel, terminal).await,
        RunsCommand::Signal(signal) => signal::signal(&Open::journal(&config).await?, signal, terminal).await,
        RunsCommand::Approve(approve) => {
            approve::approve(&Open::journal(&config).await?, global, approve, terminal).await
        }
        RunsCommand::Answer(args) => answer::answer(&Open::journal(&config).await?, args, terminal).await,
        RunsCommand::Replay(replay) => replay::replay(&Open::journal(&config).await?, replay, terminal).await,
        #[cfg(feature = "server")]
        RunsCommand::Export(export) => export::export(&Open::journal(&config).await?, export, terminal).await,
        RunsCommand::Adopt(adopt) => adopt::adopt(&Open::journal(&config).await?, adopt, terminal).await,
        RunsCommand::Delete(delete) => delete::delete(&Open::journal(&config).await?, delete, terminal).await,
        RunsCommand::TrustClock => trust_clock::trust_clock(&config, terminal).await,
        RunsCommand::Backup(backup) => backup::backup(&config, backup, terminal).await,
        RunsCommand::Restore(restore) => restore::restore(&config, restore, terminal).await,
        RunsCommand::Fork(fork) => fork::fork(config, fork, terminal).await,
        RunsCommand::Repin(repin) => repin::repin(config, repin, terminal).await,
        RunsCommand::Retry(retry) => retry::retry(config, retry, terminal).await,
    }
}
