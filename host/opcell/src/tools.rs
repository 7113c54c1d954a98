//! Tools that documents call and no plugin offers: the host's own, the embedder's, and those of MCP servers. Steps call
//! them as operations, and the models of sessions that declare them as tools.
//!
//! A document reaches exactly the names that the operator mapped in `[tools]`, or the embedder added; nothing is found
//! by itself.

use crate::{
    config::{
        lock::Lock,
        tools::{McpServer, ToolTarget},
    },
    consent::SameAsConsented,
    http::HttpClient,
    services::HTTP_FETCH,
};
use indexmap::IndexMap;
use opcell_engine::tool::Tool;
use opcell_session::tools::{CheckedTool, SessionTool, ToolError};
use opcell_tools::mcp::{AcceptedTools, Server};
use opcell_types::denial::HttpScope;
use std::{collections::BTreeMap, sync::Arc};

mod accepted;
mod fetch;
mod inventory;
mod offered;
mod remote;

pub(crate) use accepted::{LockedTools, with_remedy};
pub(crate) use fetch::Fetch;
pub use inventory::{ChangedTool, ServerEntry, ServerOffer, ServerTool, ToolEntry};
pub(crate) use inventory::{servers, tools};
pub use offered::matches;
use offered::{Offered, Part};
pub use opcell_tools::mcp::{ConfinementReport, confinement};
pub(crate) use remote::Remote;

/// The most that a tool of the host gives a step, in bytes: what a plugin's operation and a tool of an MCP server may,
/// too.
const STEP_RESULT: usize = 4 << 20;

/// A tool that a document calls by a name of its own.
#[derive(Clone)]
pub(crate) struct DocumentTool {
    /// The tool that is called.
    pub tool: Arc<dyn Tool>,
    origin: Origin,
}

/// The origin of a tool.
#[derive(Clone)]
enum Origin {
    /// One of the host's own tools, by its name.
    Host(String),
    /// The embedder.
    Embedder,
    /// A tool of an MCP server, by the server's own name of it.
    Mcp(Arc<Server>, String),
    /// Resources or prompts of an MCP server, with what is read, for people.
    Offers(String),
}

impl DocumentTool {
    /// Its implementation, for people: `host http.fetch`.
    pub(crate) fn target(&self) -> String {
        match &self.origin {
            Origin::Host(name) => format!("host {name}"),
            Origin::Embedder => "host".to_owned(),
            Origin::Mcp(server, tool) => format!("mcp {}/{tool}", server.name()),
            Origin::Offers(what) => format!("mcp {what}"),
        }
    }

    /// The MCP server that has it, with the server's own name of it.
    pub(crate) fn remote(&self) -> Option<(&Arc<Server>, &str)> {
        match &self.origin {
            Origin::Mcp(server, tool) => Some((server, tool)),
            Origin::Host(_) | Origin::Embedder | Origin::Offers(_) => None,
        }
    }
}

/// The targets of names in documents.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    operations: IndexMap<String, String>,
    of_documents: IndexMap<String, DocumentTool>,
    /// Every server of the project, whether a tool is mapped to it or not.
    servers: IndexMap<String, Arc<Server>>,
    accepted: Option<Arc<LockedTools>>,
}

/// A tool that reads resources or prompts of a server.
fn offered(
    server: &Arc<Server>,
    part: Part,
    patterns: Vec<String>,
    name: &str,
) -> Result<(Arc<dyn Tool>, Origin), ToolError> {
    let of = match part {
        Part::Resources => "resources",
        Part::Prompts => "prompts",
    };
    let origin = Origin::Offers(format!("{} {of} {}", server.name(), patterns.join(" ")));
    let most = usize::try_from(server.config().result_bytes).unwrap_or(usize::MAX);
    let tool = CheckedTool::new(Arc::new(Offered::new(server.clone(), part, patterns, name)), most)?;
    Ok((Arc::new(tool), origin))
}

impl Tools {
    /// Takes over what a lock accepts of the servers' tools, and returns the servers whose tools differ.
    pub(crate) fn renew(&self, lock: &Lock) -> Vec<String> {
        self.accepted.as_ref().map(|accepted| accepted.renew(lock)).unwrap_or_default()
    }

    /// Puts a project's tools together; no server is started. `own` are the tools that the host's sessions have.
    ///
    /// # Errors
    /// When a tool of the host cannot be used.
    pub(crate) fn new(
        targets: IndexMap<String, ToolTarget>,
        servers: IndexMap<String, McpServer>,
        http: &Arc<HttpClient>,
        own: &[SessionTool],
        pins: Option<LockedTools>,
        mut checks: BTreeMap<String, SameAsConsented>,
    ) -> Result<Self, ToolError> {
        let accepted = pins.map(Arc::new);
        let pins = accepted.clone().map(|pins| -> Arc<dyn AcceptedTools> { pins });
        let server = |(name, config): (String, McpServer)| {
            let server = Server::new(name.clone(), config);
            let server = match checks.remove(&name) {
                Some(check) => server.checked(Arc::new(check)),
                None => server,
            };
            (name, Arc::new(pins.iter().fold(server, |server, pins| server.pinned(pins.clone()))))
        };
        let servers: IndexMap<String, Arc<Server>> = servers.into_iter().map(server).collect();
        let mut tools = Self { accepted, ..Self::default() };
        for (name, target) in targets {
            let (tool, origin): (Arc<dyn Tool>, _) = match target {
                ToolTarget::Operation(target) => match own.iter().find(|tool| tool.name() == target) {
                    Some(own) => (Arc::new(CheckedTool::new(own.tool.clone(), STEP_RESULT)?), Origin::Host(target)),
                    None => {
                        tools.operations.insert(name, target);
                        continue;
                    }
                },
                ToolTarget::Host { http: rules, .. } => {
                    let scope = HttpScope::Tool(name.as_str().into());
                    (Arc::new(Fetch::new(http.clone(), rules, scope)), Origin::Host(HTTP_FETCH.to_owned()))
                }
                ToolTarget::Mcp { server, tool } => {
                    let Some(server) = servers.get(&server) else { continue };
                    let remote = Remote::new(server.clone(), tool.clone(), &name);
                    (Arc::new(remote), Origin::Mcp(server.clone(), tool))
                }
                ToolTarget::McpResources { server, uris: patterns } => {
                    let Some(server) = servers.get(&server) else { continue };
                    offered(server, Part::Resources, patterns, &name)?
                }
                ToolTarget::McpPrompts { server, names: patterns } => {
                    let Some(server) = servers.get(&server) else { continue };
                    offered(server, Part::Prompts, patterns, &name)?
                }
            };
            tools.of_documents.insert(name, DocumentTool { tool, origin });
        }
        tools.servers = servers;
        Ok(tools)
    }

    /// Adds a tool of the embedder under its own name.
    ///
    /// # Errors
    /// When the schema of its arguments cannot be used.
    pub(crate) fn add(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolError> {
        let name = tool.description().name.clone();
        // The embedder knows how much a result of its own may have.
        let tool: Arc<dyn Tool> = Arc::new(CheckedTool::new(tool, usize::MAX)?);
        self.of_documents.insert(name, DocumentTool { tool, origin: Origin::Embedder });
        Ok(())
    }

    /// The operation that a name refers to: itself unless mapped.
    pub(crate) fn operation<'a>(&'a self, name: &'a str) -> &'a str {
        self.operations.get(name).map_or(name, String::as_str)
    }

    /// The tool that a name stands for already, for people.
    pub(crate) fn origin_of(&self, name: &str) -> Option<String> {
        let mapped = self.operations.contains_key(name).then(|| "one of the project".to_owned());
        mapped.or_else(|| {
            Some(match self.of_documents.get(name)?.origin {
                Origin::Embedder => "another one of the program".to_owned(),
                Origin::Host(_) | Origin::Mcp(..) | Origin::Offers(_) => "one of the project".to_owned(),
            })
        })
    }

    /// The names of the program's own tools.
    pub(crate) fn of_program(&self) -> impl Iterator<Item = &str> {
        let own = self.of_documents.iter().filter(|(_, known)| matches!(known.origin, Origin::Embedder));
        own.map(|(name, _)| name.as_str())
    }

    pub(crate) fn document_tool(&self, name: &str) -> Option<&DocumentTool> {
        self.of_documents.get(name)
    }

    /// The tools that stand for no operation of a plugin, as a session that declares one has it.
    pub(crate) fn for_sessions(&self) -> impl Iterator<Item = SessionTool> + '_ {
        self.of_documents.iter().map(|(name, known)| SessionTool::new(known.tool.clone()).named(name))
    }

    /// Every server of the project.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.servers.values()
    }

    /// Every name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.operations.keys().chain(self.of_documents.keys()).map(String::as_str)
    }
}
