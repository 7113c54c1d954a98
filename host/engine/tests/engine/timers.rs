//! Timers of runs: they fire in time, whatever becomes of the driver that asked for them.

use crate::{
    lasting::{crashed, engine, wait},
    support::{Script, json, routed, sequential},
};
use opcell_engine::{Engine, ResumeOptions, RunOptions, Status, ports::Timer};
use opcell_journal::{Journal, MemoryJournal};
use std::sync::Arc;

#[tokio::test]
async fn a_signal_that_does_not_come_in_time_fails_the_step() {
    let outcome = Script::new().run_with(&routed(&wait("", r#","timeout-ms":20"#)), "{}", RunOptions::default()).await;
    assert_eq!(outcome.reason.as_deref(), Some("timeout"));
}

#[tokio::test]
async fn a_run_that_waits_for_time_alone_can_be_parked_and_is_due_when_the_time_has_come() {
    let journal = MemoryJournal::new();
    let engine = Engine::builder().journal(Arc::new(journal.clone())).build();
    let park = |ms| Some(std::time::Duration::from_millis(ms));
    let options = RunOptions { detach: true, park: park(10), ..RunOptions::default() };
    let handle = engine.start(routed(&wait("", r#","timeout-ms":300"#)), json("{}"), options).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Suspended);
    assert!(engine.runnable(9).await.unwrap().is_empty(), "it is not due yet");
    tokio::time::sleep(std::time::Duration::from_millis(310)).await;
    assert_eq!(engine.runnable(9).await.unwrap(), [handle.run().clone()]);
    let resumed =
        engine.resume(handle.run(), ResumeOptions { park: park(10), ..ResumeOptions::default() }).await.unwrap();
    assert_eq!(resumed.finished().await.unwrap().reason.as_deref(), Some("timeout"));
}

#[tokio::test]
async fn a_timer_continues_from_when_it_was_asked_for_after_its_driver_is_gone() {
    let each = r#""each":{"over":"$inputs.xs","delay-ms":50.0}"#;
    let step = format!(r#"{{"name":"e","type":"invoke","invoke":{{"operation":"t"}},{each}}}"#);
    let workflow = sequential(&step, r#"{"r":{"type":"array"}}"#);
    let operates = || Script::new().operation("t", |_| Ok(json("1")));
    let (script, whole) = (operates(), MemoryJournal::new());
    let handle =
        engine(&script, &whole).start(workflow, json(r#"{"xs":[1,2,3]}"#), RunOptions::default()).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Completed);
    assert_eq!(script.world().sleeps, [50.0, 50.0]);
    let events = whole.read(handle.run(), 0, 100).await.unwrap();
    let first = events.iter().find(|record| record.payload.contains("sleep")).unwrap();
    // Its driver goes away in the first pause, and another one comes 30 ms later; the second pause is a new one.
    let (later, left) = (operates(), crashed(&whole, handle.run(), first.seq).await);
    later.passes(first.at - later.now().0 + 30_000);
    let resumed = engine(&later, &left).resume(handle.run(), ResumeOptions::default()).await.unwrap();
    assert_eq!(resumed.finished().await.unwrap().status, Status::Completed);
    assert_eq!(later.world().sleeps, [20.0, 50.0]);
}
