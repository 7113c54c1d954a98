//! What the engine does, said by example.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::cast_possible_truncation, missing_docs)]

mod agents;
mod at_once;
mod budgets;
mod contracts;
mod dialogue;
mod flow;
mod lasting;
mod psi;
mod receipts;
mod routing;
mod seeds;
mod shell;
mod skill;
mod step_budgets;
mod support;
mod talking;
mod transitions;
