//! The owner of a run: the process that holds the lock on a file of its own. The lock goes when the process does,
//! however it goes.

use opcell_types::files::{Folder, Readers};
use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

/// This journal's lock, held as long as it is open.
#[derive(Debug)]
pub(crate) struct Owner {
    name: String,
    directory: PathBuf,
    _lock: File,
}

impl Owner {
    /// Takes a lock of its own beside the store.
    pub(crate) fn new(store: &Path) -> io::Result<Self> {
        let mut directory = store.as_os_str().to_owned();
        directory.push(".owners");
        let directory = PathBuf::from(directory);
        // What is dead in it is removed: a link, which a checkout may bring along, could lead to anything.
        let (above, own) = (directory.parent().unwrap_or(Path::new("")), directory.file_name().unwrap_or_default());
        let made = Folder::open_or_make(above, Readers::Owner)?.make_below(Path::new(own), Readers::Owner)?;
        let name = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
        let file = made.create(&name, Readers::Owner)?;
        file.lock()?;
        Ok(Self { name, directory, _lock: file })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The names of the living processes that have the store open, this one among them.
    pub(crate) fn living(&self) -> io::Result<Vec<String>> {
        let mut living = Vec::new();
        for file in fs::read_dir(&self.directory)? {
            let name = file?.file_name().into_string().unwrap_or_default();
            if name == self.name || self.is_alive(&name) {
                living.push(name);
            }
        }
        Ok(living)
    }

    /// Returns `true` if another process has the store open.
    pub(crate) fn has_others(&self) -> io::Result<bool> {
        for file in fs::read_dir(&self.directory)? {
            if file?.file_name().to_str().is_some_and(|name| name != self.name && self.is_alive(name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns `true` if an owner still holds its lock. One whose file is gone is gone; one whose file cannot be read
    /// counts as there.
    pub(crate) fn is_alive(&self, owner: &str) -> bool {
        if owner == self.name {
            return true;
        }
        // Names come out of the store, which anyone may have made: none of them may lead out of the directory, and what
        // is no owner's file is neither opened nor removed. A pipe would be waited for.
        if !is_name(owner) {
            return false;
        }
        let path = self.directory.join(owner);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_file() || found.len() > 0) {
            return false;
        }
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) => return error.kind() != io::ErrorKind::NotFound,
        };
        match file.try_lock() {
            Ok(()) => {
                // What is left of a dead owner serves no one; if it stays, it is found dead again.
                let _ = fs::remove_file(&path);
                false
            }
            Err(TryLockError::WouldBlock) => true,
            Err(TryLockError::Error(_)) => true,
        }
    }
}

/// Returns `true` if a name is one that [`Owner::new`] gives: `PID-UUID`.
fn is_name(name: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.len() <= 10 && text.bytes().all(|byte| byte.is_ascii_digit());
    name.split_once('-').is_some_and(|(process, id)| is_number(process) && uuid::Uuid::try_parse(id).is_ok())
}

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock goes with the file handle; the file itself is only tidied up.
        let _ = fs::remove_file(self.directory.join(&self.name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEAD: &str = "17-0191f2a4-7c1e-7b53-8b6e-2f4f6b1d9a10";

    #[test]
    fn only_what_a_dead_owner_left_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let owner = Owner::new(&folder.path().join("runs.db")).unwrap();
        let place = folder.path().join("runs.db.owners");
        fs::write(folder.path().join("secret"), "").unwrap();
        for kept in ["id_rsa", "17-key", ".profile"] {
            fs::write(place.join(kept), "").unwrap();
            assert!(!owner.is_alive(kept), "{kept}");
            assert!(place.join(kept).exists(), "{kept}");
        }
        assert!(!owner.is_alive("../secret") && folder.path().join("secret").exists());
        // A name of the right form is not enough.
        fs::write(place.join(DEAD), "something").unwrap();
        assert!(!owner.is_alive(DEAD) && place.join(DEAD).exists());
        fs::remove_file(place.join(DEAD)).unwrap();
        std::os::unix::fs::symlink(folder.path().join("secret"), place.join(DEAD)).unwrap();
        assert!(!owner.is_alive(DEAD) && place.join(DEAD).exists());
        fs::remove_file(place.join(DEAD)).unwrap();
        fs::write(place.join(DEAD), "").unwrap();
        assert!(!owner.has_others().unwrap());
        assert!(!place.join(DEAD).exists() && place.join("id_rsa").exists());
    }

    #[test]
    fn a_link_in_the_place_of_the_directory_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("runs.db");
        fs::create_dir(folder.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join("runs.db.owners")).unwrap();
        assert_eq!(Owner::new(&store).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}
