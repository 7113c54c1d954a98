//! `opcell graph`: a workflow as a picture.

use super::{Exit, Failure, Global, Terminal, args::StoreArgs, journal::Open};
use crate::graph::{Drawing, Path as RunPath};
use anyhow::Context as _;
use clap::{Args, ValueEnum};
use opcell::library::Library;
use opcell_ir::Diagnostic;
use opcell_types::files::{Readers, replace};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
pub struct GraphArgs {
    /// Document file, or name of a workflow of the project.
    #[arg(value_name = "WORKFLOW", required_unless_present = "run")]
    workflow: Option<String>,
    /// Draw the workflow of a run, with the path taken: a run ID, a unique prefix, or `last`.
    #[arg(long, value_name = "RUN", conflicts_with = "workflow")]
    run: Option<String>,
    #[command(flatten)]
    store: StoreArgs,
    /// Output format. Defaults to the extension of `--output`, else `mermaid`.
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// Write to this file (.svg, .dot, .mmd) instead of standard output.
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
}

/// Format of a graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Mermaid,
    Dot,
    Svg,
}

pub async fn graph(global: &Global, args: &GraphArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let format = match (args.format, &args.output) {
        (Some(format), _) => format,
        (None, Some(file)) => format_of(file)?,
        (None, None) => Format::Mermaid,
    };
    let drawing = match (&args.run, &args.workflow) {
        (Some(run), _) => of_run(&Open::journal(&args.store.config(global)?).await?, run).await?,
        (None, workflow) => {
            let config = global.config()?;
            let library = Library::read_with_defaults(&config.default_workflows, &config.workflows);
            let workflow = library.open(workflow.as_deref().unwrap_or_default())?;
            if let Some(rejected) = workflow.document().and_then(|document| document.rejection(args.strict)) {
                return Err(rejected.into());
            }
            Drawing::of(workflow.ir(), None)
        }
    };
    let text = text(&drawing, format)?;
    match &args.output {
        Some(file) => write(file, &text)?,
        None if terminal.json => {
            let name = format.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned());
            terminal.json(&serde_json::json!({ name: text }))?;
        }
        None => terminal.line(&text)?,
    }
    Ok(Exit::Done)
}

async fn of_run(open: &Open, named: &str) -> Result<Drawing, Failure> {
    let run = open.run(named).await?;
    let history = open.engine.shown_history(&run, None).await?;
    let state = open.engine.shown_state(&run, None).await?;
    let program =
        state.program().ok_or_else(|| Diagnostic::error("no-first-event", format!("run {run} has no first event")))?;
    Ok(Drawing::of(program.ir(), Some(&RunPath::of(&history))))
}

/// The format that a file's extension names.
pub fn format_of(file: &Path) -> Result<Format, Failure> {
    match file.extension().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(Format::Svg),
        Some("dot" | "gv") => Ok(Format::Dot),
        Some("mmd" | "mermaid") => Ok(Format::Mermaid),
        _ => {
            let message = format!("the extension of `{}` names no graph format", file.display());
            Err(Diagnostic::error("unknown-format", message).help("use .svg, .dot or .mmd").into())
        }
    }
}

pub fn text(drawing: &Drawing, format: Format) -> Result<String, Failure> {
    match format {
        Format::Mermaid => Ok(drawing.mermaid()),
        Format::Dot => Ok(drawing.dot()),
        Format::Svg => drawing.svg().map_err(|error| Diagnostic::error("render-failed", error.to_string()).into()),
    }
}

pub fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let written = replace(file, text.as_bytes(), Readers::Shared);
    Ok(written.with_context(|| format!("cannot write {}", file.display()))?)
}
