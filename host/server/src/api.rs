//! The routes of the server: `/health`, `/ready`, `/metrics`, `/openapi.json`, and everything of a tenant below
//! `/v1/{tenant}`.

mod body;
mod events;
mod export;
mod hooks;
mod input;
mod mcp;
mod operations;
mod plugins;
mod query;
mod root;
mod runs;
mod send;
mod servers;
pub(crate) mod shapes;
mod triggers;
mod workflows;

use crate::{
    access::{self, Access},
    audit, metrics,
    page::{self, Sessions},
    problem::Problem,
    serve::Settings,
    tenant::{Tenants, refusal_limiter, webhook_limiter},
    threads,
};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use governor::DefaultDirectRateLimiter;
use opcell_engine::Event;
use opcell_ir::WorkflowIr;
use opcell_types::text::one_line;
use std::{sync::Arc, time::Duration};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tower_http::{catch_panic::CatchPanicLayer, set_header::SetResponseHeaderLayer, timeout::TimeoutLayer};
use utoipa::OpenApi;

pub(crate) use body::{At, Params};
pub(crate) use events::stream;
pub(crate) use export::{ExportParams, exported, pieces, pieces_with_content};
pub(crate) use input::send as answer_input;
pub(crate) use query::moment_of;
pub use root::Document;
pub(crate) use runs::{PARK, Start, begin, encoded, may_share, run_graph, run_name};
pub(crate) use send::{GrantBody, answer, answer_calls, grant, own, write_grant};
pub(crate) use workflows::{named, workflow_graph};

/// Largest body of a request.
pub const MAX_BODY: usize = 4 << 20;

/// The time that a request may take, reading its body included. Streams of events are answered at once and go on.
const REQUEST_TIME: Duration = Duration::from_secs(60);

/// The path that a run takes through its workflow, and the drawing of both.
pub trait Path: Send {
    /// The next event of the run.
    fn observe(&mut self, event: &Event);

    /// The workflow as SVG, DOT or Mermaid, with the path if there were events.
    ///
    /// # Errors
    /// Why it cannot be drawn.
    fn draw(&self, workflow: &WorkflowIr, format: GraphFormat) -> Result<String, String>;
}

/// Begins a path of no events.
pub type Draw = fn() -> Box<dyn Path>;

/// Graphs that are drawn at a time.
const DRAWINGS: usize = 4;

/// A format of drawings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GraphFormat {
    /// Scalable Vector Graphics.
    #[default]
    Svg,
    /// Graphviz.
    Dot,
    /// Mermaid.
    Mermaid,
}

/// The state that every request reaches.
pub struct App {
    pub(crate) tenants: Tenants,
    pub(crate) access: Access,
    pub(crate) draw: Option<Draw>,
    pub(crate) drawings: Semaphore,
    pub(crate) sessions: Sessions,
    pub(crate) is_tls: bool,
    /// The address at which the server listens.
    pub(crate) address: std::net::SocketAddr,
    pub(crate) mcp: mcp::Services,
    pub(crate) readiness: root::Readiness,
    /// Counts requests for webhooks of tenants that do not exist.
    pub(crate) unknown_hooks: DefaultDirectRateLimiter,
    /// Counts tokens whose refusal is logged.
    pub(crate) refusals: DefaultDirectRateLimiter,
    /// Room for large bodies of webhooks' requests.
    pub(crate) hook_room: hooks::HookRoom,
    /// Cancelled when the server begins to stop.
    pub(crate) stop: CancellationToken,
}

impl App {
    pub(crate) fn new(settings: &Settings, tenants: Tenants, stop: CancellationToken) -> std::io::Result<Self> {
        metrics::begin();
        if let Some(draw) = settings.draw {
            tenants.iter().for_each(|tenant| tenant.views.draw_with(draw));
        }
        Ok(Self {
            mcp: mcp::Services::new(&tenants, settings, &stop),
            tenants,
            access: settings.access.clone(),
            draw: settings.draw,
            drawings: Semaphore::new(DRAWINGS),
            sessions: Sessions::new()?,
            readiness: root::Readiness::default(),
            unknown_hooks: webhook_limiter(),
            refusals: refusal_limiter(),
            hook_room: hooks::HookRoom::default(),
            is_tls: settings.tls.is_some(),
            address: settings.address,
            stop,
        })
    }
}

/// Text of a request in a message: printable, and cut.
pub(crate) fn shown(text: &str) -> String {
    one_line(text, 100)
}

/// Everything that the server answers.
pub(crate) fn router(app: Arc<App>) -> Router {
    let tenant = Router::new()
        .route("/workflows", get(workflows::list))
        .route("/workflows/{workflow}", get(workflows::get))
        .route("/workflows/{workflow}/graph", get(workflows::graph))
        .route("/check", post(workflows::check))
        .route("/compile", post(workflows::compile))
        .route("/runs", get(runs::list).post(runs::start))
        .route("/runs/{run}", get(runs::get))
        .route("/runs/{run}/graph", get(runs::graph))
        .route("/runs/{run}/receipts", get(query::receipts))
        .route("/runs/{run}/denials", get(query::denials))
        .route("/runs/{run}/replay", post(runs::replay))
        .route("/runs/{run}/fork", post(runs::fork))
        .route("/runs/{run}/retry", post(runs::retry))
        .route("/runs/{run}/events", get(events::events))
        .route("/runs/{run}/export", get(export::export))
        .route("/runs/{run}/signal", post(send::signal))
        .route("/runs/{run}/message", post(send::message))
        .route("/runs/{run}/approve", post(send::approve))
        .route("/runs/{run}/answer", post(input::answer))
        .route("/runs/{run}/cancel", post(send::cancel))
        .route("/receipts", get(query::all_receipts))
        .route("/denials", get(query::all_denials))
        .route("/operations", get(operations::list))
        .route("/operations/{namespace}/{name}", get(operations::describe).post(operations::invoke))
        .route("/plugins", get(plugins::list))
        .route("/plugins/{plugin}", get(plugins::explain))
        .route("/plugins/{plugin}/diff", get(plugins::diff))
        .route("/reload", post(plugins::reload))
        .route("/servers", get(servers::list))
        .route("/triggers", get(triggers::list))
        .route("/hooks/{trigger}", post(hooks::hook))
        .route("/mcp", any(mcp::mcp))
        .layer(middleware::from_fn_with_state(app.clone(), threads::apart));
    let fixed = |name: HeaderName, value: &'static str| {
        SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value))
    };
    Router::new()
        .route("/health", get(root::health))
        .route("/ready", get(root::ready))
        .route("/metrics", get(root::metrics))
        .route("/openapi.json", get(root::openapi))
        .nest("/v1/{tenant}", tenant)
        .merge(page::router(&app))
        .fallback(no_such_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIME))
        .layer(middleware::from_fn_with_state(app.clone(), access::same_site))
        .layer(middleware::from_fn(page::for_browsers))
        .layer(middleware::from_fn_with_state(app.clone(), audit::audited))
        .layer(middleware::from_fn_with_state(app.clone(), metrics::counted))
        .layer(middleware::from_fn(body::small_first))
        .layer(fixed(header::X_CONTENT_TYPE_OPTIONS, "nosniff"))
        // With `no-referrer`, browsers say of our own forms that they come from nowhere.
        .layer(fixed(header::REFERRER_POLICY, "same-origin"))
        .layer(fixed(header::CACHE_CONTROL, "no-store"))
        .layer(fixed(
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
        ))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

/// Returns the routes of a process that serves no API.
pub(crate) fn probes(app: Arc<App>) -> Router {
    Router::new()
        .route("/health", get(root::health))
        .route("/ready", get(root::ready))
        .route("/metrics", get(root::metrics))
        .fallback(no_such_probe)
        .method_not_allowed_fallback(wrong_method)
        .layer(DefaultBodyLimit::max(MAX_BODY))
        .layer(TimeoutLayer::with_status_code(StatusCode::REQUEST_TIMEOUT, REQUEST_TIME))
        .layer(CatchPanicLayer::custom(panicked))
        .with_state(app)
}

/// The OpenAPI document, as it is committed and served.
#[must_use]
pub fn openapi_text() -> String {
    let mut text = Document::openapi().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
}

async fn no_such_path() -> Problem {
    Problem::not_found("unknown-path", "there is no such path").remedy("`/openapi.json` lists every path")
}

async fn no_such_probe() -> Problem {
    Problem::not_found("unknown-path", "there is no such path").remedy("there are `/health`, `/ready` and `/metrics`")
}

async fn wrong_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "wrong-method", "the path exists, but not with this method")
}

fn panicked(_: Box<dyn std::any::Any + Send>) -> Response {
    tracing::error!("a request panicked");
    let detail = "the server failed on this request; its log says where";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "panicked", detail).into_response()
}
