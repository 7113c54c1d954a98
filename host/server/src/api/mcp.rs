//! `/v1/{tenant}/mcp`: the tools of a tenant over streamable HTTP.

mod batch;

use super::App;
use crate::{
    Settings,
    access::{Running, Standing, tokens::Scope},
    mcp::McpServer,
    problem::Problem,
    tenant::Tenants,
};
use axum::{
    body::{Body, HttpBody as _, to_bytes},
    extract::{Request, State},
    http::{Method, StatusCode, header::CONTENT_TYPE},
    response::Response,
};
use futures_util::StreamExt as _;
use opcell_schema::json::{MAX_VALUES, values_in};
use opcell_types::value::{rounded_integer, rounded_message};
use rmcp::{
    ErrorData,
    model::ErrorCode,
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

/// Sessions of one tenant at a time. One that is idle for five minutes ends by itself.
const MAX_SESSIONS: usize = 256;

/// Sessions of one token: what one program leaves open keeps no other out.
const MOST_SESSIONS_OF_TOKEN: usize = 64;

/// Requests of one tenant at a time that belong to no session.
const MOST_REQUESTS: usize = 1024;

/// The header that names a session; a client's first request has none, and those of revision 2026-07-28 never have one.
const SESSION: &str = "mcp-session-id";

/// The protocol's half of each tenant. No session is known to another tenant, nor to another token.
pub(crate) struct Services(BTreeMap<Arc<str>, Service>);

struct Service {
    http: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    owners: Mutex<Owners>,
    /// Room for requests that belong to no session.
    requests: Arc<Semaphore>,
    /// Bytes of one message.
    most: usize,
}

/// Whose sessions there are.
#[derive(Default)]
struct Owners {
    /// The caller by the session's ID.
    sessions: HashMap<String, Arc<str>>,
    /// Sessions that are being opened, by caller.
    opening: HashMap<Arc<str>, usize>,
}

impl Owners {
    /// Reserves a session for a caller.
    ///
    /// # Errors
    /// With the number of sessions that are open already, where there may be no more.
    fn admit(&mut self, caller: &Arc<str>, most: usize) -> Result<(), usize> {
        let own = self.sessions.values().filter(|owner| *owner == caller).count();
        let opening = self.opening.get(caller).copied().unwrap_or_default();
        if own + opening >= most {
            return Err(most);
        }
        if self.sessions.len() + self.opening.values().sum::<usize>() >= MAX_SESSIONS {
            return Err(MAX_SESSIONS);
        }
        *self.opening.entry(caller.clone()).or_default() += 1;
        Ok(())
    }

    /// Ends a reservation, with the session that came of it.
    fn opened(&mut self, caller: &Arc<str>, session: Option<String>) {
        if let Some(opening) = self.opening.get_mut(caller) {
            *opening = opening.saturating_sub(1);
            if *opening == 0 {
                self.opening.remove(caller);
            }
        }
        if let Some(session) = session {
            self.sessions.insert(session, caller.clone());
        }
    }

    /// `true` if a session is another caller's.
    fn is_foreign(&self, session: &str, caller: &Arc<str>) -> bool {
        self.sessions.get(session).is_some_and(|owner| owner != caller)
    }
}

/// A session that is being opened; however that ends, the reservation does.
struct Opening<'a> {
    owners: &'a Mutex<Owners>,
    caller: Arc<str>,
    session: Option<String>,
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        owners.opened(&self.caller, self.session.take());
    }
}

impl Service {
    /// Reserves a session. Those that ended no longer count.
    async fn open(&self, caller: &Arc<str>, most: usize) -> Result<Opening<'_>, Problem> {
        let lock = || self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        // One that is opened while the others are looked at is not among the live ones, and has not ended.
        let known: Vec<String> = lock().sessions.keys().cloned().collect();
        let live: HashSet<String> = self.sessions.sessions.read().await.keys().map(|id| id.to_string()).collect();
        let mut owners = lock();
        for ended in known.iter().filter(|session| !live.contains(*session)) {
            owners.sessions.remove(ended);
        }
        if let Err(most) = owners.admit(caller, most) {
            let detail = format!("{most} sessions are open already");
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-sessions", detail);
            return Err(problem.remedy("close sessions with DELETE, or wait: one that is idle for five minutes ends"));
        }
        Ok(Opening { owners: &self.owners, caller: caller.clone(), session: None })
    }
}

impl Services {
    pub(crate) fn new(tenants: &Tenants, settings: &Settings, stop: &CancellationToken) -> Self {
        let of = |tenant: &Arc<crate::Tenant>| {
            let mut server = McpServer::new(tenant.clone(), settings.mcp_workflows.iter().cloned());
            if let Some(gateway) = &settings.mcp_gateway {
                server = server.with_gateway(gateway.clone());
            }
            // Names of the host are checked for every request already, whatever address it came to.
            let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
            config.cancellation_token = stop.child_token();
            let most = config.max_request_body_bytes;
            let sessions = Arc::new(LocalSessionManager::default());
            let http = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
            let service = Service {
                http,
                sessions,
                owners: Mutex::default(),
                requests: Arc::new(Semaphore::new(MOST_REQUESTS)),
                most,
            };
            (tenant.name.clone(), service)
        };
        Self(tenants.iter().map(of).collect())
    }
}

/// Speaks the Model Context Protocol.
pub(super) async fn mcp(
    State(app): State<Arc<App>>,
    Running(admitted): Running,
    request: Request,
) -> Result<Response, Problem> {
    let service = app.mcp.0.get(&admitted.tenant.name);
    let service = service.ok_or_else(|| Problem::not_found("unknown-tenant", "there is no such tenant"))?;
    let caller = &admitted.caller.name;
    let mut list = None;
    let mut begins_session = false;
    let mut request = match *request.method() == Method::POST {
        true => {
            let (parts, body) = request.into_parts();
            let body = to_bytes(body, service.most).await.map_err(|_| {
                let detail = format!("the body has more than {} bytes", service.most);
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
            })?;
            if let Some(answer) = refusal(&body) {
                return Ok(answer);
            }
            list = match batch::of(&body, parts.headers.contains_key(SESSION)) {
                Ok(list) => list,
                Err(error) => return Ok(refused(&error)),
            };
            if let Some(answer) = removed(&body) {
                return Ok(answer);
            }
            begins_session = !parts.headers.contains_key(SESSION) && is_initialize(&body);
            Request::from_parts(parts, Body::from(body))
        }
        false => request,
    };
    let opening = match request.headers().get(SESSION) {
        Some(session) => {
            let owners = service.owners.lock().unwrap_or_else(PoisonError::into_inner);
            if session.to_str().is_ok_and(|session| owners.is_foreign(session, caller)) {
                // As the protocol's half answers for one that there is not.
                let answer = Response::builder().status(StatusCode::NOT_FOUND);
                return Ok(answer.body(Body::from("Not Found: Session not found")).unwrap_or_default());
            }
            None
        }
        None if begins_session => {
            let most = match app.access.required() {
                None => MAX_SESSIONS,
                Some(_) => MOST_SESSIONS_OF_TOKEN,
            };
            Some(service.open(caller, most).await?)
        }
        None => None,
    };
    // Tasks belong to whoever began them.
    request.extensions_mut().insert(admitted.caller.clone());
    if let Some(messages) = list {
        let (parts, _) = request.into_parts();
        let handle = |request: Request| {
            let standing = Standing::new(&app, request.headers(), &admitted.tenant, Scope::Run);
            async move { service.http.handle(request).await.map(Body::new).map(|body| standing.guard(body)) }
        };
        return Ok(batch::answer(&parts, messages, handle).await);
    }
    let room = match (request.headers().contains_key(SESSION), &opening) {
        (false, None) => Some(service.requests.clone().try_acquire_owned().map_err(|_| {
            let detail = "as many requests are in flight as the tenant may have at a time";
            Problem { retry_after: Some(1), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-calls", detail) }
        })?),
        _ => None,
    };
    let standing = Standing::new(&app, request.headers(), &admitted.tenant, Scope::Run);
    let ends_session = *request.method() == Method::DELETE;
    let mut answer = service.http.handle(request).await;
    if ends_session && answer.status() == StatusCode::ACCEPTED {
        // It has ended, and clients take any other status for a failure.
        *answer.status_mut() = StatusCode::NO_CONTENT;
    }
    if let Some(mut opening) = opening {
        opening.session = answer.headers().get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned);
    }
    Ok(answer.map(Body::new).map(|body| standing.guard(with(body, room))))
}

/// The same body, which keeps a permit until all of it was sent.
fn with(body: Body, permit: Option<OwnedSemaphorePermit>) -> Body {
    match permit {
        Some(permit) if body.size_hint().exact().is_none() => {
            Body::from_stream(body.into_data_stream().inspect(move |_| {
                let _ = &permit;
            }))
        }
        _ => body,
    }
}

/// Returns `true` if a message asks for a session, or may.
fn is_initialize(body: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    struct Named<'a> {
        #[serde(borrow, default)]
        method: Option<Cow<'a, str>>,
    }
    // What cannot be told apart, such as a message with two methods, counts.
    serde_json::from_slice::<Named<'_>>(body).map_or(true, |named| named.method.as_deref() == Some("initialize"))
}

/// The answer to a request that begins a session in a revision without sessions, which names itself in each request.
fn removed(body: &[u8]) -> Option<Response> {
    if !is_initialize(body) {
        return None;
    }
    let request: serde_json::Value = serde_json::from_slice(body).ok()?;
    let revision = request.get("params")?.get("_meta")?.get("io.modelcontextprotocol/protocolVersion")?;
    let revision = crate::api::shown(revision.as_str()?);
    let text = format!("revision {revision} has no `initialize`; `server/discover` says what this server speaks");
    let error = ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None);
    let id = request.get("id").filter(|id| id.is_string() || id.is_number());
    Some(answer(StatusCode::NOT_FOUND, id, &error))
}

/// The answer of JSON-RPC to a body that is no message of it.
fn refusal(body: &[u8]) -> Option<Response> {
    let error = match serde_json::from_slice::<serde::de::IgnoredAny>(body) {
        Err(error) => ErrorData::parse_error(format!("the message is not JSON: {error}"), None),
        Ok(_) if values_in(body) > MAX_VALUES => {
            ErrorData::invalid_request(format!("a message has at most {MAX_VALUES} values"), None)
        }
        Ok(_) => match rounded_integer(body) {
            Some(place) => {
                let digits = String::from_utf8_lossy(body.get(place).unwrap_or_default());
                ErrorData::invalid_request(rounded_message(&digits), None)
            }
            None => return None,
        },
    };
    Some(refused(&error))
}

fn refused(error: &ErrorData) -> Response {
    answer(StatusCode::BAD_REQUEST, None, error)
}

fn answer(status: StatusCode, id: Option<&serde_json::Value>, error: &ErrorData) -> Response {
    let text = serde_json::json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string();
    let answer = Response::builder().status(status).header(CONTENT_TYPE, "application/json");
    answer.body(Body::from(text)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_no_message_is_answered_as_json_rpc_says() {
        for (body, is_message) in
            [("{}", true), ("{", false), ("[{}]", true), ("", false), ("[99999999999999999999]", false)]
        {
            let answer = refusal(body.as_bytes()).map(|answer| answer.status());
            assert_eq!(answer, (!is_message).then_some(StatusCode::BAD_REQUEST), "{body}");
        }
    }

    #[test]
    fn a_revision_without_sessions_has_no_request_that_begins_one() {
        let of = |meta: &str| format!(r#"{{"id": 7, "method": "initialize", "params": {{"_meta": {{{meta}}}}}}}"#);
        let named = of(r#""io.modelcontextprotocol/protocolVersion": "2026-07-28""#);
        assert_eq!(removed(named.as_bytes()).map(|answer| answer.status()), Some(StatusCode::NOT_FOUND));
        for other in [of(""), of(r#""progressToken": 1"#), named.replace("initialize", "tools/list")] {
            assert!(removed(other.as_bytes()).is_none(), "{other}");
        }
    }

    #[test]
    fn only_a_request_to_initialize_begins_a_session() {
        for (body, begins) in [
            (r#"{"method": "initialize"}"#, true),
            (r#"{"method": "initi\u0061lize"}"#, true),
            (r#"{"method": "ping", "method": "initialize"}"#, true),
            (r#"{"method": 7}"#, true),
            (r#"{"method": "tools/call", "params": {"method": "initialize"}}"#, false),
            (r#"{"method": "server/discover"}"#, false),
            (r#"{"id": 1, "result": {}}"#, false),
        ] {
            assert_eq!(is_initialize(body.as_bytes()), begins, "{body}");
        }
    }

    #[test]
    fn a_session_is_its_tokens_and_one_token_cannot_use_up_all() {
        let (first, second): (Arc<str>, Arc<str>) = ("first".into(), "second".into());
        let mut owners = Owners::default();
        for number in 0..MOST_SESSIONS_OF_TOKEN {
            owners.admit(&first, MOST_SESSIONS_OF_TOKEN).unwrap();
            owners.opened(&first, Some(format!("s{number}")));
        }
        assert_eq!(owners.admit(&first, MOST_SESSIONS_OF_TOKEN), Err(MOST_SESSIONS_OF_TOKEN));
        owners.admit(&second, MOST_SESSIONS_OF_TOKEN).unwrap();
        // What is being opened counts, and what came to nothing does not.
        for _ in 1..MOST_SESSIONS_OF_TOKEN {
            owners.admit(&second, MOST_SESSIONS_OF_TOKEN).unwrap();
        }
        assert!(owners.admit(&second, MOST_SESSIONS_OF_TOKEN).is_err());
        owners.opened(&second, None);
        owners.admit(&second, MOST_SESSIONS_OF_TOKEN).unwrap();
        assert!(owners.is_foreign("s0", &second) && !owners.is_foreign("s0", &first));
        assert!(!owners.is_foreign("unknown", &second), "the protocol's half says that there is none");
    }
}
