//! The page: runs, one run, two runs beside each other, workflows, triggers, plugins, MCP servers. Rendered here,
//! readable without its script, and asks nothing of any other host. Everything that others chose is escaped by `maud`;
//! the content security policy allows no script but ours.

mod bulk;
mod compare;
mod door;
mod list;
mod refusal;
mod run;
mod search;
mod servers;
mod triggers;
mod workers;
mod workflows;

use crate::{api::App, tenant::Tenant, threads};
use axum::{
    Router,
    extract::DefaultBodyLimit,
    http::{HeaderMap, HeaderValue, header},
    middleware,
    response::{Html, IntoResponse, Response},
    routing::{get, post},
};
use maud::{DOCTYPE, Markup, html};
use opcell_types::{Value, text::printable};
use std::sync::Arc;
use tower_http::set_header::SetResponseHeaderLayer;

use door::Visitor;

pub(crate) use door::Sessions;
pub(crate) use refusal::for_browsers;

/// The policy of what pages may load: from this server only, and nothing inline.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The pages.
pub(crate) fn router(app: &Arc<App>) -> Router<Arc<App>> {
    let policy = HeaderValue::from_static(POLICY);
    let of_tenants = Router::new()
        .route("/t/{tenant}", get(list::runs))
        .route("/t/{tenant}/plugins", get(list::plugins))
        .route("/t/{tenant}/triggers", get(triggers::triggers))
        .route("/t/{tenant}/servers", get(servers::servers))
        .route("/t/{tenant}/workers", get(workers::workers))
        .route("/t/{tenant}/workflows", get(workflows::list))
        .route("/t/{tenant}/workflows/{workflow}", get(workflows::show))
        .route("/t/{tenant}/workflows/{workflow}/graph.svg", get(workflows::graph))
        .route("/t/{tenant}/workflows/{workflow}/start", post(workflows::start))
        .route("/t/{tenant}/select", get(bulk::select))
        .route("/t/{tenant}/selected/cancel", post(bulk::cancel))
        .route("/t/{tenant}/selected/delete", post(bulk::delete))
        .route("/t/{tenant}/compare", get(compare::compare))
        .route("/t/{tenant}/runs/{run}", get(run::show))
        .route("/t/{tenant}/runs/{run}/graph.svg", get(run::graph))
        .route("/t/{tenant}/runs/{run}/live", get(run::live))
        .route("/t/{tenant}/runs/{run}/events", get(run::history::list))
        .route("/t/{tenant}/runs/{run}/events/{seq}", get(run::history::event))
        .route("/t/{tenant}/runs/{run}/export", get(run::export))
        .route("/t/{tenant}/runs/{run}/answer", post(run::answer))
        .route("/t/{tenant}/runs/{run}/grant", post(run::grant))
        .route("/t/{tenant}/runs/{run}/call", post(run::call))
        .route("/t/{tenant}/runs/{run}/input", post(run::form::answer))
        .route("/t/{tenant}/runs/{run}/allow", post(run::allow))
        .route("/t/{tenant}/runs/{run}/retry", post(run::retry))
        .route("/t/{tenant}/runs/{run}/cancel", post(run::cancel))
        .route("/t/{tenant}/runs/{run}/fork", post(run::fork))
        .layer(middleware::from_fn_with_state(app.clone(), threads::apart));
    Router::new()
        .route("/", get(door::home))
        .route("/login", get(door::form).post(door::enter).layer(DefaultBodyLimit::max(door::MAX_LOGIN)))
        .route("/logout", post(door::leave))
        .merge(of_tenants)
        .route("/assets/page.css", get(css))
        .route("/assets/page.js", get(js))
        .route("/assets/icon.svg", get(icon))
        .layer(SetResponseHeaderLayer::if_not_present(header::CONTENT_SECURITY_POLICY, policy))
}

/// Returns `true` if the visitor of a page reaches a tenant.
pub(crate) fn reaches(app: &Arc<App>, headers: &HeaderMap, tenant: &str) -> bool {
    Visitor::of(app, headers).is_some_and(|visitor| visitor.reaches(tenant))
}

async fn css() -> impl IntoResponse {
    asset("text/css; charset=utf-8", include_str!("page/page.css"))
}

async fn js() -> impl IntoResponse {
    asset("text/javascript; charset=utf-8", include_str!("page/page.js"))
}

async fn icon() -> impl IntoResponse {
    asset("image/svg+xml", include_str!("page/icon.svg"))
}

fn asset(kind: &'static str, text: &'static str) -> impl IntoResponse {
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text)
}

/// A whole page for a visitor. `live`: where news come from that the script waits for.
fn page(title: &str, tenant: Option<&str>, visitor: &Visitor, live: Option<&str>, main: Markup) -> Response {
    whole(title, tenant, Some(visitor), News { live, ..News::default() }, main)
}

/// The way a page learns of news.
#[derive(Default)]
struct News<'a> {
    /// A stream of events.
    live: Option<&'a str>,
    /// Milliseconds after which it looks again.
    every: Option<u32>,
    /// `true` if it reloads without the script as well.
    reload: bool,
}

fn whole(title: &str, tenant: Option<&str>, visitor: Option<&Visitor>, news: News<'_>, main: Markup) -> Response {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · Opcell" }
                link rel="icon" type="image/svg+xml" href="/assets/icon.svg";
                link rel="stylesheet" href="/assets/page.css";
                script src="/assets/page.js" defer {}
                @if news.reload { noscript { meta http-equiv="refresh" content="1"; } }
            }
            body data-live=[news.live] data-every=[news.every] {
                a.skip href="#main" { "Skip to content" }
                header {
                    a.home href="/" { "Opcell" }
                    @if let Some(tenant) = tenant {
                        nav aria-label="Tenant" {
                            @if tenant != Tenant::DEFAULT || visitor.is_some_and(Visitor::reaches_several) { b { (tenant) } }
                            a href=(place(tenant, "")) { "Runs" }
                            a href=(place(tenant, "/workflows")) { "Workflows" }
                            a href=(place(tenant, "/triggers")) { "Triggers" }
                            a href=(place(tenant, "/workers")) { "Workers" }
                            a href=(place(tenant, "/plugins")) { "Plugins" }
                            a href=(place(tenant, "/servers")) { "MCP servers" }
                        }
                    }
                    @if let Some(name) = visitor.and_then(Visitor::name) {
                        form.leave method="post" action="/logout" { span.quiet { (name) } " " button.small { "Log out" } }
                    }
                }
                main id="main" { (main) }
            }
        }
    };
    // What steers a reader's eye, such as a text that runs backwards, is seen on the page as it is on a terminal.
    Html(printable(&markup.into_string(), usize::MAX)).into_response()
}

/// The address of a page of a tenant.
fn place(tenant: &str, rest: &str) -> String {
    format!("/t/{}{rest}", crate::api::encoded(tenant))
}

/// The address of a run's page.
fn run_place(tenant: &str, run: &str) -> String {
    place(tenant, &format!("/runs/{}", crate::api::encoded(run)))
}

/// A duration for people.
fn duration(ms: f64) -> String {
    match ms {
        ms if ms < 1.0 => format!("{:.0} µs", ms * 1000.0),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms if ms < 60_000.0 => format!("{:.1} s", ms / 1000.0),
        ms => format!("{:.0} min {:.0} s", (ms / 60_000.0).floor(), (ms % 60_000.0) / 1000.0),
    }
}

/// Longest text of one message or value on the page, in characters.
const TEXT: usize = 20_000;

/// Bytes of JSON up to which a value is shown with line breaks.
const TREE_BYTES: u64 = 1 << 20;

fn value(of: &Value) -> Markup {
    let bytes = of.measure().bytes();
    html! { pre tabindex="0" { @match of.as_str() {
        Some(text) => (cut(text)),
        // As a tree, which line breaks need, a value takes many times as much as its text.
        None if bytes > TREE_BYTES => { (of.json_prefix(TEXT)) "… (" (bytes) " bytes)" }
        None => (cut(&serde_json::to_string_pretty(&serde_json::Value::from(of)).unwrap_or_default())),
    } } }
}

/// Characters of a value beside others.
const BRIEF: usize = 2_000;

/// A value beside others: its beginning, and a link to all of it.
fn brief(of: &Value, whole: &str) -> Markup {
    let text = match of.as_str() {
        Some(text) => text.to_owned(),
        None if of.measure().bytes() <= BRIEF as u64 => {
            serde_json::to_string_pretty(&serde_json::Value::from(of)).unwrap_or_default()
        }
        // A character has four bytes at most.
        None => of.json_prefix((BRIEF + 1) * 4),
    };
    html! { @match text.char_indices().nth(BRIEF) {
        Some((end, _)) => { pre tabindex="0" { (text.get(..end).unwrap_or_default()) "…" } p { a href=(whole) { "All of it" } } }
        None => { pre tabindex="0" { (text) } }
    } }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => format!("{}… ({} bytes)", text.get(..at).unwrap_or_default(), text.len()),
        None => text.to_owned(),
    }
}

/// The time of day and the date without the fraction.
fn moment(text: &str) -> String {
    let text = text.replace('T', " ");
    text.split('.').next().unwrap_or(&text).trim_end_matches('Z').to_owned()
}
