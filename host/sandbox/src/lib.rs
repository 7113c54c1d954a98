//! Cells for untrusted WebAssembly: one fresh, metered, capability-scoped component instance per call.
//!
//! **Owns** everything between a component's bytes and a call's result: reading a plugin's surface and manifest,
//! compiling it in a child process, the cache of native code, engines and pools, limits, grants, the host's side of
//! `opcell:plugin`, closed WASI, cells and their receipts. It is the only crate that knows wasmtime.
//!
//! **Must not know** workflows, runs, models, configuration files or the command line.
//!
//! **In**: a component ([`LoadRequest`]) with what the operator grants it, then calls ([`CellRequest`]) with JSON text.
//! **Out**: a [`Plugin`] that describes what it offers, then for every call a [`CellResult`]: the result or one of a
//! closed set of errors, and always the receipt. While a cell runs, it asks the embedder's [`HostServices`] for what
//! its grants allow, and for nothing else.
//!
//! The modules, in the order in which a plugin passes through them: [`sandbox`] loads it over [`pools`], which read and
//! place it, [`inspect`] and [`manifest`] look at it, [`compile`] makes native code and [`cache`] keeps it, `engine` runs it,
//! [`describe`] checks what it says, [`plugin`] takes calls, `cell` runs them through `exports` within [`limits`] and
//! `budget` as `schedule` admits and interrupts them, `checks` holds what comes from it against its schemas,
//! `imports` and `wasi` serve them as [`grants`] allow, `programs` keeps what runtimes made of source texts, [`receipt`] and [`error`] say how they ended. [`bare`] is the
//! engine alone, which cells are measured against.

#![warn(missing_debug_implementations)]
#![allow(clippy::result_large_err, reason = "a refusal carries its remedy, and no hot path returns one")]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod pools;
pub mod sandbox;

pub mod inspect;
pub mod manifest;

pub mod cache;
pub mod compile;
mod engine;

mod checks;
pub mod describe;
pub mod plugin;

pub mod context;

mod cell;
mod exports;
mod image;
mod programs;
mod schedule;
mod state;
mod trap;
mod typed;

mod budget;
mod descriptors;
pub mod grants;
pub mod limits;
mod memory;

mod bindings;
pub mod host;
mod imports;
pub mod store;
mod wasi;

pub mod error;
pub mod receipt;
pub mod recording;

pub mod bare;

pub use budget::HostCalls;
pub use compile::{CompileLimits, CompileMode, CompileProgram};
pub use context::{ContextRequest, PluginContext};
pub use describe::{JudgeDescription, OperationDescription};
pub use engine::{Allocation, Metering, PoolUse};
pub use error::{CellError, Exhausted, LoadError, SandboxError};
pub use grants::{ANY_TOOL, DangerousPreopen, FilesGrant, Grants, Narrowing, StoreGrant};
pub use host::{HostServices, LogEvent, NoServices, SkillDescription};
pub use limits::{LimitRequest, Limits};
pub use manifest::Manifest;
pub use opcell_types::{Access, CallContext, Denial, Effects, Failure, Outcome, Remedy, ToolDescription, Verdict};
pub use plugin::{CellRequest, OperationSuccess, Plugin};
pub use pools::{Pools, PoolsConfig};
pub use receipt::{CellResult, Receipt};
pub use recording::{HostCall, NotRecorded, Recording, Tape};
pub use sandbox::{LoadRequest, PartConfig, PluginSource, Sandbox, SandboxConfig, Settings};
pub use schedule::{fair::HandOvers, levels::MAX_NESTING};
pub use typed::Exports;

/// Ways into the crate that only fuzz targets have.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    /// Converts a cell's result to a value, when the schema is valid and the result fits it.
    pub async fn result(schema: &str, result: &str) -> Option<opcell_types::Value> {
        let (_, schema) = opcell_schema::Schema::parse(schema).ok()?;
        crate::checks::parse(
            &crate::schedule::fair::Share::new(),
            &std::sync::Arc::new(schema),
            result.into(),
            64 << 20,
        )
        .await
        .ok()
    }
}
