//! Stores that a version before 0.2 kept under a name that several journals of a folder had in common.

use crate::stores::{file_beside, former_file_beside};
use opcell_sandbox::store::StoreError;
use rusqlite::Connection;
use std::{
    fs,
    io::Read as _,
    path::{Path, PathBuf},
};

/// The first bytes of an SQLite file.
const HEADER: &[u8; 16] = b"SQLite format 3\0";

/// Entries of the journal's folder that are looked at.
const MAX_ENTRIES: usize = 10_000;

/// The file of a journal's stores. One of the former name gets its own name, once it is certain whose it is and no
/// other process has it open; until then it is used where it is.
pub(super) fn file_of(journal: &Path) -> Result<PathBuf, StoreError> {
    let (file, former) = (file_beside(journal), former_file_beside(journal));
    if file.exists() || !former.exists() || former == file {
        return Ok(file);
    }
    if let Some(other) = other_journal(journal, &former) {
        // A plugin of one project would read what one of the other has kept.
        return Err(StoreError::Failed(format!(
            "the stores of {} and {} were kept in one file, {}: rename it to {} if its entries are this project's, or move it away",
            name(journal),
            name(&other),
            name(&former),
            name(&file),
        )));
    }
    if is_unused(&former) && rustix::fs::rename(&former, &file).is_ok() {
        return Ok(file);
    }
    Ok(former)
}

fn name(path: &Path) -> std::borrow::Cow<'_, str> {
    path.file_name().unwrap_or_default().to_string_lossy()
}

/// Another file that is a database and had its stores in the same file.
fn other_journal(journal: &Path, former: &Path) -> Option<PathBuf> {
    let folder = journal.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let entries = fs::read_dir(folder).ok()?.take(MAX_ENTRIES).filter_map(Result::ok);
    let names = entries.map(|entry| journal.with_file_name(entry.file_name()));
    let mut sharing = names.filter(|path| path != journal && former_file_beside(path) == former);
    sharing.find(|path| is_database(path))
}

fn is_database(path: &Path) -> bool {
    let mut header = [0; HEADER.len()];
    let is_file = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() || found.is_symlink());
    // A pipe would be waited for.
    let is_file = is_file && fs::metadata(path).is_ok_and(|found| found.is_file());
    is_file && fs::File::open(path).and_then(|mut file| file.read_exact(&mut header)).is_ok() && header == *HEADER
}

/// Returns `true` if no other process has the file open: its log is then part of it, and it can be renamed.
fn is_unused(path: &Path) -> bool {
    let mode = |connection: &Connection| {
        connection.query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0))
    };
    let Ok(connection) = Connection::open(path) else { return false };
    connection.execute_batch("PRAGMA trusted_schema = OFF").is_ok()
        && mode(&connection).is_ok_and(|mode| mode == "delete")
}
