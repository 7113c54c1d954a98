//! One call of an operation outside of any run.

use super::Host;
use crate::catalog::Offer;
use opcell_engine::{
    call,
    ports::{Call, Judges, Operations, Reply, Success},
    tool::Tool,
};
use opcell_ir::ir::CapabilityNarrowing;
use opcell_types::{CallContext, Outcome, Value, Verdict};
use std::{future::IntoFuture, pin::Pin, sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A call that is made when it is awaited: [`Host::invoke`].
///
/// A call that runs out of time or is cancelled ends with its receipt, which says what the cell had used and touched by
/// then. Dropping the future stops the cell as well, and its receipt is lost: prefer [`Invocation::timeout`] and
/// [`Invocation::cancel`] to `tokio::time::timeout` and `select!`.
#[must_use = "nothing is called until this is awaited"]
pub struct Invocation<'a> {
    host: &'a Host,
    call: call::Call,
    cancel: CancellationToken,
    /// Instead of an operation.
    tool: Option<Arc<dyn Tool>>,
}

impl<'a> Invocation<'a> {
    pub(super) fn new(host: &'a Host, operation: &str, arguments: Value) -> Self {
        let run: Arc<str> = uuid::Uuid::now_v7().to_string().into();
        let context = CallContext { idempotency_key: run.clone(), run, ..CallContext::default() };
        let call = call::Call {
            id: operation.into(),
            arguments,
            context,
            capabilities: None,
            granted: Vec::new(),
            timeout_ms: None,
        };
        Self { host, call, cancel: CancellationToken::new(), tool: None }
    }

    pub(super) fn of_tool(host: &'a Host, name: &str, arguments: Value, tool: Option<Arc<dyn Tool>>) -> Self {
        Self { tool, ..Self::new(host, name, arguments) }
    }

    /// Wall time from now to the result, waiting for a free cell included; whole milliseconds, at least one. The
    /// plugin's own limit holds as well.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.call.timeout_ms = Some(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX).max(1));
        self
    }

    /// Stops the call when the token is cancelled.
    pub fn cancel(mut self, token: CancellationToken) -> Self {
        self.cancel = token;
        self
    }

    /// The key by which the operation recognises a call that is made again; a fresh one by default.
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.call.context.idempotency_key = key.into();
        self
    }

    /// Sets the place that the call comes from, as the plugin, its logs and its receipts see it.
    pub fn context(mut self, context: CallContext) -> Self {
        self.call.context = context;
        self
    }

    /// The trace that the call belongs to (W3C `traceparent`): its requests carry it.
    pub fn traceparent(mut self, traceparent: impl Into<Arc<str>>) -> Self {
        self.call.context.traceparent = Some(traceparent.into());
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

impl<'a> IntoFuture for Invocation<'a> {
    type Output = Reply<Success>;
    type IntoFuture = Pin<Box<dyn Future<Output = Reply<Success>> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let Self { host, call, cancel, tool } = self;
        Box::pin(async move {
            let judges = host.catalog.find(&call.id).is_ok_and(|entry| matches!(entry.offer, Offer::Judge { .. }));
            let call = Call::new(call, cancel);
            let reply = match tool {
                Some(tool) => host.catalog.call_tool(tool.as_ref(), call).await,
                None if judges => verdict_as_data(host.catalog.judge(call).await),
                None => host.catalog.invoke(call).await,
            };
            // There is no journal to keep it in.
            Reply { receipt: reply.receipt.map(|receipt| receipt.without_record()), ..reply }
        })
    }
}
