//! A journal that kills its process at one of its writes.

use super::recorder::Recorder;
use async_trait::async_trait;
use opcell_journal::{
    Append, ClockJump, Cut, Fence, InboxMessage, Journal, JournalError, NewRun, OpenedRun, Record, Retention, RunEntry,
    RunId, SqliteJournal,
};
use rustix::process::{Signal, getpid, kill_process};
use std::{
    io::Write as _,
    path::{Path, PathBuf},
    str::FromStr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// The moment of the death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Nothing of the write is there.
    Before,
    /// It is durable, and no one has seen it.
    After,
    /// The disk is full from this write on; the process dies at the next one, or when it gives up.
    Full,
}

/// Bytes that fit before the disk is full; kills cycle through them: none, and parts of a frame of the write-ahead log,
/// which is a header of 24 bytes and a page of 4,096.
const ROOM_BYTES: [u64; 4] = [0, 24, 2_000, 4_120 + 100];

/// The write that is the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Death {
    /// Writes are counted from 1, in each process.
    pub write: u64,
    /// Before it or after it.
    pub side: Side,
}

impl FromStr for Death {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not `before:N`, `after:N` or `full:N`");
        let (side, write) = text.split_once(':').ok_or_else(wrong)?;
        let side = match side {
            "before" => Side::Before,
            "after" => Side::After,
            "full" => Side::Full,
            _ => return Err(wrong()),
        };
        Ok(Self { write: write.parse().map_err(|_| wrong())?, side })
    }
}

impl std::fmt::Display for Death {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let side = match self.side {
            Side::Before => "before",
            Side::After => "after",
            Side::Full => "full",
        };
        write!(f, "{side}:{}", self.write)
    }
}

/// The journal of a child process.
pub struct Deadly {
    inner: SqliteJournal,
    recorder: Arc<Recorder>,
    death: Option<Death>,
    writes: Arc<AtomicU64>,
    /// The write-ahead log.
    log: PathBuf,
}

/// Kills this process: nothing is flushed, no destructor runs.
pub fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    std::process::abort()
}

impl Deadly {
    /// The journal in a file, whose process dies there. For [`Side::Full`], whoever makes it handles the signal of a
    /// file that is too large.
    pub fn open(
        file: &Path,
        recorder: Arc<Recorder>,
        death: Option<Death>,
    ) -> Result<(Self, Arc<AtomicU64>), JournalError> {
        let (inner, writes) = (SqliteJournal::open(file)?, Arc::new(AtomicU64::new(0)));
        let mut log = file.as_os_str().to_owned();
        log.push("-wal");
        if death.is_some_and(|death| death.side == Side::Full) {
            // What was written when the file was made would leave room in the log for what is to fail.
            let emptied = rusqlite::Connection::open(file)
                .and_then(|file| file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())));
            emptied.map_err(|error| JournalError::Storage(Arc::new(error)))?;
        }
        Ok((Self { inner, recorder, death, writes: writes.clone(), log: log.into() }, writes))
    }

    async fn write<T>(&self, work: impl Future<Output = Result<T, JournalError>>) -> Result<T, JournalError> {
        let write = self.writes.fetch_add(1, Ordering::SeqCst) + 1;
        self.die_at(write, Side::Before);
        if let Some(Death { write: full, side: Side::Full }) = self.death {
            if write > full {
                die();
            }
            if write == full {
                self.fill(write);
            }
        }
        let done = work.await;
        if let (Some(Death { side: Side::Full, .. }), Err(error)) = (self.death, &done) {
            let _ = writeln!(std::io::stderr(), "write {write}: {error}");
        }
        self.die_at(write, Side::After);
        done
    }

    fn die_at(&self, write: u64, side: Side) {
        if self.death == Some(Death { write, side }) {
            die();
        }
    }

    /// No file of this process gets longer from now on than the log may: the system refuses the rest of a write, as it
    /// does on a full disk. Only the recorder continues.
    fn fill(&self, write: u64) {
        let written = std::fs::metadata(&self.log).map_or(0, |log| log.len());
        let room = ROOM_BYTES.get(write as usize % ROOM_BYTES.len()).copied().unwrap_or_default();
        self.recorder.fill(written + room);
    }
}

#[async_trait]
impl Journal for Deadly {
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        let records = new.records.clone();
        self.write(async {
            let fence = self.inner.create(new).await?;
            self.recorder.durable(&records);
            Ok(fence)
        })
        .await
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        self.write(async {
            let opened = self.inner.acquire(run, cut).await?;
            // A process that was killed may not have got to say so of its last ones.
            self.recorder.durable(&opened.records);
            Ok(opened)
        })
        .await
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.write(self.inner.release(run, fence)).await
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        let records = append.records.clone();
        self.write(async {
            self.inner.append(append).await?;
            self.recorder.durable(&records);
            Ok(())
        })
        .await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.inner.read(run, after, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.inner.runs().await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.inner.runnable(now, limit).await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.inner.retain(rule).await
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.inner.check_clock(now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.inner.delete(run).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.write(self.inner.post(run, at, payload)).await
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.inner.inbox(run).await
    }
}
