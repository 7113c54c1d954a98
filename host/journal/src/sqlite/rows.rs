//! Rows of runs and records: finding, checking, adding.

use super::{
    packs::{self, Part},
    storage,
    values::{self, Block},
};
use crate::{
    record::{Fence, Record, RunId},
    store::{JournalError, Snapshot, in_order},
};
use rusqlite::{Connection, OptionalExtension, Row, params};

/// The most records of one run; a record's id has 32 bits for its position.
const MOST_RECORDS: u64 = u32::MAX as u64 - 1;

/// A run's row.
pub(super) struct Found {
    pub id: i64,
    pub fence: Fence,
    pub owner: Option<String>,
    pub records: u64,
    pub status: String,
    pub ended: bool,
}

pub(super) fn find(connection: &Connection, run: &RunId) -> Result<Found, JournalError> {
    let found = connection
        .prepare_cached("SELECT id, fence, owner, records, status, ended FROM runs WHERE run = ?1")
        .and_then(|mut query| {
            query
                .query_row([run.as_ref()], |row| {
                    Ok(Found {
                        id: row.get(0)?,
                        fence: Fence(unsigned(row, 1)?),
                        owner: row.get(2)?,
                        records: unsigned(row, 3)?,
                        status: row.get(4)?,
                        ended: row.get(5)?,
                    })
                })
                .optional()
        })
        .map_err(storage)?;
    found.ok_or_else(|| JournalError::UnknownRun(run.clone()))
}

/// Numbers that only grow from 0 fit; a negative one was put there by someone else.
pub(super) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let number: i64 = row.get(column)?;
    u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, number))
}

/// A record's id.
pub(super) fn record_id(run: i64, seq: u64) -> i64 {
    (run << 32) | seq.min(u64::from(u32::MAX)).cast_signed()
}

/// Covers everything that a row says, and where it stands.
fn checksum(place: [i64; 4], texts: [&[u8]; 2]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for number in place {
        hasher.update(&number.to_le_bytes());
    }
    for text in texts {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    let mut short = [0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

fn record_checksum(run: i64, record: &Record) -> [u8; 16] {
    let place = [run, record.seq.cast_signed(), i64::from(record.version), record.at];
    checksum(place, [record.kind.as_bytes(), record.payload.as_bytes()])
}

fn pack_checksum(run: i64, first: u64, count: u32, block: &[u8]) -> [u8; 16] {
    checksum([run, first.cast_signed(), i64::from(count), 0], [b"pack", block])
}

fn snapshot_checksum(run: i64, snapshot: &Snapshot) -> [u8; 16] {
    let place = [run, snapshot.seq.cast_signed(), i64::from(snapshot.version), 0];
    checksum(place, [b"snapshot", snapshot.payload.as_bytes()])
}

/// What a reading found.
#[derive(Default)]
pub(super) struct Read {
    /// Up to the first that is not what was written.
    pub records: Vec<Record>,
    /// What is wrong with that one.
    pub broken: Option<String>,
    /// Intact records after it; they are counted, not returned.
    pub behind: u64,
}

/// Reads records that stand as they were written.
pub(super) fn good_records(connection: &Connection, run: i64, after: u64, limit: u64) -> Result<Read, JournalError> {
    let mut query = connection
        .prepare_cached(
            "SELECT id, kind, version, at, payload, checksum, NULL AS count FROM records WHERE id > ?1 AND id < ?2
             UNION ALL
             SELECT record, kind, version, at, payload, checksum, NULL FROM arrivals WHERE record > ?1 AND record < ?2
             UNION ALL
             SELECT id, NULL, NULL, NULL, records, checksum, count FROM packs
             WHERE id >= coalesce((SELECT max(id) FROM packs WHERE id <= ?1 AND id > ?3), ?1) AND id < ?2 AND id + count > ?1 + 1
             ORDER BY id LIMIT ?4",
        )
        .map_err(storage)?;
    let rows = i64::try_from(limit).unwrap_or(i64::MAX);
    let range = params![record_id(run, after), record_id(run + 1, 0), record_id(run, 0), rows];
    let mut rows = query.query(range).map_err(storage)?;
    let mut found = Read::default();
    let mut expected = after + 1;
    loop {
        // A page that cannot be read any more is a broken end as well.
        let row = match rows.next() {
            Ok(Some(row)) => row,
            Ok(None) => return Ok(found),
            Err(error) => {
                found.broken.get_or_insert_with(|| error.to_string());
                return Ok(found);
            }
        };
        let records = match good_row(run, row) {
            Ok(records) => records,
            Err(problem) => {
                found.broken.get_or_insert_with(|| format!("record {expected} {problem}"));
                continue;
            }
        };
        for record in records.into_iter().filter(|record| record.seq > after) {
            if found.broken.is_some() {
                found.behind += u64::from(record.seq >= expected);
            } else if found.records.len() as u64 >= limit {
                return Ok(found);
            } else if record.seq == expected {
                found.records.push(record);
                expected += 1;
            } else {
                found.broken = Some(format!("record {expected} is missing"));
                found.behind = 1;
            }
        }
    }
}

/// The records of a row: one, or those of a pack.
fn good_row(run: i64, row: &Row<'_>) -> Result<Vec<Record>, String> {
    let unreadable = |error: rusqlite::Error| format!("cannot be read: {error}");
    let wrong = || "has a wrong checksum".to_owned();
    let Some(count) = row.get::<_, Option<u32>>(6).map_err(unreadable)? else {
        return good_record(run, row).map(|record| vec![record]);
    };
    let first = unsigned(row, 0).map_err(unreadable)? & u64::from(u32::MAX);
    let block: Vec<u8> = row.get(4).map_err(unreadable)?;
    let sum: Vec<u8> = row.get(5).map_err(unreadable)?;
    if sum != pack_checksum(run, first, count, &block) {
        return Err(wrong());
    }
    packs::records(first, count, &block).ok_or_else(wrong)
}

fn good_record(run: i64, row: &Row<'_>) -> Result<Record, String> {
    let read = || -> rusqlite::Result<_> {
        let record = Record {
            seq: unsigned(row, 0)? & u64::from(u32::MAX),
            kind: row.get::<_, String>(1)?.into(),
            version: row.get(2)?,
            at: row.get(3)?,
            payload: row.get::<_, String>(4)?.into(),
        };
        Ok((record, row.get::<_, Vec<u8>>(5)?))
    };
    match read() {
        Ok((record, sum)) if sum == record_checksum(run, &record) => Ok(record),
        Ok(_) => Err("has a wrong checksum".to_owned()),
        Err(error) => Err(format!("cannot be read: {error}")),
    }
}

/// Records with the checksums that they will have in a run; made before a job has its turn to write.
pub(super) struct Rows {
    run: i64,
    parts: Vec<(Part, [u8; 16])>,
    values: Vec<Block>,
    last: Option<(u64, i64)>,
}

impl Rows {
    pub(super) fn new(run: i64, records: Vec<Record>) -> Self {
        let last = records.last().map(|record| (record.seq, record.at));
        let values = values::blocks(&records);
        let parts = packs::divide(records).into_iter().map(|part| {
            let checksum = match &part {
                Part::Row(record) => record_checksum(run, record),
                Part::Pack { first, count, block } => pack_checksum(run, *first, *count, block),
            };
            (part, checksum)
        });
        Self { run, parts: parts.collect(), values, last }
    }

    /// The last record's place and time.
    pub(super) fn last(&self) -> Option<(u64, i64)> {
        self.last
    }

    /// Whether they can all go to `arrivals`, where nothing can be in their way: neither a row of the same number, nor
    /// values that are not there.
    pub(super) fn are_plain(&self) -> bool {
        self.values.is_empty() && self.is_small()
    }

    /// Whether these are so small that they should share pages with those of other runs.
    fn is_small(&self) -> bool {
        let bytes = self.parts.iter().map(|(part, _)| match part {
            Part::Row(record) => record.payload.len(),
            Part::Pack { .. } => SMALL,
        });
        bytes.sum::<usize>() < SMALL
    }
}

/// Whether records follow one another, and the last one there.
pub(super) fn fit(run: &RunId, last: u64, records: &[Record]) -> Result<(), JournalError> {
    in_order(run, last, records)?;
    if last + records.len() as u64 > MOST_RECORDS {
        return Err(JournalError::Full { run: run.clone(), most: MOST_RECORDS });
    }
    Ok(())
}

/// Adds records that [`fit`], in a transaction that this many are likely to share.
///
/// In `records` every run has pages of its own: small appends of many runs would change hundreds in one transaction.
/// They stand in `arrivals` first, which they share, and go to `records` many at a time.
pub(super) fn insert(connection: &Connection, rows: &Rows, company: usize) -> Result<(), JournalError> {
    values::put(connection, rows.run, &rows.values)?;
    let arrives = arrive(company) && rows.is_small();
    for (part, checksum) in &rows.parts {
        match part {
            Part::Row(record) => {
                let id = record_id(rows.run, record.seq);
                let row = params![id, record.kind, record.version, record.at, &*record.payload, checksum];
                let table = if arrives {
                    "INSERT INTO arrivals (record, kind, version, at, payload, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                } else {
                    "INSERT INTO records (id, kind, version, at, payload, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
                };
                connection.prepare_cached(table).and_then(|mut insert| insert.execute(row))
            }
            Part::Pack { first, count, block } => connection
                .prepare_cached("INSERT INTO packs (id, count, records, checksum) VALUES (?1, ?2, ?3, ?4)")
                .and_then(|mut insert| insert.execute(params![record_id(rows.run, *first), count, block, checksum])),
        }
        .map_err(storage)?;
    }
    if arrives { leave(connection, rows.parts.len()) } else { Ok(()) }
}

/// Whether small records go to `arrivals`, in a transaction that this many are likely to share.
pub(super) fn arrive(company: usize) -> bool {
    company >= MANY
}

/// How many have to share a transaction for pages to be worth sharing.
const MANY: usize = 8;

/// Bytes of payloads that fill a good part of a run's own pages.
const SMALL: usize = 4_096;

/// Arrivals of which the oldest leave: enough for a short run's records to be among them from its first to its last, and
/// few, for whoever reads a run looks through them.
const ARRIVALS: i64 = 1_536;

/// How many leave together: those who share the transaction wait for them.
const LEAVING: i64 = 512;

/// How often, in arrivals, it is looked whether some have to leave.
const LOOK: i64 = 64;

/// Moves the oldest arrivals to where they stay, if there are many; so many have just come.
fn leave(connection: &Connection, fresh: usize) -> Result<(), JournalError> {
    let last = connection.last_insert_rowid();
    let before = last.saturating_sub(i64::try_from(fresh).unwrap_or(i64::MAX));
    if last / LOOK == before / LOOK {
        return Ok(());
    }
    let oldest: i64 = connection
        .prepare_cached("SELECT coalesce(min(id), 0) FROM arrivals")
        .and_then(|mut oldest| oldest.query_row([], |row| row.get(0)))
        .map_err(storage)?;
    if last - oldest < ARRIVALS {
        return Ok(());
    }
    let end = oldest + LEAVING;
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO records (id, kind, version, at, payload, checksum)
             SELECT record, kind, version, at, payload, checksum
             FROM (SELECT id FROM arrivals WHERE id < ?1 ORDER BY record) AS ordered CROSS JOIN arrivals USING (id)",
        )
        .and_then(|mut insert| insert.execute([end]))
        .and_then(|_| connection.prepare_cached("DELETE FROM arrivals WHERE id < ?1")?.execute([end]))
        .map_err(storage)?;
    Ok(())
}

/// Deletes the records of a run after one of them.
pub(super) fn cut(connection: &Connection, run: i64, after: u64) -> Result<(), JournalError> {
    let range = [record_id(run, after), record_id(run + 1, 0)];
    for sql in [
        "DELETE FROM records WHERE id > ?1 AND id < ?2",
        "DELETE FROM arrivals WHERE record > ?1 AND record < ?2",
        // One that begins before and goes on after can only be a broken one before a snapshot.
        "DELETE FROM packs WHERE id + count > ?1 + 1 AND id < ?2 AND id > ?1 >> 32 << 32",
    ] {
        connection.execute(sql, range).map_err(storage)?;
    }
    Ok(())
}

/// Keeps the newest snapshot of a run.
pub(super) fn put_snapshot(connection: &Connection, id: i64, snapshot: &Snapshot) -> Result<(), JournalError> {
    let row = params![
        id,
        snapshot.seq.cast_signed(),
        snapshot.version,
        snapshot.payload.as_ref(),
        snapshot_checksum(id, snapshot)
    ];
    connection
        .prepare_cached(
            "INSERT OR REPLACE INTO snapshots (run, seq, version, payload, checksum) VALUES (?1, ?2, ?3, ?4, ?5)",
        )
        .and_then(|mut put| put.execute(row))
        .map_err(storage)?;
    Ok(())
}

/// A run's snapshot. One that is not what was written is none: the records say the same, only slower.
pub(super) fn snapshot(connection: &Connection, run: &Found) -> Option<Snapshot> {
    let read = |row: &Row<'_>| {
        let snapshot =
            Snapshot { seq: unsigned(row, 0)?, version: row.get(1)?, payload: row.get::<_, String>(2)?.into() };
        Ok((snapshot, row.get::<_, Vec<u8>>(3)?))
    };
    let (snapshot, sum) = connection
        .prepare_cached("SELECT seq, version, payload, checksum FROM snapshots WHERE run = ?1")
        .and_then(|mut query| query.query_row([run.id], read))
        .ok()?;
    (snapshot.seq <= run.records && sum == snapshot_checksum(run.id, &snapshot)).then_some(snapshot)
}
