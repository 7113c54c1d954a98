//! Making files: in a folder that no link leads out of, under a name that is new, whole or not at all.
//!
//! A checkout may have links in every place where this program makes a file, to any file of its user. Everything that
//! product code makes is made here, and `clippy.toml` disallows the functions of the standard library elsewhere.

use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::{self, Write as _},
    os::{fd::OwnedFd, unix::fs::FileTypeExt as _},
    path::{Component, Path, PathBuf},
};

/// The readers of a file or folder that is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone: mode 0600, and 0700 for folders.
    Owner,
    /// Everyone whom the mask of the process lets, as for files that people share.
    Shared,
    /// The readers of a file that is replaced, by its mode.
    Mode(u32),
}

impl Readers {
    /// Those of the file at `path`; [`Self::Shared`] where there is none.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        use std::os::unix::fs::MetadataExt as _;
        path.metadata().map_or(Self::Shared, |there| Self::Mode(there.mode()))
    }

    fn of_new_file(self) -> Mode {
        match self {
            Self::Owner | Self::Mode(_) => Mode::from_raw_mode(0o600),
            Self::Shared => Mode::from_raw_mode(0o666),
        }
    }

    fn of_new_folder(self) -> Mode {
        match self {
            Self::Owner => Mode::from_raw_mode(0o700),
            Self::Shared | Self::Mode(_) => Mode::from_raw_mode(0o777),
        }
    }
}

/// An open folder that files are made in. A rename of it, or of a folder above it, moves no file elsewhere.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    path: PathBuf,
}

impl Folder {
    /// Opens a folder that the user named, or that is the user's own: links that lead there are followed. Blocks, as
    /// everything here.
    ///
    /// # Errors
    /// As the system says.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { descriptor: rustix::fs::open(path, flags, Mode::empty())?, path: path.to_owned() })
    }

    /// As [`Self::open`], and makes what is missing of the path.
    ///
    /// # Errors
    /// As the system says.
    pub fn open_or_make(path: &Path, readers: Readers) -> io::Result<Self> {
        let there = path.ancestors().find(|above| above.as_os_str().is_empty() || above.is_dir());
        let there = there.unwrap_or(Path::new("."));
        let missing = path.strip_prefix(there).unwrap_or(path);
        Self::open(there)?.make_below(missing, readers)
    }

    /// Its path, as it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A folder below this one. No link is followed.
    ///
    /// # Errors
    /// When it is not there, a part of the path is a link, or the path leads up.
    pub fn below(&self, relative: &Path) -> io::Result<Self> {
        self.walk(relative, None)
    }

    /// As [`Self::below`], and makes what is missing.
    ///
    /// # Errors
    /// As [`Self::below`].
    pub fn make_below(&self, relative: &Path, readers: Readers) -> io::Result<Self> {
        self.walk(relative, Some(readers.of_new_folder()))
    }

    fn walk(&self, relative: &Path, make: Option<Mode>) -> io::Result<Self> {
        let mut folder = Self { descriptor: self.descriptor.try_clone()?, path: self.path.clone() };
        for component in relative.components() {
            let name = match component {
                Component::CurDir => continue,
                Component::Normal(name) => name,
                _ => {
                    let message = format!("{} does not lie below {}", relative.display(), self.path.display());
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
                }
            };
            folder = folder.child(name, make)?;
        }
        Ok(folder)
    }

    fn child(&self, name: &OsStr, make: Option<Mode>) -> io::Result<Self> {
        let path = self.path.join(name);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || rustix::fs::openat(&self.descriptor, name, flags, Mode::empty());
        let mut opened = open();
        if let (Err(Errno::NOENT), Some(mode)) = (&opened, make) {
            match rustix::fs::mkdirat(&self.descriptor, name, mode) {
                // Another process was faster.
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            opened = open();
        }
        match opened {
            Ok(descriptor) => Ok(Self { descriptor, path }),
            Err(Errno::LOOP | Errno::NOTDIR) if self.is_link(name) => {
                let message =
                    format!("{} is a link, and nothing is written through links of a project", path.display());
                Err(io::Error::new(io::ErrorKind::NotADirectory, message))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn is_link(&self, name: &OsStr) -> bool {
        let status = rustix::fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW);
        status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
    }

    /// A new file of this name.
    ///
    /// # Errors
    /// When there is one already, also when it is a link that leads nowhere.
    pub fn create(&self, name: impl AsRef<OsStr>, readers: Readers) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let name = one_name(name.as_ref())?;
        let file = File::from(rustix::fs::openat(&self.descriptor, name, flags, readers.of_new_file())?);
        if let Readers::Mode(mode) = readers {
            rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))?;
        }
        Ok(file)
    }

    /// A file of its owner alone for reading and writing in place; made where there is none.
    ///
    /// # Errors
    /// When it is a link, and as the system says.
    pub fn keep(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mode = Readers::Owner.of_new_file();
        Ok(File::from(rustix::fs::openat(&self.descriptor, one_name(name.as_ref())?, flags, mode)?))
    }

    /// Puts a file of this name in the place of what is there, a link itself included: readers see the old file or the
    /// new one, and after a failure there is the old one.
    ///
    /// # Errors
    /// As the system says.
    pub fn replace(&self, name: impl AsRef<OsStr>, bytes: &[u8], readers: Readers) -> io::Result<()> {
        let name = one_name(name.as_ref())?;
        let temporary = temporary_name();
        let mut file = self.create(&temporary, readers)?;
        let written = file
            .write_all(bytes)
            .and_then(|()| file.sync_all())
            .and_then(|()| Ok(rustix::fs::renameat(&self.descriptor, &*temporary, &self.descriptor, name)?));
        if written.is_err() {
            let _ = self.remove(&temporary);
        }
        written
    }

    /// Removes a file of this name, or a link itself.
    ///
    /// # Errors
    /// As the system says.
    pub fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.descriptor, one_name(name.as_ref())?, AtFlags::empty())?)
    }
}

/// A new file at a path that the user named. Through links go an absolute path and what leads up from the working
/// directory, and nothing below the working directory.
///
/// # Errors
/// When there is one already, or a link below the working directory leads there.
pub fn create(path: &Path, readers: Readers) -> io::Result<File> {
    let (folder, name) = parent(path)?;
    folder.create(name, readers)
}

/// Makes an empty file of its owner alone where there is none, for a database that then opens it by its path. Links
/// that lead to something are followed.
///
/// # Errors
/// As the system says; for a link that leads to nothing, which the database would make.
pub fn make_private(path: &Path) -> io::Result<()> {
    let (folder, name) = (path.parent().unwrap_or(Path::new("")), path.file_name().unwrap_or_default());
    match Folder::open(folder)?.create(name, Readers::Owner) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => match path.metadata() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let message = format!("{} is a link to a file that is not there; remove it", path.display());
                Err(io::Error::new(io::ErrorKind::NotFound, message))
            }
            _ => Ok(()),
        },
        made => made.map(drop),
    }
}

/// Keeps other processes out that take the same lock, until the returned file is dropped. The file of the lock is made
/// where there is none, beside the guarded file: that one is replaced, and its lock would be on the old file.
///
/// # Errors
/// As the system says.
pub fn lock(path: &Path) -> io::Result<File> {
    make_private(path)?;
    let file = File::open(path)?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
    Ok(file)
}

/// A file at a path that the user named, in the place of what is there; of links as [`create`]. What is written to an
/// absolute path where a device or a pipe is, such as `/dev/stdout`, goes into that.
///
/// # Errors
/// As [`create`] and [`Folder::replace`].
pub fn replace(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let is_stream = |there: std::fs::Metadata| there.file_type().is_char_device() || there.file_type().is_fifo();
    if path.is_absolute() && path.metadata().is_ok_and(is_stream) {
        let stream = rustix::fs::open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        return File::from(stream).write_all(bytes);
    }
    let (folder, name) = parent(path)?;
    folder.replace(name, bytes, readers)
}

/// A folder that the user named, with what is missing of the path; of links as [`create`].
///
/// # Errors
/// As [`Folder::make_below`].
pub fn make_folder(path: &Path, readers: Readers) -> io::Result<Folder> {
    let (base, below) = split(path);
    match path.is_absolute() {
        true => Folder::open_or_make(path, readers),
        false => Folder::open(&base)?.make_below(&below, readers),
    }
}

fn parent(path: &Path) -> io::Result<(Folder, OsString)> {
    let Some(name) = path.file_name() else {
        let message = format!("{} does not name a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    };
    let folder = path.parent().unwrap_or(Path::new(""));
    let (base, below) = split(folder);
    let folder = if path.is_absolute() { Folder::open(folder)? } else { Folder::open(&base)?.below(&below)? };
    Ok((folder, name.to_owned()))
}

/// Splits a path into the part that leads up from the working directory, and the part below that.
fn split(path: &Path) -> (PathBuf, PathBuf) {
    let (mut base, mut below) = (PathBuf::new(), PathBuf::new());
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                if !below.pop() {
                    base.push("..");
                }
            }
            other => below.push(other),
        }
    }
    (base, below)
}

fn one_name(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a file name", name.display()))),
    }
}

/// A name that no one can put something under beforehand: 128 bits of the system's randomness.
#[must_use]
pub fn temporary_name() -> String {
    // Each state has keys of its own.
    let bits = || RandomState::new().build_hasher().finish();
    format!(".opcell-{:016x}{:016x}.part", bits(), bits())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt as _, symlink},
    };

    #[test]
    fn nothing_is_made_through_a_link_below_the_folder() {
        let ground = tempfile::tempdir().unwrap();
        let (project, home) = (ground.path().join("project"), ground.path().join("home"));
        for folder in [&project, &home] {
            fs::create_dir(folder).unwrap();
        }
        symlink(&home, project.join("away")).unwrap();
        symlink("/nowhere/at/all", project.join("dangling")).unwrap();
        let folder = Folder::open(&project).unwrap();
        for path in ["away", "away/sub", "dangling", "dangling/sub", "../home", "/tmp"] {
            assert!(folder.make_below(Path::new(path), Readers::Shared).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(&home).unwrap().count(), 0);
        let made = folder.make_below(Path::new("a/./b"), Readers::Owner).unwrap();
        assert_eq!(made.path(), project.join("a/b"));
        assert_eq!(project.join("a").metadata().unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn a_link_is_replaced_itself_and_what_it_leads_to_stays() {
        let ground = tempfile::tempdir().unwrap();
        let victim = ground.path().join("victim");
        fs::write(&victim, "mine").unwrap();
        let folder = Folder::open(ground.path()).unwrap();
        symlink(&victim, ground.path().join("out")).unwrap();
        symlink(ground.path().join("nowhere"), ground.path().join("dangling")).unwrap();
        for name in ["out", "dangling"] {
            let error = folder.create(name, Readers::Owner).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{name}");
            folder.replace(name, b"new", Readers::Owner).unwrap();
            assert!(ground.path().join(name).symlink_metadata().unwrap().is_file(), "{name}");
        }
        assert_eq!(fs::read(&victim).unwrap(), b"mine");
        assert!(!ground.path().join("nowhere").exists());
    }

    #[test]
    fn readers_are_those_that_were_said_and_nothing_is_left_of_a_failure() {
        let ground = tempfile::tempdir().unwrap();
        let folder = Folder::open(ground.path()).unwrap();
        let mode = |name: &str| ground.path().join(name).metadata().unwrap().mode() & 0o777;
        folder.replace("own", b"", Readers::Owner).unwrap();
        folder.replace("like", b"", Readers::Mode(0o100640)).unwrap();
        assert_eq!((mode("own"), mode("like")), (0o600, 0o640));
        assert_eq!(Readers::of(&ground.path().join("like")), Readers::Mode(0o100640));
        fs::create_dir(ground.path().join("taken")).unwrap();
        assert!(folder.replace("taken", b"", Readers::Owner).is_err());
        for name in ["", ".", "..", "a/b", "/x"] {
            assert!(folder.replace(name, b"", Readers::Owner).is_err(), "{name:?}");
        }
        let left = fs::read_dir(ground.path()).unwrap().count();
        assert_eq!(left, 3, "own, like, taken");
    }

    #[test]
    fn a_path_that_leads_up_and_down_again_is_split_where_it_enters_a_folder() {
        for (path, base, below) in
            [("a/b", "", "a/b"), ("../x/y", "..", "x/y"), ("../../x", "../..", "x"), ("a/../b", "", "b"), (".", "", "")]
        {
            assert_eq!(split(Path::new(path)), (base.into(), below.into()), "{path}");
        }
    }

    #[test]
    fn a_database_is_not_made_where_a_link_leads_to_nothing() {
        let ground = tempfile::tempdir().unwrap();
        let path = |name: &str| ground.path().join(name);
        make_private(&path("new")).unwrap();
        assert_eq!(path("new").metadata().unwrap().mode() & 0o777, 0o600);
        make_private(&path("new")).unwrap();
        symlink("new", path("link")).unwrap();
        make_private(&path("link")).unwrap();
        symlink("nowhere", path("dangling")).unwrap();
        assert!(make_private(&path("dangling")).unwrap_err().to_string().ends_with("is not there; remove it"));
        assert!(!path("nowhere").exists());
    }

    #[test]
    fn a_pipe_is_written_to_and_not_replaced() {
        let ground = tempfile::tempdir().unwrap();
        replace(Path::new("/dev/null"), b"gone", Readers::Shared).unwrap();
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        let file = ground.path().join("x");
        replace(&file, b"one", Readers::Shared).unwrap();
        replace(&file, b"two", Readers::of(&file)).unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"two");
        assert!(replace(ground.path(), b"", Readers::Shared).is_err());
    }

    #[test]
    fn the_users_own_folder_is_made_through_links_that_lead_there() {
        let ground = tempfile::tempdir().unwrap();
        fs::create_dir(ground.path().join("disk")).unwrap();
        symlink("disk", ground.path().join("state")).unwrap();
        let made = Folder::open_or_make(&ground.path().join("state/opcell/keys"), Readers::Owner).unwrap();
        made.replace("k", b"x", Readers::Owner).unwrap();
        assert_eq!(fs::read(ground.path().join("disk/opcell/keys/k")).unwrap(), b"x");
    }
}
