//! A run for other tools: all its events as lines of JSON, or its trace.

use super::body::{At, Params};
use crate::{
    access::{Admitted, Reading},
    export::{head, line},
    feed::PAGE,
    problem::Problem,
    spans::{Span, Spans},
    telemetry,
    tenant::Tenant,
};
use axum::{
    body::{Body, Bytes},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell_engine::{
    RunError,
    event::{Recorded, Timestamp},
};
use opcell_journal::RunId;
use serde::Deserialize;
use std::{
    io,
    sync::{Arc, atomic::Ordering},
};
use utoipa::IntoParams;

/// Bytes of JSON after which a piece of an export is sent.
const MAX_PIECE_BYTES: usize = 1 << 20;

/// In which form.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct ExportParams {
    /// `true` to give a trace as OTLP in JSON, without prompts, inputs and results, in place of the events.
    #[serde(default)]
    otlp: bool,
    /// W3C trace context to make the trace a part of.
    traceparent: Option<String>,
}

/// Exports a run as `opcell runs export` does: a line of JSON that says which run it is and how many events follow,
/// then a line for each event; with `otlp=true`, a trace for the path `/v1/traces` of an OpenTelemetry collector.
#[utoipa::path(get, operation_id = "export_run", path = "/v1/{tenant}/runs/{run}/export", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), ExportParams), responses(
    (status = 200, description = "The events of the run, or its trace",
        content((String = "application/x-ndjson"), (Object = "application/json"))),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn export(
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    exported(&admitted, run.into(), params).await
}

/// Returns the export of a run.
pub(crate) async fn exported(admitted: &Admitted, run: RunId, params: ExportParams) -> Result<Response, Problem> {
    let (tenant, engine) = (&admitted.tenant, admitted.tenant.host.engine());
    if params.otlp {
        return trace(tenant, run, params.traceparent.as_deref()).await;
    }
    if params.traceparent.is_some() {
        let problem = Problem::bad_request("invalid-query", "`traceparent` belongs to a trace");
        return Err(problem.remedy("add `otlp=true`"));
    }
    let (workflow, status, events) = {
        let view = tenant.views.of(&run).await?;
        let outcome = view.state().outcome();
        (outcome.workflow, outcome.status, outcome.events)
    };
    // Whoever reads slowly takes a place of those who read events.
    let permit = tenant.readers.clone().try_acquire_owned().map_err(|_| too_many_readers(tenant))?;
    // A page at a time: a run may be larger than what the server wants to hold for a reader. What happens meanwhile is
    // not part of it.
    let first = head(&run, &workflow, status.as_str(), events) + "\n";
    let (engine, last) = (engine.clone(), events);
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
            let mut text = String::new();
            let mut written = after;
            // As many as fit: one event may say megabytes.
            for recorded in &page {
                text += &line(recorded);
                text.push('\n');
                written = recorded.seq;
                if text.len() >= MAX_PIECE_BYTES {
                    break;
                }
            }
            Some((Ok(Bytes::from(text)), (None, written, permit)))
        }
    });
    let mut response = Body::from_stream(lines).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    Ok(response)
}

fn too_many_readers(tenant: &Tenant) -> Problem {
    tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
    let detail = "as many readers of events are connected as the tenant may have";
    Problem { retry_after: Some(5), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-readers", detail) }
}

/// Spans that are written at once, with the receipts of their calls.
const SPANS: usize = 500;

/// The trace of a run as one document, a piece at a time.
async fn trace(tenant: &Arc<Tenant>, run: RunId, traceparent: Option<&str>) -> Result<Response, Problem> {
    let permits = tenant.readers.clone().try_acquire_owned().ok().zip(tenant.views.trace());
    let permits = permits.ok_or_else(|| too_many_readers(tenant))?;
    let pieces = pieces(tenant, &run, traceparent).await?;
    let texts = futures_util::stream::unfold(Some((pieces, permits, true)), |state| async move {
        let (mut pieces, permits, is_first) = state?;
        match pieces.spans().await {
            Ok(Some(spans)) => {
                let text = if is_first { trace_head() + &spans } else { format!(",{spans}") };
                Some((Ok(Bytes::from(text)), Some((pieces, permits, false))))
            }
            Ok(None) => Some((Ok(Bytes::from_static(TAIL.as_bytes())), None)),
            Err(error) => {
                tracing::warn!(run = %pieces.run, %error, "a trace could not be exported to its end");
                Some((Err(io::Error::other(error)), None))
            }
        }
    });
    let mut response = Body::from_stream(texts).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

fn trace_head() -> String {
    let (resource, scope) = (telemetry::resource(), telemetry::scope());
    format!(r#"{{"resourceSpans":[{{"resource":{resource},"scopeSpans":[{{"scope":{scope},"spans":["#)
}

const TAIL: &str = "]}]}]}";

/// The spans of a run and how they are named, without the receipts of their calls.
pub(crate) struct Pieces {
    tenant: Arc<Tenant>,
    run: RunId,
    spans: Vec<Span>,
    names: telemetry::Trace,
    at: usize,
}

/// The trace of a run as it is now.
///
/// # Errors
/// When the run cannot be read.
pub(crate) async fn pieces(tenant: &Arc<Tenant>, run: &RunId, traceparent: Option<&str>) -> Result<Pieces, Problem> {
    let view = tenant.views.of(run).await?;
    if view.is_cut() {
        return Err(too_large(run));
    }
    let now = view.last().map_or(Timestamp(0), |last| last.at);
    let own = view.state().traceparent().cloned();
    let names = telemetry::Trace::new(run, traceparent.or(own.as_deref()), now);
    Ok(Pieces { tenant: tenant.clone(), run: run.clone(), spans: view.spans().to_vec(), names, at: 0 })
}

/// The same, with the content of conversations, for which all events of the run are read once more.
///
/// # Errors
/// As [`pieces`].
pub(crate) async fn pieces_with_content(tenant: &Arc<Tenant>, run: &RunId) -> Result<Pieces, Problem> {
    let mut pieces = pieces(tenant, run, None).await?;
    let (mut spans, mut read) = (Spans::capturing(), 0);
    loop {
        let page = tenant.host.engine().events_after(run, read, PAGE).await.map_err(Problem::from)?;
        let Some(last) = page.last() else { break };
        read = last.seq;
        page.iter().flat_map(Recorded::parts).for_each(|part| spans.observe(&part));
    }
    if spans.is_cut() {
        return Err(too_large(run));
    }
    pieces.spans = spans.all().to_vec();
    Ok(pieces)
}

fn too_large(run: &RunId) -> Problem {
    let detail = format!("run `{run}` has more spans than the server keeps of one");
    let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "trace-too-large", detail);
    problem.remedy(format!("export it with the command: opcell runs export {run} --otlp"))
}

impl Pieces {
    /// The next spans as elements of an array; `None` after the last ones.
    ///
    /// # Errors
    /// The journal's.
    async fn spans(&mut self) -> Result<Option<String>, RunError> {
        let range = self.at..(self.at + SPANS).min(self.spans.len());
        if range.is_empty() {
            return Ok(None);
        }
        self.at = range.end;
        let wanted = self.spans.get(range.clone()).unwrap_or_default().iter().filter_map(|span| span.receipt_at);
        let receipts = self.tenant.views.events(&self.run, wanted.collect()).await?;
        let written = range.filter_map(|at| {
            let span = self.spans.get(at)?;
            let brought = span.receipt_at.and_then(|seq| receipts.get(&seq));
            let receipt = brought.and_then(|brought| brought.event.receipt());
            let span = Span { receipt: receipt.map(|receipt| (**receipt).clone()), ..span.clone() };
            Some(self.names.span(&span, &self.spans).to_string())
        });
        Ok(Some(written.collect::<Vec<_>>().join(",")))
    }

    /// The next spans as a document of their own; `None` after the last ones.
    ///
    /// # Errors
    /// The journal's.
    pub(crate) async fn next(&mut self) -> Result<Option<String>, RunError> {
        Ok(self.spans().await?.map(|spans| trace_head() + &spans + TAIL))
    }
}
