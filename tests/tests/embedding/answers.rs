//! Runs that ask, and those who answer them.

use super::builder;
use opcell::{Delivery, MemoryJournal, Question, ResumeOptions, prelude::*};
use std::time::Duration;

const SHIPPING: &str = r#"{:name "shipping" :description "Asks before it ships"
 :steps [{:name "ask" :type :wait :signal "ship" :approval true :question "Ship it?"}
         {:name "ship" :type :exit :status :success :output {:from {:step "ask" :output :data} :path [:why]}}]}"#;

async fn started(host: &Host, options: RunOptions) -> Run {
    host.start_with(&Workflow::compile("shipping.edn", SHIPPING).unwrap(), Value::Null, options).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_says_so_and_an_answer_by_name_ends_it() {
    let host = builder().build().await.unwrap();
    let run = started(&host, RunOptions::default()).await;
    let mut updates = run.updates().await.unwrap();
    let mut kinds = Vec::new();
    while let Some(update) = updates.next().await {
        match update {
            RunUpdate::Happened(recorded) => kinds.push(recorded.event.kind().to_owned()),
            RunUpdate::Suspended(questions) => {
                assert!(matches!(&questions[..], [Question::Signal { name, approval: true, .. }] if &**name == "ship"));
                let typo = run.approve("shipp", Decision::approve()).await.unwrap_err();
                assert_eq!(typo.kind(), "not-asked");
                let unknown = run.signal("shipp", true, None).await.unwrap_err();
                assert_eq!(unknown.kind(), "unknown-signal");
                let delivery = run.approve("ship", Decision::approve().by("ann").why("paid")).await.unwrap();
                assert_eq!(delivery, Delivery::Now("ask".into()));
                let twice = run.approve("ship", Decision::refuse()).await.unwrap_err();
                assert!(["already-answered", "not-asked", "run-ended"].contains(&twice.kind()), "{twice}");
                kinds.push("suspended".to_owned());
            }
            _ => {}
        }
    }
    assert_eq!(kinds.iter().filter(|kind| *kind == "suspended").count(), 1, "{kinds:?}");
    let end = run.outcome().await.unwrap().ended().unwrap();
    assert_eq!(end.result, Value::from("paid"), "{end:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outcome_says_whether_the_run_has_ended_waits_or_was_released() {
    let journal = MemoryJournal::new();
    let host = builder().journal(journal.clone()).build().await.unwrap();
    let detached = started(&host, RunOptions { detach: true, ..RunOptions::default() }).await;
    let outcome = detached.outcome().await.unwrap();
    assert!(matches!(&outcome, Outcome::Suspended(questions) if questions.len() == 1), "{outcome:?}");
    assert!(outcome.ended().is_err());

    let options = RunOptions { run: Some("kept".parse().unwrap()), ..RunOptions::default() };
    let kept = started(&host, options).await;
    host.close(Duration::ZERO).await;
    let released = kept.outcome().await.unwrap();
    assert!(matches!(released, Outcome::Released | Outcome::Suspended(_)), "{released:?}");

    // After a restart, one call takes up what was left.
    let later = builder().journal(journal).build().await.unwrap();
    let resumed = later.resume_all(ResumeOptions::default()).await.unwrap();
    assert_eq!(resumed.len(), 2, "{resumed:?}");
    assert!(later.resume_all(ResumeOptions::default()).await.unwrap().is_empty(), "they are driven already");
    for run in resumed {
        run.run.unwrap();
        // Through a handle by ID, as another part of the program has it.
        let by_id = later.run(&run.id);
        assert_eq!(by_id.state().await.unwrap().status, Status::Suspended);
        by_id.approve("ship", Decision::refuse().by("bob")).await.unwrap();
        assert_eq!(by_id.wait().await.unwrap().status, Status::Failed);
    }
    assert_eq!(later.run("nope").state().await.unwrap_err().to_string(), "the journal has no run `nope`");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_driven_here_is_not_said_to_be_driven_by_another_process() {
    let host = builder().build().await.unwrap();
    let run = started(&host, RunOptions::default()).await;
    let error = host.resume(run.id(), ResumeOptions::default()).await.unwrap_err().to_string();
    assert!(error.contains("this process drives it already") && !error.contains("stopped"), "{error}");
}
