//! `opcell schema`: the formats that other programs read and write.

use super::{Exit, Failure, Terminal};
use clap::{Args, ValueEnum};
use opcell_workflow::ir;

#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Format.
    #[arg(value_name = "FORMAT")]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// The execution model that `opcell compile` prints: `workflow-ir/v1`.
    Ir,
}

pub fn schema(args: &SchemaArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Format::Ir = args.format;
    let schema: serde_json::Value = serde_json::from_str(ir::SCHEMA).map_err(anyhow::Error::from)?;
    terminal.json(&schema)?;
    Ok(Exit::Done)
}
