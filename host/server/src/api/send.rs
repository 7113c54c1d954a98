//! Messages to runs: signals, messages of a user, approvals, requests to cancel.

use super::{
    body::{At, Body},
    runs::fold,
    shown,
};
use crate::{
    access::{Admitted, Approving, Running},
    problem::Problem,
};
use axum::{Json, http::StatusCode};
use opcell_engine::{Delivery, MESSAGE_SIGNAL, Message, outcome::Question};
use opcell_journal::RunId;
use opcell_types::Value;
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
    let asked = fold(&admitted.tenant, &run).await?.questions();
    let is_approval = asked
        .iter()
        .any(|question| matches!(question, Question::Signal { name, approval: true, .. } if **name == *body.name));
    if is_approval && !admitted.caller.may(crate::access::tokens::Scope::Approve) {
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
    /// Name of the approval; needed if the run asks for several.
    name: Option<String>,
    /// Whether it is approved; true by default.
    approved: Option<bool>,
    /// Reason to record.
    why: Option<String>,
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
    let state = fold(&admitted.tenant, &run).await?;
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
