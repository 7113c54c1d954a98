//! Doing what the core wants done.

use crate::inner::InnerJournal;
use crate::ports::{Call, Cancellable, Ports, TextSink, Timer};
use opcell_core::{
    call::{Reply, Verdict},
    decide::outcome_of,
    effect::{Effect, Task},
    event::EffectReply,
    failure::Failure,
    receipt::CallReceipt,
};
use opcell_types::Value;
use std::{future::Future, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The time that a tool call whose time is over may take to report what it used.
const GRACE_MS: f64 = 2_000.0;

/// Performs an effect. Cancelling the token, or dropping the future, stops it. `inner`: the journal of the calls that
/// its cell makes.
pub async fn perform(
    ports: &Ports,
    effect: Effect,
    cancel: Arc<CancellationToken>,
    sink: Option<&dyn TextSink>,
    inner: Option<InnerJournal>,
) -> EffectReply {
    let timer = &ports.timer;
    match effect.task {
        Task::Invoke(call) => {
            let limit = effect.timeout_ms.map(|ms| (ms, call.id.clone(), call.arguments.clone()));
            let call = Cancellable::new(call, cancel).journaling(inner);
            let reply = within(timer, effect.timeout_ms, ports.operations.invoke(call)).await;
            EffectReply::Invoke(reply.unwrap_or_else(|failure| late(failure, limit, CallReceipt::of_operation)))
        }
        Task::Judge(call) => {
            let limit = effect.timeout_ms.map(|ms| (ms, call.id.clone(), call.arguments.clone()));
            let reply = within(timer, effect.timeout_ms, judge(ports, Cancellable::new(call, cancel))).await;
            EffectReply::Judge(reply.unwrap_or_else(|failure| late(failure, limit, CallReceipt::of_operation)))
        }
        Task::Open(request) => {
            let opened = within(timer, effect.timeout_ms, ports.sessions.open(*request)).await;
            EffectReply::Open(opened.unwrap_or_else(Err).map(Arc::new))
        }
        Task::Round(round) => {
            let answered =
                within(timer, effect.timeout_ms, ports.sessions.complete(Cancellable::new(*round, cancel), sink)).await;
            EffectReply::Round(answered.unwrap_or_else(Err).map(Box::new))
        }
        Task::Tool(call) => {
            let request = &call.request;
            let limit = effect.timeout_ms.map(|ms| (ms, request.name.as_str().into(), request.arguments.clone()));
            let receipt =
                |tool: &str, arguments: &_| CallReceipt::of_tool(tool, ports.sessions.tool_provider(tool), arguments);
            let stop = Arc::new(cancel.child_token());
            let work = ports.sessions.call_tool(Cancellable::new(*call, stop.clone()).journaling(inner));
            tokio::pin!(work);
            EffectReply::Tool(match within(timer, effect.timeout_ms, &mut work).await {
                Ok(reply) => reply,
                Err(failure) => {
                    // A run that the call started ends with it, and what it used is its caller's.
                    stop.cancel();
                    let ended = within(timer, Some(GRACE_MS), work).await.ok().and_then(|reply| reply.receipt);
                    let started = ended.filter(|receipt| receipt.used_by_started_run().is_some());
                    let late = late(failure, limit, receipt);
                    Reply { receipt: started.or(late.receipt), result: late.result }
                }
            })
        }
        Task::Sleep { ms } => {
            timer.sleep(ms).await;
            EffectReply::Slept
        }
        Task::Timeout { ms } => {
            timer.deadline(ms).await;
            EffectReply::Slept
        }
        Task::Find { .. } => EffectReply::Found,
    }
}

/// The reply of a call that was dropped because its time was over, and could not say anything itself.
fn late<T>(
    failure: Failure,
    limit: Option<(f64, Arc<str>, Value)>,
    receipt: impl FnOnce(&str, &Value) -> CallReceipt,
) -> Reply<T> {
    let receipt = limit
        .and_then(|(ms, called, arguments)| receipt(&called, &arguments).stopped(ms, &failure.reason).to_receipt());
    Reply { result: Err(failure), receipt }
}

async fn within<T>(timer: &Arc<dyn Timer>, ms: Option<f64>, work: impl Future<Output = T>) -> Result<T, Failure> {
    let Some(ms) = ms else { return Ok(work.await) };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = timer.deadline(ms) => {
            Err(Failure::engine("timeout", format!("It did not stop within {} ms", ms.ceil())).retriable())
        }
    }
}

/// A judge export decides itself; an operation's data is the outcome.
async fn judge(ports: &Ports, call: Call) -> Reply<Verdict> {
    if ports.judges.knows(&call.id) {
        return ports.judges.judge(call).await;
    }
    let reply = ports.operations.invoke(call).await;
    let result = reply
        .result
        .and_then(|success| outcome_of(&success.data).map(|outcome| Verdict { outcome, rationale: success.summary }));
    Reply { result, receipt: reply.receipt }
}
