//! The texts of MCP servers' tools as a project accepted them, so that a change of one can be shown.
//!
//! The lock holds digests alone. The texts are among the user's state, which no grant reaches, and belong to their owner;
//! a checkout brings none. A text counts only with the digest that the lock has.

use super::lock::Lock;
use crate::places::Places;
use opcell_tools::mcp::{Listing, ToolDigests};
use opcell_types::{
    Digest,
    files::{Folder, Readers, read_text_bounded},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, ffi::OsString, fs, io, path::PathBuf};

/// Below the user's state.
const FOLDER: &str = "accepted-tools";

/// The most that is kept of a server, as much as is read of its list of tools. Texts beyond that are left out.
const MAX_TEXTS_BYTES: usize = 4 << 20;

/// A tool of an MCP server as it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ToolText {
    /// The digest in the lock.
    pub digest: Digest,
    /// Its description, as models read it.
    pub description: String,
    /// JSON Schema of its arguments, as models read it.
    pub parameters: String,
}

impl ToolText {
    /// A tool with this digest and these texts.
    #[must_use]
    pub fn new(digest: Digest, description: String, parameters: String) -> Self {
        Self { digest, description, parameters }
    }

    fn bytes(&self) -> usize {
        self.description.len() + self.parameters.len()
    }
}

/// The tools of one server, by name.
pub type ToolTexts = BTreeMap<String, ToolText>;

/// Returns the usable tools of a list.
#[must_use]
pub fn texts_of(listing: &Listing) -> ToolTexts {
    let text = |tool: &opcell_tools::mcp::ListedTool| {
        ToolText::new(tool.digest.clone(), tool.description.clone(), tool.parameters.to_json())
    };
    listing.tools.values().map(|tool| (tool.name.clone(), text(tool))).collect()
}

/// Returns the digests of tools.
pub(super) fn digests_of(tools: &ToolTexts) -> ToolDigests {
    tools.iter().map(|(name, tool)| (name.clone(), tool.digest.clone())).collect()
}

/// Returns the folder with the texts of a project; `None` where the user has no place for them.
fn folder(lock: &Lock, places: &Places) -> Option<PathBuf> {
    Some(places.state.as_ref()?.join(FOLDER).join(lock.identity()))
}

/// The name of a server's file: a hash, because a server's name may be longer than a file's.
fn file_name(server: &str) -> String {
    format!("{}.json", blake3::hash(server.as_bytes()).to_hex())
}

/// Keeps the texts of a server that was accepted, and removes those of servers that `servers` does not name. Blocks.
///
/// # Errors
/// As the system says.
pub(super) fn keep<'a>(
    lock: &Lock,
    places: &Places,
    server: &str,
    tools: &ToolTexts,
    servers: impl Iterator<Item = &'a String>,
) -> io::Result<()> {
    let Some(path) = folder(lock, places) else { return Ok(()) };
    let mut left = MAX_TEXTS_BYTES;
    let kept: BTreeMap<&String, &ToolText> = tools
        .iter()
        .filter(|(_, tool)| left.checked_sub(tool.bytes()).inspect(|rest| left = *rest).is_some())
        .collect();
    let text = serde_json::to_vec(&kept)?;
    let folder = Folder::open_or_make(&path, Readers::Owner)?;
    folder.replace(file_name(server), &text, Readers::Owner)?;
    let named: Vec<OsString> = servers.map(|server| file_name(server).into()).collect();
    for entry in fs::read_dir(&path)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.ends_with(".json")) && !named.contains(&name) {
            folder.remove(&name)?;
        }
    }
    Ok(())
}

/// Returns the texts of a server that were accepted by this user. Blocks.
///
/// # Errors
/// As the system says, and when the file is damaged.
pub(super) fn read(lock: &Lock, places: &Places, server: &str) -> io::Result<ToolTexts> {
    let Some(folder) = folder(lock, places) else { return Ok(ToolTexts::new()) };
    let file = folder.join(file_name(server));
    // JSON writes a byte of text in up to six.
    match read_text_bounded(&file, 8 * MAX_TEXTS_BYTES as u64) {
        Ok(text) => serde_json::from_str(&text)
            .map_err(|error| io::Error::other(format!("{} is damaged: {error}", file.display()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(ToolTexts::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indexmap::IndexMap;
    use std::os::unix::fs::PermissionsExt as _;

    fn tools(about: &[(&str, &str)]) -> ToolTexts {
        let digest = |text: &str| Digest::of_hash(blake3::hash(text.as_bytes()));
        let text = |about: &str| ToolText::new(digest(about), about.to_owned(), "{}".to_owned());
        about.iter().map(|(name, about)| ((*name).to_owned(), text(about))).collect()
    }

    #[test]
    fn texts_belong_to_their_owner_and_count_with_the_digests_of_the_lock() {
        let ground = tempfile::tempdir().unwrap();
        let places = Places { state: Some(ground.path().join("state")), ..Places::default() };
        let open = || Lock::open(ground.path().join("opcell.lock"), &IndexMap::new()).unwrap();
        open().accept_server("notes", tools(&[("search", "Search."), ("add", "Add.")]), &places).unwrap();
        open().accept_server("mail", tools(&[("send", "Send.")]), &places).unwrap();
        assert_eq!(open().accepted_texts("notes", &places).unwrap(), tools(&[("search", "Search."), ("add", "Add.")]));
        assert!(open().accepted_texts("other", &places).unwrap().is_empty());
        let folder = folder(&open(), &places).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(folder.clone()), mode(folder.join(file_name("notes")))), (0o700, 0o600));

        // A text whose digest is not the lock's was accepted elsewhere, or never.
        let altered = serde_json::to_vec(&tools(&[("search", "Search and send."), ("add", "Add.")])).unwrap();
        fs::write(folder.join(file_name("notes")), altered).unwrap();
        assert_eq!(open().accepted_texts("notes", &places).unwrap(), tools(&[("add", "Add.")]));

        // Accepting what is accepted already brings back what is missing.
        fs::remove_file(folder.join(file_name("mail"))).unwrap();
        open().accept_server("mail", tools(&[("send", "Send.")]), &places).unwrap();
        assert_eq!(open().accepted_texts("mail", &places).unwrap(), tools(&[("send", "Send.")]));
    }

    #[test]
    fn texts_of_servers_that_the_lock_does_not_hold_are_removed() {
        let ground = tempfile::tempdir().unwrap();
        let places = Places { state: Some(ground.path().join("state")), ..Places::default() };
        let open = || Lock::open(ground.path().join("opcell.lock"), &IndexMap::new()).unwrap();
        for server in ["notes", "mail"] {
            open().accept_server(server, tools(&[("a", server)]), &places).unwrap();
        }
        let text = fs::read_to_string(ground.path().join("opcell.lock")).unwrap();
        let start = text.find("[mcp.notes").unwrap();
        fs::write(ground.path().join("opcell.lock"), &text[..start]).unwrap();
        open().accept_server("mail", tools(&[("a", "mail"), ("b", "more")]), &places).unwrap();
        let left: Vec<_> = fs::read_dir(folder(&open(), &places).unwrap()).unwrap().map(Result::unwrap).collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }

    #[test]
    fn a_server_with_too_much_text_loses_what_exceeds_the_bound() {
        let ground = tempfile::tempdir().unwrap();
        let places = Places { state: Some(ground.path().join("state")), ..Places::default() };
        let open = || Lock::open(ground.path().join("opcell.lock"), &IndexMap::new()).unwrap();
        let large = "\u{1}".repeat(MAX_TEXTS_BYTES - 100);
        open().accept_server("notes", tools(&[("a", &large), ("b", &large), ("c", "Short.")]), &places).unwrap();
        let kept = open().accepted_texts("notes", &places).unwrap();
        assert_eq!(kept.keys().collect::<Vec<_>>(), ["a", "c"]);
    }
}
