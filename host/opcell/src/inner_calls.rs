//! Calls that cells make of what the project has by name: tools of `[tools]`, and operations of plugins.
//!
//! A plugin reaches the names that it is granted, and nothing else; the sandbox has checked that before a call gets
//! here. Each call has its own schema checks, rules for approval, idempotency key and place in the receipt. A call that
//! needs a cell waits for one at a level of its own, so that cells that wait for calls never wait for one another.

use crate::{
    catalog::Catalog,
    services::{PluginServices, read_arguments},
    tools::DocumentTool,
};
use async_trait::async_trait;
use opcell_engine::{
    call,
    inner::{self, Concurrency, InnerJournal, PlacedCall, TouchPart},
    ports::{Call, Effects, Operations as _, Reply},
    receipt::{self, CallReceipt, Receipt},
    tool::{Caller, ToolInput},
};
use opcell_ir::ir::ApprovalRules;
use opcell_sandbox::{
    MAX_NESTING,
    host::{self, EndedCall, HostServices, LogEvent, SkillDescription, StartedCall, ToolCall},
    store::Stores,
};
use opcell_types::{CallContext, Failure, GivenInput, ToolDescription, TouchLog, Touched, Value, text::one_line};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// The limit of calls whose caller has its own.
const NO_LIMIT: Duration = Duration::from_hours(24);

/// A name of the project that a plugin is granted.
#[derive(Debug, Clone)]
pub(crate) struct ProjectTool {
    pub name: String,
    /// The rules of the tool and of its server, beside those of the plugin.
    pub approve: ApprovalRules,
    /// Arguments of calls that need no person.
    pub approved: Vec<Value>,
}

/// The services of one cell whose plugin is granted names of the project. Clones share them.
#[derive(Clone)]
pub(crate) struct CellServices {
    own: Arc<PluginServices>,
    catalog: Arc<Catalog>,
    /// The journal of the cell's calls.
    inner: Option<InnerJournal>,
    /// The calls so far, for the keys of the next.
    calls: Arc<AtomicU64>,
}

/// A call that has its place among those of its cell.
enum Placed {
    Ended(inner::EndedCall),
    Call(PlacedCall),
    /// The calls of the cell are not journaled.
    Unrecorded,
}

/// The entry of a call in the receipt of its cell.
struct Listing {
    touched: TouchLog,
    at: Option<usize>,
    began: Instant,
}

impl Listing {
    fn of(touched: &TouchLog, name: &str, sent: usize) -> Self {
        let at = touched.note(|touched| touched.call(name, sent as u64));
        Self { touched: touched.clone(), at, began: Instant::now() }
    }

    /// Notes the end of the call, with the receipt of a cell that performed it unless the journal has it.
    fn end(self, ended: inner::EndedCall, is_journaled: bool) -> EndedCall {
        let inner::EndedCall { reply: Reply { result, receipt }, nth, turn } = ended;
        let result = result.map(|value| value.to_json());
        let took = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.touched.note(|touched| {
            if let Some(receipt) = receipt.filter(|_| !is_journaled) {
                absorb(touched, &receipt);
            }
            let ended = result.as_ref().map(|json| json.len() as u64).map_err(|failure| &*failure.reason);
            touched.called(self.at, took, ended);
        });
        EndedCall { result, nth, turn: turn.map(|turn| Box::new(turn) as Box<dyn Send>) }
    }
}

/// A call of a name of the project that may be made.
struct PreparedCall {
    services: CellServices,
    target: Target,
    name: String,
    limit: Duration,
}

impl PreparedCall {
    async fn perform(
        &self,
        (arguments, answers): (Value, Answers),
        context: CallContext,
        touched: &TouchLog,
    ) -> Reply<Value> {
        let given = answers.given.clone();
        let performed = self.services.perform(&self.target, &self.name, (arguments, answers), context, touched);
        inner::within(self.limit, given.as_deref(), performed).await
    }
}

impl CellServices {
    pub(crate) fn new(own: Arc<PluginServices>, catalog: Arc<Catalog>, inner: Option<InnerJournal>) -> Self {
        Self { own, catalog, inner, calls: Arc::default() }
    }

    /// Finds the target of a call, and refuses a call that may not be made.
    fn admit(&self, tool: &ProjectTool, arguments: &Value, context: &CallContext) -> Result<Target, Failure> {
        let target = Target::of(&self.catalog, &tool.name).ok_or_else(|| {
            let message = format!("no tool and no operation of the project is called `{}`", one_line(&tool.name, 200));
            Failure::host("not-found", message)
        })?;
        if matches!(target, Target::Operation(_)) && context.nesting >= MAX_NESTING {
            let message =
                format!("the call is nested in {} cells; at most {MAX_NESTING} are allowed", context.nesting + 1);
            return Err(Failure::host("nesting-limit", message));
        }
        if !tool.approved.contains(arguments) {
            self.own.check_approval(&tool.name, target.effects(), tool.approve.rules(), arguments)?;
        }
        Ok(target)
    }

    async fn perform(
        &self,
        target: &Target,
        name: &str,
        arguments: (Value, Answers),
        context: CallContext,
        touched: &TouchLog,
    ) -> Reply<Value> {
        let (plugin, target) = (self.own.plugin.clone(), target.clone());
        let (catalog, name, touched) = (self.catalog.clone(), name.to_owned(), touched.clone());
        // A task of its own: what it needs of the stack is not the cell's. It ends with the cell.
        let task =
            tokio::spawn(async move { target.call(&catalog, &name, plugin, arguments, context, &touched).await });
        AbortOnDropHandle::new(task)
            .await
            .unwrap_or_else(|_| Err(Failure::host("panicked", "the host failed while it performed the call")).into())
    }

    /// Gives a call its place.
    fn place(&self, call: &ToolCall, arguments: &Value, effects: Effects) -> Placed {
        let Some(inner) = &self.inner else { return Placed::Unrecorded };
        let concurrency = if call.is_alone { Concurrency::Alone } else { Concurrency::AmongOthers };
        let failed = |failure: Failure| Placed::Ended(Reply::from(Err(failure)).into());
        let placed = match inner.begin(&call.name, arguments, false, concurrency) {
            Ok(placed) => placed,
            Err(failure) => return failed(failure),
        };
        match placed.recorded() {
            Ok(ended) => Placed::Ended(ended),
            Err(placed) if call.is_alone => Placed::Call(placed),
            Err(mut placed) => match placed.request(effects) {
                Ok(()) => Placed::Call(placed),
                Err(failure) => failed(failure),
            },
        }
    }

    /// Begins a call of a name of the project.
    fn begin(&self, call: ToolCall) -> StartedCall {
        self.admitted(call).unwrap_or_else(|refused| StartedCall::Ended(Err(refused).into()))
    }

    fn admitted(&self, call: ToolCall) -> Result<StartedCall, Failure> {
        let Some(tool) = self.own.project.iter().find(|tool| tool.name == call.name) else {
            return self.admitted_own(call);
        };
        let arguments = read_arguments(&call.arguments)?;
        let target = self.admit(tool, &arguments, &call.context)?;
        let context = nested(&self.calls, &call.context);
        let listing = Listing::of(&call.touched, &call.name, call.arguments.len());
        let effects = target.effects_of(&arguments);
        let placed = self.place(&call, &arguments, effects);
        let ToolCall { name, touched, limit, .. } = call;
        let prepared = PreparedCall { services: self.clone(), target, name, limit };
        Ok(match placed {
            Placed::Unrecorded => StartedCall::Running(Box::pin(async move {
                let reply = prepared.perform((arguments, Answers::default()), context, &touched).await;
                listing.end(reply.into(), false)
            })),
            Placed::Ended(ended) => {
                end_part(TouchPart::of(&touched), &ended, &touched);
                StartedCall::Ended(listing.end(ended, true))
            }
            Placed::Call(placed) => StartedCall::Running(Box::pin(async move {
                let part = TouchPart::of(&touched);
                let log = part.log();
                let make = |context: CallContext, given: Option<Arc<GivenInput>>| {
                    let (prepared, arguments, log) = (&prepared, &arguments, &log);
                    async move {
                        let began = Instant::now();
                        let answers = Answers { given, is_run_again: true };
                        let reply = prepared.perform((arguments.clone(), answers), context, log).await;
                        with_receipt(&prepared.name, arguments, began, reply, log)
                    }
                };
                let ended = placed.make(effects, context, make).await;
                end_part(part, &ended, &touched);
                listing.end(ended, true)
            })),
        })
    }

    /// The same for a tool of the plugin's own, such as requests under its rules.
    fn admitted_own(&self, call: ToolCall) -> Result<StartedCall, Failure> {
        let own = self.own.clone();
        if self.inner.is_none() {
            return Ok(own.start_call(call));
        }
        let arguments = read_arguments(&call.arguments)?;
        let tool = own.admit(&call.name, &arguments)?;
        let effects = tool.effects_of(&arguments);
        let placed = self.place(&call, &arguments, effects);
        let ToolCall { name, context, touched, limit, .. } = call;
        Ok(match placed {
            Placed::Unrecorded => StartedCall::Ended(Err(Failure::host("internal", "the call has no journal")).into()),
            Placed::Ended(ended) => {
                TouchPart::of(&touched).end(ended.reply.receipt.as_deref());
                StartedCall::Ended(finished(ended))
            }
            Placed::Call(placed) => StartedCall::Running(Box::pin(async move {
                let part = TouchPart::of(&touched);
                let (log, plugin) = (part.log(), own.plugin.clone());
                let make = |context: CallContext, _| {
                    let (plugin, tool, name, arguments, log) = (plugin.clone(), &tool, &name, &arguments, &log);
                    async move {
                        let began = Instant::now();
                        let performed =
                            PluginServices::perform(plugin, &**tool, arguments.clone(), context, log.clone());
                        let reply = within(limit, performed).await;
                        with_receipt(name, arguments, began, reply, log)
                    }
                };
                let ended = placed.make(effects, CallContext::clone(&context), make).await;
                part.end(ended.reply.receipt.as_deref());
                finished(ended)
            })),
        })
    }
}

/// The end of a call that the receipt does not list.
pub(crate) fn finished(ended: inner::EndedCall) -> EndedCall {
    let inner::EndedCall { reply, nth, turn } = ended;
    let result = reply.result.map(|value| value.to_json());
    EndedCall { result, nth, turn: turn.map(|turn| Box::new(turn) as Box<dyn Send>) }
}

/// Notes what a call of a name of the project touched, that of the cell which performed it included.
fn end_part(part: TouchPart<'_>, ended: &inner::EndedCall, touched: &TouchLog) {
    let receipt = ended.reply.receipt.as_deref();
    part.end(receipt);
    if let Some(cell) = receipt.and_then(receipt::cell_of) {
        touched.note(|touched| absorb(touched, &Receipt::from(cell.clone())));
    }
}

/// The reply of a call, or its failure where it takes longer than `limit`.
pub(crate) async fn within(limit: Duration, call: impl Future<Output = Reply<Value>>) -> Reply<Value> {
    let called = async { Ok(call.await) };
    host::within(limit, called).await.unwrap_or_else(|late| Err(late).into())
}

/// A reply with the receipt that the journal holds: what the call touched, and the cell that performed it.
fn with_receipt(name: &str, arguments: &Value, began: Instant, reply: Reply<Value>, log: &TouchLog) -> Reply<Value> {
    let Reply { result, receipt } = reply;
    let receipt = CallReceipt::of_tool(name, None, arguments)
        .ended(began.elapsed(), result.as_ref().map(receipt::bytes), receipt)
        .touching(log.so_far())
        .to_receipt();
    Reply { result, receipt }
}

/// The answers to what a tool asked for, if the calling cell can wait for any.
#[derive(Debug, Clone, Default)]
struct Answers {
    given: Option<Arc<GivenInput>>,
    is_run_again: bool,
}

/// The target of a name of the project.
#[derive(Clone)]
enum Target {
    Tool(DocumentTool),
    Operation(Effects),
}

impl Target {
    fn of(catalog: &Catalog, name: &str) -> Option<Self> {
        match catalog.document_tool(name) {
            Some(tool) => Some(Self::Tool(tool.clone())),
            None => catalog.operation_effects(name).map(Self::Operation),
        }
    }

    fn effects(&self) -> Effects {
        match self {
            Self::Tool(tool) => tool.tool.effects(),
            Self::Operation(effects) => *effects,
        }
    }

    fn effects_of(&self, arguments: &Value) -> Effects {
        match self {
            Self::Tool(tool) => tool.tool.effects_of(arguments),
            Self::Operation(effects) => *effects,
        }
    }

    async fn call(
        self,
        catalog: &Catalog,
        name: &str,
        plugin: Arc<str>,
        (arguments, answers): (Value, Answers),
        context: CallContext,
        touched: &TouchLog,
    ) -> Reply<Value> {
        // Whoever drops the task ends the call; what it has started elsewhere learns of it by this.
        let cancel = CancellationToken::new();
        let _ends_with_the_call = cancel.clone().drop_guard();
        match self {
            Self::Tool(tool) => {
                let input = ToolInput {
                    context,
                    cancel: cancel.into(),
                    touched: touched.clone(),
                    given: answers.given,
                    is_run_again: answers.is_run_again,
                    ..ToolInput::new(arguments, Caller::Plugin(plugin))
                };
                input.call(&*tool.tool).await
            }
            Self::Operation(_) => {
                let asked = call::Call {
                    id: name.into(),
                    arguments,
                    context,
                    capabilities: None,
                    granted: Vec::new(),
                    timeout_ms: None,
                    given: None,
                };
                let Reply { result, receipt } = catalog.invoke(Call::new(asked, cancel)).await;
                Reply { result: result.map(|success| success.data), receipt }
            }
        }
    }
}

/// The context of the next call of a cell that has made `calls`. Its key is the same when the cell is run again and calls
/// the same things in the same order.
pub(crate) fn nested(calls: &AtomicU64, context: &CallContext) -> CallContext {
    let number = calls.fetch_add(1, Ordering::Relaxed) + 1;
    let idempotency_key = match context.idempotency_key.as_ref() {
        "" => context.idempotency_key.clone(),
        key => format!("{key}/{number}").into(),
    };
    CallContext { nesting: context.nesting.saturating_add(1), idempotency_key, ..context.clone() }
}

/// Takes what a call touched from its receipt: the cell that made the call answers for it.
pub(crate) fn absorb(into: &mut Touched, receipt: &Receipt) {
    let touched = receipt.get("touched").and_then(|touched| serde_json::from_value::<Touched>(touched.into()).ok());
    into.inner_host_calls += receipt.host_calls().unwrap_or(0);
    if let Some(touched) = touched {
        into.absorb(touched);
    }
}

#[async_trait]
impl HostServices for CellServices {
    fn tools(&self) -> Vec<ToolDescription> {
        let mut tools = self.own.tools();
        let project = self.own.project.iter().filter_map(|tool| self.catalog.description_of(&tool.name));
        tools.extend(project);
        tools
    }

    async fn current_tools(&self) -> Vec<ToolDescription> {
        let mut tools = self.own.tools();
        for tool in &self.own.project {
            let known = match self.catalog.document_tool(&tool.name) {
                Some(document) => document.tool.current().await.ok().flatten(),
                None => None,
            };
            let known = known.map(|known| known.named(&tool.name));
            tools.extend(known.or_else(|| self.catalog.description_of(&tool.name)));
        }
        tools
    }

    async fn call_tool(
        &self,
        name: &str,
        arguments: &str,
        context: &CallContext,
        touched: &TouchLog,
    ) -> Result<String, Failure> {
        let call = ToolCall {
            name: name.to_owned(),
            arguments: arguments.to_owned(),
            context: Arc::new(context.clone()),
            touched: touched.clone(),
            limit: NO_LIMIT,
            is_alone: true,
        };
        match self.begin(call) {
            StartedCall::Ended(ended) => ended.result,
            StartedCall::Running(call) => call.await.result,
        }
    }

    fn start_call(self: Arc<Self>, call: ToolCall) -> StartedCall {
        self.begin(call)
    }

    fn start_timer(self: Arc<Self>, ms: u64) -> StartedCall {
        let Some(inner) = &self.inner else { return self.own.clone().start_timer(ms) };
        match inner.start_timer(ms).map(PlacedCall::recorded) {
            Err(failure) => StartedCall::Ended(Err(failure).into()),
            Ok(Ok(ended)) => StartedCall::Ended(finished(ended)),
            Ok(Err(timer)) => StartedCall::Running(Box::pin(async move { finished(timer.end_timer().await) })),
        }
    }

    fn awaits(&self, calls: Option<usize>) {
        if let Some(inner) = &self.inner {
            inner.awaits(calls);
        }
    }

    fn skills(&self) -> Vec<SkillDescription> {
        self.own.skills()
    }

    async fn read_skill(&self, name: &str, context: &CallContext) -> Result<String, Failure> {
        self.own.read_skill(name, context).await
    }

    async fn read_skill_resource(&self, name: &str, path: &str, context: &CallContext) -> Result<Vec<u8>, Failure> {
        self.own.read_skill_resource(name, path, context).await
    }

    fn stores(&self, context: &CallContext) -> Option<Box<dyn Stores>> {
        self.own.stores(context)
    }

    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        self.own.log(plugin, context, event);
    }
}
