//! Lines of the audit log for what MCP clients call: the log's line of a request does not say which tool it was.

use super::caller::Client;
use crate::peer::Peer;
use axum::http::request::Parts;
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResponse, CallToolResult},
    service::RequestContext,
};
use serde_json::Value as Json;
use std::sync::Arc;

/// A call that is in progress. One that is dropped, because its client went away, is logged all the same.
pub(super) struct Call {
    caller: Arc<str>,
    address: String,
    tenant: Arc<str>,
    tool: String,
    is_logged: bool,
}

impl Call {
    /// By whoever sends a request.
    pub(super) fn of(tenant: &Arc<str>, tool: &str, context: &RequestContext<RoleServer>) -> Self {
        let parts = context.extensions.get::<Parts>();
        let address = parts.map(|parts| Peer::of(&parts.extensions).address().to_string());
        Self {
            caller: Client::of(context).name,
            address: address.unwrap_or_else(|| "stdio".to_owned()),
            tenant: tenant.clone(),
            tool: crate::api::shown(tool),
            is_logged: false,
        }
    }

    /// It has an answer.
    pub(super) fn ended(self, result: &Result<CallToolResponse, ErrorData>) {
        match result {
            Ok(CallToolResponse::Complete(result)) => {
                let outcome = if result.is_error == Some(true) { "failed" } else { "ok" };
                self.log(outcome, run_of(result).unwrap_or_default());
            }
            Ok(CallToolResponse::InputRequired(_)) => self.log("input-required", ""),
            Ok(CallToolResponse::Task(task)) => self.log("task", &task.task.task_id),
            Ok(_) => self.log("ok", ""),
            Err(error) => self.log(&format!("refused ({})", error.code.0), ""),
        }
    }

    /// It did what it says to a task, which is a run, or was refused.
    pub(super) fn done(self, task: &str, refused: Option<&ErrorData>) {
        let outcome = refused.map_or_else(|| "ok".to_owned(), |error| format!("refused ({})", error.code.0));
        self.log(&outcome, &crate::api::shown(task));
    }

    fn log(mut self, outcome: &str, run: &str) {
        self.is_logged = true;
        tracing::info!(target: "opcell::audit", caller = %self.caller, address = self.address, tenant = %self.tenant,
            tool = self.tool, outcome, run, "a tool was called over MCP");
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_logged {
            tracing::info!(target: "opcell::audit", caller = %self.caller, address = self.address, tenant = %self.tenant,
                tool = self.tool, "a call over MCP was abandoned before it was answered");
        }
    }
}

/// The run that a result tells of.
fn run_of(result: &CallToolResult) -> Option<&str> {
    result.structured_content.as_ref()?.get("run").and_then(Json::as_str)
}
