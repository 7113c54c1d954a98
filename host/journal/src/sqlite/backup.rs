//! Whole copies of a store, and putting one in a store's place.

use super::{
    schema::{self, SCHEMA},
    storage,
};
use crate::{connection, journal::JournalError, owner::Owner};
use opcell_types::files::Readers;
use rusqlite::{Connection, OpenFlags};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
};

/// Why a store was not copied or restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The copy is not written over what is there.
    #[error("{} already exists; nothing was written", .0.display())]
    Exists(PathBuf),
    /// A store that others have open is not replaced.
    #[error("another process has {} open; stop its workers and servers first", .0.display())]
    InUse(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {source}", .path.display())]
    File {
        /// Its path.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// A store is not sound, or its storage failed.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

fn of_file(path: &Path) -> impl Fn(io::Error) -> BackupError + '_ {
    |source| match source.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists(path.to_owned()),
        _ => BackupError::File { path: path.to_owned(), source },
    }
}

/// Copies a store whole while others may use it: what is in its write-ahead log as well, and nothing of a transaction
/// that has not ended. Gives the number of runs in the copy. Blocks.
///
/// # Errors
/// When the store is not sound, the copy is there already, or it cannot be written.
pub fn backup(store: &Path, copy: &Path) -> Result<u64, BackupError> {
    let source = read_only(store)?;
    make_new(copy)?;
    let copied = copied(&source, copy);
    if copied.is_err() {
        let _ = fs::remove_file(copy);
    }
    copied
}

/// Puts a copy in the place of a store, or makes a store of it. The copy stays as it is. Gives the number of its runs.
/// Blocks.
///
/// # Errors
/// When the copy is not sound; when there is a store and it is not to be replaced, or others have it open.
pub fn restore(copy: &Path, store: &Path, replace: bool) -> Result<u64, BackupError> {
    let source = read_only(alone(copy)?)?;
    if store.exists() && !replace {
        return Err(BackupError::Exists(store.to_owned()));
    }
    let owner = Owner::new(store).map_err(of_file(store))?;
    if owner.has_others().map_err(of_file(store))? {
        return Err(BackupError::InUse(store.to_owned()));
    }
    let fresh = beside(store, ".restored");
    make_new(&fresh)?;
    let placed = copied(&source, &fresh).and_then(|runs| {
        // Also brings an older schema up to date.
        drop(schema::open(&fresh)?);
        put(&fresh, store)?;
        Ok(runs)
    });
    if placed.is_err() {
        let _ = fs::remove_file(&fresh);
    }
    placed
}

/// A copy is one file. A log beside it would be applied to it, and what was copied, or compared with a digest, would
/// not be what is restored.
fn alone(copy: &Path) -> Result<&Path, BackupError> {
    let log = beside(copy, "-wal");
    match fs::symlink_metadata(&log) {
        Ok(found) if !found.is_file() || found.len() > 0 => {
            let text = "a copy has no log: move it away, or copy the journal with `backup` where it is used";
            Err(of_file(&log)(io::Error::new(io::ErrorKind::InvalidInput, text)))
        }
        _ => Ok(copy),
    }
}

fn read_only(path: &Path) -> Result<Connection, BackupError> {
    // A pipe would be waited for.
    if !fs::metadata(path).map_err(of_file(path))?.is_file() {
        return Err(of_file(path)(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    // The library's own message does not name the file.
    File::open(path).map_err(of_file(path))?;
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(storage)?;
    connection::wait_for_others(&connection).map_err(storage)?;
    connection.execute_batch("PRAGMA trusted_schema = OFF").map_err(schema::sound(path))?;
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(schema::sound(path))?;
    if found == 0 {
        return Err(JournalError::Schema { path: path.display().to_string(), found, supported: SCHEMA }.into());
    }
    schema::check(&connection, path)?;
    Ok(connection)
}

/// An empty file of this user alone, which the copy then fills.
fn make_new(path: &Path) -> Result<(), BackupError> {
    opcell_types::files::create(path, Readers::Owner).map(drop).map_err(of_file(path))
}

fn copied(source: &Connection, copy: &Path) -> Result<u64, BackupError> {
    let Some(name) = copy.to_str() else {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "the path is not UTF-8");
        return Err(of_file(copy)(error));
    };
    source.execute("VACUUM INTO ?1", [name]).map_err(storage)?;
    File::open(copy).and_then(|file| file.sync_all()).map_err(of_file(copy))?;
    let copied = read_only(copy)?;
    let runs: i64 = copied.query_row("SELECT count(*) FROM runs", [], |row| row.get(0)).map_err(storage)?;
    Ok(runs.max(0).cast_unsigned())
}

/// The former store's write-ahead log goes first: over another store it would put records of this one.
#[expect(clippy::disallowed_methods, reason = "a rename follows no link, and the store is where it is")]
fn put(fresh: &Path, store: &Path) -> Result<(), BackupError> {
    for of in [fresh, store] {
        for ending in ["-wal", "-shm"] {
            let log = beside(of, ending);
            match fs::remove_file(&log) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(of_file(&log)(error)),
                _ => {}
            }
        }
    }
    fs::rename(fresh, store).map_err(of_file(store))?;
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(of_file(folder))
}

fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}
