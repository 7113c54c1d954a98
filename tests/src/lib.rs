//! The tests that prove Opcell's claims: conformance, hostile, command-line and end-to-end tests.
//!
//! Owns: the runners of directory-driven cases (adding a case adds no Rust) and what tests share. The library and the
//! `conformance` command need no WebAssembly; the integration tests in `tests/` do.

pub mod conformance;
#[cfg(feature = "cells")]
pub mod crash;
#[cfg(feature = "cells")]
pub mod fleet;
pub mod journey;
pub mod simulation;
