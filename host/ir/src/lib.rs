//! The execution model that every workflow document compiles to, apart from the languages that documents are written
//! in.
//!
//! Owns: the `workflow-ir/v1` model, its expressions, templates, references and transforms, its validation and static
//! checks, the routing rules, and the diagnostics that point into a source file. Data passes through [`source`],
//! [`ir`], [`validate`] and [`checks`] when a document is compiled, and through [`resolve`], [`transform`] and
//! [`routing`] when it runs.
//!
//! Must not know: languages and their readers, threads, clocks, files, networks, async, WebAssembly. Nothing here
//! recurses on untrusted depth.

#![warn(missing_debug_implementations)]

pub mod agent;
pub mod arguments;
pub mod checks;
pub mod compiled;
pub mod diagnostic;
pub mod expr;
pub mod handoff;
pub mod interpolate;
pub mod ir;
pub mod js;
pub mod names;
pub mod predicate;
pub mod print;
pub mod reference;
pub mod resolve;
pub mod routing;
pub mod source;
pub mod state_tools;
pub mod template;
pub mod transform;
pub mod validate;

pub use compiled::Compiled;
pub use diagnostic::{Diagnostic, Severity};
pub use ir::WorkflowIr;
pub use source::{SourceFile, Span};
