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
pub mod schema;
pub(crate) mod text;
pub mod tools;
mod withdraw;

use crate::{
    builtin,
    consent::{Cover, Covers},
    governance::PackPolicy,
    http::HttpRule,
    inner_calls::ProjectTool,
    places::Places,
    report::Rejected,
    services::HTTP_FETCH,
    source,
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
use opcell_sandbox::{
    Exports, Settings,
    grants::{FilesGrant, Grants, StoreGrant},
    limits::LimitRequest,
};
use opcell_session::{
    models::{Model, ModelsConfig},
    sessions::MissingTools,
    tools::{FileRoot, InPrograms, Shell},
};
use opcell_types::files::{read_bounded, read_text_bounded};
use origin::Origin;
use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};
pub use text::{ApprovedCall, ContextFiles};
use tools::{McpServer, ToolTarget};

/// The file's name.
pub const FILE_NAME: &str = "opcell.toml";

/// The most that is read of a project file.
pub const MAX_BYTES: u64 = 1 << 20;

/// The most that is read of a runtime that the user installed.
const MAX_RUNTIME: u64 = 256 << 20;

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

/// One plugin of a project.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginConfig {
    /// Its name in this project.
    pub name: String,
    /// Path of the component's file; of one that is in no file, a note in parentheses.
    pub path: PathBuf,
    /// The component, where it is in no file.
    pub(crate) component: Option<Component>,
    /// The folder of the project whose file names it: links of a source are followed within it alone.
    pub(crate) project: Option<PathBuf>,
    /// The script of a skill that it is.
    pub script: Option<SkillScript>,
    /// The place at which the file names it.
    pub span: Option<Span>,
    /// The capabilities that it is granted.
    pub grants: PluginGrants,
    /// Its own limits. What is above its ceiling counts as the ceiling.
    pub limits: LimitRequest,
    /// Its own ceiling, where it is not the project's: it may be higher.
    pub ceiling: LimitRequest,
    /// The places at which the file sets its own limits.
    pub(crate) limit_spans: LimitSpans,
    /// The settings that it reads through `wasi:config/store`.
    pub settings: Settings,
    /// `true` if it is under work: whatever lies at its path is loaded, and every command says so.
    pub dev: bool,
    /// The rule by which its exports become operations and judges.
    pub exports: Exports,
    /// `true` if the arguments and answers of its host calls are recorded with its runs, for calling it again with the
    /// same ([`crate::replay`]); `None` follows [`Config::record_host_calls`].
    pub record_host_calls: Option<bool>,
    /// The treatment of a call that fails because it was refused something.
    pub on_denied: OnDenied,
    /// The registry that it comes from; its path is then where the store has the version of the lock, or the reference
    /// where the lock has none.
    pub origin: Option<Origin>,
}

/// A script of a skill, which models call as a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SkillScript {
    /// The skill.
    pub skill: String,
    /// The script without its extension.
    pub name: String,
}

impl SkillScript {
    /// The name of the tool: `skill/NAME/SCRIPT`.
    #[must_use]
    pub fn tool(&self) -> String {
        format!("skill/{}/{}", self.skill, self.name)
    }
}

/// The treatment of a call that fails because its plugin was refused something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnDenied {
    /// It has failed.
    #[default]
    Fail,
    /// The run waits until a person grants it, for the call or for the run, or refuses it. Of calls that must not be
    /// repeated, only those of which every host call was refused.
    Ask,
}

/// The grants of a plugin. Empty: nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginGrants {
    /// Tools, skills, files and preopens, enforced by the sandbox.
    pub capabilities: Grants,
    /// Requests that the tool `http.fetch` performs.
    pub http: Vec<HttpRule>,
    /// `true` if the manifest's text is added to prompts.
    pub prompt: bool,
    /// Calls of tools that a person has approved: the tool, and its arguments as JSON.
    pub approved: Vec<(String, String)>,
    /// The first thing that was granted twice under one name.
    pub(crate) conflict: Option<String>,
}

/// Something that a plugin may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Grant {
    /// A tool of the host, by its name.
    Tool(String),
    /// A skill, by its name.
    Skill(String),
    /// A directory, under the name by which the plugin asks for it.
    Files(String, FilesGrant),
    /// A store in which the plugin keeps values from one call to the next, under the name by which it requests it.
    Store(String, StoreGrant),
    /// Requests of the tool `http.fetch`, which is granted with them.
    Http(HttpRule),
    /// One call of a tool that otherwise waits for a person: the tool, and its arguments as JSON.
    Call(String, String),
}

impl Grant {
    /// A tool of the host, such as `http.fetch`.
    #[must_use]
    pub fn tool(name: impl Into<String>) -> Self {
        Self::Tool(name.into())
    }

    /// A skill.
    #[must_use]
    pub fn skill(name: impl Into<String>) -> Self {
        Self::Skill(name.into())
    }

    /// Reading everything below a directory. A relative path starts at the process's working directory; the directory
    /// must exist when the plugin is loaded, and is opened then: one that takes its place later is not seen.
    #[must_use]
    pub fn read(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self::Files(name.into(), FilesGrant::read(directory))
    }

    /// Reading and writing everything below a directory, up to [`FilesGrant::DEFAULT_WRITE_QUOTA`] bytes within a
    /// day. Otherwise as [`Grant::read`].
    #[must_use]
    pub fn read_write(name: impl Into<String>, directory: impl Into<PathBuf>) -> Self {
        Self::Files(name.into(), FilesGrant::read_write(directory))
    }

    /// Returns a grant of a store in this project, within [`StoreGrant::default`].
    #[must_use]
    pub fn store(name: impl Into<String>) -> Self {
        Self::Store(name.into(), StoreGrant::default())
    }
}

impl PluginGrants {
    pub(crate) fn add(&mut self, grant: Grant) {
        let capabilities = &mut self.capabilities;
        match grant {
            Grant::Tool(name) => drop(capabilities.tools.insert(name)),
            Grant::Skill(name) => drop(capabilities.skills.insert(name)),
            Grant::Files(name, files) => {
                if capabilities.files.get(&name).is_some_and(|other| *other != files) {
                    self.conflict.get_or_insert_with(|| format!("the grant of files `{name}`"));
                }
                capabilities.files.insert(name, files);
            }
            Grant::Store(name, store) => {
                if capabilities.stores.get(&name).is_some_and(|other| *other != store) {
                    self.conflict.get_or_insert_with(|| format!("the grant of the store `{name}`"));
                }
                capabilities.stores.insert(name, store);
            }
            Grant::Call(tool, arguments) => self.approved.push((tool, arguments)),
            Grant::Http(rule) => {
                capabilities.tools.insert(HTTP_FETCH.to_owned());
                self.http.push(rule);
            }
        }
    }
}

impl PluginConfig {
    /// A plugin with no grants, within the host's limits. `name` is what receipts, denials and errors call it.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "plugins/repo.wasm");
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            component: None,
            project: None,
            script: None,
            span: None,
            grants: PluginGrants::default(),
            limits: LimitRequest::default(),
            ceiling: LimitRequest::default(),
            limit_spans: LimitSpans::new(),
            settings: Settings::new(),
            dev: false,
            exports: Exports::Contract,
            record_host_calls: None,
            on_denied: OnDenied::Fail,
            origin: None,
        }
    }

    /// A plugin whose component is in memory, such as one that is part of the program (`include_bytes!`). Otherwise as
    /// [`PluginConfig::new`].
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// # fn plugin(component: Vec<u8>) -> PluginConfig {
    /// PluginConfig::from_bytes("repo", component)
    /// # }
    /// ```
    #[must_use]
    pub fn from_bytes(name: impl Into<String>, component: impl Into<Arc<[u8]>>) -> Self {
        Self::of_component(name, Component::Bytes(component.into()))
    }

    /// A plugin whose component a store of the program has, under the plugin's name. Otherwise as
    /// [`PluginConfig::new`].
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// use opcell::{ComponentStore, StoreFailure};
    ///
    /// /// The plugins that users have installed.
    /// struct Installed;
    ///
    /// #[async_trait]
    /// impl ComponentStore for Installed {
    ///     async fn component(&self, plugin: &str) -> Result<Vec<u8>, StoreFailure> {
    ///         Err(format!("{plugin} is not installed").into())
    ///     }
    /// }
    ///
    /// let plugin = PluginConfig::stored("repo", Installed);
    /// ```
    #[must_use]
    pub fn stored(name: impl Into<String>, store: impl ComponentStore + 'static) -> Self {
        Self::of_component(name, Component::Stored(Arc::new(store)))
    }

    /// A plugin that is part of the library, such as [`builtin::CODE`], under its own name;
    /// `None` if there is none of this name. Otherwise as [`PluginConfig::new`].
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        builtin::component(name).map(|component| Self::of_component(name, Component::Builtin(component)))
    }

    /// The plugin [`builtin::PYTHON`] from the runtime that the user has installed. Blocks while it reads.
    ///
    /// # Errors
    /// When it cannot be read, or is not installed.
    pub fn python(places: &Places) -> io::Result<Self> {
        let path = places.python_runtime().ok_or(io::ErrorKind::NotFound)?;
        let component = read_bounded(&path, MAX_RUNTIME)?;
        Ok(Self::of_component(builtin::PYTHON, Component::Bytes(component.into())))
    }

    /// Returns the component of a plugin that is part of the library.
    #[must_use]
    pub fn builtin_component(&self) -> Option<&'static [u8]> {
        match self.component {
            Some(Component::Builtin(component)) => Some(component),
            _ => None,
        }
    }

    fn of_component(name: impl Into<String>, component: Component) -> Self {
        Self { path: component.place().into(), component: Some(component), ..Self::new(name, "") }
    }

    /// Reads the component of a plugin at a path, or makes it of a source; at most this many bytes.
    ///
    /// # Errors
    /// As [`source::read_component`].
    pub fn read(&self, most: u64) -> Result<Vec<u8>, String> {
        match &self.script {
            // An earlier version is a component.
            Some(script) if source::is_source(&self.path) => {
                source::read_script(&script.skill, &self.path, self.project.as_deref())
            }
            _ => source::read_component(&self.path, self.project.as_deref(), most),
        }
    }

    /// Returns `true` if a file has the component.
    pub(crate) fn is_file(&self) -> bool {
        self.component.is_none() && self.origin.is_none()
    }

    /// Lets the plugin reach one thing more, as far as its manifest asks for it.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "repo.wasm").grant(Grant::read("workspace", "/srv/repo"));
    /// ```
    #[must_use]
    pub fn grant(mut self, grant: Grant) -> Self {
        self.grants.add(grant);
        self
    }

    /// Limits of its own, where they are tighter than the host's. Of several such limits the tightest counts.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let limits = LimitRequest { memory: Some(32 << 20), ..LimitRequest::default() };
    /// let repo = PluginConfig::new("repo", "repo.wasm").limits(limits);
    /// ```
    #[must_use]
    pub fn limits(mut self, limits: LimitRequest) -> Self {
        self.limits = limits.tighter(&self.limits);
        self
    }

    /// Sets what the plugin reads under `key` through `wasi:config/store`.
    ///
    /// ```
    /// # use opcell::{Tenant, prelude::*};
    /// let repo = PluginConfig::new("repo", "repo.wasm").setting("branch", "main");
    /// ```
    #[must_use]
    pub fn setting(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        let (key, value) = (key.into(), value.into());
        if self.settings.get(&key).is_some_and(|other| *other != value) {
            self.grants.conflict.get_or_insert_with(|| format!("the setting `{key}`"));
        }
        self.settings.insert(key, value);
        self
    }

    /// A ceiling of its own, in place of the host's: it may be higher.
    #[must_use]
    pub fn ceiling(mut self, ceiling: LimitRequest) -> Self {
        if self.ceiling != LimitRequest::default() && self.ceiling != ceiling {
            self.grants.conflict.get_or_insert_with(|| "`ceiling`".to_owned());
        }
        self.ceiling = ceiling;
        self
    }

    /// Keeps what its host calls were given and answered with its runs, or does not.
    #[must_use]
    pub fn record_host_calls(mut self, record: bool) -> Self {
        self.record_host_calls = Some(record);
        self
    }

    /// Returns the limits of its cells on a host with these limits, before its manifest requests less.
    #[must_use]
    pub fn limits_within(&self, host: &LimitRequest) -> LimitRequest {
        self.limits.within(&self.ceiling.or(host))
    }
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
