//! The run journal on PostgreSQL, for workers on many machines.
//!
//! Owns: the tables, the lease by which a process owns the runs it drives, appends of many runs in one transaction, and
//! the wake-ups that spare workers from polling.
//!
//! Must not know: what a record means, or who drives runs. The contract is [`opcell_journal::Journal`]'s, and one suite
//! of tests holds every journal to it.
//!
//! **In**: a connection URL ([`Settings`]), records. **Out**: records, exactly as they were written.
//!
//! Three rules keep a run whole however its owner dies:
//!
//! - *A fence and a lease guard every append, in the append's own transaction.* A process that was paused or cut off
//!   for longer than its lease cannot write when it returns, even if no other process has taken the run yet.
//! - *Only the server's clock counts.* Leases expire by it, and [`PostgresJournal::clock`] gives its time to whoever
//!   sets timers.
//! - *A lost answer is not a lost write.* No one else can write under the same fence, so after a broken connection the
//!   number of records says whether the append arrived, and it is repeated only when it did not.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

mod clock;
mod error;
mod settings;

mod pool;
mod schema;

mod rows;

mod anchor;
mod append;
mod beside;
mod lease;
mod wake;

mod journal;
mod versions;

#[cfg(feature = "scratch")]
pub mod scratch;

pub use beside::{Beside, IDLE_LIMIT};
pub use clock::ServerClock;
pub use error::ServerError;
pub use journal::PostgresJournal;
pub use settings::{Settings, SettingsError};
