//! psi's own test cases (its 10, 31, 40) and the defects of its runtime that are done right here.

use crate::support::{Script, failure, json, routed};
use async_trait::async_trait;
use opcell_engine::{
    Engine, Event, ResumeOptions, RunHandle, RunOptions, RunOutcome, Status, Trace,
    outcome::Question,
    ports::{
        Effects, Failure, ModelReply, ModelRound, OpenSession, OpenedSession, Reply, Sessions, TextSink, ToolCall,
    },
};
use opcell_types::Value;
use std::sync::{
    Arc, OnceLock,
    atomic::{AtomicUsize, Ordering},
};

const TEXT: &str = r#""contributions":[{"type":"template","text":"work","vars":{}}]"#;

fn session(name: &str, config: &str, rest: &str) -> String {
    format!(
        r#"{{"name":"{name}","type":"session","session":{{{config}}},
            "outputs":{{"final-llm-reply":{{"source":"session/final-llm-reply"}},"transcript":{{"source":"session/transcript"}}}},
            "yields":{{"type":"text","text":"final-llm-reply"}}{rest}}}"#
    )
}

fn invoke(name: &str, operation: &str, args: &str) -> String {
    format!(r#"{{"name":"{name}","type":"invoke","invoke":{{"operation":"{operation}","args":{{{args}}}}}}}"#)
}

/// Sessions whose run is cancelled while their `at`th round is under way; the round's answer comes after that.
struct CancelsAt {
    inner: Arc<dyn Sessions>,
    at: usize,
    rounds: AtomicUsize,
    run: OnceLock<RunHandle>,
}

#[async_trait]
impl Sessions for CancelsAt {
    async fn open(&self, request: OpenSession) -> Result<OpenedSession, Failure> {
        self.inner.open(request).await
    }

    async fn complete(&self, round: ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        if self.rounds.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            while self.run.get().is_none() {
                tokio::task::yield_now().await;
            }
            self.run.get().unwrap().cancel("enough");
            round.cancel.cancelled().await;
        }
        self.inner.complete(round, sink).await
    }

    fn tool_effects(&self, tool: &str) -> Effects {
        self.inner.tool_effects(tool)
    }

    async fn call_tool(&self, call: ToolCall) -> Reply<Value> {
        self.inner.call_tool(call).await
    }
}

async fn cancelled_at(script: &Script, steps: &str, at: usize) -> (RunOutcome, usize) {
    let ports = script.ports();
    let sessions = CancelsAt { inner: ports.sessions, at, rounds: AtomicUsize::new(0), run: OnceLock::new() };
    let sessions = Arc::new(sessions);
    let engine = Engine::builder().operations(ports.operations).sessions(sessions.clone()).build();
    let run = engine.start(routed(steps), json("{}"), RunOptions::default()).await.unwrap();
    let _ = sessions.run.set(run.clone());
    (run.finished().await.unwrap(), sessions.rounds.load(Ordering::SeqCst))
}

#[tokio::test]
async fn a_cancelled_judge_is_not_asked_again() {
    let judge = r#","judge":{"type":"llm","session":{"contributions":[{"type":"template","text":"YES?","vars":{}}]}},
        "on":[{"outcome":{"text":"YES"},"goto":"done"}]"#;
    let script = Script::new().says(["result", "who knows", "YES"]);
    let (outcome, rounds) = cancelled_at(&script, &session("s", TEXT, judge), 2).await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Cancelled, Some("enough")));
    assert_eq!(rounds, 2);
}

#[tokio::test]
async fn a_cancelled_queue_of_prompts_stops_between_two_of_them() {
    let prompts = r#""prompts":[{"name":"one","contributions":[{"type":"template","text":"1","vars":{}}]},
        {"name":"two","contributions":[{"type":"template","text":"2","vars":{}}]}]"#;
    let script = Script::new().says(["first", "second"]);
    let (outcome, rounds) = cancelled_at(&script, &session("s", prompts, ""), 1).await;
    assert_eq!((outcome.status, rounds), (Status::Cancelled, 1));
}

#[tokio::test]
async fn a_cancelled_run_has_no_result_although_a_step_had_one() {
    let steps = [session("a", TEXT, ""), session("b", TEXT, "")].join(",");
    let script = Script::new().says(["kept in the journal", "never"]);
    let (outcome, _) = cancelled_at(&script, &steps, 2).await;
    assert_eq!((outcome.status, outcome.result), (Status::Cancelled, Value::Null));
    assert_eq!(outcome.step.as_deref(), Some("b"));
}

#[tokio::test]
async fn a_prompt_that_cannot_be_made_fails_before_anything_is_asked() {
    let unresolved = r#""contributions":[{"type":"template","text":"{{x}}",
        "vars":{"x":{"from":{"step":"a","output":"data"},"path":["y"]}}}]"#;
    let steps = [invoke("a", "t", ""), session("s", unresolved, "")].join(",");
    let script = Script::new().gives("t", [Ok(Value::from("a scalar"))]);
    let outcome = script.run(&routed(&steps), "{}").await;
    assert_eq!((outcome.status, outcome.reason.as_deref()), (Status::Failed, Some("source-not-structured")));
    assert_eq!(script.world().rounds.len(), 0);
}

/// Ends without a terminal outcome in psi: linear ends, failed actors, judges that match nothing.
#[tokio::test]
async fn every_end_is_the_last_event_and_says_why() {
    let judge =
        r#","judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"A"},"goto":"done"}]"#;
    let judged = invoke("a", "t", "").replace("}}}", &format!("}}}}{judge}}}"));
    for (script, steps, status, reason) in [
        (Script::new().gives("t", [Ok(Value::Null)]), invoke("a", "t", ""), Status::Completed, None),
        (
            Script::new().gives("t", [Err(failure("no-luck", "x"))]),
            invoke("a", "t", ""),
            Status::Failed,
            Some("no-luck"),
        ),
        (
            Script::new().gives("t", [Ok(Value::Null)]).gives("j", [Ok(Value::from("B"))]),
            judged,
            Status::Failed,
            Some("no-match"),
        ),
        (Script::new().model_fails(failure("refused", "x")), session("s", TEXT, ""), Status::Failed, Some("refused")),
    ] {
        let engine = script.engine();
        let run = engine.start(routed(&steps), json("{}"), RunOptions::default()).await.unwrap();
        let outcome = run.finished().await.unwrap();
        assert_eq!((outcome.status, outcome.reason.as_deref()), (status, reason), "{steps}");
        let history = engine.history(run.run()).await.unwrap();
        let Some(Event::RunFinished(end)) = history.last().map(|recorded| &recorded.event) else { panic!("{steps}") };
        assert_eq!((end.status, end.reason.as_deref()), (status, reason));
        assert!(status == Status::Completed || end.step.is_some());
    }
}

#[tokio::test]
async fn the_transcript_is_the_whole_conversation_with_its_tools() {
    let reader = invoke("i", "t", r#""all":{"from":{"step":"s","output":"transcript"}}"#);
    let steps = [session("s", &format!(r#""tools":["read"],{TEXT}"#), ""), reader].join(",");
    let script = Script::new().tool("read", r#""text""#).calls_tool("c", "read", "{}").says(["done"]);
    let script = script.operation("t", |call| Ok(call.arguments.clone()));
    let outcome = script.run(&routed(&steps), "{}").await;
    let all = outcome.result.get("all").and_then(Value::as_array).unwrap().to_vec();
    let roles: Vec<_> = all.iter().map(|message| message.get("role").and_then(Value::as_str).unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant"]);
}

#[tokio::test]
async fn a_step_that_was_skipped_by_a_route_gives_nothing_to_those_who_refer_to_it() {
    let judge =
        r#","judge":{"type":"invoke","invoke":{"operation":"j"}},"on":[{"outcome":{"text":"A"},"goto":{"step":"c"}}]"#;
    let first = invoke("a", "t", "").replace("}}}", &format!("}}}}{judge}}}"));
    let last = invoke("c", "t", r#""x":{"from":{"step":"b","output":"data"}}"#);
    let script = Script::new().operation("t", |call| Ok(call.arguments.clone())).gives("j", [Ok(Value::from("A"))]);
    let outcome = script.run(&routed(&[first, invoke("b", "t", ""), last].join(",")), "{}").await;
    assert_eq!((outcome.status, outcome.result), (Status::Completed, json(r#"{"x":null}"#)));
}

/// The judge's verdict, its effect and its own conversation stay with the step, and the run ends there although a step
/// follows it.
#[tokio::test]
async fn a_judged_end_keeps_what_the_judge_said_and_no_later_step_runs() {
    let judge = r#","judge":{"type":"llm","session":{"contributions":[{"type":"template","text":"good?","vars":{}}]}},
        "on":[{"outcome":{"text":"APPROVED"},"goto":"done"}]"#;
    let steps = [session("plan", TEXT, judge), session("build", TEXT, "")].join(",");
    let script = Script::new().says(["the plan", "APPROVED"]);
    let engine = script.engine();
    let run = engine.start(routed(&steps), json("{}"), RunOptions::default()).await.unwrap();
    let outcome = run.finished().await.unwrap();
    assert_eq!((outcome.status, outcome.result), (Status::Completed, Value::from("the plan")));
    let trace = Trace::of(run.run(), &engine.history(run.run()).await.unwrap()).unwrap();
    let [plan] = trace.steps.as_slice() else { panic!("`build` was never entered: {:?}", trace.steps) };
    let judged = serde_json::to_value(plan.judge.as_ref().unwrap()).unwrap();
    assert_eq!(judged["conversation"]["messages"][3]["content"], "APPROVED", "{judged}");
    let transition = serde_json::to_value(plan.transition.as_ref().unwrap()).unwrap();
    assert_eq!((&transition["outcome"]["text"], &transition["to"]), (&"APPROVED".into(), &":done".into()));
}

/// psi drops a judge's tools, sources and variables.
#[tokio::test]
async fn a_judge_has_its_own_tools_sources_and_variables() {
    let judge = r#","judge":{"type":"llm","projection":{"type":"none"},"session":{"tools":["read"],"temperature":0.5,"contributions":[
            {"type":"source","from":{"step":"a","output":"data"}},
            {"type":"template","text":"Is {{it}} good?","vars":{"it":{"from":"workflow-input"}}}]}},
        "on":[{"outcome":{"text":"YES"},"goto":"done"}]"#;
    let first = invoke("a", "t", "").replace("}}}", r#"}},"outputs":{"data":{"source":"invoke/data"}}}"#);
    let steps = [first, session("s", TEXT, judge)].join(",");
    let script = Script::new()
        .gives("t", [Ok(Value::from("a fact"))])
        .tool("read", r#""a file""#)
        .says(["work done"])
        .calls_tool("1", "read", "{}")
        .says(["YES"]);
    let outcome = script.run(&routed(&steps), r#""it""#).await;
    assert_eq!(outcome.status, Status::Completed, "{outcome:?}");
    let opened = script.world().opened[1].clone();
    assert_eq!((opened.session.tools, opened.session.temperature), (Some(vec!["read".to_owned()]), Some(0.5)));
    let seen: Vec<String> = script.world().rounds[2].messages.iter().map(|message| message.content.clone()).collect();
    assert_eq!(seen, ["a fact", "Is it good?", "", "a file"]);
}

/// psi forgets why a run is blocked; here whoever waits for the caller learns what its callee waits for.
#[tokio::test]
async fn a_caller_waits_for_what_its_callee_waits_for_and_says_so() {
    let inner = r#"{"version":"workflow-ir/v1","name":"inner","steps":[
        {"name":"ask","type":"wait","wait":{"signal":"ship","question":{"text":"Ship it?","vars":{}}}}]}"#;
    let caller = r#"{"name":"d","type":"delegate","delegate":{"target":"inner","prompt-string":"x"},"yields":{"type":"delegated"}}"#;
    let script = Script::new().workflow(&crate::support::program(inner));
    let engine = script.engine();
    let options = RunOptions { detach: true, ..RunOptions::default() };
    let run = engine.start(routed(caller), json("{}"), options).await.unwrap();
    let outcome = run.finished().await.unwrap();
    assert_eq!(outcome.status, Status::Suspended);
    let [Question::Signal { name, step, question, .. }] = outcome.questions.as_slice() else { panic!("{outcome:?}") };
    assert_eq!((name.as_ref(), step.as_ref(), question.as_deref()), ("ship", "ask", Some("Ship it?")));
    engine.signal(run.run(), &"ship".into(), json(r#""today""#), None).await.unwrap();
    let resumed = engine.resume(run.run(), ResumeOptions { detach: true, ..ResumeOptions::default() }).await.unwrap();
    assert_eq!(resumed.finished().await.unwrap().result, Value::from("today"));
}
