//! `opcell runs delete`, `trust-clock`, `backup` and `restore`: what becomes of a journal's runs.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::counted;
use clap::Args;
use opcell::{config::Config, journals};
use opcell_ir::Diagnostic;
use serde_json::json;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// Run IDs, unique prefixes of them, or `last`. They must have ended.
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<String>,
}

pub async fn delete(open: &Open, args: &DeleteArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    // All of them are looked at before one is deleted.
    let mut meant = Vec::new();
    for named in &args.runs {
        let run = open.run(named).await?;
        if !meant.contains(&run) {
            meant.push(run);
        }
    }
    let entries = open.engine.runs().await?;
    for entry in entries.iter().filter(|entry| meant.contains(&entry.run)) {
        if !entry.state.ended {
            let message = format!("run `{}` has not ended ({}); nothing was deleted", entry.run, entry.state.status);
            let help = format!("cancel it first: opcell runs cancel {}", entry.run);
            return Err(Diagnostic::error("run-not-ended", message).help(help).into());
        }
    }
    let mut deleted = Vec::new();
    for run in &meant {
        if open.engine.journal().delete(run).await? {
            deleted.push(run);
        }
    }
    if terminal.json {
        terminal.json(&json!({"deleted": deleted}))?;
    } else {
        terminal.line(&format!("deleted {}", counted(deleted.len() as u64, "run")))?;
    }
    Ok(Exit::Done)
}

pub async fn trust_clock(config: &Config, terminal: &Terminal) -> Result<Exit, Failure> {
    let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
    let now = journals::trust_clock(settings).await?;
    if terminal.json {
        terminal.json(&json!({"journal": settings.place.to_string(), "clock": now}))?;
    } else {
        terminal.line(&format!("retention of {} goes by {now}", settings.place))?;
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
pub struct BackupArgs {
    /// File to write; it must not exist.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

pub async fn backup(config: &Config, args: &BackupArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
    let runs = journals::backup(settings, &args.file).await?;
    if terminal.json {
        terminal.json(&json!({"file": args.file, "runs": runs}))?;
    } else {
        terminal.line(&format!("{} in {}", counted(runs, "run"), args.file.display()))?;
        terminal
            .note("keep the plugins that its runs were started with: `opcell runs list --stuck` says which they need");
    }
    Ok(Exit::Done)
}

#[derive(Debug, Args)]
pub struct RestoreArgs {
    /// File that `opcell runs backup` wrote.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Replace an existing journal, whose runs are lost.
    #[arg(long)]
    replace: bool,
}

pub async fn restore(config: &Config, args: &RestoreArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let settings = config.journal.as_ref().ok_or_else(|| Diagnostic::error("no-journal", "there is no journal"))?;
    if !args.replace && settings.place.file().is_some_and(|path| path.exists()) {
        let message = format!("there is a journal {} already; nothing was changed", settings.place);
        let help = "`--replace` deletes its runs; copy them first: `opcell runs backup FILE`";
        return Err(Diagnostic::error("already-exists", message).help(help).into());
    }
    let runs = journals::restore(settings, &args.file, args.replace).await?;
    if terminal.json {
        terminal.json(&json!({"journal": settings.place.to_string(), "runs": runs}))?;
    } else {
        terminal.line(&format!("{} in {}", counted(runs, "run"), settings.place))?;
    }
    Ok(Exit::Done)
}
