//! `opcell runs restore`.

use super::{Exit, Failure, Terminal};
use crate::cli::units::counted;
use clap::Args;
use opcell::{config::Config, journals};
use opcell_ir::Diagnostic;
use serde_json::json;
use std::path::PathBuf;

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
