//! Recordings of a cell's host calls, and cells that replay them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]

mod common;

use common::{Guest, TOOLS, limits, request, sandbox, tool_caller};
use opcell_sandbox::{
    CellError, CellRequest, CellResult, Denial, Failure, Grants, HostServices, LoadRequest, OperationSuccess, Plugin,
    Recording, Remedy, Tape, recording::MAX_BYTES,
};
use opcell_types::{CallContext, TouchLog};
use serde_json::{Value, json};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// A host with one tool: it counts its calls and answers with that number and this many more bytes; `[0]` it refuses.
#[derive(Default)]
struct Host {
    calls: AtomicU64,
    more: usize,
}

#[async_trait::async_trait]
impl HostServices for Host {
    async fn call_tool(
        &self,
        _name: &str,
        arguments: &str,
        _context: &CallContext,
        _touched: &TouchLog,
    ) -> Result<String, Failure> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        match arguments {
            "[0]" => Err(Failure::denied(Denial::new("host x", "r", Remedy::Nothing))),
            _ => Ok(format!("[{call}, \"{}\"]", "x".repeat(self.more))),
        }
    }
}

async fn granted(guest: &Guest, limit: &str) -> Arc<Plugin> {
    let grants = Grants { tools: ["test/run".to_owned()].into(), ..Grants::default() };
    sandbox().load(LoadRequest { grants, limits: limits(limit), ..request(guest) }).await.unwrap()
}

/// The same plugin without any grant.
async fn ungranted(guest: &Guest, limit: &str) -> Arc<Plugin> {
    sandbox().load(LoadRequest { limits: limits(limit), ..request(guest) }).await.unwrap()
}

async fn call(plugin: &Plugin, host: &Arc<Host>, arguments: &str, tape: Tape) -> CellResult<OperationSuccess> {
    let host = Arc::clone(host) as Arc<dyn HostServices>;
    plugin.invoke(CellRequest { host, tape, ..CellRequest::new("test/run", arguments) }).await
}

/// Passes its arguments on to the tool, and has room for large ones.
fn roomy() -> Guest {
    Guest { pages: 100, ..tool_caller().asking(&["test/run"], &[]) }
}

/// As a journal keeps it.
fn journaled(done: &CellResult<OperationSuccess>) -> Arc<Recording> {
    let recording = done.receipt.recording.as_ref().expect("it was recorded");
    let text = serde_json::to_string(recording).unwrap();
    Arc::new(serde_json::from_str(&text).unwrap())
}

/// A receipt without times.
fn used(done: &CellResult<OperationSuccess>) -> Value {
    let mut receipt = serde_json::to_value(&done.receipt).unwrap();
    for time in ["duration-us", "queued-us", "ticks", "touched"] {
        receipt.as_object_mut().unwrap().remove(time);
    }
    receipt
}

#[tokio::test]
async fn a_cell_is_not_recorded_unless_that_is_asked_for() {
    let guest = tool_caller().asking(&["test/run"], &[]);
    let done = call(&*granted(&guest, "{}").await, &Arc::default(), "[7]", Tape::Off).await;
    assert!(done.receipt.recording.is_none());
}

#[tokio::test]
async fn a_replay_is_answered_as_the_recorded_cell_was_and_reaches_nothing() {
    let guest = tool_caller().asking(&["test/run"], &[]);
    let host = Arc::new(Host::default());
    let recorded = call(&*granted(&guest, "{}").await, &host, "[7]", Tape::Record).await;
    let recording = journaled(&recorded);
    assert_eq!(recording.calls[0].call, "tools.call");
    assert_eq!(recording.calls[0].given, json!(["test/run", [7]]));
    assert_eq!(recording.calls[0].answer, Some(json!({"Ok": "[1, \"\"]"})));
    assert!(!serde_json::to_string(&recorded.receipt).unwrap().contains("tools.call"), "it is beside the receipt");
    for plugin in [granted(&guest, "{}").await, ungranted(&guest, "{}").await] {
        let replayed = call(&plugin, &host, "[7]", Tape::Replay(recording.clone())).await;
        assert_eq!(replayed.result.as_ref().unwrap().data, json!([1, ""]));
        assert_eq!(used(&replayed), used(&recorded));
        assert_eq!(replayed.receipt.recording.unwrap().calls, [], "every call was made");
    }
    assert_eq!(host.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_refusal_is_replayed_as_it_was() {
    let guest = tool_caller().asking(&["test/run"], &[]);
    let host = Arc::new(Host::default());
    for (plugin, arguments) in [(granted(&guest, "{}").await, "[0]"), (ungranted(&guest, "{}").await, "[7]")] {
        let recorded = call(&plugin, &host, arguments, Tape::Record).await;
        let Err(CellError::Denied(_)) = &recorded.result else { panic!("{:?}", recorded.result) };
        // Grants of now do not count.
        let replayed = call(&*granted(&guest, "{}").await, &host, arguments, Tape::Replay(journaled(&recorded))).await;
        assert_eq!(replayed.result, recorded.result);
        assert_eq!(used(&replayed), used(&recorded));
    }
    assert_eq!(host.calls.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_call_that_was_not_recorded_ends_the_replay_and_is_named() {
    let guest = tool_caller().asking(&["test/run"], &[]);
    let (host, plugin) = (Arc::new(Host::default()), granted(&guest, "{}").await);
    let recording = journaled(&call(&plugin, &host, r#"{"b": 1, "a": [2]}"#, Tape::Record).await);
    let other = call(&plugin, &host, "[8]", Tape::Replay(recording.clone())).await;
    assert_eq!(other.receipt.error.as_deref(), Some("not-recorded"));
    let message = other.result.unwrap_err().to_string();
    assert_eq!(message, "host call `tools.call [\"test/run\",[8]]` was not recorded");
    assert_eq!(other.receipt.recording.unwrap().calls.len(), 1, "the recorded call was not made");
    // The order of members means nothing.
    let same = call(&plugin, &host, r#"{"a": [2], "b": 1}"#, Tape::Replay(recording)).await;
    assert_eq!(same.result.unwrap().data, json!([1, ""]));
    assert_eq!(host.calls.load(Ordering::Relaxed), 1);
}

/// Calls the tool with its arguments over and over.
fn flood() -> Guest {
    Guest::invoke(
        "(loop (call $tool (i32.const 16) (i32.const 8) (local.get $args) (local.get $args_len) (i32.const 512))
           (global.set $heap (i32.const 98304)) (br 0)) (unreachable)",
    )
    .with(TOOLS)
    .asking(&["test/run"], &[])
}

#[tokio::test]
async fn a_flood_of_host_calls_leaves_a_bounded_record_that_says_what_is_not_in_it() {
    let limit = r#"{"host-calls":40000,"wall-time":"60 s","ticks":6000}"#;
    let (host, plugin) = (Arc::new(Host::default()), granted(&flood(), limit).await);
    let recorded = call(&plugin, &host, "[7]", Tape::Record).await;
    assert_eq!(recorded.receipt.error.as_deref(), Some("host-call-limit"));
    let recording = journaled(&recorded);
    let made = recording.calls.len() as u64 + recording.calls_left_out;
    assert!(recording.calls_left_out > 0 && recording.bytes_left_out > 0, "{}", recording.calls.len());
    assert_eq!(made, recorded.receipt.host_calls.tools);
    let bytes = serde_json::to_string(&*recording).unwrap().len() as u64;
    assert!(bytes < 2 * MAX_BYTES, "{bytes}");
    let replayed = call(&plugin, &host, "[7]", Tape::Replay(recording)).await;
    let message = replayed.result.unwrap_err().to_string();
    assert!(message.contains("was not recorded") && message.contains("the record was full"), "{message}");
}

#[tokio::test]
async fn a_limit_that_ended_the_recorded_cell_ends_the_replay() {
    let limit = r#"{"host-calls":20}"#;
    let (host, plugin) = (Arc::new(Host::default()), granted(&flood(), limit).await);
    let recorded = call(&plugin, &host, "[7]", Tape::Record).await;
    assert_eq!(recorded.receipt.error.as_deref(), Some("host-call-limit"));
    let replayed = call(&plugin, &host, "[7]", Tape::Replay(journaled(&recorded))).await;
    assert_eq!(replayed.result, recorded.result);
    assert_eq!(used(&replayed), used(&recorded));
}

#[tokio::test]
async fn an_answer_that_is_too_large_is_left_out_and_the_replay_says_so() {
    let guest = roomy();
    let host = Arc::new(Host { more: 2 << 20, ..Host::default() });
    let plugin = granted(&guest, "{}").await;
    let recorded = call(&plugin, &host, "[7]", Tape::Record).await;
    assert!(recorded.result.is_ok(), "{:?}", recorded.receipt.error);
    let recording = journaled(&recorded);
    assert!(recording.calls[0].answer.is_none() && recording.calls[0].answer_left_out > 2 << 20);
    assert_eq!(recording.bytes_left_out, recording.calls[0].answer_left_out);
    let message = call(&plugin, &host, "[7]", Tape::Replay(recording)).await.result.unwrap_err().to_string();
    assert!(message.contains("was left out of the record"), "{message}");
}

#[tokio::test]
async fn large_arguments_of_a_call_are_stored_by_their_digest() {
    let guest = roomy();
    let (host, plugin) = (Arc::new(Host::default()), granted(&guest, "{}").await);
    let large = json!("y".repeat(200_000)).to_string();
    let recorded = call(&plugin, &host, &large, Tape::Record).await;
    let recording = journaled(&recorded);
    assert!(recording.calls[0].given.get("blake3").is_some(), "{}", recording.calls[0].shown());
    let replayed = call(&plugin, &host, &large, Tape::Replay(recording)).await;
    assert_eq!((used(&replayed), host.calls.load(Ordering::Relaxed)), (used(&recorded), 1));
    // Arguments that would make an event too deep to be read are kept as text.
    let deep = format!("{}{}", "[".repeat(100), "]".repeat(100));
    let recording = journaled(&call(&plugin, &host, &deep, Tape::Record).await);
    assert_eq!(recording.calls[0].given, json!(["test/run", deep]));
}
