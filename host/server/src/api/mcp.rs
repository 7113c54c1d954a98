//! `/v1/{tenant}/mcp`: the tools of a tenant over streamable HTTP.

use super::App;
use crate::{
    access::{Running, Standing, tokens::Scope},
    mcp::McpServer,
    problem::Problem,
    tenant::Tenants,
};
use axum::{
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode},
    response::Response,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio_util::sync::CancellationToken;

/// Sessions of one tenant at a time. One that is idle for five minutes ends by itself.
const MOST_SESSIONS: usize = 256;

/// The header that names a session; a client's first request has none.
const SESSION: &str = "mcp-session-id";

/// The protocol's half of each tenant. No session is known to another tenant.
pub(crate) struct Services(BTreeMap<Arc<str>, Service>);

struct Service {
    http: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

impl Services {
    pub(crate) fn new(tenants: &Tenants, workflows: &[String], stop: &CancellationToken) -> Self {
        let of = |tenant: &Arc<crate::Tenant>| {
            let server = McpServer::new(tenant.clone(), workflows.iter().cloned());
            // Names of the host are checked for every request already, whatever address it came to.
            let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
            config.cancellation_token = stop.child_token();
            let sessions = Arc::new(LocalSessionManager::default());
            let http = StreamableHttpService::new(move || Ok(server.clone()), Arc::clone(&sessions), config);
            (tenant.name.clone(), Service { http, sessions })
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
    let begins = request.method() == Method::POST && !request.headers().contains_key(SESSION);
    if begins && service.sessions.sessions.read().await.len() >= MOST_SESSIONS {
        let detail = format!("{MOST_SESSIONS} sessions are open already");
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-sessions", detail);
        return Err(problem.remedy("close sessions with DELETE, or wait: one that is idle for five minutes ends"));
    }
    let standing = Standing::new(&app, request.headers(), &admitted.tenant, Scope::Run);
    Ok(service.http.handle(request).await.map(Body::new).map(|body| standing.guard(body)))
}
