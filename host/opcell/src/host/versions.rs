//! Versions side by side: a run continues with the versions of plugins that it was started with, whatever the project
//! has now.
//!
//! A host keeps what its lock accepted ([`AcceptedVersions`]). A run that pinned other versions is resumed on another
//! host, which has them in the place of those that are loaded, and the project's grants of today: a version requests no
//! more than was accepted for it, and gets no more than its plugin is granted.

use super::{Host, NewPermissions, close::OpenCalls, loading::Parts};
use crate::{
    catalog::Catalog,
    config::{Component, ComponentStore, Config, PluginConfig, StoreFailure, lock::Locked},
    library::Library,
    pins::{self, Pins},
    places::Places,
    programs::SessionPrograms,
    versions::{AcceptedVersions, Version, VersionError},
};
use async_trait::async_trait;
use opcell_engine::{Engine, ResumeOptions, RunError, RunHandle, event::Event};
use opcell_journal::{Journal, RunEntry, RunQuery, SharedVersions};
use opcell_session::HostSessions;
use opcell_types::Digest;
use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    io,
    sync::{Arc, Weak},
};

/// Hosts with earlier versions that are kept, those that were needed last. Each holds the machine code of what differs.
const MAX_HOSTS: usize = 8;

/// Versions beyond those of the lock that stay without a look at the runs, the newest: a process that has one of them
/// loaded may begin a run at this moment.
const SPARED_VERSIONS: usize = 16;

/// Runs that are read to find out which versions they name. In a journal with more of them every version stays.
const MAX_SEARCHED_RUNS: usize = 20_000;

/// Runs that are listed at a time.
const RUNS_PER_PAGE: usize = 500;

/// Records of a run that are looked at at a time.
const RECORDS_PER_PAGE: u64 = 500;

/// The kinds of the events that pin versions.
const PINNING: [&str; 2] = ["run-started", "run-repinned"];

/// Digests by the names that runs pin them by.
pub(super) type Wanted = BTreeMap<Arc<str>, Arc<str>>;

/// Hosts with earlier versions, those that were needed last first.
#[derive(Default)]
pub(crate) struct EarlierHosts(tokio::sync::Mutex<VecDeque<(Wanted, Host)>>);

/// A host that is not kept alive.
pub(crate) struct WeakHost {
    catalog: Weak<Catalog>,
    library: Weak<Library>,
    sessions: Weak<HostSessions>,
    engine: Weak<Engine>,
    open_calls: Weak<OpenCalls>,
    parts: Weak<Parts>,
    earlier: Weak<EarlierHosts>,
    programs: Weak<SessionPrograms>,
}

impl WeakHost {
    pub(crate) fn upgrade(&self) -> Option<Host> {
        Some(Host {
            catalog: self.catalog.upgrade()?,
            library: self.library.upgrade()?,
            sessions: self.sessions.upgrade()?,
            engine: self.engine.upgrade()?,
            open_calls: self.open_calls.upgrade()?,
            parts: self.parts.upgrade()?,
            earlier: self.earlier.upgrade()?,
            programs: self.programs.upgrade()?,
        })
    }
}

/// An accepted version of a plugin, read and checked each time that it is loaded.
struct OfDigest {
    versions: AcceptedVersions,
    digest: Digest,
}

#[async_trait]
impl ComponentStore for OfDigest {
    async fn component(&self, _: &str) -> Result<Vec<u8>, StoreFailure> {
        let (versions, digest) = (self.versions.clone(), self.digest.clone());
        Ok(tokio::task::spawn_blocking(move || versions.component(&digest)).await??)
    }
}

impl Host {
    pub(super) fn downgrade(&self) -> WeakHost {
        WeakHost {
            catalog: Arc::downgrade(&self.catalog),
            library: Arc::downgrade(&self.library),
            sessions: Arc::downgrade(&self.sessions),
            engine: Arc::downgrade(&self.engine),
            open_calls: Arc::downgrade(&self.open_calls),
            parts: Arc::downgrade(&self.parts),
            earlier: Arc::downgrade(&self.earlier),
            programs: Arc::downgrade(&self.programs),
        }
    }

    /// Resumes a run with the versions that it pinned.
    ///
    /// # Errors
    /// As [`Host::resume`].
    pub(crate) async fn resume_with_versions(
        &self,
        run: &Arc<str>,
        options: ResumeOptions,
    ) -> Result<(RunHandle, Arc<Engine>), RunError> {
        let (mut host, mut wanted) = (self.clone(), Wanted::new());
        loop {
            let options = ResumeOptions { pins: pins::all(&host.catalog), ..options.clone() };
            let (run, name, pinned, found) = match host.engine.resume(run, options).await {
                Ok(handle) => return Ok((handle, host.engine)),
                Err(RunError::Pin { run, name, pinned, found }) => (run, name, pinned, found),
                Err(error) => return Err(error),
            };
            // Once it is wanted, the host has it or was not made.
            let is_new = wanted.insert(name.clone(), pinned.clone()).is_none();
            let why = match self.with_versions(&wanted).await {
                Ok(earlier) if is_new => {
                    host = earlier;
                    continue;
                }
                Ok(_) => "the pinned version was loaded under another digest".to_owned(),
                Err(why) => why,
            };
            let found = format!("{}, and {why}", self.found_instead(&name, found));
            return Err(RunError::Pin { run, name, pinned, found });
        }
    }

    /// This host with accepted versions in the place of those that are loaded.
    pub(super) async fn with_versions(&self, wanted: &Wanted) -> Result<Self, String> {
        let mut hosts = self.earlier.0.lock().await;
        if let Some(at) = hosts.iter().position(|(versions, _)| versions == wanted)
            && let Some((versions, host)) = hosts.remove(at)
        {
            hosts.push_front((versions, host.clone()));
            return Ok(host);
        }
        let mut parts = Parts { sibling: Some(self.engine.sibling().build()), ..self.parts().clone() };
        let mut names = Vec::new();
        for (name, digest) in wanted {
            let plugin = pins::plugin_of(name).ok_or("what it pinned is not a plugin")?;
            let digest: Digest = digest.parse().map_err(|_| "the pinned digest is not one".to_owned())?;
            put_version(&mut parts, &Version::new(plugin, digest)).await?;
            names.push(plugin);
        }
        let host = self.remade_with(parts, &names, NewPermissions::Refuse).await;
        let host = host.map_err(|error| format!("the pinned version cannot be loaded: {error}"))?;
        hosts.push_front((wanted.clone(), host.clone()));
        hosts.truncate(MAX_HOSTS);
        Ok(host)
    }
}

/// Puts an accepted version in the place of the one that the project has.
async fn put_version(parts: &mut Parts, version: &Version) -> Result<(), String> {
    let lock = parts.config.lock.clone().ok_or("without opcell.lock no version is accepted")?;
    let plugin = parts.config.plugins.get_mut(&version.plugin).ok_or("the project no longer has the plugin")?;
    let versions = AcceptedVersions::of(&lock, &parts.ground.places);
    let versions = versions.ok_or("this user has no home directory in which versions are kept")?;
    let accepted = match usable(&versions, version).await {
        Ok(accepted) => accepted,
        Err(error) => match parts.journal.as_ref().and_then(|journal| journal.shared_versions()) {
            Some(shared) => fetch(&versions, shared, version).await.map_err(|why| format!("{error}; {why}"))?,
            None => return Err(error),
        },
    };
    plugin.path = versions.component_file(&version.digest);
    plugin.component = Some(Component::Stored(Arc::new(OfDigest { versions, digest: version.digest.clone() })));
    (plugin.origin, plugin.dev) = (None, false);
    parts.config.lock = Some(lock.with_version(&version.plugin, accepted));
    Ok(())
}

/// Returns the record of an accepted version whose component is here and sound.
async fn usable(versions: &AcceptedVersions, version: &Version) -> Result<Locked, String> {
    let (versions, version) = (versions.clone(), version.clone());
    let found = tokio::task::spawn_blocking(move || {
        let accepted = versions.find(&version)?;
        versions.component(&version.digest)?;
        Ok(accepted)
    });
    found.await.map_err(|error| error.to_string())?.map_err(|error: VersionError| error.to_string())
}

/// Takes a version from the workers of a journal that share theirs.
async fn fetch(versions: &AcceptedVersions, shared: &dyn SharedVersions, version: &Version) -> Result<Locked, String> {
    let found = shared.get(&version.to_name(), opcell_registry::MAX_COMPONENT).await;
    let found = found.map_err(|error| format!("the versions of the journal cannot be read: {error}"))?;
    let found = found.ok_or("the journal has no version of this digest")?;
    let (store, wanted) = (versions.clone(), version.clone());
    let keeping = tokio::task::spawn_blocking(move || store.keep_shared(&wanted, &found));
    let done = keeping.await.map_err(|error| error.to_string())?;
    done.map_err(|error| format!("the version of the journal is not used: {error}"))?;
    tracing::info!(plugin = version.plugin, digest = version.digest.short(), "took a version from the journal");
    usable(versions, version).await
}

/// Gives the versions that are loaded to the other workers of the journal, if they share theirs.
async fn share(
    versions: &AcceptedVersions,
    loaded: &BTreeSet<Version>,
    shared: &dyn SharedVersions,
) -> Result<(), StoreFailure> {
    let names = shared.names().await?;
    for version in loaded.iter().filter(|version| !names.contains(&version.to_name())) {
        let (versions, wanted) = (versions.clone(), version.clone());
        let given = tokio::task::spawn_blocking(move || versions.to_share(&wanted)).await??;
        shared.put(&version.to_name(), given).await?;
    }
    Ok(())
}

/// Keeps every version that is loaded as the lock accepted it, and notes that runs of the journal may name it. Warns
/// where that fails: runs that begin now then need what the project has now.
pub(super) async fn keep(config: &Config, catalog: &Catalog, places: &Places, journal: Option<&Arc<dyn Journal>>) {
    let Some(lock) = &config.lock else { return };
    let Some(versions) = AcceptedVersions::of(lock, places) else { return };
    let mut kept = BTreeSet::new();
    for plugin in catalog.plugins() {
        let Some(of) = config.plugins.get(plugin.name()).filter(|of| !of.dev) else { continue };
        let known = lock.plugin(plugin.name()).and_then(|locked| locked.digest.as_ref());
        // A lock that this command must not change accepts nothing that is new.
        if known.map_or(lock.is_frozen(), |known| known != plugin.digest()) {
            continue;
        }
        let accepted = Locked::new(Some(plugin.digest().clone()), None, plugin.policy().requests().clone())
            .with_version(plugin.surface().manifest.version.clone());
        match keep_one(&versions, of, accepted).await {
            Ok(()) => drop(kept.insert(Version::new(plugin.name(), plugin.digest().clone()))),
            Err(error) => tracing::warn!(
                plugin = plugin.name(),
                "cannot keep this version for runs that wait while the plugin is upgraded: {error}"
            ),
        }
    }
    let Some(journal) = journal else { return };
    if let Some(shared) = journal.shared_versions()
        && let Err(error) = share(&versions, &kept, shared).await
    {
        tracing::warn!("cannot give the loaded versions of plugins to the other workers of the journal: {error}");
    }
    let key = journal_key(config);
    let noted = tokio::task::spawn_blocking(move || versions.note(&key, kept)).await;
    if let Err(error) | Ok(Err(error)) = noted.map_err(io::Error::other) {
        tracing::warn!("cannot note which versions of plugins runs of the journal may need: {error}");
    }
}

/// Removes the versions that no run and no lock names, of a project whose place of the journal is known. Warns where
/// that fails: they stay.
pub(super) async fn retain(config: &Config, places: &Places, journal: Option<&Arc<dyn Journal>>) {
    let Some(lock) = &config.lock else { return };
    let Some(journal) = journal.filter(|_| config.journal.is_some()) else { return };
    let Some(versions) = AcceptedVersions::of(lock, places) else { return };
    if let Err(error) = retain_named(&versions, lock.plugins(), &journal_key(config), journal).await {
        tracing::warn!("cannot find out which earlier versions of plugins are no longer needed: {error}");
    }
}

/// Returns the text by which the user's state tells the journal from others.
fn journal_key(config: &Config) -> String {
    config.journal.as_ref().map_or_else(|| "the program's".to_owned(), |settings| settings.place.identity())
}

async fn keep_one(versions: &AcceptedVersions, plugin: &PluginConfig, accepted: Locked) -> Result<(), StoreFailure> {
    let (versions, name, plugin_of_file) = (versions.clone(), plugin.name.clone(), plugin.clone());
    let component = match &plugin.component {
        Some(component) => Some(component.bytes(&name).await?),
        None => None,
    };
    let kept = tokio::task::spawn_blocking(move || {
        versions.keep(&name, &accepted, || match component {
            Some(bytes) => Ok(bytes.to_vec()),
            None => plugin_of_file.read(opcell_registry::MAX_COMPONENT).map_err(io::Error::other),
        })
    });
    Ok(kept.await??)
}

/// Removes the versions that no run and no lock names, once there are twice as many as were left the last time.
async fn retain_named(
    versions: &AcceptedVersions,
    locked: impl Iterator<Item = (&str, &Locked)>,
    key: &str,
    journal: &Arc<dyn Journal>,
) -> Result<(), StoreFailure> {
    let (looked, own) = (versions.clone(), key.to_owned());
    let looking = tokio::task::spawn_blocking(move || Ok::<_, io::Error>((looked.newest()?, looked.of_journal(&own)?)));
    let (newest, known) = looking.await??;
    if newest.len() <= known.left.saturating_mul(2).max(2 * SPARED_VERSIONS) {
        return Ok(());
    }
    let locked = locked.filter_map(|(name, locked)| Some(Version::new(name, locked.digest.clone()?)));
    let mut stay: BTreeSet<Version> = locked.collect();
    stay.extend(newest.iter().take(SPARED_VERSIONS).cloned());
    let seen: BTreeSet<Version> = newest.into_iter().collect();
    let named = named(journal, &seen, &stay).await?;
    let (versions, key) = (versions.clone(), key.to_owned());
    let left = |version: &&Version| !named.contains(*version) && !stay.contains(*version);
    let unnamed: Vec<String> = seen.iter().filter(left).map(Version::to_name).collect();
    if let Some(shared) = journal.shared_versions() {
        shared.remove(&unnamed).await?;
    }
    let removing = tokio::task::spawn_blocking(move || versions.retain(&key, &seen, &named, &stay));
    let removed = removing.await??;
    if removed > 0 {
        tracing::info!(removed, "removed versions of plugins that no run and no lock names");
    }
    Ok(())
}

/// The versions that runs of a journal name. `stay`: those that are not looked for.
async fn named(
    journal: &Arc<dyn Journal>,
    seen: &BTreeSet<Version>,
    stay: &BTreeSet<Version>,
) -> Result<BTreeSet<Version>, RunError> {
    let engine = Engine::builder().journal(journal.clone()).build();
    let (mut named, mut searched, mut before) = (BTreeSet::new(), 0, None);
    loop {
        let query = RunQuery { before: before.take(), limit: RUNS_PER_PAGE, ..RunQuery::default() };
        let page = engine.runs_page(query).await?;
        searched += page.len();
        if searched > MAX_SEARCHED_RUNS {
            return Ok(seen.clone());
        }
        for run in &page {
            named.extend(pinned(&engine, run).await?);
            if seen.iter().all(|version| named.contains(version) || stay.contains(version)) {
                return Ok(named);
            }
        }
        match page.last().filter(|_| page.len() == RUNS_PER_PAGE) {
            Some(last) => before = Some(last.run.clone()),
            None => return Ok(named),
        }
    }
}

/// The versions that a run ever pinned: a fork may begin at any of its events. A run that cannot be read is an error: it
/// may name any.
async fn pinned(engine: &Engine, run: &RunEntry) -> Result<Vec<Version>, RunError> {
    let (mut versions, mut last) = (Vec::new(), 0);
    loop {
        // Records say their kind; only those that pin something are decoded.
        let records = engine.journal().read(&run.run, last, RECORDS_PER_PAGE).await?;
        let Some(read) = records.last().map(|record| record.seq) else { return Ok(versions) };
        let pinning = records.iter().filter(|record| PINNING.contains(&record.kind.as_ref()));
        for seq in pinning.map(|record| record.seq) {
            for recorded in engine.events_after(&run.run, seq.saturating_sub(1), 1).await? {
                match recorded.event {
                    Event::RunStarted(started) => versions.extend(of_pins(&started.pins)),
                    Event::RunRepinned(moved) => versions.extend(of_pins(&moved.pins)),
                    _ => {}
                }
            }
        }
        if records.len() < RECORDS_PER_PAGE as usize {
            return Ok(versions);
        }
        last = read;
    }
}

fn of_pins(pins: &Pins) -> impl Iterator<Item = Version> {
    pins.iter().filter_map(|(name, digest)| Some(Version::new(pins::plugin_of(name)?, digest.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_engine::{Program, RunOptions};
    use opcell_types::Value;

    fn pins(plugin: &[u8]) -> Pins {
        [("plugin test".into(), Digest::of_hash(blake3::hash(plugin)).shared().clone())].into()
    }

    #[tokio::test]
    async fn a_run_that_was_moved_names_every_version_that_it_pinned() {
        let engine = Engine::builder().build();
        let ir = r#"{"version":"workflow-ir/v1","name":"waits","steps":[{"name":"wait","type":"wait","wait":{"signal":"go"}}]}"#;
        let program = Program::new(Arc::new(serde_json::from_str(ir).unwrap())).unwrap();
        let options = RunOptions { detach: true, pins: pins(b"one"), ..RunOptions::default() };
        let outcome = engine.start(program, Value::Null, options).await.unwrap().finished().await.unwrap();
        let run = outcome.run;
        let checked = engine.state_at(&run, None).await.unwrap().seq();
        assert!(engine.repin(&run, checked, pins(b"two"), Some("ann".into())).await.unwrap());
        // What was checked is no longer what the run is.
        assert!(!engine.repin(&run, checked, pins(b"three"), None).await.unwrap());
        assert_eq!(*engine.state_at(&run, None).await.unwrap().pins(), pins(b"two"));
        let entry = engine.runs().await.unwrap().remove(0);
        let named = pinned(&engine, &entry).await.unwrap();
        assert_eq!(named, [b"one", b"two"].map(|plugin| Version::new("test", Digest::of_hash(blake3::hash(plugin)))));
    }
}
