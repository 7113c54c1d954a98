//! The sender of a request, and the scopes that it has.
//!
//! A handler gets its tenant only through one of the extractors [`Reading`], [`Running`], [`Approving`] and
//! [`Administering`], so none can forget to ask. A tenant that does not exist and one that the caller has no token for
//! look the same.

pub mod tokens;

use crate::{api::App, audit::Sender, peer::Peer, problem::Problem, tenant::Tenant};
use axum::{
    body::{Body, HttpBody as _},
    extract::{FromRequestParts, RawPathParams, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use futures_util::{StreamExt as _, stream};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use subtle::ConstantTimeEq as _;
use tokens::{Scope, TokenStore};

/// The interval at which the token of an idle stream is checked again.
const IDLE_RECHECK_INTERVAL: Duration = Duration::from_secs(5);

/// The callers that a server accepts.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum Access {
    /// Everyone who reaches the address is the operator: for an address that only this machine reaches, and only where
    /// its operator says so.
    #[default]
    Open,
    /// Programs of the user that runs the server, and whoever has the token that it started with; as soon as the
    /// project has tokens of its own, only those.
    Own(Own),
    /// Every request brings a token of this store.
    Tokens(TokenStore),
}

/// A server without tokens of its project.
#[derive(Debug, Clone)]
pub struct Own {
    start: Arc<str>,
    /// Stands for a program that an Opcell process started; given to no one.
    program: Arc<str>,
    store: Option<TokenStore>,
}

impl Own {
    /// With a token that is made now, and the store whose first token replaces it.
    ///
    /// # Errors
    /// The system's, when it has no randomness.
    pub fn new(store: Option<TokenStore>) -> std::io::Result<Self> {
        Ok(Self { start: tokens::secret()?.into(), program: tokens::secret()?.into(), store })
    }

    /// The token that the server starts with.
    #[must_use]
    pub fn start_token(&self) -> &str {
        &self.start
    }

    fn caller(&self, token: &str) -> Option<Caller> {
        let is = |secret: &str| bool::from(token.as_bytes().ct_eq(secret.as_bytes()));
        match is(&self.program) {
            true => Some(Caller::program()),
            false => is(&self.start).then(Caller::operator),
        }
    }

    /// The project's own tokens, if it has or ever had any.
    fn project(&self) -> Option<&TokenStore> {
        self.store.as_ref().filter(|store| store.is_in_use())
    }
}

impl Access {
    /// The store whose tokens are required now.
    pub(crate) fn required(&self) -> Option<&TokenStore> {
        match self {
            Self::Open => None,
            Self::Own(own) => own.project(),
            Self::Tokens(store) => Some(store),
        }
    }

    /// Returns `true` if a browser needs no login.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// The name of a caller without a token.
const LOCAL: &str = "local";

/// The sender of a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// As events and logs call them.
    pub name: Arc<str>,
    /// The only tenant that they reach; absent: all.
    pub tenant: Option<Arc<str>>,
    /// The scopes; absent: all of them.
    pub scopes: Option<Vec<Scope>>,
}

impl Caller {
    fn operator() -> Self {
        Self { name: LOCAL.into(), tenant: None, scopes: None }
    }

    /// The name under which an answer about a call counts. Who answers without a token is the user of this process: the
    /// same person as on the command line, where two people must approve.
    pub(crate) fn person(&self) -> Arc<str> {
        match self.scopes {
            None if *self.name == *LOCAL => format!("{LOCAL} (uid {})", rustix::process::getuid().as_raw()).into(),
            _ => self.name.clone(),
        }
    }

    /// A program that an Opcell process started: a server of tools, or a command of a model. Only a person approves.
    fn program() -> Self {
        Self { name: "local program".into(), tenant: None, scopes: Some(vec![Scope::Read, Scope::Run]) }
    }

    /// Returns `true` if the sender has a scope.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.as_ref().is_none_or(|scopes| scopes.contains(&scope) || scopes.contains(&Scope::Admin))
    }

    pub(crate) fn reaches(&self, tenant: &str) -> bool {
        self.tenant.as_deref().is_none_or(|own| own == tenant)
    }

    /// Returns `true` if the sender may read the metrics of a tenant: those of all come with a scope of their own.
    pub(crate) fn may_count(&self, tenant: &str) -> bool {
        let counts_all = self.scopes.as_ref().is_some_and(|scopes| scopes.contains(&Scope::Metrics));
        counts_all || (self.reaches(tenant) && self.may(Scope::Read))
    }
}

/// The caller of a request.
///
/// # Errors
/// 401, where tokens are required and there is no valid one.
pub(crate) fn caller(app: &App, headers: &HeaderMap) -> Result<Caller, Problem> {
    let start = match (&app.access, app.access.required()) {
        (Access::Open, _) => return Ok(Caller::operator()),
        (Access::Own(own), None) => Some(own),
        _ => None,
    };
    let remedy = match start {
        Some(_) => "open the address that `opcell serve` printed, or send its token as `Authorization: Bearer TOKEN`",
        None => "send `Authorization: Bearer TOKEN`; `opcell token new` makes tokens",
    };
    let refused = |detail: &str| Problem::new(StatusCode::UNAUTHORIZED, "token-required", detail).remedy(remedy);
    let given = headers.get(header::AUTHORIZATION).ok_or_else(|| refused("this server requires a token"))?;
    let given = given.to_str().ok().and_then(|given| given.split_once(' '));
    let given = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map_or("", |(_, token)| token);
    let verified = match start {
        Some(own) => own.caller(given.trim()),
        None => app.access.required().and_then(|store| store.verify(given.trim())),
    };
    verified.ok_or_else(|| {
        // Its public part says which one was revoked or mistyped. Whoever guesses many does not fill the log.
        if app.refusals.check().is_ok() {
            let id = given
                .trim()
                .strip_prefix(tokens::PREFIX)
                .and_then(|rest| rest.split('_').next())
                .map(crate::api::shown);
            tracing::warn!(target: "opcell::audit", id, "a token was refused");
        }
        refused("the token is not valid: it is unknown, mistyped or revoked")
    })
}

/// A caller and the tenant that they reach.
pub struct Admitted {
    /// The tenant.
    pub tenant: Arc<Tenant>,
    /// The sender of the request.
    pub caller: Caller,
}

async fn admit(parts: &mut Parts, app: &Arc<App>, scope: Scope) -> Result<Admitted, Problem> {
    let params = RawPathParams::from_request_parts(parts, app).await;
    let params = params.map_err(|_| Problem::bad_request("invalid-path", "the path is not UTF-8"))?;
    let name = params.iter().find(|(name, _)| *name == "tenant").map_or("", |(_, value)| value);
    let admitted = admit_to(app, &parts.headers, name, scope, &Sender::of(&parts.extensions))?;
    // What changes something is in the audit log with its answer.
    if parts.method.is_safe() {
        tracing::debug!(target: "opcell::audit", caller = %admitted.caller.name, tenant = %admitted.tenant.name,
            method = %parts.method, path = parts.uri.path(), "request");
    }
    Ok(admitted)
}

/// Admits a request to a tenant. `sender` learns who sends it, whether they are admitted or not.
pub(crate) fn admit_to(
    app: &App,
    headers: &HeaderMap,
    name: &str,
    scope: Scope,
    sender: &Sender,
) -> Result<Admitted, Problem> {
    let caller = caller(app, headers)?;
    sender.named(&caller.name);
    // A foreign tenant is not even looked up.
    let tenant = caller.reaches(name).then(|| app.tenants.get(name)).flatten();
    let tenant = tenant.ok_or_else(|| {
        Problem::not_found("unknown-tenant", "there is no such tenant, or the token is not bound to it")
            .remedy(format!("a project that declares no tenants has one, `{}`", Tenant::DEFAULT))
    })?;
    if !caller.may(scope) {
        let detail = format!("the token does not have the scope `{}`", scope.as_str());
        let remedy = format!("make one with `opcell token new --scope {}`", scope.as_str());
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail).remedy(remedy));
    }
    if let Err(problem) = tenant.admit() {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        return Err(problem);
    }
    tenant.counters.requests.fetch_add(1, Ordering::Relaxed);
    Ok(Admitted { tenant: tenant.clone(), caller })
}

/// A caller to whom something is sent for as long as it continues: only while they may read it.
pub(crate) struct Standing {
    app: Arc<App>,
    headers: HeaderMap,
    tenant: Arc<str>,
    scope: Scope,
}

impl Standing {
    /// Records a caller who was admitted to a tenant.
    pub(crate) fn new(app: &Arc<App>, headers: &HeaderMap, tenant: &Tenant, scope: Scope) -> Self {
        let token = headers.get(header::AUTHORIZATION).cloned().map(|token| (header::AUTHORIZATION, token));
        Self { app: app.clone(), headers: HeaderMap::from_iter(token), tenant: tenant.name.clone(), scope }
    }

    fn holds(&self) -> bool {
        caller(&self.app, &self.headers).is_ok_and(|caller| caller.reaches(&self.tenant) && caller.may(self.scope))
    }

    /// The same body, which ends when the caller's token is revoked: nothing that comes after that is sent.
    pub(crate) fn guard(self, body: Body) -> Body {
        if self.app.access.is_open() || body.size_hint().exact().is_some() {
            return body;
        }
        Body::from_stream(stream::unfold((self, body.into_data_stream()), async |(standing, mut pieces)| {
            loop {
                let piece = tokio::select! {
                    piece = pieces.next() => Some(piece?),
                    () = tokio::time::sleep(IDLE_RECHECK_INTERVAL) => None,
                };
                if !standing.holds() {
                    return None;
                }
                if let Some(piece) = piece {
                    return Some((piece, (standing, pieces)));
                }
            }
        }))
    }
}

macro_rules! extractor {
    ($name:ident, $scope:expr, $doc:literal) => {
        #[doc = $doc]
        pub struct $name(pub Admitted);

        impl FromRequestParts<Arc<App>> for $name {
            type Rejection = Problem;

            async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
                admit(parts, app, $scope).await.map(Self)
            }
        }
    };
}

extractor!(Reading, Scope::Read, "A caller who may look.");
extractor!(Running, Scope::Run, "A caller who may start runs, call operations and send messages.");
extractor!(Approving, Scope::Approve, "A caller who may approve and refuse.");
extractor!(Administering, Scope::Admin, "A caller who may change what the server has loaded.");

/// Refuses what a browser sends on behalf of another site, and names that resolve to this machine by trickery.
pub(crate) async fn same_site(State(app): State<Arc<App>>, mut request: Request, next: Next) -> Response {
    let headers = request.headers();
    let named = request.uri().authority().map(|authority| authority.as_str());
    let mut hosts = headers.get_all(header::HOST).iter().map(|host| host.to_str().unwrap_or_default()).chain(named);
    let host = hosts.next().unwrap_or_default();
    // What stands before this server may have gone by another one than this.
    if hosts.any(|other| other != host) {
        let problem = Problem::bad_request("ambiguous-host", "the request names several hosts");
        return problem.remedy("send one `Host`, that of the URL").into_response();
    }
    if !matches!(app.access, Access::Tokens(_)) && !is_this_machine(host) {
        let detail = format!("`{}` is not a name of this machine's loopback address", crate::api::shown(host));
        let problem = Problem::new(StatusCode::FORBIDDEN, "foreign-host", detail);
        return problem.remedy("use `localhost`, `127.0.0.1` or `[::1]`").into_response();
    }
    if let Some(origin) = headers.get(header::ORIGIN) {
        let of = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        // A page of `http:` may be anyone's on the way.
        let is_ours = of.is_some_and(|(scheme, of)| of == host && (scheme == "https" || !app.is_tls));
        if !is_ours {
            let detail = "the request comes from a page of another site";
            return Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail).into_response();
        }
    }
    if let Access::Own(own) = &app.access
        && own.project().is_none()
        && !request.headers().contains_key(header::AUTHORIZATION)
        && Peer::of(request.extensions()).is_own_user(app.address)
    {
        // A program of the operator need not know the token: the system vouches for it. One that a model may have
        // started changes nothing that takes a person.
        let peer = Peer::of(request.extensions());
        let is_safe = request.method().is_safe();
        let token = match is_safe || !peer.is_below_opcell(app.address).await {
            true => own.start_token(),
            false => &own.program,
        };
        if let Ok(token) = HeaderValue::from_str(&format!("Bearer {token}")) {
            request.headers_mut().insert(header::AUTHORIZATION, token);
        }
    }
    next.run(request).await
}

fn is_this_machine(host: &str) -> bool {
    let without_port = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, port)) if port.is_empty() || port.starts_with(':') => address,
            _ => return false,
        },
        None => host.split(':').next().unwrap_or_default(),
    };
    without_port.eq_ignore_ascii_case("localhost")
        || without_port.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::{Caller, Scope, is_this_machine};

    #[test]
    fn whoever_answers_without_a_token_is_the_person_of_the_command_line() {
        let user = format!("local (uid {})", rustix::process::getuid().as_raw());
        assert_eq!(*Caller::operator().person(), *user);
        let scopes = Some(vec![Scope::Approve]);
        for name in ["ann", "local"] {
            let holder = Caller { name: name.into(), tenant: None, scopes: scopes.clone() };
            assert_eq!(&*holder.person(), name);
        }
    }

    #[test]
    fn only_names_of_loopback_are_this_machine() {
        for host in ["localhost", "LOCALHOST:80", "127.0.0.1:7878", "127.8.9.1", "[::1]", "[::1]:7878"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "[::2]:1",
            "[::1]evil.example",
            "[::1",
            "0.0.0.0",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
