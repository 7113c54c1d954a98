//! Runs by a text in their events: inputs, results, failures, conversations. Each look is bounded; the page says how
//! far it went, and links to the rest.

use crate::problem::Problem;
use opcell_engine::{
    Engine, RunError,
    event::{Event, Recorded},
};
use opcell_journal::{JournalError, RunEntry, RunId, RunQuery};

/// Events that one look reads, and bytes of their JSON; a run counts as some events at least.
const MAX_EVENTS: u64 = 20_000;
const MAX_BYTES: usize = 32 << 20;
const EVENTS_PER_RUN: u64 = 20;

/// Events, and runs, that are read at once.
const EVENTS_PER_READ: u64 = 256;
const RUNS_PER_READ: usize = 50;

/// The runs that a look found.
#[derive(Default)]
pub(super) struct Found {
    pub(super) runs: Vec<RunEntry>,
    /// The last run that was looked at, if there may be older ones.
    pub(super) next: Option<RunId>,
    /// Runs that were looked at.
    pub(super) looked: u64,
    /// Runs whose end was not looked at, because they are long.
    pub(super) cut: Vec<RunId>,
    /// Runs that could not be read.
    pub(super) unreadable: Vec<RunId>,
}

/// The events and bytes that one look may still read.
struct Budget {
    events: u64,
    bytes: usize,
}

impl Budget {
    fn is_used_up(&self) -> bool {
        self.events == 0 || self.bytes == 0
    }
}

/// Looks for a text in the runs that a query asks for, newest first.
///
/// # Errors
/// When the runs cannot be listed.
pub(super) async fn search(engine: &Engine, query: RunQuery, text: &str) -> Result<Found, Problem> {
    let needle = needle(text);
    let (mut found, mut budget) = (Found::default(), Budget { events: MAX_EVENTS, bytes: MAX_BYTES });
    let mut before = query.before.clone();
    loop {
        let page = engine.runs_page(RunQuery { before, limit: RUNS_PER_READ, ..query.clone() }).await?;
        let is_end = page.len() < RUNS_PER_READ;
        for run in page {
            found.next = Some(run.run.clone());
            found.looked += 1;
            budget.events = budget.events.saturating_sub(EVENTS_PER_RUN);
            match holds(engine, &run.run, &needle, &mut budget).await {
                Ok(Some(true)) => found.runs.push(run),
                Ok(Some(false)) => {}
                Ok(None) => found.cut.push(run.run),
                // It has been removed since it was listed.
                Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => {}
                Err(_) => found.unreadable.push(run.run),
            }
            if found.runs.len() >= query.limit || budget.is_used_up() {
                return Ok(found);
            }
        }
        if is_end {
            found.next = None;
            return Ok(found);
        }
        before = found.next.clone();
    }
}

/// Returns whether an event of a run holds a text; `None` where the budget ended before the run did.
async fn holds(engine: &Engine, run: &RunId, needle: &str, budget: &mut Budget) -> Result<Option<bool>, RunError> {
    let mut after = 0;
    loop {
        let page = engine.events_after(run, after, EVENTS_PER_READ).await?;
        let Some(last) = page.last() else { return Ok(Some(false)) };
        after = last.seq;
        for recorded in &page {
            if budget.is_used_up() {
                return Ok(None);
            }
            let text = text_of(recorded);
            budget.events = budget.events.saturating_sub(1);
            budget.bytes = budget.bytes.saturating_sub(text.len());
            if text.to_lowercase().contains(needle) {
                return Ok(Some(true));
            }
        }
        tokio::task::yield_now().await;
    }
}

/// The JSON of an event. Definitions of workflows, which all runs of a workflow share, are left out.
fn text_of(recorded: &Recorded) -> String {
    match &recorded.event {
        Event::RunStarted(started) => started.input.to_json(),
        Event::DefinitionPinned { .. } => String::new(),
        event => event.to_json(),
    }
}

/// A text as JSON has it, whatever its case.
fn needle(text: &str) -> String {
    let json = serde_json::Value::from(text.to_lowercase()).to_string();
    json.strip_prefix('"').and_then(|json| json.strip_suffix('"')).unwrap_or(&json).to_owned()
}

#[cfg(test)]
mod tests {
    use super::needle;

    #[test]
    fn a_text_is_looked_for_as_json_has_it() {
        assert_eq!(needle("Say \"Hi\"\n"), r#"say \"hi\"\n"#);
    }
}
