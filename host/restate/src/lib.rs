//! A driver of runs on [Restate](https://restate.dev): a server that keeps calls until they are answered, one at a time
//! per key, and calls at a later time.
//!
//! Runs stay in Opcell's journal, which alone decides who may write. Restate decides which run gets a turn, when, and
//! on which worker: each run is a key of the virtual object `OpcellRun`, whose handler `turn` drives the run to its
//! next wait and asks for the next turn when a timer is due. A turn that is lost with its worker, or given twice, does
//! no harm: the journal lets one driver have the run, and whoever comes next continues where it was left.
//!
//! Runs come to Restate from the workers, who look at the journal as workers without Restate do ([`Offers`]), so that
//! whatever makes a run or sends it something needs to know nothing of Restate.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

mod admin;
mod contact;
mod object;
mod offers;
#[cfg(feature = "scratch")]
pub mod scratch;
mod serve;
mod worker;

pub use offers::Offers;
pub use url::Url;
pub use worker::{RestateError, RestateOptions, RestateWorker};
