//! The answers of its stores to one call, and their record: the same wherever the stores are kept.

use opcell_sandbox::{
    StoreGrant,
    store::{StoreAnswer, StoreEntry, StoreRequest},
};
use std::collections::VecDeque;

/// Most that is recorded of the answers of one call.
pub(super) const CALL_RECORD_BYTES: u64 = 4 << 20;

/// Most that is recorded of the calls of one plugin; the records of its oldest calls make room.
pub(super) const PLUGIN_RECORD_BYTES: u64 = 16 << 20;

/// The bytes that a record takes beside its text and value.
const RECORD_OVERHEAD: u64 = 128;

/// An answer, or how the quota is exceeded.
pub(super) type Answer = Result<StoreAnswer, String>;

/// One answer, and what it was an answer to.
#[derive(Debug)]
pub(super) struct Answered {
    pub request: [u8; 32],
    pub answer: Answer,
}

/// The recorded answers to one call.
#[derive(Debug, Default)]
pub(super) struct Memory {
    looked_up: bool,
    /// Answers of an earlier attempt that are still to be given.
    recorded: VecDeque<Answered>,
    /// Answers since the last write; they are recorded with the next one.
    pending: Vec<Answered>,
    /// Bytes of everything that was recorded or is pending.
    bytes: u64,
    next: i64,
    /// The number of answers that were recorded when this attempt last looked or wrote.
    known: i64,
}

impl Memory {
    /// Returns `true` if the answers to an earlier attempt are not known yet.
    pub(super) fn is_new(&self) -> bool {
        !self.looked_up
    }

    /// Takes what an earlier attempt was answered up to its last write.
    pub(super) fn look_back(&mut self, recorded: VecDeque<Answered>) {
        self.known = i64::try_from(recorded.len()).unwrap_or(i64::MAX);
        (self.recorded, self.looked_up) = (recorded, true);
    }

    /// Returns `true` if another attempt of the call wrote since, by the number of answers that are recorded now: one
    /// that was abandoned in the middle of a write, say. Fewer are no one's: the oldest records go.
    pub(super) fn is_outrun(&self, recorded: i64) -> bool {
        recorded > self.known
    }

    /// Returns the answer to an earlier attempt, if it made the same request here.
    pub(super) fn earlier(&mut self, asked: &[u8; 32]) -> Option<Answer> {
        if self.recorded.front().is_some_and(|front| front.request == *asked)
            && let Some(earlier) = self.recorded.pop_front()
        {
            self.next += 1;
            self.bytes += size(&earlier.answer);
            return Some(earlier.answer);
        }
        // It goes another way than before: what it did then is no guide any more.
        self.recorded.clear();
        None
    }

    /// Returns `true` if an answer can be recorded with those before it.
    pub(super) fn has_room(&self, answer: &Answer) -> bool {
        self.bytes.saturating_add(size(answer)) <= CALL_RECORD_BYTES
    }

    /// Returns the record with this answer: the number of the first, the answers, and the bytes of everything.
    pub(super) fn with<'a>(&'a self, answered: &'a Answered) -> (i64, impl Iterator<Item = &'a Answered>, i64) {
        let bytes = self.bytes.saturating_add(size(&answered.answer)).cast_signed();
        (self.next, self.pending.iter().chain([answered]), bytes)
    }

    /// Takes an answer that was given; one that was written is recorded, with all before it.
    pub(super) fn given(&mut self, answered: Answered, written: bool) {
        self.bytes = self.bytes.saturating_add(size(&answered.answer));
        if written {
            self.next += i64::try_from(self.pending.len() + 1).unwrap_or(i64::MAX);
            self.known = self.next;
            self.pending.clear();
        } else if self.bytes <= CALL_RECORD_BYTES {
            // Reads that are not recorded are no harm as long as nothing is written on their ground.
            self.pending.push(answered);
        }
    }
}

/// The refusal of a write that cannot be recorded.
pub(super) fn answered_too_much() -> String {
    let most = CALL_RECORD_BYTES >> 20;
    format!("this call has been answered more than {most} MiB by its stores and writes no more")
}

/// The refusal of a write of an attempt that is not the last one.
pub(super) const OUTRUN: &str = "another attempt of this call has written since; this one writes no more";

/// Returns `true` if an answer says that something was written.
pub(super) fn is_written(answer: &Answer) -> bool {
    matches!(answer, Ok(StoreAnswer::Stored(_) | StoreAnswer::Deleted(true)))
}

/// Returns `true` if a request may write.
pub(super) fn may_write(request: &StoreRequest) -> bool {
    !matches!(request, StoreRequest::Get { .. } | StoreRequest::List { .. })
}

/// The bytes and entries of a store, with a value that takes `size` in the place of one that took `before`.
pub(super) fn within_quota(
    store: &str,
    grant: &StoreGrant,
    (bytes, entries): (u64, u64),
    before: Option<u64>,
    size: u64,
) -> Result<(u64, u64), String> {
    let bytes_after = bytes.saturating_sub(before.unwrap_or(0)).saturating_add(size);
    let entries_after = entries + u64::from(before.is_none());
    let StoreGrant { quota, entries: most, .. } = *grant;
    if bytes_after > quota && bytes_after > bytes {
        return Err(format!("store `{store}`: it would hold {bytes_after} bytes, more than its quota of {quota}"));
    }
    if entries_after > most && before.is_none() {
        return Err(format!("store `{store}`: it would hold more than {most} entries"));
    }
    Ok((bytes_after, entries_after))
}

/// Returns the bytes that an entry counts.
pub(super) fn entry_bytes(key: &str, value: u64) -> u64 {
    key.len() as u64 + value + StoreGrant::ENTRY_OVERHEAD
}

/// Returns the bytes that a record takes.
fn size(answer: &Answer) -> u64 {
    let content = match answer {
        Ok(StoreAnswer::Entry(entry) | StoreAnswer::Conflict(entry)) => {
            entry.as_ref().map_or(0, |entry| entry.value.len())
        }
        Ok(StoreAnswer::Page { keys, .. }) => keys.iter().map(|key| key.len() + 4).sum(),
        Ok(StoreAnswer::Stored(_) | StoreAnswer::Deleted(_)) => 0,
        Err(message) => message.len(),
    };
    content as u64 + RECORD_OVERHEAD
}

/// Returns a hash of the store's name and of everything in a request, which recognises it.
pub(super) fn digest(store: &str, request: &StoreRequest) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 request to a plugin's store");
    let mut part = |bytes: &[u8]| {
        hasher.update(&(bytes.len() as u64).to_le_bytes()).update(bytes);
    };
    part(store.as_bytes());
    match request {
        StoreRequest::Get { key } => {
            part(b"get");
            part(key.as_bytes());
        }
        StoreRequest::Set { key, value } => {
            part(b"set");
            part(key.as_bytes());
            part(value);
        }
        StoreRequest::CompareAndSet { key, expected, value } => {
            part(b"compare-and-set");
            part(key.as_bytes());
            part(&expected.map(u64::to_le_bytes).unwrap_or_default());
            part(&[u8::from(expected.is_some())]);
            part(value);
        }
        StoreRequest::List { prefix, after, limit } => {
            part(b"list");
            part(prefix.as_bytes());
            part(after.as_deref().unwrap_or_default().as_bytes());
            part(&[u8::from(after.is_some())]);
            part(&limit.to_le_bytes());
        }
        StoreRequest::Delete { key } => {
            part(b"delete");
            part(key.as_bytes());
        }
    }
    *hasher.finalize().as_bytes()
}

/// An answer as the columns of a table.
#[derive(Debug)]
pub(super) struct Columns {
    pub kind: String,
    pub number: Option<i64>,
    pub text: Option<String>,
    pub value: Option<Vec<u8>>,
}

impl Columns {
    pub(super) fn of(answer: &Answer) -> Self {
        let version = |entry: &Option<StoreEntry>| entry.as_ref().map(|entry| entry.version.cast_signed());
        let value = |entry: &Option<StoreEntry>| entry.as_ref().map(|entry| entry.value.clone());
        let (kind, number, text, value) = match answer {
            Ok(StoreAnswer::Entry(entry)) => ("entry", version(entry), None, value(entry)),
            Ok(StoreAnswer::Stored(version)) => ("stored", Some(version.cast_signed()), None, None),
            Ok(StoreAnswer::Conflict(entry)) => ("conflict", version(entry), None, value(entry)),
            Ok(StoreAnswer::Deleted(was_there)) => ("deleted", Some(i64::from(*was_there)), None, None),
            Ok(StoreAnswer::Page { keys, more }) => {
                ("page", Some(i64::from(*more)), serde_json::to_string(keys).ok(), None)
            }
            Err(message) => ("quota", None, Some(message.clone()), None),
        };
        Self { kind: kind.to_owned(), number, text, value }
    }

    pub(super) fn answer(self) -> Answer {
        let version = self.number.map(i64::cast_unsigned);
        let value = self.value;
        let entry = version.map(|version| StoreEntry { version, value: value.unwrap_or_default() });
        match self.kind.as_str() {
            "entry" => Ok(StoreAnswer::Entry(entry)),
            "stored" => Ok(StoreAnswer::Stored(version.unwrap_or_default())),
            "conflict" => Ok(StoreAnswer::Conflict(entry)),
            "deleted" => Ok(StoreAnswer::Deleted(self.number == Some(1))),
            "page" => {
                let keys = serde_json::from_str(&self.text.unwrap_or_default()).unwrap_or_default();
                Ok(StoreAnswer::Page { keys, more: self.number == Some(1) })
            }
            _ => Err(self.text.unwrap_or_default()),
        }
    }
}
