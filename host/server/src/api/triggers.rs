//! The triggers of a tenant.

use crate::{access::Reading, problem::Problem};
use axum::Json;
use jiff::Timestamp;
use opcell::triggers::{Trigger, TriggerAction, TriggerSource};
use serde::Serialize;
use std::sync::Arc;
use utoipa::ToSchema;

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
    /// The signature of requests: `standard` or `github`.
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// The events that count, if not all do.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    on: Vec<String>,
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
                on: Vec::new(),
                workflow,
                signal,
            },
            TriggerSource::Webhook(webhook) => {
                let signature = Some(webhook.signature.to_string());
                let on = webhook.on.iter().map(ToString::to_string).collect();
                Self { name, source: "webhook", cron: None, zone: None, next: None, signature, on, workflow, signal }
            }
            _ => Self {
                name,
                source: "other",
                cron: None,
                zone: None,
                next: None,
                signature: None,
                on: Vec::new(),
                workflow,
                signal,
            },
        }
    }
}

/// The triggers, which start runs or send them signals without a person.
#[derive(Debug, Serialize, ToSchema)]
pub struct Triggers {
    /// Those of the tenant, by name.
    triggers: Vec<TriggerItem>,
}

/// Lists the triggers.
#[utoipa::path(get, operation_id = "list_triggers", path = "/v1/{tenant}/triggers", tag = "triggers",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The triggers", body = Triggers),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<Triggers> {
    Json(Triggers { triggers: admitted.tenant.triggers.iter().map(TriggerItem::of).collect() })
}
