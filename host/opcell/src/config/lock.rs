//! The lock beside the project file: the digest of each plugin, and what it asked for when someone looked at it.
//!
//! The lock is the truth. Other bytes under a name that it knows are not loaded until `opcell plugin update` accepts
//! them, so grants belong to what was reviewed and not to whatever lies at a path; a version that asks for more than
//! the lock and the grants together is refused as well. A plugin that the lock does not know is new: it may ask for
//! anything, gets what is granted, and is written down, unless the command runs `--locked`. `dev = true` exempts a
//! plugin in development. The lock grants nothing.

use super::{
    PluginConfig,
    accepted_tools::{self, ToolTexts, digests_of},
};
use crate::{
    consent,
    places::{Places, real},
    report::Rejected,
    versions::{AcceptedVersions, Version},
};
use indexmap::IndexMap;
use opcell_ir::Diagnostic;
use opcell_sandbox::{Access, grants::Requests};
use opcell_tools::mcp::ToolDigests;
use opcell_types::{
    Digest,
    files::{Folder, Readers, read_text_bounded},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

const HEADER: &str = "\
# The digest of each plugin, and what it requested when it was accepted. Written by opcell; keep it under version control.
# `opcell plugin diff NAME` shows what changed since, `opcell plugin update NAME` accepts it.
";

/// The most that is read of a lock: thousands of plugins.
const MAX_LOCK_BYTES: u64 = 1 << 20;

/// A lock as it was read, and what it means together with the grants.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    file: PathBuf,
    exists: bool,
    /// `true` if this command must not change it.
    frozen: bool,
    plugins: BTreeMap<String, Locked>,
    servers: BTreeMap<String, LockedServer>,
    agreed: BTreeMap<String, Requests>,
}

/// The tools of one MCP server as they were accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LockedServer {
    /// Digest of the whole list.
    pub digest: Digest,
    /// Digests of name, description and schema, by name.
    pub tools: ToolDigests,
}

impl LockedServer {
    /// Computes the digest of these tools.
    #[must_use]
    pub fn new(tools: ToolDigests) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("opcell 2026 tools of an MCP server");
        for (name, digest) in &tools {
            hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(digest.as_bytes());
        }
        Self { digest: Digest::of_hash(hasher.finalize()), tools }
    }
}

/// One plugin as it was accepted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct Locked {
    /// BLAKE3 of the component; absent for a plugin in development, and in locks of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// The version that the manifest of this component names; absent in locks of earlier versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Size of the component.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// The reference that it was fetched by, `oci://…`; absent for a plugin at a path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The digest of its manifest in the registry, `sha256:…`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub manifest: Option<String>,
    /// The key that signed it, pinned when it was first fetched; absent for one that came unsigned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub publisher: Option<String>,
    tools: BTreeSet<String>,
    skills: BTreeSet<String>,
    files: BTreeMap<String, Access>,
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    stores: BTreeSet<String>,
}

impl Locked {
    /// A plugin with this digest and size that asks for this.
    #[must_use]
    pub fn new(digest: Option<Digest>, bytes: Option<u64>, requests: Requests) -> Self {
        let Requests { tools, skills, files, stores } = requests;
        Self { digest, bytes, tools, skills, files, stores, ..Self::default() }
    }

    /// The same, whose manifest names this version.
    #[must_use]
    pub fn with_version(self, version: Option<String>) -> Self {
        Self { version, ..self }
    }

    /// Returns `true` if `now` is what was accepted. A lock of an earlier version does not name the version.
    #[must_use]
    pub fn accepts(&self, now: &Self) -> bool {
        let version = self.version.clone().or_else(|| now.version.clone());
        self.clone().with_version(version) == *now
    }

    /// The same, fetched from a registry.
    #[must_use]
    pub fn fetched(self, source: String, manifest: String, publisher: Option<String>) -> Self {
        Self { source: Some(source), manifest: Some(manifest), publisher, ..self }
    }

    /// Returns the requests that were agreed to.
    #[must_use]
    pub fn requests(&self) -> Requests {
        let Self { tools, skills, files, stores, .. } = self.clone();
        Requests { tools, skills, files, stores }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockText {
    #[serde(default)]
    plugins: BTreeMap<String, Locked>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    mcp: BTreeMap<String, LockedServer>,
}

impl Lock {
    /// Reads the lock of a project file, `opcell.lock` beside `opcell.toml`; there may be none yet.
    ///
    /// # Errors
    /// When there is one that cannot be read: without it every upgrade would look like a new plugin.
    pub fn beside(project: &Path, plugins: &IndexMap<String, PluginConfig>) -> Result<Self, Rejected> {
        let file = project.with_extension("lock");
        consent::check_companion(&file, project)?;
        Self::open(file, plugins)
    }

    /// Reads a lock; there may be none yet.
    ///
    /// # Errors
    /// As [`Self::beside`].
    pub fn open(file: PathBuf, plugins: &IndexMap<String, PluginConfig>) -> Result<Self, Rejected> {
        let broken = |what: String| {
            let finding = Diagnostic::error("lock-unreadable", format!("{}: {what}", file.display()));
            Rejected::plain(
                finding.help("restore it from version control; without it an upgrade looks like a new plugin"),
            )
        };
        let (exists, LockText { plugins: locked, mcp }) = match read_text_bounded(&file, MAX_LOCK_BYTES) {
            Ok(text) => (true, toml_edit::de::from_str::<LockText>(&text).map_err(|error| broken(error.to_string()))?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => (false, LockText::default()),
            Err(error) => return Err(broken(error.to_string())),
        };
        if let Some((name, _)) = mcp.iter().find(|(_, held)| LockedServer::new(held.tools.clone()) != **held) {
            return Err(broken(format!("the digest of [mcp.{name}] is not that of its tools")));
        }
        let agreed = plugins.values().filter_map(|plugin| {
            let asked = locked.get(&plugin.name)?.requests();
            Some((plugin.name.clone(), asked.and_granted(&plugin.grants.capabilities)))
        });
        Ok(Self { agreed: agreed.collect(), plugins: locked, servers: mcp, file, exists, frozen: false })
    }

    /// The same lock, which this command does not change: for commands that only look, and for `--locked`.
    #[must_use]
    pub fn frozen(self) -> Self {
        Self { frozen: true, ..self }
    }

    /// A plugin as it was accepted; `None` when it is new.
    #[must_use]
    pub fn plugin(&self, name: &str) -> Option<&Locked> {
        self.plugins.get(name)
    }

    /// The tools of an MCP server as they were accepted; `None` when it is new.
    #[must_use]
    pub fn server(&self, name: &str) -> Option<&LockedServer> {
        self.servers.get(name)
    }

    /// Returns every MCP server that it holds, by name.
    pub fn servers(&self) -> impl Iterator<Item = (&str, &LockedServer)> {
        self.servers.iter().map(|(name, held)| (name.as_str(), held))
    }

    /// Accepts the tools of an MCP server as they are now, and keeps their texts for this user. What was written since
    /// this lock was read stays. Blocks.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub fn accept_server(&self, name: &str, tools: ToolTexts, places: &Places) -> std::io::Result<()> {
        if self.frozen {
            return Ok(());
        }
        let unread = |rejected: Rejected| std::io::Error::other(rejected.to_string());
        let mut now = Self::open(self.file.clone(), &IndexMap::new()).map_err(unread)?;
        let before = now.servers.insert(name.to_owned(), LockedServer::new(digests_of(&tools)));
        if before.as_ref() != now.servers.get(name) {
            now.write_all(now.plugins.clone(), places)?;
        }
        if let Err(error) = accepted_tools::keep(&now, places, name, &tools, now.servers.keys()) {
            // Only for showing a change later: it is noticed by the lock all the same.
            tracing::warn!("cannot keep the texts of the tools of {name}: {error}");
        }
        Ok(())
    }

    /// Returns the texts of a server's tools as this user accepted them: those with the digest in the lock. Blocks.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn accepted_texts(&self, name: &str, places: &Places) -> std::io::Result<ToolTexts> {
        let Some(held) = self.servers.get(name) else { return Ok(ToolTexts::new()) };
        let mut texts = accepted_tools::read(self, places, name)?;
        texts.retain(|tool, text| held.tools.get(tool) == Some(&text.digest));
        Ok(texts)
    }

    /// Returns `true` if there was a lock here that is gone: someone deleted it, and with it everything that was
    /// accepted.
    #[must_use]
    pub fn was_deleted(&self, places: &Places) -> bool {
        !self.exists && self.mark(places).is_some_and(|mark| mark.exists())
    }

    /// Returns the path at which the user's state records that there was a lock.
    fn mark(&self, places: &Places) -> Option<PathBuf> {
        Some(places.state.as_ref()?.join("locks").join(self.identity()))
    }

    /// Returns the name under which the user's state knows the lock: a hash of its path.
    pub(crate) fn identity(&self) -> String {
        blake3::hash(real(&self.file).as_os_str().as_encoded_bytes()).to_hex().to_string()
    }

    /// Returns every plugin as it was accepted.
    pub(crate) fn plugins(&self) -> impl Iterator<Item = (&str, &Locked)> {
        self.plugins.iter().map(|(name, locked)| (name.as_str(), locked))
    }

    /// Returns `true` if this command must not change it.
    pub(crate) fn is_frozen(&self) -> bool {
        self.frozen
    }

    /// The same lock with an earlier version of a plugin, which may request what was accepted for that version. It is
    /// never written.
    pub(crate) fn with_version(mut self, plugin: &str, accepted: Locked) -> Self {
        self.agreed.insert(plugin.to_owned(), accepted.requests());
        self.plugins.insert(plugin.to_owned(), accepted);
        self.frozen()
    }

    /// Returns the requests with which a plugin is still loaded; `None` when it is new.
    #[must_use]
    pub fn agreed(&self, plugin: &str) -> Option<&Requests> {
        self.agreed.get(plugin)
    }

    /// Writes down plugins that were loaded: those that the lock does not know, and what it does not know of the
    /// others. What it says already stays, also of plugins that are not there today.
    ///
    /// # Errors
    /// When it cannot be written; then the next upgrade is compared with what was written before.
    pub fn remember(&self, loaded: BTreeMap<String, Locked>, places: &Places) -> std::io::Result<()> {
        let mut plugins = self.plugins.clone();
        for (name, new) in loaded {
            let known = plugins.entry(name).or_insert_with(|| new.clone());
            // Loading a version that asks for more than before takes a grant, and is the acceptance of it.
            let is_pinned = known.digest.is_some();
            *known = Locked {
                digest: known.digest.take().or(new.digest.clone()),
                version: if is_pinned { known.version.take() } else { new.version.clone() },
                bytes: known.bytes.or(new.bytes),
                source: known.source.take(),
                manifest: known.manifest.take(),
                publisher: known.publisher.take(),
                ..new
            };
        }
        self.write(plugins, places)
    }

    /// Accepts a plugin as it is now.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub fn accept(&self, name: &str, plugin: Locked, places: &Places) -> std::io::Result<()> {
        let mut plugins = self.plugins.clone();
        plugins.insert(name.to_owned(), plugin);
        self.write(plugins, places)
    }

    /// Keeps the component of a plugin as it was accepted, for runs that wait while the plugin is upgraded.
    ///
    /// # Errors
    /// When the bytes are not those that were accepted, and as the system says.
    pub fn keep(&self, name: &str, plugin: &Locked, component: &[u8], places: &Places) -> std::io::Result<()> {
        match AcceptedVersions::of(self, places) {
            Some(versions) => versions.keep(name, plugin, || Ok(component.to_vec())),
            None => Ok(()),
        }
    }

    /// Returns the component of a plugin as it was accepted, if this machine has kept it.
    #[must_use]
    pub fn accepted_component(&self, name: &str, places: &Places) -> Option<Vec<u8>> {
        let versions = AcceptedVersions::of(self, places)?;
        let version = Version::new(name, self.plugin(name)?.digest.clone()?);
        versions.find(&version).ok()?;
        versions.component(&version.digest).ok()
    }

    /// Forgets a plugin that is no longer in the project.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub fn forget(&self, name: &str, places: &Places) -> std::io::Result<()> {
        let mut plugins = self.plugins.clone();
        plugins.remove(name);
        self.write(plugins, places)
    }

    /// Writes down a plugin that is looked at for the first time.
    ///
    /// # Errors
    /// As [`Self::remember`].
    pub fn remember_new(&self, name: &str, plugin: Locked, places: &Places) -> std::io::Result<()> {
        if self.plugins.contains_key(name) {
            return Ok(());
        }
        self.accept(name, plugin, places)
    }

    fn write(&self, plugins: BTreeMap<String, Locked>, places: &Places) -> std::io::Result<()> {
        if self.frozen || plugins == self.plugins {
            return Ok(());
        }
        self.write_all(plugins, places)
    }

    fn write_all(&self, plugins: BTreeMap<String, Locked>, places: &Places) -> std::io::Result<()> {
        let mcp = self.servers.clone();
        let text = toml_edit::ser::to_string_pretty(&LockText { plugins, mcp }).map_err(std::io::Error::other)?;
        write_whole(&self.file, &format!("{HEADER}\n{text}"), Readers::of(&self.file))?;
        if let Some(mark) = self.mark(places) {
            // Only for noticing a deletion: a home that cannot be written stops nothing.
            let made = mark.parent().map(|folder| Folder::open_or_make(folder, Readers::Owner));
            let made = made.and_then(Result::ok).zip(mark.file_name());
            let _ = made.map(|(folder, name)| folder.replace(name, b"", Readers::Owner));
        }
        Ok(())
    }
}

/// Writes the whole file or nothing, for whom it was readable before.
///
/// # Errors
/// As the system says.
pub fn write_whole(file: &Path, text: &str, readers: Readers) -> std::io::Result<()> {
    let (folder, name) = (file.parent().unwrap_or(Path::new("")), file.file_name().unwrap_or_default());
    Folder::open(folder)?.replace(name, text.as_bytes(), readers)
}

#[cfg(test)]
mod tests {
    use super::{Lock, Locked};
    use crate::{
        config::{PluginConfig, PluginGrants},
        places::Places,
    };
    use indexmap::IndexMap;
    use opcell_sandbox::grants::{FilesGrant, Grants, Requests};
    use opcell_types::{Access, Digest};

    fn plugins(grants: Grants) -> IndexMap<String, PluginConfig> {
        let plugin = PluginConfig {
            grants: PluginGrants { capabilities: grants, ..PluginGrants::default() },
            ..PluginConfig::new("repo", "/repo.wasm")
        };
        [("repo".to_owned(), plugin)].into()
    }

    fn digest(of: &str) -> Digest {
        of.repeat(32).parse().unwrap()
    }

    #[test]
    fn what_is_not_a_digest_never_becomes_part_of_a_path() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("opcell.lock");
        for text in ["../etc", "/etc/passwd", "", &"A".repeat(64)] {
            std::fs::write(&file, format!("[plugins.repo]\ndigest = \"{text}\"\n")).unwrap();
            let refused = Lock::open(file.clone(), &plugins(Grants::default())).unwrap_err();
            assert!(format!("{refused:?}").contains("is not a digest: expected 64 hexadecimal digits"), "{refused:?}");
        }
    }

    #[test]
    fn what_was_remembered_and_what_is_granted_is_agreed_to() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places { state: Some(folder.path().join("state")), ..Places::default() };
        let project = folder.path().join("opcell.toml");
        let new = Lock::beside(&project, &plugins(Grants::default())).unwrap();
        assert_eq!(new.agreed("repo"), None);
        let asks = Requests { files: [("work".to_owned(), Access::Read)].into(), ..Requests::default() };
        let locked = Locked::new(Some(digest("d1")), Some(7), asks.clone());
        new.remember([("repo".to_owned(), locked)].into(), &places).unwrap();
        insta::assert_snapshot!(std::fs::read_to_string(folder.path().join("opcell.lock")).unwrap());
        let again = Lock::beside(&project, &plugins(Grants::default())).unwrap();
        assert_eq!(again.agreed("repo"), Some(&asks));
        assert_eq!(again.plugin("repo").unwrap().digest, Some(digest("d1")));
        assert!(!again.was_deleted(&places));
        let granted = Grants {
            tools: ["http.fetch".to_owned()].into(),
            files: [("work".to_owned(), FilesGrant::read_write("/"))].into(),
            ..Grants::default()
        };
        let agreed = Lock::beside(&project, &plugins(granted)).unwrap().agreed("repo").unwrap().clone();
        assert!(agreed.tools.contains("http.fetch") && agreed.files["work"] == Access::ReadWrite);
        // What is loaded later changes no digest, and takes out no one.
        let other = Locked::new(Some(digest("d2")), None, asks.clone());
        again.remember([("other".to_owned(), other)].into(), &places).unwrap();
        let both = Lock::beside(&project, &plugins(Grants::default())).unwrap();
        assert!(both.plugin("repo").is_some() && both.plugin("other").is_some());
        std::fs::remove_file(folder.path().join("opcell.lock")).unwrap();
        assert!(Lock::beside(&project, &plugins(Grants::default())).unwrap().was_deleted(&places));
    }

    #[test]
    fn a_lock_that_cannot_be_read_stops_the_project() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("opcell.toml");
        for text in ["plugins = 3", "[plugins.repo]\ntols = []", "x ="] {
            std::fs::write(folder.path().join("opcell.lock"), text).unwrap();
            assert!(Lock::beside(&project, &IndexMap::new()).is_err(), "{text}");
        }
    }
}
