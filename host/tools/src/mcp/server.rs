//! A server that is started when it is first needed, and calls of its tools.
//!
//! Whoever calls while a server starts waits for the same start; whoever gives up waiting takes nothing from the
//! others.

use super::{
    AcceptedTools, Binary, CallOptions, Called, ListedTool, Listing, MESSAGE_BYTES, McpServer, ServerStanding,
    ServerState, StartCheck,
    connection::Connection,
    failed,
    input::{self, Required},
    result,
    standing::Meter,
    task,
    wire::{Answer, error_text},
};
use futures_util::{
    FutureExt as _,
    future::{BoxFuture, Shared},
};
use opcell_types::{Failure, InputForm, InputRequest, Value, suggest};
use rmcp::model::CallToolRequestParams;
use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// The number of times that a server has a call repeated without input: one that is busy gives its work back so.
const MAX_REPEATS: u32 = 8;

/// The pause before each repetition, times its number.
const REPEAT_PAUSE: Duration = Duration::from_millis(100);

/// The addition to a refusal of the system, which a confined server does not explain itself.
const CONFINED: &str = "the server is confined";

type Starting = Shared<BoxFuture<'static, Result<Arc<Connection>, Failure>>>;

/// `true` if a server runs.
#[derive(Default)]
enum Slot {
    #[default]
    Idle,
    Starting(Starting),
    Running(Arc<Connection>),
}

/// A server of the project, running or not. Dropping it ends its process.
pub struct Server {
    name: String,
    config: McpServer,
    pins: Option<Arc<dyn AcceptedTools>>,
    check: Option<Arc<dyn StartCheck>>,
    slot: Mutex<Slot>,
    meter: Meter,
    last: Mutex<Last>,
}

/// The last that was heard of a server, running or not.
#[derive(Default)]
struct Last {
    listing: Option<Arc<Listing>>,
    /// Why it did not start, or did not list its tools.
    problem: Option<String>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// A server that is started when it is first needed.
    #[must_use]
    pub fn new(name: String, config: McpServer) -> Self {
        Self {
            name,
            config,
            pins: None,
            check: None,
            slot: Mutex::default(),
            meter: Meter::default(),
            last: Mutex::default(),
        }
    }

    /// Calls only tools that are as they were accepted.
    #[must_use]
    pub fn pinned(mut self, pins: Arc<dyn AcceptedTools>) -> Self {
        self.pins = Some(pins);
        self
    }

    /// Starts its program only while the check passes, the first time and each time after that.
    #[must_use]
    pub fn checked(mut self, check: Arc<dyn StartCheck>) -> Self {
        self.check = Some(check);
        self
    }

    /// Its name in the project.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the configuration that it is started with.
    #[must_use]
    pub fn config(&self) -> &McpServer {
        &self.config
    }

    /// Its tools, as it lists them now. The list is asked for again only after the server said that it changed.
    ///
    /// # Errors
    /// `mcp-not-started` with the end of what the server wrote to its standard error, `mcp-error`, `mcp-disconnected`
    /// or `timeout`.
    pub async fn tools(&self) -> Result<Arc<Listing>, Failure> {
        let listed = self.list().await.map_err(|failure| self.with_bounds(failure));
        let mut last = self.last();
        match &listed {
            Ok(listing) => *last = Last { listing: Some(listing.clone()), problem: None },
            Err(failure) => last.problem = Some(failure.message.clone()),
        }
        listed
    }

    async fn list(&self) -> Result<Arc<Listing>, Failure> {
        let open = self.connection().await?;
        match timeout(self.config.call_time, open.tools()).await {
            Ok(Ok(listing)) => Ok(listing),
            Ok(Err(answer)) => Err(self.no_result(answer)),
            Err(_) => {
                let (ms, unread) = (self.config.call_time.as_millis(), open.last_unread());
                let message = format!("MCP server `{}` did not list its tools within {ms} ms{unread}", self.name);
                Err(failed("timeout", message, true))
            }
        }
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The standing of the server, which is not started for it.
    #[must_use]
    pub fn standing(&self) -> ServerStanding {
        let Last { listing, problem } = {
            let last = self.last();
            Last { listing: last.listing.clone(), problem: last.problem.clone() }
        };
        let state = match &*self.slot.lock().unwrap_or_else(PoisonError::into_inner) {
            Slot::Running(open) if open.is_open() => ServerState::Running,
            Slot::Running(_) => ServerState::Ended,
            Slot::Starting(starting) => match starting.peek() {
                None => ServerState::Starting,
                Some(Ok(open)) if open.is_open() => ServerState::Running,
                Some(Ok(_)) => ServerState::Ended,
                Some(Err(_)) => ServerState::Failed,
            },
            Slot::Idle if problem.is_some() => ServerState::Failed,
            Slot::Idle => ServerState::Idle,
        };
        let accepted = self.pins.as_ref().and_then(|pins| pins.accepted(&self.name));
        let changes = match (&listing, accepted) {
            (Some(listing), Some(accepted)) => listing.changes(&accepted),
            _ => Vec::new(),
        };
        ServerStanding { state, problem, used: self.meter.used(), listing, changes }
    }

    /// Returns `true` if a list that the server gave is the one that [`tools`](Self::tools) would give without asking
    /// it again.
    #[must_use]
    pub fn is_current(&self, listing: &Arc<Listing>) -> bool {
        let slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let open = match &*slot {
            Slot::Running(open) => open,
            Slot::Starting(starting) => match starting.peek() {
                Some(Ok(open)) => open,
                _ => return false,
            },
            Slot::Idle => return false,
        };
        open.is_open() && open.has_current(listing)
    }

    /// Returns a number that grows whenever other descriptions are accepted, of this server or of another one.
    #[must_use]
    pub fn acceptance(&self) -> u64 {
        self.pins.as_ref().map_or(0, |pins| pins.version())
    }

    /// One of its tools.
    ///
    /// # Errors
    /// As [`Self::tools`]; `mcp-tool-not-accepted` where it is not as it was accepted, `mcp-unknown-tool` where the
    /// server does not have it, `mcp-unusable-tool` where its schema is refused.
    pub async fn tool(&self, name: &str) -> Result<ListedTool, Failure> {
        let listing = self.tools().await?;
        if let Some(tool) = listing.tools.get(name) {
            self.check(&listing, tool)?;
            return Ok(tool.clone());
        }
        let server = &self.name;
        if let Some(why) = listing.refused.get(name) {
            let message = format!("the tool `{name}` of MCP server `{server}` cannot be used: {why}");
            return Err(failed("mcp-unusable-tool", message, false));
        }
        let hint = suggest::hint(name, listing.tools.keys().map(String::as_str));
        let known: Vec<&str> = listing.tools.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        let partial = listing.partial.as_ref();
        let partial = partial.map(|why| format!("; its list could not be read whole: {why}")).unwrap_or_default();
        let message = format!("MCP server `{server}` has no tool `{name}`; it has: {known}{partial}{hint}");
        Err(failed("mcp-unknown-tool", message, false))
    }

    /// `true` if a tool is as it was accepted. What a server says on first sight is taken down.
    fn check(&self, listing: &Listing, tool: &ListedTool) -> Result<(), Failure> {
        let Some(pins) = &self.pins else { return Ok(()) };
        let server = &self.name;
        let not_accepted = |what: String| failed("mcp-tool-not-accepted", what, false);
        let Some(accepted) = pins.accepted(server) else {
            let taken = pins.first_look(server, listing);
            return taken.map_err(|why| not_accepted(format!("MCP server `{server}` was not accepted: {why}")));
        };
        let name = &tool.name;
        match accepted.get(name) {
            Some(digest) if *digest == tool.digest => Ok(()),
            Some(_) => Err(not_accepted(format!(
                "the tool `{name}` of MCP server `{server}` has changed since it was accepted: the server now describes it differently"
            ))),
            None => Err(not_accepted(format!(
                "the tool `{name}` of MCP server `{server}` is new: the server did not have it when its tools were accepted"
            ))),
        }
    }

    /// Calls a tool. What the tool reports as its own error may be retried; what the server refuses to do may not.
    ///
    /// # Errors
    /// With the tool's own failure, or how the server failed; with [`Failure::input`] where the tool asks a person and
    /// the caller waits for one.
    pub async fn call(&self, tool: &str, arguments: &Value, options: CallOptions<'_>) -> Result<Called, Failure> {
        let began = Instant::now();
        let called = self.call_uncounted(tool, arguments, options).await.map_err(|failure| self.with_bounds(failure));
        let received = match &called {
            Ok(called) => Ok(called.value.measure().bytes()),
            Err(failure) if failure.input.is_some() => Ok(0),
            Err(_) => Err(()),
        };
        self.meter.ended(began.elapsed(), arguments.measure().bytes(), received);
        called
    }

    /// Adds to what a confined server says of its rights where those are set: it does not know of its bounds.
    fn with_bounds(&self, mut failure: Failure) -> Failure {
        let is_refused = ["EACCES", "EPERM", "Permission denied", "permission denied", "Operation not permitted"]
            .iter()
            .any(|words| failure.message.contains(words));
        // A call lists the tools first, and may fail by that.
        let is_told = failure.message.contains(CONFINED);
        if self.config.confine && is_refused && !is_told {
            let name = &self.name;
            failure.message = format!(
                "{} ({CONFINED}: `read`, `write` and `network` of [mcp.{name}] are what it reaches)",
                failure.message
            );
        }
        failure
    }

    async fn call_uncounted(&self, tool: &str, arguments: &Value, options: CallOptions<'_>) -> Result<Called, Failure> {
        let arguments = match serde_json::Value::from(arguments) {
            serde_json::Value::Object(arguments) => arguments,
            _ => {
                return Err(failed(
                    "invalid-arguments",
                    "expected an object as the tool's arguments".to_owned(),
                    false,
                ));
            }
        };
        if self.pins.is_some() {
            self.tool(tool).await?;
        }
        if let Some((given, task)) = options.given.and_then(|given| Some((given, given.task.as_ref()?))) {
            let result = self.of_task(tool, task, given, options).await?;
            return self.called(tool, result, options.binary).await;
        }
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        if let Some(traceparent) = options.traceparent {
            params.meta.get_or_insert_default().set_traceparent(traceparent);
        }
        if let Some(given) = options.given {
            params.input_responses = Some(input::responses(given));
            params.request_state = given.state.as_deref().map(str::to_owned);
        }
        let open = self.connection().await?;
        let limit = self.config.call_time;
        match timeout(limit, asked_again(&open, params, options)).await {
            Err(_) => {
                let (ms, unread) = (limit.as_millis(), open.last_unread());
                Err(failed(
                    "timeout",
                    format!("MCP server `{}` gave no answer within {ms} ms{unread}", self.name),
                    true,
                ))
            }
            Ok(Answer::Result(result)) => {
                match input::required(&result).filter(|_| options.may_ask) {
                    None => {}
                    Some(Required::Forms(forms, state)) => return Err(self.input(tool, forms, state)),
                    Some(Required::Again(_)) => {
                        let why = format!("asks for the same call more than {MAX_REPEATS} times, and for no input");
                        return Err(self.unusable_input(tool, &why));
                    }
                    Some(Required::Unusable(why)) => return Err(self.unusable_input(tool, &why)),
                }
                match task::id_in(&result).filter(|_| options.may_ask) {
                    None => self.called(tool, result, options.binary).await,
                    Some(Ok(task)) => Err(self.task(tool, task)),
                    Some(Err(why)) => Err(self.unusable_input(tool, &why)),
                }
            }
            Ok(answer) => Err(self.no_result(answer)),
        }
    }

    /// The result of a call, checked against what the tool promises.
    async fn called(&self, tool: &str, result: serde_json::Value, binary: Binary) -> Result<Called, Failure> {
        let output = result::output(tool, result, binary)?;
        let listed = self.connection().await.ok().and_then(|open| open.listed());
        let schema = listed.and_then(|listing| listing.tools.get(tool)?.output.clone());
        let broken = schema.and_then(|schema| result::violation(&output, &schema));
        let broken = broken.map(|broken| format!("MCP tool `{tool}`: {broken}"));
        let beside = output.beside.as_ref();
        let beside = beside.map(|said| format!("MCP tool `{tool}` says beside its structured content: {said}"));
        Ok(Called { value: output.value, warnings: broken.into_iter().chain(beside).collect() })
    }

    /// The failure of a call that continues when a person has answered.
    fn input(&self, tool: &str, forms: Vec<InputForm>, state: Option<Arc<str>>) -> Failure {
        let question = forms.first().map_or("", |form| &form.message);
        let message = format!("tool `{tool}` of MCP server `{}` asks for input: {question}", self.name);
        let (server, tool) = (self.name.as_str().into(), tool.into());
        failed("mcp-input-required", message, false).with_input(InputRequest { server, tool, forms, state, task: None })
    }

    pub(super) fn unusable_input(&self, tool: &str, why: &str) -> Failure {
        failed("mcp-input-required", format!("tool `{tool}` of MCP server `{}` {why}", self.name), false)
    }

    /// The failure that an answer is which is no result.
    pub(super) fn no_result(&self, answer: Answer) -> Failure {
        let server = &self.name;
        match answer {
            Answer::Error(error) => {
                failed("mcp-error", format!("MCP server `{server}`: {}", error_text(&error, MESSAGE_BYTES)), false)
            }
            Answer::Refused { why, retriable } => {
                failed("mcp-error", format!("MCP server `{server}`: {why}"), retriable)
            }
            Answer::Lost(what) => failed("mcp-disconnected", format!("MCP server `{server}` {what}"), true),
            Answer::Unreadable(why) => failed("malformed-result", format!("MCP server `{server}`: {why}"), false),
            Answer::Result(_) => failed("malformed-result", format!("MCP server `{server}`: a result too many"), false),
        }
    }

    /// The running server; a new process where there is none, or the last one has ended.
    pub(super) async fn connection(&self) -> Result<Arc<Connection>, Failure> {
        let starting = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            let started = match &*slot {
                Slot::Running(open) if open.is_open() => return Ok(open.clone()),
                Slot::Starting(starting) => match starting.peek() {
                    None => Some(starting.clone()),
                    Some(Ok(open)) if open.is_open() => return Ok(open.clone()),
                    Some(_) => None,
                },
                Slot::Idle | Slot::Running(_) => None,
            };
            started.unwrap_or_else(|| {
                let starting =
                    Connection::start(self.name.clone(), self.config.clone(), self.check.clone()).boxed().shared();
                *slot = Slot::Starting(starting.clone());
                starting
            })
        };
        let started = starting.clone().await;
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        // Unless another start has taken this one's place.
        if matches!(&*slot, Slot::Starting(current) if current.ptr_eq(&starting)) {
            *slot = match &started {
                Ok(open) => Slot::Running(open.clone()),
                Err(_) => Slot::Idle,
            };
            self.last().problem = started.as_ref().err().map(|failure| failure.message.clone());
        }
        started
    }
}

/// The answer to a call, which is repeated as long as the server only gives a text to repeat it with.
async fn asked_again(open: &Connection, params: CallToolRequestParams, options: CallOptions<'_>) -> Answer {
    let CallOptions { may_ask, progress, .. } = options;
    let mut params = params;
    for repeat in 1..=MAX_REPEATS {
        let answer = open.call(params.clone(), may_ask, progress).await;
        let Answer::Result(result) = &answer else { return answer };
        let Some(Required::Again(state)) = input::required(result).filter(|_| may_ask) else { return answer };
        params.request_state = Some(state.as_ref().to_owned());
        params.input_responses = None;
        tokio::time::sleep(REPEAT_PAUSE * repeat).await;
    }
    open.call(params, may_ask, progress).await
}
