//! A journal whose writes someone measures.

use async_trait::async_trait;
use opcell_journal::{
    Append, ClockJump, Cut, Driver, Fence, FoundValues, InboxMessage, Journal, JournalError, LazyRecords, NewRun,
    OpenedRun, Ownership, Record, Retention, RunEntry, RunId, RunQuery, SharedVersions, StatusTally,
};
use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

/// Learns how long the journal takes. Must not block.
pub trait JournalSink: Send + Sync {
    /// Something became durable, or did not.
    fn wrote(&self, took: Duration, is_durable: bool);
}

/// A sink that several owners share.
impl<S: JournalSink + ?Sized> JournalSink for Arc<S> {
    fn wrote(&self, took: Duration, is_durable: bool) {
        (**self).wrote(took, is_durable);
    }
}

/// The journal, and who measures.
pub(super) struct Metered {
    journal: Arc<dyn Journal>,
    sink: Arc<dyn JournalSink>,
}

impl Metered {
    pub(super) fn new(journal: Arc<dyn Journal>, sink: Arc<dyn JournalSink>) -> Self {
        Self { journal, sink }
    }

    async fn timed<T>(&self, write: impl Future<Output = Result<T, JournalError>>) -> Result<T, JournalError> {
        let began = Instant::now();
        let written = write.await;
        // A run that exists already, or a fence that is old, is an answer and no failure.
        let is_durable = written.as_ref().err().is_none_or(|error| !error.is_of_storage());
        self.sink.wrote(began.elapsed(), is_durable);
        written
    }
}

#[async_trait]
impl Journal for Metered {
    fn reads_payloads(&self) -> bool {
        self.journal.reads_payloads()
    }

    fn keeps_values(&self) -> bool {
        self.journal.keeps_values()
    }

    async fn values(&self, digests: &[Arc<str>], max_bytes: u64) -> Result<FoundValues, JournalError> {
        self.journal.values(digests, max_bytes).await
    }

    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        self.timed(self.journal.create(new)).await
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        self.journal.acquire(run, cut).await
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.journal.release(run, fence).await
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.timed(self.journal.append(append)).await
    }

    async fn append_deferred(&self, append: Append, records: Arc<dyn LazyRecords>) -> Result<(), JournalError> {
        self.timed(self.journal.append_deferred(append, records)).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.journal.read(run, after, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.journal.runs().await
    }

    async fn page(&self, query: RunQuery) -> Result<Vec<RunEntry>, JournalError> {
        self.journal.page(query).await
    }

    async fn drivers(&self) -> Result<Vec<Driver>, JournalError> {
        self.journal.drivers().await
    }

    async fn tally(&self, now: i64) -> Result<BTreeMap<String, StatusTally>, JournalError> {
        self.journal.tally(now).await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.journal.runnable(now, limit).await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.journal.retain(rule).await
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.journal.check_clock(now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.journal.delete(run).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.timed(self.journal.post(run, at, payload)).await
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.journal.inbox(run).await
    }

    async fn probe(&self) -> Result<(), JournalError> {
        self.timed(self.journal.probe()).await
    }

    fn is_from_elsewhere(&self, run: &RunId) -> bool {
        self.journal.is_from_elsewhere(run)
    }

    fn adopt(&self, runs: &[RunId]) -> Result<(), JournalError> {
        self.journal.adopt(runs)
    }

    fn now(&self) -> Option<i64> {
        self.journal.now()
    }

    fn ownership(&self) -> Ownership {
        self.journal.ownership()
    }

    fn shared_versions(&self) -> Option<&dyn SharedVersions> {
        self.journal.shared_versions()
    }

    async fn changed(&self, at_most: Duration) {
        self.journal.changed(at_most).await;
    }
}
