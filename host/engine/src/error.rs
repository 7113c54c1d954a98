//! Why a run could not be driven on.

use opcell_core::{Status, id::Timestamp, state::ApplyError};
use opcell_journal::{JournalError, RunId};
use opcell_types::FollowUp;
use std::sync::Arc;

/// Why a run could not be driven on. The run itself has not ended: it can be resumed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The engine is ending: see [`crate::Engine::shutdown`].
    #[error("this host is shutting down and accepts no more runs")]
    ShuttingDown,
    /// The input of the run or the data of a signal exceeds its limits.
    #[error("{what} is not accepted: {problem}")]
    TooMuch {
        /// The part that brings it.
        what: String,
        /// The excess.
        problem: String,
    },
    /// The journal refused, so nothing more may happen.
    #[error("{before}{0}", before = before(.0))]
    Journal(#[source] Arc<JournalError>),
    /// The journal holds events that do not follow from each other.
    #[error("the journal of run `{run}` is inconsistent: {source}")]
    Replay {
        /// ID of the run.
        run: RunId,
        /// The error.
        source: ApplyError,
    },
    /// A record is not an event that this version knows.
    #[error("cannot read event {seq} of run `{run}` ({kind}, schema {version}): {problem}")]
    Unreadable {
        /// ID of the run.
        run: RunId,
        /// Number of the record, from 1.
        seq: u64,
        /// The event's kind, as the journal names it.
        kind: String,
        /// Its schema.
        version: u32,
        /// The problem.
        problem: String,
    },
    /// The run's events take more memory than reading it may.
    #[error(
        "run `{run}` is too large to be read whole: its events up to {seq} take more than {} MiB; \
         {export_run} reads it piece by piece",
        bytes >> 20,
        export_run = FollowUp::ExportRun(run.to_string())
    )]
    TooLarge {
        /// ID of the run.
        run: RunId,
        /// Number of the event that is too much.
        seq: u64,
        /// The most that the events of a run may take.
        bytes: u64,
    },
    /// A dependency of the run differs from the one it was started with.
    #[error("run `{run}` was started with {name} {pinned}, but found {found}; restore the pinned version to resume it")]
    Pin {
        /// ID of the run.
        run: RunId,
        /// The pinned name.
        name: Arc<str>,
        /// Its digest then.
        pinned: Arc<str>,
        /// Its digest now, or that it is missing.
        found: String,
    },
    /// No step of the run ever waits for such a signal.
    #[error(
        "no step of run `{run}` waits for a signal `{signal}`{}",
        if known.is_empty() { "; it takes none".to_owned() } else { format!("; it takes {}", known.join(", ")) }
    )]
    UnknownSignal {
        /// ID of the run.
        run: RunId,
        /// The signal.
        signal: Arc<str>,
        /// Those that it takes.
        known: Vec<String>,
    },
    /// The signal is an approval, and its sender may not approve.
    #[error("`{signal}` is an approval of run `{run}`, which its sender may not give")]
    MayNotApprove {
        /// ID of the run.
        run: RunId,
        /// The approval.
        signal: Arc<str>,
    },
    /// The approval has an answer already, which the run will take; a second one would be taken by no one, or by a
    /// later question.
    #[error(
        "approval `{signal}` of run `{run}` was already {} by {} at {}; that answer counts",
        if *approved { "given" } else { "refused" },
        by.as_deref().unwrap_or("an unnamed sender"),
        at.to_text()
    )]
    AlreadyAnswered {
        /// ID of the run.
        run: RunId,
        /// The approval.
        signal: Arc<str>,
        /// `true` if the first answer approves.
        approved: bool,
        /// The sender of that answer.
        by: Option<Arc<str>>,
        /// When.
        at: Timestamp,
    },
    /// An answer came to a question that the run does not ask, or asks no more.
    #[error("run `{run}` does not ask that any more: it was answered, or the run has continued")]
    NotAsked {
        /// ID of the run.
        run: RunId,
    },
    /// The run asks several questions of this name.
    #[error("run `{run}` asks {} questions named `{name}`; answer one of them by its ID: {}", ids.len(), ids.join(", "))]
    SeveralQuestions {
        /// ID of the run.
        run: RunId,
        /// The name.
        name: Arc<str>,
        /// The IDs of the questions.
        ids: Vec<Arc<str>>,
    },
    /// An answer to a question about a call that cannot be taken.
    #[error("the answer to run `{run}` is not taken: {problem}")]
    AnswerNotTaken {
        /// ID of the run.
        run: RunId,
        /// Why, in words for whoever answers.
        problem: String,
    },
    /// The run has ended, and what was asked for needs one that has not.
    #[error("run `{run}` has ended ({status})")]
    Ended {
        /// ID of the run.
        run: RunId,
        /// Status with which it ended: `completed`, `failed` or `cancelled`.
        status: Status,
    },
    /// The run has no such event.
    #[error("run `{run}` has {last} events; there is no event {seq}")]
    NoSuchEvent {
        /// ID of the run.
        run: RunId,
        /// The requested event.
        seq: u64,
        /// The last one.
        last: u64,
    },
    /// There is no call to make again.
    #[error("run `{run}` cannot be retried: {problem}")]
    NothingToRetry {
        /// ID of the run.
        run: RunId,
        /// Why not, as a clause.
        problem: String,
    },
    /// The task that drove it is gone.
    #[error("the driver of run `{0}` is gone; resume the run")]
    Gone(RunId),
}

impl RunError {
    /// Stable and machine-readable, kebab-case; the journal's own where the journal refused.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Journal(error) => error.kind(),
            Self::ShuttingDown => "shutting-down",
            Self::Replay { .. } => "journal-inconsistent",
            Self::Unreadable { .. } => "event-unreadable",
            Self::TooLarge { .. } => "run-too-large",
            Self::Pin { .. } => "pinned-plugin-missing",
            Self::UnknownSignal { .. } => "unknown-signal",
            Self::MayNotApprove { .. } => "may-not-approve",
            Self::AlreadyAnswered { .. } => "already-answered",
            Self::NotAsked { .. } => "not-asked",
            Self::SeveralQuestions { .. } => "question-missing",
            Self::AnswerNotTaken { .. } => "answer-not-taken",
            Self::Ended { .. } => "run-ended",
            Self::NoSuchEvent { .. } => "unknown-event",
            Self::NothingToRetry { .. } => "nothing-to-retry",
            Self::TooMuch { .. } | Self::Gone(_) => "run-not-driven",
        }
    }
}

/// A run stops where its journal does not write. What refuses to make or to take a run stops nothing.
fn before(error: &JournalError) -> &'static str {
    match error {
        JournalError::UnknownRun(_)
        | JournalError::RunExists(_)
        | JournalError::Held { .. }
        | JournalError::Ended { .. }
        | JournalError::Locked => "",
        _ => "the run stopped: ",
    }
}

impl From<JournalError> for RunError {
    fn from(error: JournalError) -> Self {
        Self::Journal(Arc::new(error))
    }
}
