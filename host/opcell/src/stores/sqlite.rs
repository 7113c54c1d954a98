//! Stores in SQLite: WAL, `synchronous = FULL`, one transaction for each write with everything that it was based on.

mod former;

use super::{
    Caller, Place, Question,
    call::{
        Answer, Answered, Columns, Memory, OUTRUN, PLUGIN_RECORD_BYTES, answered_too_much, digest, entry_bytes,
        is_written, may_write, within_quota,
    },
};
use former::file_of;
use opcell_journal::{connection, tables::Tables};
use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreEntry, StoreError, StoreRequest},
};
use opcell_types::files::{Folder, Readers};
pub(super) use rusqlite::Connection;
use rusqlite::{OptionalExtension as _, Transaction, TransactionBehavior, params};
use std::{collections::VecDeque, io, path::Path};

/// The tables' version; files of any other are refused.
const SCHEMA: i64 = 1;

const TABLES: &str = "
CREATE TABLE stores (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    plugin TEXT NOT NULL,
    store TEXT NOT NULL,
    run TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    entries INTEGER NOT NULL,
    version INTEGER NOT NULL,
    written_at INTEGER NOT NULL,
    UNIQUE (project, plugin, store, run)
) STRICT;
CREATE TABLE entries (
    store INTEGER NOT NULL REFERENCES stores(id) ON DELETE CASCADE,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (store, key)
) STRICT;
-- Calls that wrote something.
CREATE TABLE calls (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    project TEXT NOT NULL,
    plugin TEXT NOT NULL,
    call TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    at INTEGER NOT NULL,
    UNIQUE (project, plugin, call)
) STRICT;
CREATE INDEX calls_by_plugin ON calls (project, plugin, id, bytes);
-- What such a call was answered up to its last write.
CREATE TABLE answers (
    call INTEGER NOT NULL REFERENCES calls(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    request BLOB NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER,
    text TEXT,
    value BLOB,
    PRIMARY KEY (call, seq)
) STRICT, WITHOUT ROWID;
";

/// A run's store is removed 90 days after its last write, the record of a call after 30 days.
const FORGET: &str = "
DELETE FROM stores WHERE run <> '' AND written_at < unixepoch() - 90 * 86400;
DELETE FROM calls WHERE at < unixepoch() - 30 * 86400;
";

pub(super) fn serve(
    connection: &mut Option<Connection>,
    memory: &mut Memory,
    question: Question,
) -> Result<(StoreAnswer, bool), StoreError> {
    let opened = match connection {
        Some(opened) => opened,
        None => connection.insert(open(&question.place)?),
    };
    let Question { caller, store, grant, request, .. } = question;
    let asked = digest(&store, &request);
    if let Some(call) = caller.call.as_deref().filter(|_| memory.is_new()) {
        memory.look_back(recorded(opened, &caller, call).map_err(storage)?);
    }
    if let Some(earlier) = memory.earlier(&asked) {
        return earlier.map(|answer| (answer, true)).map_err(StoreError::Quota);
    }
    let writes = may_write(&request);
    let behavior = if writes { TransactionBehavior::Immediate } else { TransactionBehavior::Deferred };
    let transaction = opened.transaction_with_behavior(behavior).map_err(storage)?;
    let run = if grant.per_run { caller.run.as_str() } else { "" };
    let place = Store { caller: &caller, name: &store, run, grant: &grant };
    let answer = place.answer(&transaction, request).map_err(storage)?;
    let written = is_written(&answer);
    let answered = Answered { request: asked, answer };
    if let Some(call) = caller.call.as_deref().filter(|_| written) {
        if !memory.has_room(&answered.answer) {
            return Err(StoreError::Quota(answered_too_much()));
        }
        if memory.is_outrun(count(&transaction, &caller, call).map_err(storage)?) {
            return Err(StoreError::Failed(OUTRUN.to_owned()));
        }
        record(&transaction, &caller, call, memory, &answered).map_err(storage)?;
    }
    transaction.commit().map_err(storage)?;
    let answer = answered.answer.clone();
    if caller.call.is_some() {
        memory.given(answered, written);
    }
    answer.map(|answer| (answer, false)).map_err(StoreError::Quota)
}

fn open(place: &Place) -> Result<Connection, StoreError> {
    let mut connection = match place {
        Place::Memory => Connection::open_in_memory().map_err(storage)?,
        Place::Server(_) => return Err(StoreError::Failed("this host keeps no stores".to_owned())),
        Place::File { journal } => {
            let path = &file_of(journal)?;
            make_private(path).map_err(|error| {
                tracing::warn!(path = %path.display(), %error, "the file of the plugins' stores cannot be made");
                StoreError::Failed(format!("the file of the stores cannot be made: {}", error.kind()))
            })?;
            Connection::open(path).map_err(storage)?
        }
    };
    connection::prepare(&connection).map_err(storage)?;
    let made = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(storage)?;
    let version: i64 = made.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(storage)?;
    match version {
        0 => made.execute_batch(&format!("{TABLES} PRAGMA user_version = {SCHEMA};")).map_err(storage)?,
        SCHEMA => {
            // A file that came with a checkout may bring triggers and views along, which would run here.
            let own = Tables::made_by(TABLES).map_err(storage)?;
            if let Some(difference) = own.difference(&made, &[]).map_err(storage)? {
                return Err(StoreError::Failed(format!("the file of the stores is not intact: {difference}")));
            }
        }
        other => {
            let message = format!("the file of the stores has version {other}, and this program reads {SCHEMA}");
            return Err(StoreError::Failed(message));
        }
    }
    made.execute_batch(FORGET).map_err(storage)?;
    made.commit().map_err(storage)?;
    Ok(connection)
}

/// Makes a new file its owner's alone, because the values of plugins may be confidential. SQLite gives the files beside
/// it the same mode.
fn make_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        Folder::open_or_make(folder, Readers::Owner)?;
    }
    opcell_types::files::make_private(path)
}

/// The operator's log has the whole error; a plugin is told its kind.
#[expect(clippy::needless_pass_by_value, reason = "what `map_err` gives")]
fn storage(error: rusqlite::Error) -> StoreError {
    tracing::warn!(%error, "a store of a plugin cannot be used");
    let kind = error.sqlite_error_code().map_or_else(|| "an inner error".to_owned(), |code| format!("{code:?}"));
    StoreError::Failed(format!("the store cannot be used: {kind}"))
}

/// One store of one plugin.
struct Store<'a> {
    caller: &'a Caller,
    name: &'a str,
    run: &'a str,
    grant: &'a StoreGrant,
}

impl Store<'_> {
    /// The answer, or how the quota is exceeded.
    fn answer(&self, transaction: &Transaction<'_>, request: StoreRequest) -> rusqlite::Result<Answer> {
        Ok(Ok(match request {
            StoreRequest::Get { key } => StoreAnswer::Entry(self.get(transaction, &key)?),
            StoreRequest::List { prefix, after, limit } => self.list(transaction, &prefix, after.as_deref(), limit)?,
            StoreRequest::Set { key, value } => return self.set(transaction, &key, &value),
            StoreRequest::CompareAndSet { key, expected, value } => {
                let current = self.get(transaction, &key)?;
                if current.as_ref().map(|entry| entry.version) == expected {
                    return self.set(transaction, &key, &value);
                }
                StoreAnswer::Conflict(current)
            }
            StoreRequest::Delete { key } => StoreAnswer::Deleted(self.delete(transaction, &key)?),
        }))
    }

    fn id(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Option<i64>> {
        let mut found = transaction
            .prepare_cached("SELECT id FROM stores WHERE project = ?1 AND plugin = ?2 AND store = ?3 AND run = ?4")?;
        found
            .query_row(params![self.caller.project, self.caller.plugin, self.name, self.run], |row| row.get(0))
            .optional()
    }

    fn get(&self, transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<Option<StoreEntry>> {
        let Some(store) = self.id(transaction)? else { return Ok(None) };
        let mut found =
            transaction.prepare_cached("SELECT version, value FROM entries WHERE store = ?1 AND key = ?2")?;
        let entry = |row: &rusqlite::Row<'_>| {
            Ok(StoreEntry { version: row.get::<_, i64>(0)?.cast_unsigned(), value: row.get(1)? })
        };
        found.query_row(params![store, key], entry).optional()
    }

    fn list(
        &self,
        transaction: &Transaction<'_>,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> rusqlite::Result<StoreAnswer> {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let (mut keys, mut more) = (Vec::new(), false);
        if let Some(store) = self.id(transaction)? {
            // Keys are compared by their bytes: those with the prefix are next to one another.
            let mut found = transaction.prepare_cached(
                "SELECT key FROM entries WHERE store = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key",
            )?;
            let mut rows = found.query(params![store, prefix, after])?;
            while let Some(row) = rows.next()? {
                let key: String = row.get(0)?;
                if !key.starts_with(prefix) {
                    break;
                }
                if keys.len() == limit {
                    more = true;
                    break;
                }
                keys.push(key);
            }
        }
        Ok(StoreAnswer::Page { keys, more })
    }

    fn set(&self, transaction: &Transaction<'_>, key: &str, value: &[u8]) -> rusqlite::Result<Answer> {
        transaction
            .prepare_cached(
                "INSERT INTO stores (project, plugin, store, run, bytes, entries, version, written_at)
                 VALUES (?1, ?2, ?3, ?4, 0, 0, 0, unixepoch()) ON CONFLICT DO NOTHING",
            )?
            .execute(params![self.caller.project, self.caller.plugin, self.name, self.run])?;
        let (store, bytes, entries): (i64, i64, i64) = transaction
            .prepare_cached(
                "SELECT id, bytes, entries FROM stores WHERE project = ?1 AND plugin = ?2 AND store = ?3 AND run = ?4",
            )?
            .query_row(params![self.caller.project, self.caller.plugin, self.name, self.run], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?))
            })?;
        let before = self.size_of(transaction, store, key)?;
        let size = entry_bytes(key, value.len() as u64);
        let held = (bytes.cast_unsigned(), entries.cast_unsigned());
        let (bytes_after, entries_after) = match within_quota(self.name, self.grant, held, before, size) {
            Ok(after) => after,
            Err(exceeded) => return Ok(Err(exceeded)),
        };
        let version: i64 = transaction
            .prepare_cached(
                "UPDATE stores SET version = version + 1, bytes = ?2, entries = ?3, written_at = unixepoch()
                 WHERE id = ?1 RETURNING version",
            )?
            .query_row(params![store, bytes_after.cast_signed(), entries_after.cast_signed()], |row| row.get(0))?;
        transaction
            .prepare_cached(
                "INSERT INTO entries (store, key, version, value) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT (store, key) DO UPDATE SET version = excluded.version, value = excluded.value",
            )?
            .execute(params![store, key, version, value])?;
        Ok(Ok(StoreAnswer::Stored(version.cast_unsigned())))
    }

    fn delete(&self, transaction: &Transaction<'_>, key: &str) -> rusqlite::Result<bool> {
        let Some(store) = self.id(transaction)? else { return Ok(false) };
        let Some(size) = self.size_of(transaction, store, key)? else { return Ok(false) };
        transaction
            .prepare_cached("DELETE FROM entries WHERE store = ?1 AND key = ?2")?
            .execute(params![store, key])?;
        transaction
            .prepare_cached(
                "UPDATE stores SET version = version + 1, bytes = max(0, bytes - ?2), entries = max(0, entries - 1),
                 written_at = unixepoch() WHERE id = ?1",
            )?
            .execute(params![store, size.cast_signed()])?;
        Ok(true)
    }

    fn size_of(&self, transaction: &Transaction<'_>, store: i64, key: &str) -> rusqlite::Result<Option<u64>> {
        let mut found =
            transaction.prepare_cached("SELECT length(value) FROM entries WHERE store = ?1 AND key = ?2")?;
        let value: Option<i64> = found.query_row(params![store, key], |row| row.get(0)).optional()?;
        Ok(value.map(|value| entry_bytes(key, value.cast_unsigned())))
    }
}

/// The answers that an earlier attempt of a call was given, up to its last write.
fn recorded(connection: &Connection, caller: &Caller, call: &str) -> rusqlite::Result<VecDeque<Answered>> {
    let mut found = connection.prepare_cached(
        "SELECT request, kind, number, text, value FROM answers WHERE call =
           (SELECT id FROM calls WHERE project = ?1 AND plugin = ?2 AND call = ?3) ORDER BY seq",
    )?;
    let rows = found.query_map(params![caller.project, caller.plugin, call], |row| {
        let columns = Columns { kind: row.get(1)?, number: row.get(2)?, text: row.get(3)?, value: row.get(4)? };
        Ok(Answered { request: row.get(0)?, answer: columns.answer() })
    })?;
    rows.collect()
}

/// Returns the number of answers of a call that are recorded.
fn count(transaction: &Transaction<'_>, caller: &Caller, call: &str) -> rusqlite::Result<i64> {
    transaction
        .prepare_cached(
            "SELECT count(*) FROM answers WHERE call =
               (SELECT id FROM calls WHERE project = ?1 AND plugin = ?2 AND call = ?3)",
        )?
        .query_row(params![caller.project, caller.plugin, call], |row| row.get(0))
}

/// Records what a call was answered since its last write, with the write that follows from it.
fn record(
    transaction: &Transaction<'_>,
    caller: &Caller,
    call: &str,
    memory: &Memory,
    answered: &Answered,
) -> rusqlite::Result<()> {
    let (first, answers, bytes) = memory.with(answered);
    let id: i64 = transaction
        .prepare_cached(
            "INSERT INTO calls (project, plugin, call, bytes, at) VALUES (?1, ?2, ?3, ?4, unixepoch())
             ON CONFLICT (project, plugin, call) DO UPDATE SET bytes = excluded.bytes, at = excluded.at RETURNING id",
        )?
        .query_row(params![caller.project, caller.plugin, call, bytes], |row| row.get(0))?;
    // What an earlier attempt was answered after it went another way.
    transaction.prepare_cached("DELETE FROM answers WHERE call = ?1 AND seq >= ?2")?.execute(params![id, first])?;
    let mut insert = transaction.prepare_cached(
        "INSERT INTO answers (call, seq, request, kind, number, text, value) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?;
    for (seq, answered) in (first..).zip(answers) {
        let Columns { kind, number, text, value } = Columns::of(&answered.answer);
        insert.execute(params![id, seq, answered.request, kind, number, text, value])?;
    }
    make_room(transaction, caller, id)
}

/// Forgets a plugin's oldest calls when its records take too much.
fn make_room(transaction: &Transaction<'_>, caller: &Caller, current: i64) -> rusqlite::Result<()> {
    let mut held: i64 = transaction
        .prepare_cached("SELECT coalesce(sum(bytes), 0) FROM calls WHERE project = ?1 AND plugin = ?2")?
        .query_row(params![caller.project, caller.plugin], |row| row.get(0))?;
    while held.cast_unsigned() > PLUGIN_RECORD_BYTES {
        let oldest: Option<(i64, i64)> = transaction
            .prepare_cached(
                "SELECT id, bytes FROM calls WHERE project = ?1 AND plugin = ?2 AND id <> ?3 ORDER BY id LIMIT 1",
            )?
            .query_row(params![caller.project, caller.plugin, current], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        let Some((id, bytes)) = oldest else { break };
        transaction.prepare_cached("DELETE FROM calls WHERE id = ?1")?.execute([id])?;
        held = held.saturating_sub(bytes);
    }
    Ok(())
}
