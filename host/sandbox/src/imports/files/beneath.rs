//! System calls on paths below an open directory.
//!
//! `openat2` with RESOLVE_BENEATH, NO_SYMLINKS and NO_MAGICLINKS resolves a path in one step that a racing process
//! cannot redirect: a symbolic link anywhere in it is an error, even one that stays inside. Whatever was opened is
//! checked on its descriptor: only regular files and directories are served, and a file with a second hard link is not
//! written, because the other name may lie outside of the grant.

use super::wit::{Entry, EntryKind};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, Stat},
    io::{Errno, Result},
};
use std::{
    ffi::CStr,
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
};

/// Longest path that a guest may name.
const MAX_PATH: usize = 4_096;

/// A path that is not served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathError {
    /// It tries to leave its directory: the rule that refuses it.
    Escapes(&'static str),
    /// It is not written as paths are.
    Malformed(&'static str),
}

/// Checks that a guest's path is relative, plain and stays below: segments separated by one `/`, none of them empty,
/// `.` or `..`.
pub(super) fn check(path: &str) -> std::result::Result<(), PathError> {
    if path.starts_with('/') {
        return Err(PathError::Escapes("the path is absolute"));
    }
    if path.split('/').any(|segment| segment == "..") {
        return Err(PathError::Escapes("the path has a segment `..`"));
    }
    let plain = |segment: &str| !segment.is_empty() && segment != ".";
    if path.len() <= MAX_PATH && !path.contains('\0') && path.split('/').all(plain) {
        return Ok(());
    }
    Err(PathError::Malformed(
        "expected a relative path whose segments are separated by single `/` and are not empty or `.`",
    ))
}

/// Opens `path` below `directory`.
pub(super) fn open(directory: &OwnedFd, path: &str, flags: OFlags) -> Result<OwnedFd> {
    let mut flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if !flags.contains(OFlags::PATH) {
        // A guest must not wait for the other end of a pipe, nor become the owner of a terminal.
        flags |= OFlags::NONBLOCK | OFlags::NOCTTY;
    }
    let mode = if flags.contains(OFlags::CREATE) { Mode::from_raw_mode(0o644) } else { Mode::empty() };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    // The kernel asks to try again when a rename elsewhere keeps it from being sure.
    for _ in 0..64 {
        match rustix::fs::openat2(directory, path, flags, mode, resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens a directory for reading. `ELOOP` where a symbolic link is in its place.
pub(super) fn open_directory(directory: &OwnedFd, path: &str) -> Result<OwnedFd> {
    open(directory, path, OFlags::RDONLY | OFlags::DIRECTORY)
        .map_err(|error| if error == Errno::NOTDIR && is_link(directory, path) { Errno::LOOP } else { error })
}

/// Returns `true` if the last segment is a symbolic link; the ones before it are none, or resolving would have failed
/// otherwise.
fn is_link(directory: &OwnedFd, path: &str) -> bool {
    let status = open(directory, path, OFlags::PATH).and_then(rustix::fs::fstat);
    status.is_ok_and(|status| FileType::from_raw_mode(status.st_mode) == FileType::Symlink)
}

/// Returns the present path of an open file or directory, as the kernel knows it; `None` where `/proc` is not there to
/// ask.
pub(super) fn real_path(descriptor: &OwnedFd) -> Option<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).ok().filter(|path| path.is_absolute())
}

/// Returns the path at which `path` below `directory` would be, whether or not it exists.
pub(super) fn real_target(directory: &OwnedFd, path: &str) -> Option<PathBuf> {
    let parent = |directory: &OwnedFd, leaf: &str| Ok(real_path(directory).map(|parent| parent.join(leaf)));
    at_leaf(directory, path, parent).ok().flatten()
}

/// Refuses what is not a regular file without opening it: opening a device may do something already.
fn look_at(directory: &OwnedFd, path: &str) -> Result<()> {
    regular(&open(directory, path, OFlags::PATH)?).map(drop)
}

/// Opens a regular file for reading.
pub(super) fn open_file(directory: &OwnedFd, path: &str) -> Result<OwnedFd> {
    look_at(directory, path)?;
    let file = open(directory, path, OFlags::RDONLY)?;
    regular(&file)?;
    Ok(file)
}

/// Creates a file, or empties one that has no other name.
pub(super) fn create_file(directory: &OwnedFd, path: &str) -> Result<OwnedFd> {
    match look_at(directory, path) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(error) => return Err(error),
    }
    let file = open(directory, path, OFlags::WRONLY | OFlags::CREATE | OFlags::APPEND)?;
    if regular(&file)?.st_nlink != 1 {
        return Err(Errno::MLINK);
    }
    rustix::fs::ftruncate(&file, 0)?;
    Ok(file)
}

pub(super) fn create_directory(directory: &OwnedFd, path: &str) -> Result<()> {
    at_leaf(directory, path, |parent, leaf| rustix::fs::mkdirat(parent, leaf, Mode::from_raw_mode(0o755)))
}

/// Removes a regular file or an empty directory.
pub(super) fn remove(directory: &OwnedFd, path: &str) -> Result<()> {
    at_leaf(directory, path, |parent, leaf| {
        let status = rustix::fs::statat(parent, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::Directory => rustix::fs::unlinkat(parent, leaf, AtFlags::REMOVEDIR),
            FileType::RegularFile => rustix::fs::unlinkat(parent, leaf, AtFlags::empty()),
            FileType::Symlink => Err(Errno::LOOP),
            _ => Err(Errno::NODEV),
        }
    })
}

pub(super) fn metadata(directory: &OwnedFd, path: &str) -> Result<Entry> {
    at_leaf(directory, path, |parent, leaf| {
        let status = rustix::fs::statat(parent, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(entry(leaf.to_owned(), &status))
    })
}

/// Entries sorted by name; `None` when there are more than `limit`.
pub(super) fn entries(directory: &OwnedFd, limit: usize) -> Result<Option<Vec<Entry>>> {
    // A descriptor of its own, because reading moves its position and cells share the original.
    let own = rustix::fs::openat(directory, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let mut entries = Vec::new();
    for item in Dir::new(own)? {
        let item = item?;
        let name = item.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if entries.len() == limit {
            return Ok(None);
        }
        match listed(directory, name) {
            // Gone since it was listed.
            Err(Errno::NOENT) => {}
            other => entries.push(other?),
        }
    }
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(entries))
}

fn listed(directory: &OwnedFd, name: &CStr) -> Result<Entry> {
    let Ok(text) = name.to_str() else {
        // It cannot be named through this interface, and so it cannot be opened; it is there nevertheless.
        return Ok(Entry { name: name.to_string_lossy().into_owned(), kind: EntryKind::Other, size: 0 });
    };
    let status = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(entry(text.to_owned(), &status))
}

pub(super) fn size(file: &OwnedFd) -> Result<u64> {
    Ok(rustix::fs::fstat(file)?.st_size.unsigned_abs())
}

/// `length` bytes from `offset`, fewer only at the end.
pub(super) fn read_at(file: &OwnedFd, offset: u64, length: usize) -> Result<Vec<u8>> {
    let available = usize::try_from(size(file)?.saturating_sub(offset)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length.min(available)];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match rustix::io::pread(file, rest, offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

pub(super) fn append(file: &OwnedFd, bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn regular(file: &OwnedFd) -> Result<Stat> {
    let status = rustix::fs::fstat(file)?;
    match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => Ok(status),
        FileType::Directory => Err(Errno::ISDIR),
        FileType::Symlink => Err(Errno::LOOP),
        _ => Err(Errno::NODEV),
    }
}

fn at_leaf<T>(directory: &OwnedFd, path: &str, work: impl FnOnce(&OwnedFd, &str) -> Result<T>) -> Result<T> {
    match path.rsplit_once('/') {
        None => work(directory, path),
        Some((parent, leaf)) => work(&open_parent(directory, parent)?, leaf),
    }
}

fn open_parent(directory: &OwnedFd, path: &str) -> Result<OwnedFd> {
    open(directory, path, OFlags::PATH | OFlags::DIRECTORY)
        .map_err(|error| if error == Errno::NOTDIR && is_link(directory, path) { Errno::LOOP } else { error })
}

fn entry(name: String, status: &Stat) -> Entry {
    let (kind, size) = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => (EntryKind::File, status.st_size.unsigned_abs()),
        FileType::Directory => (EntryKind::Directory, 0),
        _ => (EntryKind::Other, 0),
    };
    Entry { name: name.rsplit('/').next().unwrap_or_default().to_owned(), kind, size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::fs::symlink,
        path::Path,
        sync::atomic::{AtomicBool, Ordering},
    };

    fn directory(path: &Path) -> OwnedFd {
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).unwrap()
    }

    /// A root with one file and one directory, beside a secret that is outside of it.
    fn ground() -> (tempfile::TempDir, OwnedFd) {
        let ground = tempfile::tempdir().unwrap();
        let root = ground.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(root.join("a.txt"), "inside").unwrap();
        std::fs::write(root.join("sub/b.txt"), "deeper").unwrap();
        std::fs::write(ground.path().join("secret"), "outside").unwrap();
        let descriptor = directory(&root);
        (ground, descriptor)
    }

    #[test]
    fn plain_relative_paths_pass_and_every_trick_does_not() {
        for path in ["a", "a/b", "..a", "a..", "a b", "é"] {
            assert!(check(path).is_ok(), "{path}");
        }
        for path in ["/", "/etc/passwd", "..", "a/..", "a/../b", "../../x"] {
            assert!(matches!(check(path), Err(PathError::Escapes(_))), "{path}");
        }
        for path in ["", ".", "./a", "a/", "a//b", "a/.", "a\0b", &"x/".repeat(3_000)] {
            assert!(check(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_symbolic_link_is_refused_wherever_it_stands_and_wherever_it_points() {
        let (ground, root) = ground();
        let inside = ground.path().join("root");
        symlink(ground.path().join("secret"), inside.join("leaf")).unwrap();
        symlink(ground.path(), inside.join("up")).unwrap();
        symlink("a.txt", inside.join("harmless")).unwrap();
        for path in ["leaf", "up/secret", "harmless"] {
            assert_eq!(open_file(&root, path).unwrap_err(), Errno::LOOP, "{path}");
            assert_eq!(create_file(&root, path).unwrap_err(), Errno::LOOP, "{path}");
            assert!(matches!(remove(&root, path), Err(Errno::LOOP | Errno::NOTDIR)), "{path}");
        }
        assert_eq!(create_directory(&root, "up/new").unwrap_err(), Errno::LOOP);
        assert_eq!(open_directory(&root, "up").unwrap_err(), Errno::LOOP);
        assert_eq!(open_directory(&root, "a.txt").unwrap_err(), Errno::NOTDIR);
        assert_eq!(std::fs::read_to_string(ground.path().join("secret")).unwrap(), "outside");
    }

    #[test]
    fn dot_dot_and_absolute_paths_stay_below_even_without_the_check() {
        let (ground, root) = ground();
        assert_eq!(open_file(&root, "../secret").unwrap_err(), Errno::XDEV);
        let absolute = ground.path().join("secret");
        assert_eq!(open_file(&root, absolute.to_str().unwrap()).unwrap_err(), Errno::XDEV);
    }

    #[test]
    fn a_pipe_is_refused_without_waiting_for_its_other_end() {
        let (ground, root) = ground();
        let pipe = ground.path().join("root/pipe");
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert_eq!(open_file(&root, "pipe").unwrap_err(), Errno::NODEV);
        assert_eq!(create_file(&root, "pipe").unwrap_err(), Errno::NODEV);
        assert_eq!(remove(&root, "pipe").unwrap_err(), Errno::NODEV);
        assert_eq!(metadata(&root, "pipe").unwrap().kind, EntryKind::Other);
    }

    #[test]
    fn a_file_with_a_second_name_is_not_written() {
        let (ground, root) = ground();
        std::fs::hard_link(ground.path().join("secret"), ground.path().join("root/linked")).unwrap();
        assert_eq!(create_file(&root, "linked").unwrap_err(), Errno::MLINK);
        assert_eq!(std::fs::read_to_string(ground.path().join("secret")).unwrap(), "outside");
    }

    #[test]
    fn a_racing_thread_that_swaps_a_directory_for_a_link_wins_nothing() {
        let (ground, root) = ground();
        let inside = ground.path().join("root");
        std::fs::create_dir(ground.path().join("outside")).unwrap();
        std::fs::write(ground.path().join("outside/b.txt"), "outside").unwrap();
        symlink(ground.path().join("outside"), inside.join("link")).unwrap();
        let stop = AtomicBool::new(false);
        let mut read = 0;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    // `sub` is by turns the directory and the link, without a moment in between.
                    let _ = rustix::fs::renameat_with(
                        rustix::fs::CWD,
                        inside.join("sub"),
                        rustix::fs::CWD,
                        inside.join("link"),
                        rustix::fs::RenameFlags::EXCHANGE,
                    );
                }
            });
            for _ in 0..20_000 {
                if let Ok(file) = open_file(&root, "sub/b.txt") {
                    assert_eq!(read_at(&file, 0, 100).unwrap(), b"deeper");
                    read += 1;
                }
                if let Ok(file) = create_file(&root, "sub/new.txt") {
                    append(&file, b"x").unwrap();
                }
                let _ = create_directory(&root, "sub/made");
                let _ = remove(&root, "sub/made");
            }
            stop.store(true, Ordering::Relaxed);
        });
        let outside: Vec<_> =
            std::fs::read_dir(ground.path().join("outside")).unwrap().map(|item| item.unwrap().file_name()).collect();
        assert_eq!(outside, ["b.txt"], "something was made outside");
        assert!(read > 0, "the race never let one open through, so nothing was tested");
    }

    #[test]
    fn reading_stops_at_the_end_and_writing_appends() {
        let (_ground, root) = ground();
        let file = create_file(&root, "sub/new.txt").unwrap();
        append(&file, b"one").unwrap();
        append(&file, b"two").unwrap();
        let file = open_file(&root, "sub/new.txt").unwrap();
        assert_eq!(read_at(&file, 0, 100).unwrap(), b"onetwo");
        assert_eq!(read_at(&file, 4, 1).unwrap(), b"w");
        assert_eq!(read_at(&file, 6, 10).unwrap(), b"");
        assert_eq!(read_at(&file, u64::MAX, usize::MAX).unwrap(), b"");
    }

    #[test]
    fn entries_are_sorted_and_links_are_listed_as_other() {
        let (ground, root) = ground();
        symlink("a.txt", ground.path().join("root/z")).unwrap();
        let listed: Vec<_> =
            entries(&root, 10).unwrap().unwrap().into_iter().map(|e| (e.name, e.kind, e.size)).collect();
        assert_eq!(
            listed,
            [
                ("a.txt".to_owned(), EntryKind::File, 6),
                ("sub".to_owned(), EntryKind::Directory, 0),
                ("z".to_owned(), EntryKind::Other, 0)
            ]
        );
        assert!(entries(&root, 2).unwrap().is_none());
    }
}
