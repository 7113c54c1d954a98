//! A tool under the name that a document calls it by.

use super::{SessionTool, ToolDescription};
use async_trait::async_trait;
use opcell_engine::ports::{Reply, ToolCall};
use opcell_types::Value;
use std::sync::Arc;

/// Another tool under this name.
pub struct BoundTool {
    tool: Arc<dyn SessionTool>,
    description: ToolDescription,
}

impl BoundTool {
    /// The tool.
    #[must_use]
    pub fn new(name: &str, tool: Arc<dyn SessionTool>) -> Self {
        let mut description = tool.description().clone();
        name.clone_into(&mut description.spec.name);
        description.by_declaration = true;
        Self { tool, description }
    }
}

#[async_trait]
impl SessionTool for BoundTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let mut call = call.clone();
        call.request.name.clone_from(&self.tool.description().spec.name);
        self.tool.call(&call).await
    }
}
