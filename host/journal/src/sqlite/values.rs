//! Large values: kept once, compressed, as long as a run names them.

use super::storage;
use crate::{
    journal::{FoundValues, JournalError},
    record::{Record, StoredValue},
};
use rusqlite::{Connection, OptionalExtension, params};

/// The longest text of one value: four times what a value may take, because the text says more of some numbers.
const MAX_VALUE_BYTES: usize = 256 << 20;

/// A value as the store has it; compressed before a job has its turn to write.
pub(super) struct Block {
    digest: Vec<u8>,
    size: i64,
    block: Vec<u8>,
}

/// The values that records name for the first time.
pub(super) fn blocks(records: &[Record]) -> Vec<Block> {
    let values = records.iter().flat_map(|record| record.payload.values());
    let block = |value: &StoredValue| Block {
        digest: value.digest.as_bytes().to_vec(),
        size: i64::try_from(value.text.len()).unwrap_or(i64::MAX),
        block: lz4_flex::block::compress_prepend_size(value.text.as_bytes()),
    };
    values.map(block).collect()
}

/// Keeps values for a run.
pub(super) fn put(connection: &Connection, run: i64, blocks: &[Block]) -> Result<(), JournalError> {
    for Block { digest, size, block } in blocks {
        connection
            .prepare_cached("INSERT INTO large_values (digest, size, block) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
            .and_then(|mut put| put.execute(params![digest, size, block]))
            .and_then(|_| {
                connection
                    .prepare_cached(
                        "INSERT INTO large_value_uses (run, value) SELECT ?1, id FROM large_values WHERE digest = ?2
                         ON CONFLICT DO NOTHING",
                    )?
                    .execute(params![run, digest])
            })
            .map_err(storage)?;
    }
    Ok(())
}

/// The values that are there and can be read, as long as there is room; whoever reads them checks their digests.
pub(super) fn get(
    connection: &Connection,
    digests: &[std::sync::Arc<str>],
    max_bytes: u64,
) -> Result<FoundValues, JournalError> {
    let mut query = connection.prepare_cached("SELECT block FROM large_values WHERE digest = ?1").map_err(storage)?;
    let (mut values, mut room) = (FoundValues::default(), usize::try_from(max_bytes).unwrap_or(usize::MAX));
    for digest in digests {
        let block: Option<Vec<u8>> =
            query.query_row([digest.as_bytes()], |row| row.get(0)).optional().map_err(storage)?;
        let Some((length, block)) = block.as_deref().and_then(|block| Some((text_length(block)?, block))) else {
            continue;
        };
        if length > room {
            values.too_large.push(digest.clone());
        } else if let Some(text) = text_of(block) {
            room -= length;
            values.found.push(StoredValue { digest: digest.clone(), text: text.into() });
        }
    }
    Ok(values)
}

/// The length that a block says its text has; `None` for one that is not a value's. Nothing is made of the text yet.
fn text_length(block: &[u8]) -> Option<usize> {
    let length = u32::from_le_bytes(*block.first_chunk()?) as usize;
    // LZ4 makes no more than 255 bytes of one.
    (length <= MAX_VALUE_BYTES && length / 256 <= block.len()).then_some(length)
}

fn text_of(block: &[u8]) -> Option<String> {
    String::from_utf8(lz4_flex::block::decompress_size_prepended(block).ok()?).ok()
}
