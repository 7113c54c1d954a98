//! The process's descriptors: cells together leave enough of them for everything else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// Descriptors that no cell gets: connections, the journal, child processes.
const RESERVED_DESCRIPTORS: u64 = 256;

/// The most that a process asks for: every one is a little kernel memory, and some programs walk through all that they
/// might have.
const ENOUGH: u64 = 65_536;

/// Files and directories that all cells of this process have open.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// Raises the soft limit of open descriptors as far as it needs no permission.
pub(crate) fn make_room() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    if limit.current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(wanted), maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit of open descriptors stays low");
        }
    }
}

/// Descriptors that cells may have open together.
fn most() -> u64 {
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    limit.saturating_sub(RESERVED_DESCRIPTORS).max(limit / 4)
}

/// The files and directories that one cell has open.
#[derive(Debug, Default)]
pub(crate) struct OpenFiles(u64);

impl OpenFiles {
    /// Counts one more; the error says which limit is in the way.
    pub(crate) fn open(&mut self, limit: u64) -> Result<(), String> {
        if self.0 >= limit {
            return Err(format!("a cell opens at most {limit} files and directories at a time (limit `open-files`)"));
        }
        let most = most();
        let add = |open: u64| Some(open + 1).filter(|open| *open <= most);
        if OPEN.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_err() {
            return Err(format!(
                "all cells of this host together have {most} files and directories open, as many as `ulimit -n` leaves them; try again later"
            ));
        }
        self.0 += 1;
        Ok(())
    }

    /// Counts one less.
    pub(crate) fn close(&mut self) {
        if let Some(left) = self.0.checked_sub(1) {
            self.0 = left;
            OPEN.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        OPEN.fetch_sub(self.0, Ordering::Relaxed);
    }
}
