//! `opcell runs export`: a run for other tools.

use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_journal::JournalError;
use opcell_server::{export, telemetry};

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Print a trace as OTLP in JSON, for the path `/v1/traces` of an OpenTelemetry collector. Without prompts, inputs
    /// and results.
    #[arg(long)]
    otlp: bool,
    /// W3C trace context to make the run a part of.
    #[arg(long, value_name = "TRACEPARENT", requires = "otlp")]
    traceparent: Option<String>,
}

pub async fn export(open: &Open, args: &ExportArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let history = open.engine.history(&run).await?;
    if args.otlp {
        terminal.json(&telemetry::trace(&history, args.traceparent.as_deref()))?;
        return Ok(Exit::Done);
    }
    // One event a line: a run may be larger than what a reader wants to hold at once.
    let entry = open.engine.runs().await?.into_iter().find(|entry| entry.run == run);
    let entry = entry.ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
    terminal.line(&export::head(&run, &entry.workflow, &entry.state.status, history.len() as u64))?;
    for recorded in &history {
        terminal.line(&export::line(recorded))?;
    }
    Ok(Exit::Done)
}
