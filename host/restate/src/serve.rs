//! The worker's endpoint over HTTP/2, with bounds.
//!
//! Every program that reaches the port may speak to it, and the library's own server bounds neither connections nor
//! what a request sends: a message announces up to 4 GiB, and is collected until it is complete. That server also stops
//! accepting for good when the system has no file descriptor left for a connection. What is refused here, a Restate
//! server sends again later.
//!
//! With an identity key, what others send is refused by its headers and takes no place of an invocation. Without one,
//! the worker listens on loopback only, and other programs of the machine can keep it busy; they have no run driven that
//! the journal does not give this worker.

use hyper::{
    Method, Request, Response,
    body::{Body, Bytes, Frame, Incoming, SizeHint},
    server::conn::http2,
    service::Service,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use restate_sdk::endpoint::{Endpoint, HandleOptions, ProtocolMode, ResponseBody};
use std::{
    convert::Infallible,
    future::{Ready, ready},
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Notify, OwnedSemaphorePermit, Semaphore},
    time::Sleep,
};
use tokio_util::sync::CancellationToken;

/// The time that open connections have to end after the worker was asked to stop.
const CLOSE_TIME: Duration = Duration::from_secs(10);

/// The pause after the system refused a connection, for want of file descriptors for example.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A peer that is silent is asked whether it is still there.
const PING_INTERVAL: Duration = Duration::from_secs(30);

/// Bytes of the headers of a request.
const MAX_HEADER_BYTES: u32 = 16 << 10;

/// The memory that a frame takes beside its bytes: a message may arrive byte by byte.
const FRAME_OVERHEAD_BYTES: usize = 64;

/// The segments of a path that names a handler: `…/invoke/SERVICE/HANDLER`.
const HANDLER_SEGMENTS: usize = 3;

/// The bounds of an endpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Connections at a time. A Restate server has a few for each of its partitions.
    pub(crate) connections: usize,
    /// Requests at a time over one connection.
    pub(crate) streams: u32,
    /// Invocations at a time, most of which wait for one of the runs that are driven.
    pub(crate) invocations: usize,
    /// Bytes that one invocation sends: a signal of 4 MiB, as the API takes it, with what surrounds it.
    pub(crate) input_bytes: usize,
    /// Bytes that all invocations have sent and that are in memory.
    pub(crate) total_bytes: usize,
    /// The time until a connection has its first request, and an invocation its first bytes.
    pub(crate) first: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 512,
            streams: 256,
            invocations: 4_096,
            input_bytes: 8 << 20,
            total_bytes: 128 << 20,
            first: Duration::from_secs(10),
        }
    }
}

/// Serves the endpoint until `stop` is cancelled, and then what is open for a few seconds more.
pub(crate) async fn serve(listener: TcpListener, endpoint: Endpoint, limits: Limits, stop: CancellationToken) {
    let door = Door {
        endpoint,
        invocations: Arc::new(Semaphore::new(limits.invocations)),
        held: Arc::default(),
        limits,
        admitted: Arc::default(),
    };
    let connections = Arc::new(Semaphore::new(limits.connections));
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams)
        .max_header_list_size(MAX_HEADER_BYTES)
        .keep_alive_interval(PING_INTERVAL);
    let graceful = GracefulShutdown::new();
    loop {
        let (stream, permit) = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = accept(&listener, &connections) => accepted,
        };
        // Each connection is admitted by a request of its own.
        let door = Door { admitted: Arc::default(), ..door.clone() };
        let admitted = door.admitted.clone();
        let connection = graceful.watch(server.serve_connection(TokioIo::new(stream), door));
        tokio::spawn(async move {
            let _permit = permit;
            tokio::pin!(connection);
            tokio::select! {
                biased;
                ended = &mut connection => return closed(ended),
                () = admitted.notified() => {}
                () = tokio::time::sleep(limits.first) => return,
            }
            closed(connection.await);
        });
    }
    drop(listener);
    tokio::select! { () = graceful.shutdown() => {} () = tokio::time::sleep(CLOSE_TIME) => {} }
}

/// The next connection, once there is room for one. Those that come meanwhile wait in the system's queue.
async fn accept(listener: &TcpListener, connections: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // It is never closed.
    let permit = connections.clone().acquire_owned().await.ok();
    let mut is_told = false;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(error) => {
                if !is_told {
                    tracing::warn!("cannot accept a connection for Restate: {error}; the worker tries again");
                }
                is_told = true;
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A peer that breaks the protocol ends its own connection and no other.
fn closed(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!("a connection for Restate ended: {error}");
    }
}

/// The service of one connection.
#[derive(Clone)]
struct Door {
    endpoint: Endpoint,
    invocations: Arc<Semaphore>,
    /// Bytes that open invocations have sent.
    held: Arc<AtomicUsize>,
    limits: Limits,
    /// Told of the first request that was not refused.
    admitted: Arc<Notify>,
}

impl Door {
    fn reply(&self, request: Request<Incoming>) -> Response<Reply> {
        let mut segments = request.uri().path().rsplit('/');
        // The library counts the segments from the end, without looking whether they are there.
        let is_short = request.uri().path().split('/').count() < HANDLER_SEGMENTS;
        if request.method() == Method::CONNECT || is_short && !matches!(segments.next(), Some("discover" | "health")) {
            return refusal(404, "expected `/discover`, `/health` or `/invoke/SERVICE/HANDLER`");
        }
        let Ok(permit) = self.invocations.clone().try_acquire_owned() else {
            return refusal(503, "as many invocations are open as this worker takes; try again later");
        };
        let request = request.map(|body| Input::new(body, permit, self));
        let options = HandleOptions { protocol_mode: ProtocolMode::BidiStream };
        let response = self.endpoint.handle_with_options(request, options);
        if response.status().is_success() {
            self.admitted.notify_one();
        }
        response.map(|body| Reply::Endpoint(Box::new(body)))
    }
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<Reply>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        ready(Ok(self.reply(request)))
    }
}

fn refusal(status: u16, why: &'static str) -> Response<Reply> {
    let mut response = Response::new(Reply::Refusal(Some(Bytes::from_static(why.as_bytes()))));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response
}

/// The body of an answer.
enum Reply {
    Endpoint(Box<ResponseBody>),
    Refusal(Option<Bytes>),
}

impl Body for Reply {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match &mut *self {
            Self::Endpoint(body) => Pin::new(body.as_mut()).poll_frame(context),
            Self::Refusal(text) => Poll::Ready(text.take().map(|text| Ok(Frame::data(text)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Endpoint(body) => body.is_end_stream(),
            Self::Refusal(text) => text.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Endpoint(body) => body.size_hint(),
            Self::Refusal(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
        }
    }
}

/// The input of an invocation, within its bounds; it has one of the places of invocations until it ends.
struct Input {
    body: Incoming,
    _permit: OwnedSemaphorePermit,
    limits: Limits,
    /// Bytes of all invocations, and those of this one among them.
    held: Arc<AtomicUsize>,
    own: usize,
    /// Runs until the first bytes are there.
    first: Option<Pin<Box<Sleep>>>,
}

impl Input {
    fn new(body: Incoming, permit: OwnedSemaphorePermit, door: &Door) -> Self {
        let first = Some(Box::pin(tokio::time::sleep(door.limits.first)));
        Self { body, _permit: permit, limits: door.limits, held: door.held.clone(), own: 0, first }
    }

    /// Charges the bytes of a frame, which are kept until the invocation ends.
    fn charge(&mut self, bytes: usize) -> io::Result<()> {
        let charged = bytes.saturating_add(FRAME_OVERHEAD_BYTES);
        self.own = self.own.saturating_add(charged);
        let all = self.held.fetch_add(charged, Ordering::Relaxed).saturating_add(charged);
        let (most, what) = match () {
            () if self.own > self.limits.input_bytes => (self.limits.input_bytes, "it"),
            () if all > self.limits.total_bytes => (self.limits.total_bytes, "all open invocations"),
            () => return Ok(()),
        };
        let message = format!("the invocation is refused: at most {most} bytes of {what} are held");
        Err(io::Error::new(io::ErrorKind::FileTooLarge, message))
    }
}

impl Drop for Input {
    fn drop(&mut self) {
        self.held.fetch_sub(self.own, Ordering::Relaxed);
    }
}

impl Body for Input {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match Pin::new(&mut self.body).poll_frame(context) {
            Poll::Ready(Some(Ok(frame))) => {
                self.first = None;
                let bytes = frame.data_ref().map_or(0, Bytes::len);
                Poll::Ready(Some(self.charge(bytes).map(|()| frame)))
            }
            Poll::Ready(Some(Err(error))) => Poll::Ready(Some(Err(io::Error::other(error)))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => match self.first.as_mut().map(|first| first.as_mut().poll(context)) {
                Some(Poll::Ready(())) => {
                    self.first = None;
                    let message = format!("nothing was sent within {} s", self.limits.first.as_secs());
                    Poll::Ready(Some(Err(io::Error::new(io::ErrorKind::TimedOut, message))))
                }
                _ => Poll::Pending,
            },
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]
mod tests;
