//! A pull request whose checks are followed: a loop of PENDING and FAIL over delegated Markdown, an LLM judge, host
//! tools, and the GitHub plugin in its cells.

use crate::{forge::Forge, host_in, plugin, root};
use futures_util::StreamExt as _;
use opcell::{RunOutcome, Status, Value};
use opcell_engine::Event;
use std::{fs, path::Path};

/// Runs `gh-checks` with one of the scripts in a folder of its own; how it ended, and the steps it entered.
async fn checked(forge: &Forge, folder: &Path, script: &str) -> (RunOutcome, Vec<String>) {
    fs::write(folder.join("checks.txt"), "build: red\n").unwrap();
    let (here, url) = (root().join("tests/e2e/github"), forge.url());
    let plugins = ["github", "workflow-routing"].map(|name| format!("[plugins.{name}]\npath = {:?}\n", plugin(name)));
    let project = format!(
        "workflows = [{:?}]\n{}[plugins.github.grants]\ntools = [\"http.fetch\"]\n[[plugins.github.grants.http]]\nhosts = [{url:?}]\n\
         methods = [\"GET\", \"POST\", \"DELETE\"]\nprivate = true\ncredential = {{ file = {:?} }}\n\
         [sessions]\nscript = {:?}\ncontext-files = \"none\"\n[sessions.files.work]\npath = \".\"\naccess = \"read-write\"\n",
        here.join("workflows"),
        plugins.concat(),
        forge.token_file(),
        here.join("scripts").join(script),
    );
    let host = host_in(folder, project).await;
    let input = Value::object([("repo", Value::from("acme/rocket")), ("api", Value::from(url.as_str()))]);
    let run = host.start(&host.open("gh-checks").unwrap(), input).await.unwrap();
    let entered = run.events().await.unwrap().filter_map(async |recorded| match &recorded.event {
        Event::StepEntered { name, .. } | Event::StepCalled { name, .. } => Some(name.to_string()),
        _ => None,
    });
    let steps = entered.collect().await;
    (run.finished().await.unwrap(), steps)
}

async fn forge() -> Forge {
    let forge = Forge::start(&[(3, "Fuel leaks", &["watch"])]).await;
    forge.opens(5, "Close the seal", &["watch"], "fix/leak");
    forge
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_fail_are_mended_and_looked_at_until_they_pass() {
    let (forge, folder) = (forge().await, tempfile::tempdir().unwrap());
    let (outcome, steps) = checked(&forge, folder.path(), "mended.yaml").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(outcome.result, Value::from("Edited labels on pr #5 +[ready] -[watch]"));
    assert_eq!(steps, ["find", "look", "step", "look", "step", "mend", "look", "step", "passed"]);
    assert_eq!(forge.labels(5), ["ready"]);
    assert_eq!(forge.labels(3), ["watch"], "an issue is not a pull request");
    assert_eq!(fs::read_to_string(folder.path().join("checks.txt")).unwrap(), "build: green\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_never_end_are_handed_to_a_person_after_four_looks() {
    let (forge, folder) = (forge().await, tempfile::tempdir().unwrap());
    let (outcome, steps) = checked(&forge, folder.path(), "never-ends.yaml").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    assert_eq!(steps.iter().filter(|step| *step == "look").count(), 4);
    assert_eq!(steps.last().map(String::as_str), Some("stuck"));
    assert_eq!(forge.labels(5), ["needs-a-person"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn checks_that_stay_red_are_handed_to_a_person_after_two_attempts_to_mend_them() {
    let (forge, folder) = (forge().await, tempfile::tempdir().unwrap());
    let (outcome, steps) = checked(&forge, folder.path(), "stays-red.yaml").await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let count = |name: &str| steps.iter().filter(|step| *step == name).count();
    assert_eq!((count("look"), count("mend"), count("stuck")), (3, 2, 1), "{steps:?}");
    assert_eq!(forge.labels(5), ["needs-a-person"]);
}
