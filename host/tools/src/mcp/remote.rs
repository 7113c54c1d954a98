//! Servers over HTTP: connections go to checked addresses, answers have a size, credentials stay with the host that
//! they are for.

use super::{
    Remote,
    jsonish::Outline,
    repair::is_utf16,
    wire::{Answer, Wire},
};
use crate::http::{FetchLimits, HttpClient, credential::Secret, fetch};
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, LOCATION},
};
use opcell_types::text::printable;
use reqwest::Method;
use rmcp::{
    model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage, RequestId, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};
use std::{
    collections::HashMap,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout_at};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// Beginnings of the lines of events.
const EVENT_FIELDS: [&[u8]; 5] = [b"data:", b"event:", b"id:", b"retry:", b":"];

/// Bytes of the body of a refusal that are read.
const BEGINNING_BYTES: usize = 8 << 10;

/// Bytes of an address in a message.
const ADDRESS_BYTES: usize = 500;

/// A client for one server.
#[derive(Clone)]
pub(super) struct Checked {
    client: reqwest::Client,
    most: usize,
    wire: Arc<Wire>,
    /// The time for which discovery may stay without an answer; nothing where it has the whole time.
    probe: Option<Duration>,
}

/// The transport to a server.
///
/// # Errors
/// When its address is not permitted, or its credential cannot be read.
pub(super) async fn transport(
    remote: &Remote,
    most: u64,
    wire: Arc<Wire>,
    probe: Option<Duration>,
) -> Result<StreamableHttpClientTransport<Checked>, String> {
    let http = HttpClient::new(FetchLimits::default());
    let rules = std::slice::from_ref(&remote.rule);
    fetch::permitted(rules, &Method::POST, &remote.url).map_err(|error| error.to_string())?;
    let client = http.client(remote.rule.private).await.map_err(|error| error.to_string())?.clone();
    let mut config = StreamableHttpClientTransportConfig::with_uri(remote.url.as_str());
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    config.max_sse_event_size = most;
    if let Some(credential) = &remote.rule.credential {
        let secret = Secret::read(credential).await.map_err(|error| error.to_string())?;
        config.custom_headers.insert(secret.header.clone(), secret.value.clone());
    }
    Ok(StreamableHttpClientTransport::with_client(Checked { client, most, wire, probe }, config))
}

type Failed = StreamableHttpError<io::Error>;

/// The way in which a request failed, with a sentence.
#[derive(Debug, thiserror::Error)]
enum Fault {
    /// The server may be there again.
    #[error("cannot be reached: {0}")]
    Unreachable(String),
    /// A status of HTTP says that the request was not taken.
    #[error("{why}")]
    Refused { why: String, retriable: bool },
    /// It is not an answer.
    #[error("{0}")]
    Unreadable(String),
}

impl From<Fault> for Failed {
    fn from(fault: Fault) -> Self {
        Self::Client(io::Error::other(fault))
    }
}

/// The answer that a failed request has.
fn answer_of(error: &io::Error) -> Answer {
    match error.get_ref().and_then(|fault| fault.downcast_ref::<Fault>()) {
        Some(Fault::Refused { why, retriable }) => Answer::Refused { why: why.clone(), retriable: *retriable },
        Some(Fault::Unreachable(_)) => Answer::Lost(error.to_string()),
        Some(Fault::Unreadable(_)) | None => Answer::Unreadable(error.to_string()),
    }
}

fn unreachable(error: &dyn std::fmt::Display) -> Failed {
    Fault::Unreachable(error.to_string()).into()
}

fn broken(error: &reqwest::Error) -> io::Error {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    io::Error::other(printable(&innermost.to_string(), 300))
}

fn refused(what: String) -> Failed {
    Fault::Unreadable(what).into()
}

impl Checked {
    fn headers(session: Option<&str>, custom: HashMap<HeaderName, HeaderValue>) -> HeaderMap {
        let mut headers: HeaderMap = custom.into_iter().collect();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        if let Some(session) = session.and_then(|session| HeaderValue::from_str(session).ok()) {
            headers.insert(SESSION, session);
        }
        headers
    }

    /// The arguments of a call that are sent as headers as well.
    fn params(&self, message: &ClientJsonRpcMessage) -> Result<HeaderMap, Failed> {
        let call = match message {
            ClientJsonRpcMessage::Request(request) => match &request.request {
                ClientRequest::CallToolRequest(call) => &call.params,
                _ => return Ok(HeaderMap::new()),
            },
            _ => return Ok(HeaderMap::new()),
        };
        let params = self.wire.params_of(&call.name);
        let sent = params.iter().flat_map(|params| params.iter());
        let sent = sent.filter_map(|param| param.of(call.arguments.as_ref()?));
        let header = |(name, value): (&str, String)| {
            Some((HeaderName::from_bytes(name.as_bytes()).ok()?, HeaderValue::from_str(&value).ok()?))
        };
        let whole: Option<HeaderMap> = sent.map(header).collect();
        whole.ok_or_else(|| refused("its arguments cannot be sent as the headers that its schema names".to_owned()))
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failed> {
        let answer = opcell_process::outbound(request.send()).await.map_err(|error| unreachable(&broken(&error)))?;
        if answer.status().is_redirection() { Err(refused(redirection(&answer))) } else { Ok(answer) }
    }

    /// The events of the answer to discovery, up to the end of its time.
    fn until(
        &self,
        end: Instant,
        id: &RequestId,
        events: BoxStream<'static, Result<Sse, SseError>>,
    ) -> BoxStream<'static, Result<Sse, SseError>> {
        let (wire, id) = (self.wire.clone(), id.clone());
        let over = stream::once(async move { wire.undiscovered(&id).map(|message| Ok(event_of(&message))) });
        events.take_until(sleep_until(end)).chain(over.filter_map(std::future::ready)).boxed()
    }

    /// The messages of a stream of events. Where a request is answered by them, its answer ends them.
    fn events(&self, bytes: Pieces, of: Option<RequestId>) -> BoxStream<'static, Result<Sse, SseError>> {
        let (most, too_long) = (self.most, Arc::new(AtomicBool::new(false)));
        let ended = Arc::new(AtomicBool::new(false));
        let bytes = if of.is_some() { with_end(bytes, ended.clone()) } else { bytes };
        let (wire, opening) = (self.wire.clone(), of.clone());
        let silent = stream::once(async move {
            // The library has no sentence for a handshake that is not answered.
            let id = opening.filter(|id| wire.is_opening(id))?;
            let why = "it ended the stream of events before it answered".to_owned();
            wire.answer(&id, Answer::Unreadable(why)).map(|message| Ok(event_of(&message)))
        });
        let mut event = EventLength::default();
        let noted = too_long.clone();
        let bounded = bytes.map(move |chunk| {
            let chunk = chunk?;
            if event.after(&chunk) > most {
                noted.store(true, Ordering::Release);
                return Err(io::Error::other("an event is too long"));
            }
            Ok(io::Cursor::new(chunk))
        });
        let wire = self.wire.clone();
        let messages = SseStream::from_bytes_stream(bounded).flat_map(move |event| {
            let items = match event {
                Ok(event) => messages_of(event, &wire, of.as_ref(), ended.load(Ordering::Acquire)),
                Err(error) if too_long.load(Ordering::Acquire) => match &of {
                    Some(id) => {
                        let why = format!("its answer has more than {most} bytes");
                        wire.answer(id, Answer::Unreadable(why))
                            .map(|message| Ok(event_of(&message)))
                            .into_iter()
                            .collect()
                    }
                    None => vec![Err(error)],
                },
                Err(error) => vec![Err(error)],
            };
            stream::iter(items)
        });
        messages.chain(silent.filter_map(std::future::ready)).boxed()
    }

    /// Reads the answer to a request, whatever form it has. The body begins with the pieces that were read before.
    async fn answer(
        &self,
        answer: Head,
        mut bytes: Pieces,
        id: Option<&RequestId>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let Head { status, session, kind } = answer;
        let mut begin = Vec::new();
        if status.is_success() {
            // Servers also send events as something else, or JSON as events, or say nothing about it.
            while is_undecided(&begin) && begin.len() <= self.most {
                let Some(chunk) = bytes.next().await else { break };
                begin.extend_from_slice(&chunk.map_err(|error| unreachable(&error))?);
            }
            let is_called_events = kind.starts_with(EVENTS) && !looks_like_json(&begin) && !is_utf16(&begin);
            if looks_like_events(&begin) || is_called_events {
                let bytes = stream::iter([Ok(begin)]).chain(bytes).boxed();
                return Ok(StreamableHttpPostResponse::Sse(self.events(bytes, id.cloned()), session));
            }
        }
        let mut body = begin;
        loop {
            if body.len() > self.most {
                return Err(refused(format!("its answer has more than {} bytes", self.most)));
            }
            let Some(chunk) = bytes.next().await else { break };
            let chunk = chunk.map_err(|error| unreachable(&error))?;
            body.extend_from_slice(&chunk);
        }
        let Some(id) = id else {
            return if status.is_success() {
                Ok(StreamableHttpPostResponse::Accepted)
            } else {
                Err(unusual(status, &body))
            };
        };
        // An error of HTTP has a body of its own, which is an answer only where it says so.
        if !status.is_success() && !Outline::of(&body).is_version_named() {
            return Err(unusual(status, &body));
        }
        let read = self.wire.read(&body, Some(id));
        let mut messages = match read.or_else(|why| self.wire.read_within(&body, Some(id)).ok_or(why)) {
            Ok(messages) => messages,
            Err(_) if body.trim_ascii().is_empty() || !(looks_like_json(&body) || is_utf16(&body)) => {
                return Err(unusual(status, &body));
            }
            Err(why) => return Err(refused(format!("its answer cannot be read: {why}"))),
        };
        if self.wire.is_waiting(id) {
            return Err(unusual(status, &body));
        }
        match (messages.pop(), messages.is_empty()) {
            (Some(only), true) => Ok(StreamableHttpPostResponse::Json(only, session)),
            (Some(last), false) => {
                messages.push(last);
                // The answer comes last: what is after it is not read.
                messages
                    .sort_by_key(|message| matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
                let events: Vec<_> = messages.iter().map(|message| Ok(event_of(message))).collect();
                Ok(StreamableHttpPostResponse::Sse(stream::iter(events).boxed(), session))
            }
            (None, _) => Err(unusual(status, &body)),
        }
    }

    async fn post(
        &self,
        uri: Arc<str>,
        message: &ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        let attached = session.is_some();
        let mut headers = Self::headers(session.as_deref(), custom);
        headers.extend(self.params(message)?);
        let text = serde_json::to_vec(message).map_err(|error| refused(error.to_string()))?;
        let request = self.client.post(&*uri).headers(headers).header(CONTENT_TYPE, JSON).body(text);
        let answer = self.send(request).await?;
        let id = id_of(message);
        let head = Head::of(&answer);
        let mut bytes = pieces(answer);
        match head.status {
            StatusCode::ACCEPTED if id.is_some() => {
                // Some servers answer with this status, which says that there is no answer.
                let begin = beginning(&mut bytes).await;
                if !looks_like_json(&begin) && !looks_like_events(&begin) {
                    return Ok(StreamableHttpPostResponse::Accepted);
                }
                let bytes = stream::iter([Ok(begin)]).chain(bytes).boxed();
                self.answer(head, bytes, id).await
            }
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => Ok(StreamableHttpPostResponse::Accepted),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                let said = said(&beginning(&mut bytes).await);
                let why = format!("it refuses access ({}); check its `credential`{said}", head.status);
                Err(Fault::Refused { why, retriable: false }.into())
            }
            StatusCode::NOT_FOUND | StatusCode::GONE | StatusCode::BAD_REQUEST if attached => {
                let begin = beginning(&mut bytes).await;
                if head.status == StatusCode::BAD_REQUEST && !is_about_session(&begin) {
                    let bytes = stream::iter([Ok(begin)]).chain(bytes).boxed();
                    return self.answer(head, bytes, id).await;
                }
                // The session is over: the transport begins another, and asks once more.
                self.wire.session_lost(format!("answered {}, also in a new session{}", head.status, said(&begin)));
                Err(StreamableHttpError::SessionExpired)
            }
            _ => self.answer(head, bytes, id).await,
        }
    }
}

/// The parts of an answer's head that are read.
struct Head {
    status: StatusCode,
    session: Option<String>,
    kind: String,
}

impl Head {
    fn of(answer: &reqwest::Response) -> Self {
        let session = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        Self { status: answer.status(), session, kind: kind(answer) }
    }
}

/// The first bytes of a body.
async fn beginning(bytes: &mut Pieces) -> Vec<u8> {
    let mut begin = Vec::new();
    while begin.len() < BEGINNING_BYTES
        && let Some(Ok(piece)) = bytes.next().await
    {
        begin.extend_from_slice(&piece);
    }
    begin
}

/// Returns `true` if the text of a refusal says that the session is not known: servers also do that with status 400.
fn is_about_session(body: &[u8]) -> bool {
    const WORDS: [&str; 8] = [
        "session id",
        "session-id",
        "sessionid",
        "session not found",
        "session expired",
        "session has expired",
        "unknown session",
        "invalid session",
    ];
    let body = String::from_utf8_lossy(body).to_ascii_lowercase();
    WORDS.iter().any(|words| body.contains(words))
}

/// The pieces of a body, and the blank line after its last event where the server leaves it out. `ended` is set when the
/// body has ended.
fn with_end(bytes: Pieces, ended: Arc<AtomicBool>) -> Pieces {
    let broke = Arc::new(AtomicBool::new(false));
    let noted = broke.clone();
    let end = stream::once(async move {
        ended.store(true, Ordering::Release);
        (!broke.load(Ordering::Acquire)).then(|| Ok(b"\n\n".to_vec()))
    });
    let noting = bytes.inspect(move |piece| {
        noted.fetch_or(piece.is_err(), Ordering::AcqRel);
    });
    noting.chain(end.filter_map(std::future::ready)).boxed()
}

type Pieces = BoxStream<'static, io::Result<Vec<u8>>>;

fn pieces(answer: reqwest::Response) -> Pieces {
    answer.bytes_stream().map(|piece| piece.map(|piece| piece.to_vec()).map_err(|error| broken(&error))).boxed()
}

fn id_of(message: &ClientJsonRpcMessage) -> Option<&RequestId> {
    match message {
        ClientJsonRpcMessage::Request(request) => Some(&request.id),
        _ => None,
    }
}

/// Names the target of a redirect, which is not followed: the address was permitted, and its target was not.
fn redirection(answer: &reqwest::Response) -> String {
    let target = answer.headers().get(LOCATION).and_then(|target| target.to_str().ok());
    match target.and_then(|target| answer.url().join(target).ok()) {
        Some(mut target) => {
            let (_, _) = (target.set_username(""), target.set_password(None));
            let target = printable(target.as_str(), ADDRESS_BYTES);
            format!("it redirects to {target}, which is not followed: write that address")
        }
        None => "it redirects to no address".to_owned(),
    }
}

fn unusual(status: StatusCode, body: &[u8]) -> Failed {
    let why = format!("it answered {status}, which is not an MCP message{}", said(body));
    if status.is_success() {
        return refused(why);
    }
    let waits = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_EARLY, StatusCode::TOO_MANY_REQUESTS];
    let never = [StatusCode::NOT_IMPLEMENTED, StatusCode::HTTP_VERSION_NOT_SUPPORTED];
    let retriable = waits.contains(&status) || (status.is_server_error() && !never.contains(&status));
    Fault::Refused { why, retriable }.into()
}

/// The text of a body, as the end of a sentence.
fn said(body: &[u8]) -> String {
    let said = printable(String::from_utf8_lossy(body).trim(), 300);
    if said.is_empty() { said } else { format!(": {said}") }
}

/// Returns `true` if so little of a body is known that it may be events or not.
fn is_undecided(begin: &[u8]) -> bool {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(begin).trim_ascii_start();
    begin.is_empty() || EVENT_FIELDS.iter().any(|field| begin.len() < field.len() && field.starts_with(begin))
}

fn looks_like_json(body: &[u8]) -> bool {
    matches!(
        body.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(body).trim_ascii_start().first(),
        Some(b'{' | b'[')
    )
}

fn looks_like_events(begin: &[u8]) -> bool {
    let begin = begin.strip_prefix(b"\xef\xbb\xbf".as_slice()).unwrap_or(begin).trim_ascii_start();
    EVENT_FIELDS.iter().any(|field| begin.starts_with(field))
}

/// The messages of one event, as events. Those of other types are none but the answer that is waited for, and keep the
/// ID that reading is resumed after. An event that the body ends in may be cut.
fn messages_of(event: Sse, wire: &Wire, of: Option<&RequestId>, ended: bool) -> Vec<Result<Sse, SseError>> {
    let is_message = matches!(event.event.as_deref(), None | Some("" | "message"));
    let is_answer = |data: &str| {
        let outline = Outline::of(data.as_bytes());
        let is_named = outline.is_version_named() && outline.id().is_some();
        of.is_some() && is_named && wire.addressee_of(&outline).as_ref() == of
    };
    let data = event.data.as_ref().filter(|data| !data.trim().is_empty() && (is_message || is_answer(data)));
    let read = data.map(|data| match wire.read(data.as_bytes(), of) {
        Ok(messages) => messages,
        Err(_) if let Some(messages) = wire.read_within(data.as_bytes(), of) => messages,
        Err(_) if ended => {
            wire.not_understood(data.as_bytes());
            Vec::new()
        }
        Err(why) => {
            let outline = Outline::of(data.as_bytes());
            match wire.addressee_of(&outline) {
                Some(id) => wire
                    .answer(&id, Answer::Unreadable(format!("its answer cannot be read: {why}")))
                    .into_iter()
                    .collect(),
                None => {
                    wire.not_understood(data.as_bytes());
                    Vec::new()
                }
            }
        }
    });
    let mut messages = read.unwrap_or_default();
    messages.sort_by_key(|message| matches!(message, JsonRpcMessage::Response(_) | JsonRpcMessage::Error(_)));
    let mark = Sse { event: None, data: None, ..event };
    let messages = messages.iter().map(|message| Ok(event_of(message)));
    std::iter::once(Ok(mark)).chain(messages).collect()
}

fn event_of(message: &ServerJsonRpcMessage) -> Sse {
    Sse { data: serde_json::to_string(message).ok(), ..Sse::default() }
}

/// The length of the longest event so far, of those that a piece of a stream belongs to. A blank line ends an event;
/// lines end in LF, CR or both, and pieces anywhere.
#[derive(Debug, Default)]
struct EventLength {
    length: usize,
    /// `true` if the line has no character yet.
    blank: bool,
    /// `true` if the last byte was a CR, which an LF may follow as part of the same end.
    after_cr: bool,
}

impl EventLength {
    fn after(&mut self, piece: &[u8]) -> usize {
        let mut longest = 0;
        for byte in piece {
            self.length += 1;
            longest = longest.max(self.length);
            let ends = match byte {
                b'\n' if self.after_cr => {
                    self.after_cr = false;
                    continue;
                }
                b'\n' | b'\r' => true,
                _ => false,
            };
            self.after_cr = *byte == b'\r';
            if ends && self.blank {
                self.length = 0;
            }
            self.blank = ends;
        }
        longest
    }
}

fn is_discovery(message: &ClientJsonRpcMessage) -> bool {
    matches!(message, JsonRpcMessage::Request(request) if matches!(request.request, ClientRequest::DiscoverRequest(_)))
}

fn kind(answer: &reqwest::Response) -> String {
    let kind = answer.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.unwrap_or_default().to_ascii_lowercase()
}

impl StreamableHttpClient for Checked {
    type Error = io::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<StreamableHttpPostResponse, Failed> {
        self.wire.sent(&message);
        let end = self.probe.filter(|_| is_discovery(&message)).map(|time| Instant::now() + time);
        let posted = self.post(uri, &message, session, custom);
        let posted = match end.zip(id_of(&message)) {
            None => posted.await,
            Some((end, id)) => match timeout_at(end, posted).await {
                Ok(Ok(StreamableHttpPostResponse::Sse(events, session))) => {
                    Ok(StreamableHttpPostResponse::Sse(self.until(end, id, events), session))
                }
                Ok(posted) => posted,
                Err(_) => {
                    return Ok(self.wire.undiscovered(id).map_or(StreamableHttpPostResponse::Accepted, |answer| {
                        StreamableHttpPostResponse::Json(answer, None)
                    }));
                }
            },
        };
        match posted {
            // A request ends with a sentence, and not with the error of a library.
            Err(StreamableHttpError::Client(error)) => {
                let Some(id) = id_of(&message) else {
                    tracing::debug!("an MCP server did not take a notification: {error}");
                    return Ok(StreamableHttpPostResponse::Accepted);
                };
                match self.wire.answer(id, answer_of(&error)) {
                    Some(message) => Ok(StreamableHttpPostResponse::Json(message, None)),
                    None => Err(StreamableHttpError::Client(error)),
                }
            }
            // A server of an earlier revision may take what it does not know for a notification.
            Ok(StreamableHttpPostResponse::Accepted) if let Some(id) = id_of(&message) => {
                let why = "it accepted the request and gave no answer".to_owned();
                let answer = self.wire.answer(id, Answer::Unreadable(why));
                Ok(answer.map_or(StreamableHttpPostResponse::Accepted, |answer| {
                    StreamableHttpPostResponse::Json(answer, None)
                }))
            }
            other => other,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<(), Failed> {
        let headers = Self::headers(Some(&session), custom);
        self.send(self.client.delete(&*uri).headers(headers)).await.map(drop)
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _auth: Option<String>,
        custom: HashMap<HeaderName, HeaderValue>,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, Failed> {
        let mut headers = Self::headers(session.as_deref(), custom);
        let is_first = last_event.is_none();
        if let Some(last) = last_event.and_then(|last| HeaderValue::from_str(&last).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), last);
        }
        let answer = match self.send(self.client.get(&*uri).headers(headers)).await {
            // What a server sends unasked is heard where it can be.
            Err(error) if is_first => {
                tracing::debug!("an MCP server sends nothing unasked: {error}");
                return Err(StreamableHttpError::ServerDoesNotSupportSse);
            }
            answer => answer?,
        };
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && kind(&answer).starts_with(EVENTS) => Ok(self.events(pieces(answer), None)),
            // A server need not send anything unasked.
            _ if is_first => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status => Err(refused(format!("it answered {status} instead of events"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{EventLength, is_about_session, is_undecided, looks_like_events};

    #[test]
    fn a_body_is_of_events_by_its_first_bytes() {
        for (begin, undecided, events) in [
            ("", true, false),
            ("\r\n", true, false),
            ("da", true, false),
            ("data:", false, true),
            (": ping", false, true),
            ("{", false, false),
            ("dark", false, false),
        ] {
            assert_eq!(
                (is_undecided(begin.as_bytes()), looks_like_events(begin.as_bytes())),
                (undecided, events),
                "{begin}"
            );
        }
    }

    #[test]
    fn a_refusal_of_a_session_is_told_from_that_of_an_argument() {
        assert!(is_about_session(b"Bad Request: No valid session ID provided"));
        assert!(!is_about_session(b"the argument `session` is too long"));
    }

    #[test]
    fn an_event_is_as_long_as_it_is_however_its_lines_end_and_its_pieces_come() {
        let longest = |text: &str, piece: usize| {
            let mut event = EventLength::default();
            text.as_bytes().chunks(piece).map(|piece| event.after(piece)).max().unwrap_or_default()
        };
        for end in ["\n", "\r", "\r\n"] {
            let event = format!("event: message{end}data: {}{end}{end}", "x".repeat(50));
            for piece in [1, 2, 3, 7, 1000] {
                let length = longest(&event.repeat(20), piece);
                assert!((64..=event.len() + 1).contains(&length), "{end:?} in pieces of {piece}: {length}");
            }
            let endless = format!("data: x{end}").repeat(100);
            assert_eq!(longest(&endless, 9), endless.len());
        }
    }
}
