//! The events of a run as a list, and one of them in full.

use crate::{
    access::tokens::Scope,
    api::{At, Params, shown},
    feed,
    page::{door::Visitor, moment, page, run_place},
    problem::Problem,
};
use axum::{
    http::header,
    response::{IntoResponse, Response},
};
use maud::html;
use opcell_journal::RunId;
use serde::Deserialize;

/// Events on one page.
const EVENTS: u64 = 100;

/// Characters of an event in the list.
const LINE: usize = 300;

/// The beginning of the list.
#[derive(Deserialize)]
pub(in crate::page) struct From {
    #[serde(default)]
    after: u64,
}

/// Lists the events of a run.
pub(in crate::page) async fn list(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Params(from): Params<From>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let run: RunId = run.into();
    let may_fork = admitted.caller.may(Scope::Run);
    let _room = admitted.tenant.views.room().await?;
    let after = from.after.min(i64::MAX as u64);
    let (frames, is_cut) = feed::page(admitted.tenant.host.engine(), &run, after, EVENTS).await?;
    let here = run_place(&tenant, &run);
    let is_more = is_cut || frames.len() as u64 == EVENTS;
    let last = frames.last().filter(|last| is_more && !last.is_last).map(|last| last.seq);
    let main = html! {
        h1 { "Events of " a href=(here) { (run) } }
        @if may_fork { form id="fork" method="post" action={ (here) "/fork" } { input type="hidden" name="proof" value=(visitor.proof()); } }
        @if frames.is_empty() { p.quiet { "No more events." } } @else {
            div.scroll tabindex="0" { table.events {
                thead { tr { th.number { "Event" } th { "Time (UTC)" } th { "Kind" } th { "Data" } th { "Fork" } } }
                tbody { @for frame in &frames { tr id={ "e" (frame.seq) } {
                    td.number { a href={ (here) "/events/" (frame.seq) } { (frame.seq) } }
                    td { (moment(time(&frame.json))) }
                    td { (frame.kind) }
                    td { code { (data(&frame.json)) } }
                    td { @if may_fork { button.small form="fork" name="at" value=(frame.seq) { "Fork after it" } } }
                } } }
            } }
        }
        p {
            @if after > 0 { a href={ (here) "/events" } { "First events" } }
            @if let Some(last) = last { " " a href={ (here) "/events?after=" (last) } { "Later events" } }
        }
    };
    Ok(page(&format!("Events of {run}"), Some(&tenant), &visitor, None, main))
}

/// The time of an event, whose text begins with its number and that.
fn time(json: &str) -> &str {
    json.split_once("\"at\":\"").and_then(|(_, rest)| rest.split_once('"')).map_or("", |(at, _)| at)
}

fn data(json: &str) -> String {
    let data = json.split_once(",\"event\":").map_or(json, |(_, data)| data.strip_suffix('}').unwrap_or(data));
    match data.char_indices().nth(LINE) {
        Some((end, _)) => format!("{}…", data.get(..end).unwrap_or_default()),
        None => data.to_owned(),
    }
}

/// One event in full.
pub(in crate::page) async fn event(
    visitor: Visitor,
    At((tenant, run, seq)): At<(String, String, u64)>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let run: RunId = run.into();
    let _room = admitted.tenant.views.room().await?;
    let unknown = || {
        let detail = format!("run `{}` has no event {seq}", shown(&run));
        Problem::not_found("unknown-event", detail)
    };
    let before = seq.checked_sub(1).filter(|_| i64::try_from(seq).is_ok()).ok_or_else(unknown)?;
    let (frames, _) = feed::page(admitted.tenant.host.engine(), &run, before, 1).await?;
    let frame = frames.into_iter().next().ok_or_else(unknown)?;
    Ok(([(header::CONTENT_TYPE, "application/json")], frame.json.to_string()).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_listed_with_its_time_and_the_beginning_of_its_data() {
        let json = r#"{"at":"2026-01-02T03:04:05Z","kind":"ticked","seq":7,"event":"ticked"}"#;
        assert_eq!((time(json), data(json).as_str()), ("2026-01-02T03:04:05Z", "\"ticked\""));
        let long = format!(r#"{{"at":"x","event":{{"a":"{}"}}}}"#, "é".repeat(1_000));
        assert_eq!(data(&long).chars().count(), LINE + 1);
    }
}
