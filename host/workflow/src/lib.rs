//! Workflow documents in three languages, compiled to the one execution model of `opcell-ir`.
//!
//! Owns: reading documents (psi EDN and Markdown, WorkflowSkill, PromptPack), compiling them, and the run log of
//! WorkflowSkill ([`workflowskill::run_log`]).
//!
//! Must not know: threads, clocks, files, networks, async, WebAssembly. Text comes in; [`opcell_ir::WorkflowIr`] and
//! [`opcell_ir::Diagnostic`]s go out. Nothing here recurses on untrusted depth.

#![warn(missing_debug_implementations)]

pub mod companions;
pub mod document;
pub mod edn;
pub mod json;
pub mod promptpack;
pub mod psi;
pub mod workflowskill;
