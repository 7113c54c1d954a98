//! `http.fetch` for models: the requests that the project's rules allow.

use crate::http::{HttpClient, HttpRule, request::FetchRequest};
use crate::services::HTTP_FETCH;
use async_trait::async_trait;
use opcell_engine::{
    conversation::ToolSpec,
    ports::{Effects, Reply, ToolCall},
    receipt::Provider,
};
use opcell_session::tools::{SessionTool, ToolDescription};
use opcell_types::{Value, denial::HttpScope};
use std::sync::Arc;

/// The tool over the host's client.
pub(super) struct Fetch {
    http: Arc<HttpClient>,
    rules: Vec<HttpRule>,
    description: ToolDescription,
}

impl Fetch {
    pub(super) fn new(http: Arc<HttpClient>, rules: Vec<HttpRule>) -> Self {
        let description = ToolDescription {
            spec: ToolSpec {
                name: HTTP_FETCH.to_owned(),
                description: "Performs an HTTP request to a host that the operator allows.".to_owned(),
                parameters: Value::from_json(FetchRequest::SCHEMA).unwrap_or_default(),
            },
            lambda: Some("request → response | hosts(allowed by operator)".to_owned()),
            effects: Effects::Once,
            provider: Provider::Host,
            extension: None,
            by_declaration: true,
        };
        Self { http, rules, description }
    }
}

#[async_trait]
impl SessionTool for Fetch {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let fetched = self.http.fetch(&self.rules, &call.request.arguments, &call.touched).await;
        Reply { result: fetched.map_err(|error| error.into_failure(&HttpScope::Sessions)), receipt: None }
    }
}
