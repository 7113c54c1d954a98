//! Quotas on the bytes that are written below a directory.

use std::{
    collections::HashMap,
    fmt::Debug,
    path::{Path, PathBuf},
    sync::{
        Arc, LazyLock, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// An amount of what a quota pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// Bytes of files.
    pub bytes: u64,
    /// Files and directories that are new.
    pub entries: u64,
}

impl Written {
    /// Bytes of a file that there is.
    #[must_use]
    pub const fn bytes(bytes: u64) -> Self {
        Self { bytes, entries: 0 }
    }

    /// One file or directory that is new.
    pub const ENTRY: Self = Self { bytes: 0, entries: 1 };

    /// Both together, if that is within the quota.
    #[must_use]
    pub fn plus(self, more: Self, quota: Self) -> Option<Self> {
        let bytes = self.bytes.checked_add(more.bytes).filter(|bytes| *bytes <= quota.bytes)?;
        let entries = self.entries.checked_add(more.entries).filter(|entries| *entries <= quota.entries)?;
        Some(Self { bytes, entries })
    }
}

/// The store of the accounts of written bytes.
pub trait QuotaStore: Debug + Send + Sync {
    /// The account of a writer for a directory, by its path without links. Asked again, it is the same account.
    fn account(&self, writer: &str, directory: &Path) -> Arc<dyn WriterQuota>;
}

/// The bytes that one writer has written below one directory.
pub trait WriterQuota: Debug + Send + Sync {
    /// Books an amount before it is written; false, and nothing is booked, where the quota does not allow it.
    fn take(&self, wanted: Written, quota: Written) -> bool;

    /// Returns `true` if `take` waits for files, and so belongs on a thread that may wait.
    fn waits(&self) -> bool {
        false
    }
}

/// Counts from the beginning of this process to its end: loading a plugin again gives it no new quota.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThisProcess;

#[derive(Debug, Default)]
struct Counters {
    bytes: AtomicU64,
    entries: AtomicU64,
}

impl QuotaStore for ThisProcess {
    fn account(&self, writer: &str, directory: &Path) -> Arc<dyn WriterQuota> {
        type Accounts = HashMap<(String, PathBuf), Arc<Counters>>;
        static ACCOUNTS: LazyLock<Mutex<Accounts>> = LazyLock::new(Mutex::default);
        let mut accounts = ACCOUNTS.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.entry((writer.to_owned(), directory.to_owned())).or_default().clone()
    }
}

impl WriterQuota for Counters {
    fn take(&self, wanted: Written, quota: Written) -> bool {
        let one = |used: &AtomicU64, wanted: u64, quota: u64| {
            let add = |used: u64| used.checked_add(wanted).filter(|used| *used <= quota);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
        };
        // Nothing takes bytes and entries at once, so neither has to be given back for the other's sake.
        (wanted.bytes == 0 || one(&self.bytes, wanted.bytes, quota.bytes))
            && (wanted.entries == 0 || one(&self.entries, wanted.entries, quota.entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUOTA: Written = Written { bytes: 1_000, entries: 2 };

    #[test]
    fn the_same_writer_has_one_account_for_a_directory() {
        let account = |writer| ThisProcess.account(writer, Path::new("/one"));
        assert!(account("reloaded").take(Written::bytes(600), QUOTA));
        assert!(!account("reloaded").take(Written::bytes(600), QUOTA));
        assert!(account("reloaded").take(Written::bytes(400), QUOTA));
        assert!(account("another").take(Written::bytes(600), QUOTA));
    }

    #[test]
    fn a_quota_holds_under_parallel_writers() {
        let account = ThisProcess.account("parallel", Path::new("/"));
        let take = || (0..1_000).filter(|_| account.take(Written::bytes(3), QUOTA)).count();
        let taken: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..8).map(|_| scope.spawn(take)).collect();
            writers.into_iter().map(|writer| writer.join().unwrap_or(0)).sum()
        });
        assert_eq!(taken, 333);
    }

    #[test]
    fn entries_are_counted_apart_from_bytes() {
        let account = ThisProcess.account("entries", Path::new("/"));
        assert!(account.take(Written::bytes(1_000), QUOTA) && account.take(Written::ENTRY, QUOTA));
        assert!(account.take(Written::ENTRY, QUOTA) && !account.take(Written::ENTRY, QUOTA));
    }
}
