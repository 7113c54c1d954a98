//! Operations and judges of the tenant's plugins: list, describe, invoke.

use super::{
    body::{At, Body},
    runs::idempotency_key,
    shapes::{CallReceipt, OperationItem},
};
use crate::{
    access::{Reading, Running},
    problem::Problem,
};
use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use opcell::{CallError, CallOutput, Success};
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json};
use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};
use utoipa::ToSchema;

/// Longest time that a caller may give a call, in milliseconds.
const MAX_TIME_MS: u64 = 55_000;

/// Everything that the tenant's plugins offer.
#[derive(Debug, Serialize, ToSchema)]
pub struct OperationList {
    /// `id`, `plugin`, `summary`, `kind`, schemas and effects.
    #[schema(value_type = Vec<OperationItem>)]
    operations: Vec<Json_>,
}

/// Lists operations and judges.
#[utoipa::path(get, operation_id = "list_operations", path = "/v1/{tenant}/operations", tag = "operations",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The operations", body = OperationList),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<OperationList> {
    let host = admitted.tenant.host.now();
    let entries = host.catalog().entries();
    Json(OperationList { operations: entries.into_iter().map(|entry| json!(entry)).collect() })
}

/// Describes one operation or judge.
#[utoipa::path(get, operation_id = "get_operation", path = "/v1/{tenant}/operations/{namespace}/{name}",
    tag = "operations",
    params(("tenant" = String, Path), ("namespace" = String, Path), ("name" = String, Path)), responses(
    (status = 200, description = "The operation", body = OperationItem),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn describe(
    Reading(admitted): Reading,
    At((_, namespace, name)): At<(String, String, String)>,
) -> Result<Json<Json_>, Problem> {
    Ok(Json(json!(admitted.tenant.host.now().catalog().find(&format!("{namespace}/{name}"))?)))
}

/// A call.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct InvokeBody {
    /// An object; `{}` by default.
    #[schema(value_type = Option<Object>)]
    arguments: Option<Value>,
    /// Wall time in milliseconds, waiting for a free cell included; the plugin's own limit holds as well.
    #[schema(minimum = 1, maximum = 55000)]
    timeout_ms: Option<u64>,
}

/// The result of a call.
#[derive(Debug, Serialize, ToSchema)]
pub struct Invoked {
    /// `data`, and perhaps `summary` and `details`.
    success: Json_,
    /// The receipt of the cell.
    #[schema(value_type = Option<CallReceipt>)]
    receipt: Option<Json_>,
}

/// Calls an operation outside of any run. A failure is a problem with the receipt.
#[utoipa::path(post, operation_id = "invoke_operation", path = "/v1/{tenant}/operations/{namespace}/{name}",
    tag = "operations",
    params(("tenant" = String, Path), ("namespace" = String, Path), ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Passed to the operation")),
    request_body = InvokeBody, responses(
    (status = 200, description = "What the call returned", body = Invoked),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn invoke(
    Running(admitted): Running,
    At((_, namespace, name)): At<(String, String, String)>,
    headers: HeaderMap,
    Body(body): Body<InvokeBody>,
) -> Result<Json<Invoked>, Problem> {
    let (tenant, id) = (&admitted.tenant, format!("{namespace}/{name}"));
    let host = tenant.host.now();
    host.catalog().find(&id)?;
    let time = body.timeout_ms.unwrap_or(MAX_TIME_MS);
    if time == 0 || time > MAX_TIME_MS {
        return Err(Problem::bad_request("invalid-timeout", format!("`timeout-ms` must be from 1 to {MAX_TIME_MS}")));
    }
    let arguments = body.arguments.unwrap_or_else(|| Value::object::<&str>([]));
    if arguments.as_object().is_none() {
        return Err(Problem::bad_request("invalid-arguments", "`arguments` must be an object"));
    }
    let _permit = tenant.calls.try_acquire().map_err(|_| {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        let detail = "as many calls are under way as the tenant may have at a time";
        Problem { retry_after: Some(1), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-calls", detail) }
    })?;
    let mut call = host.invoke(&id, arguments).timeout(Duration::from_millis(time));
    if let Some(key) = idempotency_key(&headers)? {
        call = call.idempotency_key(key);
    }
    let began = Instant::now();
    let called = call.await;
    let counters = &tenant.counters;
    counters.invocations.fetch_add(1, Ordering::Relaxed);
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    counters.invocation_us.fetch_add(took, Ordering::Relaxed);
    let receipt = called.as_ref().map_or_else(CallError::receipt, CallOutput::receipt);
    let receipt = receipt.map(|receipt| json!(receipt));
    match called {
        Ok(CallOutput { data, summary, details, .. }) => {
            Ok(Json(Invoked { success: json!(Success { data, summary, details }), receipt }))
        }
        Err(error) => {
            counters.failed_invocations.fetch_add(1, Ordering::Relaxed);
            Err(Problem::of_failure(&error.failure, receipt))
        }
    }
}
