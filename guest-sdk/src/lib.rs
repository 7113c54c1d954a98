//! Write an Opcell operation or judge as a Rust function.
//!
//! ```
//! use opcell_sdk::{Failure, operation, plugin};
//!
//! /// Counts the words of a text.
//! #[operation("text/count-words", effects = pure)]
//! fn count_words(text: String, at_most: Option<usize>) -> Result<usize, Failure> {
//!     let words = text.split_whitespace().count();
//!     match at_most {
//!         Some(limit) if words > limit => Err(Failure::new("too-long", format!("{words} words, {limit} allowed"))),
//!         _ => Ok(words),
//!     }
//! }
//!
//! plugin! { operations: [count_words] }
//! # fn main() { assert_eq!(count_words("one two".to_owned(), None).unwrap(), 2); }
//! ```
//!
//! A plugin is a `Cargo.toml` with `crate-type = ["cdylib"]` and one file like that. Compiled for
//! `wasm32-unknown-unknown` it exports the interfaces of `opcell:plugin` that it offers, imports those that it uses,
//! and nothing of WASI. Compiled natively it is an ordinary library: `cargo test` runs its tests, with the host played
//! by [`testing`].
//!
//! Arguments and data are serde types, and their JSON Schemas are derived with schemars. What the host offers is in
//! [`tools`], [`skills`], [`files`], [`store`] and [`log`](mod@log); each is granted by the operator, and a refusal is
//! a [`Denial`]: data, never a trap.
//!
//! # Memory
//!
//! The feature `allocator`, on by default, makes a plugin's global allocator one that serves small calls from the
//! memory that the module starts with, so that a cell need not grow it. A plugin that brings a `#[global_allocator]` of
//! its own turns it off with `default-features = false`; the standard allocator works as well, and costs a few
//! microseconds per cell.
//!
//! This crate owns the guest's half of the contract in `wit/`. It knows nothing of how a host grants, limits or
//! schedules. Data enters as JSON text through [`plugin!`]'s exports, and leaves as a [`Success`], a [`Verdict`] or a
//! [`Failure`].

// The macros name this crate by its published name, also in its own tests.
extern crate self as opcell_sdk;

#[doc(hidden)]
pub mod bindings;
#[doc(hidden)]
pub mod plugin;

#[cfg(any(all(target_arch = "wasm32", feature = "allocator"), test))]
mod allocator;
mod host;
mod reply;

pub mod files;
pub mod log;
pub mod skills;
pub mod store;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
pub mod tools;

pub use bindings::imports::opcell::plugin0_1_0::types::{Context, Denial, Effects};
pub use bindings::judges::exports::opcell::plugin0_1_0::judges::Outcome;
pub use opcell_sdk_macros::{judge, operation, plugin};
pub use plugin::{Judge, Operation};
pub use reply::{Failure, IntoReply, Success, Verdict};

pub use schemars;
pub use serde;
pub use serde_json;

/// The result of most operations.
pub type Result<T, E = Failure> = core::result::Result<T, E>;
