//! One folder that untrusted paths cannot leave: relative paths, no `..`, links followed only while they stay inside
//! (cap-std), regular files only.

use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, MetadataExt as _, OpenOptions, OpenOptionsExt as _};
use opcell_types::control::{ControlFiles, Touch, is_in_repository};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsRawFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// Why a path was not served. No text names a host path.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FileError {
    /// The path is not one that may be asked for.
    #[error("`{path}` is refused: {why}")]
    Refused {
        /// Path as requested.
        path: String,
        /// The rule that refuses it, as a clause.
        why: &'static str,
    },
    /// The folder does not extend to it: it decides what runs and what it may reach, or holds secrets.
    #[error("`{path}` is refused: {rule}")]
    ControlFile {
        /// As asked.
        path: String,
        /// The name of the folder among the file roots.
        root: String,
        /// The rule that refuses it, as a clause.
        rule: String,
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
        /// Path as requested.
        path: String,
        /// Size of the file, in bytes.
        size: u64,
        /// The most that is read, in bytes.
        limit: u64,
    },
    /// Not UTF-8.
    #[error("`{path}` is not text: byte {at} is not UTF-8")]
    NotText {
        /// Path as requested.
        path: String,
        /// Offset of the first bad byte.
        at: usize,
    },
    /// Text of two bytes per character, with its mark.
    #[error("`{0}` is text in UTF-16; save it as UTF-8")]
    Utf16(String),
    /// Anything else.
    #[error("`{path}`: {message}")]
    Failed {
        /// Path as requested.
        path: String,
        /// The error of the system, without host paths.
        message: String,
    },
}

/// The kind of an entry.
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

/// Entries of one folder that are listed; a larger folder is an error, never a part of itself.
const MAX_ENTRIES: usize = 50_000;

/// An open folder. Every call blocks; async callers move it to a blocking thread.
#[derive(Debug, Clone)]
pub(crate) struct Folder {
    dir: Arc<Dir>,
    guard: Option<Guard>,
}

/// The files that a folder does not extend to.
#[derive(Debug, Clone)]
pub(crate) struct Guard {
    /// The folder's name among the file roots.
    pub(crate) name: String,
    /// The path of the folder, without links.
    pub(crate) root: PathBuf,
    pub(crate) control: Arc<ControlFiles>,
}

impl Folder {
    /// Opens a folder that the operator named.
    pub(crate) fn open(host_path: &Path) -> std::io::Result<Self> {
        Ok(Self { dir: Arc::new(Dir::open_ambient_dir(host_path, ambient_authority())?), guard: None })
    }

    /// The same folder, without what the guard refuses.
    pub(crate) fn guarded(self, guard: Option<Guard>) -> Self {
        Self { guard, ..self }
    }

    /// Refuses by the path as it was asked for, and by where the file really is.
    fn may_touch(&self, touch: Touch, path: &str, real: Option<&Path>) -> Result<(), FileError> {
        let Some(guard) = &self.guard else { return Ok(()) };
        let asked = guard.root.join(path.trim_start_matches("./"));
        let rule = guard.control.refuses(touch, &asked).or_else(|| guard.control.refuses(touch, real?));
        let rule = rule.or_else(|| is_in_repository(real?, &guard.root).filter(|_| touch == Touch::Write));
        rule.map_or(Ok(()), |rule| {
            Err(FileError::ControlFile { path: path.to_owned(), root: guard.name.clone(), rule })
        })
    }

    /// A file that has several names may be one of those under another name.
    fn may_be_hard_link(&self, path: &str, metadata: &Metadata) -> Result<(), FileError> {
        let Some(guard) = self.guard.as_ref().filter(|_| metadata.nlink() > 1) else { return Ok(()) };
        let rule = guard.control.refuses_hard_link(&guard.root, (metadata.dev(), metadata.ino()));
        rule.map_or(Ok(()), |rule| {
            Err(FileError::ControlFile { path: path.to_owned(), root: guard.name.clone(), rule })
        })
    }

    /// Reads a whole file of at most `limit` bytes.
    pub(crate) fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, FileError> {
        let relative = relative(path)?;
        self.may_touch(Touch::Read, path, None)?;
        let mut options = OpenOptions::new();
        // Without O_NONBLOCK, opening a pipe would wait for its writer forever.
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = self.dir.open_with(relative, &options).map_err(|error| failed(path, &error))?;
        let metadata = file.metadata().map_err(|error| failed(path, &error))?;
        if !metadata.is_file() {
            return Err(FileError::NotAFile(path.to_owned()));
        }
        self.may_touch(Touch::Read, path, real_path(&file).as_deref())?;
        self.may_be_hard_link(path, &metadata)?;
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
        text(path, self.read(path, limit)?)
    }

    /// Replaces or creates a file at once, with the directories above it: a reader sees the old text or the new, never
    /// half.
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
        self.may_touch(Touch::Write, path, self.real_target(relative).as_deref())?;
        if let Some(parent) = relative.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            match self.dir.metadata(parent) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => self.dir.create_dir_all(parent).map_err(failed)?,
                Err(error) => return Err(failed(error)),
            }
        }
        let temporary = relative.with_file_name(opcell_types::files::temporary_name());
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

    /// Returns the path at which a file would be, links of the folders above it followed, as far as these exist.
    fn real_target(&self, relative: &Path) -> Option<PathBuf> {
        let mut existing = relative.parent();
        loop {
            let parent = existing.filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
            match self.dir.open_dir(parent) {
                Ok(directory) => {
                    let below = relative.strip_prefix(parent).unwrap_or(relative);
                    return Some(real_path(&directory)?.join(below));
                }
                Err(_) if parent == Path::new(".") => return None,
                Err(_) => existing = parent.parent(),
            }
        }
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
            if found.len() == MAX_ENTRIES {
                let message = format!("the folder has more than {MAX_ENTRIES} entries");
                return Err(FileError::Failed { path: path.to_owned(), message });
            }
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

    /// Returns the kind of a path, links followed inside the folder.
    pub(crate) fn kind(&self, path: &str) -> Result<EntryKind, FileError> {
        let metadata = self.dir.metadata(relative(path)?).map_err(|error| failed(path, &error))?;
        Ok(match () {
            () if metadata.is_file() => EntryKind::File,
            () if metadata.is_dir() => EntryKind::Directory,
            () => EntryKind::Other,
        })
    }

    /// The path without links of something in the folder, empty for the folder itself; `None` if it leads out of it.
    pub(crate) fn canonical(&self, path: &str) -> Option<String> {
        let real = self.dir.canonicalize(relative(path).ok()?).ok()?;
        real.to_str().map(|real| if real == "." { String::new() } else { real.to_owned() })
    }
}

/// Returns the path of an open file or folder, as the kernel knows it; `None` where `/proc` is not there to ask.
fn real_path(open: &impl AsRawFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", open.as_raw_fd())).ok().filter(|path| path.is_absolute())
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

/// The text of a file's bytes.
pub(crate) fn text(path: &str, bytes: Vec<u8>) -> Result<String, FileError> {
    String::from_utf8(bytes).map_err(|error| match error.as_bytes() {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => FileError::Utf16(path.to_owned()),
        _ => FileError::NotText { path: path.to_owned(), at: error.utf8_error().valid_up_to() },
    })
}
