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

mod run;

pub mod engine;

pub use decide::{Next, decide};
pub use effect::Ports;
pub use engine::{Divergence, Engine, EngineBuilder, EventStream, ResumeOptions, RunHandle, RunOptions};
pub use event::{Event, Recorded};
pub use outcome::{RunOutcome, Status};
pub use program::Program;
pub use run::{Message, RunError};
pub use state::State;
