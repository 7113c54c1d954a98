//! All tools of a host: what they are, whether a call's arguments match, and how much of a result is returned.

use super::{DELEGATE_TOOL, SessionTool, ToolDescription, failure};
use indexmap::IndexMap;
use opcell_engine::conversation::ToolSpec;
use opcell_engine::ports::{Failure, Reply, ToolCall};
use opcell_engine::receipt::CallReceipt;
use opcell_schema::Schema;
use opcell_types::{Denial, Remedy, Value, denial::SessionPart, suggest::hint, text::one_line};
use opcell_workflow::{agent, arguments::fit};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum bytes of a tool's result that a model receives, unless the operator configures another.
pub const RESULT_LIMIT: usize = 64 << 10;

/// Problems of a call's arguments that are shown at once.
const PROBLEMS: usize = 5;

/// Steps that checking the arguments of one call may take: some hundredths of a second.
const MAX_STEPS: u64 = 5_000_000;

/// How long a call that was cancelled may take to say what it used.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A tool that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ToolError {
    /// Its name is taken.
    #[error("there are two tools named `{0}`")]
    Duplicate(String),
    /// The schema of its arguments is none.
    #[error("the parameters of the tool `{name}` are not a JSON Schema: {message}")]
    Schema {
        /// The tool.
        name: String,
        /// What is wrong.
        message: String,
    },
}

/// All tools of a host, by name.
pub struct Toolbox {
    tools: IndexMap<String, Tool>,
    result_limit: usize,
}

struct Tool {
    tool: Arc<dyn SessionTool>,
    arguments: Arc<Schema>,
}

impl Toolbox {
    /// Takes tools in; their order is the order of prompts.
    ///
    /// # Errors
    /// When two have one name, or a schema is none.
    pub fn new(tools: impl IntoIterator<Item = Arc<dyn SessionTool>>, result_limit: usize) -> Result<Self, ToolError> {
        let mut toolbox = Self { tools: IndexMap::new(), result_limit };
        for tool in tools {
            let spec = &tool.description().spec;
            let name = spec.name.clone();
            let arguments =
                compiled(&spec.parameters).map_err(|message| ToolError::Schema { name: name.clone(), message })?;
            if toolbox.tools.insert(name.clone(), Tool { tool, arguments }).is_some() {
                return Err(ToolError::Duplicate(name));
            }
        }
        Ok(toolbox)
    }

    /// What the host says about a tool.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&ToolDescription> {
        self.tools.get(name).map(|tool| tool.tool.description())
    }

    /// What a tool says about itself now, where that takes asking; see [`SessionTool::current`].
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) async fn current(&self, name: &str) -> Result<Option<ToolSpec>, Failure> {
        match self.tools.get(name) {
            Some(tool) => tool.tool.current().await,
            None => Ok(None),
        }
    }

    /// Every tool.
    pub fn descriptions(&self) -> impl Iterator<Item = &ToolDescription> {
        self.tools.values().map(|tool| tool.tool.description())
    }

    /// Makes one call. The session's tool list decides what may be called; whatever the engine checked before, it is
    /// checked here. However it ends, there is a receipt: a [`CallReceipt`].
    pub async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let began = Instant::now();
        let call = &fitted(call);
        let name = call.request.name.as_str();
        let provider = self.find(performer(call)).map(|description| description.provider.clone());
        let receipt = CallReceipt::of_tool(name, provider, &call.request.arguments);
        let mut reply = match self.admit(call) {
            Err(refused) => Reply { result: Err(refused), receipt: None },
            Ok(tool) => until_cancelled(&**tool, call).await,
        };
        let bytes = reply.result.as_mut().map_or(0, |value| self.cap(value));
        let ended = receipt
            .ended(began.elapsed(), reply.result.as_ref().map(|_| bytes as u64), reply.receipt.take())
            .touching(call.touched.so_far())
            .truncated(bytes > self.result_limit);
        Reply { receipt: ended.to_receipt(), ..reply }
    }

    fn admit(&self, call: &ToolCall) -> Result<&Arc<dyn SessionTool>, Failure> {
        let name = call.request.name.as_str();
        let allowed = || call.session.tools.iter().map(|tool| tool.name.as_str());
        if !allowed().any(|tool| tool == name) {
            let listed = match allowed().collect::<Vec<_>>() {
                none if none.is_empty() => "none".to_owned(),
                names => names.join(", "),
            };
            let hint = hint(name, allowed());
            let message = format!("this session has no tool `{name}`; it has: {listed}{hint}");
            let remedy = Remedy::DeclareInSession { part: SessionPart::Tool, name: one_line(name, 100) };
            let denial = Denial::of("tool", name, "the session does not have the tool", remedy);
            return Err(failure("unknown-tool", message).with_denial(denial));
        }
        let Some(tool) = self.tools.get(performer(call)) else {
            return Err(failure("tool-unavailable", format!("the host no longer has the tool `{name}`")));
        };
        let arguments = serde_json::Value::from(&call.request.arguments);
        let mut problems = match is_agent(call) {
            true => {
                let schema = compiled(&agent::parameters()).map_err(|error| failure("invalid-shape", error))?;
                problems(&schema, &arguments)
            }
            false => problems(&tool.arguments, &arguments),
        };
        if let Some(shape) = call.session.settings.tool_shapes.get(name).filter(|_| problems.is_empty()) {
            let schema = compiled(&shape.parameters).map_err(|error| failure("invalid-shape", error))?;
            problems = self::problems(&schema, &arguments);
        }
        match problems.is_empty() {
            true => Ok(&tool.tool),
            false => {
                let message = format!("the arguments of `{name}` do not match its schema: {}", problems.join("; "));
                Err(failure("invalid-arguments", message))
            }
        }
    }

    /// Cuts a result that is too long, at a character, and says so. Returns the length that it had.
    fn cap(&self, value: &mut Value) -> usize {
        let text = match &*value {
            Value::String(text) => text.to_string(),
            other => other.to_json(),
        };
        let bytes = text.len();
        if bytes > self.result_limit {
            let kept = &text[..text.floor_char_boundary(self.result_limit)];
            *value = Value::from(format!("{kept}\n[truncated: {} of {bytes} bytes are shown]", kept.len()));
        }
        bytes
    }
}

/// The call's end, or its cancellation, with what a run used that it had started.
async fn until_cancelled(tool: &dyn SessionTool, call: &ToolCall) -> Reply<Value> {
    let work = tool.call(call);
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = call.cancel.cancelled() => {}
        reply = &mut work => return reply,
    }
    let receipt = match tool.ends_when_cancelled() {
        true => tokio::time::timeout(LAST_WORD, work).await.ok().and_then(|reply| reply.receipt),
        false => None,
    };
    Reply { result: Err(failure("cancelled", "the run was cancelled")), receipt }
}

/// Whether the model calls an agent of its pack.
fn is_agent(call: &ToolCall) -> bool {
    call.session.settings.agents.contains_key(&call.request.name)
}

/// The tool that performs a call.
fn performer(call: &ToolCall) -> &str {
    if is_agent(call) { DELEGATE_TOOL } else { &call.request.name }
}

/// A schema that someone else wrote, compiled once.
fn compiled(schema: &Value) -> Result<Arc<Schema>, String> {
    Schema::shared(&serde_json::Value::from(schema))
}

/// The first of what is wrong with arguments.
fn problems(schema: &Schema, arguments: &serde_json::Value) -> Vec<String> {
    match schema.check_cost(arguments, MAX_STEPS) {
        Ok(()) => schema.violations(arguments, PROBLEMS),
        Err(too_large) => vec![too_large],
    }
}

/// Arguments of a tool whose shape the document declares are made to fit it first (PromptPack's rule).
fn fitted(call: &ToolCall) -> ToolCall {
    let mut call = call.clone();
    if let Some(shape) = call.session.settings.tool_shapes.get(&call.request.name) {
        call.request.arguments = fit(&(&shape.parameters).into(), &(&call.request.arguments).into()).into();
    }
    call
}
