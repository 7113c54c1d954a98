//! Programs that models write, each in a cell of the plugin that is part of the library. A program reaches the tools of
//! its session, and nothing of what the plugin is granted in the project.

use crate::{
    builtin,
    catalog::{Catalog, CellReceipt, Loaded},
    config::{Config, PluginConfig},
    host::{Ground, Loader},
    inner_calls::{absorb, finished, nested},
    replay::Record,
    services::{PluginServices, read_arguments},
};
use async_trait::async_trait;
use futures_util::future::BoxFuture;
use opcell_engine::{
    call::Call,
    inner::{self, Concurrency},
    ports::{Failure, Reply},
    receipt::{Receipt, cell_of},
};
use opcell_ir::ir::CodeMode;
use opcell_sandbox::{
    CellRequest, CellResult, ContextRequest, Tape,
    host::{EndedCall, HostServices, LogEvent, StartedCall, ToolCall},
};
use opcell_session::code::{self, Program, ProgramCall, ProgramTools, Programs};
use opcell_types::{CallContext, FollowUp, ToolDescription, TouchLog, Value};
use std::{
    io,
    sync::{Arc, Weak, atomic::AtomicU64},
    time::Instant,
};
use tokio::sync::OnceCell;
use tokio_util::task::AbortOnDropHandle;

/// The operation that runs a program.
pub(crate) const RUN_JAVASCRIPT: &str = "code/run";
pub(crate) const RUN_PYTHON: &str = "python/run";

/// The reason for which programs in Python cannot be run, with its remedy.
fn no_python() -> String {
    format!("the runtime for Python is not installed; {} builds it", FollowUp::InstallPython)
}

/// Milliseconds that a program may take where the project says nothing of the plugin.
const WALL_TIME: u64 = 10 * 60_000;

/// Milliseconds that one call of a program may take, likewise.
const HOST_CALL_TIME: u64 = 5 * 60_000;

/// Runs the programs of a host's sessions.
pub(crate) struct SessionPrograms {
    pub loader: Loader,
    pub config: Config,
    pub ground: Ground,
    pub catalog: Weak<Catalog>,
    /// The plugin, loaded for the first program unless the project has it.
    pub loaded: OnceCell<Loaded>,
    /// The one for Python.
    pub python: OnceCell<Loaded>,
}

impl SessionPrograms {
    async fn plugin(&self, language: CodeMode) -> Result<Loaded, Failure> {
        if language == CodeMode::Python {
            return self.python.get_or_try_init(|| self.load_python()).await.cloned();
        }
        let is_builtin = |plugin: &PluginConfig| plugin.builtin_component().is_some();
        if self.config.plugins.get(builtin::CODE).is_some_and(is_builtin)
            && let Some(loaded) = self.catalog.upgrade().and_then(|catalog| catalog.loaded(builtin::CODE))
        {
            return Ok(loaded);
        }
        self.loaded.get_or_try_init(|| self.load()).await.cloned()
    }

    async fn load(&self) -> Result<Loaded, Failure> {
        let plugin = PluginConfig::builtin(builtin::CODE).ok_or_else(|| cannot("the host has no runtime"))?;
        self.load_plugin(plugin).await
    }

    async fn load_python(&self) -> Result<Loaded, Failure> {
        let places = self.ground.places.clone();
        let read = tokio::task::spawn_blocking(move || PluginConfig::python(&places)).await;
        let plugin = match read {
            Ok(Ok(plugin)) => plugin,
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {
                return Err(cannot(&no_python()));
            }
            Ok(Err(error)) => return Err(cannot(&format!("the runtime for Python cannot be read: {error}"))),
            Err(_) => return Err(cannot("the runtime for Python cannot be read")),
        };
        self.load_plugin(plugin).await
    }

    async fn load_plugin(&self, mut plugin: PluginConfig) -> Result<Loaded, Failure> {
        plugin.limits.wall_time = Some(WALL_TIME);
        plugin.limits.host_call_time = Some(HOST_CALL_TIME);
        match self.loader.load(&plugin, &self.config, &self.ground).await {
            Ok(Ok(loaded)) => Ok(loaded),
            Ok(Err(left_out)) => Err(cannot(&left_out.error.to_string())),
            Err(error) => Err(cannot(&error.to_string())),
        }
    }

    async fn cell(&self, program: Program) -> Result<Reply<Value>, Failure> {
        let loaded = self.plugin(program.language).await?;
        let unloaded = || Failure::host("code-unavailable", "the host has closed its sandbox");
        let sandbox = self.loader.sandbox.opened().ok_or_else(unloaded)?;
        let request = ContextRequest { tools_of_services: true, ..ContextRequest::default() };
        let within = sandbox.context(&loaded.plugin, request);
        let within = within.map_err(|error| Failure::host("code-unavailable", error.to_string()))?;
        let source = [("source", Value::from(program.source)), ("input", program.input)];
        let (id, language) = match program.language {
            CodeMode::Python => (RUN_PYTHON, None),
            _ => (RUN_JAVASCRIPT, Some(("language", Value::from("javascript")))),
        };
        let arguments = Value::object(language.into_iter().chain(source));
        let json = arguments.to_json();
        let services = ProgramServices { own: loaded.services.clone(), tools: program.tools, calls: AtomicU64::new(0) };
        let request = CellRequest {
            id,
            arguments: &json,
            value: Some(&arguments),
            context: program.context.clone(),
            narrowing: None,
            timeout: None,
            cancel: program.cancel,
            host: Arc::new(services),
            within: Some(Arc::new(within)),
            tape: if loaded.recorded { Tape::Record } else { Tape::Off },
            timeline: program.timeline,
        };
        let CellResult { result, mut receipt } = loaded.plugin.invoke(request).await;
        if let Some(sink) = &loaded.sink {
            sink.ended(&program.context, &receipt);
        }
        let recording = receipt.recording.take();
        let mut receipt = Receipt::deferred(CellReceipt(receipt));
        if let Some(recording) = recording {
            let context = program.context;
            let call = Call {
                id: id.into(),
                arguments,
                context,
                capabilities: None,
                granted: Vec::new(),
                timeout_ms: None,
                given: None,
            };
            if let Some(record) = Record::of(&id.into(), false, &call, *recording).to_value() {
                receipt = receipt.with_record(record);
            }
        }
        Ok(Reply { result: result.map(|success| success.data).map_err(Failure::from), receipt: Some(receipt) })
    }
}

fn cannot(why: &str) -> Failure {
    Failure::host("code-unavailable", format!("programs cannot be run: {why}"))
}

#[async_trait]
impl Programs for SessionPrograms {
    fn lacks(&self, language: CodeMode) -> Option<String> {
        let has = || self.ground.places.python_runtime().is_some_and(|path| path.is_file());
        (language == CodeMode::Python && !has()).then(no_python)
    }

    /// A program reaches its tools and nothing else.
    fn are_resumable(&self) -> bool {
        true
    }

    async fn run(&self, program: Program) -> Reply<Value> {
        self.cell(program).await.unwrap_or_else(|failure| Err(failure).into())
    }
}

/// The services of the cell of one program.
struct ProgramServices {
    /// The plugin's own, for the log.
    own: Arc<PluginServices>,
    tools: Arc<dyn ProgramTools>,
    /// The calls so far, for the keys of the next.
    calls: AtomicU64,
}

/// The entry of a call in the receipt of its program.
struct Listing {
    touched: TouchLog,
    at: Option<usize>,
    began: Instant,
}

impl Listing {
    fn of(call: &ToolCall) -> Self {
        let at = call.touched.note(|touched| touched.call(&call.name, call.arguments.len() as u64));
        call.touched.note(|touched| touched.call_arguments(at, &call.arguments));
        Self { touched: call.touched.clone(), at, began: Instant::now() }
    }

    fn end(self, ended: inner::EndedCall) -> EndedCall {
        let inner::EndedCall { reply: Reply { result, receipt }, nth, turn } = ended;
        let result = result.map(|value| value.to_json());
        let took = u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.touched.note(|touched| {
            if let Some(cell) = receipt.as_deref().and_then(cell_of) {
                absorb(touched, &Receipt::from(cell.clone()));
            }
            touched.call_result(self.at, result.as_ref().map_or_else(|failure| &*failure.message, String::as_str));
            let ended = result.as_ref().map(|json| json.len() as u64).map_err(|failure| &*failure.reason);
            touched.called(self.at, took, ended);
        });
        EndedCall { result, nth, turn: turn.map(|turn| Box::new(turn) as Box<dyn Send>) }
    }
}

/// Ends with the work of a task of its own, which ends with this.
async fn on_task(work: BoxFuture<'static, inner::EndedCall>) -> inner::EndedCall {
    let panicked =
        |_| Reply::from(Err(Failure::host("panicked", "the host failed while it performed the call"))).into();
    AbortOnDropHandle::new(tokio::spawn(work)).await.unwrap_or_else(panicked)
}

#[async_trait]
impl HostServices for ProgramServices {
    fn tools(&self) -> Vec<ToolDescription> {
        // Programs read their names alone.
        let named = |name| ToolDescription::new(name, "", Value::object::<&str>([]));
        self.tools.names().into_iter().map(named).collect()
    }

    fn start_call(self: Arc<Self>, call: ToolCall) -> StartedCall {
        let arguments = match read_arguments(&call.arguments) {
            Ok(arguments) => arguments,
            Err(failure) => return StartedCall::Ended(Err(failure).into()),
        };
        let listing = Listing::of(&call);
        let context = nested(&self.calls, &call.context);
        let ToolCall { name, touched, limit, is_alone, .. } = call;
        let concurrency = if is_alone { Concurrency::Alone } else { Concurrency::AmongOthers };
        let call = ProgramCall { name, arguments, context, touched, limit, concurrency };
        match Arc::clone(&self.tools).start(call) {
            code::StartedCall::Ended(ended) => StartedCall::Ended(listing.end(ended)),
            code::StartedCall::Running(call) if is_alone => StartedCall::Running(Box::pin(async move {
                // What it needs of the stack is not the cell's.
                listing.end(on_task(call).await)
            })),
            code::StartedCall::Running(call) => StartedCall::Running(Box::pin(async move { listing.end(call.await) })),
        }
    }

    fn start_timer(self: Arc<Self>, ms: u64) -> StartedCall {
        match Arc::clone(&self.tools).start_timer(ms) {
            code::StartedCall::Ended(timer) => StartedCall::Ended(finished(timer)),
            code::StartedCall::Running(timer) => StartedCall::Running(Box::pin(async move { finished(timer.await) })),
        }
    }

    fn awaits(&self, calls: Option<usize>) {
        self.tools.awaits(calls);
    }

    fn log(&self, plugin: &str, context: &CallContext, event: LogEvent<'_>) {
        self.own.log(plugin, context, event);
    }
}
