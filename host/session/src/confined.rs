//! One folder that untrusted paths cannot leave: relative paths, no `..`, links followed only while they stay inside (cap-std),
//! regular files only.

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt as _};
use std::io::{ErrorKind, Read as _, Write as _};
use std::path::{Component, Path};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thiserror::Error;

/// Why a path was not served. No text names a host path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FileError {
    /// The path is not one that may be asked for.
    #[error("`{path}` is refused: {why}")]
    Refused {
        /// As asked.
        path: String,
        /// The rule.
        why: &'static str,
    },
    /// Nothing is there.
    #[error("there is no `{0}`")]
    NotFound(String),
    /// A directory, device, pipe or socket.
    #[error("`{0}` is not a file")]
    NotAFile(String),
    /// Not a directory.
    #[error("`{0}` is not a directory")]
    NotADirectory(String),
    /// More than may be read at once.
    #[error("`{path}` has {size} bytes; at most {limit} can be read")]
    TooLarge {
        /// As asked.
        path: String,
        /// In bytes.
        size: u64,
        /// In bytes.
        limit: u64,
    },
    /// Not UTF-8.
    #[error("`{path}` is not text: byte {at} is not UTF-8")]
    NotText {
        /// As asked.
        path: String,
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Anything else.
    #[error("`{path}`: {message}")]
    Failed {
        /// As asked.
        path: String,
        /// What the system said, without host paths.
        message: String,
    },
}

/// What kind of thing an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EntryKind {
    File,
    Directory,
    /// Link, device, pipe or socket.
    Other,
}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    pub(crate) name: String,
    pub(crate) kind: EntryKind,
    pub(crate) bytes: u64,
}

/// An open folder. Every call blocks; async callers move it to a blocking thread.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    dir: Arc<Dir>,
}

impl Folder {
    /// Opens a folder that the operator named.
    pub(crate) fn open(host_path: &Path) -> std::io::Result<Self> {
        Ok(Self { dir: Arc::new(Dir::open_ambient_dir(host_path, ambient_authority())?) })
    }

    /// Reads a whole file of at most `limit` bytes.
    pub(crate) fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let relative = relative(path)?;
        let mut options = OpenOptions::new();
        // Without O_NONBLOCK, opening a pipe would wait for its writer for ever.
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = self.dir.open_with(relative, &options).map_err(|error| failed(path, &error))?;
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        if metadata.len() > limit {
            return Err(FileError::TooLarge { path: path.to_owned(), size: metadata.len(), limit });
        }
        let mut bytes = Vec::new();
        file.take(limit + 1).read_to_end(&mut bytes).map_err(|error| failed(path, &error))?;
        let size = bytes.len() as u64;
        if size > limit {
            return Err(FileError::TooLarge { path: path.to_owned(), size, limit });
        }
        Ok(bytes)
    }

    /// Reads a whole text file of at most `limit` bytes.
    pub(crate) fn read_text(&self, path: &str, limit: u64) -> Result<String, FileError> {
        String::from_utf8(self.read(path, limit)?)
            .map_err(|error| FileError::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() })
    }

    /// Replaces or creates a file at once, with the directories above it: a reader sees the old text or the new, never half.
    pub(crate) fn write(&self, path: &str, bytes: &[u8]) -> Result<(), FileError> {
        let relative = relative(path)?;
        if relative == Path::new(".") {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        match self.dir.symlink_metadata(relative) {
            Ok(there) if there.is_symlink() => {
                let why = "it is a link; write to the file that it points to";
                return Err(FileError::Refused { path: path.to_owned(), why });
            }
            Ok(there) if !there.is_file() => return Err(FileError::NotAFile(path.to_owned())),
            Ok(_) | Err(_) => {}
        }
        let failed = |error: std::io::Error| failed(path, &error);
        if let Some(parent) = relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            match self.dir.metadata(parent) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => self.dir.create_dir_all(parent).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let temporary = format!(".opcell-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let temporary = relative.with_file_name(temporary);
        let written = self.write_new(&temporary, bytes).and_then(|()| {
            if let Ok(metadata) = self.dir.metadata(relative) {
                self.dir.set_permissions(&temporary, metadata.permissions())?;
            }
            self.dir.rename(&temporary, &self.dir, relative)
        });
        if written.is_err() {
            let _ = self.dir.remove_file(&temporary);
        }
        written.map_err(failed)
    }

    fn write_new(&self, path: &Path, bytes: &[u8]) -> std::io::Result<()> {
        let mut file = self.dir.open_with(path, OpenOptions::new().write(true).create_new(true))?;
        file.write_all(bytes)
    }

    /// A directory's entries, sorted by name; `.` is the folder itself. Links are entries of the kind `Other`.
    pub(crate) fn entries(&self, path: &str) -> Result<Vec<DirectoryEntry>, FileError> {
        let failed = |error: std::io::Error| failed(path, &error);
        let mut found = Vec::new();
        for entry in self.dir.read_dir(relative(path)?).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let kind = entry.file_type().map_err(failed)?;
            let kind = match () {
                () if kind.is_file() => EntryKind::File,
                () if kind.is_dir() => EntryKind::Directory,
                () => EntryKind::Other,
            };
            let bytes = if kind == EntryKind::File { entry.metadata().map_or(0, |metadata| metadata.len()) } else { 0 };
            found.push(DirectoryEntry { name: entry.file_name().to_string_lossy().into_owned(), kind, bytes });
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(found)
    }

    /// What a path is, links followed inside the folder.
    pub(crate) fn kind(&self, path: &str) -> Result<EntryKind, FileError> {
        let metadata = self.dir.metadata(relative(path)?).map_err(|error| failed(path, &error))?;
        Ok(match () {
            () if metadata.is_file() => EntryKind::File,
            () if metadata.is_dir() => EntryKind::Directory,
            () => EntryKind::Other,
        })
    }
}

/// Checks the shape of a path before the file system sees it.
fn relative(path: &str) -> Result<&Path, FileError> {
    let refuse = |why| Err(FileError::Refused { path: path.to_owned(), why });
    if path.is_empty() {
        return refuse("a path must not be empty");
    }
    if path.contains('\0') {
        return refuse("a path must not contain NUL");
    }
    for component in Path::new(path).components() {
        match component {
            Component::Normal(_) | Component::CurDir => {}
            Component::ParentDir => return refuse("`..` is not allowed; give the path from the root"),
            Component::RootDir | Component::Prefix(_) => return refuse("paths are relative to a root"),
        }
    }
    Ok(Path::new(path))
}

fn failed(path: &str, error: &std::io::Error) -> FileError {
    match error.kind() {
        ErrorKind::NotFound => FileError::NotFound(path.to_owned()),
        ErrorKind::IsADirectory => FileError::NotAFile(path.to_owned()),
        ErrorKind::NotADirectory => FileError::NotADirectory(path.to_owned()),
        // cap-std's word for a link or a path that leads out of the folder.
        ErrorKind::PermissionDenied => {
            FileError::Refused { path: path.to_owned(), why: "it leads outside its root, or the system denies it" }
        }
        kind => FileError::Failed { path: path.to_owned(), message: kind.to_string() },
    }
}
