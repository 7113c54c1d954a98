//! `opcell schema`: the formats that other programs read and write.

use super::{Exit, Failure, Terminal};
use clap::{Args, ValueEnum};
use opcell_ir::ir;
use opcell_workflow::{promptpack, workflowskill};

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
    /// The manifest of a plugin's folder, `plugin.toml`.
    Plugin,
    /// The project file, `opcell.toml`.
    Project,
    /// The report of `opcell bench`, `bench.json`.
    Report,
    /// The script of a scripted model, `[sessions] script`.
    Script,
    /// PromptPacks.
    Promptpack,
    /// The YAML of a WorkflowSkill document's `workflow` block.
    Workflowskill,
}

pub fn schema(args: &SchemaArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let read = |text: &str| serde_json::from_str(text).map_err(anyhow::Error::from);
    let schema: serde_json::Value = match args.format {
        Format::Ir => read(ir::SCHEMA)?,
        Format::Case => read(crate::cases::SCHEMA)?,
        Format::Plugin => read(opcell_author::schemas::PLUGIN)?,
        Format::Project => opcell::config::schema::schema(),
        Format::Report => report(),
        Format::Script => read(opcell_session::models::SCRIPT_SCHEMA)?,
        Format::Promptpack => read(promptpack::schema::PACK_SCHEMA)?,
        Format::Workflowskill => read(workflowskill::SCHEMA)?,
    };
    terminal.json(&schema)?;
    Ok(Exit::Done)
}

/// The JSON Schema of a benchmark's report, made of the types that write it.
fn report() -> serde_json::Value {
    let settings = schemars::generate::SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<crate::bench::Report>().to_value()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_schema_of_the_report_is_the_committed_one() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas/report.json");
        let made = format!("{:#}\n", super::report());
        if std::env::var("SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
            std::fs::write(&path, &made).unwrap();
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == made,
            "`SNAPSHOTS=overwrite cargo test -p opcell-cli --lib schema` writes docs/schemas/report.json"
        );
    }
}
