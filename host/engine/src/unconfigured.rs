//! Ports of an engine that has nothing configured: every call fails.

use crate::ports::{
    Call, Effects, Failure, Judges, ModelReply, ModelRound, OpenSession, OpenedSession, Operations, Reply, Sessions,
    Success, TextSink, ToolCall, Verdict, Workflows,
};
use async_trait::async_trait;
use opcell_ir::WorkflowIr;
use opcell_types::Value;
use std::sync::Arc;

pub(crate) struct Unconfigured;

#[async_trait]
impl Operations for Unconfigured {
    fn effects(&self, _operation: &str) -> Option<Effects> {
        None
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let message = format!("Deterministic operation not found: `{}`", call.id);
        Reply { result: Err(Failure::host("missing-deterministic-operation", message)), receipt: None }
    }
}

#[async_trait]
impl Judges for Unconfigured {
    fn knows(&self, _judge: &str) -> bool {
        false
    }

    async fn judge(&self, call: Call) -> Reply<Verdict> {
        let message = format!("Judge not found: `{}`", call.id);
        Reply { result: Err(Failure::host("missing-judge", message)), receipt: None }
    }
}

#[async_trait]
impl Sessions for Unconfigured {
    async fn open(&self, _request: OpenSession) -> Result<OpenedSession, Failure> {
        Err(Failure::host("no-sessions", "This host has no models configured"))
    }

    async fn complete(&self, _round: ModelRound, _sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        Err(Failure::host("no-sessions", "This host has no models configured"))
    }

    fn tool_effects(&self, _tool: &str) -> Effects {
        Effects::Once
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        let message = format!("Tool not found: `{}`", call.request.name);
        Reply { result: Err(Failure::host("unknown-tool", message)), receipt: None }
    }
}

impl Workflows for Unconfigured {
    fn find(&self, _name: &str) -> Option<Arc<WorkflowIr>> {
        None
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
