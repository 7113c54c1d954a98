//! Packs: many records of one append in one row, compressed.
//!
//! A row of its own costs a record more than most records say. Appends of many records (bulk work whose calls are pure,
//! such as `each` over thousands of elements) are therefore kept as packs; small appends, which something waits for,
//! are rows.
//!
//! A pack's text is, for each record, a line `KIND VERSION AT BYTES` followed by the payload of so many bytes and a
//! line feed; it is compressed as one LZ4 block, after its length in 4 bytes, little-endian.

use crate::record::Record;
use std::{cell::Cell, fmt::Write as _};

/// The fewest records of one append that are worth a pack.
pub(super) const FEWEST: usize = 64;

/// Bytes of text after which a pack is full. Reading one event needs the whole pack.
const FULL: usize = 1 << 20;

/// The largest payload that goes into a pack.
const LARGEST: usize = 256 << 10;

/// The longest text that a pack can have.
const LONGEST: usize = FULL + LARGEST + 4_096;

/// Records that stand together.
pub(super) enum Part {
    /// One that has a row of its own.
    Row(Record),
    /// Several in one row.
    Pack {
        /// Number of the first of them.
        first: u64,
        /// How many there are.
        count: u32,
        /// Their text, compressed.
        block: Vec<u8>,
    },
}

/// Divides the records of one append.
pub(super) fn divide(records: Vec<Record>) -> Vec<Part> {
    if records.len() < FEWEST {
        return records.into_iter().map(Part::Row).collect();
    }
    // Taken back from the last pack: memory of this size is the system's again as soon as it is not used.
    let (mut parts, mut open) = (Vec::new(), OPEN.take());
    for record in records {
        if record.payload.len() > LARGEST {
            parts.extend(open.close());
            parts.push(Part::Row(record));
            continue;
        }
        open.add(&record);
        if open.text.len() >= FULL {
            parts.extend(open.close());
        }
    }
    parts.extend(open.close());
    OPEN.set(open);
    parts
}

thread_local! {
    static OPEN: Cell<Open> = const { Cell::new(Open { first: 0, count: 0, text: String::new(), block: Vec::new() }) };
}

#[derive(Default)]
struct Open {
    first: u64,
    count: u32,
    text: String,
    /// Room for the text, compressed.
    block: Vec<u8>,
}

impl Open {
    fn add(&mut self, record: &Record) {
        if self.count == 0 {
            self.first = record.seq;
        }
        self.count += 1;
        // A string takes everything.
        let _ = writeln!(self.text, "{} {} {} {}", record.kind, record.version, record.at, record.payload.len());
        self.text.push_str(&record.payload);
        self.text.push('\n');
    }

    fn close(&mut self) -> Option<Part> {
        let count = std::mem::take(&mut self.count);
        let block = (count > 0).then(|| compress(&self.text, &mut self.block));
        self.text.clear();
        block.map(|block| Part::Pack { first: self.first, count, block })
    }
}

/// What `compress_prepend_size` makes, in memory that is there already.
fn compress(text: &str, room: &mut Vec<u8>) -> Vec<u8> {
    room.resize(lz4_flex::block::get_maximum_output_size(text.len()).max(room.len()), 0);
    let Ok(size) = lz4_flex::block::compress_into(text.as_bytes(), room) else {
        return lz4_flex::block::compress_prepend_size(text.as_bytes());
    };
    let length = u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes();
    [&length, room.get(..size).unwrap_or_default()].concat()
}

/// The records of a pack; `None` when the block is not one that [`divide`] made.
pub(super) fn records(first: u64, count: u32, block: &[u8]) -> Option<Vec<Record>> {
    let length = u32::from_le_bytes(*block.first_chunk()?);
    if length as usize > LONGEST {
        return None;
    }
    let text = String::from_utf8(lz4_flex::block::decompress_size_prepended(block).ok()?).ok()?;
    let mut rest = text.as_str();
    let mut records = Vec::new();
    for seq in (first..).take(count as usize) {
        let (head, after) = rest.split_once('\n')?;
        let mut head = head.rsplitn(4, ' ');
        let bytes: usize = head.next()?.parse().ok()?;
        let at = head.next()?.parse().ok()?;
        let version = head.next()?.parse().ok()?;
        let kind = head.next()?.to_owned().into();
        let (payload, after) = after.split_at_checked(bytes)?;
        rest = after.strip_prefix('\n')?;
        records.push(Record { seq, kind, version, at, payload: payload.into() });
    }
    rest.is_empty().then_some(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seq: u64, payload: &str) -> Record {
        Record { seq, kind: "a kind".into(), version: 2, at: -5, payload: payload.into() }
    }

    fn there_and_back(all: Vec<Record>) -> (Vec<Record>, usize) {
        let parts = divide(all);
        let packs = parts.iter().filter(|part| matches!(part, Part::Pack { .. })).count();
        let read = parts.into_iter().flat_map(|part| match part {
            Part::Row(record) => vec![record],
            Part::Pack { first, count, block } => records(first, count, &block).unwrap(),
        });
        (read.collect(), packs)
    }

    #[test]
    fn records_of_a_pack_are_what_was_packed() {
        let all: Vec<Record> =
            (7..200).map(|seq| record(seq, &"é\n \"x".repeat(usize::try_from(seq % 5).unwrap()))).collect();
        assert_eq!(there_and_back(all.clone()), (all, 1));
    }

    #[test]
    fn a_large_record_has_a_row_of_its_own_and_keeps_its_place() {
        let mut all: Vec<Record> = (1..=100).map(|seq| record(seq, "{}")).collect();
        all[49] = record(50, &"x".repeat(LARGEST + 1));
        assert_eq!(there_and_back(all.clone()), (all, 2));
    }

    #[test]
    fn a_pack_is_bounded() {
        let all: Vec<Record> = (1..=100).map(|seq| record(seq, &"x".repeat(LARGEST))).collect();
        let (read, packs) = there_and_back(all.clone());
        assert!(read == all && packs == 25, "{packs}");
    }

    #[test]
    fn a_block_that_says_it_is_huge_is_refused() {
        assert_eq!(records(1, 1, &[0xff, 0xff, 0xff, 0xff, 0]), None);
        assert_eq!(records(1, 1, &[]), None);
    }
}
