//! The tenant's MCP servers: whether each runs, how much it is used, and how its tools have changed.

use crate::{access::Reading, problem::Problem};
use axum::Json;
use opcell::gateway::{ServerStanding, ToolChange};
use serde::Serialize;
use std::{sync::Arc, time::Duration};
use utoipa::ToSchema;

/// A tool that is not as it was accepted.
#[derive(Debug, Serialize, ToSchema)]
pub struct ToolChangeItem {
    /// The server's own name of it.
    tool: String,
    /// `changed`, `new` or `gone`.
    change: &'static str,
}

impl ToolChangeItem {
    fn of(change: &ToolChange) -> Self {
        Self { tool: change.tool.clone(), change: change.kind.name() }
    }
}

/// An MCP server of the project. Calls count since this process began.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct ServerItem {
    /// Its name in the project.
    #[schema(value_type = String)]
    name: Arc<str>,
    /// `idle` before it is needed, `starting`, `running`, `failed` or `ended`.
    state: &'static str,
    /// Why it did not start, or did not list its tools, the last time.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// The tools that can be used; absent before it has listed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<u64>,
    /// The tools that cannot be used; absent before it has listed them.
    #[serde(skip_serializing_if = "Option::is_none")]
    unusable_tools: Option<u64>,
    /// Bytes that a model reads if it is shown all usable tools: names, descriptions and schemas.
    #[serde(skip_serializing_if = "Option::is_none")]
    description_bytes: Option<u64>,
    /// An estimate of the tokens that these are.
    #[serde(skip_serializing_if = "Option::is_none")]
    description_tokens: Option<u64>,
    /// The tools that differ from those that were accepted.
    changes: Vec<ToolChangeItem>,
    /// Calls that have ended.
    calls: u64,
    /// Those that failed.
    failures: u64,
    /// The mean time of a call in milliseconds; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    mean_ms: Option<f64>,
    /// The time of the longest call in milliseconds; absent before the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    longest_ms: Option<f64>,
    /// Bytes of the arguments of all calls, as JSON.
    bytes_sent: u64,
    /// Bytes of the results of all calls, as JSON.
    bytes_received: u64,
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

impl ServerItem {
    fn of((name, standing): (Arc<str>, ServerStanding)) -> Self {
        let listing = standing.listing.as_deref();
        let size = listing.map(opcell::gateway::Listing::description_size);
        let used = standing.used;
        Self {
            name,
            state: standing.state.name(),
            tools: listing.map(|listing| listing.tools.len() as u64),
            unusable_tools: listing.map(|listing| listing.refused.len() as u64),
            description_bytes: size.map(|(bytes, _)| bytes),
            description_tokens: size.map(|(_, tokens)| tokens),
            changes: standing.changes.iter().map(ToolChangeItem::of).collect(),
            problem: standing.problem,
            calls: used.calls,
            failures: used.failures,
            mean_ms: used.mean().map(ms),
            longest_ms: (used.calls > 0).then(|| ms(used.longest)),
            bytes_sent: used.bytes_sent,
            bytes_received: used.bytes_received,
        }
    }
}

/// The MCP servers of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct Servers {
    /// Those of the project, in its order.
    servers: Vec<ServerItem>,
}

/// Lists the MCP servers: state, calls, failures, times, sizes, changes since they were accepted. Starts none.
#[utoipa::path(get, operation_id = "list_servers", path = "/v1/{tenant}/servers", tag = "servers",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The servers", body = Servers),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<Servers> {
    let standing = admitted.tenant.host.now().mcp_standing();
    Json(Servers { servers: standing.into_iter().map(ServerItem::of).collect() })
}
