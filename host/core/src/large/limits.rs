//! Bounds on what is read of a run: a journal may come from elsewhere.

use opcell_types::value::MAX_BYTES;

/// Bounds on the large values that are read of one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadLimits {
    /// Bytes of the texts of all values, each counted once, as they are stored.
    pub stored_bytes: u64,
    /// Bytes that they take in memory, as [`memory_estimate`] has it.
    pub memory_bytes: u64,
    /// Bytes of JSON of the values that one event names, each counted wherever it is named: what writing the event
    /// costs.
    pub event_bytes: u64,
    /// `true` if [`ELIDED`](super::ELIDED) takes the place of what is beyond; otherwise it is an error.
    pub elides: bool,
}

impl ReadLimits {
    /// For people and programs that look at a run.
    pub const SHOWN: Self =
        Self { stored_bytes: MAX_BYTES, memory_bytes: 4 * MAX_BYTES, event_bytes: MAX_BYTES, elides: true };

    /// For deciding a run again and for forking it, where nothing may be missing. Anyone may do that with a journal
    /// from elsewhere.
    pub const DECIDED: Self =
        Self { stored_bytes: 4 * MAX_BYTES, memory_bytes: 8 * MAX_BYTES, event_bytes: 4 * MAX_BYTES, elides: false };

    /// For resuming a run, which once held as much. What it shares is not written again, so that a snapshot may name a
    /// value as often as the state has it.
    pub const DRIVEN: Self =
        Self { stored_bytes: 16 * MAX_BYTES, memory_bytes: 64 * MAX_BYTES, event_bytes: u64::MAX, elides: false };
}

/// Bytes that a JSON text takes at most, or nearly, once it is values: each takes sixteen bytes, and each array and
/// object an allocation.
#[must_use]
pub fn memory_estimate(text: &str) -> u64 {
    const PART: u64 = 16;
    const AGGREGATE: u64 = 48;
    let count = |part: &[u8], byte: u8| part.iter().map(|found| u64::from(*found == byte)).sum::<u64>();
    let parts = text
        .as_bytes()
        .chunks(1 << 14)
        .map(|part| count(part, b',') * PART + (count(part, b'[') + count(part, b'{')) * AGGREGATE);
    parts.sum::<u64>().saturating_add(text.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_small_parts_takes_more_memory_than_it_has_bytes() {
        assert_eq!(memory_estimate("\"x\""), 3);
        assert_eq!(memory_estimate("[1,2]"), 5 + 16 + 48);
        assert!(memory_estimate(&"[],".repeat(1_000)) > 60_000);
    }
}
