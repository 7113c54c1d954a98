//! Two runs beside each other: the steps that they took, and where they begin to differ.

use super::{brief, door::Visitor, duration, page, run_place};
use crate::{
    access::tokens::Scope,
    api::{At, Params},
    problem::Problem,
    spans::{Span, SpanKind},
};
use axum::response::Response;
use maud::{Markup, html};
use opcell_engine::Event;
use opcell_journal::RunId;
use opcell_types::Value;
use serde::Deserialize;

/// Steps that are shown.
const MAX_DIFFERENCES: usize = 500;

/// The two runs to compare.
#[derive(Deserialize)]
pub(super) struct Pair {
    a: String,
    b: String,
}

/// One of the runs.
struct Side {
    run: RunId,
    steps: Vec<Span>,
    input: Value,
    result: Value,
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
        let (steps, result): (Vec<Span>, Value) = (steps.collect(), view.state().outcome().result);
        drop(view);
        let first = admitted.tenant.views.events(&run, vec![1]).await?;
        let input = first.get(&1).and_then(|first| match &first.event {
            Event::RunStarted(started) => Some(started.input.clone()),
            _ => None,
        });
        sides.push(Side { run, steps, input: input.unwrap_or_default(), result });
    }
    let same = |at: usize| {
        let of = |side: usize| {
            sides.get(side).and_then(|side| side.steps.get(at)).map(|step| (&step.name, &step.failure, fact(step)))
        };
        of(0) == of(1)
    };
    let differs = |of: fn(&Side) -> &Value| sides.first().map(of) != sides.last().map(of);
    let (inputs_differ, results_differ) = (differs(|side| &side.input), differs(|side| &side.result));
    let main = html! {
        h1 { "Two runs" }
        p.quiet { "Steps are compared by number. A mark shows that the name, outcome or failure differs." }
        div.two { @for side in &sides {
            section {
                @let here = run_place(&tenant, &side.run);
                h2 { a href=(here) { (side.run) } }
                h3.differs[inputs_differ] { "Input" @if inputs_differ { ", which differs" } }
                (brief(&side.input, &format!("{here}/events/1")))
                h3.differs[results_differ] { "Result" @if results_differ { ", which differs" } }
                (brief(&side.result, &here))
                h3 { "Steps" }
                div.scroll tabindex="0" { table { tbody { @for (at, step) in side.steps.iter().enumerate() {
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
