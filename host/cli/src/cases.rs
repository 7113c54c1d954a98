//! Cases of `opcell plugin test`: calls of a plugin in real cells, with doubles for what it reaches, and what they must
//! give.
//!
//! A case file is untrusted input like any other: its size is bounded, and its keys are known.

mod case;
mod doubles;
mod places;
mod recorded;
mod run;
mod update;

pub use case::{Case, CaseError, CaseFile, read};
pub use recorded::{case_of, write};
pub use run::{Got, Outcome, Runner};
pub use update::updated;

/// The JSON Schema of case files.
pub const SCHEMA: &str = opcell_author::schemas::CASE;
