//! `opcell runs list`.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::{Align, ago, columns, milliseconds};
use clap::Args;
use opcell_engine::{event::Timestamp, outcome::Question};
use opcell_journal::RunEntry;
use serde_json::json;
use std::time::{SystemTime, UNIX_EPOCH};

/// Statuses by which runs can be chosen: those of the journal, and `interrupted`, a running run whose driver is gone.
const STATUSES: [&str; 7] = ["pending", "running", "interrupted", "suspended", "completed", "failed", "cancelled"];

/// Suspended runs whose questions are read; more would make the list of a large journal slow.
const MAX_QUESTIONS: usize = 200;

const ALIGNS: [Align; 7] =
    [Align::Left, Align::Left, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left];

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show only runs with this status.
    #[arg(long, value_name = "STATUS", value_parser = STATUSES)]
    status: Option<String>,
    /// Show only runs of this workflow.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Show at most N runs.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
}

pub async fn list(open: &Open, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut runs = open.engine.runs().await?;
    runs.retain(|run| args.status.as_deref().is_none_or(|wanted| status(run) == wanted));
    runs.retain(|run| args.workflow.as_deref().is_none_or(|wanted| *run.workflow == *wanted));
    runs.truncate(args.limit.unwrap_or(usize::MAX));
    let mut waits = Vec::with_capacity(runs.len());
    for (at, run) in runs.iter().enumerate() {
        waits.push(match status(run) {
            "suspended" if at < MAX_QUESTIONS => waits_for(open, run).await?,
            _ => Vec::new(),
        });
    }
    if terminal.json {
        let entries: Vec<_> = runs.iter().zip(&waits).map(|(run, waits)| entry(run, waits)).collect();
        terminal.json(&json!(entries))?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        terminal.note("no runs");
        return Ok(Exit::Done);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let mut rows =
        vec![["RUN", "STATUS", "WORKFLOW", "STARTED", "TOOK", "EVENTS", "WAITS FOR"].map(str::to_owned).to_vec()];
    for (run, waits) in runs.iter().zip(&waits) {
        rows.push(vec![
            run.run.to_string(),
            status(run).to_owned(),
            run.workflow.to_string(),
            ago(now.saturating_sub(run.created_at)),
            milliseconds(Timestamp(run.updated_at).ms_since(Timestamp(run.created_at))),
            run.records.to_string(),
            waits.join(", "),
        ]);
    }
    for line in columns(&rows, &ALIGNS) {
        let line = opcell::report::printable(&line).into_owned();
        terminal.line(&match terminal.width() {
            Some(width) => console::truncate_str(&line, width, "…").into_owned(),
            None => line,
        })?;
    }
    Ok(Exit::Done)
}

/// The status as people use it: what was running when its driver went away is interrupted.
fn status(run: &RunEntry) -> &str {
    let interrupted = !run.driven && !run.state.ended && run.state.due.is_some_and(|due| due <= 0);
    if interrupted { "interrupted" } else { &run.state.status }
}

/// What a suspended run waits for, such as `approval ship`.
async fn waits_for(open: &Open, run: &RunEntry) -> Result<Vec<String>, Failure> {
    let questions = open.engine.state_at(&run.run, None).await?.questions();
    let name = |question| match question {
        Question::Signal { name, approval: true, .. } => format!("approval {name}"),
        Question::Signal { name, .. } => format!("signal {name}"),
        Question::Doubt { step, .. } => format!("decision on step {step}"),
    };
    Ok(questions.into_iter().map(name).collect())
}

fn entry(run: &RunEntry, waits: &[String]) -> serde_json::Value {
    json!({
        "run": run.run, "workflow": run.workflow, "status": status(run), "driven": run.driven,
        "events": run.records, "created-at": Timestamp(run.created_at).to_text(),
        "updated-at": Timestamp(run.updated_at).to_text(),
        "due": run.state.due.filter(|due| *due > 0).map(|due| Timestamp(due).to_text()),
        "waits-for": waits,
    })
}
