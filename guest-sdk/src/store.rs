//! Stores, in which the plugin keeps small values under keys from one call to the next; they are granted by name.
//!
//! A store belongs to the plugin in one project, or to one run where the operator says so. A write is atomic, and
//! durable when the function returns. A call that is made again with the same idempotency key, since its result was not
//! recorded, is given the answers that it was given before, up to its last write, as long as it asks the same in the
//! same order: it writes nothing twice. So ask for nothing that depends on the time or on chance.
//!
//! ```
//! use opcell_sdk::{store, testing::Host};
//!
//! let host = Host::new().store("counts", [("visits", "41")]).install();
//! let visits = store::update("counts", "visits", |seen| {
//!     let seen: u64 = seen.and_then(|value| String::from_utf8_lossy(value).parse().ok()).unwrap_or(0);
//!     (seen + 1).to_string().into_bytes()
//! });
//! assert_eq!(visits.unwrap(), b"42");
//! assert_eq!(host.stored("counts", "visits").unwrap(), b"42");
//! ```

use crate::bindings::imports::opcell::plugin0_2_0::store as raw;
use crate::{Denial, Failure, host};
use std::fmt;

pub use raw::{Entry, Page, Swap};

/// The number of tries of [`update`] when another call was faster.
const ATTEMPTS: u32 = 100;

/// Why a store did not do what it was asked for.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreError {
    /// The host refused.
    Denied(Denial),
    /// A key or value is empty or too large.
    Invalid(String),
    /// The store is full.
    Quota(String),
    /// Anything else; the call may be made again.
    Failed(String),
}

impl fmt::Display for StoreError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Denied(denial) => denial.fmt(formatter),
            Self::Invalid(message) | Self::Quota(message) | Self::Failed(message) => formatter.write_str(message),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Denied(denial) => denial.into(),
            StoreError::Invalid(message) => Self::new("store-invalid", message),
            StoreError::Quota(message) => Self::new("store-quota", message),
            StoreError::Failed(message) => Self::new("store-failed", message),
        }
    }
}

impl From<raw::StoreError> for StoreError {
    fn from(error: raw::StoreError) -> Self {
        match error {
            raw::StoreError::Denied(denial) => Self::Denied(denial),
            raw::StoreError::Invalid(message) => Self::Invalid(message),
            raw::StoreError::Quota(message) => Self::Quota(message),
            raw::StoreError::Failed(message) => Self::Failed(message),
        }
    }
}

/// The value of a key with its version, if it has one.
///
/// # Errors
/// When the host refuses or the store fails.
pub fn get(store: &str, key: &str) -> Result<Option<Entry>, StoreError> {
    Ok(host::store::get(store, key)?)
}

/// Writes a value, whatever there was. Returns its version.
///
/// # Errors
/// When the host refuses, key or value are out of bounds, the store is full or fails.
pub fn set(store: &str, key: &str, value: impl AsRef<[u8]>) -> Result<u64, StoreError> {
    Ok(host::store::set(store, key, value.as_ref())?)
}

/// Writes a value if the key is at the expected version; `None` expects that it has no entry.
///
/// # Errors
/// As [`set`].
pub fn compare_and_set(
    store: &str,
    key: &str,
    expected: Option<u64>,
    value: impl AsRef<[u8]>,
) -> Result<Swap, StoreError> {
    Ok(host::store::compare_and_set(store, key, expected, value.as_ref())?)
}

/// Makes a new value of the one that is there, again if another call wrote in between. Returns what was written.
///
/// # Errors
/// As [`set`]; [`StoreError::Failed`] when others write all the time.
pub fn update(store: &str, key: &str, mut change: impl FnMut(Option<&[u8]>) -> Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let mut seen = get(store, key)?;
    for _ in 0..ATTEMPTS {
        let value = change(seen.as_ref().map(|entry| entry.value.as_slice()));
        match compare_and_set(store, key, seen.map(|entry| entry.version), &value)? {
            Swap::Stored(_) => return Ok(value),
            Swap::Conflict(current) => seen = current,
        }
    }
    Err(StoreError::Failed(format!("others wrote `{key}` {ATTEMPTS} times in between")))
}

/// Keys that start with `prefix` and come after `after`, in the order of their bytes: at most `limit`, and never more
/// than 1000.
///
/// # Errors
/// When the host refuses or the store fails.
pub fn list(store: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Page, StoreError> {
    Ok(host::store::list(store, prefix, after, limit)?)
}

/// Removes a key. Returns whether it had an entry.
///
/// # Errors
/// As [`get`].
pub fn delete(store: &str, key: &str) -> Result<bool, StoreError> {
    Ok(host::store::delete(store, key)?)
}
