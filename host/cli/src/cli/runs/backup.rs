//! `opcell runs backup`.

use super::{Exit, Failure, Terminal};
use crate::cli::units::counted;
use clap::Args;
use opcell::{config::Config, journals};
use opcell_ir::Diagnostic;
use serde_json::json;
use std::path::PathBuf;

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
