//! Tools of MCP servers: as the server describes them when a session opens, their arguments checked against its schema.

use super::with_remedy;
use crate::trace;
use async_trait::async_trait;
use opcell_engine::{
    ports::Failure,
    receipt::Provider,
    tool::{Tool, ToolInput},
};
use opcell_session::tools::check_arguments;
use opcell_tools::mcp::{Binary, CallOptions, Called, ListedTool, Server};
use opcell_types::{ToolDescription, Value, text::one_line};
use std::sync::Arc;

/// Bytes of a warning that a model is shown.
const WARNING_BYTES: usize = 600;

/// One tool of a server.
pub(crate) struct Remote {
    server: Arc<Server>,
    /// The server's own name of it.
    tool: String,
    description: ToolDescription,
}

impl Remote {
    /// The server's tool `tool`, which documents call `name`.
    pub(crate) fn new(server: Arc<Server>, tool: String, name: &str) -> Self {
        let about =
            format!("The tool `{tool}` of MCP server `{}`, which describes it when a session opens.", server.name());
        // What the arguments are, the server says when it is asked.
        let parameters = Value::object([("type", Value::from("object"))]);
        Self { description: ToolDescription::new(name, about, parameters), server, tool }
    }

    async fn listed(&self) -> Result<ListedTool, Failure> {
        self.server.tool(&self.tool).await
    }

    async fn checked_call(&self, input: &ToolInput) -> Result<Value, Failure> {
        check_arguments(&self.description.name, &self.listed().await?.schema, &input.arguments)?;
        // A step can use what a model cannot read or see.
        let (is_model, arguments) = (input.model().is_some(), &input.arguments);
        let binary = if is_model { Binary::Attachments } else { Binary::Keep };
        let traceparent = trace::outgoing(&input.context);
        let options = CallOptions {
            traceparent: traceparent.as_deref(),
            may_ask: input.may_ask(),
            given: input.given.as_deref(),
            progress: Some(&input.context.progress),
            ..CallOptions::new(binary)
        };
        let called = self.server.call(&self.tool, arguments, options).await?;
        input.touched.note(|touched| called.warnings.iter().for_each(|warning| touched.warn(warning)));
        Ok(if is_model && !input.is_of_program() { with_warnings(called) } else { called.value })
    }
}

/// The result as a model reads it, which learns what is odd about it.
fn with_warnings(called: Called) -> Value {
    if called.warnings.is_empty() {
        return called.value;
    }
    let warnings: Vec<Value> = called.warnings.iter().map(|warning| one_line(warning, WARNING_BYTES).into()).collect();
    Value::object([("warnings", Value::from(warnings)), ("result", called.value)])
}

#[async_trait]
impl Tool for Remote {
    fn description(&self) -> &ToolDescription {
        &self.description
    }

    fn provider(&self) -> Provider {
        Provider::Mcp(self.server.name().into())
    }

    async fn current(&self) -> Result<Option<ToolDescription>, Failure> {
        let listed = self.listed().await.map_err(|failure| with_remedy(self.server.name(), failure))?;
        let name = self.description.name.as_str();
        Ok(Some(ToolDescription::new(name, listed.description, listed.parameters).with_results(listed.results)))
    }

    async fn call(&self, input: &ToolInput) -> Result<Value, Failure> {
        let called = self.checked_call(input).await;
        called.map_err(|failure| with_remedy(self.server.name(), failure))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_model_reads_a_warning_beside_the_result() {
        let called = |warnings: &[&str]| Called {
            value: Value::from(7),
            warnings: warnings.iter().map(|text| (*text).to_owned()).collect(),
        };
        assert_eq!(with_warnings(called(&[])).to_json(), "7");
        assert_eq!(with_warnings(called(&["a\u{202e}b"])).to_json(), "{\"warnings\":[\"a\u{fffd}b\"],\"result\":7}");
    }
}
