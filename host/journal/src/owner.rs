//! Who drives a run: a process that holds the lock on a file of its own. The lock goes when the process does, however
//! it goes.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
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
        fs::create_dir_all(&directory)?;
        let name = format!("{}-{}", std::process::id(), uuid::Uuid::new_v4());
        let file = OpenOptions::new().create_new(true).write(true).open(directory.join(&name))?;
        file.lock()?;
        Ok(Self { name, directory, _lock: file })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether anyone else has the store open.
    pub(crate) fn has_company(&self) -> io::Result<bool> {
        for file in fs::read_dir(&self.directory)? {
            if file?.file_name().to_str().is_none_or(|name| name != self.name && self.is_alive(name)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an owner still holds its lock. One whose file is gone is gone; one whose file cannot be read counts as
    /// there.
    pub(crate) fn is_alive(&self, owner: &str) -> bool {
        if owner == self.name {
            return true;
        }
        // Names come out of the store: none of them may lead out of the directory.
        if owner.contains(['/', '\\']) || owner.starts_with('.') {
            return false;
        }
        let path = self.directory.join(owner);
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

impl Drop for Owner {
    fn drop(&mut self) {
        // The lock goes with the file handle; the file itself is only tidied up.
        let _ = fs::remove_file(self.directory.join(&self.name));
    }
}
