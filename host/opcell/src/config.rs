//! The project file, `opcell.toml`: which plugins there are, what each may reach, and within which limits.
//!
//! `text` is the file as written, `check` is what it means and whether that exists ([`tools`] for what documents
//! call), [`edit`] changes it without touching comments, [`lock`] remembers what plugins asked for, so that an upgrade
//! which asks for more is noticed. Nothing is granted that the file does not say; a file with one mistake grants
//! nothing at all.

pub mod accepted_tools;
pub(crate) mod check;
mod component;
pub(crate) mod control;
pub mod edit;
pub mod journal;
pub mod lock;
pub mod origin;
mod plugin;
pub mod schema;
pub(crate) mod text;
pub mod tools;
mod withdraw;

use crate::{
    consent::{Cover, Covers},
    governance::PackPolicy,
    http::HttpRule,
    inner_calls::ProjectTool,
    places::Places,
    report::Rejected,
    triggers::Trigger,
};
pub use check::HOST_TOOLS;
pub(crate) use check::skills::SKILL_ROOT;
pub(crate) use component::Component;
pub use component::{ComponentStore, StoreFailure};
/// The maps of a project, in the order of its file.
pub use indexmap::IndexMap;
pub use journal::{JournalPlace, JournalServer, JournalSettings};
use opcell_engine::ValueLimits;
use opcell_ir::{
    Diagnostic, SourceFile, Span,
    ir::{ApprovalRules, Session},
};
use opcell_registry::store::Store;
use opcell_sandbox::limits::LimitRequest;
use opcell_session::{
    models::{Model, ModelsConfig},
    sessions::MissingTools,
    tools::{FileRoot, InPrograms, Shell},
};
use opcell_types::files::read_text_bounded;
pub use plugin::{Grant, OnDenied, PluginConfig, PluginGrants, SkillScript};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
pub use text::{ApprovedCall, ContextFiles};
use tools::{McpServer, ToolTarget};

/// The file's name.
pub const FILE_NAME: &str = "opcell.toml";

/// The most that is read of a project file.
pub const MAX_BYTES: u64 = 1 << 20;

/// The places at which a file sets limits, by their keys.
pub(crate) type LimitSpans = BTreeMap<&'static str, Span>;

/// A checked project.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Config {
    /// The file it came from; `None` for a project without one.
    pub file: Option<PathBuf>,
    /// The file's text, for findings that only show later.
    pub source: Arc<SourceFile>,
    /// The folder that relative paths are relative to.
    pub root: PathBuf,
    /// Folders of workflow documents; two documents of one name are an error.
    pub workflows: Vec<PathBuf>,
    /// Folders of the user's own workflow documents, of which those of the project take the place; later ones win.
    pub default_workflows: Vec<PathBuf>,
    /// Plugins by name.
    pub plugins: IndexMap<String, PluginConfig>,
    /// Ceilings for every plugin.
    pub limits: LimitRequest,
    /// The places at which the file sets them.
    pub(crate) limit_spans: LimitSpans,
    /// The limits on the values of one run.
    pub values: ValueLimits,
    /// Bytes of each interpreter's memory that stay in place between cells; `None` is the sandbox's default.
    pub keep_resident: Option<usize>,
    /// Folders whose `.wasm` files are plugins.
    pub plugin_folders: Vec<PathBuf>,
    /// Folders of skills in the Agent Skills format.
    pub skills: Vec<PathBuf>,
    /// The implementations of tools named by documents.
    pub tools: IndexMap<String, ToolTarget>,
    /// MCP servers by name. Started when one of their tools is called, and never for anything else.
    pub servers: IndexMap<String, McpServer>,
    /// Models, and what they may use.
    pub sessions: SessionSettings,
    /// The judge, or operation, that is asked before each transition of a pack.
    pub authorizer: Option<String>,
    /// The answer to the governance that packs declare.
    pub pack_policy: PackPolicy,
    /// The journal of runs; `None` is in memory.
    pub journal: Option<JournalSettings>,
    /// `true` if the arguments and answers of plugins' host calls are recorded with their runs.
    pub record_host_calls: bool,
    /// The triggers, which start runs or send them signals without a person; a server acts on them, and nothing else
    /// does.
    pub triggers: Vec<Trigger>,
    /// Further projects that a server serves beside this one, each apart from every other.
    pub tenants: Vec<TenantConfig>,
    /// The requests of plugins when they were last loaded; `None` for a project without a file, which has no upgrades.
    pub lock: Option<lock::Lock>,
    /// `true` if every plugin must be in the lock.
    pub locked: bool,
    /// Files beyond the project's own that decide what runs in this process, such as a document that a command names:
    /// no grant extends to writing them.
    pub in_force: Vec<PathBuf>,
    /// The store of plugins that were fetched from registries.
    pub store: Store,
    /// The parts of the programs that it starts, as they were when first asked for: for consent and for each start.
    covers: Arc<OnceLock<Covers>>,
}

impl SessionSettings {
    /// Returns the tools that profiles and defaults declare for sessions that declare none, and the augmenters.
    pub(crate) fn declared_tools(&self) -> Vec<String> {
        let settings = std::iter::once(&self.defaults).chain(self.profiles.values());
        let tools = settings.flat_map(|settings| settings.tools.iter().flatten());
        tools.chain(&self.augmenters).cloned().collect()
    }
}

/// The settings of a project's model conversations.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct SessionSettings {
    /// Providers and models.
    pub models: ModelsConfig,
    /// A script that answers instead of every model.
    pub script: Option<PathBuf>,
    /// A file that takes down every round, for such a script.
    pub record: Option<PathBuf>,
    /// Directories for the tools that read and write files; the first is where plain relative paths lead.
    pub files: Vec<FileRoot>,
    /// Settings where nothing else says.
    pub defaults: Session,
    /// Named sets of settings.
    pub profiles: IndexMap<String, Session>,
    /// Workflows whose sessions have what they declare, also when the session that calls them does not.
    pub unnarrowed_workflows: Vec<String>,
    /// The contributions to prompts, by name: priority and text. An empty text takes a plugin's away.
    pub contributions: IndexMap<String, (i32, String)>,
    /// The files that contributions were read from, by the contributions' names.
    pub contribution_files: IndexMap<String, PathBuf>,
    /// The most rounds of models that are under way at a time; `None`: no limit.
    pub rounds_at_a_time: Option<u32>,
    /// The operations that each turn is shown to before its model is asked, in this order.
    pub augmenters: Vec<String>,
    /// The treatment of a session that declares a tool which is not there.
    pub missing_tools: MissingTools,
    /// The files that every prompt shows.
    pub context_files: ContextFiles,
    /// Requests that models may make with `http.fetch`; the tool is there when there is one.
    pub http: Vec<HttpRule>,
    /// Commands that models may run; absent: none.
    pub bash: Option<Shell>,
    /// Rules for calls of tools that wait for a person, in every session.
    pub approve: ApprovalRules,
    /// The same for single tools, by name.
    pub tool_approvals: IndexMap<String, ApprovalRules>,
    /// Tools that programs of models do not call, or nothing else does, by name.
    pub in_programs: IndexMap<String, InPrograms>,
    /// The same for all tools of an MCP server, by its name.
    pub server_approvals: IndexMap<String, ApprovalRules>,
    /// The same for the tools that a plugin calls, by the plugin's name.
    pub plugin_approvals: IndexMap<String, ApprovalRules>,
    /// Calls that a person has approved for always.
    pub approved: Vec<ApprovedCall>,
    /// Models of the embedding program.
    pub(crate) model: Option<OwnModels>,
}

/// Models of the embedding program.
#[derive(Clone)]
pub(crate) enum OwnModels {
    /// A model that answers for every other.
    Only(Arc<dyn Model>),
    /// Beside others, by the name of the provider.
    Providers(Vec<(String, Arc<dyn Model>)>),
}

impl std::fmt::Debug for OwnModels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Only(_) => f.write_str("Only"),
            Self::Providers(own) => f.debug_list().entries(own.iter().map(|(name, _)| name)).finish(),
        }
    }
}

/// A project that a server serves beside another: with its own grants, limits, models, secrets, workflows and journal.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantConfig {
    /// Its name in addresses and tokens.
    pub name: String,
    /// Its project file.
    pub project: PathBuf,
    /// Its share of the server.
    pub share: TenantShare,
}

/// A tenant's share of a server; where nothing is said, the server's default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TenantShare {
    /// Cells at a time.
    pub cells: Option<u32>,
    /// Rounds of models at a time.
    pub model_rounds: Option<u32>,
    /// Requests a second.
    pub requests_per_second: Option<u32>,
    /// Runs at a time that requests started.
    pub started_runs: Option<u32>,
    /// Calls of operations at a time.
    pub calls: Option<u32>,
    /// Readers of events at a time.
    pub readers: Option<u32>,
}

impl Config {
    /// Rules for calls of tools by a plugin that wait for a person.
    pub(crate) fn approval_rules(&self, plugin: &str) -> ApprovalRules {
        self.sessions.plugin_approvals.get(plugin).cloned().unwrap_or_default()
    }

    /// A name of the project as plugins call it, with the rules for its calls.
    pub(crate) fn project_tool(&self, name: &str) -> ProjectTool {
        let mut approve = self.sessions.tool_approvals.get(name).cloned().unwrap_or_default();
        if let Some(server) = self.tools.get(name).and_then(ToolTarget::server)
            && let Some(rules) = self.sessions.server_approvals.get(server)
        {
            approve.add(rules);
        }
        let approved = self.sessions.approved.iter().filter(|call| call.tool == name);
        ProjectTool { name: name.to_owned(), approve, approved: approved.map(|call| call.arguments.clone()).collect() }
    }

    /// A project without a file: no plugins, no grants.
    #[must_use]
    pub fn empty(root: impl Into<PathBuf>) -> Self {
        opcell_workers::install();
        Self {
            file: None,
            source: Arc::new(SourceFile::new("", "")),
            root: root.into(),
            workflows: Vec::new(),
            default_workflows: Vec::new(),
            plugins: IndexMap::new(),
            limits: LimitRequest::default(),
            limit_spans: LimitSpans::new(),
            values: ValueLimits::default(),
            keep_resident: None,
            plugin_folders: Vec::new(),
            skills: Vec::new(),
            tools: IndexMap::new(),
            servers: IndexMap::new(),
            sessions: SessionSettings::default(),
            authorizer: None,
            pack_policy: PackPolicy::default(),
            journal: None,
            record_host_calls: false,
            triggers: Vec::new(),
            tenants: Vec::new(),
            lock: None,
            locked: false,
            in_force: Vec::new(),
            store: Store::default(),
            covers: Arc::default(),
        }
    }

    /// The parts of the programs that the project starts, looked at once, before consent is asked; this reading of the
    /// project file keeps them. Blocks.
    pub(crate) fn covers(&self) -> &Covers {
        self.covers.get_or_init(|| {
            let local = self.servers.iter().filter(|(_, server)| server.remote.is_none());
            Cover::of_all(local, &self.root)
        })
    }

    /// The same project without what reaches outside of its folder: for looking at it before its user consented.
    #[must_use]
    pub fn without_reach(mut self) -> Self {
        let root = crate::places::real(&self.root);
        let inside = |path: &Path| crate::places::real(path).starts_with(&root);
        for plugin in self.plugins.values_mut() {
            plugin.grants.capabilities.files.retain(|_, grant| inside(&grant.path) && !grant.control_files);
            plugin.grants.capabilities.dangerous_preopens.clear();
        }
        self.sessions.files.retain(|root| inside(&root.path) && !root.control_files);
        self.sessions.script = self.sessions.script.filter(|script| inside(script));
        self.sessions.record = None;
        for (name, file) in &self.sessions.contribution_files {
            if !inside(file) || crate::consent::is_secret(file, &root) {
                self.sessions.contributions.shift_remove(name);
            }
        }
        self.skills.retain(|folder| inside(folder));
        self.workflows.retain(|folder| inside(folder));
        self.journal = None;
        self
    }

    /// The journal, if it is a file in the project's own folder: reading it takes no consent.
    #[must_use]
    pub fn own_journal(&self) -> Option<&JournalSettings> {
        let root = crate::places::real(&self.root);
        let is_own = |path: &Path| crate::places::real(path).starts_with(&root);
        self.journal.as_ref().filter(|journal| journal.place.file().is_some_and(is_own))
    }

    /// The project file in `start` or the nearest directory above it.
    #[must_use]
    pub fn find(start: &Path) -> Option<PathBuf> {
        start.ancestors().map(|directory| directory.join(FILE_NAME)).find(|file| file.is_file())
    }

    /// Reads and checks a project file.
    ///
    /// # Errors
    /// Every finding, each with its place.
    pub fn load(file: impl AsRef<Path>) -> Result<Self, Rejected> {
        let file = file.as_ref();
        let name = file.display().to_string();
        let unreadable =
            |what: String| Rejected::plain(Diagnostic::error("project-file-unreadable", format!("{name}: {what}")));
        let text = read_text_bounded(file, MAX_BYTES).map_err(|error| unreadable(error.to_string()))?;
        let root = std::path::absolute(file)
            .ok()
            .and_then(|file| file.parent().map(Path::to_owned))
            .ok_or_else(|| unreadable("has no directory".to_owned()))?;
        let mut config = Self::parse(&name, text, &root)?;
        config.file = Some(file.to_owned());
        config.lock = Some(lock::Lock::beside(file, &config.plugins)?);
        config.store = Places::of_user().store(&config.root);
        origin::settle(&mut config);
        Ok(config)
    }

    /// Checks the text of a project file whose relative paths start at `root`.
    ///
    /// # Errors
    /// Every finding, each with its place.
    pub fn parse(name: &str, text: String, root: &Path) -> Result<Self, Rejected> {
        opcell_workers::install();
        let source = Arc::new(SourceFile::new(name, text));
        let written = text::parse(&source)?;
        check::check(written, &source, root)
    }
}
