//! `opcell runs export`: a run for other tools.

use super::super::content::with_content;
use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_server::{export, telemetry};

/// Events that are read at once.
const PAGE: u64 = 1_000;

#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Run ID, unique prefix of one, or `last`.
    #[arg(value_name = "RUN")]
    run: String,
    /// Print a trace as OTLP in JSON, for the path `/v1/traces` of an OpenTelemetry collector. Without prompts, inputs
    /// and results, unless `--content` is given.
    #[arg(long)]
    otlp: bool,
    /// Put the content of conversations into the trace, within bounds: prompts, messages, arguments and results of
    /// tools. `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true` has the same effect.
    #[arg(long, requires = "otlp")]
    content: bool,
    /// W3C trace context to make the run a part of.
    #[arg(long, value_name = "TRACEPARENT", requires = "otlp")]
    traceparent: Option<String>,
}

pub async fn export(open: &Open, args: &ExportArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let run = open.run(&args.run).await?;
    if args.otlp {
        let history = open.engine.shown_history(&run, None).await?;
        let traceparent = args.traceparent.as_deref();
        terminal.json(&match with_content(args.content)? {
            true => telemetry::trace_with_content(&history, traceparent),
            false => telemetry::trace(&history, traceparent),
        })?;
        return Ok(Exit::Done);
    }
    // One event a line, some at a time: a run may be larger than what anyone wants to hold at once.
    let entry = open.entry(&run).await?;
    terminal.line(&export::head(&run, &entry.workflow, &entry.state.status, entry.records))?;
    let mut last = 0;
    while last < entry.records {
        let page = open.engine.events_after(&run, last, PAGE.min(entry.records - last)).await?;
        for recorded in &page {
            terminal.line(&export::line(recorded))?;
        }
        let Some(read) = page.last() else { break };
        last = read.seq;
    }
    Ok(Exit::Done)
}
