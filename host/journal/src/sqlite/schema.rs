//! The tables of a store, and opening one.
//!
//! `docs/journal.md` describes them for whoever reads a store without this code. A change that older code cannot read
//! raises [`SCHEMA`].

use super::storage;
use crate::{connection, journal::JournalError, tables::Tables};
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};
use std::{io, path::Path, sync::OnceLock};

/// The schema that this code reads and writes; stores of any other are refused.
pub(super) const SCHEMA: u32 = 7;

/// The schema before the anchor of the clock; the one before the staging table had its name; the one before it had one
/// row for each append; the one before packs and large values. Stores of all four are brought to this one.
const BEFORE_CLOCK: u32 = 6;
const BEFORE_STAGING: u32 = 5;
const BEFORE_APPENDS: u32 = 4;
const BEFORE_PACKS: u32 = 3;

/// Why a file with other tables is refused.
const ANOTHER: &str = "it is an SQLite database of another application";

/// A record's id is `run * 2^32 + seq`: the records of a run stand together, in order.
const TABLES: &str = "
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run TEXT NOT NULL UNIQUE,
    workflow TEXT NOT NULL,
    fence INTEGER NOT NULL,
    owner TEXT,
    status TEXT NOT NULL,
    ended INTEGER NOT NULL,
    due INTEGER,
    records INTEGER NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX runs_by_due ON runs (due) WHERE due IS NOT NULL;
CREATE TABLE records (
    id INTEGER PRIMARY KEY,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE snapshots (
    run INTEGER PRIMARY KEY REFERENCES runs(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    version INTEGER NOT NULL,
    payload TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TABLE inbox (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL
) STRICT;
CREATE INDEX inbox_by_run ON inbox (run);
";

/// The tables of packs and of large values.
const PACKS: &str = "
-- Many records of a run, compressed; `id` is the first one's.
CREATE TABLE packs (
    id INTEGER PRIMARY KEY,
    count INTEGER NOT NULL,
    records BLOB NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
-- Large values that payloads name, compressed: once, however many payloads name them.
CREATE TABLE large_values (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    size INTEGER NOT NULL,
    block BLOB NOT NULL
) STRICT;
CREATE TABLE large_value_uses (
    run INTEGER NOT NULL REFERENCES runs(id) ON DELETE CASCADE,
    value INTEGER NOT NULL REFERENCES large_values(id),
    PRIMARY KEY (run, value)
) STRICT, WITHOUT ROWID;
CREATE INDEX large_value_uses_by_value ON large_value_uses (value);
CREATE TRIGGER large_values_without_use AFTER DELETE ON large_value_uses BEGIN
    DELETE FROM large_values
    WHERE id = old.value AND NOT EXISTS (SELECT 1 FROM large_value_uses WHERE value = old.value);
END;
";

/// The statements that make the views over every table of records, and the table of recent records.
const STAGING: &str = "
-- Small appends on their way to `packs`, in the order of commits, so that those of many runs share pages.
-- `first` is the id of the first record.
CREATE TABLE staging (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    records TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TRIGGER records_of_a_run AFTER DELETE ON runs BEGIN
    DELETE FROM records WHERE id > old.id << 32 AND id < (old.id + 1) << 32;
    DELETE FROM staging WHERE first > old.id << 32 AND first < (old.id + 1) << 32;
    DELETE FROM packs WHERE id > old.id << 32 AND id < (old.id + 1) << 32;
END;
CREATE VIEW events AS
    SELECT runs.run, all_records.id & 0xffffffff AS seq, kind, version,
           strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000000.0, 'unixepoch') AS at, payload
    FROM (SELECT id, kind, version, at, payload FROM records
          UNION ALL SELECT first, 'packed', NULL, NULL, records FROM staging
          UNION ALL SELECT id, 'packed', NULL, NULL, count || ' events, compressed' FROM packs) AS all_records
    JOIN runs ON runs.id = all_records.id >> 32
    ORDER BY all_records.id;
";

/// The table of one row by which a clock that jumped is told.
const CLOCK: &str = "
CREATE TABLE clock (
    id INTEGER PRIMARY KEY,
    trusted_at INTEGER NOT NULL,
    doubted_since INTEGER,
    discounted_until INTEGER NOT NULL
) STRICT;
";

/// The counterpart of those in schema 5.
const ARRIVALS: &str = "
-- Small appends on their way to `packs`, in the order in which they came, so that those of many runs share pages.
-- `first` is the id of the first record.
CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    count INTEGER NOT NULL,
    records TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
CREATE TRIGGER records_of_a_run AFTER DELETE ON runs BEGIN
    DELETE FROM records WHERE id > old.id << 32 AND id < (old.id + 1) << 32;
    DELETE FROM arrivals WHERE first > old.id << 32 AND first < (old.id + 1) << 32;
    DELETE FROM packs WHERE id > old.id << 32 AND id < (old.id + 1) << 32;
END;
CREATE VIEW events AS
    SELECT runs.run, all_records.id & 0xffffffff AS seq, kind, version,
           strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000000.0, 'unixepoch') AS at, payload
    FROM (SELECT id, kind, version, at, payload FROM records
          UNION ALL SELECT first, 'packed', NULL, NULL, records FROM arrivals
          UNION ALL SELECT id, 'packed', NULL, NULL, count || ' events, compressed' FROM packs) AS all_records
    JOIN runs ON runs.id = all_records.id >> 32
    ORDER BY all_records.id;
";

/// The counterpart of those views in older schemas.
const RECORDS_THAT_ARRIVE: &str = "
CREATE TABLE arrivals (
    id INTEGER PRIMARY KEY,
    record INTEGER NOT NULL,
    kind TEXT NOT NULL,
    version INTEGER NOT NULL,
    at INTEGER NOT NULL,
    payload TEXT NOT NULL,
    checksum BLOB NOT NULL
) STRICT;
";

/// Removes what names the table of schema 5, so that nothing that came with the file can run.
const UNHOOK: &str = "
DROP VIEW IF EXISTS events;
DROP TRIGGER IF EXISTS records_of_a_run;
";

/// Moves the rows of that table into the one that takes its place.
const RENAME: &str = "
INSERT INTO staging (id, first, count, records, checksum)
    SELECT id, first, count, records, checksum FROM arrivals ORDER BY id;
DROP TABLE arrivals;
";

/// Moves records of the older schemas where they belong, once nothing that came with the file can run.
const SETTLE: &str = "
DROP VIEW IF EXISTS events;
DROP TRIGGER IF EXISTS records_of_a_run;
INSERT OR REPLACE INTO records (id, kind, version, at, payload, checksum)
    SELECT record, kind, version, at, payload, checksum FROM arrivals;
DROP TABLE arrivals;
";

/// Opens a store's file, or makes it, and checks that it is sound.
pub(super) fn open(path: &Path) -> Result<Connection, JournalError> {
    make_private(path).map_err(storage)?;
    let connection = connect(path)?;
    check(&connection, path)?;
    create(&connection, path)?;
    // A store that cannot be written is read all the same, and known by its file alone.
    let _ = identify(&connection);
    Ok(connection)
}

/// The identifier of a store, which the header of its file holds: a number at random that it keeps for as long as it
/// exists.
const IDENTIFIER: &str = "application_id";

fn identifier(connection: &Connection) -> rusqlite::Result<i32> {
    connection.query_row(&format!("PRAGMA {IDENTIFIER}"), [], |row| row.get(0))
}

/// Assigns an identifier to a store that has none, and writes it where it is read without the log.
fn identify(connection: &Connection) -> rusqlite::Result<()> {
    if identifier(connection)? != 0 {
        return Ok(());
    }
    let transaction = rusqlite::Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
    if identifier(&transaction)? == 0 {
        let [a, b, c, d, ..] = *uuid::Uuid::new_v4().as_bytes();
        let random = i32::from_be_bytes([a, b, c, d]);
        let random = if random == 0 { 1 } else { random };
        transaction.execute_batch(&format!("PRAGMA {IDENTIFIER} = {random}"))?;
    }
    transaction.commit()?;
    connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
}

/// Returns the identifier in the file of a store, whatever a log beside it holds; `None` for a file without one.
///
/// SQLite reads it: closing a file by other means would release the locks that this process has on it.
pub(super) fn identifier_in(path: &Path) -> Option<i32> {
    let mut place = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => place.push(char::from(*byte)),
            byte => place.push_str(&format!("%{byte:02x}")),
        }
    }
    place.push_str("?immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    let connection = Connection::open_with_flags(place, flags).ok()?;
    // Otherwise a file whose checkpoint was cut short, which is shorter than its header says, cannot be read. The file
    // is not opened by other means: closing it would drop the locks that this process has on it.
    connection.pragma_update(None, "writable_schema", true).ok()?;
    identifier(&connection).ok().filter(|found| *found != 0)
}

/// Runs hold prompts, answers and arguments: a new store is its owner's alone. SQLite gives the files beside it the
/// same mode.
fn make_private(path: &Path) -> io::Result<()> {
    opcell_types::files::make_private(path)
}

pub(super) fn connect(path: &Path) -> Result<Connection, JournalError> {
    let connection = Connection::open(path).map_err(sound(path))?;
    connection::prepare(&connection).map_err(sound(path))?;
    Ok(connection)
}

pub(super) fn corrupt(path: &Path, reason: impl Into<String>) -> JournalError {
    JournalError::Corrupt { path: path.display().to_string(), reason: reason.into() }
}

pub(super) fn sound(path: &Path) -> impl Fn(rusqlite::Error) -> JournalError + '_ {
    |error| match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => corrupt(path, error.to_string()),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => JournalError::Locked,
        _ => storage(error),
    }
}

/// The views that [`SETTLE`] removes and [`ARRIVALS`] makes anew.
const REPLACED: [&str; 2] = ["records_of_a_run", "events"];

/// Refuses a file that is not a store of a schema that this code reads, and a store with anything in it that this code
/// did not make: whoever made the file would have it run. Looks at nothing but definitions.
fn check_tables(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    static OF_NOW: OnceLock<Tables> = OnceLock::new();
    static WITHOUT_CLOCK: OnceLock<Tables> = OnceLock::new();
    static BEFORE: OnceLock<Tables> = OnceLock::new();
    static THEN: OnceLock<Tables> = OnceLock::new();
    static LONG_AGO: OnceLock<Tables> = OnceLock::new();
    // One look: another process may be making the store.
    let look = connection.unchecked_transaction().map_err(sound(path))?;
    let found: u32 = look.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sound(path))?;
    let (tables, made_by, replaced): (_, _, &[&str]) = match found {
        SCHEMA => (&OF_NOW, [TABLES, PACKS, STAGING, CLOCK].concat(), &[]),
        BEFORE_CLOCK => (&WITHOUT_CLOCK, [TABLES, PACKS, STAGING].concat(), &[]),
        BEFORE_STAGING => (&BEFORE, [TABLES, PACKS, ARRIVALS].concat(), &REPLACED),
        BEFORE_APPENDS => (&THEN, [TABLES, PACKS, RECORDS_THAT_ARRIVE].concat(), &REPLACED),
        BEFORE_PACKS => (&LONG_AGO, [TABLES, RECORDS_THAT_ARRIVE].concat(), &REPLACED),
        0 => {
            let parts: i64 =
                look.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(sound(path))?;
            return if parts == 0 { Ok(()) } else { Err(corrupt(path, ANOTHER)) };
        }
        found => return Err(JournalError::Schema { path: path.display().to_string(), found, supported: SCHEMA }),
    };
    let tables = match tables.get() {
        Some(tables) => tables,
        None => {
            let made = Tables::made_by(&made_by).map_err(storage)?;
            tables.get_or_init(|| made)
        }
    };
    match tables.difference(&look, replaced).map_err(sound(path))? {
        None => Ok(()),
        Some(difference) => Err(corrupt(path, difference.to_string())),
    }
}

/// Refuses a file that is no sound store.
pub(super) fn check(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    check_tables(connection, path)?;
    let verdict: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(sound(path))?;
    if verdict == "ok" { Ok(()) } else { Err(corrupt(path, verdict)) }
}

fn create(connection: &Connection, path: &Path) -> Result<(), JournalError> {
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(sound(path))?;
    if found == SCHEMA {
        return Ok(());
    }
    connection.execute_batch("BEGIN IMMEDIATE").map_err(sound(path))?;
    let result = (|| {
        let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(storage)?;
        if found == SCHEMA {
            return Ok(());
        }
        let statements: &[&str] = match found {
            0 => &[TABLES, PACKS, STAGING, CLOCK],
            BEFORE_CLOCK => &[CLOCK],
            BEFORE_STAGING => &[UNHOOK, STAGING, RENAME, CLOCK],
            BEFORE_PACKS => &[SETTLE, PACKS, STAGING, CLOCK],
            BEFORE_APPENDS => &[SETTLE, STAGING, CLOCK],
            _ => return Err(JournalError::Schema { path: path.display().to_string(), found, supported: SCHEMA }),
        };
        let tables: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(storage)?;
        if found == 0 && tables > 0 {
            return Err(corrupt(path, ANOTHER));
        }
        connection.execute_batch(&statements.concat()).map_err(storage)?;
        connection.execute_batch(&format!("PRAGMA user_version = {SCHEMA}")).map_err(storage)
    })();
    connection.execute_batch(if result.is_ok() { "COMMIT" } else { "ROLLBACK" }).map_err(storage)?;
    result
}
