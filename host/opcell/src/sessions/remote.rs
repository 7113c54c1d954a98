//! Tools of MCP servers for models: as the server describes them when the session opens, their arguments checked
//! against its schema.

use crate::tools::with_remedy;
use async_trait::async_trait;
use opcell_engine::{
    conversation::ToolSpec,
    ports::{Failure, Reply, ToolCall},
};
use opcell_session::tools::{SessionTool, ToolDescription};
use opcell_tools::mcp::{Binary, ListedTool, Server};
use opcell_types::Value;
use std::sync::Arc;

/// Steps that checking the arguments of one call may take: some hundredths of a second.
const MAX_STEPS: u64 = 5_000_000;

/// Problems of a call's arguments that are shown at once.
const PROBLEMS: usize = 5;

/// One tool of a server.
pub(super) struct RemoteTool {
    server: Arc<Server>,
    /// The server's own name of it.
    tool: String,
    description: ToolDescription,
}

impl RemoteTool {
    pub(super) fn new(server: Arc<Server>, tool: String, description: ToolDescription) -> Self {
        Self { server, tool, description }
    }

    async fn listed(&self) -> Result<ListedTool, Failure> {
        let listed = self.server.tool(&self.tool).await;
        listed.map_err(|failure| with_remedy(self.server.name(), failure))
    }

    async fn checked_call(&self, arguments: &Value) -> Result<Value, Failure> {
        let listed = self.listed().await?;
        let json = serde_json::Value::from(arguments);
        let violations = match listed.schema.check_cost(&json, MAX_STEPS) {
            Ok(()) => listed.schema.violations(&json, PROBLEMS),
            Err(too_large) => vec![too_large],
        };
        if !violations.is_empty() {
            let name = &self.description.spec.name;
            let message = format!("the arguments of `{name}` do not match its schema: {}", violations.join("; "));
            return Err(Failure::host("invalid-arguments", message));
        }
        self.server.call(&self.tool, arguments, Binary::Omit).await
    }
}

#[async_trait]
impl SessionTool for RemoteTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    async fn current(&self) -> Result<Option<ToolSpec>, Failure> {
        let listed = self.listed().await?;
        let name = self.description.spec.name.clone();
        Ok(Some(ToolSpec { name, description: listed.description, parameters: listed.parameters }))
    }

    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        Reply { result: self.checked_call(&call.request.arguments).await, receipt: None }
    }
}
