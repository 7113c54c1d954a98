//! From settings to a host, in four phases: tools, plugins, sessions, engine.

use super::{
    Host, HostError,
    loading::{self, Ground, Loader, Parts, Widening},
    metered::{JournalSink, Metered},
};
use crate::{
    catalog::Catalog,
    config::{
        Config, PluginConfig,
        control::control_files,
        lock::{Lock, Locked},
    },
    consent::{Cover, SameAsConsented},
    http::{FetchLimits, HttpClient},
    journals,
    library::Library,
    places::Places,
    report::Rejected,
    services::LogSink,
    sessions::{self, ChildRuns, SessionDeps},
    stores::PluginStores,
    tools::{LockedTools, Tools},
    written::FileQuotaStore,
};
use opcell_engine::{Engine, tool::Tool};
use opcell_ir::Diagnostic;
use opcell_journal::{Journal, MemoryJournal};
use opcell_sandbox::{
    Allocation, CompileLimits, CompileMode, LimitRequest, LoadRequest, Metering, PluginSource, Sandbox, SandboxConfig,
};
use opcell_session::{
    HostSessions,
    skills::{SkillFolder, SkillLibrary},
    tools::{CheckedTool, ToolError},
};
use opcell_types::control::ControlFiles;
use std::{path::PathBuf, sync::Arc};

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
/// Unless said otherwise there are no plugins, no grants, no workflows, no models; runs are kept in memory; 64 cells
/// run at once, metered by ticks, in pools where address space allows; compiled components are kept in the user's cache
/// directory; plugins are compiled where [`CompileMode::find`] says.
#[derive(Default)]
pub struct HostBuilder {
    config: Option<Config>,
    tools: Vec<Arc<dyn Tool>>,
    document_tools: Vec<Arc<dyn Tool>>,
    sink: Option<Arc<dyn LogSink>>,
    sandbox: SandboxSettings,
    new_permissions: NewPermissions,
    lock: Option<PathBuf>,
    cache: Option<PathBuf>,
    places: Option<Places>,
    fetch: FetchLimits,
    journal: Option<Arc<dyn Journal>>,
    journal_sink: Option<Arc<dyn JournalSink>>,
}

/// The differences from the sandbox's defaults.
#[derive(Default)]
struct SandboxSettings {
    compile: Option<CompileMode>,
    compile_limits: CompileLimits,
    cells: Option<u32>,
    metering: Metering,
    allocation: Allocation,
    keep_resident: Option<usize>,
}

impl HostBuilder {
    /// Takes plugins, grants, limits, workflows and tool names from a project.
    #[must_use]
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Adds one plugin to those of the project; its grants are exactly these.
    #[must_use]
    pub fn plugin(mut self, plugin: PluginConfig) -> Self {
        self.project().plugins.insert(plugin.name.clone(), plugin);
        self
    }

    /// Adds a folder of workflow documents.
    #[must_use]
    pub fn workflows(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project().workflows.push(folder.into());
        self
    }

    /// Adds a folder of skills in the Agent Skills format.
    #[must_use]
    pub fn skills(mut self, folder: impl Into<PathBuf>) -> Self {
        self.project().skills.push(folder.into());
        self
    }

    /// Offers a tool of the embedder to plugins that are granted it.
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
    ///     async fn call(&self, _input: &ToolInput) -> Reply<Value> {
    ///         Ok(Value::from("2026.11")).into()
    ///     }
    /// }
    ///
    /// let arguments = Value::object([("type", Value::from("object"))]);
    /// let description = ToolDescription::new("release.current", "Returns the release that is served.", arguments);
    /// let builder = Host::builder().tool(Release(description));
    /// ```
    #[must_use]
    pub fn tool(mut self, tool: impl Tool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Offers a tool of the embedder to documents, which call it by its name as they would an operation. It takes the
    /// place of what the project says under that name.
    #[must_use]
    pub fn document_tool(mut self, tool: impl Tool + 'static) -> Self {
        self.document_tools.push(Arc::new(tool));
        self
    }

    /// Receives what cells log while they run.
    #[must_use]
    pub fn log(mut self, sink: impl LogSink + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Sets the place in which components are compiled. The default is [`CompileMode::find`]: in children of this
    /// program if it has called [`prepare`](crate::prepare) first in its `main`, else in an installed `opcell-compile`;
    /// a host with plugins and neither is refused. [`CompileMode::TrustedInProcess`] has none of the compiler's limits:
    /// for plugins that you trust as your own code.
    #[must_use]
    pub fn compile(mut self, mode: CompileMode) -> Self {
        self.sandbox.compile = Some(mode);
        self
    }

    /// Sets the resources that one compilation may use.
    #[must_use]
    pub fn compile_limits(mut self, limits: CompileLimits) -> Self {
        self.sandbox.compile_limits = limits;
        self
    }

    /// The ceiling of every plugin; a plugin's own limits and a step's only tighten it.
    #[must_use]
    pub fn limits(mut self, limits: LimitRequest) -> Self {
        self.project().limits = limits;
        self
    }

    /// Sets the maximum number of cells that run at once, all plugins together: 1 to 4,096. Default 64.
    #[must_use]
    pub fn cells(mut self, cells: u32) -> Self {
        self.sandbox.cells = Some(cells);
        self
    }

    /// Sets the metering of instructions. Default: ticks of a clock.
    #[must_use]
    pub fn metering(mut self, metering: Metering) -> Self {
        self.sandbox.metering = metering;
        self
    }

    /// Sets the allocation of memory to cells. Default: from pools, where the process has the address space for them.
    #[must_use]
    pub fn pool(mut self, allocation: Allocation) -> Self {
        self.sandbox.allocation = allocation;
        self
    }

    /// Bytes of each memory that a pool cleans by hand when a cell ends. Default 128 KiB.
    #[must_use]
    pub fn keep_resident(mut self, bytes: usize) -> Self {
        self.sandbox.keep_resident = Some(bytes);
        self
    }

    /// A directory for compiled components; it is created, must belong to this user alone, and is reached by no grant.
    /// Default: `opcell/components` in the user's cache directory. The key that vouches for it lies among the user's
    /// state.
    #[must_use]
    pub fn cache(mut self, directory: impl Into<PathBuf>) -> Self {
        self.cache = Some(directory.into());
        self
    }

    /// Sets the treatment of a plugin that requests more than its operator has agreed to. Default: there is no host.
    #[must_use]
    pub fn new_permissions(mut self, policy: NewPermissions) -> Self {
        self.new_permissions = policy;
        self
    }

    /// Remembers in this file what each plugin asks for, so that a version that asks for more is noticed. A project
    /// file has its lock beside it; a host without one notices nothing unless it is given this.
    #[must_use]
    pub fn lock(mut self, file: impl Into<PathBuf>) -> Self {
        self.lock = Some(file.into());
        self
    }

    /// Keeps runs in this journal, whatever the project says.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
        self
    }

    /// Learns how long each write of the journal takes.
    #[must_use]
    pub fn journal_log(mut self, sink: impl JournalSink + 'static) -> Self {
        self.journal_sink = Some(Arc::new(sink));
        self
    }

    /// Sets the places of the user's compiled code, keys and consent, when not where the environment says.
    #[must_use]
    pub fn places(mut self, places: Places) -> Self {
        self.places = Some(places);
        self
    }

    /// Ceilings of each `http.fetch` call.
    #[must_use]
    pub fn fetch_limits(mut self, limits: FetchLimits) -> Self {
        self.fetch = limits;
        self
    }

    fn project(&mut self) -> &mut Config {
        self.config.get_or_insert_with(|| Config::empty(PathBuf::from(".")))
    }

    /// Loads every plugin, checks that no two offer the same id, and reads the workflows. Needs a tokio runtime with
    /// time and I/O enabled; [`runtime`](super::runtime) makes one. Dropping the future loads nothing more.
    ///
    /// # Errors
    /// With the first plugin that cannot be loaded; a host with half of its plugins would run half a workflow.
    pub async fn build(mut self) -> Result<Host, HostError> {
        let mut config = std::mem::replace(self.project(), Config::empty(PathBuf::new()));
        if let Some(file) = self.lock.take() {
            config.lock = Some(Lock::open(file, &config.plugins)?);
        }
        let mut places = self.places.take().unwrap_or_else(Places::of_user);
        places.cache = self.cache.take().or(places.cache);
        let control = Arc::new(control_files(&config, &places));
        let (ground, tools) = self.tools(&config, places, control)?;
        let (loader, catalog) = self.plugins(&config, &ground, tools.clone()).await?;
        let journal: Option<Arc<dyn Journal>> = match (self.journal.take(), &config.journal) {
            (Some(journal), _) => Some(journal),
            (None, Some(settings)) => Some(journals::open_with_stores(settings, &ground.stores, &ground.places).await?),
            (None, None) => None,
        };
        let journal = match self.journal_sink.take() {
            Some(sink) => {
                let journal = journal.unwrap_or_else(|| Arc::new(MemoryJournal::new()));
                Some(Arc::new(Metered::new(journal, sink)) as Arc<dyn Journal>)
            }
            None => journal,
        };
        Host::of(Parts { config, ground, loader, tools, journal, sibling: None }, catalog)
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
        let http = Arc::new(HttpClient::new(self.fetch));
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
            tools.add(tool).map_err(unusable)?;
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
    ) -> Result<(Option<Loader>, Catalog), HostError> {
        let mut catalog = Catalog::with_tools(tools);
        if config.plugins.is_empty() {
            return Ok((None, catalog));
        }
        let under_work: Vec<&str> =
            config.plugins.values().filter(|plugin| plugin.dev).map(|plugin| plugin.name.as_str()).collect();
        if !under_work.is_empty() && config.lock.is_some() {
            tracing::warn!(
                "in development (`dev = true`), so that opcell.lock does not pin it: {}",
                under_work.join(", ")
            );
        }
        let loader = Loader {
            sandbox: Arc::new(std::mem::take(&mut self.sandbox).open(config, ground)?),
            offered: std::mem::take(&mut self.tools).into_iter().map(checked).collect::<Result<_, _>>()?,
            sink: self.sink.clone(),
            new_permissions: self.new_permissions,
        };
        for plugin in config.plugins.values() {
            let loaded = loader.load(plugin, config, ground).await?;
            loading::add(&mut catalog, loaded, config)?;
        }
        remember(config, &catalog, &ground.places);
        Ok((Some(loader), catalog))
    }
}

/// A tool of the embedder, for plugins; the sandbox bounds what a cell takes of its result.
fn checked(tool: Arc<dyn Tool>) -> Result<Arc<dyn Tool>, Rejected> {
    Ok(Arc::new(CheckedTool::new(tool, usize::MAX).map_err(unusable)?))
}

fn unusable(error: ToolError) -> Rejected {
    Rejected::plain(Diagnostic::error("invalid-tool", error.to_string()))
}

impl Host {
    /// The last two phases: sessions, engine.
    pub(super) fn of(parts: Parts, catalog: Catalog) -> Result<Self, HostError> {
        let (config, catalog) = (parts.config.clone(), Arc::new(catalog));
        if let Some(loader) = &parts.loader {
            let (loader, config, ground) = (loader.clone(), parts.config.clone(), parts.ground.clone());
            catalog.widen_with(Widening { loader, config, ground });
        }
        let library = Arc::new(Library::read_with_defaults(&config.default_workflows, &config.workflows));
        let child_runs = Arc::new(ChildRuns::new(config.sessions.unnarrowed_workflows.clone()));
        let values = config.values;
        let sessions = Self::sessions_of(config, parts.ground.clone(), &catalog, &library, child_runs.clone())?;
        let mut engine = match &parts.sibling {
            Some(engine) => engine.sibling(),
            None => Engine::builder(),
        };
        if let (None, Some(journal)) = (&parts.sibling, &parts.journal) {
            engine = engine.journal(journal.clone());
        }
        engine = engine
            .values(values)
            .operations(catalog.clone())
            .judges(catalog.clone())
            .sessions(sessions.clone())
            .workflows(library.clone());
        let engine = Arc::new(engine.build());
        child_runs.connect(&engine, &library, &catalog);
        Ok(Self { catalog, library, sessions, engine, parts: Arc::new(parts) })
    }

    /// The third phase: model conversations.
    fn sessions_of(
        config: Config,
        ground: Ground,
        catalog: &Arc<Catalog>,
        library: &Arc<Library>,
        child_runs: Arc<ChildRuns>,
    ) -> Result<Arc<HostSessions>, HostError> {
        let bindings =
            config.tools.iter().filter_map(|(name, target)| Some((name.clone(), target.operation()?.to_owned())));
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
            child_runs,
            own: ground.own,
        };
        Ok(Arc::new(sessions::build(config.sessions, surroundings)?))
    }
}

impl SandboxSettings {
    fn open(self, config: &Config, ground: &Ground) -> Result<Sandbox, HostError> {
        let compile = self.compile.map_or_else(CompileMode::find, Ok)?;
        let defaults = SandboxConfig::new(compile);
        let sandbox = Sandbox::new(SandboxConfig {
            compile_limits: self.compile_limits,
            cache: ground.places.compiled(),
            control: ground.control.clone(),
            written: ground.written.clone(),
            limits: config.limits.clone(),
            cells: self.cells.unwrap_or(defaults.cells),
            keep_resident: self.keep_resident.unwrap_or(defaults.keep_resident),
            allocation: self.allocation,
            metering: self.metering,
            ..defaults
        })?;
        if let Some(warning) = sandbox.warning() {
            tracing::warn!("{warning}");
        }
        Ok(sandbox)
    }
}

pub(super) fn load_request(plugin: &PluginConfig, config: &Config) -> LoadRequest {
    LoadRequest {
        name: plugin.name.clone(),
        source: PluginSource::File(plugin.path.clone()),
        grants: plugin.grants.capabilities.clone(),
        limits: plugin.limits_within(&config.limits),
        agreed: config.lock.as_ref().and_then(|lock| lock.agreed(&plugin.name)).cloned(),
        digest: match config.lock.as_ref().and_then(|lock| lock.plugin(&plugin.name)) {
            Some(locked) if !plugin.dev => locked.digest.clone(),
            _ => None,
        },
        exports: plugin.exports.clone(),
        settings: plugin.settings.clone(),
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
        let of = config.plugins.get(plugin.name()).filter(|of| !of.dev);
        let digest = of.map(|_| plugin.digest().clone());
        let bytes = of.and_then(|of| std::fs::metadata(&of.path).ok()).map(|file| file.len());
        (plugin.name().to_owned(), Locked::new(digest, bytes, plugin.policy().requests().clone()))
    });
    if let Err(error) = lock.remember(loaded.collect(), places) {
        tracing::warn!("cannot write opcell.lock, so changes of plugins will not be noticed: {error}");
    }
}
