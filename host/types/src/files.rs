//! Files of places where others may have put something: reading a project's files, documents and keys, and making files
//! beside them.

mod folder;

pub use folder::{Folder, Readers, create, lock, make_folder, make_private, replace, temporary_name};

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
};

/// Links that are followed in one path, as the kernel does.
const MAX_LINKS: usize = 40;

/// Reads a regular file of at most `limit` bytes. Waits for no pipe, and reads no further than the limit whatever the
/// file says about its size: those below `/proc` say nothing. Blocks.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a directory, device, pipe or socket, [`io::ErrorKind::FileTooLarge`] for more
/// bytes than `limit`, and whatever the system says. The message does not name the path.
#[expect(clippy::disallowed_methods, reason = "it is opened for reading")]
pub fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(no_wait).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a file"));
    }
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let size = metadata.len().max(bytes.len() as u64);
        let message = format!("it has {size} bytes; at most {limit} are read");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(bytes)
}

/// As [`read_bounded`], for a text.
///
/// # Errors
/// As [`read_bounded`]; [`io::ErrorKind::InvalidData`] when it is not UTF-8.
pub fn read_text_bounded(path: &Path, limit: u64) -> io::Result<String> {
    String::from_utf8(read_bounded(path, limit)?).map_err(|error| {
        let message = format!("byte {} is not UTF-8", error.utf8_error().valid_up_to());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

/// A path without links, whether or not something is there: a link that leads to nothing yet counts as what it leads
/// to, because a file that is made there is made where the link says. Blocks.
#[must_use]
pub fn real(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut real = PathBuf::new();
    let mut rest: Vec<std::ffi::OsString> = reversed(&path);
    let mut links = 0;
    while let Some(part) = rest.pop() {
        match Path::new(&part).components().next() {
            Some(Component::Normal(_)) => {}
            Some(Component::ParentDir) => {
                real.pop();
                continue;
            }
            Some(Component::RootDir | Component::Prefix(_)) => {
                real = PathBuf::from(&part);
                continue;
            }
            Some(Component::CurDir) | None => continue,
        }
        let next = real.join(&part);
        match std::fs::read_link(&next) {
            Ok(target) if links < MAX_LINKS => {
                links += 1;
                rest.extend(reversed(&target));
            }
            _ => real = next,
        }
    }
    real
}

fn reversed(path: &Path) -> Vec<std::ffi::OsString> {
    path.components().rev().map(|component| component.as_os_str().to_owned()).collect()
}

/// The place of a file if links lead from it out of the folder that it was found in, also where nothing is there yet. A
/// caller that lists a folder has not named what its links lead to: a checkout may link to a file with passwords, and
/// have it shown. Blocks.
#[must_use]
pub fn leads_out(file: &Path, folder: &Path) -> Option<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (file, folder) = (real(file), real(folder));
    (!file.starts_with(folder)).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(path: &str) -> io::ErrorKind {
        read_text_bounded(Path::new(path), 1 << 20).unwrap_err().kind()
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_being_read() {
        assert_eq!(kind("/dev/zero"), io::ErrorKind::InvalidInput);
        assert_eq!(kind("/dev"), io::ErrorKind::InvalidInput);
        assert_eq!(kind("/nowhere"), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_leads_out_unless_it_stays_below_the_folder() {
        let base = tempfile::tempdir().unwrap();
        let folder = base.path().join("checkout");
        std::fs::create_dir_all(folder.join("below")).unwrap();
        for file in ["secret", "checkout/own", "checkout/below/other"] {
            std::fs::write(base.path().join(file), "").unwrap();
        }
        let link = |to: &str, name: &str| {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
            leads_out(&folder.join(name), &folder)
        };
        assert_eq!(leads_out(&folder.join("own"), &folder), None);
        assert_eq!(link("below/other", "inside"), None);
        assert_eq!(link("../secret", "outside"), Some(base.path().canonicalize().unwrap().join("secret")));
        assert!(link("outside", "twice").is_some());
        assert!(link("/proc/self/environ", "process").is_some());
        assert_eq!(link("nowhere", "dangling"), None);
        assert_eq!(link("../nowhere", "dangling-outside"), Some(base.path().canonicalize().unwrap().join("nowhere")));
        // The folder itself may be reached through a link.
        std::os::unix::fs::symlink("checkout", base.path().join("alias")).unwrap();
        let alias = base.path().join("alias");
        assert_eq!(leads_out(&alias.join("own"), &alias), None);
    }

    #[test]
    fn a_file_that_hides_its_size_is_read_to_the_limit_only() {
        assert_eq!(std::fs::metadata("/proc/self/maps").unwrap().len(), 0);
        assert_eq!(read_bounded(Path::new("/proc/self/maps"), 10).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert!(!read_bounded(Path::new("/proc/self/maps"), 16 << 20).unwrap().is_empty());
    }

    #[test]
    fn a_link_that_leads_nowhere_yet_counts_as_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().canonicalize().unwrap();
        std::fs::create_dir(folder.join("there")).unwrap();
        for (to, name) in [("there", "link"), ("not/yet", "dangling"), ("dangling/x", "twice"), ("self", "self")] {
            std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        }
        assert_eq!(real(&folder.join("link/not/yet")), folder.join("there/not/yet"));
        assert_eq!(real(&folder.join("dangling")), folder.join("not/yet"));
        assert_eq!(real(&folder.join("twice")), folder.join("not/yet/x"));
        assert_eq!(real(&folder.join("link/../dangling")), folder.join("not/yet"));
        assert_eq!(real(&folder.join("self")), folder.join("self"));
        assert_eq!(real(Path::new("/")), Path::new("/"));
    }
}
