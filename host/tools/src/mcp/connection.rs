//! A connection to a server: its process, or its address; the handshake; requests and their answers.
//!
//! A server is asked first what it speaks (`server/discover`, revision 2026-07-28). One that does not know that,
//! answers something else or nothing gets the handshake of the revisions before; one that ends is started once more
//! with the handshake alone. One that answers late, after it was sent the handshake, may refuse that: it is started once
//! more, and given the whole time to say what it speaks; so is one that then stays silent.

use super::{
    Listing, McpServer, Remote, StartCheck, ask, failed,
    headers::ParamHeader,
    lines::Lines,
    offers::Announced,
    patience::Patient,
    process::Process,
    wire::{Answer, CURRENT_VERSION, Wire},
};
use opcell_types::{Failure, ProgressLog, text::printable};
use rmcp::{
    ClientHandler, RoleClient, ServiceError,
    model::{
        CallToolRequest, CallToolRequestParams, CancelledNotificationParam, ClientCapabilities, ClientRequest,
        ElicitationCapability, FormElicitationCapability, ProtocolVersion, RequestId,
    },
    service::{
        ClientLifecycleMode, ClientServiceExt as _, NotificationContext, Peer, PeerRequestOptions, RunningService,
    },
    transport::Transport,
};
use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::time::{sleep, timeout};

/// Bytes of a sentence about a handshake.
const REASON_BYTES: usize = 700;

/// The longest time for which `server/discover` may stay without an answer, and its share of the time of a
/// call. Programs that take no notice of what they do not know wait that long at each start; programs that take longer
/// to start, and speak the current revision alone, are started twice.
const PROBE: Duration = Duration::from_secs(2);
const PROBE_SHARE: u32 = 4;

/// The sentence about a server that answers discovery late, and the handshake not at all.
const SILENT: &str = "it answered `server/discover` late, and then not `initialize`";

/// The time for which discovery may stay without an answer; nothing where it has the whole time.
fn probe(config: &McpServer, opening: Opening) -> Option<Duration> {
    (opening != Opening::CurrentLate).then_some(PROBE.min(config.call_time / PROBE_SHARE))
}

/// The age of a list of tools after which a server is asked again that says nothing of changes by itself, or whose list
/// could not be read whole.
const LISTING_AGE: Duration = Duration::from_secs(30);

/// The first words to a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// The current revision, then the handshake.
    Current,
    /// The current revision, with the whole time for its answer.
    CurrentLate,
    /// The handshake alone.
    Handshake,
}

/// A server that runs. Dropping it ends its process.
pub(super) struct Connection {
    service: RunningService<RoleClient, Handler>,
    wire: Arc<Wire>,
    process: Option<Process>,
    changed: Arc<AtomicBool>,
    listing: Mutex<Option<(Arc<Listing>, Instant)>>,
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
        match Self::spawn(&name, &config, Opening::Current).await {
            Err(NotStarted { again: Some(opening), .. }) => Self::spawn(&name, &config, opening).await,
            started => started,
        }
        .map_err(|not_started| not_started.failure)
    }

    #[cfg(feature = "http")]
    async fn connect(name: &str, remote: &Remote, config: &McpServer) -> Result<Arc<Self>, Failure> {
        let failed = |what: String| {
            let message = format!("MCP server `{name}` ({}): {}", remote.url, printable(&what, REASON_BYTES));
            failed("mcp-not-started", message, false)
        };
        let mut opening = Opening::Current;
        loop {
            let wire = Arc::new(Wire::of_texts());
            let probe = probe(config, opening);
            let transport = super::remote::transport(remote, config.result_bytes, wire.clone(), probe);
            let transport = transport.await.map_err(failed)?;
            // Its time is kept where requests are sent: the library sends no second one before the first is answered.
            match handshake(transport, &wire, config.call_time, opening, None).await {
                Ok((service, changed)) => {
                    return Ok(Arc::new(Self { service, wire, process: None, changed, listing: Mutex::default() }));
                }
                Err(Handshake::Late(late)) => return Err(failed(late)),
                // It may speak the current revision alone, and be slow.
                Err(Handshake::Failed(_)) if opening == Opening::Current && wire.is_undiscovered() => {
                    opening = Opening::CurrentLate;
                }
                Err(Handshake::Failed(why)) => {
                    let why = why.unwrap_or_else(|| "it ended the connection before the handshake".to_owned());
                    return Err(failed(why));
                }
                Err(Handshake::Silent) => return Err(failed(SILENT.to_owned())),
            }
        }
    }

    #[cfg(not(feature = "http"))]
    async fn connect(name: &str, remote: &Remote, _config: &McpServer) -> Result<Arc<Self>, Failure> {
        let message =
            format!("MCP server `{name}` ({}): this program is built without HTTP (feature `http`)", remote.url);
        Err(failed("not-built-in", message, false))
    }

    async fn spawn(name: &str, config: &McpServer, opening: Opening) -> Result<Arc<Self>, NotStarted> {
        let not_started = |what: String| NotStarted {
            failure: failed("mcp-not-started", format!("MCP server `{name}` ({}): {what}", config.program), false),
            again: None,
        };
        let (process, stdout, stdin) = Process::spawn(config).map_err(not_started)?;
        let longest = usize::try_from(config.result_bytes).unwrap_or(usize::MAX);
        let wire = Arc::new(Wire::of_messages());
        let lines = Lines::new(stdout, stdin, longest, wire.clone());
        match handshake(lines, &wire, config.call_time, opening, probe(config, opening)).await {
            Ok((service, changed)) => {
                Ok(Arc::new(Self { service, wire, process: Some(process), changed, listing: Mutex::default() }))
            }
            Err(Handshake::Late(late)) => Err(not_started(format!("{late}{}", process.last_words()))),
            Err(Handshake::Silent) => {
                let again = (opening == Opening::Current).then_some(Opening::CurrentLate);
                Err(NotStarted { again, ..not_started(format!("{SILENT}{}", process.last_words())) })
            }
            Err(Handshake::Failed(Some(why))) => {
                let failed = not_started(format!("{}{}", printable(&why, REASON_BYTES), process.last_words()));
                let again = (opening == Opening::Current && wire.speaks_current()).then_some(Opening::CurrentLate);
                Err(NotStarted { again, ..failed })
            }
            Err(Handshake::Failed(None)) => {
                let what = match process.ended().await {
                    Some(status) => format!("the handshake failed; the process ended: {status}"),
                    None => "the handshake failed; it closed its output and did not end".to_owned(),
                };
                let failed = not_started(format!("{what}{}{}", wire.last_unread(), process.last_words()));
                // It ended over the handshake, which the current revision does not have, or over discovery, which no
                // other revision has.
                let other = if wire.speaks_current() { Opening::CurrentLate } else { Opening::Handshake };
                let again = (opening == Opening::Current).then_some(other);
                Err(NotStarted { again, ..failed })
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
        self.request_with(request, PeerRequestOptions::no_options()).await
    }

    /// Calls a tool. A server of the current revision learns with each call whether it may ask for input.
    pub(super) async fn call(
        &self,
        params: CallToolRequestParams,
        may_ask: bool,
        progress: Option<&ProgressLog>,
    ) -> Answer {
        let mut options = PeerRequestOptions::no_options();
        if may_ask && self.is_current() {
            options.meta.get_or_insert_default().set_client_capabilities(waiting());
        }
        let mut request = CallToolRequest::new(params);
        if let Some(progress) = progress.filter(|progress| progress.is_watched()) {
            // The wire finds it there when the request is sent, with the token that the library gives it.
            request.extensions.insert(progress.clone());
        }
        self.request_with(ClientRequest::CallToolRequest(request), options).await
    }

    /// Asks about a task, which a server does only for whoever has tasks.
    pub(super) async fn request_of_task(&self, request: ClientRequest) -> Answer {
        let mut options = PeerRequestOptions::no_options();
        options.meta.get_or_insert_default().set_client_capabilities(waiting());
        self.request_with(request, options).await
    }

    async fn request_with(&self, request: ClientRequest, options: PeerRequestOptions) -> Answer {
        let answered = match self.peer().send_cancellable_request(request, options).await {
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
            let unknown = || "cannot be reached: the connection ended before it answered".to_owned();
            return self.wire.lost().unwrap_or_else(unknown);
        };
        match process.ended().await {
            Some(status) => format!("has exited: {status}{}", process.last_words()),
            None => format!("closed its input or its output, and did not exit{}", process.last_words()),
        }
    }

    /// The capabilities that the server announced beside tools.
    pub(super) fn announced(&self) -> Announced {
        self.wire.announced()
    }

    /// The tools that it listed last, if it was asked.
    pub(super) fn listed(&self) -> Option<Arc<Listing>> {
        let kept = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        kept.as_ref().map(|(listing, _)| listing.clone())
    }

    /// Returns `true` if the server speaks revision 2026-07-28, in which it tells of no change by itself.
    fn is_current(&self) -> bool {
        self.peer().peer_info().is_some_and(|info| info.protocol_version.as_str() >= CURRENT_VERSION)
    }

    /// Returns `true` if arguments that a tool names are sent as headers as well.
    pub(super) fn sends_params(&self) -> bool {
        self.wire.has_headers() && self.is_current()
    }

    /// Notes the arguments that are sent as headers, by the names of their tools.
    pub(super) fn send_params(&self, params: HashMap<String, Arc<[ParamHeader]>>) {
        self.wire.send_params(params);
    }

    /// Returns `true` if the server need not be asked again for a list.
    fn is_fresh(&self, listing: &Listing, asked: Instant) -> bool {
        let lasts = !self.is_current() && listing.partial.is_none();
        lasts || asked.elapsed() < LISTING_AGE
    }

    /// Returns `true` if this list is the last one, and fresh.
    pub(super) fn has_current(&self, listing: &Arc<Listing>) -> bool {
        let kept = self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last =
            |(last, asked): &(Arc<Listing>, Instant)| Arc::ptr_eq(last, listing) && self.is_fresh(last, *asked);
        !self.changed.load(Ordering::Acquire) && kept.as_ref().is_some_and(is_last)
    }

    /// The tools that it lists; asked for again only after it said that they changed.
    pub(super) async fn tools(&self) -> Result<Arc<Listing>, Answer> {
        let kept = || self.listing.lock().unwrap_or_else(PoisonError::into_inner);
        let changed = self.changed.swap(false, Ordering::AcqRel);
        let fresh = kept().clone().filter(|(listing, asked)| !changed && self.is_fresh(listing, *asked));
        if let Some((listing, _)) = fresh {
            return Ok(listing);
        }
        match ask::ask(self).await {
            Ok(listing) => {
                let listing = Arc::new(listing);
                *kept() = Some((listing.clone(), Instant::now()));
                Ok(listing)
            }
            Err(answer) => {
                self.changed.store(true, Ordering::Release);
                Err(answer)
            }
        }
    }
}

/// The capabilities of a caller that waits: for a person, and for a task.
fn waiting() -> ClientCapabilities {
    let mut capabilities = ClientCapabilities::builder().enable_tasks().build();
    capabilities.elicitation = Some(ElicitationCapability::new().with_form(FormElicitationCapability::new()));
    capabilities
}

/// Why there is no connection.
enum Handshake {
    /// It took too long; with a sentence.
    Late(String),
    /// It answered discovery after its time, and then not the handshake.
    Silent,
    /// The server answered something else, where it did; with a sentence.
    Failed(Option<String>),
}

type Service = (RunningService<RoleClient, Handler>, Arc<AtomicBool>);

/// Why a process is no server.
struct NotStarted {
    failure: Failure,
    /// The opening with which it may start at a second try.
    again: Option<Opening>,
}

async fn handshake<T>(
    transport: T,
    wire: &Arc<Wire>,
    time: Duration,
    opening: Opening,
    probe: Option<Duration>,
) -> Result<Service, Handshake>
where
    T: Transport<RoleClient> + 'static,
{
    let changed = Arc::new(AtomicBool::new(false));
    let handler = Handler { changed: changed.clone() };
    let lifecycle = match opening {
        Opening::Current | Opening::CurrentLate => {
            ClientLifecycleMode::Auto { preferred_versions: vec![ProtocolVersion::V_2026_07_28], legacy_version: None }
        }
        Opening::Handshake => ClientLifecycleMode::Initialize,
    };
    let serving = handler.serve_with_lifecycle(Patient::new(transport, wire.clone(), probe), lifecycle);
    let silent = async {
        match probe.filter(|_| opening == Opening::Current) {
            Some(grace) => {
                wire.spoke_late().await;
                sleep(grace).await;
            }
            None => std::future::pending().await,
        }
    };
    let served = tokio::select! {
        biased;
        served = timeout(time, serving) => served,
        () = silent => return Err(Handshake::Silent),
    };
    match served {
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
