//! The types that every part of Opcell shares: the ground floor of the house.
//!
//! Owns: [`value::Value`], the JSON value that flows through documents, runs, cells and journals; how calls fail
//! ([`Failure`]) and are refused ([`Denial`], with a [`denial::Remedy`] as data), and what they touched ([`Touched`]);
//! what judges decide, what repeating a call does, where a call is, what a tool says about itself; names, sizes and
//! durations that parse once; text made printable; suggestions for misspelt words.
//!
//! Must not know: any other crate of Opcell, commands and configuration files, threads, clocks, networks; of files,
//! only how one is read within bounds, and made where others may have put links ([`files`]).

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod control;
pub mod value;

pub mod files;
pub mod names;
pub mod quantity;
pub mod quota;
pub mod run_id;
pub mod suggest;
pub mod text;

pub mod context;
pub mod denial;
pub mod effects;
pub mod failure;
pub mod follow_up;
pub mod input;
pub mod outcome;
pub mod progress;
pub mod timeline;
pub mod tool;
pub mod touched;
pub mod trace;
pub mod workers;

pub use context::CallContext;
pub use denial::{Access, Capability, Denial, Remedy};
pub use effects::Effects;
pub use failure::{Failure, FailureKind, Fault, Source};
pub use follow_up::FollowUp;
pub use input::{GivenInput, InputAnswer, InputForm, InputRequest};
pub use names::{Digest, OperationId};
pub use outcome::{Outcome, Verdict};
pub use progress::{CallProgress, ProgressLog, ProgressSink};
pub use quantity::{ByteSize, Milliseconds};
pub use run_id::NewRunId;
pub use timeline::{ClockReadings, Timeline};
pub use tool::ToolDescription;
pub use touched::{TouchLog, Touched};
pub use value::Value;
