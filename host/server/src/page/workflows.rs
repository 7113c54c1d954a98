//! Workflows: what each does, what it takes, its drawing, and a form that starts a run.

use super::{brief, door::Visitor, page, place, run_place};
use crate::{
    access::tokens::Scope,
    api::{self, App, At, GraphFormat, Start, encoded},
    problem::Problem,
};
use axum::{
    Form,
    extract::State,
    response::{IntoResponse, Redirect, Response},
};
use maud::{Markup, html};
use opcell::{Rejected, Workflow};
use opcell_ir::ir::{Input, WorkflowIr};
use opcell_types::Value;
use std::sync::Arc;

/// Begins the names of the fields of inputs; other fields are the form's own.
const FIELD: &str = "input.";

/// The field of a whole input, for a workflow that declares none.
const WHOLE: &str = "input";

/// The workflows of a tenant.
pub(super) async fn list(visitor: Visitor, At(tenant): At<String>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    admitted.tenant.refresh().await;
    let workflows = admitted.tenant.host.now().library().listed();
    let main = html! {
        h1 { "Workflows" }
        @if workflows.is_empty() {
            p.quiet { "The project has no workflows: " code { "workflows" } " of its file names their folders." }
        } @else {
            div.scroll tabindex="0" { table {
                thead { tr { th { "Workflow" } th { "Description" } th.number { "Steps" } } }
                tbody { @for (name, read) in &workflows { (row(&tenant, name, read)) } }
            } }
        }
    };
    Ok(page("Workflows", Some(&tenant), &visitor, None, main))
}

fn row(tenant: &str, name: &Arc<str>, read: &Result<Workflow, Rejected>) -> Markup {
    html! {
        tr {
            td { a href=(workflow_place(tenant, name)) { (name) } }
            @match read {
                Ok(workflow) => {
                    td { (workflow.ir().description.as_deref().unwrap_or_default()) }
                    td.number { (workflow.ir().steps.len()) }
                }
                Err(_) => { td { b { "It does not compile." } } td.number { "–" } }
            }
        }
    }
}

/// The address of a workflow's page.
fn workflow_place(tenant: &str, name: &str) -> String {
    place(tenant, &format!("/workflows/{}", encoded(name)))
}

/// One workflow.
pub(super) async fn show(visitor: Visitor, At((tenant, name)): At<(String, String)>) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    let workflow = api::named(&admitted.tenant, &name).await?;
    let ir = workflow.ir();
    let main = html! {
        h1 { (name) }
        @if let Some(description) = &ir.description { p { (description) } }
        h2 id="start" { "Start a run" }
        @if admitted.caller.may(Scope::Run) {
            form method="post" action={ (workflow_place(&tenant, &name)) "/start" } {
                input type="hidden" name="proof" value=(visitor.proof());
                (fields(ir))
                p { label for="run" { "ID of the run" } " "
                    input id="run" name="run" size="24" placeholder="generated" autocomplete="off"; }
                p { button.yes { "Start" } }
            }
        } @else {
            p.quiet { "The token lacks the scope " code { "run" } "." }
        }
        p { a href={ (place(&tenant, "")) "?workflow=" (encoded(&name)) } { "Runs of this workflow" } }
        h2 id="graph" { "Graph" }
        img.graph src={ (workflow_place(&tenant, &name)) "/graph.svg" } alt={ "The steps of " (name) };
    };
    Ok(page(&name, Some(&tenant), &visitor, None, main))
}

/// Renders a field for each declared input, or one for the whole input.
fn fields(ir: &WorkflowIr) -> Markup {
    html! {
        @for (name, input) in &ir.inputs {
            p {
                label for={ (FIELD) (name) } { b { (name) } " " span.quiet { (input.kind)
                    @if input.default.is_none() { ", required" } } }
                @if let Some(description) = &input.description { br; span.quiet { (description) } }
                br;
                (field(name, input))
            }
            @if let Some(default) = &input.default { p.quiet { "Default:" } (brief(default, "")) }
        }
        @if ir.inputs.is_empty() {
            p {
                label for=(WHOLE) { b { "Input" } " " span.quiet { "JSON; " code { "{}" } " if it is empty" } } br;
                textarea id=(WHOLE) name=(WHOLE) rows="6" cols="60" spellcheck="false" {}
            }
        }
    }
}

fn field(name: &str, input: &Input) -> Markup {
    let required = input.default.is_none();
    let id = format!("{FIELD}{name}");
    html! {
        @match Field::of(&input.kind) {
            Field::Text => { input id=(id) name=(id) size="40" required[required]; }
            Field::Choice => {
                select id=(id) name=(id) {
                    @if !required { option value="" { "default" } }
                    option { "false" } option { "true" }
                }
            }
            Field::Json => {
                textarea id=(id) name=(id) rows="3" cols="60" placeholder="JSON" spellcheck="false" required[required] {}
            }
        }
    }
}

/// The form of an input's field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    /// Text as it is written.
    Text,
    /// True or false.
    Choice,
    /// JSON.
    Json,
}

impl Field {
    /// By the declared type, as any of the languages names it.
    fn of(kind: &str) -> Self {
        match kind {
            "string" | "text" | "str" => Self::Text,
            "boolean" | "bool" => Self::Choice,
            _ => Self::Json,
        }
    }
}

/// Draws a workflow.
pub(super) async fn graph(
    State(app): State<Arc<App>>,
    visitor: Visitor,
    At((tenant, name)): At<(String, String)>,
) -> Result<Response, Problem> {
    let admitted = visitor.admit(&tenant, Scope::Read)?;
    api::workflow_graph(&app, &admitted.tenant, &name, GraphFormat::Svg).await
}

/// Starts a run with the values of the form.
pub(super) async fn start(
    visitor: Visitor,
    At((tenant, name)): At<(String, String)>,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, Problem> {
    let of = |key: &str| form.iter().find(|(name, _)| name == key).map(|(_, value)| value.trim()).unwrap_or_default();
    visitor.check(of("proof"))?;
    let admitted = visitor.admit(&tenant, Scope::Run)?;
    let workflow = api::named(&admitted.tenant, &name).await?;
    let input = input(workflow.ir(), &of)?;
    let run = Some(of("run")).filter(|run| !run.is_empty()).map(api::run_name).transpose()?;
    let start = Start { workflow: &name, input, run, idempotent: false, traceparent: None };
    let (run, _started) = api::begin(&admitted.tenant, start).await?;
    Ok(Redirect::to(&run_place(&tenant, &run)).into_response())
}

/// The input that the fields of a form give. An empty field leaves its input to the default.
fn input<'a>(ir: &WorkflowIr, of: &impl Fn(&str) -> &'a str) -> Result<Value, Problem> {
    if ir.inputs.is_empty() {
        return match of(WHOLE) {
            "" => Ok(Value::object::<&str>([])),
            json => parsed(WHOLE, json),
        };
    }
    let mut values = Vec::new();
    for (name, input) in &ir.inputs {
        let text = of(&format!("{FIELD}{name}"));
        if text.is_empty() {
            continue;
        }
        let value = match Field::of(&input.kind) {
            Field::Text => Value::from(text),
            Field::Choice | Field::Json => parsed(name, text)?,
        };
        values.push((name.to_string(), value));
    }
    Ok(Value::object(values))
}

fn parsed(name: &str, json: &str) -> Result<Value, Problem> {
    Value::from_json(json).map_err(|error| {
        let detail = format!("the field `{name}` is not JSON: {error}");
        Problem::bad_request("invalid-input", detail).remedy("go back, and write strings in quotes, such as \"abc\"")
    })
}
