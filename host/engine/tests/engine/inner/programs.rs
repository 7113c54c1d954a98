//! Calls that programs of models make: of which people are asked, and which wait for them and for time without a cell.

use super::*;

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

pub(super) fn session_engine(cells: &Cells) -> Engine {
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

pub(super) async fn resume_session(cells: &Cells) -> RunOutcome {
    let engine = session_engine(cells);
    let park = (cells.sleeps || cells.parks).then_some(Duration::from_secs(1));
    let options = ResumeOptions { detach: true, park, ..ResumeOptions::default() };
    let outcome = engine.resume(&"r".into(), options).await.unwrap().finished().await.unwrap();
    check_history(&engine, &outcome).await;
    outcome
}

pub(super) async fn start_session(cells: &Cells) -> RunOutcome {
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
