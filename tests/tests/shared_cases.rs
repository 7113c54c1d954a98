//! The cases that hosts in every language run (`bindings/cases`), in Rust.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

use opcell::{CompileMode, ResumeOptions, prelude::*, remedy};
use opcell_cli::selftest::component_from_wat;
use serde_json::{Value as Json, json};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The places at which what was found differs; an expected object names the keys that matter.
fn differences(expected: &Json, found: &Json, place: &str) -> Vec<String> {
    match (expected, found) {
        (Json::Object(expected), Json::Object(found)) => expected
            .iter()
            .flat_map(|(key, expected)| match found.get(key) {
                Some(found) => differences(expected, found, &format!("{place}.{key}")),
                None => vec![format!("{place}.{key} is missing")],
            })
            .collect(),
        (Json::Array(expected), Json::Array(found)) if expected.len() == found.len() => (0..)
            .zip(expected.iter().zip(found))
            .flat_map(|(n, (expected, found))| differences(expected, found, &format!("{place}[{n}]")))
            .collect(),
        _ if expected == found => Vec::new(),
        _ => vec![format!("{place} is {found} and not {expected}")],
    }
}

fn kind(failure: &Failure) -> String {
    // As Python has it: the name of the variant in kebab-case.
    match failure.kind() {
        FailureKind::InvalidArguments => "invalid-arguments".to_owned(),
        other => format!("{other:?}").split(['(', ' ']).next().unwrap_or_default().to_lowercase(),
    }
}

fn fault(failure: &Failure) -> String {
    format!("{:?}", failure.fault()).to_lowercase()
}

async fn call(host: &Host, case: &Json) -> Vec<String> {
    let operation = case["operation"].as_str().unwrap();
    let called = host.invoke(operation, Value::from(case["arguments"].clone())).await;
    let receipt = match &called {
        Ok(output) => output.receipt(),
        Err(error) => error.receipt(),
    };
    let denials = receipt.map(|receipt| remedy::of_receipt(receipt)).unwrap_or_default();
    let (data, failure) = match &called {
        Ok(output) => (Json::from(&output.data), Json::Null),
        Err(CallError { failure, .. }) => {
            (Json::Null, json!({"kind": kind(failure), "code": &*failure.reason, "fault": fault(failure)}))
        }
    };
    let receipt = receipt.map(|receipt| serde_json::to_value(receipt).unwrap()).unwrap_or_default();
    let found = json!({"data": data, "failure": failure, "denials": denials, "receipt": receipt});
    let expected = ["data", "failure", "denials", "receipt"].into_iter().filter_map(|key| Some((key, case.get(key)?)));
    expected.flat_map(|(key, expected)| differences(expected, &found[key], &format!("{operation}.{key}"))).collect()
}

fn text(lines: &Json) -> String {
    lines.as_array().unwrap().iter().map(|line| format!("{}\n", line.as_str().unwrap())).collect()
}

/// The kinds of a run's events in order. A call that ends at once is one event, and otherwise several, so that cases name
/// those of runs without calls.
async fn events(host: &Host, run: &str) -> Json {
    let history = host.run(run).history().await.unwrap();
    history.iter().map(|recorded| Json::from(recorded.event.kind())).collect()
}

async fn run(host: &Host, case: &Json) -> Vec<String> {
    let document = &case["workflow"];
    let name = document["name"].as_str().unwrap();
    let workflow = Workflow::compile(name, text(&document["lines"])).unwrap();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let run = host.start_with(&workflow, Value::from(case["input"].clone()), options).await.unwrap();
    let mut outcome = run.finished().await.unwrap();
    if let Some(answer) = case.get("answer") {
        let decision = Decision::approve().by("ann").why(answer["why"].as_str().unwrap());
        host.run(run.id()).approve(answer["question"].as_str().unwrap(), decision).await.unwrap();
        outcome = host.resume(run.id(), ResumeOptions::default()).await.unwrap().finished().await.unwrap();
    }
    let questions = outcome.questions.iter().map(|question| {
        let written = serde_json::to_value(question).unwrap();
        let (kind, fields) = written.as_object().unwrap().iter().next().unwrap();
        let mut fields = fields.clone();
        fields["kind"] = json!(kind);
        fields
    });
    let found = json!({
        "workflow": &*outcome.workflow, "status": outcome.status.as_str(), "result": Json::from(&outcome.result),
        "step": outcome.step.as_deref(), "reason": outcome.reason.as_deref(),
        "questions": questions.collect::<Vec<_>>(),
    });
    let mut wrong = differences(&case["outcome"], &found, name);
    if let Some(expected) = case.get("events") {
        wrong.extend(differences(expected, &events(host, run.id()).await, &format!("{name}.events")));
    }
    wrong
}

async fn perform(case: &Json) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in case["files"].as_object().into_iter().flatten() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.as_str().unwrap()).unwrap();
    }
    let operations = root().join("example-operations/dist");
    let project = text(&case["project"]).replace("$OPERATIONS", &operations.to_string_lossy());
    let file = folder.path().join("opcell.toml");
    fs::write(&file, project.replace("$PROJECT", &folder.path().to_string_lossy())).unwrap();
    let builder = Host::builder().config(Config::load(&file).unwrap()).compile(CompileMode::TrustedInProcess);
    let host = builder.build().await.unwrap();
    let mut differences = Vec::new();
    for case in case["calls"].as_array().into_iter().flatten() {
        differences.extend(call(&host, case).await);
    }
    for case in case["runs"].as_array().into_iter().flatten() {
        differences.extend(run(&host, case).await);
    }
    host.close(std::time::Duration::from_secs(5)).await;
    differences
}

#[test]
fn every_case_for_all_languages_ends_as_it_says() {
    let mut cases: Vec<PathBuf> = fs::read_dir(root().join("bindings/cases"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "json"))
        .collect();
    cases.sort();
    assert!(cases.len() >= 5, "{} cases were found", cases.len());
    opcell::runtime().unwrap().block_on(async {
        for path in cases {
            let case = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
            let wrong = perform(&case).await;
            assert!(wrong.is_empty(), "{}:\n{}", path.display(), wrong.join("\n"));
        }
    });
}

/// `SNAPSHOTS=overwrite cargo test -p opcell-tests --test shared_cases` writes it.
#[test]
fn the_component_of_the_cases_is_the_one_of_the_tests_on_embedding() {
    let manifest = r#"{"schema":1,"name":"shop","version":"1.0.0","capabilities":{"tools":[{"name":"shop.price","reason":"to say what a thing costs"}]}}"#;
    let text = include_str!("embedding/plugin.wat");
    let component = component_from_wat(text, None, "operation-plugin", Some(manifest)).unwrap();
    let path = root().join("bindings/cases/shop.wasm");
    if std::env::var("SNAPSHOTS").is_ok_and(|how| how == "overwrite") {
        fs::write(&path, &component).unwrap();
    }
    assert_eq!(fs::read(&path).ok(), Some(component), "bindings/cases/shop.wasm is of another version");
}
