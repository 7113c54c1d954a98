//! Answers of providers over HTTP: their bounds, what goes back of them, and what is repeated.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests and what they share")]

use super::provider_support::*;
use super::test_server::{Canned, Server};
use super::*;
use crate::testing::Pieces;
use opcell_engine::conversation::Message;
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// A body of very many bytes in a few, as gzip has it: one letter, then the 258 letters before, again and again.
fn bomb(mebibytes: usize) -> Vec<u8> {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];
    let (mut byte, mut filled) = (0_u8, 0);
    let mut bits = |value: u16, count: u16| {
        for at in (0..count).rev() {
            byte |= u8::try_from((value >> at) & 1).unwrap() << filled;
            filled += 1;
            if filled == 8 {
                gzip.push(byte);
                (byte, filled) = (0, 0);
            }
        }
    };
    // One last block with the fixed code, which begins with an "x".
    bits(0b110, 3);
    bits(0x30 + u16::from(b'x'), 8);
    for _ in 0..(mebibytes << 20) / 258 {
        bits(0xc5, 8);
        bits(0, 5);
    }
    bits(0, 7);
    bits(0, 8);
    gzip
}

#[tokio::test]
async fn an_answer_has_a_bound_whole_streamed_and_compressed() {
    let key = key();
    let letters = "x".repeat(17 << 20);
    let event = format!("data: {}\n\n", openai_text(&"x".repeat(1 << 20)));
    for (what, answer) in [
        ("whole", Canned::json(openai_text(&letters))),
        ("one line", Canned::body("text/event-stream", format!("data: {letters}"))),
        ("many events", Canned::body("text/event-stream", event.repeat(17))),
        ("signs of life", Canned::body("text/event-stream", ": alive\n\n".repeat(2 << 20))),
        ("compressed", Canned::body("application/json", bomb(64)).header("content-encoding", "gzip")),
        ("compressed events", Canned::body("text/event-stream", bomb(64)).header("content-encoding", "gzip")),
    ] {
        let server = Server::start(vec![answer]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let failed = models.complete(&ask("go"), Some(&Pieces::default())).await.unwrap_err();
        assert_eq!((failed.reason.as_ref(), failed.retriable), ("answer-too-large", true), "{what}: {failed:?}");
        assert!(failed.message.contains("more than 16 MiB"), "{}", failed.message);
        assert_eq!(server.asked().len(), 1, "{what}: asked again");
    }
}

/// A body in gzip, each part a member of its own.
fn gzip(parts: &[&str]) -> Vec<u8> {
    let member = |part: &&str| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut encoder, part.as_bytes()).unwrap();
        encoder.finish().unwrap()
    };
    parts.iter().flat_map(member).collect()
}

#[tokio::test]
async fn gzip_is_read_under_each_of_its_names_in_members_and_of_errors() {
    let key = key();
    let whole = openai_text("packed").to_string();
    let (begin, rest) = whole.split_at(20);
    for (name, parts) in [("gzip", vec![&*whole]), ("GZIP", vec![begin, rest]), ("x-gzip", vec![begin, "", rest])] {
        let answer = Canned::body("application/json", gzip(&parts)).header("content-encoding", name);
        let server = Server::start(vec![answer]).await;
        let reply = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap();
        assert_eq!(reply.message.content, "packed", "{name}");
        assert_eq!(server.asked()[0].header("accept-encoding"), Some("gzip"));
    }
    let refusal = Canned::body("application/json", gzip(&[r#"{"error": {"message": "no such model"}}"#]));
    let server = Server::start(vec![refusal.header("content-encoding", "X-GZIP").status(404)]).await;
    let failed = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert!(failed.message.contains("no such model"), "{}", failed.message);
}

#[tokio::test]
async fn text_in_another_charset_is_named_and_not_asked_for_again() {
    let key = key();
    let body = openai_text("hi").to_string();
    let utf16 =
        |mark: &[u8], text: &str| [mark.to_vec(), text.encode_utf16().flat_map(u16::to_be_bytes).collect()].concat();
    let utf32: Vec<u8> = body.chars().flat_map(|c| u32::from(c).to_le_bytes()).collect();
    for (charset, bytes) in [
        ("UTF-16", utf16(&[0xfe, 0xff], &body)),
        ("UTF-16", utf16(&[], &body)),
        ("UTF-16", utf16(&[], &format!("data: {body}\n\n"))),
        ("UTF-32", utf32),
    ] {
        let server = Server::start(vec![Canned::body("application/json; charset=utf-16", bytes.clone())]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let failed = models.complete(&ask("go"), Some(&Pieces::default())).await.unwrap_err();
        assert_eq!(failed.reason.as_ref(), "malformed-reply");
        assert!(failed.message.contains(&format!("it is text in {charset}, and JSON")), "{}", failed.message);
        assert_eq!(server.asked().len(), 1);
    }
    // The header alone says nothing.
    let server = Server::start(vec![Canned::body("application/json; charset=utf-16", body)]).await;
    assert!(models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.is_ok());
}

#[tokio::test]
async fn an_answer_of_very_many_small_values_is_refused_before_it_is_unpacked() {
    let key = key();
    let values = format!("{{\"choices\": [], \"more\": [{}0]}}", "0,".repeat(2 << 20));
    let server = Server::start(vec![Canned::body("application/json", values)]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |provider| provider.retry.max_attempts = 1);
    let failed = models.complete(&ask("go"), None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "malformed-reply");
    assert!(failed.message.contains("more than 1048576 values"), "{}", failed.message);
}

#[tokio::test]
async fn a_response_that_is_an_error_is_read_within_a_bound() {
    let key = key();
    let server = Server::start(vec![Canned::body("text/plain", "no ".repeat(1 << 20)).status(400)]).await;
    let failed = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "request-refused");
    assert!(failed.message.len() < 1000, "{} bytes", failed.message.len());
}

#[tokio::test]
async fn a_name_or_an_id_that_a_model_makes_up_goes_back_within_a_bound() {
    let key = key();
    let long = "y".repeat(4 << 20);
    for wire in &WIRES {
        let mut call = (wire.call)(&long, json!({"path": "a"}));
        if let Some(id) = call.pointer_mut("/choices/0/message/tool_calls/0/id") {
            *id = json!(long);
        }
        let server = Server::start(vec![Canned::json(call), Canned::json((wire.text)("done"))]).await;
        let models = models(&server, wire.api, &key, |_| {});
        let mut asked = with_tool(ask("read it"), "read");
        let reply = models.complete(&asked, None).await.unwrap();
        let made = reply.message.tool_calls[0].clone();
        assert!(made.name.len() < 200 && made.id.len() < 200, "{:?}", wire.api);
        asked.messages.push(reply.message);
        asked.messages.push(Message::tool(made.id, "there is no such tool", true));
        models.complete(&asked, None).await.unwrap();
        let second = server.asked()[1].body.to_string();
        assert!(second.len() < 4000, "{:?}: {} bytes", wire.api, second.len());
    }
}

#[tokio::test]
async fn arguments_that_are_not_json_go_back_as_an_object_that_every_provider_takes() {
    let key = key();
    let mut call = openai_call("read", json!({}));
    call["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = json!("{\"path\": 1");
    let server = Server::start(vec![Canned::json(call), Canned::json(openai_text("done"))]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
    let mut asked = with_tool(ask("read it"), "read");
    let reply = models.complete(&asked, None).await.unwrap();
    let made = reply.message.tool_calls[0].clone();
    assert_eq!(made.arguments, Value::from("{\"path\": 1"));
    let why = made.not_an_object().unwrap();
    assert!(why.contains("not JSON") && why.contains("column 10"), "{why}");
    asked.messages.push(reply.message);
    asked.messages.push(Message::tool(made.id, why, true));
    models.complete(&asked, None).await.unwrap();
    let sent = server.asked()[1].body.clone();
    let sent = sent["messages"][2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Json>(&sent).unwrap(), json!({"invalid_arguments": "{\"path\": 1"}));
}

#[tokio::test]
async fn what_a_model_thought_goes_back_whole_in_its_providers_own_form() {
    let key = key();
    let thinking = json!([{"type": "thinking", "thinking": "Hm.", "signature": "sig-1"},
        {"type": "redacted_thinking", "data": "xyz"}, {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c-1", "name": "read", "input": {"path": "a"}}]);
    let anthropic_kept = thinking.clone();
    let mut chat = openai_call("read", json!({"path": "a"}));
    chat["choices"][0]["message"]["reasoning_content"] = json!("Hm.");
    chat["choices"][0]["message"]["reasoning_details"] = json!([{"type": "reasoning.encrypted", "data": "xyz"}]);
    let thought = json!({"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "xyz"});
    let responses = json!({"object": "response", "status": "completed", "output": [thought,
        {"type": "function_call", "id": "fc_1", "call_id": "c-1", "name": "read", "arguments": "{\"path\":\"a\"}"}]});
    let parts = json!([{"text": "Hm.", "thought": true}, {"functionCall": {"id": "c-1", "name": "read", "args": {"path": "a"}}, "thoughtSignature": "sig-1"}]);
    for (api, answer, done, place, expected) in [
        (
            Api::AnthropicMessages,
            anthropic(thinking, "tool_use"),
            anthropic_text("done"),
            "/messages/1/content",
            anthropic_kept,
        ),
        (Api::OpenaiCompletions, chat.clone(), openai_text("done"), "/messages/2/reasoning_content", json!("Hm.")),
        (Api::OpenaiCompletions, chat, openai_text("done"), "/messages/2/reasoning_details/0/data", json!("xyz")),
        (
            Api::OpenaiResponses,
            responses,
            json!({"object": "response", "status": "completed", "output": [{"type": "message", "content": [{"type": "output_text", "text": "done"}]}]}),
            "/input/1",
            thought.clone(),
        ),
        (Api::Gemini, gemini(parts.clone()), gemini_text("done"), "/contents/1/parts", parts),
    ] {
        let server = Server::start(vec![Canned::json(answer), Canned::json(done)]).await;
        let models = models(&server, api, &key, |_| {});
        let mut asked = with_tool(ask("read it"), "read");
        let reply = models.complete(&asked, None).await.unwrap().message;
        assert_eq!(reply.tool_calls[0].id, "c-1");
        asked.messages.push(reply);
        asked.messages.push(Message::tool("c-1", "text of a", false));
        assert_eq!(models.complete(&asked, None).await.unwrap().message.content, "done");
        let sent = server.asked()[1].body.clone();
        assert_eq!(sent.pointer(place), Some(&expected), "{api:?}: {sent}");
        if api == Api::OpenaiResponses {
            assert_eq!(sent["input"][2]["call_id"], json!("c-1"), "{sent}");
            assert_eq!(
                sent["input"][3],
                json!({"type": "function_call_output", "call_id": "c-1", "output": "text of a"})
            );
        }
    }
}

#[tokio::test]
async fn an_overload_inside_a_stream_is_repeated_and_is_left_to_another_model_once_text_was_shown() {
    let key = key();
    let overload = ("error", json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}));
    let begun = ("message_start", json!({"type": "message_start", "message": anthropic(json!([]), "")}));
    let text = (
        "content_block_delta",
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}}),
    );
    let early = || Canned::events(&[begun.clone(), overload.clone()]);
    let server = Server::start(vec![early(), anthropic_stream(&["fine"])]).await;
    let pieces = Pieces::default();
    let reply =
        models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&ask("go"), Some(&pieces)).await.unwrap();
    assert_eq!((reply.message.content.as_str(), server.asked().len()), ("fine", 2));
    let late = Canned::events(&[begun.clone(), text, overload.clone()]);
    let server = Server::start(vec![late, anthropic_stream(&["fine"])]).await;
    let failed =
        models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&ask("go"), Some(&pieces)).await.unwrap_err();
    assert_eq!((failed.reason.as_ref(), failed.retriable, server.asked().len()), ("provider-unavailable", true, 1));
    assert!(failed.message.contains("Overloaded"), "{}", failed.message);
}

#[tokio::test]
async fn an_error_under_status_200_is_repeated_as_one_by_status_is() {
    let key = key();
    let error = || Canned::json(json!({"error": {"message": format!("upstream is overloaded, {KEY}"), "code": 503}}));
    let server = Server::start(vec![error(), Canned::json(openai_text("fine"))]).await;
    let good = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap();
    assert_eq!((good.message.content.as_str(), server.asked().len()), ("fine", 2));
    let server = Server::start(vec![error(), error(), error(), error()]).await;
    let failed = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!((failed.reason.as_ref(), failed.retriable), ("provider-unavailable", true));
    let said = &failed.message;
    assert!(said.contains("upstream is overloaded") && said.contains("after 4 attempts"), "{said}");
    assert!(!said.contains(KEY), "{said}");
}

#[tokio::test]
async fn a_provider_without_a_key_is_sent_none_and_its_address_may_have_a_query_or_be_the_whole_one() {
    let key = key();
    for (end, line) in [
        ("?api-version=7", "POST /v1/chat/completions?api-version=7 HTTP/1.1"),
        ("/chat/completions", "POST /v1/chat/completions HTTP/1.1"),
        ("/", "POST /v1/chat/completions HTTP/1.1"),
    ] {
        let server = Server::start(vec![Canned::json(openai_text("hi"))]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |provider| {
            provider.api_key = None;
            provider.base_url = Some(format!("{}{end}", server.url));
        });
        models.complete(&ask("go"), None).await.unwrap();
        let request = &server.asked()[0];
        assert_eq!((request.line.as_str(), request.header("authorization")), (line, None));
    }
}

#[tokio::test]
async fn a_signature_in_an_id_or_within_the_function_goes_back_as_it_came() {
    let key = key();
    let id = format!("call_1__thought__{}", "c2ln".repeat(2000));
    let mut call = openai_call("read", json!({"path": "a"}));
    let sent = &mut call["choices"][0]["message"]["tool_calls"][0];
    sent["id"] = json!(id);
    sent["function"]["provider_specific_fields"] = json!({"thought_signature": "c2ln"});
    let server = Server::start(vec![Canned::json(call), Canned::json(openai_text("done"))]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
    let mut asked = with_tool(ask("read it"), "read");
    let reply = models.complete(&asked, None).await.unwrap().message;
    assert_eq!(reply.tool_calls[0].id, id);
    asked.messages.push(reply);
    asked.messages.push(Message::tool(id.as_str(), "text of a", false));
    models.complete(&asked, None).await.unwrap();
    let sent = server.asked()[1].body["messages"][2]["tool_calls"][0].clone();
    let function = json!({"name": "read", "arguments": "{\"path\":\"a\"}",
        "provider_specific_fields": {"thought_signature": "c2ln"}});
    assert_eq!(sent, json!({"type": "function", "id": id, "function": function}));
}

#[tokio::test]
async fn a_name_with_a_namespace_or_a_mark_of_the_models_format_is_the_tools() {
    let key = key();
    for name in ["functions.read", "default_api.read", "default_api:read", "read<|channel|>commentary"] {
        let server = Server::start(vec![Canned::json(openai_call(name, json!({"path": "a"})))]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let reply = models.complete(&with_tool(ask("read it"), "read"), None).await.unwrap();
        assert_eq!(reply.message.tool_calls[0].name, "read", "{name}");
    }
}

#[tokio::test]
async fn an_error_in_a_list_and_a_tier_without_capacity_are_read_as_what_they_are() {
    let key = key();
    let list = |error: Json| Canned::json(json!([{ "error": error }]));
    for (status, answer, reason, part) in [
        (400, list(json!({"code": 400, "message": "prompt is too long: 9 > 8"})), "context-full", "too long"),
        (400, list(json!({"code": 400, "message": "API key not valid."})), "unauthorized", "not valid"),
        (
            429,
            list(
                json!({"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota", "details": [{"retryDelay": "3600s"}]}),
            ),
            "rate-limited",
            "wait 3600 s",
        ),
        (498, Canned::json(json!({"error": {"message": "no capacity"}})), "provider-unavailable", "no capacity"),
    ] {
        let server = Server::start(vec![answer.status(status)]).await;
        let models = models(&server, Api::Gemini, &key, |provider| provider.retry.max_attempts = 1);
        let failed = models.complete(&ask("go"), None).await.unwrap_err();
        assert_eq!(failed.reason.as_ref(), reason, "{failed:?}");
        assert!(failed.message.contains(part), "{failed:?}");
    }
}

#[tokio::test]
async fn only_an_encoding_that_changes_the_body_is_refused() {
    let key = key();
    for (encoding, works) in [("utf-8", true), ("none", true), ("aws-chunked", true), ("identity", true), ("br", false)]
    {
        let answer = Canned::json(openai_text("fine")).header("content-encoding", encoding);
        let server = Server::start(vec![answer]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |provider| provider.retry.max_attempts = 1);
        let answered = models.complete(&ask("go"), None).await;
        assert_eq!(answered.is_ok(), works, "{encoding}: {answered:?}");
    }
}
