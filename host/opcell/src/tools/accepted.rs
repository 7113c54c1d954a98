//! The tools of MCP servers in the lock.

use crate::{
    config::{accepted_tools::texts_of, lock::Lock},
    places::Places,
};
use opcell_engine::ports::Failure;
use opcell_tools::mcp::{AcceptedTools, Listing, ToolDigests};
use opcell_types::FollowUp;
use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

/// The accepted tools of a project's servers: those of its lock, as it was read last, and those that were first seen
/// since.
pub(crate) struct LockedTools {
    /// The lock to write to.
    lock: Lock,
    places: Places,
    /// `true` if a server that the lock does not hold is refused.
    locked: bool,
    accepted: Mutex<BTreeMap<String, ToolDigests>>,
    version: AtomicU64,
}

impl LockedTools {
    pub(crate) fn new(lock: Lock, places: Places, locked: bool) -> Self {
        let accepted = lock.servers().map(|(name, held)| (name.to_owned(), held.tools.clone())).collect();
        Self { lock, places, locked, accepted: Mutex::new(accepted), version: AtomicU64::new(0) }
    }

    /// Takes over the tools of a lock that was read again, and returns the servers whose tools differ. A server that it
    /// no longer holds stays as it was accepted: nothing new is trusted on sight while the program runs.
    pub(crate) fn renew(&self, fresh: &Lock) -> Vec<String> {
        let mut changed = Vec::new();
        {
            let mut accepted = self.accepted();
            for (name, held) in fresh.servers() {
                if accepted.get(name) != Some(&held.tools) {
                    accepted.insert(name.to_owned(), held.tools.clone());
                    changed.push(name.to_owned());
                }
            }
        }
        if !changed.is_empty() {
            self.version.fetch_add(1, Ordering::Relaxed);
        }
        changed
    }

    fn accepted(&self) -> MutexGuard<'_, BTreeMap<String, ToolDigests>> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl AcceptedTools for LockedTools {
    fn accepted(&self, server: &str) -> Option<ToolDigests> {
        self.accepted().get(server).cloned()
    }

    fn first_look(&self, server: &str, listing: &Listing) -> Result<(), String> {
        if self.locked {
            return Err(format!("opcell.lock does not hold its tools, and {}", FollowUp::Frozen));
        }
        self.accepted().insert(server.to_owned(), listing.digests());
        if let Err(error) = self.lock.accept_server(server, texts_of(listing), &self.places) {
            tracing::warn!("cannot write opcell.lock, so changes of tools will not be noticed: {error}");
        }
        Ok(())
    }

    fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }
}

/// The failure of a tool, with the commands that look at a change and accept it.
pub(crate) fn with_remedy(server: &str, mut failure: Failure) -> Failure {
    if &*failure.reason == "mcp-tool-not-accepted" {
        failure.message = format!(
            "{}; look at it with {}, accept it with {}",
            failure.message,
            FollowUp::DiffServer(server.to_owned()),
            FollowUp::AcceptServer(server.to_owned())
        );
    }
    failure
}
