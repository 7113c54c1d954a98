//! The host's memory that headers and bodies of one cell take: one total for all of them, however many handles there
//! are. It is charged before anything is kept, and given back when it is dropped.

use crate::budget::Exceeded;
use bytes::Bytes;
use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering},
};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError};

/// A header's name and value, their place in a list, and two blocks of the allocator.
const ENTRY_BYTES: u64 = size_of::<(String, Vec<u8>)>() as u64 + 2 * 16;

/// A resource without what it holds: its place in the table and its own block.
const RESOURCE_BYTES: u64 = 256;

/// The bytes that one header takes. A list that grows has room for as many again.
pub(super) fn entry(name: &str, value: &[u8]) -> u64 {
    2 * ENTRY_BYTES + (name.len() + value.len()) as u64
}

/// The bytes that headers or trailers take.
pub(super) fn weight(entries: &[(String, Vec<u8>)]) -> u64 {
    entries.iter().fold(RESOURCE_BYTES, |total, (name, value)| total + entry(name, value))
}

/// The account of one cell.
#[derive(Debug, Clone)]
pub(crate) struct Held(Arc<Account>);

#[derive(Debug)]
struct Account {
    limit: u64,
    used: AtomicU64,
    /// Bytes that streams took from the guest and that its budget has not seen yet.
    written: AtomicU64,
}

impl Held {
    /// An account of this many bytes.
    pub(crate) fn new(limit: u64) -> Self {
        Self(Arc::new(Account { limit, used: AtomicU64::new(0), written: AtomicU64::new(0) }))
    }

    /// Charges bytes for as long as the share lives.
    pub(super) fn share(&self, bytes: u64) -> Result<Share, Exceeded> {
        let mut share = Share { held: self.clone(), bytes: 0 };
        share.set(bytes)?;
        Ok(share)
    }

    /// The bytes that guests wrote to streams since this was last asked.
    pub(super) fn written(&self) -> usize {
        usize::try_from(self.0.written.swap(0, Ordering::Relaxed)).unwrap_or(usize::MAX)
    }
}

/// The part of the account that one resource holds.
#[derive(Debug)]
pub(crate) struct Share {
    held: Held,
    bytes: u64,
}

impl Share {
    /// Changes what it holds.
    pub(super) fn set(&mut self, bytes: u64) -> Result<(), Exceeded> {
        let Account { limit, used, .. } = &*self.held.0;
        if bytes > self.bytes {
            let more = bytes - self.bytes;
            let fits = |used: u64| used.checked_add(more).filter(|used| used <= limit);
            used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).map_err(|_| Exceeded::HeldBytes(*limit))?;
        } else {
            used.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Adds to what it holds.
    pub(super) fn add(&mut self, more: u64) -> Result<(), Exceeded> {
        self.set(self.bytes.saturating_add(more))
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.held.0.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The body of a request, shared between the guest's stream, its body and the request.
#[derive(Clone)]
pub(super) struct Sent {
    buffer: Arc<Mutex<Buffer>>,
    finished: Arc<AtomicBool>,
    most: usize,
}

struct Buffer {
    bytes: Vec<u8>,
    share: Share,
}

impl Sent {
    /// A body that has nothing yet, and takes no more than `most` bytes.
    pub(super) fn new(held: &Held, most: usize) -> Result<Self, Exceeded> {
        let buffer = Buffer { bytes: Vec::new(), share: held.share(RESOURCE_BYTES)? };
        Ok(Self { buffer: Arc::new(Mutex::new(buffer)), finished: Arc::default(), most })
    }

    /// Nothing more is written.
    pub(super) fn finish(&self) {
        self.finished.store(true, Ordering::Relaxed);
    }

    /// Returns `true` once nothing more is written.
    pub(super) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Relaxed)
    }

    /// Looks at what was written.
    pub(super) fn read<T>(&self, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.buffer.lock().unwrap_or_else(PoisonError::into_inner).bytes)
    }

    fn push(&self, more: &[u8]) -> Result<(), StreamError> {
        let mut buffer = self.buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let Buffer { bytes, share } = &mut *buffer;
        let length = bytes.len().saturating_add(more.len());
        if length > self.most {
            return Err(StreamError::Trap(wasmtime::Error::msg("more was written to a body than it takes")));
        }
        share.held.0.written.fetch_add(more.len() as u64, Ordering::Relaxed);
        if length > bytes.capacity() {
            let room = length.max(bytes.capacity().saturating_mul(2)).min(self.most);
            share.set(RESOURCE_BYTES + room as u64).map_err(|exceeded| StreamError::Trap(exceeded.into()))?;
            bytes.reserve_exact(room - bytes.len());
        }
        bytes.extend_from_slice(more);
        Ok(())
    }
}

#[async_trait::async_trait]
impl OutputStream for Sent {
    fn write(&mut self, bytes: Bytes) -> Result<(), StreamError> {
        self.push(&bytes)
    }

    fn flush(&mut self) -> Result<(), StreamError> {
        Ok(())
    }

    fn check_write(&mut self) -> Result<usize, StreamError> {
        match self.most.saturating_sub(self.read(<[u8]>::len)) {
            0 => Err(StreamError::Closed),
            left => Ok(left),
        }
    }
}

#[async_trait::async_trait]
impl Pollable for Sent {
    async fn ready(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_bodies_of_a_cell_share_one_total_and_give_it_back() {
        let held = Held::new(1 << 20);
        let bodies: Vec<Sent> = (0..8).map(|_| Sent::new(&held, 4 << 20).unwrap()).collect();
        let written = bodies.iter().take_while(|body| body.push(&[0; 200 << 10]).is_ok()).count();
        assert_eq!(written, 5);
        drop(bodies);
        assert!(Sent::new(&held, 4 << 20).unwrap().push(&[0; 900 << 10]).is_ok());
        assert_eq!(held.written(), 6 * (200 << 10) + (900 << 10));
    }

    #[test]
    fn a_body_that_is_written_byte_by_byte_takes_what_is_charged_for_it() {
        let held = Held::new(1 << 20);
        let body = Sent::new(&held, 100_000).unwrap();
        let used = allocation_counter::measure(|| (0..100_000).for_each(|_| body.push(&[1]).unwrap()));
        assert!(used.bytes_current <= i64::try_from(held.0.used.load(Ordering::Relaxed)).unwrap(), "{used:?}");
        assert!(body.push(&[1]).is_err());
    }

    #[test]
    fn headers_weigh_at_least_what_they_take() {
        for (name, value) in [("a", ""), ("a", "b"), ("content-type", "application/json")] {
            let mut entries = Vec::new();
            let used = allocation_counter::measure(|| {
                entries = Vec::with_capacity(10_000);
                (0..10_000).for_each(|_| entries.push((name.to_owned(), value.as_bytes().to_vec())));
            });
            assert!(u64::try_from(used.bytes_current).unwrap() <= weight(&entries), "{used:?}");
        }
    }
}
