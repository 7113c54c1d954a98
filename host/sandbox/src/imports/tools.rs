//! `tools`: the host's tools that this cell may use.

use super::{View, failure_to_guest};
use crate::{
    bindings::opcell::plugin0_1_0::tools as wit,
    budget::Interface,
    host::{StartedCall, ToolCall},
    recording::taped,
};
use opcell_types::{Capability, Failure, Value};
use serde_json::{Value as Json, json};
use std::{sync::Arc, time::Duration};

impl wit::Host for View<'_> {
    async fn list(&mut self) -> wasmtime::Result<Vec<wit::ToolDescription>> {
        taped!(self, Tools, "tools.list", Json::Null, self.listed_tools().await)
    }

    async fn call(&mut self, name: String, arguments: String) -> wasmtime::Result<Result<String, wit::ToolError>> {
        taped!(self, Tools, "tools.call", given(&name, &arguments), self.call_tool(&name, &arguments).await)
    }
}

/// As recordings hold a call of a tool.
pub(super) fn given(name: &str, arguments: &str) -> Json {
    match serde_json::from_str(arguments) {
        Ok(parsed) if is_shallow(&parsed) => json!([name, parsed]),
        _ => json!([name, arguments]),
    }
}

/// Returns `true` if a journal can hold a value somewhere inside of an event: readers of events bound their depth.
fn is_shallow(value: &Json) -> bool {
    const DEPTH: u32 = 48;
    let mut pending = vec![(value, 0)];
    while let Some((value, depth)) = pending.pop() {
        if depth > DEPTH {
            return false;
        }
        match value {
            Json::Array(items) => pending.extend(items.iter().map(|item| (item, depth + 1))),
            Json::Object(entries) => pending.extend(entries.values().map(|entry| (entry, depth + 1))),
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
        if self.0.calls.as_ref().is_some_and(|calls| calls.are_in_progress()) {
            return match self.start_call(name, arguments)? {
                Ok(call) => self.wait_for(call).await,
                Err(refused) => Ok(Err(refused)),
            };
        }
        let call = match self.admit_call(name, arguments)? {
            Ok(call) => ToolCall { is_alone: true, ..call },
            Err(denied) => return Ok(Err(denied)),
        };
        let ended = match Arc::clone(&self.0.host).start_call(call) {
            StartedCall::Ended(ended) => ended,
            StartedCall::Running(running) => running.await,
        };
        self.end_call(ended.result)
    }

    /// Charges a call, and checks that the cell may make it.
    pub(super) fn admit_call(
        &mut self,
        name: &str,
        arguments: &str,
    ) -> wasmtime::Result<Result<ToolCall, wit::ToolError>> {
        self.0.budget.charge(Interface::Tools, name.len() + arguments.len())?;
        if let Err(denial) = self.0.check(Capability::Tool, name) {
            return Ok(Err(wit::ToolError::Denied(denial.into())));
        }
        Ok(Ok(ToolCall {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            context: Arc::clone(&self.0.context),
            touched: self.0.touched().clone(),
            limit: Duration::from_millis(self.0.limits.host_call_time),
            is_alone: false,
        }))
    }

    /// Charges the result of a call, and gives it to the guest as it is to have it.
    pub(super) fn end_call(
        &mut self,
        result: Result<String, Failure>,
    ) -> wasmtime::Result<Result<String, wit::ToolError>> {
        Ok(match result {
            Ok(result) => {
                self.0.budget.give(result.len())?;
                Ok(result)
            }
            Err(failure) => Err(match failure.denial {
                Some(denial) => wit::ToolError::Denied(self.0.denials.note(*denial).into()),
                None => wit::ToolError::Failed(failure_to_guest(marked(failure))),
            }),
        })
    }
}

/// Says in the details of a failure that another try would not help, as plugins say it: one that passes the failure on
/// passes that on as well. Details that are no map stay as they are.
fn marked(mut failure: Failure) -> Failure {
    if failure.retriable {
        return failure;
    }
    let details = failure.details.get_or_insert_with(|| Value::from(json!({})));
    if let Value::Object(details) = details
        && !details.contains_key("retriable")
    {
        details.insert("retriable", Value::Bool(false));
    }
    failure
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_types::Source;

    #[test]
    fn a_failure_that_stays_says_so_and_keeps_what_it_says_of_itself() {
        let details = |failure: Failure| marked(failure).details.map(|details| details.to_json());
        let failure = || Failure::new(Source::Host, "out-of-stock", "there are no more");
        let given = |details| failure().with_details(Value::from(details));
        assert_eq!(details(failure()), Some(r#"{"retriable":false}"#.to_owned()));
        assert_eq!(details(given(json!({"left": 0}))), Some(r#"{"left":0,"retriable":false}"#.to_owned()));
        assert_eq!(details(given(json!({"retriable": true}))), Some(r#"{"retriable":true}"#.to_owned()));
        assert_eq!(details(given(json!("gone"))), Some(r#""gone""#.to_owned()));
        assert_eq!(details(failure().retriable()), None);
    }
}
