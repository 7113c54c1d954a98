//! A journal in an SQLite file: WAL, `synchronous = FULL`, one writing thread, any number of readers in any process.

use crate::{
    owner::Owner,
    record::{Fence, Letter, Record, RunEntry, RunId, RunState},
    store::{Append, Damage, Journal, JournalError, OpenedRun, Retention},
    writer::{Writer, storage},
};
use async_trait::async_trait;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, params};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

/// The newest schema that this code reads and writes.
const SCHEMA: u32 = 1;

/// How long to wait for another process's transaction.
const BUSY: Duration = Duration::from_secs(10);

const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    ended INTEGER NOT NULL,
    records INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE TABLE records (
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    checksum BLOB NOT NULL,
    PRIMARY KEY (run, seq)
) STRICT, WITHOUT ROWID;
CREATE TABLE letters (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT;
CREATE INDEX letters_by_run ON letters (run);
";

/// A journal in an SQLite file. Clones share it. Several processes can have one store open; each run has one owner among them.
#[derive(Debug, Clone)]
pub struct SqliteJournal {
    path: PathBuf,
    writer: Writer,
    reader: Arc<Mutex<Connection>>,
    owner: Arc<Owner>,
}

impl SqliteJournal {
    /// Opens a store, or makes one, and checks that it is sound.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] when the file is not a sound store, [`JournalError::NewerSchema`], or the storage's.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        let connection = connect(&path)?;
        check(&connection, &path)?;
        create(&connection, &path)?;
        let reader = connect(&path)?;
        let owner = Owner::new(&path).map_err(storage)?;
        let writer = Writer::start(connection).map_err(storage)?;
        Ok(Self { path, writer, reader: Arc::new(Mutex::new(reader)), owner: Arc::new(owner) })
    }

    async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let reader = self.reader.clone();
        let task = tokio::task::spawn_blocking(move || read(&reader.lock().unwrap_or_else(PoisonError::into_inner)));
        task.await.map_err(storage)?
    }
}

fn corrupt(path: &Path, reason: impl Into<String>) -> JournalError {
    JournalError::Corrupt { path: path.display().to_string(), reason: reason.into() }
}

fn sound(path: &Path) -> impl Fn(rusqlite::Error) -> JournalError + '_ {
    |error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => corrupt(path, error.to_string()),
        _ => storage(error),
    }
}

fn connect(path: &Path) -> Result<Connection, JournalError> {
    let connection = Connection::open(path).map_err(sound(path))?;
    connection.busy_timeout(BUSY).map_err(storage)?;
    let settings =
        "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA trusted_schema = OFF;";
    connection.execute_batch(settings).map_err(sound(path))?;
    Ok(connection)
}

fn check(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sound(path))?;
    if verdict == "ok" { Ok(()) } else { Err(corrupt(path, verdict)) }
}

fn create(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sound(path))?;
    let result = (|| {
        let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(storage)?;
        if found > SCHEMA {
            return Err(JournalError::NewerSchema { path: path.display().to_string(), found, newest: SCHEMA });
        }
        if found == 0 {
            let tables: i64 =
                connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(storage)?;
            if tables > 0 {
                return Err(corrupt(path, "it is an SQLite database of something else"));
            }
            connection.execute_batch(TABLES).map_err(storage)?;
            connection.execute_batch(&format!("PRAGMA user_version = {SCHEMA}")).map_err(storage)?;
        }
        Ok(())
    })();
    connection.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).map_err(storage)?;
    result
}

/// Covers everything a record says, and where it stands.
fn checksum(run: i64, record: &Record) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in [run, record.seq.cast_signed(), i64::from(record.version), record.at] {
        hasher.update(&part.to_le_bytes());
    }
    for text in [record.kind.as_bytes(), record.payload.as_bytes()] {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

/// A run's row.
struct Found {
    id: i64,
    fence: Fence,
    owner: Option<String>,
    records: u64,
}

fn find(connection: &Connection, run: &RunId) -> Result<Found, JournalError> {
    let found = connection
        .prepare_cached("SELECT id, fence, owner, records FROM runs WHERE run = ?1")
        .and_then(|mut query| {
            query
                .query_row([run.as_ref()], |row| {
                    Ok(Found {
                        id: row.get(0)?,
                        fence: Fence(unsigned(row, 1)?),
                        owner: row.get(2)?,
                        records: unsigned(row, 3)?,
                    })
                })
                .optional()
        })
        .map_err(storage)?;
    found.ok_or_else(|| JournalError::UnknownRun(run.clone()))
}

/// Numbers that only grow from 0 fit; a negative one was put there by somebody else.
fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// Reads records up to the first that is not what was written; the second value says what is wrong with that one.
fn good_records(
    connection: &Connection,
    run: i64,
    after: u64,
    limit: u64,
) -> Result<(Vec<Record>, Option<String>), JournalError> {
    let mut query = connection
        .prepare_cached(
            "SELECT seq, kind, version, at, payload, checksum FROM records WHERE run = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
        )
        .map_err(storage)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut rows = query.query(params![run, after.cast_signed(), limit]).map_err(storage)?;
    let mut records = Vec::new();
    for expected in after + 1.. {
        // A page that cannot be read any more is a broken tail as well.
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => break,
            Err(error) => return Ok((records, Some(error.to_string()))),
        };
        let read = |row: &Row<'_>| {
            let record = Record {
                seq: unsigned(row, 0)?,
                kind: row.get::<_, String>(1)?.into(),
                version: row.get(2)?,
                at: row.get(3)?,
                payload: row.get::<_, String>(4)?.into(),
            };
            Ok((record, row.get::<_, Vec<u8>>(5)?))
        };
        match read(row).map_err(|error: rusqlite::Error| error.to_string()) {
            Ok((record, _)) if record.seq != expected => {
                return Ok((records, Some(format!("record {expected} is missing"))));
            }
            Ok((record, sum)) if sum != checksum(run, &record) => {
                return Ok((
                    records,
                    Some(format!("record {expected} does not have the checksum it was written with")),
                ));
            }
            Ok((record, _)) => records.push(record),
            Err(problem) => return Ok((records, Some(problem))),
        }
    }
    Ok((records, None))
}

#[async_trait]
impl Journal for SqliteJournal {
    async fn create(&self, run: &RunId, workflow: &str, at: i64) -> Result<Fence, JournalError> {
        let (run, workflow, owner) = (run.clone(), workflow.to_owned(), self.owner.clone());
        self.writer
            .write(move |connection| {
                let made = connection
                    .execute(
                        "INSERT INTO runs (run, workflow, fence, owner, status, ended, records, created_at, updated_at)
                         VALUES (?1, ?2, 1, ?3, 'pending', 0, 0, ?4, ?4) ON CONFLICT (run) DO NOTHING",
                        params![run.as_ref(), workflow, owner.name(), at],
                    )
                    .map_err(storage)?;
                if made == 1 { Ok(Fence(1)) } else { Err(JournalError::RunExists(run)) }
            })
            .await
    }

    async fn acquire(&self, run: &RunId) -> Result<OpenedRun, JournalError> {
        let (run, owner) = (run.clone(), self.owner.clone());
        self.writer
            .write(move |connection| {
                let found = find(connection, &run)?;
                if let Some(holder) = found.owner.filter(|holder| owner.is_alive(holder)) {
                    return Err(JournalError::Held { run, owner: holder });
                }
                let (records, broken) = good_records(connection, found.id, 0, u64::MAX)?;
                let last_good = records.last().map_or(0, |record| record.seq);
                let reason = broken.or_else(|| {
                    (found.records > last_good)
                        .then(|| format!("{} records were written, and {last_good} are there", found.records))
                });
                let damage =
                    reason.map(|reason| Damage { last_good, cut: found.records.saturating_sub(last_good), reason });
                if damage.is_some() {
                    connection
                        .execute(
                            "DELETE FROM records WHERE run = ?1 AND seq > ?2",
                            params![found.id, last_good.cast_signed()],
                        )
                        .map_err(storage)?;
                }
                let fence = Fence(found.fence.0 + 1);
                connection
                    .execute(
                        "UPDATE runs SET fence = ?2, owner = ?3, records = ?4 WHERE id = ?1",
                        params![found.id, fence.0.cast_signed(), owner.name(), last_good.cast_signed()],
                    )
                    .map_err(storage)?;
                Ok(OpenedRun { fence, records, damage })
            })
            .await
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        let run = run.clone();
        self.writer
            .write(move |connection| {
                connection
                    .execute(
                        "UPDATE runs SET owner = NULL WHERE run = ?1 AND fence = ?2",
                        params![run.as_ref(), fence.0.cast_signed()],
                    )
                    .map_err(storage)?;
                Ok(())
            })
            .await
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.writer
            .write(move |connection| {
                let found = find(connection, &append.run)?;
                if found.fence != append.fence {
                    return Err(JournalError::Fenced { run: append.run, held: append.fence, newest: found.fence });
                }
                let mut insert = connection
                    .prepare_cached(
                        "INSERT INTO records (run, seq, kind, version, at, payload, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                    )
                    .map_err(storage)?;
                for (expected, record) in (found.records + 1..).zip(&append.records) {
                    if record.seq != expected {
                        let last = found.records;
                        return Err(JournalError::OutOfOrder { run: append.run, last, expected, got: record.seq });
                    }
                    let row = params![
                        found.id,
                        record.seq.cast_signed(),
                        record.kind,
                        record.version,
                        record.at,
                        record.payload.as_ref(),
                        checksum(found.id, record)
                    ];
                    insert.execute(row).map_err(storage)?;
                }
                let Some(last) = append.records.last() else { return Ok(()) };
                let (status, ended) = match &append.state {
                    Some(state) => (Some(state.status.as_ref()), Some(state.ended)),
                    None => (None, None),
                };
                connection
                    .prepare_cached(
                        "UPDATE runs SET records = ?2, updated_at = ?3, status = coalesce(?4, status), ended = coalesce(?5, ended) WHERE id = ?1",
                    )
                    .and_then(|mut update| update.execute(params![found.id, last.seq.cast_signed(), last.at, status, ended]))
                    .map_err(storage)?;
                Ok(())
            })
            .await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        let (run, path) = (run.clone(), self.path.clone());
        self.read_with(move |connection| {
            let found = find(connection, &run)?;
            match good_records(connection, found.id, after, limit)? {
                // What can still be read is given; resuming the run cuts the rest and says so.
                (records, Some(_)) if !records.is_empty() => Ok(records),
                (_, Some(problem)) => Err(corrupt(&path, format!("run `{run}`: {problem}"))),
                (records, None) => Ok(records),
            }
        })
        .await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        let owner = self.owner.clone();
        self.read_with(move |connection| {
            let mut query = connection
                .prepare_cached(
                    "SELECT run, workflow, status, ended, records, created_at, updated_at, owner FROM runs ORDER BY created_at DESC, run DESC",
                )
                .map_err(storage)?;
            let entries = query.query_map([], |row| {
                Ok(RunEntry {
                    run: row.get::<_, String>(0)?.into(),
                    workflow: row.get::<_, String>(1)?.into(),
                    state: RunState { status: row.get::<_, String>(2)?.into(), ended: row.get(3)? },
                    records: unsigned(row, 4)?,
                    created_at: row.get(5)?,
                    updated_at: row.get(6)?,
                    driven: row.get::<_, Option<String>>(7)?.is_some_and(|holder| owner.is_alive(&holder)),
                })
            });
            entries.map_err(storage)?.collect::<Result<_, _>>().map_err(storage)
        })
        .await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        let ended = self.runs().await?.into_iter().filter(|run| run.state.ended && !run.driven);
        let gone: Vec<RunId> =
            ended.zip(1..).filter(|(run, rank)| rule.drops(run, *rank)).map(|(run, _)| run.run).collect();
        self.writer
            .write(move |connection| {
                for run in &gone {
                    // Asked again inside the transaction: a run that was taken up since has to stay.
                    connection
                        .execute("DELETE FROM runs WHERE run = ?1 AND ended = 1", [run.as_ref()])
                        .map_err(storage)?;
                }
                Ok(gone)
            })
            .await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        let run = run.clone();
        self.writer
            .write(move |connection| {
                let found = find(connection, &run)?;
                connection
                    .execute(
                        "INSERT INTO letters (run, at, payload) VALUES (?1, ?2, ?3)",
                        params![found.id, at, payload.as_ref()],
                    )
                    .map_err(storage)?;
                Ok(())
            })
            .await
    }

    async fn letters(&self, run: &RunId) -> Result<Vec<Letter>, JournalError> {
        let run = run.clone();
        self.read_with(move |connection| {
            let mut query = connection
                .prepare_cached("SELECT l.id, l.at, l.payload FROM letters l JOIN runs r ON r.id = l.run WHERE r.run = ?1 ORDER BY l.id")
                .map_err(storage)?;
            let letters = query.query_map([run.as_ref()], |row| {
                Ok(Letter { id: unsigned(row, 0)?, at: row.get(1)?, payload: row.get::<_, String>(2)?.into() })
            });
            letters.map_err(storage)?.collect::<Result<_, _>>().map_err(storage)
        })
        .await
    }

    async fn discard(&self, run: &RunId, id: u64) -> Result<(), JournalError> {
        let run = run.clone();
        self.writer
            .write(move |connection| {
                let found = find(connection, &run)?;
                connection
                    .execute("DELETE FROM letters WHERE run = ?1 AND id <= ?2", params![found.id, id.cast_signed()])
                    .map_err(storage)?;
                Ok(())
            })
            .await
    }
}
