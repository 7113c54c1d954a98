//! `opcell runs delete`.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::counted;
use clap::Args;
use opcell_ir::Diagnostic;
use serde_json::json;

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
