//! Values that are large: kept once, given back as one, never rendered where no one reads.

use crate::support::{Script, json, routed};
use opcell_engine::{Event, ResumeOptions, RunOptions, Status};
use opcell_journal::{Journal, SqliteJournal};
use opcell_types::Value;
use std::sync::Arc;

fn rows() -> Value {
    Value::array((0..5_000).map(|id| Value::object([("id", Value::from(id)), ("name", Value::from("a name"))])))
}

#[tokio::test]
async fn a_large_value_is_in_the_journal_once_and_whoever_resumes_or_forks_the_run_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
    let engine = || opcell_engine::Engine::builder().journal(Arc::new(journal.clone())).build();
    let wait = r#"{"name":"w","type":"wait","wait":{"signal":"go"},"yields":{"type":"data","data":"data"}}"#;
    let input = Value::object([("rows", rows())]);
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let run = engine().start(routed(wait), input.clone(), options).await.unwrap();
    assert_eq!(run.finished().await.unwrap().status, Status::Suspended);

    let records = journal.read(run.run(), 0, 1_000).await.unwrap();
    let written: usize = records.iter().map(|record| record.payload.len()).sum();
    assert!(written < 5_000, "{written} bytes of events");
    let history = engine().history(run.run()).await.unwrap();
    let Event::RunStarted(started) = &history[0].event else { unreachable!() };
    assert_eq!(started.input, input);
    let rows = |value: &Value| value.get("rows").unwrap().clone();
    assert!(rows(&started.input).is_same(&rows(&started.original)), "what was one value is one again");

    let fork = engine().fork(run.run(), history.len() as u64, Some("fork".parse().unwrap())).await.unwrap();
    for run in [run.run().clone(), fork] {
        let resumed = engine().resume(&run, ResumeOptions::default()).await.unwrap();
        resumed.signal("go", super::large::rows(), None);
        let outcome = resumed.finished().await.unwrap();
        assert_eq!((outcome.status, outcome.result), (Status::Completed, super::large::rows()));
        assert_eq!(engine().replay(&run).await.unwrap(), None);
    }
}

#[tokio::test]
async fn more_than_the_limits_allow_is_refused_where_it_arrives() {
    let limits = opcell_engine::ValueLimits { bytes: 1_000, ..Default::default() };
    let script = Script::new().operation("a/b", |_| Ok(Value::from("x".repeat(2_000))));
    let options = || RunOptions { values: limits, ..RunOptions::default() };
    let program = routed(r#"{"name":"s","type":"invoke","invoke":{"operation":"a/b"}}"#);
    let outcome = script.run_with(&program, "{}", options()).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("value-too-large")));

    let refused = script.engine().start(program, rows(), options()).await.err().unwrap();
    assert!(refused.to_string().starts_with("the input is not accepted: a value takes"), "{refused}");
    let deep = (0..200).fold(json("1"), |inner, _| Value::array([inner]));
    let message = opcell_engine::Message::Signal {
        name: "go".into(),
        data: deep,
        by: None,
        key: None,
        question: None,
        may_approve: true,
    };
    let refused = script.engine().send(&"any".into(), &message).await.unwrap_err();
    assert!(refused.to_string().contains("nests 200 levels deep"), "{refused}");
}
