//! The workflow engine: a pure decide/apply core and a thin async shell.
//!
//! Owns: the state of a run as the fold of its events, the decision what comes next, the shell that performs effects and appends
//! their events before anything depends on them, budgets, signals, cancellation.
//!
//! Must not know: WebAssembly, providers, SQL, files, the command line. It reaches the world through [`ports`].

pub mod conversation;
pub mod event;
pub mod outcome;
pub mod ports;
pub mod program;
mod wire;
