//! Requests by route and status. Routes are the server's own, so that callers cannot make labels.

use super::meter::Histogram;
use crate::api::App;
use axum::{
    extract::{MatchedPath, Request, State},
    http::Method,
    middleware::Next,
    response::Response,
};
use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// The requests of one tenant by method and route.
#[derive(Default)]
pub(crate) struct HttpCounters(Mutex<BTreeMap<(&'static str, Arc<str>), Requests>>);

#[derive(Default)]
struct Requests {
    took: Histogram,
    by_status: BTreeMap<u16, u64>,
}

/// Counts a request of a tenant once its answer begins: a stream of events is not as slow as the run that it follows.
pub(crate) async fn counted(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let method = known(request.method());
    let route: Option<Arc<str>> = request.extensions().get::<MatchedPath>().map(|path| path.as_str().into());
    let tenant = request.uri().path().strip_prefix("/v1/").and_then(|path| app.tenants.get(path.split('/').next()?));
    let tenant = tenant.cloned();
    let began = Instant::now();
    let response = next.run(request).await;
    if let (Some(tenant), Some(route)) = (tenant, route) {
        let mut counters = tenant.counters.http.0.lock().unwrap_or_else(PoisonError::into_inner);
        let requests = counters.entry((method, route)).or_default();
        requests.took.observe(began.elapsed());
        *requests.by_status.entry(response.status().as_u16()).or_default() += 1;
    }
    response
}

/// The method as a label: those that routes have, and one for the rest.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => super::OTHER,
    }
}

/// Adds the families of some tenants, each with its label.
pub(super) fn write(out: &mut String, tenants: &[(String, &HttpCounters)]) {
    out.push_str(
        "# HELP opcell_http_requests_total Requests of the API by route and status.\n\
         # TYPE opcell_http_requests_total counter\n",
    );
    for (label, counters) in tenants {
        for ((method, route), requests) in &*counters.0.lock().unwrap_or_else(PoisonError::into_inner) {
            for (status, n) in &requests.by_status {
                let labels = format!("{label},method=\"{method}\",route=\"{route}\",status=\"{status}\"");
                let _ = writeln!(out, "opcell_http_requests_total{{{labels}}} {n}");
            }
        }
    }
    out.push_str(
        "# HELP opcell_http_request_seconds Time until the answer to a request began.\n\
         # TYPE opcell_http_request_seconds histogram\n",
    );
    for (label, counters) in tenants {
        for ((method, route), requests) in &*counters.0.lock().unwrap_or_else(PoisonError::into_inner) {
            let labels = format!("{label},method=\"{method}\",route=\"{route}\"");
            requests.took.write(out, "http_request_seconds", &labels);
        }
    }
}
