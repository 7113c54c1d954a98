//! An operation as a tool: what a plugin offers to workflows, a model may call too.

use super::{SessionTool, ToolDescription};
use async_trait::async_trait;
use opcell_engine::call;
use opcell_engine::ports::{Call, Operations, Reply, ToolCall};
use opcell_types::Value;
use std::sync::Arc;

/// The tool over one operation. Its name is the operation's id, its arguments' schema the one that the operation
/// describes.
pub struct OperationTool {
    operations: Arc<dyn Operations>,
    description: ToolDescription,
}

impl OperationTool {
    /// The tool.
    #[must_use]
    pub fn new(operations: Arc<dyn Operations>, description: ToolDescription) -> Self {
        Self { operations, description }
    }
}

#[async_trait]
impl SessionTool for OperationTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    /// The operation's data; with its summary beside it where it gives one.
    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let asked = call::Call {
            id: self.description.spec.name.as_str().into(),
            arguments: call.request.arguments.clone(),
            context: call.context.clone(),
            capabilities: None,
            granted: Vec::new(),
            timeout_ms: None,
        };
        let reply = self.operations.invoke(Call::new(asked, call.cancel.clone())).await;
        let result = reply.result.map(|success| match success.summary {
            Some(summary) => Value::object([("summary", Value::from(summary)), ("data", success.data)]),
            None => success.data,
        });
        Reply { result, receipt: reply.receipt }
    }
}
