//! Schedules: starts what is due, once, however many servers there are and whenever one of them ends.
//!
//! The journal is the memory: a run that a schedule started carries the instant in its ID, so the newest of them says
//! what is done, and the ID keeps a second server from starting it again.

use crate::{
    api::{Start, begin},
    problem::Problem,
    tenant::Tenant,
};
use axum::http::StatusCode;
use jiff::Timestamp;
use opcell::triggers::{RunName, Schedule, Trigger, TriggerAction, TriggerSource};
use opcell_engine::RunError;
use opcell_journal::RunQuery;
use opcell_types::{NewRunId, Value};
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// The longest sleep: a clock may be set, and a machine may have slept.
const MAX_SLEEP: Duration = Duration::from_secs(30);

/// When what could not be started is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// Runs of a schedule that are looked at: the newest has the newest instant, or one of these if many were made up for.
const NEWEST: usize = 1_000;

/// One schedule, and up to when everything is done.
struct Scheduled {
    trigger: usize,
    done: Timestamp,
}

/// Starts what is due until `stop` is cancelled.
///
/// # Errors
/// When the journal does not say at the start what is done.
pub(crate) async fn run(tenant: Arc<Tenant>, stop: CancellationToken) -> Result<(), RunError> {
    let mut scheduled = scheduled(&tenant).await?;
    while !scheduled.is_empty() && !stop.is_cancelled() {
        let mut wait = MAX_SLEEP;
        for scheduled in &mut scheduled {
            let Some((trigger, schedule)) = tenant.triggers.get(scheduled.trigger).and_then(cron) else { continue };
            let now = Timestamp::now();
            match catch_up(&tenant, trigger, schedule, scheduled.done, now).await {
                Ok(()) => {
                    scheduled.done = scheduled.done.max(now);
                    let next = schedule.next(now).map(|next| next.duration_since(now));
                    wait = next.and_then(|next| Duration::try_from(next).ok()).map_or(wait, |next| wait.min(next));
                }
                Err(done) => {
                    scheduled.done = done;
                    wait = wait.min(RETRY_DELAY);
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = stop.cancelled() => {}
        }
    }
    Ok(())
}

fn cron(trigger: &Trigger) -> Option<(&Trigger, &Schedule)> {
    match &trigger.source {
        TriggerSource::Cron(schedule) => Some((trigger, schedule)),
        _ => None,
    }
}

/// Every schedule of the tenant. One that has started nothing yet begins now.
async fn scheduled(tenant: &Tenant) -> Result<Vec<Scheduled>, RunError> {
    let schedules: Vec<(usize, &Trigger)> =
        tenant.triggers.iter().enumerate().filter(|(_, trigger)| cron(trigger).is_some()).collect();
    if schedules.is_empty() {
        return Ok(Vec::new());
    }
    let now = Timestamp::now();
    let mut all = Vec::new();
    for (at, trigger) in schedules {
        let query = RunQuery { prefix: Some(trigger.run_prefix().into()), limit: NEWEST, ..RunQuery::default() };
        let runs = tenant.host.engine().runs_page(query).await?;
        // An instant to come was written by no schedule.
        let instants = runs.iter().filter_map(|run| trigger.instant_of(&run.run));
        let done = instants.filter(|instant| *instant <= now).max().unwrap_or(now);
        all.push(Scheduled { trigger: at, done });
    }
    Ok(all)
}

/// Does what is due. Otherwise: up to when everything is done, because what follows has to wait.
async fn catch_up(
    tenant: &Arc<Tenant>,
    trigger: &Trigger,
    schedule: &Schedule,
    mut done: Timestamp,
    now: Timestamp,
) -> Result<(), Timestamp> {
    for instant in schedule.due(done, now) {
        match fire(tenant, trigger, instant).await {
            Ok(()) => {
                tenant.counters.triggered(&trigger.name, "fired");
                tracing::info!(tenant = %tenant.name, trigger = %trigger.name, %instant, "a schedule came due");
            }
            Err(problem) if problem.retry_after.is_some() || problem.status >= 500 => {
                tenant.counters.triggered(&trigger.name, "delayed");
                tracing::warn!(tenant = %tenant.name, trigger = %trigger.name, %instant, problem = problem.detail,
                    "a schedule has to wait");
                return Err(done);
            }
            Err(problem) => {
                tenant.counters.triggered(&trigger.name, "failed");
                tracing::error!(tenant = %tenant.name, trigger = %trigger.name, %instant, problem = problem.detail,
                    "a schedule cannot do what it should");
            }
        }
        done = done.max(instant);
    }
    Ok(())
}

async fn fire(tenant: &Arc<Tenant>, trigger: &Trigger, instant: Timestamp) -> Result<(), Problem> {
    let input = Value::from(trigger.input.clone());
    let key = trigger.scheduled_run(instant);
    match &trigger.action {
        TriggerAction::Start { workflow } => {
            let start =
                Start { workflow, input, run: Some(NewRunId::derived(key)), idempotent: true, traceparent: None };
            begin(tenant, start).await.map(drop)
        }
        TriggerAction::Signal { signal, run: RunName::Fixed(run) } => {
            send(tenant, trigger, run, signal, input, key).await.map(drop)
        }
        _ => Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-trigger", "a schedule has no body")),
    }
}

/// Sends a trigger's signal, once per key; whether it was sent now. Approvals are for people to give.
pub(crate) async fn send(
    tenant: &Tenant,
    trigger: &Trigger,
    run: &Arc<str>,
    signal: &Arc<str>,
    data: Value,
    key: Arc<str>,
) -> Result<bool, Problem> {
    let by = Some(format!("trigger:{}", trigger.name).into());
    let sender = opcell_engine::Sender { by, key: Some(key), may_approve: false };
    let _room = tenant.views.room().await?;
    let sent = tenant.host.engine().signal_from(run, signal, data, sender).await.map_err(|error| match error {
        RunError::MayNotApprove { .. } => {
            let detail = format!("`{signal}` is an approval of run `{run}`, and a trigger gives none");
            Problem::new(StatusCode::FORBIDDEN, "approval-by-trigger", detail)
        }
        error => error.into(),
    })?;
    tenant.feeds.answered(run);
    Ok(sent.is_some())
}
