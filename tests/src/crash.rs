//! Runs that are killed, and what they leave behind.
//!
//! A campaign runs one workflow undisturbed, then as often as it is asked with a SIGKILL somewhere: before or after a
//! chosen write of the journal, or at a random moment. After each kill the run is resumed by a new process, and its
//! outcome, what its operations did to the world outside, and its journal are compared with the undisturbed run. Beside
//! that two rules hold for every run: what the journal acknowledged is in it at the end, unchanged; and nothing is done
//! before its request is durable or after its reply is.
//!
//! A campaign of its own kills processes between a question about a model's call, its answer and the call, and another
//! one the runs of models that write programs.
//!
//! In: how many kills. Out: every difference, in words.

pub mod campaign;
pub mod child;
mod compare;
mod deadly;
mod kills;
pub mod programs;
pub mod questions;
mod recorder;
mod world;
