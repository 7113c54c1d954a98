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
    response::Response,
};
use rmcp::transport::streamable_http_server::{
    StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
};
use std::{collections::BTreeMap, sync::Arc};
use tokio_util::sync::CancellationToken;

/// The protocol's half of each tenant.
pub(crate) struct Services(BTreeMap<Arc<str>, StreamableHttpService<McpServer, LocalSessionManager>>);

impl Services {
    pub(crate) fn new(tenants: &Tenants, workflows: &[String], stop: &CancellationToken) -> Self {
        let of = |tenant: &Arc<crate::Tenant>| {
            let server = McpServer::new(tenant.clone(), workflows.iter().cloned());
            // Names of the host are checked for every request already, whatever address it came to.
            let mut config = StreamableHttpServerConfig::default().disable_allowed_hosts();
            config.cancellation_token = stop.child_token();
            let sessions = Arc::new(LocalSessionManager::default());
            (tenant.name.clone(), StreamableHttpService::new(move || Ok(server.clone()), sessions, config))
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
    let standing = Standing::new(&app, request.headers(), &admitted.tenant, Scope::Run);
    Ok(service.handle(request).await.map(Body::new).map(|body| standing.guard(body)))
}
