//! `tools`: the host's tools that this cell may use.

use super::{View, failure_to_guest, too_slow};
use crate::{bindings::opcell::plugin0_1_0::tools as wit, budget::Interface, recording::taped};
use opcell_types::Capability;
use serde_json::{Value, json};
use std::{sync::Arc, time::Duration};

impl wit::Host for View<'_> {
    async fn list(&mut self) -> wasmtime::Result<Vec<wit::ToolDescription>> {
        taped!(self, Tools, "tools.list", Value::Null, self.listed_tools().await)
    }

    async fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, wit::ToolError>> {
        taped!(self, Tools, "tools.call", given(&name, &arguments), self.call_tool(&name, &arguments).await)
    }
}

/// As recordings hold a call of a tool.
fn given(name: &str, arguments: &str) -> Value {
    match serde_json::from_str(arguments) {
        Ok(parsed) if is_shallow(&parsed) => json!([name, parsed]),
        _ => json!([name, arguments]),
    }
}

/// Returns `true` if a journal can hold a value somewhere inside of an event: readers of events bound their depth.
fn is_shallow(value: &Value) -> bool {
    const DEPTH: u32 = 48;
    let mut pending = vec![(value, 0)];
    while let Some((value, depth)) = pending.pop() {
        if depth > DEPTH {
            return false;
        }
        match value {
            Value::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Value::Object(entries) => pending.extend(entries.values().map(|entry| (entry, depth + 1))),
            _ => {}
        }
    }
    true
}

impl View<'_> {
    async fn listed_tools(&mut self) -> wasmtime::Result<Vec<wit::ToolDescription>> {
        self.0.budget.charge(Interface::Tools, 0)?;
        let host = Arc::clone(&self.0.host);
        let limit = Duration::from_millis(self.0.limits.host_call_time);
        let known = tokio::time::timeout(limit, host.current_tools()).await.unwrap_or_else(|_| host.tools());
        let (policy, narrowing) = (&self.0.linked.policy, self.0.narrowing.as_ref());
        let tools: Vec<_> = known
            .into_iter()
            .filter(|tool| policy.allows(Capability::Tool, &tool.name, narrowing).is_ok())
            .map(|tool| wit::ToolDescription {
                name: tool.name,
                summary: tool.description,
                arguments_schema: tool.parameters.to_json(),
            })
            .collect();
        let bytes = tools.iter().map(|tool| tool.name.len() + tool.summary.len() + tool.arguments_schema.len()).sum();
        self.0.budget.give(bytes)?;
        Ok(tools)
    }

    async fn call_tool(&mut self, name: &str, arguments: &str) -> wasmtime::Result<Result<String, wit::ToolError>> {
        self.0.budget.charge(Interface::Tools, name.len() + arguments.len())?;
        if let Err(denial) = self.0.check(Capability::Tool, name) {
            return Ok(Err(wit::ToolError::Denied(denial.into())));
        }
        let host = Arc::clone(&self.0.host);
        let limit_ms = self.0.limits.host_call_time;
        let touched = self.0.touched().clone();
        let call = host.call_tool(name, arguments, &self.0.context, &touched);
        let answer = tokio::time::timeout(Duration::from_millis(limit_ms), call).await;
        Ok(match answer {
            Ok(Ok(result)) => {
                self.0.budget.give(result.len())?;
                Ok(result)
            }
            Ok(Err(failure)) => Err(match failure.denial {
                Some(denial) => wit::ToolError::Denied(self.0.denials.note(*denial).into()),
                None => wit::ToolError::Failed(failure_to_guest(failure)),
            }),
            Err(_) => Err(wit::ToolError::Failed(failure_to_guest(too_slow(limit_ms)))),
        })
    }
}
