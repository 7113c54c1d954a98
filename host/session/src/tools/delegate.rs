//! `delegate`: a model calls a workflow. Only the session's workflows can be called. The agents of a pack are called
//! through it too, each under its own name.

use super::{SessionTool, ToolDescription, describe};
use async_trait::async_trait;
use opcell_engine::ports::{Effects, Reply, ToolCall};
use opcell_types::{Denial, Remedy, Value, denial::SessionPart, suggest::hint, text::one_line};
use opcell_workflow::{agent, ir::AgentTool};
use serde_json::json;
use std::sync::Arc;

/// The tool's name, by which prompts show workflows.
pub const DELEGATE_TOOL: &str = "delegate";

/// Runs a workflow for a model.
#[async_trait]
pub trait Delegation: Send + Sync {
    /// Runs the workflow to its end and gives what it yields. A call with the same idempotency key does not start
    /// another run.
    async fn run(&self, workflow: &str, prompt: &str, call: &ToolCall) -> Reply<Value>;

    /// Runs an agent of the document that the call's run came from, and gives what it says. As to a repeated call, as
    /// [`Self::run`].
    async fn ask(&self, agent: &AgentTool, query: &str, call: &ToolCall) -> Reply<Value>;
}

/// The tool over a [`Delegation`].
pub struct DelegateTool {
    delegation: Arc<dyn Delegation>,
    description: ToolDescription,
}

impl DelegateTool {
    /// The tool.
    #[must_use]
    pub fn new(delegation: Arc<dyn Delegation>) -> Self {
        let description = describe(
            DELEGATE_TOOL,
            "Runs one of the available workflows with a prompt and returns its result.",
            "workflow, prompt → result",
            Effects::Idempotent,
            json!({
                "type": "object",
                "properties": {"workflow": {"type": "string"}, "prompt": {"type": "string"}},
                "required": ["workflow", "prompt"],
                "additionalProperties": false
            }),
        );
        Self { delegation, description }
    }
}

#[async_trait]
impl SessionTool for DelegateTool {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn ends_when_cancelled(&self) -> bool {
        true
    }

    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let text = |key| call.request.arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        if let Some(agent) = call.session.settings.agents.get(&call.request.name) {
            return self.delegation.ask(agent, text(agent::QUERY), call).await;
        }
        let (workflow, prompt) = (text("workflow"), text("prompt"));
        let allowed = call.session.settings.workflows.as_deref().unwrap_or_default();
        if !allowed.iter().any(|name| name == workflow) {
            let listed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            let hint = hint(workflow, allowed.iter().map(String::as_str));
            let message = format!("this session has no workflow `{workflow}`; it has: {listed}{hint}");
            let remedy = Remedy::DeclareInSession { part: SessionPart::Workflow, name: one_line(workflow, 100) };
            let denial = Denial::of("workflow", workflow, "the session does not have the workflow", remedy);
            let failure = super::failure("unknown-workflow", message).with_denial(denial);
            return Reply { result: Err(failure), receipt: None };
        }
        self.delegation.run(workflow, prompt, call).await
    }
}
