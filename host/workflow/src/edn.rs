//! A spanned EDN reader.
//!
//! Owns: turning text into [`Node`]s that know their byte range, and saying where and why it cannot. Accepts exactly
//! what Clojure's `edn/read-string` accepts, with three differences, each on the safe side: surrogate escapes must pair
//! up, nesting is limited to [`MAX_DEPTH`] and text to [`MAX_BYTES`]. Metadata (`^:a x`) is read and dropped;
//! [`Reading::metadata`] says where.
//!
//! Must not know: workflows. Unknown tags are kept ([`Kind::Tagged`]) and listed in [`Reading::tags`]; what they mean
//! is the caller's business.

mod error;
mod node;
mod print;
mod reader;
mod token;

pub use error::{Problem, ReadError};
pub use node::{Kind, Name, Node};
pub use reader::{MAX_BYTES, MAX_DEPTH, Reading, read, read_range};

#[cfg(test)]
mod tests;
