//! Calls of real plugins again, with what a journal has of them.

use crate::{forge::Forge, health_project, host_in, root, triage, triage_input, triage_project};
use opcell::{
    CompileMode, Config, Event, Recorded, Status, Value,
    replay::{self, RecordedCall, ReplayOptions, Replayed},
};
use std::collections::BTreeSet;

/// Runs the triage with this setting of the plugin, and gives what the journal has of it.
async fn recorded(forge: &Forge, setting: &str) -> (Config, Vec<Recorded>) {
    let project = triage_project(forge, "methods = [\"GET\", \"POST\", \"DELETE\"]\nprivate = true");
    let project = project.replacen("[plugins.github]\n", &format!("[plugins.github]\n{setting}\n"), 1);
    let config = Config::parse("opcell.toml", project.clone(), &root()).unwrap();
    let host = host_in(&root(), project).await;
    let run = host.start(&triage(), triage_input(forge)).await.unwrap();
    let id = run.id().to_owned();
    let outcome = run.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    // As a store keeps events: as text.
    let events = host.engine().history(&id.as_str().into()).await.unwrap().into_iter().map(|recorded| {
        let event: Event = serde_json::from_str(&recorded.event.to_json()).unwrap();
        assert_eq!(event, recorded.event);
        Recorded::new(recorded.seq, recorded.at, event)
    });
    (config, events.collect())
}

/// Our own plugins; the compiler's child process has its own tests.
async fn replayed(config: &Config, call: &RecordedCall) -> Replayed {
    let compile = Some(CompileMode::TrustedInProcess);
    replay::replay(config, call, ReplayOptions { compile, ..ReplayOptions::default() }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn recorded_calls_are_the_same_again_without_any_request_and_hold_no_secret() {
    let forge = Forge::start(&[(7, "Leaks fuel", &["bug", "triage"])]).await;
    let (config, events) = recorded(&forge, "record-host-calls = true").await;
    let text: String = events.iter().map(|recorded| recorded.event.to_json()).collect();
    assert!(text.contains("tools.call") && !text.contains(Forge::TOKEN));
    let asked = forge.requests();
    for (step, requests) in [("discover", 1), ("label", 2)] {
        let calls = replay::calls("r", &events, step).unwrap();
        let [call] = calls.as_slice() else { panic!("{}", calls.len()) };
        let fetched = call.recording.calls.iter().filter(|made| made.call == "tools.call").count();
        assert_eq!((fetched, call.left_out()), (requests, None), "{step}");
        let replayed = replayed(&config, call).await;
        assert_eq!(replayed.differences, [], "{step}");
        assert!(replayed.not_made.is_empty());
    }
    assert_eq!(forge.requests(), asked);
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_that_read_files_and_judges_are_the_same_again_when_the_files_are_gone() {
    let directory = tempfile::tempdir().unwrap();
    for n in 0..3 {
        std::fs::write(directory.path().join(format!("f{n}.rs")), "fn main() {} // TODO: later\n").unwrap();
    }
    let grant = format!("[plugins.repo.grants.files.workspace]\npath = {:?}\n", directory.path());
    let project = health_project(&grant)
        .replacen("[plugins.repo]\n", "[plugins.repo]\nrecord-host-calls = true\n", 1)
        .replacen("[plugins.workflow-routing]\n", "[plugins.workflow-routing]\nrecord-host-calls = true\n", 1);
    let config = Config::parse("opcell.toml", project.clone(), &root()).unwrap();
    let host = host_in(&root(), project).await;
    let run = host.start(&host.open("repo-health").unwrap(), Value::Null).await.unwrap();
    let id = run.id().to_owned();
    assert_eq!(run.finished().await.unwrap().status, Status::Completed);
    let events = host.engine().history(&id.as_str().into()).await.unwrap();
    drop(directory);
    let steps: BTreeSet<&str> = events
        .iter()
        .filter_map(|recorded| match &recorded.event {
            Event::StepEntered { name, .. } | Event::StepCalled { name, .. } => Some(&**name),
            _ => None,
        })
        .collect();
    let (mut operations, mut judges) = (0, 0);
    for call in steps.into_iter().filter_map(|step| replay::calls(&id, &events, step).ok()).flatten() {
        *(if call.judge { &mut judges } else { &mut operations }) += 1;
        assert_eq!(replayed(&config, &call).await.differences, [], "{}", call.id);
    }
    assert!(operations > 0 && judges > 0, "{operations} operations, {judges} judges");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_not_recorded_says_how_to_record_the_next() {
    let forge = Forge::start(&[(7, "Leaks fuel", &["bug", "triage"])]).await;
    let (_, events) = recorded(&forge, "record-host-calls = false").await;
    let finding = replay::calls("r", &events, "discover").unwrap_err();
    assert_eq!(finding.code, "not-recorded");
    assert!(finding.help.unwrap().contains("record-host-calls = true"));
    let finding = replay::calls("r", &events, "discovr").unwrap_err();
    assert_eq!((finding.code, finding.help.as_deref()), ("unknown-step", Some("did you mean `discover`?")));
}
