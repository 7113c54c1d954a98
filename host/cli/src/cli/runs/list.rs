//! `opcell runs list`.

use super::{Exit, Failure, Open, Terminal};
use crate::cli::units::{Align, ago, columns_within, counted, milliseconds};
use clap::Args;
use opcell::{
    config::Config,
    standing::{self, Here, STUCK_SECONDS, Standing},
};
use opcell_engine::{RunError, event::Timestamp};
use opcell_journal::RunEntry;
use serde_json::json;
use std::time::Duration;

/// Runs that are read to say what they wait for; more would make the list of a large journal slow.
const MAX_READ: usize = 200;

/// The alignment of the columns. The most sought ones come first: a narrow terminal cuts the end.
const ALIGNS: [Align; 8] =
    [Align::Left, Align::Left, Align::Left, Align::Left, Align::Left, Align::Right, Align::Right, Align::Left];

#[derive(Debug, Args)]
pub struct ListArgs {
    /// Show only runs with this status.
    #[arg(long, value_name = "STATUS", value_parser = RunEntry::STATUSES)]
    status: Option<String>,
    /// Show only runs of this workflow.
    #[arg(long, value_name = "NAME")]
    workflow: Option<String>,
    /// Show only runs that will not continue by themselves: no worker has taken them for SECONDS (60 by default) since
    /// they could continue or were answered, or they were not made here. Says what each needs.
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

pub async fn list(open: &Open, config: &Config, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let Some(seconds) = args.watch else { return once(open, config, args, terminal).await };
    loop {
        if terminal.width().is_some() && !terminal.json {
            console::Term::stdout().clear_screen()?;
        }
        once(open, config, args, terminal).await?;
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

async fn once(open: &Open, config: &Config, args: &ListArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let mut runs = open.engine.runs().await?;
    let now = open.engine.ports().timer.now().0;
    runs.retain(|run| args.status.as_deref().is_none_or(|wanted| run.status(now) == wanted));
    runs.retain(|run| args.workflow.as_deref().is_none_or(|wanted| *run.workflow == *wanted));
    if args.stuck.is_some() {
        runs.retain(|run| !run.state.ended && !run.driven);
    }
    let limit = args.limit.unwrap_or(usize::MAX);
    let here = here(config, &runs).await;
    let (mut listed, mut read, mut unread) = (Vec::new(), 0, 0);
    for run in runs {
        if listed.len() >= limit {
            break;
        }
        let standing = match run.state.ended || read >= MAX_READ {
            true => {
                unread += u64::from(!run.state.ended);
                Standing::of_entry(&run, now)
            }
            false => {
                read += 1;
                let seconds = args.stuck.unwrap_or(STUCK_SECONDS);
                standing_of(open, &run, here.as_ref(), seconds, now).await?
            }
        };
        if args.stuck.is_none() || standing.is_stuck {
            listed.push((run, standing));
        }
    }
    if args.stuck.is_some() && unread > 0 {
        let unread = counted(unread, "run");
        terminal.note(&format!("not read: {unread} that may be stuck; name their `--workflow` or `--status`"));
    }
    if terminal.json {
        let entries: Vec<_> = listed.iter().map(|(run, standing)| entry(run, standing)).collect();
        terminal.json(&json!(entries))?;
        return Ok(Exit::Done);
    }
    if listed.is_empty() {
        terminal.note("no runs");
        return Ok(Exit::Done);
    }
    let waits = match args.stuck {
        _ if listed.iter().all(|(_, standing)| standing.waits_for.is_empty()) => "",
        Some(_) => "NEEDS",
        None => "WAITS FOR",
    };
    let drivers = if listed.iter().any(|(run, _)| !run.state.ended) { "DRIVEN BY" } else { "" };
    let mut rows =
        vec![["RUN", "STATUS", waits, "WORKFLOW", "STARTED", "TOOK", "EVENTS", drivers].map(str::to_owned).to_vec()];
    for (run, standing) in &listed {
        rows.push(vec![
            run.run.to_string(),
            standing.status.clone(),
            standing.waits_for(),
            run.workflow.to_string(),
            ago(now.saturating_sub(run.created_at)),
            milliseconds(Timestamp(run.updated_at).ms_since(Timestamp(run.created_at))),
            run.records.to_string(),
            match (&standing.driven_by, run.state.ended) {
                (Some(driver), _) => driver.to_string(),
                (None, true) => String::new(),
                (None, false) => "no process".to_owned(),
            },
        ]);
    }
    let fit = args.watch.and(terminal.height()).map_or(usize::MAX, |height| height.saturating_sub(1).max(2));
    // Of what a narrow terminal has no room for: events first, then how long it took, who drives it, and when it began.
    let lines = columns_within(&rows, &ALIGNS, terminal.width().unwrap_or(usize::MAX), &[6, 5, 7, 4]);
    for line in lines.into_iter().take(fit) {
        let line = on_one_line(&line);
        terminal.line(&match terminal.width() {
            Some(width) => console::truncate_str(&line, width, "…").into_owned(),
            None => line,
        })?;
    }
    Ok(Exit::Done)
}

/// A line of the list. A journal from elsewhere names its runs and workflows as it likes, and a line break would begin
/// the line of another run.
fn on_one_line(line: &str) -> String {
    opcell::report::printable(line).replace(['\n', '\t'], " ")
}

/// The plugins of the project, where a run could need one.
pub(super) async fn here(config: &Config, runs: &[RunEntry]) -> Option<Here> {
    if config.file.is_none() || runs.iter().all(|run| run.state.ended || run.driven) {
        return None;
    }
    let config = config.clone();
    tokio::task::spawn_blocking(move || standing::lying(&config)).await.ok()
}

/// Returns the standing of a run; one that cannot be read says so, and hides no other.
async fn standing_of(
    open: &Open,
    run: &RunEntry,
    here: Option<&Here>,
    seconds: u32,
    now: i64,
) -> Result<Standing, Failure> {
    match Standing::of(&open.engine, run, here, seconds).await {
        Err(error @ (RunError::Unreadable { .. } | RunError::Replay { .. } | RunError::TooLarge { .. })) => {
            let waits_for = vec![error.to_string()];
            Ok(Standing { waits_for, is_stuck: !run.driven, ..Standing::of_entry(run, now) })
        }
        standing => Ok(standing?),
    }
}

fn entry(run: &RunEntry, standing: &Standing) -> serde_json::Value {
    json!({
        "run": run.run, "workflow": run.workflow, "status": standing.status, "driven": run.driven,
        "driven-by": standing.driven_by, "stuck": standing.is_stuck,
        "events": run.records, "created-at": Timestamp(run.created_at).to_text(),
        "updated-at": Timestamp(run.updated_at).to_text(),
        "due": run.state.due.filter(|due| *due > 0).map(|due| Timestamp(due).to_text()),
        "waits-for": standing.waits_for,
    })
}

#[cfg(test)]
mod tests {
    use super::on_one_line;

    #[test]
    fn a_name_with_a_line_break_begins_no_other_line() {
        assert_eq!(on_one_line("evil\nown  completed"), "evil own  completed");
    }
}
