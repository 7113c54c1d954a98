//! Versions of plugins that the workers of one journal share, so that a run that waits continues on any of them.

use crate::journal::JournalError;
use async_trait::async_trait;
use std::{collections::BTreeSet, sync::Arc};

/// A version of a plugin as one worker accepted it. The journal does not read it: whoever gets it checks the component
/// against the digest that a run pinned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedVersion {
    /// The record of the worker that accepted it.
    pub record: Arc<str>,
    /// The component.
    pub component: Arc<[u8]>,
}

/// The versions that the workers of a journal share, by name. A version never changes under its name.
#[async_trait]
pub trait SharedVersions: Send + Sync {
    /// Returns the names of all versions.
    ///
    /// # Errors
    /// The storage's.
    async fn names(&self) -> Result<BTreeSet<String>, JournalError>;

    /// Adds a version, unless there is one of its name.
    ///
    /// # Errors
    /// The storage's.
    async fn put(&self, name: &str, version: SharedVersion) -> Result<(), JournalError>;

    /// Returns a version whose component has at most this many bytes.
    ///
    /// # Errors
    /// The storage's.
    async fn get(&self, name: &str, max_bytes: u64) -> Result<Option<SharedVersion>, JournalError>;

    /// Removes versions.
    ///
    /// # Errors
    /// The storage's.
    async fn remove(&self, names: &[String]) -> Result<(), JournalError>;
}
