//! The bytes that plugins and models have written below granted directories, kept across processes: starting a plugin
//! again and again gives it no new quota. It is counted over a day, so that a report that is written every morning is
//! never refused for all the mornings before.

use opcell_types::{
    files::{Folder, Readers},
    quota::{QuotaStore, ThisProcess, WriterQuota, Written},
};
use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// The time for which an account counts, from the first write that it books, in seconds.
const PERIOD: u64 = 24 * 60 * 60;

/// The time that a write waits for another process that books in the same account.
const LOCK_TIMEOUT: Duration = Duration::from_secs(5);

/// Accounts in a folder from which on those that are no longer counted are removed.
const MAX_ACCOUNTS: usize = 1_000;

/// Accounts as files of one folder.
#[derive(Debug)]
pub(crate) struct FileQuotaStore {
    folder: PathBuf,
}

impl FileQuotaStore {
    /// Below the user's own state; without such a place, counts end with the process.
    pub(crate) fn of_user(state: Option<&Path>) -> Arc<dyn QuotaStore> {
        match state {
            Some(state) => Arc::new(Self { folder: state.join("written") }),
            None => Arc::new(ThisProcess),
        }
    }

    fn open(&self, writer: &str, directory: &Path) -> io::Result<FileQuota> {
        let folder = Folder::open_or_make(&self.folder, Readers::Owner)?;
        self.tidy();
        let mut name = blake3::Hasher::new();
        name.update(&(writer.len() as u64).to_le_bytes()).update(writer.as_bytes());
        name.update(directory.as_os_str().as_encoded_bytes());
        Ok(FileQuota { file: Mutex::new(folder.keep(name.finalize().to_hex().as_str())?) })
    }

    /// Removes accounts that have not been written to for longer than they count.
    fn tidy(&self) {
        let accounts: Vec<_> = std::fs::read_dir(&self.folder).into_iter().flatten().flatten().collect();
        if accounts.len() < MAX_ACCOUNTS {
            return;
        }
        for account in accounts {
            let modified = account.metadata().and_then(|metadata| metadata.modified()).ok();
            let age = modified.and_then(|modified| modified.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > PERIOD) {
                // Another process may have removed it already.
                let _ = std::fs::remove_file(account.path());
            }
        }
    }
}

impl QuotaStore for FileQuotaStore {
    fn account(&self, writer: &str, directory: &Path) -> Arc<dyn WriterQuota> {
        match self.open(writer, directory) {
            Ok(account) => Arc::new(account),
            Err(error) => {
                let folder = self.folder.display();
                tracing::warn!("write quotas begin anew with every process, for {folder} cannot be written: {error}");
                ThisProcess.account(writer, directory)
            }
        }
    }
}

/// One account: a file of three numbers, locked while one of the processes books.
#[derive(Debug)]
struct FileQuota {
    file: Mutex<File>,
}

/// The content of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct QuotaUsage {
    /// When the first of it was written, in seconds since 1970.
    since: u64,
    written: Written,
}

impl QuotaUsage {
    const BYTES: usize = 24;

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut numbers = bytes.chunks_exact(8).map(|chunk| chunk.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || numbers.next().unwrap_or_default();
        Self { since: next(), written: Written { bytes: next(), entries: next() } }
    }

    fn to_bytes(self) -> Vec<u8> {
        [self.since, self.written.bytes, self.written.entries].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// With more written now; none where the quota does not allow it.
    fn plus(self, more: Written, quota: Written, now: u64) -> Option<Self> {
        // A clock that was set back gives nothing back.
        let begun =
            if now.saturating_sub(self.since) >= PERIOD { Self { since: now, ..Self::default() } } else { self };
        Some(Self { written: begun.written.plus(more, quota)?, ..begun })
    }
}

impl FileQuota {
    fn book(&self, wanted: Written, quota: Written, now: u64) -> io::Result<bool> {
        let file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        lock(&file)?;
        let booked = read(&file).and_then(|booked| match booked.plus(wanted, quota, now) {
            Some(booked) => file.write_all_at(&booked.to_bytes(), 0).map(|()| true),
            None => Ok(false),
        });
        file.unlock()?;
        booked
    }
}

impl WriterQuota for FileQuota {
    fn take(&self, wanted: Written, quota: Written) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.book(wanted, quota, now).unwrap_or_else(|error| {
            tracing::warn!("nothing can be written below granted directories: its account cannot be kept: {error}");
            false
        })
    }

    fn waits(&self) -> bool {
        true
    }
}

/// Waits for other processes, but not for one that was stopped while it booked.
fn lock(file: &File) -> io::Result<()> {
    let begun = std::time::Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(()),
            Err(std::fs::TryLockError::WouldBlock) if begun.elapsed() < LOCK_TIMEOUT => {
                std::thread::sleep(Duration::from_micros(200));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A file that is new, or was cut short by a machine that went down, counts nothing.
fn read(file: &File) -> io::Result<QuotaUsage> {
    let mut bytes = [0; QuotaUsage::BYTES];
    match file.read_exact_at(&mut bytes, 0) {
        Ok(()) => Ok(QuotaUsage::from_bytes(bytes)),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(QuotaUsage::default()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Written = Written { bytes: 100, entries: 2 };

    fn account(folder: &Path, writer: &str) -> FileQuota {
        FileQuotaStore { folder: folder.join("written") }.open(writer, Path::new("/reports")).unwrap()
    }

    #[test]
    fn what_another_process_wrote_counts() {
        let folder = tempfile::tempdir().unwrap();
        // An account that is opened anew is what another process has.
        assert!(account(folder.path(), "plugin").take(Written::bytes(60), QUOTA));
        assert!(!account(folder.path(), "plugin").take(Written::bytes(60), QUOTA));
        assert!(account(folder.path(), "plugin").take(Written::bytes(40), QUOTA));
        assert!(account(folder.path(), "another").take(Written::bytes(60), QUOTA));
    }

    #[test]
    fn an_account_counts_for_a_day() {
        let folder = tempfile::tempdir().unwrap();
        let account = account(folder.path(), "plugin");
        let take = |bytes, now| account.book(Written::bytes(bytes), QUOTA, now).unwrap();
        assert!(take(100, 1_000_000) && !take(1, 1_000_000 + PERIOD - 1));
        assert!(take(100, 1_000_000 + PERIOD) && !take(1, 1_000_001 + PERIOD));
        // Set back by a year.
        assert!(!take(1, 1_000));
    }

    #[test]
    fn processes_that_write_at_once_stay_within_the_quota() {
        let folder = tempfile::tempdir().unwrap();
        let quota = Written { bytes: 1_000, entries: 0 };
        let taken: usize = std::thread::scope(|scope| {
            let take = || {
                let account = account(folder.path(), "plugin");
                (0..100).filter(|_| account.take(Written::bytes(3), quota)).count()
            };
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(taken, 333);
    }

    #[test]
    fn an_account_that_was_cut_short_is_started_anew() {
        let folder = tempfile::tempdir().unwrap();
        let account = account(folder.path(), "plugin");
        assert!(account.take(Written::ENTRY, QUOTA));
        account.file.lock().unwrap().set_len(7).unwrap();
        assert!(account.take(Written::ENTRY, QUOTA));
    }

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let booked = QuotaUsage { since: 1_764_000_000, written: Written { bytes: u64::MAX, entries: 258 } };
        let bytes: [u8; QuotaUsage::BYTES] = booked.to_bytes().try_into().unwrap();
        assert_eq!(QuotaUsage::from_bytes(bytes), booked);
    }
}
