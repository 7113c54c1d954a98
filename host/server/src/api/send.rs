//! Messages to runs: signals, messages of a user, approvals, requests to cancel.

use super::{
    body::{At, Body},
    shown,
};
use crate::{
    access::{Admitted, Approving, Running},
    problem::Problem,
};
use axum::{Json, http::StatusCode};
use opcell_engine::{
    Delivery, MESSAGE_SIGNAL, Message,
    event::{EffectId, GrantScope},
    outcome::Question,
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
    #[schema(value_type = String)]
    run: Arc<str>,
    /// The step that receives it now; absent: it is queued until a step waits for it.
    #[schema(value_type = Option<String>)]
    step: Option<Arc<str>>,
}

async fn deliver(admitted: &Admitted, run: RunId, name: Arc<str>, data: Value) -> Result<Json<Sent>, Problem> {
    let by = Some(admitted.caller.name.clone());
    // The run is read to see whether it takes this.
    let _room = admitted.tenant.views.room().await?;
    let delivery = admitted.tenant.host.engine().signal(&run, &name, data, by).await?;
    let step = match delivery {
        Delivery::Now(step) => Some(step),
        Delivery::Queued => None,
    };
    Ok(Json(Sent { run, step }))
}

/// Sends a signal to a run.
#[utoipa::path(post, path = "/v1/{tenant}/runs/{run}/signal", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = SignalBody, responses(
    (status = 200, body = Sent), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn signal(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    Body(body): Body<SignalBody>,
) -> Result<Json<Sent>, Problem> {
    let run: RunId = run.into();
    // Also one that no step waits for yet: it would be kept until then.
    let may_approve = admitted.tenant.views.of(&run).await?.state().signals().may_approve(&body.name);
    if may_approve && !admitted.caller.may(crate::access::tokens::Scope::Approve) {
        let detail = format!("`{}` is an approval, and the token does not have the scope `approve`", shown(&body.name));
        return Err(Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail));
    }
    deliver(&admitted, run, body.name.into(), body.data.unwrap_or(Value::Null)).await
}

/// A message of a user.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MessageBody {
    /// What the user says.
    text: String,
}

/// Sends a user's message to a conversational run.
#[utoipa::path(post, path = "/v1/{tenant}/runs/{run}/message", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = MessageBody, responses(
    (status = 200, body = Sent), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
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
    /// Name of the approval, or what is to be granted, such as `store kept`; needed if the run asks for several.
    name: Option<String>,
    /// Whether it is approved; true by default.
    approved: Option<bool>,
    /// Reason to record.
    why: Option<String>,
    /// Instead: grants what a plugin was denied, or refuses it; needs the scope `admin`.
    grant: Option<GrantBody>,
}

/// What becomes of a call that was denied something.
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
    let state = view.state();
    let (mut denials, mut effects) = (Vec::new(), Vec::new());
    for question in state.questions() {
        let Question::Grant { effect, denial, .. } = question else { continue };
        let is_wanted = match wanted {
            Wanted::Any => true,
            Wanted::Named(name) => denial.capability == name,
            Wanted::Effect(wanted) => effect == wanted,
        };
        if is_wanted {
            effects.push(effect);
            if !denials.contains(&denial) {
                denials.push(denial);
            }
        }
    }
    if denials.len() != 1 {
        let (code, detail) = match denials.len() {
            0 => ("nothing-to-approve", format!("run `{run}` does not ask for such a grant; it is {}", state.status())),
            several => ("ambiguous-grant", format!("run `{run}` asks for {several} grants; send the `name` of one")),
        };
        return Err(Problem::new(StatusCode::CONFLICT, code, detail));
    }
    drop(view);
    let grant = match grant {
        GrantBody::Once => Some(GrantScope::Once),
        GrantBody::Run => Some(GrantScope::Run),
        GrantBody::Always => {
            if let Some(denial) = denials.first() {
                write_grant(admitted, denial).await?;
            }
            Some(GrantScope::Run)
        }
        GrantBody::Refuse => None,
    };
    for effect in effects {
        let message = Message::Grant { effect: Some(effect), grant, by: Some(admitted.caller.name.clone()) };
        admitted.tenant.host.engine().send(&run, &message).await?;
    }
    Ok(Json(Sent { run, step: None }))
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

/// Which of the things that a run asks to be granted.
#[derive(Clone, Copy)]
pub(crate) enum Wanted<'a> {
    /// The only one.
    Any,
    /// What was denied, such as `store kept`.
    Named(&'a str),
    /// What this effect's call was denied.
    Effect(EffectId),
}

/// Approves what a run asks for, or refuses it. The caller's name is recorded.
#[utoipa::path(post, path = "/v1/{tenant}/runs/{run}/approve", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = ApproveBody, responses(
    (status = 200, body = Sent), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
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
        let wanted = body.name.as_deref().map_or(Wanted::Any, Wanted::Named);
        return self::grant(&admitted, run.into(), wanted, grant).await;
    }
    answer(&admitted, run.into(), body.name.as_deref(), body.approved.unwrap_or(true), body.why.as_deref()).await
}

/// Answers an approval of a run.
pub(crate) async fn answer(
    admitted: &Admitted,
    run: RunId,
    name: Option<&str>,
    approved: bool,
    why: Option<&str>,
) -> Result<Json<Sent>, Problem> {
    let view = admitted.tenant.views.of(&run).await?;
    let state = view.state();
    let asked: Vec<Arc<str>> = state
        .questions()
        .into_iter()
        .filter_map(|question| match question {
            Question::Signal { name: asked, approval: true, .. } if name.is_none_or(|name| *asked == *name) => {
                Some(asked)
            }
            _ => None,
        })
        .collect();
    let name = match asked.as_slice() {
        [one] => one.clone(),
        [] => {
            let detail = format!("run `{run}` does not wait for such an approval; it is {}", state.status());
            return Err(Problem::new(StatusCode::CONFLICT, "nothing-to-approve", detail));
        }
        several => {
            let detail = format!("run `{run}` waits for {} approvals: {}", several.len(), several.join(", "));
            let problem = Problem::new(StatusCode::CONFLICT, "ambiguous-approval", detail);
            return Err(problem.remedy("send the `name` of one of them"));
        }
    };
    drop(view);
    let mut data = vec![("approved", Value::from(approved))];
    data.extend(why.map(|why| ("why", Value::from(why))));
    deliver(admitted, run, name, Value::object(data)).await
}

/// Why a run is cancelled.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CancelBody {
    /// Reason to record; `cancelled` by default.
    reason: Option<String>,
}

/// Asks a run to stop. It has ended when its status says so.
#[utoipa::path(post, path = "/v1/{tenant}/runs/{run}/cancel", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = CancelBody, responses(
    (status = 202, body = Sent), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn cancel(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    Body(body): Body<CancelBody>,
) -> Result<(StatusCode, Json<Sent>), Problem> {
    let run: RunId = run.into();
    let reason = body.reason.unwrap_or_else(|| "cancelled".to_owned());
    let message = Message::Cancel { reason: reason.into(), by: Some(admitted.caller.name.clone()) };
    admitted.tenant.host.engine().send(&run, &message).await?;
    Ok((StatusCode::ACCEPTED, Json(Sent { run, step: None })))
}
