//! Opcell as a library: agent workflows whose operations and judges are sandboxed WebAssembly components.
//!
//! ```
//! use opcell::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // First of all: in a child that was started to compile a plugin, this compiles it and ends.
//! opcell::prepare();
//! opcell::runtime()?.block_on(async {
//!     // A host has no plugins and grants nothing by default; `.config(Config::load(…)?)` takes both from a project file.
//!     let host = Host::builder().build().await?;
//!
//!     // A document in any of the three languages; the file name extension says which.
//!     let workflow = Workflow::compile(
//!         "greet.edn",
//!         r#"{:name "greet" :description "Greets the caller"
//!             :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#,
//!     )?;
//!
//!     let run = host.start(&workflow, Value::object([("name", Value::from("Ada"))])).await?;
//!     let mut events = run.events().await?;
//!     while let Some(recorded) = events.next().await {
//!         println!("{} {}", recorded.seq, recorded.event.kind());
//!     }
//!     let end = run.outcome().await?.ended()?;
//!     assert_eq!(end.result, Value::from("Ada"));
//!     Ok(())
//! })
//! # }
//! ```
//!
//! `examples/embed.rs` adds a plugin with a grant, and reads receipts.
//!
//! **Runtime.** Everything async here needs a multi-threaded tokio runtime with time and I/O enabled. Hostile plugins
//! are a reason to use [`runtime`]: a guest may sit in one long instruction, and that runtime has threads to spare.
//!
//! **Features.** Without any, the crate runs workflows and cells. `models` reaches model providers over HTTP, `http`
//! performs `http.fetch`, `mcp` calls tools of MCP servers, `sqlite` keeps runs in a file. All of them are on by
//! default; `postgres`, which keeps runs on a server, is not.
//!
//! **Dropping a future** early, in a `select!` or by a time limit, is safe everywhere:
//!
//! | future | when it is dropped |
//! | --- | --- |
//! | [`HostBuilder::build`] | there is no host; what was compiled stays in the cache |
//! | [`Host::start`], [`Host::start_with`], [`Host::resume`] | the run may be in the journal without a driver: [`Host::resume`] continues with it |
//! | [`Run::events`], [`Run::outcome`], the next event | nothing is lost, and the run continues |
//! | [`Host::invoke`] | the cell stops, and its receipt is lost: [`Invocation::timeout`] and [`Invocation::cancel`] keep it |
//! | [`Host::close`] | nothing begins any more; what is in flight continues, and a second call waits for it again |
//!
//! **Owns** the project file, what plugins are granted, the host's own tools, and the wiring of the other crates:
//! documents are compiled by `opcell_workflow`, runs driven by `opcell_engine`, cells run by `opcell_sandbox`. The
//! `opcell` command is a thin layer over this crate.
//!
//! **Must not know** how a cell is limited, what a step means, or how a prompt is assembled.
//!
//! **In**: a project file ([`config`]), documents ([`document`]), the input of a run. **Out**: events, an outcome,
//! receipts ([`run`]), and findings that point into what was read ([`report`]).

#![warn(missing_debug_implementations)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod builtin;
pub mod config;
pub mod reach;
pub mod remedy;
pub mod report;

pub mod consent;
pub mod differences;
pub mod document;
pub mod journals;
pub mod library;
pub mod source;

pub mod catalog;
mod inner_calls;
mod programs;
pub use opcell_tools::http;
pub mod places;
pub mod services;
mod sessions;
pub mod stores;

pub mod standing;
mod tools;
pub use opcell_types::trace;
pub mod triggers;

mod embedded;
pub mod gateway;
pub mod governance;
pub mod host;
#[doc(hidden)]
pub mod lineage;
pub mod live;
mod names;
mod pins;
pub mod prompts;
pub mod published;
pub mod replay;
mod required_inputs;
pub mod run;
mod similar;
mod tenants;
mod tool_fn;
mod versions;
mod written;

pub use async_trait::async_trait;
pub use config::{ComponentStore, Config, Grant, JournalSettings, PluginConfig, StoreFailure};
pub use futures_util::{Stream, StreamExt};
pub use host::{
    CallError, CallOutput, Duplicate, Host, HostBuilder, HostError, Invocation, JournalSink, NewPermissions,
    PluginError, ProgramLanguage, SharedPools, SharedPoolsBuilder, StartError, UnusablePlugins, runtime,
};
pub use live::{Comparison, Exchange, LiveHost};
pub use opcell_engine::{
    Decision, Delivery, Engine, ResumeOptions, RunError, RunOptions, RunOutcome, RunUpdate, Sender, Status,
    conversation::{Message, Messages, ToolCallRequest, Usage},
    event::{Answer, EffectId, Event, Recorded, Timestamp},
    outcome::Question,
    ports::{AnswerPiece, Effects, ModelReply, ModelRound, Reply, RunText, Success, TextSink, Timer},
    receipt::{CallReceipt, Provider, Receipt},
    tool::{Caller, ModelCaller, Tool, ToolInput},
};
pub use opcell_ir::{Diagnostic, Severity, SourceFile, WorkflowIr, ir::CapabilityNarrowing};
pub use opcell_journal::{Journal, JournalError, MemoryJournal};
pub use opcell_sandbox::{
    Allocation, CellError, CompileLimits, CompileMode, CompileProgram, FilesGrant, Grants, HostServices, LimitRequest,
    LoadError, LogEvent, Metering, Plugin, PoolUse, Receipt as CellReceipt, SandboxError, Settings, StoreGrant,
    compile::prepare,
};
pub use opcell_session::models::Model;
pub use opcell_types::{
    Access, CallContext, CallProgress, Capability, Denial, Digest, Failure, FailureKind, Fault, FollowUp, NewRunId,
    OperationId, Remedy, Source, ToolDescription, TouchLog, Touched, Value,
};
pub use report::Rejected;
pub use run::{NotEnded, Outcome, ResumedRun, Run, RunRef, TypedReceipt, Workflow};
pub use services::{LogSink, RoundFigures};
pub use tenants::Tenant;
pub use tokio_util::sync::CancellationToken;
#[cfg(feature = "schemars")]
pub use tool_fn::tool_fn;
pub use tool_fn::{ToolFn, tool_fn_with_schema};
pub use tools::{ChangedTool, ConfinementReport, ServerEntry, ServerOffer, ServerTool, ToolEntry, confinement};

#[doc(hidden)]
pub use serde_json as __serde_json;

/// Makes a [`Value`] of JSON as it is written, with expressions in it.
///
/// ```
/// let name = "Ada";
/// let value = opcell::json!({"name": name, "tags": ["a", "b"], "age": 36, "more": null});
/// assert_eq!(value.get("name"), Some(&opcell::Value::from("Ada")));
/// ```
#[macro_export]
macro_rules! json {
    ($($json:tt)+) => {
        $crate::Value::from($crate::__serde_json::json!($($json)+))
    };
}

/// The crates beneath this one, for types that signatures here name and few programs do: the parts of an event, of a
/// document, of a journal of one's own. A program that embeds Opcell depends on `opcell` alone.
///
/// ```
/// use opcell::layers::{engine::event::RunStarted, ir::ir::Step, journal::NewRun};
/// # fn _named(_: &RunStarted, _: &NewRun, _: &Step) {}
/// ```
pub mod layers {
    pub use opcell_engine as engine;
    pub use opcell_ir as ir;
    pub use opcell_journal as journal;
    pub use opcell_registry as registry;
    pub use opcell_sandbox as sandbox;
    pub use opcell_schema as schema;
    pub use opcell_session as session;
    pub use opcell_tools as tools;
    pub use opcell_types as types;
    pub use opcell_workers as workers;
    pub use opcell_workflow as workflow;
}

/// The names that most programs which embed Opcell use.
pub mod prelude {
    pub use crate::{
        CallContext, CallError, CallOutput, CancellationToken, CompileMode, Config, Decision, Denial, Effects, Event,
        Failure, FailureKind, Grant, Host, HostError, LimitRequest, LoadError, Metering, Model, ModelReply, ModelRound,
        NewPermissions, Outcome, PluginConfig, Question, Recorded, Rejected, Remedy, Run, RunError, RunOptions,
        RunOutcome, RunText, RunUpdate, Status, StreamExt, TextSink, Tool, ToolDescription, ToolInput, Value, Workflow,
        async_trait,
    };
}
