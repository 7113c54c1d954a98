//! A host: plugins with their grants, workflows by name, and the engine that runs them.

use crate::{
    catalog::{Catalog, Loaded},
    config::{Config, PluginConfig},
    http::{FetchLimits, HttpClient},
    library::Library,
    pins,
    report::Rejected,
    run::{Run, Workflow},
    services::{HostTool, LogSink, PluginServices},
    sessions::{self, ChildRuns, Surroundings},
    store,
    tools::Tools,
};
use opcell_engine::{
    Engine, Program, ResumeOptions, RunError, RunOptions, call,
    ports::{Call, EffectContext, Operations, Reply, Success},
};
use opcell_journal::{Journal, JournalError};
use opcell_sandbox::{CompileMode, CompileProgram, LoadRequest, PluginSource, Sandbox, SandboxConfig, SandboxError};
use opcell_session::{
    HostSessions,
    skills::{SkillFolder, SkillLibrary},
    tools::Toolbox,
};
use opcell_types::Value;
use opcell_workflow::{Diagnostic, Severity, checks};
use std::{path::PathBuf, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The most that a tool of the host gives a step, in bytes: what a plugin's operation and a tool of an MCP server may, too.
const STEP_RESULT: usize = 4 << 20;

/// The hidden subcommand that compiles one component.
pub const COMPILE_CHILD: &str = "compile-child";

/// Why there is no host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// Something that the operator wrote is wrong.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The sandbox cannot be set up.
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    /// The journal cannot be opened.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// Why a run did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The workflow cannot run on this host.
    #[error(transparent)]
    Rejected(#[from] Rejected),
    /// The journal does not take the run.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Collects what a host is made of.
#[derive(Default)]
pub struct HostBuilder {
    config: Option<Config>,
    tools: Vec<Arc<dyn HostTool>>,
    document_tools: Vec<Arc<dyn HostTool>>,
    sink: Option<Arc<dyn LogSink>>,
    compile: Option<CompileMode>,
    fetch: FetchLimits,
    journal: Option<Arc<dyn Journal>>,
}

/// Runs workflows and single operations. Cheap to clone.
#[derive(Clone)]
pub struct Host {
    catalog: Arc<Catalog>,
    library: Arc<Library>,
    sessions: Arc<HostSessions>,
    engine: Arc<Engine>,
}

impl Host {
    /// Starts with nothing: no plugins, no grants, no workflows.
    #[must_use]
    pub fn builder() -> HostBuilder {
        HostBuilder::default()
    }

    /// Every operation and judge of the plugins.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// Every workflow that is known by name.
    #[must_use]
    pub fn library(&self) -> &Library {
        &self.library
    }

    /// The model conversations that steps open.
    #[must_use]
    pub fn sessions(&self) -> &HostSessions {
        &self.sessions
    }

    /// A workflow by the path of its document, or by its name in the project.
    ///
    /// # Errors
    /// When there is none, or it does not compile.
    pub fn open(&self, target: &str) -> Result<Workflow, Rejected> {
        self.library.open(target)
    }

    /// Starts a run, drives it in a task of its own, and returns at once. `input` is the run's `workflow-input`; for a workflow with
    /// declared inputs it is an object of them.
    ///
    /// # Errors
    /// When the workflow names operations or judges that no plugin offers, or the journal does not take the run.
    pub async fn start(&self, workflow: &Workflow, input: Value) -> Result<Run, StartError> {
        self.start_with(workflow, input, RunOptions::default()).await
    }

    /// As [`Host::start`], with options. What the run pins is found out here: every plugin that it may call.
    ///
    /// # Errors
    /// As [`Host::start`].
    pub async fn start_with(&self, workflow: &Workflow, input: Value, options: RunOptions) -> Result<Run, StartError> {
        let unknown = self.check(workflow).into_iter().filter(|finding| finding.code == checks::UNKNOWN_OPERATION);
        let errors: Vec<_> = unknown.map(|finding| Diagnostic { severity: Severity::Error, ..finding }).collect();
        if !errors.is_empty() {
            return Err(StartError::Rejected(workflow.reject(errors)));
        }
        let program = Program::new(workflow.ir().clone())
            .map_err(|error| workflow.reject(vec![Diagnostic::error("invalid-workflow", error.to_string())]))?;
        let options = RunOptions { pins: pins::of(&self.catalog, &self.library, workflow.ir()), ..options };
        Ok(Run::new(self.engine.start(program, input, options).await?))
    }

    /// Takes up a run of the journal that nobody drives, with its own definition and with the plugins of this host.
    ///
    /// # Errors
    /// When the journal does not have the run, another process drives it, or a plugin that it was started with is not here.
    pub async fn resume(&self, run: &str, options: ResumeOptions) -> Result<Run, RunError> {
        let options = ResumeOptions { pins: pins::all(&self.catalog), ..options };
        Ok(Run::new(self.engine.resume(&run.into(), options).await?))
    }

    /// The engine: the runs of the journal, their past, and telling them things.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Calls one operation outside of any run.
    pub async fn invoke(&self, operation: &str, arguments: Value) -> Reply<Success> {
        let run: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let context = EffectContext { idempotency_key: run.clone(), run, step: "".into(), visit: 1, attempt: 1 };
        let id = operation.into();
        let call = call::Call { id, arguments, context, capabilities: None, timeout_ms: None };
        self.catalog.invoke(Call::new(call, CancellationToken::new())).await
    }

    /// Checks the names that a workflow uses, and the outcomes that it routes, against what this host has. Findings are warnings:
    /// the languages' own runtimes only find out when the step is entered.
    #[must_use]
    pub fn check(&self, workflow: &Workflow) -> Vec<Diagnostic> {
        let mut findings = checks::names(workflow.ir(), self);
        for finding in findings.iter_mut().filter(|finding| finding.code == checks::UNKNOWN_OPERATION) {
            finding.help.get_or_insert_with(|| "`opcell op list` lists the operations".to_owned());
        }
        findings.into_iter().map(|finding| workflow.locate(finding)).collect()
    }
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

    /// Offers a tool of the embedder to plugins that are granted it.
    #[must_use]
    pub fn tool(mut self, tool: impl HostTool + 'static) -> Self {
        self.tools.push(Arc::new(tool));
        self
    }

    /// Offers a tool of the embedder to documents, which call it by its name as they would an operation. It takes the place of
    /// what the project says under that name.
    #[must_use]
    pub fn document_tool(mut self, tool: impl HostTool + 'static) -> Self {
        self.document_tools.push(Arc::new(tool));
        self
    }

    /// Hands over what cells say while they run.
    #[must_use]
    pub fn log(mut self, sink: impl LogSink + 'static) -> Self {
        self.sink = Some(Arc::new(sink));
        self
    }

    /// Where components are compiled: unless said, in children of this executable with the hidden argument [`COMPILE_CHILD`],
    /// which the `opcell` command understands. Any other embedder names a program that calls
    /// [`opcell_sandbox::compile::child_main`], or trusts its plugins.
    #[must_use]
    pub fn compile(mut self, mode: CompileMode) -> Self {
        self.compile = Some(mode);
        self
    }

    /// Keeps runs in this journal, whatever the project says.
    #[must_use]
    pub fn journal(mut self, journal: impl Journal + 'static) -> Self {
        self.journal = Some(Arc::new(journal));
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

    /// Loads every plugin, checks that no two offer the same id, and reads the workflows.
    ///
    /// # Errors
    /// With the first plugin that cannot be loaded; a host with half of its plugins would run half a workflow.
    pub async fn build(mut self) -> Result<Host, HostError> {
        let config = std::mem::replace(self.project(), Config::empty(PathBuf::new()));
        let compile = match self.compile.take() {
            Some(mode) => mode,
            None => this_executable().map_err(|error| {
                Rejected::plain(Diagnostic::error(
                    "no-compiler",
                    format!("cannot determine the path of this program: {error}"),
                ))
            })?,
        };
        let folders: Vec<SkillFolder> = config.skills.iter().map(SkillFolder::required).collect();
        let skills = Arc::new(SkillLibrary::discover(&folders));
        for finding in skills.findings() {
            tracing::warn!("{}: {}", finding.path.display(), finding.message);
        }
        let http = Arc::new(HttpClient::new(self.fetch));
        let own = sessions::own_tools(&config.sessions, &skills, &http)?;
        let called_by_steps = Toolbox::new(own.iter().cloned(), STEP_RESULT)
            .map_err(|error| Rejected::plain(Diagnostic::error("invalid-sessions", error.to_string())))?;
        let mut tools = Tools::new(config.tools.clone(), config.servers.clone(), &http, &Arc::new(called_by_steps));
        for tool in std::mem::take(&mut self.document_tools) {
            tools.add(tool);
        }
        let mut catalog = Catalog::with_tools(tools);
        if !config.plugins.is_empty() {
            let sandbox = Sandbox::new(SandboxConfig {
                cache: config.cache.clone().or_else(user_cache),
                limits: config.limits.clone(),
                ..SandboxConfig::new(compile)
            })?;
            if let Some(warning) = sandbox.warning() {
                tracing::warn!("{warning}");
            }
            let tools = Arc::new(self.tools);
            for plugin in config.plugins.values() {
                let refused = |mut diagnostic: Diagnostic| {
                    diagnostic.span = plugin.span;
                    match plugin.span {
                        Some(_) => Rejected::in_source(config.source.clone(), vec![diagnostic]),
                        None => Rejected::plain(diagnostic),
                    }
                };
                let request = LoadRequest {
                    name: plugin.name.clone(),
                    source: PluginSource::File(plugin.path.clone()),
                    grants: plugin.grants.capabilities.clone(),
                    limits: plugin.limits.clone(),
                    agreed: config.lock.as_ref().and_then(|lock| lock.agreed(&plugin.name)).cloned(),
                };
                let loaded = sandbox.load(request).await.map_err(|error| {
                    refused(Diagnostic::error(
                        error.kind(),
                        format!("plugin `{}` ({}): {error}", plugin.name, plugin.path.display()),
                    ))
                })?;
                let services = Arc::new(PluginServices {
                    plugin: plugin.name.as_str().into(),
                    http: http.clone(),
                    rules: plugin.grants.http.clone(),
                    tools: tools.clone(),
                    skills: skills.clone(),
                    sink: self.sink.clone(),
                });
                catalog.add(Loaded { plugin: loaded, services }).map_err(|collision| refused(*collision))?;
            }
        }
        if let Some(lock) = &config.lock {
            let asked = catalog.plugins().map(|plugin| (plugin.name().to_owned(), plugin.policy().requests().clone()));
            if let Err(error) = lock.remember(asked.collect()) {
                tracing::warn!(
                    "cannot write opcell.lock, so upgrades of plugins will not be noticed: {error}"
                );
            }
        }
        let (catalog, library) = (Arc::new(catalog), Arc::new(Library::read(&config.workflows)));
        let child_runs = Arc::new(ChildRuns::default());
        let bindings =
            config.tools.iter().filter_map(|(name, target)| Some((name.clone(), target.operation()?.to_owned())));
        let surroundings = Surroundings {
            root: &config.root,
            bindings: &bindings.collect(),
            catalog: &catalog,
            library: &library,
            skills: &skills,
            child_runs: child_runs.clone(),
            own,
        };
        let sessions = Arc::new(sessions::build(config.sessions, surroundings)?);
        let mut engine = Engine::builder()
            .operations(catalog.clone())
            .judges(catalog.clone())
            .sessions(sessions.clone())
            .workflows(library.clone());
        if let Some(journal) = self.journal {
            engine = engine.journal(journal);
        } else if let Some(settings) = &config.journal {
            engine = engine.journal(Arc::new(store::open(settings).await?));
        }
        let engine = Arc::new(engine.build());
        child_runs.connect(&engine, &library, &catalog);
        Ok(Host { catalog, library, sessions, engine })
    }
}

/// A tokio runtime for hosts whose plugins may be hostile. A cell that never waits gives its thread back every millisecond; this runtime
/// then looks at its timers and sockets after a few of those and not after sixty-one, and has threads to spare for guests that sit in one
/// long instruction, which the operating system shares out more finely than any runtime can.
///
/// # Errors
/// When the system gives no threads.
pub fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let threads = std::thread::available_parallelism().map_or(2, usize::from).saturating_mul(2).max(4);
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).event_interval(4).enable_all().build()
}

/// Compiling in children of this very program, which must understand [`COMPILE_CHILD`].
///
/// # Errors
/// When the path of this program cannot be found.
pub fn this_executable() -> std::io::Result<CompileMode> {
    Ok(CompileMode::Child(CompileProgram { path: std::env::current_exe()?, args: vec![COMPILE_CHILD.into()] }))
}

/// `opcell/components` in `$XDG_CACHE_HOME` or `~/.cache`; none without a home.
fn user_cache() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("opcell").join("components"))
}
