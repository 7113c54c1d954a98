//! Making the failed call of a run again, in a fork.

use crate::support::{Script, retriable, routed};
use opcell_engine::{ResumeOptions, RunOptions, Status};
use opcell_types::Value;

#[tokio::test(start_paused = true)]
async fn a_failed_run_is_retried_from_the_call_that_failed_with_all_that_came_before() {
    let not_now = || Err(retriable("unavailable", "not now"));
    let script = Script::new()
        .operation("a/first", |_| Ok(Value::from("1")))
        .gives("a/second", [not_now(), not_now(), Ok(Value::from("2"))]);
    let engine = script.engine();
    let program = routed(
        r#"{"name":"first","type":"invoke","invoke":{"operation":"a/first"}},
           {"name":"second","type":"invoke","invoke":{"operation":"a/second"},"retry":{"max":1,"delay-ms":1.0,"backoff":1.0}}"#,
    );
    let run = engine.start(program, Value::object::<&str>([]), RunOptions::default()).await.unwrap();
    let outcome = run.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.step.as_deref()), (Status::Failed, Some("second")));

    let at = engine.retry_point(run.run(), None).await.unwrap();
    let fork = engine.fork_by(run.run(), at, Some("again".parse().unwrap()), Some("ann".into())).await.unwrap();
    let state = engine.state_at(&fork, None).await.unwrap();
    let origin = state.forked().unwrap();
    assert_eq!((&origin.run, origin.seq, origin.by.as_deref()), (run.run(), at, Some("ann")));
    assert_eq!(state.own_start(), origin.at);
    let retried = engine.resume(&fork, ResumeOptions::default()).await.unwrap().finished().await.unwrap();
    assert_eq!(retried.status, Status::Completed);
    let calls = |of: &str| script.called().iter().filter(|called| called.starts_with(of)).count();
    assert_eq!((calls("a/first"), calls("a/second")), (1, 3), "what came before is not called again");

    let first = engine.retry_point(run.run(), Some("first")).await.unwrap();
    assert!(first < at);
    for (run, step) in [(&fork, None), (&fork, Some("none"))] {
        let refused = engine.retry_point(run, step).await.unwrap_err();
        assert_eq!(refused.kind(), "nothing-to-retry", "{refused}");
    }
}
