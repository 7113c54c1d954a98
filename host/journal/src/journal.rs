//! The trait of all journals.

use crate::{
    clock::ClockJump,
    ownership::Ownership,
    query::{Driver, RunQuery, StatusTally, tally},
    record::{Fence, InboxMessage, LazyRecords, Record, RunEntry, RunId, RunState, StoredValue},
    versions::SharedVersions,
};
use async_trait::async_trait;
use opcell_types::FollowUp;
use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

/// A run to make, with its first records: all of it or nothing.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its name.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// When, in microseconds since 1970.
    pub at: i64,
    /// In order; the first one's `seq` is 1.
    pub records: Vec<Record>,
    /// The state of the run after the last of them.
    pub state: RunState,
}

impl NewRun {
    /// A run to which nothing has happened.
    #[must_use]
    pub fn empty(run: &RunId, workflow: &str, at: i64) -> Self {
        Self { run: run.clone(), workflow: workflow.into(), at, records: Vec::new(), state: RunState::PENDING }
    }
}

/// Records to append, all or none of them.
#[derive(Debug, Clone)]
pub struct Append {
    /// ID of the run.
    pub run: RunId,
    /// Proof of ownership.
    pub fence: Fence,
    /// In order; the first one's `seq` is one more than the run's last.
    pub records: Vec<Record>,
    /// The state of the run after the last of them; absent: as before. A run that has ended has no owner any more.
    pub state: Option<RunState>,
    /// The run's state after the last of them, as text, to be given back instead of the records up to it.
    pub snapshot: Option<Snapshot>,
    /// Messages up to this one are what some of the records say, and leave the box with them.
    pub inbox: Option<u64>,
}

/// A run's state, as whoever drives it wrote it. The records say the same, and stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that it covers.
    pub seq: u64,
    /// Version of what the text says.
    pub version: u32,
    /// The state.
    pub payload: Arc<str>,
}

/// Large values that were asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FoundValues {
    /// Those that were read.
    pub found: Vec<StoredValue>,
    /// Digests of those that are there, and for which there was no room.
    pub too_large: Vec<Arc<str>>,
}

/// The part of a broken run that may be given up to take it over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Cut {
    /// Only a broken end. If intact records follow a broken one, the store was tampered with, and the operator has to
    /// decide.
    #[default]
    Tail,
    /// Everything after the last record up to which the run is intact.
    Anything,
}

/// A run taken over by [`Journal::acquire`].
#[derive(Debug, Clone)]
pub struct OpenedRun {
    /// Proof of ownership.
    pub fence: Fence,
    /// The newest snapshot, if there is a good one.
    pub snapshot: Option<Snapshot>,
    /// Every intact record after the snapshot, in order.
    pub records: Vec<Record>,
    /// The damage that was found after them, and cut.
    pub damage: Option<Damage>,
}

/// A tail that was torn, corrupt or edited, and is gone from the run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// The last good record.
    pub last_good: u64,
    /// The number of records that were cut.
    pub cut: u64,
    /// The damage of the first of them.
    pub reason: String,
}

/// The ended runs to keep. A run goes when either rule says so; both go by the time at which it ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Retention {
    /// The most ended runs; those that ended last stay.
    pub keep: Option<u64>,
    /// The oldest end that stays, in microseconds since 1970.
    pub ended_after: Option<i64>,
}

impl Retention {
    /// The runs that are to be deleted. One that is driven has not ended for its driver.
    #[must_use]
    pub fn dropped(&self, runs: Vec<RunEntry>) -> Vec<RunId> {
        let mut ended: Vec<RunEntry> = runs.into_iter().filter(|run| run.state.ended && !run.driven).collect();
        ended.sort_by(|a, b| b.updated_at.cmp(&a.updated_at).then_with(|| b.run.cmp(&a.run)));
        let drops = |run: &RunEntry, rank: u64| {
            self.keep.is_some_and(|keep| rank > keep) || self.ended_after.is_some_and(|oldest| run.updated_at < oldest)
        };
        ended.into_iter().zip(1..).filter(|(run, rank)| drops(run, *rank)).map(|(run, _)| run.run).collect()
    }
}

/// Checks whether records follow the last one and each other.
pub(crate) fn in_order(run: &RunId, last: u64, records: &[Record]) -> Result<(), JournalError> {
    match (last + 1..).zip(records).find(|(expected, record)| record.seq != *expected) {
        Some((expected, record)) => Err(JournalError::OutOfOrder { run: run.clone(), last, expected, got: record.seq }),
        None => Ok(()),
    }
}

/// The owner of every run of a journal in memory.
pub(crate) const THIS_PROCESS: &str = "this process";

/// An owner as a person finds it: what makes its name unique says nothing to them.
pub(crate) fn shown(owner: &str) -> String {
    match owner.split_once('-') {
        Some((pid, _)) if pid.bytes().all(|byte| byte.is_ascii_digit()) => format!("process {pid}"),
        _ => owner.to_owned(),
    }
}

/// Drivers in the order of lists.
pub(crate) fn busiest_first(mut drivers: Vec<Driver>) -> Vec<Driver> {
    drivers.sort_by(|a, b| b.runs.cmp(&a.runs).then_with(|| a.name.cmp(&b.name)));
    drivers
}

/// A sentence about the process that drives a run.
fn driven_by(owner: &str) -> String {
    let is_this =
        owner == THIS_PROCESS || owner.split_once('-').is_some_and(|(pid, _)| pid.parse() == Ok(std::process::id()));
    match is_this {
        true => "this process drives it already".to_owned(),
        false => format!("another process drives it ({})", shown(owner)),
    }
}

/// Why a journal refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// There is no such run.
    #[error("the journal has no run `{0}`")]
    UnknownRun(RunId),
    /// The name is taken.
    #[error("run `{0}` already exists in this journal")]
    RunExists(RunId),
    /// A living process drives the run.
    #[error("run `{run}` is locked: {}; wait for it to end, or send it a signal", driven_by(.owner))]
    Held {
        /// ID of the run.
        run: RunId,
        /// The owner of the run.
        owner: String,
    },
    /// The run came with a journal that its user did not make.
    #[error(
        "run `{run}` was not made here: it came with {path}, or was there when that file was first opened; \
         look at it with {show_run}, and let it run with {adopt_run}",
        show_run = FollowUp::ShowRun(run.to_string()),
        adopt_run = FollowUp::AdoptRun(run.to_string())
    )]
    FromElsewhere {
        /// ID of the run.
        run: RunId,
        /// File of the journal.
        path: String,
    },
    /// A log lies beside the journal that this user's programs did not write: opening the journal would apply it.
    #[error(
        "{log} was not written here, and would replace what {path} holds; move it away if it came with a checkout; \
         if it is yours, move both files to another folder, where the journal counts as one from elsewhere"
    )]
    ForeignLog {
        /// File of the log.
        log: String,
        /// File of the journal.
        path: String,
    },
    /// Another owner has taken the run since.
    #[error("run `{run}` was taken over: this writer has fence {held}, the newest is {newest}; nothing was written")]
    Fenced {
        /// ID of the run.
        run: RunId,
        /// The writer's.
        held: Fence,
        /// The run's.
        newest: Fence,
    },
    /// The process was silent for longer than its lease, so the run may be another's at any moment.
    #[error(
        "the lease on run `{run}` ran out before this was written; nothing was written, and the run can be resumed"
    )]
    LeaseLost {
        /// ID of the run.
        run: RunId,
    },
    /// A record in the middle of the run is not what was written.
    #[error(
        "run `{run}` was tampered with: {reason}, but {behind} intact records follow; the run is intact up to event {last_good}"
    )]
    Broken {
        /// ID of the run.
        run: RunId,
        /// The last record before which nothing is broken.
        last_good: u64,
        /// The damage of the next record.
        reason: String,
        /// Intact records after it.
        behind: u64,
    },
    /// The end of the run is not what was written. Taking the run over cuts it.
    #[error("the end of run `{run}` is damaged: {reason}; the run is intact up to event {last_good}")]
    Torn {
        /// ID of the run.
        run: RunId,
        /// The last good record.
        last_good: u64,
        /// The damage after it.
        reason: String,
    },
    /// The run has ended and takes no messages.
    #[error("run `{run}` has ended ({status}); it accepts no more messages")]
    Ended {
        /// ID of the run.
        run: RunId,
        /// Status with which it ended: `completed`, `failed` or `cancelled`.
        status: String,
    },
    /// The run has as many records as a run can have.
    #[error("run `{run}` has {most} records, the maximum")]
    Full {
        /// ID of the run.
        run: RunId,
        /// The most.
        most: u64,
    },
    /// The run's records have more text than taking it over may read.
    #[error(
        "run `{run}` has more than {} MiB of events after its last snapshot; it cannot be resumed, and {export_run} \
         reads it piece by piece",
        bytes >> 20,
        export_run = FollowUp::ExportRun(run.to_string())
    )]
    TooLarge {
        /// ID of the run.
        run: RunId,
        /// The most.
        bytes: usize,
    },
    /// Another process keeps the store to itself.
    #[error("the journal is locked by another process; try again when it has finished")]
    Locked,
    /// The records do not follow the run's last.
    #[error("run `{run}` has {last} records; the next one is {expected}, not {got}; nothing was written")]
    OutOfOrder {
        /// ID of the run.
        run: RunId,
        /// The run's last record.
        last: u64,
        /// The number that must come next.
        expected: u64,
        /// The number that came.
        got: u64,
    },
    /// The store was written by a newer or an older version.
    #[error("{path} has schema {found}, and this version reads schema {supported}: {}", if found > supported { "use a newer opcell" } else { "use the opcell that wrote it, or move the file away to start a new journal" })]
    Schema {
        /// File or address of the store.
        path: String,
        /// Its schema.
        found: u32,
        /// The one that this version reads and writes.
        supported: u32,
    },
    /// The file is not a sound store.
    #[error("{path} is not an intact journal: {reason}; restore it from a backup, or move it away to start a new one")]
    Corrupt {
        /// File or address of the store.
        path: String,
        /// The finding of the check.
        reason: String,
    },
    /// There is no such store, or it does not let this process in.
    #[error("the journal {place} cannot be opened: {cause}")]
    Unreachable {
        /// File or address of the store, without secrets.
        place: String,
        /// The error of the storage.
        #[source]
        cause: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The storage failed. Its text has the causes, each once, and what helps.
    #[error("the journal's storage failed: {}", causes(.0.as_ref()))]
    Storage(Arc<dyn std::error::Error + Send + Sync>),
}

/// The causes of an error, outermost first, each once, with what helps.
fn causes(error: &(dyn std::error::Error + Send + Sync + 'static)) -> String {
    let mut said: Vec<String> = Vec::new();
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(cause) = next {
        let text = cause.to_string();
        // SQLite's number says nothing more than its words.
        let is_number = text.starts_with("Error code ") && !said.is_empty();
        if !is_number && !said.iter().any(|before| before.contains(&text)) {
            said.push(text);
        }
        next = cause.source();
    }
    let text = said.join(": ");
    let helps = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let help = if helps(&["disk is full", "No space left", "quota exceeded", "Disk quota"]) {
        "; free space: nothing that was recorded is lost, and runs continue from there"
    } else if helps(&["readonly database", "Permission denied", "Read-only file system", "unable to open"]) {
        "; this user must be able to write the file and its folder"
    } else {
        ""
    };
    format!("{text}{help}")
}

/// A failure of the storage, and the place of the store.
#[derive(Debug, thiserror::Error)]
#[error("{place}")]
struct Placed {
    place: String,
    #[source]
    cause: Arc<dyn std::error::Error + Send + Sync>,
}

impl JournalError {
    /// The same, with the file of the store where the storage failed.
    pub(crate) fn at(self, place: &Path) -> Self {
        let place = place.display().to_string();
        match self {
            Self::Storage(cause) if !cause.to_string().contains(&place) => {
                Self::Storage(Arc::new(Placed { place, cause }))
            }
            other => other,
        }
    }

    /// Returns `true` if the storage failed; otherwise it works, and refused what was asked.
    #[must_use]
    pub fn is_of_storage(&self) -> bool {
        matches!(
            self,
            Self::Storage(_) | Self::Unreachable { .. } | Self::Corrupt { .. } | Self::ForeignLog { .. } | Self::Locked
        )
    }

    /// Stable and machine-readable, kebab-case.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::UnknownRun(_) => "unknown-run",
            Self::RunExists(_) => "run-exists",
            Self::Held { .. } => "run-locked",
            Self::FromElsewhere { .. } => "run-from-elsewhere",
            Self::ForeignLog { .. } => "journal-log-from-elsewhere",
            Self::Fenced { .. } => "run-fenced",
            Self::LeaseLost { .. } => "lease-lost",
            Self::Broken { .. } => "journal-tampered",
            Self::Torn { .. } => "journal-torn",
            Self::Ended { .. } => "run-ended",
            Self::Full { .. } => "run-full",
            Self::TooLarge { .. } => "run-too-large",
            Self::Locked => "journal-locked",
            Self::OutOfOrder { .. } => "record-out-of-order",
            Self::Schema { .. } => "journal-schema",
            Self::Corrupt { .. } => "journal-corrupt",
            Self::Unreachable { .. } => "journal-unreachable",
            Self::Storage(_) => "journal-unavailable",
        }
    }
}

/// Runs as append-only sequences of records. Every method returns only after its changes are durable, if the store is.
///
/// One of your own passes `contract!`, which makes a test of each promise (feature `contract`).
///
/// ```
/// use opcell_journal::{Append, Journal, MemoryJournal, NewRun, Record, RunId};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), opcell_journal::JournalError> {
/// let journal = MemoryJournal::new();
/// let run: RunId = "run-1".into();
/// // Whoever makes a run owns it, and proves it with the fence.
/// let fence = journal.create(NewRun::empty(&run, "greet", 0)).await?;
/// let record = Record { seq: 1, kind: "happened".into(), version: 1, at: 0, payload: r#"{"n":1}"#.to_owned().into() };
/// let records = vec![record];
/// journal
///     .append(Append { run: run.clone(), fence, records, state: None, snapshot: None, inbox: None })
///     .await?;
///
/// // Anyone may read.
/// let read = journal.read(&run, 0, 10).await?;
/// assert_eq!(&*read[0].payload, r#"{"n":1}"#);
/// # Ok(())
/// # }
/// ```
#[async_trait]
pub trait Journal: Send + Sync {
    /// Returns `true` if appending reads the records' payloads, so that the caller had better make the texts first. A
    /// journal that does not lives as long as its process, and needs no snapshots either.
    fn reads_payloads(&self) -> bool {
        true
    }

    /// Returns `true` if payloads may name values ([`Payload::values`](crate::Payload::values)), which the journal then
    /// keeps once however many payloads and runs name them, as long as one of these runs is there.
    fn keeps_values(&self) -> bool {
        false
    }

    /// The values with these digests that the journal has, as long as their texts take no more than a number of bytes
    /// together. Those that it does not have are left out.
    ///
    /// # Errors
    /// The storage's.
    async fn values(&self, _digests: &[Arc<str>], _max_bytes: u64) -> Result<FoundValues, JournalError> {
        Ok(FoundValues::default())
    }

    /// Makes a run with its first records and takes ownership of it.
    ///
    /// # Errors
    /// [`JournalError::RunExists`], [`JournalError::OutOfOrder`], or the storage's.
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError>;

    /// Takes ownership of a run whose owner is gone, and reads it. Damage is cut first, if `cut` allows it.
    ///
    /// # Errors
    /// [`JournalError::UnknownRun`], [`JournalError::Held`], [`JournalError::Broken`], or the storage's.
    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError>;

    /// Gives ownership back; an owner that lost it already gets no error.
    ///
    /// # Errors
    /// The storage's.
    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError>;

    /// Appends records, all or none.
    ///
    /// # Errors
    /// [`JournalError::Fenced`], [`JournalError::OutOfOrder`], [`JournalError::UnknownRun`], or the storage's.
    async fn append(&self, append: Append) -> Result<(), JournalError>;

    /// The same for a journal that does not read payloads, with records that are made when they are first read:
    /// `append` has none of its own. There are no gaps between them.
    ///
    /// # Errors
    /// As [`Journal::append`].
    async fn append_deferred(&self, append: Append, records: Arc<dyn LazyRecords>) -> Result<(), JournalError> {
        let made = (records.first()..=records.last()).filter_map(|seq| Arc::clone(&records).record(seq));
        self.append(Append { records: made.collect(), ..append }).await
    }

    /// Reads up to `limit` records after `after` without owning the run: fewer where they have more than a megabyte
    /// of text, and none only where there are none.
    ///
    /// # Errors
    /// [`JournalError::UnknownRun`], [`JournalError::Broken`] or [`JournalError::Torn`] when the first of them is not
    /// what was written, or the storage's.
    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError>;

    /// Every run, newest first.
    ///
    /// # Errors
    /// The storage's.
    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError>;

    /// The runs that a query asks for, newest first. A journal that cannot do better looks at every run.
    ///
    /// # Errors
    /// [`JournalError::UnknownRun`] when [`RunQuery::before`] names none, or the storage's.
    async fn page(&self, query: RunQuery) -> Result<Vec<RunEntry>, JournalError> {
        query.of(self.runs().await?)
    }

    /// Counts the runs of each [status](RunEntry::status) at a moment, in microseconds since 1970. A journal
    /// that cannot do better looks at every run.
    ///
    /// # Errors
    /// The storage's.
    async fn tally(&self, now: i64) -> Result<BTreeMap<String, StatusTally>, JournalError> {
        Ok(tally(self.runs().await?.iter().map(|run| (run, 1)), now))
    }

    /// Living processes that have the journal open, those that drive no run included, the busiest first. A journal
    /// that cannot do better names those that drive runs.
    ///
    /// # Errors
    /// The storage's.
    async fn drivers(&self) -> Result<Vec<Driver>, JournalError> {
        let mut drivers: BTreeMap<Arc<str>, u64> = BTreeMap::new();
        for run in self.runs().await?.into_iter().filter(|run| run.driven && !run.state.ended) {
            *drivers.entry(run.driver.unwrap_or_else(|| THIS_PROCESS.into())).or_default() += 1;
        }
        let drivers = drivers.into_iter().map(|(name, runs)| Driver { is_this: *name == *THIS_PROCESS, name, runs });
        Ok(busiest_first(drivers.collect()))
    }

    /// Returns up to `limit` runs without a driver that could continue: those that are due, and those with messages in
    /// their inbox. The one that has waited longest comes first.
    ///
    /// # Errors
    /// The storage's.
    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError>;

    /// Removes ended runs that the rule does not keep, and gives their names.
    ///
    /// # Errors
    /// The storage's.
    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError>;

    /// Compares the clock, in microseconds since 1970, with the times that the journal has recorded, and keeps what it
    /// learns. Gives the jump if the clock is in doubt: then [`retain`](Self::retain) must not be called. With `trust`
    /// the clock is taken as true.
    ///
    /// # Errors
    /// The storage's.
    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError>;

    /// Removes a run that has ended; whether it had.
    ///
    /// # Errors
    /// [`JournalError::UnknownRun`], or the storage's.
    async fn delete(&self, run: &RunId) -> Result<bool, JournalError>;

    /// Puts a message into a run's box, without owning the run.
    ///
    /// # Errors
    /// [`JournalError::UnknownRun`], [`JournalError::Ended`], or the storage's.
    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError>;

    /// Messages that are still in the box, oldest first. Reading takes nothing out: the owner appends what a message
    /// says, and [`Append::inbox`] takes it out of the box with that, so none is lost and none is taken twice.
    ///
    /// # Errors
    /// The storage's.
    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError>;

    /// The store's own time, in microseconds since 1970, where machines with clocks of their own share it: runs' timers
    /// go by it.
    fn now(&self) -> Option<i64> {
        None
    }

    /// The ownership under which runs are made and taken from now on.
    fn ownership(&self) -> Ownership {
        Ownership::lasting()
    }

    /// Writes something that changes nothing, so that whoever asks knows that runs can go on.
    ///
    /// # Errors
    /// The storage's: a full disk, missing permissions, a file that was removed.
    async fn probe(&self) -> Result<(), JournalError> {
        Ok(())
    }

    /// Returns `true` for a run that this journal's user did not make, and has not adopted: it can be looked at, and is
    /// not driven.
    fn is_from_elsewhere(&self, _run: &RunId) -> bool {
        false
    }

    /// Takes runs from elsewhere as the user's own.
    ///
    /// # Errors
    /// The storage's.
    fn adopt(&self, _runs: &[RunId]) -> Result<(), JournalError> {
        Ok(())
    }

    /// The versions of plugins that the workers of this journal share; `None` if they share none.
    fn shared_versions(&self) -> Option<&dyn SharedVersions> {
        None
    }

    /// Waits until a run may have become runnable, or for this long. A journal that cannot know returns after a fifth
    /// of a second at most.
    async fn changed(&self, at_most: Duration) {
        tokio::time::sleep(at_most.min(Duration::from_millis(200))).await;
    }
}

/// A journal that several owners share: made of any journal, or of an `Arc<dyn Journal>`.
#[derive(Clone)]
pub struct SharedJournal(
    /// The journal.
    pub Arc<dyn Journal>,
);

impl<J: Journal + 'static> From<J> for SharedJournal {
    fn from(journal: J) -> Self {
        Self(Arc::new(journal))
    }
}

impl<J: Journal + 'static> From<Arc<J>> for SharedJournal {
    fn from(journal: Arc<J>) -> Self {
        Self(journal)
    }
}

impl From<Arc<dyn Journal>> for SharedJournal {
    fn from(journal: Arc<dyn Journal>) -> Self {
        Self(journal)
    }
}

impl std::fmt::Debug for SharedJournal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedJournal")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("the transaction could not be committed")]
    struct Outer(#[source] Inner);

    #[derive(Debug, thiserror::Error)]
    #[error("database or disk is full")]
    struct Inner(#[source] std::io::Error);

    #[test]
    fn a_failure_of_the_storage_says_each_cause_once_and_what_helps() {
        let number = std::io::Error::other("Error code 13: Insertion failed because database is full");
        let said = JournalError::Storage(Arc::new(Outer(Inner(number)))).to_string();
        assert_eq!(
            said,
            "the journal's storage failed: the transaction could not be committed: database or disk is full; free \
             space: nothing that was recorded is lost, and runs continue from there"
        );
        let number = std::io::Error::other("Error code 13: Insertion failed because database is full");
        let said = JournalError::Storage(Arc::new(Inner(number))).at(Path::new("/data/runs.db")).to_string();
        assert!(
            said.starts_with("the journal's storage failed: /data/runs.db: database or disk is full; free"),
            "{said}"
        );
        let named = JournalError::Storage(Arc::new(std::io::Error::other("/data/runs.db is a link")));
        let said = named.at(Path::new("/data/runs.db")).to_string();
        assert_eq!(said, "the journal's storage failed: /data/runs.db is a link");
        let plain = JournalError::Storage(Arc::new(std::io::Error::other("it is gone")));
        assert_eq!(plain.to_string(), "the journal's storage failed: it is gone");
    }
}
