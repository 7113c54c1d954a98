//! The services that the sandbox needs from its embedder while a cell runs. Everything here has already passed the
//! cell's grants.

use crate::{
    receipt::{Level, Stream},
    store::Stores,
};
use async_trait::async_trait;
use opcell_types::{CallContext, Failure, ToolDescription, TouchLog};
use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

/// A skill of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillDescription {
    /// Its name.
    pub name: String,
    /// The description of its purpose.
    pub description: String,
}

/// Something that a cell says while it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LogEvent<'a> {
    /// A line of the log.
    Line {
        /// The level.
        level: Level,
        /// The stream that it came from.
        stream: Stream,
        /// Printable text.
        message: &'a str,
    },
    /// The progress of the cell; `total` is zero when it is not known.
    Progress {
        /// Done so far.
        done: u64,
        /// All that is to be done.
        total: u64,
        /// Printable text.
        message: &'a str,
    },
}

/// A call of a tool.
#[derive(Debug)]
pub struct ToolCall {
    /// The tool.
    pub name: String,
    /// The arguments as JSON text.
    pub arguments: String,
    /// The place in the run.
    pub context: Arc<CallContext>,
    /// The log in which the call notes what it touches, before it happens.
    pub touched: TouchLog,
    /// The time that it may take.
    pub limit: Duration,
    /// `true` if no other call of the cell is in progress, and none is started before this one has ended.
    pub is_alone: bool,
}

/// A call that has begun.
pub enum StartedCall {
    /// It has ended already: it was refused, or answered from a record.
    Ended(EndedCall),
    /// It ends with this; dropping it cancels the call.
    Running(Pin<Box<dyn Future<Output = EndedCall> + Send>>),
}

/// A call that has ended.
pub struct EndedCall {
    /// The result as JSON text.
    pub result: Result<String, Failure>,
    /// Its place in the order in which the cell's calls ended, where a record has it.
    pub nth: Option<u32>,
    /// Held until the cell is to learn of another call's end.
    pub turn: Option<Box<dyn Send>>,
}

impl fmt::Debug for StartedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(ended) => ended.fmt(f),
            Self::Running(_) => f.write_str("Running"),
        }
    }
}

impl fmt::Debug for EndedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndedCall").field("result", &self.result).field("nth", &self.nth).finish_non_exhaustive()
    }
}

impl From<Result<String, Failure>> for EndedCall {
    fn from(result: Result<String, Failure>) -> Self {
        Self { result, nth: None, turn: None }
    }
}

/// The result of a service, or a failure where it takes longer than `limit`.
///
/// # Errors
/// That of the service, or `timeout`.
pub async fn within<T>(limit: Duration, service: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    let late = || Failure::host("timeout", format!("the host did not answer within {} ms", limit.as_millis()));
    tokio::time::timeout(limit, service).await.unwrap_or_else(|_| Err(late()))
}

/// The host's side of the imports: everything that the cells of one plugin can ask for. Implementations must not block.
///
/// This is not a tool: the sandbox links whatever a component imports to one `HostServices`, which knows the host's
/// tools by their names beside skills, stores and the log. The sandbox asks only for what the cell may use: a tool that
/// is not granted never reaches [`Self::call_tool`].
///
/// ```
/// use async_trait::async_trait;
/// use opcell_sandbox::HostServices;
/// use opcell_types::{CallContext, Failure, ToolDescription, TouchLog};
/// use serde_json::json;
///
/// /// Plugins that are granted `clock.zone` may ask which time zone the host is in.
/// struct Zone(&'static str);
///
/// #[async_trait]
/// impl HostServices for Zone {
///     fn tools(&self) -> Vec<ToolDescription> {
///         let nothing = json!({"type": "object", "additionalProperties": false});
///         vec![ToolDescription::new("clock.zone", "Returns the time zone of the host.", nothing)]
///     }
///
///     async fn call_tool(&self, _: &str, _: &str, _: &CallContext, _: &TouchLog) -> Result<String, Failure> {
///         Ok(format!("{:?}", self.0))
///     }
/// }
/// ```
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Every tool of the host; the sandbox shows a cell those that it may use.
    fn tools(&self) -> Vec<ToolDescription> {
        Vec::new()
    }

    /// The same, as they describe themselves now, where someone has to be asked; what [`Self::tools`] says by default.
    async fn current_tools(&self) -> Vec<ToolDescription> {
        self.tools()
    }

    /// Calls a tool with arguments as JSON text; the result is JSON text. A failure with a denial reaches the guest as
    /// a denial. What the call touches is noted before it happens: the call may be dropped at any time.
    async fn call_tool(
        &self,
        name: &str,
        _arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        Err(not_here("tool", name))
    }

    /// Begins a call of a tool. What decides about the call's place among those of its cell happens before this returns:
    /// a cell makes its calls in the same order when it is run again, and not at the same times.
    ///
    /// Calls [`Self::call_tool`] by default.
    fn start_call(self: Arc<Self>, call: ToolCall) -> StartedCall
    where
        Self: 'static,
    {
        StartedCall::Running(Box::pin(async move {
            let called = self.call_tool(&call.name, &call.arguments, &call.context, &call.touched);
            within(call.limit, called).await.into()
        }))
    }

    /// Starts a timer of a cell. What decides about its place among the calls of the cell happens before this returns.
    fn start_timer(self: Arc<Self>, ms: u64) -> StartedCall
    where
        Self: 'static,
    {
        StartedCall::Running(Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Ok("null".to_owned()).into()
        }))
    }

    /// A cell waits for calls that it has started, of which this many are in progress; with `None` it continues.
    fn awaits(&self, _calls: Option<usize>) {}

    /// Every skill of the host; the sandbox shows a cell those that it may use.
    fn skills(&self) -> Vec<SkillDescription> {
        Vec::new()
    }

    /// The body of a skill.
    async fn read_skill(&self, name: &str, _context: &CallContext) -> Result<String, Failure> {
        Err(not_here("skill", name))
    }

    /// A file that belongs to a skill, by its relative path as the guest wrote it: the implementation keeps it inside
    /// the skill.
    async fn read_skill_resource(&self, name: &str, _path: &str, _context: &CallContext) -> Result<Vec<u8>, Failure> {
        Err(not_here("skill", name))
    }

    /// Returns the stores of the plugin of this call; `None` when this host keeps nothing.
    fn stores(&self, _context: &CallContext) -> Option<Box<dyn Stores>> {
        None
    }

    /// A cell says something. Called while the guest waits.
    fn log(&self, _plugin: &str, _context: &CallContext, _event: LogEvent<'_>) {}
}

fn not_here(what: &str, name: &str) -> Failure {
    Failure::host("not-found", format!("this host has no {what} `{name}`"))
}

/// A host that offers nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoServices;

impl HostServices for NoServices {}
