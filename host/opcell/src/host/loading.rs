//! Loading plugins into a host, and one of them again later.

use super::{Host, HostError, NewPermissions, PluginError, builder::load_request};
use crate::{
    catalog::{Catalog, Loaded, Widen, granting},
    config::{Config, OnDenied, PluginConfig, origin},
    http::HttpClient,
    places::Places,
    report::Rejected,
    services::{LogSink, PluginServices},
    stores::PluginStores,
    tools::{Fetch, Tools},
};
use async_trait::async_trait;
use opcell_engine::{Engine, tool::Tool};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean};
use opcell_journal::Journal;
use opcell_sandbox::{LoadError, PluginSource, Sandbox};
use opcell_session::{skills::SkillLibrary, tools::SessionTool};
use opcell_types::{
    control::ControlFiles,
    denial::{HttpScope, Remedy},
    quota::QuotaStore,
};
use std::sync::Arc;

/// The state that every phase of a host builds on.
#[derive(Clone)]
pub(crate) struct Ground {
    pub skills: Arc<SkillLibrary>,
    pub http: Arc<HttpClient>,
    /// The host's own tools.
    pub own: Vec<SessionTool>,
    pub places: Places,
    /// The stores of plugins.
    pub stores: PluginStores,
    /// The files that no grant extends to.
    pub control: Arc<ControlFiles>,
    /// The store of the bytes that were written below granted directories.
    pub written: Arc<dyn QuotaStore>,
}

/// The parts of a host from which another one can be made again.
#[derive(Clone)]
pub(crate) struct Parts {
    pub config: Config,
    pub ground: Ground,
    pub loader: Option<Loader>,
    pub tools: Tools,
    pub journal: Option<Arc<dyn Journal>>,
    /// The engine whose journal and end it shares.
    pub sibling: Option<Engine>,
}

/// Loads plugins, each with the services that its cells get.
#[derive(Clone)]
pub(crate) struct Loader {
    pub sandbox: Arc<Sandbox>,
    /// Tools of the embedder for plugins.
    pub offered: Vec<Arc<dyn Tool>>,
    pub sink: Option<Arc<dyn LogSink>>,
    pub new_permissions: NewPermissions,
}

/// A plugin, or why it is left out.
pub(super) type LoadedOrNot = Result<Loaded, PluginError>;

impl Loader {
    pub(super) async fn load(
        &self,
        plugin: &PluginConfig,
        config: &Config,
        ground: &Ground,
    ) -> Result<LoadedOrNot, HostError> {
        let place = || Some((config.source.clone(), plugin.span?));
        let locked = config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name));
        if config.locked && !plugin.dev && locked.is_none_or(|locked| locked.digest.is_none()) {
            let message = format!("plugin `{}` is not in opcell.lock, and this command runs `--locked`", plugin.name);
            let help =
                format!("look at it, accept it with `opcell plugin update {}`, and commit opcell.lock", plugin.name);
            let finding = Diagnostic::error("plugin-not-locked", message).help(help);
            return Err(HostError::Rejected(match place() {
                Some((source, span)) => Rejected::in_source(source, vec![finding.at(span)]),
                None => Rejected::plain(finding),
            }));
        }
        let mut request = load_request(plugin, config);
        if plugin.origin.is_some() {
            let stored = origin::verified(plugin, locked, &config.store)
                .map_err(|finding| origin::rejected(config, plugin, *finding))?;
            request.source = PluginSource::Bytes(stored.component.into());
        }
        let loaded = match self.sandbox.load(request).await {
            Ok(loaded) => loaded,
            Err(error) => {
                let (name, path) = (plugin.name.clone(), plugin.path.clone());
                let limit = error.limit().and_then(|key| {
                    let span = plugin.limit_spans.get(key).or_else(|| config.limit_spans.get(key))?;
                    Some((config.source.clone(), *span))
                });
                let error = PluginError { plugin: name, path, error, place: limit.or_else(place) };
                return match (&error.error, self.new_permissions) {
                    (LoadError::AsksForMore(_) | LoadError::Changed { .. }, NewPermissions::LeaveOut) => Ok(Err(error)),
                    _ => Err(Box::new(error).into()),
                };
            }
        };
        let name: Arc<str> = plugin.name.as_str().into();
        let scope = HttpScope::Plugin(name.clone());
        let fetch: Arc<dyn Tool> = Arc::new(Fetch::new(ground.http.clone(), plugin.grants.http.clone(), scope));
        let services = Arc::new(PluginServices {
            plugin: name,
            tools: std::iter::once(fetch).chain(self.offered.iter().cloned()).collect(),
            skills: ground.skills.clone(),
            stores: ground.stores.clone(),
            sink: self.sink.clone(),
            approve: config.sessions.plugin_approvals.get(&plugin.name).cloned().unwrap_or_default(),
            approved: plugin.grants.approved.clone(),
        });
        let recorded = plugin.record_host_calls.unwrap_or(config.record_host_calls);
        Ok(Ok(Loaded {
            plugin: loaded,
            services,
            recorded,
            asks: plugin.on_denied == OnDenied::Ask,
            sink: self.sink.clone(),
        }))
    }
}

/// Loads plugins once more with what they were granted at a person's word, while runs that have it last.
pub(super) struct Widening {
    pub loader: Loader,
    pub config: Config,
    pub ground: Ground,
}

#[async_trait]
impl Widen for Widening {
    async fn widened(&self, plugin: &str, granted: &[Remedy]) -> Result<Loaded, String> {
        let plugin = self.config.plugins.get(plugin).ok_or("the host no longer has the plugin")?;
        let plugin = granted.iter().try_fold(plugin.clone(), |plugin, remedy| {
            Ok::<_, String>(
                plugin.grant(granting(remedy).ok_or("what was granted is nothing that a run can be granted")?),
            )
        })?;
        match self.loader.load(&plugin, &self.config, &self.ground).await {
            Ok(Ok(loaded)) => Ok(loaded),
            Ok(Err(left_out)) => Err(left_out.error.to_string()),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Adds a plugin to a catalogue, or what is said of one that is left out.
pub(super) fn add(catalog: &mut Catalog, loaded: LoadedOrNot, config: &Config) -> Result<(), HostError> {
    let loaded = match loaded {
        Ok(loaded) => loaded,
        Err(left_out) => {
            catalog.leave_out(left_out);
            return Ok(());
        }
    };
    let span = config.plugins.get(loaded.plugin.name()).and_then(|plugin| plugin.span);
    catalog.add(loaded).map_err(|collision| {
        HostError::Rejected(match span {
            Some(span) => Rejected::in_source(config.source.clone(), vec![collision.at(span)]),
            None => Rejected::plain(*collision),
        })
    })
}

impl Host {
    /// Returns the configuration of a plugin of this host, for [`Host::reload`].
    #[must_use]
    pub fn plugin_config(&self, name: &str) -> Option<&PluginConfig> {
        self.parts.config.plugins.get(name)
    }

    /// Returns a warning about what does not hold on this machine as it does elsewhere, such as pools without room for
    /// all cells; it is in the log as well.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.parts.loader.as_ref()?.sandbox.warning()
    }

    /// Loads one plugin again: another host, with everything else of this one. Nothing changes for this host: its runs
    /// and calls end with the plugin that they began with, and what begins on the new host has the new one. Put the new
    /// host where this one is, then [`shut this one down`](Host::shutdown); runs that this gives back to a journal that
    /// both have can be resumed on the new host only if they were started with the plugins that it has.
    ///
    /// Both hosts share pools and limits of cells. The plugin's directories are opened again; what it has written below
    /// them counts on.
    ///
    /// # Errors
    /// When this host has no such plugin; as [`HostBuilder::build`](super::HostBuilder::build), and this host stays as
    /// it is.
    pub async fn reload(&self, plugin: PluginConfig) -> Result<Self, HostError> {
        let parts = Parts::clone(&self.parts);
        let refused = parts.loader.as_ref().map_or(NewPermissions::Refuse, |loader| loader.new_permissions);
        self.remade(parts, plugin, refused).await
    }

    /// This host with another version of one plugin, as [`Host::reload`], with what a project file and its lock say
    /// now. The engine of the new one shares its journal and its end with `sibling`.
    pub(crate) async fn exchange(
        &self,
        plugin: PluginConfig,
        fresh: &Config,
        sibling: &Engine,
    ) -> Result<Self, HostError> {
        let mut parts = Parts::clone(&self.parts);
        parts.sibling = Some(sibling.clone());
        // Places in the file of what is not read again are those of before; they are only looked at in errors of
        // plugins.
        parts.config.source = fresh.source.clone();
        parts.config.limit_spans = fresh.limit_spans.clone();
        parts.config.lock = fresh.lock.clone();
        for (name, plugin) in &mut parts.config.plugins {
            plugin.span = fresh.plugins.get(name).and_then(|fresh| fresh.span);
        }
        self.remade(parts, plugin, NewPermissions::Refuse).await
    }

    /// `refused` says what becomes of this plugin if it asks for more than was agreed to; of any other, the host's own
    /// settings do.
    async fn remade(&self, mut parts: Parts, plugin: PluginConfig, refused: NewPermissions) -> Result<Self, HostError> {
        let name = plugin.name.clone();
        let known = || parts.config.plugins.keys().map(String::as_str);
        let Some(loader) = parts.loader.clone().filter(|_| known().any(|known| known == name)) else {
            let mut finding = Diagnostic::error("unknown-plugin", format!("the host has no plugin `{name}`"));
            finding.help = did_you_mean(&name, known()).map(|meant| format!("did you mean `{meant}`?"));
            return Err(HostError::Rejected(Rejected::plain(finding)));
        };
        parts.config.plugins.insert(name.clone(), plugin);
        let mut catalog = Catalog::with_tools(parts.tools.clone());
        for config in parts.config.plugins.values() {
            let kept = (config.name != name).then(|| self.catalog.loaded(&config.name)).flatten();
            let loaded = match kept {
                Some(kept) => Ok(kept),
                None => match loader.load(config, &parts.config, &parts.ground).await? {
                    Err(left_out) if config.name == name && refused == NewPermissions::Refuse => {
                        return Err(Box::new(left_out).into());
                    }
                    loaded => loaded,
                },
            };
            add(&mut catalog, loaded, &parts.config)?;
        }
        super::builder::remember(&parts.config, &catalog, &parts.ground.places);
        Self::of(parts, catalog)
    }
}
