//! Reading files that others may have put in place: a project's files, documents, keys.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Reads a regular file of at most `limit` bytes. Waits for no pipe, and reads no further than the limit whatever the
/// file says about its size: those below `/proc` say nothing. Blocks.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] for a directory, device, pipe or socket, [`io::ErrorKind::FileTooLarge`] for more
/// bytes than `limit`, and whatever the system says. The message does not name the path.
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

/// Where a file really is, if links lead from there out of the folder that it was found in. Whoever lists a folder has
/// not named what its links lead to: a checkout may link to a file with passwords, and have it shown. Blocks.
#[must_use]
pub fn leads_out(file: &Path, folder: &Path) -> Option<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (real, folder) = (file.canonicalize().ok()?, folder.canonicalize().ok()?);
    (!real.starts_with(folder)).then_some(real)
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
}
