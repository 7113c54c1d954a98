//! Sessions whose models call tools by programs.

use super::*;
use crate::code::{Program, ProgramCall, Programs, RUN_CODE, StartedCall};
use opcell_engine::inner::{Concurrency, EndedCall};
use opcell_ir::ir::{ApprovalRule, Ask, CodeMode, RunLimits};
use opcell_types::TouchLog;
use std::time::Duration;

/// Makes the calls that a program lists as `[["tool", {…}], …]`: results, and reasons of failures.
struct Lists;

#[async_trait]
impl Programs for Lists {
    async fn run(&self, program: Program) -> Reply<Value> {
        let calls: Vec<(String, serde_json::Value)> = serde_json::from_str(&program.source).unwrap();
        let mut results = Vec::new();
        for (name, arguments) in calls {
            let call = ProgramCall {
                name,
                arguments: Value::from(arguments),
                context: program.context.clone(),
                touched: TouchLog::default(),
                limit: Duration::from_mins(1),
                concurrency: Concurrency::Alone,
            };
            let EndedCall { reply, .. } = match program.tools.clone().start(call) {
                StartedCall::Ended(ended) => ended,
                StartedCall::Running(call) => call.await,
            };
            results.push(reply.result.unwrap_or_else(|failure| Value::from(failure.reason)));
        }
        Ok(Value::object([("result", Value::from(results)), ("logs", Value::array([]))])).into()
    }
}

fn by_code() -> Session {
    Session { code: Some(CodeMode::Javascript), ..Session::default() }
}

async fn run(
    sessions: &HostSessions,
    opened: &OpenedSession,
    calls: serde_json::Value,
    left: RunLimits,
) -> Reply<Value> {
    let arguments = Value::from(json!({"source": calls.to_string()}));
    let request = ToolCallRequest { id: "c".to_owned(), name: RUN_CODE.to_owned(), arguments };
    let call = call::ToolCall {
        context: context("step"),
        session: Arc::new(opened.clone()),
        request,
        left,
        approved: None,
        given: None,
    };
    sessions.call_tool(ToolCall::new(call, CancellationToken::new())).await
}

#[tokio::test]
async fn the_model_has_one_tool_and_reads_declarations_of_the_others() {
    let world = world();
    let sessions = world.builder.programs(Arc::new(Lists)).build().unwrap();
    let opened = open(&sessions, by_code()).await.unwrap();
    assert_eq!(tool_names(&opened), [RUN_CODE, "delegate"], "a model delegates itself");
    let in_code: Vec<&str> = opened.code.as_ref().unwrap().tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(in_code, ["read", "ls", "glob", "grep", "ledger/add"]);
    assert_eq!(opened.settings.tools, names(&["read", "ls", "glob", "grep", "ledger/add", "delegate"]));
    for shown in ["ledger_add(args?: { n?: number })", "read(args: {", "λ skills.", RUN_CODE] {
        assert!(opened.system.contains(shown), "{shown}: {}", opened.system);
    }
    assert!(!opened.tools[0].description.contains("ledger_add"));
    let again = open(&sessions, by_code()).await.unwrap();
    assert_eq!(again.system, opened.system);
    let off = open(&sessions, Session { code: Some(CodeMode::Off), ..Session::default() }).await.unwrap();
    assert_eq!((off.code, off.tools.len()), (None, 6));
}

#[tokio::test]
async fn programs_in_python_have_declarations_in_python() {
    let world = world();
    let sessions = world.builder.programs(Arc::new(Lists)).build().unwrap();
    let opened = open(&sessions, Session { code: Some(CodeMode::Python), ..Session::default() }).await.unwrap();
    for shown in ["def ledger_add(*, n: int = ...)", "class tools:", "in Python", "the standard library"] {
        assert!(opened.system.contains(shown), "{shown}: {}", opened.system);
    }
    assert!(opened.tools[0].description.starts_with("Runs a program in Python"), "{:?}", opened.tools[0]);
}

#[tokio::test]
async fn without_a_prompt_of_tools_the_tool_has_the_declarations() {
    let world = world();
    let sessions = world.builder.programs(Arc::new(Lists)).build().unwrap();
    let session = Session { replace_system_prompt: Some("Say yes.".to_owned()), ..by_code() };
    let opened = open(&sessions, session).await.unwrap();
    assert_eq!(opened.system, "Say yes.");
    assert!(opened.tools[0].description.contains("ledger_add"), "{}", opened.tools[0].description);
}

#[tokio::test]
async fn calls_of_programs_pass_the_checks_of_the_model_and_are_counted() {
    let world = world();
    let sessions = world.builder.programs(Arc::new(Lists)).build().unwrap();
    let rule = ApprovalRule::of(Ask::Always);
    let session = Session {
        tools: names(&["ledger/add", "bash"]),
        approve: vec![ApprovalRule { tools: Some(vec!["bash".to_owned()]), ..rule }].into(),
        ..by_code()
    };
    let opened = open(&sessions, session).await.unwrap();
    assert_eq!(tool_names(&opened), [RUN_CODE, "bash"], "a model asks a person itself");
    let calls = json!([
        ["ledger/add", {"n": 1}], ["ledger/add", {"n": "x"}], ["read", {"path": "work/a.txt"}],
        ["bash", {"command": "true"}], [RUN_CODE, {"source": "[]"}], ["search_tools", {"query": "add"}]
    ]);
    let reply = run(&sessions, &opened, calls, RunLimits::default()).await;
    let expected = json!({"result": [
        {"n": 1}, "invalid-arguments", "unknown-tool", "approval-needed", "unknown-tool", "unknown-tool"
    ]});
    assert_eq!(reply.result.unwrap(), expected);
    assert_eq!(reply.receipt.unwrap().inner_calls(), 2, "those of tools that the session has");
    assert_eq!(
        call(&sessions, &opened, "ledger/add", json!({"n": 1})).await.unwrap_err().reason.as_ref(),
        "unknown-tool"
    );
}

#[tokio::test]
async fn a_program_makes_no_more_calls_than_are_left() {
    let world = world();
    let sessions = world.builder.programs(Arc::new(Lists)).build().unwrap();
    let calls = json!([["ledger/add", {}], ["ledger/add", {}], ["ledger/add", {}]]);
    for (most, left) in [(Some(2), None), (None, Some(2)), (Some(5), Some(2))] {
        let opened = open(&sessions, Session { max_tool_calls: most, ..by_code() }).await.unwrap();
        let left = RunLimits { tool_calls: left, ..RunLimits::default() };
        let reply = run(&sessions, &opened, calls.clone(), left).await;
        assert_eq!(reply.result.unwrap(), json!({"result": [{}, {}, "tool-call-limit"]}));
        assert_eq!(reply.receipt.unwrap().inner_calls(), 2);
    }
}

#[tokio::test]
async fn a_host_without_programs_opens_no_such_session() {
    let world = world();
    let sessions = world.builder.build().unwrap();
    assert_eq!(open(&sessions, by_code()).await.unwrap_err().reason.as_ref(), "code-unavailable");
}

#[tokio::test]
async fn tools_that_are_not_declared_are_found_by_the_program() {
    let world = world();
    let many = (0..1_000).map(|at| echo(&format!("many/tool-{at}"), None));
    let sessions = world.builder.tools(many).programs(Arc::new(Lists)).build().unwrap();
    let opened = open(&sessions, by_code()).await.unwrap();
    assert!(opened.system.contains("more tools are not declared here"), "{}", opened.system);
    let calls = json!([
        ["search_tools", {"query": "tool-999"}], ["describe_tools", {"names": ["many/tool-999"]}], ["many/tool-999", {"n": 3}]
    ]);
    let reply = run(&sessions, &opened, calls, RunLimits::default()).await.result.unwrap();
    let results = reply.get("result").and_then(Value::as_array).unwrap();
    assert_eq!(results[0].as_array().unwrap()[0].get("name"), Some(&Value::from("many/tool-999")));
    assert!(results[1].as_str().unwrap().contains("many_tool_999(args?: { n?: number })"), "{results:?}");
    assert_eq!(results[2], json!({"n": 3}));
}
