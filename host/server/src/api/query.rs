//! Receipts and denials: of one run, or of all of them, newest first. Every page looks at a bounded number of events,
//! whether it finds something in them or not.

use super::{
    body::{At, Params},
    shapes::{FoundDenial, FoundReceipt, RunDenial, RunReceipt, UnreadableRun},
    shown,
};
use crate::{
    access::{Admitted, Reading},
    problem::Problem,
};
use axum::Json;
use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use opcell::{Denial, remedy};
use opcell_engine::{Engine, RunError, event::Recorded};
use opcell_journal::{JournalError, RunId, RunQuery};
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json};
use std::sync::Arc;
use utoipa::{IntoParams, ToSchema};

/// Receipts or denials in one page: by default, and at most.
const PAGE: (usize, usize) = (100, 500);

/// Events that one page looks at; a run counts as this many at least.
const MAX_EVENTS: u64 = 20_000;
const EACH_RUN: u64 = 50;

/// Events, and runs, that are read at once.
const EVENTS_PER_READ: u64 = 256;
const RUNS: usize = 50;

/// The selection within one run.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct RunPart {
    /// Only those of events after this one: the `next` of the page before.
    after: Option<u64>,
    /// At most about this many; 100 by default, 500 at most. A page ends after 20,000 events as well.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
}

/// The selection of receipts and runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WantedReceipts {
    /// Only those of runs of this workflow.
    workflow: Option<String>,
    /// Only those of this plugin's cells.
    plugin: Option<String>,
    /// Only those of calls of this operation, judge or tool.
    operation: Option<String>,
    /// Only those with denials.
    #[serde(default)]
    denied: bool,
    /// At most about this many; 100 by default, 500 at most. A page ends after 20,000 events as well.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// The `next` of the page before.
    from: Option<String>,
}

/// The selection of denials and runs.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct WantedDenials {
    /// Only those of runs of this workflow.
    workflow: Option<String>,
    /// Only those of this plugin's cells.
    plugin: Option<String>,
    /// Only those of this capability, such as `http`, or of one by its name, such as `tool http.fetch`.
    capability: Option<String>,
    /// At most about this many; 100 by default, 500 at most. A page ends after 20,000 events as well.
    #[param(minimum = 1, maximum = 500)]
    limit: Option<usize>,
    /// The `next` of the page before.
    from: Option<String>,
}

/// The receipts of calls.
#[derive(Debug, Serialize, ToSchema)]
pub struct Receipts {
    /// Each with the number of its event.
    #[schema(value_type = Vec<RunReceipt>)]
    receipts: Vec<Json_>,
    /// `after` of the next page, if there may be one.
    next: Option<u64>,
}

/// The denials of a run.
#[derive(Debug, Serialize, ToSchema)]
pub struct Denials {
    /// Each with the number of its event, the rule and the remedy.
    #[schema(value_type = Vec<RunDenial>)]
    denials: Vec<Json_>,
    /// `after` of the next page, if there may be one.
    next: Option<u64>,
}

/// The receipts of calls of many runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundReceipts {
    /// Each with its run, the number of its event and when that was; those of the newest run first.
    #[schema(value_type = Vec<FoundReceipt>)]
    receipts: Vec<Json_>,
    /// Runs that could not be read to their ends, and why.
    #[schema(value_type = Vec<UnreadableRun>)]
    unreadable: Vec<Json_>,
    /// `from` of the next page, if there may be one. A page may have found nothing, and the next one something.
    next: Option<String>,
}

/// The denials of many runs.
#[derive(Debug, Serialize, ToSchema)]
pub struct FoundDenials {
    /// Each with its run, the number of its event and when that was; those of the newest run first.
    #[schema(value_type = Vec<FoundDenial>)]
    denials: Vec<Json_>,
    /// Runs that could not be read to their ends, and why.
    #[schema(value_type = Vec<UnreadableRun>)]
    unreadable: Vec<Json_>,
    /// `from` of the next page, if there may be one. A page may have found nothing, and the next one something.
    next: Option<String>,
}

/// Lists the receipts of a run's cells and tools, a page at a time.
#[utoipa::path(get, operation_id = "list_run_receipts", path = "/v1/{tenant}/runs/{run}/receipts", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), RunPart), responses(
    (status = 200, description = "A page of receipts", body = Receipts),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn receipts(
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<RunPart>,
) -> Result<Json<Receipts>, Problem> {
    let (receipts, next) = of_run(&admitted, run.into(), &params, |recorded| {
        receipt(recorded)
            .map(|receipt| json!({"seq": recorded.seq, "receipt": Json_::from(receipt)}))
            .into_iter()
            .collect()
    })
    .await?;
    Ok(Json(Receipts { receipts, next }))
}

/// Lists everything that a run's plugins and tools were refused, each with its remedy, a page at a time.
#[utoipa::path(get, operation_id = "list_run_denials", path = "/v1/{tenant}/runs/{run}/denials", tag = "runs",
    params(("tenant" = String, Path), ("run" = String, Path), RunPart), responses(
    (status = 200, description = "A page of denials", body = Denials),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn denials(
    Reading(admitted): Reading,
    At((_, run)): At<(String, String)>,
    Params(params): Params<RunPart>,
) -> Result<Json<Denials>, Problem> {
    let (denials, next) = of_run(&admitted, run.into(), &params, |recorded| {
        denied(recorded).map(|denial| json!({"seq": recorded.seq, "denial": with_remedy(&denial)})).collect()
    })
    .await?;
    Ok(Json(Denials { denials, next }))
}

/// Finds receipts in all runs, those of the newest run first, a page at a time.
#[utoipa::path(get, operation_id = "list_receipts", path = "/v1/{tenant}/receipts", tag = "runs",
    params(("tenant" = String, Path), WantedReceipts),
    responses((status = 200, description = "A page of receipts", body = FoundReceipts),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn all_receipts(
    Reading(admitted): Reading,
    Params(wanted): Params<WantedReceipts>,
) -> Result<Json<FoundReceipts>, Problem> {
    let search = Search::new(wanted.workflow.as_deref(), wanted.limit, wanted.from.as_deref())?;
    let is = |receipt: &Value, key: &str, wanted: &Option<String>| {
        wanted.as_deref().is_none_or(|wanted| receipt.get(key).and_then(Value::as_str) == Some(wanted))
    };
    let found = search.run(&admitted, |recorded| {
        let receipt = receipt(recorded).filter(|receipt| {
            is(receipt, "plugin", &wanted.plugin)
                && is(receipt, "operation", &wanted.operation)
                && (!wanted.denied || !remedy::of_receipt(receipt).is_empty())
        });
        receipt.map(|receipt| ("receipt", Json_::from(receipt))).into_iter().collect()
    });
    let Found { found, unreadable, next } = found.await?;
    Ok(Json(FoundReceipts { receipts: found, unreadable, next }))
}

/// Finds denials in all runs, those of the newest run first, a page at a time.
#[utoipa::path(get, operation_id = "list_denials", path = "/v1/{tenant}/denials", tag = "runs",
    params(("tenant" = String, Path), WantedDenials),
    responses((status = 200, description = "A page of denials", body = FoundDenials),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn all_denials(
    Reading(admitted): Reading,
    Params(wanted): Params<WantedDenials>,
) -> Result<Json<FoundDenials>, Problem> {
    let search = Search::new(wanted.workflow.as_deref(), wanted.limit, wanted.from.as_deref())?;
    let is_wanted = |denial: &Denial| {
        let of_kind = wanted.capability.as_deref().is_none_or(|wanted| {
            let rest = denial.capability.strip_prefix(wanted);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        });
        of_kind && wanted.plugin.as_deref().is_none_or(|wanted| denial.remedy.plugin() == Some(wanted))
    };
    let found = search.run(&admitted, |recorded| {
        denied(recorded).filter(is_wanted).map(|denial| ("denial", with_remedy(&denial))).collect()
    });
    let Found { found, unreadable, next } = found.await?;
    Ok(Json(FoundDenials { denials: found, unreadable, next }))
}

/// The moment that a query names, in microseconds since 1970. Without a zone it is of UTC.
///
/// # Errors
/// When it is none.
pub(crate) fn moment_of(text: &str) -> Result<i64, Problem> {
    let civil = || text.parse::<DateTime>().and_then(|at| at.to_zoned(TimeZone::UTC)).map(|at| at.timestamp());
    let at = text.parse::<Timestamp>().or_else(|_| civil()).map_err(|_| {
        let problem = Problem::bad_request("invalid-query", format!("`{}` is not a time", shown(text)));
        problem.remedy("write it as `2026-01-02` or `2026-01-02T03:04:05Z`")
    })?;
    Ok(at.as_microsecond())
}

fn receipt(recorded: &Recorded) -> Option<&Value> {
    recorded.event.receipt().map(|receipt| &**receipt)
}

fn denied(recorded: &Recorded) -> impl Iterator<Item = Denial> {
    receipt(recorded).map(remedy::of_receipt).unwrap_or_default().into_iter()
}

/// A denial with the command that would lift it.
pub(super) fn with_remedy(denial: &Denial) -> Json_ {
    let mut shown = json!(denial);
    if let (Some(shown), Some(command)) = (shown.as_object_mut(), remedy::render(&denial.remedy)) {
        shown.insert("command".to_owned(), json!(command));
    }
    shown
}

fn limit_of(asked: Option<usize>) -> Result<usize, Problem> {
    let limit = asked.unwrap_or(PAGE.0);
    if limit == 0 || limit > PAGE.1 {
        return Err(Problem::bad_request("invalid-query", format!("`limit` must be from 1 to {}", PAGE.1)));
    }
    Ok(limit)
}

async fn of_run<T>(
    admitted: &Admitted,
    run: RunId,
    params: &RunPart,
    of: impl Fn(&Recorded) -> Vec<T>,
) -> Result<(Vec<T>, Option<u64>), Problem> {
    let (limit, after) = (limit_of(params.limit)?, params.after.unwrap_or(0));
    if i64::try_from(after).is_err() {
        return Err(Problem::bad_request("unknown-event", format!("there is no event {after}")));
    }
    let _room = admitted.tenant.views.room().await?;
    let mut found = Vec::new();
    let mut events = MAX_EVENTS;
    let next = scan(admitted.tenant.host.engine(), &run, after, limit, &mut events, &mut found, of).await?;
    Ok((found, next))
}

/// Looks at the events of a run after one of them, until enough is found or enough is looked at; then, where to go on.
async fn scan<T>(
    engine: &Engine,
    run: &RunId,
    mut after: u64,
    limit: usize,
    events: &mut u64,
    found: &mut Vec<T>,
    of: impl Fn(&Recorded) -> Vec<T>,
) -> Result<Option<u64>, RunError> {
    loop {
        let page = engine.events_after(run, after, EVENTS_PER_READ).await?;
        let is_end = page.is_empty();
        for recorded in page {
            found.extend(of(&recorded));
            after = recorded.seq;
            *events = events.saturating_sub(1);
            if found.len() >= limit {
                return Ok(Some(after));
            }
        }
        if is_end {
            return Ok(None);
        }
        if *events == 0 {
            return Ok(Some(after));
        }
    }
}

/// The findings in many runs.
struct Found {
    found: Vec<Json_>,
    unreadable: Vec<Json_>,
    next: Option<String>,
}

/// A search through the runs of a tenant.
struct Search {
    workflow: Option<Arc<str>>,
    limit: usize,
    /// The run in whose middle the page begins, and the last event of it that was looked at.
    from: Option<(u64, RunId)>,
}

impl Search {
    fn new(workflow: Option<&str>, limit: Option<usize>, from: Option<&str>) -> Result<Self, Problem> {
        let place = |from: &str| {
            let (after, run) = from.split_once('~')?;
            Some((after.parse().ok().filter(|after: &u64| i64::try_from(*after).is_ok())?, run.into()))
        };
        let from = from.map(|from| {
            let detail = || format!("`{}` is not the `next` of a page", shown(from));
            place(from).ok_or_else(|| Problem::bad_request("invalid-query", detail()))
        });
        Ok(Self { workflow: workflow.map(Arc::from), limit: limit_of(limit)?, from: from.transpose()? })
    }

    async fn run(
        self,
        admitted: &Admitted,
        of: impl Fn(&Recorded) -> Vec<(&'static str, Json_)>,
    ) -> Result<Found, Problem> {
        let _room = admitted.tenant.views.room().await?;
        let engine = admitted.tenant.host.engine();
        let mut page = Found { found: Vec::new(), unreadable: Vec::new(), next: None };
        let (mut events, mut from) = (MAX_EVENTS, self.from);
        loop {
            let before = from.as_ref().map(|(_, run)| run.clone());
            let query = RunQuery { before, workflow: self.workflow.clone(), limit: RUNS, ..RunQuery::default() };
            let runs = engine.runs_page(query).await?;
            let (is_end, begun) = (runs.is_empty(), from.take());
            let rest = runs.into_iter().map(|run| (0, run.run));
            let all: Vec<(u64, RunId)> = begun.into_iter().chain(rest).collect();
            for (after, run) in all {
                let of = |recorded: &Recorded| {
                    let shown = |(key, what): (&str, Json_)| json!({"run": run, "seq": recorded.seq, "at": recorded.at.to_text(), key: what});
                    of(recorded).into_iter().map(shown).collect()
                };
                events = events.saturating_sub(EACH_RUN);
                match scan(engine, &run, after, self.limit, &mut events, &mut page.found, of).await {
                    Ok(Some(after)) => {
                        page.next = Some(format!("{after}~{run}"));
                        return Ok(page);
                    }
                    Ok(None) => {}
                    // It has been removed since it was listed.
                    Err(RunError::Journal(error)) if matches!(*error, JournalError::UnknownRun(_)) => {}
                    Err(error) => {
                        page.unreadable.push(json!({"run": run, "code": error.kind(), "detail": error.to_string()}))
                    }
                }
                from = Some((i64::MAX as u64, run));
            }
            if is_end {
                return Ok(page);
            }
            if events == 0 {
                page.next = from.map(|(after, run)| format!("{after}~{run}"));
                return Ok(page);
            }
        }
    }
}
