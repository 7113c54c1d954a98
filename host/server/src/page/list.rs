//! Lists: tenants, runs, plugins.

use super::{
    News,
    door::Visitor,
    duration, moment, page, place, run_place,
    search::{self, Found},
    whole,
};
use crate::{
    access::tokens::Scope,
    api::{App, At, Params, encoded, moment_of},
    problem::Problem,
    tenant::Tenant,
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
use opcell_engine::{
    Engine, RunError,
    event::{Event, Timestamp},
};
use opcell_journal::{RunEntry, RunId, RunQuery};
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
    /// A text in its events.
    #[serde(default)]
    text: String,
    /// When it was started, in UTC: at this moment or later, and before that one.
    #[serde(default)]
    since: String,
    #[serde(default)]
    until: String,
    before: Option<String>,
}

impl Wanted {
    /// The query for at most this many of them.
    ///
    /// # Errors
    /// When a time is none.
    pub(super) fn query(&self, limit: usize) -> Result<RunQuery, Problem> {
        let moment = |field: &str| given(field).map(|text| moment_of(&text)).transpose();
        Ok(RunQuery {
            since: moment(&self.since)?,
            until: moment(&self.until)?,
            before: self.before.as_deref().map(Arc::from),
            status: given(&self.status),
            workflow: given(&self.workflow),
            prefix: given(self.run.trim()),
            limit,
            ..RunQuery::default()
        })
    }

    /// The runs that it selects, and the one after which older ones follow.
    ///
    /// # Errors
    /// When a time is none, or the journal's.
    async fn find(&self, engine: &Engine) -> Result<Found, Problem> {
        if !self.text.trim().is_empty() {
            return search::search(engine, self.query(RUNS_PER_PAGE)?, self.text.trim()).await;
        }
        let mut runs = engine.runs_page(self.query(RUNS_PER_PAGE + 1)?).await?;
        let is_more = runs.len() > RUNS_PER_PAGE;
        runs.truncate(RUNS_PER_PAGE);
        let next = runs.last().filter(|_| is_more).map(|run| run.run.clone());
        Ok(Found { runs, next, ..Found::default() })
    }

    /// The query of a page's address that selects the same.
    fn address(&self) -> String {
        let fields = [
            ("status", &self.status),
            ("workflow", &self.workflow),
            ("run", &self.run),
            ("text", &self.text),
            ("since", &self.since),
            ("until", &self.until),
        ];
        let given = fields.iter().filter(|(_, value)| !value.is_empty());
        let given: Vec<String> = given.map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        format!("?{}", given.join("&"))
    }
}

/// A time as a field of a form has it.
fn field_of(text: &str) -> String {
    let at = moment_of(text).ok().map(|at| Timestamp(at).to_text());
    at.map(|at| at.chars().take("2026-01-02T03:04:05".len()).collect()).unwrap_or_default()
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
    let views = &admitted.tenant.views;
    let _room = views.room().await?;
    let found = wanted.find(engine).await?;
    let notes = notes(&admitted.tenant, &found.runs).await;
    let now = engine.ports().timer.now().0;
    let workflows = admitted.tenant.host.now().library().listed();
    let main = html! {
        h1 { "Runs" }
        (wanted.form(workflows.iter().map(|(name, _)| &**name)))
        (found.report(&wanted))
        @if found.runs.is_empty() {
            p.quiet { "No matching runs. Start one at " a href=(place(&tenant, "/workflows")) { "Workflows" } ", with "
                code { "opcell run --journal WORKFLOW" } " or with a POST to " code { "/v1/" (tenant) "/runs" } "." }
        } @else {
            (table(&tenant, &found.runs, &notes, now))
            form.row method="get" action=(place(&tenant, "/compare")) {
                label for="a" { "Compare" } input id="a" name="a" list="runs" required;
                label for="b" { "with" } input id="b" name="b" list="runs" required;
                datalist id="runs" { @for run in &found.runs { option value=(run.run) {} } }
                button { "Compare" }
            }
            @if wanted.text.trim().is_empty() { p { a href={ (place(&tenant, "/select")) (wanted.address())
                @if let Some(before) = &wanted.before { "&before=" (encoded(before)) } } { "Cancel or delete several" } } }
        }
        @if let Some(next) = &found.next {
            p { a href={ (place(&tenant, "")) (wanted.address()) "&before=" (encoded(next)) } { "Older runs" } }
        }
    };
    // What is older does not change much, and a search reads many events.
    let every = (wanted.before.is_none() && wanted.text.is_empty()).then_some(POLL_INTERVAL_MS);
    Ok(whole("Runs", Some(&tenant), Some(&visitor), News { every, ..News::default() }, main))
}

/// Notes on the first of some runs: what each waits for, or why it failed.
async fn notes(tenant: &Arc<Tenant>, runs: &[RunEntry]) -> HashMap<RunId, String> {
    let (engine, views) = (tenant.host.engine(), &tenant.views);
    let mut notes = HashMap::new();
    let here = standing::loaded(&tenant.host.now()).await;
    let is_noted = |run: &&RunEntry| !run.state.ended || matches!(&*run.state.status, "failed" | "blocked");
    for run in runs.iter().filter(is_noted).take(QUESTIONS) {
        // The script asks every two seconds, and most runs wait for days.
        if let Some(known) = views.wait_of(&run.run, run.records) {
            notes.insert(run.run.clone(), known);
            continue;
        }
        // One that cannot be read hides no other.
        let note = if run.state.ended {
            failure(engine, run).await
        } else {
            Standing::of(engine, run, Some(&here), STUCK_SECONDS).await.map(|standing| standing.waits_for())
        };
        let note = note.unwrap_or_else(|error| error.to_string());
        views.note_wait(&run.run, run.records, note.clone());
        notes.insert(run.run.clone(), note);
    }
    notes
}

/// The reason for which a run failed, and the step.
async fn failure(engine: &Engine, run: &RunEntry) -> Result<String, RunError> {
    let last = engine.events_after(&run.run, run.records.saturating_sub(1), 1).await?;
    Ok(match last.into_iter().next().map(|last| last.event) {
        Some(Event::RunFinished(end)) => match (end.reason, end.step) {
            (Some(reason), Some(step)) => format!("{reason} at step {step}"),
            (Some(reason), None) => reason.to_string(),
            _ => String::new(),
        },
        _ => String::new(),
    })
}

fn table(tenant: &str, runs: &[RunEntry], notes: &HashMap<RunId, String>, now: i64) -> Markup {
    html! { div.scroll tabindex="0" { table.runs {
        thead { tr { th { "Run" } th { "Status" } th { "Waits for, or failed because" } th { "Workflow" } th { "Started (UTC)" }
            th.number { "Took" } th.number { "Events" } } }
        tbody { @for run in runs { tr {
            td.id { a href=(run_place(tenant, &run.run)) { (run.run) } }
            td { span class={ "status " (run.status(now)) } { (run.status(now)) } }
            td.note { @if let Some(note) = notes.get(&run.run) { (note) } }
            td { (run.workflow) }
            td.time { (moment(&Timestamp(run.created_at).to_text())) }
            td.number { @if run.state.ended { (duration(Timestamp(run.updated_at).ms_since(Timestamp(run.created_at)))) } @else { "…" } }
            td.number { (run.records) span.unit { " events" } }
        } } }
    } } }
}

impl Wanted {
    /// The form that selects runs.
    fn form<'a>(&self, workflows: impl Iterator<Item = &'a str>) -> Markup {
        html! { form.row.search method="get" {
            span { label for="status" { "Status" }
                select id="status" name="status" {
                    option value="" { "all" }
                    @for name in RunEntry::STATUSES { option value=(name) selected[name == self.status] { (name) } }
                } }
            span { label for="workflow" { "Workflow" }
                input id="workflow" name="workflow" list="workflows" value=(self.workflow) size="12";
                datalist id="workflows" { @for name in workflows { option value=(name) {} } } }
            span { label for="run" { "ID begins with" } input id="run" name="run" value=(self.run) size="11"; }
            span { label for="text" { "Text in its events" } input id="text" name="text" value=(self.text) size="13"; }
            span { label for="since" { "Started from (UTC)" }
                input id="since" name="since" type="datetime-local" value=(field_of(&self.since)); }
            span { label for="until" { "and before (UTC)" }
                input id="until" name="until" type="datetime-local" value=(field_of(&self.until)); }
            button { "Show" }
        } }
    }
}

impl Found {
    /// Says how far a search for a text has looked.
    fn report(&self, wanted: &Wanted) -> Markup {
        let named = |runs: &[RunId]| runs.iter().take(10).map(AsRef::as_ref).collect::<Vec<_>>().join(", ");
        html! { @if !wanted.text.trim().is_empty() { p.quiet role="status" {
            (self.runs.len()) " of " (self.looked) @if self.looked == 1 { " run" } @else { " runs" } " have the text."
            @if self.next.is_some() { " Older ones have not been searched yet." }
            @if !self.cut.is_empty() { " Only the beginning of these was searched: " (named(&self.cut)) "." }
            @if !self.unreadable.is_empty() { " These cannot be read: " (named(&self.unreadable)) "." }
        } } }
    }
}

/// The plugins and what they offer.
pub(super) async fn plugins(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let host = admitted.tenant.host.now();
    let entries = host.catalog().entries();
    let main = html! {
        h1 { "Plugins" }
        @for left_out in host.left_out() {
            div.box.denied { b { (left_out.plugin) " is not loaded" } pre tabindex="0" { (left_out.to_string()) } }
        }
        @for plugin in host.catalog().plugins() {
            h2 { (plugin.name()) }
            p.quiet { code { (plugin.digest()) } }
            div.scroll tabindex="0" { table.operations { tbody { @for entry in entries.iter().filter(|entry| *entry.plugin == *plugin.name()) {
                tr { td { code { (entry.id) } } td { (entry.kind()) } td { (entry.summary) } }
            } } } }
            (reachable(&reach(plugin.manifest(), plugin.policy())))
            details id={ "limits-" (plugin.name()) } { summary { "Limits of each cell" }
                div.scroll tabindex="0" { table { thead { tr { th { "Limit" } th { "At most" } th { "Decided by" } th { "Why" } } } tbody {
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
            div.scroll tabindex="0" { table.reach { thead { tr { th { "May reach" } th { "Allowed" } th { "Asked for" } th { "Granted or denied" } } }
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
