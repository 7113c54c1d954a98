//! Tools as they were accepted: a server that describes a tool otherwise tomorrow is not called before someone looked.

use super::Listing;
use opcell_types::Digest;
use std::collections::BTreeMap;

/// Digests of a server's tools by name.
pub type ToolDigests = BTreeMap<String, Digest>;

/// The accepted descriptions of servers, kept by the owner of the lock.
pub trait AcceptedTools: Send + Sync {
    /// The tools of a server that were accepted; `None` for a server that is new.
    fn accepted(&self, server: &str) -> Option<ToolDigests>;

    /// Takes down the tools of a server that is new.
    ///
    /// # Errors
    /// With the reason why a new server is not taken.
    fn first_look(&self, server: &str, listing: &Listing) -> Result<(), String>;

    /// Returns a number that grows whenever other descriptions of a server are accepted.
    fn version(&self) -> u64 {
        0
    }
}

/// A condition that must hold each time before a server's program is started.
pub trait StartCheck: Send + Sync {
    /// Blocks.
    ///
    /// # Errors
    /// With the reason why the program is not started, as the end of a sentence.
    fn check(&self) -> Result<(), String>;
}

/// Returns the digest of everything that models choose a tool by.
#[cfg(feature = "mcp")]
pub(super) fn digest(name: &str, description: &str, schema: &str) -> Digest {
    let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 tool of an MCP server");
    for part in [name, description, schema] {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    Digest::of_hash(hasher.finalize())
}
