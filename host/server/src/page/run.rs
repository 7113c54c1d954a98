//! One run: what it waits for, its timeline, the graph with the path taken, conversations, denials, artifacts, budgets.

use super::{door::Visitor, duration, moment, page, place, run_place};
use crate::{
    access::tokens::Scope,
    api::{self, App, At, ExportParams, GraphFormat, Params},
    problem::Problem,
    spans::{self, Span},
};
use axum::{
    Form,
    extract::State,
    http::HeaderMap,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use opcell::{Denial, remedy};
use opcell_engine::{
    Message,
    event::{EffectId, EffectReply, Event, Recorded, Timestamp},
    outcome::Question,
    state::State as RunFold,
};
use opcell_journal::RunId;
use opcell_types::Value;
use serde::Deserialize;
use serde_json::Value as Json;
use std::sync::Arc;

/// Spans on one page, and messages of conversations.
const SPANS: usize = 200;
const SAID: usize = 100;

/// Longest text of one message or value on the page, in characters.
const TEXT: usize = 20_000;

/// Which part of a long run.
#[derive(Deserialize)]
pub(super) struct Part {
    #[serde(default)]
    from: usize,
}

/// Shows a run.
pub(super) async fn show(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Params(part): Params<Part>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let run: RunId = run.into();
    let engine = admitted.tenant.host.engine();
    let history = engine.history(&run).await?;
    let mut state = RunFold::default();
    for recorded in &history {
        state.apply(recorded).map_err(|source| opcell::RunError::Replay { run: run.clone(), source })?;
    }
    let here = run_place(&tenant, &run);
    let compare = place(&tenant, "/compare");
    let view = View { here: &here, compare: &compare, proof: visitor.proof(), history: &history, state: &state };
    let ended = state.status().has_ended();
    let live = format!("{here}/live?after={}", state.seq());
    Ok(page(&run, Some(&tenant), (!ended).then_some(live.as_str()), view.render(&run, part.from)))
}

struct View<'a> {
    here: &'a str,
    compare: &'a str,
    proof: String,
    history: &'a [Recorded],
    state: &'a RunFold,
}

impl View<'_> {
    fn render(&self, run: &str, from: usize) -> Markup {
        let outcome = self.state.outcome();
        let all = spans::of(self.history);
        let began = self.state.started_at();
        let last = self.history.last().map_or(began, |last| last.at);
        let used = outcome.used;
        html! {
            h1 { (run) }
            p { span class={ "status " (outcome.status) } { (outcome.status) }
                " · " @if let Some(program) = self.state.program() { (program.name()) }
                " · " (moment(&began.to_text())) " · " (duration(last.ms_since(began))) }
            @if let Some(reason) = &outcome.reason {
                p { b { (reason) } @if let Some(step) = &outcome.step { " at step " code { (step) } }
                    @if let Some(message) = outcome.message.as_ref().filter(|_| outcome.denial.is_none()) { ": " (message) } }
            }
            @if let Some(denial) = &outcome.denial { (denied(denial)) }
            @for question in &outcome.questions { (self.question(question)) }
            ul.facts {
                (fact("Visits", used.visits, self.state.limits().total_visits)) (fact("Cells", used.cells, None))
                (fact("Tool calls", used.tool_calls, self.state.limits().tool_calls)) (fact("Model rounds", used.rounds, None))
                (fact("Tokens", used.tokens, self.state.limits().tokens))
                (fact("Host calls", used.host_calls, self.state.limits().host_calls))
                @if used.cost > 0.0 { li { b { "Cost " } (format!("${:.4}", used.cost)) } }
            }
            @if !matches!(outcome.result, Value::Null | Value::Undefined) { h2 { "Result" } (value(&outcome.result)) }
            h2 id="timeline" { "Timeline" }
            (timeline(&spans::nested(&all), from, began, last))
            (self.pages(all.len(), from))
            @let denials = denials(&all, outcome.denial.as_deref());
            @if !denials.is_empty() { h2 { "Denials" } @for denial in &denials { (denied(denial)) } }
            h2 { "Graph" }
            p { img.graph src={ (self.here) "/graph.svg" } alt="The steps of the workflow with the path taken" loading="lazy"; }
            (self.conversation())
            @if outcome.artifacts.as_object().is_some_and(|artifacts| !artifacts.is_empty()) { h2 { "Artifacts" } (value(&outcome.artifacts)) }
            h2 { "Control" }
            form.row method="post" action={ (self.here) "/fork" } {
                input type="hidden" name="proof" value=(self.proof);
                label for="at" { "Fork after event" }
                input id="at" name="at" type="number" min="1" max=(self.state.seq()) value=(self.state.seq().saturating_sub(1).max(1));
                button { "Fork" }
            }
            form.row method="get" action=(self.compare) {
                input type="hidden" name="a" value=(run);
                label for="with" { "Compare with run" }
                input id="with" name="b" required;
                button { "Compare" }
            }
            p { "Export: " a href={ (self.here) "/export" } download={ (run) ".jsonl" } { "events" } " · "
                a href={ (self.here) "/export?otlp=true" } download={ (run) ".trace.json" } { "trace (OTLP)" } }
            @if !outcome.status.has_ended() {
                form.row method="post" action={ (self.here) "/cancel" } {
                    input type="hidden" name="proof" value=(self.proof);
                    button.no { "Cancel the run" }
                }
            }
        }
    }

    fn question(&self, question: &Question) -> Markup {
        match question {
            Question::Signal { name, step, question, approval: true } => html! {
                div.box {
                    p { b { @match question { Some(question) => (question), None => { "Approve " (name) "?" } } } }
                    p.quiet { "Approval " code { (name) } " of step " code { (step) } }
                    form.row method="post" action={ (self.here) "/answer" } {
                        input type="hidden" name="proof" value=(self.proof);
                        input type="hidden" name="name" value=(name);
                        label for={ "why-" (name) } { "Reason" }
                        input id={ "why-" (name) } name="why";
                        button.yes name="approved" value="true" { "Approve" }
                        button.no name="approved" value="false" { "Refuse" }
                    }
                }
            },
            Question::Signal { name, step, question, .. } => html! {
                div.box { p { "Step " code { (step) } " waits for the signal " code { (name) } }
                    @if let Some(question) = question { p { (question) } } }
            },
            Question::Grant { effect, step, what, denial, why } => html! {
                div.box {
                    p { b { "Grant " code { (denial.capability) } "?" } }
                    p { (what) " of step " code { (step) } " was denied it: " (denial.rule) "."
                        @if let Some(why) = why { " The plugin says why: " q { (why) } } }
                    form.row method="post" action={ (self.here) "/grant" } {
                        input type="hidden" name="proof" value=(self.proof);
                        input type="hidden" name="effect" value=(effect);
                        button.yes name="grant" value="once" { "Grant once" }
                        button.yes name="grant" value="run" { "Grant for this run" }
                        button.no name="grant" value="refuse" { "Refuse" }
                    }
                    p.quiet { "For every run: " code { "opcell runs approve " (self.state.run()) " --grant always" } }
                }
            },
            Question::Doubt { effect, step, what } => html! {
                div.box { p { b { "In doubt: " } (what) " of step " code { (step) } }
                    p.quiet { code { "opcell runs resume " (self.state.run()) " --effect " (effect) " --retry | --skip | --fail" } } }
            },
        }
    }

    fn pages(&self, len: usize, from: usize) -> Markup {
        html! { @if len > SPANS { p {
            @if from > 0 { a href={ (self.here) "?from=" (from.saturating_sub(SPANS)) "#timeline" } { "Earlier" } " · " }
            @let (from, next) = (from.min(len), from.saturating_add(SPANS));
            ((from + 1).min(len)) "–" (next.min(len)) " of " (len)
            @if next < len { " · " a href={ (self.here) "?from=" (next) "#timeline" } { "Later" } }
        } } }
    }

    /// What models were sent, and what they answered.
    fn conversation(&self) -> Markup {
        let mut parts: Vec<Markup> = Vec::new();
        for recorded in self.history {
            let at = recorded.seq;
            match &recorded.event {
                Event::Replied { reply: EffectReply::Open(Ok(opened)), .. } => parts.push(html! {
                    details id={ "prompt-" (at) } { summary { "Prompt, " (opened.system.len()) " bytes, for " (opened.models.join(", ")) }
                        (sections(&opened.sections)) }
                }),
                Event::TurnStarted { messages, .. } => parts.extend(messages.iter().map(|message| said(message.role, &message.content))),
                Event::Interjected { message, .. } => parts.push(said(message.role, &message.content)),
                Event::Replied { reply: EffectReply::Round(Ok(reply)), .. } => parts.push(html! {
                    (said(reply.message.role, &reply.message.content))
                    @for call in &reply.message.tool_calls { div.said { span.kind { "calls " } code { (call.name) } (value(&call.arguments)) } }
                    p.quiet { (reply.model) ": " (reply.usage.input_tokens) " tokens in, " (reply.usage.output_tokens) " out" }
                }),
                _ => {}
            }
        }
        let hidden = parts.len().saturating_sub(SAID);
        html! { @if !parts.is_empty() {
            h2 { "Conversation" }
            @if hidden > 0 { p.quiet { (hidden) " earlier messages are in " code { "opcell runs show " (self.state.run()) " --events --full" } } }
            @for part in parts.iter().skip(hidden) { (part) }
        } }
    }
}

fn said(role: opcell_engine::conversation::Role, content: &str) -> Markup {
    html! { @if !content.is_empty() { div.said { span.kind { (format!("{role:?}").to_lowercase()) } pre { (cut(content)) } } } }
}

fn sections(of: &Value) -> Markup {
    let sections = of.get("sections").unwrap_or(of).as_array().unwrap_or_default();
    html! { @for section in sections {
        h3 { (section.get("component").and_then(Value::as_str).unwrap_or("section")) " "
            span.kind { (section.get("bytes").map(Value::to_json).unwrap_or_default()) " bytes, about "
                (section.get("tokens").map(Value::to_json).unwrap_or_default()) " tokens" } }
        pre { (cut(section.get("text").and_then(Value::as_str).unwrap_or_default())) }
    } }
}

fn fact(name: &str, used: u64, limit: Option<u64>) -> Markup {
    html! { @if used > 0 || limit.is_some() { li { b { (name) " " } (used) @if let Some(limit) = limit { " of " (limit) } } } }
}

fn value(of: &Value) -> Markup {
    let text = match of.as_str() {
        Some(text) => text.to_owned(),
        None => serde_json::to_string_pretty(&Json::from(of)).unwrap_or_default(),
    };
    html! { pre { (cut(&text)) } }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT) {
        Some((at, _)) => format!("{}… ({} bytes)", text.get(..at).unwrap_or_default(), text.len()),
        None => text.to_owned(),
    }
}

/// Each denial once, without the one that the page begins with.
fn denials(all: &[Span], shown: Option<&Denial>) -> Vec<Denial> {
    let mut found: Vec<Denial> = Vec::new();
    for denial in all.iter().filter_map(|span| span.receipt.as_ref()).flat_map(remedy::of_receipt) {
        if !found.contains(&denial) && shown != Some(&denial) {
            found.push(denial);
        }
    }
    found
}

fn denied(denial: &Denial) -> Markup {
    html! { div.box.denied {
        p { b { (denial.capability) } " was denied: " (denial.rule) }
        @if let Some(remedy) = remedy::render(&denial.remedy) { p { "To allow it: " code { (remedy) } } }
    } }
}

/// Bars over the time of the run, each with what is known of it.
fn timeline(all: &[&Span], from: usize, began: Timestamp, last: Timestamp) -> Markup {
    let whole = last.ms_since(began).max(0.001);
    let row = |span: &Span| {
        let end = span.ended.unwrap_or(last);
        let left = span.began.ms_since(began) / whole * 1000.0;
        let width = (end.ms_since(span.began) / whole * 1000.0).max(2.0);
        let class = match (&span.failure, span.ended) {
            (Some(_), _) => "bad",
            (None, None) => "open",
            _ => "",
        };
        let head = html! {
            span class={ "name d" (span.depth.min(5)) } { span.kind { (span.kind.as_str()) " " } (span.name)
                @if let Some(failure) = &span.failure { " " span.failed { (failure) } } }
            span.took { @if span.ended.is_some() { (duration(end.ms_since(span.began))) } @else { "…" } }
            svg viewBox="0 0 1000 10" preserveAspectRatio="none" aria-hidden="true" {
                rect x=(format!("{left:.1}")) y="0" width=(format!("{width:.1}")) height="10" {} }
        };
        html! { li id={ "e" (span.seq) } class=(class) {
            details id={ "s" (span.seq) } {
                summary { (head) }
                p.quiet { a href={ "#e" (span.seq) } { "event " (span.seq) } " · " (span.began.to_text())
                    @for (key, fact) in &span.facts { " · " (key) " = " (fact.to_json()) } }
                @if let Some(receipt) = &span.receipt { (value(receipt)) }
            }
        } }
    };
    html! { ol.timeline { @for span in all.iter().skip(from).take(SPANS) { (row(span)) } } }
}

/// The graph of a run as an image.
pub(super) async fn graph(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    api::run_graph(&app, &admitted, run.into(), GraphFormat::Svg).await
}

/// Where a reader is.
#[derive(Deserialize)]
pub(super) struct After {
    #[serde(default)]
    after: u64,
}

/// News of a run.
pub(super) async fn live(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Params(after): Params<After>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let last = headers.get("last-event-id").and_then(|id| id.to_str().ok()).and_then(|id| id.parse().ok());
    api::stream(&admitted.tenant, run.into(), last.unwrap_or(after.after), app.stop.clone()).await
}

/// The run as a file.
pub(super) async fn export(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Params(params): Params<ExportParams>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    api::exported(&admitted, run.into(), params).await
}

/// An answer from the page.
#[derive(Deserialize)]
pub(super) struct Answer {
    proof: String,
    name: String,
    approved: bool,
    #[serde(default)]
    why: String,
}

/// Approves or refuses.
pub(super) async fn answer(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<Answer>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Approve)?;
    let why = Some(form.why.as_str()).filter(|why| !why.is_empty());
    let _sent = api::answer(&admitted, run.as_str().into(), Some(&form.name), form.approved, why).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// What is granted on the page.
#[derive(Deserialize)]
pub(super) struct GrantForm {
    proof: String,
    effect: u64,
    grant: api::GrantBody,
}

/// Grants what a plugin was denied, or refuses it.
pub(super) async fn grant(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<GrantForm>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Admin)?;
    let _sent =
        api::grant(&admitted, run.as_str().into(), api::Wanted::Effect(EffectId(form.effect)), form.grant).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// A button.
#[derive(Deserialize)]
pub(super) struct Pressed {
    proof: String,
}

/// Cancels.
pub(super) async fn cancel(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<Pressed>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Run)?;
    let message = Message::Cancel { reason: "cancelled on the page".into(), by: Some(admitted.caller.name.clone()) };
    admitted.tenant.host.engine().send(&run.as_str().into(), &message).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// Where to fork.
#[derive(Deserialize)]
pub(super) struct ForkAt {
    proof: String,
    at: u64,
}

/// Forks.
pub(super) async fn fork(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<ForkAt>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Run)?;
    let fork = admitted.tenant.host.engine().fork(&run.into(), form.at, None).await?;
    Ok(Redirect::to(&run_place(&tenant, &fork)).into_response())
}
