//! Tools that documents call and no plugin offers: the host's own, the embedder's, and those of MCP servers. Steps call
//! them as operations, and the models of sessions that declare them as tools.
//!
//! A document reaches exactly the names that the operator mapped in `[tools]`, or the embedder added; nothing is found
//! by itself.

use crate::{
    config::tools::{McpServer, ToolTarget},
    http::{HttpClient, HttpRule, request::FetchRequest},
    services::{HTTP_FETCH, HostTool},
};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::{
    call,
    conversation::{ToolCallRequest, ToolSpec},
    ports::{Call, Effects, Failure, OpenedSession, ToolCall},
    receipt::Provider,
};
use opcell_session::tools::{ToolDescription, Toolbox};
use opcell_tools::mcp::{Binary, Pins, Server};
use opcell_types::{Value, denial::HttpScope};
use opcell_workflow::ir;
use std::sync::Arc;

mod inventory;
mod pins;

pub use inventory::{ServerEntry, ServerTool, ToolEntry};
pub(crate) use inventory::{servers, tools};
pub(crate) use pins::{LockPins, with_remedy};

/// A tool outside of any cell.
#[async_trait]
pub(crate) trait OutsideTool: Send + Sync {
    /// What it does and a JSON Schema of its arguments, for models whose document does not say.
    fn describe(&self) -> (String, Value);

    /// What repeating a call does.
    fn effects(&self) -> Effects {
        Effects::Once
    }

    /// Who performs it.
    fn provider(&self) -> Provider {
        Provider::Host
    }

    /// Its implementation, for people: `host http.fetch`.
    fn target(&self) -> String {
        "host".to_owned()
    }

    /// The MCP server that has it, with the server's own name of it.
    fn remote(&self) -> Option<(&Arc<Server>, &str)> {
        None
    }

    /// Calls it once. May be dropped at any time.
    async fn call(&self, call: &Call) -> Result<Value, Failure>;
}

/// What names in documents stand for.
#[derive(Clone, Default)]
pub(crate) struct Tools {
    operations: IndexMap<String, String>,
    outside: IndexMap<String, Arc<dyn OutsideTool>>,
    /// Every server of the project, whether a tool is mapped to it or not.
    servers: IndexMap<String, Arc<Server>>,
}

impl Tools {
    /// Puts a project's tools together; no server is started.
    pub(crate) fn new(
        targets: IndexMap<String, ToolTarget>,
        servers: IndexMap<String, McpServer>,
        http: &Arc<HttpClient>,
        own: &Arc<Toolbox>,
        pins: Option<LockPins>,
    ) -> Self {
        let pins = pins.map(|pins| -> Arc<dyn Pins> { Arc::new(pins) });
        let server = |(name, config): (String, McpServer)| {
            let server = Server::new(name.clone(), config);
            (name, Arc::new(pins.iter().fold(server, |server, pins| server.pinned(pins.clone()))))
        };
        let servers: IndexMap<String, Arc<Server>> = servers.into_iter().map(server).collect();
        let mut tools = Self::default();
        for (name, target) in targets {
            match target {
                ToolTarget::Operation(target) => match own.find(&target) {
                    Some(tool) => {
                        let own = Own { tool: tool.clone(), toolbox: own.clone() };
                        tools.outside.insert(name, Arc::new(own));
                    }
                    None => drop(tools.operations.insert(name, target)),
                },
                ToolTarget::Host { http: rules, .. } => {
                    let fetch = Fetch { name: name.clone(), http: http.clone(), rules };
                    tools.outside.insert(name, Arc::new(fetch));
                }
                ToolTarget::Mcp { server, tool } => {
                    if let Some(server) = servers.get(&server) {
                        tools.outside.insert(name, Arc::new(Remote { server: server.clone(), tool }));
                    }
                }
            }
        }
        tools.servers = servers;
        tools
    }

    /// Adds a tool of the embedder under its own name.
    pub(crate) fn add(&mut self, tool: Arc<dyn HostTool>) {
        self.outside.insert(tool.description().name, Arc::new(Embedded(tool)));
    }

    /// The operation that a name refers to: itself unless mapped.
    pub(crate) fn operation<'a>(&'a self, name: &'a str) -> &'a str {
        self.operations.get(name).map_or(name, String::as_str)
    }

    pub(crate) fn outside(&self, name: &str) -> Option<&Arc<dyn OutsideTool>> {
        self.outside.get(name)
    }

    /// The tools that stand for no operation of a plugin, as a session that declares one sees it.
    pub(crate) fn descriptions(&self) -> impl Iterator<Item = ToolDescription> + '_ {
        self.outside.iter().map(|(name, tool)| {
            let (description, parameters) = tool.describe();
            ToolDescription {
                spec: ToolSpec { name: name.clone(), description, parameters },
                lambda: None,
                effects: tool.effects(),
                provider: tool.provider(),
                extension: None,
                by_declaration: true,
            }
        })
    }

    /// Every name.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.operations.keys().chain(self.outside.keys()).map(String::as_str)
    }
}

/// The host's `http.fetch` under rules of its own.
struct Fetch {
    name: String,
    http: Arc<HttpClient>,
    rules: Vec<HttpRule>,
}

#[async_trait]
impl OutsideTool for Fetch {
    fn describe(&self) -> (String, Value) {
        let summary = "Performs an HTTP request to a host that the operator allows.".to_owned();
        (summary, Value::from_json(FetchRequest::SCHEMA).unwrap_or_default())
    }

    fn target(&self) -> String {
        format!("host {HTTP_FETCH}")
    }

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let scope = HttpScope::Tool(self.name.as_str().into());
        let fetched = self.http.fetch(&self.rules, &call.arguments, &call.touched).await;
        fetched.map_err(|error| error.into_failure(&scope))
    }
}

/// A tool of the embedder.
struct Embedded(Arc<dyn HostTool>);

#[async_trait]
impl OutsideTool for Embedded {
    fn describe(&self) -> (String, Value) {
        let description = self.0.description();
        (description.summary, Value::from_json(&description.arguments_schema).unwrap_or_else(|_| any_object()))
    }

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        // No plugin asks: the document does.
        self.0.call("", call.arguments.clone(), &call.context).await
    }
}

/// A tool of the host that its sessions have too, such as `read`.
struct Own {
    tool: ToolDescription,
    toolbox: Arc<Toolbox>,
}

#[async_trait]
impl OutsideTool for Own {
    fn describe(&self) -> (String, Value) {
        (self.tool.spec.description.clone(), self.tool.spec.parameters.clone())
    }

    fn target(&self) -> String {
        format!("host {}", self.tool.spec.name)
    }

    fn effects(&self) -> Effects {
        self.tool.effects
    }

    /// As a session would call it that has this one tool and nothing else.
    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let spec = self.tool.spec.clone();
        let request = ToolCallRequest { id: String::new(), name: spec.name.clone(), arguments: call.arguments.clone() };
        let session = OpenedSession {
            system: String::new(),
            sections: Value::Null,
            models: Vec::new(),
            tools: vec![spec],
            settings: ir::Session::default(),
            parallel_tools: Vec::new(),
            narrowing: None,
        };
        let left = ir::RunLimits::default();
        let asked = call::ToolCall { context: call.context.clone(), session: Arc::new(session), request, left };
        let asked = ToolCall { touched: call.touched.clone(), ..ToolCall::new(asked, call.cancel.clone()) };
        self.toolbox.call(&asked).await.result
    }
}

fn any_object() -> Value {
    Value::object([("type", Value::from("object"))])
}

/// A tool of an MCP server.
struct Remote {
    server: Arc<Server>,
    tool: String,
}

#[async_trait]
impl OutsideTool for Remote {
    fn describe(&self) -> (String, Value) {
        let about = format!(
            "The tool `{}` of MCP server `{}`, which describes it when a session opens.",
            self.tool,
            self.server.name()
        );
        (about, any_object())
    }

    fn provider(&self) -> Provider {
        Provider::Mcp(self.server.name().into())
    }

    fn remote(&self) -> Option<(&Arc<Server>, &str)> {
        Some((&self.server, &self.tool))
    }

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        let called = self.server.call(&self.tool, &call.arguments, Binary::Keep).await;
        called.map_err(|failure| with_remedy(self.server.name(), failure))
    }
}
