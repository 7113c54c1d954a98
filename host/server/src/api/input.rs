//! Answers to forms of tools that ask for input.

use super::{
    body::{At, Body},
    send::{Sent, own},
};
use crate::{
    access::{Admitted, Approving},
    problem::Problem,
};
use axum::Json;
use opcell_journal::RunId;
use opcell_types::{InputAnswer, Value};
use serde::Deserialize;
use serde_json::Value as Json_;
use utoipa::ToSchema;

/// An answer to a form.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct InputBody {
    /// ID of the question, as the run's `questions` have it.
    question: String,
    /// `accept` by default.
    action: Option<InputAction>,
    /// The values of the fields: an object. Fields that are left out have their defaults.
    #[schema(value_type = Option<Json_>)]
    values: Option<Value>,
}

/// The kind of an answer to a form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InputAction {
    /// The form is filled in.
    Accept,
    /// The user refuses to; the server that asks decides what follows.
    Decline,
    /// The user closes the form; the server that asks decides what follows.
    Cancel,
}

/// Fills in the form of a tool that asks for input, or declines to.
#[utoipa::path(post, operation_id = "answer_run", path = "/v1/{tenant}/runs/{run}/answer", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = InputBody, responses(
    (status = 200, description = "The answer was sent", body = Sent),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn answer(
    Approving(admitted): Approving,
    At((_, run)): At<(String, String)>,
    Body(body): Body<InputBody>,
) -> Result<Json<Sent>, Problem> {
    let answer = match (body.action.unwrap_or(InputAction::Accept), body.values) {
        (InputAction::Accept, values) => InputAnswer::Accept(values.unwrap_or_else(|| Value::object::<&str>([]))),
        (InputAction::Decline, None) => InputAnswer::Decline,
        (InputAction::Cancel, None) => InputAnswer::Cancel,
        (InputAction::Decline | InputAction::Cancel, Some(_)) => {
            let detail = "`values` go with the action `accept`";
            return Err(Problem::bad_request("invalid-body", detail).remedy("send the `action` or the `values`"));
        }
    };
    send(&admitted, run.into(), &body.question, &answer, "api").await
}

/// Sends the answer of a caller.
pub(crate) async fn send(
    admitted: &Admitted,
    run: RunId,
    question: &str,
    answer: &InputAnswer,
    from: &str,
) -> Result<Json<Sent>, Problem> {
    own(admitted, &run)?;
    // The run is read to see whether it still asks this.
    let _room = admitted.tenant.views.room().await?;
    let by = Some(admitted.caller.name.clone());
    admitted.tenant.host.engine().answer_input(&run, question, answer, by, Some(from.into())).await?;
    admitted.tenant.feeds.answered(&run);
    tracing::info!(target: "opcell::audit", caller = %admitted.caller.name, tenant = %admitted.tenant.name, run = %run,
        question, action = answer.action(), "answered a form");
    Ok(Json(Sent::to(run)))
}
