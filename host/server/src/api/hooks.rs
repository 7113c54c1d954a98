//! Signed requests that set triggers off.

mod content;
mod room;
mod signature;

pub(crate) use room::HookRoom;

use super::{
    App,
    body::At,
    runs::{Start, begin, traceparent},
};
use crate::{
    peer::Peer,
    problem::Problem,
    schedule,
    tenant::{Tenant, too_many},
};
use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest as _, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use content::{Event, document};
use jiff::Timestamp;
use opcell::triggers::{RunName, Trigger, TriggerAction, TriggerSource, Webhook};
use opcell_types::{NewRunId, Value, run_id::InvalidRunId};
use serde::Serialize;
use signature::{keys_of, sign, verify};
use std::{sync::Arc, time::Duration};
use utoipa::ToSchema;

/// Bytes of an ordinary request of a webhook.
const SMALL_BODY: u64 = 64 << 10;

/// The time that a sender that is not known yet may take for a body.
const BODY_TIME: Duration = Duration::from_secs(10);

/// The effect of a request.
#[derive(Debug, Serialize, ToSchema)]
pub struct SetOff {
    /// The run that was started, or that received the signal.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// `true` if this request did it; `false`: the same one did before.
    first: bool,
}

/// A signed request that starts and sends nothing.
#[derive(Debug, Serialize, ToSchema)]
pub struct Ignored {
    /// The reason, as a sentence.
    ignored: String,
}

/// Accepts a signed request of a webhook. Needs no token: the signature identifies the sender. GitHub's `ping` and events
/// outside of the trigger's `on` get 200 and do nothing.
#[utoipa::path(post, operation_id = "receive_webhook", path = "/v1/{tenant}/hooks/{trigger}",
    tag = "triggers", security(()),
    params(("tenant" = String, Path), ("trigger" = String, Path)), request_body = Object, responses(
    (status = 202, description = "A run was started or a signal sent, by this request or by the same one before",
        body = SetOff),
    (status = 200, description = "The request is genuine, and starts and sends nothing", body = Ignored),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn hook(
    State(app): State<Arc<App>>,
    peer: Peer,
    At((tenant, name)): At<(String, String)>,
    request: Request,
) -> Result<Response, Problem> {
    // A tenant that does not exist, a hook that does not and a signature that is wrong look the same.
    let known = app.tenants.get(&tenant);
    match known {
        Some(tenant) => tenant.admit_unsigned()?,
        None => app.unknown_hooks.check().map_err(|_| too_many())?,
    }
    let hook = known.and_then(|tenant| {
        let trigger = tenant.triggers.iter().find(|trigger| *trigger.name == *name)?;
        match &trigger.source {
            TriggerSource::Webhook(webhook) => Some((tenant, trigger, webhook)),
            _ => None,
        }
    });
    let headers = request.headers().clone();
    let body = {
        let _room = room_for(&app, hook.is_some(), &peer, &headers)?;
        read(request).await?
    };
    let Some((tenant, trigger, webhook)) = hook else {
        // As much work as for one that exists.
        let _ = sign(b"nothing", &[&body]);
        if app.refusals.check().is_ok() {
            let (tenant, name) = (super::shown(&tenant), super::shown(&name));
            tracing::warn!(target: "opcell::audit", tenant, trigger = name, peer = %peer, "there is no such webhook");
        }
        return Err(unsigned());
    };
    let keys = keys(&app, tenant, trigger, webhook).await;
    let id = verify(webhook, &keys, &headers, &body, Timestamp::now()).map_err(|why| {
        tracing::warn!(target: "opcell::audit", tenant = %tenant.name, trigger = name, why, peer = %peer,
            "a webhook was refused");
        unsigned()
    })?;
    tenant.admit()?;
    let body = document(&headers, &body)?;
    let event = Event::of(webhook.signature, &headers, &body);
    if let Some(ignored) = event.ignored(&webhook.on) {
        tenant.counters.triggered(&trigger.name, "ignored");
        tracing::info!(target: "opcell::audit", tenant = %tenant.name, trigger = name, ignored, "a webhook was taken");
        return Ok((StatusCode::OK, Json(Ignored { ignored })).into_response());
    }
    let set_off = act(tenant, trigger, &headers, &body, &id)
        .await
        .inspect_err(|_| tenant.counters.triggered(&trigger.name, "failed"))?;
    let SetOff { run, first } = &set_off;
    tenant.counters.triggered(&trigger.name, if *first { "fired" } else { "repeated" });
    tracing::info!(target: "opcell::audit", tenant = %tenant.name, trigger = name, %run, first, "a webhook was taken");
    Ok((StatusCode::ACCEPTED, Json(set_off)).into_response())
}

/// Room for a body of a sender that is not known yet: few large ones at a time, for which small ones do not wait. What
/// is sent to hooks that do not exist takes nothing of what those have that do.
fn room_for(app: &App, exists: bool, peer: &Peer, headers: &HeaderMap) -> Result<Option<room::Permit>, Problem> {
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length {
        Some(length) if length <= SMALL_BODY => Ok(None),
        _ => app.hook_room.take(exists, peer.address()).map(Some).ok_or_else(too_many),
    }
}

async fn read(request: Request) -> Result<Bytes, Problem> {
    let body = tokio::time::timeout(BODY_TIME, Bytes::from_request(request, &())).await.map_err(|_| {
        let detail = format!("the body was not sent within {} seconds", BODY_TIME.as_secs());
        Problem::new(StatusCode::REQUEST_TIMEOUT, "body-too-slow", detail)
    })?;
    body.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body has more than {} bytes", super::MAX_BODY);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
        }
        _ => Problem::bad_request("body-unreadable", "the body could not be read to its end"),
    })
}

/// The keys of a webhook's secrets. A key that another webhook has as well, of whichever tenant, is left out: its
/// requests could be sent to either of them, and nothing in them says which is meant.
async fn keys(app: &App, tenant: &Tenant, trigger: &Trigger, webhook: &Webhook) -> Vec<Vec<u8>> {
    let mut keys = Vec::new();
    for source in &webhook.secrets {
        match source.read().await.map(|secret| keys_of(webhook.signature, &secret)) {
            Ok(found) if !found.is_empty() => keys.extend(found),
            Ok(_) => tracing::error!(tenant = %tenant.name, trigger = %trigger.name,
                "a secret of the webhook is empty: nothing signed with it is taken"),
            Err(error) => {
                tracing::error!(tenant = %tenant.name, trigger = %trigger.name, %error, "a webhook lacks a secret");
            }
        }
    }
    for of in app.tenants.iter() {
        for other in of.triggers.iter().filter(|other| of.name != tenant.name || other.name != trigger.name) {
            let TriggerSource::Webhook(theirs) = &other.source else { continue };
            for source in &theirs.secrets {
                let Ok(secret) = source.read().await else { continue };
                let theirs = keys_of(theirs.signature, &secret);
                let before = keys.len();
                keys.retain(|key| !theirs.contains(key));
                if keys.len() < before {
                    tracing::error!(tenant = %tenant.name, trigger = %trigger.name, other_tenant = %of.name,
                        other = %other.name,
                        "two webhooks have one secret: nothing signed with it is taken; give each a secret of its own");
                }
            }
        }
    }
    keys
}

/// The run of a request: its sender gives the last part of the ID.
fn run_key(key: &str) -> Result<NewRunId, Problem> {
    key.parse().map_err(|error: InvalidRunId| Problem::bad_request("invalid-run-id", error.to_string()))
}

/// Starts the run or sends the signal.
async fn act(
    tenant: &Arc<Tenant>,
    trigger: &Trigger,
    headers: &HeaderMap,
    body: &Value,
    id: &str,
) -> Result<SetOff, Problem> {
    let part = |error: opcell::triggers::MissingPart| Problem::bad_request("body-lacks-part", error.to_string());
    let input = trigger.input_of(body).map_err(part)?;
    let key: Arc<str> = format!("{}{id}", trigger.run_prefix()).into();
    let (run, first) = match &trigger.action {
        TriggerAction::Start { workflow } => {
            let start = Start {
                workflow,
                input,
                run: Some(run_key(&key)?),
                idempotent: true,
                traceparent: traceparent(headers),
            };
            let (run, created) = begin(tenant, start).await?;
            (run, created.is_some())
        }
        TriggerAction::Signal { signal, run } => {
            let run = match run {
                RunName::Fixed(run) => run.clone(),
                RunName::Body(pointer) => match pointer.find(body).map_err(part)? {
                    Value::String(run) => run.as_str().into(),
                    _ => return Err(Problem::bad_request("invalid-run-id", "the body's run is not a string")),
                },
                _ => return Err(Problem::bad_request("invalid-trigger", "the trigger names no run")),
            };
            let first = schedule::send(tenant, trigger, &run, signal, input, key).await?;
            (run, first)
        }
        _ => return Err(Problem::bad_request("invalid-trigger", "the trigger does nothing that this server knows")),
    };
    Ok(SetOff { run, first })
}

fn unsigned() -> Problem {
    let detail = "there is no such webhook, or the request is not signed as it expects; the server's log says which";
    Problem::new(StatusCode::UNAUTHORIZED, "webhook-refused", detail)
}
