//! Messages to runs: signals, messages of a user, approvals, requests to cancel.

use super::body::{At, Body, MayBody};
use crate::{
    access::{Admitted, Approving, Running},
    problem::Problem,
};
use axum::{Json, http::StatusCode};
use opcell::remedy;
use opcell_engine::{
    AskedApproval, AskedGrant, Delivery, MESSAGE_SIGNAL, Message, NotChosen, Sender, Wanted,
    event::{CallAnswer, GrantScope},
};
use opcell_journal::RunId;
use opcell_types::{Denial, Value};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json_;
use std::sync::Arc;
use utoipa::ToSchema;

/// A signal to send.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SignalBody {
    /// Its name.
    name: String,
    /// Its data; null by default.
    #[schema(value_type = Option<Json_>)]
    data: Option<Value>,
}

/// A message was sent.
#[derive(Debug, Serialize, ToSchema)]
pub struct Sent {
    /// The run that it was sent to.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// The step that receives it now; absent: it is queued until a step waits for it.
    #[schema(value_type = Option<String>)]
    step: Option<Arc<str>>,
}

impl Sent {
    /// Sent to a run, and not to a step of it.
    pub(super) fn to(run: RunId) -> Self {
        Self { run, step: None }
    }
}

async fn deliver(admitted: &Admitted, run: RunId, name: Arc<str>, data: Value) -> Result<Json<Sent>, Problem> {
    let may_approve = admitted.caller.may(crate::access::tokens::Scope::Approve);
    let sender = Sender { by: Some(admitted.caller.name.clone()), key: None, may_approve };
    // The run is read to see whether it takes this.
    let _room = admitted.tenant.views.room().await?;
    let delivery = admitted.tenant.host.engine().signal_from(&run, &name, data, sender).await?;
    admitted.tenant.feeds.answered(&run);
    let step = match delivery {
        Some(Delivery::Now(step)) => Some(step),
        Some(Delivery::Queued) | None => None,
    };
    Ok(Json(Sent { run, step }))
}

/// Sends a signal to a run.
#[utoipa::path(post, operation_id = "send_signal", path = "/v1/{tenant}/runs/{run}/signal", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = SignalBody, responses(
    (status = 200, description = "It was sent", body = Sent),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn signal(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    Body(body): Body<SignalBody>,
) -> Result<Json<Sent>, Problem> {
    deliver(&admitted, run.into(), body.name.into(), body.data.unwrap_or(Value::Null)).await
}

/// A message of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody {
    /// The user's message.
    text: String,
}

/// Sends a user's message to a conversational run.
#[utoipa::path(post, operation_id = "send_message", path = "/v1/{tenant}/runs/{run}/message", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = MessageBody, responses(
    (status = 200, description = "It was sent", body = Sent),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn message(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    Body(body): Body<MessageBody>,
) -> Result<Json<Sent>, Problem> {
    deliver(&admitted, run.into(), MESSAGE_SIGNAL.into(), Value::from(body.text)).await
}

/// An answer to what a run asks.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveBody {
    /// ID of the question, as the run's `questions` have it: another question is answered with 409. Needed where the
    /// run asks again what was answered before.
    question: Option<String>,
    /// Name of the approval, or what is to be granted, such as `store kept`; needed if the run asks for several.
    name: Option<String>,
    /// The step that asks, or its path; needed if several ask under one name.
    step: Option<String>,
    /// `true` if it is approved; the default.
    approved: Option<bool>,
    /// Reason to record.
    why: Option<String>,
    /// Instead: grants what a plugin was denied, or refuses it; needs the scope `admin`.
    grant: Option<GrantBody>,
    /// IDs of questions about calls: one answer for all of them.
    questions: Option<Vec<String>>,
    /// Of a call: arguments to call the tool with, instead of the model's.
    #[schema(value_type = Option<Json_>)]
    arguments: Option<Value>,
    /// Of a call: whether the same call needs no further answer in this run.
    remember: Option<RememberBody>,
}

/// The duration of a call's approval: for the same tool with the same arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RememberBody {
    /// This call.
    Once,
    /// This run.
    Run,
}

/// The most calls that one answer is for.
const MAX_CALLS: usize = 100;

/// Answers questions about calls, each by its ID.
pub(crate) async fn answer_calls(
    admitted: &Admitted,
    run: RunId,
    questions: Vec<String>,
    answer: &CallAnswer,
    from: &str,
) -> Result<Json<Sent>, Problem> {
    if questions.len() > MAX_CALLS {
        let detail = format!("one answer is for at most {MAX_CALLS} calls");
        return Err(Problem::bad_request("invalid-body", detail));
    }
    own(admitted, &run)?;
    // The run is read to see whether it still asks this.
    let _room = admitted.tenant.views.room().await?;
    for question in &questions {
        let (by, from) = (Some(admitted.caller.person()), Some(from.into()));
        let engine = admitted.tenant.host.engine();
        engine.answer_call(&run, question, answer.clone(), by, from).await?;
        admitted.tenant.feeds.answered(&run);
        let approved = matches!(answer, CallAnswer::Approve { .. });
        tracing::info!(target: "opcell::audit", caller = %admitted.caller.name, tenant = %admitted.tenant.name, run = %run,
            question, approved, "answered about a call");
    }
    Ok(Json(Sent { run, step: None }))
}

/// The answer to a call that was denied something.
#[derive(Debug, Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum GrantBody {
    /// It has that, once.
    Once,
    /// Every call of the plugin in this run has that.
    Run,
    /// Every run has that: it is written into the project file.
    Always,
    /// It has failed.
    Refuse,
}

/// Grants what plugins of a run were denied, or refuses it.
pub(crate) async fn grant(
    admitted: &Admitted,
    run: RunId,
    wanted: Wanted<'_>,
    grant: GrantBody,
) -> Result<Json<Sent>, Problem> {
    if !admitted.caller.may(crate::access::tokens::Scope::Admin) {
        let detail = "a grant is more than a plugin was given, and the token does not have the scope `admin`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail));
    }
    let view = admitted.tenant.views.of(&run).await?;
    let status = view.state().status();
    let pins = view.state().pins().clone();
    let asked = view.state().chosen_grant(&wanted).map_err(|why| {
        let listed = |asked: &AskedGrant| {
            let ids = asked.calls.iter().map(|(_, id)| format!("`{id}`")).collect::<Vec<_>>().join(", ");
            format!("`{}` ({ids})", asked.denial.capability)
        };
        not_chosen(&run, "grant", status, why, listed)
    })?;
    drop(view);
    if !matches!(grant, GrantBody::Refuse) {
        own(admitted, &run)?;
        let denial = &asked.denial;
        let is_pinned = |plugin: &str| pins.contains_key(format!("plugin {plugin}").as_str());
        if !remedy::fits(denial) || !denial.remedy.plugin().is_none_or(is_pinned) {
            return Err(misfit(&run, denial));
        }
    }
    let grant = match grant {
        GrantBody::Once => Some(GrantScope::Once),
        GrantBody::Run => Some(GrantScope::Run),
        GrantBody::Always => {
            write_grant(admitted, &asked.denial).await?;
            Some(GrantScope::Run)
        }
        GrantBody::Refuse => None,
    };
    for (effect, question) in asked.calls {
        let by = Some(admitted.caller.name.clone());
        let message = Message::Grant { effect: Some(effect), grant, question: Some(question), by };
        admitted.tenant.host.engine().send(&run, &message).await?;
        admitted.tenant.feeds.answered(&run);
    }
    Ok(Json(Sent { run, step: None }))
}

fn misfit(run: &RunId, denial: &Denial) -> Problem {
    let detail = format!(
        "run `{run}` was denied {}, but what it asks for is something else: {}",
        denial.capability, denial.remedy
    );
    Problem::new(StatusCode::CONFLICT, "grant-does-not-fit", detail).remedy("refuse it")
}

/// Refuses a run that came with the journal and that was not adopted here.
///
/// # Errors
/// 409, with the command that adopts it.
pub(crate) fn own(admitted: &Admitted, run: &RunId) -> Result<(), Problem> {
    if !admitted.tenant.host.engine().journal().is_from_elsewhere(run) {
        return Ok(());
    }
    let detail = format!("run `{run}` was not made here: it came with the journal");
    let remedy = format!("if it may go on, on the server: opcell runs adopt {run}");
    Err(Problem::new(StatusCode::CONFLICT, "run-from-elsewhere", detail).remedy(remedy))
}

/// Writes what was denied into the tenant's project file. The plugin is loaded again when the file is seen to have
/// changed; until then, the run has it as its own.
pub(crate) async fn write_grant(admitted: &Admitted, denial: &Denial) -> Result<(), Problem> {
    let (tenant, caller) = (&admitted.tenant, &admitted.caller);
    let Some(project) = tenant.project.clone() else {
        let detail = "this server has no project file that it could write";
        return Err(Problem::new(StatusCode::CONFLICT, "no-project", detail).remedy("grant it for this run"));
    };
    let remedy = denial.remedy.clone();
    let _writing = tenant.writing.lock().await;
    let written = tokio::task::spawn_blocking(move || project.grant(&remedy)).await;
    let written = written.map_err(|_| {
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "not-written", "writing the project file was abandoned")
    })??;
    tracing::info!(target: "opcell::audit", caller = %caller.name, tenant = %tenant.name, file = %written.display(),
        capability = denial.capability, "granted always");
    Ok(())
}

/// Why an answer is for no question of a run.
fn not_chosen<T>(
    run: &RunId,
    kind: &str,
    status: impl std::fmt::Display,
    why: NotChosen<T>,
    listed: impl Fn(&T) -> String,
) -> Problem {
    match why {
        NotChosen::Nothing => {
            let detail = format!("run `{run}` does not ask for such a {kind}; it is {status}");
            Problem::new(StatusCode::CONFLICT, "nothing-to-approve", detail)
        }
        NotChosen::Gone => {
            let detail = format!("run `{run}` does not ask that any more: it was answered, or the run has continued");
            Problem::new(StatusCode::CONFLICT, "not-asked", detail).remedy("look at the run's `questions` again")
        }
        NotChosen::Several(several) => {
            let listed: Vec<String> = several.iter().map(listed).collect();
            let detail = format!("run `{run}` asks for {} {kind}s: {}", listed.len(), listed.join(", "));
            let problem = match kind {
                "grant" => Problem::new(StatusCode::CONFLICT, "ambiguous-grant", detail),
                _ => Problem::new(StatusCode::CONFLICT, "ambiguous-approval", detail),
            };
            problem.remedy("send the `name`, the `step` or the `question` of one of them")
        }
        NotChosen::Again(asked) => {
            let listed = listed(&asked);
            let detail = format!("run `{run}` was answered before, and this does not say that it is for {listed}");
            let problem = Problem::new(StatusCode::CONFLICT, "question-missing", detail);
            problem.remedy("send the `question`: the `id` that the run's `questions` have")
        }
    }
}

/// Answers a question of a run: approves or refuses. The journal records the caller's name.
#[utoipa::path(post, operation_id = "approve_run", path = "/v1/{tenant}/runs/{run}/approve", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = ApproveBody, responses(
    (status = 200, description = "The answer was sent", body = Sent),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn approve(
    Approving(admitted): Approving,
    At((_, run)): At<(String, String)>,
    Body(body): Body<ApproveBody>,
) -> Result<Json<Sent>, Problem> {
    if let Some(grant) = body.grant {
        if body.approved.is_some() {
            let detail = "`grant` answers what a plugin was denied, and `approved` an approval";
            return Err(Problem::bad_request("invalid-body", detail).remedy("send one of them"));
        }
        return self::grant(&admitted, run.into(), body.wanted(), grant).await;
    }
    let run: RunId = run.into();
    let view = admitted.tenant.views.of(&run).await?;
    let about_calls: Vec<String> = match (&body.questions, &body.question) {
        (Some(questions), _) => questions.clone(),
        (None, Some(question)) if view.state().asked_call(question).is_some() => vec![question.clone()],
        _ => Vec::new(),
    };
    drop(view);
    // An empty list is no answer to whatever else the run asks.
    let is_about_calls = body.questions.is_some() || body.arguments.is_some() || body.remember.is_some();
    if !about_calls.is_empty() || is_about_calls {
        if about_calls.is_empty() {
            let detail = "`arguments` and `remember` answer a question about a call, which needs its `question`";
            return Err(
                Problem::bad_request("invalid-body", detail).remedy("send the `id` that the run's `questions` have")
            );
        }
        let answer = match body.approved.unwrap_or(true) {
            false => CallAnswer::Refuse { reason: body.why.as_deref().map(Into::into) },
            true => CallAnswer::Approve {
                arguments: body.arguments.clone().unwrap_or(Value::Undefined),
                run: body.remember == Some(RememberBody::Run),
            },
        };
        return answer_calls(&admitted, run, about_calls, &answer, "api").await;
    }
    answer(&admitted, run, body.wanted(), body.approved.unwrap_or(true), body.why.as_deref()).await
}

impl ApproveBody {
    fn wanted(&self) -> Wanted<'_> {
        Wanted { name: self.name.as_deref(), step: self.step.as_deref(), question: self.question.as_deref() }
    }
}

/// Answers an approval of a run: the one that was shown, and no other.
pub(crate) async fn answer(
    admitted: &Admitted,
    run: RunId,
    wanted: Wanted<'_>,
    approved: bool,
    why: Option<&str>,
) -> Result<Json<Sent>, Problem> {
    own(admitted, &run)?;
    let view = admitted.tenant.views.of(&run).await?;
    let status = view.state().status();
    let asked = view.state().chosen_approval(&wanted).map_err(|why| {
        let listed = |asked: &AskedApproval| format!("`{}` of step `{}` (`{}`)", asked.name, asked.path, asked.id);
        not_chosen(&run, "approval", status, why, listed)
    })?;
    drop(view);
    let mut data = vec![("approved", Value::from(approved))];
    data.extend(why.map(|why| ("why", Value::from(why))));
    // The run is read to see whether it still asks this.
    let _room = admitted.tenant.views.room().await?;
    let by = Some(admitted.caller.name.clone());
    let delivery = admitted.tenant.host.engine().answer(&run, &asked.id, Value::object(data), by).await?;
    admitted.tenant.feeds.answered(&run);
    let step = match delivery {
        Delivery::Now(step) => Some(step),
        Delivery::Queued => None,
    };
    Ok(Json(Sent { run, step }))
}

/// Why a run is cancelled.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// Reason to record; `cancelled` by default.
    reason: Option<String>,
}

/// Asks a run to stop. Its status shows when it has ended.
#[utoipa::path(post, operation_id = "cancel_run", path = "/v1/{tenant}/runs/{run}/cancel", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = Option<CancelBody>, responses(
    (status = 202, description = "The request to cancel was sent", body = Sent),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    MayBody(body): MayBody<CancelBody>,
) -> Result<(StatusCode, Json<Sent>), Problem> {
    let run: RunId = run.into();
    let reason = body.reason.unwrap_or_else(|| "cancelled".to_owned());
    let message = Message::Cancel { reason: reason.into(), by: Some(admitted.caller.name.clone()) };
    admitted.tenant.host.engine().send(&run, &message).await?;
    admitted.tenant.feeds.answered(&run);
    Ok((StatusCode::ACCEPTED, Json(Sent { run, step: None })))
}
