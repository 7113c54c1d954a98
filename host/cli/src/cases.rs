//! Cases of `opcell plugin test`: calls of a plugin in real cells, with doubles for what it reaches, and what they must give.
//!
//! A case file is untrusted input like any other: its size is bounded, and its keys are known.

mod case;
mod doubles;
mod run;

pub use case::{Case, CaseError, read};
pub use run::{Outcome, Runner};
