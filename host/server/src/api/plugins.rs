//! The tenant's plugins: list, explain, compare with what the project names now, exchange.

use super::{
    body::At,
    shapes::{LeftOutPlugin, LoadedPlugin, OperationItem, PluginItem, RefusedPlugin},
    shown,
};
use crate::{
    access::{Administering, Admitted, Reading},
    problem::Problem,
    tenant::Tenant,
};
use axum::{Json, http::StatusCode};
use opcell::{Comparison, Config, Exchange, Host, Rejected, reach::reach};
use opcell_ir::diagnostic::did_you_mean;
use serde::Serialize;
use serde_json::{Value as Json_, json};
use utoipa::ToSchema;

/// The plugins of a tenant.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PluginList {
    /// `name` and `digest`.
    #[schema(value_type = Vec<PluginItem>)]
    plugins: Vec<Json_>,
    /// Those that were left out, and why.
    #[schema(value_type = Vec<LeftOutPlugin>)]
    left_out: Vec<Json_>,
}

/// Lists the loaded plugins, and those that could not be loaded.
#[utoipa::path(get, operation_id = "list_plugins", path = "/v1/{tenant}/plugins", tag = "plugins",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The plugins", body = PluginList),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<PluginList> {
    let host = admitted.tenant.host.now();
    let plugins = host.catalog().plugins().map(|plugin| json!({"name": plugin.name(), "digest": plugin.digest()}));
    let left_out = host
        .left_out()
        .iter()
        .map(|left_out| json!({"name": left_out.plugin, "findings": left_out.to_rejected().to_json()}));
    Json(PluginList { plugins: plugins.collect(), left_out: left_out.collect() })
}

/// The requests, grants and operations of a plugin.
#[derive(Debug, Serialize, ToSchema)]
pub struct PluginDetail {
    /// Its name in the project.
    plugin: String,
    /// The version that its manifest names.
    version: Option<String>,
    /// Digest of the component.
    digest: String,
    /// The capabilities that it requests or is granted, each with `allowed`, its reason, and the command that would
    /// grant it.
    capabilities: Vec<Json_>,
    /// Its limits for each cell, each with the setting that decides.
    limits: Vec<Json_>,
    /// The operations that it offers: `id`, `summary`, `kind`, schemas and effects.
    #[schema(value_type = Vec<OperationItem>)]
    operations: Vec<Json_>,
}

/// Explains a plugin: its grants, its requests without a grant, the command for each, and its limits.
#[utoipa::path(get, operation_id = "get_plugin", path = "/v1/{tenant}/plugins/{plugin}", tag = "plugins",
    params(("tenant" = String, Path), ("plugin" = String, Path)), responses(
    (status = 200, description = "The plugin", body = PluginDetail),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn explain(
    Reading(admitted): Reading,
    At((_, name)): At<(String, String)>,
) -> Result<Json<PluginDetail>, Problem> {
    let host = admitted.tenant.host.now();
    let catalog = host.catalog();
    let Some(plugin) = catalog.plugins().find(|plugin| plugin.name() == name) else {
        return Err(unknown(&host, &name));
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

fn unknown(host: &Host, name: &str) -> Problem {
    let problem = Problem::not_found("unknown-plugin", format!("the host has no plugin `{}`", shown(name)));
    match did_you_mean(name, host.catalog().plugins().map(|plugin| plugin.name())) {
        Some(meant) => problem.remedy(format!("did you mean `{meant}`?")),
        None => problem,
    }
}

/// The project as it is now, read as at the start of the server.
async fn project(tenant: &Tenant) -> Result<Config, Problem> {
    let Some(project) = tenant.project.clone() else {
        let detail = "this server reads its project at its start only";
        return Err(Problem::new(StatusCode::CONFLICT, "restart-needed", detail).remedy("restart the server"));
    };
    let read = tokio::task::spawn_blocking(move || project.read()).await;
    let read = read.unwrap_or_else(|_| Err(Rejected::plain(abandoned())));
    read.map_err(|rejected| Problem { status: 409, ..rejected.into() })
}

fn abandoned() -> opcell::Diagnostic {
    opcell::Diagnostic::error("project-file-unreadable", "reading the project was abandoned".to_owned())
}

/// The differences of a version of a plugin from the one that is loaded.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct PluginDiff {
    /// Its name in the project.
    plugin: String,
    /// Digest of the component that is loaded; null: it was left out.
    loaded: Option<String>,
    /// Digest of the component that the project names now.
    found: String,
    /// `true` if the project names another component than the one that is loaded.
    changed: bool,
    /// `true` if it requests what the loaded one does not. A reload grants nothing of it.
    asks_for_more: bool,
    /// Each with `change`: `asks`, `widens`, `drops` or `reason` with the `capability`, `version` (`older` for a
    /// downgrade) or `text` with `before` and `now`, or `surface` with `what` has changed.
    differences: Vec<Json_>,
}

/// Compares a plugin as the project names it now with the one that is loaded, without running it.
#[utoipa::path(get, operation_id = "diff_plugin", path = "/v1/{tenant}/plugins/{plugin}/diff", tag = "plugins",
    params(("tenant" = String, Path), ("plugin" = String, Path)), responses(
    (status = 200, description = "The differences", body = PluginDiff),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn diff(
    Reading(admitted): Reading,
    At((_, name)): At<(String, String)>,
) -> Result<Json<PluginDiff>, Problem> {
    let Admitted { tenant, .. } = admitted;
    let fresh = project(&tenant).await?;
    if !fresh.plugins.contains_key(&name) {
        return Err(unknown(&tenant.host.now(), &name));
    }
    let Comparison { loaded, found, asks_for_more, differences, .. } = tenant.host.compare(&name, &fresh).await?;
    Ok(Json(PluginDiff {
        plugin: name,
        changed: loaded.as_deref() != Some(found.as_str()),
        loaded,
        found,
        asks_for_more,
        differences: differences.iter().map(|difference| json!(difference)).collect(),
    }))
}

/// The result for plugins that had changed.
#[derive(Debug, Serialize, ToSchema)]
pub struct Reloaded {
    /// `plugin`, `digest` and the digest `before`; runs that began earlier go on with that one.
    #[schema(value_type = Vec<LoadedPlugin>)]
    loaded: Vec<Json_>,
    /// `plugin`, and the `findings` because of which it stays as it is.
    #[schema(value_type = Vec<RefusedPlugin>)]
    refused: Vec<Json_>,
    /// The MCP servers of whose tools the lock holds other digests than before.
    accepted: Vec<String>,
}

/// Reads the project again and replaces changed plugins, as the server does by itself when a file changes. New runs use
/// the new versions; runs in progress keep theirs. A version with further requests is refused.
#[utoipa::path(post, operation_id = "reload_plugins", path = "/v1/{tenant}/reload", tag = "plugins",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The plugins that were loaded, and those that were not", body = Reloaded),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn reload(Administering(admitted): Administering) -> Result<Json<Reloaded>, Problem> {
    let Admitted { tenant, caller } = admitted;
    let fresh = project(&tenant).await?;
    let mut reloaded = Reloaded { loaded: Vec::new(), refused: Vec::new(), accepted: Vec::new() };
    for exchange in tenant.host.reload(&fresh).await {
        tracing::info!(target: "opcell::audit", caller = %caller.name, tenant = %tenant.name, ?exchange, "reload");
        match exchange {
            Exchange::Loaded { plugin, digest, before } => {
                reloaded.loaded.push(json!({"plugin": plugin, "digest": digest, "before": before}));
            }
            // No version of it is loaded any more.
            Exchange::Removed { plugin, before } => {
                reloaded.loaded.push(json!({"plugin": plugin, "digest": null, "before": before}));
            }
            Exchange::Refused { plugin, why } => {
                reloaded.refused.push(json!({"plugin": plugin, "findings": why.to_json()}));
            }
            Exchange::Accepted { server } => reloaded.accepted.push(server),
            _ => {}
        }
    }
    Ok(Json(reloaded))
}
