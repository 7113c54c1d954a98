//! Rows of runs and records: checked as they are read.

use crate::error::ServerError;
use opcell_journal::{JournalError, Record, RunId, Snapshot};
use tokio_postgres::Row;

/// A number that only grows from 0; a negative one was put there by another program.
pub(crate) fn unsigned(row: &Row, column: usize) -> Result<u64, ServerError> {
    let number: i64 = row.try_get(column)?;
    u64::try_from(number).map_err(|_| ServerError::Row(format!("column {column} is {number}")))
}

fn checksum(run: &str, place: [i64; 3], texts: [&str; 2]) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    for number in place {
        hasher.update(&number.to_le_bytes());
    }
    for text in [run].into_iter().chain(texts) {
        hasher.update(&(text.len() as u64).to_le_bytes());
        hasher.update(text.as_bytes());
    }
    let mut short = vec![0; 16];
    hasher.finalize_xof().fill(&mut short);
    short
}

pub(crate) fn record_checksum(run: &str, record: &Record) -> Vec<u8> {
    checksum(run, [record.seq.cast_signed(), i64::from(record.version), record.at], [&record.kind, &record.payload])
}

pub(crate) fn snapshot_checksum(run: &str, snapshot: &Snapshot) -> Vec<u8> {
    checksum(run, [snapshot.seq.cast_signed(), i64::from(snapshot.version), 0], ["snapshot", &snapshot.payload])
}

/// The result of a reading.
#[derive(Default)]
pub(crate) struct Read {
    /// Up to the first that is not what was written.
    pub records: Vec<Record>,
    /// The damage of that record.
    pub broken: Option<String>,
    /// Good records after it; they are counted, not given.
    pub after: u64,
}

/// Keeps the records that are what was written: rows of `seq, kind, version, at, payload, checksum`, in order.
pub(crate) fn good_records(run: &str, after: u64, rows: &[Row]) -> Result<Read, ServerError> {
    let mut found = Read::default();
    let mut expected = after + 1;
    for row in rows {
        let record = Record {
            seq: unsigned(row, 0)?,
            kind: row.try_get::<_, String>(1)?.into(),
            version: u32::try_from(row.try_get::<_, i32>(2)?).unwrap_or(u32::MAX),
            at: row.try_get(3)?,
            payload: row.try_get::<_, String>(4)?.into(),
        };
        let sound = row.try_get::<_, &[u8]>(5)? == record_checksum(run, &record);
        if found.broken.is_some() {
            found.after += u64::from(sound && record.seq >= expected);
        } else if !sound {
            found.broken = Some(format!("record {expected} has a wrong checksum"));
        } else if record.seq != expected {
            found.broken = Some(format!("record {expected} is missing"));
            found.after = 1;
        } else {
            found.records.push(record);
            expected += 1;
        }
    }
    Ok(found)
}

/// Checks whether records follow the last one and each other.
pub(crate) fn in_order(run: &RunId, last: u64, records: &[Record]) -> Result<(), JournalError> {
    match (last + 1..).zip(records).find(|(expected, record)| record.seq != *expected) {
        Some((expected, record)) => Err(JournalError::OutOfOrder { run: run.clone(), last, expected, got: record.seq }),
        None => Ok(()),
    }
}
