//! Rows of runs and records: finding, checking, adding.

use super::{
    packs::{self, Part, RecordRange},
    staging, storage,
    values::{self, Block},
};
use crate::{
    journal::{JournalError, Snapshot, in_order},
    record::{Fence, Record, RunId},
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

pub(super) fn pack_checksum(run: i64, pack: &RecordRange<impl AsRef<[u8]>>) -> [u8; 16] {
    checksum([run, pack.first.cast_signed(), i64::from(pack.count), 0], [b"pack", pack.body.as_ref()])
}

pub(super) fn staged_checksum(run: i64, staged: &RecordRange<impl AsRef<[u8]>>) -> [u8; 16] {
    checksum([run, staged.first.cast_signed(), i64::from(staged.count), 0], [b"arrival", staged.body.as_ref()])
}

fn snapshot_checksum(run: i64, snapshot: &Snapshot) -> [u8; 16] {
    let place = [run, snapshot.seq.cast_signed(), i64::from(snapshot.version), 0];
    checksum(place, [b"snapshot", snapshot.payload.as_bytes()])
}

/// The result of a reading.
#[derive(Default)]
pub(super) struct Read {
    /// Up to the first that is not what was written.
    pub records: Vec<Record>,
    /// The damage of that record.
    pub broken: Option<String>,
    /// Intact records after it; they are counted, not returned.
    pub behind: u64,
    /// There is more, for which there was no room.
    pub is_full: bool,
}

/// The size of what is read at once.
#[derive(Clone, Copy)]
pub(super) struct Most {
    pub records: u64,
    /// Bytes of text; the first record is read whatever it has.
    pub bytes: usize,
}

/// Reads records that stand as they were written.
pub(super) fn good_records(connection: &Connection, run: i64, after: u64, most: Most) -> Result<Read, JournalError> {
    let mut query = connection
        .prepare_cached(
            "SELECT id, kind, version, at, payload, checksum, NULL AS count, NULL AS arrives FROM records WHERE id > ?1 AND id < ?2
             UNION ALL
             SELECT first, NULL, NULL, NULL, records, checksum, count, TRUE FROM staging
             WHERE first > ?3 AND first < ?2 AND first + count > ?1 + 1
             UNION ALL
             SELECT id, NULL, NULL, NULL, records, checksum, count, FALSE FROM packs
             WHERE id >= coalesce((SELECT max(id) FROM packs WHERE id <= ?1 AND id > ?3), ?1) AND id < ?2 AND id + count > ?1 + 1
             ORDER BY id LIMIT ?4",
        )
        .map_err(storage)?;
    let rows = i64::try_from(most.records).unwrap_or(i64::MAX);
    let range = params![record_id(run, after), record_id(run + 1, 0), record_id(run, 0), rows];
    let mut rows = query.query(range).map_err(storage)?;
    let mut found = Read::default();
    let (mut expected, mut bytes) = (after + 1, 0_usize);
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
            } else if found.records.len() as u64 >= most.records {
                return Ok(found);
            } else if !found.records.is_empty() && bytes.saturating_add(record.payload.len()) > most.bytes {
                found.is_full = true;
                return Ok(found);
            } else if record.seq == expected {
                bytes += record.payload.len();
                found.records.push(record);
                expected += 1;
            } else {
                found.broken = Some(format!("record {expected} is missing"));
                found.behind = 1;
            }
        }
    }
}

/// The records of a row: one, or those of an arrival or a pack.
fn good_row(run: i64, row: &Row<'_>) -> Result<Vec<Record>, String> {
    let unreadable = |error: rusqlite::Error| format!("cannot be read: {error}");
    let wrong = || "has a wrong checksum".to_owned();
    let Some(count) = row.get::<_, Option<u32>>(6).map_err(unreadable)? else {
        return good_record(run, row).map(|record| vec![record]);
    };
    let first = unsigned(row, 0).map_err(unreadable)? & u64::from(u32::MAX);
    let arrives: bool = row.get(7).map_err(unreadable)?;
    let sum: Vec<u8> = row.get(5).map_err(unreadable)?;
    let records = if arrives {
        let staged: RecordRange<String> = RecordRange { first, count, body: row.get(4).map_err(unreadable)? };
        (sum == staged_checksum(run, &staged)).then(|| packs::read(first, count, &staged.body))
    } else {
        let pack: RecordRange<Vec<u8>> = RecordRange { first, count, body: row.get(4).map_err(unreadable)? };
        (sum == pack_checksum(run, &pack)).then(|| packs::records(first, count, &pack.body))
    };
    records.flatten().ok_or_else(wrong)
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
    /// For a transaction that this many are likely to share.
    pub(super) fn new(run: i64, records: Vec<Record>, expected_batch: usize) -> Self {
        let last = records.last().map(|record| (record.seq, record.at));
        let values = values::blocks(&records);
        let parts = match staging::of(&records, expected_batch) {
            Some(staged) => vec![staged],
            None => packs::divide(records),
        };
        let parts = parts.into_iter().map(|part| {
            let checksum = match &part {
                Part::Row(record) => record_checksum(run, record),
                Part::Staged(staged) => staged_checksum(run, staged),
                Part::Pack(pack) => pack_checksum(run, pack),
            };
            (part, checksum)
        });
        Self { run, parts: parts.collect(), values, last }
    }

    /// The last record's place and time.
    pub(super) fn last(&self) -> Option<(u64, i64)> {
        self.last
    }

    /// Returns `true` if they all go to `arrivals`, where nothing can be in their way: neither a row of the same
    /// number, nor values that are not there.
    pub(super) fn are_plain(&self) -> bool {
        self.values.is_empty() && self.parts.iter().all(|(part, _)| matches!(part, Part::Staged(_)))
    }
}

/// Checks whether records follow one another, and the last one there.
pub(super) fn fit(run: &RunId, last: u64, records: &[Record]) -> Result<(), JournalError> {
    in_order(run, last, records)?;
    if last + records.len() as u64 > MOST_RECORDS {
        return Err(JournalError::Full { run: run.clone(), most: MOST_RECORDS });
    }
    Ok(())
}

/// Adds records that [`fit`].
pub(super) fn insert(connection: &Connection, rows: &Rows) -> Result<(), JournalError> {
    values::put(connection, rows.run, &rows.values)?;
    for (part, checksum) in &rows.parts {
        match part {
            Part::Row(record) => {
                let id = record_id(rows.run, record.seq);
                let row = params![id, record.kind, record.version, record.at, &*record.payload, checksum];
                connection
                    .prepare_cached(
                        "INSERT INTO records (id, kind, version, at, payload, checksum) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
                    )
                    .and_then(|mut insert| insert.execute(row))
                    .map_err(storage)?;
            }
            Part::Staged(staged) => {
                staging::put(connection, record_id(rows.run, staged.first), staged, checksum)?;
            }
            Part::Pack(pack) => put_pack(connection, rows.run, pack, checksum)?,
        }
    }
    Ok(())
}

/// Adds a pack.
pub(super) fn put_pack(
    connection: &Connection,
    run: i64,
    pack: &RecordRange<Vec<u8>>,
    checksum: &[u8],
) -> Result<(), JournalError> {
    connection
        .prepare_cached("INSERT OR REPLACE INTO packs (id, count, records, checksum) VALUES (?1, ?2, ?3, ?4)")
        .and_then(|mut insert| insert.execute(params![record_id(run, pack.first), pack.count, pack.body, checksum]))
        .map(drop)
        .map_err(storage)
}

/// Deletes the records of a run after one of them.
pub(super) fn cut(connection: &Connection, run: i64, after: u64) -> Result<(), JournalError> {
    let range = [record_id(run, after), record_id(run + 1, 0)];
    for sql in [
        "DELETE FROM records WHERE id > ?1 AND id < ?2",
        // One that begins before and continues after can only be a broken one before a snapshot.
        "DELETE FROM staging WHERE first + count > ?1 + 1 AND first < ?2 AND first > ?1 >> 32 << 32",
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
