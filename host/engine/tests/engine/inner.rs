//! Calls that cells make: journaled one by one, so that a cell is run again with their answers and repeats none of them.

use crate::support::{check_history, json, routed};
use async_trait::async_trait;
use opcell_engine::{
    Decision, Engine, Message, ResumeOptions, RunError, RunOptions, RunOutcome, Status,
    approval::ToolApproval,
    call::CodeTools,
    conversation::{Message as ChatMessage, Role},
    event::{Answer, Timestamp},
    inner::{Approval, Concurrency, InnerJournal},
    outcome::Question,
    ports::{
        Call, Effects, Failure, ModelReply, ModelRound, OpenSession, OpenedSession, Operations, Reply, Sessions,
        Success, TextSink, Timer, ToolCall,
    },
};
use opcell_ir::ir::{ApprovalRule, Ask, CodeMode, Then};
use opcell_journal::{Journal, MemoryJournal, NewRun, Record, RunId};
use opcell_types::{CallContext, GivenInput, InputAnswer, InputForm, InputRequest, Source, ToolDescription, Value};
use std::{
    future::ready,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::task::JoinSet;

mod concurrent;
mod programs;

const STEP: &str = r#"{"name":"a","type":"invoke","invoke":{"operation":"p"},"yields":{"type":"data","data":"data"}}"#;

/// A call that a cell makes, the effect of repeating it, and what follows if it fails.
type Planned = (&'static str, Effects, OnFailure);

#[derive(Clone, Copy, PartialEq)]
enum OnFailure {
    Ends,
    Continues,
}

use OnFailure::{Continues, Ends};

const PLAN: [Planned; 4] = [
    ("look", Effects::Pure, Ends),
    ("send", Effects::Once, Ends),
    ("put", Effects::Idempotent, Ends),
    ("send", Effects::Once, Ends),
];

/// Four calls of which no person is asked about any.
const UNASKED: [Planned; 4] = [
    ("look", Effects::Pure, Ends),
    ("post", Effects::Once, Ends),
    ("put", Effects::Idempotent, Ends),
    ("post", Effects::Once, Ends),
];

/// Cells that make the planned calls, at a time of their own.
#[derive(Clone)]
struct Cells {
    plan: Vec<Planned>,
    time: u64,
    /// The calls that were made, each with its key.
    made: Arc<Mutex<Vec<String>>>,
    journal: MemoryJournal,
    effects: Effects,
    /// The rule by which a program asks a person before it sends.
    rule: ApprovalRule,
    clock: Clock,
    /// A program starts all its calls at once; with `backwards`, the last ones take the least time.
    at_once: bool,
    backwards: bool,
    /// A program sleeps between its calls.
    sleeps: bool,
    /// Its driver releases a run that waits for time alone.
    parks: bool,
    /// The programs that are there now.
    alive: Arc<AtomicI64>,
}

/// The clock of the engine: it stands still until a test lets time pass.
#[derive(Debug, Clone, Default)]
struct Clock(Arc<AtomicI64>);

#[async_trait]
impl Timer for Clock {
    fn now(&self) -> Timestamp {
        Timestamp(1_000_000 + self.0.load(SeqCst))
    }

    async fn sleep(&self, ms: f64) {
        self.deadline(ms).await;
    }

    async fn deadline(&self, ms: f64) {
        tokio::time::sleep(Duration::from_secs_f64(ms / 1000.0)).await;
    }
}

impl Cells {
    fn new(plan: &[Planned], time: u64) -> Self {
        let (made, journal, clock) = Default::default();
        let rule = ApprovalRule::of(Ask::Always);
        Self {
            plan: plan.to_vec(),
            time,
            made,
            journal,
            effects: Effects::Once,
            rule,
            clock,
            at_once: false,
            backwards: false,
            sleeps: false,
            parks: false,
            alive: Arc::default(),
        }
    }

    fn at_once(plan: &[Planned], backwards: bool) -> Self {
        Self { at_once: true, backwards, ..Self::new(plan, 100) }
    }

    fn asking(self, rule: ApprovalRule) -> Self {
        Self { rule, ..self }
    }

    fn within(self, journal: MemoryJournal) -> Self {
        Self { journal, ..self }
    }

    fn engine(&self) -> Engine {
        Engine::builder().operations(Arc::new(self.clone())).journal(Arc::new(self.journal.clone())).build()
    }

    fn made(&self) -> Vec<String> {
        self.made.lock().unwrap().clone()
    }

    /// The number of records of a kind that are durable.
    async fn recorded(&self, run: &str, kind: &str) -> usize {
        let run: RunId = run.into();
        count(&self.journal.read(&run, 0, 1_000).await.unwrap(), kind)
    }

    /// Makes one call, with the time at which the cell makes it.
    async fn call(
        &self,
        inner: &InnerJournal,
        context: &CallContext,
        (number, tool, effects): (usize, &str, Effects),
    ) -> Reply<Value> {
        let at = inner.timeline().wall(|| self.time);
        let arguments = Value::from(serde_json::json!({"at": at, "luck": inner.timeline().seed()[0]}));
        let make = |context: CallContext| async move {
            let requested = self.recorded(&context.run, "inner-requested").await;
            assert!(effects == Effects::Pure || requested >= number, "it began before its request was durable");
            self.made.lock().unwrap().push(format!("{tool} {}", context.idempotency_key));
            Ok(Value::from(format!("{tool} at {at}"))).into()
        };
        let reply = inner.call((tool, &arguments, effects), context.clone(), make).await;
        let replied = self.recorded(&context.run, "inner-replied").await;
        let is_settled = self.recorded(&context.run, "answered").await > 0;
        let is_diverged = reply.result.as_ref().is_err_and(|failure| &*failure.reason == "diverged");
        assert!(replied >= number || is_settled || is_diverged, "the answer came before it was durable");
        reply
    }
}

#[async_trait]
impl Operations for Cells {
    fn effects(&self, _: &str) -> Option<Effects> {
        Some(self.effects)
    }

    fn is_resumable(&self, _: &str) -> bool {
        true
    }

    async fn invoke(&self, call: Call) -> Reply<Success> {
        let inner = call.inner.clone().unwrap();
        let mut said = Vec::new();
        for (at, (tool, effects, on_failure)) in self.plan.clone().into_iter().enumerate() {
            match self.call(&inner, &call.context, (at + 1, tool, effects)).await.result {
                Ok(value) => said.push(value),
                Err(failure) if on_failure == Continues => said.push(Value::from(failure.reason)),
                Err(failure) => return Err(Failure::new(Source::Plugin, "gave-up", failure.message)).into(),
            }
        }
        Ok(Success { data: Value::array(said), summary: None, details: None }).into()
    }
}

async fn start(cells: &Cells) -> RunOutcome {
    let options = RunOptions { run: Some("r".parse().unwrap()), detach: true, ..RunOptions::default() };
    let engine = cells.engine();
    let outcome = engine.start(routed(STEP), json("{}"), options).await.unwrap().finished().await.unwrap();
    check_history(&engine, &outcome).await;
    outcome
}

async fn resume(cells: &Cells) -> RunOutcome {
    let engine = cells.engine();
    let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
    let outcome = engine.resume(&"r".into(), options).await.unwrap().finished().await.unwrap();
    check_history(&engine, &outcome).await;
    outcome
}

/// A journal whose run ends with these records, as its driver left it when it died.
async fn holding(records: Vec<Record>) -> MemoryJournal {
    let journal = MemoryJournal::new();
    let fence = journal.create(NewRun { records, ..NewRun::empty(&"r".into(), "w", 0) }).await.unwrap();
    journal.release(&"r".into(), fence).await.unwrap();
    journal
}

/// The records of a whole run of [`PLAN`] at the time 100, and the number of those before the end of its last call.
async fn whole() -> (Vec<Record>, Vec<String>, RunOutcome) {
    let cells = Cells::new(&PLAN, 100);
    let outcome = start(&cells).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    (cells.journal.read(&"r".into(), 0, 1_000).await.unwrap(), cells.made(), outcome)
}

fn count(records: &[Record], kind: &str) -> usize {
    records.iter().filter(|record| &*record.kind == kind).count()
}

/// The records up to the one of this kind.
fn up_to(records: &[Record], kind: &str, number: usize) -> Vec<Record> {
    let at = records.iter().enumerate().filter(|(_, record)| &*record.kind == kind).nth(number).unwrap().0;
    records[..=at].to_vec()
}

#[tokio::test]
async fn a_cell_that_was_killed_after_any_event_continues_and_repeats_no_call() {
    let (records, calls, expected) = whole().await;
    assert_eq!(calls, ["look r/1/1", "send r/1/2", "put r/1/3", "send r/1/4"]);
    assert_eq!(expected.result, json(r#"["look at 100","send at 100","put at 100","send at 100"]"#));
    let (mut continued, mut asked) = (0, 0);
    for keep in 1..records.len() {
        let prefix = &records[..keep];
        let (began, ended) = (count(prefix, "inner-requested"), count(prefix, "inner-replied"));
        let cells = Cells::new(&PLAN, 200).within(holding(prefix.to_vec()).await);
        let mut outcome = resume(&cells).await;
        if let [Question::Doubt { what, .. }] = outcome.questions.as_slice() {
            // What is in doubt is the call, or that the operation was to be begun by a driver that journals its calls.
            let is_whole = count(prefix, "inner-started") == 0;
            assert!(is_whole || what.starts_with(&format!("call {began} (`send {{")), "after event {keep}: {what}");
            assert!(is_whole || PLAN[ended].1 == Effects::Once, "after event {keep}");
            assert_eq!(cells.made(), Vec::<String>::new());
            if is_whole {
                continue;
            }
            answer(&cells, Answer::Retry).await;
            outcome = resume(&cells).await;
            asked += 1;
        }
        assert_eq!(outcome.status, Status::Completed, "after event {keep}: {outcome:?}");
        assert_eq!(cells.made(), calls[ended..], "after event {keep}");
        let said = outcome.result.as_array().unwrap().iter().filter_map(Value::as_str);
        // The time at which it had requested a call is the one of the record.
        let times = said.map(|said| said.ends_with("100")).collect::<Vec<_>>();
        assert_eq!(times, (0..4).map(|at| at < began).collect::<Vec<_>>(), "after event {keep}");
        continued += usize::from(ended > 0);
    }
    assert!(continued >= 6 && asked == 2, "{continued} {asked}");
}

async fn answer(cells: &Cells, answer: Answer) {
    cells.engine().send(&"r".into(), &Message::Answer { effect: None, answer, by: None }).await.unwrap();
}

#[tokio::test]
async fn a_call_in_doubt_is_settled_alone_and_the_cell_continues() {
    let plan = PLAN.map(|(tool, effects, _)| (tool, effects, Continues));
    let (records, calls, _) = whole().await;
    // The driver died while the first message was being sent.
    let records = up_to(&records, "inner-requested", 1);
    for (settled, second) in [(Answer::Retry, "send at 100"), (Answer::Skip, ""), (Answer::Fail, "interrupted")] {
        let cells = Cells::new(&plan, 200).within(holding(records.clone()).await);
        let outcome = resume(&cells).await;
        let [Question::Doubt { what, step, .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
        assert!(what.starts_with("call 2 (`send {\"at\":100,") && what.ends_with(" of operation p"), "{what}");
        assert_eq!(&**step, "a");
        answer(&cells, settled).await;
        let outcome = resume(&cells).await;
        let expected = match second {
            "" => Value::Null,
            text => Value::from(text),
        };
        assert_eq!(outcome.result.as_array().unwrap().get(1), Some(&expected), "{settled:?}: {outcome:?}");
        let rest = if settled == Answer::Retry { &calls[1..] } else { &calls[2..] };
        assert_eq!(cells.made(), rest, "{settled:?}");
    }
}

#[tokio::test]
async fn what_an_idempotent_operation_calls_is_called_again_with_the_same_key() {
    let (records, calls, _) = whole().await;
    let records = up_to(&records, "inner-requested", 1);
    let cells = Cells { effects: Effects::Idempotent, ..Cells::new(&PLAN, 200) }.within(holding(records).await);
    let outcome = resume(&cells).await;
    assert_eq!((outcome.status, cells.made()), (Status::Completed, calls[1..].to_vec()), "{outcome:?}");
}

#[tokio::test]
async fn a_cell_that_takes_another_way_than_its_record_fails_and_calls_nothing_more() {
    let (records, ..) = whole().await;
    let records = up_to(&records, "inner-replied", 2);
    let swapped = [PLAN[0], ("put", Effects::Idempotent, Continues), ("send", Effects::Once, Continues)];
    let ends_early = [PLAN[0], PLAN[1]];
    let continues = [PLAN[0], ("drop", Effects::Once, Continues), PLAN[2], ("send", Effects::Once, Continues)];
    for (plan, shown) in [
        (&swapped[..], "call 2 was `send {\"at\":100,"),
        (&ends_early[..], "it ended before call 3, which was `put {\"at\":100,"),
        (&continues[..], "and now is `drop {\"at\":100,"),
    ] {
        let cells = Cells::new(plan, 200).within(holding(records.clone()).await);
        let outcome = resume(&cells).await;
        assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("diverged")), "{outcome:?}");
        let message = outcome.message.unwrap();
        assert!(message.contains(shown), "{message}");
        assert_eq!(cells.made(), Vec::<String>::new(), "{message}");
    }
}

#[tokio::test]
async fn other_arguments_are_another_way() {
    let (records, ..) = whole().await;
    // The record has no readings of the clock, so that the cell reads another time than it did.
    let strip = |record: &Record| Record {
        payload: record.payload.replace(r#""clocks":{"wall":[100]}"#, r#""clocks":{}"#).into(),
        ..record.clone()
    };
    let records: Vec<Record> = up_to(&records, "inner-replied", 0).iter().map(strip).collect();
    let cells = Cells::new(&PLAN, 200).within(holding(records).await);
    let outcome = resume(&cells).await;
    assert_eq!((outcome.reason.as_deref(), cells.made().len()), (Some("diverged"), 0), "{outcome:?}");
    let message = outcome.message.unwrap();
    assert!(message.contains("was `look {\"at\":100,") && message.contains("now is `look {\"at\":200,"), "{message}");
}

#[tokio::test]
async fn a_forged_record_is_refused() {
    let (records, ..) = whole().await;
    let cut = up_to(&records, "inner-replied", 1);
    let forged = |kind: &str, from: &str, to: &str| {
        let (mut records, at) = (cut.clone(), cut.iter().rposition(|record| &*record.kind == kind).unwrap());
        let text = records[at].payload.replace(from, to);
        assert_ne!(text, *records[at].payload, "{from}");
        records[at].payload = text.into();
        records
    };
    for (kind, from, to) in [
        ("inner-requested", r#""place":1"#, r#""place":7"#),
        ("inner-replied", r#""place":1"#, r#""place":0"#),
        ("inner-replied", r#""place":1"#, r#""place":2"#),
        ("inner-started", r#""seed":""#, r#""seed":"x"#),
        ("inner-replied", r#""effect":0"#, r#""effect":9"#),
    ] {
        let cells = Cells::new(&PLAN, 200).within(holding(forged(kind, from, to)).await);
        let refused = cells.engine().resume(&"r".into(), ResumeOptions::default()).await;
        let Err(RunError::Replay { .. } | RunError::Unreadable { .. }) = refused else { panic!("{kind} {to}") };
        assert_eq!(cells.made(), Vec::<String>::new());
    }
}
