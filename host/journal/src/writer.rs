//! One thread that writes: jobs that come at the same time share one transaction, and so one wait for the disk.

use crate::{checkpoint::Checkpoints, store::JournalError};
use rusqlite::{Connection, ErrorCode};
use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Maximum jobs of one transaction: enough to share the wait, few enough that no caller waits long.
const GROUP: usize = 256;

/// How long a transaction takes jobs: however long each of them is, no caller waits much longer for its commit.
const LONGEST: Duration = Duration::from_millis(4);

/// The longest that a transaction waits for those who shared the last one.
const PATIENCE: Duration = Duration::from_millis(1);

type CommitError = Arc<rusqlite::Error>;
type Finish = Box<dyn FnOnce(Result<(), CommitError>) + Send>;
type Job = Box<dyn FnOnce(Result<&Connection, CommitError>, usize) -> Finish + Send>;

/// Gives jobs to the writing thread. The thread ends when the last of these is dropped.
#[derive(Debug, Clone)]
pub(crate) struct Writer {
    jobs: mpsc::Sender<Job>,
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
    pub(crate) fn start(connection: Connection, mut checkpoints: Checkpoints) -> std::io::Result<Self> {
        let (jobs, inbox) = mpsc::channel();
        let work = move || work(&connection, &inbox, &mut checkpoints);
        thread::Builder::new().name("opcell-journal".to_owned()).spawn(work)?;
        Ok(Self { jobs })
    }

    /// Does something inside a transaction, and returns once it is durable. What fails leaves nothing behind, and does
    /// not disturb what shares its transaction.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        self.write_among(|connection, _| job(connection)).await
    }

    /// The same, for a job that wants to know how many shared the last transaction, and so are likely to share its own.
    pub(crate) async fn write_among<T: Send + 'static>(
        &self,
        job: impl FnOnce(&Connection, usize) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let (sender, receiver) = oneshot::channel();
        let job: Job = Box::new(move |connection, company| {
            let job = |connection: &Connection| job(connection, company);
            let result = connection.map_err(failed).and_then(|connection| apart(connection, job));
            Box::new(move |committed| {
                let result = match (result, committed) {
                    (Ok(done), Ok(())) => Ok(done),
                    (Err(error), _) => Err(error),
                    (Ok(_), Err(error)) => Err(failed(error)),
                };
                // Whoever asked may have stopped waiting.
                let _ = sender.send(result);
            })
        });
        self.jobs.send(job).map_err(|_| storage(WriterGone))?;
        receiver.await.map_err(|_| storage(WriterGone))?
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

fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

fn work(connection: &Connection, inbox: &mpsc::Receiver<Job>, checkpoints: &mut Checkpoints) {
    // Of the transaction before: how many jobs shared it, and how long its commit took.
    let (mut company, mut took) = (1, Duration::ZERO);
    while let Ok(first) = inbox.recv() {
        let began = Instant::now();
        let begun = execute(connection, "BEGIN IMMEDIATE").map_err(Arc::new);
        // Without a transaction nothing may be done: it could not be undone.
        let within = || begun.clone().map(|()| connection);
        let mut finish: Vec<Finish> = vec![first(within(), company)];
        let patience = Instant::now() + (took / 4).min(PATIENCE);
        while finish.len() < GROUP && began.elapsed() < LONGEST {
            let next = match inbox.try_recv() {
                Ok(job) => Ok(job),
                // Those who came together are likely to come together again, and then wait for the disk once.
                Err(_) if finish.len() < company => {
                    inbox.recv_timeout(patience.saturating_duration_since(Instant::now()))
                }
                Err(_) => break,
            };
            let Ok(job) = next else { break };
            finish.push(job(within(), company));
        }
        let started = Instant::now();
        let committed = begun.and_then(|()| execute(connection, "COMMIT").map_err(Arc::new));
        (company, took) = (finish.len(), started.elapsed());
        if committed.is_err() && !connection.is_autocommit() {
            // The next group must start from a clean state, or fail by itself.
            let _ = execute(connection, "ROLLBACK");
        }
        for finish in finish {
            finish(committed.clone());
        }
        checkpoints.committed(connection, company);
    }
}
