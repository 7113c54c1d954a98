//! Workflows: those of the tenant by name, and documents that are sent to be checked or compiled.

use super::{
    App, GraphFormat,
    body::{At, Body, Params},
    shapes::Finding,
    shown,
};
use crate::{
    access::{Reading, Running},
    problem::Problem,
    tenant::Tenant,
};
use axum::{
    Json,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use opcell::{Rejected, Severity, Workflow, document, report};
use opcell_ir::diagnostic::{did_you_mean, listed};
use serde::{Deserialize, Serialize};
use serde_json::{Value as Json_, json};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};
use utoipa::{IntoParams, ToSchema};

/// A workflow in a list.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct WorkflowEntry {
    /// Its name.
    #[schema(value_type = String)]
    name: Arc<str>,
    /// One sentence.
    description: Option<String>,
    /// The names of its steps, in authored order; none if it does not compile.
    #[schema(value_type = Vec<String>)]
    steps: Vec<Arc<str>>,
    /// Declared inputs by name, as the execution model has them.
    inputs: Json_,
    /// Why it does not compile, with places.
    #[schema(value_type = Vec<Finding>)]
    findings: Vec<Json_>,
}

/// Every workflow of a tenant.
#[derive(Debug, Serialize, ToSchema)]
pub struct WorkflowList {
    /// Those of the tenant, by name.
    workflows: Vec<WorkflowEntry>,
}

/// Lists the workflows, those that do not compile among them.
#[utoipa::path(get, operation_id = "list_workflows", path = "/v1/{tenant}/workflows", tag = "workflows",
    params(("tenant" = String, Path)), responses(
    (status = 200, description = "The workflows", body = WorkflowList),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn list(Reading(admitted): Reading) -> Json<WorkflowList> {
    admitted.tenant.refresh().await;
    let entry = |(name, read): (Arc<str>, Result<Workflow, Rejected>)| match read {
        Ok(workflow) => WorkflowEntry {
            name,
            description: workflow.ir().description.clone(),
            steps: workflow.step_names(),
            inputs: serde_json::to_value(&workflow.ir().inputs).unwrap_or_default(),
            findings: Vec::new(),
        },
        Err(rejected) => WorkflowEntry {
            name,
            description: None,
            steps: Vec::new(),
            inputs: json!({}),
            findings: rejected.to_json(),
        },
    };
    Json(WorkflowList { workflows: admitted.tenant.host.now().library().listed().into_iter().map(entry).collect() })
}

/// A workflow by name; never a file by its path.
pub(crate) async fn named(tenant: &Arc<Tenant>, name: &str) -> Result<Workflow, Problem> {
    tenant.refresh().await;
    let host = tenant.host.now();
    match host.library().named(name) {
        Some(read) => Ok(read?),
        None => {
            let names: Vec<Arc<str>> = host.library().listed().into_iter().map(|(name, _)| name).collect();
            let problem = Problem::not_found("unknown-workflow", format!("there is no workflow `{}`", shown(name)));
            Err(match did_you_mean(name, names.iter().map(AsRef::as_ref)) {
                Some(meant) => problem.remedy(format!("did you mean `{meant}`?")),
                None => problem.remedy("list the workflows with a GET of `workflows`"),
            })
        }
    }
}

/// Gives a workflow as the execution model (`workflow-ir/v1`).
#[utoipa::path(get, operation_id = "get_workflow", path = "/v1/{tenant}/workflows/{workflow}", tag = "workflows",
    params(("tenant" = String, Path), ("workflow" = String, Path)), responses(
    (status = 200, description = "The workflow in the execution model", body = Object),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn get(
    Reading(admitted): Reading,
    At((_, name)): At<(String, String)>,
) -> Result<Json<Json_>, Problem> {
    let workflow = named(&admitted.tenant, &name).await?;
    Ok(Json(serde_json::to_value(workflow.ir().as_ref()).unwrap_or_default()))
}

/// The options of drawing.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct GraphParams {
    /// The format; `svg` by default.
    #[serde(default)]
    #[param(inline)]
    format: Option<GraphFormat>,
}

impl GraphParams {
    pub(crate) fn format(&self) -> GraphFormat {
        self.format.unwrap_or_default()
    }
}

/// Draws a workflow.
#[utoipa::path(get, operation_id = "get_workflow_graph", path = "/v1/{tenant}/workflows/{workflow}/graph",
    tag = "workflows",
    params(("tenant" = String, Path), ("workflow" = String, Path), GraphParams), responses(
    (status = 200, description = "The drawing", content((String = "image/svg+xml"), (String = "text/plain"))),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn graph(
    State(app): State<Arc<App>>,
    Reading(admitted): Reading,
    At((_, name)): At<(String, String)>,
    Params(params): Params<GraphParams>,
) -> Result<Response, Problem> {
    workflow_graph(&app, &admitted.tenant, &name, params.format()).await
}

/// Draws a workflow of a tenant.
pub(crate) async fn workflow_graph(
    app: &App,
    tenant: &Arc<Tenant>,
    name: &str,
    format: GraphFormat,
) -> Result<Response, Problem> {
    let ir = named(tenant, name).await?.ir().clone();
    let draw = app.draw.map(|draw| draw());
    drawn(app, format, move || draw.ok_or("this server draws no graphs")?.draw(&ir, format)).await
}

/// Draws away from the runtime: laying out a large graph takes a while.
pub(crate) async fn drawn(
    app: &App,
    format: GraphFormat,
    draw: impl FnOnce() -> Result<String, String> + Send + 'static,
) -> Result<Response, Problem> {
    let failed = |why: String| Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "render-failed", why);
    let _room = app.drawings.acquire().await.map_err(|error| failed(error.to_string()))?;
    let drawn = tokio::task::spawn_blocking(draw).await;
    let text = drawn.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let kind = match format {
        GraphFormat::Svg => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    };
    // Its styles are within it: they are all that a drawing may have.
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    Ok(([(header::CONTENT_TYPE, kind), (header::CONTENT_SECURITY_POLICY, policy)], text).into_response())
}

/// A document.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentBody {
    /// Tells the language, as a file's name would: `triage.edn`.
    name: String,
    /// The document.
    text: String,
}

/// The findings about a document.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub struct Checked {
    /// `true` if it compiles.
    ok: bool,
    /// Errors and warnings with their places.
    #[schema(value_type = Vec<Finding>)]
    findings: Vec<Json_>,
}

/// Compiles a document, and then does something with it, away from the threads that answer other requests. Few
/// documents of a tenant are compiled at a time; the work for a request whose client has gone is not begun.
async fn compiled<T: Send + 'static>(
    tenant: &Tenant,
    body: DocumentBody,
    then: impl FnOnce(document::Document) -> T + Send + 'static,
) -> Result<T, Problem> {
    // What a document names beside itself does not concern someone who sends a text.
    let plain = Path::new(&body.name).file_name().is_some_and(|name| name == body.name.as_str());
    if !plain {
        let detail = format!("`{}` is not a file name", shown(&body.name));
        return Err(Problem::bad_request("invalid-name", detail).remedy("send a name such as `triage.edn`"));
    }
    let abandoned = || Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "not-compiled", "compiling was abandoned");
    let room = tenant.compiling.clone().acquire_owned().await.map_err(|_| abandoned())?;
    let wanted = Wanted::default();
    let asks = wanted.0.clone();
    let work = tokio::task::spawn_blocking(move || {
        // The place of a work that cannot be stopped is free when it has ended, and not when its client has gone.
        let _room = room;
        let compiled = asks.load(Ordering::Relaxed).then(|| document::compile(Path::new(&body.name), body.text));
        compiled.filter(|_| asks.load(Ordering::Relaxed)).map(then)
    });
    work.await.ok().flatten().ok_or_else(abandoned)
}

/// `true` while a request waits for its answer.
struct Wanted(Arc<AtomicBool>);

impl Default for Wanted {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

/// Checks a document without keeping it.
#[utoipa::path(post, operation_id = "check_document", path = "/v1/{tenant}/check", tag = "workflows",
    params(("tenant" = String, Path)),
    request_body = DocumentBody, responses(
    (status = 200, description = "What was found", body = Checked),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn check(
    Running(admitted): Running,
    Body(body): Body<DocumentBody>,
) -> Result<Json<Checked>, Problem> {
    let host = admitted.tenant.host.now();
    let check = move |document: document::Document| {
        let source = document.source.clone();
        let mut findings = document.diagnostics.clone();
        if let Ok(workflow) = Workflow::of(document) {
            findings.extend(host.check(&workflow));
        }
        let ok = findings.iter().all(|finding| finding.severity != Severity::Error);
        let findings = listed(findings).iter().map(|finding| report::to_json(Some(&source), finding)).collect();
        Checked { ok, findings }
    };
    compiled(&admitted.tenant, body, check).await.map(Json)
}

/// Compiles a document to the execution model without keeping it.
#[utoipa::path(post, operation_id = "compile_document", path = "/v1/{tenant}/compile", tag = "workflows",
    params(("tenant" = String, Path)),
    request_body = DocumentBody, responses(
    (status = 200, description = "The workflow in the execution model", body = Object),
    (status = "4XX", description = "Refused", body = Problem, content_type = "application/problem+json")))]
pub(super) async fn compile(
    Running(admitted): Running,
    Body(body): Body<DocumentBody>,
) -> Result<Json<Json_>, Problem> {
    let compile = |document| -> Result<Json_, Rejected> {
        let workflow = Workflow::of(document)?;
        Ok(serde_json::to_value(workflow.ir().as_ref()).unwrap_or_default())
    };
    Ok(Json(compiled(&admitted.tenant, body, compile).await??))
}
