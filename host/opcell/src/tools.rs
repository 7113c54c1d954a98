//! Tools that documents call and no plugin offers: the host's own, the embedder's, and those of MCP servers. Steps call them as
//! operations, and the models of sessions that declare them as tools.
//!
//! A document reaches exactly the names that the operator mapped in `[tools]`, or the embedder added; nothing is found by itself.

use crate::{
    config::tools::{McpServer, ToolTarget},
    http::{FetchError, HttpClient, HttpRule, request::FetchRequest},
    services::HostTool,
};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::{
    call,
    conversation::{ToolCallRequest, ToolSpec},
    ports::{Call, Effects, Failure, OpenedSession, ToolCall},
    receipt::{Denial, Provider},
};
use opcell_sandbox::host::{Context, ServiceError};
use opcell_session::tools::{ToolDescription, Toolbox};
use opcell_tools::mcp::Server;
use opcell_types::Value;
use opcell_workflow::ir;
use std::sync::Arc;

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

    /// Calls it once. May be dropped at any time.
    async fn call(&self, call: &Call) -> Result<Value, Failure>;
}

/// What names in documents stand for.
#[derive(Default)]
pub(crate) struct Tools {
    operations: IndexMap<String, String>,
    outside: IndexMap<String, Arc<dyn OutsideTool>>,
}

impl Tools {
    /// Puts a project's tools together; no server is started.
    pub(crate) fn new(
        targets: IndexMap<String, ToolTarget>,
        servers: IndexMap<String, McpServer>,
        http: &Arc<HttpClient>,
        own: &Arc<Toolbox>,
    ) -> Self {
        let servers: IndexMap<String, Arc<Server>> =
            servers.into_iter().map(|(name, config)| (name.clone(), Arc::new(Server::new(name, config)))).collect();
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
        tools
    }

    /// Adds a tool of the embedder under its own name.
    pub(crate) fn add(&mut self, tool: Arc<dyn HostTool>) {
        self.outside.insert(tool.description().name, Arc::new(Embedded(tool)));
    }

    /// The operation that a name stands for: itself unless mapped.
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

fn failed(reason: &str, message: String, retriable: bool) -> Failure {
    Failure { reason: reason.into(), message, details: None, retriable }
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

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        self.http.fetch(&self.rules, &call.arguments).await.map_err(|error| match error {
            FetchError::Denied { capability, rule, grant } => {
                let message = format!("{capability} is denied: {rule}");
                let (message, remedy) = match grant {
                    Some(_) => {
                        let remedy = format!("add a rule to `tools.{}.http` in opcell.toml", self.name);
                        (format!("{message}; to allow it, {remedy}"), remedy)
                    }
                    None => (message, "no setting allows it".to_owned()),
                };
                Denial { capability, rule, remedy }.failure("denied", message)
            }
            FetchError::Invalid(error) => failed("invalid-arguments", error.to_string(), false),
            FetchError::Secret(error) => failed("credential-missing", error.to_string(), false),
            FetchError::Failed { reason, message } => failed(reason, message, true),
        })
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
        let context = Context {
            run: call.context.run.clone(),
            step: call.context.step.clone(),
            visit: call.context.visit,
            attempt: call.context.attempt,
            idempotency_key: call.context.idempotency_key.clone(),
        };
        // No plugin asks: the document does.
        self.0.call("", call.arguments.clone(), &context).await.map_err(|error| match error {
            ServiceError::Denied(denial) => {
                let message = denial.to_string();
                let opcell_sandbox::Denial { capability, rule, remedy } = denial;
                Denial { capability, rule, remedy }.failure("denied", message)
            }
            ServiceError::Failed(failure) => Failure {
                reason: failure.reason.into(),
                message: failure.message,
                details: failure.details.map(Value::from),
                retriable: true,
            },
        })
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
            at_once: Vec::new(),
        };
        let asked = call::ToolCall { context: call.context.clone(), session: Arc::new(session), request };
        self.toolbox.call(&ToolCall::new(asked, call.cancel.clone())).await.result
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
        (format!("The tool `{}` of an MCP server.", self.tool), any_object())
    }

    fn provider(&self) -> Provider {
        Provider::Mcp(self.server.name().into())
    }

    async fn call(&self, call: &Call) -> Result<Value, Failure> {
        self.server.call(&self.tool, &call.arguments).await
    }
}
