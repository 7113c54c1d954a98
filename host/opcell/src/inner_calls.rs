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
    inner::{InnerJournal, TouchPart},
    ports::{Call, Effects, Operations as _, Reply},
    receipt::{self, CallReceipt, Receipt},
    tool::{Caller, ToolInput},
};
use opcell_ir::ir::ApprovalRules;
use opcell_sandbox::{
    MAX_NESTING,
    host::{HostServices, LogEvent, SkillDescription},
    store::Stores,
};
use opcell_types::{CallContext, Failure, ToolDescription, TouchLog, Touched, Value, text::one_line};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// A name of the project that a plugin is granted.
#[derive(Debug, Clone)]
pub(crate) struct ProjectTool {
    pub name: String,
    /// The rules of the tool and of its server, beside those of the plugin.
    pub approve: ApprovalRules,
    /// Arguments of calls that need no person.
    pub approved: Vec<Value>,
}

/// The services of one cell whose plugin is granted names of the project.
pub(crate) struct CellServices {
    own: Arc<PluginServices>,
    catalog: Arc<Catalog>,
    /// The journal of the cell's calls.
    inner: Option<InnerJournal>,
    /// The calls so far, for the keys of the next.
    calls: AtomicU64,
}

impl CellServices {
    pub(crate) fn new(own: Arc<PluginServices>, catalog: Arc<Catalog>, inner: Option<InnerJournal>) -> Self {
        Self { own, catalog, inner, calls: AtomicU64::new(0) }
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
        target: Target,
        name: &str,
        arguments: Value,
        context: CallContext,
        touched: &TouchLog,
    ) -> Reply<Value> {
        let plugin = self.own.plugin.clone();
        let (catalog, name, touched) = (self.catalog.clone(), name.to_owned(), touched.clone());
        // A task of its own: what it needs of the stack is not the cell's. It ends with the cell.
        let task =
            tokio::spawn(async move { target.call(&catalog, &name, plugin, arguments, context, &touched).await });
        AbortOnDropHandle::new(task)
            .await
            .unwrap_or_else(|_| Err(Failure::host("panicked", "the host failed while it performed the call")).into())
    }

    /// Makes a call of a name of the project, or answers it from the record of the cell's calls.
    async fn journaled(
        &self,
        inner: &InnerJournal,
        target: Target,
        name: &str,
        arguments: &Value,
        context: CallContext,
        touched: &TouchLog,
    ) -> Reply<Value> {
        let (part, effects) = (TouchPart::of(touched), target.effects_of(arguments));
        let log = part.log();
        let make = |context: CallContext| async move {
            let began = Instant::now();
            let reply = self.perform(target, name, arguments.clone(), context, &log).await;
            with_receipt(name, arguments, began, reply, &log)
        };
        let reply = inner.call((name, arguments, effects), context, make).await;
        part.end(reply.receipt.as_deref());
        if let Some(cell) = reply.receipt.as_deref().and_then(receipt::cell_of) {
            touched.note(|touched| absorb(touched, &Receipt::from(cell.clone())));
        }
        reply
    }

    /// The same for a tool of the plugin's own, such as requests under its rules.
    async fn journaled_own(
        &self,
        inner: &InnerJournal,
        name: &str,
        arguments: &Value,
        context: &CallContext,
        touched: &TouchLog,
    ) -> Result<Value, Failure> {
        let tool = self.own.admit(name, arguments)?;
        let (part, effects) = (TouchPart::of(touched), tool.effects_of(arguments));
        let (log, plugin) = (part.log(), self.own.plugin.clone());
        let make = |context: CallContext| async move {
            let began = Instant::now();
            let reply = PluginServices::perform(plugin, &*tool, arguments.clone(), context, log.clone()).await;
            with_receipt(name, arguments, began, reply, &log)
        };
        let reply = inner.call((name, arguments, effects), context.clone(), make).await;
        part.end(reply.receipt.as_deref());
        reply.result
    }
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

/// The target of a name of the project.
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
        arguments: Value,
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
        let Some(tool) = self.own.project.iter().find(|tool| tool.name == name) else {
            let Some(inner) = &self.inner else {
                return self.own.call_tool(name, arguments, context, touched).await;
            };
            let arguments = read_arguments(arguments)?;
            let result = self.journaled_own(inner, name, &arguments, context, touched).await;
            return result.map(|value| value.to_json());
        };
        let sent = arguments.len() as u64;
        let arguments = read_arguments(arguments)?;
        let target = self.admit(tool, &arguments, context)?;
        let context = nested(&self.calls, context);
        let (listed, began) = (touched.note(|touched| touched.call(name, sent)), Instant::now());
        let Reply { result, receipt } = match &self.inner {
            None => self.perform(target, name, arguments, context, touched).await,
            Some(inner) => {
                let reply = self.journaled(inner, target, name, &arguments, context, touched).await;
                Reply { receipt: None, ..reply }
            }
        };
        let result = result.map(|value| value.to_json());
        let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        touched.note(|touched| {
            if let Some(receipt) = &receipt {
                absorb(touched, receipt);
            }
            let ended = result.as_ref().map(|json| json.len() as u64).map_err(|failure| &*failure.reason);
            touched.called(listed, took, ended);
        });
        result
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
