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

const SESSION: &str = r#"{"name":"talk","type":"session","session":{"contributions":[{"type":"template","text":"work","vars":{}}]},"outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},"yields":{"type":"text","text":"final-llm-reply"}}"#;

/// A session whose model runs one program: the planned calls, of which a person approves each `send`.
struct Programs(Cells);

/// Counts a program while it is there.
struct Alive<'a>(&'a Cells);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, SeqCst);
    }
}

const DAY_MS: u64 = 24 * 3_600_000;

/// An hour of the engine's clock.
const HOUR: i64 = 3_600_000_000;

/// A program that makes its calls with three days after each, and says when it has made them.
async fn sleeping(cells: &Cells, inner: &InnerJournal, call: &ToolCall) -> Result<Value, Failure> {
    cells.alive.fetch_add(1, SeqCst);
    let _alive = Alive(cells);
    let mut said = Vec::new();
    for (at, (tool, effects, _)) in cells.plan.clone().into_iter().enumerate() {
        let now = inner.timeline().wall(|| u64::try_from(cells.clock.0.load(SeqCst)).unwrap());
        said.push(Value::from(now));
        cells.call(inner, &call.context, (2 * at + 1, tool, effects)).await.result?;
        inner.awaits(None);
        let timer = inner.start_timer(3 * DAY_MS)?;
        inner.awaits(Some(1));
        if let Err(timer) = timer.recorded() {
            timer.end_timer().await.reply.result?;
        }
    }
    Ok(Value::array(said))
}

/// A program that starts all its calls at once, and says in which order it learns of their ends. With `backwards`, those
/// that were started last take the least time.
async fn at_once(cells: &Cells, inner: &InnerJournal, call: &ToolCall) -> Result<Value, Failure> {
    let (mut tasks, mut ended, mut said) = (JoinSet::new(), Vec::new(), Vec::new());
    inner.awaits(None);
    for (at, (tool, effects, _)) in cells.plan.clone().into_iter().enumerate() {
        let read = inner.timeline().wall(|| cells.time);
        let asked = json(&format!(r#"{{"number":{at},"read":{read}}}"#));
        let placed = inner.begin(tool, &asked, tool == "send", Concurrency::AmongOthers)?;
        let mut placed = match placed.recorded() {
            Ok(recorded) => {
                ended.push((u64::from(recorded.nth.unwrap()), at, recorded));
                continue;
            }
            Err(placed) => placed,
        };
        placed.request(effects)?;
        let (made, context) = (cells.made.clone(), call.context.clone());
        let steps = if cells.backwards { cells.plan.len() - at } else { at };
        tasks.spawn(async move {
            if let Approval::Refused(refused) = placed.approval().await {
                return (at, placed.make(Effects::Pure, context, |_, _| ready(Err(refused.clone()).into())).await);
            }
            let make = |context: CallContext, given: Option<Arc<GivenInput>>| {
                made.lock().unwrap().push(format!("{} {}", shown(tool, &given), context.idempotency_key));
                async move {
                    if tool == "ask" {
                        return asking(tool, given.as_deref(), &Clock::default()).into();
                    }
                    for _ in 0..steps * 50 {
                        tokio::task::yield_now().await;
                    }
                    Ok(Value::from(tool)).into()
                }
            };
            (at, placed.make(effects, context, make).await)
        });
    }
    while said.len() < cells.plan.len() {
        if let Some(first) = ended.iter().map(|(rank, ..)| *rank).min() {
            let (_, at, first) = ended.extract_if(.., |(rank, ..)| *rank == first).next().unwrap();
            let result = first.reply.result.map_or_else(|failure| failure.reason.to_string(), |_| "done".to_owned());
            said.push(Value::from(format!("{at} {result}")));
            continue;
        }
        inner.awaits(Some(tasks.len()));
        let (at, arrived) = tasks.join_next().await.unwrap().unwrap();
        ended.push((1 << 40, at, arrived));
    }
    Ok(Value::array(said))
}

/// The call of a tool and how it continues.
fn shown(tool: &str, given: &Option<Arc<GivenInput>>) -> String {
    let state = given.as_ref().and_then(|given| given.state.as_deref().or(given.task.as_deref()));
    state.map_or_else(|| tool.to_owned(), |state| format!("{tool}({state})"))
}

/// A tool that asks two times for input, or becomes a task that asks and lasts an hour; `curious` never stops asking.
fn asking(tool: &str, given: Option<&GivenInput>, clock: &Clock) -> Result<Value, Failure> {
    let form = |key: &str| InputForm {
        key: key.into(),
        message: format!("{key}?").into(),
        schema: json(r#"{"type":"object","properties":{"it":{"type":"string"}},"required":["it"]}"#),
    };
    let asks = |forms: Vec<InputForm>, state: Option<&str>, task: Option<&str>| {
        let (state, task) = (state.map(Into::into), task.map(Into::into));
        let request = InputRequest { server: "s".into(), tool: tool.into(), forms, state, task };
        Err(Failure::host("mcp-input-required", "it asks").with_input(request))
    };
    let answers = |given: &GivenInput| {
        let answers = given.answers.iter().map(|(key, answer)| match answer {
            InputAnswer::Accept(values) => format!("{key}={}", values.to_json()),
            other => format!("{key}={}", other.action()),
        });
        answers.collect::<Vec<_>>().join(" ")
    };
    match (tool, given) {
        ("ask", None) => asks(vec![form("a"), form("b")], Some("one"), None),
        ("ask", Some(given)) if given.state.as_deref() == Some("one") => {
            assert_eq!(answers(given), r#"a={"it":"a"} b={"it":"b"}"#);
            asks(vec![form("c")], Some("two"), None)
        }
        ("task", None) => asks(Vec::new(), None, Some("t")),
        ("task", Some(given)) if given.answers.is_empty() => asks(vec![form("d")], None, Some("t")),
        ("task", Some(_)) if clock.0.load(SeqCst) < HOUR => asks(Vec::new(), None, Some("t")),
        ("curious", _) => asks(vec![form("e")], Some("more"), None),
        (_, given) => Ok(Value::from(answers(given.unwrap()))),
    }
}

#[async_trait]
impl Sessions for Programs {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        let tool = |name: &str| ToolDescription::new(name, "", json("{}"));
        let approval = ToolApproval {
            tool: "send".to_owned(),
            effects: Effects::Once,
            identity: "the tool send".into(),
            rules: vec![self.0.rule.clone()].into(),
            approved: Vec::new(),
        };
        Ok(OpenedSession {
            system: String::new(),
            sections: Value::Null,
            models: vec!["m".to_owned()],
            tools: vec![tool("run_code")],
            settings: request.session,
            parallel_tools: Vec::new(),
            narrowing: None,
            approvals: vec![approval],
            code: Some(Box::new(CodeTools { language: CodeMode::Javascript, tools: vec![tool("send")] })),
            augmenters: Vec::new(),
            windows: Vec::new(),
            result_limit: None,
        })
    }

    async fn complete(&self, round: ModelRound, _: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let answer = round.messages.iter().find(|message| message.role == Role::Tool);
        let message = match answer {
            Some(answer) => ChatMessage::assistant(answer.content.clone()),
            None => crate::support::calling(&[("run_code", "{}")]),
        };
        Ok(ModelReply { message, ..ModelReply::text("m", "") })
    }

    fn tool_effects(&self, _: &str) -> Effects {
        Effects::Once
    }

    fn is_resumable(&self, session: &OpenedSession, tool: &str) -> bool {
        session.code.is_some() && tool == "run_code"
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        if self.0.sleeps {
            let inner = call.inner.clone().unwrap();
            return sleeping(&self.0, &inner, &call).await.into();
        }
        if self.0.at_once {
            let inner = call.inner.clone().unwrap();
            return at_once(&self.0, &inner, &call).await.into();
        }
        let (inner, mut said) = (call.inner.clone().unwrap(), Vec::new());
        for (at, (tool, effects, _)) in self.0.plan.clone().into_iter().enumerate() {
            let asked = json(&format!(r#"{{"number":{at}}}"#));
            if matches!(tool, "ask" | "task" | "curious") {
                let placed = inner.begin(tool, &asked, false, Concurrency::Alone).unwrap();
                let make = |context: CallContext, given: Option<Arc<GivenInput>>| {
                    self.0.made.lock().unwrap().push(format!("{} {}", shown(tool, &given), context.idempotency_key));
                    ready(asking(tool, given.as_deref(), &self.0.clock).into())
                };
                match placed.make(effects, call.context.clone(), make).await.reply.result {
                    Ok(answer) => said.push(answer),
                    Err(failure) => said.push(Value::from(format!("{}: {}", failure.reason, failure.message))),
                }
                continue;
            }
            if tool == "send" {
                let mut placed = match inner.begin(tool, &asked, true, Concurrency::Alone) {
                    Ok(placed) => placed,
                    Err(diverged) => return Err(diverged).into(),
                };
                if let Approval::Refused(refused) = placed.approval().await {
                    said.push(Value::from(format!("{}: {}", refused.reason, refused.message)));
                    let refused = |_, _| ready(Err(refused.clone()).into());
                    let ended = placed.make(Effects::Pure, call.context.clone(), refused).await;
                    assert!(ended.reply.result.is_err());
                    continue;
                }
                let made = |context: CallContext, _| {
                    self.0.made.lock().unwrap().push(format!("{tool} {}", context.idempotency_key));
                    ready(Ok(Value::from(format!("{tool} at 100"))).into())
                };
                said.extend(placed.make(effects, call.context.clone(), made).await.reply.result.ok());
                continue;
            }
            let reply = self.0.call(&inner, &call.context, (at + 1, tool, effects)).await;
            said.extend(reply.result.ok());
        }
        Ok(Value::array(said)).into()
    }
}

fn session_engine(cells: &Cells) -> Engine {
    let journal = Arc::new(cells.journal.clone());
    let programs = Arc::new(Programs(cells.clone()));
    Engine::builder().sessions(programs).journal(journal).timer(Arc::new(cells.clock.clone())).build()
}

/// Drives the run until it ends, with a person who approves whatever they are asked about. How often they were.
async fn approving(cells: &Cells, mut outcome: RunOutcome) -> (RunOutcome, usize) {
    let (engine, mut asked) = (session_engine(cells), 0);
    while let [question] = outcome.questions.as_slice() {
        match question {
            Question::Call { id, tool, arguments, effects, .. } => {
                assert_eq!((&**tool, *effects), ("send", Effects::Once));
                assert!(arguments.get("number").is_some(), "{arguments:?}");
                assert!(engine.state_at(&"r".into(), None).await.unwrap().doubts().next().is_none());
                asked += 1;
                engine.decide(&"r".into(), id, &Decision::approve().by("ann")).await.unwrap();
            }
            other => {
                assert!(matches!(other, Question::Doubt { .. }), "{other:?}");
                answer(cells, Answer::Retry).await;
            }
        }
        outcome = resume_session(cells).await;
    }
    (outcome, asked)
}

async fn resume_session(cells: &Cells) -> RunOutcome {
    let engine = session_engine(cells);
    let park = (cells.sleeps || cells.parks).then_some(Duration::from_secs(1));
    let options = ResumeOptions { detach: true, park, ..ResumeOptions::default() };
    let outcome = engine.resume(&"r".into(), options).await.unwrap().finished().await.unwrap();
    check_history(&engine, &outcome).await;
    outcome
}

async fn start_session(cells: &Cells) -> RunOutcome {
    let park = (cells.sleeps || cells.parks).then_some(Duration::from_secs(1));
    let options = RunOptions { run: Some("r".parse().unwrap()), detach: true, park, ..RunOptions::default() };
    session_engine(cells).start(routed(SESSION), json("{}"), options).await.unwrap().finished().await.unwrap()
}

#[tokio::test]
async fn a_program_waits_for_a_person_without_a_cell_and_is_killed_after_any_event() {
    let cells = Cells::new(&PLAN, 100);
    let outcome = start_session(&cells).await;
    assert_eq!((outcome.status, cells.made().len()), (Status::Suspended, 1), "{outcome:?}");
    let (outcome, asked) = approving(&cells, outcome).await;
    assert_eq!((outcome.status, asked), (Status::Completed, 2), "{outcome:?}");
    let calls = cells.made();
    assert_eq!(calls.len(), 4, "{calls:?}");
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
    for keep in started + 1..records.len() {
        let prefix = &records[..keep];
        let cells = Cells::new(&PLAN, 100).within(holding(prefix.to_vec()).await);
        let (outcome, asked) = approving(&cells, resume_session(&cells).await).await;
        assert_eq!(outcome.status, Status::Completed, "after event {keep}: {outcome:?}");
        assert_eq!(cells.made(), calls[count(prefix, "inner-replied")..], "after event {keep}");
        assert_eq!(asked, 2 - count(prefix, "call-answered"), "after event {keep}: a question has one answer");
    }
}

const ASKING: [Planned; 4] =
    [("look", Effects::Pure, Ends), ("ask", Effects::Once, Ends), ("put", Effects::Idempotent, Ends), TASK];

/// A call that a server answers with a task.
const TASK: Planned = ("task", Effects::Once, Ends);

/// Drives the run until it ends, with a person who fills in each form with its key. The forms, in order.
async fn filling_in(cells: &Cells, mut outcome: RunOutcome) -> (RunOutcome, Vec<String>) {
    let (engine, mut asked) = (session_engine(cells), Vec::new());
    while !matches!(outcome.status, Status::Completed | Status::Failed) {
        match outcome.questions.as_slice() {
            [] => {
                assert!(outcome.due.is_some(), "{outcome:?}");
                cells.clock.0.fetch_add(HOUR, SeqCst);
            }
            [Question::Input { id, message, .. }] => {
                let key = message.trim_end_matches('?');
                asked.push(key.to_owned());
                let answer = InputAnswer::Accept(json(&format!(r#"{{"it":"{key}"}}"#)));
                let message = Message::Input { question: id.clone(), answer, by: None, from: None };
                engine.send(&"r".into(), &message).await.unwrap();
            }
            [Question::Doubt { .. }] => answer(cells, Answer::Retry).await,
            other => panic!("{other:?}"),
        }
        outcome = resume_session(cells).await;
    }
    (outcome, asked)
}

#[tokio::test]
async fn a_program_whose_tools_ask_a_person_waits_without_a_cell_and_is_killed_after_any_event() {
    let asking = || Cells { parks: true, ..Cells::new(&ASKING, 100) };
    let cells = asking();
    let outcome = start_session(&cells).await;
    let [Question::Input { server, tool, message, .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((&**server, &**tool, &**message), ("s", "ask", "a?"));
    let doubts = session_engine(&cells).state_at(&"r".into(), None).await.unwrap().doubts().count();
    assert_eq!((outcome.status, doubts, cells.made().len()), (Status::Suspended, 0, 2), "{outcome:?}");
    let (outcome, asked) = filling_in(&cells, outcome).await;
    assert_eq!(asked, ["a", "b", "c", "d"]);
    let expected = r#"["look at 100","c={\"it\":\"c\"}","put at 100","d={\"it\":\"d\"}"]"#;
    assert_eq!((outcome.status, outcome.result.as_str()), (Status::Completed, Some(expected)), "{outcome:?}");
    let calls = cells.made();
    let made: Vec<&str> = calls.iter().map(|made| made.split_once(' ').unwrap().0).collect();
    // The task is polled for once more after the hour in which no cell was there.
    let whole = ["look", "ask", "ask(one)", "ask(two)", "put", "task", "task(t)", "task(t)", "task(t)"];
    assert_eq!(made, whole);
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    assert_eq!((count(&records, "input-asked"), count(&records, "inner-slept")), (4, 1));
    let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
    for keep in started + 1..records.len() {
        let prefix = &records[..keep];
        let cells = asking().within(holding(prefix.to_vec()).await);
        cells.clock.0.store(prefix.last().unwrap().at - 1_000_000, SeqCst);
        let (outcome, again) = filling_in(&cells, resume_session(&cells).await).await;
        assert_eq!(
            (outcome.status, outcome.result.as_str()),
            (Status::Completed, Some(expected)),
            "after event {keep}"
        );
        // Each form is filled in once, and each call that was answered is not made again.
        let answered = count(prefix, "input-answered");
        assert_eq!(again, asked[answered..], "after event {keep}");
        let steps = count(prefix, "inner-replied") + count(prefix, "input-asked");
        let made: Vec<String> = cells.made().iter().map(|made| made.split_once(' ').unwrap().0.to_owned()).collect();
        let (mut made, mut rest) = (made, whole[..8].get(steps..).unwrap_or_default().to_vec());
        made.dedup();
        rest.dedup();
        assert_eq!(made, rest, "after event {keep}");
        assert!(cells.made().iter().all(|made| calls.contains(made)), "after event {keep}: with other keys");
    }
}

#[tokio::test]
async fn a_tool_of_a_program_asks_no_more_often_than_that_of_a_step() {
    let cells = Cells::new(&[("curious", Effects::Once, Ends)], 100);
    let (outcome, asked) = filling_in(&cells, start_session(&cells).await).await;
    assert_eq!((asked.len(), cells.made().len()), (8, 9));
    let said = outcome.result.as_str().unwrap().to_owned();
    assert!(said.contains("asked for input 8 times in one call, and asks again"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn of_calls_at_once_one_asks_for_input_and_one_for_approval_when_the_others_have_ended() {
    let plan = [("ask", Effects::Once, Ends), ("send", Effects::Once, Ends), ("put", Effects::Idempotent, Ends)];
    for approves_first in [true, false] {
        let cells = Cells::at_once(&plan, false);
        let mut outcome = start_session(&cells).await;
        let engine = session_engine(&cells);
        let mut made = cells.made();
        made.sort();
        assert_eq!((made.len(), outcome.questions.len()), (2, 2), "{outcome:?}");
        assert!(made[0].starts_with("ask ") && made[1].starts_with("put "), "{made:?}");
        let mut forms = 0;
        while outcome.status == Status::Suspended {
            let is_call = |question: &&Question| matches!(question, Question::Call { .. }) == approves_first;
            let question = outcome.questions.iter().find(is_call).or(outcome.questions.first()).unwrap();
            match question {
                Question::Call { id, .. } => {
                    engine.decide(&"r".into(), id, &Decision::approve().by("ann")).await.unwrap();
                }
                Question::Input { id, message, .. } => {
                    let answer = InputAnswer::Accept(json(&format!(r#"{{"it":"{}"}}"#, message.trim_end_matches('?'))));
                    let message = Message::Input { question: id.clone(), answer, by: None, from: None };
                    engine.send(&"r".into(), &message).await.unwrap();
                    forms += 1;
                }
                other => panic!("{other:?}"),
            }
            outcome = resume_session(&cells).await;
        }
        assert_eq!((outcome.status, forms), (Status::Completed, 3), "{outcome:?}");
        let made: Vec<String> = cells.made().iter().map(|made| made.split_once(' ').unwrap().0.to_owned()).collect();
        let times = |call: &str| made.iter().filter(|made| *made == call).count();
        let each = ["ask", "ask(one)", "ask(two)", "send", "put"].map(times);
        assert_eq!(each, [1; 5], "{made:?}");
    }
}

#[tokio::test]
async fn a_program_learns_that_a_person_refused_its_call_and_continues() {
    let cells = Cells::new(&PLAN, 100);
    let outcome = start_session(&cells).await;
    let [Question::Call { id, .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
    let refusal = Decision::refuse().why("not today").by("ann");
    session_engine(&cells).decide(&"r".into(), id, &refusal).await.unwrap();
    let (outcome, asked) = approving(&cells, resume_session(&cells).await).await;
    let expected =
        r#"["look at 100","approval-refused: a person (ann) refused this call: not today","put at 100","send at 100"]"#;
    assert_eq!((outcome.result.as_str(), asked), (Some(expected), 1), "{outcome:?}");
    assert_eq!(cells.made().len(), 3);
}

/// The question of a run that asks one about a call.
fn the_question(outcome: &RunOutcome) -> &Question {
    let [question @ Question::Call { .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
    question
}

#[tokio::test]
async fn two_different_people_approve_a_call_of_a_program() {
    let rule = ApprovalRule { people: Some(2), ..ApprovalRule::of(Ask::Always) };
    let cells = Cells::new(&PLAN[..2], 100).asking(rule);
    let (outcome, engine) = (start_session(&cells).await, session_engine(&cells));
    let id = the_question(&outcome).id().unwrap();
    let decide = async |decision: Decision| engine.decide(&"r".into(), id, &decision).await;
    decide(Decision::approve().by("ann (uid 7)")).await.unwrap();
    let outcome = resume_session(&cells).await;
    assert_eq!(cells.made().len(), 1, "one person is not enough");
    let Question::Call { approved_by, people, .. } = the_question(&outcome) else { unreachable!() };
    assert_eq!((approved_by.as_slice(), *people), (&["ann (uid 7)".into()][..], 2));
    let written = Value::of(the_question(&outcome)).unwrap().to_json();
    assert!(written.contains(r#""approved-by":["ann (uid 7)"]"#), "{written}");
    let before: Question = Value::from_json(&written.replace("approved-by", "approved_by")).unwrap().to().unwrap();
    assert_eq!(before, *the_question(&outcome));
    // The same person under another name, no one, and what would be more than this call as it was shown.
    let by_bob = || Decision::approve().by("bob (uid 8)");
    let changed = by_bob().arguments(json(r#"{"number":7}"#));
    for refused in [Decision::approve().by("bob (uid 7)"), Decision::approve(), changed, by_bob().for_the_run()] {
        assert_eq!(decide(refused.clone()).await.unwrap_err().kind(), "answer-not-taken", "{refused:?}");
    }
    assert_eq!(resume_session(&cells).await.status, Status::Suspended);
    decide(by_bob()).await.unwrap();
    let outcome = resume_session(&cells).await;
    assert_eq!(outcome.result.as_str(), Some(r#"["look at 100","send at 100"]"#), "{outcome:?}");
    assert_eq!(cells.made().len(), 2);
}

#[tokio::test]
async fn a_program_learns_that_no_one_answered_in_time_and_continues() {
    const MINUTE: i64 = 60_000_000;
    for then in [Then::Refuse, Then::Fail] {
        let rule = ApprovalRule { within_seconds: Some(60), then: Some(then), ..ApprovalRule::of(Ask::Always) };
        let cells = Cells::new(&PLAN[..3], 100).asking(rule);
        let outcome = start_session(&cells).await;
        let id = the_question(&outcome).id().unwrap().clone();
        assert!(outcome.due.is_some(), "a worker continues it in time");
        cells.clock.0.fetch_add(MINUTE - 1, SeqCst);
        assert_eq!(resume_session(&cells).await.status, Status::Suspended);
        cells.clock.0.fetch_add(1, SeqCst);
        let late = session_engine(&cells).decide(&"r".into(), &id, &Decision::approve().by("ann")).await;
        assert!(matches!(late, Err(RunError::NotAsked { .. })), "{late:?}");
        let outcome = resume_session(&cells).await;
        let timed_out = "approval-timeout: there was no answer in time whether this call may be made";
        let expected = format!(r#"["look at 100","{timed_out}","put at 100"]"#);
        assert_eq!((outcome.status, outcome.result.as_str()), (Status::Completed, Some(&*expected)), "{then:?}");
        assert_eq!(cells.made().len(), 2, "what no one approved is not called");
        // Nor after a crash at any place.
        let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
        let asked = records.iter().position(|record| &*record.kind == "calls-asked").unwrap();
        for keep in asked + 1..records.len() {
            let fresh = Cells { made: Arc::default(), ..cells.clone() };
            let fresh = fresh.within(holding(records[..keep].to_vec()).await);
            let again = resume_session(&fresh).await;
            assert_eq!(again.result.as_str(), Some(&*expected), "after event {keep}: {again:?}");
            assert!(fresh.made().iter().all(|made| !made.starts_with("send")), "after event {keep}");
        }
    }
}

/// Four calls of which no person is asked about any.
const UNASKED: [Planned; 4] = [
    ("look", Effects::Pure, Ends),
    ("post", Effects::Once, Ends),
    ("put", Effects::Idempotent, Ends),
    ("post", Effects::Once, Ends),
];

/// The places of the calls whose replies are recorded, in order.
fn replied(records: &[Record]) -> Vec<usize> {
    let replies = records.iter().filter(|record| &*record.kind == "inner-replied");
    let place = |record: &Record| {
        let (_, rest) = record.payload.split_once(r#""place":"#).unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    replies.map(place).collect()
}

/// Drives a run of calls that are made at once to its end, with a person who approves everything, and settles each call
/// in doubt by making it again. Returns how many questions there were at once.
async fn settling(cells: &Cells, mut outcome: RunOutcome) -> (RunOutcome, Vec<usize>) {
    let (engine, mut asked) = (session_engine(cells), Vec::new());
    while !outcome.questions.is_empty() {
        asked.push(outcome.questions.len());
        for question in &outcome.questions {
            match question {
                Question::Call { id, .. } => {
                    engine.decide(&"r".into(), id, &Decision::approve().by("ann")).await.unwrap();
                }
                _ => answer(cells, Answer::Retry).await,
            }
        }
        outcome = resume_session(cells).await;
    }
    (outcome, asked)
}

fn said(outcome: &RunOutcome) -> Vec<(usize, String)> {
    let said: Vec<String> = serde_json::from_str(outcome.result.as_str().unwrap()).unwrap();
    let parts = said.iter().map(|said| said.split_once(' ').unwrap());
    parts.map(|(at, result)| (at.parse().unwrap(), result.to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_keep_their_places_and_a_killed_program_learns_of_their_ends_in_the_recorded_order() {
    for plan in [UNASKED, PLAN] {
        let cells = Cells::at_once(&plan, true);
        let (outcome, asked) = settling(&cells, start_session(&cells).await).await;
        assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
        assert_eq!(asked, if plan == PLAN { vec![2] } else { vec![] }, "both calls are asked about at once");
        let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
        let order: Vec<usize> = said(&outcome).into_iter().map(|(at, _)| at).collect();
        assert_eq!(order, replied(&records));
        assert_ne!(order, [0, 1, 2, 3], "the calls took times of their own");
        let mut calls = cells.made();
        calls.sort();
        let keys: Vec<String> = (0..4).map(|at| format!("{} r/talk/1/1/{}", plan[at].0, at + 1)).collect();
        let mut expected: Vec<String> = keys.iter().map(|key| key.replace("r/talk/1/1", key_of(&calls))).collect();
        expected.sort();
        assert_eq!(calls, expected);
        let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
        for keep in started + 1..records.len() {
            let prefix = &records[..keep];
            let (before, ended) = (replied(prefix), count(prefix, "inner-replied"));
            // They take other times now.
            let cells = Cells::at_once(&plan, false).within(holding(prefix.to_vec()).await);
            let (outcome, _) = settling(&cells, resume_session(&cells).await).await;
            assert_eq!(outcome.status, Status::Completed, "after event {keep}: {outcome:?}");
            let now: Vec<usize> = said(&outcome).into_iter().map(|(at, _)| at).collect();
            assert_eq!(now[..ended], before, "after event {keep}: it learns of the same ends first");
            assert_eq!(now, replied(&cells.journal.read(&"r".into(), 0, 1_000).await.unwrap()), "after event {keep}");
            let made = cells.made();
            assert_eq!(made.len(), 4 - ended, "after event {keep}: what has ended is not made again: {made:?}");
            assert!(made.iter().all(|key| calls.contains(key)), "after event {keep}: with other keys: {made:?}");
        }
    }
}

/// The key of the effect in those of its calls.
fn key_of(calls: &[String]) -> &str {
    calls[0].split_once(' ').unwrap().1.rsplit_once('/').unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn of_calls_at_once_others_end_before_a_person_is_asked_and_a_refused_one_fails_alone() {
    let cells = Cells::at_once(&PLAN, true);
    let outcome = start_session(&cells).await;
    let mut made = cells.made();
    made.sort();
    assert_eq!((outcome.status, made.len()), (Status::Suspended, 2), "{outcome:?}");
    assert!(made[0].starts_with("look ") && made[1].starts_with("put "), "{made:?}");
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    assert_eq!((count(&records, "inner-requested"), count(&records, "inner-replied")), (4, 2));
    let [Question::Call { id: first, .. }, Question::Call { id: second, .. }] = outcome.questions.as_slice() else {
        panic!("{outcome:?}")
    };
    let engine = session_engine(&cells);
    engine.decide(&"r".into(), second, &Decision::approve().by("ann")).await.unwrap();
    let outcome = resume_session(&cells).await;
    assert_eq!((outcome.questions.len(), cells.made().len()), (1, 2), "the other call has no answer yet: {outcome:?}");
    engine.decide(&"r".into(), first, &Decision::refuse().by("ann")).await.unwrap();
    let outcome = resume_session(&cells).await;
    let mut results = said(&outcome);
    results.sort();
    let expected = [(0, "done"), (1, "approval-refused"), (2, "done"), (3, "done")];
    assert_eq!(results, expected.map(|(at, result)| (at, result.to_owned())), "{outcome:?}");
    assert_eq!(cells.made().iter().filter(|made| made.starts_with("send")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forged_record_of_calls_at_once_is_refused() {
    let cells = Cells::at_once(&PLAN, true);
    start_session(&cells).await;
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    let waiting = records.iter().position(|record| record.payload.contains(r#""waits":true"#)).unwrap();
    let asked = records.iter().position(|record| &*record.kind == "calls-asked").unwrap();
    let place = r#""place":1"#;
    for (at, from, to) in [
        // A call that waits is asked about, and no other.
        (waiting, r#","waits":true"#, ""),
        (waiting, place, r#""place":3"#),
        (asked, place, r#""place":0"#),
        (asked, place, r#""place":9"#),
    ] {
        let mut forged = records[..=asked].to_vec();
        let text = forged[at].payload.replacen(from, to, 1);
        assert_ne!(text, *forged[at].payload, "{from}");
        forged[at].payload = text.into();
        let cells = Cells::at_once(&PLAN, true).within(holding(forged).await);
        let refused = session_engine(&cells).resume(&"r".into(), ResumeOptions::default()).await;
        let Err(RunError::Replay { .. } | RunError::Unreadable { .. }) = refused else { panic!("{from} {to}") };
        assert_eq!(cells.made(), Vec::<String>::new());
    }
}

/// Drives the run until it ends, and lets time pass for it. Returns how often it waited for time alone.
async fn as_time_passes(cells: &Cells, mut outcome: RunOutcome) -> (RunOutcome, usize) {
    let mut waited = 0;
    while outcome.status != Status::Completed {
        assert_eq!(outcome.status, Status::Running, "{outcome:?}");
        assert_eq!(cells.alive.load(SeqCst), 0, "a program that sleeps is not there");
        let due = outcome.due.unwrap().0;
        assert!(due > cells.clock.now().0, "it waits for time alone");
        let early = (due - cells.clock.now().0).min(HOUR);
        cells.clock.0.fetch_add(due - cells.clock.now().0 - early, SeqCst);
        let before = resume_session(cells).await;
        assert_eq!((before.status, before.due), (Status::Running, outcome.due), "{before:?}");
        cells.clock.0.fetch_add(early, SeqCst);
        outcome = resume_session(cells).await;
        waited += 1;
    }
    (outcome, waited)
}

#[tokio::test]
async fn a_program_that_sleeps_for_days_is_not_there_and_continues_after_them_wherever_it_was_killed() {
    let plan = &UNASKED[..3];
    let cells = Cells { sleeps: true, ..Cells::new(plan, 100) };
    let outcome = start_session(&cells).await;
    let (outcome, waited) = as_time_passes(&cells, outcome).await;
    let day = i64::try_from(DAY_MS).unwrap() * 1_000;
    let times: Vec<String> = [0, 3, 6].iter().map(|days| (days * day).to_string()).collect();
    assert_eq!((outcome.result.as_str(), waited), (Some(&*format!("[{}]", times.join(","))), 3), "{outcome:?}");
    let calls = cells.made();
    assert_eq!(calls.len(), 3);
    let records = cells.journal.read(&"r".into(), 0, 1_000).await.unwrap();
    let started = records.iter().position(|record| &*record.kind == "inner-started").unwrap();
    for keep in started + 1..records.len() {
        let prefix = &records[..keep];
        let clock = Clock::default();
        clock.0.store(prefix.last().unwrap().at - 1_000_000, SeqCst);
        let cells = Cells { sleeps: true, clock, ..Cells::new(plan, 100) }.within(holding(prefix.to_vec()).await);
        let mut outcome = resume_session(&cells).await;
        if let [Question::Doubt { .. }] = outcome.questions.as_slice() {
            answer(&cells, Answer::Retry).await;
            outcome = resume_session(&cells).await;
        }
        let (outcome, _) = as_time_passes(&cells, outcome).await;
        assert_eq!(outcome.status, Status::Completed, "after event {keep}: {outcome:?}");
        let payloads = prefix.iter().filter(|record| &*record.kind == "inner-replied");
        let ended = payloads.filter(|record| record.payload.contains(" at 100")).count();
        assert_eq!(cells.made(), calls[ended..], "after event {keep}");
    }
}
