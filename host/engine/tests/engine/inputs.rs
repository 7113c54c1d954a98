//! Tools that ask a person for input in the middle of a call: the run waits without the call, which continues with the
//! answers and counts once.

use crate::support::{Script, check_history, failure, json, routed};
use opcell_engine::{
    Decision, Engine, Message, ResumeOptions, RunOptions, RunOutcome, Status,
    event::Answer,
    outcome::Question,
    ports::{Effects, Failure},
};
use opcell_journal::{Journal, MemoryJournal, NewRun};
use opcell_types::{GivenInput, InputAnswer, InputForm, InputRequest, Value};
use std::sync::Arc;

const STEP: &str = r#"{"name":"a","type":"invoke","invoke":{"operation":"t"},"timeout-ms":1000,"yields":{"type":"data","data":"data"}}"#;

fn form(key: &str) -> InputForm {
    let schema = r#"{"type":"object","required":["name"],"additionalProperties":false,"properties":{
        "name":{"type":"string","maxLength":5},"size":{"type":"integer","default":7}}}"#;
    InputForm { key: key.into(), message: format!("Who is {key}?").into(), schema: json(schema) }
}

/// The failure of a tool that asks with these forms.
pub fn asks(forms: &[&str], state: &str) -> Failure {
    let forms = forms.iter().map(|key| form(key)).collect();
    let request =
        InputRequest { server: "notes".into(), tool: "add".into(), forms, state: Some(state.into()), task: None };
    failure("mcp-input-required", "it asks").with_input(request)
}

/// The continuation of a call, as the tool sees it.
pub fn seen(given: &GivenInput) -> Value {
    let answers = given.answers.iter().map(|(key, answer)| match answer {
        InputAnswer::Accept(values) => format!("{key} {}", values.to_json()),
        other => format!("{key} {}", other.action()),
    });
    Value::from(format!("{}: {}", given.state.as_deref().unwrap_or_default(), answers.collect::<Vec<_>>().join(", ")))
}

/// A tool that asks with two forms, then with one, and then says what it got.
fn twice() -> Script {
    Script::new().operation_with("t", Effects::Once, |call| match call.given.as_deref() {
        None => Err(asks(&["x", "y"], "one")),
        Some(given) if given.state.as_deref() == Some("one") => {
            assert_eq!(given.answers.len(), 2);
            Err(asks(&["z"], &seen(given).to_json()))
        }
        Some(given) => Ok(seen(given)),
    })
}

fn engine(script: &Script, journal: &MemoryJournal) -> Engine {
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

async fn start(engine: &Engine, steps: &str) -> RunOutcome {
    let options = RunOptions { detach: true, run: Some("r".parse().unwrap()), ..RunOptions::default() };
    engine.start(routed(steps), json("{}"), options).await.unwrap().finished().await.unwrap()
}

async fn go_on(engine: &Engine) -> RunOutcome {
    let options = ResumeOptions { detach: true, ..ResumeOptions::default() };
    let outcome = engine.resume(&"r".into(), options).await.unwrap().finished().await.unwrap();
    check_history(engine, &outcome).await;
    outcome
}

fn asked(outcome: &RunOutcome) -> (Arc<str>, String) {
    let [Question::Input { id, message, server, tool, step, round, .. }] = outcome.questions.as_slice() else {
        panic!("{:?}", outcome.questions)
    };
    assert_eq!((&**server, &**tool, &**step), ("notes", "add", "a"));
    (id.clone(), format!("{message} {round}"))
}

fn accept(values: &str) -> InputAnswer {
    InputAnswer::Accept(json(values))
}

async fn answer(engine: &Engine, outcome: &RunOutcome, answer: &InputAnswer) {
    let (id, _) = asked(outcome);
    engine.answer_input(&outcome.run, &id, answer, Some("ann".into()), Some("test".into())).await.unwrap();
}

#[tokio::test]
async fn a_call_waits_for_each_form_and_continues_as_the_same_call() {
    let script = twice();
    let engine = engine(&script, &MemoryJournal::new());
    let outcome = start(&engine, STEP).await;
    assert_eq!((outcome.status, outcome.due), (Status::Suspended, None));
    assert_eq!(asked(&outcome).1, "Who is x? 1");
    // A person may think for longer than the step has.
    script.passes(3_600_000_000);
    answer(&engine, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
    let outcome = go_on(&engine).await;
    assert_eq!((asked(&outcome).1.as_str(), script.called().len()), ("Who is y? 1", 1));
    answer(&engine, &outcome, &InputAnswer::Decline).await;
    let outcome = go_on(&engine).await;
    assert_eq!((asked(&outcome).1.as_str(), script.called().len()), ("Who is z? 2", 2));
    answer(&engine, &outcome, &InputAnswer::Cancel).await;
    let outcome = go_on(&engine).await;
    let said = r#""one: x {\"name\":\"Ada\",\"size\":7}, y decline": z cancel"#;
    assert_eq!((outcome.status, outcome.result.as_str()), (Status::Completed, Some(said)));
    let keys = script.world().keys.clone();
    assert!(keys.len() == 3 && keys.iter().all(|key| *key == keys[0]), "{keys:?}");
    assert_eq!(outcome.used.tool_calls, 1);
}

#[tokio::test]
async fn an_answer_fits_its_form_and_is_taken_once() {
    let engine = engine(&twice(), &MemoryJournal::new());
    let outcome = start(&engine, STEP).await;
    let (id, _) = asked(&outcome);
    let wrong = [
        ("[1]", "must be one JSON object"),
        ("{}", "do not match the form"),
        (r#"{"name":"too long"}"#, "do not match the form"),
        (r#"{"name":"Ada","admin":true}"#, "do not match the form"),
        (r#"{"name":"Ada","size":"7"}"#, "do not match the form"),
    ];
    for (values, problem) in wrong {
        let refused = engine.answer_input(&outcome.run, &id, &accept(values), None, None).await.unwrap_err();
        assert!(refused.kind() == "answer-not-taken" && refused.to_string().contains(problem), "{values}: {refused}");
    }
    // Answers that are in the inbox already are checked as well.
    for (values, _) in wrong {
        let message = Message::Input { question: id.clone(), answer: accept(values), by: None, from: None };
        engine.send(&outcome.run, &message).await.unwrap();
    }
    let outcome = go_on(&engine).await;
    assert_eq!(asked(&outcome).0, id);
    answer(&engine, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
    let again = engine.answer_input(&outcome.run, &id, &InputAnswer::Decline, None, None).await.unwrap_err();
    assert_eq!(again.kind(), "already-answered");
    let second = Message::Input { question: id.clone(), answer: InputAnswer::Decline, by: None, from: None };
    engine.send(&outcome.run, &second).await.unwrap();
    let outcome = go_on(&engine).await;
    assert_eq!(asked(&outcome).1, "Who is y? 1", "the second answer is not one to the second question");
    let late = engine.answer_input(&outcome.run, &id, &InputAnswer::Decline, None, None).await.unwrap_err();
    assert_eq!(late.kind(), "not-asked");
    // The same as a decision: the values that the form has by default, or none.
    let decided = engine.decide(&outcome.run, &asked(&outcome).0, &Decision::approve()).await.unwrap_err();
    assert_eq!(decided.kind(), "answer-not-taken");
    engine.decide(&outcome.run, &asked(&outcome).0, &Decision::refuse().by("ann")).await.unwrap();
    assert_eq!(asked(&go_on(&engine).await).1, "Who is z? 2");
}

#[tokio::test]
async fn a_decision_fills_in_a_form() {
    let script = twice();
    let engine = engine(&script, &MemoryJournal::new());
    let outcome = start(&engine, STEP).await;
    let id = asked(&outcome).0;
    for unfit in [
        Decision::approve().values(json(r#"{"name":"Ada Lovelace"}"#)),
        Decision::approve().arguments(json("{}")),
        Decision::refuse().values(json("{}")),
        Decision::refuse().why("no time"),
    ] {
        assert_eq!(engine.decide(&outcome.run, &id, &unfit).await.unwrap_err().kind(), "answer-not-taken");
    }
    let decision = Decision::approve().by("ann").values(json(r#"{"name":"Ada"}"#));
    engine.decide(&outcome.run, &id, &decision).await.unwrap();
    let outcome = go_on(&engine).await;
    engine.decide(&outcome.run, &asked(&outcome).0, &Decision::refuse()).await.unwrap();
    let outcome = go_on(&engine).await;
    engine.decide(&outcome.run, &asked(&outcome).0, &Decision::refuse()).await.unwrap();
    let said = r#""one: x {\"name\":\"Ada\",\"size\":7}, y decline": z decline"#;
    assert_eq!(go_on(&engine).await.result.as_str(), Some(said));
}

#[tokio::test]
async fn a_tool_that_asks_forever_ends_its_call() {
    let script = Script::new().operation("t", |_| Err(asks(&["x"], "again")));
    let engine = engine(&script, &MemoryJournal::new());
    let mut outcome = start(&engine, STEP).await;
    for round in 1..=8 {
        assert_eq!(asked(&outcome).1, format!("Who is x? {round}"));
        answer(&engine, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
        outcome = go_on(&engine).await;
    }
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("mcp-input-required")));
    let said = "tool `add` of MCP server `notes` asked for input 8 times in one call, and asks again";
    assert_eq!(outcome.message.as_deref(), Some(said));
    assert_eq!(script.called().len(), 9);
}

#[tokio::test]
async fn the_call_of_a_model_waits_for_input_as_well() {
    let session = r#"{"name":"a","type":"session","session":{"tools":["ask","look"],
            "contributions":[{"type":"template","text":"work","vars":{}}]},
        "outputs":{"final-llm-reply":{"source":"session/final-llm-reply"}},
        "yields":{"type":"text","text":"final-llm-reply"}}"#;
    let script = Script::new().tool("look", r#""seen""#).calls_tool("1", "ask", "{}").calls_tool("2", "look", "{}");
    let script = script.says(["done"]);
    let engine = engine(&script, &MemoryJournal::new());
    let outcome = start(&engine, session).await;
    assert_eq!((outcome.status, script.called().len()), (Status::Suspended, 1));
    answer(&engine, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
    let outcome = go_on(&engine).await;
    assert_eq!((outcome.status, outcome.used.tool_calls), (Status::Completed, 2));
    assert_eq!(script.called(), ["ask {}", "ask {}", "look {}"]);
    let world = script.world();
    let read = world.rounds[1].messages.iter().last().unwrap().content.clone();
    assert_eq!(read, r#"s: x {"name":"Ada","size":7}"#);
}

/// A journal with the first `keep` events of a run: what a crash at that point leaves.
async fn crashed(whole: &MemoryJournal, keep: u64) -> MemoryJournal {
    let run: Arc<str> = "r".into();
    let journal = MemoryJournal::new();
    let records = whole.read(&run, 0, keep).await.unwrap();
    let fence = journal.create(NewRun { records, ..NewRun::empty(&run, "w", 0) }).await.unwrap();
    journal.release(&run, fence).await.unwrap();
    journal
}

#[tokio::test]
async fn a_crash_at_any_event_loses_no_question_and_no_answer_and_repeats_no_call_by_itself() {
    let whole = MemoryJournal::new();
    let script = twice();
    let undisturbed = engine(&script, &whole);
    let mut outcome = start(&undisturbed, STEP).await;
    while outcome.status == Status::Suspended {
        answer(&undisturbed, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
        outcome = go_on(&undisturbed).await;
    }
    let expected = outcome.result;
    let events = undisturbed.history(&"r".into()).await.unwrap().len() as u64;
    let mut doubts = 0;
    for keep in 1..events {
        let script = twice();
        let engine = engine(&script, &crashed(&whole, keep).await);
        let mut outcome = go_on(&engine).await;
        while outcome.status == Status::Suspended {
            if let [Question::Doubt { effect, .. }] = outcome.questions.as_slice() {
                // The call was made, or may have been: a person decides whether it is made again.
                assert!(script.called().is_empty(), "after event {keep}");
                doubts += 1;
                let message = Message::Answer { effect: Some(*effect), answer: Answer::Retry, by: None };
                engine.send(&"r".into(), &message).await.unwrap();
            } else {
                answer(&engine, &outcome, &accept(r#"{"name":"Ada"}"#)).await;
            }
            outcome = go_on(&engine).await;
        }
        assert_eq!((outcome.status, &outcome.result), (Status::Completed, &expected), "after event {keep}");
    }
    // After the request, and after each answer with which the call continues.
    assert_eq!(doubts, 3);
}

/// A tool whose call continues as a task of its server.
fn as_task() -> Script {
    Script::new().operation_with("t", Effects::Once, |call| match call.given.as_deref() {
        None => {
            let (server, tool, task) = ("notes".into(), "add".into(), Some("task-1".into()));
            let request = InputRequest { server, tool, forms: Vec::new(), state: None, task };
            Err(failure("mcp-input-required", "it continues as a task").with_input(request))
        }
        Some(given) => Ok(Value::from(given.task.as_deref().unwrap_or_default())),
    })
}

#[tokio::test]
async fn a_call_that_became_a_task_is_polled_after_a_crash_and_never_made_again() {
    let whole = MemoryJournal::new();
    let script = as_task();
    let undisturbed = engine(&script, &whole);
    let outcome = start(&undisturbed, STEP).await;
    assert_eq!((outcome.status, outcome.result.as_str()), (Status::Completed, Some("task-1")), "no one is asked");
    assert_eq!((script.called().len(), outcome.used.tool_calls), (2, 1));
    let events = undisturbed.history(&"r".into()).await.unwrap();
    let began = events.iter().find(|event| event.event.kind() == "input-asked").unwrap().seq;
    for keep in began..events.len() as u64 {
        let script = as_task();
        let engine = engine(&script, &crashed(&whole, keep).await);
        let outcome = go_on(&engine).await;
        assert_eq!(
            (outcome.status, outcome.result.as_str()),
            (Status::Completed, Some("task-1")),
            "after event {keep}"
        );
        assert!(script.called().len() <= 1, "after event {keep} it is only polled");
    }
    // Before the task is in the journal, nothing says that the call was not made.
    let engine = engine(&as_task(), &crashed(&whole, began - 1).await);
    assert!(matches!(go_on(&engine).await.questions.as_slice(), [Question::Doubt { .. }]));
}
