//! Stands where a server would be, in a program that is built without MCP.

use super::{
    AcceptedTools, Binary, CallOptions, Called, ListedTool, Listing, McpServer, Offers, ServerStanding, ServerState,
    ServerUse, StartCheck, failed,
};
use opcell_types::{Failure, Value};
use std::sync::Arc;

/// A server that is never started.
pub struct Server {
    name: String,
    config: McpServer,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server that refuses every call.
    #[must_use]
    pub fn new(name: String, config: McpServer) -> Self {
        Self { name, config }
    }

    /// Takes no notice: nothing is called.
    #[must_use]
    pub fn pinned(self, _pins: Arc<dyn AcceptedTools>) -> Self {
        self
    }

    /// Takes no notice: nothing is started.
    #[must_use]
    pub fn checked(self, _check: Arc<dyn StartCheck>) -> Self {
        self
    }

    /// Its name in the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the configuration that it would be started with.
    #[must_use]
    pub fn config(&self) -> &McpServer {
        &self.config
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn tools(&self) -> Result<Arc<Listing>, Failure> {
        Err(self.refused())
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn tool(&self, _name: &str) -> Result<ListedTool, Failure> {
        Err(self.refused())
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn call(&self, _tool: &str, _arguments: &Value, _options: CallOptions<'_>) -> Result<Called, Failure> {
        Err(self.refused())
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn offers(&self) -> Result<Offers, Failure> {
        Err(self.refused())
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn read_resource(&self, _uri: &str, _binary: Binary) -> Result<Value, Failure> {
        Err(self.refused())
    }

    /// Refuses.
    ///
    /// # Errors
    /// Always.
    pub async fn prompt(&self, _name: &str, _arguments: &Value, _binary: Binary) -> Result<Value, Failure> {
        Err(self.refused())
    }

    /// Never started.
    #[must_use]
    pub fn standing(&self) -> ServerStanding {
        ServerStanding {
            state: ServerState::Failed,
            problem: Some(self.refused().message),
            used: ServerUse::default(),
            listing: None,
            changes: Vec::new(),
        }
    }

    /// Lists nothing.
    #[must_use]
    pub fn is_current(&self, _listing: &Arc<Listing>) -> bool {
        false
    }

    /// Always the same.
    #[must_use]
    pub fn acceptance(&self) -> u64 {
        0
    }

    fn refused(&self) -> Failure {
        let name = &self.name;
        let message = format!("MCP server `{name}` is not started: this program is built without MCP (feature `mcp`)");
        failed("not-built-in", message, false)
    }
}
