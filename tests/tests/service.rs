//! The example of a service does what its first lines say: it passes overload back, replaces a plugin between calls,
//! and ends in order.

#![allow(clippy::unwrap_used, reason = "a failed test")]

#[path = "../../host/opcell/examples/service.rs"]
#[allow(dead_code, reason = "its `main`, and what only that uses")]
mod service;

use opcell::{CompileMode, Host, LimitRequest, PluginConfig, prelude::*};
use opcell_cli::{bench::Guest, selftest::Case};
use std::{fs, sync::Mutex};
use tokio::sync::mpsc;

/// The output of the service; one test at a time uses it.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());
static ONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

fn hear(line: &str) {
    SAID.lock().unwrap().push(line.to_owned());
}

async fn said(host: Host, requests: &[&str]) -> Vec<String> {
    let (sender, receiver) = mpsc::channel(1);
    let requests: Vec<String> = requests.iter().map(|&line| line.to_owned()).collect();
    tokio::spawn(async move {
        for line in requests {
            sender.send(line).await.unwrap();
        }
    });
    service::serve(host, receiver, hear).await;
    std::mem::take(&mut *SAID.lock().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_answered_and_a_plugin_is_loaded_again_between_them() {
    let _one = ONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("echo.wasm");
    fs::write(&path, Guest::built_in().unwrap().component).unwrap();
    let builder = Host::builder().compile(CompileMode::TrustedInProcess);
    let host = builder.plugin(PluginConfig::new("echo", &path)).build().await.unwrap();
    let first = host.reload(host.plugin_config("echo").unwrap().clone()).await.unwrap();
    let unknown = host.reload(PluginConfig::new("ecko", &path)).await.err().unwrap().to_string();
    assert!(unknown.contains("no plugin `ecko`"), "{unknown}");
    let mut answers = said(
        first,
        &[r#"echo/echo {"n":1}"#, "reload echo", "reload other", r#"echo/echo {"n":2}"#, "echo/none {}", "echo/echo {"],
    )
    .await;
    answers.sort();
    let starts = [
        "bad-request",
        "failed unknown-operation",
        r#"ok {"n":1}"#,
        r#"ok {"n":2}"#,
        "reloaded echo",
        "unknown-plugin other",
    ];
    assert_eq!(answers.len(), starts.len(), "{answers:?}");
    for (answer, start) in answers.iter().zip(starts) {
        assert!(answer.starts_with(start), "{answers:?}");
    }
    // The host that was replaced has what it had.
    assert!(host.invoke("echo/echo", Value::object([("n", Value::from(3))])).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_was_changed_counts_for_the_new_host_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin.wasm");
    fs::write(&path, Guest::built_in().unwrap().component).unwrap();
    let builder = Host::builder().compile(CompileMode::TrustedInProcess);
    let old = builder.plugin(PluginConfig::new("plugin", &path)).build().await.unwrap();
    let case = Case::all().unwrap().into_iter().find(|case| case.name == "loop-in-export").unwrap();
    fs::write(&path, case.component).unwrap();
    let new = old.reload(old.plugin_config("plugin").unwrap().clone()).await.unwrap();
    assert!(old.catalog().find("echo/echo").is_ok() && old.catalog().find("hostile/run").is_err());
    assert!(new.catalog().find("hostile/run").is_ok() && new.catalog().find("echo/echo").is_err());
    // What cannot be loaded changes nothing.
    fs::write(&path, "not a component").unwrap();
    assert!(new.reload(new.plugin_config("plugin").unwrap().clone()).await.is_err());
    assert!(new.catalog().find("hostile/run").is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_that_says_that_it_is_busy_makes_no_client_try_again() {
    let _one = ONE.lock().await;
    let forges = include_str!("embedding/plugin.wat");
    let forges = opcell_cli::selftest::component_from_wat(forges, None, "operation-plugin", None).unwrap();
    let builder = Host::builder().compile(CompileMode::TrustedInProcess);
    let host = builder.plugin(PluginConfig::from_bytes("forges", forges)).build().await.unwrap();
    let answers = said(host, &["test/run {}"]).await;
    assert_eq!(answers, ["failed plugin busy: busy: busy"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn too_many_requests_are_told_that_the_plugin_is_busy() {
    let _one = ONE.lock().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("loops.wasm");
    let case = Case::all().unwrap().into_iter().find(|case| case.name == "loop-in-export").unwrap();
    fs::write(&path, case.component).unwrap();
    let limits = LimitRequest {
        wall_time: Some(500),
        concurrent_cells: Some(1),
        waiting_cells: Some(1),
        ..LimitRequest::default()
    };
    let builder = Host::builder().compile(CompileMode::TrustedInProcess);
    let host = builder.plugin(PluginConfig::new("loops", &path).limits(limits)).build().await.unwrap();
    let answers = said(host, &["hostile/run"; 6]).await;
    let count = |start: &str| answers.iter().filter(|answer| answer.starts_with(start)).count();
    assert_eq!(answers.len(), 6, "{answers:?}");
    assert!(count("failed timeout") >= 1 && count("busy") >= 4, "{answers:?}");
}
