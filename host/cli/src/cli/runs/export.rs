//! `opcell runs export`: a run for other tools.

use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_server::telemetry;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Print a trace as OTLP in JSON, for the path `/v1/traces` of an OpenTelemetry collector. Without prompts, inputs
    /// and results.
    #[arg(long, required = true)]
    otlp: bool,
    /// W3C trace context to make the run a part of.
    #[arg(long, value_name = "TRACEPARENT")]
    traceparent: Option<String>,
}

pub async fn export(open: &Open, args: &ExportArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let history = open.engine.history(&run).await?;
    terminal.json(&telemetry::trace(&history, args.traceparent.as_deref()))?;
    Ok(Exit::Done)
}
