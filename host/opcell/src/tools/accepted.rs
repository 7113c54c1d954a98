//! The tools of MCP servers in the lock.

use crate::{config::lock::Lock, places::Places};
use opcell_engine::ports::Failure;
use opcell_tools::mcp::{AcceptedTools, ToolDigests};
use opcell_types::FollowUp;
use std::sync::{Mutex, PoisonError};

/// The lock of a project, as it was read when the host was built, and what was first seen since.
pub(crate) struct LockedTools {
    lock: Lock,
    places: Places,
    /// `true` if a server that the lock does not hold is refused.
    locked: bool,
    seen: Mutex<std::collections::BTreeMap<String, ToolDigests>>,
}

impl LockedTools {
    pub(crate) fn new(lock: Lock, places: Places, locked: bool) -> Self {
        Self { lock, places, locked, seen: Mutex::default() }
    }
}

impl AcceptedTools for LockedTools {
    fn accepted(&self, server: &str) -> Option<ToolDigests> {
        let seen = || self.seen.lock().unwrap_or_else(PoisonError::into_inner).get(server).cloned();
        self.lock.server(server).map(|held| held.tools.clone()).or_else(seen)
    }

    fn first_look(&self, server: &str, tools: &ToolDigests) -> Result<(), String> {
        if self.locked {
            return Err(format!("opcell.lock does not hold its tools, and {}", FollowUp::Frozen));
        }
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).insert(server.to_owned(), tools.clone());
        if let Err(error) = self.lock.accept_server(server, tools.clone(), &self.places) {
            tracing::warn!("cannot write opcell.lock, so changes of tools will not be noticed: {error}");
        }
        Ok(())
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
