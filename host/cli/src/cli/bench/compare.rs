//! `opcell bench compare`: which rows of two reports differ by more than their rounds vary.

use super::table;
use crate::cli::{Exit, Failure, Terminal};
use clap::Args;
use opcell_ir::Diagnostic;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct CompareArgs {
    /// Report to compare with.
    before: PathBuf,
    /// The other one.
    after: PathBuf,
}

pub fn compare(args: &CompareArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let comparison = crate::bench::compare::compare(&args.before, &args.after)
        .map_err(|error| Diagnostic::error("invalid-report", format!("{error:#}")).help("a report is a bench.json"))?;
    if terminal.json {
        terminal.json(&comparison)?;
    } else {
        table::comparison(&comparison, terminal)?;
    }
    Ok(Exit::Done)
}
