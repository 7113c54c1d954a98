//! The command `opcell` and what it measures and shows: the command line, benchmarks, the self-test against hostile
//! guests, drawings of workflows.
//!
//! **Owns** arguments, terminals, exit codes ([`cli`]); the hostile guests and how they are run ([`selftest`]); what
//! isolation costs ([`mod@bench`]); Mermaid, DOT and SVG ([`graph`]).
//!
//! **Must not** decide anything that an embedder needs: that belongs to the library `opcell`.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

pub mod bench;
pub mod cases;
pub mod cli;
pub mod graph;
pub mod selftest;
