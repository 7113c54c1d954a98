//! The execution model as pure functions: what a run's state is, what comes next, and how an event changes it.
//!
//! Owns: events and their schema, the state of a run as the fold of its events, the decision what comes next, what a
//! requested effect is given and gives back, budgets, receipts of calls, and the trace of a run.
//!
//! In and out: a driver makes a [`program::Program`] ready, asks [`decide()`], appends the events that it gives, folds
//! them in with [`State::apply`], performs the effects that are [wanted](State::wanted), each as [`State::effect`]
//! describes it, and appends an [`Event::Replied`] for each. `opcell-engine` is the driver of this repository; a
//! durable engine or a simulator is another.
//!
//! Must not know: clocks, threads, async, journals, files, plugins, models. Whatever it needs to know about them
//! beforehand it asks a [`effect::Catalogue`].

#![warn(missing_debug_implementations)]

pub mod failure;
pub mod id;

pub mod conversation;
pub mod receipt;

pub mod approval;
pub mod call;

pub mod program;

pub mod event;
pub mod large;
pub mod outcome;
pub mod retry;
mod wire;

mod dialogue;
pub mod offer;
mod results;

pub mod state;

mod scope;
mod structured;

mod augment;
mod authorize;
pub mod decide;

pub mod effect;
mod stopped;

pub mod message;

pub mod located;
pub mod trace;

pub use decide::{Next, decide};
pub use dialogue::MESSAGE_SIGNAL;
pub use event::{Event, Recorded};
pub use outcome::{RunOutcome, Status};
pub use program::Program;
pub use state::State;
pub use trace::Trace;
