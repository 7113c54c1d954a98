//! Every folder of `tests/e2e/psi` is a psi project that runs to its end with a scripted model and the real plugins:
//!
//! - `workflows/`: the documents; `script.yaml`: what the model says; `files/`: what it can read;
//! - `expect.json`: the workflow and its input, and how the run ends: `status`, `result`, or `reason` and `step`;
//!   `steps` are those that were entered, callees' among them.

use crate::{host, plugin};
use futures_util::StreamExt as _;
use opcell::{Value, Workflow};
use opcell_engine::Event;
use serde_json::{Value as Json, json};
use std::path::Path;

#[tokio::test(flavor = "multi_thread")]
async fn every_project_runs_as_it_says() {
    let cases = crate::root().join("tests/e2e/psi");
    let only = std::env::var("CASE").unwrap_or_default();
    let mut folders: Vec<_> = std::fs::read_dir(&cases).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.retain(|folder| folder.to_string_lossy().contains(&only));
    folders.sort();
    assert!(!folders.is_empty());
    let mut wrong = Vec::new();
    for folder in folders {
        let expected: Json = serde_json::from_slice(&std::fs::read(folder.join("expect.json")).unwrap()).unwrap();
        let actual = run(&folder, &expected).await;
        if actual != expected {
            wrong.push(format!("{}\n  expected {expected}\n  actual   {actual}", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the run in the form of `expect.json`.
async fn run(folder: &Path, expected: &Json) -> Json {
    let mut project = format!("workflows = [{:?}]\n", folder.join("workflows"));
    for name in ["echo", "workflow-routing"] {
        project += &format!("[plugins.{name}]\npath = {:?}\n", plugin(name));
    }
    project += &format!("[sessions]\nscript = {:?}\ncontext-files = \"none\"\n", folder.join("script.yaml"));
    if folder.join("files").is_dir() {
        project += &format!("[sessions.files.work]\npath = {:?}\n", folder.join("files"));
    }
    let host = host(project).await;
    let text = |key: &str| expected.get(key).and_then(Json::as_str).unwrap_or_default();
    let workflow: Workflow = match host.open(text("workflow")) {
        Ok(workflow) => workflow,
        Err(rejected) => return json!(rejected.to_string()),
    };
    let given = Value::object([("input", Value::from(text("input"))), ("original", Value::from(text("input")))]);

    let run = host.start(&workflow, given).await.unwrap();
    let events = run.events().await.unwrap();
    let steps: Vec<String> = events
        .filter_map(async |recorded| match &recorded.event {
            Event::StepEntered { name, .. } | Event::StepCalled { name, .. } => Some(name.to_string()),
            _ => None,
        })
        .collect()
        .await;
    let outcome = run.finished().await.unwrap();

    let mut actual =
        json!({"workflow": text("workflow"), "input": text("input"), "status": outcome.status, "steps": steps});
    let ended = match &outcome.reason {
        None => json!({"result": Json::from(&outcome.result)}),
        Some(reason) => json!({"reason": reason, "step": outcome.step}),
    };
    actual.as_object_mut().unwrap().extend(ended.as_object().unwrap().clone());
    if outcome.reason.is_some() && expected.get("reason") != actual.get("reason") {
        actual["message"] = json!(outcome.message);
    }
    actual
}
