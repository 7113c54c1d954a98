//! The contract of `wit/` in Rust. Everything else in the crate is written against this.
//!
//! The three files are generated, so that a plugin's build need not generate them: it would take several times as long.
//! `tests/bindings.rs` keeps them equal to what `wit/` says, and rewrites them when asked to.

#![allow(missing_docs, clippy::all, clippy::restriction, unsafe_op_in_unsafe_fn, reason = "generated code")]

/// The interfaces that the host offers.
pub mod imports {
    include!("bindings/imports.rs");
}

/// The exports of a plugin with operations.
pub mod operations {
    include!("bindings/operations.rs");
}

/// The exports of a plugin with judges.
pub mod judges {
    include!("bindings/judges.rs");
}
