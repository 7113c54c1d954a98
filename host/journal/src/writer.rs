//! One thread that writes: jobs that come at the same time share one transaction, and so one wait for the disk.

use crate::{checkpoint::Checkpoints, journal::JournalError};
use rusqlite::{Connection, ErrorCode};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Maximum jobs of one transaction: enough to share the wait, few enough that no caller waits long.
const GROUP: usize = 256;

/// The time for which a transaction takes jobs: however long each of them is, no caller waits much longer for its
/// commit.
const MAX_TRANSACTION_TIME: Duration = Duration::from_millis(4);

/// The longest that a transaction waits for those who shared the last one.
const BATCH_WAIT: Duration = Duration::from_millis(1);

type CommitError = Arc<rusqlite::Error>;
type Finish = Box<dyn FnOnce(Result<(), CommitError>) + Send>;
type Job = Box<dyn FnOnce(Result<&Connection, CommitError>) -> Done + Send>;

/// A job that was done.
struct Done {
    /// Tells whoever waits for it what came of the transaction.
    finish: Finish,
    /// `true` if it failed and could not be undone alone: nothing of its transaction may stay.
    spoils: bool,
}

/// Gives jobs to the writing thread. The thread ends when the last of these is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
    expected_batch: Arc<AtomicUsize>,
    /// The file of the store.
    place: Arc<Path>,
}

pub(crate) fn storage(error: impl std::error::Error + Send + Sync + 'static) -> JournalError {
    JournalError::Storage(Arc::new(error))
}

#[derive(Debug, thiserror::Error)]
#[error("the journal's writer thread has stopped")]
struct WriterGone;

#[derive(Debug, thiserror::Error)]
#[error("the transaction could not be committed")]
struct NotCommitted(#[source] CommitError);

/// Why nothing of a transaction is there.
fn failed(error: CommitError) -> JournalError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Locked,
        _ => storage(NotCommitted(error)),
    }
}

impl Writer {
    /// Writes through a connection to the store at `place`.
    pub(crate) fn start(connection: Connection, mut checkpoints: Checkpoints, place: &Path) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let expected_batch = Arc::new(AtomicUsize::new(1));
        let last = Arc::clone(&expected_batch);
        let work = move || work(&connection, &inbox, &last, &mut checkpoints);
        thread::Builder::new().name("opcell-journal".to_owned()).spawn(work)?;
        Ok(Self { jobs, expected_batch, place: place.into() })
    }

    /// Returns the number of jobs that shared the last transaction, and so are likely to share the next.
    pub(crate) fn expected_batch(&self) -> usize {
        self.expected_batch.load(Ordering::Relaxed)
    }

    /// Does something inside a transaction, and returns once it is durable. What fails leaves nothing behind, and does
    /// not disturb what shares its transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.write_so(true, job).await
    }

    /// The same. `undoes`: whether the job may fail after it has changed something. One that only fails so when the
    /// storage does, is spared a savepoint, which takes as long as the rest of a small job; then all who share its
    /// transaction fail.
    pub(crate) async fn write_so<T: Send + 'static>(
        &self,
        undoes: bool,
        job: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            let result = connection.map_err(failed).and_then(|connection| match undoes {
                true => apart(connection, job),
                false => job(connection),
            });
            let spoils = !undoes && matches!(result, Err(JournalError::Storage(_) | JournalError::Locked));
            let finish: Finish = Box::new(move |committed| {
                let result = match (result, committed) {
                    (Ok(done), Ok(())) => Ok(done),
                    (Err(error), _) => Err(error),
                    (Ok(_), Err(error)) => Err(failed(error)),
                };
                // Whoever asked may have stopped waiting.
                let _ = sender.send(result);
            });
            Done { finish, spoils }
        });
        self.jobs.send(job).map_err(|_| storage(WriterGone))?;
        receiver.await.map_err(|_| storage(WriterGone))?.map_err(|error| error.at(&self.place))
    }
}

/// Runs a job so that it can be undone alone.
fn apart<T>(
    connection: &Connection,
    job: impl FnOnce(&Connection) -> Result<T, JournalError>,
) -> Result<T, JournalError> {
    execute(connection, "SAVEPOINT job").map_err(storage)?;
    let result = job(connection);
    if result.is_err() {
        execute(connection, "ROLLBACK TO job").map_err(storage)?;
    }
    execute(connection, "RELEASE job").map_err(storage)?;
    result
}

/// Why nothing of a transaction stays in which a job failed that could not be undone alone.
fn spoiled_by_another() -> rusqlite::Error {
    let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_ABORT);
    rusqlite::Error::SqliteFailure(code, Some("another write of the same transaction failed".to_owned()))
}

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn work(connection: &Connection, inbox: &mpsc::Receiver<Job>, last: &AtomicUsize, checkpoints: &mut Checkpoints) {
    // Of the transaction before: how many jobs shared it, and how long its commit took.
    let (mut expected_batch, mut took) = (1, Duration::ZERO);
    while let Ok(first) = inbox.recv() {
        let began = Instant::now();
        let begun = execute(connection, "BEGIN IMMEDIATE").map_err(Arc::new);
        // Without a transaction nothing may be done: it could not be undone.
        let within = || begun.clone().map(|()| connection);
        let mut done = vec![first(within())];
        let patience = Instant::now() + (took / 4).min(BATCH_WAIT);
        let is_spoiled = |done: &[Done]| done.last().is_some_and(|last| last.spoils);
        while done.len() < GROUP && began.elapsed() < MAX_TRANSACTION_TIME && !is_spoiled(&done) {
            let next = match inbox.try_recv() {
                Ok(job) => Ok(job),
                // Those who came together are likely to come together again, and then wait for the disk once.
                Err(_) if done.len() < expected_batch => {
                    inbox.recv_timeout(patience.saturating_duration_since(Instant::now()))
                }
                Err(_) => break,
            };
            let Ok(job) = next else { break };
            done.push(job(within()));
        }
        let started = Instant::now();
        let spoiled = is_spoiled(&done);
        let committed = match begun {
            Ok(()) if spoiled => Err(Arc::new(spoiled_by_another())),
            begun => begun.and_then(|()| execute(connection, "COMMIT").map_err(Arc::new)),
        };
        (expected_batch, took) = (done.len(), started.elapsed());
        last.store(expected_batch, Ordering::Relaxed);
        if committed.is_err() && !connection.is_autocommit() {
            // The next group must start from a clean state, or fail by itself.
            let _ = execute(connection, "ROLLBACK");
        }
        for done in done {
            (done.finish)(committed.clone());
        }
        checkpoints.committed(connection, expected_batch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_job_that_fails_without_a_savepoint_leaves_nothing_behind() {
        let folder = tempfile::tempdir().unwrap();
        let connection = Connection::open(folder.path().join("a.db")).unwrap();
        connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE numbers (n INTEGER)").unwrap();
        let checkpoints = Checkpoints::new(&connection, Box::new(|| None)).unwrap();
        let writer = Writer::start(connection, checkpoints, Path::new("runs.db")).unwrap();
        let put = |connection: &Connection, n: i64| {
            connection.execute("INSERT INTO numbers VALUES (?1)", [n]).map(drop).map_err(storage)
        };
        for (undoes, n) in [(true, 1), (false, 2)] {
            let failed =
                writer.write_so(undoes, move |connection| put(connection, n).and(Err::<(), _>(storage(WriterGone))));
            assert!(matches!(failed.await, Err(JournalError::Storage(_))));
        }
        writer.write_so(false, move |connection| put(connection, 3)).await.unwrap();
        let there: i64 = writer
            .write(|connection| {
                connection.query_row("SELECT sum(n) FROM numbers", [], |row| row.get(0)).map_err(storage)
            })
            .await
            .unwrap();
        assert_eq!(there, 3);
    }
}
