//! Lists: tenants, runs, plugins.

use super::{News, door::Visitor, duration, moment, page, place, run_place, whole};
use crate::{
    access::tokens::Scope,
    api::{App, At, Params, encoded},
    problem::Problem,
};
use axum::{
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use opcell::{
    reach::{Reach, reach},
    standing::{self, STUCK_SECONDS, Standing},
};
use opcell_engine::event::Timestamp;
use opcell_journal::{RunEntry, RunQuery};
use serde::Deserialize;
use std::{collections::HashMap, sync::Arc};

/// Runs on one page.
pub(super) const RUNS_PER_PAGE: usize = 100;

/// The interval at which the script looks for other runs, in milliseconds.
const POLL_INTERVAL_MS: u32 = 2_000;

/// Runs of a page for which the list says what they wait for: each has to be read.
const QUESTIONS: usize = 50;

/// The tenants that the visitor reaches; the runs if there is only one.
pub(super) async fn tenants(State(app): State<Arc<App>>, visitor: Visitor) -> Response {
    let reached: Vec<&str> = app
        .tenants
        .iter()
        .map(|tenant| tenant.name.as_ref())
        .filter(|name| visitor.admit(name, Scope::Read).is_ok())
        .collect();
    if let [only] = reached.as_slice() {
        return Redirect::to(&place(only, "")).into_response();
    }
    page(
        "Tenants",
        None,
        &visitor,
        None,
        html! {
            h1 { "Tenants" }
            ul { @for tenant in &reached { li { a href=(place(tenant, "")) { (tenant) } } } }
            @if reached.is_empty() { p { "The token reaches no tenant that it may read." } }
        },
    )
}

/// The selection of runs.
#[derive(Deserialize)]
pub(super) struct Wanted {
    #[serde(default)]
    status: String,
    #[serde(default)]
    workflow: String,
    /// The beginning of its ID.
    #[serde(default)]
    run: String,
    before: Option<String>,
}

impl Wanted {
    /// The query for at most this many of them.
    pub(super) fn query(&self, limit: usize) -> RunQuery {
        RunQuery {
            before: self.before.as_deref().map(Arc::from),
            status: given(&self.status),
            workflow: given(&self.workflow),
            prefix: given(self.run.trim()),
            limit,
            ..RunQuery::default()
        }
    }

    /// The query of a page's address that selects the same.
    fn address(&self) -> String {
        let [status, workflow, run] = [&self.status, &self.workflow, &self.run].map(|field| encoded(field));
        format!("?status={status}&workflow={workflow}&run={run}")
    }
}

/// The text of a field of the form; none for an empty one.
fn given(field: &str) -> Option<Arc<str>> {
    (!field.is_empty()).then(|| field.into())
}

/// The runs of a tenant, newest first.
pub(super) async fn runs(
    visitor: Visitor,
    At(tenant): At<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let engine = admitted.tenant.host.engine();
    let shown = engine.runs_page(wanted.query(RUNS_PER_PAGE + 1)).await?;
    let now = engine.ports().timer.now().0;
    let next = if shown.len() > RUNS_PER_PAGE { shown.get(RUNS_PER_PAGE - 1).map(|run| run.run.clone()) } else { None };
    let mut waits = HashMap::new();
    let unfinished = shown.iter().take(RUNS_PER_PAGE).filter(|run| !run.state.ended);
    let views = &admitted.tenant.views;
    let _room = views.room().await?;
    let here = standing::loaded(&admitted.tenant.host.now()).await;
    for run in unfinished.take(QUESTIONS) {
        // The script asks every two seconds, and most runs wait for days.
        if let Some(known) = views.wait_of(&run.run, run.records) {
            waits.insert(run.run.clone(), known);
            continue;
        }
        // One that cannot be read hides no other.
        let waits_for = match Standing::of(engine, run, Some(&here), STUCK_SECONDS).await {
            Ok(standing) => standing.waits_for(),
            Err(error) => error.to_string(),
        };
        views.note_wait(&run.run, run.records, waits_for.clone());
        waits.insert(run.run.clone(), waits_for);
    }
    let workflows = admitted.tenant.host.now().library().listed();
    let main = html! {
        h1 { "Runs" }
        form.row method="get" {
            label for="status" { "Status" }
            select id="status" name="status" {
                option value="" { "all" }
                @for name in RunEntry::STATUSES { option value=(name) selected[name == wanted.status] { (name) } }
            }
            label for="workflow" { "Workflow" }
            input id="workflow" name="workflow" list="workflows" value=(wanted.workflow) size="16";
            datalist id="workflows" { @for (name, _) in &workflows { option value=(name) {} } }
            label for="run" { "ID begins with" }
            input id="run" name="run" value=(wanted.run) size="16";
            button { "Show" }
        }
        @if shown.is_empty() {
            p.quiet { "No matching runs. Start one at " a href=(place(&tenant, "/workflows")) { "Workflows" } ", with "
                code { "opcell run --journal WORKFLOW" } " or with a POST to " code { "/v1/" (tenant) "/runs" } "." }
        } @else {
            div.scroll { table {
                thead { tr { th { "Run" } th { "Status" } th { "Workflow" } th { "Started (UTC)" } th.number { "Took" } th.number { "Events" } th { "Waits for" } } }
                tbody { @for run in shown.iter().take(RUNS_PER_PAGE) {
                    tr {
                        td { a href=(run_place(&tenant, &run.run)) { (run.run) } }
                        td { span class={ "status " (run.status(now)) } { (run.status(now)) } }
                        td { (run.workflow) }
                        td { (moment(&Timestamp(run.created_at).to_text())) }
                        td.number { @if run.state.ended { (duration(Timestamp(run.updated_at).ms_since(Timestamp(run.created_at)))) } @else { "…" } }
                        td.number { (run.records) }
                        td { @if let Some(waits) = waits.get(&run.run) { (waits) } }
                    }
                } }
            } }
            form.row method="get" action=(place(&tenant, "/compare")) {
                label for="a" { "Compare" } input id="a" name="a" list="runs" required;
                label for="b" { "with" } input id="b" name="b" list="runs" required;
                datalist id="runs" { @for run in shown.iter().take(RUNS_PER_PAGE) { option value=(run.run) {} } }
                button { "Compare" }
            }
            p { a href={ (place(&tenant, "/select")) (wanted.address())
                @if let Some(before) = &wanted.before { "&before=" (encoded(before)) } } { "Cancel or delete several" } }
        }
        @if let Some(next) = next {
            p { a href={ (place(&tenant, "")) (wanted.address()) "&before=" (encoded(&next)) } { "Older runs" } }
        }
    };
    // What is older does not change much.
    let every = wanted.before.is_none().then_some(POLL_INTERVAL_MS);
    Ok(whole("Runs", Some(&tenant), Some(&visitor), News { every, ..News::default() }, main))
}

/// The plugins and what they offer.
pub(super) async fn plugins(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let host = admitted.tenant.host.now();
    let entries = host.catalog().entries();
    let main = html! {
        h1 { "Plugins" }
        @for left_out in host.left_out() {
            div.box.denied { b { (left_out.plugin) " is not loaded" } pre { (left_out.to_string()) } }
        }
        @for plugin in host.catalog().plugins() {
            h2 { (plugin.name()) }
            p.quiet { code { (plugin.digest()) } }
            div.scroll { table.operations { tbody { @for entry in entries.iter().filter(|entry| *entry.plugin == *plugin.name()) {
                tr { td { code { (entry.id) } } td { (entry.kind()) } td { (entry.summary) } }
            } } } }
            (reachable(&reach(plugin.manifest(), plugin.policy())))
            details id={ "limits-" (plugin.name()) } { summary { "Limits of each cell" }
                div.scroll { table { thead { tr { th { "Limit" } th { "At most" } th { "Decided by" } th { "Why" } } } tbody {
                    @for limit in plugin.limits_explained() {
                        tr { td { code { (limit.key) } } td { (limit.shown) } td { (limit.source) } td.quiet { (limit.reason) } }
                    }
                } } }
            }
        }
        @if host.catalog().plugins().next().is_none() { p.quiet { "The project has no plugins." } }
    };
    Ok(page("Plugins", Some(&tenant), &visitor, None, main))
}

/// Renders what a plugin may reach, what it is denied, and what would lift that.
fn reachable(reach: &[Reach]) -> Markup {
    html! {
        @if reach.is_empty() { p.quiet { "It requests nothing and is granted nothing." } } @else {
            div.scroll { table.reach { thead { tr { th { "May reach" } th { "" } th { "Asked for" } th { "Granted or denied" } } }
                tbody { @for one in reach {
                    tr {
                        td { code { (one.capability) } }
                        td { @if one.allowed { "yes" } @else { b { "no" } } }
                        td { (one.reason.as_deref().unwrap_or("not asked for")) }
                        td {
                            (one.denied.as_deref().or(one.granted.as_deref()).unwrap_or_default())
                            @if let Some(remedy) = &one.remedy { "; to grant it: " code { (remedy) } }
                        }
                    }
                } }
            } }
        }
    }
}
