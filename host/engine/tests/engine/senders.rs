//! Signals of senders who may not approve: no approval takes them, whenever it comes.

use crate::support::{Script, json, program, routed};
use opcell_engine::{
    Delivery, Engine, Event, ResumeOptions, RunOptions, RunOutcome, Sender, Status, event::Recorded, outcome::Question,
};
use opcell_journal::{Journal, MemoryJournal, NewRun, Payload, Record, RunId};
use opcell_types::Value;
use std::sync::Arc;

const ASKS: &str =
    r#"{"name":"ask","type":"wait","wait":{"signal":"go","approval":true},"yields":{"type":"data","data":"data"}}"#;

const LISTENS: &str = r#"{"name":"hear","type":"wait","wait":{"signal":"message","approval":true},"yields":{"type":"data","data":"data"}}"#;

/// A plain wait, then a workflow that the run's input names.
const CHOOSES: &str = r#"{"name":"plain","type":"wait","wait":{"signal":"go"}},
    {"name":"chosen","type":"delegate","delegate":{"target":{"from":"workflow-input","path":["w"]},"prompt-string":"go"},
     "outputs":{"handoff":{"source":"delegate/handoff"}},"yields":{"type":"delegated"}}"#;

fn engine(steps: &str, journal: &MemoryJournal) -> Engine {
    let inner = program(&format!(r#"{{"version":"workflow-ir/v1","name":"inner","steps":[{steps}]}}"#));
    let ports = Script::new().workflow(&inner).ports();
    Engine::builder().workflows(ports.workflows).timer(ports.timer).journal(Arc::new(journal.clone())).build()
}

fn runner() -> Sender {
    Sender { by: Some("runner".into()), ..Sender::default() }
}

async fn begin(engine: &Engine, steps: &str) -> RunId {
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let input = json(r#"{"w":{"type":"workflow-ref","name":"inner"}}"#);
    let handle = engine.start(routed(steps), input, options).await.unwrap();
    handle.finished().await.unwrap();
    handle.run().clone()
}

async fn go_on(engine: &Engine, run: &RunId) -> RunOutcome {
    let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
    engine.resume(run, options).await.unwrap().finished().await.unwrap()
}

fn question(outcome: &RunOutcome) -> Arc<str> {
    let [Question::Signal { id, approval: true, .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
    id.clone()
}

fn yes() -> Value {
    json(r#"{"approved":true}"#)
}

#[tokio::test]
async fn an_approval_of_a_workflow_chosen_later_takes_no_signal_of_who_may_not_approve() {
    let engine = engine(ASKS, &MemoryJournal::new());
    let run = begin(&engine, CHOOSES).await;
    let send = async || engine.signal_from(&run, &"go".into(), yes(), runner()).await;
    assert_eq!(send().await.unwrap(), Some(Delivery::Now("plain".into())));
    send().await.unwrap();
    let asking = go_on(&engine, &run).await;
    assert_eq!(asking.status, Status::Suspended, "{asking:?}");
    assert_eq!(send().await.unwrap_err().kind(), "may-not-approve", "now it is known to be an approval");
    assert_eq!(go_on(&engine, &run).await.questions, asking.questions);
    // What no approval takes is no earlier answer either.
    engine.answer(&run, &question(&asking), yes(), Some("ann".into())).await.unwrap();
    let outcome = go_on(&engine, &run).await;
    // The workflow reads who approved.
    let approved = json(r#"{"approved":true,"by":"ann"}"#);
    assert_eq!((outcome.status, &outcome.result), (Status::Completed, &approved), "{outcome:?}");
    let history = engine.history(&run).await.unwrap();
    let signals = history.iter().filter_map(|recorded| match &recorded.event {
        Event::SignalReceived(signal) => Some((signal.by.as_deref(), signal.may_approve)),
        _ => None,
    });
    let runner = (Some("runner"), Some(false));
    assert_eq!(signals.collect::<Vec<_>>(), [runner, runner, (Some("ann"), Some(true))]);
    assert_eq!(engine.replay(&run).await.unwrap(), None);
}

#[tokio::test]
async fn an_early_message_neither_gives_nor_refuses_an_approval() {
    let engine = engine(LISTENS, &MemoryJournal::new());
    let run = begin(&engine, CHOOSES).await;
    let said = engine.signal_from(&run, &"message".into(), "no".into(), runner()).await.unwrap();
    assert_eq!(said, Some(Delivery::Queued));
    engine.signal_from(&run, &"go".into(), Value::Null, runner()).await.unwrap();
    let asking = go_on(&engine, &run).await;
    assert_eq!(asking.status, Status::Suspended, "{asking:?}");
    // A sender who may approve sends the signal by its name.
    engine.signal(&run, &"message".into(), yes(), Some("ann".into())).await.unwrap();
    assert_eq!(go_on(&engine, &run).await.status, Status::Completed);
}

/// The run of one journal in another one, with a part of its signals written otherwise.
async fn rewritten(from: &MemoryJournal, run: &RunId, part: &str, to: &str) -> MemoryJournal {
    let records = from.read(run, 0, 1_000).await.unwrap();
    let records = records.into_iter().map(|record| match record.payload.contains("signal-received") {
        true => {
            assert!(record.payload.contains(part), "{:?}", record.payload);
            Record { payload: Payload::from(record.payload.replace(part, to)), ..record }
        }
        false => record,
    });
    let journal = MemoryJournal::new();
    let new = NewRun { records: records.collect(), ..NewRun::empty(run, "w", 0) };
    let fence = journal.create(new).await.unwrap();
    journal.release(run, fence).await.unwrap();
    journal
}

#[tokio::test]
async fn a_journal_that_does_not_name_the_right_is_replayed_as_it_was_and_approves_nothing_more() {
    let journal = MemoryJournal::new();
    let first = engine(ASKS, &journal);
    let run = begin(&first, ASKS).await;
    first.signal(&run, &"go".into(), yes(), None).await.unwrap();
    assert_eq!(go_on(&first, &run).await.status, Status::Completed);
    let right = r#","may-approve":true"#;
    let old = engine(ASKS, &rewritten(&journal, &run, right, "").await);
    assert_eq!(old.replay(&run).await.unwrap(), None);
    assert_eq!(old.state_at(&run, None).await.unwrap().status(), Status::Completed);
    let forged = engine(ASKS, &rewritten(&journal, &run, right, r#","may-approve":false"#).await);
    let divergence = forged.replay(&run).await.unwrap().unwrap();
    assert!(matches!(divergence.recorded, Recorded { event: Event::SignalTaken { .. }, .. }), "{divergence:?}");

    let journal = MemoryJournal::new();
    let second = engine(ASKS, &journal);
    let run = begin(&second, CHOOSES).await;
    second.signal(&run, &"go".into(), yes(), None).await.unwrap();
    second.signal(&run, &"go".into(), yes(), None).await.unwrap();
    let stopped = second.state_at(&run, None).await.unwrap();
    assert_eq!(stopped.status(), Status::Suspended);
    let inbox = journal.inbox(&run).await.unwrap();
    assert_eq!(inbox.len(), 2);
    let old = MemoryJournal::new();
    let records = journal.read(&run, 0, 1_000).await.unwrap();
    let fence = old.create(NewRun { records, ..NewRun::empty(&run, "w", 0) }).await.unwrap();
    old.release(&run, fence).await.unwrap();
    for message in inbox {
        assert!(message.payload.contains(right), "{}", message.payload);
        old.post(&run, message.at, message.payload.replace(right, "").into()).await.unwrap();
    }
    question(&go_on(&engine(ASKS, &old), &run).await);
}
