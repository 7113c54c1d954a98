//! The versions of plugins that a project accepted, by digest: a run that waits continues with its version after any
//! number of upgrades.
//!
//! Components are among the user's data, under their digests. The record that a project accepted one, with its requests
//! at that time, is among the user's state, which no grant reaches. Both belong to their owner alone. Every read checks
//! the digest, and a component without a record of its project is not read at all: a checkout brings neither.

use crate::{
    config::{
        check::is_plugin_name,
        lock::{Lock, Locked},
    },
    places::Places,
};
use opcell_journal::SharedVersion;
use opcell_types::{
    Digest,
    files::{Folder, Readers, lock, read_bounded, read_text_bounded},
};
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

/// Below the user's state and the user's data.
const FOLDER: &str = "accepted";

/// The file whose lock keeps one process from removing what another one keeps.
const GUARD: &str = "guard";

/// The most that is read of a record, and of the versions of a journal: tens of thousands.
const MAX_RECORD_BYTES: u64 = 4 << 20;

const COMPONENT: &str = ".wasm";
const JOURNAL: &str = "journal-";

/// A plugin's name and the digest of one of its versions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Version {
    pub digest: Digest,
    pub plugin: String,
}

impl Version {
    pub(crate) fn new(plugin: impl Into<String>, digest: Digest) -> Self {
        Self { digest, plugin: plugin.into() }
    }

    /// The name of its record.
    pub(crate) fn to_name(&self) -> String {
        format!("{}.{}", self.digest, self.plugin)
    }

    fn from_name(name: &str) -> Option<Self> {
        let (digest, plugin) = name.split_once('.')?;
        Some(Self::new(plugin, digest.parse().ok()?)).filter(|version| is_plugin_name(&version.plugin))
    }
}

/// The versions that one project accepted.
#[derive(Debug, Clone)]
pub(crate) struct AcceptedVersions {
    /// The records of the project.
    records: PathBuf,
    /// The components of all projects.
    components: PathBuf,
}

/// The reason why an accepted version cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum VersionError {
    #[error("no copy of the pinned version was accepted here")]
    Unknown,
    #[error("the accepted copy of the pinned version is gone from {}", .0.display())]
    Missing(PathBuf),
    #[error("the accepted copy of the pinned version at {} is damaged: its digest is {}…", .file.display(), .found.short())]
    Damaged { file: PathBuf, found: Digest },
    #[error("{}: {error}", .file.display())]
    Io { file: PathBuf, error: io::Error },
    #[error("{}: {problem}", .file.display())]
    Record { file: PathBuf, problem: String },
}

/// The versions that the runs of a journal may name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct JournalVersions {
    /// The number of versions that were left when the journal was last searched.
    pub left: usize,
    /// Names of records.
    versions: BTreeSet<String>,
}

impl AcceptedVersions {
    /// Those of the project with this lock; `None` where the user has no place for them.
    pub(crate) fn of(lock: &Lock, places: &Places) -> Option<Self> {
        let records = places.state.as_ref()?.join(FOLDER).join(lock.identity());
        Some(Self { records, components: places.data.as_ref()?.join(FOLDER) })
    }

    /// Keeps a version as it was accepted, unless it is here already. `component` gives its bytes. Blocks, as everything
    /// here.
    ///
    /// # Errors
    /// When the bytes are not those of the digest, and as the system says.
    pub(crate) fn keep(
        &self,
        plugin: &str,
        accepted: &Locked,
        component: impl FnOnce() -> io::Result<Vec<u8>>,
    ) -> io::Result<()> {
        let Some(digest) = &accepted.digest else { return Ok(()) };
        let version = Version::new(plugin, digest.clone());
        let file = self.component_file(digest);
        let has_bytes = |bytes| fs::metadata(&file).is_ok_and(|there| there.is_file() && there.len() == bytes);
        let recorded = self.find(&version).ok();
        if recorded.and_then(|recorded| recorded.bytes).is_some_and(has_bytes) {
            return Ok(());
        }
        let bytes = component()?;
        if Digest::of_hash(blake3::hash(&bytes)) != *digest {
            return Err(io::Error::other("its bytes have changed since they were accepted"));
        }
        let mut accepted = accepted.clone();
        accepted.bytes = Some(bytes.len() as u64);
        let record = toml_edit::ser::to_string_pretty(&accepted).map_err(io::Error::other)?;
        let components = Folder::open_or_make(&self.components, Readers::Owner)?;
        let _guard = self.guard()?;
        let records = Folder::open_or_make(&self.records, Readers::Owner)?;
        records.replace(version.to_name(), record.as_bytes(), Readers::Owner)?;
        components.replace(format!("{digest}{COMPONENT}"), &bytes, Readers::Owner)
    }

    /// Returns the record of a version.
    ///
    /// # Errors
    /// When this project did not accept it, or the record cannot be read.
    pub(crate) fn find(&self, version: &Version) -> Result<Locked, VersionError> {
        let file = self.records.join(version.to_name());
        let text = match read_text_bounded(&file, MAX_RECORD_BYTES) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(VersionError::Unknown),
            Err(error) => return Err(VersionError::Io { file, error }),
        };
        match toml_edit::de::from_str::<Locked>(&text) {
            Ok(record) if record.digest.as_ref() == Some(&version.digest) => Ok(record),
            Ok(_) => Err(VersionError::Record { file, problem: "it is the record of another version".to_owned() }),
            Err(error) => Err(VersionError::Record { file, problem: error.to_string() }),
        }
    }

    /// Reads a component, and checks its digest.
    ///
    /// # Errors
    /// When it is gone, damaged, or cannot be read.
    pub(crate) fn component(&self, digest: &Digest) -> Result<Vec<u8>, VersionError> {
        let file = self.component_file(digest);
        let bytes = match read_bounded(&file, opcell_registry::MAX_COMPONENT) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(VersionError::Missing(file)),
            Err(error) => return Err(VersionError::Io { file, error }),
        };
        let found = Digest::of_hash(blake3::hash(&bytes));
        if found == *digest { Ok(bytes) } else { Err(VersionError::Damaged { file, found }) }
    }

    /// Returns a version as other workers of a journal may take it.
    ///
    /// # Errors
    /// As [`find`](Self::find) and [`component`](Self::component).
    pub(crate) fn to_share(&self, version: &Version) -> Result<SharedVersion, VersionError> {
        let record = toml_edit::ser::to_string_pretty(&self.find(version)?).map_err(|error| VersionError::Record {
            file: self.records.join(version.to_name()),
            problem: error.to_string(),
        })?;
        Ok(SharedVersion { record: record.into(), component: self.component(&version.digest)?.into() })
    }

    /// Keeps a version that another worker of a journal shares.
    ///
    /// # Errors
    /// When its record or its bytes are not those of the version, and as the system says.
    pub(crate) fn keep_shared(&self, version: &Version, shared: &SharedVersion) -> io::Result<()> {
        let accepted: Locked = toml_edit::de::from_str(&shared.record).map_err(io::Error::other)?;
        if accepted.digest.as_ref() != Some(&version.digest) {
            return Err(io::Error::other("its record is that of another version"));
        }
        self.keep(&version.plugin, &accepted, || Ok(shared.component.to_vec()))
    }

    /// Returns the path of a component.
    pub(crate) fn component_file(&self, digest: &Digest) -> PathBuf {
        self.components.join(format!("{digest}{COMPONENT}"))
    }

    /// Returns every version that has a record and a component.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn list(&self) -> io::Result<BTreeSet<Version>> {
        let names = names_in(&self.records)?;
        let versions = names.iter().filter_map(|name| Version::from_name(name));
        Ok(versions.filter(|version| self.component_file(&version.digest).is_file()).collect())
    }

    /// Returns the versions that were kept last, the newest first.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn newest(&self) -> io::Result<Vec<Version>> {
        let kept = |version: Version| {
            let record = fs::metadata(self.records.join(version.to_name()))?;
            Ok((record.modified()?, version))
        };
        let mut versions = self.list()?.into_iter().map(kept).collect::<io::Result<Vec<_>>>()?;
        versions.sort_by_key(|version| std::cmp::Reverse(version.0));
        Ok(versions.into_iter().map(|(_, version)| version).collect())
    }

    /// Returns the versions that the runs of a journal may name.
    ///
    /// # Errors
    /// When they cannot be read.
    pub(crate) fn of_journal(&self, journal: &str) -> io::Result<JournalVersions> {
        self.read_journal(&journal_name(journal))
    }

    fn read_journal(&self, name: &str) -> io::Result<JournalVersions> {
        match read_text_bounded(&self.records.join(name), MAX_RECORD_BYTES) {
            Ok(text) => toml_edit::de::from_str(&text).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(JournalVersions::default()),
            Err(error) => Err(error),
        }
    }

    /// Adds versions that runs of a journal may name from now on.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn note(&self, journal: &str, versions: impl IntoIterator<Item = Version>) -> io::Result<()> {
        let versions: Vec<String> = versions.into_iter().map(|version| version.to_name()).collect();
        if versions.iter().all(|version| self.of_journal(journal).is_ok_and(|known| known.versions.contains(version))) {
            return Ok(());
        }
        Folder::open_or_make(&self.components, Readers::Owner)?;
        let _guard = self.guard()?;
        let mut known = self.of_journal(journal)?;
        known.versions.extend(versions);
        self.write_journal(journal, &known)
    }

    fn write_journal(&self, journal: &str, versions: &JournalVersions) -> io::Result<()> {
        let text = toml_edit::ser::to_string_pretty(versions).map_err(io::Error::other)?;
        let records = Folder::open_or_make(&self.records, Readers::Owner)?;
        records.replace(journal_name(journal), text.as_bytes(), Readers::Owner)
    }

    /// Removes the versions that neither `locked` nor a journal names. `named`: those that runs of `journal` name, of
    /// those that were `seen` when it was searched; what came since stays.
    ///
    /// # Errors
    /// As the system says; what is not surely unnamed stays.
    pub(crate) fn retain(
        &self,
        journal: &str,
        seen: &BTreeSet<Version>,
        named: &BTreeSet<Version>,
        locked: &BTreeSet<Version>,
    ) -> io::Result<usize> {
        let _guard = self.guard()?;
        let is_named = |name: &String| {
            Version::from_name(name)
                .is_none_or(|version| !seen.contains(&version) || named.contains(&version) || locked.contains(&version))
        };
        let mut own = self.of_journal(journal)?;
        own.versions.retain(is_named);
        own.versions.extend(named.iter().map(Version::to_name));
        let names = names_in(&self.records)?;
        let mut by_journals = own.versions.clone();
        for other in names.iter().filter(|name| name.starts_with(JOURNAL) && **name != journal_name(journal)) {
            by_journals.extend(self.read_journal(other)?.versions);
        }
        let (mut left, mut removed) = (0, 0);
        let records = Folder::open(&self.records)?;
        for name in names.iter().filter(|name| Version::from_name(name).is_some()) {
            if is_named(name) || by_journals.contains(name) {
                left += 1;
            } else {
                records.remove(name)?;
                removed += 1;
            }
        }
        own.left = left;
        self.write_journal(journal, &own)?;
        self.remove_components()?;
        Ok(removed)
    }

    /// Removes the components of which no project has a record. The guard is held.
    fn remove_components(&self) -> io::Result<()> {
        let projects = self.records.parent().unwrap_or(Path::new(""));
        let mut recorded: BTreeSet<Digest> = BTreeSet::new();
        for project in names_in(projects)? {
            let names = names_in(&projects.join(project))?;
            recorded.extend(names.iter().filter_map(|name| Some(Version::from_name(name)?.digest)));
        }
        let components = Folder::open(&self.components)?;
        for name in names_in(&self.components)? {
            let digest = name.strip_suffix(COMPONENT).and_then(|digest| digest.parse::<Digest>().ok());
            if digest.is_some_and(|digest| !recorded.contains(&digest)) {
                components.remove(&name)?;
            }
        }
        Ok(())
    }

    fn guard(&self) -> io::Result<fs::File> {
        lock(&self.components.join(GUARD))
    }
}

/// The name of the file with the versions of a journal, which does not show the journal's place.
fn journal_name(journal: &str) -> String {
    format!("{JOURNAL}{}", blake3::hash(journal.as_bytes()).to_hex())
}

/// The names in a folder; none where there is no folder.
fn names_in(folder: &Path) -> io::Result<Vec<String>> {
    match fs::read_dir(folder) {
        Ok(entries) => {
            let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok()));
            names.filter_map(Result::transpose).collect()
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic, reason = "a failed test")]

    use super::*;
    use indexmap::IndexMap;
    use opcell_sandbox::grants::Requests;
    use std::os::unix::fs::PermissionsExt as _;

    struct Ground {
        folder: tempfile::TempDir,
        places: Places,
    }

    impl Ground {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let at = |name: &str| Some(folder.path().join(name));
            let places = Places { state: at("state"), data: at("data"), ..Places::default() };
            Self { folder, places }
        }

        fn project(&self, name: &str) -> AcceptedVersions {
            let lock = Lock::open(self.folder.path().join(name).join("opcell.lock"), &IndexMap::new()).unwrap();
            AcceptedVersions::of(&lock, &self.places).unwrap()
        }
    }

    fn accept(versions: &AcceptedVersions, component: &[u8]) -> Version {
        let digest = Digest::of_hash(blake3::hash(component));
        let accepted = Locked::new(Some(digest.clone()), None, Requests::default());
        versions.keep("repo", &accepted, || Ok(component.to_vec())).unwrap();
        Version::new("repo", digest)
    }

    #[test]
    fn a_version_is_read_by_its_digest_alone_and_belongs_to_its_owner() {
        let ground = Ground::new();
        let versions = ground.project("one");
        let version = accept(&versions, b"first");
        assert_eq!(versions.component(&version.digest).unwrap(), b"first");
        let file = versions.component_file(&version.digest);
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file), mode(file.parent().unwrap()), mode(&versions.records)), (0o600, 0o700, 0o700));
        fs::write(&file, b"First").unwrap();
        assert!(matches!(versions.component(&version.digest), Err(VersionError::Damaged { .. })));
        fs::remove_file(&file).unwrap();
        assert!(matches!(versions.component(&version.digest), Err(VersionError::Missing(_))));
        assert!(versions.list().unwrap().is_empty());
        accept(&versions, b"first");
        assert_eq!(versions.component(&version.digest).unwrap(), b"first");
    }

    #[test]
    fn bytes_that_are_not_those_of_the_digest_are_refused() {
        let ground = Ground::new();
        let versions = ground.project("one");
        let digest = Digest::of_hash(blake3::hash(b"accepted"));
        let accepted = Locked::new(Some(digest.clone()), None, Requests::default());
        assert!(versions.keep("repo", &accepted, || Ok(b"other".to_vec())).is_err());
        assert!(matches!(versions.find(&Version::new("repo", digest)), Err(VersionError::Unknown)));
    }

    #[test]
    fn a_project_has_no_version_that_another_one_accepted() {
        let ground = Ground::new();
        let version = accept(&ground.project("one"), b"first");
        assert!(matches!(ground.project("two").find(&version), Err(VersionError::Unknown)));
        assert!(ground.project("one").find(&version).is_ok());
        let renamed = Version::new("other", version.digest);
        assert!(matches!(ground.project("one").find(&renamed), Err(VersionError::Unknown)));
    }

    #[test]
    fn a_shared_version_is_taken_if_its_bytes_and_its_record_are_those_of_its_digest() {
        let (here, there) = (Ground::new(), Ground::new());
        let version = accept(&there.project("one"), b"first");
        let shared = there.project("one").to_share(&version).unwrap();
        let changed = SharedVersion { component: b"other".as_slice().into(), ..shared.clone() };
        let renamed = Version::new("repo", Digest::of_hash(blake3::hash(b"other")));
        let project = here.project("one");
        assert!(project.keep_shared(&version, &changed).is_err());
        assert!(project.keep_shared(&renamed, &changed).is_err());
        assert!(matches!(project.find(&version), Err(VersionError::Unknown)));
        project.keep_shared(&version, &shared).unwrap();
        assert_eq!(project.component(&version.digest).unwrap(), b"first");
        assert_eq!(project.find(&version).unwrap().bytes, Some(5));
    }

    #[test]
    fn retention_removes_what_no_lock_and_no_journal_names() {
        let ground = Ground::new();
        let (one, two) = (ground.project("one"), ground.project("two"));
        let [locked, waits, elsewhere, unnamed, shared] =
            [b"a", b"b", b"c", b"d", b"e"].map(|component| accept(&one, component));
        accept(&two, b"e");
        let all = one.list().unwrap();
        one.note("here", all.clone()).unwrap();
        one.note("there", [elsewhere.clone()]).unwrap();
        // It came while the journal was searched.
        let late = accept(&one, b"f");
        one.note("here", [late.clone()]).unwrap();
        let removed = one.retain("here", &all, &[waits.clone()].into(), &[locked.clone()].into()).unwrap();
        assert_eq!(removed, 2);
        assert_eq!(one.list().unwrap(), [locked, waits, elsewhere, late].into());
        assert!(matches!(one.component(&unnamed.digest), Err(VersionError::Missing(_))));
        assert_eq!(two.component(&shared.digest).unwrap(), b"e", "another project names it");
        assert_eq!(one.of_journal("here").unwrap().left, 4);
    }
}
