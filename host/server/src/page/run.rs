//! One run: what it waits for, its timeline, the graph with the path taken, conversations, denials, artifacts, budgets.

mod answers;
mod data;
pub(super) mod form;
pub(super) mod history;
mod panel;
mod receipt;
mod shown;
mod timeline;

use super::{News, door::Visitor, place, run_place, whole};
use crate::{
    access::{Standing, tokens::Scope},
    answers::PieceKinds,
    api::{self, App, At, ExportParams, GraphFormat, Params},
    problem::Problem,
    view::Said,
};
use axum::{
    Form,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Redirect, Response},
};
use opcell::Denial;
use opcell_engine::{Event, Message, Wanted, event::CallAnswer};
use opcell_journal::RunId;
use opcell_types::Value;
use panel::Panel;
use serde::Deserialize;
use shown::{May, SAID, SPANS, Shown, Window};
use std::{collections::BTreeMap, sync::Arc};

/// The part of a long run.
#[derive(Default, Deserialize)]
pub(super) struct Part {
    /// The first span of the timeline.
    #[serde(default)]
    from: usize,
    /// Only spans that failed.
    #[serde(default)]
    failed: bool,
    /// The first event of the conversation; the last ones by default.
    said: Option<usize>,
    /// The chosen row, by the ID of its span.
    row: Option<String>,
}

/// The interval at which the page of a run that is still being read reloads, in milliseconds.
const RELOAD_INTERVAL_MS: u32 = 500;

/// Shows a run. Of a long one, only what is shown of it is read again, and no page waits until all of it has been read
/// once.
pub(super) async fn show(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Params(part): Params<Part>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let run: RunId = run.into();
    let views = &admitted.tenant.views;
    let (mut view, is_all) = views.glance(&run).await?;
    let (spans, all) = view.window(part.failed, part.from, SPANS);
    let said = part.said.unwrap_or_else(|| view.said().len().saturating_sub(SAID));
    let conversation: Vec<Said> = view.said().iter().skip(said).take(SAID).cloned().collect();
    let panel = part.row.as_deref().and_then(|row| Panel::of(&view, row));
    let answers: Vec<u64> = view.answers().collect();
    let state = view.state();
    let began = state.own_start();
    let forked = state.forked().cloned();
    let before_failure = view.before_failure();
    let state = view.state();
    let engine = admitted.tenant.host.engine();
    // What continues, or waits, lasts until now.
    let now = engine.ports().timer.now();
    let last = if state.status().has_ended() { view.last().map_or(began, |last| last.at) } else { now };
    let mut shown = Shown {
        here: run_place(&tenant, &run),
        compare: place(&tenant, "/compare"),
        proof: visitor.proof(),
        may: May::of(&admitted.caller),
        workflow: state.program().map(|program| program.name().clone()),
        outcome: state.outcome(),
        partly: None,
        limits: *state.limits(),
        seq: state.seq(),
        began,
        last,
        failures: view.failures(),
        timeline: Window { from: part.from, all, failed: part.failed },
        is_cut: view.is_cut(),
        spans,
        no_row: part.row.clone().filter(|_| panel.is_none()),
        panel,
        data: BTreeMap::new(),
        answers,
        input: None,
        denials: view.denials().to_vec(),
        forked,
        before_failure,
        standing: None,
        is_reading_talk: part.said.is_some(),
        talk: Window { from: said, all: view.said().len(), failed: false },
        said: Vec::new(),
    };
    drop(view);
    shown.stands(&admitted.tenant, &run).await?;
    if !is_all {
        shown.partly_read(&admitted.tenant, &run).await?;
    }
    let mut wanted = shown.panel.as_ref().map(Panel::wanted).unwrap_or_default();
    wanted.extend(shown.answers.iter().copied().chain([1]));
    shown.data = views.events(&run, wanted).await?;
    shown.input = shown.data.get(&1).and_then(|first| match &first.event {
        Event::RunStarted(started) => Some(started.input.clone()),
        _ => None,
    });
    let mut events = views.events(&run, conversation.iter().map(|said| said.seq).collect()).await?;
    shown.said = conversation
        .into_iter()
        .filter_map(|said| Some((events.remove(&said.seq)?, said)))
        .map(|(event, said)| (said, event))
        .collect();
    let live = format!("{}/live?after={}", shown.here, shown.seq);
    let news = match &shown.partly {
        Some(_) => News { every: Some(RELOAD_INTERVAL_MS), reload: true, ..News::default() },
        None if shown.outcome.status.has_ended() => News::default(),
        None => News { live: Some(&live), ..News::default() },
    };
    Ok(whole(&run, Some(&tenant), Some(&visitor), news, shown.render(&run)))
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

/// The position of a reader.
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
    let standing = Standing::new(&app, &visitor.headers, &admitted.tenant, Scope::Read);
    let after = last.unwrap_or(after.after);
    api::stream(&admitted.tenant, run.into(), after, PieceKinds::All, app.stop.clone(), standing).await
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

/// The question that a form was under: it answers no other.
fn question(id: &str) -> Wanted<'_> {
    Wanted { question: Some(id), ..Wanted::default() }
}

/// An answer from the page.
#[derive(Deserialize)]
pub(super) struct Answer {
    proof: String,
    /// The question that the form was under.
    question: String,
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
    let _sent = api::answer(&admitted, run.as_str().into(), question(&form.question), form.approved, why).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// An answer about calls from the page.
#[derive(Deserialize)]
pub(super) struct CallForm {
    proof: String,
    /// The questions that the form was under, with spaces between them.
    questions: String,
    answer: CallWord,
    #[serde(default)]
    why: String,
    #[serde(default)]
    arguments: String,
}

/// An answer about calls.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum CallWord {
    /// They are made.
    Approve,
    /// They are made, and so are the same ones in this run.
    Run,
    /// They are not.
    Refuse,
}

/// Answers for calls.
pub(super) async fn call(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<CallForm>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Approve)?;
    let given = |text: &str| (!text.trim().is_empty()).then(|| text.to_owned());
    let answer = match form.answer {
        CallWord::Refuse => CallAnswer::Refuse { reason: given(&form.why).map(Into::into) },
        word => {
            let arguments = match given(&form.arguments) {
                None => Value::Undefined,
                Some(json) => Value::from_json(&json).map_err(|error| {
                    Problem::bad_request("invalid-arguments", format!("the arguments are not JSON: {error}"))
                })?,
            };
            CallAnswer::Approve { arguments, run: word == CallWord::Run }
        }
    };
    let questions = form.questions.split(' ').map(str::to_owned).collect();
    let _sent = api::answer_calls(&admitted, run.as_str().into(), questions, &answer, "page").await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// The grant that is made on the page.
#[derive(Deserialize)]
pub(super) struct GrantForm {
    proof: String,
    /// The question that the form was under.
    question: String,
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
    let _sent = api::grant(&admitted, run.as_str().into(), question(&form.question), form.grant).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// A denial that is to be lifted.
#[derive(Deserialize)]
pub(super) struct AllowForm {
    proof: String,
    plugin: String,
    capability: String,
}

/// Grants what a plugin was denied in this run, for those that come later.
pub(super) async fn allow(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<AllowForm>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Admin)?;
    let denial = {
        let view = admitted.tenant.views.of(&run.as_str().into()).await?;
        let of_end = view.state().outcome().denial.map(|denial| *denial);
        let is_meant = |denial: &Denial| {
            denial.capability == form.capability && denial.remedy.plugin() == Some(form.plugin.as_str())
        };
        view.denials().iter().cloned().chain(of_end).find(is_meant)
    };
    let denial = denial.ok_or_else(|| {
        let detail = format!("run `{}` was not denied that", api::shown(&run));
        Problem::new(StatusCode::CONFLICT, "nothing-to-grant", detail)
    })?;
    api::own(&admitted, &run.as_str().into())?;
    if !opcell::remedy::fits(&denial) {
        let detail = format!("the run was denied {}, but the grant would be {}", denial.capability, denial.remedy);
        return Err(Problem::new(StatusCode::CONFLICT, "grant-does-not-fit", detail));
    }
    api::write_grant(&admitted, &denial).await?;
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
    let id: RunId = run.as_str().into();
    admitted.tenant.host.engine().send(&id, &message).await?;
    admitted.tenant.feeds.answered(&id);
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// The event to fork at.
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
    api::own(&admitted, &run.as_str().into())?;
    let _room = admitted.tenant.views.room().await?;
    api::may_share(&admitted, &run.as_str().into(), form.at).await?;
    let fork =
        admitted.tenant.host.engine().fork_by(&run.into(), form.at, None, Some(admitted.caller.name.clone())).await?;
    Ok(Redirect::to(&run_place(&tenant, &fork)).into_response())
}

/// Forks before the call with which the run failed.
pub(super) async fn retry(
    visitor: Visitor,
    At((tenant, run)): At<(String, String)>,
    Form(form): Form<Pressed>,
) -> Result<Response, Problem> {
    visitor.check(&form.proof)?;
    let admitted = visitor.admit(&tenant, Scope::Run)?;
    let run: RunId = run.into();
    api::own(&admitted, &run)?;
    let _room = admitted.tenant.views.room().await?;
    let engine = admitted.tenant.host.engine();
    let at = engine.retry_point(&run, None).await?;
    api::may_share(&admitted, &run, at).await?;
    let fork = engine.fork_by(&run, at, None, Some(admitted.caller.name.clone())).await?;
    Ok(Redirect::to(&run_place(&tenant, &fork)).into_response())
}
