//! Stores, in which plugins keep values from one call to the next: the requests of a cell, and the trait that answers
//! them.
//!
//! The sandbox checks the grant and the bounds of keys and values; where the entries are is the embedder's concern.

use crate::grants::StoreGrant;
use async_trait::async_trait;

/// Longest key, and longest prefix of keys, in bytes.
pub const KEY_BYTES: usize = 512;

/// Largest value.
pub const VALUE_BYTES: usize = 256 << 10;

/// Most keys that one `list` gives.
pub const LISTED_KEYS: u32 = 1_000;

/// A value with the number of the write that made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreEntry {
    /// The value that was written.
    pub value: Vec<u8>,
    /// Grows with every write to the store.
    pub version: u64,
}

/// A request of a cell to a store that it was granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreRequest {
    /// The entry of a key.
    Get {
        /// The key.
        key: String,
    },
    /// Writes a value.
    Set {
        /// The key.
        key: String,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Writes a value at an expected version.
    CompareAndSet {
        /// The key.
        key: String,
        /// The version that the key must have; `None`: it must have no entry.
        expected: Option<u64>,
        /// Its new value.
        value: Vec<u8>,
    },
    /// Keys in the order of their bytes.
    List {
        /// The prefix of the keys.
        prefix: String,
        /// The key after which the page begins.
        after: Option<String>,
        /// At most this many, and no more than [`LISTED_KEYS`].
        limit: u32,
    },
    /// Removes a key.
    Delete {
        /// The key.
        key: String,
    },
}

/// The answer to the [`StoreRequest`] of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StoreAnswer {
    /// To `Get`.
    Entry(Option<StoreEntry>),
    /// To `Set` and `CompareAndSet`: the new version.
    Stored(u64),
    /// To `CompareAndSet`: the key is at another version.
    Conflict(Option<StoreEntry>),
    /// To `List`.
    Page {
        /// The keys.
        keys: Vec<String>,
        /// `true` if there are more.
        more: bool,
    },
    /// To `Delete`: whether there was an entry.
    Deleted(bool),
}

/// Why a store did not do what it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The grant's bytes or entries are used up.
    #[error("{0}")]
    Quota(String),
    /// Anything else, as text that names no path.
    #[error("{0}")]
    Failed(String),
}

/// The stores of one plugin, as one call of it uses them.
#[async_trait]
pub trait Stores: Send {
    /// Does what was asked, atomically. The flag says that the answer is the recorded one of an earlier attempt of the
    /// same call, for which nothing was done. Must not block.
    ///
    /// # Errors
    /// [`StoreError`], after which nothing was written.
    async fn ask(
        &mut self,
        store: &str,
        grant: &StoreGrant,
        request: StoreRequest,
    ) -> Result<(StoreAnswer, bool), StoreError>;
}
