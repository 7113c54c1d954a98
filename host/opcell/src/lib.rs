//! Opcell as a library: agent workflows whose operations and judges are sandboxed WebAssembly components.
//!
//! ```
//! use futures_util::StreamExt as _;
//! use opcell::{Host, Value, Workflow};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // A host has no plugins and grants nothing until it is told to: `.config(Config::load("opcell.toml")?)` takes both from a project.
//! let host = Host::builder().build().await?;
//!
//! // A document in any of the three languages; its name tells which.
//! let workflow = Workflow::compile(
//!     "greet.edn",
//!     r#"{:name "greet" :description "Says who is there"
//!         :steps [{:name "greet" :type :exit :status :success :output {:from :workflow-input :path [:name]}}]}"#,
//! )?;
//!
//! let run = host.start(&workflow, Value::object([("name", Value::from("Ada"))])).await?;
//! let mut events = run.events().await?;
//! while let Some(recorded) = events.next().await {
//!     println!("{} {}", recorded.seq, recorded.event.kind());
//! }
//! let outcome = run.outcome().await?;
//! assert_eq!(outcome.result, Value::from("Ada"));
//! # Ok(())
//! # }
//! ```
//!
//! `examples/embed.rs` adds a plugin with a grant, cancels, and reads receipts.
//!
//! **Owns** the project file, what plugins are granted, the host's own tools, and the wiring of the other crates: documents are
//! compiled by `opcell_workflow`, runs driven by `opcell_engine`, cells run by `opcell_sandbox`. The `opcell` command is a thin layer
//! over this crate.
//!
//! **Must not know** how a cell is limited, what a step means, or how a prompt is assembled.
//!
//! **In**: a project file ([`config`]), documents ([`document`]), the input of a run. **Out**: events, an outcome, receipts ([`run`]),
//! and findings that point into what was read ([`report`]).

pub mod config;
pub mod report;

pub mod document;
pub mod library;
pub mod store;

pub mod catalog;
pub use opcell_tools::http;
pub mod services;
mod sessions;
mod tools;

pub mod host;
mod names;
mod pins;
pub mod prompts;
pub mod run;

pub use config::Config;
pub use host::{Host, HostBuilder, HostError};
pub use opcell_engine::{RunOutcome, Status, event::Recorded};
pub use opcell_types::Value;
pub use report::Rejected;
pub use run::{Run, Workflow};
