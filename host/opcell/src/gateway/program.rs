//! Programs of a gateway's clients: they call what the gateway offers, each call as the client's own would be made.

use crate::host::Host;
use futures_util::FutureExt as _;
use opcell_engine::ports::Reply;
use opcell_session::code::{ProgramCall, ProgramTools, StartedCall};
use opcell_types::{Failure, Value};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// The most calls of one program.
const MAX_CALLS: u64 = 1_000;

/// Something that a program calls by a name of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProgramTarget {
    /// An operation of a plugin, by its ID.
    Operation(Arc<str>),
    /// A tool of an MCP server of the project.
    ServerTool {
        /// The server's name in the project.
        server: Arc<str>,
        /// The server's own name of the tool.
        tool: Arc<str>,
    },
}

/// Learns of each call of a program when it has ended: its target, and the reason of its failure.
pub type CallObserver = Arc<dyn Fn(&ProgramTarget, Result<(), &str>) + Send + Sync>;

/// The tools of a program, by the names that it calls them by.
#[derive(Clone)]
pub struct ProgramTargets {
    targets: Arc<BTreeMap<String, ProgramTarget>>,
    observer: CallObserver,
}

impl std::fmt::Debug for ProgramTargets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramTargets").field("targets", &self.targets).finish_non_exhaustive()
    }
}

impl ProgramTargets {
    /// Tools by their names, and whoever learns of their calls.
    #[must_use]
    pub fn new(targets: BTreeMap<String, ProgramTarget>, observer: CallObserver) -> Self {
        Self { targets: Arc::new(targets), observer }
    }
}

/// The tools of one program while it runs.
pub(crate) struct GatewayProgram {
    host: Host,
    targets: ProgramTargets,
    made: AtomicU64,
}

impl GatewayProgram {
    pub(crate) fn new(host: Host, targets: ProgramTargets) -> Self {
        Self { host, targets, made: AtomicU64::new(0) }
    }
}

impl ProgramTools for GatewayProgram {
    fn names(&self) -> Vec<String> {
        self.targets.targets.keys().cloned().collect()
    }

    fn start(self: Arc<Self>, call: ProgramCall) -> StartedCall {
        let ProgramCall { name, arguments, context, limit, .. } = call;
        if self.made.fetch_add(1, Ordering::Relaxed) >= MAX_CALLS {
            let message = format!("a program makes at most {MAX_CALLS} calls");
            return Failure::host("too-many-calls", message).into();
        }
        let Some(target) = self.targets.targets.get(&name).cloned() else {
            return Failure::host("not-found", "there is no such tool").into();
        };
        let call = async move {
            let invocation = match &target {
                ProgramTarget::Operation(id) => self.host.invoke(id, arguments),
                ProgramTarget::ServerTool { server, tool } => self.host.invoke_tool(server, tool, arguments),
            };
            let called = invocation.context(context).timeout(limit).await;
            (self.targets.observer)(&target, called.as_ref().map(drop).map_err(|error| &*error.failure.reason));
            let (result, receipt) = match called {
                Ok(output) => output.into_parts(),
                Err(error) => error.into_parts(),
            };
            Reply { result, receipt }.into()
        };
        StartedCall::Running(call.boxed())
    }

    fn start_timer(self: Arc<Self>, ms: u64) -> StartedCall {
        let timer = async move {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Reply::from(Ok(Value::Null)).into()
        };
        StartedCall::Running(timer.boxed())
    }
}
