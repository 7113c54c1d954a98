//! Workflows from end to end: real plugins in cells, a real engine, servers on loopback.
//!
//! The plugins come from `cargo xtask guests`, which `cargo xtask test` runs first.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

#[path = "e2e/budgets.rs"]
mod budgets;
#[path = "e2e/forge.rs"]
mod forge;
#[path = "e2e/github.rs"]
mod github;
#[path = "e2e/provider.rs"]
mod provider;
#[path = "e2e/psi.rs"]
mod psi;
#[path = "e2e/replay.rs"]
mod replay;
#[path = "e2e/sessions.rs"]
mod sessions;
#[path = "e2e/streams.rs"]
mod streams;

use forge::Forge;
use futures_util::StreamExt as _;
use opcell::{Config, Host, RunOutcome, Status, TypedReceipt, Value, Workflow, remedy};
use opcell_sandbox::CompileMode;
use opcell_types::Source;
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

fn plugin(name: &str) -> PathBuf {
    let path = root().join(format!("example-operations/dist/{name}.wasm"));
    assert!(path.is_file(), "{} does not exist: run `cargo xtask guests`", path.display());
    path
}

async fn host(project: String) -> Host {
    host_in(&root(), project).await
}

async fn host_in(folder: &Path, project: String) -> Host {
    let config = Config::parse("opcell.toml", project, folder).unwrap();
    // Our own plugins; the compiler's child process has its own tests.
    Host::builder().config(config).compile(CompileMode::TrustedInProcess).build().await.unwrap()
}

/// A run's end and the receipts of its cells.
async fn run(host: &Host, workflow: &Workflow, input: Value) -> (RunOutcome, Vec<Value>) {
    let run = host.start(workflow, input).await.unwrap();
    let events = run.events().await.unwrap();
    let receipts = events
        .filter_map(async |recorded| {
            let receipt = recorded.event.receipt()?;
            // Its types lose nothing.
            let again = match TypedReceipt::of(receipt).unwrap() {
                TypedReceipt::Cell(cell) => serde_json::to_value(cell),
                TypedReceipt::Call(call) => serde_json::to_value(call),
                // Of a kind that is newer than this test.
                _ => return None,
            };
            assert_eq!(again.unwrap(), serde_json::Value::from(&**receipt));
            Some(Value::clone(receipt))
        })
        .collect()
        .await;
    (run.finished().await.unwrap(), receipts)
}

fn triage() -> Workflow {
    Workflow::load(root().join("tests/e2e/gh-bug-triage.edn")).unwrap()
}

fn triage_project(forge: &Forge, rule: &str) -> String {
    format!(
        "[plugins.github]\npath = {:?}\n\n[plugins.github.grants]\ntools = [\"http.fetch\"]\n\n[[plugins.github.grants.http]]\n\
         hosts = [{:?}]\ncredential = {{ file = {:?} }}\n{rule}\n",
        plugin("github"),
        forge.url(),
        forge.token_file(),
    )
}

fn triage_input(forge: &Forge) -> Value {
    Value::object([("repo", Value::from("acme/rocket")), ("api", Value::from(forge.url()))])
}

#[tokio::test(flavor = "multi_thread")]
async fn an_issue_is_found_and_labelled_on_a_github_compatible_server() {
    let forge = Forge::start(&[
        (9, "Engine stalls", &["bug", "triage"]),
        (4, "Paint it", &["triage"]),
        (7, "Leaks fuel", &["bug", "triage"]),
    ])
    .await;
    let host = host(triage_project(&forge, "methods = [\"GET\", \"POST\", \"DELETE\"]\nprivate = true")).await;

    let (outcome, receipts) = run(&host, &triage(), triage_input(&forge)).await;

    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Value::from("Edited labels on issue #7 +[needs-reproduction] -[triage]"));
    assert_eq!(forge.labels(7), ["bug", "needs-reproduction"]);
    assert_eq!(forge.labels(9), ["bug", "triage"]);
    assert!(forge.every_request_was_authorised());
    // The secret reached the server, and nothing that a plugin, a journal or a person sees.
    assert!(!format!("{outcome:?}{receipts:?}").contains(Forge::TOKEN));
    assert_eq!(receipts.len(), 2);
    assert!(
        outcome.used.host_calls >= 3,
        "two requests to find and label, and one to take a label off: {:?}",
        outcome.used
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_repository_and_its_api_are_those_of_the_workspaces_remote() {
    let forge = Forge::start(&[(7, "Leaks fuel", &["bug", "triage"])]).await;
    let workspace = tempfile::tempdir().unwrap();
    std::fs::create_dir(workspace.path().join(".git")).unwrap();
    let remote = format!("[remote \"origin\"]\n\turl = {}/acme/rocket.git\n", forge.url());
    std::fs::write(workspace.path().join(".git/config"), remote).unwrap();
    let project = triage_project(&forge, "methods = [\"GET\", \"POST\", \"DELETE\"]\nprivate = true")
        + &format!("[plugins.github.grants.files.workspace]\npath = {:?}\ncontrol-files = true\n", workspace.path());
    let host = host(project).await;

    let (outcome, _) = run(&host, &triage(), Value::Null).await;

    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(forge.labels(7), ["bug", "needs-reproduction"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_without_private_addresses_keeps_the_plugin_from_this_machine() {
    let forge = Forge::start(&[(1, "Bug", &["bug", "triage"])]).await;
    let host = host(triage_project(&forge, "methods = [\"GET\", \"POST\", \"DELETE\"]")).await;

    let (outcome, _) = run(&host, &triage(), triage_input(&forge)).await;

    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("denied")));
    let message = outcome.message.unwrap();
    assert!(message.contains("127.0.0.1 is a loopback address"), "{message}");
    let command = remedy::render(&outcome.denial.unwrap().remedy).unwrap();
    assert_eq!(command, format!("opcell plugin grant github http {} --private", forge.url()));
    assert!(forge.was_not_asked());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_for_reading_finds_the_issue_and_denies_the_label() {
    let forge = Forge::start(&[(1, "Bug", &["bug", "triage"])]).await;
    let host = host(triage_project(&forge, "private = true")).await;

    let (outcome, _) = run(&host, &triage(), triage_input(&forge)).await;

    assert_eq!((outcome.reason.as_deref(), outcome.step.as_deref()), (Some("denied"), Some("label")));
    let command = remedy::render(&outcome.denial.unwrap().remedy).unwrap();
    assert!(command.contains("--method POST"), "{command}");
    assert_eq!(forge.labels(1), ["bug", "triage"]);
}

fn health_project(grant: &str) -> String {
    format!(
        "workflows = [\"workflows\"]\n\n[plugins.repo]\npath = {:?}\n\n[plugins.workflow-routing]\npath = {:?}\n\n{grant}",
        plugin("repo"),
        plugin("workflow-routing")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_health_report_goes_round_until_every_file_is_read() {
    let directory = tempfile::tempdir().unwrap();
    for n in 0..250 {
        std::fs::write(directory.path().join(format!("f{n:03}.rs")), "fn main() {} // TODO: later\n").unwrap();
    }
    let grant = format!("[plugins.repo.grants.files.workspace]\npath = {:?}\n", directory.path());
    let host = host(health_project(&grant)).await;

    let (outcome, receipts) = run(&host, &host.open("repo-health").unwrap(), Value::Null).await;

    let report = outcome.result.as_str().unwrap_or_default().to_owned();
    assert!(report.contains("**Healthy") && report.contains("250 markers in 250 files"), "{outcome:?}");
    let markers =
        receipts.iter().filter(|receipt| receipt.get("operation") == Some(&Value::from("repo/find-markers"))).count();
    assert_eq!(markers, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_its_grant_the_health_report_ends_in_a_denial_that_says_what_would_grant_it() {
    let host = host(health_project("")).await;

    let (outcome, receipts) = run(&host, &host.open("repo-health").unwrap(), Value::Null).await;

    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("denied")));
    assert_eq!(outcome.source, Some(Source::Sandbox));
    let denial = outcome.denial.unwrap();
    assert_eq!(denial.rule, "the operator has not granted it to plugin `repo`");
    assert_eq!(remedy::render(&denial.remedy).unwrap(), "opcell plugin grant repo files workspace=PATH");
    assert!(receipts.first().and_then(|receipt| receipt.get("denials")).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_run_ends_and_says_so() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let forge_url = format!("http://{}", silent.local_addr().unwrap());
    let project = format!(
        "[plugins.github]\npath = {:?}\n[plugins.github.grants]\ntools = [\"http.fetch\"]\n\
         [[plugins.github.grants.http]]\nhosts = [{forge_url:?}]\nprivate = true\n",
        plugin("github")
    );
    let host = host(project).await;
    let input = Value::object([("repo", Value::from("acme/rocket")), ("api", Value::from(forge_url))]);
    let run = host.start(&triage(), input).await.unwrap();
    // The plugin waits for an answer that never comes.
    let _connection = silent.accept().await.unwrap();

    run.cancel("enough");

    assert_eq!(run.finished().await.unwrap().status, Status::Cancelled);
}

/// Keeps the receipt of every cell, whoever called it.
#[derive(Clone, Default)]
struct Counted(Arc<Mutex<Vec<String>>>);

impl opcell::LogSink for Counted {
    fn log(&self, _: &str, _: &opcell::CallContext, _: opcell::LogEvent<'_>) {}

    fn ended(&self, _: &opcell::CallContext, receipt: &opcell::CellReceipt) {
        self.0.lock().unwrap().push(format!("{} {:?}", receipt.operation, receipt.error));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_embedder_is_given_the_receipt_of_every_cell() {
    let counted = Counted::default();
    let echo = opcell::PluginConfig::new("echo", plugin("echo"));
    let builder = Host::builder().plugin(echo).log(counted.clone()).compile(CompileMode::TrustedInProcess);
    let host = builder.build().await.unwrap();
    for arguments in [r#"{"text":"hi"}"#, r#"{"text":"again"}"#] {
        host.invoke("echo/echo", Value::from_json(arguments).unwrap()).await.unwrap();
    }
    let ended = counted.0.lock().unwrap().clone();
    assert_eq!(ended, ["echo/echo None", "echo/echo None"]);
}
