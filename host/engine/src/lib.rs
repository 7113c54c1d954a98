//! The workflow engine: a pure decide/apply core and a thin async shell.
//!
//! Owns: the state of a run as the fold of its events, the decision what comes next, the shell that performs effects and appends
//! their events before anything depends on them, budgets, signals, cancellation.
//!
//! The road of a run: [`program::Program`] is a workflow made ready; [`engine::Engine`] starts it; [`decide()`] looks at the [`state::State`] and
//! says what comes next; the shell performs effects through [`ports`] and appends an [`event::Event`] for each; [`state::State::apply`] folds it in.
//!
//! Must not know: WebAssembly, providers, SQL, files, the command line. It reaches the world through [`ports`].

pub mod conversation;
pub mod ports;
pub mod receipt;

pub mod program;
pub mod runlog;

pub mod event;
pub mod outcome;
mod wire;

pub mod state;

mod scope;
mod structured;

pub mod decide;

pub mod effect;
mod nothing;

mod error;
mod in_flight;
mod message;
mod record;

mod run;
mod stopped;

pub mod engine;

pub mod handle;

pub mod past;

pub mod trace;

pub use decide::{Next, decide};
pub use effect::Ports;
pub use engine::{Engine, EngineBuilder, ResumeOptions, RunOptions, Taker};
pub use error::RunError;
pub use event::{Event, Recorded};
pub use handle::{EventStream, RunHandle};
pub use message::Message;
pub use outcome::{RunOutcome, Status};
pub use past::Divergence;
pub use program::Program;

pub use state::State;
pub use trace::Trace;
