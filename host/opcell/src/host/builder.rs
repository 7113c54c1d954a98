//! From settings to a host, in four phases: tools, plugins, sessions, engine.

mod journal;
mod sandbox;

pub(super) use sandbox::{SandboxSettings, load_request};

use super::{
    Duplicate, Host, HostError,
    loading::{self, Ground, LazySandbox, Loader, Parts, UnusablePlugins, Widening},
    metered::{JournalSink, Metered},
    versions,
};
use crate::{
    catalog::Catalog,
    config::{Config, JournalSettings, OwnModels, PluginConfig, control::control_files, lock::Lock},
    consent::{Cover, SameAsConsented},
    embedded::{EmbeddedModel, EmbeddedSink, EmbeddedTool},
    http::{FetchLimits, HttpClient},
    journals,
    library::Library,
    places::Places,
    programs::SessionPrograms,
    report::Rejected,
    services::{HTTP_FETCH, LogSink},
    sessions::{self, ChildRuns, SessionDeps},
    stores::PluginStores,
    tenants::Tenants,
    tools::{LockedTools, Tools},
    written::FileQuotaStore,
};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use opcell_engine::{Engine, ports::Timer, tool::Tool};
use opcell_ir::Diagnostic;
use opcell_journal::{Journal, MemoryJournal};
use opcell_sandbox::LimitRequest;
use opcell_session::{
    HostSessions,
    models::Model,
    skills::{SkillFolder, SkillLibrary},
    tools::{CheckedTool, DELEGATE_TOOL, ToolError},
};
use opcell_types::control::ControlFiles;
use std::{fmt, path::PathBuf, sync::Arc};
use tokio::sync::OnceCell;

/// The treatment of a plugin that requests more than its operator has agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum NewPermissions {
    /// There is no host: [`HostError::Plugin`] with [`LoadError::AsksForMore`](opcell_sandbox::LoadError::AsksForMore).
    #[default]
    Refuse,
    /// The host has every other plugin. Calls of this one are refused, and [`Host::left_out`] says why.
    LeaveOut,
}

/// Collects what a host is made of.
///
/// By default there are no plugins, no grants, no workflows, no models; runs are kept in memory; 64 cells run at once,
/// metered by ticks, in pools where address space allows; compiled components are kept in the user's cache directory;
/// plugins are compiled where [`CompileMode::find`](opcell_sandbox::CompileMode::find) says.
///
/// The order of calls means nothing. [`HostBuilder::config`] takes a project, and everything else adds to it: plugins,
/// tools, folders and models of one name twice are an error of [`HostBuilder::build`]
/// ([`HostError::Duplicate`]), and so is a setting that is made twice. Limits hold together: of the project's and the
/// program's, the tighter one counts.
///
/// ```
/// use opcell::prelude::*;
///
/// # async fn build() -> Result<(), HostError> {
/// let twice = Host::builder().plugin(PluginConfig::new("a", "a.wasm")).plugin(PluginConfig::new("a", "b.wasm"));
/// assert!(matches!(twice.build().await, Err(HostError::Duplicate(_))));
/// # Ok(())
/// # }
/// ```
#[derive(Default)]
#[must_use = "a builder does nothing until it is built"]
pub struct HostBuilder {
    config: Option<Config>,
    plugins: Vec<PluginConfig>,
    workflows: Vec<PathBuf>,
    skills: Vec<PathBuf>,
    limits: Option<LimitRequest>,
    tools: Vec<Arc<dyn Tool>>,
    document_tools: Vec<Arc<dyn Tool>>,
    model: Option<Arc<dyn Model>>,
    providers: Vec<(String, Arc<dyn Model>)>,
    sink: Option<Arc<dyn LogSink>>,
    sandbox: SandboxSettings,
    new_permissions: Option<NewPermissions>,
    unusable_plugins: Option<UnusablePlugins>,
    lock: Option<PathBuf>,
    cache: Option<PathBuf>,
    places: Option<Places>,
    fetch: Option<FetchLimits>,
    journal: Option<JournalChoice>,
    journal_sink: Option<Arc<dyn JournalSink>>,
    timer: Option<Arc<dyn Timer>>,
    /// The first setting that was made twice.
    twice: Option<Duplicate>,
}

/// The journal that the program chooses.
enum JournalChoice {
    Given(Arc<dyn Journal>),
    At(JournalSettings),
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plugins: Vec<&str> = self.plugins.iter().map(|plugin| plugin.name.as_str()).collect();
        f.debug_struct("HostBuilder")
            .field("project", &self.config.as_ref().map(|config| &config.root))
            .field("plugins", &plugins)
            .finish_non_exhaustive()
    }
}

/// Makes a setting, and notes if it was made before.
fn set<T>(slot: &mut Option<T>, value: T, setting: &'static str, twice: &mut Option<Duplicate>) {
    if slot.replace(value).is_some() {
        twice.get_or_insert(Duplicate::Setting { setting, places: "by two calls" });
    }
}

impl HostBuilder {
    /// Takes plugins, grants, limits, workflows, models and tool names from a project.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let builder = Host::builder().config(Config::load("opcell.toml")?);
    /// # Ok(())
    /// # }
    /// ```
    pub fn config(mut self, config: Config) -> Self {
        set(&mut self.config, config, "config", &mut self.twice);
        self
    }

    /// Adds one plugin to those of the project; its grants are exactly these.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let repo = PluginConfig::new("repo", "repo.wasm").grant(Grant::read("workspace", "."));
    /// let builder = Host::builder().plugin(repo);
    /// ```
    pub fn plugin(mut self, plugin: PluginConfig) -> Self {
        self.plugins.push(plugin);
        self
    }

    /// Adds a folder of workflow documents.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().workflows("workflows");
    /// ```
    pub fn workflows(mut self, folder: impl Into<PathBuf>) -> Self {
        self.workflows.push(folder.into());
        self
    }

    /// Adds a folder of skills in the Agent Skills format.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().skills("skills");
    /// ```
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> Self {
        self.skills.push(folder.into());
        self
    }

    /// Offers a tool of the embedder to plugins that are granted it. [`tool_fn`](crate::tool_fn) makes one of a closure.
    ///
    /// A panic of the tool is the failure `panicked` of its call. On a multi-threaded runtime it runs in a task of its
    /// own: one that blocks its thread does not hold up the deadline of its caller, and a warning names it.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// /// The plugins of this host may ask which release they serve, if they are granted `release.current`.
    /// struct Release(ToolDescription);
    ///
    /// #[async_trait]
    /// impl Tool for Release {
    ///     fn description(&self) -> &ToolDescription {
    ///         &self.0
    ///     }
    ///
    ///     async fn call(&self, _input: &ToolInput) -> Result<Value, Failure> {
    ///         Ok(Value::from("2026.11"))
    ///     }
    /// }
    ///
    /// let description = ToolDescription::new(
    ///     "release.current",
    ///     "Returns the release that is served.",
    ///     opcell::json!({"type": "object"}),
    /// );
    /// let release = std::sync::Arc::new(Release(description));
    /// // For plugins, and for documents and their models.
    /// let builder = Host::builder().tool(release.clone()).document_tool(release);
    /// ```
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Offers a tool of the embedder to documents, whose steps call it by its name as they would an operation, and to
    /// the models of sessions that declare it. Otherwise as [`HostBuilder::tool`].
    pub fn document_tool(mut self, tool: impl Tool + 'static) -> Self {
        self.document_tools.push(Arc::new(tool));
        self
    }

    /// A model of the embedder's own, which answers whatever model a session names. [`HostBuilder::provider`] adds one
    /// beside others. A panic of the model is the failure `panicked` of its round.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// struct Parrot;
    ///
    /// #[async_trait]
    /// impl Model for Parrot {
    ///     async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
    ///         let said = round.messages.last_of_user().map(|said| said.content.clone()).unwrap_or_default();
    ///         if let Some(sink) = sink {
    ///             sink.text(&said);
    ///         }
    ///         Ok(ModelReply::text(&round.model, said))
    ///     }
    /// }
    ///
    /// let builder = Host::builder().model(Parrot);
    /// ```
    pub fn model(mut self, model: impl Model + 'static) -> Self {
        set(&mut self.model, Arc::new(model) as Arc<dyn Model>, "model", &mut self.twice);
        self
    }

    /// A provider of models of the embedder's own: it answers for every model that a session names `name/…`.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # struct Parrot;
    /// # #[async_trait]
    /// # impl Model for Parrot {
    /// #     async fn complete(&self, round: &ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
    /// #         Ok(ModelReply::text(&round.model, "hello"))
    /// #     }
    /// # }
    /// // `"model": "mine/large"` is answered by it, `"model": "openai/…"` by OpenAI.
    /// let builder = Host::builder().provider("mine", Parrot);
    /// ```
    pub fn provider(mut self, name: impl Into<String>, model: impl Model + 'static) -> Self {
        self.providers.push((name.into(), Arc::new(model)));
        self
    }

    /// Receives what cells log while they run.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// /// Prints what plugins log.
    /// struct Printed;
    ///
    /// impl opcell::LogSink for Printed {
    ///     fn log(&self, plugin: &str, context: &CallContext, event: opcell::LogEvent<'_>) {
    ///         eprintln!("{plugin} {}: {event:?}", context.step);
    ///     }
    /// }
    ///
    /// let builder = Host::builder().log(Printed);
    /// ```
    pub fn log(mut self, sink: impl LogSink + 'static) -> Self {
        set(&mut self.sink, Arc::new(sink) as Arc<dyn LogSink>, "log", &mut self.twice);
        self
    }

    /// The ceiling of every plugin; a plugin's own limits and a step's only tighten it. Of these limits and the
    /// project's, the tighter one counts.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// // 64 MiB for each cell, and half a second for each call.
    /// let limits = LimitRequest { memory: Some(64 << 20), wall_time: Some(500), ..LimitRequest::default() };
    /// let builder = Host::builder().limits(limits);
    /// ```
    pub fn limits(mut self, limits: LimitRequest) -> Self {
        set(&mut self.limits, limits, "limits", &mut self.twice);
        self
    }

    /// A directory for compiled components; it is created, must belong to this user alone, and is reached by no grant.
    /// Default: `opcell/components` in the user's cache directory. The key that vouches for it lies among the user's
    /// state.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().cache("/var/cache/shop/components");
    /// ```
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        set(&mut self.cache, directory.into(), "cache", &mut self.twice);
        self
    }

    /// Sets the treatment of a plugin that requests more than its operator has agreed to. Default: there is no host.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().new_permissions(NewPermissions::LeaveOut);
    /// ```
    pub fn new_permissions(mut self, policy: NewPermissions) -> Self {
        set(&mut self.new_permissions, policy, "new_permissions", &mut self.twice);
        self
    }

    /// Sets the treatment of a plugin whose component is missing or cannot be used. Default: there is no host.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().unusable_plugins(opcell::UnusablePlugins::LeaveOut);
    /// ```
    pub fn unusable_plugins(mut self, policy: UnusablePlugins) -> Self {
        set(&mut self.unusable_plugins, policy, "unusable_plugins", &mut self.twice);
        self
    }

    /// Remembers in this file what each plugin asks for, so that a version that asks for more is noticed. A project
    /// file has its lock beside it; a host without one notices nothing unless it is given this.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().lock("opcell.lock");
    /// ```
    pub fn lock(mut self, file: impl Into<PathBuf>) -> Self {
        set(&mut self.lock, file.into(), "lock", &mut self.twice);
        self
    }

    /// Sets the clock of runs, for tests that let hours pass at once: it stamps events, and delays, retries, timers and
    /// the times for answers wait for it. Limits of cells and of calls outside of runs remain on the computer's clock.
    /// Default: the clock of the journal, if machines share it, or the computer's.
    ///
    /// ```
    /// use opcell::{Timer, Timestamp, prelude::*};
    /// use std::sync::atomic::{AtomicI64, Ordering};
    ///
    /// /// A clock that jumps to the end of every delay.
    /// #[derive(Default)]
    /// struct Jumping(AtomicI64);
    ///
    /// #[async_trait]
    /// impl Timer for Jumping {
    ///     fn now(&self) -> Timestamp {
    ///         Timestamp(self.0.load(Ordering::SeqCst))
    ///     }
    ///
    ///     async fn sleep(&self, ms: f64) {
    ///         self.0.fetch_add((ms * 1_000.0) as i64, Ordering::SeqCst);
    ///     }
    ///
    ///     async fn deadline(&self, _: f64) {
    ///         std::future::pending().await
    ///     }
    /// }
    ///
    /// let builder = Host::builder().timer(Jumping::default());
    /// ```
    pub fn timer(mut self, timer: impl Timer + 'static) -> Self {
        set(&mut self.timer, Arc::new(timer) as Arc<dyn Timer>, "timer", &mut self.twice);
        self
    }

    /// Sets the places of the user's compiled code, keys and consent, when not where the environment says.
    pub fn places(mut self, places: Places) -> Self {
        set(&mut self.places, places, "places", &mut self.twice);
        self
    }

    /// Ceilings of each `http.fetch` call.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// let builder = Host::builder().fetch_limits(opcell::http::FetchLimits::default());
    /// ```
    pub fn fetch_limits(mut self, limits: FetchLimits) -> Self {
        set(&mut self.fetch, limits, "fetch_limits", &mut self.twice);
        self
    }

    /// The project with everything that was added to it.
    fn merged(&mut self) -> Result<Config, HostError> {
        if let Some(twice) = self.twice.take() {
            return Err(twice.into());
        }
        self.sandbox.check(self.cache.is_some())?;
        let mut config = self.config.take().unwrap_or_else(|| Config::empty(PathBuf::from(".")));
        for plugin in std::mem::take(&mut self.plugins) {
            loading::named_well(&plugin)?;
            if config.plugins.contains_key(&plugin.name) {
                return Err(Duplicate::Plugin(plugin.name).into());
            }
            config.plugins.insert(plugin.name.clone(), plugin);
        }
        config.workflows.append(&mut self.workflows);
        config.skills.append(&mut self.skills);
        if let Some(limits) = self.limits.take() {
            config.limits = limits.tighter(&config.limits);
        }
        let places = "by the project and by a call";
        if let Some(file) = self.lock.take() {
            if config.lock.is_some() {
                return Err(Duplicate::Setting { setting: "lock", places }.into());
            }
            config.lock = Some(Lock::open(file, &config.plugins)?);
        }
        if self.journal.is_some() && config.journal.is_some() {
            return Err(Duplicate::Setting { setting: "journal", places }.into());
        }
        if let Some(JournalChoice::At(settings)) = &self.journal {
            // Known as the project's would be: no grant extends to it, and stores of plugins are beside it.
            config.journal = Some(settings.clone());
            self.journal = None;
        }
        if let Some(model) = self.model.take() {
            if config.sessions.script.is_some() {
                return Err(Duplicate::Setting { setting: "model", places }.into());
            }
            config.sessions.model = Some(OwnModels::Only(EmbeddedModel::shared("model", model)));
            if let Some((name, _)) = self.providers.first() {
                let message = format!("the program has a model that answers for all, and one for `{name}/…`");
                let finding = Diagnostic::error("invalid-sessions", message);
                return Err(Rejected::plain(finding.help("give either `model` or `provider`")).into());
            }
        } else if !self.providers.is_empty() {
            let own = std::mem::take(&mut self.providers).into_iter();
            let own = own.map(|(name, model)| (name.clone(), EmbeddedModel::shared(&name, model)));
            config.sessions.model = Some(OwnModels::Providers(own.collect()));
        }
        Ok(config)
    }

    /// Loads every plugin, checks that no two offer the same id, and reads the workflows. Needs a multi-threaded Tokio
    /// runtime with time and I/O enabled; [`runtime`](super::runtime) makes one. Dropping the future loads nothing more.
    ///
    /// # Errors
    /// With the first part that is there twice or cannot be used, and with the first plugin that cannot be loaded; a
    /// host with half of its plugins would run half a workflow.
    pub async fn build(mut self) -> Result<Host, HostError> {
        if !has_timers() {
            return Err(HostError::NoRuntime);
        }
        crate::lineage::mark();
        let config = self.merged()?;
        let mut places = self.places.take().unwrap_or_else(Places::of_user);
        places.cache = self.cache.take().or(places.cache);
        let control = Arc::new(control_files(&config, &places));
        let (ground, tools) = self.tools(&config, places, control)?;
        let (loader, catalog) = self.plugins(&config, &ground, tools.clone()).await?;
        let journal: Option<Arc<dyn Journal>> = match (self.journal.take(), &config.journal) {
            (Some(JournalChoice::Given(journal)), _) => Some(journal),
            (_, Some(settings)) => Some(journals::open_with_stores(settings, &ground.stores, &ground.places).await?),
            (_, None) => None,
        };
        let journal = match self.journal_sink.take() {
            Some(sink) => {
                let journal = journal.unwrap_or_else(|| Arc::new(MemoryJournal::new()));
                Some(Arc::new(Metered::new(journal, Arc::new(EmbeddedSink::new(sink)))) as Arc<dyn Journal>)
            }
            None => journal,
        };
        versions::keep(&config, &catalog, &ground.places, journal.as_ref()).await;
        versions::retain(&config, &ground.places, journal.as_ref()).await;
        let (tenants, timer) = (Arc::default(), self.timer.take());
        Host::of(Parts { config, ground, loader, tools, journal, timer, sibling: None, tenants }, catalog)
    }

    /// The first phase: what documents, plugins and models may call that is not in a cell.
    fn tools(
        &mut self,
        config: &Config,
        places: Places,
        control: Arc<ControlFiles>,
    ) -> Result<(Ground, Tools), HostError> {
        let folders: Vec<SkillFolder> = config.skills.iter().map(SkillFolder::required).collect();
        let skills = Arc::new(SkillLibrary::discover(&folders));
        let http = Arc::new(HttpClient::new(self.fetch.take().unwrap_or_default()));
        let written = FileQuotaStore::of_user(places.state.as_deref());
        let own = sessions::own_tools(&config.sessions, &skills, &http, &control, &*written)?;
        let pins = config.lock.clone().map(|lock| LockedTools::new(lock, places.clone(), config.locked));
        let check = |(name, cover): (&String, &Cover)| {
            let server = config.servers.get(name)?.clone();
            Some((name.clone(), SameAsConsented { server, root: config.root.clone(), cover: cover.clone() }))
        };
        let checks = config.covers().iter().filter_map(check).collect();
        let mut tools =
            Tools::new(config.tools.clone(), config.servers.clone(), &http, &own, pins, checks).map_err(unusable)?;
        for tool in std::mem::take(&mut self.document_tools) {
            let tool = EmbeddedTool::new(tool)?;
            let name = tool.description().name.clone();
            let other = match own.iter().any(|own| own.name() == name) || name == DELEGATE_TOOL {
                true => Some("one of the host's own".to_owned()),
                false => tools.origin_of(&name),
            };
            if let Some(other) = other {
                return Err(Duplicate::DocumentTool { name, other }.into());
            }
            tools.add(Arc::new(tool)).map_err(unusable)?;
        }
        let stores = PluginStores::beside(config.journal.as_ref().map(|journal| &journal.place), &config.root);
        Ok((Ground { skills, http, own, places, stores, control, written }, tools))
    }

    /// The second phase: plugins, and what they offer.
    async fn plugins(
        &mut self,
        config: &Config,
        ground: &Ground,
        tools: Tools,
    ) -> Result<(Loader, Catalog), HostError> {
        let mut catalog = Catalog::with_tools(tools);
        let offered = offered(std::mem::take(&mut self.tools))?;
        let under_work: Vec<&str> =
            config.plugins.values().filter(|plugin| plugin.dev).map(|plugin| plugin.name.as_str()).collect();
        if !under_work.is_empty() && config.lock.is_some() {
            tracing::info!(
                "in development (`dev = true`), so that opcell.lock does not pin it: {}",
                under_work.join(", ")
            );
        }
        let loader = Loader {
            sandbox: Arc::new(LazySandbox::new(std::mem::take(&mut self.sandbox))),
            offered,
            sink: self.sink.take().map(|sink| Arc::new(EmbeddedSink::new(sink)) as Arc<dyn LogSink>),
            new_permissions: self.new_permissions.unwrap_or_default(),
            unusable_plugins: self.unusable_plugins.unwrap_or_default(),
        };
        // Compiling is most of it, and each compilation has a thread or a process of its own. The order of the catalogue
        // is the project's.
        let mut loads = Vec::new();
        for plugin in config.plugins.values() {
            loads.push(loader.load(plugin, config, ground).boxed());
        }
        let mut loading = stream::iter(loads).buffered(loads_at_a_time());
        while let Some(loaded) = loading.next().await {
            loading::add(&mut catalog, loaded?, config)?;
        }
        drop(loading);
        if !config.plugins.is_empty() {
            loading::remember(config, &catalog, &ground.places);
        }
        Ok((loader, catalog))
    }
}

/// Tools of the embedder, for plugins; the sandbox bounds what a cell takes of their results.
fn offered(tools: Vec<Arc<dyn Tool>>) -> Result<Vec<Arc<dyn Tool>>, HostError> {
    let mut offered: Vec<Arc<dyn Tool>> = Vec::new();
    for tool in tools {
        let tool = EmbeddedTool::new(tool)?;
        let name = tool.description().name.clone();
        let other = match offered.iter().any(|other| other.description().name == name) {
            true => Some("another one of the program"),
            false => (name == HTTP_FETCH).then_some("one of the host's own"),
        };
        if let Some(other) = other {
            return Err(Duplicate::Tool { name, other }.into());
        }
        offered.push(Arc::new(CheckedTool::new(Arc::new(tool), usize::MAX).map_err(unusable)?));
    }
    Ok(offered)
}

/// Plugins that are loaded at a time.
fn loads_at_a_time() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns `true` if the calling thread is in a runtime that has timers.
fn has_timers() -> bool {
    let is_inside = tokio::runtime::Handle::try_current().is_ok();
    // A runtime without timers panics where one is made, and says it in no other way.
    is_inside && std::panic::catch_unwind(|| drop(tokio::time::sleep(std::time::Duration::ZERO))).is_ok()
}

fn unusable(error: ToolError) -> Rejected {
    Rejected::plain(Diagnostic::error("invalid-tool", error.to_string()))
}

/// Warns of tools that are granted to plugins and that the host does not have.
fn unknown_grants(config: &Config, loader: &Loader, catalog: &Catalog) {
    for plugin in config.plugins.values() {
        for tool in &plugin.grants.capabilities.tools {
            let is_offered = loader.offered.iter().any(|offered| offered.description().name == *tool);
            if tool != HTTP_FETCH && !is_offered && catalog.description_of(tool).is_none() {
                tracing::warn!(plugin = plugin.name, "the tool `{tool}` is granted, and this host does not offer it");
            }
        }
    }
}

impl Host {
    /// The last two phases: sessions, engine.
    pub(super) fn of(parts: Parts, catalog: Catalog) -> Result<Self, HostError> {
        catalog.check_document_tools()?;
        let (config, catalog) = (parts.config.clone(), Arc::new(catalog));
        let (loader, config_of, ground) = (parts.loader.clone(), parts.config.clone(), parts.ground.clone());
        let programs = Arc::new(SessionPrograms {
            loader: loader.clone(),
            config: config_of.clone(),
            ground: ground.clone(),
            catalog: Arc::downgrade(&catalog),
            loaded: OnceCell::new(),
            python: OnceCell::new(),
        });
        catalog.connect();
        unknown_grants(&parts.config, &parts.loader, &catalog);
        catalog.widen_with(Widening { loader, config: config_of, ground, tenants: parts.tenants.clone() });
        catalog.declare_session_tools(&config.sessions);
        if let Some(authorizer) = &config.authorizer {
            catalog.declare_authorizer(authorizer);
        }
        let library = Library::read_with_defaults(&config.default_workflows, &config.workflows);
        let library = Arc::new(library.under(config.pack_policy.clone()));
        let child_runs = Arc::new(ChildRuns::new(config.sessions.unnarrowed_workflows.clone()));
        let values = config.values;
        let shared = (parts.ground.clone(), parts.tenants.clone());
        let sink = parts.loader.sink.clone();
        let sessions =
            Self::sessions_of(config, shared, &catalog, &library, child_runs.clone(), programs.clone(), sink)?;
        let mut engine = match &parts.sibling {
            Some(engine) => engine.sibling(),
            None => Engine::builder(),
        };
        if let (None, Some(journal)) = (&parts.sibling, &parts.journal) {
            engine = engine.journal(journal.clone());
        }
        if let (None, Some(timer)) = (&parts.sibling, &parts.timer) {
            engine = engine.timer(timer.clone());
        }
        engine = engine
            .values(values)
            .operations(catalog.clone())
            .judges(catalog.clone())
            .sessions(sessions.clone())
            .workflows(library.clone());
        let engine = Arc::new(engine.build());
        child_runs.connect(&engine, &library, &catalog);
        let (open_calls, parts, earlier) = (Arc::default(), Arc::new(parts), Arc::default());
        let host = Self { catalog, library, sessions, engine, open_calls, parts, earlier, programs };
        child_runs.resume_by(host.downgrade());
        Ok(host)
    }

    /// The third phase: model conversations.
    fn sessions_of(
        config: Config,
        (ground, tenants): (Ground, Arc<Tenants>),
        catalog: &Arc<Catalog>,
        library: &Arc<Library>,
        child_runs: Arc<ChildRuns>,
        programs: Arc<SessionPrograms>,
        sink: Option<Arc<dyn LogSink>>,
    ) -> Result<Arc<HostSessions>, HostError> {
        let bindings =
            config.tools.iter().filter_map(|(name, target)| Some((name.clone(), target.operation()?.to_owned())));
        let scripts = config.plugins.values();
        let scripts = scripts.filter_map(|plugin| Some((plugin.name.clone(), plugin.script.clone()?))).collect();
        let surroundings = SessionDeps {
            root: &config.root,
            bindings: &bindings.collect(),
            catalog,
            grants: &config
                .plugins
                .values()
                .filter(|plugin| plugin.grants.prompt)
                .map(|plugin| plugin.name.clone())
                .collect(),
            library,
            skills: &ground.skills,
            scripts: &scripts,
            child_runs,
            programs,
            own: ground.own,
            tenants,
            sink,
        };
        Ok(Arc::new(sessions::build(config.sessions, surroundings)?))
    }
}
