//! The MCP servers of a tenant: whether each runs, what it costs, and how its tools have changed.

use super::{News, door::Visitor, duration, whole};
use crate::{access::tokens::Scope, api::At, problem::Problem};
use axum::response::Response;
use maud::{Markup, html};
use opcell::gateway::{Listing, ServerStanding, ServerState, ToolChange};
use std::{sync::Arc, time::Duration};

/// The interval at which the script looks again, in milliseconds.
const POLL_INTERVAL_MS: u32 = 5_000;

/// Changed tools of each server that are named.
const CHANGES: usize = 50;

/// The servers of a tenant. None is started for the page.
pub(super) async fn servers(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let standing = admitted.tenant.host.now().mcp_standing();
    let main = html! {
        h1 { "MCP servers" }
        @if standing.is_empty() {
            p.quiet { "The project has no MCP servers: " code { "[mcp.NAME]" } " of its file names one." }
        } @else {
            p.quiet { "A server is started when one of its tools is needed. Calls count since " code { "opcell serve" } " began." }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "Server" } th { "State" } th.number { "Calls" } th.number { "Failed" } th.number { "Mean" }
                    th.number { "Longest" } th.number { "Bytes sent" } th.number { "Received" } th.number { "Tools" }
                    th.number { "Tokens" } th { "Since accepted" }
                } }
                tbody { @for (name, standing) in &standing { (row(name, standing)) } }
            } }
            p.quiet { b { "Tokens" } ": an estimate of what a model reads if it is shown every tool of the server: names,
                descriptions and schemas." }
            @for (name, standing) in &standing { (details(name, standing)) }
        }
    };
    let news = News { every: Some(POLL_INTERVAL_MS), ..News::default() };
    Ok(whole("MCP servers", Some(&tenant), Some(&visitor), news, main))
}

fn row(name: &Arc<str>, standing: &ServerStanding) -> Markup {
    let used = &standing.used;
    let listing = standing.listing.as_deref();
    html! { tr {
        td { (name) }
        td { span class={ "status " (style(standing.state)) } { (standing.state.name()) } }
        td.number { (used.calls) }
        td.number { (used.failures) }
        td.number { @if let Some(mean) = used.mean() { (time(mean)) } }
        td.number { @if used.calls > 0 { (time(used.longest)) } }
        td.number { (used.bytes_sent) }
        td.number { (used.bytes_received) }
        td.number { @if let Some(listing) = listing { (listing.tools.len()) } }
        td.number { @if let Some((_, tokens)) = listing.map(Listing::description_size) { (tokens) } }
        td { @match standing.changes.len() {
            0 if listing.is_none() => {}
            0 => "unchanged",
            1 => "1 tool differs",
            several => { (several) " tools differ" }
        } }
    } }
}

/// The colour of a state, by the status of a run that has it.
fn style(state: ServerState) -> &'static str {
    match state {
        ServerState::Running => "completed",
        ServerState::Starting => "running",
        ServerState::Failed => "failed",
        _ => "pending",
    }
}

fn time(of: Duration) -> String {
    duration(of.as_secs_f64() * 1_000.0)
}

/// Renders why a server does not start, and the tools that are not as they were accepted.
fn details(name: &Arc<str>, standing: &ServerStanding) -> Markup {
    html! {
        @if let Some(problem) = &standing.problem {
            div.box.denied { b { (name) } pre tabindex="0" { (problem) } }
        }
        @if !standing.changes.is_empty() {
            div.box {
                p { b { (name) } ": these tools are not as they were accepted, and those that are new or changed are not
                    called. Compare them with " code { "opcell mcp diff " (name) } ", accept them with "
                    code { "opcell mcp update " (name) } "." }
                ul { @for ToolChange { tool, kind } in standing.changes.iter().take(CHANGES) {
                    li { code { (tool) } ": " (kind.name()) }
                } }
                @if standing.changes.len() > CHANGES { p.quiet { (standing.changes.len() - CHANGES) " more" } }
            }
        }
    }
}
