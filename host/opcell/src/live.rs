//! A host whose plugins are exchanged while it runs.
//!
//! A [`Host`] never changes. A [`LiveHost`] holds the newest of several that differ in their plugins: what begins now
//! begins there, and a run that began with an earlier version continues with that one, because it pinned its digest.
//! Which bytes are acceptable is decided as at the start: by the lock, by `dev = true`, by the grants. A version that
//! is refused changes nothing.
//!
//! Plugins only: every other setting is read at the start.

mod files;

use crate::{
    config::{Config, PluginConfig, control, lock::Locked},
    differences::{Difference, differences},
    host::{Host, HostError, NewPermissions, Parts},
    pins,
    report::Rejected,
    source,
};
use files::Stamps;
use opcell_engine::{Engine, ResumeOptions, RunError, RunOutcome, worker::Turns};
use opcell_ir::Diagnostic;
use opcell_journal::RunId;
use opcell_sandbox::{Exports, PluginSource, inspect};
use serde::Serialize;
use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};
use tokio::sync::watch;

/// Earlier hosts that are kept for the runs that began with them, those that were needed last. Each holds the machine
/// code of the plugins that have been exchanged since.
const MAX_FORMER_VERSIONS: usize = 8;

/// The interval at which the files are looked at. What is different in one look and the same in the next counts as
/// whole.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// A host whose plugins are exchanged while it runs. Cheap to clone; clones share everything.
#[derive(Clone)]
pub struct LiveHost(Arc<Shared>);

struct Shared {
    /// Reads the journal and tells runs things, whatever host drives them. To shut it down is to shut down every host.
    engine: Engine,
    /// The newest first, then the earlier ones, those that were needed last first.
    hosts: RwLock<VecDeque<Host>>,
    /// The refused versions, so that each is tried and reported once.
    refused: Mutex<HashMap<String, Tried>>,
    /// One exchange at a time.
    exchanging: tokio::sync::Mutex<()>,
    /// The number of exchanges.
    exchanges: watch::Sender<u64>,
}

/// A plugin as it was found: the digest of its bytes, what the lock says, what the project file says.
#[derive(Debug, Clone, PartialEq)]
struct Tried {
    found: Result<String, String>,
    locked: Option<Locked>,
    config: Option<PluginConfig>,
}

/// The result of a change.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Exchange {
    /// A version of a plugin was loaded; calls that begin now have it.
    Loaded {
        /// The plugin.
        plugin: String,
        /// The digest of its component.
        digest: String,
        /// The digest before; the same if only its grants, limits or settings changed, none if it was left out.
        before: Option<String>,
    },
    /// The plugin is not available to new calls and runs. Runs that started with it finish with it.
    Removed {
        /// The plugin.
        plugin: String,
        /// The digest of its component; none if it was left out.
        before: Option<String>,
    },
    /// The version that was there stays.
    Refused {
        /// The plugin.
        plugin: String,
        /// Why, as at the start.
        why: Rejected,
    },
    /// The lock holds other tools of an MCP server than before: calls that begin now may call them.
    Accepted {
        /// The server.
        server: String,
    },
    /// The project file or its lock cannot be used; everything stays.
    Unreadable {
        /// Why.
        why: Rejected,
    },
}

/// A version of a plugin beside the one that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Comparison {
    /// Digest of the component that is loaded; absent: the plugin was left out, and everything is new.
    pub loaded: Option<String>,
    /// Digest of the component that the project names now.
    pub found: String,
    /// `true` if it requests what the loaded one does not.
    pub asks_for_more: bool,
    /// Everything in which they differ.
    pub differences: Vec<Difference>,
}

/// The largest component that is looked at.
/// More than any component may have: what is larger is refused when it is loaded.
const MAX_FILE_BYTES: u64 = 1 << 30;

const MAX_COMPONENT_BYTES: u64 = opcell_registry::MAX_COMPONENT;

impl From<Host> for LiveHost {
    fn from(host: Host) -> Self {
        Self::new(host)
    }
}

impl LiveHost {
    /// A host that stays as it is until it is refreshed.
    #[must_use]
    pub fn new(host: Host) -> Self {
        Self(Arc::new(Shared {
            engine: host.engine().sibling().build(),
            hosts: RwLock::new([host].into()),
            refused: Mutex::default(),
            exchanging: tokio::sync::Mutex::default(),
            exchanges: watch::Sender::default(),
        }))
    }

    /// The newest host. Take it once for each thing that begins.
    ///
    /// ```
    /// # use opcell::{LiveHost, prelude::*};
    /// # async fn example(live: &LiveHost) -> Result<(), Box<dyn std::error::Error>> {
    /// let called = live.now().invoke("greet/hello", opcell::json!({})).await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn now(&self) -> Host {
        let hosts = self.0.hosts.read().unwrap_or_else(PoisonError::into_inner);
        // There is always one: exchanging a host adds one, and only former ones are dropped.
        #[expect(clippy::indexing_slicing, reason = "never empty")]
        hosts[0].clone()
    }

    /// For the runs of the journal: lists them, reads them, tells them things. It reaches no plugin, so it starts and
    /// resumes nothing itself. To shut it down is to shut down every host.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Looks at every plugin of the host and of `fresh`, the project as it is now: exchanges those whose component, lock,
    /// grants or settings have changed, loads those that are new, and removes those that are gone. Says what became of
    /// each change, once.
    ///
    /// ```
    /// # use opcell::{LiveHost, prelude::*};
    /// # async fn example(live: &LiveHost) -> Result<(), Box<dyn std::error::Error>> {
    /// for exchange in live.refresh(&Config::load("opcell.toml")?).await {
    ///     println!("{exchange:?}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn refresh(&self, fresh: &Config) -> Vec<Exchange> {
        let _one = self.0.exchanging.lock().await;
        let mut said = Vec::new();
        let names: BTreeSet<String> = self.now().plugin_names().chain(fresh.plugins.keys()).cloned().collect();
        for name in names {
            said.extend(self.refresh_one(&name, fresh).await);
        }
        if let Some(lock) = &fresh.lock {
            let accepted = self.now().parts().tools.renew(lock);
            said.extend(accepted.into_iter().map(|server| Exchange::Accepted { server }));
        }
        said
    }

    /// Adds a plugin to what begins now: what a product does when its user installs one.
    ///
    /// ```
    /// use opcell::{LiveHost, prelude::*};
    ///
    /// # async fn install(live: &LiveHost, component: Vec<u8>) -> Result<(), HostError> {
    /// live.add(PluginConfig::from_bytes("spelling", component)).await?;
    /// live.remove("spelling").await
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Host::with_plugin`]; everything stays as it is.
    pub async fn add(&self, plugin: PluginConfig) -> Result<(), HostError> {
        let _one = self.0.exchanging.lock().await;
        let host = self.now();
        let new = host.with_plugin_as(plugin, host.parts_beside(&self.0.engine)).await?;
        self.begin_with(new);
        Ok(())
    }

    /// Takes a plugin away from what begins now. Calls that are in flight and runs that began with it end with it.
    ///
    /// ```
    /// # use opcell::{LiveHost, prelude::*};
    /// # async fn example(live: &LiveHost) -> Result<(), Box<dyn std::error::Error>> {
    /// live.remove("spelling").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Host::without_plugin`]; everything stays as it is.
    pub async fn remove(&self, name: &str) -> Result<(), HostError> {
        let _one = self.0.exchanging.lock().await;
        let host = self.now();
        let new = host.without_plugin_as(name, host.parts_beside(&self.0.engine)).await?;
        self.begin_with(new);
        Ok(())
    }

    /// Puts another version of a plugin, or other grants, limits and settings, in its place for what begins now: an update
    /// that a user installs. There is no moment without the plugin. Calls that are in flight and runs that began with the
    /// one before end with it.
    ///
    /// ```
    /// # use opcell::{LiveHost, prelude::*};
    /// # async fn example(live: &LiveHost, newer: Vec<u8>) -> Result<(), Box<dyn std::error::Error>> {
    /// live.replace(PluginConfig::from_bytes("spelling", newer)).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is no such plugin, or its component or a credential is in another file than before; as
    /// [`Host::reload`]. Everything stays as it is.
    pub async fn replace(&self, plugin: PluginConfig) -> Result<(), HostError> {
        let _one = self.0.exchanging.lock().await;
        let host = self.now();
        let moved = host.plugin_config(&plugin.name).and_then(|known| host.needs_restart(known, &plugin));
        if let Some(why) = moved {
            return Err(restart(&plugin.name, why));
        }
        let new = host.remade(host.parts_beside(&self.0.engine), plugin, NewPermissions::Refuse).await?;
        self.begin_with(new);
        Ok(())
    }

    fn begin_with(&self, new: Host) {
        let mut hosts = self.0.hosts.write().unwrap_or_else(PoisonError::into_inner);
        hosts.push_front(new);
        hosts.truncate(1 + MAX_FORMER_VERSIONS);
        drop(hosts);
        self.0.exchanges.send_modify(|exchanges| *exchanges += 1);
    }

    /// Closes the newest host and those before it that are still kept, as [`Host::close`].
    ///
    /// ```
    /// # use opcell::{LiveHost, prelude::*};
    /// # async fn example(live: &LiveHost) -> Result<(), Box<dyn std::error::Error>> {
    /// live.close(std::time::Duration::from_secs(10)).await;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn close(&self, grace: Duration) {
        let hosts: Vec<Host> = self.0.hosts.read().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect();
        futures_util::future::join_all(hosts.iter().map(|host| host.close(grace))).await;
    }

    /// The same, and says again what was refused before.
    pub async fn reload(&self, fresh: &Config) -> Vec<Exchange> {
        self.refused().clear();
        self.refresh(fresh).await
    }

    /// Returns the number of exchanges, and waits for the next one.
    #[must_use]
    pub fn exchanges(&self) -> watch::Receiver<u64> {
        self.0.exchanges.subscribe()
    }

    /// Returns the differences of the version of a plugin that `fresh`, the project as it is now, names from the one
    /// that is loaded. It is looked at, and neither compiled nor run.
    ///
    /// # Errors
    /// When one of the two is not there, or is no component that can be read.
    pub async fn compare(&self, name: &str, fresh: &Config) -> Result<Comparison, Rejected> {
        let unknown = |message: String| Rejected::plain(Diagnostic::error("unknown-plugin", message));
        let host = self.now();
        let loaded = host.catalog().plugins().find(|plugin| plugin.name() == name);
        let wanted = fresh.plugins.get(name);
        let wanted = wanted.ok_or_else(|| unknown(format!("the project has no plugin `{name}`")))?.clone();
        let path = wanted.path.clone();
        let in_memory = bytes_of(&wanted).await.transpose();
        let looked = tokio::task::spawn_blocking(move || {
            let bytes = match in_memory {
                Some(bytes) => bytes?.to_vec(),
                None => wanted.read(MAX_COMPONENT_BYTES)?,
            };
            let surface = match &wanted.exports {
                Exports::Contract => inspect::inspect(&bytes),
                _ => inspect::inspect_typed(&bytes),
            };
            let digest = blake3::hash(&bytes).to_hex().to_string();
            Ok::<_, String>((surface.map_err(|error| error.to_string())?, digest))
        });
        let looked = looked.await.unwrap_or_else(|_| Err("reading it was abandoned".to_owned()));
        let (surface, digest) = looked.map_err(|why| {
            Rejected::plain(Diagnostic::error("plugin-unreadable", format!("{}: {why}", path.display())))
        })?;
        let differences = match loaded {
            Some(loaded) => differences(loaded.surface(), &surface),
            None => differences(&inspect::Surface::default(), &surface),
        };
        let asks_for_more = differences.iter().any(Difference::wants_more);
        let loaded = loaded.map(|loaded| loaded.digest().to_string());
        Ok(Comparison { loaded, found: digest, asks_for_more, differences })
    }

    async fn refresh_one(&self, name: &str, fresh: &Config) -> Option<Exchange> {
        let host = self.now();
        let (known, wanted) = (host.plugin_config(name), fresh.plugins.get(name));
        let locked = fresh.lock.as_ref().and_then(|lock| lock.plugin(name)).cloned();
        let found = match wanted {
            Some(wanted) => found(wanted, locked.as_ref()).await,
            None => Err("it is not in the project".to_owned()),
        };
        let before =
            host.catalog().plugins().find(|plugin| plugin.name() == name).map(|plugin| plugin.digest().to_string());
        let same_settings = known.map(settings) == wanted.map(settings);
        if same_settings && before.is_some() && found.as_ref().ok() == before.as_ref() {
            self.refused().remove(name);
            return None;
        }
        let tried = Tried { found, locked, config: wanted.map(settings) };
        if self.refused().get(name) == Some(&tried) {
            return None;
        }
        let exchanged = match (known, wanted) {
            (Some(known), Some(wanted)) => match host.needs_restart(known, wanted) {
                None => host.exchange(wanted.clone(), fresh, &self.0.engine).await,
                Some(why) => Err(restart(name, why)),
            },
            (None, Some(wanted)) => host.with_plugin_as(wanted.clone(), host.parts_as_in(fresh, &self.0.engine)).await,
            (_, None) => host.without_plugin_as(name, host.parts_as_in(fresh, &self.0.engine)).await,
        };
        match exchanged {
            Ok(new) if wanted.is_none() => {
                self.refused().remove(name);
                self.begin_with(new);
                Some(Exchange::Removed { plugin: name.to_owned(), before })
            }
            Ok(new) => {
                let plugin = new.catalog().plugins().find(|plugin| plugin.name() == name);
                let digest = plugin.map(|plugin| plugin.digest().to_string()).unwrap_or_default();
                self.refused().remove(name);
                self.begin_with(new);
                Some(Exchange::Loaded { plugin: name.to_owned(), digest, before })
            }
            Err(error) => {
                self.refused().insert(name.to_owned(), tried);
                Some(Exchange::Refused { plugin: name.to_owned(), why: rejected(error) })
            }
        }
    }

    /// Refreshes the host whenever the project file, its lock or a component has changed and then stopped changing.
    /// `read` reads the project as at the start, without asking anyone anything; it may block. Never returns.
    pub async fn follow(
        &self,
        read: impl Fn() -> Result<Config, Rejected> + Send + Sync + 'static,
        mut report: impl FnMut(Exchange),
    ) {
        let read = Arc::new(read);
        let (mut last, mut settled, mut unreadable) = (None, None, None);
        loop {
            tokio::time::sleep(POLL_INTERVAL).await;
            let files = self.now().followed_files();
            // A look that is lost is made up for by the next one.
            let Ok(now) = tokio::task::spawn_blocking(move || Stamps::of(files)).await else { continue };
            let whole = last.replace(now.clone()).is_some_and(|last| last == now);
            // What cannot be used may need consent, which is in none of these files.
            if !whole || (settled.as_ref() == Some(&now) && unreadable.is_none()) {
                continue;
            }
            settled = Some(now);
            let read = read.clone();
            let Ok(read) = tokio::task::spawn_blocking(move || read()).await else { continue };
            match read {
                Ok(fresh) => {
                    unreadable = None;
                    self.refresh(&fresh).await.into_iter().for_each(&mut report);
                }
                Err(why) => {
                    let text = Some(why.to_string());
                    if unreadable != text {
                        unreadable = text;
                        report(Exchange::Unreadable { why });
                    }
                }
            }
        }
    }

    fn refused(&self) -> std::sync::MutexGuard<'_, HashMap<String, Tried>> {
        self.0.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The hosts that have this version of a plugin, the newest first.
    fn having(&self, name: &str, digest: &str) -> Vec<Host> {
        let hosts = self.0.hosts.read().unwrap_or_else(PoisonError::into_inner);
        let has = |host: &&Host| pins::all(host.catalog()).get(name).is_some_and(|found| **found == *digest);
        hosts.iter().skip(1).filter(has).cloned().collect()
    }

    /// Keeps a former host longer than those that are not needed.
    fn needed(&self, host: &Host) {
        let mut hosts = self.0.hosts.write().unwrap_or_else(PoisonError::into_inner);
        let at = hosts.iter().position(|kept| std::ptr::eq(kept.parts(), host.parts()));
        if let Some(host) = at.filter(|at| *at > 1).and_then(|at| hosts.remove(at)) {
            hosts.insert(1, host);
        }
    }
}

impl Turns for LiveHost {
    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// The newest host drives what it can; a run that began with another version of a plugin is driven by the host that
    /// has it.
    async fn turn(&self, run: &RunId, options: ResumeOptions) -> Result<RunOutcome, RunError> {
        let (former, refused) = match self.now().turn(run, options.clone()).await {
            Err(RunError::Pin { run, name, pinned, found }) => {
                (self.having(&name, &pinned), RunError::Pin { run, name, pinned, found })
            }
            ended => return ended,
        };
        for host in former {
            self.needed(&host);
            match host.turn(run, options.clone()).await {
                // It has this plugin, and not another one that the run pinned.
                Err(RunError::Pin { .. }) => {}
                ended => return ended,
            }
        }
        Err(refused)
    }
}

impl std::fmt::Debug for LiveHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("LiveHost").field(&self.now()).finish()
    }
}

impl Host {
    /// The parts of a host beside this one, whose engine shares its journal and its end with `sibling`.
    fn parts_beside(&self, sibling: &Engine) -> Parts {
        Parts { sibling: Some(sibling.clone()), ..self.parts().clone() }
    }

    fn plugin_names(&self) -> impl Iterator<Item = &String> {
        self.parts().config.plugins.keys()
    }

    /// The files that say what its plugins are.
    fn followed_files(&self) -> Vec<PathBuf> {
        let config = &self.parts().config;
        let project = config.file.iter().flat_map(|file| [file.clone(), file.with_extension("lock")]);
        // What comes from a registry lies under its digest, which the lock has.
        let plugins = config.plugins.values().filter(|plugin| plugin.is_file());
        project.chain(plugins.flat_map(|plugin| source::files_of(&plugin.path))).collect()
    }

    /// Returns `true` if the host has to be restarted: the files that grants do not extend to were found at the start,
    /// and a component or a key at another place is not among them.
    fn needs_restart(&self, known: &PluginConfig, wanted: &PluginConfig) -> Option<&'static str> {
        let moved =
            known.origin.is_some() != wanted.origin.is_some() || (wanted.origin.is_none() && known.path != wanted.path);
        if moved {
            return Some("its component is at another place");
        }
        let sealed = &self.parts().ground.control.secrets;
        let has_new_key = control::key_files(wanted).any(|file| !sealed.contains(&file));
        has_new_key.then_some("a credential of its grants is read from another file")
    }
}

/// Returns the settings of the project file, without their places.
fn settings(plugin: &PluginConfig) -> PluginConfig {
    let mut plugin = PluginConfig { span: None, ..plugin.clone() };
    plugin.limit_spans.clear();
    if plugin.origin.is_some() {
        // It follows from the lock.
        plugin.path = PathBuf::new();
    }
    plugin
}

/// The digest of what would be loaded.
async fn found(plugin: &PluginConfig, locked: Option<&Locked>) -> Result<String, String> {
    if plugin.origin.is_some() {
        let digest = locked.and_then(|locked| locked.digest.as_ref()).map(ToString::to_string);
        return digest.ok_or_else(|| "opcell.lock has no version".to_owned());
    }
    if let Some(bytes) = bytes_of(plugin).await? {
        return Ok(blake3::hash(&bytes).to_hex().to_string());
    }
    let plugin = plugin.clone();
    let hashed = tokio::task::spawn_blocking(move || digest_of(&plugin)).await;
    hashed.map_err(|error| error.to_string())?
}

/// The digest of the component of a plugin at a path; blocks.
pub(crate) fn digest_of(plugin: &PluginConfig) -> Result<String, String> {
    Ok(blake3::hash(&plugin.read(MAX_FILE_BYTES)?).to_hex().to_string())
}

/// The component of a plugin that is in no file.
async fn bytes_of(plugin: &PluginConfig) -> Result<Option<Arc<[u8]>>, String> {
    let Some(component) = &plugin.component else { return Ok(None) };
    match component.source(&plugin.name).await.map_err(|error| error.to_string())? {
        PluginSource::Bytes(bytes) => Ok(Some(bytes)),
        _ => Ok(None),
    }
}

fn restart(name: &str, why: &str) -> HostError {
    let finding = Diagnostic::error("restart-needed", format!("plugin `{name}`: {why}"));
    HostError::Rejected(Rejected::plain(finding.help("restart this process: this is only read at its start")))
}

fn rejected(error: HostError) -> Rejected {
    match error {
        HostError::Rejected(rejected) => rejected,
        HostError::Plugin(error) => error.to_rejected(),
        error => Rejected::plain(Diagnostic::error("plugin-not-exchanged", error.to_string())),
    }
}
