//! The host's services for the cells of one plugin: its tools, and its log.

use crate::{inner_calls::ProjectTool, stores::PluginStores};
use async_trait::async_trait;
use opcell_engine::{
    approval::{self, CallArguments},
    ports::Reply,
    tool::{Caller, Tool, ToolInput},
};
use opcell_ir::ir::{ApprovalRule, ApprovalRules};
use opcell_sandbox::{
    Receipt as CellReceipt,
    host::{HostServices, LogEvent, SkillDescription},
    store::Stores,
};
use opcell_schema::Weight;
pub use opcell_session::sessions::RoundFigures;
use opcell_session::{
    sessions::SessionFigures,
    skills::{SkillError, SkillLibrary},
};
use opcell_types::{CallContext, Denial, Effects, Failure, Remedy, ToolDescription, TouchLog, Value, text::cleaned};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The name of the tool that performs HTTP requests.
pub const HTTP_FETCH: &str = "http.fetch";

/// Memory of the host that the arguments of one call may take.
const MAX_ARGUMENT_BYTES: u64 = 64 << 20;

/// Reads the arguments of a call that a cell makes: it pays for their text, and the host for their value.
pub(crate) fn read_arguments(text: &str) -> Result<Value, Failure> {
    let weight = Weight::of(text);
    if weight.bytes > MAX_ARGUMENT_BYTES {
        return Err(Failure::host(
            "invalid-arguments",
            format!(
                "the arguments have {} values, which would take {} KiB of the host's memory, more than {} KiB: split \
                 the call",
                weight.values,
                weight.bytes >> 10,
                MAX_ARGUMENT_BYTES >> 10
            ),
        ));
    }
    Value::from_json(text)
        .map_err(|error| Failure::host("invalid-arguments", format!("the arguments are not JSON: {error}")))
}

/// Receives what cells say while they run. Must not block.
pub trait LogSink: Send + Sync {
    /// A line or a progress report.
    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>);

    /// A cell has ended, well or not: for figures of every call, whoever made it. Does nothing by default.
    fn ended(&self, context: &CallContext, receipt: &CellReceipt) {
        let _ = (context, receipt);
    }

    /// A model of a session has answered a round, or failed to. Does nothing by default.
    fn answered(&self, round: RoundFigures<'_>) {
        let _ = round;
    }

    /// A tool that a model called has returned, or failed. Does nothing by default.
    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        let _ = (tool, took, failure);
    }
}

/// The figures of sessions, for the sink of a host.
pub(crate) struct FiguresTo(pub(crate) Arc<dyn LogSink>);

impl SessionFigures for FiguresTo {
    fn answered(&self, round: RoundFigures<'_>) {
        self.0.answered(round);
    }

    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        self.0.called(tool, took, failure);
    }
}

/// A sink that several owners share.
impl<S: LogSink + ?Sized> LogSink for Arc<S> {
    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        (**self).log(plugin, context, event);
    }

    fn ended(&self, context: &CallContext, receipt: &CellReceipt) {
        (**self).ended(context, receipt);
    }

    fn answered(&self, round: RoundFigures<'_>) {
        (**self).answered(round);
    }

    fn called(&self, tool: &str, took: Duration, failure: Option<&Failure>) {
        (**self).called(tool, took, failure);
    }
}

/// The services of one plugin.
pub(crate) struct PluginServices {
    pub plugin: Arc<str>,
    /// The owner of the stores that it keeps things in: its own name, or that of a tenant and its own.
    pub store_owner: Arc<str>,
    /// `http.fetch` under the plugin's rules, and the tools of the embedder.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The names of the project that it is granted.
    pub project: Vec<ProjectTool>,
    pub skills: Arc<SkillLibrary>,
    pub stores: PluginStores,
    pub sink: Option<Arc<dyn LogSink>>,
    /// Rules for calls of tools that wait for a person.
    pub approve: ApprovalRules,
    /// The calls that a person has approved: the tool, and its arguments as JSON.
    pub approved: Vec<(String, String)>,
}

impl PluginServices {
    /// Finds a tool of its own for a call, and refuses a call that may not be made.
    pub(crate) fn admit(&self, name: &str, arguments: &Value) -> Result<Arc<dyn Tool>, Failure> {
        let tool = self.tools.iter().find(|tool| tool.description().name == name);
        let tool = tool.ok_or_else(|| Failure::host("not-found", format!("this host has no tool `{name}`")))?;
        self.check_approval(name, tool.effects(), &[], arguments)?;
        Ok(tool.clone())
    }

    /// Calls a tool of its own.
    pub(crate) async fn perform(
        plugin: Arc<str>,
        tool: &dyn Tool,
        arguments: Value,
        context: CallContext,
        touched: TouchLog,
    ) -> Reply<Value> {
        // The sandbox drops the call when the cell ends; what the tool has started elsewhere learns of it by this.
        let cancel = CancellationToken::new();
        let _ends_with_the_call = cancel.clone().drop_guard();
        let input =
            ToolInput { context, cancel: cancel.into(), touched, ..ToolInput::new(arguments, Caller::Plugin(plugin)) };
        input.call(tool).await
    }

    /// Refuses a call that a person has to approve first, under the plugin's rules and those of the tool. The refusal is
    /// what they are asked about.
    pub(crate) fn check_approval(
        &self,
        name: &str,
        effects: Effects,
        rules_of_tool: &[ApprovalRule],
        arguments: &Value,
    ) -> Result<(), Failure> {
        let rules = self.approve.rules().iter().chain(rules_of_tool);
        let asking: Vec<String> = rules
            .filter(|rule| rule.is_for(&[name]) && approval::asks(rule, effects, arguments))
            .map(ApprovalRule::describe)
            .collect();
        if asking.is_empty() {
            return Ok(());
        }
        let json = arguments.to_json();
        if self.approved.iter().any(|(tool, approved)| tool == name && *approved == json) {
            return Ok(());
        }
        let shown = CallArguments::of(arguments);
        let rule = format!("a person has to approve it ({}): {}", asking.join("; "), cleaned(&shown.text));
        let remedy = Remedy::ApproveCall { plugin: self.plugin.clone(), tool: name.to_owned(), arguments: json };
        let denial = Denial::of("call", name, rule, remedy);
        Err(Failure::host("denied", denial.to_string()).with_denial(denial))
    }
}

#[async_trait]
impl HostServices for PluginServices {
    fn tools(&self) -> Vec<ToolDescription> {
        self.tools.iter().map(|tool| tool.description().clone()).collect()
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        context: &CallContext,
        touched: &TouchLog,
    ) -> Result<String, Failure> {
        let arguments = read_arguments(arguments)?;
        let tool = self.admit(name, &arguments)?;
        let reply = Self::perform(self.plugin.clone(), &*tool, arguments, context.clone(), touched.clone()).await;
        reply.result.map(|value| value.to_json())
    }

    fn skills(&self) -> Vec<SkillDescription> {
        let describe = |skill: &opcell_session::skills::Skill| SkillDescription {
            name: skill.name.clone(),
            description: cleaned(&skill.description).into_owned(),
        };
        self.skills.skills().map(describe).collect()
    }

    async fn read_skill(&self, name: &str, _context: &CallContext) -> Result<String, Failure> {
        let (skills, name) = (self.skills.clone(), name.to_owned());
        off_runtime(move || skills.read(&name)).await
    }

    async fn read_skill_resource(&self, name: &str, path: &str, _context: &CallContext) -> Result<Vec<u8>, Failure> {
        let (skills, name, path) = (self.skills.clone(), name.to_owned(), path.to_owned());
        off_runtime(move || skills.read_resource(&name, &path)).await
    }

    fn stores(&self, context: &CallContext) -> Option<Box<dyn Stores>> {
        Some(self.stores.of(&self.store_owner, context))
    }

    #[allow(clippy::cast_precision_loss, reason = "a count that is shown")]
    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        if let LogEvent::Progress { done, total, message } = event {
            context.progress.report(done as f64, Some(total as f64), message);
        }
        if let Some(sink) = &self.sink {
            sink.log(plugin, context, event);
        }
    }
}

/// Reads from disk on a thread where blocking is allowed.
async fn off_runtime<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, SkillError> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result.map_err(|error| Failure::host("skill-unreadable", error.to_string())),
        Err(_) => Err(Failure::host("skill-unreadable", "reading the skill was abandoned".to_owned())),
    }
}
