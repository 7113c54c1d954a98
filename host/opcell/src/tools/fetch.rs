//! `http.fetch`, for whoever has rules of its own: a plugin, a name that documents call, the sessions of a project.

use crate::{
    http::{HttpClient, HttpRule, request::FetchRequest},
    services::HTTP_FETCH,
    trace::{TRACEPARENT, outgoing},
};
use async_trait::async_trait;
use opcell_engine::{
    ports::{Effects, Failure},
    tool::{Tool, ToolInput},
};
use opcell_types::{ToolDescription, Value, denial::HttpScope, value::Map};
use std::sync::Arc;

/// The host's client under one set of rules.
pub(crate) struct Fetch {
    http: Arc<HttpClient>,
    rules: Vec<HttpRule>,
    scope: HttpScope,
    description: ToolDescription,
}

impl Fetch {
    /// Requests that `rules` allow; `scope` says whose rules they are, so that a refusal names who can change them.
    pub(crate) fn new(http: Arc<HttpClient>, rules: Vec<HttpRule>, scope: HttpScope) -> Self {
        let name = match &scope {
            HttpScope::Tool(name) => name.as_ref(),
            _ => HTTP_FETCH,
        };
        let parameters = Value::from_json(FetchRequest::SCHEMA).unwrap_or_default();
        let about = "Performs an HTTP request to a host that the operator allows.";
        let description = ToolDescription::new(name, about, parameters);
        Self { http, rules, scope, description }
    }
}

#[async_trait]
impl Tool for Fetch {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    /// A request that only reads may be repeated.
    fn effects_of(&self, arguments: &Value) -> Effects {
        let method = arguments.get("method").and_then(Value::as_str).unwrap_or("GET");
        match ["GET", "HEAD"].iter().any(|reads| method.eq_ignore_ascii_case(reads)) {
            true => Effects::Pure,
            false => Effects::Once,
        }
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let traced = outgoing(&input.context).and_then(|trace| with_trace(&input.arguments, trace));
        let arguments = traced.as_ref().unwrap_or(&input.arguments);
        let fetched = self.http.fetch(&self.rules, arguments, &input.touched).await;
        fetched.map_err(|error| error.into_failure(&self.scope))
    }
}

/// The same request with a trace context, unless it has one already or is none that could carry it.
fn with_trace(arguments: &Value, trace: String) -> Option<Value> {
    let mut entries = arguments.as_object()?.to_map();
    let mut headers = match entries.get("headers").filter(|headers| !headers.is_nullish()) {
        Some(headers) => headers.as_object()?.to_map(),
        None => Map::default(),
    };
    if headers.keys().any(|name| name.eq_ignore_ascii_case(TRACEPARENT)) {
        return None;
    }
    headers.insert(TRACEPARENT.into(), trace.into());
    entries.insert("headers".into(), Value::from(headers));
    Some(Value::from(entries))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_gets_a_trace_context_unless_it_has_one() {
        let traced = |text: &str| with_trace(&Value::from_json(text).unwrap(), "00-x".to_owned()).map(|v| v.to_json());
        assert_eq!(traced(r#"{"url":"u"}"#).unwrap(), r#"{"url":"u","headers":{"traceparent":"00-x"}}"#);
        assert_eq!(traced(r#"{"headers":{"a":"b"}}"#).unwrap(), r#"{"headers":{"a":"b","traceparent":"00-x"}}"#);
        assert_eq!(traced(r#"{"headers":{"Traceparent":"own"}}"#), None);
        assert_eq!(traced(r#"{"headers":7}"#), None);
    }
}
