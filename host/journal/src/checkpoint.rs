//! Moving what the write-ahead log holds into the store's file.
//!
//! SQLite does it inside of the commit that finds the log long, and all who share that commit wait for it. Where many
//! write, a thread beside the writer does it instead; the log may grow meanwhile, but not without bound.

use rusqlite::Connection;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{self, SyncSender},
    },
    thread,
    time::Duration,
};

/// Jobs after which it is looked how long the log is.
const CHECK_TRANSACTIONS: usize = 8;

/// Pages of a log that is long: SQLite's own measure.
const LONG_LOG_PAGES: i64 = 1_000;

/// Pages of a log that does not become longer: the writer moves them itself.
const MAX_LOG_PAGES: i64 = 16_000;

/// The number of jobs that have to share a transaction for it to matter that none of them waits.
const MIN_SHARED_JOBS: usize = 8;

/// The pause between two rounds of the thread: what is written again and again is moved once.
const PAUSE: Duration = Duration::from_millis(100);

/// Opens the store once more; none where it cannot be.
pub(crate) type Connect = Box<dyn Fn() -> Option<Connection> + Send>;

/// Decides when, and by whom.
pub(crate) struct Checkpoints {
    connect: Connect,
    jobs: usize,
    thread: Option<SyncSender<()>>,
    /// Held by the thread while it is at work: two at a time is more than SQLite lets.
    turn: Arc<Mutex<()>>,
}

impl Checkpoints {
    /// For a writer whose connection does none by itself from now on.
    pub(crate) fn new(writer: &Connection, connect: Connect) -> rusqlite::Result<Self> {
        writer.pragma_update(None, "wal_autocheckpoint", 0)?;
        Ok(Self { connect, jobs: 0, thread: None, turn: Arc::default() })
    }

    /// After a transaction that this many jobs shared.
    pub(crate) fn committed(&mut self, writer: &Connection, expected_batch: usize) {
        self.jobs += expected_batch;
        if self.jobs < CHECK_TRANSACTIONS {
            return;
        }
        self.jobs = 0;
        let Ok(pages) = checkpoint(writer, "NOOP") else { return };
        if pages < LONG_LOG_PAGES || (expected_batch >= MIN_SHARED_JOBS && pages < MAX_LOG_PAGES && self.beside()) {
            return;
        }
        // After the thread's turn, so that the whole log is moved and begins anew. What others read stays, and can be
        // moved later.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = checkpoint(writer, "PASSIVE");
    }

    /// Has the thread do it; whether there is one.
    fn beside(&mut self) -> bool {
        if let Some(thread) = &self.thread {
            // One that is at work, or about to be, need not be told.
            return !matches!(thread.try_send(()), Err(mpsc::TrySendError::Disconnected(())));
        }
        let Some(connection) = (self.connect)() else { return false };
        let (wake, woken) = mpsc::sync_channel(1);
        let turn = self.turn.clone();
        let work = move || {
            while woken.recv().is_ok() {
                {
                    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
                    let _ = checkpoint(&connection, "PASSIVE");
                }
                thread::sleep(PAUSE);
            }
        };
        let spawned = thread::Builder::new().name("opcell-checkpoint".to_owned()).spawn(work).is_ok();
        self.thread = spawned.then_some(wake);
        spawned && self.beside()
    }
}

/// Does what the mode says; how many pages the log has.
fn checkpoint(connection: &Connection, mode: &str) -> rusqlite::Result<i64> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), [], |row| row.get(1))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    /// A store with a log that grows by a page for each job.
    fn store(folder: &tempfile::TempDir) -> (Connection, Checkpoints) {
        let path = folder.path().join("store.db");
        let connect = move || {
            let connection = Connection::open(&path).unwrap();
            connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF;").unwrap();
            connection
        };
        let writer = connect();
        writer.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)").unwrap();
        let checkpoints = Checkpoints::new(&writer, Box::new(move || Some(connect()))).unwrap();
        (writer, checkpoints)
    }

    fn write(writer: &Connection, checkpoints: &mut Checkpoints, expected_batch: usize) {
        writer.execute("INSERT INTO t (x) VALUES (zeroblob(20000))", []).unwrap();
        checkpoints.committed(writer, expected_batch);
    }

    #[test]
    fn a_writer_without_company_moves_its_pages_itself() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, mut checkpoints) = store(&folder);
        for _ in 0..2_000 {
            write(&writer, &mut checkpoints, 1);
            let pages = checkpoint(&writer, "NOOP").unwrap();
            assert!(pages < 2 * LONG_LOG_PAGES, "{pages}");
        }
        assert!(checkpoints.thread.is_none());
    }

    #[test]
    fn where_many_write_a_thread_moves_their_pages_and_the_log_stays_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (writer, mut checkpoints) = store(&folder);
        for _ in 0..8_000 {
            write(&writer, &mut checkpoints, 64);
            let pages = checkpoint(&writer, "NOOP").unwrap();
            assert!(pages < MAX_LOG_PAGES + LONG_LOG_PAGES, "{pages}");
        }
        assert!(checkpoints.thread.is_some());
        let rows: i64 = writer.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 8_000);
    }
}
