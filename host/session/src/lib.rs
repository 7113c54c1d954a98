//! Model conversations: prompts, models, and the tools that a model may call.
//!
//! **Owns** prompt assembly, skills, models (a scripted one among them) and host tools.
//!
//! **Must not know** runs, journals, WebAssembly, configuration files or the command line. Plugins reach it only as
//! injected tools.
//!
//! **In**: what an operator configures, through [`HostSessions::builder`]; then, from the engine, what a step declares,
//! single model rounds and single tool calls. **Out**: [`HostSessions`], the engine's `Sessions`: opened sessions with
//! their prompt in named sections, answers, results with receipts. Secrets are read when a request is sent and appear
//! in nothing that goes out.
//!
//! The modules, in the order in which a session passes through them: [`context`] and [`skills`] find what there is to
//! know, [`prompt`] makes it text, [`models`] answers, [`tools`] does what the answer asks for, [`code`] does it by
//! programs, [`sessions`] puts them together.

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

mod confined;
#[cfg(test)]
mod testing;

pub mod context;
pub mod skills;

pub mod prompt;

pub mod models;

pub mod tools;

pub mod code;
mod compaction;

pub mod sessions;

pub use sessions::HostSessions;
