//! From a folder of source to a plugin, in four languages.
//!
//! Owns: `plugin.toml`, the templates of new plugins, finding each language's tool chain, and making a component that
//! carries its manifest, and its bill of materials ([`sbom`]). What it starts are the author's own tools, with the
//! author's rights, in the author's folder.
//!
//! Must not know: the sandbox, grants, or the command line.
//!
//! **In**: a folder with `plugin.toml` ([`project`]), or a name and a [`Language`] ([`template`]).
//! **Out**: a component ([`build`](build()) gives its path), or an error that says which tool is missing and how to get
//! it.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test makes what it looks at"))]

mod error;
mod language;

pub mod project;
pub mod template;

pub mod toolchain;

pub mod component;

mod inputs;

mod process;

mod source_map;

pub mod sbom;

pub mod schemas;

mod build;

pub use build::{Built, Profile, build, componentize, tools_of_folder};
pub use error::AuthorError;
pub use inputs::sources;
pub use language::Language;
pub use project::Project;
