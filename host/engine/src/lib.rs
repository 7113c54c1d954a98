//! The async shell around the execution model of `opcell-core`.
//!
//! Owns: starting and resuming runs, performing what [`opcell_core::decide()`] asks for, appending every event before
//! anything depends on it, cancellation, the listeners of a run, and what a journal says about runs without a driver.
//!
//! The road of a run: [`engine::Engine`] starts it; the core says what comes next; the shell performs effects through
//! [`ports`] and appends an event for each; the core folds it in.
//!
//! Must not know: WebAssembly, providers, SQL, files, the command line. It reaches the world through [`ports`].

#![warn(missing_debug_implementations)]

pub mod inner;
pub mod perform;
mod pieces;
pub mod ports;
pub mod program_record;
pub mod progress;
pub mod tool;

mod answers;
mod error;
mod in_flight;
mod invoking;
mod record;
mod unconfigured;

pub mod handle;

mod run;

pub mod engine;

pub mod past;

mod repin;

mod updates;

mod shutdown;

pub mod worker;

pub use opcell_core::{
    Event, MESSAGE_SIGNAL, Next, Program, Recorded, State, Status, Trace, approval, call, conversation, decide,
    decide::ValueLimits,
    effect, event, large, located,
    message::Message,
    offer, outcome,
    outcome::RunOutcome,
    program, receipt, retry,
    state::{self, AskedApproval, AskedGrant, NotChosen, Wanted},
    trace,
};

pub use answers::Decision;
pub use engine::{Delivery, Engine, EngineBuilder, ResumeOptions, RunOptions, Sender};
pub use error::RunError;
pub use handle::{EventStream, RunHandle};
pub use past::Divergence;
pub use ports::Ports;
pub use record::ReadSoFar;
pub use updates::{RunUpdate, UpdateStream};
