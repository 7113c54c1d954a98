//! The routes of the server itself for monitoring and clients, outside of any tenant.

use super::{App, events, export, hooks, input, operations, plugins, query, runs, send, servers, triggers, workflows};
use crate::{
    access,
    access::Access,
    metrics::{self, Journaled},
    problem::Problem,
    tenant::Tenant,
};
use axum::{
    Json,
    body::Bytes,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::IntoResponse,
};
use futures_util::future;
use opcell_engine::RunError;
use serde::Serialize;
use std::{
    sync::{Arc, LazyLock},
    time::{Duration, Instant},
};
use tokio::sync::Mutex;
use utoipa::{
    Modify, OpenApi, ToSchema,
    openapi::security::{Http, HttpAuthScheme, SecurityScheme},
};

/// Runnable runs that `/metrics` counts: enough to see a crowd, few enough to list on every visit of a monitoring
/// system.
const MAX_RUNNABLE: u64 = 10_000;

/// The time for which the last answer about the journals is taken for granted.
const READY_TTL: Duration = Duration::from_millis(500);

/// The time that a journal has to answer `/metrics`: less than the ten seconds that Prometheus waits for all of it.
const JOURNAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The health of the server.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    pub status: &'static str,
    /// The version of the server.
    pub version: &'static str,
}

/// Reports that the process works.
#[utoipa::path(get, operation_id = "get_health", path = "/health", tag = "server", security(()),
    responses((status = 200, description = "The process works", body = Health)))]
pub(super) async fn health() -> Json<Health> {
    Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") })
}

/// Reports whether the server accepts work: every journal answers, and the server is not stopping.
#[utoipa::path(get, operation_id = "get_readiness", path = "/ready", tag = "server", security(()), responses(
    (status = 200, description = "Requests make sense", body = Health),
    (status = 503, description = "A journal cannot be read or written, or the server is stopping", body = Problem,
        content_type = "application/problem+json")))]
pub(super) async fn ready(State(app): State<Arc<App>>) -> Result<Json<Health>, Problem> {
    if app.stop.is_cancelled() {
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "shutting-down", "the server is stopping"));
    }
    if let Some(why) = app.readiness.lacks(&app).await {
        let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "journal-unavailable", why);
        return Err(problem.remedy("runs continue by themselves once it can be written"));
    }
    Ok(Json(Health { status: "ok", version: env!("CARGO_PKG_VERSION") }))
}

/// The readiness of the server: why a journal cannot be read or written. No one needs a token to ask, so they are asked
/// once in a while, however many ask.
#[derive(Default)]
pub(crate) struct Readiness(Mutex<Option<(Instant, Option<String>)>>);

impl Readiness {
    async fn lacks(&self, app: &App) -> Option<String> {
        let mut known = self.0.lock().await;
        if let Some((_, why)) = known.as_ref().filter(|(looked, _)| looked.elapsed() < READY_TTL) {
            return why.clone();
        }
        let mut why = None;
        for tenant in app.tenants.iter() {
            let journal = tenant.host.engine().journal();
            let looked = match tenant.host.engine().runnable(1).await {
                Ok(_) => journal.probe().await.map_err(RunError::from),
                Err(error) => Err(error),
            };
            if let Err(error) = looked {
                // Without the words that a run stopped: none is asked for.
                let error = match error {
                    RunError::Journal(error) => error.to_string(),
                    error => error.to_string(),
                };
                tracing::warn!(tenant = %tenant.name, %error, "not ready");
                why.get_or_insert_with(|| format!("the journal of tenant `{}` does not work: {error}", tenant.name));
            }
        }
        *known = Some((Instant::now(), why.clone()));
        why
    }
}

/// Counters and gauges in the text format of Prometheus; with a token, those of its tenant, or of all tenants if it has
/// the scope `metrics`.
#[utoipa::path(get, operation_id = "get_metrics", path = "/metrics", tag = "server", responses(
    (status = 200, description = "The metrics", body = String, content_type = "text/plain"),
    (status = "4XX", description = "A token is needed, or another one", body = Problem,
        content_type = "application/problem+json")))]
pub(super) async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Result<impl IntoResponse, Problem> {
    let caller = access::caller(&app, &headers)?;
    let counted = app.tenants.iter().filter(|tenant| caller.may_count(&tenant.name));
    let of: Vec<(&Tenant, Option<Journaled>)> =
        future::join_all(counted.map(async |tenant| (tenant.as_ref(), journaled(tenant).await))).await;
    if of.is_empty() {
        let problem = Problem::new(StatusCode::FORBIDDEN, "scope-missing", "the token may not read metrics");
        return Err(problem.remedy("make one with `opcell token new --scope metrics`"));
    }
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics::text(&of)))
}

/// The figures of a tenant's journal; `None` if it does not answer, which hides neither its counters nor other tenants.
async fn journaled(tenant: &Tenant) -> Option<Journaled> {
    let figures = async {
        let asked = Instant::now();
        let runnable = tenant.host.engine().runnable(MAX_RUNNABLE).await?.len() as u64;
        let answered = asked.elapsed();
        let states = tenant.host.engine().runs_by_status().await?;
        Ok::<_, RunError>(Journaled { states, runnable, answered })
    };
    match tokio::time::timeout(JOURNAL_TIMEOUT, figures).await {
        Ok(Ok(figures)) => Some(figures),
        Ok(Err(error)) => {
            tracing::warn!(tenant = %tenant.name, %error, "no figures of the journal");
            None
        }
        Err(_) => {
            tracing::warn!(tenant = %tenant.name, "no figures of the journal: it did not answer in time");
            None
        }
    }
}

/// This document.
#[utoipa::path(get, operation_id = "get_openapi", path = "/openapi.json", tag = "server", security(()),
    responses((status = 200, description = "The document", body = Object)))]
pub(super) async fn openapi() -> impl IntoResponse {
    /// Made once, and one text for all: no one needs a token to ask for it.
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| super::openapi_text().into());
    ([(header::CONTENT_TYPE, "application/json")], TEXT.clone())
}

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, openapi: &mut utoipa::openapi::OpenApi) {
        let components = openapi.components.get_or_insert_default();
        components.add_security_scheme("token", SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    }
}

/// The API as OpenAPI describes it.
#[derive(OpenApi)]
#[openapi(
    servers((url = "/", description = "The server that this document comes from")),
    info(title = "Opcell", description = "Runs of agent workflows whose operations are sandboxed WebAssembly components"),
    modifiers(&Bearer),
    security(("token" = []), ()),
    components(schemas(Problem)),
    paths(
        health, ready, metrics, openapi,
        workflows::list, workflows::get, workflows::graph, workflows::check, workflows::compile,
        runs::list, runs::start, runs::get, runs::graph, query::receipts, query::denials, runs::replay, runs::fork,
        runs::retry,
        query::all_receipts, query::all_denials,
        events::events, export::export,
        send::signal, send::message, send::approve, send::cancel, input::answer,
        operations::list, operations::describe, operations::invoke,
        plugins::list, plugins::explain, plugins::diff, plugins::reload,
        servers::list, triggers::list, hooks::hook,
    )
)]
pub struct Document;

impl Access {
    /// Returns `true` if every request needs a token.
    #[must_use]
    pub fn requires_token(&self) -> bool {
        matches!(self, Self::Tokens(_))
    }
}
