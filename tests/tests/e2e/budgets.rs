//! Budgets of a run hold for what its models start.

use crate::host_in;
use opcell::{Event, Status, Value};
use std::fs;

/// Goes round until a limit ends it.
const ROUND: &str = r#"{:name "round" :description "Goes round"
 :steps [{:name "turn" :type :transform :operation :filter :where "true" :inputs {:items {:value []}}
          :judge {:type :expression :expression "'AGAIN'"} :on {"AGAIN" {:goto "turn"}}}]}"#;

const BOSS: &str = r#"{:name "boss" :description "Has others work" :limits {:total-visits 9}
 :steps [{:name "before" :type :transform :operation :filter :where "true" :inputs {:items {:value []}}}
         {:name "ask" :type :session :tools ["delegate"] :workflows ["round"] :skills []
          :contributions [{:type :template :text "Go." :vars {}}]}]}"#;

const SCRIPT: &str = "version: 1
turns:
  - tool-calls:
      - {id: a, name: delegate, arguments: {workflow: round, prompt: go}}
  - tool-calls:
      - {id: b, name: delegate, arguments: {workflow: round, prompt: again}}
  - {text: \"Done.\"}
";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_model_starts_has_what_is_left_and_uses_it_up_for_all() {
    let folder = tempfile::tempdir().unwrap();
    let workflows = folder.path().join("workflows");
    fs::create_dir_all(&workflows).unwrap();
    fs::write(workflows.join("round.edn"), ROUND).unwrap();
    fs::write(workflows.join("boss.edn"), BOSS).unwrap();
    fs::write(folder.path().join("script.yaml"), SCRIPT).unwrap();
    let project = "workflows = [\"workflows\"]\n[sessions]\nscript = \"script.yaml\"\ncontext-files = \"none\"\n";
    let host = host_in(folder.path(), project.to_owned()).await;

    let run = host.start(&host.open("boss").unwrap(), Value::Null).await.unwrap();
    let outcome = run.finished().await.unwrap();

    let mut limits = Vec::new();
    for entry in host.engine().runs().await.unwrap() {
        if entry.run.contains('~') {
            let history = host.engine().history(&entry.run).await.unwrap();
            let Event::RunStarted(started) = &history[0].event else { panic!("{:?}", history[0]) };
            assert_eq!(started.program.name().as_ref(), "round");
            assert_eq!(&*entry.state.status, "failed", "a limit ended it");
            limits.push(started.limits.total_visits);
        }
    }
    limits.sort();
    assert_eq!(limits.last(), Some(&Some(7)), "two of nine were used before: {outcome:?}");
    assert!(limits.iter().all(|limit| limit.is_some()), "{limits:?}");
    assert!(outcome.used.visits <= 9 + 1, "{:?}", outcome.used);
    // The first used everything: the second, if it was begun at all, had nothing.
    assert!(limits.len() == 1 || limits.first() == Some(&Some(0)), "{limits:?}");
    assert!(outcome.status == Status::Completed || outcome.reason.is_some(), "{outcome:?}");
}
