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
    /// The project file, `opcell.toml`.
    Project,
}

pub fn schema(args: &SchemaArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let read = |text: &str| serde_json::from_str(text).map_err(anyhow::Error::from);
    let schema: serde_json::Value = match args.format {
        Format::Ir => read(ir::SCHEMA)?,
        Format::Case => read(crate::cases::SCHEMA)?,
        Format::Project => opcell::config::schema::schema(),
    };
    terminal.json(&schema)?;
    Ok(Exit::Done)
}
