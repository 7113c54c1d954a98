//! `delegate`: a model calls a workflow. Only the session's workflows can be called. The agents of a pack are called
//! through it too, each under its own name.

use super::{SessionTool, failure};
use async_trait::async_trait;
use opcell_engine::ports::{Effects, Failure, Reply};
use opcell_engine::tool::{ModelCaller, Tool, ToolInput};
use opcell_ir::{agent, ir::AgentTool};
use opcell_types::{Denial, Remedy, ToolDescription, Value, denial::SessionPart, suggest::hint, text::one_line};
use serde_json::json;
use std::sync::Arc;

/// The tool's name, by which prompts show workflows.
pub const DELEGATE_TOOL: &str = "delegate";

/// Runs a workflow for a model.
#[async_trait]
pub trait Delegation: Send + Sync {
    /// Runs the workflow to its end and gives what it yields. A call with the same idempotency key does not start
    /// another run.
    async fn run(&self, workflow: &str, prompt: &str, input: &ToolInput, by: &ModelCaller) -> Reply<Value>;

    /// Runs an agent of the document that the call's run came from, and gives what it says. As to a repeated call, as
    /// [`Self::run`].
    async fn ask(&self, agent: &AgentTool, query: &str, input: &ToolInput, by: &ModelCaller) -> Reply<Value>;
}

/// The tool over a [`Delegation`].
#[must_use]
pub fn delegate_tool(delegation: Arc<dyn Delegation>) -> SessionTool {
    let description = ToolDescription::new(
        DELEGATE_TOOL,
        "Runs one of the available workflows with a prompt and returns its result.",
        json!({
            "type": "object",
            "properties": {"workflow": {"type": "string"}, "prompt": {"type": "string"}},
            "required": ["workflow", "prompt"],
            "additionalProperties": false
        }),
    );
    SessionTool::own(Arc::new(Delegate { delegation, description })).with_lambda("workflow, prompt → result")
}

struct Delegate {
    delegation: Arc<dyn Delegation>,
    description: ToolDescription,
}

#[async_trait]
impl Tool for Delegate {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn effects(&self) -> Effects {
        Effects::Idempotent
    }

    fn ends_when_cancelled(&self) -> bool {
        true
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        // What may be delegated is a matter of the session.
        let Some(by) = input.model() else {
            return Err(failure("not-in-session", "only a model in a session can delegate"));
        };
        let text = |key| input.arguments.get(key).and_then(Value::as_str).unwrap_or_default();
        let settings = &by.session.settings;
        if let Some(agent) = settings.agents.get(&by.called) {
            return left(self.delegation.ask(agent, text(agent::QUERY), input, by).await, input);
        }
        let (workflow, prompt) = (text("workflow"), text("prompt"));
        let allowed = settings.workflows.as_deref().unwrap_or_default();
        if !allowed.iter().any(|name| name == workflow) {
            let listed = if allowed.is_empty() { "none".to_owned() } else { allowed.join(", ") };
            let hint = hint(workflow, allowed.iter().map(String::as_str));
            let message = format!("this session has no workflow `{workflow}`; it has: {listed}{hint}");
            let remedy = Remedy::DeclareInSession { part: SessionPart::Workflow, name: one_line(workflow, 100) };
            let denial = Denial::of("workflow", workflow, "the session does not have the workflow", remedy);
            return Err(failure("unknown-workflow", message).with_denial(denial));
        }
        left(self.delegation.run(workflow, prompt, input, by).await, input)
    }
}

/// The result of what was started, whose receipt is left for the caller.
fn left(reply: Reply<Value>, input: &ToolInput) -> Result<Value, Failure> {
    input.keep_receipt(reply.receipt);
    reply.result
}
