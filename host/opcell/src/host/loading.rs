//! Loading plugins into a host, and one of them again later.

use super::{
    Duplicate, Host, HostError, NewPermissions, PluginError,
    builder::{SandboxSettings, load_request},
    versions,
};
use crate::{
    catalog::{Catalog, Loaded, Widen, granting},
    config::{
        Config, OnDenied, PluginConfig, PluginGrants, check::is_plugin_name, control::key_files_of, lock::Locked,
        origin,
    },
    http::HttpClient,
    inner_calls::ProjectTool,
    places::{Places, real},
    report::Rejected,
    services::{HTTP_FETCH, LogSink, PluginServices},
    source,
    stores::PluginStores,
    tenants::{InTenant, KnownTenant, PluginOfTenant, Tenant, Tenants},
    tools::{Fetch, Tools},
};
use async_trait::async_trait;
use opcell_engine::{Engine, ports::Timer, tool::Tool};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean, ir::ApprovalRules};
use opcell_journal::Journal;
use opcell_sandbox::{Access, ContextRequest, LoadError, PluginSource, Sandbox};
use opcell_session::{skills::SkillLibrary, tools::SessionTool};
use opcell_types::{
    Failure, FollowUp,
    control::ControlFiles,
    denial::{HttpScope, Remedy},
    quota::QuotaStore,
    text::one_line,
};
use std::{
    path::Path,
    sync::{Arc, Mutex, OnceLock, PoisonError},
};

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
    pub loader: Loader,
    pub tools: Tools,
    pub journal: Option<Arc<dyn Journal>>,
    /// The engine whose journal and end it shares.
    pub sibling: Option<Engine>,
    /// The clock of runs, where it is the program's.
    pub timer: Option<Arc<dyn Timer>>,
    pub tenants: Arc<Tenants>,
}

/// The sandbox of a host, made when its first plugin is loaded: a host without plugins reserves nothing, needs no
/// compiler, and may get a plugin later.
pub(crate) struct LazySandbox {
    settings: SandboxSettings,
    opened: OnceLock<Arc<Sandbox>>,
    opening: Mutex<()>,
}

impl LazySandbox {
    pub(super) fn new(settings: SandboxSettings) -> Self {
        Self { settings, opened: OnceLock::new(), opening: Mutex::default() }
    }

    /// The sandbox, if a plugin has been loaded.
    pub(crate) fn opened(&self) -> Option<&Arc<Sandbox>> {
        self.opened.get()
    }

    fn get(&self, config: &Config, ground: &Ground) -> Result<&Arc<Sandbox>, HostError> {
        let _one = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = self.opened.get() {
            return Ok(opened);
        }
        let sandbox = Arc::new(self.settings.open(config, ground)?);
        Ok(self.opened.get_or_init(|| sandbox))
    }
}

/// Loads plugins, each with the services that its cells get.
#[derive(Clone)]
pub(crate) struct Loader {
    pub sandbox: Arc<LazySandbox>,
    /// Tools of the embedder for plugins.
    pub offered: Vec<Arc<dyn Tool>>,
    pub sink: Option<Arc<dyn LogSink>>,
    pub new_permissions: NewPermissions,
    pub unusable_plugins: UnusablePlugins,
}

/// The treatment of a plugin whose component is missing, or is not a plugin that the host can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum UnusablePlugins {
    /// There is no host: [`HostError::Plugin`].
    #[default]
    Refuse,
    /// The host has every other plugin. Workflows that use this one are refused, and [`Host::left_out`] says why.
    LeaveOut,
}

/// A plugin, or why it is left out.
pub(crate) type LoadedOrNot = Result<Loaded, PluginError>;

impl Loader {
    pub(crate) async fn load(
        &self,
        plugin: &PluginConfig,
        config: &Config,
        ground: &Ground,
    ) -> Result<LoadedOrNot, HostError> {
        let place = || Some((config.source.clone(), plugin.span?));
        let locked = config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name));
        let is_pinned = !plugin.dev && plugin.builtin_component().is_none();
        if config.locked && is_pinned && locked.is_none_or(|locked| locked.digest.is_none()) {
            let frozen = FollowUp::Frozen;
            let message = format!("plugin `{}` is not in opcell.lock, and {frozen}", plugin.name);
            let accept_plugin = FollowUp::AcceptPlugin(Some(plugin.name.clone()));
            let help = format!("look at it, accept it with {accept_plugin}, and commit opcell.lock");
            let finding = Diagnostic::error("plugin-not-locked", message).help(help);
            return Err(HostError::Rejected(match place() {
                Some((source, span)) => Rejected::in_source(source, vec![finding.at(span)]),
                None => Rejected::plain(finding),
            }));
        }
        let mut request = load_request(plugin, config);
        if let Some(component) = &plugin.component {
            request.source = component.source(&plugin.name).await.map_err(|error| {
                let message = format!("the component of plugin `{}` cannot be had: {error}", plugin.name);
                Rejected::plain(Diagnostic::error("plugin-unreadable", message))
            })?;
        } else if plugin.origin.is_some() {
            let stored = origin::verified(plugin, locked, &config.store)
                .map_err(|finding| origin::rejected(config, plugin, *finding))?;
            request.source = PluginSource::Bytes(stored.component.into());
        } else if source::is_source(&plugin.path) {
            let made = plugin.read(opcell_registry::MAX_COMPONENT);
            let made = made.map_err(|why| HostError::Rejected(source::rejected(&plugin.path, &why)))?;
            request.source = PluginSource::Bytes(made.into());
        }
        let loaded = match self.sandbox.get(config, ground)?.load(request).await {
            Ok(loaded) => loaded,
            Err(error) => {
                let (name, path) = (plugin.name.clone(), plugin.path.clone());
                let limit = error.limit().and_then(|key| {
                    let span = plugin.limit_spans.get(key).or_else(|| config.limit_spans.get(key))?;
                    Some((config.source.clone(), *span))
                });
                let error = PluginError { plugin: name, path, error, place: limit.or_else(place) };
                return if self.leaves_out(&error.error) { Ok(Err(error)) } else { Err(Box::new(error).into()) };
            }
        };
        let name: Arc<str> = plugin.name.as_str().into();
        let rules = config.approval_rules(&plugin.name);
        let services = self.services(name.clone(), name, &plugin.grants, rules, config, ground);
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

impl Loader {
    /// Returns `true` if a plugin with this error is left out, and the host has every other plugin.
    fn leaves_out(&self, error: &LoadError) -> bool {
        match error {
            LoadError::AsksForMore(_) | LoadError::Changed { .. } => self.new_permissions == NewPermissions::LeaveOut,
            error => self.unusable_plugins == UnusablePlugins::LeaveOut && error.is_of_component(),
        }
    }

    /// The services of the host for the cells of a plugin, under these rules for requests.
    fn services(
        &self,
        plugin: Arc<str>,
        store_owner: Arc<str>,
        grants: &PluginGrants,
        approve: ApprovalRules,
        config: &Config,
        ground: &Ground,
    ) -> Arc<PluginServices> {
        let scope = HttpScope::Plugin(plugin.clone());
        let fetch: Arc<dyn Tool> = Arc::new(Fetch::new(ground.http.clone(), grants.http.clone(), scope));
        Arc::new(PluginServices {
            plugin,
            store_owner,
            project: self.project_tools(grants, config),
            tools: std::iter::once(fetch).chain(self.offered.iter().cloned()).collect(),
            skills: ground.skills.clone(),
            stores: ground.stores.clone(),
            sink: self.sink.clone(),
            approve,
            approved: grants.approved.clone(),
        })
    }

    /// The names among a plugin's grants that neither the host nor the embedder offers.
    fn project_tools(&self, grants: &PluginGrants, config: &Config) -> Vec<ProjectTool> {
        let is_own = |name: &str| name == HTTP_FETCH || self.offered.iter().any(|tool| tool.description().name == name);
        let names = grants.capabilities.tools.iter().filter(|name| !is_own(name));
        names.map(|name| config.project_tool(name)).collect()
    }

    /// A plugin as it serves a tenant. Opens the directories that the tenant grants.
    fn in_tenant(
        &self,
        loaded: &Loaded,
        tenant: &Tenant,
        approve: ApprovalRules,
        config: &Config,
        ground: &Ground,
    ) -> Result<InTenant, HostError> {
        let unloaded = || Rejected::plain(Diagnostic::error("unknown-plugin", "the host has loaded no plugin"));
        let sandbox = self.sandbox.opened().ok_or_else(unloaded)?;
        let (plugin, name) = (&loaded.plugin, loaded.plugin.name());
        let PluginOfTenant { grants, settings } = tenant.plugin(name);
        let (grants_of, limits) = (grants.capabilities.clone(), tenant.limit_request().clone());
        let request = ContextRequest { grants: grants_of, limits, settings, tools_of_services: false };
        let context = sandbox.context(plugin, request).map_err(|error| {
            let path = format!("for tenant {}", tenant.name()).into();
            Box::new(PluginError { plugin: name.to_owned(), path, error, place: None })
        })?;
        // No plugin has a `/` in its name, and so none is another's store.
        let owner = format!("{}/{name}", tenant.name()).into();
        let services = self.services(name.into(), owner, &grants, approve, config, ground);
        Ok(InTenant { context: Arc::new(context), services })
    }
}

impl Host {
    /// Makes a tenant known, or puts new grants, limits and settings in the place of those that it has. Calls that name
    /// it ([`Invocation::tenant`](super::Invocation::tenant)) and runs that are started or resumed on its behalf
    /// ([`RunOptions::tenant`](crate::RunOptions::tenant)) have what it grants, and nothing else. Calls that are in flight
    /// end with what they began with. Hosts that this one is reloaded as know it as well.
    ///
    /// Its sessions ask its own models ([`Tenant::model`], [`Tenant::provider`]) and send its own keys
    /// ([`Tenant::model_key`]), and otherwise the host's. The tools of models, and tools that documents name, are the
    /// host's: tools of the program read [`CallContext::tenant`](crate::CallContext).
    ///
    /// ```
    /// use opcell::{Tenant, prelude::*};
    ///
    /// # async fn serve(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let acme = Tenant::new("acme")
    ///     .grant("repo", Grant::read("workspace", "/srv/acme"))
    ///     .limits(LimitRequest { concurrent_cells: Some(4), ..LimitRequest::default() });
    /// host.set_tenant(acme).await?;
    /// let found = host.invoke("repo/find-markers", opcell::json!({})).tenant("acme").user("ann").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When its name is not one (a letter or digit, then up to 63 letters, digits, `.`, `_` and `-`), it names a plugin
    /// or a provider that the host does not have, says something twice, or a directory that it grants cannot be opened.
    /// It then stays as it was.
    pub async fn set_tenant(&self, tenant: Tenant) -> Result<(), HostError> {
        if !is_plugin_name(tenant.name()) {
            let message = format!("`{}` is not a name of a tenant", one_line(tenant.name(), 100));
            let help = "a name begins with a letter or digit, and has up to 64 letters, digits, `.`, `_` and `-`";
            return Err(Rejected::plain(Diagnostic::error("invalid-tenant-name", message).help(help)).into());
        }
        for name in tenant.plugins() {
            if self.catalog.loaded(name).is_none() {
                return Err(self.unknown_plugin(name));
            }
        }
        for grants in tenant.all_grants() {
            self.seals(grants)?;
        }
        tenant.check(self.sessions.models())?;
        let (host, known) = (self.clone(), KnownTenant::new(tenant));
        let made = known.clone();
        let opening = tokio::task::spawn_blocking(move || {
            for name in made.tenant.plugins() {
                let Some(loaded) = host.catalog.loaded(name) else { continue };
                let parts = &host.parts;
                let rules = parts.config.approval_rules(name);
                made.with(&loaded, |tenant| {
                    parts.loader.in_tenant(&loaded, tenant, rules, &parts.config, &parts.ground)
                })?;
            }
            Ok::<(), HostError>(())
        });
        let abandoned = |error: tokio::task::JoinError| {
            Rejected::plain(Diagnostic::error(
                "tenant-unusable",
                format!("opening its directories was abandoned: {error}"),
            ))
        };
        opening.await.map_err(abandoned)??;
        self.parts.tenants.set(known);
        Ok(())
    }

    /// Forgets a tenant; calls and runs that name it are refused from now on. Returns `false` if there was none.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// assert!(!host.remove_tenant("acme"), "it was not known");
    /// # Ok(())
    /// # }
    /// ```
    pub fn remove_tenant(&self, name: &str) -> bool {
        self.parts.tenants.remove(name)
    }

    fn unknown_plugin(&self, name: &str) -> HostError {
        let mut finding = Diagnostic::error("unknown-plugin", format!("the host has no plugin `{name}`"));
        let known = self.parts.config.plugins.keys().map(String::as_str);
        finding.help = did_you_mean(name, known).map(|meant| format!("did you mean `{meant}`?"));
        HostError::Rejected(Rejected::plain(finding))
    }

    /// Checks that no grant extends to the files that credentials of these grants are read from: that was found out when
    /// the host was built.
    fn seals(&self, grants: &PluginGrants) -> Result<(), HostError> {
        let sealed = &self.parts.ground.control.secrets;
        match key_files_of(grants).find(|file| !sealed.contains(file)) {
            None => Ok(()),
            Some(file) => {
                let message = format!(
                    "the credential `{}` is read from a file that the host did not have when it was built",
                    file.display()
                );
                let finding = Diagnostic::error("restart-needed", message);
                let help = "name it in a grant when the host is built, or take the credential from the environment";
                Err(Rejected::plain(finding.help(help)).into())
            }
        }
    }

    /// This host with one plugin more: another host, as with [`Host::reload`]. [`LiveHost::add`](crate::LiveHost::add)
    /// does it in place.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let more = host.with_plugin(PluginConfig::new("spelling", "spelling.wasm")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When there is a plugin of this name, its name is not one, a plugin of the host may write the component's file or
    /// read a credential's; as [`HostBuilder::build`](super::HostBuilder::build) otherwise. This host stays as it is.
    pub async fn with_plugin(&self, plugin: PluginConfig) -> Result<Self, HostError> {
        self.with_plugin_as(plugin, Parts::clone(&self.parts)).await
    }

    /// A plugin that is not loaded because it asks for more than was agreed to is an error here, whatever the host does
    /// with others.
    pub(crate) async fn with_plugin_as(&self, plugin: PluginConfig, mut parts: Parts) -> Result<Self, HostError> {
        if self.parts.config.plugins.contains_key(&plugin.name) {
            return Err(Duplicate::Plugin(plugin.name).into());
        }
        named_well(&plugin)?;
        self.seals(&plugin.grants)?;
        let name = plugin.name.clone();
        let file = plugin.is_file().then(|| plugin.path.clone());
        parts.config.plugins.insert(name.clone(), plugin);
        // What was in force when the host was built is kept from every grant; this file was not.
        if let Some(file) = file
            && let Some(by) = writer_of(&file, &parts.config)
        {
            let message = format!("{by} may write `{}`, the component of plugin `{name}`", file.display());
            let help = "put the component where no grant reads and writes, or give it as bytes";
            return Err(Rejected::plain(Diagnostic::error("control-files", message).help(help)).into());
        }
        self.remade_with(parts, &[&name], NewPermissions::Refuse).await
    }

    /// This host without one of its plugins: another host, as with [`Host::reload`]. Calls and runs of this host end with
    /// the plugin. [`LiveHost::remove`](crate::LiveHost::remove) does it in place.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let fewer = host.without_plugin("spelling").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the host has no such plugin.
    pub async fn without_plugin(&self, name: &str) -> Result<Self, HostError> {
        self.without_plugin_as(name, Parts::clone(&self.parts)).await
    }

    pub(crate) async fn without_plugin_as(&self, name: &str, mut parts: Parts) -> Result<Self, HostError> {
        if parts.config.plugins.shift_remove(name).is_none() {
            return Err(self.unknown_plugin(name));
        }
        let refused = parts.loader.new_permissions;
        self.remade_with(parts, &[], refused).await
    }
}

/// Refuses a name that no plugin may have.
pub(super) fn named_well(plugin: &PluginConfig) -> Result<(), HostError> {
    if let Some(what) = &plugin.grants.conflict {
        return Err(Duplicate::OfPlugin { plugin: plugin.name.clone(), what: what.clone() }.into());
    }
    if is_plugin_name(&plugin.name) {
        return Ok(());
    }
    let message = format!("`{}` is not a name of a plugin", one_line(&plugin.name, SHOWN_NAME_BYTES));
    let help = "a name begins with a letter or digit, and has up to 64 letters, digits, `.`, `_` and `-`";
    Err(Rejected::plain(Diagnostic::error("invalid-plugin-name", message).help(help)).into())
}

/// The most of a name that an error shows, in bytes.
const SHOWN_NAME_BYTES: usize = 100;

/// The holder of a grant to write below a folder of the file, for people.
fn writer_of(file: &Path, config: &Config) -> Option<String> {
    let file = real(file);
    let is_below = |access, folder: &Path| access == Access::ReadWrite && file.starts_with(real(folder));
    let writes = |plugin: &&PluginConfig| {
        let granted = &plugin.grants.capabilities;
        granted.files.values().any(|grant| is_below(grant.access, &grant.path))
            || granted.dangerous_preopens.iter().any(|preopen| is_below(preopen.access, &preopen.host))
    };
    let plugin = config.plugins.values().find(writes).map(|plugin| format!("the plugin `{}`", plugin.name));
    plugin.or_else(|| {
        let mut roots = config.sessions.files.iter();
        roots
            .any(|root| root.writable && file.starts_with(real(&root.path)))
            .then(|| "the model of a session".to_owned())
    })
}

/// Loads plugins once more with what they were granted at a person's word, while runs that have it last.
pub(super) struct Widening {
    pub loader: Loader,
    pub config: Config,
    pub ground: Ground,
    pub tenants: Arc<Tenants>,
}

#[async_trait]
impl Widen for Widening {
    async fn in_tenant(&self, loaded: &Loaded, tenant: &str) -> Result<Arc<InTenant>, Failure> {
        let known = self.tenants.find(tenant)?;
        if let Some(found) = known.found(loaded) {
            return Ok(found);
        }
        let (loader, ground, loaded) = (self.loader.clone(), self.ground.clone(), loaded.clone());
        let config = self.config.clone();
        let rules = self.config.approval_rules(loaded.plugin.name());
        let opening = tokio::task::spawn_blocking(move || {
            known.with(&loaded, |tenant| loader.in_tenant(&loaded, tenant, rules, &config, &ground))
        });
        let opened = opening.await.map_err(|error| Failure::host("tenant-unusable", error.to_string()))?;
        opened.map_err(|error| Failure::host("tenant-unusable", error.to_string()))
    }

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
        self.parts.loader.sandbox.opened()?.warning()
    }

    /// Loads one plugin again: another host, with everything else of this one. Nothing changes for this host: its runs
    /// and calls end with the plugin that they began with, and what begins on the new host has the new one. Put the new
    /// host where this one is, then [`close this one`](Host::close); runs that this gives back to a journal that
    /// both have can be resumed on the new host only if they were started with the plugins that it has.
    ///
    /// Both hosts share pools and limits of cells. The plugin's directories are opened again; what it has written below
    /// them counts on.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// if let Some(plugin) = host.plugin_config("spelling").cloned() {
    ///     let newest = host.reload(plugin).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When this host has no such plugin; as [`HostBuilder::build`](super::HostBuilder::build), and this host stays as
    /// it is.
    pub async fn reload(&self, plugin: PluginConfig) -> Result<Self, HostError> {
        let parts = Parts::clone(&self.parts);
        let refused = parts.loader.new_permissions;
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
        self.remade(self.parts_as_in(fresh, sibling), plugin, NewPermissions::Refuse).await
    }

    /// The parts of a host that differs from this one by what `fresh` says.
    pub(crate) fn parts_as_in(&self, fresh: &Config, sibling: &Engine) -> Parts {
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
        parts
    }

    /// `refused` says what becomes of this plugin if it asks for more than was agreed to; of any other, the host's own
    /// settings do.
    pub(crate) async fn remade(
        &self,
        mut parts: Parts,
        plugin: PluginConfig,
        refused: NewPermissions,
    ) -> Result<Self, HostError> {
        let name = plugin.name.clone();
        if !parts.config.plugins.contains_key(&name) {
            return Err(self.unknown_plugin(&name));
        }
        parts.config.plugins.insert(name.clone(), plugin);
        self.remade_with(parts, &[&name], refused).await
    }

    /// Another host of these parts. Every plugin but `fresh` is the one that this host has.
    pub(super) async fn remade_with(
        &self,
        parts: Parts,
        fresh: &[&str],
        refused: NewPermissions,
    ) -> Result<Self, HostError> {
        let mut catalog = Catalog::with_tools(parts.tools.clone());
        for config in parts.config.plugins.values() {
            let is_fresh = fresh.contains(&config.name.as_str());
            let kept = (!is_fresh).then(|| self.catalog.loaded(&config.name)).flatten();
            let loaded = match kept {
                Some(kept) => Ok(kept),
                None => match parts.loader.load(config, &parts.config, &parts.ground).await? {
                    Err(left_out) if is_fresh && refused == NewPermissions::Refuse => {
                        return Err(Box::new(left_out).into());
                    }
                    loaded => loaded,
                },
            };
            add(&mut catalog, loaded, &parts.config)?;
        }
        remember(&parts.config, &catalog, &parts.ground.places);
        versions::keep(&parts.config, &catalog, &parts.ground.places, parts.journal.as_ref()).await;
        Self::of(parts, catalog)
    }
}

/// Writes down what was loaded, so that a change is noticed. What the lock says about a plugin that was left out stays.
pub(super) fn remember(config: &Config, catalog: &Catalog, places: &Places) {
    let Some(lock) = &config.lock else { return };
    if lock.was_deleted(places) && !config.plugins.is_empty() {
        tracing::warn!(
            "opcell.lock is gone: the digests that were accepted are lost, and the plugins count as new; restore it from version \
             control"
        );
    }
    let loaded = catalog.plugins().map(|plugin| {
        let of = config.plugins.get(plugin.name()).filter(|of| !of.dev && of.builtin_component().is_none());
        let digest = of.map(|_| plugin.digest().clone());
        let file = of.filter(|of| of.component.is_none());
        let bytes = file.and_then(|of| match source::is_source(&of.path) {
            true => of.read(opcell_registry::MAX_COMPONENT).ok().map(|made| made.len() as u64),
            false => std::fs::metadata(&of.path).ok().map(|file| file.len()),
        });
        let version = of.and_then(|_| plugin.surface().manifest.version.clone());
        let locked = Locked::new(digest, bytes, plugin.policy().requests().clone()).with_version(version);
        (plugin.name().to_owned(), locked)
    });
    if let Err(error) = lock.remember(loaded.collect(), places) {
        tracing::warn!("cannot write opcell.lock, so changes of plugins will not be noticed: {error}");
    }
}
