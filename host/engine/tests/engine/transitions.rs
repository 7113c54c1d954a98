//! Transitions of a pack's states, as a journal sees them, and when there are many.

use crate::support::*;
use async_trait::async_trait;
use opcell_engine::{
    Engine, Program, RunOptions, Status,
    conversation::{Message, Messages, Role},
    ports::ModelRound,
};
use opcell_ir::SourceFile;
use opcell_journal::{
    Append, ClockJump, Cut, Fence, InboxMessage, Journal, JournalError, MemoryJournal, NewRun, OpenedRun, Record,
    Retention, RunEntry, RunId,
};
use opcell_types::Value;
use opcell_workflow::promptpack;
use std::sync::{Arc, Mutex};

/// A journal that remembers which records came together.
#[derive(Default)]
struct Watched {
    journal: MemoryJournal,
    appends: Mutex<Vec<Vec<Record>>>,
}

impl Watched {
    fn see(&self, records: &[Record]) {
        self.appends.lock().unwrap().push(records.to_vec());
    }
}

#[async_trait]
impl Journal for Watched {
    async fn create(&self, new: NewRun) -> Result<Fence, JournalError> {
        self.see(&new.records);
        self.journal.create(new).await
    }

    async fn acquire(&self, run: &RunId, cut: Cut) -> Result<OpenedRun, JournalError> {
        self.journal.acquire(run, cut).await
    }

    async fn release(&self, run: &RunId, fence: Fence) -> Result<(), JournalError> {
        self.journal.release(run, fence).await
    }

    async fn append(&self, append: Append) -> Result<(), JournalError> {
        self.see(&append.records);
        self.journal.append(append).await
    }

    async fn read(&self, run: &RunId, after: u64, limit: u64) -> Result<Vec<Record>, JournalError> {
        self.journal.read(run, after, limit).await
    }

    async fn runs(&self) -> Result<Vec<RunEntry>, JournalError> {
        self.journal.runs().await
    }

    async fn runnable(&self, now: i64, limit: u64) -> Result<Vec<RunId>, JournalError> {
        self.journal.runnable(now, limit).await
    }

    async fn retain(&self, rule: Retention) -> Result<Vec<RunId>, JournalError> {
        self.journal.retain(rule).await
    }

    async fn check_clock(&self, now: i64, trust: bool) -> Result<Option<ClockJump>, JournalError> {
        self.journal.check_clock(now, trust).await
    }

    async fn delete(&self, run: &RunId) -> Result<bool, JournalError> {
        self.journal.delete(run).await
    }

    async fn post(&self, run: &RunId, at: i64, payload: Arc<str>) -> Result<(), JournalError> {
        self.journal.post(run, at, payload).await
    }

    async fn inbox(&self, run: &RunId) -> Result<Vec<InboxMessage>, JournalError> {
        self.journal.inbox(run).await
    }
}

/// Two states whose agents hand over to each other, and an end.
fn relay() -> Arc<Program> {
    let pack = r#"{"id":"relay","name":"Relay","version":"1.0.0","template_engine":{"version":"v1","syntax":"{{variable}}"},
        "prompts":{"p":{"id":"p","name":"P","version":"1.0.0","system_template":"Go on."}},
        "workflow":{"version":2,"entry":"a","engine":{"budget":{"max_total_visits":100000}},"states":{
            "a":{"prompt_task":"p","on_event":{"Next":"b","Done":"z"},"control":"agent",
                 "artifacts":{"note":{"type":"text/plain"}}},
            "b":{"prompt_task":"p","on_event":{"Next":"a","Done":"z"},"control":"agent"},
            "z":{"prompt_task":"p","terminal":true}}}}"#;
    Program::new(promptpack::compile(&SourceFile::new("relay.pack.json", pack)).ir.unwrap()).unwrap()
}

const NEXT: (&str, &str) = ("workflow__transition", r#"{"event":"Next","context":"c"}"#);
const DONE: (&str, &str) = ("workflow__transition", r#"{"event":"Done","context":"c"}"#);
const NOTE: (&str, &str) = ("workflow__set_artifact", r#"{"name":"note","value":"v"}"#);

/// Returns the content of each append, as kinds of events.
async fn appends(script: &Script) -> Vec<Vec<String>> {
    let journal = Arc::new(Watched::default());
    let ports = script.ports();
    let engine = Engine::builder()
        .operations(ports.operations)
        .sessions(ports.sessions)
        .timer(ports.timer)
        .journal(journal.clone());
    let handle = engine.build().start(relay(), json(r#""hello""#), RunOptions::default()).await.unwrap();
    assert_eq!(handle.finished().await.unwrap().status, Status::Completed);
    let appends = journal.appends.lock().unwrap();
    appends.iter().map(|records| records.iter().map(|record| record.kind.to_string()).collect()).collect()
}

/// Every way out of a state is in one append: from the end of the turn to the next state's opening.
fn assert_whole(appends: &[Vec<String>], place: &str) {
    const WAY: [&str; 6] = ["turn-finished", "step-finished", "judged", "routed", "step-entered", "requested"];
    let mut transitions = 0;
    for (at, append) in appends.iter().enumerate() {
        for routed in (0..append.len()).filter(|event| append[*event] == "routed") {
            let way = routed.checked_sub(3).and_then(|from| append.get(from..from + WAY.len()));
            assert_eq!(way.map(<[String]>::to_vec).unwrap_or_default(), WAY, "{place}: append {at}: {append:?}");
            transitions += 1;
        }
    }
    assert_eq!(transitions, 2, "{place}");
}

#[tokio::test]
async fn a_transition_is_one_append_from_the_end_of_the_turn_to_the_opening_of_the_next_state() {
    let script =
        Script::new().answers(|round| match round.messages.iter().filter(|m| m.role == Role::Assistant).count() {
            0 => calling(&[NOTE, NEXT]),
            1 => calling(&[DONE]),
            _ => Message::assistant("the end"),
        });
    assert_whole(&appends(&script).await, "two rounds");
}

/// However many decisions a round takes, the transition at its end is not torn where an append would become too long.
#[tokio::test]
async fn a_transition_after_hundreds_of_calls_is_one_append_all_the_same() {
    for notes in 248..=258_usize {
        let script = Script::new();
        let round = |last: (&'static str, &'static str)| {
            calling(&std::iter::repeat_n(NOTE, notes).chain([last]).collect::<Vec<_>>())
        };
        script.world().script([round(NEXT), round(DONE), Message::assistant("the end")]);
        assert_whole(&appends(&script).await, &format!("{notes} notes"));
    }
}

/// Hands over 400 times; the conversation continues all the while, and every state is shown the whole of it.
#[tokio::test]
async fn a_conversation_goes_on_over_hundreds_of_transitions() {
    fn answer(round: &ModelRound) -> Message {
        match round.messages.iter().filter(|message| message.role == Role::Assistant).count() {
            said if said < 400 => calling(&[NEXT]),
            400 => calling(&[DONE]),
            _ => Message::assistant("the end"),
        }
    }
    let script = Script::new().answers(answer);
    let outcome = script.run(&relay(), r#""hello""#).await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, Value::from("the end")));
    let lengths: Vec<usize> = script.world().rounds.iter().map(|round| round.messages.len()).collect();
    assert!(lengths.windows(2).all(|two| two[1] == two[0] + 2), "an answer and a tool's reply more each time");
    assert_eq!(lengths.last(), Some(&(1 + 2 * 401)));
}

#[test]
fn messages_are_shared_until_one_copy_goes_on() {
    let mut first = Messages::from([Message::user("one"), Message::assistant("two")]);
    let kept = first.clone();
    first.extend([Message::user("three")]);
    assert_eq!((kept.len(), first.len()), (2, 3));
    assert_eq!(kept.last_of_user().map(|message| message.content.as_str()), Some("one"));
    assert_eq!(first.last_of_user().map(|message| message.content.as_str()), Some("three"));
    let text = serde_json::to_string(&first).unwrap();
    assert_eq!(serde_json::from_str::<Messages>(&text).unwrap(), first);
    let said = |places| first.range(places).map(|message| message.content.as_str()).collect::<Vec<_>>();
    assert_eq!((said(1..2), said(1..9), said(3..9)), (vec!["two"], vec!["two", "three"], vec![]));
    assert_eq!(first.since(1).next_back().map(|message| message.content.as_str()), Some("three"));
}
