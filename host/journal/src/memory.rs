//! A journal in memory: for tests, for measuring, and for runs that need not survive.

use crate::{
    clock::{ClockAnchor, ClockJump},
    journal::{Append, Cut, Journal, JournalError, NewRun, OpenedRun, Retention, Snapshot, THIS_PROCESS, in_order},
    record::{Fence, InboxMessage, LazyRecords, Record, RunEntry, RunId, RunState},
};
use async_trait::async_trait;
use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::Notify;

/// Ended runs that are kept by default: what a process remembers must not grow with how long it runs. So
/// many fit the second cache of one core beside the run that continues, which makes its steps a third faster than ten
/// times as many do.
const ENDED_RECORDS: u64 = 2_000;

/// The longest wait for a message: timers become due without one.
const LONGEST_WAIT: Duration = Duration::from_millis(200);

/// A journal in memory. Clones share the runs, so a test can drop an engine and resume its runs with another. Of runs
/// that ended, the last one is kept, and those before it as long as they have no more than 2,000 records together, or
/// as many as [`keeping`](Self::keeping) says; a run that continues is never dropped.
#[derive(Debug, Clone, Default)]
pub struct MemoryJournal {
    runs: Arc<Mutex<Runs>>,
    /// Wakes whoever waits for runs that can continue.
    posted: Arc<Notify>,
}

#[derive(Debug)]
struct Runs {
    by_name: HashMap<RunId, Run>,
    /// The number of records of ended runs that are kept.
    keep: u64,
    /// Oldest first.
    ended: VecDeque<RunId>,
    /// The number of records that they have.
    ended_records: u64,
    clock: Option<ClockAnchor>,
}

impl Default for Runs {
    fn default() -> Self {
        Self { by_name: HashMap::new(), keep: ENDED_RECORDS, ended: VecDeque::new(), ended_records: 0, clock: None }
    }
}

impl Runs {
    fn note_end(&mut self, run: &RunId) {
        let records = |run: Option<&Run>| run.map_or(0, Run::len);
        self.ended_records += records(self.by_name.get(run));
        self.ended.push_back(run.clone());
        while self.ended_records > self.keep && self.ended.len() > 1 {
            let oldest = self.ended.pop_front().and_then(|oldest| self.by_name.remove(&oldest));
            self.ended_records = self.ended_records.saturating_sub(records(oldest.as_ref()));
        }
    }
}

#[derive(Debug)]
struct Run {
    workflow: Arc<str>,
    fence: Fence,
    owned: bool,
    state: RunState,
    created_at: i64,
    /// As they were appended, so that a long run is never copied to make room.
    appends: Vec<Appended>,
    snapshot: Option<Snapshot>,
    inbox: Vec<InboxMessage>,
    next_message: u64,
}

/// The records of one append; there is at least one.
#[derive(Debug)]
enum Appended {
    Made(Vec<Record>),
    Deferred(Arc<dyn LazyRecords>),
}

impl Appended {
    fn first(&self) -> u64 {
        match self {
            Self::Made(records) => records.first().map_or(0, |first| first.seq),
            Self::Deferred(records) => records.first(),
        }
    }

    fn last(&self) -> u64 {
        match self {
            Self::Made(records) => records.last().map_or(0, |last| last.seq),
            Self::Deferred(records) => records.last(),
        }
    }

    fn last_at(&self) -> i64 {
        match self {
            Self::Made(records) => records.last().map_or(0, |last| last.at),
            Self::Deferred(records) => records.last_at(),
        }
    }

    fn record(&self, seq: u64) -> Option<Record> {
        match self {
            Self::Made(records) => {
                let at = seq.checked_sub(self.first())?;
                records.get(usize::try_from(at).ok()?).cloned()
            }
            Self::Deferred(records) => Arc::clone(records).record(seq),
        }
    }
}

impl Run {
    /// Records count from 1 without gaps.
    fn len(&self) -> u64 {
        self.appends.last().map_or(0, Appended::last)
    }

    fn push(&mut self, records: Vec<Record>) {
        if !records.is_empty() {
            self.appends.push(Appended::Made(records));
        }
    }

    /// The records after one of them.
    fn behind(&self, seq: u64) -> impl Iterator<Item = Record> {
        let first = self.appends.partition_point(|records| records.last() <= seq);
        let appends = self.appends.iter().skip(first);
        appends.flat_map(move |records| {
            (records.first().max(seq + 1)..=records.last()).filter_map(|seq| records.record(seq))
        })
    }

    fn updated_at(&self) -> i64 {
        self.appends.last().map_or(self.created_at, Appended::last_at)
    }
}

impl MemoryJournal {
    /// An empty journal.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty journal that keeps runs that ended as long as they have no more than this many records together.
    #[must_use]
    pub fn keeping(records: u64) -> Self {
        let runs = Runs { keep: records, ..Runs::default() };
        Self { runs: Arc::new(Mutex::new(runs)), posted: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Runs> {
        // No code panics while it holds the lock, so a poisoned map is still whole.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends records, which `push` does, and what comes with them.
    fn push(
        &self,
        append: Append,
        push: impl FnOnce(&RunId, &mut Run) -> Result<(), JournalError>,
    ) -> Result<(), JournalError> {
        let mut runs = self.lock();
        let run = &append.run;
        let Some(found) = runs.by_name.get_mut(run) else { return Err(JournalError::UnknownRun(run.clone())) };
        if found.fence != append.fence {
            return Err(JournalError::Fenced { run: run.clone(), held: append.fence, newest: found.fence });
        }
        push(run, found)?;
        found.inbox.retain(|message| append.inbox.is_none_or(|last| message.id > last));
        found.snapshot = append.snapshot.or_else(|| found.snapshot.take());
        let Some(state) = append.state else { return Ok(()) };
        found.owned &= !state.ended;
        let ends = state.ended && !found.state.ended;
        found.state = state;
        if ends {
            runs.note_end(run);
        }
        Ok(())
    }

    fn with<T>(&self, run: &RunId, read: impl FnOnce(&mut Run) -> T) -> Result<T, JournalError> {
        self.lock().by_name.get_mut(run).map(read).ok_or_else(|| JournalError::UnknownRun(run.clone()))
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    fn reads_payloads(&self) -> bool {
        false
    }

    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        let mut runs = self.lock();
        if runs.by_name.contains_key(&new.run) {
            return Err(JournalError::RunExists(new.run));
        }
        in_order(&new.run, 0, &new.records)?;
        let mut run = Run {
            workflow: new.workflow,
            fence: Fence(1),
            owned: !new.state.ended,
            state: new.state,
            created_at: new.at,
            appends: Vec::new(),
            snapshot: None,
            inbox: Vec::new(),
            next_message: 1,
        };
        run.push(new.records);
        let ended = run.state.ended;
        runs.by_name.insert(new.run.clone(), run);
        if ended {
            runs.note_end(&new.run);
        }
        Ok(Fence(1))
    }

    async fn acquire(&self, run: &RunId, _cut: Cut) -> Result<OpenedRun, JournalError> {
        self.with(run, |found| {
            if found.owned {
                return Err(JournalError::Held { run: run.clone(), owner: THIS_PROCESS.to_owned() });
            }
            found.fence = Fence(found.fence.0 + 1);
            found.owned = true;
            let after = found.snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
            let records = found.behind(after).collect();
            Ok(OpenedRun { fence: found.fence, snapshot: found.snapshot.clone(), records, damage: None })
        })?
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.with(run, |found| {
            if found.fence == fence {
                found.owned = false;
            }
        })
    }

    async fn append(&self, mut append: Append) -> Result<(), JournalError> {
        let records = std::mem::take(&mut append.records);
        self.push(append, |run, found| {
            in_order(run, found.len(), &records)?;
            found.push(records);
            Ok(())
        })
    }

    async fn append_deferred(&self, append: Append, records: Arc<dyn LazyRecords>) -> Result<(), JournalError> {
        self.push(append, |run, found| {
            let (last, got) = (found.len(), records.first());
            if got != last + 1 {
                return Err(JournalError::OutOfOrder { run: run.clone(), last, expected: last + 1, got });
            }
            found.appends.push(Appended::Deferred(records));
            Ok(())
        })
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.with(run, |found| {
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            found.behind(after).take(limit).collect()
        })
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        let mut entries: Vec<RunEntry> = self
            .lock()
            .by_name
            .iter()
            .map(|(name, run)| RunEntry {
                run: name.clone(),
                workflow: run.workflow.clone(),
                state: run.state.clone(),
                records: run.len(),
                created_at: run.created_at,
                updated_at: run.updated_at(),
                driven: run.owned,
                driver: run.owned.then(|| "this process".into()),
            })
            .collect();
        entries.sort_by(|a, b| b.created_at.cmp(&a.created_at).then_with(|| b.run.cmp(&a.run)));
        Ok(entries)
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        let runs = self.lock();
        let could_go_on = |run: &Run| {
            let due = run.state.due.is_some_and(|due| due <= now);
            !run.owned && !run.state.ended && (due || !run.inbox.is_empty())
        };
        let mut found: Vec<(i64, RunId)> = runs
            .by_name
            .iter()
            .filter(|(_, run)| could_go_on(run))
            .map(|(name, run)| (run.updated_at(), name.clone()))
            .collect();
        found.sort();
        Ok(found.into_iter().take(usize::try_from(limit).unwrap_or(usize::MAX)).map(|(_, run)| run).collect())
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        let gone = rule.dropped(self.runs().await?);
        let mut runs = self.lock();
        for run in &gone {
            let records = runs.by_name.remove(run).map_or(0, |run| run.len());
            runs.ended_records = runs.ended_records.saturating_sub(records);
        }
        runs.ended.retain(|run| !gone.contains(run));
        Ok(gone)
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        let mut runs = self.lock();
        let mut recorded: Vec<i64> = runs.by_name.values().flat_map(|run| [run.created_at, run.updated_at()]).collect();
        recorded.sort_unstable();
        let newest = recorded.last().copied();
        let anchor = runs.clock.unwrap_or_else(|| ClockAnchor::first(newest, now));
        let (anchor, jump) = match trust {
            true => (anchor.trust(newest, now), None),
            false => anchor.check(anchor.reached(recorded, now), newest, now),
        };
        runs.clock = Some(anchor);
        Ok(jump)
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        let mut runs = self.lock();
        let found = runs.by_name.get(run).ok_or_else(|| JournalError::UnknownRun(run.clone()))?;
        if !found.state.ended {
            return Ok(false);
        }
        let records = runs.by_name.remove(run).map_or(0, |run| run.len());
        runs.ended_records = runs.ended_records.saturating_sub(records);
        runs.ended.retain(|ended| ended != run);
        Ok(true)
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.with(run, |found| {
            if found.state.ended {
                return Err(JournalError::Ended { run: run.clone(), status: found.state.status.clone().into() });
            }
            found.inbox.push(InboxMessage { id: found.next_message, at, payload });
            found.next_message += 1;
            Ok(())
        })??;
        self.posted.notify_waiters();
        self.posted.notify_one();
        Ok(())
    }

    async fn changed(&self, at_most: Duration) {
        // Timers become due without a message.
        let _ = tokio::time::timeout(at_most.min(LONGEST_WAIT), self.posted.notified()).await;
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.with(run, |found| found.inbox.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn run(name: &str, records: u64, ended: bool) -> NewRun {
        let status = if ended { "completed" } else { "suspended" };
        let state = RunState { status: status.into(), ended, due: None };
        let record = |seq| Record { seq, kind: "k".into(), version: 1, at: 0, payload: "{}".into() };
        NewRun { run: name.into(), workflow: "w".into(), at: 0, records: (1..=records).map(record).collect(), state }
    }

    #[tokio::test]
    async fn ended_runs_are_forgotten_by_what_they_weigh_and_runs_that_go_on_never() {
        let journal = MemoryJournal::keeping(20_000);
        let names = async || journal.runs().await.unwrap().len();
        journal.create(run("waits", 5, false)).await.unwrap();
        for at in 0..30 {
            journal.create(run(&format!("run-{at}"), 1_000, true)).await.unwrap();
        }
        assert_eq!(names().await, 21);
        assert!(journal.read(&"run-9".into(), 0, 1).await.is_err());
        assert_eq!(journal.read(&"run-10".into(), 0, 1).await.unwrap().len(), 1);
        journal.create(run("heavy", 30_000, true)).await.unwrap();
        assert_eq!(names().await, 2, "the last one is kept, however long it is");
        assert_eq!(journal.read(&"waits".into(), 0, 9).await.unwrap().len(), 5);
        journal.retain(Retention { keep: Some(0), ended_after: None }).await.unwrap();
        assert_eq!(names().await, 1);
    }

    /// Records that count how often one of them was made.
    #[derive(Debug)]
    struct Numbers(u64, u64, AtomicU64);

    impl LazyRecords for Numbers {
        fn first(&self) -> u64 {
            self.0
        }

        fn last(&self) -> u64 {
            self.1
        }

        fn last_at(&self) -> i64 {
            7
        }

        fn record(self: Arc<Self>, seq: u64) -> Option<Record> {
            self.2.fetch_add(1, Ordering::Relaxed);
            let record = Record { seq, kind: "k".into(), version: 1, at: 7, payload: "{}".into() };
            (self.0..=self.1).contains(&seq).then_some(record)
        }
    }

    #[tokio::test]
    async fn deferred_records_are_made_when_they_are_read_and_no_others() {
        let journal = MemoryJournal::new();
        journal.create(run("r", 2, false)).await.unwrap();
        let append = || Append {
            run: "r".into(),
            fence: Fence(1),
            records: Vec::new(),
            state: None,
            snapshot: None,
            inbox: None,
        };
        let gap = Arc::new(Numbers(4, 5, AtomicU64::new(0)));
        let error = journal.append_deferred(append(), gap).await.unwrap_err();
        assert!(matches!(error, JournalError::OutOfOrder { last: 2, expected: 3, got: 4, .. }), "{error}");
        let numbers = Arc::new(Numbers(3, 100, AtomicU64::new(0)));
        journal.append_deferred(append(), numbers.clone()).await.unwrap();
        let entry = &journal.runs().await.unwrap()[0];
        assert_eq!((entry.records, entry.updated_at, numbers.2.load(Ordering::Relaxed)), (100, 7, 0));
        let read = journal.read(&"r".into(), 1, 4).await.unwrap();
        assert_eq!(read.iter().map(|record| record.seq).collect::<Vec<_>>(), [2, 3, 4, 5]);
        assert_eq!(numbers.2.load(Ordering::Relaxed), 3);
    }
}
