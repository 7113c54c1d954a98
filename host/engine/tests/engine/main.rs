//! The engine's behaviour by example.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, missing_docs, reason = "a failed test")]

mod agents;
mod approvals;
mod budgets;
mod contracts;
mod dialogue;
mod direct;
mod durable;
mod flow;
mod inner;
mod inputs;
mod large;
mod lasting;
mod parallel_tools;
mod psi;
mod receipts;
mod retry;
mod routing;
mod seeds;
mod senders;
mod shell;
mod skill;
mod step_budgets;
mod support;
mod talking;
mod timers;
mod transitions;
