//! `opcell runs list`.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::{Align, ago, columns_within, milliseconds};
use clap::Args;
use opcell_engine::{event::Timestamp, outcome::Question};
use opcell_journal::RunEntry;
use serde_json::json;
use std::time::Duration;

/// Suspended runs whose questions are read; more would make the list of a large journal slow.
const MAX_QUESTIONS: usize = 200;

/// The alignment of the columns. The most sought ones come first: a narrow terminal cuts the end.
const ALIGNS: [Align; 7] =
    [Align::Left, Align::Left, Align::Left, Align::Left, Align::Left, Align::Right, Align::Right];

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show only runs with this status.
    #[arg(long, value_name = "STATUS", value_parser = RunEntry::STATUSES)]
    status: Option<String>,
    /// Show only runs of this workflow.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Show only runs that could continue and that no worker has taken for SECONDS (60 by default), with what they
    /// need.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60", require_equals = true)]
    stuck: Option<u32>,
    /// Show at most N runs.
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// List them again every SECONDS (2 by default), until Ctrl-C; on a terminal, in the same place and as many as fit.
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "2", require_equals = true,
          value_parser = clap::value_parser!(u64).range(1..=3_600))]
    watch: Option<u64>,
}

pub async fn list(open: &Open, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(seconds) = args.watch else { return once(open, args, terminal).await };
    loop {
        if terminal.width().is_some() && !terminal.json {
            console::Term::stdout().clear_screen()?;
        }
        once(open, args, terminal).await?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

async fn once(open: &Open, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut runs = open.engine.runs().await?;
    let now = open.engine.ports().timer.now().0;
    runs.retain(|run| args.status.as_deref().is_none_or(|wanted| run.status(now) == wanted));
    runs.retain(|run| args.workflow.as_deref().is_none_or(|wanted| *run.workflow == *wanted));
    runs.retain(|run| args.stuck.is_none_or(|seconds| is_stuck(run, now, seconds)));
    runs.truncate(args.limit.unwrap_or(usize::MAX));
    let mut waits = Vec::with_capacity(runs.len());
    for (at, run) in runs.iter().enumerate() {
        waits.push(match run.status(now) {
            _ if args.stuck.is_some() && at < MAX_QUESTIONS => needs(open, run).await?,
            "suspended" if at < MAX_QUESTIONS => waits_for(open, run).await?,
            _ => Vec::new(),
        });
    }
    if terminal.json {
        let entries: Vec<_> = runs.iter().zip(&waits).map(|(run, waits)| entry(run, waits, now)).collect();
        terminal.json(&json!(entries))?;
        return Ok(Exit::Done);
    }
    if runs.is_empty() {
        terminal.note("no runs");
        return Ok(Exit::Done);
    }
    let waits_for = match args.stuck {
        _ if waits.iter().all(Vec::is_empty) => "",
        Some(_) => "NEEDS",
        None => "WAITS FOR",
    };
    let mut rows =
        vec![["RUN", "STATUS", waits_for, "WORKFLOW", "STARTED", "TOOK", "EVENTS"].map(str::to_owned).to_vec()];
    for (run, waits) in runs.iter().zip(&waits) {
        rows.push(vec![
            run.run.to_string(),
            run.status(now).to_owned(),
            waits.join(", "),
            run.workflow.to_string(),
            ago(now.saturating_sub(run.created_at)),
            milliseconds(Timestamp(run.updated_at).ms_since(Timestamp(run.created_at))),
            run.records.to_string(),
        ]);
    }
    let fit = args.watch.and(terminal.height()).map_or(usize::MAX, |height| height.saturating_sub(1).max(2));
    // Of what a narrow terminal has no room for: events first, then how long it took, and when it began.
    let lines = columns_within(&rows, &ALIGNS, terminal.width().unwrap_or(usize::MAX), &[6, 5, 4]);
    for line in lines.into_iter().take(fit) {
        let line = opcell::report::printable(&line).into_owned();
        terminal.line(&match terminal.width() {
            Some(width) => console::truncate_str(&line, width, "…").into_owned(),
            None => line,
        })?;
    }
    Ok(Exit::Done)
}

/// Returns `true` if a run could have continued for this long, and no process drives it.
fn is_stuck(run: &RunEntry, now: i64, seconds: u32) -> bool {
    let since = run.state.due.map(|due| due.max(run.updated_at));
    let long = since.is_some_and(|since| since.saturating_add(i64::from(seconds) * 1_000_000) <= now);
    long && !run.driven && !run.state.ended
}

/// Returns the needs of a worker to drive a run: what the run pinned when it was started.
async fn needs(open: &Open, run: &RunEntry) -> Result<Vec<String>, Failure> {
    let state = open.engine.state_at(&run.run, None).await?;
    let short = |digest: &str| digest.chars().take(19).collect::<String>();
    let needs: Vec<String> = state.pins().iter().map(|(name, digest)| format!("{name} {}", short(digest))).collect();
    Ok(if needs.is_empty() { vec!["any worker of this journal".to_owned()] } else { needs })
}

/// Returns the questions that a suspended run waits for, such as `approval ship`.
async fn waits_for(open: &Open, run: &RunEntry) -> Result<Vec<String>, Failure> {
    if !run.driven && !open.engine.journal().inbox(&run.run).await.map_err(anyhow::Error::from)?.is_empty() {
        return Ok(vec!["a worker or `runs resume`: it was answered".to_owned()]);
    }
    let questions = open.engine.state_at(&run.run, None).await?.questions();
    let name = |question| match question {
        Question::Signal { name, approval: true, .. } => format!("approval {name}"),
        Question::Signal { name, .. } => format!("signal {name}"),
        Question::Doubt { step, .. } => format!("decision on step {step}"),
        Question::Grant { denial, .. } => format!("grant of {}", denial.capability),
        Question::Call { tool, .. } => format!("approval of {tool}"),
    };
    Ok(questions.into_iter().map(name).collect())
}

fn entry(run: &RunEntry, waits: &[String], now: i64) -> serde_json::Value {
    json!({
        "run": run.run, "workflow": run.workflow, "status": run.status(now), "driven": run.driven,
        "events": run.records, "created-at": Timestamp(run.created_at).to_text(),
        "updated-at": Timestamp(run.updated_at).to_text(),
        "due": run.state.due.filter(|due| *due > 0).map(|due| Timestamp(due).to_text()),
        "waits-for": waits,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_journal::RunState;

    #[test]
    fn a_run_is_stuck_that_could_continue_and_that_nobody_drives() {
        let minute = 60_000_000;
        let run = |due, driven, ended| RunEntry {
            run: "r".into(),
            workflow: "w".into(),
            state: RunState { status: "running".into(), ended, due },
            records: 1,
            created_at: 0,
            updated_at: minute,
            driven,
        };
        let stuck = |run: &RunEntry| is_stuck(run, 3 * minute, 60);
        assert!(stuck(&run(Some(0), false, false)), "its worker is gone");
        assert!(stuck(&run(Some(2 * minute), false, false)), "its timer ended a minute ago");
        assert!(!stuck(&run(Some(2 * minute + 1), false, false)), "not long enough");
        assert!(!stuck(&run(Some(0), true, false)), "someone drives it");
        assert!(!stuck(&run(None, false, false)), "it waits for a signal");
        assert!(!stuck(&run(Some(0), false, true)), "it has ended");
    }
}
