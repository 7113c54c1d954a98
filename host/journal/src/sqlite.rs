//! A journal in an SQLite file: WAL, `synchronous = FULL`, one writing thread, any number of readers in any process.

mod backup;
mod clock;
mod news;
mod packs;
mod rows;
mod schema;
mod staging;
mod values;
#[cfg(target_os = "linux")]
mod watch;

pub use backup::{BackupError, backup, restore};

use crate::{
    checkpoint::Checkpoints,
    clock::ClockJump,
    journal::{
        Append, Cut, Damage, FoundValues, Journal, JournalError, NewRun, OpenedRun, Retention, busiest_first, shown,
    },
    owner::Owner,
    query::{Driver, RunQuery, StatusTally, tally},
    record::{Fence, InboxMessage, Record, RunEntry, RunId, RunState},
    writer::{Writer, storage},
};
use async_trait::async_trait;
use news::{Look, News};
use rows::{Found, Most, Read, Rows, cut, find, fit, good_records, insert, put_snapshot, snapshot, unsigned};
use rusqlite::{Connection, OptionalExtension, Row, params};
use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// Bytes of text after which a read is full: packs hold 250 times what they take in the file.
const MAX_READ_BYTES: usize = 16 << 20;

/// Bytes of text of the records that are read to take a run over: those after its last snapshot.
const MAX_RESUMED_BYTES: usize = 1 << 30;

/// Longest name of a run or a workflow, and longest status, that lists show.
const MAX_NAME_BYTES: usize = 4 << 10;

/// The beginning of the name that lists show where that of a run cannot be read; the number of its row follows.
const DAMAGED_ROW: &str = "damaged-row-";

/// A journal in an SQLite file. Clones share it. Several processes can have one store open; each run has one owner
/// among them.
#[derive(Debug, Clone)]
pub struct SqliteJournal {
    writer: Writer,
    reader: Arc<Mutex<Connection>>,
    /// Reads lists, which may be long, so that no one who reads a run waits for them.
    lists: Arc<Mutex<Connection>>,
    owner: Arc<Owner>,
    /// The rows of runs that this process drives.
    rows: Arc<Mutex<HashMap<RunId, i64>>>,
    /// The file, and what identifies it.
    file: Arc<(PathBuf, Option<(u64, u64)>)>,
    news: Arc<News>,
}

/// Returns the identity of a file, whatever its name.
#[cfg(unix)]
fn identity(path: &Path) -> Option<(u64, u64)> {
    let status = std::fs::metadata(path).ok()?;
    Some((std::os::unix::fs::MetadataExt::dev(&status), std::os::unix::fs::MetadataExt::ino(&status)))
}

#[cfg(not(unix))]
fn identity(_path: &Path) -> Option<(u64, u64)> {
    None
}

impl SqliteJournal {
    /// Opens a store, or makes one that only this user can read, and checks that it is sound.
    ///
    /// # Errors
    /// [`JournalError::Corrupt`] when the file is not a sound store, [`JournalError::Schema`],
    /// [`JournalError::Locked`], or the storage's.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, JournalError> {
        let path = path.into();
        Self::open_at(path.clone()).map_err(|error| error.at(&path))
    }

    fn open_at(path: PathBuf) -> Result<Self, JournalError> {
        let connection = schema::open(&path)?;
        let [reader, lists] = [schema::connect(&path)?, schema::connect(&path)?].map(|one| Arc::new(Mutex::new(one)));
        let owner = Owner::new(&path).map_err(storage)?;
        let again = path.clone();
        let checkpoints =
            Checkpoints::new(&connection, Box::new(move || schema::connect(&again).ok())).map_err(storage)?;
        let writer = Writer::start(connection, checkpoints, &path).map_err(storage)?;
        let news = Arc::new(News::new(&path));
        let file = Arc::new((path.clone(), identity(&path)));
        Ok(Self { writer, reader, lists, owner: Arc::new(owner), rows: Arc::default(), file, news })
    }

    /// Returns the identifier that a store has in its file from when it was made, or first opened since stores have
    /// them: copies share it, and a file that is written over another one has its own. Blocks.
    #[must_use]
    pub fn identifier_in(path: &Path) -> Option<i32> {
        schema::identifier_in(path)
    }

    fn rows(&self) -> MutexGuard<'_, HashMap<RunId, i64>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of a run's row. It may be another run's by the time of writing, when this one was removed: [`stand`]
    /// looks.
    async fn row_of(&self, run: &RunId) -> Result<i64, JournalError> {
        let known = self.rows().get(run).copied();
        if let Some(row) = known {
            return Ok(row);
        }
        let name = run.clone();
        self.read_with(move |connection| Ok(find(connection, &name)?.id)).await
    }

    async fn read_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        on(self.reader.clone(), read).await.map_err(|error| error.at(&self.file.0))
    }

    async fn list_with<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        on(self.lists.clone(), read).await.map_err(|error| error.at(&self.file.0))
    }
}

async fn on<T: Send + 'static>(
    connection: Arc<Mutex<Connection>>,
    read: impl FnOnce(&Connection) -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    let task = tokio::task::spawn_blocking(move || read(&connection.lock().unwrap_or_else(PoisonError::into_inner)));
    task.await.map_err(storage)?
}

/// A run in a list: columns `run, workflow, status, ended, records, created_at, updated_at, owner, due, id`. A row that
/// another program wrote never hides the others.
fn entry(row: &Row<'_>, owner: &Owner) -> RunEntry {
    readable(row, owner).unwrap_or_else(|_| damaged(row))
}

fn readable(row: &Row<'_>, owner: &Owner) -> rusqlite::Result<RunEntry> {
    let holder = row.get_ref(7)?.as_str_or_null()?.filter(|holder| owner.is_alive(holder));
    Ok(RunEntry {
        run: name(row, 0)?.into(),
        workflow: name(row, 1)?.into(),
        state: RunState { status: name(row, 2)?.to_owned().into(), ended: row.get(3)?, due: row.get(8)? },
        records: unsigned(row, 4)?,
        created_at: row.get(5)?,
        updated_at: row.get(6)?,
        driven: holder.is_some(),
        driver: holder.map(|holder| shown(holder).into()),
    })
}

fn name<'a>(row: &'a Row<'_>, column: usize) -> rusqlite::Result<&'a str> {
    let name = row.get_ref(column)?.as_str()?;
    if name.len() > MAX_NAME_BYTES {
        return Err(rusqlite::Error::InvalidColumnName(format!("longer than {MAX_NAME_BYTES} bytes")));
    }
    Ok(name)
}

/// The readable part of a row, under a name that a page of a list can begin after.
fn damaged(row: &Row<'_>) -> RunEntry {
    let run = name(row, 0).map_or_else(|_| format!("{DAMAGED_ROW}{}", row.get(9).unwrap_or(0_i64)), str::to_owned);
    RunEntry {
        run: run.into(),
        workflow: name(row, 1).unwrap_or("?").into(),
        state: RunState { status: RunEntry::DAMAGED.into(), ended: true, due: None },
        records: unsigned(row, 4).unwrap_or(0),
        created_at: row.get(5).unwrap_or(0),
        updated_at: row.get(6).unwrap_or(0),
        driven: false,
        driver: None,
    }
}

/// Returns the number of the row after which a page begins.
fn row_before(connection: &Connection, run: &RunId) -> Result<i64, JournalError> {
    let mut query = connection.prepare_cached("SELECT id FROM runs WHERE run = ?1").map_err(storage)?;
    let row = query.query_row([run.as_ref()], |row| row.get(0)).optional().map_err(storage)?;
    let row = row.or_else(|| run.strip_prefix(DAMAGED_ROW)?.parse().ok());
    row.ok_or_else(|| JournalError::UnknownRun(run.clone()))
}

/// Checks that the file that was opened is the one at its path.
fn check_in_place(file: &(PathBuf, Option<(u64, u64)>)) -> Result<(), JournalError> {
    let (path, opened) = file;
    if identity(path) == *opened {
        return Ok(());
    }
    let cause = Arc::new(std::io::Error::other(
        "the file was removed or replaced; what is written now is lost: stop this process, and put the file back",
    ));
    Err(JournalError::Unreachable { place: path.display().to_string(), cause })
}

/// Cuts what is broken after the last intact record, if allowed, and returns what was cut.
fn mend(
    connection: &Connection,
    run: &RunId,
    found: &Found,
    read: &Read,
    last_good: u64,
    may: Cut,
) -> Result<Option<Damage>, JournalError> {
    let missing = (found.records > last_good)
        .then(|| format!("{} records were written, but only {last_good} are present", found.records));
    let Some(reason) = read.broken.clone().or(missing) else { return Ok(None) };
    if read.behind > 0 && may == Cut::Tail {
        return Err(JournalError::Broken { run: run.clone(), last_good, reason, behind: read.behind });
    }
    cut(connection, found.id, last_good)?;
    connection
        .execute("DELETE FROM snapshots WHERE run = ?1 AND seq > ?2", params![found.id, last_good.cast_signed()])
        .map_err(storage)?;
    Ok(Some(Damage { last_good, cut: found.records.saturating_sub(last_good), reason }))
}

#[async_trait]
impl Journal for SqliteJournal {
    fn keeps_values(&self) -> bool {
        true
    }

    async fn probe(&self) -> Result<(), JournalError> {
        check_in_place(&self.file)?;
        let probe = format!("PRAGMA user_version = {}", schema::SCHEMA);
        self.writer.write(move |connection| connection.execute_batch(&probe).map_err(storage)).await
    }

    async fn values(&self, digests: &[Arc<str>], max_bytes: u64) -> Result<FoundValues, JournalError> {
        if digests.is_empty() {
            return Ok(FoundValues::default());
        }
        let digests = digests.to_vec();
        self.read_with(move |connection| values::get(connection, &digests, max_bytes)).await
    }

    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        fit(&new.run, 0, &new.records)?;
        let owner = self.owner.clone();
        let (run, ended) = (new.run.clone(), new.state.ended);
        let file = self.file.clone();
        let row = self
            .writer
            .write(move |connection| {
                // Runs in progress end in the file in which they began; a new one would be lost with it.
                check_in_place(&file)?;
                let owner = (!new.state.ended).then(|| owner.name());
                let last = new.records.last();
                let values = params![
                    new.run.as_ref(),
                    new.workflow.as_ref(),
                    owner,
                    new.state.status,
                    new.state.ended,
                    new.state.due,
                    last.map_or(0, |last| last.seq.cast_signed()),
                    new.at,
                    last.map_or(new.at, |last| last.at)
                ];
                let made = connection
                    .prepare_cached(
                        "INSERT INTO runs (run, workflow, fence, owner, status, ended, due, records, created_at, updated_at)
                         VALUES (?1, ?2, 1, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (run) DO NOTHING",
                    )
                    .and_then(|mut insert| insert.execute(values))
                    .map_err(storage)?;
                if made == 0 {
                    return Err(JournalError::RunExists(new.run));
                }
                let row = connection.last_insert_rowid();
                insert(connection, &Rows::new(row, new.records, 1))?;
                Ok(row)
            })
            .await?;
        if !ended {
            self.rows().insert(run, row);
        }
        Ok(Fence(1))
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        let (run, owner, file) = (run.clone(), self.owner.clone(), self.file.clone());
        let taken = run.clone();
        let (row, opened) = self
            .writer
            .write(move |connection| {
                let found = find(connection, &run)?;
                if let Some(holder) = found.owner.as_ref().filter(|holder| owner.is_alive(holder)) {
                    return Err(JournalError::Held { run, owner: holder.clone() });
                }
                let snapshot = snapshot(connection, &found);
                let after = snapshot.as_ref().map_or(0, |snapshot| snapshot.seq);
                let most = Most { records: u64::MAX, bytes: MAX_RESUMED_BYTES };
                let read = good_records(connection, found.id, after, most)?;
                if read.is_full {
                    return Err(JournalError::TooLarge { run, bytes: MAX_RESUMED_BYTES });
                }
                let last_good = read.records.last().map_or(after, |record| record.seq);
                let damage = mend(connection, &run, &found, &read, last_good, cut)?;
                let fence = found.fence.next().map_err(|reason| schema::corrupt(&file.0, reason))?;
                connection
                    .execute(
                        "UPDATE runs SET fence = ?2, owner = ?3, records = ?4 WHERE id = ?1",
                        params![found.id, fence.0.cast_signed(), owner.name(), last_good.cast_signed()],
                    )
                    .map_err(storage)?;
                Ok((found.id, OpenedRun { fence, snapshot, records: read.records, damage }))
            })
            .await?;
        self.rows().insert(taken, row);
        Ok(opened)
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.rows().remove(run);
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
        let Append { run, fence, records, state, snapshot, inbox } = append;
        let row = self.row_of(&run).await?;
        let ends = state.as_ref().is_some_and(|state| state.ended);
        if let Some(first) = records.first() {
            fit(&run, first.seq.saturating_sub(1), &records)?;
        }
        let before = records.first().map(|first| first.seq.saturating_sub(1));
        // Many are packed by the thread that writes, while the run continues.
        let expected_batch = self.writer.expected_batch();
        let (few, many) = match records.len() < packs::FEWEST {
            true => (Some(Rows::new(row, records, expected_batch)), Vec::new()),
            false => (None, records),
        };
        let name = run.clone();
        // Nothing of a small append among many can be refused once its run's row has taken it.
        let is_plain = snapshot.is_none() && few.as_ref().is_some_and(Rows::are_plain);
        let done = self
            .writer
            .write_so(!is_plain, move |connection| {
                let rows = few.unwrap_or_else(|| Rows::new(row, many, expected_batch));
                if !stand(connection, (row, &name), fence, before, rows.last(), state.as_ref())? {
                    return Err(refusal(connection, name, row, fence, before)?);
                }
                insert(connection, &rows)?;
                if let Some(snapshot) = snapshot.filter(|_| !ends) {
                    put_snapshot(connection, row, &snapshot)?;
                }
                if let Some(last) = inbox {
                    connection
                        .prepare_cached("DELETE FROM inbox WHERE run = ?1 AND id <= ?2")
                        .and_then(|mut delete| delete.execute(params![row, last.cast_signed()]))
                        .map_err(storage)?;
                }
                if ends {
                    // What is at its end needs no snapshot.
                    connection
                        .prepare_cached("DELETE FROM snapshots WHERE run = ?1")
                        .and_then(|mut delete| delete.execute([row]))
                        .map_err(storage)?;
                }
                Ok(())
            })
            .await;
        if ends || done.is_err() {
            self.rows().remove(&run);
        }
        done
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        let run = run.clone();
        self.read_with(move |connection| {
            let found = find(connection, &run)?;
            let read = good_records(connection, found.id, after, Most { records: limit, bytes: MAX_READ_BYTES })?;
            match read.broken {
                // What can still be read is returned; a reader that continues after it gets the error.
                Some(_) if !read.records.is_empty() => Ok(read.records),
                Some(reason) if read.behind > 0 => {
                    Err(JournalError::Broken { run, last_good: after, reason, behind: read.behind })
                }
                Some(reason) => Err(JournalError::Torn { run, last_good: after, reason }),
                None if read.records.is_empty() && limit > 0 && after < found.records => {
                    let reason = format!("{} records were written, but only {after} are present", found.records);
                    Err(JournalError::Torn { run, last_good: after, reason })
                }
                None => Ok(read.records),
            }
        })
        .await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        let owner = self.owner.clone();
        self.list_with(move |connection| {
            let mut query = connection
                .prepare_cached(
                    "SELECT run, workflow, status, ended, records, created_at, updated_at, owner, due, id FROM runs ORDER BY created_at DESC, run DESC",
                )
                .map_err(storage)?;
            let entries = query.query_map([], |row| Ok(entry(row, &owner)));
            entries.map_err(storage)?.collect::<Result<_, _>>().map_err(storage)
        })
        .await
    }

    async fn page(&self, query: RunQuery) -> Result<Vec<RunEntry>, JournalError> {
        let owner = self.owner.clone();
        self.list_with(move |connection| {
            let before = query.before.as_ref().map(|before| row_before(connection, before)).transpose()?;
            // Rows are numbered in the order in which runs are made.
            let mut rows = connection
                .prepare_cached(
                    "SELECT run, workflow, status, ended, records, created_at, updated_at, owner, due, id FROM runs
                     WHERE id < ?1 AND (?2 IS NULL OR run >= ?2 AND run < ?2 || char(1114111))
                       AND (?3 IS NULL OR workflow = ?3) AND (?4 IS NULL OR status = ?4)
                       AND (?5 IS NULL OR created_at >= ?5) AND (?6 IS NULL OR created_at < ?6) ORDER BY id DESC",
                )
                .map_err(storage)?;
            let wanted = params![
                before.unwrap_or(i64::MAX),
                query.prefix.as_deref(),
                query.workflow.as_deref(),
                query.stored_status(),
                query.since,
                query.until
            ];
            let mut rows = rows.query(wanted).map_err(storage)?;
            let mut found = Vec::new();
            while found.len() < query.limit
                && let Some(row) = rows.next().map_err(storage)?
            {
                found.extend(Some(entry(row, &owner)).filter(|run| query.matches(run)));
            }
            Ok(found)
        })
        .await
    }

    async fn tally(&self, now: i64) -> Result<BTreeMap<String, StatusTally>, JournalError> {
        let owner = self.owner.clone();
        self.list_with(move |connection| {
            // One run of each kind stands for all of them.
            let mut query = connection
                .prepare_cached(
                    "SELECT run, workflow, status, ended, min(records, 2), created_at, min(updated_at), owner,
                            CASE WHEN due <= ?1 THEN 0 WHEN due IS NULL THEN NULL ELSE 9223372036854775807 END AS when_due, min(id), count(*)
                     FROM runs GROUP BY status, ended, min(records, 2), owner, when_due",
                )
                .map_err(storage)?;
            let kinds = query.query_map([now], |row| Ok((entry(row, &owner), unsigned(row, 10)?)));
            let kinds: Vec<_> = kinds.map_err(storage)?.collect::<Result<_, _>>().map_err(storage)?;
            Ok(tally(kinds.iter().map(|(run, count)| (run, *count)), now))
        })
        .await
    }

    async fn drivers(&self) -> Result<Vec<Driver>, JournalError> {
        let owner = self.owner.clone();
        self.list_with(move |connection| {
            let mut query = connection
                .prepare_cached("SELECT owner, count(*) FROM runs WHERE ended = 0 AND owner IS NOT NULL GROUP BY owner")
                .map_err(storage)?;
            let owned =
                query.query_map([], |row| Ok((row.get::<_, String>(0)?, unsigned(row, 1)?))).map_err(storage)?;
            let owned: BTreeMap<String, u64> = owned.collect::<Result<_, _>>().map_err(storage)?;
            let living = owner.living().map_err(storage)?;
            let drivers = living.into_iter().map(|name| Driver {
                runs: owned.get(&name).copied().unwrap_or(0),
                is_this: name == owner.name(),
                name: shown(&name).into(),
            });
            Ok(busiest_first(drivers.collect()))
        })
        .await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        let owner = self.owner.clone();
        let before = self.news.before_look();
        let look = move |connection: &Connection| {
            let message = news::newest_message(connection)?;
            let mut query = connection
                .prepare_cached(
                    "SELECT run, owner FROM (SELECT id FROM runs WHERE due <= ?1 UNION SELECT run FROM inbox) AS could
                     JOIN runs USING (id) WHERE ended = 0 ORDER BY updated_at, id",
                )
                .map_err(storage)?;
            let mut rows = query.query([now]).map_err(storage)?;
            let mut found: Vec<RunId> = Vec::new();
            let mut any = false;
            while let Some(row) = rows.next().map_err(storage)? {
                any = true;
                if found.len() as u64 >= limit {
                    break;
                }
                let (Ok(run), Ok(holder)) = (row.get::<_, String>(0), row.get::<_, Option<String>>(1)) else {
                    // Lists show it as damaged.
                    continue;
                };
                if !holder.is_some_and(|holder| owner.is_alive(&holder)) {
                    found.push(run.into());
                }
            }
            if any {
                return Ok((message, Look::Some, found));
            }
            let mut next = connection.prepare_cached("SELECT min(due) FROM runs WHERE due > ?1").map_err(storage)?;
            let due: Option<i64> = next.query_row([now], |row| row.get(0)).map_err(storage)?;
            let next_due = due.map(|due| Duration::from_millis(due.abs_diff(now)));
            Ok((message, Look::None { next_due }, found))
        };
        let (message, all, found) = self.read_with(look).await?;
        self.news.looked(before, message, all);
        Ok(found)
    }

    async fn changed(&self, at_most: Duration) {
        self.news.wait(at_most, &self.reader).await;
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        let gone = rule.dropped(self.runs().await?);
        self.writer
            .write(move |connection| {
                for run in &gone {
                    // Asked again inside the transaction: a run that was acquired since has to stay.
                    connection
                        .execute("DELETE FROM runs WHERE run = ?1 AND ended = 1", [run.as_ref()])
                        .map_err(storage)?;
                }
                Ok(gone)
            })
            .await
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.writer.write(move |connection| clock::check(connection, now, trust)).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        let run = run.clone();
        let gone = self.writer.write(move |connection| {
            find(connection, &run)?;
            connection.execute("DELETE FROM runs WHERE run = ?1 AND ended = 1", [run.as_ref()]).map_err(storage)
        });
        Ok(gone.await? > 0)
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        let run = run.clone();
        let posted = self
            .writer
            .write(move |connection| {
                let found = find(connection, &run)?;
                if found.ended {
                    return Err(JournalError::Ended { run, status: found.status });
                }
                connection
                    .execute(
                        "INSERT INTO inbox (run, at, payload) VALUES (?1, ?2, ?3)",
                        params![found.id, at, payload.as_ref()],
                    )
                    .map_err(storage)?;
                Ok(())
            })
            .await;
        if posted.is_ok() {
            self.news.posted();
        }
        posted
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        let run = run.clone();
        self.read_with(move |connection| {
            let mut query = connection
                .prepare_cached("SELECT l.id, l.at, l.payload FROM inbox l JOIN runs r ON r.id = l.run WHERE r.run = ?1 ORDER BY l.id")
                .map_err(storage)?;
            let inbox = query.query_map([run.as_ref()], |row| {
                Ok(InboxMessage { id: unsigned(row, 0)?, at: row.get(1)?, payload: row.get::<_, String>(2)?.into() })
            });
            inbox.map_err(storage)?.collect::<Result<_, _>>().map_err(storage)
        })
        .await
    }
}

/// Says how a run stands, and that its records go on; whether the writer is its owner still, and the records are its
/// next. What is at its end needs no owner.
fn stand(
    connection: &Connection,
    (row, run): (i64, &RunId),
    fence: Fence,
    before: Option<u64>,
    last: Option<(u64, i64)>,
    state: Option<&RunState>,
) -> Result<bool, JournalError> {
    let before = before.map(u64::cast_signed);
    let (records, at) = last.map(|(seq, at)| (seq.cast_signed(), at)).unzip();
    // Most appends leave the state, and so the index of `due`, as it is.
    let changed = match state {
        None => connection
            .prepare_cached(
                "UPDATE runs SET records = coalesce(?4, records), updated_at = coalesce(?5, updated_at)
                 WHERE id = ?1 AND fence = ?2 AND records = coalesce(?3, records) AND run = ?6",
            )
            .and_then(|mut update| {
                update.execute(params![row, fence.0.cast_signed(), before, records, at, run.as_ref()])
            }),
        Some(state) => connection
            .prepare_cached(
                "UPDATE runs SET records = coalesce(?4, records), updated_at = coalesce(?5, updated_at), status = ?6, ended = ?7,
                                 due = ?8, owner = CASE WHEN ?7 THEN NULL ELSE owner END
                 WHERE id = ?1 AND fence = ?2 AND records = coalesce(?3, records) AND run = ?9",
            )
            .and_then(|mut update| {
                let RunState { status, ended, due } = state;
                let fence = fence.0.cast_signed();
                update.execute(params![row, fence, before, records, at, status, ended, due, run.as_ref()])
            }),
    };
    changed.map(|changed| changed > 0).map_err(storage)
}

/// Why an append was refused: a former owner's, or one that skips a number.
fn refusal(
    connection: &Connection,
    run: RunId,
    row: i64,
    held: Fence,
    before: Option<u64>,
) -> Result<JournalError, JournalError> {
    let found = find(connection, &run)?;
    Ok(match before {
        Some(before) if found.id == row && found.fence == held => {
            JournalError::OutOfOrder { run, last: found.records, expected: found.records + 1, got: before + 1 }
        }
        _ => JournalError::Fenced { run, held, newest: found.fence },
    })
}
