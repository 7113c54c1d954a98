//! The errors between source and component.

use std::{io, path::PathBuf};

/// Why a plugin cannot be made or built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AuthorError {
    /// `plugin.toml` is not what it should be.
    #[error("{}:{line}:{column}: {message}", path.display())]
    Project {
        /// The file.
        path: PathBuf,
        /// Line in the file, from 1.
        line: usize,
        /// Column in the line, from 1.
        column: usize,
        /// The finding: what it was, what was expected, and how to fix it.
        message: String,
    },
    /// There is no `plugin.toml`.
    #[error("there is no plugin.toml in {}", .0.display())]
    NoProject(PathBuf),
    /// A tool is missing.
    #[error("{language} plugins are built with {tool}, which is not installed")]
    MissingTool {
        /// The language's name.
        language: &'static str,
        /// The missing program.
        tool: &'static str,
        /// The command that installs it.
        install: String,
    },
    /// A tool ran and failed; it has said why itself.
    #[error("`{command}` failed ({status})")]
    ToolFailed {
        /// The command.
        command: String,
        /// The status that it ended with.
        status: String,
    },
    /// The output of the tool chain is not a component, and cannot be made one.
    #[error("{} cannot be made a component: {message}", path.display())]
    Component {
        /// The file.
        path: PathBuf,
        /// The error of the system or the parser.
        message: String,
    },
    /// The manifest in the source and `plugin.toml` differ.
    #[error(
        "plugin.toml and the source disagree about {what}: plugin.toml says {file}, the source says {source_says}; {remedy}"
    )]
    Disagreement {
        /// The field that differs.
        what: &'static str,
        /// As JSON or TOML.
        file: String,
        /// In the same notation.
        source_says: String,
        /// The way to make them agree.
        remedy: &'static str,
    },
    /// The folder of a new plugin exists.
    #[error("{} exists; choose another name, or remove it first", .0.display())]
    Exists(PathBuf),
    /// The name cannot name a plugin.
    #[error("`{0}` is not a valid plugin name: expected a to z, 0 to 9 and `-`, beginning with a letter, at most 64")]
    Name(String),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: io::Error,
    },
}

impl AuthorError {
    /// Makes the error of a file or folder of what the system says.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |error| Self::File { path, error }
    }
}
