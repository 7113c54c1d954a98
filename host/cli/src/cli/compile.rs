//! `opcell compile`: the execution model of a document.

use super::{Exit, Failure, Terminal};
use clap::Args;
use opcell::{
    document::{self, Document},
    report::Rejected,
};
use opcell_ir::WorkflowIr;
use std::{path::PathBuf, sync::Arc};

#[derive(Debug, Args)]
pub struct CompileArgs {
    /// Document file.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

pub fn compile(args: &CompileArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let ir = serde_json::to_value(compiled(args, terminal)?.as_ref()).map_err(anyhow::Error::from)?;
    terminal.json(&ir)?;
    Ok(Exit::Done)
}

fn compiled(args: &CompileArgs, terminal: &Terminal) -> Result<Arc<WorkflowIr>, Failure> {
    let document = document::read(&args.file)?;
    if let Some(rejected) = document.rejection(args.strict) {
        return Err(rejected.into());
    }
    if !terminal.json {
        terminal.findings(&document.source, &document.diagnostics);
    }
    // A document that is not rejected has its execution model.
    let Document { ir, source, diagnostics, .. } = document;
    ir.ok_or_else(|| Rejected::in_source(source, diagnostics).into())
}
