//! Answers while they come: text, reasoning and calls, from servers that behave and from servers that do not.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::provider_support::*;
use super::test_server::{Canned, Server};
use super::*;
use opcell_engine::event::EffectId;
use opcell_engine::ports::AnswerPiece;
use opcell_types::Value;
use serde_json::{Value as Json, json};
use std::sync::Mutex;

/// Collects the pieces of an answer, and takes back what it has where it is built to.
#[derive(Default)]
struct Collected {
    pieces: Mutex<Vec<Value>>,
    takes_back: bool,
    /// Notified of every piece.
    news: tokio::sync::Notify,
}

impl TextSink for Collected {
    fn text(&self, piece: &str) {
        self.piece(AnswerPiece::Text(piece));
    }

    fn piece(&self, piece: AnswerPiece<'_>) {
        self.pieces.lock().unwrap().push(piece.to_value(EffectId(1)));
        self.news.notify_one();
    }

    fn takes_back(&self) -> bool {
        self.takes_back
    }
}

impl Collected {
    /// The pieces as short texts; consecutive ones of one kind together.
    fn told(&self) -> Vec<String> {
        let mut told: Vec<(String, String)> = Vec::new();
        for piece in self.pieces.lock().unwrap().iter() {
            let (kind, text) = match piece.get("call") {
                None => {
                    let key = ["text", "reasoning", "restarted"].into_iter().find(|key| piece.get(key).is_some());
                    let key = key.unwrap_or("ended");
                    (key.to_owned(), piece.get(key).and_then(Value::as_str).unwrap_or_default().to_owned())
                }
                Some(call) => {
                    let number = call.get("number").unwrap().to_json();
                    let key = ["tool", "arguments"].into_iter().find(|key| call.get(key).is_some()).unwrap_or("ended");
                    let text = call.get(key).and_then(Value::as_str).unwrap_or_default();
                    (format!("{number} {key}"), text.to_owned())
                }
            };
            match told.last_mut().filter(|(last, _)| *last == kind && !kind.ends_with("tool")) {
                Some((_, all)) => all.push_str(&text),
                None => told.push((kind, text)),
            }
        }
        told.into_iter().map(|(kind, text)| format!("{kind}: {text}")).collect()
    }
}

/// A stream with reasoning in two pieces, text, and two calls whose arguments come in pieces.
fn whole(api: Api) -> Vec<(&'static str, Json)> {
    let chat = |delta: Json| ("", json!({"choices": [{"index": 0, "delta": delta}]}));
    let call = |index: u32, function: Json| {
        let id = if function["name"].is_null() { Json::Null } else { json!(format!("c-{index}")) };
        json!({"tool_calls": [{"index": index, "id": id, "function": function}]})
    };
    match api {
        Api::OpenaiCompletions | Api::Ollama => vec![
            chat(json!({"reasoning_content": "Let me ", "reasoning": "Let me "})),
            chat(json!({"reasoning_content": "see."})),
            chat(json!({"content": "I read."})),
            chat(call(0, json!({"name": "a_b", "arguments": ""}))),
            chat(call(0, json!({"arguments": "{\"path\":"}))),
            chat(call(0, json!({"arguments": " \"x\"}"}))),
            chat(call(1, json!({"name": "a_b", "arguments": "{}"}))),
            ("", json!({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})),
            ("", json!("[DONE]")),
        ],
        Api::AnthropicMessages => {
            let begin = |at: u32, block: Json| {
                ("", json!({"type": "content_block_start", "index": at, "content_block": block}))
            };
            let delta =
                |at: u32, delta: Json| ("", json!({"type": "content_block_delta", "index": at, "delta": delta}));
            let stop = |at: u32| ("", json!({"type": "content_block_stop", "index": at}));
            vec![
                ("", json!({"type": "message_start", "message": anthropic(json!([]), "")})),
                begin(0, json!({"type": "thinking", "thinking": "Let me "})),
                delta(0, json!({"type": "thinking_delta", "thinking": "see."})),
                delta(0, json!({"type": "signature_delta", "signature": "sig"})),
                stop(0),
                begin(1, json!({"type": "text", "text": ""})),
                delta(1, json!({"type": "text_delta", "text": "I read."})),
                stop(1),
                begin(2, json!({"type": "tool_use", "id": "c-0", "name": "a_b", "input": {}})),
                delta(2, json!({"type": "input_json_delta", "partial_json": "{\"path\":"})),
                delta(2, json!({"type": "input_json_delta", "partial_json": " \"x\"}"})),
                stop(2),
                begin(3, json!({"type": "tool_use", "id": "c-1", "name": "a_b", "input": {}})),
                delta(3, json!({"type": "input_json_delta", "partial_json": "{}"})),
                stop(3),
                ("", json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}})),
                ("", json!({"type": "message_stop"})),
            ]
        }
        Api::OpenaiResponses => {
            let item = |at: u32, id: &str, what: Json| {
                let mut item = json!({"id": id});
                item.as_object_mut().unwrap().extend(what.as_object().unwrap().clone());
                ("", json!({"type": "response.output_item.added", "output_index": at, "item": item}))
            };
            let of = |kind: &str, at: u32, delta: &str| {
                ("", json!({"type": format!("response.{kind}.delta"), "output_index": at, "delta": delta}))
            };
            let done = |at: u32, arguments: &str| {
                (
                    "",
                    json!({"type": "response.function_call_arguments.done", "output_index": at, "arguments": arguments}),
                )
            };
            let called = |id: &str| json!({"type": "function_call", "call_id": id, "name": "a_b", "arguments": ""});
            vec![
                item(0, "r", json!({"type": "reasoning", "summary": []})),
                of("reasoning_summary_text", 0, "Let me "),
                of("reasoning_summary_text", 0, "see."),
                item(1, "m", json!({"type": "message", "content": []})),
                of("output_text", 1, "I read."),
                item(2, "f", called("c-0")),
                of("function_call_arguments", 2, "{\"path\":"),
                of("function_call_arguments", 2, " \"x\"}"),
                done(2, "{\"path\": \"x\"}"),
                item(3, "g", called("c-1")),
                done(3, "{}"),
                ("", json!({"type": "response.completed", "response": {"status": "completed", "output": []}})),
            ]
        }
        Api::Gemini => {
            let parts = |parts: Json| ("", json!({"candidates": [{"content": {"role": "model", "parts": parts}}]}));
            vec![
                parts(json!([{"text": "Let me ", "thought": true}])),
                parts(json!([{"text": "see.", "thought": true}])),
                parts(json!([{"text": "I read."}])),
                parts(json!([{"functionCall": {"name": "a_b", "args": {"path": "x"}}}])),
                parts(json!([{"functionCall": {"name": "a_b", "args": {}}}])),
                ("", json!({"candidates": [{"content": {"parts": []}, "finishReason": "STOP"}]})),
            ]
        }
    }
}

const APIS: [Api; 4] = [Api::OpenaiCompletions, Api::AnthropicMessages, Api::OpenaiResponses, Api::Gemini];

#[tokio::test]
async fn every_protocol_tells_text_reasoning_and_calls_as_they_come() {
    for api in APIS {
        let key = key();
        let server = Server::start(vec![Canned::events(&whole(api))]).await;
        let collected = Collected::default();
        let asked = with_tool(ask("go"), "a/b");
        let reply = models(&server, api, &key, |_| {}).complete(&asked, Some(&collected)).await.unwrap();
        let told: Vec<String> = collected.told().iter().map(|piece| piece.replace(": \"", ":\"")).collect();
        let mut expected = vec![
            "reasoning: Let me see.",
            "text: I read.",
            "0 tool: a/b",
            "0 arguments: {\"path\":\"x\"}",
            "0 ended: ",
            "1 tool: a/b",
            "1 arguments: {}",
            "1 ended: ",
        ];
        if api == Api::OpenaiCompletions {
            // Its calls have no end of their own.
            let ended = expected.remove(4);
            expected.insert(6, ended);
        }
        assert_eq!(told, expected, "{api:?}");
        assert_eq!(reply.message.tool_calls.len(), 2, "{api:?}");
        assert_eq!(reply.message.content, "I read.", "{api:?}");
    }
}

#[tokio::test]
async fn a_call_that_is_cut_never_ends_and_stays_with_the_failure_and_reasoning_does_not() {
    for api in [Api::OpenaiCompletions, Api::AnthropicMessages, Api::OpenaiResponses] {
        let key = key();
        let mut events = whole(api);
        let cut = events.iter().position(|(_, event)| event.to_string().contains("\\\"path\\\"")).unwrap();
        events.truncate(cut + 1);
        let half = match Canned::events(&events) {
            canned if api == Api::AnthropicMessages => canned,
            // Half an event as well.
            canned => canned.followed_by("data: {\"choices\": [{\"del"),
        };
        let server = Server::start(vec![half]).await;
        let collected = Collected::default();
        let asked = with_tool(ask("go"), "a/b");
        let failed = models(&server, api, &key, |_| {}).complete(&asked, Some(&collected)).await.unwrap_err();
        let told = collected.told();
        assert_eq!(told.last().map(String::as_str), Some("0 arguments: {\"path\":"), "{api:?}: {told:?}");
        assert_eq!(
            failed.details.unwrap().to_json(),
            r#"{"received":"I read.","received-calls":[{"tool":"a/b","arguments":"{\"path\":","complete":false}]}"#,
            "{api:?}"
        );
        assert_eq!(server.asked().len(), 1);
    }
}

#[tokio::test]
async fn endless_reasoning_is_cut_at_the_bound_of_an_answer_and_stored_nowhere() {
    let key = key();
    let piece = json!({"choices": [{"index": 0, "delta": {"reasoning_content": "hmm ".repeat(16 << 10)}}]});
    let endless = Canned::body("text/event-stream", format!("data: {piece}\n\n").repeat(300)).unfinished();
    let server = Server::start(vec![endless]).await;
    let collected = Collected::default();
    let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
    let failed = models.complete(&ask("go"), Some(&collected)).await.unwrap_err();
    assert_eq!((failed.reason.as_ref(), failed.details), ("answer-too-large", None));
    let bytes: usize = collected.told().iter().map(String::len).sum();
    assert!(((15 << 20)..=(16 << 20)).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn a_round_that_is_cancelled_keeps_what_it_had_received() {
    let key = key();
    let event = ("", json!({"choices": [{"index": 0, "delta": {"content": "half an answer"}}]}));
    let server = Server::start(vec![Canned::events(&[event]).unfinished()]).await;
    let (collected, asked) = (Collected::default(), ask("go"));
    let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
    let answered = models.complete(&asked, Some(&collected));
    let cancelled = async {
        collected.news.notified().await;
        asked.cancel.cancel();
    };
    let (answered, ()) = tokio::join!(answered, cancelled);
    let failed = answered.unwrap_err();
    assert_eq!(&*failed.reason, "cancelled");
    assert_eq!(failed.details.unwrap().to_json(), r#"{"received":"half an answer"}"#);
}

#[tokio::test]
async fn a_sink_that_takes_back_what_it_showed_is_asked_for_again_after_text() {
    let piece = ("", json!({"choices": [{"index": 0, "delta": {"content": "half"}}]}));
    let thought = ("", json!({"choices": [{"index": 0, "delta": {"reasoning_content": "hm"}}]}));
    for (begun, takes_back, requests) in [
        (piece.clone(), true, 2),
        (piece, false, 1),
        // Reasoning does not belong to the answer.
        (thought.clone(), false, 2),
        (thought, true, 2),
    ] {
        let key = key();
        let overloaded = ("", json!({"error": {"message": "overloaded", "type": "overloaded_error"}}));
        let server = Server::start(vec![Canned::events(&[begun, overloaded]), openai_stream(&["fine"])]).await;
        let collected = Collected { takes_back, ..Collected::default() };
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let reply = models.complete(&ask("go"), Some(&collected)).await;
        assert_eq!(server.asked().len(), requests, "{:?}", collected.told());
        let told = collected.told();
        match requests {
            1 => assert_eq!((told, reply.is_err()), (vec!["text: half".to_owned()], true)),
            _ => assert_eq!(
                (&told[1..], reply.is_ok()),
                (&["restarted: ".to_owned(), "text: fine".to_owned()][..], true)
            ),
        }
    }
}
