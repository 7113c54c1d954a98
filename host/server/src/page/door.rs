//! The visitor of a page: the operator where no token is required, else the holder of a token. A cookie names a session
//! of this process; the token itself never goes back to the browser, and is checked again on every request.

use super::{News, whole};
use crate::{
    access::{self, Access, Admitted, Caller, tokens::Scope},
    api::App,
    audit::Sender,
    problem::Problem,
};
use axum::{
    Form,
    extract::{FromRequestParts, Query, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use maud::{Markup, html};
use serde::Deserialize;
use sha2::Sha256;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The duration of a session, and the maximum number of sessions.
const SESSION_LIFETIME: Duration = Duration::from_secs(12 * 3600);
const MAX_SESSIONS: usize = 10_000;

/// The longest form with a token, in bytes: whoever sends it is not known yet.
pub(super) const MAX_LOGIN: usize = 8 << 10;

const COOKIE: &str = "opcell";

/// The sessions of browsers.
pub(crate) struct Sessions {
    tokens: Mutex<HashMap<String, (String, Instant)>>,
    secret: [u8; 32],
}

impl Sessions {
    /// None yet.
    pub(crate) fn new() -> std::io::Result<Self> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret).map_err(std::io::Error::other)?;
        Ok(Self { tokens: Mutex::default(), secret })
    }

    fn token(&self, session: &str) -> Option<String> {
        let mut tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        tokens.retain(|_, (_, began)| began.elapsed() < SESSION_LIFETIME);
        tokens.get(session).map(|(token, _)| token.clone())
    }

    fn mac(&self, session: &str) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.secret).ok()?;
        mac.update(session.as_bytes());
        Some(mac)
    }

    /// Returns the proof that the forms of a session carry, and that no other site knows.
    fn proof(&self, session: &str) -> String {
        self.mac(session).map(|mac| URL_SAFE_NO_PAD.encode(mac.finalize().into_bytes())).unwrap_or_default()
    }

    fn is_proof(&self, session: &str, given: &str) -> bool {
        let given = URL_SAFE_NO_PAD.decode(given).unwrap_or_default();
        self.mac(session).is_some_and(|mac| mac.verify_slice(&given).is_ok())
    }
}

/// Someone who looks at pages.
pub(crate) struct Visitor {
    session: String,
    /// As what the API calls them.
    pub(crate) headers: HeaderMap,
    /// The name of the token; none where no token is required.
    name: Option<Arc<str>>,
    caller: Caller,
    app: Arc<App>,
    /// For the audit log.
    sender: Sender,
}

impl Visitor {
    pub(super) fn of(app: &Arc<App>, headers: &HeaderMap) -> Option<Self> {
        let (mut session, mut own) = (String::new(), HeaderMap::new());
        // The system vouched for a program of the operator, which needs no session.
        let given = headers.get(header::AUTHORIZATION).filter(|_| matches!(app.access, Access::Own(_)));
        match (app.access.is_open(), given) {
            (true, _) => {}
            (false, Some(token)) => drop(own.insert(header::AUTHORIZATION, token.clone())),
            (false, None) => session = cookie(headers)?,
        }
        if !session.is_empty() {
            let token = HeaderValue::from_str(&format!("Bearer {}", app.sessions.token(&session)?)).ok()?;
            own.insert(header::AUTHORIZATION, token);
        }
        let caller = access::caller(app, &own).ok()?;
        let name = (!session.is_empty()).then(|| caller.name.clone());
        Some(Self { session, headers: own, name, caller, app: app.clone(), sender: Sender::default() })
    }

    /// Returns `true` if the token is for this tenant.
    pub(super) fn reaches(&self, tenant: &str) -> bool {
        self.caller.reaches(tenant)
    }

    /// Returns `true` if the token is for several tenants of this server.
    pub(super) fn reaches_several(&self) -> bool {
        self.app.tenants.iter().filter(|tenant| self.reaches(&tenant.name)).nth(1).is_some()
    }

    /// Returns the name of the visitor, after a login.
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the proof that forms carry.
    pub(crate) fn proof(&self) -> String {
        self.app.sessions.proof(&self.session)
    }

    /// Checks whether a form is one of ours.
    ///
    /// # Errors
    /// 403 otherwise.
    pub(crate) fn check(&self, proof: &str) -> Result<(), Problem> {
        if self.app.sessions.is_proof(&self.session, proof) {
            return Ok(());
        }
        let detail = "the form is too old, or not one of this page";
        Err(Problem::new(StatusCode::FORBIDDEN, "foreign-form", detail).remedy("reload the page and try again"))
    }

    /// The tenant, if the visitor may do this with it.
    ///
    /// # Errors
    /// As for a request of the API.
    pub(crate) fn admit(&self, tenant: &str, scope: Scope) -> Result<Admitted, Problem> {
        access::admit_to(&self.app, &self.headers, tenant, scope, &self.sender)
    }
}

impl FromRequestParts<Arc<App>> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Response> {
        let visitor = Self::of(app, &parts.headers).ok_or_else(|| Redirect::to("/login").into_response())?;
        Ok(Self { sender: Sender::of(&parts.extensions), ..visitor })
    }
}

fn cookie(headers: &HeaderMap) -> Option<String> {
    let cookies = headers.get(header::COOKIE)?.to_str().ok()?;
    cookies.split(';').find_map(|pair| Some(pair.trim().strip_prefix(COOKIE)?.strip_prefix('=')?.to_owned()))
}

/// Asks for a token.
pub(super) async fn form() -> Response {
    let main = html! {
        h1 { "Log in" }
        p { "Open the address that " code { "opcell serve" } " printed, or paste a token that it or "
            code { "opcell token new" } " printed." }
        (login())
    };
    whole("Log in", None, None, News::default(), main)
}

/// The form that takes a token.
pub(super) fn login() -> Markup {
    html! {
        form.row method="post" action="/login" {
            label for="token" { "Token" }
            input id="token" name="token" type="password" autocomplete="off" required autofocus size="40";
            button { "Log in" }
        }
    }
}

/// A token.
#[derive(Deserialize)]
pub(super) struct Login {
    token: String,
}

/// Begins a session.
pub(super) async fn enter(State(app): State<Arc<App>>, Form(login): Form<Login>) -> Result<Response, Problem> {
    begin(&app, login.token.trim())
}

/// The token of the address that `opcell serve` printed.
#[derive(Deserialize)]
pub(super) struct Start {
    token: Option<String>,
}

/// The first page. With a token it begins a session, and leaves the token out of the address.
pub(super) async fn home(
    State(app): State<Arc<App>>,
    Query(start): Query<Start>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    match (start.token, Visitor::of(&app, &headers)) {
        (Some(token), _) => begin(&app, token.trim()),
        (None, Some(visitor)) => Ok(super::list::tenants(State(app), visitor).await.into_response()),
        (None, None) => Ok(Redirect::to("/login").into_response()),
    }
}

fn begin(app: &Arc<App>, token: &str) -> Result<Response, Problem> {
    let mut headers = HeaderMap::new();
    if let Ok(token) = HeaderValue::from_str(&format!("Bearer {token}")) {
        headers.insert(header::AUTHORIZATION, token);
    }
    access::caller(app, &headers)?;
    let mut id = [0; 32];
    getrandom::fill(&mut id).map_err(|error| {
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-randomness", format!("no session can be made: {error}"))
    })?;
    let session = URL_SAFE_NO_PAD.encode(id);
    {
        let mut tokens = app.sessions.tokens.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever logs in often ends none of the others' sessions but the oldest.
        if tokens.len() >= MAX_SESSIONS
            && let Some(oldest) = tokens.iter().min_by_key(|(_, (_, began))| *began).map(|(session, _)| session.clone())
        {
            tokens.remove(&oldest);
        }
        tokens.insert(session.clone(), (token.to_owned(), Instant::now()));
    }
    let secure = if app.is_tls { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={session}; HttpOnly; SameSite=Strict; Path=/; Max-Age={}{secure}",
        SESSION_LIFETIME.as_secs()
    );
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

/// Ends a session.
pub(super) async fn leave(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Some(session) = cookie(&headers) {
        app.sessions.tokens.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
    }
    ([(header::SET_COOKIE, format!("{COOKIE}=; Max-Age=0; Path=/"))], Redirect::to("/login")).into_response()
}
