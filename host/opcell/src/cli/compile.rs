//! `opcell compile`: the execution model of a document.

use super::{Exit, Failure, Terminal};
use crate::{document, report};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct CompileArgs {
    /// The document.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Takes warnings for errors.
    #[arg(long)]
    strict: bool,
}

pub fn compile(args: &CompileArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let document = document::read(&args.file)?;
    if let Some(rejected) = document.rejection(args.strict) {
        return Err(rejected.into());
    }
    if !terminal.json {
        for warning in &document.diagnostics {
            terminal.note(report::render(Some(&document.source), warning, terminal.color).trim_end());
        }
    }
    let ir = serde_json::to_value(document.ir.as_deref()).map_err(anyhow::Error::from)?;
    terminal.json(&ir)?;
    Ok(Exit::Done)
}
