//! Bodies, queries and paths whose mistakes are problems.

use crate::problem::Problem;
use axum::{
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, FromRequestParts, Path, Query, Request},
    http::{HeaderMap, StatusCode, header, request::Parts},
};
use opcell_types::value::{rounded_integer, rounded_message};
use serde::de::DeserializeOwned;

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
        query
            .map(|Query(query)| Self(query))
            .map_err(|rejection| Problem::bad_request("invalid-query", super::shown(&rejection.body_text())))
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
