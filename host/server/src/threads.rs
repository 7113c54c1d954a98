//! Threads of tenants. Where several share a server, each has threads of its own for everything that is done for it:
//! its requests, its runs, its reading. So the system shares the processors among tenants, and what one waits for does
//! not grow with how much another asks: in one queue, a request would wait for every one that came before it.
//!
//! The server's own threads read requests and write answers. A request changes threads only after it was found out that
//! its sender reaches the tenant, so that no one uses the threads of a tenant without a token.

use crate::{
    access,
    api::App,
    page,
    problem::Problem,
    tenant::{Tenant, Tenants},
};
use axum::{
    body::{self, Body, Bytes, HttpBody as _},
    extract::{RawPathParams, Request, State},
    http::StatusCode,
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use std::{
    io, panic,
    sync::{Arc, atomic::Ordering},
    thread,
};
use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
};
use tokio_util::task::AbortOnDropHandle;

/// Threads of all tenants together, for each processor: each tenant has two at least, where there are two processors.
const THREADS: usize = 4;

/// Bytes of answers that may wait to be sent to the clients of one tenant, in units of this many bytes; answers that
/// are shorter than the last one do not count. A client of HTTP/2 may ask for much and take nothing of it.
const WAITING: usize = 64 << 10;
const UNIT: usize = 1 << 10;
const UNCOUNTED: usize = 1 << 10;

/// The problem when a task of a tenant has not ended by itself.
const GONE: &str = "the server is stopping";

/// The threads of one tenant.
pub(crate) struct Threads {
    /// Taken when it ends: its tasks are not waited for.
    runtime: Option<Runtime>,
    handle: Handle,
}

impl Threads {
    /// Threads for each tenant; none where there is no other to share with.
    ///
    /// # Errors
    /// The system's, when it has no more threads.
    pub(crate) fn start(tenants: &Tenants) -> io::Result<()> {
        let several = tenants.iter().count();
        if several < 2 {
            return Ok(());
        }
        let processors = thread::available_parallelism().map_or(2, usize::from);
        let each = (THREADS * processors / several).clamp(processors.min(2), processors);
        for tenant in tenants.iter() {
            let mut builder = Builder::new_multi_thread();
            let runtime = builder.worker_threads(each).thread_name("opcell-tenant").enable_all().build()?;
            let handle = runtime.handle().clone();
            let _ = tenant.threads.set(Self { runtime: Some(runtime), handle });
        }
        Ok(())
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns the runtime of a tenant's work.
pub(crate) fn of(tenant: &Tenant) -> Handle {
    tenant.threads.get().map_or_else(Handle::current, |threads| threads.handle.clone())
}

/// Answers a request on the threads of its tenant, and counts what of the answer has not been sent yet.
pub(crate) async fn apart(
    State(app): State<Arc<App>>,
    params: RawPathParams,
    request: Request,
    next: Next,
) -> Response {
    let name = params.iter().find(|(name, _)| *name == "tenant").map_or("", |(_, value)| value);
    let tenant = app.tenants.get(name).filter(|_| reaches(&app, &request, name));
    let Some(tenant) = tenant else { return next.run(request).await };
    let response = match tenant.threads.get() {
        None => next.run(request).await,
        Some(Threads { handle, .. }) => match AbortOnDropHandle::new(handle.spawn(next.run(request))).await {
            Ok(response) => piped(handle, response),
            Err(error) if error.is_panic() => panic::resume_unwind(error.into_panic()),
            Err(_) => return Problem::new(StatusCode::SERVICE_UNAVAILABLE, "stopping", GONE).into_response(),
        },
    };
    counted(tenant, response).await
}

/// An answer whose bytes count among those that wait to be sent to the tenant's clients, until they are.
async fn counted(tenant: &Tenant, response: Response) -> Response {
    let size = response.body().size_hint().exact().and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
    if size < UNCOUNTED {
        return response;
    }
    let wanted = u32::try_from(size.div_ceil(UNIT)).unwrap_or(u32::MAX).min(WAITING as u32);
    let Ok(permit) = tenant.unsent.clone().try_acquire_many_owned(wanted) else {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        let detail = "the answers that wait for the tenant's clients have reached their limit, because the clients do not read them";
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "answers-unread", detail);
        return Problem { retry_after: Some(1), ..problem }
            .remedy("read the answers that were asked for")
            .into_response();
    };
    let (parts, body) = response.into_parts();
    // A body of a known size is there already.
    let Ok(bytes) = body::to_bytes(body, usize::MAX).await else { return Response::from_parts(parts, Body::empty()) };
    Response::from_parts(parts, Body::from(Bytes::from_owner(Unsent { bytes, _permit: permit })))
}

/// Bytes that count until whoever sends them has let go of them.
struct Unsent {
    bytes: Bytes,
    _permit: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for Unsent {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Returns the budget of bytes that may wait to be sent to one tenant's clients.
pub(crate) fn unsent() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(WAITING))
}

/// Returns `true` if the sender has a token for the tenant, or none is needed. Who signs for a webhook is found out
/// later, for a bounded number of requests in a second.
fn reaches(app: &Arc<App>, request: &Request, tenant: &str) -> bool {
    let path = request.uri().path();
    if path.starts_with("/v1/") {
        let is_hook = path.split('/').nth(3) == Some("hooks");
        return is_hook || access::caller(app, request.headers()).is_ok_and(|caller| caller.reaches(tenant));
    }
    page::reaches(app, request.headers(), tenant)
}

/// An answer that is made while it is sent is made on the tenant's threads as well: one piece ahead.
fn piped(threads: &Handle, response: Response) -> Response {
    let (parts, body) = response.into_parts();
    if body.size_hint().exact().is_some() {
        return Response::from_parts(parts, body);
    }
    let (pieces, sent) = mpsc::channel(1);
    threads.spawn(async move {
        let mut body = body.into_data_stream();
        loop {
            let piece = tokio::select! {
                biased;
                () = pieces.closed() => return,
                piece = body.next() => piece,
            };
            let Some(piece) = piece else { return };
            if pieces.send(piece).await.is_err() {
                return;
            }
        }
    });
    let pieces = stream::unfold(sent, async |mut sent| sent.recv().await.map(|piece| (piece, sent)));
    Response::from_parts(parts, Body::from_stream(pieces))
}
