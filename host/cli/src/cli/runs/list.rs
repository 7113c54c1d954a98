//! `opcell runs list`.

use super::{Exit, Failure, Open, Terminal};
use clap::Args;
use opcell_engine::event::Timestamp;
use opcell_journal::RunEntry;
use serde_json::json;

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show only runs with this status.
    #[arg(long, value_name = "STATUS", value_parser = ["pending", "running", "interrupted", "suspended", "completed", "failed", "cancelled"])]
    status: Option<String>,
    /// Show at most N runs.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

pub async fn list(open: &Open, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut runs = open.engine.runs().await?;
    runs.retain(|run| args.status.as_deref().is_none_or(|status| shown_status(run) == status));
    runs.truncate(args.limit.unwrap_or(usize::MAX));
    if terminal.json {
        terminal.json(&json!(runs.iter().map(entry).collect::<Vec<_>>()))?;
        return Ok(Exit::Done);
    }
    for run in &runs {
        let status = shown_status(run);
        let (created, took) = (Timestamp(run.created_at), Timestamp(run.updated_at));
        terminal.line(&format!(
            "{}  {status:11}  {}  {:>9}  {:>6} events  {}",
            run.run,
            created.to_text(),
            format!("{:.1} s", took.ms_since(created) / 1000.0),
            run.records,
            run.workflow
        ))?;
    }
    if runs.is_empty() {
        terminal.note("no runs");
    }
    Ok(Exit::Done)
}

/// The status; `interrupted` for a run whose process went away while it was running, and that only waits to be resumed.
fn shown_status(run: &RunEntry) -> &str {
    let left = !run.driven && !run.state.ended && run.state.due.is_some_and(|due| due <= 0);
    if left { "interrupted" } else { &run.state.status }
}

fn entry(run: &RunEntry) -> serde_json::Value {
    json!({
        "run": run.run, "workflow": run.workflow, "status": shown_status(run), "driven": run.driven,
        "events": run.records, "created-at": Timestamp(run.created_at).to_text(),
        "updated-at": Timestamp(run.updated_at).to_text(),
        "due": run.state.due.filter(|due| *due > 0).map(|due| Timestamp(due).to_text()),
    })
}
