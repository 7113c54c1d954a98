//! A connection to a server: its process, or its address; the handshake; requests and their answers.

use super::{
    Listing, McpServer, Remote, StartCheck, ask, failed,
    lines::Lines,
    patience::Patient,
    process::Process,
    wire::{Answer, Wire},
};
use opcell_types::{Failure, text::printable};
use rmcp::{
    ClientHandler, RoleClient, ServiceError, ServiceExt as _,
    model::{CancelledNotificationParam, ClientRequest, RequestId},
    service::{NotificationContext, Peer, PeerRequestOptions, RunningService},
    transport::Transport,
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::timeout;

/// Bytes of a sentence about a handshake.
const REASON_BYTES: usize = 700;

/// A server that runs. Dropping it ends its process.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    wire: Arc<Wire>,
    process: Option<Process>,
    changed: Arc<AtomicBool>,
    listing: Mutex<Option<Arc<Listing>>>,
}

/// Takes messages that the server sends unasked.
struct Handler {
    changed: Arc<AtomicBool>,
}

impl ClientHandler for Handler {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        self.changed.store(true, Ordering::Release);
    }
}

impl Connection {
    /// Starts the server, or connects to it, and does the handshake.
    pub(super) async fn start(
        name: String,
        config: McpServer,
        check: Option<Arc<dyn StartCheck>>,
    ) -> Result<Arc<Self>, Failure> {
        if let Some(remote) = &config.remote {
            return Self::connect(&name, remote, &config).await;
        }
        if let Some(check) = check {
            // It reads files.
            let checked = tokio::task::spawn_blocking(move || check.check()).await;
            checked.unwrap_or_else(|error| Err(error.to_string())).map_err(|why| {
                failed("mcp-not-started", format!("MCP server `{name}` ({}): {why}", config.program), false)
            })?;
        }
        Self::spawn(name, config).await
    }

    #[cfg(feature = "http")]
    async fn connect(name: &str, remote: &Remote, config: &McpServer) -> Result<Arc<Self>, Failure> {
        let failed = |what: String| {
            let message = format!("MCP server `{name}` ({}): {}", remote.url, printable(&what, REASON_BYTES));
            failed("mcp-not-started", message, false)
        };
        let wire = Arc::new(Wire::of_texts());
        let transport = super::remote::transport(remote, config.result_bytes, wire.clone()).await.map_err(failed)?;
        match handshake(transport, &wire, config.call_time).await {
            Ok((service, changed)) => {
                Ok(Arc::new(Self { service, wire, process: None, changed, listing: Mutex::default() }))
            }
            Err(Handshake::Late(late)) => Err(failed(late)),
            Err(Handshake::Failed(why)) => {
                Err(failed(why.unwrap_or_else(|| "it ended the connection before the handshake".to_owned())))
            }
        }
    }

    #[cfg(not(feature = "http"))]
    async fn connect(name: &str, remote: &Remote, _config: &McpServer) -> Result<Arc<Self>, Failure> {
        let message =
            format!("MCP server `{name}` ({}): this program is built without HTTP (feature `http`)", remote.url);
        Err(failed("not-built-in", message, false))
    }

    async fn spawn(name: String, config: McpServer) -> Result<Arc<Self>, Failure> {
        let not_started = |what: String| {
            failed("mcp-not-started", format!("MCP server `{name}` ({}): {what}", config.program), false)
        };
        let (process, stdout, stdin) = Process::spawn(&config).map_err(not_started)?;
        let longest = usize::try_from(config.result_bytes).unwrap_or(usize::MAX);
        let wire = Arc::new(Wire::of_messages());
        let lines = Lines::new(stdout, stdin, longest, wire.clone());
        match handshake(lines, &wire, config.call_time).await {
            Ok((service, changed)) => {
                Ok(Arc::new(Self { service, wire, process: Some(process), changed, listing: Mutex::default() }))
            }
            Err(Handshake::Late(late)) => Err(not_started(format!("{late}{}", process.last_words()))),
            Err(Handshake::Failed(Some(why))) => {
                Err(not_started(format!("{}{}", printable(&why, REASON_BYTES), process.last_words())))
            }
            Err(Handshake::Failed(None)) => {
                let what = match process.ended().await {
                    Some(status) => format!("the handshake failed; the process ended: {status}"),
                    None => "the handshake failed; it closed its output and did not end".to_owned(),
                };
                Err(not_started(format!("{what}{}{}", wire.last_unread(), process.last_words())))
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        !self.service.is_transport_closed()
    }

    fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// The last line that was not understood, as the end of a message.
    pub(super) fn last_unread(&self) -> String {
        self.wire.last_unread()
    }

    /// Asks the server. A request that is given up is cancelled.
    pub(super) async fn request(&self, request: ClientRequest) -> Answer {
        let answered = match self.peer().send_cancellable_request(request, PeerRequestOptions::no_options()).await {
            Ok(handle) => {
                let mut given_up = GivenUp { peer: self.peer(), id: Some(handle.id.clone()) };
                let answered = handle.await_response().await;
                given_up.id = None;
                answered
            }
            Err(error) => Err(error),
        };
        match answered {
            Ok(result) => Answer::open(result),
            Err(ServiceError::McpError(error)) => {
                Answer::Lost(format!("did not answer: {}", printable(&error.message, REASON_BYTES)))
            }
            Err(_) => Answer::Lost(self.how_it_ended().await),
        }
    }

    /// The end of a server that does not answer any more, as a sentence without its name.
    async fn how_it_ended(&self) -> String {
        if let Some(why) = self.wire.ended() {
            return format!("was left: {why}");
        }
        let Some(process) = &self.process else {
            return "cannot be reached: the connection ended before it answered".to_owned();
        };
        match process.ended().await {
            Some(status) => format!("has exited: {status}{}", process.last_words()),
            None => format!("closed its input or its output, and did not exit{}", process.last_words()),
        }
    }

    /// The tools that it listed last, if it was asked.
    pub(super) fn listed(&self) -> Option<Arc<Listing>> {
        self.listing.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The tools that it lists; asked for again only after it said that they changed.
    pub(super) async fn tools(&self) -> Result<Arc<Listing>, Answer> {
        let kept = || self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.swap(false, Ordering::AcqRel);
        if let Some(listing) = kept().clone().filter(|_| !changed) {
            return Ok(listing);
        }
        match ask::ask(self).await {
            Ok(listing) => {
                let listing = Arc::new(listing);
                *kept() = Some(listing.clone());
                Ok(listing)
            }
            Err(answer) => {
                self.changed.store(true, Ordering::Release);
                Err(answer)
            }
        }
    }
}

/// Why there is no connection.
enum Handshake {
    /// It took too long; with a sentence.
    Late(String),
    /// The server answered something else, where it did; with a sentence.
    Failed(Option<String>),
}

type Service = (RunningService<RoleClient, Handler>, Arc<AtomicBool>);

async fn handshake<T>(transport: T, wire: &Arc<Wire>, time: Duration) -> Result<Service, Handshake>
where
    T: Transport<RoleClient> + 'static,
{
    let changed = Arc::new(AtomicBool::new(false));
    let handler = Handler { changed: changed.clone() };
    match timeout(time, handler.serve(Patient::new(transport, wire.clone()))).await {
        Ok(Ok(service)) => Ok((service, changed)),
        // The library's own words are of its types: what the server said is known here.
        Ok(Err(error)) => {
            tracing::debug!("the handshake failed: {error}");
            Err(Handshake::Failed(wire.trouble().or_else(|| wire.ended())))
        }
        Err(_) => Err(Handshake::Late(format!("no handshake within {} ms{}", time.as_millis(), wire.last_unread()))),
    }
}

/// Tells the server that its answer is not awaited any more.
struct GivenUp<'a> {
    peer: &'a Peer<RoleClient>,
    id: Option<RequestId>,
}

impl Drop for GivenUp<'_> {
    fn drop(&mut self) {
        let (Some(id), Ok(runtime)) = (self.id.take(), tokio::runtime::Handle::try_current()) else { return };
        let peer = self.peer.clone();
        let cancelled = CancelledNotificationParam::new(Some(id), Some("the caller gave up waiting".to_owned()));
        drop(runtime.spawn(async move { drop(peer.notify_cancelled(cancelled).await) }));
    }
}
