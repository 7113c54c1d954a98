//! Staged appends: small appends of many runs, in the order in which they came.
//!
//! In `records` every run has pages of its own: small appends of many runs would change hundreds of pages in one
//! transaction. Those that share a transaction with many others are therefore one row each in `staging`, whose pages
//! they share, and go to `packs` many at a time, joined with what came before and after them in their run.

use super::{
    packs::{self, Open, Part, RecordRange},
    rows::{pack_checksum, put_pack, staged_checksum},
    storage,
};
use crate::{journal::JournalError, record::Record};
use rusqlite::{Connection, Row, params};

/// The number of jobs that have to share a transaction for pages to be worth sharing.
const MIN_SHARED_JOBS: usize = 8;

/// Bytes of text that fill a good part of a run's own pages.
const SHORT: usize = 4_096;

/// Staged appends of which the oldest leave: few, for whoever reads a run looks through them, and what SQLite keeps in
/// memory of a file has room for this many of the usual size.
const MAX_STAGED_ROWS: i64 = 2_560;

/// The number of records that are compacted together: many, because those of a run become one pack, but the jobs that
/// share the transaction wait for them.
const COMPACTION_BATCH: i64 = 2_048;

/// The number of staged records between two checks whether some have to be compacted.
const COMPACTION_CHECK_RECORDS: i64 = 64;

/// The staged append that the records of a small append are, in a transaction that this many are likely to share.
pub(super) fn of(records: &[Record], expected_batch: usize) -> Option<Part> {
    if expected_batch < MIN_SHARED_JOBS {
        return None;
    }
    let (first, count) = (records.first()?.seq, u32::try_from(records.len()).ok()?);
    let mut body = String::new();
    for record in records {
        if body.len() + record.payload.len() >= SHORT {
            return None;
        }
        packs::write(&mut body, record);
    }
    Some(Part::Staged(RecordRange { first, count, body }))
}

/// Adds a staged append whose first record has this id.
pub(super) fn put(
    connection: &Connection,
    first: i64,
    staged: &RecordRange<String>,
    checksum: &[u8],
) -> Result<(), JournalError> {
    connection
        .prepare_cached("INSERT INTO staging (first, count, records, checksum) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut insert| insert.execute(params![first, staged.count, staged.body, checksum]))
        .map_err(storage)?;
    if connection.last_insert_rowid() % COMPACTION_CHECK_RECORDS == 0 { leave(connection) } else { Ok(()) }
}

/// Moves the oldest staged appends to where they stay, if there are many.
fn leave(connection: &Connection) -> Result<(), JournalError> {
    let last = connection.last_insert_rowid();
    let oldest: i64 = connection
        .prepare_cached("SELECT coalesce(min(id), 0) FROM staging")
        .and_then(|mut oldest| oldest.query_row([], |row| row.get(0)))
        .map_err(storage)?;
    if last - oldest < MAX_STAGED_ROWS {
        return Ok(());
    }
    let end = oldest + COMPACTION_BATCH;
    join(connection, end)?;
    connection
        .prepare_cached("DELETE FROM staging WHERE id < ?1")
        .and_then(|mut delete| delete.execute([end]))
        .map_err(storage)?;
    Ok(())
}

/// Makes packs of the staged appends before one.
fn join(connection: &Connection, end: i64) -> Result<(), JournalError> {
    let mut query = connection
        .prepare_cached("SELECT first, count, records, checksum, id FROM staging WHERE id < ?1 ORDER BY first, id")
        .map_err(storage)?;
    let mut rows = query.query([end]).map_err(storage)?;
    let (mut open, mut of) = (Open::default(), 0);
    while let Some(row) = rows.next().map_err(storage)? {
        let Some((run, staged)) = intact(row) else {
            move_as_it_is(connection, row.get(4).map_err(storage)?)?;
            continue;
        };
        if run == of && open.join(&staged) {
            continue;
        }
        close(connection, of, &mut open)?;
        of = run;
        open.join(&staged);
    }
    close(connection, of, &mut open)
}

fn close(connection: &Connection, run: i64, open: &mut Open) -> Result<(), JournalError> {
    open.close().map_or(Ok(()), |pack| put_pack(connection, run, &pack, &pack_checksum(run, &pack)))
}

/// A row that stands as it was written, and the run that it is of.
fn intact<'a>(row: &'a Row<'_>) -> Option<(i64, RecordRange<&'a str>)> {
    let id: i64 = row.get(0).ok()?;
    let staged = RecordRange {
        first: id.cast_unsigned() & u64::from(u32::MAX),
        count: row.get(1).ok()?,
        body: row.get_ref(2).ok()?.as_str().ok()?,
    };
    let sum = row.get_ref(3).ok()?.as_blob().ok()?;
    let run = id >> 32;
    (sum == staged_checksum(run, &staged)).then_some((run, staged))
}

/// Moves damaged records verbatim: in a pack that is made of them, they would look as if they had been written so. It
/// is in no one's way, whatever it says of where it belongs.
fn move_as_it_is(connection: &Connection, id: i64) -> Result<(), JournalError> {
    let sql = "INSERT OR IGNORE INTO packs (id, count, records, checksum)
               SELECT first, count, CAST(records AS BLOB), checksum FROM staging WHERE id = ?1";
    connection.execute(sql, [id]).map(drop).map_err(storage)
}
