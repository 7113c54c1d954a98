//! Workflow documents in three languages, compiled to one execution model.
//!
//! Owns: reading documents (psi EDN and Markdown, WorkflowSkill, PromptPack), the `workflow-ir/v1` model, validation,
//! expressions and templates, and the diagnostics that point into the author's file.
//!
//! Must not know: threads, clocks, files, networks, async, WebAssembly. Text comes in; [`ir::WorkflowIr`],
//! [`opcell_types::Value`]s and [`diagnostic::Diagnostic`]s go out. Nothing here recurses on untrusted depth.

pub mod agent;
pub mod arguments;
pub mod checks;
pub mod companions;
pub mod compiled;
pub mod diagnostic;
pub mod document;
pub mod edn;
pub mod expr;
pub mod front_matter;
pub mod handoff;
pub mod interpolate;
pub mod ir;
pub mod js;
pub mod json;
pub mod names;
pub mod predicate;
pub mod print;
pub mod promptpack;
pub mod psi;
pub mod reference;
pub mod resolve;
pub mod routing;
pub mod source;
pub mod state_tools;
pub mod template;
pub mod transform;
pub mod validate;
pub mod workflowskill;
pub mod yaml;

pub use compiled::Compiled;
pub use diagnostic::{Diagnostic, Severity};
pub use ir::WorkflowIr;
pub use source::{SourceFile, Span};
