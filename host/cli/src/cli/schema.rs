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
    /// Case files of `opcell plugin test`.
    Case,
}

pub fn schema(args: &SchemaArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let text = match args.format {
        Format::Ir => ir::SCHEMA,
        Format::Case => crate::cases::SCHEMA,
    };
    let schema: serde_json::Value = serde_json::from_str(text).map_err(anyhow::Error::from)?;
    terminal.json(&schema)?;
    Ok(Exit::Done)
}
