//! A provider of each wire format, as tests ask it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests and what they share")]

use super::test_server::{Canned, Server};
use super::*;
use crate::testing::{round, session};
use opcell_engine::conversation::Message;
use opcell_engine::ports::OpenedSession;
use opcell_types::{ToolDescription, Value};
use serde_json::{Value as Json, json};
use std::path::PathBuf;

pub(super) const KEY: &str = "sk-very-secret-123";

/// The four wire formats: one answer with text, one with a call, the same as streams, and where each keeps what is
/// asked.
pub(super) struct Wire {
    pub(super) api: Api,
    pub(super) text: fn(&str) -> Json,
    pub(super) call: fn(&str, Json) -> Json,
    pub(super) stream: fn(&[&str]) -> Canned,
    pub(super) line: &'static str,
    pub(super) stream_line: &'static str,
    pub(super) key_header: (&'static str, &'static str),
    pub(super) system: &'static str,
    pub(super) schema: &'static str,
    pub(super) tool_name: &'static str,
}

pub(super) const WIRES: [Wire; 4] = [
    Wire {
        api: Api::OpenaiCompletions,
        text: openai_text,
        call: openai_call,
        stream: openai_stream,
        line: "POST /v1/chat/completions HTTP/1.1",
        stream_line: "POST /v1/chat/completions HTTP/1.1",
        key_header: ("authorization", "Bearer sk-very-secret-123"),
        system: "/messages/0/content",
        schema: "/response_format/json_schema/schema/type",
        tool_name: "/tools/0/function/name",
    },
    Wire {
        api: Api::Ollama,
        text: openai_text,
        call: openai_call,
        stream: openai_stream,
        line: "POST /v1/chat/completions HTTP/1.1",
        stream_line: "POST /v1/chat/completions HTTP/1.1",
        key_header: ("authorization", "Bearer sk-very-secret-123"),
        system: "/messages/0/content",
        schema: "/response_format/json_schema/schema/type",
        tool_name: "/tools/0/function/name",
    },
    Wire {
        api: Api::AnthropicMessages,
        text: anthropic_text,
        call: anthropic_call,
        stream: anthropic_stream,
        line: "POST /v1/messages HTTP/1.1",
        stream_line: "POST /v1/messages HTTP/1.1",
        key_header: ("x-api-key", KEY),
        system: "/system",
        schema: "/output_config/format/schema/type",
        tool_name: "/tools/0/name",
    },
    Wire {
        api: Api::Gemini,
        text: gemini_text,
        call: gemini_call,
        stream: gemini_stream,
        line: "POST /v1/models/m-1:generateContent HTTP/1.1",
        stream_line: "POST /v1/models/m-1:streamGenerateContent?alt=sse HTTP/1.1",
        key_header: ("x-goog-api-key", KEY),
        system: "/systemInstruction/parts/0/text",
        schema: "/generationConfig/responseJsonSchema/type",
        tool_name: "/tools/0/functionDeclarations/0/name",
    },
];

pub(super) fn openai_text(text: &str) -> Json {
    json!({"id": "1", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
}

pub(super) fn openai_call(name: &str, arguments: Json) -> Json {
    json!({"id": "1", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "c-1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
}

pub(super) fn openai_stream(pieces: &[&str]) -> Canned {
    let chunk = |delta: Json, reason: Json| {
        (
            "",
            json!({"id": "1", "object": "chat.completion.chunk", "model": "m-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}),
        )
    };
    let mut events: Vec<_> = pieces.iter().map(|piece| chunk(json!({"content": piece}), Json::Null)).collect();
    events.push(chunk(json!({}), json!("stop")));
    events.push((
        "",
        json!({"id": "1", "object": "chat.completion.chunk", "model": "m-1", "choices": [],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}}),
    ));
    events.push(("", json!("[DONE]")));
    Canned::events(&events)
}

pub(super) fn anthropic(content: Json, reason: &str) -> Json {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 11, "output_tokens": 5}})
}

pub(super) fn anthropic_text(text: &str) -> Json {
    anthropic(json!([{"type": "text", "text": text}]), "end_turn")
}

pub(super) fn anthropic_call(name: &str, arguments: Json) -> Json {
    anthropic(json!([{"type": "tool_use", "id": "c-1", "name": name, "input": arguments}]), "tool_use")
}

pub(super) fn anthropic_stream(pieces: &[&str]) -> Canned {
    let mut events = vec![
        ("message_start", json!({"type": "message_start", "message": anthropic(json!([]), "")})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        ),
    ];
    events.extend(pieces.iter().map(|piece| {
        let delta = json!({"type": "text_delta", "text": piece});
        ("content_block_delta", json!({"type": "content_block_delta", "index": 0, "delta": delta}))
    }));
    events.push(("content_block_stop", json!({"type": "content_block_stop", "index": 0})));
    events.push((
        "message_delta",
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}}),
    ));
    events.push(("message_stop", json!({"type": "message_stop"})));
    Canned::events(&events)
}

pub(super) fn gemini(parts: Json) -> Json {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], "modelVersion": "m-1",
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}})
}

pub(super) fn gemini_text(text: &str) -> Json {
    gemini(json!([{"text": text}]))
}

pub(super) fn gemini_call(name: &str, arguments: Json) -> Json {
    gemini(json!([{"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "sig-1"}]))
}

pub(super) fn gemini_stream(pieces: &[&str]) -> Canned {
    let mut events: Vec<_> = pieces.iter().map(|piece| ("", gemini_text(piece))).collect();
    let (_, unfinished) = events.split_last_mut().unwrap();
    for (_, event) in unfinished {
        event["candidates"][0].as_object_mut().unwrap().remove("finishReason");
    }
    Canned::events(&events)
}

/// A key file that lives as long as the test.
pub(super) struct Keyed {
    pub(super) _folder: tempfile::TempDir,
    pub(super) path: PathBuf,
}

pub(super) fn key() -> Keyed {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, format!("{KEY}\n")).unwrap();
    Keyed { _folder: folder, path }
}

pub(super) fn models(server: &Server, api: Api, key: &Keyed, change: impl FnOnce(&mut ProviderConfig)) -> Models {
    let mut provider = ProviderConfig {
        base_url: Some(server.url.clone()),
        api_key: Some(SecretSource::File(key.path.clone())),
        models: vec![ModelConfig {
            id: "m-1".to_owned(),
            input_cost: Some(2.0),
            output_cost: Some(10.0),
            ..ModelConfig::default()
        }],
        retry: RetryConfig { first_wait_ms: 1, ..RetryConfig::default() },
        ..ProviderConfig::new(api, None)
    };
    change(&mut provider);
    let providers = [("test".to_owned(), provider)].into_iter().collect();
    Models::new(ModelsConfig { providers, ..ModelsConfig::default() }).unwrap()
}

pub(super) fn ask(text: &str) -> ModelRound {
    let mut asked = round("step", vec![Message::user(text)]);
    asked.model = "test/m-1".to_owned();
    asked
}

pub(super) fn with_tool(mut asked: ModelRound, name: &str) -> ModelRound {
    let parameters =
        Value::from(json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}));
    let tool = ToolDescription::new(name, "Reads.", parameters);
    asked.session = std::sync::Arc::new(OpenedSession { tools: vec![tool], ..session("You are tested.") });
    asked
}
