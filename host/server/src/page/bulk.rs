//! Many runs at once: a selection of those that a list shows, to be cancelled or deleted after a look at their names.

use super::{
    door::Visitor,
    list::{RUNS_PER_PAGE, Wanted},
    moment, page, place, run_place,
};
use crate::{
    access::tokens::Scope,
    api::{At, Params},
    problem::Problem,
};
use axum::{
    Form,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use opcell_engine::{Message, event::Timestamp};
use opcell_journal::{JournalError, RunEntry, RunId};
use std::sync::Arc;

/// Asks which of the runs of a list are meant. The page is not live: a selection must not change under its reader.
pub(super) async fn select(
    visitor: Visitor,
    At(tenant): At<String>,
    Params(wanted): Params<Wanted>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let engine = admitted.tenant.host.engine();
    let runs = engine.runs_page(wanted.query(RUNS_PER_PAGE)?).await?;
    let now = engine.ports().timer.now().0;
    let (ended, open): (Vec<&RunEntry>, Vec<&RunEntry>) = runs.iter().partition(|run| run.state.ended);
    let form = |verb: &str, runs: &[&RunEntry], quiet: &str| -> Markup {
        html! { @if runs.is_empty() { p.quiet { (quiet) } } @else {
            form method="post" action=(place(&tenant, &format!("/selected/{verb}"))) {
                input type="hidden" name="proof" value=(visitor.proof());
                ul { @for run in runs { li {
                    label { input type="checkbox" name="run" value=(run.run) checked; " " (run.run) }
                    " " a href=(run_place(&tenant, &run.run)) { (run.status(now)) }
                    span.quiet { " · " (run.workflow) " · " (moment(&Timestamp(run.created_at).to_text())) " UTC" }
                } } }
                p { label { input type="checkbox" name="sure" value="yes" required; " I am sure" } " "
                    button.no { @if verb == "cancel" { "Cancel the selected runs" } @else { "Delete the selected runs" } } }
            }
        } }
    };
    let main = html! {
        h1 { "Select runs" }
        p.quiet { "At most " (RUNS_PER_PAGE) " runs, the newest of those that the list shows." }
        h2 { "Cancel" }
        @if admitted.caller.may(Scope::Run) { (form("cancel", &open, "All of them have ended.")) }
        @else { p.quiet { "The token lacks the scope " code { "run" } "." } }
        h2 { "Delete" }
        @if admitted.caller.may(Scope::Admin) { (form("delete", &ended, "None of them has ended.")) }
        @else { p.quiet { "The token lacks the scope " code { "admin" } "." } }
    };
    Ok(page("Select runs", Some(&tenant), &visitor, None, main))
}

/// The runs that a form names, if whoever sent it is sure.
fn selected(visitor: &Visitor, form: &[(String, String)]) -> Result<Vec<RunId>, Problem> {
    let all = |key: &'static str| form.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.as_str());
    visitor.check(all("proof").next().unwrap_or_default())?;
    if !all("sure").any(|sure| sure == "yes") {
        let problem = Problem::bad_request("invalid-input", "the form does not say that its sender is sure");
        return Err(problem.remedy("go back, and tick `I am sure`"));
    }
    Ok(all("run").take(RUNS_PER_PAGE).map(Arc::from).collect())
}

/// Cancels runs. One that has ended since stays as it is.
pub(super) async fn cancel(
    visitor: Visitor,
    At(tenant): At<String>,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let runs = selected(&visitor, &form)?;
    let admitted = visitor.admit(&tenant, Scope::Run)?;
    let by = Some(admitted.caller.name.clone());
    let message = Message::Cancel { reason: "cancelled on the page".into(), by };
    for run in runs {
        match admitted.tenant.host.engine().send(&run, &message).await {
            Ok(_) => tracing::info!(target: "opcell::audit", caller = %admitted.caller.name, tenant, %run, "cancelled"),
            Err(error) if has_ended(&error) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Redirect::to(&place(&tenant, "")).into_response())
}

/// Returns `true` if a run needs no cancelling any more.
fn has_ended(error: &opcell_engine::RunError) -> bool {
    matches!(error, opcell_engine::RunError::Journal(error)
        if matches!(**error, JournalError::Ended { .. } | JournalError::UnknownRun(_)))
}

/// Deletes runs that have ended. One that is gone since is deleted already.
pub(super) async fn delete(
    visitor: Visitor,
    At(tenant): At<String>,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let runs = selected(&visitor, &form)?;
    let admitted = visitor.admit(&tenant, Scope::Admin)?;
    for run in runs {
        match admitted.tenant.host.engine().journal().delete(&run).await {
            Ok(deleted) => {
                tracing::info!(target: "opcell::audit", caller = %admitted.caller.name, tenant, %run, deleted,
                "asked to delete")
            }
            Err(JournalError::UnknownRun(_)) => {}
            Err(error) => return Err(opcell_engine::RunError::Journal(Arc::new(error)).into()),
        }
    }
    Ok(Redirect::to(&place(&tenant, "")).into_response())
}
