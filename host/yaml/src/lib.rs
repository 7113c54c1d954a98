//! YAML, for whatever reads files that people wrote: a tree with a span for every key and value, and the front matter
//! of Markdown files.
//!
//! Owns: the reading of YAML 1.2 with its limits, and the lenient reading of front matter. Text comes in; [`Node`]s and
//! [`front_matter::FrontMatter`] go out. Must not know: what a key means.

pub mod front_matter;
mod tree;

pub use tree::{Entry, Node, NodeKind, YamlError, parse};
