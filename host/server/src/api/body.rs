//! Bodies, queries and paths whose mistakes are problems.

use crate::problem::Problem;
use axum::{
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, Version, header, request::Parts},
    middleware::Next,
    response::{IntoResponse, Response},
};
use opcell_types::{
    suggest::reader_message,
    text::one_line,
    value::{rounded_integer, rounded_message},
};
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Bytes of the reason for which a query is refused: it lists what is allowed.
const MAX_REJECTION: usize = 500;

/// A JSON body. `application/json` is required, which no form of another site can send.
pub(crate) struct Body<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Body<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        if !is_json(request.headers()) {
            let problem =
                Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-media-type", "the body must be JSON");
            return Err(problem.remedy("send `Content-Type: application/json`"));
        }
        let too_large = || {
            let detail = format!("the body has more than {} bytes", super::MAX_BODY);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
        };
        // Nothing is read of what would be refused.
        if request.body().size_hint().lower() > super::MAX_BODY as u64 {
            return Err(too_large());
        }
        let bytes = Bytes::from_request(request, state).await.map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => too_large(),
            _ => Problem::bad_request("body-unreadable", "the body could not be read to its end"),
        })?;
        if let Some(place) = rounded_integer(&bytes) {
            let digits = String::from_utf8_lossy(bytes.get(place).unwrap_or_default());
            return Err(Problem::bad_request("invalid-body", rounded_message(&digits)));
        }
        opcell_schema::json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| Problem::bad_request("invalid-body", format!("the body is not what is expected: {error}")))
    }
}

/// A JSON body that may be left out: nothing at all is as good as `{}`.
pub(crate) struct MayBody<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Default> FromRequest<S> for MayBody<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        // A form of another site has a type, and so has a body without one that is not empty.
        if request.body().is_end_stream() && !request.headers().contains_key(header::CONTENT_TYPE) {
            return Ok(Self(T::default()));
        }
        Body::from_request(request, state).await.map(|Body(body)| Self(body))
    }
}

/// Bytes of a body that is read before the request is looked at.
const SMALL: u64 = 16 << 10;

/// Time that a small body may take.
const SMALL_TIME: Duration = Duration::from_secs(10);

/// Reads a small body of HTTP/2 before anything else. A refusal that comes before the body resets the stream, which is
/// legal, and clients such as curl 7.88 show that reset and not the refusal.
pub(crate) async fn small_first(request: Request, next: Next) -> Response {
    let size = request.body().size_hint().exact();
    if request.version() != Version::HTTP_2 || !size.is_some_and(|size| (1..=SMALL).contains(&size)) {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    match tokio::time::timeout(SMALL_TIME, axum::body::to_bytes(body, SMALL as usize)).await {
        Ok(Ok(read)) => next.run(Request::from_parts(parts, read.into())).await,
        Ok(Err(_)) => Problem::bad_request("body-unreadable", "the body could not be read to its end").into_response(),
        Err(_) => {
            let detail = format!("the body did not come within {} s", SMALL_TIME.as_secs());
            Problem::new(StatusCode::REQUEST_TIMEOUT, "body-unreadable", detail).into_response()
        }
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
}

/// The query, whose unknown keys are mistakes.
pub(crate) struct Params<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Params<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        query.map(|Query(query)| Self(query)).map_err(|rejection| {
            let problem = reader_message(&rejection.body_text());
            let problem = problem.strip_prefix("Failed to deserialize query string: ").unwrap_or(&problem);
            Problem::bad_request("invalid-query", one_line(problem, MAX_REJECTION))
        })
    }
}

/// Parts of the path.
pub(crate) struct At<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned + Send> FromRequestParts<S> for At<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<T>::from_request_parts(parts, state).await;
        path.map(|Path(path)| Self(path))
            .map_err(|rejection| Problem::bad_request("invalid-path", super::shown(&rejection.body_text())))
    }
}
