//! Every operation and judge of a host's plugins, by id; the engine's [`Operations`] and [`Judges`]
//! performed in cells.
//!
//! [`Operations`]: opcell_engine::ports::Operations
//! [`Judges`]: opcell_engine::ports::Judges

mod calls;
mod unknown;
mod widen;

use crate::{
    config::SessionSettings,
    gateway::{self, GatewayListing, ServerStanding},
    host::{Duplicate, PluginError},
    report::Rejected,
    services::{LogSink, PluginServices},
    tools::{DocumentTool, ServerEntry, ToolEntry, Tools},
};
pub(crate) use calls::CellReceipt;
use indexmap::IndexMap;
use opcell_engine::{ports::Effects, tool::Tool};
use opcell_ir::{Diagnostic, names::Outcome};
use opcell_sandbox::{Access, Plugin};
use opcell_schema::shown;
use opcell_session::tools::SessionTool;
use opcell_types::{OperationId, ToolDescription, Value};
use serde::Serialize;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, OnceLock, Weak},
};
use widen::Widened;
pub(crate) use widen::{Widen, granting};

/// A plugin with the services that its cells get.
#[derive(Clone)]
pub(crate) struct Loaded {
    pub plugin: Arc<Plugin>,
    pub services: Arc<PluginServices>,
    /// `true` if the arguments and answers of its host calls are recorded.
    pub recorded: bool,
    /// `true` if a person is asked when it is refused something.
    pub asks: bool,
    /// The party that is told of its cells.
    pub sink: Option<Arc<dyn LogSink>>,
}

/// The entry of one id.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Entry {
    /// The id that it is called by.
    pub id: OperationId,
    /// The plugin's name in the project.
    pub plugin: Arc<str>,
    /// One sentence.
    pub summary: String,
    /// JSON Schema of the arguments.
    pub arguments_schema: serde_json::Value,
    /// The plugin's own id of it, which differs where another plugin offers the same one.
    #[serde(skip)]
    own: OperationId,
    /// The part that only one of the two has.
    #[serde(flatten)]
    pub offer: Offer,
}

/// The part that only one kind of entry has.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "kebab-case")]
#[non_exhaustive]
pub enum Offer {
    /// An operation.
    Operation {
        /// The effect of repeating it.
        effects: Effects,
        /// JSON Schema 2020-12 of its data.
        data_schema: serde_json::Value,
    },
    /// A judge.
    Judge {
        /// Every outcome that it can produce; empty when it cannot list them.
        outcomes: Vec<Outcome>,
    },
}

impl Entry {
    /// For people: what repeating it does, or that it is a judge.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match &self.offer {
            Offer::Operation { effects, .. } => effects.as_str(),
            Offer::Judge { .. } => "judge",
        }
    }
}

/// Every operation and judge of a host.
#[derive(Default)]
pub struct Catalog {
    entries: IndexMap<OperationId, (Entry, usize)>,
    /// Ids that several plugins offer, so that those of typed plugins have the plugin's name in front.
    told_apart: HashSet<OperationId>,
    plugins: Vec<Loaded>,
    /// Plugins that were not loaded because they ask for more than their operator has agreed to.
    left_out: Vec<PluginError>,
    /// The targets of names in documents.
    tools: Tools,
    /// Tools that the project's profiles and defaults declare for sessions that declare none.
    session_tools: OnceLock<Vec<String>>,
    /// The operations that each turn is shown to.
    augmenters: OnceLock<Vec<String>>,
    /// The judge, or operation, that is asked before each transition of a pack.
    authorizer: OnceLock<Arc<str>>,
    widen: OnceLock<Box<dyn Widen>>,
    /// The catalogue itself, for the calls of its plugins' cells.
    this: OnceLock<Weak<Catalog>>,
    widened: Mutex<Widened>,
}

impl std::fmt::Debug for Catalog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Catalog").finish_non_exhaustive()
    }
}

impl Catalog {
    /// Lets the cells of its plugins call what the project has by name.
    pub(crate) fn connect(self: &Arc<Self>) {
        let _ = self.this.set(Arc::downgrade(self));
    }

    /// Sets the judge, or operation, that is asked before each transition of a pack.
    pub(crate) fn declare_authorizer(&self, id: &str) {
        let _ = self.authorizer.set(id.into());
    }

    /// The judge, or operation, that is asked before each transition of a pack.
    pub(crate) fn authorizer(&self) -> Option<&Arc<str>> {
        self.authorizer.get()
    }

    /// Sets the augmenters, and the tools that profiles and defaults declare for sessions that declare none.
    pub(crate) fn declare_session_tools(&self, settings: &SessionSettings) {
        let _ = self.augmenters.set(settings.augmenters.clone());
        let _ = self.session_tools.set(settings.declared_tools());
    }

    /// The operations that each turn is shown to before its model is asked.
    pub(crate) fn augmenters(&self) -> impl Iterator<Item = &str> {
        self.augmenters.get().into_iter().flatten().map(String::as_str)
    }

    /// The tools that a session may have by a profile or by default.
    pub(crate) fn session_tools(&self) -> impl Iterator<Item = &str> {
        self.session_tools.get().into_iter().flatten().map(String::as_str)
    }

    /// Returns `true` if a plugin's grants let it write, or reach the network or tools of the host: then a model gets
    /// its operations only where they are declared.
    pub(crate) fn reaches(&self, plugin: &str) -> bool {
        let granted = self.plugins().find(|known| known.name() == plugin).map(|known| known.policy().grants().clone());
        granted.is_some_and(|granted| {
            let writes = granted.files.values().any(|files| files.access == Access::ReadWrite);
            writes || !granted.tools.is_empty() || !granted.dangerous_preopens.is_empty()
        })
    }

    pub(crate) fn document_tool(&self, name: &str) -> Option<&DocumentTool> {
        self.tools.document_tool(name)
    }

    /// Returns the effect of repeating an operation; `None` for judges, and for what is not there.
    pub(crate) fn operation_effects(&self, name: &str) -> Option<Effects> {
        match self.resolve(name)?.0.offer {
            Offer::Operation { effects, .. } => Some(effects),
            Offer::Judge { .. } => None,
        }
    }

    /// A tool of the project or an operation, as plugins see it.
    pub(crate) fn description_of(&self, name: &str) -> Option<ToolDescription> {
        if let Some(document) = self.tools.document_tool(name) {
            return Some(document.tool.description().named(name));
        }
        let (entry, _) = self.resolve(name)?;
        matches!(entry.offer, Offer::Operation { .. }).then(|| {
            let schema = Value::from(shown::schema(&entry.arguments_schema));
            ToolDescription::new(name, shown::text(&entry.summary), schema)
        })
    }

    pub(crate) fn with_tools(tools: Tools) -> Self {
        Self { tools, ..Self::default() }
    }

    /// Adds everything that a plugin offers.
    ///
    /// Several components may implement one WIT interface: where two plugins offer the same id, operations of typed
    /// exports are offered as `plugin/function`, whichever plugin was added first.
    ///
    /// # Errors
    /// When another plugin offers the same id by `describe`: which one runs must not depend on an order.
    pub(crate) fn add(&mut self, loaded: Loaded) -> Result<(), Box<Diagnostic>> {
        let name: Arc<str> = loaded.plugin.name().into();
        let operations = loaded.plugin.operations().iter().map(|operation| Entry {
            id: operation.id.clone(),
            own: operation.id.clone(),
            plugin: name.clone(),
            summary: operation.summary.clone(),
            arguments_schema: operation.arguments_schema.clone(),
            offer: Offer::Operation { effects: operation.effects, data_schema: operation.data_schema.clone() },
        });
        let judges = loaded.plugin.judges().iter().map(|judge| Entry {
            id: judge.id.clone(),
            own: judge.id.clone(),
            plugin: name.clone(),
            summary: judge.summary.clone(),
            arguments_schema: judge.arguments_schema.clone(),
            offer: Offer::Judge { outcomes: judge.outcomes.to_vec() },
        });
        let entries: Vec<Entry> = operations.chain(judges).collect();
        let at = self.plugins.len();
        self.plugins.push(loaded);
        for entry in entries {
            self.enter(entry, at)?;
        }
        Ok(())
    }

    fn enter(&mut self, entry: Entry, at: usize) -> Result<(), Box<Diagnostic>> {
        let id = entry.id.clone();
        let other = self.entries.get(&id).filter(|(other, _)| other.plugin != entry.plugin).map(|(_, at)| *at);
        if let Some(other) = other
            && self.is_typed(other)
            && let Some((other, at)) = self.entries.shift_remove(&id)
        {
            self.told_apart.insert(id.clone());
            self.rename(other, at)?;
        } else if other.is_some() && self.is_typed(at) {
            self.told_apart.insert(id.clone());
        }
        if self.is_typed(at) && self.told_apart.contains(&id) {
            return self.rename(entry, at);
        }
        self.insert(entry, at)
    }

    fn is_typed(&self, plugin: usize) -> bool {
        self.plugins.get(plugin).is_some_and(|loaded| loaded.plugin.is_typed())
    }

    /// Enters an operation under the name of its plugin.
    fn rename(&mut self, mut entry: Entry, at: usize) -> Result<(), Box<Diagnostic>> {
        let (interface, function) = entry.own.as_str().split_once('/').unwrap_or_default();
        // A plugin's name may have capitals, `_` and `.`, and an operation's id may not.
        let space = entry.plugin.to_ascii_lowercase().replace(['_', '.'], "-");
        let short = format!("{space}/{function}").parse::<OperationId>();
        let long = format!("{space}/{interface}-{function}").parse::<OperationId>();
        let free = [short, long].into_iter().flatten().find(|id| !self.entries.contains_key(id));
        if let Some(free) = free {
            entry.id = free;
        }
        self.insert(entry, at)
    }

    fn insert(&mut self, entry: Entry, at: usize) -> Result<(), Box<Diagnostic>> {
        if let Some((other, _)) = self.entries.get(&entry.id) {
            let message =
                format!("`{}` is offered by plugin `{}` and by plugin `{}`", entry.id, other.plugin, entry.plugin);
            let collision = Diagnostic::error("duplicate-operation", message);
            return Err(Box::new(collision.help("remove one of the two plugins from the project")));
        }
        self.entries.insert(entry.id.clone(), (entry, at));
        Ok(())
    }

    /// Checks that no plugin offers what a tool of the program is called.
    pub(crate) fn check_document_tools(&self) -> Result<(), Duplicate> {
        for name in self.tools.of_program() {
            if let Some((entry, _)) = self.entries.get(name) {
                let other = format!("one of the plugin `{}`", entry.plugin);
                return Err(Duplicate::DocumentTool { name: name.to_owned(), other });
            }
        }
        Ok(())
    }

    pub(crate) fn leave_out(&mut self, plugin: PluginError) {
        self.left_out.push(plugin);
    }

    pub(crate) fn left_out(&self) -> &[PluginError] {
        &self.left_out
    }

    /// Everything, sorted by id.
    #[must_use]
    pub fn entries(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.values().map(|(entry, _)| entry).collect();
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        entries
    }

    /// The plugins.
    pub fn plugins(&self) -> impl Iterator<Item = &Plugin> {
        self.plugins.iter().map(|loaded| loaded.plugin.as_ref())
    }

    /// A plugin with its services.
    pub(crate) fn loaded(&self, name: &str) -> Option<Loaded> {
        self.plugins.iter().find(|loaded| loaded.plugin.name() == name).cloned()
    }

    /// An operation or a judge.
    ///
    /// # Errors
    /// With the id that was probably meant.
    pub fn find(&self, id: &str) -> Result<&Entry, Rejected> {
        self.entries.get(id).map(|(entry, _)| entry).ok_or_else(|| self.unknown(id).into())
    }

    /// Every name that a document may call: ids of operations and judges, and the tools that stand for one.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let tools = self.tools.names().filter(|tool| self.knows_name(tool));
        self.entries.keys().map(AsRef::as_ref).chain(tools).map(str::to_owned).collect()
    }

    /// The operation that a tool of the project is bound to although no plugin offers it.
    pub(crate) fn broken_binding<'a>(&'a self, tool: &'a str) -> Option<&'a str> {
        let target = self.tools.operation(tool);
        (target != tool && !self.entries.contains_key(target)).then_some(target)
    }

    /// The entry that a name refers to, tools of documents included.
    pub(crate) fn resolve(&self, name: &str) -> Option<(&Entry, &Loaded)> {
        let (entry, plugin) = self.entries.get(self.tools.operation(name))?;
        Some((entry, self.plugins.get(*plugin)?))
    }

    /// The tools of documents that stand for no operation of a plugin, as sessions have them.
    pub(crate) fn document_tools(&self) -> impl Iterator<Item = SessionTool> + '_ {
        self.tools.for_sessions()
    }

    /// The tools that documents may call by a name of the project, and whether they are there. Starts MCP servers.
    pub(crate) async fn tool_entries(&self) -> Vec<ToolEntry> {
        let describe = |id: &str| self.entries.get(id).map(|(entry, _)| entry.summary.clone());
        crate::tools::tools(&self.tools, describe).await
    }

    /// The tools of all MCP servers of the project, as they were accepted. Starts the servers.
    pub(crate) async fn gateway(&self) -> GatewayListing {
        gateway::listing(&self.tools).await
    }

    /// The standing of every MCP server of the project. Starts none.
    pub(crate) fn server_standing(&self) -> Vec<(Arc<str>, ServerStanding)> {
        gateway::standing(&self.tools)
    }

    /// A tool of an MCP server of the project.
    pub(crate) fn server_tool(&self, server: &str, tool: &str) -> Option<Arc<dyn Tool>> {
        gateway::tool(&self.tools, server, tool)
    }

    /// The MCP servers of the project, started and asked.
    pub(crate) async fn server_entries(&self) -> Vec<ServerEntry> {
        crate::tools::servers(&self.tools).await
    }

    /// Returns `true` if a document may name this: an operation, a judge, or a tool.
    #[must_use]
    pub fn knows_name(&self, name: &str) -> bool {
        self.tools.document_tool(name).is_some() || self.resolve(name).is_some()
    }
}
