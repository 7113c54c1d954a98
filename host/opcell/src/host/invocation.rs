//! One call of an operation outside of any run.

use super::{Host, close::OpenCalls};
use crate::{
    catalog::{Catalog, Offer},
    gateway::{GatewayProgram, ProgramTargets},
    programs::SessionPrograms,
    run::TypedReceipt,
};
use opcell_engine::{
    call,
    inner::InnerJournal,
    ports::{Call, Judges, Operations, Reply, Success},
    progress::PacedProgress,
    receipt::Receipt,
    tool::Tool,
};
use opcell_ir::ir::{CapabilityNarrowing, CodeMode};
use opcell_session::code::{Program, Programs as _};
use opcell_types::{CallContext, CallProgress, Failure, FailureKind, Outcome, Value, Verdict};
use serde::{Serialize, de::DeserializeOwned};
use std::{fmt, future::IntoFuture, pin::Pin, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A call that is made when it is awaited: [`Host::invoke`]. It owns what it needs, so that it can be spawned.
///
/// A call that runs out of time or is cancelled ends with its receipt, which says what the cell had used and touched by
/// then. Dropping the future stops the cell as well, and its receipt is lost: prefer [`Invocation::timeout`] and
/// [`Invocation::cancel`] to `tokio::time::timeout` and `select!`.
///
/// ```
/// use opcell::prelude::*;
///
/// # async fn call(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
/// let call = host.invoke("greet/hello", opcell::json!({"name": "Ada"}));
/// let greeted = tokio::spawn(call.into_future()).await??;
/// println!("{}", greeted.data);
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is called until this is awaited"]
pub struct Invocation {
    catalog: Arc<Catalog>,
    open: Arc<OpenCalls>,
    call: call::Call,
    cancel: CancellationToken,
    /// Instead of an operation.
    other: Option<Other>,
    /// The journal of the calls that the cell makes.
    inner: Option<InnerJournal>,
    said: Said,
    progress: Option<Arc<PacedProgress<ProgressFn>>>,
}

/// A function that receives the progress of a call.
type ProgressFn = Box<dyn Fn(CallProgress) + Send + Sync>;

/// The work of a call that is not one of an operation or a judge.
enum Other {
    Tool(Arc<dyn Tool>),
    Program { programs: Arc<SessionPrograms>, language: CodeMode, source: String, tools: Arc<GatewayProgram> },
}

impl Other {
    async fn call(self, catalog: &Catalog, call: Call) -> Reply<Success> {
        match self {
            Self::Tool(tool) => catalog.call_tool(&*tool, call).await,
            Self::Program { programs, language, source, tools } => {
                let (context, cancel) = (call.context.clone(), call.cancel.clone());
                let input = Value::Null;
                let program = Program { language, source, input, context, cancel, timeline: None, tools };
                let Reply { result, receipt } = programs.run(program).await;
                Reply { result: result.map(|data| Success { data, summary: None, details: None }), receipt }
            }
        }
    }
}

/// A language of programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ProgramLanguage {
    /// JavaScript, whose runtime is part of the library.
    #[default]
    Javascript,
    /// Python, whose runtime a user installs.
    Python,
}

/// The parts of a context that were said one by one. They count whatever context is given before or after: a call must
/// not lose its tenant by an order.
#[derive(Default)]
struct Said {
    idempotency_key: Option<Arc<str>>,
    user: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
    traceparent: Option<Arc<str>>,
}

impl Said {
    fn put_into(self, context: CallContext) -> CallContext {
        CallContext {
            idempotency_key: self.idempotency_key.unwrap_or(context.idempotency_key),
            user: self.user.or(context.user),
            tenant: self.tenant.or(context.tenant),
            traceparent: self.traceparent.or(context.traceparent),
            ..context
        }
    }
}

/// The result of a call, with its receipt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallOutput {
    /// The result, for programs.
    pub data: Value,
    /// The result in a sentence, for people.
    pub summary: Option<String>,
    /// More about the result, for debugging.
    pub details: Option<Value>,
    receipt: Option<Receipt>,
}

/// Why a call has no result, with its receipt.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CallError {
    /// Why; [`Failure::kind`] is for programs.
    pub failure: Failure,
    receipt: Option<Box<Receipt>>,
}

impl CallOutput {
    /// The receipt: what the call used and touched; none where nothing ran.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// The receipt with its fields as types.
    #[must_use]
    pub fn typed_receipt(&self) -> Option<TypedReceipt> {
        self.receipt.as_ref().and_then(|receipt| TypedReceipt::of(receipt).ok())
    }

    /// Reads the data as a type.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let cents: u32 = host.invoke("shop/price", opcell::json!({"article": 7})).await?.read()?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// When the data is something else, with the reason `unexpected-data`; the receipt stays with the error.
    pub fn read<R: DeserializeOwned>(&self) -> Result<R, CallError> {
        serde_json::from_value(serde_json::Value::from(&self.data)).map_err(|error| CallError {
            failure: Failure::host("unexpected-data", format!("the data is not what the caller expects: {error}")),
            receipt: self.receipt.clone().map(Box::new),
        })
    }
}

impl CallOutput {
    pub(crate) fn into_parts(self) -> (Result<Value, Failure>, Option<Receipt>) {
        (Ok(self.data), self.receipt)
    }
}

impl CallError {
    pub(crate) fn into_parts(self) -> (Result<Value, Failure>, Option<Receipt>) {
        (Err(self.failure), self.receipt.map(|receipt| *receipt))
    }

    /// The kind of the failure, from its source and its reason.
    #[must_use]
    pub fn kind(&self) -> FailureKind<'_> {
        self.failure.kind()
    }

    /// The receipt: what the call used and touched until then; none where nothing ran.
    #[must_use]
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_deref()
    }

    /// The receipt with its fields as types.
    #[must_use]
    pub fn typed_receipt(&self) -> Option<TypedReceipt> {
        self.receipt().and_then(|receipt| TypedReceipt::of(receipt).ok())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.failure.fmt(f)
    }
}

impl std::error::Error for CallError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.failure)
    }
}

/// For tools that call operations: `host.invoke(…).await?`.
impl From<CallError> for Failure {
    fn from(error: CallError) -> Self {
        error.failure
    }
}

impl fmt::Debug for Invocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Invocation").field("call", &self.call).finish_non_exhaustive()
    }
}

impl Invocation {
    pub(super) fn new(host: &Host, operation: &str, arguments: Value) -> Self {
        let run: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let context = CallContext { idempotency_key: run.clone(), run, ..CallContext::default() };
        let call = call::Call {
            id: operation.into(),
            arguments,
            context,
            capabilities: None,
            granted: Vec::new(),
            timeout_ms: None,
            given: None,
        };
        let (catalog, open) = (host.catalog.clone(), host.open_calls.clone());
        Self {
            catalog,
            open,
            call,
            cancel: CancellationToken::new(),
            other: None,
            inner: None,
            said: Said::default(),
            progress: None,
        }
    }

    pub(super) fn of_tool(host: &Host, name: &str, arguments: Value, tool: Option<Arc<dyn Tool>>) -> Self {
        Self { other: tool.map(Other::Tool), ..Self::new(host, name, arguments) }
    }

    pub(super) fn of_program(host: &Host, language: ProgramLanguage, source: &str, tools: ProgramTargets) -> Self {
        let language = match language {
            ProgramLanguage::Javascript => CodeMode::Javascript,
            ProgramLanguage::Python => CodeMode::Python,
        };
        let tools = Arc::new(GatewayProgram::new(host.clone(), tools));
        let (programs, source) = (host.programs.clone(), source.to_owned());
        let other = Other::Program { programs, language, source, tools };
        Self { other: Some(other), ..Self::new(host, "a program", Value::Null) }
    }

    /// Wall time from now to the result, waiting for a free cell included; whole milliseconds, at least one. The
    /// plugin's own limit holds as well.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let call = host.invoke("greet/hello", opcell::json!({})).timeout(std::time::Duration::from_millis(250));
    /// # Ok(())
    /// # }
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// Stops the call when the token is cancelled.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let stop = CancellationToken::new();
    /// let call = host.invoke("greet/hello", opcell::json!({})).cancel(stop.clone());
    /// stop.cancel();
    /// assert_eq!(call.await.unwrap_err().kind(), FailureKind::Cancelled);
    /// # Ok(())
    /// # }
    /// ```
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// The key by which the operation recognises a call that is made again; a fresh one by default.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = host.invoke("shop/pay", opcell::json!({"order": 17})).idempotency_key("order-17").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.said.idempotency_key = Some(key.into());
        self
    }

    /// The user on whose behalf the call is made, for tools and sinks of the program; plugins do not learn it.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = host.invoke("shop/pay", opcell::json!({"order": 17})).user("ann").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn user(mut self, user: impl Into<Arc<str>>) -> Self {
        self.said.user = Some(user.into());
        self
    }

    /// The tenant on whose behalf the call is made: plugins reach what [`Host::set_tenant`] grants it, and nothing else,
    /// and a call of a plugin for a tenant that the host does not know is refused. Tools and sinks of the program learn
    /// its name; plugins do not.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let paid = host.invoke("shop/pay", opcell::json!({"order": 17})).tenant("acme").await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn tenant(mut self, tenant: impl Into<Arc<str>>) -> Self {
        self.said.tenant = Some(tenant.into());
        self
    }

    /// Sets the place that the call comes from, as the plugin, its logs and its receipts see it. A user, a tenant, a key
    /// and a trace that are set on the call count before those of the context, in any order.
    pub fn context(mut self, context: CallContext) -> Self {
        self.call.context = context;
        self
    }

    /// The trace that the call belongs to (W3C `traceparent`): its requests carry it.
    pub fn traceparent(mut self, traceparent: impl Into<Arc<str>>) -> Self {
        self.said.traceparent = Some(traceparent.into());
        self
    }

    /// Tells a function the progress that the call reports, a plugin's own and that of the tools it calls: some ten times
    /// a second at most, and of what comes faster, the newest. It must not block.
    ///
    /// ```
    /// # use opcell::prelude::*;
    /// # async fn example(host: &Host) -> Result<(), Box<dyn std::error::Error>> {
    /// let copied = host.invoke("files/copy", opcell::json!({})).progress(|progress| println!("{progress}")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn progress(mut self, tell: impl Fn(CallProgress) + Send + Sync + 'static) -> Self {
        self.progress = Some(PacedProgress::new(Box::new(tell)));
        self
    }

    /// Answers the calls that the cell makes from the record of a program, as far as it has them, and adds those that
    /// follow: [`ProgramRecord::open`](opcell_engine::program_record::ProgramRecord::open).
    #[doc(hidden)]
    pub fn journaled(mut self, journal: InnerJournal) -> Self {
        self.inner = Some(journal);
        self
    }

    /// Leaves the plugin less than it is granted.
    pub fn narrow(mut self, capabilities: CapabilityNarrowing) -> Self {
        self.call.capabilities = Some(Box::new(capabilities));
        self
    }
}

/// A judge's verdict as the data of a call: `{outcome, rationale}`, a keyword with a colon before it.
fn verdict_as_data(reply: Reply<Verdict>) -> Reply<Success> {
    let result = reply.result.map(|verdict| {
        let outcome = match verdict.outcome {
            Outcome::Text(text) => text.to_string(),
            Outcome::Keyword(name) => format!(":{name}"),
        };
        let rationale = verdict.rationale.map_or(Value::Null, Value::from);
        let data = Value::object([("outcome", Value::from(outcome)), ("rationale", rationale)]);
        Success { data, summary: None, details: None }
    });
    Reply { result, receipt: reply.receipt }
}

impl IntoFuture for Invocation {
    type Output = Result<CallOutput, CallError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { catalog, open, mut call, cancel, other, inner, said, progress } = self;
        call.context = said.put_into(call.context);
        if let Some(progress) = &progress {
            call.context.progress = progress.log();
        }
        Box::pin(async move {
            let Some(open) = open.begin() else {
                let message = "this host is closing and accepts no more calls";
                return output_of(Err(Failure::host(Failure::CLOSING, message)).into());
            };
            // The caller's token and the end of the host stop the call, and the call stops neither.
            let token = cancel.child_token();
            let judges = catalog.find(&call.id).is_ok_and(|entry| matches!(entry.offer, Offer::Judge { .. }));
            let call = Call { inner, ..Call::new(call, token.clone()) };
            let reply = open.until_ended(token, async {
                match other {
                    Some(other) => other.call(&catalog, call).await,
                    None if judges => verdict_as_data(catalog.judge(call).await),
                    None => catalog.invoke(call).await,
                }
            });
            let reply = reply.await;
            if let Some(progress) = progress {
                progress.flush();
            }
            output_of(reply)
        })
    }
}

/// The end of a call as its caller has it.
pub(crate) fn output_of(reply: Reply<Success>) -> Result<CallOutput, CallError> {
    // There is no journal to keep the record in.
    let receipt = reply.receipt.map(|receipt| receipt.without_record());
    match reply.result {
        Ok(Success { data, summary, details }) => Ok(CallOutput { data, summary, details, receipt }),
        Err(failure) => Err(CallError { failure, receipt: receipt.map(Box::new) }),
    }
}

impl Host {
    /// Calls one operation outside of any run with arguments and a result of the program's own types.
    ///
    /// ```
    /// use opcell::prelude::*;
    ///
    /// #[derive(serde::Serialize)]
    /// struct Hello { name: String }
    ///
    /// # async fn call(host: &Host) -> Result<(), CallError> {
    /// let greeting: String = host.call("greet/hello", &Hello { name: "Ada".to_owned() }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As a call by [`Host::invoke`]; with the kind [`FailureKind::InvalidArguments`] when the arguments cannot be
    /// written as JSON, and with the reason `unexpected-data` when the result is not an `R`.
    pub async fn call<A: Serialize + ?Sized, R: DeserializeOwned>(
        &self,
        operation: &str,
        arguments: &A,
    ) -> Result<R, CallError> {
        let arguments = Value::of(arguments).map_err(|error| CallError {
            failure: Failure::host(
                "invalid-arguments",
                format!("the arguments of `{operation}` cannot be written as JSON: {error}"),
            ),
            receipt: None,
        })?;
        self.invoke(operation, arguments).await?.read()
    }
}
