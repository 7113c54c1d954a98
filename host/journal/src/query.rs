//! Queries of a journal's runs: a list that is read a page at a time.

use crate::{
    journal::JournalError,
    record::{RunEntry, RunId},
};
use std::{collections::BTreeMap, sync::Arc};

/// A query of runs, for [`Journal::page`](crate::Journal::page). By default all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunQuery {
    /// Only runs that are older than this one.
    pub before: Option<RunId>,
    /// Only runs whose IDs begin with this.
    pub prefix: Option<Arc<str>>,
    /// Only runs of this workflow.
    pub workflow: Option<Arc<str>>,
    /// Only runs with this [status](RunEntry::status).
    pub status: Option<Arc<str>>,
    /// Only runs that were made at this moment or later, in microseconds since 1970.
    pub since: Option<i64>,
    /// Only runs that were made before this moment, in microseconds since 1970.
    pub until: Option<i64>,
    /// The moment for which the status holds, in microseconds since 1970.
    pub now: i64,
    /// At most this many.
    pub limit: usize,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self {
            before: None,
            prefix: None,
            workflow: None,
            status: None,
            since: None,
            until: None,
            now: 0,
            limit: usize::MAX,
        }
    }
}

impl RunQuery {
    /// Returns `true` if a run matches the query, its place in the list aside.
    #[must_use]
    pub fn matches(&self, run: &RunEntry) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| run.run.starts_with(prefix))
            && self.workflow.as_deref().is_none_or(|workflow| *run.workflow == *workflow)
            && self.status.as_deref().is_none_or(|status| run.status(self.now) == status)
            && self.since.is_none_or(|since| run.created_at >= since)
            && self.until.is_none_or(|until| run.created_at < until)
    }

    /// The status as the journal keeps it, where that is what people use: the others depend on the time and the driver.
    #[must_use]
    pub fn stored_status(&self) -> Option<&str> {
        self.status
            .as_deref()
            .filter(|status| matches!(*status, "suspended" | "completed" | "failed" | "blocked" | "cancelled"))
    }

    pub(crate) fn of(&self, runs: Vec<RunEntry>) -> Result<Vec<RunEntry>, JournalError> {
        let start = match &self.before {
            None => 0,
            Some(before) => {
                let at = runs.iter().position(|run| run.run == *before);
                at.ok_or_else(|| JournalError::UnknownRun(before.clone()))? + 1
            }
        };
        Ok(runs.into_iter().skip(start).filter(|run| self.matches(run)).take(self.limit).collect())
    }
}

/// A process that has a journal open and may drive its runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The name, as [`RunEntry::driver`] has it.
    pub name: Arc<str>,
    /// The number of runs that it drives.
    pub runs: u64,
    /// `true` for the process that asks.
    pub is_this: bool,
}

/// The runs of one [status](RunEntry::status).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusTally {
    /// The number of them.
    pub runs: u64,
    /// When the one that has been so for longest was last written to, in microseconds since 1970.
    pub oldest: i64,
}

/// Counts runs by [status](RunEntry::status) at a moment, each entry with its number of runs.
pub fn tally<'a>(runs: impl IntoIterator<Item = (&'a RunEntry, u64)>, now: i64) -> BTreeMap<String, StatusTally> {
    let mut counts: BTreeMap<String, StatusTally> = BTreeMap::new();
    for (run, count) in runs {
        let tally = counts.entry(run.status(now).to_owned()).or_insert(StatusTally { runs: 0, oldest: run.updated_at });
        tally.runs += count;
        tally.oldest = tally.oldest.min(run.updated_at);
    }
    counts
}
