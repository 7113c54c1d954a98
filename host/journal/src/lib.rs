//! Append-only run journals: the trait, a store in memory and an embedded one.
//!
//! Owns: records in order, who may write them (one owner per run, fenced), durability, damage found and cut, retention,
//! and an inbox for runs that another process drives.
//!
//! Must not know: what a record means. A record's payload is JSON text that the engine wrote; the journal keeps it, in
//! order, and gives it back unchanged.

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

mod record;

mod ownership;

mod query;

mod versions;

mod clock;

mod journal;

mod memory;

#[cfg(feature = "sqlite")]
mod checkpoint;
#[cfg(feature = "sqlite")]
pub mod connection;
#[cfg(feature = "sqlite")]
mod owner;
#[cfg(feature = "sqlite")]
mod sqlite;
#[cfg(feature = "sqlite")]
pub mod tables;
#[cfg(feature = "sqlite")]
mod writer;

#[cfg(feature = "contract")]
pub mod contract;

pub use clock::{ClockAnchor, ClockJump, DOUBT, MAX_PAUSE};
pub use journal::{
    Append, Cut, Damage, FoundValues, Journal, JournalError, NewRun, OpenedRun, Retention, SharedJournal, Snapshot,
};
pub use memory::MemoryJournal;
pub use ownership::Ownership;
pub use query::{Driver, RunQuery, StatusTally, tally};
pub use record::{
    Fence, InboxMessage, LazyPayload, LazyRecords, Payload, Record, RunEntry, RunId, RunState, StoredValue,
};
#[cfg(feature = "sqlite")]
pub use sqlite::{BackupError, SqliteJournal, backup, restore};
pub use versions::{SharedVersion, SharedVersions};
