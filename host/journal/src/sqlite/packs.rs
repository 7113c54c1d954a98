//! Packs: many records of one run in one row, compressed.
//!
//! A row of its own costs a record more than most records say. Appends of many records (bulk work whose calls are pure,
//! such as `each` over thousands of elements) are therefore kept as packs, and so are small appends that came together
//! with those of other runs ([`super::arrivals`]); other small appends, which something waits for, are rows.
//!
//! A pack's text is, for each record, a line `KIND VERSION AT BYTES` followed by the payload of that length and a
//! line feed; it is compressed as one LZ4 block, after its length in 4 bytes, little-endian.

use crate::record::Record;
use std::{cell::Cell, fmt::Write as _};

/// The fewest records of one append that are worth a pack.
pub(super) const FEWEST: usize = 64;

/// Bytes of text after which a pack is full. Reading one event needs the whole pack.
const FULL_PACK_BYTES: usize = 1 << 20;

/// The largest payload that goes into a pack.
const LARGEST: usize = 256 << 10;

/// The longest text that a pack can have.
const MAX_PACK_BYTES: usize = FULL_PACK_BYTES + LARGEST + 4_096;

/// Records that stand together.
pub(super) enum Part {
    /// A record that has a row of its own.
    Row(Record),
    /// A small append that comes together with those of other runs: its text, not compressed yet.
    Staged(RecordRange<String>),
    /// Several in one row: their text, compressed.
    Pack(RecordRange<Vec<u8>>),
}

/// Records of one run that follow one another.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RecordRange<T> {
    /// Number of the first of them.
    pub first: u64,
    /// The number of records.
    pub count: u32,
    /// The payloads of the records.
    pub body: T,
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
            parts.extend(open.close().map(Part::Pack));
            parts.push(Part::Row(record));
            continue;
        }
        open.add(&record);
        if open.text.len() >= FULL_PACK_BYTES {
            parts.extend(open.close().map(Part::Pack));
        }
    }
    parts.extend(open.close().map(Part::Pack));
    OPEN.set(open);
    parts
}

thread_local! {
    static OPEN: Cell<Open> = const { Cell::new(Open { first: 0, count: 0, text: String::new(), block: Vec::new() }) };
}

/// A pack that is being made. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct Open {
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
        write(&mut self.text, record);
    }

    /// Adds what follows; whether it does, and there is room.
    pub(super) fn join(&mut self, next: &RecordRange<&str>) -> bool {
        if self.count == 0 {
            self.first = next.first;
        }
        let follows = self.first + u64::from(self.count) == next.first && self.text.len() < FULL_PACK_BYTES;
        let Some(count) = self.count.checked_add(next.count).filter(|_| follows) else { return false };
        self.count = count;
        self.text.push_str(next.body);
        true
    }

    /// The pack, unless nothing was added.
    pub(super) fn close(&mut self) -> Option<RecordRange<Vec<u8>>> {
        let count = std::mem::take(&mut self.count);
        let block = (count > 0).then(|| compress(&self.text, &mut self.block));
        self.text.clear();
        block.map(|body| RecordRange { first: self.first, count, body })
    }
}

/// Adds a record to a text.
pub(super) fn write(text: &mut String, record: &Record) {
    // A string takes everything.
    let _ = writeln!(text, "{} {} {} {}", record.kind, record.version, record.at, record.payload.len());
    text.push_str(&record.payload);
    text.push('\n');
}

/// Compresses as `compress_prepend_size` does, into memory that is there already.
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
    if length as usize > MAX_PACK_BYTES {
        return None;
    }
    let text = String::from_utf8(lz4_flex::block::decompress_size_prepended(block).ok()?).ok()?;
    read(first, count, &text)
}

/// The records of a text; `None` when it is not one that [`write()`] made.
pub(super) fn read(first: u64, count: u32, text: &str) -> Option<Vec<Record>> {
    let mut rest = text;
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
        let packs = parts.iter().filter(|part| matches!(part, Part::Pack(_))).count();
        let read = parts.into_iter().flat_map(|part| match part {
            Part::Row(record) => vec![record],
            Part::Staged(staged) => read(staged.first, staged.count, &staged.body).unwrap(),
            Part::Pack(pack) => records(pack.first, pack.count, &pack.body).unwrap(),
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
