//! Two runs beside each other: the steps that they took, and where they begin to differ.

use super::{door::Visitor, duration, page, run_place};
use crate::{
    access::tokens::Scope,
    api::{At, Params},
    problem::Problem,
    spans::{Span, SpanKind},
};
use axum::response::Response;
use maud::{Markup, html};
use opcell_journal::RunId;
use serde::Deserialize;

/// Steps that are shown.
const MAX_DIFFERENCES: usize = 500;

/// The two runs to compare.
#[derive(Deserialize)]
pub(super) struct Pair {
    a: String,
    b: String,
}

/// Compares two runs.
pub(super) async fn compare(
    visitor: Visitor,
    At(tenant): At<String>,
    Params(pair): Params<Pair>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let mut sides = Vec::new();
    for run in [&pair.a, &pair.b] {
        let run: RunId = run.as_str().into();
        let view = admitted.tenant.views.of(&run).await?;
        let steps = view.spans().iter().filter(|span| span.kind == SpanKind::Step).take(MAX_DIFFERENCES).cloned();
        let steps: Vec<Span> = steps.collect();
        sides.push((run, steps));
    }
    let same = |at: usize| {
        let of = |side: usize| {
            sides.get(side).and_then(|(_, steps)| steps.get(at)).map(|step| (&step.name, &step.failure, fact(step)))
        };
        of(0) == of(1)
    };
    let main = html! {
        h1 { "Two runs" }
        p.quiet { "Each step beside the one with the same number. Those that differ in name, outcome or failure are marked." }
        div.two { @for (run, steps) in &sides {
            section {
                h2 { a href=(run_place(&tenant, run)) { (run) } }
                div.scroll { table { tbody { @for (at, step) in steps.iter().enumerate() {
                    tr.differs[!same(at)] { td.number { (at + 1) } (row(step)) }
                } } } }
            }
        } }
    };
    Ok(page("Two runs", Some(&tenant), &visitor, None, main))
}

fn fact(step: &Span) -> Option<String> {
    step.facts
        .iter()
        .find(|(key, _)| *key == "opcell.outcome")
        .map(|(_, outcome)| outcome.as_str().map_or_else(|| outcome.to_json(), str::to_owned))
}

fn row(step: &Span) -> Markup {
    html! {
        td { (step.name) }
        td { @if let Some(outcome) = fact(step) { code { (outcome) } } @if let Some(failure) = &step.failure { span.failed { " " (failure) } } }
        td.number { @if let Some(ended) = step.ended { (duration(ended.ms_since(step.began))) } }
    }
}
