//! Appending events to the journal, and through it to its readers: before anything depends on them, and for pure calls
//! a little later, while the run continues.

use super::{Batch, DECISION_BATCH, Driver, MAX_APPEND_DELAY, MIN_SNAPSHOT_BYTES, UNREAD_BATCH, Wanted};
use crate::{
    error::RunError,
    record::{Unread, to_snapshot},
};
use futures_util::{FutureExt, future::BoxFuture, poll};
use opcell_journal::{Append, JournalError, Payload, Record, RunState, Snapshot};
use std::{sync::Arc, task::Poll};
use tokio::time::Instant;

/// An append that is under way, and what it makes durable.
pub(crate) struct Appending {
    append: BoxFuture<'static, Result<(), JournalError>>,
    events: Arc<Unread>,
    /// The last event that is durable then.
    last: u64,
    state: RunState,
}

impl Driver {
    /// Makes durable what happened. A little later, together with what comes next, or while that continues, instead of
    /// waiting for the disk once per call, if nothing is wanted but pure calls: after a crash making those again is as
    /// good as never having made them.
    pub(super) async fn keep_up(&mut self, batch: &mut Batch, is_wanted: Wanted, now: Instant) -> Result<(), RunError> {
        if is_wanted == Wanted::Anything || batch.inbox.is_some() {
            return self.flush(batch).await;
        }
        let waits = batch.since.is_none_or(|since| now.duration_since(since) < MAX_APPEND_DELAY);
        if batch.events.len() < self.batch() && waits { Ok(()) } else { self.flush_behind(batch).await }
    }

    /// Returns the maximum number of events that are held back.
    pub(super) fn batch(&self) -> usize {
        if self.journal.reads_payloads() { DECISION_BATCH } else { UNREAD_BATCH }
    }

    /// Makes everything durable that has happened.
    pub(super) async fn flush(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        self.settle().await?;
        if batch.events.is_empty() && batch.inbox.is_none() {
            return Ok(());
        }
        self.pending_append = Some(self.append(batch));
        self.settle().await
    }

    /// Begins to make everything durable that has happened, and continues: nothing is wanted but pure calls. At most
    /// one append is under way.
    pub(super) async fn flush_behind(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        self.settle().await?;
        self.pending_append = Some(self.append(batch));
        self.look_behind().await
    }

    /// Waits for the append that is under way.
    pub(super) async fn settle(&mut self) -> Result<(), RunError> {
        let Some(appending) = &mut self.pending_append else { return Ok(()) };
        let done = (&mut appending.append).await;
        self.appended(done)
    }

    /// Lets the append that is under way go on, without waiting for it.
    pub(super) async fn look_behind(&mut self) -> Result<(), RunError> {
        let Some(appending) = &mut self.pending_append else { return Ok(()) };
        match poll!(&mut appending.append) {
            Poll::Ready(done) => self.appended(done),
            Poll::Pending => Ok(()),
        }
    }

    fn append(&mut self, batch: &mut Batch) -> Appending {
        let state = self.run_state();
        let changed = self.last_state.as_ref() != Some(&state);
        batch.since = None;
        let records = std::mem::take(&mut batch.records);
        // As many again are likely to come.
        let likely = Vec::with_capacity(batch.events.len());
        let events = Unread::new(std::mem::replace(&mut batch.events, likely));
        let append = Append {
            run: self.run.clone(),
            fence: self.fence,
            snapshot: self.snapshot(&records, state.ended),
            records,
            state: changed.then(|| state.clone()),
            inbox: batch.inbox.take(),
        };
        let (journal, unread) = (self.journal.clone(), events.clone());
        let append = async move {
            match journal.reads_payloads() || unread.events().is_empty() {
                true => journal.append(append).await,
                false => journal.append_deferred(append, unread).await,
            }
        };
        Appending { append: append.boxed(), events, last: self.state.seq(), state }
    }

    /// An append has ended: what it made durable reaches the listeners.
    pub(super) fn appended(&mut self, done: Result<(), JournalError>) -> Result<(), RunError> {
        let appending = self.pending_append.take();
        done?;
        if let Some(Appending { events, last, state, .. }) = appending {
            match Arc::try_unwrap(events) {
                Ok(events) => self.listeners.notify(last, events.into_events()),
                // A journal in memory has kept them.
                Err(kept) => self.listeners.notify(last, kept.events().iter().cloned()),
            }
            self.last_state = Some(state);
        }
        Ok(())
    }

    /// A snapshot, when enough has happened since the last one that reading it all again would take longer than reading
    /// that.
    fn snapshot(&mut self, records: &[Record], ended: bool) -> Option<Snapshot> {
        if !self.journal.reads_payloads() {
            return None;
        }
        self.snapshots.since_last += records.iter().map(|record| written(&record.payload)).sum::<usize>();
        if ended || self.snapshots.since_last < MIN_SNAPSHOT_BYTES.max(4 * self.snapshots.last) {
            return None;
        }
        let snapshot = to_snapshot(&self.state, self.values.as_mut())?;
        (self.snapshots.since_last, self.snapshots.last) = (0, snapshot.payload.len());
        Some(snapshot)
    }
}

/// The end of the append that is under way; never, when there is none.
pub(super) async fn appended(pending: &mut Option<Appending>) -> Result<(), JournalError> {
    match pending {
        Some(appending) => (&mut appending.append).await,
        None => std::future::pending().await,
    }
}

/// Bytes of a payload, and of the values that are kept with it.
fn written(payload: &Payload) -> usize {
    payload.len() + payload.values().iter().map(|value| value.text.len()).sum::<usize>()
}
