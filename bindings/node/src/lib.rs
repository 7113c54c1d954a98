//! The native module of the npm package `opcell`.
//!
//! The package's public classes are JavaScript (`../lib`): names, promises, errors, the schemas of tools. This crate
//! has what they stand on: one runtime for the process, and a connection to each thread of JavaScript on which results
//! are reported ([`connection`]); values ([`value`]); errors ([`error`]); the host and its calls ([`host`]); runs
//! ([`run`]); tools and models that are JavaScript functions ([`tool`], [`model`]).
//!
//! **Must not know** how a call is performed or what a step means: it translates, and `opcell` does the rest.
//!
//! Every failure reaches JavaScript as an error or as data. No JavaScript runs on a thread of the runtime, and no thread
//! of JavaScript waits: an operation is begun under a number, and its result is reported under the same number.

#![cfg_attr(test, allow(dead_code, reason = "nothing is registered without Node.js, and there are no tests"))]

mod connection;
mod error;
mod host;
mod model;
mod run;
mod tool;
mod value;

/// The version of the package that this module belongs to.
#[napi_derive::napi]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}
