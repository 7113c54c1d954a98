//! The processes that drive the runs of a tenant, and the load of this one.

use super::{News, door::Visitor, run_place, whole};
use crate::{access::tokens::Scope, api::At, problem::Problem, tenant::Tenant};
use axum::response::Response;
use maud::{Markup, html};
use opcell_journal::{Driver, RunEntry, RunQuery};
use tokio::sync::Semaphore;

/// The interval at which the script looks again, in milliseconds.
const POLL_INTERVAL_MS: u32 = 5_000;

/// Runs of each process that are named.
const RUNS: usize = 5;

/// Driven runs that are looked through for their names.
const MAX_DRIVEN: usize = 500;

/// Runs without a driver that are counted.
const MAX_RUNNABLE: u64 = 1_000;

/// The workers of a tenant.
pub(super) async fn workers(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let engine = admitted.tenant.host.engine();
    let drivers = engine.drivers().await?;
    let mut driven = Vec::new();
    for status in ["running", "waiting", "suspended"] {
        let query = RunQuery { status: Some(status.into()), limit: MAX_DRIVEN, ..RunQuery::default() };
        driven.extend(engine.runs_page(query).await?.into_iter().filter(|run| run.driven));
    }
    let runnable = engine.runnable(MAX_RUNNABLE).await?.len();
    let main = html! {
        h1 { "Workers" }
        p { b { (runnable) @if runnable as u64 == MAX_RUNNABLE { " or more" } } @if runnable == 1 { " run" } @else { " runs" }
            " could continue, and no process has taken " @if runnable == 1 { "it" } @else { "them" } " yet." }
        h2 #processes { "Processes" }
        p.quiet { "Those that have the journal open now: servers and workers drive runs, other commands read." }
        @if drivers.is_empty() { p.quiet { "No process drives a run." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Process" } th.number { "Drives" } th { "Runs" } } }
                tbody { @for driver in &drivers { (row(&tenant, driver, &driven)) } }
            } }
        }
        (load(&admitted.tenant))
    };
    let news = News { every: Some(POLL_INTERVAL_MS), ..News::default() };
    Ok(whole("Workers", Some(&tenant), Some(&visitor), news, main))
}

fn row(tenant: &str, driver: &Driver, driven: &[RunEntry]) -> Markup {
    let own: Vec<&RunEntry> = driven.iter().filter(|run| run.driver.as_ref() == Some(&driver.name)).collect();
    html! { tr {
        td { (driver.name) @if driver.is_this { " " span.quiet { "(this server)" } } }
        td.number { (driver.runs) }
        td {
            @for (at, run) in own.iter().take(RUNS).enumerate() {
                @if at > 0 { ", " } a href=(run_place(tenant, &run.run)) { (run.run) }
            }
            @if own.len() > RUNS { ", …" }
        }
    } }
}

/// Renders the part of this server's room that is in use.
fn load(tenant: &Tenant) -> Markup {
    let pools = tenant.host.now().pools();
    let limits = &tenant.limits;
    let rows = [
        ("Runs that requests started", used(&tenant.started, limits.started_runs), limits.started_runs),
        ("Calls of operations", used(&tenant.calls, limits.calls), limits.calls),
        ("Readers of events", used(&tenant.readers, limits.readers), limits.readers),
    ];
    html! {
        h2 #load { "Load of this server" }
        div.scroll tabindex="0" { table.load {
            thead { tr { th { "Of this tenant" } th.number { "Now" } th.number { "At most" } } }
            tbody {
                @for (what, used, most) in rows { tr { td { (what) } td.number { (used) } td.number { (most) } } }
                @for pool in pools { tr {
                    td { "Cells of the pool " code { (pool.pool) } } td.number { (pool.busy) } td.number { (pool.cells) }
                } }
            }
        } }
    }
}

fn used(room: &Semaphore, most: usize) -> usize {
    most.saturating_sub(room.available_permits())
}
