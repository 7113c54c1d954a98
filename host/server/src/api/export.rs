//! A run for other tools: all its events as lines of JSON, or its trace.

use super::body::{At, Params};
use crate::{
    access::{Admitted, Reading},
    export::{head, line},
    feed::PAGE,
    problem::Problem,
    telemetry,
};
use axum::{
    Json,
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell_journal::RunId;
use serde::Deserialize;
use std::{io, sync::atomic::Ordering};
use utoipa::IntoParams;

/// In which form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// Whether to give a trace as OTLP in JSON, without prompts, inputs and results, in place of the events.
    #[serde(default)]
    otlp: bool,
    /// W3C trace context to make the trace a part of.
    traceparent: Option<String>,
}

/// Exports a run as `opcell runs export` does: a line of JSON that says which run it is and how many events follow, then
/// a line for each event; with `otlp=true`, a trace for the path `/v1/traces` of an OpenTelemetry collector.
#[utoipa::path(get, path = "/v1/{tenant}/runs/{run}/export", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), ExportParams), responses(
    (status = 200, content((String = "application/x-ndjson"), (Object = "application/json"))),
    (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn export(
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    exported(&admitted, run.into(), params).await
}

/// What is exported of a run.
pub(crate) async fn exported(admitted: &Admitted, run: RunId, params: ExportParams) -> Result<Response, Problem> {
    let (tenant, engine) = (&admitted.tenant, admitted.tenant.host.engine());
    if params.otlp {
        let history = engine.history(&run).await?;
        return Ok(Json(telemetry::trace(&history, params.traceparent.as_deref())).into_response());
    }
    if params.traceparent.is_some() {
        let problem = Problem::bad_request("invalid-query", "`traceparent` belongs to a trace");
        return Err(problem.remedy("add `otlp=true`"));
    }
    let outcome = engine.state_at(&run, None).await?.outcome();
    // Whoever reads slowly takes a place of those who read events.
    let permit = tenant.readers.clone().try_acquire_owned().map_err(|_| {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        let detail = "as many readers of events are connected as the tenant may have";
        Problem { retry_after: Some(5), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-readers", detail) }
    })?;
    // A page at a time: a run may be larger than what the server wants to hold for a reader. What happens meanwhile is
    // not part of it.
    let first = head(&run, &outcome.workflow, outcome.status.as_str(), outcome.events) + "\n";
    let (engine, last) = (engine.clone(), outcome.events);
    let lines = futures_util::stream::unfold((Some(first), 0, permit), move |(first, after, permit)| {
        let (engine, run) = (engine.clone(), run.clone());
        async move {
            if let Some(first) = first {
                return Some((Ok(Bytes::from(first)), (None, after, permit)));
            }
            let wanted = PAGE.min(last.saturating_sub(after));
            if wanted == 0 {
                return None;
            }
            let page = match engine.events_after(&run, after, wanted).await {
                Ok(page) if page.is_empty() => Err(io::Error::other("events are missing")),
                Ok(page) => Ok(page),
                Err(error) => Err(io::Error::other(error)),
            };
            // The reader sees an answer that breaks off, and the number of events in its first line says so, too.
            let page = match page {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%run, %error, "a run could not be exported to its end");
                    return Some((Err(error), (None, last, permit)));
                }
            };
            let after = page.last().map_or(last, |recorded| recorded.seq);
            let text: String = page.iter().map(|recorded| line(recorded) + "\n").collect();
            Some((Ok(Bytes::from(text)), (None, after, permit)))
        }
    });
    let mut response = Body::from_stream(lines).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}
