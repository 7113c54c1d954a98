//! `http.fetch` for models: the requests that the project's rules allow.

use crate::http::{FetchError, HttpClient, HttpRule, request::FetchRequest};
use crate::services::HTTP_FETCH;
use async_trait::async_trait;
use opcell_engine::{
    conversation::ToolSpec,
    ports::{Effects, Failure, Reply, ToolCall},
    receipt::{Denial, Provider},
};
use opcell_session::tools::{HostTool, ToolDescription};
use opcell_types::Value;
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
            by_declaration: false,
        };
        Self { http, rules, description }
    }
}

#[async_trait]
impl HostTool for Fetch {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let result = self.http.fetch(&self.rules, &call.request.arguments).await;
        Reply { result: result.map_err(failure), receipt: None }
    }
}

fn failure(error: FetchError) -> Failure {
    let (reason, message) = match error {
        FetchError::Denied { capability, rule, grant } => {
            let message =
                format!("{capability} is denied: {rule}; [[sessions.http]] in opcell.toml lists what is allowed");
            let remedy = match grant {
                Some(_) => "add a rule to [[sessions.http]] in opcell.toml",
                None => "no setting allows it",
            };
            return Denial { capability, rule, remedy: remedy.to_owned() }.failure("denied", message);
        }
        FetchError::Invalid(error) => ("invalid-arguments", error.to_string()),
        FetchError::Secret(error) => ("credential-missing", error.to_string()),
        FetchError::Failed { reason, message } => (reason, message),
    };
    Failure { reason: reason.into(), message, details: None, retriable: false }
}
