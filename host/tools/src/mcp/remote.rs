//! Servers over HTTP: connections go to checked addresses, answers have a size, credentials stay with the host that
//! they are for.

use super::Remote;
use crate::http::{FetchLimits, HttpClient, credential::Secret, fetch};
use futures_util::{StreamExt as _, TryStreamExt as _, stream::BoxStream};
use http::{
    HeaderMap, HeaderName, HeaderValue, StatusCode,
    header::{ACCEPT, CONTENT_TYPE},
};
use opcell_types::text::printable;
use reqwest::Method;
use rmcp::{
    model::{ClientJsonRpcMessage, ServerJsonRpcMessage},
    transport::streamable_http_client::{
        SseError, StreamableHttpClient, StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
        StreamableHttpError, StreamableHttpPostResponse,
    },
};
use sse_stream::{Sse, SseStream};
use std::{collections::HashMap, io, sync::Arc};

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

/// A client for one server.
#[derive(Clone)]
pub(super) struct Checked {
    client: reqwest::Client,
    most: usize,
}

/// The transport to a server.
///
/// # Errors
/// When its address is not permitted, or its credential cannot be read.
pub(super) async fn transport(remote: &Remote, most: u64) -> Result<StreamableHttpClientTransport<Checked>, String> {
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
    Ok(StreamableHttpClientTransport::with_client(Checked { client, most }, config))
}

type Failed = StreamableHttpError<io::Error>;

fn broken(error: &reqwest::Error) -> io::Error {
    let mut innermost: &dyn std::error::Error = error;
    while let Some(source) = innermost.source() {
        innermost = source;
    }
    io::Error::other(printable(&innermost.to_string(), 300))
}

fn refused(what: String) -> Failed {
    StreamableHttpError::Client(io::Error::other(what))
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

    async fn send(&self, request: reqwest::RequestBuilder) -> Result<reqwest::Response, Failed> {
        let answer = request.send().await.map_err(|error| StreamableHttpError::Client(broken(&error)))?;
        match answer.status() {
            status if status.is_redirection() => Err(refused("it redirects, which is not followed".to_owned())),
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                Err(refused(format!("it refuses access ({}); check its `credential`", answer.status())))
            }
            _ => Ok(answer),
        }
    }

    /// A body of at most so many bytes.
    async fn body(&self, mut answer: reqwest::Response) -> Result<Vec<u8>, Failed> {
        let mut bytes = Vec::new();
        while let Some(chunk) = answer.chunk().await.map_err(|error| StreamableHttpError::Client(broken(&error)))? {
            if bytes.len() + chunk.len() > self.most {
                return Err(refused(format!("its answer has more than {} bytes", self.most)));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }

    /// The events of an answer; between two of them come at most so many bytes.
    fn events(&self, answer: reqwest::Response) -> BoxStream<'static, Result<Sse, SseError>> {
        let most = self.most;
        let mut event = EventLength::default();
        let bounded = answer.bytes_stream().map_err(|error| broken(&error)).map(move |chunk| {
            let chunk = chunk?;
            if event.after(&chunk) > most {
                return Err(io::Error::other(format!("an event has more than {most} bytes")));
            }
            Ok(chunk)
        });
        SseStream::from_bytes_stream(bounded).boxed()
    }
}

/// How long the longest event is so far, of those that a piece of a stream belongs to. A blank line ends an event; lines
/// end in LF, CR or both, and pieces anywhere.
#[derive(Debug, Default)]
struct EventLength {
    length: usize,
    /// Whether the line has no character yet.
    blank: bool,
    /// Whether the last byte was a CR, which an LF may follow as part of the same end.
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
        let attached = session.is_some();
        let headers = Self::headers(session.as_deref(), custom);
        let text = serde_json::to_vec(&message).map_err(|error| refused(error.to_string()))?;
        let request = self.client.post(&*uri).headers(headers).header(CONTENT_TYPE, JSON).body(text);
        let answer = self.send(request).await?;
        let status = answer.status();
        match status {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => return Ok(StreamableHttpPostResponse::Accepted),
            // The session is over: the transport begins another.
            StatusCode::NOT_FOUND if attached => return Err(StreamableHttpError::SessionExpired),
            _ => {}
        }
        let session = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
        let kind = kind(&answer);
        if status.is_success() && kind.starts_with(EVENTS) {
            return Ok(StreamableHttpPostResponse::Sse(self.events(answer), session));
        }
        let awaits_answer = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = self.body(answer).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(parsed) if kind.starts_with(JSON) => Ok(StreamableHttpPostResponse::Json(parsed, session)),
            _ if status.is_success() && !awaits_answer => Ok(StreamableHttpPostResponse::Accepted),
            _ => {
                let said = printable(String::from_utf8_lossy(&body).trim(), 300);
                Err(refused(format!("it answered {status}, which is no message of MCP: {said}")))
            }
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
        if let Some(last) = last_event.and_then(|last| HeaderValue::from_str(&last).ok()) {
            headers.insert(HeaderName::from_static("last-event-id"), last);
        }
        let answer = self.send(self.client.get(&*uri).headers(headers)).await?;
        match answer.status() {
            StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND => Err(StreamableHttpError::ServerDoesNotSupportSse),
            status if status.is_success() && kind(&answer).starts_with(EVENTS) => Ok(self.events(answer)),
            status => Err(refused(format!("it answered {status} instead of events"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::EventLength;

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
