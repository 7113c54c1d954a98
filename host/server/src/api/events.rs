//! A run's events: a page of them, or all of them as they happen.

use super::{
    App,
    body::{At, Params},
    shapes::RunEvent,
};
use crate::{
    access::{Reading, Standing, tokens::Scope},
    answers::{AnswerReader, PieceKinds},
    feed::{self, PAGE},
    problem::Problem,
    tenant::Tenant,
};
use axum::{
    Json,
    body::{Body, Bytes},
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell_journal::RunId;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json, value::RawValue};
use std::{
    convert::Infallible,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio_util::sync::CancellationToken;
use utoipa::{IntoParams, ToSchema};

/// The interval at which a stream without news sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The selection of events.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventParams {
    /// Only events after this one.
    after: Option<u64>,
    /// At most this many in one page; 256 by default and at most. A page ends after 4 MiB as well. Streams have no
    /// limit.
    #[param(minimum = 1, maximum = 256)]
    limit: Option<u64>,
    /// Of a stream, the pieces of models' answers that it has while they come, each an event `piece` without an ID:
    /// `text` for text, tool calls and the progress of calls, `all` for reasoning as well. They are a preview, of runs that
    /// this server drives, up to 256 KiB of a round; the event `replied` has the answer.
    #[serde(default)]
    #[param(inline)]
    pieces: PieceKinds,
}

/// A page of events.
#[derive(Debug, Serialize, ToSchema)]
pub struct EventPage {
    /// `seq`, `at`, `kind`, and the event as the journal keeps it.
    #[schema(value_type = Vec<RunEvent>)]
    events: Vec<Json_>,
    /// `after` of the next page, if this one is full.
    next: Option<u64>,
}

/// Gives a run's events: with `Accept: text/event-stream` as server-sent events while they happen, until the run has
/// ended; otherwise one page of JSON. The ID of each server-sent event is its number, and `Last-Event-ID` resumes after
/// it.
#[utoipa::path(get, operation_id = "list_events", path = "/v1/{tenant}/runs/{run}/events", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), EventParams,
        ("Last-Event-ID" = Option<u64>, Header, description = "As `after`")), responses(
    (status = 200, description = "A page of events, or a stream of them",
        content((EventPage = "application/json"), (String = "text/event-stream"))),
    (status = 204, description = "A stream after the last event of a run that has ended"),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn events(
    State(app): State<Arc<App>>,
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<EventParams>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let run: RunId = run.into();
    let wants_stream = headers
        .get_all(header::ACCEPT)
        .iter()
        .any(|accept| accept.to_str().is_ok_and(|accept| accept.contains("text/event-stream")));
    let last = headers.get("last-event-id").map(|id| {
        let number = id.to_str().ok().and_then(|id| id.parse::<u64>().ok());
        number.ok_or_else(|| Problem::bad_request("invalid-last-event-id", "`Last-Event-ID` must be a whole number"))
    });
    let after = last.transpose()?.or(params.after).unwrap_or(0);
    if i64::try_from(after).is_err() {
        return Err(Problem::bad_request("unknown-event", format!("there is no event {after}")));
    }
    if wants_stream {
        let standing = Standing::new(&app, &headers, &admitted.tenant, Scope::Read);
        return stream(&admitted.tenant, run, after, params.pieces, app.stop.clone(), standing).await;
    }
    let limit = params.limit.unwrap_or(PAGE);
    if limit == 0 || limit > PAGE {
        return Err(Problem::bad_request("invalid-query", format!("`limit` must be from 1 to {PAGE}")));
    }
    let (frames, cut) = feed::page(admitted.tenant.host.engine(), &run, after, limit).await?;
    let is_full = cut || frames.len() as u64 == limit;
    let next = frames.last().filter(|last| is_full && !last.is_last).map(|last| last.seq);
    let events: Vec<&RawValue> = frames.iter().filter_map(|frame| serde_json::from_str(&frame.json).ok()).collect();
    Ok(Json(json!({"events": events, "next": next})).into_response())
}

/// The next pieces of answers; waits forever where none are asked for.
async fn next_piece(answers: &mut Option<AnswerReader>) -> Bytes {
    match answers {
        Some(answers) => answers.next().await,
        None => std::future::pending().await,
    }
}

/// Streams a run's events.
pub(crate) async fn stream(
    tenant: &Arc<Tenant>,
    run: RunId,
    after: u64,
    pieces: PieceKinds,
    stop: CancellationToken,
    standing: Standing,
) -> Result<Response, Problem> {
    let engine = tenant.host.engine();
    // Whether the run exists, and whether anything can follow the event that the reader has seen last.
    let seen = engine.events_after(&run, after.saturating_sub(1), 1).await?;
    let is_over = match seen.first() {
        None if after > 0 => {
            let detail = format!("run `{run}` has no event {after}");
            return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "unknown-event", detail));
        }
        Some(last) if after > 0 => last.event.kind() == "run-finished",
        _ => false,
    };
    // The way of the HTML standard to tell an `EventSource` that there is no more: otherwise it keeps reconnecting.
    if is_over {
        return Ok(StatusCode::NO_CONTENT.into_response());
    }
    let permit = tenant.readers.clone().try_acquire_owned().map_err(|_| {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        let detail = "as many readers of events are connected as the tenant may have";
        Problem { retry_after: Some(5), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-readers", detail) }
    })?;
    let answers = tenant.answers.reader(&run, pieces);
    let reader = Some((tenant.feeds.reader(run, after), answers));
    let frames = futures_util::stream::unfold((reader, permit, stop), |(reader, permit, stop)| async move {
        let (mut reader, mut answers) = reader?;
        let text = tokio::select! {
            () = stop.cancelled() => return None,
            next = next_piece(&mut answers) => next,
            next = reader.next() => match next {
                Ok(Some(text)) => text,
                Ok(None) => return None,
                Err(problem) => {
                    let text = format!("event: problem\ndata: {}\n\n", json!(problem));
                    return Some((Ok::<_, Infallible>(Bytes::from(text)), (None, permit, stop)));
                }
            },
            () = tokio::time::sleep(KEEP_ALIVE) => Bytes::from_static(b":\n\n"),
        };
        Some((Ok(text), (Some((reader, answers)), permit, stop)))
    });
    let mut response = standing.guard(Body::from_stream(frames)).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    Ok(response)
}
