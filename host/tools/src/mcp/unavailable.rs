//! Stands where a server would be, in a program that is built without MCP.

use super::McpServer;
use opcell_engine::ports::Failure;
use opcell_types::Value;

/// A server that is never started.
pub struct Server {
    name: String,
}

impl Server {
    /// A server that refuses every call.
    #[must_use]
    pub fn new(name: String, _config: McpServer) -> Self {
        Self { name }
    }

    /// Its name in the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn call(&self, _tool: &str, _arguments: &Value) -> Result<Value, Failure> {
        Err(Failure {
            reason: "not-built-in".into(),
            message: format!(
                "MCP server `{}` is not started: this program is built without MCP (feature `mcp`)",
                self.name
            ),
            details: None,
            retriable: false,
        })
    }
}
