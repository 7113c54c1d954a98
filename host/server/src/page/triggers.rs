//! Triggers: what each does, when it is due next, what was missed, and the runs that it started last.

use super::{door::Visitor, duration, moment, page, place, run_place};
use crate::{access::tokens::Scope, api::At, problem::Problem};
use axum::response::Response;
use jiff::{Timestamp, tz::TimeZone};
use maud::{Markup, html};
use opcell::triggers::{
    MOST_MISSED, Missed, RunName, Schedule, Signature, Trigger, TriggerAction, TriggerSource, Webhook,
};
use opcell_engine::event::Timestamp as EventTime;
use opcell_journal::{RunEntry, RunQuery};
use std::collections::BTreeSet;

/// Runs that are shown of each trigger, and instants that were missed.
const RUNS: usize = 10;
const INSTANTS: usize = 10;

/// Runs of each trigger that are looked at.
const NEWEST: usize = 1_000;

/// The triggers of a tenant.
pub(super) async fn triggers(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let engine = admitted.tenant.host.engine();
    let now = engine.ports().timer.now().0;
    let mut own = Vec::new();
    for trigger in &admitted.tenant.triggers {
        let query = RunQuery { prefix: Some(trigger.run_prefix().into()), limit: NEWEST, ..RunQuery::default() };
        own.push(engine.runs_page(query).await?);
    }
    let main = html! {
        h1 { "Triggers" }
        @if admitted.tenant.triggers.is_empty() {
            p.quiet { "The project has no triggers: " code { "[triggers.NAME]" } " of its file has a " code { "cron" }
                " or a " code { "webhook" } "." }
        }
        @for (trigger, own) in admitted.tenant.triggers.iter().zip(&own) {
            h2 id=(trigger.name) { (trigger.name) }
            (does(trigger, &tenant))
            @match &trigger.source {
                TriggerSource::Cron(schedule) => (at_times(trigger, schedule, own)),
                TriggerSource::Webhook(webhook) => (for_requests(trigger, webhook, &tenant)),
                _ => {}
            }
            @if matches!(trigger.action, TriggerAction::Start { .. }) { (last_runs(own, &tenant, now)) }
        }
    };
    Ok(page("Triggers", Some(&tenant), &visitor, None, main))
}

fn does(trigger: &Trigger, tenant: &str) -> Markup {
    html! {
        p {
            @match &trigger.action {
                TriggerAction::Start { workflow } => { "Starts the workflow " b { (workflow) } }
                TriggerAction::Signal { signal, run: RunName::Fixed(run) } => {
                    "Sends the signal " b { (signal) } " to the run " a href=(run_place(tenant, run)) { (run) }
                }
                TriggerAction::Signal { signal, run: RunName::Body(at) } => {
                    "Sends the signal " b { (signal) } " to the run that the body names at " code { (at) }
                }
                _ => "Acts",
            }
        }
    }
}

fn at_times(trigger: &Trigger, schedule: &Schedule, own: &[RunEntry]) -> Markup {
    let now = Timestamp::now();
    let next = schedule.next(now).map(|next| next.to_zoned(schedule.zone().clone()));
    let done: BTreeSet<Timestamp> = own.iter().filter_map(|run| trigger.instant_of(&run.run)).collect();
    let missed = schedule.missed_since(&done, now);
    html! {
        ul.facts {
            li { b { "Schedule " } code { (schedule.text()) } " in " (schedule.zone().iana_name().unwrap_or("its time zone")) }
            @if let Some(next) = next {
                li { b { "Next " } (next.strftime("%Y-%m-%d %H:%M:%S %Z"))
                    " (" (next.with_time_zone(TimeZone::UTC).strftime("%H:%M:%S")) " UTC)" }
            }
            li { b { "If missed " } (match schedule.missed() {
                Missed::Skip => "it is skipped",
                Missed::One => "the last one is run once",
                Missed::All => "each is run, the newest 100",
                _ => "as the project file says",
            }) }
        }
        @if !missed.is_empty() {
            div.box {
                p { b { @if missed.len() < MOST_MISSED { (missed.len()) } @else { "At least " (MOST_MISSED) }
                    @if missed.len() == 1 { " instant was missed" } @else { " instants were missed" } }
                    ": no run of this schedule is in the journal for " @if missed.len() == 1 { "it." } @else { "them." } }
                p.quiet { @for (at, instant) in missed.iter().take(INSTANTS).enumerate() {
                    @if at > 0 { ", " } (moment(&instant.to_string()))
                } @if missed.len() > INSTANTS { ", …" } " (UTC)" }
            }
        }
    }
}

/// Renders the signing of requests; the secrets are shown to no visitor.
fn for_requests(trigger: &Trigger, webhook: &Webhook, tenant: &str) -> Markup {
    html! {
        ul.facts {
            li { b { "Requests " } code { "POST /v1/" (tenant) "/hooks/" (trigger.name) } }
            li { b { "Signed " } (webhook.signature) ", by any of " (webhook.secrets.len())
                @if webhook.secrets.len() == 1 { " secret" } @else { " secrets" } }
            // GitHub's signature covers no time.
            @if webhook.signature == Signature::Standard { li { b { "Window " } (webhook.window.as_secs()) " s" } }
        }
    }
}

fn last_runs(own: &[RunEntry], tenant: &str, now: i64) -> Markup {
    html! {
        @if own.is_empty() { p.quiet { "No runs yet." } } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Last runs" } th { "Status" } th { "Started (UTC)" } th.number { "Took" } } }
                tbody { @for run in own.iter().take(RUNS) {
                    tr {
                        td { a href=(run_place(tenant, &run.run)) { (run.run) } }
                        td { span class={ "status " (run.status(now)) } { (run.status(now)) } }
                        td { (moment(&EventTime(run.created_at).to_text())) }
                        td.number { (duration(EventTime(run.updated_at).ms_since(EventTime(run.created_at)))) }
                    }
                } }
            } }
            @if own.len() > RUNS { p.quiet { (own.len() - RUNS) " older ones are in the journal; " a href=(place(tenant, "")) { "all runs" } } }
        }
    }
}
