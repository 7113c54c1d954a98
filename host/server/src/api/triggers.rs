//! Triggers: which there are, and requests that set one off.

use super::{
    App,
    body::At,
    runs::{Start, begin, traceparent},
};
use crate::{access::Reading, problem::Problem, schedule, tenant::too_many};
use axum::{
    Json,
    body::Bytes,
    extract::{FromRequest as _, Request, State},
    http::{HeaderMap, StatusCode, header},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hmac::{Hmac, KeyInit as _, Mac as _};
use jiff::Timestamp;
use opcell::triggers::{RunName, Signature, Trigger, TriggerAction, TriggerSource, Webhook};
use opcell_types::Value;
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use std::sync::Arc;
use utoipa::ToSchema;

/// The longest ID of a webhook's request, in bytes.
const MAX_ID: usize = 200;

/// Bytes of an ordinary request of a webhook.
const SMALL_BODY: u64 = 64 << 10;

/// Signatures of one request that are looked at.
const MAX_SIGNATURES: usize = 8;

/// A trigger.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct TriggerItem {
    /// Its name in the project.
    #[schema(value_type = String)]
    name: Arc<str>,
    /// `cron` or `webhook`.
    source: &'static str,
    /// The cron expression.
    #[serde(skip_serializing_if = "Option::is_none")]
    cron: Option<String>,
    /// The time zone in which it is read.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    /// When it comes next, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// How requests are signed: `standard` or `github`.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// The workflow that it starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    workflow: Option<Arc<str>>,
    /// The signal that it sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    signal: Option<Arc<str>>,
}

impl TriggerItem {
    fn of(trigger: &Trigger) -> Self {
        let (workflow, signal) = match &trigger.action {
            TriggerAction::Start { workflow } => (Some(workflow.clone()), None),
            TriggerAction::Signal { signal, .. } => (None, Some(signal.clone())),
            _ => (None, None),
        };
        let name = trigger.name.clone();
        match &trigger.source {
            TriggerSource::Cron(schedule) => Self {
                name,
                source: "cron",
                cron: Some(schedule.text().to_owned()),
                zone: schedule.zone().iana_name().map(str::to_owned),
                next: schedule.next(Timestamp::now()).map(|next| next.to_string()),
                signature: None,
                workflow,
                signal,
            },
            TriggerSource::Webhook(webhook) => {
                let signature = Some(webhook.signature.to_string());
                Self { name, source: "webhook", cron: None, zone: None, next: None, signature, workflow, signal }
            }
            _ => Self { name, source: "other", cron: None, zone: None, next: None, signature: None, workflow, signal },
        }
    }
}

/// What starts runs, or sends them signals, without a person.
#[derive(Debug, Serialize, ToSchema)]
pub struct Triggers {
    triggers: Vec<TriggerItem>,
}

/// Lists the triggers.
#[utoipa::path(get, path = "/v1/{tenant}/triggers", tag = "triggers", params(("tenant" = String, Path)), responses(
    (status = 200, body = Triggers), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<Triggers> {
    Json(Triggers { triggers: admitted.tenant.triggers.iter().map(TriggerItem::of).collect() })
}

/// What a request set off.
#[derive(Debug, Serialize, ToSchema)]
pub struct SetOff {
    /// The run that was started, or that received the signal.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// Whether this request did it; `false`: the same one did before.
    first: bool,
}

/// Takes a signed request of a webhook. Needs no token: the signature says who sends it.
#[utoipa::path(post, path = "/v1/{tenant}/hooks/{trigger}", tag = "triggers", security(()),
    params(("tenant" = String, Path), ("trigger" = String, Path)), request_body = Object, responses(
    (status = 202, body = SetOff), (status = "4XX", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn hook(
    State(app): State<Arc<App>>,
    At((tenant, name)): At<(String, String)>,
    request: Request,
) -> Result<(StatusCode, Json<SetOff>), Problem> {
    // A tenant that does not exist, a hook that does not and a signature that is wrong look the same.
    let known = app.tenants.get(&tenant);
    match known {
        Some(tenant) => tenant.admit_unsigned()?,
        None => app.unknown_hooks.check().map_err(|_| too_many())?,
    }
    let headers = request.headers().clone();
    // What senders that no one knows yet may fill memory with: few large bodies at a time, for which small ones do not
    // wait.
    let length = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    let _room = match length {
        Some(length) if length <= SMALL_BODY => None,
        _ => Some(app.unsigned_bodies.try_acquire().map_err(|_| too_many())?),
    };
    let body = Bytes::from_request(request, &()).await.map_err(|rejection| match rejection.status() {
        StatusCode::PAYLOAD_TOO_LARGE => {
            let detail = format!("the body has more than {} bytes", super::MAX_BODY);
            Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", detail)
        }
        _ => Problem::bad_request("body-unreadable", "the body could not be read to its end"),
    })?;
    let hook = known.and_then(|tenant| {
        let trigger = tenant.triggers.iter().find(|trigger| *trigger.name == *name)?;
        match &trigger.source {
            TriggerSource::Webhook(webhook) => Some((tenant, trigger, webhook)),
            _ => None,
        }
    });
    let Some((tenant, trigger, webhook)) = hook else {
        // As much work as for one that exists.
        let _ = sign(b"nothing", &[&body]);
        return Err(unsigned());
    };
    let mut secrets = Vec::new();
    for source in &webhook.secrets {
        match source.read().await {
            Ok(secret) if !secret.is_empty() => secrets.push(key_of(&secret)),
            Ok(_) => tracing::error!(tenant = %tenant.name, trigger = name, "a secret of the webhook is empty"),
            Err(error) => tracing::error!(tenant = %tenant.name, trigger = name, %error, "a webhook lacks a secret"),
        }
    }
    let id = verify(webhook, &secrets, &headers, &body, Timestamp::now()).map_err(|why| {
        tracing::warn!(target: "opcell::audit", tenant = %tenant.name, trigger = name, why, "a webhook was refused");
        unsigned()
    })?;
    tenant.admit()?;
    let text = std::str::from_utf8(&body).map_err(|_| Problem::bad_request("invalid-body", "the body is not UTF-8"))?;
    let body = Value::from_json(text)
        .map_err(|error| Problem::bad_request("invalid-body", format!("the body is not JSON: {error}")))?;
    let part = |error: opcell::triggers::MissingPart| Problem::bad_request("body-lacks-part", error.to_string());
    let input = trigger.input_of(&body).map_err(part)?;
    let key: Arc<str> = format!("{}{id}", trigger.run_prefix()).into();
    let (run, first) = match &trigger.action {
        TriggerAction::Start { workflow } => {
            let start = Start { workflow, input, run: Some(key), idempotent: true, traceparent: traceparent(&headers) };
            let (run, created) = begin(tenant, start).await?;
            (run, created.is_some())
        }
        TriggerAction::Signal { signal, run } => {
            let run = match run {
                RunName::Fixed(run) => run.clone(),
                RunName::Body(pointer) => match pointer.find(&body).map_err(part)? {
                    Value::String(run) => run.as_str().into(),
                    _ => return Err(Problem::bad_request("invalid-run-id", "the body's run is not a text")),
                },
                _ => return Err(Problem::bad_request("invalid-trigger", "the trigger names no run")),
            };
            let first = schedule::send(tenant, trigger, &run, signal, input, key).await?;
            (run, first)
        }
        _ => return Err(Problem::bad_request("invalid-trigger", "the trigger does nothing that this server knows")),
    };
    tracing::info!(target: "opcell::audit", tenant = %tenant.name, trigger = name, %run, first, "a webhook was taken");
    Ok((StatusCode::ACCEPTED, Json(SetOff { run, first })))
}

fn unsigned() -> Problem {
    let detail = "there is no such webhook, or the request is not signed as it expects; the server's log says which";
    Problem::new(StatusCode::UNAUTHORIZED, "webhook-refused", detail)
}

/// The bytes of a secret: Standard Webhooks write them in Base64 after a prefix.
fn key_of(secret: &str) -> Vec<u8> {
    let encoded = secret.strip_prefix("whsec_").and_then(|rest| STANDARD.decode(rest).ok());
    encoded.unwrap_or_else(|| secret.as_bytes().to_vec())
}

/// The key of a request that one of the secrets signs: the same for the same request sent again.
fn verify(
    webhook: &Webhook,
    secrets: &[Vec<u8>],
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Result<String, &'static str> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match webhook.signature {
        Signature::Standard => {
            let id = header("webhook-id").ok_or("no `webhook-id`")?;
            let sent = header("webhook-timestamp").ok_or("no `webhook-timestamp`")?;
            let signatures = header("webhook-signature").ok_or("no `webhook-signature`")?;
            if id.is_empty() || id.len() > MAX_ID {
                return Err("an ID of no or too many bytes");
            }
            let at = sent.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
            let off = at.ok_or("a timestamp that is not one")?.duration_since(now).unsigned_abs();
            if off > webhook.window {
                return Err("a timestamp outside of the window");
            }
            let given: Vec<Vec<u8>> = signatures
                .split(' ')
                .filter_map(|signature| STANDARD.decode(signature.strip_prefix("v1,")?).ok())
                .take(MAX_SIGNATURES)
                .collect();
            let signed = [id.as_bytes(), b".", sent.as_bytes(), b".", body];
            is_signed(secrets, &signed, &given).then(|| digest(id.as_bytes())).ok_or("a wrong signature")
        }
        Signature::Github => {
            let signature = header("x-hub-signature-256").ok_or("no `x-hub-signature-256`")?;
            let given = signature.strip_prefix("sha256=").and_then(unhex).ok_or("a signature that is not one")?;
            is_signed(secrets, &[body], &[given]).then(|| digest(body)).ok_or("a wrong signature")
        }
        _ => Err("a way of signing that this server does not know"),
    }
}

fn sign(secret: &[u8], parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).ok()?;
    parts.iter().for_each(|part| mac.update(part));
    Some(mac)
}

/// Whether any secret gives any of the signatures; compared in constant time.
fn is_signed(secrets: &[Vec<u8>], parts: &[&[u8]], given: &[Vec<u8>]) -> bool {
    secrets.iter().any(|secret| {
        let mac = sign(secret, parts);
        mac.is_some_and(|mac| given.iter().any(|given| mac.clone().verify_slice(given).is_ok()))
    })
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let bytes = text.as_bytes().chunks(2);
    bytes.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok().filter(|_| pair.len() == 2)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell::http::SecretSource;

    const BODY: &[u8] = br#"{"n":1}"#;

    fn webhook(signature: Signature) -> Webhook {
        Webhook::new(signature, vec![SecretSource::Env("NONE".to_owned())])
    }

    fn now() -> Timestamp {
        Timestamp::from_second(1_700_000_000).unwrap()
    }

    fn standard(secret: &[u8], id: &str, at: i64, body: &[u8]) -> HeaderMap {
        let at = at.to_string();
        let mac = sign(secret, &[id.as_bytes(), b".", at.as_bytes(), b".", body]).unwrap();
        let signature = format!("v1,AAAA v2,ignored v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
        let headers = [("webhook-id", id), ("webhook-timestamp", &at), ("webhook-signature", &signature)];
        headers.into_iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_request_is_taken_with_any_of_the_secrets_and_no_other() {
        let hook = webhook(Signature::Standard);
        let secrets = [b"new".to_vec(), b"old".to_vec()];
        let verified = |secret: &[u8], body: &[u8]| {
            verify(&hook, &secrets, &standard(secret, "m1", 1_700_000_000, BODY), body, now())
        };
        assert_eq!(verified(b"new", BODY), verified(b"old", BODY));
        assert!(verified(b"new", BODY).is_ok());
        assert_eq!(verified(b"other", BODY), Err("a wrong signature"));
        assert_eq!(verified(b"new", br#"{"n":2}"#), Err("a wrong signature"));
        assert_eq!(
            verify(&hook, &[], &standard(b"", "m1", 1_700_000_000, BODY), BODY, now()),
            Err("a wrong signature")
        );
    }

    #[test]
    fn a_request_from_outside_of_the_window_is_refused() {
        let hook = webhook(Signature::Standard);
        let verified = |at| verify(&hook, &[b"s".to_vec()], &standard(b"s", "m1", at, BODY), BODY, now());
        assert!(verified(1_700_000_000 - 300).is_ok() && verified(1_700_000_000 + 300).is_ok());
        for at in [1_700_000_000 - 301, 1_700_000_000 + 301, i64::MAX, i64::MIN] {
            assert!(verified(at).is_err(), "{at}");
        }
    }

    #[test]
    fn the_same_request_has_the_same_key_and_another_id_another() {
        let hook = webhook(Signature::Standard);
        let key = |id, at| verify(&hook, &[b"s".to_vec()], &standard(b"s", id, at, BODY), BODY, now()).unwrap();
        assert_eq!(key("m1", 1_700_000_000), key("m1", 1_700_000_100));
        assert_ne!(key("m1", 1_700_000_000), key("m2", 1_700_000_000));
    }

    /// The example of GitHub's documentation.
    #[test]
    fn githubs_own_example_is_taken() {
        let mut headers = HeaderMap::new();
        let signature = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        headers.insert("x-hub-signature-256", signature.parse().unwrap());
        let hook = webhook(Signature::Github);
        let secrets = [b"It's a Secret to Everybody".to_vec()];
        assert!(verify(&hook, &secrets, &headers, b"Hello, World!", now()).is_ok());
        assert_eq!(verify(&hook, &secrets, &headers, b"Hello, World?", now()), Err("a wrong signature"));
        for wrong in ["sha256=", "sha256=75", "757107ea", "sha256=zz"] {
            headers.insert("x-hub-signature-256", wrong.parse().unwrap());
            assert!(verify(&hook, &secrets, &headers, b"Hello, World!", now()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_secret_may_be_written_as_standard_webhooks_do() {
        assert_eq!(key_of("whsec_AQID"), [1, 2, 3]);
        assert_eq!(key_of("plain"), b"plain");
    }
}
