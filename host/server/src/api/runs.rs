//! Runs: start, list, look, replay, fork.

use super::{
    App, GraphFormat,
    body::{At, Body, MayBody, Params},
    query::{moment_of, with_remedy},
    send::own,
    shapes::{CurrentStep, DeniedCapability, ReplayDivergence, RunQuestion, RunStatus, UsedByRun},
    shown, workflows,
};
use crate::{
    access::{Admitted, Reading, Running, tokens::Scope},
    problem::Problem,
    tenant::Tenant,
};
use axum::{
    Json,
    extract::State,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell::standing::{Standing, asked};
use opcell::{
    Run, RunOptions, RunText,
    host::StartError,
    trace::{TRACEPARENT, TraceContext},
};
use opcell_engine::{
    Event, RunError, RunOutcome,
    engine::fresh_run_id,
    event::{ForkOrigin, Timestamp},
    large::ELIDED,
};
use opcell_journal::{JournalError, RunEntry, RunId, RunQuery};
use opcell_types::{NewRunId, Value, run_id::InvalidRunId, value::MAX_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json};
use sha2::{Digest, Sha256};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use utoipa::{IntoParams, ToSchema};

/// Longest idempotency key, in bytes.
const MAX_KEY_BYTES: usize = 200;

/// Runs in one page of a list: by default, and at most.
const PAGE: (usize, usize) = (50, 500);

/// The time that a client may wait for a run that it starts.
const WAIT: Duration = Duration::from_secs(30);

/// A run whose timer ends within this time stays loaded.
pub(crate) const PARK: Duration = Duration::from_secs(1);

/// A run in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunItem {
    /// ID of the run.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// The workflow's name.
    #[schema(value_type = String)]
    workflow: Arc<str>,
    /// Its status.
    #[schema(value_type = RunStatus)]
    status: String,
    /// `true` if a process drives it now.
    driven: bool,
    /// The process that drives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    driven_by: Option<Arc<str>>,
    /// When its pause ends, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The number of its events.
    events: u64,
    /// When it was created, RFC 3339.
    created_at: String,
    /// When its last event happened, RFC 3339.
    updated_at: String,
}

impl RunItem {
    fn of(run: &RunEntry, now: i64) -> Self {
        Self {
            run: run.run.clone(),
            workflow: run.workflow.clone(),
            status: run.status(now).to_owned(),
            driven: run.driven,
            driven_by: run.driver.clone(),
            until: run.state.due.filter(|due| *due > now && !run.state.ended).map(|due| Timestamp(due).to_text()),
            events: run.records,
            created_at: Timestamp(run.created_at).to_text(),
            updated_at: Timestamp(run.updated_at).to_text(),
        }
    }
}

/// One page of runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct RunList {
    /// The newest first.
    runs: Vec<RunItem>,
    /// `before` of the next page, if there is one.
    #[schema(value_type = Option<String>)]
    next: Option<Arc<str>>,
}

/// The selection of runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[into_params(parameter_in = Query)]
pub(crate) struct ListParams {
    /// Only runs with this status.
    #[param(value_type = Option<RunStatus>)]
    status: Option<String>,
    /// Only runs of this workflow.
    workflow: Option<String>,
    /// Only runs that were started at this time or later: `2026-01-02` or `2026-01-02T03:04:05Z`, in UTC.
    since: Option<String>,
    /// Only runs that were started before this time.
    until: Option<String>,
    /// At most this many; 50 by default, 500 at most.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// Only runs older than this one: the `next` of the page before.
    before: Option<String>,
}

/// Lists runs, newest first, a page at a time.
#[utoipa::path(get, operation_id = "list_runs", path = "/v1/{tenant}/runs", tag = "runs",
    params(("tenant" = String, Path), ListParams), responses(
    (status = 200, description = "A page of runs", body = RunList),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(
    Reading(admitted): Reading,
    Params(params): Params<ListParams>,
) -> Result<Json<RunList>, Problem> {
    let limit = params.limit.unwrap_or(PAGE.0);
    if limit == 0 || limit > PAGE.1 {
        return Err(Problem::bad_request("invalid-query", format!("`limit` must be from 1 to {}", PAGE.1)));
    }
    if let Some(status) = params.status.as_deref().filter(|status| !RunEntry::STATUSES.contains(status)) {
        let detail = format!("`{}` is not a status of runs", shown(status));
        let problem = Problem::bad_request("invalid-query", detail);
        return Err(problem.remedy(format!("one of: {}", RunEntry::STATUSES.join(", "))));
    }
    let engine = admitted.tenant.host.engine();
    let query = RunQuery {
        before: params.before.as_deref().map(Arc::from),
        workflow: params.workflow.as_deref().map(Arc::from),
        status: params.status.as_deref().map(Arc::from),
        since: params.since.as_deref().map(moment_of).transpose()?,
        until: params.until.as_deref().map(moment_of).transpose()?,
        limit: limit + 1,
        ..RunQuery::default()
    };
    let mut page = match engine.runs_page(query).await {
        Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => {
            let before = shown(params.before.as_deref().unwrap_or_default());
            let detail = format!("`before` names run `{before}`, which the journal does not have");
            return Err(Problem::bad_request("unknown-run", detail));
        }
        page => page?,
    };
    let now = engine.ports().timer.now().0;
    let more = page.len() > limit;
    page.truncate(limit);
    let next = if more { page.last().map(|run| run.run.clone()) } else { None };
    Ok(Json(RunList { runs: page.iter().map(|run| RunItem::of(run, now)).collect(), next }))
}

/// A run to start.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartBody {
    /// Name of a workflow of the tenant.
    workflow: String,
    /// The run's `workflow-input`; `{}` by default.
    #[schema(value_type = Option<Json_>)]
    input: Option<Value>,
    /// ID of the run; generated by default.
    run: Option<String>,
    /// `true` to answer only when the run has ended or is suspended, within 30 s; otherwise at once.
    #[serde(default)]
    wait: bool,
}

/// Starts a run, which is durable before the answer. The same request with the same `Idempotency-Key` returns the run.
#[utoipa::path(post, operation_id = "start_run", path = "/v1/{tenant}/runs", tag = "runs",
    params(("tenant" = String, Path), ("Idempotency-Key" = Option<String>, Header, description = "At most 200 bytes"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context that the run's trace becomes a part of")),
    request_body = StartBody, responses(
    (status = 201, description = "Started", body = RunDetail),
    (status = 200, description = "Started before with this key", body = RunDetail),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json"),
    (status = 503, description = "The journal cannot be written, or the server is stopping", body = Problem,
        content_type = "application/problem+json")))]
pub(super) async fn start(
    Running(admitted): Running,
    headers: HeaderMap,
    Body(body): Body<StartBody>,
) -> Result<Response, Problem> {
    let tenant = &admitted.tenant;
    let key = idempotency_key(&headers)?;
    let run: Option<NewRunId> = match (&key, &body.run) {
        (Some(_), Some(_)) => {
            let detail = "`run` and an `Idempotency-Key` both name the run";
            return Err(Problem::bad_request("two-names", detail).remedy("send one of them"));
        }
        (Some(key), None) => Some(run_of_key(key)),
        (None, Some(name)) => Some(run_name(name)?),
        (None, None) => None,
    };
    let start = Start {
        workflow: &body.workflow,
        input: body.input.unwrap_or_else(|| Value::object::<&str>([])),
        run,
        idempotent: key.is_some(),
        traceparent: traceparent(&headers),
    };
    let (run, created) = begin(tenant, start).await?;
    let status = if created.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    // What is known of a run that was just started is not read back.
    let known = match &created {
        Some(started) if body.wait => match tokio::time::timeout(WAIT, started.finished()).await {
            Ok(Ok(outcome)) => Some(outcome),
            _ => None,
        },
        Some(started) => Some(started.initial().clone()),
        None => None,
    };
    let shown = match known {
        Some(outcome) => RunDetail::of(outcome, None),
        None => detail(tenant, &run, false).await?,
    };
    let mut response = (status, Json(shown)).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/{}/runs/{}", encoded(&tenant.name), encoded(&run))) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// A run to start.
pub(crate) struct Start<'a> {
    /// The workflow's name.
    pub(crate) workflow: &'a str,
    pub(crate) input: Value,
    /// Its ID; generated by default.
    pub(crate) run: Option<NewRunId>,
    /// `true` if a run of this ID that was started with the same is as good.
    pub(crate) idempotent: bool,
    pub(crate) traceparent: Option<Arc<str>>,
}

/// The trace that a request is a part of. One that is not sound is none, as the standard wants it.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<Arc<str>> {
    let given = headers.get(TRACEPARENT)?.to_str().ok()?;
    TraceContext::parse(given).map(|_| given.trim().into())
}

/// Starts a run, or finds the one that the same request started before; the handle is there if it was started now.
pub(crate) async fn begin(tenant: &Arc<Tenant>, start: Start<'_>) -> Result<(RunId, Option<Run>), Problem> {
    let Start { workflow: name, input, run, idempotent, traceparent } = start;
    let workflow = workflows::named(tenant, name).await?;
    // A run that ends before its first step tells its client less than a refusal.
    if let Some(why) = opcell::run::refusal(&workflow, &input) {
        let problem = Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "invalid-input", why);
        return Err(problem.remedy("correct the input; a GET of `workflows` lists the declared inputs"));
    }
    let permit = tenant.started.clone().try_acquire_owned().map_err(|_| {
        tenant.counters.refused.fetch_add(1, Ordering::Relaxed);
        let detail = "as many runs are being driven as the tenant may have at a time";
        Problem { retry_after: Some(1), ..Problem::new(StatusCode::TOO_MANY_REQUESTS, "too-many-runs", detail) }
    })?;
    // Chosen here, so that those who follow the run hear of it from the start.
    let id = run.clone().unwrap_or_else(fresh_run_id);
    let sink = Some(tenant.answers.of(&id.clone().into()) as Arc<dyn RunText>);
    let options =
        RunOptions { run: Some(id), detach: true, park: Some(PARK), traceparent, sink, ..RunOptions::default() };
    let (starter, begun, given) = (tenant.clone(), workflow.clone(), input.clone());
    // In a task of its own: a client that goes away meanwhile must not take the permit of a run that is driven.
    let starting = tokio::spawn(async move {
        let started = starter.host.now().start_with(&begun, given, options).await?;
        starter.counters.started.fetch_add(1, Ordering::Relaxed);
        let driven = started.clone();
        tokio::spawn(async move {
            match driven.finished().await {
                Ok(outcome) => starter.stopped(&outcome),
                Err(error) => tracing::warn!(run = driven.id(), %error, "a run cannot go on here"),
            }
            drop(permit);
        });
        Ok::<_, StartError>(started)
    });
    let Ok(starting) = starting.await else {
        let problem = Problem::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            "not-started",
            "the server failed while the run was started; its log says where",
        );
        return Err(problem.remedy("look for the run before you start it again, or send an `Idempotency-Key`"));
    };
    match starting {
        Ok(started) => Ok((started.id().into(), Some(started))),
        Err(StartError::Run(RunError::Journal(error)))
            if idempotent && matches!(*error, JournalError::RunExists(_)) =>
        {
            let run: RunId = run.map(Into::into).unwrap_or_default();
            let first = tenant.host.engine().events_after(&run, 0, 1).await?;
            let same = first.first().is_some_and(|first| match &first.event {
                Event::RunStarted(started) => *started.program.name() == workflow.ir().name && started.input == input,
                _ => false,
            });
            if same {
                return Ok((run, None));
            }
            let detail = format!("the idempotency key was used for another request, which started run `{run}`");
            Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "key-reused", detail).remedy("send a new key"))
        }
        Err(error) => Err(error.into()),
    }
}

/// The client's key for a request.
pub(crate) fn idempotency_key(headers: &HeaderMap) -> Result<Option<String>, Problem> {
    let Some(key) = headers.get("idempotency-key") else { return Ok(None) };
    match key.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= MAX_KEY_BYTES => Ok(Some(key.to_owned())),
        _ => Err(Problem::bad_request(
            "invalid-idempotency-key",
            format!("`Idempotency-Key` must have 1 to {MAX_KEY_BYTES} visible ASCII characters"),
        )),
    }
}

/// The run that a key names: the journal keeps IDs unique, so nothing else has to remember the key.
pub(crate) fn run_of_key(key: &str) -> NewRunId {
    let digest = Sha256::digest(key.as_bytes());
    let hex: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    NewRunId::derived(format!("key-{hex}"))
}

/// The ID that a client gives a run: any, but those that triggers give.
pub(crate) fn run_name(name: &str) -> Result<NewRunId, Problem> {
    let id = name.parse().map_err(|error: InvalidRunId| Problem::bad_request("invalid-run-id", error.to_string()))?;
    if opcell::triggers::is_trigger_run(name) {
        let detail = format!("`{}` is an ID that triggers give", shown(name));
        return Err(
            Problem::bad_request("invalid-run-id", detail).remedy("choose another beginning than `cron:`, `hook:`")
        );
    }
    Ok(id)
}

/// One run.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct RunDetail {
    /// ID of the run.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// The workflow's name.
    #[schema(value_type = String)]
    workflow: Arc<str>,
    /// Its status, as in lists.
    #[schema(value_type = RunStatus)]
    status: String,
    /// When it was started, RFC 3339; a fork: when it was forked.
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<String>,
    /// The process that drives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    driven_by: Option<Arc<str>>,
    /// When its pause ends, RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    until: Option<String>,
    /// The things that it waits for, or needs to continue, each in a few words.
    waits_for: Vec<String>,
    /// `true` if it could continue, or was answered, and will not by itself.
    stuck: bool,
    /// Of a fork: its origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    forked: Option<ForkedFrom>,
    /// Number of the last event.
    events: u64,
    /// The steps that it is in.
    #[schema(value_type = Vec<CurrentStep>)]
    steps: Vec<Json_>,
    /// Its open questions.
    #[schema(value_type = Vec<RunQuestion>)]
    questions: Vec<Json_>,
    /// The usage.
    #[schema(value_type = UsedByRun)]
    used: Json_,
    /// The input.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Json_>)]
    input: Option<Value>,
    /// The result; null while it has not ended.
    #[schema(value_type = Json_)]
    result: Value,
    /// Why it ended, if not well.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    reason: Option<Arc<str>>,
    /// The same in one sentence.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// The step at which it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    step: Option<Arc<str>>,
    /// The refusal that ended it, and what would allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<DeniedCapability>)]
    denial: Option<Json_>,
    /// Named values.
    #[schema(value_type = Json_)]
    artifacts: Value,
}

/// The origin of a fork.
#[derive(Debug, Serialize, ToSchema)]
pub struct ForkedFrom {
    /// The run whose events it shares.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// The last of them.
    seq: u64,
    /// When it was forked, RFC 3339.
    at: String,
    /// By whom.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    by: Option<Arc<str>>,
}

impl ForkedFrom {
    fn of(origin: &ForkOrigin) -> Self {
        Self { run: origin.run.clone(), seq: origin.seq, at: origin.at.to_text(), by: origin.by.clone() }
    }
}

async fn detail(tenant: &Tenant, run: &RunId, with_input: bool) -> Result<RunDetail, Problem> {
    // Before the state, which may then say more and never less.
    let entry = tenant.entry(run).await?;
    let view = tenant.views.of(run).await?;
    let state = view.state();
    let (outcome, forked, started) = (state.outcome(), state.forked().map(ForkedFrom::of), state.own_start());
    let standing = match &entry {
        Some(entry) => Some(tenant.standing(entry, Some(state)).await?),
        None => None,
    };
    drop(view);
    let input = if with_input {
        let first = tenant.host.engine().events_after(run, 0, 1).await?;
        first.first().and_then(|first| match &first.event {
            Event::RunStarted(started) => Some(started.input.clone()),
            _ => None,
        })
    } else {
        None
    };
    let standing = standing.filter(|standing| standing.agrees_with(outcome.status));
    let mut detail = RunDetail::of(outcome, input);
    (detail.forked, detail.started_at) = (forked, Some(started.to_text()));
    if let Some(Standing { status, driven_by, until, waits_for, is_stuck }) = standing {
        (detail.status, detail.driven_by, detail.until) = (status, driven_by, until.map(Timestamp::to_text));
        (detail.waits_for, detail.stuck) = (waits_for, is_stuck);
    }
    Ok(detail)
}

impl RunDetail {
    fn of(outcome: RunOutcome, input: Option<Value>) -> Self {
        // Together no more than is read of a run: parts that it shares are written wherever they are.
        let mut room = MAX_BYTES;
        let mut fitting = |value: Value| match room.checked_sub(value.measure().bytes()) {
            Some(left) => {
                room = left;
                value
            }
            None => Value::from(ELIDED),
        };
        let (result, artifacts) = (fitting(outcome.result), fitting(outcome.artifacts));
        let input = input.map(fitting);
        Self {
            run: outcome.run,
            workflow: outcome.workflow,
            status: outcome.status.as_str().to_owned(),
            started_at: None,
            driven_by: None,
            until: None,
            waits_for: outcome.questions.iter().map(asked).collect(),
            stuck: false,
            forked: None,
            events: outcome.events,
            steps: outcome.steps.into_iter().map(|(step, visit)| json!({"step": step, "visit": visit})).collect(),
            questions: outcome.questions.iter().map(|question| json!(question)).collect(),
            used: json!(outcome.used),
            input,
            result,
            reason: outcome.reason,
            message: outcome.message,
            step: outcome.step,
            denial: outcome.denial.map(|denial| with_remedy(&denial)),
            artifacts,
        }
    }
}

/// Returns a run: its status, result, questions and use.
#[utoipa::path(get, operation_id = "get_run", path = "/v1/{tenant}/runs/{run}", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), responses(
    (status = 200, description = "The run", body = RunDetail),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get(
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
) -> Result<Json<RunDetail>, Problem> {
    Ok(Json(detail(&admitted.tenant, &run.into(), true).await?))
}

/// Draws a run's workflow with the path that it took.
#[utoipa::path(get, operation_id = "get_run_graph", path = "/v1/{tenant}/runs/{run}/graph", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), workflows::GraphParams), responses(
    (status = 200, description = "The drawing", content((String = "image/svg+xml"), (String = "text/plain"))),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn graph(
    State(app): State<Arc<App>>,
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<workflows::GraphParams>,
) -> Result<Response, Problem> {
    run_graph(&app, &admitted, run.into(), params.format()).await
}

/// Draws the path of a run.
pub(crate) async fn run_graph(
    app: &App,
    admitted: &Admitted,
    run: RunId,
    format: GraphFormat,
) -> Result<Response, Problem> {
    let view = admitted.tenant.views.of(&run).await?;
    workflows::drawn(app, format, move || view.draw(format)).await
}

/// The result of deciding again.
#[derive(Debug, Serialize, ToSchema)]
pub struct Replayed {
    /// `true` if this version decides as the journal says.
    same: bool,
    /// The first event that would have been decided otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ReplayDivergence>)]
    divergence: Option<Json_>,
}

/// Replays a run from its journal, and compares. Performs nothing.
#[utoipa::path(post, operation_id = "replay_run", path = "/v1/{tenant}/runs/{run}/replay", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), responses(
    (status = 200, description = "Whether this version decides the same", body = Replayed),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn replay(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
) -> Result<Json<Replayed>, Problem> {
    let _room = admitted.tenant.views.room().await?;
    let divergence = admitted.tenant.host.engine().replay(&run.into()).await?;
    let shown = divergence.map(|divergence| {
        json!({
            "seq": divergence.recorded.seq, "recorded": divergence.recorded.event.kind(),
            "decided": divergence.decided.as_ref().map(Event::kind),
        })
    });
    Ok(Json(Replayed { same: shown.is_none(), divergence: shown }))
}

/// The event to fork at.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForkBody {
    /// Number of the last shared event.
    #[schema(minimum = 1)]
    at: u64,
    /// ID of the new run; generated by default.
    run: Option<String>,
}

/// The new run. No one drives it yet.
#[derive(Debug, Serialize, ToSchema)]
pub struct Forked {
    /// Its ID.
    #[schema(value_type = String)]
    run: Arc<str>,
    /// Its status.
    #[schema(value_type = RunStatus)]
    status: String,
    /// The origin.
    forked: ForkedFrom,
}

/// Starts a new run that shares the first events of another.
#[utoipa::path(post, operation_id = "fork_run", path = "/v1/{tenant}/runs/{run}/fork", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = ForkBody, responses(
    (status = 201, description = "The new run", body = Forked),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn fork(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    Body(body): Body<ForkBody>,
) -> Result<Response, Problem> {
    let name = body.run.as_deref().map(run_name).transpose()?;
    let source: RunId = run.into();
    own(&admitted, &source)?;
    let _room = admitted.tenant.views.room().await?;
    forked(&admitted, &source, body.at, name).await
}

/// A retry.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryBody {
    /// The step to begin again with, as it was last entered; by default the call with which the run failed.
    step: Option<String>,
    /// ID of the new run; generated by default.
    run: Option<String>,
}

/// Starts a new run that repeats the failed call of another run, and shares all events before it.
#[utoipa::path(post, operation_id = "retry_run", path = "/v1/{tenant}/runs/{run}/retry", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path)), request_body = Option<RetryBody>, responses(
    (status = 201, description = "The new run", body = Forked),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn retry(
    Running(admitted): Running,
    At((_, run)): At<(String, String)>,
    MayBody(body): MayBody<RetryBody>,
) -> Result<Response, Problem> {
    let name = body.run.as_deref().map(run_name).transpose()?;
    let source: RunId = run.into();
    own(&admitted, &source)?;
    let _room = admitted.tenant.views.room().await?;
    let at = admitted.tenant.host.engine().retry_point(&source, body.step.as_deref()).await?;
    forked(&admitted, &source, at, name).await
}

/// Refuses a fork that would repeat what a person approved, of a sender who may approve nothing.
///
/// # Errors
/// 403, and when the run cannot be read.
pub(crate) async fn may_share(admitted: &Admitted, source: &RunId, at: u64) -> Result<(), Problem> {
    let Admitted { tenant, caller } = admitted;
    if caller.may(Scope::Approve) || !tenant.host.engine().shares_approval(source, at).await? {
        return Ok(());
    }
    let detail = "a person approved something in the events that the fork would share, and what follows happens again";
    let problem = Problem::new(StatusCode::FORBIDDEN, "scope-missing", detail);
    Err(problem
        .remedy("fork before the approval, so that it is asked for again, or use a token with the scope `approve`"))
}

async fn forked(admitted: &Admitted, source: &RunId, at: u64, name: Option<NewRunId>) -> Result<Response, Problem> {
    may_share(admitted, source, at).await?;
    let Admitted { tenant, caller } = admitted;
    let by = Some(caller.name.clone());
    let run = tenant.host.engine().fork_by(source, at, name, by.clone()).await?;
    let entry = tenant.entry(&run).await?;
    let now = tenant.host.engine().ports().timer.now();
    let status = entry.as_ref().map_or("pending", |entry| entry.status(now.0)).to_owned();
    let at_text = Timestamp(entry.map_or(now.0, |entry| entry.created_at)).to_text();
    let origin = ForkedFrom { run: source.clone(), seq: at, at: at_text, by };
    let mut response = (StatusCode::CREATED, Json(Forked { run: run.clone(), status, forked: origin })).into_response();
    if let Ok(place) = HeaderValue::from_str(&format!("/v1/{}/runs/{}", encoded(&tenant.name), encoded(&run))) {
        response.headers_mut().insert(header::LOCATION, place);
    }
    Ok(response)
}

/// A part of a path.
pub(crate) fn encoded(part: &str) -> String {
    url::form_urlencoded::byte_serialize(part.as_bytes()).collect::<String>().replace('+', "%20")
}
