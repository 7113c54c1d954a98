//! Files below granted roots. Paths are relative, `/`-separated, and never leave their root.
//!
//! ```no_run
//! use opcell_sdk::files::{self, EntryKind};
//! # fn main() -> Result<(), opcell_sdk::Failure> {
//! let workspace = files::open_root("workspace")?;
//! let readme = workspace.read_to_string("README.md")?;
//! for entry in workspace.walk() {
//!     let entry = entry?;
//!     println!("{} {}", entry.path, entry.size);
//! }
//! # Ok(()) }
//! ```

use crate::{Failure, host};
use std::fmt;

pub use crate::bindings::imports::opcell::plugin0_1_0::files::{Entry, EntryKind, FileError as FileErrorKind, Root};

/// Bytes that one host call reads: large enough to need few calls, small enough to keep the guest's memory small.
const CHUNK: u32 = 32 * 1024;

/// Why a path could not be used.
#[derive(Debug, Clone, PartialEq)]
pub struct FileError {
    /// The root's name and the path below it.
    pub path: String,
    /// The kind of the error.
    pub kind: FileErrorKind,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            FileErrorKind::Denied(denial) => denial.fmt(formatter),
            FileErrorKind::NotFound => write!(formatter, "{} does not exist", self.path),
            FileErrorKind::AlreadyExists => write!(formatter, "{} exists already", self.path),
            FileErrorKind::NotAFile => write!(formatter, "{} is not a file", self.path),
            FileErrorKind::NotADirectory => write!(formatter, "{} is not a directory", self.path),
            FileErrorKind::Quota(which) => write!(formatter, "{}: quota used up: {which}", self.path),
            FileErrorKind::Failed(message) => write!(formatter, "{}: {message}", self.path),
        }
    }
}

impl std::error::Error for FileError {}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        let reason = match error.kind {
            FileErrorKind::Denied(denial) => return denial.into(),
            FileErrorKind::NotFound => "file-not-found",
            FileErrorKind::AlreadyExists => "file-already-exists",
            FileErrorKind::NotAFile => "not-a-file",
            FileErrorKind::NotADirectory => "not-a-directory",
            FileErrorKind::Quota(_) => "file-quota",
            FileErrorKind::Failed(_) => "file-failed",
        };
        Self::new(reason, error.to_string())
    }
}

/// The granted roots.
#[must_use]
pub fn roots() -> Vec<Root> {
    host::files::roots()
}

/// Opens a granted root by name.
///
/// # Errors
/// When the root is not granted.
pub fn open_root(name: &str) -> Result<Directory, FileError> {
    match host::files::open_root(name) {
        Ok(handle) => Ok(Directory { handle, path: name.to_owned() }),
        Err(kind) => Err(FileError { path: name.to_owned(), kind }),
    }
}

/// A directory below a granted root. Every method takes a path relative to it.
pub struct Directory {
    handle: host::files::Directory,
    path: String,
}

impl fmt::Debug for Directory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Directory").field(&self.path).finish()
    }
}

// One place for the errors of all of them: whatever the host says about a path.
#[expect(clippy::missing_errors_doc, reason = "every method fails as the host says, with the path in the error")]
impl Directory {
    fn at<T>(&self, path: &str, result: Result<T, FileErrorKind>) -> Result<T, FileError> {
        result.map_err(|kind| FileError { path: join(&self.path, path), kind })
    }

    /// The entries of this directory, sorted by name.
    pub fn entries(&self) -> Result<Vec<Entry>, FileError> {
        self.at("", self.handle.entries())
    }

    /// Returns the entry that a path names.
    pub fn metadata(&self, path: &str) -> Result<Entry, FileError> {
        self.at(path, self.handle.metadata(path))
    }

    /// Opens a directory.
    pub fn open_directory(&self, path: &str) -> Result<Self, FileError> {
        let handle = self.at(path, self.handle.open_directory(path))?;
        Ok(Self { handle, path: join(&self.path, path) })
    }

    /// Opens an existing file for reading.
    pub fn open(&self, path: &str) -> Result<File, FileError> {
        let handle = self.at(path, self.handle.open(path))?;
        Ok(File { handle, path: join(&self.path, path), position: 0 })
    }

    /// Creates or truncates a file for writing; needs a read-write grant.
    pub fn create(&self, path: &str) -> Result<File, FileError> {
        let handle = self.at(path, self.handle.create(path))?;
        Ok(File { handle, path: join(&self.path, path), position: 0 })
    }

    /// Creates a directory; needs a read-write grant.
    pub fn create_directory(&self, path: &str) -> Result<(), FileError> {
        self.at(path, self.handle.create_directory(path))
    }

    /// Removes a file or an empty directory; needs a read-write grant.
    pub fn remove(&self, path: &str) -> Result<(), FileError> {
        self.at(path, self.handle.remove(path))
    }

    /// A whole file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, FileError> {
        self.open(path)?.read_up_to(u64::MAX)
    }

    /// A whole file of UTF-8 text.
    pub fn read_to_string(&self, path: &str) -> Result<String, FileError> {
        let bytes = self.read(path)?;
        self.at(path, String::from_utf8(bytes).map_err(|_| FileErrorKind::Failed("is not UTF-8 text".to_owned())))
    }

    /// Creates or replaces a file.
    pub fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        self.create(path)?.append(bytes)
    }

    /// Everything below this directory, depth first, siblings by name; a directory comes before what is in it.
    pub fn walk(&self) -> Walk<'_> {
        self.walk_where(|_| true)
    }

    /// As [`walk`](Self::walk), without the entries that `keep` refuses and what is below them.
    pub fn walk_where<'a>(&'a self, keep: impl FnMut(&WalkEntry) -> bool + 'a) -> Walk<'a> {
        Walk { root: self, levels: Vec::new(), started: false, keep: Box::new(keep) }
    }
}

/// An open file.
pub struct File {
    handle: host::files::File,
    path: String,
    position: u64,
}

impl fmt::Debug for File {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("File").field(&self.path).finish()
    }
}

#[expect(clippy::missing_errors_doc, reason = "every method fails as the host says, with the path in the error")]
impl File {
    fn here<T>(&self, result: Result<T, FileErrorKind>) -> Result<T, FileError> {
        result.map_err(|kind| FileError { path: self.path.clone(), kind })
    }

    /// Bytes in the file.
    pub fn size(&self) -> Result<u64, FileError> {
        self.here(self.handle.size())
    }

    /// At most `length` bytes from `offset`; fewer at the end, none past it.
    pub fn read_at(&self, offset: u64, length: u32) -> Result<Vec<u8>, FileError> {
        self.here(self.handle.read(offset, length))
    }

    /// The bytes from the current position on, at most `limit`.
    pub fn read_up_to(&mut self, limit: u64) -> Result<Vec<u8>, FileError> {
        let mut bytes = Vec::new();
        loop {
            let left = limit.saturating_sub(bytes.len() as u64);
            let wanted = CHUNK.min(u32::try_from(left).unwrap_or(u32::MAX));
            let chunk = self.read_at(self.position, wanted)?;
            self.position += chunk.len() as u64;
            bytes.extend_from_slice(&chunk);
            // Fewer than wanted means the end; asking once more would cost a host call for every file.
            if wanted == 0 || chunk.len() < wanted as usize {
                return Ok(bytes);
            }
        }
    }

    /// Appends to a file that [`Directory::create`] returned.
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        self.here(self.handle.write(bytes))
    }
}

impl std::io::Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let chunk = self.read_at(self.position, length).map_err(std::io::Error::other)?;
        let (target, _) = buffer.split_at_mut_checked(chunk.len()).ok_or(std::io::ErrorKind::InvalidData)?;
        target.copy_from_slice(&chunk);
        self.position += chunk.len() as u64;
        Ok(chunk.len())
    }
}

impl std::io::Write for File {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.append(bytes).map_err(std::io::Error::other)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// One thing that a walk met.
#[derive(Debug, Clone, PartialEq)]
pub struct WalkEntry {
    /// Relative to where the walk started.
    pub path: String,
    /// The kind of the entry.
    pub kind: EntryKind,
    /// Size in bytes; zero for directories.
    pub size: u64,
}

impl WalkEntry {
    /// The last part of the path.
    #[must_use]
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }
}

/// See [`Directory::walk`]. Holds one listing per level, so a deep tree costs memory, never stack.
pub struct Walk<'a> {
    root: &'a Directory,
    levels: Vec<(String, std::vec::IntoIter<Entry>)>,
    started: bool,
    keep: Box<dyn FnMut(&WalkEntry) -> bool + 'a>,
}

impl Walk<'_> {
    fn enter(&mut self, path: &str) -> Result<(), FileError> {
        let entries = if path.is_empty() { self.root.entries()? } else { self.root.open_directory(path)?.entries()? };
        self.levels.push((path.to_owned(), entries.into_iter()));
        Ok(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Result<WalkEntry, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        if !self.started {
            self.started = true;
            if let Err(error) = self.enter("") {
                return Some(Err(error));
            }
        }
        loop {
            let (parent, entries) = self.levels.last_mut()?;
            let Some(entry) = entries.next() else {
                self.levels.pop();
                continue;
            };
            let entry = WalkEntry { path: join(parent, &entry.name), kind: entry.kind, size: entry.size };
            if !(self.keep)(&entry) {
                continue;
            }
            // An unreadable directory is reported in its own place, and the walk continues beside it.
            if entry.kind == EntryKind::Directory
                && let Err(error) = self.enter(&entry.path)
            {
                return Some(Err(error));
            }
            return Some(Ok(entry));
        }
    }
}

fn join(parent: &str, path: &str) -> String {
    match (parent, path) {
        (parent, "") => parent.to_owned(),
        ("", path) => path.to_owned(),
        (parent, path) => format!("{parent}/{path}"),
    }
}
