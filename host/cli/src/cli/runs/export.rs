//! `opcell runs export`: a run for other tools.

use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_server::telemetry;
use serde_json::json;

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

/// The name of what is printed without `--otlp`.
const FORMAT: &str = "opcell-run/v1";

pub async fn export(open: &Open, args: &ExportArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    let history = open.engine.history(&run).await?;
    if args.otlp {
        terminal.json(&telemetry::trace(&history, args.traceparent.as_deref()))?;
        return Ok(Exit::Done);
    }
    // One event a line: a run may be larger than what a reader wants to hold at once.
    let entry = open.engine.runs().await?.into_iter().find(|entry| entry.run == run);
    let head = json!({
        "format": FORMAT, "run": run, "workflow": entry.as_ref().map(|entry| &entry.workflow),
        "status": entry.as_ref().map(|entry| &entry.state.status), "events": history.len(),
    });
    terminal.line(&head.to_string())?;
    for recorded in &history {
        let line = json!({"seq": recorded.seq, "at": recorded.at.to_text(), "event": recorded.event});
        terminal.line(&line.to_string())?;
    }
    Ok(Exit::Done)
}
