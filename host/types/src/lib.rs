//! The types that every part of Opcell shares: the ground floor of the house.
//!
//! Owns: [`value::Value`], the JSON value that flows through documents, runs, cells and journals.
//!
//! Must not know: any other crate of Opcell, threads, clocks, files, networks.

pub mod value;

pub use value::Value;
