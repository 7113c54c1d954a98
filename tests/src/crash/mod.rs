//! Runs that are killed, and what they leave behind.
//!
//! A campaign runs one workflow undisturbed, then as often as it is asked with a SIGKILL somewhere: before or after a chosen write of
//! the journal, or at a random moment. After each kill the run is taken up by a new process, and its outcome, what its operations did
//! to the world outside, and its journal are compared with the undisturbed run.
//!
//! In: how many kills. Out: every difference, in words.

pub mod campaign;
pub mod child;
mod compare;
mod deadly;
mod world;
