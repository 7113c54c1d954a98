//! Detection of changed files. Files are looked at and not watched: that sees every change on every file system,
//! through links that are put in another's place, and costs a few system calls.

use std::{fs, path::PathBuf, time::SystemTime};

/// The stamps of files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    bytes: u64,
    /// A file that takes the place of another may be as old and as long.
    inode: u64,
}

impl Stamps {
    /// Looks at the files; blocks.
    pub(super) fn of(files: Vec<PathBuf>) -> Self {
        let stamped = files.into_iter().map(|file| {
            let stamp = fs::metadata(&file).ok().map(|found| Stamp {
                modified: found.modified().ok(),
                bytes: found.len(),
                inode: inode(&found),
            });
            (file, stamp)
        });
        Self(stamped.collect())
    }
}

#[cfg(unix)]
fn inode(found: &fs::Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(_: &fs::Metadata) -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::Stamps;

    #[test]
    fn a_file_that_takes_the_place_of_another_is_a_change() {
        let folder = tempfile::tempdir().unwrap();
        let (file, other) = (folder.path().join("a.wasm"), folder.path().join("b.wasm"));
        let stamps = || Stamps::of(vec![file.clone()]);
        let missing = stamps();
        std::fs::write(&file, "one").unwrap();
        std::fs::write(&other, "two").unwrap();
        let time = std::fs::metadata(&file).unwrap().modified().unwrap();
        std::fs::File::options().write(true).open(&other).unwrap().set_modified(time).unwrap();
        let first = stamps();
        assert!(first != missing && first == stamps());
        std::fs::rename(&other, &file).unwrap();
        assert_ne!(first, stamps());
    }
}
