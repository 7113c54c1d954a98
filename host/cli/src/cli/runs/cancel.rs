//! `opcell runs cancel`.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::args::Sender;
use clap::Args;
use opcell_engine::{Message, ResumeOptions, RunError, Status, outcome::RunOutcome};
use opcell_journal::{JournalError, RunId};
use serde_json::json;

#[derive(Debug, Args)]
pub struct CancelArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Reason to record with the cancellation.
    #[arg(long, value_name = "TEXT", default_value = "cancelled")]
    reason: String,
    #[command(flatten)]
    sender: Sender,
}

/// A run without a driver is ended here: cancelling needs no plugin, because no effect starts any more.
pub async fn cancel(open: &Open, args: &CancelArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let message = Message::Cancel { reason: args.reason.as_str().into(), by: args.sender.name() };
    open.engine.send(&run, &message).await?;
    let options = ResumeOptions { unpinned: true, ..ResumeOptions::default() };
    match open.engine.resume(&run, options).await {
        Ok(handle) => cancelled(&run, Some(handle.finished().await?), terminal),
        Err(RunError::Journal(error)) if matches!(*error, JournalError::Held { .. }) => cancelled(&run, None, terminal),
        Err(error) => Err(error.into()),
    }
}

fn cancelled(run: &RunId, outcome: Option<RunOutcome>, terminal: &Terminal) -> Result<Exit, Failure> {
    let status = outcome.as_ref().map(|outcome| outcome.status);
    if terminal.json {
        terminal.json(&json!({"ok": true, "run": run, "status": status}))?;
    } else {
        terminal.note(&match status {
            Some(Status::Cancelled) => format!("run `{run}` is cancelled"),
            Some(status) => format!("run `{run}` is {status}"),
            None => format!("asked the process that drives run `{run}` to cancel it"),
        });
    }
    Ok(Exit::Done)
}
