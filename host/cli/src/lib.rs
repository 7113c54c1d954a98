//! The command `opcell`: the command line, drawings of workflows, the cases of plugins.
//!
//! **Owns** arguments, terminals, exit codes ([`cli`]); Mermaid, DOT and SVG ([`graph`]); cases of a plugin's author
//! ([`cases`]). The hostile guests ([`selftest`]) and the measurements ([`mod@bench`]) are crates of their own.
//!
//! **Must not** decide anything that an embedder needs: that belongs to the library `opcell`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod cases;
pub mod cli;
pub mod graph;

pub use opcell_bench as bench;
pub use opcell_selftest as selftest;
