//! An operation as a tool: what a plugin offers to workflows, a model may call too.

use async_trait::async_trait;
use opcell_engine::call;
use opcell_engine::ports::{Call, Effects, Failure, Operations};
use opcell_engine::receipt::Provider;
use opcell_engine::tool::{Tool, ToolInput};
use opcell_types::{ToolDescription, Value};
use std::sync::Arc;

/// The tool over one operation. Its name is the operation's id, its arguments' schema the one that the operation
/// describes.
pub struct OperationTool {
    operations: Arc<dyn Operations>,
    description: ToolDescription,
    effects: Effects,
    provider: Provider,
}

impl std::fmt::Debug for OperationTool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperationTool").finish_non_exhaustive()
    }
}

impl OperationTool {
    /// The operation of the description's name, which `provider` performs.
    #[must_use]
    pub fn new(
        operations: Arc<dyn Operations>,
        description: ToolDescription,
        effects: Effects,
        provider: Provider,
    ) -> Self {
        Self { operations, description, effects, provider }
    }
}

#[async_trait]
impl Tool for OperationTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        self.effects
    }

    fn provider(&self) -> Provider {
        self.provider.clone()
    }

    /// The operation's data; for a model with its summary beside it where it gives one.
    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let asked = call::Call {
            id: self.description.name.as_str().into(),
            arguments: input.arguments.clone(),
            context: input.context.clone(),
            capabilities: None,
            granted: Vec::new(),
            timeout_ms: None,
            given: None,
        };
        let reply = self.operations.invoke(Call::new(asked, input.cancel.clone())).await;
        input.keep_receipt(reply.receipt);
        reply.result.map(|success| match success.summary {
            Some(summary) if !input.is_of_program() => {
                Value::object([("summary", Value::from(summary)), ("data", success.data)])
            }
            _ => success.data,
        })
    }
}
