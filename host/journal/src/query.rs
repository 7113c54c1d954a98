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
    /// The moment for which the status holds, in microseconds since 1970.
    pub now: i64,
    /// At most this many.
    pub limit: usize,
}

impl Default for RunQuery {
    fn default() -> Self {
        Self { before: None, prefix: None, workflow: None, status: None, now: 0, limit: usize::MAX }
    }
}

impl RunQuery {
    /// Returns `true` if a run matches the query, its place in the list aside.
    #[must_use]
    pub fn matches(&self, run: &RunEntry) -> bool {
        self.prefix.as_deref().is_none_or(|prefix| run.run.starts_with(prefix))
            && self.workflow.as_deref().is_none_or(|workflow| *run.workflow == *workflow)
            && self.status.as_deref().is_none_or(|status| run.status(self.now) == status)
    }

    /// The status as the journal keeps it, where that is what people use: the others depend on the time and the driver.
    #[must_use]
    pub fn stored_status(&self) -> Option<&str> {
        self.status.as_deref().filter(|status| matches!(*status, "suspended" | "completed" | "failed" | "cancelled"))
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

/// Counts runs by [status](RunEntry::status) at a moment, each entry with its number of runs.
pub fn tally<'a>(runs: impl IntoIterator<Item = (&'a RunEntry, u64)>, now: i64) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for (run, count) in runs {
        *counts.entry(run.status(now).to_owned()).or_default() += count;
    }
    counts
}
