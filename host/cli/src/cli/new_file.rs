//! Files that a command creates: one that exists is never overwritten.

use super::{Exit, Failure, Terminal};
use opcell::report::Rejected;
use opcell_ir::Diagnostic;
use opcell_types::files::{self, Readers};
use serde_json::json;
use std::{
    io::{ErrorKind, Write as _},
    path::Path,
};

pub(super) fn unwritable(path: &Path, error: &std::io::Error) -> Rejected {
    Diagnostic::error("unwritable", format!("cannot write `{}`: {error}", path.display())).into()
}

/// Why a file that must be new was not made.
pub(super) fn not_created(path: &Path, error: &std::io::Error) -> Rejected {
    match error.kind() {
        ErrorKind::AlreadyExists => {
            Diagnostic::error("already-exists", format!("`{}` already exists; it was not changed", path.display()))
                .into()
        }
        _ => unwritable(path, error),
    }
}

pub(super) fn create(path: &Path, content: &[u8]) -> Result<(), Rejected> {
    let mut file = files::create(path, Readers::Shared).map_err(|error| not_created(path, &error))?;
    file.write_all(content).map_err(|error| unwritable(path, &error))
}

/// Reports a file that was written, and what to do next.
pub(super) fn written(path: &Path, next: &str, terminal: &Terminal) -> Result<Exit, Failure> {
    if terminal.json {
        terminal.json(&json!({"written": path.display().to_string()}))?;
    } else {
        terminal.line(&path.display().to_string())?;
        terminal.note(&format!("next: {next}"));
    }
    Ok(Exit::Done)
}
