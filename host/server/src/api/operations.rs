//! Operations and judges of the tenant's plugins: list, describe, invoke.

use super::{
    body::{At, Body},
    runs::idempotency_key,
    shown,
};
use crate::{
    access::{Reading, Running},
    problem::Problem,
};
use axum::{
    Json,
    http::{HeaderMap, StatusCode},
};
use opcell::reach::reach;
use opcell_types::Value;
use opcell_workflow::diagnostic::did_you_mean;
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
    operations: Vec<Json_>,
}

/// Lists operations and judges.
#[utoipa::path(get, path = "/v1/{tenant}/operations", tag = "operations", params(("tenant" = String, Path)), responses(
    (status = 200, body = OperationList), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<OperationList> {
    let host = admitted.tenant.host.now();
    let entries = host.catalog().entries();
    Json(OperationList { operations: entries.into_iter().map(|entry| json!(entry)).collect() })
}

/// Describes one operation or judge.
#[utoipa::path(get, path = "/v1/{tenant}/operations/{namespace}/{name}", tag = "operations",
    params(("tenant" = String, Path), ("namespace" = String, Path), ("name" = String, Path)), responses(
    (status = 200, body = Object), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
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

/// What a call returned.
#[derive(Debug, Serialize, ToSchema)]
pub struct Invoked {
    /// `data`, and perhaps `summary` and `details`.
    success: Json_,
    /// What the cell used and touched.
    receipt: Option<Json_>,
}

/// Calls an operation outside of any run. A failure is a problem with the receipt.
#[utoipa::path(post, path = "/v1/{tenant}/operations/{namespace}/{name}", tag = "operations",
    params(("tenant" = String, Path), ("namespace" = String, Path), ("name" = String, Path),
        ("Idempotency-Key" = Option<String>, Header, description = "Passed to the operation")),
    request_body = InvokeBody, responses(
    (status = 200, body = Invoked), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
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
    let reply = call.await;
    let counters = &tenant.counters;
    counters.invocations.fetch_add(1, Ordering::Relaxed);
    let took = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
    counters.invocation_us.fetch_add(took, Ordering::Relaxed);
    let receipt = reply.receipt.as_ref().map(|receipt| json!(receipt));
    match reply.result {
        Ok(success) => Ok(Json(Invoked { success: json!(success), receipt })),
        Err(failure) => {
            counters.failed_invocations.fetch_add(1, Ordering::Relaxed);
            Err(Problem::of_failure(&failure, receipt))
        }
    }
}

/// The plugins of a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PluginList {
    /// `name` and `digest`.
    plugins: Vec<Json_>,
    /// Those that were left out, and why.
    left_out: Vec<Json_>,
}

/// Lists the plugins that are loaded, and those that were left out.
#[utoipa::path(get, path = "/v1/{tenant}/plugins", tag = "operations", params(("tenant" = String, Path)), responses(
    (status = 200, body = PluginList), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn plugins(Reading(admitted): Reading) -> Json<PluginList> {
    let host = admitted.tenant.host.now();
    let plugins = host.catalog().plugins().map(|plugin| json!({"name": plugin.name(), "digest": plugin.digest()}));
    let left_out = host
        .left_out()
        .iter()
        .map(|left_out| json!({"name": left_out.plugin, "findings": left_out.to_rejected().to_json()}));
    Json(PluginList { plugins: plugins.collect(), left_out: left_out.collect() })
}

/// What a plugin may reach and use.
#[derive(Debug, Serialize, ToSchema)]
pub struct PluginDetail {
    /// Its name in the project.
    plugin: String,
    /// The version that its manifest names.
    version: Option<String>,
    /// Digest of the component.
    digest: String,
    /// What it requests or is granted, each with `allowed`, its reason, and the command that would grant it.
    capabilities: Vec<Json_>,
    /// Its limits for each cell, each with the setting that decides.
    limits: Vec<Json_>,
    /// What it offers: `id`, `summary`, `kind`, schemas and effects.
    operations: Vec<Json_>,
}

/// Explains a plugin: what it may reach, what it is denied, what would grant it, and its limits.
#[utoipa::path(get, path = "/v1/{tenant}/plugins/{plugin}", tag = "operations",
    params(("tenant" = String, Path), ("plugin" = String, Path)), responses(
    (status = 200, body = PluginDetail), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn plugin(
    Reading(admitted): Reading,
    At((_, name)): At<(String, String)>,
) -> Result<Json<PluginDetail>, Problem> {
    let host = admitted.tenant.host.now();
    let catalog = host.catalog();
    let Some(plugin) = catalog.plugins().find(|plugin| plugin.name() == name) else {
        let problem = Problem::not_found("unknown-plugin", format!("the host has no plugin `{}`", shown(&name)));
        return Err(match did_you_mean(&name, catalog.plugins().map(|plugin| plugin.name())) {
            Some(meant) => problem.remedy(format!("did you mean `{meant}`?")),
            None => problem,
        });
    };
    let entries = catalog.entries();
    let own = entries.into_iter().filter(|entry| *entry.plugin == *plugin.name());
    Ok(Json(PluginDetail {
        plugin: plugin.name().to_owned(),
        version: plugin.version().map(str::to_owned),
        digest: plugin.digest().to_string(),
        capabilities: reach(plugin.manifest(), plugin.policy()).iter().map(|reach| json!(reach)).collect(),
        limits: plugin.limits_explained().iter().map(|limit| json!(limit)).collect(),
        operations: own.map(|entry| json!(entry)).collect(),
    }))
}
