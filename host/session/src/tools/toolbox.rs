//! All tools of a host: what they are, whether a call's arguments match, and how much of a result is returned.

use super::checked::{compiled, cut, mismatch, problems};
use super::{CheckedTool, DELEGATE_TOOL, SessionTool, attachments, failure, identity};
use indexmap::IndexMap;
use opcell_engine::ports::{Failure, OpenedSession, Reply, ToolCall};
use opcell_engine::receipt::CallReceipt;
use opcell_engine::tool::{Tool, ToolInput};
use opcell_ir::{agent, arguments::fit};
use opcell_types::{Denial, Remedy, ToolDescription, Value, denial::SessionPart, suggest::hint, text::one_line};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Maximum bytes of a tool's result that a model receives, unless the operator configures another.
pub const RESULT_LIMIT: usize = 64 << 10;

/// Maximum bytes of a tool's result in a session that shows a part of a long one and lets its model read the rest.
const STORED_LIMIT: usize = 1 << 20;

/// The time that a call that was cancelled may take to report what it used.
const LAST_WORD: Duration = Duration::from_secs(1);

/// A tool that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ToolError {
    /// Its name is taken.
    #[error("there are two tools named `{0}`")]
    Duplicate(String),
    /// The schema of its arguments is none.
    #[error("the parameters of the tool `{name}` are not a JSON Schema: {message}")]
    Schema {
        /// The tool.
        name: String,
        /// The problem.
        message: String,
    },
}

/// All tools of a host, by name.
pub struct Toolbox {
    tools: IndexMap<String, Entry>,
    result_limit: usize,
}

impl std::fmt::Debug for Toolbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Toolbox").finish_non_exhaustive()
    }
}

struct Entry {
    offered: SessionTool,
    checked: CheckedTool,
}

impl Toolbox {
    /// Takes tools in; their order is the order of prompts.
    ///
    /// # Errors
    /// When two have one name, or a schema is none.
    pub fn new(tools: impl IntoIterator<Item = SessionTool>, result_limit: usize) -> Result<Self, ToolError> {
        let mut toolbox = Self { tools: IndexMap::new(), result_limit };
        for offered in tools {
            let name = offered.name().to_owned();
            let checked = match offered.own {
                true => CheckedTool::own(offered.tool.clone(), result_limit),
                false => CheckedTool::new(offered.tool.clone(), result_limit)?,
            };
            if toolbox.tools.insert(name.clone(), Entry { offered, checked }).is_some() {
                return Err(ToolError::Duplicate(name));
            }
        }
        Ok(toolbox)
    }

    /// A toolbox without tools.
    pub(crate) fn empty() -> Self {
        Self { tools: IndexMap::new(), result_limit: 0 }
    }

    /// A tool by the name that models call it by.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&SessionTool> {
        self.tools.get(name).map(|entry| &entry.offered)
    }

    /// Returns a tool's present description of itself, where that takes asking; see [`Tool::current`].
    ///
    /// # Errors
    /// When it is not there.
    pub(crate) async fn current(&self, name: &str) -> Result<Option<ToolDescription>, Failure> {
        match self.find(name) {
            Some(offered) => Ok(offered.tool.current().await?.map(|current| current.named(name))),
            None => Ok(None),
        }
    }

    /// Every tool.
    pub fn tools(&self) -> impl Iterator<Item = &SessionTool> {
        self.tools.values().map(|entry| &entry.offered)
    }

    /// Makes one call. The session's tool list decides what may be called; whatever the engine checked before, it is
    /// checked here. However it ends, there is a receipt: a [`CallReceipt`].
    pub async fn call(&self, call: &ToolCall) -> Reply<Value> {
        let call = &fitted(call);
        self.perform(call, &ToolInput::of_model(call), self.limit_in(&call.session)).await
    }

    /// Maximum bytes of a result that a model is shown, where its session does not say.
    pub(crate) fn shown_limit(&self) -> u32 {
        u32::try_from(self.result_limit).unwrap_or(u32::MAX)
    }

    /// Maximum bytes of a result in a session.
    fn limit_in(&self, session: &OpenedSession) -> usize {
        session.result_limit.map_or(self.result_limit, |shown| STORED_LIMIT.max(shown as usize))
    }

    /// Makes one call of a program that a model wrote, whose arguments are [`fitted`]: the same checks, and the whole
    /// result.
    pub(crate) async fn call_of_program(&self, call: &ToolCall) -> Reply<Value> {
        self.perform(call, &ToolInput::of_program(call), usize::MAX).await
    }

    /// Cuts a result as those of tools are; returns the length that it had, and whether it was cut.
    pub(crate) fn cut(&self, session: &OpenedSession, value: &mut Value) -> (usize, bool) {
        let limit = self.limit_in(session);
        let bytes = cut(value, limit);
        (bytes, bytes > limit)
    }

    async fn perform(&self, call: &ToolCall, input: &ToolInput, result_limit: usize) -> Reply<Value> {
        let began = Instant::now();
        let name = call.request.name.as_str();
        let provider = self.find(performer(call)).map(|offered| offered.tool.provider());
        let receipt = CallReceipt::of_tool(name, provider, &call.request.arguments);
        let admitted = match self.admit(call) {
            Ok(tool) => self.as_approved(call).await.map(|()| tool),
            Err(refused) => Err(refused),
        };
        let mut reply = match admitted {
            Err(refused) => Reply { result: Err(refused), receipt: None },
            Ok(tool) => until_cancelled(tool, input).await,
        };
        if let (Ok(value), true) = (&mut reply.result, input.model().is_some() && !input.is_of_program()) {
            attachments::settle(value, call.session.settings.media.as_ref());
        }
        let bytes = reply.result.as_mut().map_or(0, |value| cut(value, result_limit));
        let ended = receipt
            .ended(began.elapsed(), reply.result.as_ref().map(|_| bytes as u64), reply.receipt.take())
            .touching(call.touched.so_far())
            .truncated(bytes > result_limit);
        Reply { receipt: ended.to_receipt(), ..reply }
    }

    /// Checks that the tool is still the one that a person approved the call for.
    async fn as_approved(&self, call: &ToolCall) -> Result<(), Failure> {
        let Some(approved) = &call.approved else { return Ok(()) };
        let Some(offered) = self.find(performer(call)) else { return Ok(()) };
        let current = self.current(performer(call)).await?;
        let description = current.as_ref().unwrap_or(&offered.description);
        if identity(&*offered.tool, description) == *approved {
            return Ok(());
        }
        let name = &call.request.name;
        let message =
            format!("`{name}` is not the tool any more that the call was approved for; ask for the call again");
        Err(failure("tool-changed", message))
    }

    fn admit(&self, call: &ToolCall) -> Result<&dyn Tool, Failure> {
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
        let Some(Entry { checked, .. }) = self.tools.get(performer(call)) else {
            return Err(failure("tool-unavailable", format!("the host no longer has the tool `{name}`")));
        };
        if let Some(why) = call.request.not_an_object() {
            return Err(failure("invalid-arguments", format!("the arguments of `{name}` cannot be used: {why}")));
        }
        let arguments = &call.request.arguments;
        let mut wrong = match is_agent(call) {
            true => {
                let schema = compiled(&agent::parameters()).map_err(|error| failure("invalid-shape", error))?;
                problems(&schema, arguments)
            }
            false => checked.problems(arguments),
        };
        if let Some(shape) = call.session.settings.tool_shapes.get(name).filter(|_| wrong.is_empty()) {
            let schema = compiled(&shape.parameters).map_err(|error| failure("invalid-shape", error))?;
            wrong = problems(&schema, arguments);
        }
        if wrong.is_empty() { Ok(checked.tool()) } else { Err(mismatch(name, &wrong)) }
    }
}

/// The call's end, or its cancellation, with what a run used that it had started.
async fn until_cancelled(tool: &dyn Tool, input: &ToolInput) -> Reply<Value> {
    let work = input.call(tool);
    tokio::pin!(work);
    tokio::select! {
        biased;
        () = input.cancel.cancelled() => {}
        reply = &mut work => return reply,
    }
    let receipt = match tool.ends_when_cancelled() {
        true => tokio::time::timeout(LAST_WORD, work).await.ok().and_then(|reply| reply.receipt),
        false => None,
    };
    Reply { result: Err(failure("cancelled", "the run was cancelled")), receipt }
}

/// Returns `true` if the model calls an agent of its pack.
fn is_agent(call: &ToolCall) -> bool {
    call.session.settings.agents.contains_key(&call.request.name)
}

/// The tool that performs a call.
fn performer(call: &ToolCall) -> &str {
    if is_agent(call) { DELEGATE_TOOL } else { &call.request.name }
}

/// Arguments of a tool whose shape the document declares are made to fit it first (PromptPack's rule).
pub(crate) fn fitted(call: &ToolCall) -> ToolCall {
    let mut call = call.clone();
    if let Some(shape) = call.session.settings.tool_shapes.get(&call.request.name) {
        call.request.arguments = fit(&(&shape.parameters).into(), &(&call.request.arguments).into()).into();
    }
    call
}
