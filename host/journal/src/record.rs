//! The entries of a journal.

use serde::{Deserialize, Serialize};
use std::{any::Any, borrow::Cow, fmt, ops::Deref, sync::Arc};

/// A run's name in a journal: any non-empty text, unique in its journal.
pub type RunId = Arc<str>;

/// One event, as the journal sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Position in the run, from 1, without gaps.
    pub seq: u64,
    /// The kind of the event, kebab-case.
    pub kind: Cow<'static, str>,
    /// Version of the event's schema.
    pub version: u32,
    /// Microseconds since 1970-01-01T00:00:00Z.
    pub at: i64,
    /// The event as JSON text.
    pub payload: Payload,
}

/// Something whose JSON text is made when it is first read.
pub trait LazyPayload: fmt::Debug + Send + Sync {
    /// The text; the same every time.
    fn text(&self) -> &str;

    /// Returns the source of the text, for its writer to take back without reading the text.
    fn source(&self) -> &dyn Any;
}

/// Records in order that are made when they are first read. There is at least one.
pub trait LazyRecords: fmt::Debug + Send + Sync {
    /// The number of the first.
    fn first(&self) -> u64;

    /// The number of the last.
    fn last(&self) -> u64;

    /// When the last happened, in microseconds since 1970-01-01T00:00:00Z.
    fn last_at(&self) -> i64;

    /// The record with a number; `None` when it is not one of these.
    fn record(self: Arc<Self>, seq: u64) -> Option<Record>;
}

/// A large value that payloads name by its digest, kept once in a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredValue {
    /// BLAKE3 of the text, 64 hexadecimal digits.
    pub digest: Arc<str>,
    /// The value, as its writer writes values.
    pub text: Arc<str>,
}

/// A JSON text, perhaps not yet made: a journal in memory is seldom read, and making a text costs more than deciding
/// what it says.
#[derive(Clone)]
pub struct Payload(Source);

#[derive(Clone)]
enum Source {
    Text(Arc<str>),
    Naming(Arc<str>, Arc<[StoredValue]>),
    Deferred(Arc<dyn LazyPayload>),
}

impl Payload {
    /// The text of something that does not change any more, made when it is first read.
    #[must_use]
    pub fn deferred(of: Arc<dyn LazyPayload>) -> Self {
        Self(Source::Deferred(of))
    }

    /// A text, and the values that it names and that no payload before it has named.
    #[must_use]
    pub fn naming(text: impl Into<Arc<str>>, values: Vec<StoredValue>) -> Self {
        Self(if values.is_empty() { Source::Text(text.into()) } else { Source::Naming(text.into(), values.into()) })
    }

    /// The values that the text names and that have to be kept with it.
    #[must_use]
    pub fn values(&self) -> &[StoredValue] {
        match &self.0 {
            Source::Naming(_, values) => values,
            Source::Text(_) | Source::Deferred(_) => &[],
        }
    }

    /// Returns the source of the text, where it still exists and is a `T`.
    #[must_use]
    pub fn source<T: 'static>(&self) -> Option<&T> {
        match &self.0 {
            Source::Text(_) | Source::Naming(..) => None,
            Source::Deferred(of) => of.source().downcast_ref(),
        }
    }
}

impl Deref for Payload {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            Source::Text(text) | Source::Naming(text, _) => text,
            Source::Deferred(of) => of.text(),
        }
    }
}

impl<T: Into<Arc<str>>> From<T> for Payload {
    fn from(text: T) -> Self {
        Self(Source::Text(text.into()))
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl PartialEq for Payload {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Payload {}

/// Proof of ownership. A writer whose fence is not the run's newest is refused, whatever it believes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(pub u64);

impl Fence {
    /// Returns the fence of the next owner.
    ///
    /// # Errors
    /// When there is none, which only a store has that was written by other means; with the reason.
    pub fn next(self) -> Result<Self, &'static str> {
        let next = self.0.checked_add(1).filter(|next| i64::try_from(*next).is_ok());
        next.map(Self).ok_or("the fence of a run is the highest there is: it was not written by this program")
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A run's state as lists show it; the journal itself only asks whether the run has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunState {
    /// `running`, `suspended`, `completed`, …
    pub status: Cow<'static, str>,
    /// `true` if it has ended. Retention never touches a run that has not.
    pub ended: bool,
    /// When it can go on without anybody's doing, in microseconds since 1970: at once when that has passed. Absent: it
    /// has ended, or waits for someone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<i64>,
}

impl RunState {
    /// Nothing has happened yet, and something could.
    pub const PENDING: Self = Self { status: Cow::Borrowed("pending"), ended: false, due: Some(0) };
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct RunEntry {
    /// ID of the run.
    pub run: RunId,
    /// The workflow's name.
    pub workflow: Arc<str>,
    /// The state of the run.
    pub state: RunState,
    /// The number of its records.
    pub records: u64,
    /// When it was made, in microseconds since 1970.
    pub created_at: i64,
    /// When its last record was written, in microseconds since 1970.
    pub updated_at: i64,
    /// `true` if a living process drives it.
    pub driven: bool,
    /// The process, for people.
    pub driver: Option<Arc<str>>,
}

impl RunEntry {
    /// All values of [`Self::status`].
    pub const STATUSES: [&str; 10] = [
        "pending",
        "running",
        "waiting",
        "interrupted",
        "suspended",
        "completed",
        "failed",
        "blocked",
        "cancelled",
        Self::DAMAGED,
    ];

    /// The status of a run whose row cannot be read: another program wrote it.
    pub const DAMAGED: &str = "damaged";

    /// The status as people use it, at a moment in microseconds since 1970. A run that pauses until a moment is
    /// waiting, whether or not a process drives it. What was running when its driver went away is interrupted, also in
    /// a pause that has ended since; what no one has begun is pending.
    #[must_use]
    pub fn status(&self, now: i64) -> &str {
        match self.state.due {
            _ if !Self::STATUSES.contains(&&*self.state.status) => Self::DAMAGED,
            _ if self.state.ended => &self.state.status,
            Some(due) if due > now => "waiting",
            Some(_) if !self.driven => {
                if self.records <= 1 || self.state.status == RunState::PENDING.status {
                    "pending"
                } else {
                    "interrupted"
                }
            }
            _ => &self.state.status,
        }
    }
}

/// Something for whoever drives the run: a signal or a request to cancel, as JSON text that the engine understands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct InboxMessage {
    /// Position in the inbox; grows.
    pub id: u64,
    /// When it was posted, in microseconds since 1970.
    pub at: i64,
    /// The content of the message.
    pub payload: Arc<str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_no_one_drives_is_pending_or_interrupted() {
        let shown = |records, status: &'static str, due, driven| {
            let state = RunState { status: status.into(), ended: false, due };
            let (run, workflow) = ("r".into(), "w".into());
            let driver = None;
            RunEntry { run, workflow, state, records, created_at: 0, updated_at: 0, driven, driver }
                .status(10)
                .to_owned()
        };
        assert_eq!(shown(1, "running", Some(0), false), "pending", "no one has begun it");
        assert_eq!(shown(7, "pending", Some(0), false), "pending", "a fork that is held");
        assert_eq!(shown(2, "running", Some(0), false), "interrupted");
        assert_eq!(shown(2, "running", Some(9), false), "interrupted", "its pause is over, and no one goes on");
        assert_eq!(shown(2, "running", Some(11), false), "waiting", "its pause is not over, and no one drives it");
        assert_eq!(shown(2, "running", Some(11), true), "waiting", "its pause is not over");
        assert_eq!(shown(2, "running", Some(0), true), "running");
        assert_eq!(shown(2, "suspended", None, false), "suspended");
    }
}
