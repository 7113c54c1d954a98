//! Runs that survive: waiting, signals, cancelling, resuming, time travel, and the proof that the journal is the state.

use crate::support::{Script, drive_by_hand, failure, json, program, retriable, routed, sequential};
use opcell_engine::{
    Delivery, Engine, Event, Message, Program, ResumeOptions, RunError, RunOptions, RunOutcome, State, Status,
    conversation::{Message as ChatMessage, ToolCallRequest},
    event::{Answer, EffectId, RunStarted},
    outcome::Question,
    ports::{Effects, ModelRound},
};
use opcell_ir::ir::RunLimits;
use opcell_journal::{Append, Cut, Journal, MemoryJournal, NewRun, Snapshot, SqliteJournal};
use opcell_types::Value;
use proptest::prelude::*;
use std::sync::Arc;

fn tool(name: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t"}},"yields":{{"type":"data","data":"data"}}}}"#
    )
}

pub fn wait(rest: &str, step: &str) -> String {
    format!(
        r#"{{"name":"w","type":"wait","wait":{{"signal":"go"{rest}}},"yields":{{"type":"data","data":"data"}}{step}}}"#
    )
}

pub fn engine<J: Journal + Clone + 'static>(script: &Script, journal: &J) -> Engine {
    let ports = script.ports();
    Engine::builder()
        .operations(ports.operations)
        .judges(ports.judges)
        .sessions(ports.sessions)
        .workflows(ports.workflows)
        .timer(ports.timer)
        .journal(Arc::new(journal.clone()))
        .build()
}

/// Whoever asked may go away at any moment: a client that closes its connection, a timeout around the call.
#[tokio::test]
async fn a_run_whose_starter_goes_away_while_the_journal_takes_it_is_driven_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
    let engine = engine(&Script::new().tool("t", "1"), &journal);
    for number in 0..20 {
        let options = RunOptions { run: Some(format!("r{number}").parse().unwrap()), ..RunOptions::default() };
        let mut start = Box::pin(engine.start(routed(&tool("a")), json("{}"), options));
        // As far as it comes at once; then it is dropped.
        assert!(futures_util::poll!(&mut start).is_pending());
    }
    let ended = async {
        loop {
            let runs = journal.runs().await.unwrap();
            if runs.len() == 20 && runs.iter().all(|run| run.state.ended && !run.driven) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), ended).await;
    assert!(ended.is_ok(), "{:?}", journal.runs().await.unwrap());
}

#[tokio::test]
async fn a_run_whose_resumer_goes_away_while_it_is_taken_is_driven_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
    let engine = engine(&Script::new().tool("t", "1"), &journal);
    let options = RunOptions { run: Some("r".parse().unwrap()), detach: true, ..RunOptions::default() };
    options.release.cancel();
    engine.start(routed(&tool("a")), json("{}"), options).await.unwrap().finished().await.unwrap();
    // Nothing was begun, so that nothing is in doubt, and whoever looks for work finds it.
    assert_eq!(engine.runnable(10).await.unwrap(), ["r".into()]);
    let run = "r".into();
    let mut resume = Box::pin(engine.resume(&run, ResumeOptions::default()));
    assert!(futures_util::poll!(&mut resume).is_pending());
    drop(resume);
    let ended = async {
        while !journal.runs().await.unwrap().iter().all(|run| run.state.ended && !run.driven) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), ended).await;
    assert!(ended.is_ok(), "{:?}", journal.runs().await.unwrap());
}

#[tokio::test]
async fn a_step_waits_for_its_signal_and_its_data_is_the_result() {
    let engine = Script::new().engine();
    let handle = engine.start(routed(&wait("", "")), json("{}"), RunOptions::default()).await.unwrap();
    handle.signal("other", json("1"), None);
    handle.signal("go", json(r#"{"n":2}"#), Some("ann".into()));
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"n":2}"#)));
    crate::support::check_history(&engine, &engine.state_at(handle.run(), None).await.unwrap().outcome()).await;
}

#[tokio::test]
async fn a_signal_that_came_before_is_queued_and_taken_once() {
    let second = wait("", "").replace(r#""name":"w""#, r#""name":"w2""#);
    let engine = Script::new().engine();
    let handle =
        engine.start(routed(&[wait("", ""), second].join(",")), json("{}"), RunOptions::default()).await.unwrap();
    handle.signal("go", json("1"), None);
    handle.signal("go", json("2"), None);
    assert_eq!(handle.finished().await.unwrap().result, json("2"));
}

#[tokio::test]
async fn an_approval_says_who_and_why_and_a_refusal_fails() {
    let question = r#","approval":true,"question":{"text":"Ship {{v}}?","vars":{"v":{"from":"workflow-input"}}}"#;
    let engine = Script::new().engine();
    let options = || RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(routed(&wait(question, "")), json(r#""1.2""#), options()).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Suspended);
    let [Question::Signal { name, step, question: Some(question), approval: true, path, visit: 1, again: false, .. }] =
        outcome.questions.as_slice()
    else {
        panic!("{:?}", outcome.questions)
    };
    assert_eq!((&**name, &**step, &**question, &**path), ("go", "w", "Ship 1.2?", "w"));
    let refusal = Message::Signal {
        name: "go".into(),
        data: json(r#"{"approved":false,"why":"not yet"}"#),
        by: Some("ann".into()),
        key: None,
        question: None,
        may_approve: true,
    };
    engine.send(handle.run(), &refusal).await.unwrap();
    let resumed = engine.resume(handle.run(), ResumeOptions::default()).await.unwrap();
    let outcome = resumed.finished().await.unwrap();
    assert_eq!(
        (outcome.reason.as_deref(), outcome.message.as_deref()),
        (Some("refused"), Some("ann refused: not yet"))
    );
}

/// Two answers to one question may be in the inbox before the run has read either of them.
#[tokio::test]
async fn an_answer_is_for_its_question_also_where_the_next_one_has_the_same_name() {
    let approval = |name: &str, text: &str| {
        let question = format!(r#","approval":true,"question":{{"text":"{text}"}}"#);
        wait(&question, "").replace(r#""name":"w""#, &format!(r#""name":"{name}""#))
    };
    let steps = [approval("news", "Send?"), approval("drop", "Delete?")].join(",");
    let engine = Script::new().engine();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(routed(&steps), json("{}"), options).await.unwrap();
    let outcome = handle.finished().await.unwrap();
    let id = |outcome: &RunOutcome| outcome.questions.first().and_then(Question::id).unwrap().clone();
    let first = id(&outcome);
    let answer = || Message::Signal {
        name: "go".into(),
        data: json(r#"{"approved":true}"#),
        by: None,
        key: None,
        question: Some(first.clone()),
        may_approve: true,
    };
    engine.answer(handle.run(), &first, json(r#"{"approved":true}"#), None).await.unwrap();
    let again = engine.answer(handle.run(), &first, json(r#"{"approved":false}"#), None).await.unwrap_err();
    assert_eq!(again.kind(), "already-answered");
    engine.send(handle.run(), &answer()).await.unwrap();
    let options = || ResumeOptions { detach: true, ..ResumeOptions::default() };
    let outcome = engine.resume(handle.run(), options()).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.status, Status::Suspended, "the second answer is not one to the second question");
    let second = id(&outcome);
    assert_ne!(first, second);
    assert!(matches!(outcome.questions.as_slice(), [Question::Signal { again: true, .. }]));
    let gone = engine.answer(handle.run(), &first, json(r#"{"approved":true}"#), None).await.unwrap_err();
    assert_eq!(gone.kind(), "not-asked");
    engine.send(handle.run(), &answer()).await.unwrap();
    engine.answer(handle.run(), &second, json(r#"{"approved":true}"#), None).await.unwrap();
    let outcome = engine.resume(handle.run(), options()).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
}

#[tokio::test]
async fn a_cancelled_run_stops_what_is_in_flight_and_starts_nothing_more() {
    let script = Script::new().operation("t", |_| Ok(json("1")));
    let engine = script.engine();
    let steps = [wait("", ""), tool("a")].join(",");
    let handle = engine.start(routed(&steps), json("{}"), RunOptions::default()).await.unwrap();
    handle.cancel("no longer needed");
    handle.signal("go", json("1"), None);
    let outcome = handle.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("no longer needed")));
    assert!(script.called().is_empty());
    let last = engine.history(handle.run()).await.unwrap().pop().unwrap();
    assert!(matches!(last.event, Event::RunFinished(_)));
}

#[tokio::test]
async fn everybody_gets_every_event_from_the_first_one() {
    let script = Script::new().operation("t", |_| Ok(json("1")));
    let engine = script.engine();
    let handle =
        engine.start(routed(&[wait("", ""), tool("a")].join(",")), json("{}"), RunOptions::default()).await.unwrap();
    let mut early = handle.events().await.unwrap();
    let first = early.next().await.unwrap();
    assert_eq!(first.seq, 1);
    let mut late = handle.events().await.unwrap();
    handle.signal("go", json("1"), None);
    handle.finished().await.unwrap();
    let mut seen = vec![1];
    while let Some(event) = early.next().await {
        seen.push(event.seq);
    }
    let mut late_seen = Vec::new();
    while let Some(event) = late.next().await {
        late_seen.push(event.seq);
    }
    let all: Vec<u64> = engine.history(handle.run()).await.unwrap().iter().map(|event| event.seq).collect();
    assert_eq!(seen, all);
    assert_eq!(late_seen, all);
}

/// A journal with the first `keep` events of a finished run: what a crash at that point leaves.
pub async fn crashed(whole: &MemoryJournal, run: &Arc<str>, keep: u64) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let records = whole.read(run, 0, keep).await.unwrap();
    let fence = journal.create(NewRun { records, ..NewRun::empty(run, "w", 0) }).await.unwrap();
    journal.release(run, fence).await.unwrap();
    journal
}

fn everything() -> Arc<Program> {
    routed(
        r#"{"name":"find","type":"invoke","invoke":{"operation":"t","args":{"x":{"from":"workflow-input"}}},"outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"},
            "retry":{"max":2,"delay-ms":5.0,"backoff":2.0},
            "judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"GO"},"goto":"next"},{"outcome":{"text":"AGAIN"},"goto":{"step":"find"},"max-iterations":3}]},
           {"name":"talk","type":"session","session":{"tools":["read"],"contributions":[{"type":"template","text":"work","vars":{}}]},
            "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"yields":{"type":"text","text":"final-llm-reply"},
            "judge":{"type":"llm","session":{"contributions":[{"type":"template","text":"good?","vars":{}}]}},"on":[{"outcome":{"keyword":"ok"},"goto":"next"}]},
           {"name":"all","type":"invoke","invoke":{"operation":"t","args":{"v":{"expression":"$item"}}},"each":{"over":"$inputs.xs","delay-ms":1.5,"concurrency":2}},
           {"name":"split","type":"parallel","parallel":{"branches":[["p1"],["p2","p3"]],"reduce":"barrier","into":"r"}},
           {"name":"p1","grouped":true,"type":"invoke","invoke":{"operation":"t"}},
           {"name":"p2","grouped":true,"type":"invoke","invoke":{"operation":"t"}},
           {"name":"p3","grouped":true,"type":"delegate","delegate":{"target":"inner","prompt-string":"hello"},"yields":{"type":"delegated"}},
           {"name":"last","type":"invoke","invoke":{"operation":"t","args":{"r":{"expression":"$steps.split.output"}}},"outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"}}"#,
    )
}

/// A model that answers by what it is asked, so that a resumed run can be compared whatever was repeated.
fn answer_what_is_asked(round: &ModelRound) -> ChatMessage {
    match round.messages.last().map(|last| last.content.as_str()) {
        Some("work") => {
            let call = ToolCallRequest { id: "1".to_owned(), name: "read".to_owned(), arguments: json("{}") };
            ChatMessage { tool_calls: vec![call], ..ChatMessage::assistant("") }
        }
        Some("good?") => ChatMessage::assistant("hm"),
        Some(feedback) if feedback.starts_with("Your response") => ChatMessage::assistant(":ok"),
        _ => ChatMessage::assistant("done"),
    }
}

fn everywhere() -> Script {
    let inner = program(
        r#"{"version":"workflow-ir/v1","name":"inner","steps":[{"name":"i","type":"invoke","invoke":{"operation":"t","args":{"in":{"from":"workflow-input"}}},"outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"}}]}"#,
    );
    Script::new()
        .operation("t", |call| Ok(call.arguments.clone()))
        .operation("j", |call| Ok(json(if call.context.visit == 1 { r#""AGAIN""# } else { r#""GO""# })))
        .answers(answer_what_is_asked)
        .tool("read", "1")
        .workflow(&inner)
}

const INPUT: &str = r#"{"xs":[1,2,3]}"#;

#[tokio::test]
async fn a_run_resumed_after_any_event_ends_as_if_nothing_had_happened() {
    let whole = MemoryJournal::new();
    let undisturbed = engine(&everywhere(), &whole);
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let handle = undisturbed.start(everything(), json(INPUT), options).await.unwrap();
    let expected = handle.finished().await.unwrap();
    assert_eq!(expected.status, Status::Completed, "{expected:?}");
    let events = undisturbed.history(handle.run()).await.unwrap().len() as u64;
    for keep in 1..events {
        let journal = crashed(&whole, handle.run(), keep).await;
        let script = everywhere();
        let resumed = engine(&script, &journal).resume(handle.run(), ResumeOptions::default()).await.unwrap();
        let outcome = resumed.finished().await.unwrap();
        assert_eq!((outcome.status, &outcome.result), (expected.status, &expected.result), "after event {keep}");
        crate::support::check_history(&engine(&script, &journal), &outcome).await;
    }
}

/// Keys of effects that have ended among a run's first `keep` events.
async fn ended(engine: &Engine, run: &Arc<str>, keep: u64) -> Vec<String> {
    let mut keys = Vec::new();
    let mut frames = std::collections::HashMap::new();
    for recorded in engine.history_up_to(run, Some(keep)).await.unwrap() {
        match recorded.event {
            Event::Requested { effect, frame, .. } => drop(frames.insert(effect, frame)),
            Event::Replied { effect, .. } => keys.push(format!("{run}/{}", frames[&effect])),
            _ => {}
        }
    }
    keys
}

#[tokio::test]
async fn elements_and_groups_that_have_ended_are_not_done_again() {
    let each = r#"{"name":"a","type":"invoke","invoke":{"operation":"t","args":{"v":{"expression":"$item"}}},"each":{"over":"$inputs.xs","concurrency":2}}"#;
    let parallel = r#"{"name":"a","type":"parallel","parallel":{"branches":[["p"],["q"],["r"]],"reduce":"barrier","into":"x"}},
        {"name":"p","grouped":true,"type":"invoke","invoke":{"operation":"t"}},
        {"name":"q","grouped":true,"type":"invoke","invoke":{"operation":"t"}},
        {"name":"r","grouped":true,"type":"invoke","invoke":{"operation":"t"}}"#;
    for steps in [each, parallel] {
        let whole = MemoryJournal::new();
        let script = everywhere();
        let undisturbed = engine(&script, &whole);
        let handle = undisturbed.start(routed(steps), json(INPUT), RunOptions::default()).await.unwrap();
        let expected = handle.finished().await.unwrap();
        assert_eq!((expected.status, script.world().keys.len()), (Status::Completed, 3), "{expected:?}");
        let events = undisturbed.history(handle.run()).await.unwrap().len() as u64;
        let mut in_between = 0;
        for keep in 1..events {
            let done = ended(&undisturbed, handle.run(), keep).await;
            let journal = crashed(&whole, handle.run(), keep).await;
            let script = everywhere();
            let resumed = engine(&script, &journal).resume(handle.run(), ResumeOptions::default()).await.unwrap();
            assert_eq!(resumed.finished().await.unwrap().result, expected.result, "after event {keep}");
            let world = script.world();
            assert!(world.keys.iter().all(|key| !done.contains(key)), "after event {keep}: {:?}", world.keys);
            assert_eq!(world.keys.len() + done.len(), 3, "after event {keep}: each of the others is done once");
            in_between += usize::from(!done.is_empty() && done.len() < 3);
        }
        assert!(in_between > 0, "no crash came between two of them");
    }
}

#[tokio::test]
async fn the_state_at_the_end_of_a_journal_is_the_one_that_was_left() {
    let whole = MemoryJournal::new();
    let engine = engine(&everywhere(), &whole);
    let handle = engine.start(everything(), json(INPUT), RunOptions::default()).await.unwrap();
    handle.finished().await.unwrap();
    let events = engine.history(handle.run()).await.unwrap();
    let mut state = State::default();
    for recorded in &events {
        state.apply(recorded).unwrap();
        assert_eq!(engine.state_at(handle.run(), Some(recorded.seq)).await.unwrap(), state);
    }
    assert_eq!(engine.replay(handle.run()).await.unwrap(), None);
}

#[tokio::test]
async fn a_journal_that_was_edited_is_noticed_when_it_is_decided_again() {
    let whole = MemoryJournal::new();
    let engine_a = engine(&everywhere(), &whole);
    let handle = engine_a.start(everything(), json(INPUT), RunOptions::default()).await.unwrap();
    handle.finished().await.unwrap();
    let mut records = whole.read(handle.run(), 0, 1000).await.unwrap();
    let at = records.iter().position(|record| record.kind == "routed").unwrap();
    records[at].payload = records[at].payload.replace(r#""bounded":true"#, r#""bounded":false"#).into();
    let edited = MemoryJournal::new();
    edited.create(NewRun { records, ..NewRun::empty(handle.run(), "w", 0) }).await.unwrap();
    let divergence = engine(&everywhere(), &edited).replay(handle.run()).await.unwrap().unwrap();
    assert_eq!(divergence.recorded.seq, at as u64 + 1);
}

#[tokio::test]
async fn a_fork_shares_the_past_and_goes_its_own_way() {
    let engine = Script::new().engine();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(routed(&wait("", "")), json("{}"), options).await.unwrap();
    handle.finished().await.unwrap();
    let at = engine.state_at(handle.run(), None).await.unwrap().seq();
    let fork = engine.fork(handle.run(), at, Some("other".parse().unwrap())).await.unwrap();
    let fork = engine.resume(&fork, ResumeOptions::default()).await.unwrap();
    fork.signal("go", json("7"), None);
    assert_eq!(fork.finished().await.unwrap().result, json("7"));
    assert_eq!(engine.state_at(handle.run(), None).await.unwrap().status(), Status::Suspended);
}

fn interrupted() -> impl Fn(Effects) -> Script {
    |effects| Script::new().operation_with("t", effects, |_| Ok(json(r#""done""#)))
}

/// A run that crashed while `t` was in flight.
async fn crash_in_flight(effects: Effects) -> (Script, MemoryJournal, Arc<str>) {
    let whole = MemoryJournal::new();
    // Recorded as wanted before it is made, whatever repeating it does.
    let script = interrupted()(Effects::Idempotent);
    let first = engine(&script, &whole);
    let handle = first.start(routed(&tool("a")), json("{}"), RunOptions::default()).await.unwrap();
    handle.finished().await.unwrap();
    let history = first.history(handle.run()).await.unwrap();
    let requested = history.iter().find(|recorded| matches!(recorded.event, Event::Requested { .. })).unwrap().seq;
    let journal = crashed(&whole, handle.run(), requested).await;
    (interrupted()(effects), journal, handle.run().clone())
}

#[tokio::test]
async fn what_may_be_repeated_is_repeated_with_the_same_key() {
    for effects in [Effects::Pure, Effects::Idempotent] {
        let (script, journal, run) = crash_in_flight(effects).await;
        let resumed = engine(&script, &journal).resume(&run, ResumeOptions::default()).await.unwrap();
        assert_eq!(resumed.finished().await.unwrap().status, Status::Completed);
        assert_eq!(script.world().keys, [format!("{run}/1")]);
    }
}

#[tokio::test]
async fn what_must_not_be_repeated_waits_for_an_answer() {
    for (answer, status, result, calls) in [
        (Answer::Retry, Status::Completed, json(r#""done""#), 1),
        (Answer::Skip, Status::Completed, Value::Null, 0),
        (Answer::Fail, Status::Failed, Value::Null, 0),
    ] {
        let (script, journal, run) = crash_in_flight(Effects::Once).await;
        let engine = engine(&script, &journal);
        let options = || ResumeOptions { detach: true, ..ResumeOptions::default() };
        let waiting = engine.resume(&run, options()).await.unwrap().finished().await.unwrap();
        assert_eq!(waiting.status, Status::Suspended);
        let [Question::Doubt { what, effect, .. }] = &waiting.questions[..] else { panic!("{:?}", waiting.questions) };
        assert_eq!(what, "operation t");
        assert!(script.called().is_empty());
        let other = engine.settle(&run, EffectId(effect.0 + 1), answer, None).await.unwrap_err();
        assert_eq!(other.kind(), "not-asked");
        engine.settle(&run, *effect, answer, Some("ann".into())).await.unwrap();
        let outcome = engine.resume(&run, options()).await.unwrap().finished().await.unwrap();
        assert_eq!((outcome.status, outcome.result, script.called().len()), (status, result, calls), "{answer:?}");
    }
}

/// The driver that takes the run over starts the later call, and then the one before it, once that is answered for.
#[tokio::test]
async fn an_effect_in_doubt_is_repeated_although_later_ones_have_been_started() {
    let script = || {
        let script = Script::new().operation_with("once", Effects::Once, |_| Ok(json("1")));
        script.operation_with("again", Effects::Idempotent, |_| Ok(json("2")))
    };
    let step = |name: &str, operation: &str| {
        format!(r#"{{"name":"{name}","grouped":true,"type":"invoke","invoke":{{"operation":"{operation}"}}}}"#)
    };
    let split =
        r#"{"name":"split","type":"parallel","parallel":{"branches":[["a"],["b"]],"reduce":"barrier","into":"r"}}"#;
    let program = routed(&format!("{split},{},{}", step("a", "once"), step("b", "again")));
    let whole = MemoryJournal::new();
    let first = engine(&script(), &whole);
    let handle = first.start(program, json("{}"), RunOptions::default()).await.unwrap();
    handle.finished().await.unwrap();
    let history = first.history(handle.run()).await.unwrap();
    let requests = history.iter().filter(|recorded| matches!(recorded.event, Event::Requested { .. }));
    let journal = crashed(&whole, handle.run(), requests.map(|recorded| recorded.seq).max().unwrap()).await;
    let (script, run) = (script(), handle.run().clone());
    let engine = engine(&script, &journal);
    // It stays, and hears the answer.
    let driven = engine.resume(&run, ResumeOptions::default()).await.unwrap();
    while engine.state_at(&run, None).await.unwrap().doubts().next().is_none() || script.called().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    engine.send(&run, &Message::Answer { effect: None, answer: Answer::Retry, by: None }).await.unwrap();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(20), driven.finished()).await;
    assert_eq!(ended.expect("the call is made again").unwrap().status, Status::Completed);
    assert_eq!(script.called().len(), 2, "{:?}", script.called());
}

#[tokio::test]
async fn a_run_needs_the_plugins_that_it_was_started_with() {
    let engine = Script::new().engine();
    let pins = |digest: &str| [(Arc::from("plugin"), Arc::from(digest))].into_iter().collect();
    let options = RunOptions { detach: true, pins: pins("sha-1"), ..RunOptions::default() };
    let handle = engine.start(routed(&wait("", "")), json("{}"), options).await.unwrap();
    handle.finished().await.unwrap();
    let other = ResumeOptions { pins: pins("sha-2"), ..ResumeOptions::default() };
    let error = engine.resume(handle.run(), other).await.err().unwrap();
    assert!(matches!(&error, RunError::Pin { .. }), "{error}");
    assert!(
        engine.resume(handle.run(), ResumeOptions { pins: pins("sha-1"), ..ResumeOptions::default() }).await.is_ok()
    );
}

#[tokio::test]
async fn two_engines_never_drive_one_run() {
    let journal = MemoryJournal::new();
    let first = engine(&Script::new(), &journal);
    let handle = first.start(routed(&wait("", "")), json("{}"), RunOptions::default()).await.unwrap();
    let error = engine(&Script::new(), &journal).resume(handle.run(), ResumeOptions::default()).await.err().unwrap();
    assert!(error.to_string().contains("this process drives it already"), "{error}");
}

pub fn started(program: Arc<Program>, input: &str) -> Event {
    let input = json(input);
    Event::RunStarted(Box::new(RunStarted {
        run: "r".into(),
        inputs: program.bind_inputs(&input),
        program,
        original: input.clone(),
        input,
        limits: RunLimits::default(),
        value_limits: Default::default(),
        max_depth: 4,
        visit_bound: 100,
        pins: indexmap::IndexMap::new(),
        session: None,
        authorizer: None,
        traceparent: None,
        user: None,
        tenant: None,
        forked: None,
    }))
}

#[tokio::test]
async fn the_fold_of_the_events_is_the_state_after_every_one_of_them() {
    let state = drive_by_hand(&everywhere(), vec![started(everything(), INPUT)], 1).await;
    assert_eq!(state.status(), Status::Completed, "{:?}", state.end());
}

#[tokio::test]
async fn an_engine_that_performs_everything_at_least_once_comes_to_the_same_end() {
    let operations = || Script::new().operation("t", |call| Ok(call.arguments.clone()));
    let program = || {
        sequential(
            r#"{"name":"a","type":"invoke","invoke":{"operation":"t","args":{"v":{"expression":"$item"}}},"each":{"over":"$inputs.xs","delay-ms":1.0}},
               {"name":"b","type":"branch","branch":{"condition":"$steps.a.output.length > 2","then":["c"]}},
               {"name":"c","grouped":true,"type":"invoke","invoke":{"operation":"t","args":{"n":{"expression":"$steps.a.output"}}}}"#,
            r#"{"n":{"type":"array"}}"#,
        )
    };
    let once = drive_by_hand(&operations(), vec![started(program(), INPUT)], 1).await;
    let script = operations();
    let twice = drive_by_hand(&script, vec![started(program(), INPUT)], 3).await;
    assert_eq!(once.end().unwrap().result, twice.end().unwrap().result);
    assert_eq!(script.world().keys.len(), 12);
    let keys: std::collections::BTreeSet<String> = script.world().keys.iter().cloned().collect();
    assert_eq!(keys.len(), 4, "a repeated effect has the key of the first");
}

/// Small sequential workflows: guards, failures, retries, elements, branches.
fn any_workflow() -> impl Strategy<Value = (String, Vec<bool>)> {
    let step = (0u8..6, any::<bool>(), any::<bool>(), 0u8..4).prop_map(|(kind, guarded, ignores, n)| {
        let when = if guarded { r#","when":"$inputs.xs.length > 1""# } else { "" };
        let on_error = if ignores { r#","on-error":"ignore""# } else { "" };
        (kind, format!("{when}{on_error}"), n)
    });
    (prop::collection::vec(step, 1..6), prop::collection::vec(any::<bool>(), 40)).prop_map(|(steps, fails)| {
        let mut out = Vec::new();
        for (i, (kind, rest, n)) in steps.iter().enumerate() {
            let call = |name: &str, more: &str| {
                format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"t","args":{{"v":{{"expression":"$item"}}}}}}{more}}}"#)
            };
            out.push(match kind {
                0 => call(&format!("s{i}"), rest),
                1 => call(&format!("s{i}"), &format!(r#"{rest},"retry":{{"max":{n},"delay-ms":1.0,"backoff":1.5}}"#)),
                2 => call(&format!("s{i}"), &format!(r#"{rest},"each":{{"over":"$inputs.xs","concurrency":{}}}"#, n + 1)),
                3 => format!(
                    r#"{{"name":"s{i}","type":"branch","branch":{{"condition":"{}","then":["t{i}","u{i}"],"else":["u{i}"]}}{rest}}},{},{}"#,
                    n % 2 == 0,
                    call(&format!("t{i}"), r#","grouped":true"#),
                    call(&format!("u{i}"), r#","grouped":true,"on-error":"ignore""#)
                ),
                4 => format!(
                    r#"{{"name":"s{i}","type":"parallel","parallel":{{"branches":[["t{i}"],["u{i}"]],"reduce":"append","into":"r"}}{rest}}},{},{}"#,
                    call(&format!("t{i}"), r#","grouped":true"#),
                    call(&format!("u{i}"), r#","grouped":true,"on-error":"ignore""#)
                ),
                _ => format!(r#"{{"name":"s{i}","type":"transform","transform":{{"inputs":{{"items":{{"expression":"$inputs.xs"}}}},"operation":"filter","where":"$item > {n}"}}{rest}}}"#),
            });
        }
        (out.join(","), fails)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn whatever_fails_the_fold_of_the_events_is_the_state((steps, fails) in any_workflow()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let results: Vec<_> = fails.iter().enumerate().map(|(i, fail)| match fail {
                false => Ok(Value::from(i as i64)),
                true if i % 3 == 0 => Err(failure("hard", "hard")),
                true => Err(retriable("soft", "soft")),
            }).collect();
            let script = Script::new().gives("t", results);
            let state = drive_by_hand(&script, vec![started(sequential(&steps, r#"{"r":{"type":"array"}}"#), r#"{"xs":[1,2,3]}"#)], 1).await;
            assert!(state.status().has_ended(), "{:?}", state.status());
        });
    }
}

#[tokio::test]
async fn a_run_whose_beginning_is_lost_is_refused_and_free_again() {
    let journal = MemoryJournal::new();
    let run: Arc<str> = "r".into();
    let fence = journal.create(NewRun::empty(&run, "w", 0)).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    let engine = engine(&Script::new(), &journal);
    for _ in 0..2 {
        let error = engine.resume(&run, ResumeOptions::default()).await.err().unwrap();
        assert!(error.to_string().contains("its first records are lost"), "{error}");
    }
}

#[tokio::test]
async fn a_run_that_never_pauses_still_reads_its_letters() {
    let script = Script::new().operation("t", |_| Ok(json("1"))).operation("j", |_| Ok(json(r#""AGAIN""#)));
    let step = r#"{"name":"a","type":"invoke","invoke":{"operation":"t"},"yields":{"type":"data","data":"data"},
        "judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"AGAIN"},"goto":{"step":"a"}}]}"#;
    let engine = script.engine();
    let options = RunOptions { visit_bound: Some(u64::MAX), ..RunOptions::default() };
    let handle = engine.start(routed(step), json("{}"), options).await.unwrap();
    engine.send(handle.run(), &Message::Cancel { reason: "enough".into(), by: None }).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Cancelled);
}

#[tokio::test]
async fn a_signal_that_no_step_ever_waits_for_is_refused_and_one_for_later_is_queued() {
    let script = Script::new().operation("t", |_| Ok(json("1")));
    let engine = script.engine();
    let later =
        wait("", "").replace(r#""signal":"go""#, r#""signal":"later""#).replace(r#""name":"w""#, r#""name":"w2""#);
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = engine.start(routed(&[wait("", ""), later].join(",")), json("{}"), options).await.unwrap();
    handle.finished().await.unwrap();
    let send = async |name: &str| engine.signal(handle.run(), &name.into(), json("1"), None).await;
    let error = send("og").await.unwrap_err();
    assert!(error.to_string().ends_with("waits for a signal `og`; it takes `go`, `later`"), "{error}");
    assert_eq!(send("later").await.unwrap(), Delivery::Queued);
    assert_eq!(send("go").await.unwrap(), Delivery::Now("w".into()));
    let outcome = engine.resume(handle.run(), ResumeOptions::default()).await.unwrap().finished().await.unwrap();
    assert_eq!(outcome.status, Status::Completed);
    assert!(matches!(send("go").await, Err(RunError::Ended { status: Status::Completed, .. })));
}

#[tokio::test]
async fn a_run_can_be_cancelled_where_its_plugins_are_not() {
    let journal = MemoryJournal::new();
    let script = Script::new().operation("t", |_| Ok(json("1")));
    let pins = [(Arc::from("plugin"), Arc::from("sha-1"))].into_iter().collect();
    let options = RunOptions { detach: true, pins, ..RunOptions::default() };
    let handle = engine(&script, &journal)
        .start(routed(&[wait("", ""), tool("a")].join(",")), json("{}"), options)
        .await
        .unwrap();
    handle.finished().await.unwrap();
    let bare = Engine::builder().journal(Arc::new(journal.clone())).build();
    bare.send(handle.run(), &Message::Cancel { reason: "enough".into(), by: Some("ann".into()) }).await.unwrap();
    let options = ResumeOptions { unpinned: true, ..ResumeOptions::default() };
    let outcome = bare.resume(handle.run(), options).await.unwrap().finished().await.unwrap();
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert!(script.called().is_empty());
}

#[tokio::test]
async fn a_long_run_is_taken_up_from_a_snapshot_and_goes_on_as_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let journal = SqliteJournal::open(folder.path().join("runs.db")).unwrap();
    let script = || {
        Script::new()
            .operation("t", |_| Ok(json(r#""a text that makes the journal grow""#)))
            .operation("j", |_| Ok(json(r#""AGAIN""#)))
    };
    let steps = [
        r#"{"name":"a","type":"invoke","invoke":{"operation":"t"},"outputs":{"data":{"source":"invoke/data"}},"yields":{"type":"data","data":"data"},
            "judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"AGAIN"},"goto":{"step":"a"}}],"max-visits":900,"on-max-visits":"w"}"#
            .to_owned(),
        wait("", ""),
    ];
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let first = engine(&script(), &journal);
    let handle = first.start(routed(&steps.join(",")), json("{}"), options).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Suspended);
    let events = first.history(handle.run()).await.unwrap().len();
    let opened = journal.acquire(handle.run(), Cut::Tail).await.unwrap();
    journal.release(handle.run(), opened.fence).await.unwrap();
    let covered = opened.snapshot.unwrap().seq as usize;
    assert_eq!(covered + opened.records.len(), events);
    assert!(opened.records.len() < events / 2, "{} of {events} events are read", opened.records.len());

    let resumed = engine(&script(), &journal).resume(handle.run(), ResumeOptions::default()).await.unwrap();
    resumed.signal("go", json("3"), None);
    let outcome = resumed.finished().await.unwrap();
    assert_eq!(outcome.result, json("3"));
    crate::support::check_history(&first, &outcome).await;
}

#[tokio::test]
async fn a_snapshot_of_another_version_is_not_read() {
    let journal = MemoryJournal::new();
    let first = engine(&Script::new(), &journal);
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let handle = first.start(routed(&wait("", "")), json("{}"), options).await.unwrap();
    handle.finished().await.unwrap();
    let opened = journal.acquire(handle.run(), Cut::Tail).await.unwrap();
    let seq = opened.records.len() as u64;
    let snapshot = Snapshot { seq, version: 99, payload: r#"{"what":"is this"}"#.into() };
    let append = Append {
        run: handle.run().clone(),
        fence: opened.fence,
        records: Vec::new(),
        state: None,
        snapshot: Some(snapshot),
        inbox: None,
    };
    journal.append(append).await.unwrap();
    journal.release(handle.run(), opened.fence).await.unwrap();
    let resumed = first.resume(handle.run(), ResumeOptions::default()).await.unwrap();
    resumed.signal("go", json("3"), None);
    assert_eq!(resumed.finished().await.unwrap().result, json("3"));
}
