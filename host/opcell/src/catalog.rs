//! Every operation and judge of a host's plugins, by id; the engine's [`Operations`] and [`Judges`] performed in cells.

use crate::{
    config::{Grant, SessionSettings},
    gateway::{self, GatewayListing, ServerStanding},
    host::{Duplicate, PluginError},
    http::{HttpRule, Method},
    inner_calls::CellServices,
    replay::Record,
    report::Rejected,
    services::{HTTP_FETCH, LogSink, PluginServices},
    tenants::InTenant,
    tools::{DocumentTool, ServerEntry, ToolEntry, Tools},
};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::effect::AskedBecause;
use opcell_engine::inner::InnerJournal;
use opcell_engine::ports::{Call, Effects, Failure, Judges, Operations, Reply, Success, Verdict};
use opcell_engine::receipt::{self, CallReceipt, LazyReceipt, Receipt};
use opcell_engine::tool::{Tool, ToolInput};
use opcell_ir::{Diagnostic, diagnostic::did_you_mean, ir::CapabilityNarrowing, names::Outcome};
use opcell_sandbox::{Access, CellRequest, CellResult, HostServices, LoadError, Manifest, Narrowing, Plugin, Tape};
use opcell_schema::shown;
use opcell_session::tools::SessionTool;
use opcell_types::{
    FollowUp, OperationId, ToolDescription, Value,
    denial::{Capability, HttpScope, Remedy},
};
use serde::Serialize;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, OnceLock, PoisonError, Weak},
    time::{Duration, Instant},
};

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

impl Loaded {
    /// Returns `true` if the calls of tools are all that its cells change, so that a cell can be run again with their
    /// answers. Stores answer an attempt that is made again as they did before; files do not, and the requests of
    /// `wasi:http` are made side by side.
    fn is_resumable(&self) -> bool {
        let granted = self.plugin.policy().grants();
        let writes = granted.files.values().any(|files| files.access == Access::ReadWrite);
        let requests = self.plugin.surface().imports.iter().any(|import| import.starts_with("wasi:http/"));
        !(writes || requests || granted.tools.is_empty() || !granted.dangerous_preopens.is_empty())
    }
}

/// Loads a plugin with more than its project grants it.
#[async_trait]
pub(crate) trait Widen: Send + Sync {
    /// The plugin with what it was granted at a person's word.
    async fn widened(&self, plugin: &str, granted: &[Remedy]) -> Result<Loaded, String>;

    /// The plugin as it serves a tenant.
    async fn in_tenant(&self, loaded: &Loaded, tenant: &str) -> Result<Arc<InTenant>, Failure>;
}

/// Widened plugins that are kept; the one that was made first makes room for another.
const MAX_WIDENED: usize = 64;

/// Operations that are shown in the place of one.
const SHARED_NAMES: usize = 4;

/// Plugins with more than their project grants them, by name and what was granted, in the order in which they were made.
type Widened = IndexMap<(Arc<str>, Vec<Remedy>), Loaded>;

/// Returns the grant that a run can be given while it lasts: one that needs nothing but a name. A directory needs a
/// path, and a private network more than a word: both are for the project file.
pub(crate) fn granting(remedy: &Remedy) -> Option<Grant> {
    match remedy {
        Remedy::Grant { capability: Capability::Tool, name, .. } => Some(Grant::tool(name)),
        Remedy::Grant { capability: Capability::Skill, name, .. } => Some(Grant::skill(name)),
        Remedy::Grant { capability: Capability::Store, name, .. } => Some(Grant::store(name)),
        Remedy::ApproveCall { tool, arguments, .. } => Some(Grant::Call(tool.clone(), arguments.clone())),
        Remedy::AllowHttp { scope: HttpScope::Plugin(_), origin, method, private: false } => {
            let origin = origin.parse().ok()?;
            let methods = match method {
                Some(method) => vec![method.parse().ok()?],
                None => vec![Method::GET, Method::HEAD],
            };
            Some(Grant::Http(HttpRule::new(vec![origin], methods)))
        }
        _ => None,
    }
}

/// The receipt of a cell.
#[derive(Debug)]
pub(crate) struct CellReceipt(pub(crate) opcell_sandbox::Receipt);

impl LazyReceipt for CellReceipt {
    fn to_value(&self) -> Value {
        // A receipt is made of texts and numbers under names; none of them is refused.
        Value::of(&self.0).unwrap_or_default()
    }

    fn host_calls(&self) -> Option<u64> {
        Some(self.0.host_calls.total().saturating_add(self.0.touched.inner_host_calls))
    }
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

    /// A plugin's sentence about this entry, with the name that it is called by.
    fn under_offered_name(&self, sentence: &str) -> String {
        sentence.replace(&format!("`{}`", self.own), &format!("`{}`", self.id))
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
    /// Sets the way in which plugins are loaded with more than their project grants them.
    pub(crate) fn widen_with(&self, widen: impl Widen + 'static) {
        // A catalogue belongs to one host, which says so once.
        let _ = self.widen.set(Box::new(widen));
    }

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

    /// The services of one cell.
    fn services(&self, own: &Arc<PluginServices>, inner: Option<&InnerJournal>) -> Arc<dyn HostServices> {
        let has_others = !own.project.is_empty() || inner.is_some();
        match self.this.get().filter(|_| has_others).and_then(Weak::upgrade) {
            Some(this) => Arc::new(CellServices::new(own.clone(), this, inner.cloned())),
            None => own.clone(),
        }
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

    /// The plugin with what it was granted since the run began.
    async fn widened(&self, plugin: &str, granted: &[Remedy]) -> Result<Loaded, Failure> {
        let key = (Arc::from(plugin), granted.to_vec());
        if let Some(loaded) = self.widened.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(loaded.clone());
        }
        let cannot =
            |why: String| Failure::host("not-granted", format!("plugin `{plugin}` cannot be granted this: {why}"));
        let widen = self.widen.get().ok_or_else(|| cannot("the host loads no plugins".to_owned()))?;
        let loaded = widen.widened(plugin, granted).await.map_err(cannot)?;
        // It is loaded from its file, which may hold another version by now.
        let own = self.loaded(plugin).map(|own| own.plugin.digest() == loaded.plugin.digest());
        if own == Some(false) {
            return Err(cannot("its file holds another version than the one that the run began with".to_owned()));
        }
        let mut widened = self.widened.lock().unwrap_or_else(PoisonError::into_inner);
        if widened.len() >= MAX_WIDENED {
            widened.shift_remove_index(0);
        }
        widened.insert(key, loaded.clone());
        Ok(loaded)
    }

    async fn in_tenant(&self, loaded: &Loaded, tenant: &str) -> Result<Arc<InTenant>, Failure> {
        match self.widen.get() {
            Some(widen) => widen.in_tenant(loaded, tenant).await,
            None => Err(Failure::host("unknown-tenant", "this host has no tenants")),
        }
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
        let short = format!("{}/{function}", entry.plugin).to_ascii_lowercase().parse::<OperationId>();
        let long = format!("{}/{interface}-{function}", entry.plugin).to_ascii_lowercase().parse::<OperationId>();
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

    pub(crate) fn unknown(&self, id: &str) -> Diagnostic {
        let mut diagnostic = Diagnostic::error("unknown-operation", format!("no plugin of the project offers `{id}`"));
        diagnostic.help = match did_you_mean(id, self.entries.keys().map(AsRef::as_ref)) {
            Some(meant) => Some(format!("did you mean `{meant}`?")),
            None => self.left_out_help().or_else(|| self.shared_help(id)),
        };
        diagnostic
    }

    /// An operation of an interface is named after its plugin as soon as a second plugin offers the interface.
    fn shared_help(&self, id: &str) -> Option<String> {
        let (_, name) = id.rsplit_once('/')?;
        let is_same = |known: &&str| known.rsplit_once('/').is_some_and(|(_, known)| known == name);
        let known: Vec<&str> = self.entries.keys().map(AsRef::as_ref).filter(is_same).take(SHARED_NAMES).collect();
        (known.len() > 1).then(|| {
            format!(
                "it is offered as `{}`: where several plugins offer an interface, its operations are named after them",
                known.join("` and `")
            )
        })
    }

    /// An operation that is not there may be one of a plugin that was left out: no one has asked it what it offers.
    pub(crate) fn left_out_help(&self) -> Option<String> {
        let named = |is: fn(&LoadError) -> bool| -> Vec<String> {
            let left_out = self.left_out.iter().filter(|left_out| is(&left_out.error));
            left_out.map(|left_out| format!("`{}`", left_out.plugin)).collect()
        };
        let said = |names: Vec<String>, one: &str, several: &str| match names.as_slice() {
            [] => None,
            [name] => Some(format!("plugin {name} is not loaded, because {one}")),
            names => Some(format!("plugins {} are not loaded, because {several}", names.join(", "))),
        };
        let (diff, accept) = (FollowUp::DiffPlugin(None), FollowUp::AcceptPlugin(None));
        let accepted = format!("{diff} shows what has changed, and {accept} accepts it");
        let changed = said(
            named(|error| matches!(error, LoadError::Changed { .. })),
            &format!("its file is not the one that was agreed to; {accepted}"),
            &format!("their files are not those that were agreed to; {accepted}"),
        );
        let asks = said(
            named(|error| matches!(error, LoadError::AsksForMore(_))),
            "it asks for more than was agreed to",
            "they ask for more than was agreed to",
        );
        let unusable = said(
            named(LoadError::is_of_component),
            &format!("its component cannot be used; {} shows why", FollowUp::CheckProject),
            &format!("their components cannot be used; {} shows why", FollowUp::CheckProject),
        );
        let reasons: Vec<String> = [changed, asks, unusable].into_iter().flatten().collect();
        (!reasons.is_empty()).then(|| reasons.join("; "))
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

    /// Calls a tool that runs in no cell.
    pub(crate) async fn call_tool(&self, tool: &dyn Tool, call: Call) -> Reply<Success> {
        let input = ToolInput::of_step(&call);
        let began = Instant::now();
        let Reply { result, receipt } = tokio::select! {
            reply = input.call(tool) => reply,
            () = call.cancel.cancelled() => Err(Failure::host("cancelled", "the call was cancelled")).into(),
            () = out_of_time(call.timeout_ms) => {
                let ms = call.timeout_ms.unwrap_or_default();
                let message = format!("the call has not ended within {ms} ms");
                Err(Failure::host("timeout", message).retriable()).into()
            }
        };
        let receipt = CallReceipt::of_tool(&call.id, Some(tool.provider()), &call.arguments)
            .ended(began.elapsed(), result.as_ref().map(receipt::bytes), receipt)
            .touching(call.touched.so_far())
            .to_receipt();
        Reply { result: result.map(|data| Success { data, summary: None, details: None }), receipt }
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

    /// Runs one cell and turns what comes out into the engine's words.
    async fn cell<T, U>(
        &self,
        call: &Call,
        run: impl AsyncFnOnce(&Plugin, CellRequest<'_>) -> CellResult<T>,
        turn: fn(T) -> U,
    ) -> Reply<U> {
        let Some((entry, loaded)) = self.resolve(&call.id) else {
            let unknown = self.unknown(&call.id);
            return Reply { result: Err(Failure::host(unknown.code, unknown.message)), receipt: None };
        };
        // What was granted to another plugin of the run is not this one's, and what a journal says grants nothing to a
        // plugin whose project does not let it.
        let name = loaded.plugin.name();
        let is_its = |remedy: &&Remedy| (loaded.asks || is_of_call(remedy)) && remedy.plugin() == Some(name);
        let granted: Vec<Remedy> = call.granted.iter().filter(is_its).cloned().collect();
        let widened = match granted.as_slice() {
            [] => None,
            granted => match self.widened(name, granted).await {
                Ok(widened) => Some(widened),
                Err(failure) => return Reply { result: Err(failure), receipt: None },
            },
        };
        let loaded = widened.as_ref().unwrap_or(loaded);
        let in_tenant = match &call.context.tenant {
            None => None,
            Some(_) if widened.is_some() => {
                let message = "a person's grant applies to the project, and this run belongs to a tenant";
                return Err(Failure::host("not-granted", message)).into();
            }
            Some(tenant) => match self.in_tenant(loaded, tenant).await {
                Ok(found) => Some(found),
                Err(failure) => return Err(failure).into(),
            },
        };
        let arguments = call.arguments.to_json();
        let request = CellRequest {
            id: &entry.own,
            arguments: &arguments,
            value: Some(&call.arguments),
            context: call.context.clone(),
            narrowing: call.capabilities.as_deref().map(narrowing),
            timeout: call.timeout_ms.map(Duration::from_millis),
            cancel: call.cancel.clone(),
            host: self
                .services(in_tenant.as_ref().map_or(&loaded.services, |tenant| &tenant.services), call.inner.as_ref()),
            within: in_tenant.map(|tenant| tenant.context.clone()),
            tape: if loaded.recorded { Tape::Record } else { Tape::Off },
            timeline: call.inner.as_ref().map(InnerJournal::timeline),
        };
        let CellResult { result, mut receipt } = run(&loaded.plugin, request).await;
        // The plugin knows its operation by its own name only.
        let is_renamed = entry.id != entry.own;
        if is_renamed {
            receipt.operation = entry.id.shared().clone();
        }
        if let Some(sink) = &loaded.sink {
            sink.ended(&call.context, &receipt);
        }
        tracing::debug!(
            plugin = %receipt.plugin, operation = %receipt.operation, duration_us = receipt.duration_us,
            error = receipt.error.as_deref(), "called a plugin"
        );
        let recording = receipt.recording.take();
        let mut receipt = Receipt::deferred(CellReceipt(receipt));
        if let Some(recording) = recording {
            let judge = matches!(entry.offer, Offer::Judge { .. });
            if let Some(record) = Record::of(entry.own.shared(), judge, &call.of, *recording).to_value() {
                receipt = receipt.with_record(record);
            }
        }
        let result = result.map(turn).map_err(|error| {
            let failure = Failure::from(error);
            match is_renamed {
                true => Failure { message: entry.under_offered_name(&failure.message), ..failure },
                false => failure,
            }
        });
        Reply { result, receipt: Some(receipt) }
    }
}

#[async_trait]
impl Operations for Catalog {
    fn effects(&self, operation: &str) -> Option<Effects> {
        if let Some(document_tool) = self.tools.document_tool(operation) {
            return Some(document_tool.tool.effects());
        }
        self.operation_effects(operation)
    }

    fn asks(
        &self,
        operation: &str,
        refused: &Failure,
        receipt: Option<&Receipt>,
        is_resumed: bool,
    ) -> Option<AskedBecause> {
        let (entry, loaded) = self.resolve(operation)?;
        let denial = refused.denial.as_ref().filter(|denial| loaded.asks || is_of_call(&denial.remedy))?;
        granting(&denial.remedy).filter(|_| denial.remedy.plugin() == Some(loaded.plugin.name()))?;
        let once = matches!(entry.offer, Offer::Operation { effects: Effects::Once, .. });
        (!once || is_resumed || has_done_nothing(receipt?)).then(|| reason(loaded.plugin.manifest(), &denial.remedy))
    }

    fn is_resumable(&self, operation: &str) -> bool {
        let is_tool = self.tools.document_tool(operation).is_some();
        !is_tool && self.resolve(operation).is_some_and(|(_, loaded)| loaded.is_resumable())
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        if let Some(DocumentTool { tool, .. }) = self.tools.document_tool(&call.id) {
            return self.call_tool(tool.as_ref(), call).await;
        }
        self.cell(
            &call,
            async |plugin, request| plugin.invoke(request).await,
            |success| Success { data: success.data, summary: success.summary, details: success.details },
        )
        .await
    }
}

#[async_trait]
impl Judges for Catalog {
    fn knows(&self, judge: &str) -> bool {
        self.resolve(judge).is_some_and(|(entry, _)| matches!(entry.offer, Offer::Judge { .. }))
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        self.cell(&call, async |plugin, request| plugin.judge(request).await, |verdict| verdict).await
    }
}

/// Returns `true` if a person approves one call of a tool, which the project lets the plugin call.
fn is_of_call(remedy: &Remedy) -> bool {
    matches!(remedy, Remedy::ApproveCall { .. })
}

/// Why a plugin says that it needs something.
fn reason(manifest: &Manifest, remedy: &Remedy) -> Arc<str> {
    let (requests, name) = match remedy {
        Remedy::Grant { capability: Capability::Skill, name, .. } => (&manifest.skills, name.as_str()),
        Remedy::Grant { capability: Capability::Store, name, .. } => (&manifest.stores, name.as_str()),
        Remedy::Grant { name, .. } | Remedy::ApproveCall { tool: name, .. } => (&manifest.tools, name.as_str()),
        _ => (&manifest.tools, HTTP_FETCH),
    };
    let request = requests.iter().find(|request| request.name == name);
    request.map_or_else(|| "".into(), |request| request.reason.as_str().into())
}

/// Returns `true` if a cell reached nothing, so that calling it again repeats nothing: requests, files and keys are
/// touched, every call of a tool was refused, and the rest (its log, clocks, randomness, skills) changes nothing.
fn has_done_nothing(receipt: &Receipt) -> bool {
    let denials = receipt.get("denials").and_then(Value::as_array).map_or(0, <[Value]>::len) as u64;
    let called = match receipt.get("host-calls").and_then(|calls| calls.get("tools")) {
        Some(Value::Number(calls)) => calls.as_u64().unwrap_or(u64::MAX),
        _ => 0,
    };
    receipt.get("touched").is_none() && receipt.host_calls().is_some() && called <= denials
}

/// Ends when a call's time is up; never, for one without.
async fn out_of_time(timeout_ms: Option<u64>) {
    match timeout_ms {
        Some(ms) => tokio::time::sleep(Duration::from_millis(ms)).await,
        None => std::future::pending().await,
    }
}

fn narrowing(capabilities: &CapabilityNarrowing) -> Narrowing {
    let set = |names: &Option<Vec<String>>| names.as_ref().map(|names| names.iter().cloned().collect());
    let CapabilityNarrowing { tools, skills, files, stores } = capabilities;
    Narrowing { tools: set(tools), skills: set(skills), files: set(files), stores: set(stores) }
}
