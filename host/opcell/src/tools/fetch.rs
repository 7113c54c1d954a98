//! `http.fetch`, for whoever has rules of its own: a plugin, a name that documents call, the sessions of a project.

use crate::{
    http::{HttpClient, HttpRule, request::FetchRequest},
    services::HTTP_FETCH,
};
use async_trait::async_trait;
use opcell_engine::{
    ports::Reply,
    tool::{Tool, ToolInput},
};
use opcell_types::{ToolDescription, Value, denial::HttpScope};
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

    async fn call(&self, input: &ToolInput) -> Reply<Value> {
        let fetched = self.http.fetch(&self.rules, &input.arguments, &input.touched).await;
        fetched.map_err(|error| error.into_failure(&self.scope)).into()
    }
}
