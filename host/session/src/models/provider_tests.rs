#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests and what they share")]

use super::test_server::{Canned, Server};
use super::*;
use crate::testing::{Pieces, round, session};
use opcell_engine::conversation::{Message, Role};
use opcell_engine::ports::OpenedSession;
use opcell_types::{ToolDescription, Value};
use opcell_workflow::ir::{ResponseMode, ThinkingLevel};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const KEY: &str = "sk-very-secret-123";

/// The four wire formats: one answer with text, one with a call, the same as streams, and where each keeps what is
/// asked.
struct Wire {
    api: Api,
    text: fn(&str) -> Json,
    call: fn(&str, Json) -> Json,
    stream: fn(&[&str]) -> Canned,
    line: &'static str,
    stream_line: &'static str,
    key_header: (&'static str, &'static str),
    system: &'static str,
    schema: &'static str,
    tool_name: &'static str,
}

const WIRES: [Wire; 4] = [
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

fn openai_text(text: &str) -> Json {
    json!({"id": "1", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
}

fn openai_call(name: &str, arguments: Json) -> Json {
    json!({"id": "1", "object": "chat.completion", "model": "m-1",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"role": "assistant", "content": null,
            "tool_calls": [{"id": "c-1", "type": "function", "function": {"name": name, "arguments": arguments.to_string()}}]}}],
        "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
}

fn openai_stream(pieces: &[&str]) -> Canned {
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

fn anthropic(content: Json, reason: &str) -> Json {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "m-1", "content": content,
        "stop_reason": reason, "stop_sequence": null, "usage": {"input_tokens": 11, "output_tokens": 5}})
}

fn anthropic_text(text: &str) -> Json {
    anthropic(json!([{"type": "text", "text": text}]), "end_turn")
}

fn anthropic_call(name: &str, arguments: Json) -> Json {
    anthropic(json!([{"type": "tool_use", "id": "c-1", "name": name, "input": arguments}]), "tool_use")
}

fn anthropic_stream(pieces: &[&str]) -> Canned {
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

fn gemini(parts: Json) -> Json {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}], "modelVersion": "m-1",
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}})
}

fn gemini_text(text: &str) -> Json {
    gemini(json!([{"text": text}]))
}

fn gemini_call(name: &str, arguments: Json) -> Json {
    gemini(json!([{"functionCall": {"name": name, "args": arguments}, "thoughtSignature": "sig-1"}]))
}

fn gemini_stream(pieces: &[&str]) -> Canned {
    let mut events: Vec<_> = pieces.iter().map(|piece| ("", gemini_text(piece))).collect();
    let (_, unfinished) = events.split_last_mut().unwrap();
    for (_, event) in unfinished {
        event["candidates"][0].as_object_mut().unwrap().remove("finishReason");
    }
    Canned::events(&events)
}

/// A key file that lives as long as the test.
struct Keyed {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

fn key() -> Keyed {
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("key");
    std::fs::write(&path, format!("{KEY}\n")).unwrap();
    Keyed { _folder: folder, path }
}

fn models(server: &Server, api: Api, key: &Keyed, change: impl FnOnce(&mut ProviderConfig)) -> Models {
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
    Models::new(ModelsConfig { default: None, providers }).unwrap()
}

fn ask(text: &str) -> ModelRound {
    let mut asked = round("step", vec![Message::user(text)]);
    asked.model = "test/m-1".to_owned();
    asked
}

fn with_tool(mut asked: ModelRound, name: &str) -> ModelRound {
    let parameters =
        Value::from(json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}));
    let tool = ToolDescription::new(name, "Reads.", parameters);
    asked.session = std::sync::Arc::new(OpenedSession { tools: vec![tool], ..session("You are tested.") });
    asked
}
#[tokio::test]
async fn every_provider_gives_text_usage_and_price_and_gets_system_prompt_key_and_schema() {
    let key = key();
    for wire in WIRES {
        let server = Server::start(vec![Canned::json((wire.text)(r#"{"ok":true}"#))]).await;
        let mut asked = ask("hello");
        let schema = json!({"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"], "additionalProperties": false});
        asked.schema = Some(("verdict v1".to_owned(), Value::from(schema)));
        let reply = models(&server, wire.api, &key, |_| {}).complete(&asked, None).await.unwrap();
        assert_eq!(reply.message.content, r#"{"ok":true}"#, "{:?}", wire.api);
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (11, 5), "{:?}", wire.api);
        assert_eq!(reply.usage.cost, Some(72e-6));
        assert_eq!(reply.model, "test/m-1");
        let request = &server.asked()[0];
        assert_eq!(request.line, wire.line);
        assert_eq!(request.header(wire.key_header.0), Some(wire.key_header.1));
        let system = request.body.pointer(wire.system).unwrap_or_else(|| panic!("{:?}: {}", wire.api, request.body));
        assert!(system.to_string().contains("You are tested."), "{system}");
        assert_eq!(request.body.pointer(wire.schema), Some(&json!("object")), "{:?}: {}", wire.api, request.body);
    }
}

#[tokio::test]
async fn a_request_of_a_traced_run_says_whose_child_it_is_and_that_of_another_run_says_nothing() {
    let key = key();
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for wire in WIRES {
        let answers = vec![Canned::json((wire.text)("a")), (wire.stream)(&["b"]), Canned::json((wire.text)("c"))];
        let server = Server::start(answers).await;
        let models = models(&server, wire.api, &key, |_| {});
        let mut traced = ask("hello");
        traced.context.traceparent = Some(parent.into());
        models.complete(&traced, None).await.unwrap();
        models.complete(&traced, Some(&Pieces::default())).await.unwrap();
        models.complete(&ask("hello"), None).await.unwrap();
        let sent: Vec<_> = server.asked().iter().map(|asked| asked.header("traceparent").map(str::to_owned)).collect();
        let expected = opcell_types::trace::outgoing(&traced.context).unwrap();
        assert!(expected.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-"), "{expected}");
        assert_ne!(expected, parent);
        assert_eq!(sent, [Some(expected.clone()), Some(expected), None], "{:?}", wire.api);
    }
    // What the operator configures is sent as it is.
    let server = Server::start(vec![Canned::json(openai_text("a"))]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |provider| {
        provider.headers.insert("Traceparent".to_owned(), SecretSource::File(key.path.clone()));
    });
    let mut traced = ask("hello");
    traced.context.traceparent = Some(parent.into());
    models.complete(&traced, None).await.unwrap();
    assert_eq!(server.asked()[0].header("traceparent"), Some(KEY));
}

#[tokio::test]
async fn every_provider_streams_text_while_it_comes() {
    let key = key();
    for wire in WIRES {
        let server = Server::start(vec![(wire.stream)(&["one ", "two"])]).await;
        let pieces = Pieces::default();
        let reply = models(&server, wire.api, &key, |_| {}).complete(&ask("go"), Some(&pieces)).await.unwrap();
        assert_eq!(pieces.0.into_inner().unwrap(), ["one ", "two"], "{:?}", wire.api);
        assert_eq!(reply.message.content, "one two", "{:?}", wire.api);
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (11, 5), "{:?}", wire.api);
        assert_eq!(server.asked()[0].line, wire.stream_line);
    }
}

#[tokio::test]
async fn every_provider_calls_tools_under_names_it_accepts_and_takes_the_answers() {
    let key = key();
    for wire in WIRES {
        let call = (wire.call)("disk_read", json!({"path": "a.txt"}));
        let server = Server::start(vec![Canned::json(call), Canned::json((wire.text)("done"))]).await;
        let models = models(&server, wire.api, &key, |_| {});
        let mut asked = with_tool(ask("read it"), "disk/read");
        let reply = models.complete(&asked, None).await.unwrap();
        let calls = &reply.message.tool_calls;
        assert_eq!(calls.len(), 1, "{:?}", wire.api);
        assert_eq!(calls[0].name, "disk/read", "{:?}", wire.api);
        assert_eq!(calls[0].arguments, Value::from(json!({"path": "a.txt"})));
        assert!(!calls[0].id.is_empty());
        let request = &server.asked()[0].body;
        assert_eq!(request.pointer(wire.tool_name), Some(&json!("disk_read")), "{:?}: {request}", wire.api);

        let answer = Message {
            role: Role::Tool,
            tool_call_id: Some(calls[0].id.clone()),
            is_error: true,
            ..Message::user("no such file")
        };
        asked.messages.extend([reply.message.clone(), answer]);
        assert_eq!(models.complete(&asked, None).await.unwrap().message.content, "done", "{:?}", wire.api);
        let second = server.asked()[1].body.to_string();
        assert!(second.contains("Error: no such file") && second.contains("disk_read"), "{:?}: {second}", wire.api);
    }
}

#[tokio::test]
async fn answers_to_the_calls_of_one_message_go_back_in_one_message() {
    let key = key();
    let calls = json!([
        {"type": "text", "text": "Two files."},
        {"type": "tool_use", "id": "c-1", "name": "disk_read", "input": {"path": "a"}},
        {"type": "tool_use", "id": "c-2", "name": "disk_read", "input": {"path": "b"}}
    ]);
    let server =
        Server::start(vec![Canned::json(anthropic(calls, "tool_use")), Canned::json(anthropic_text("done"))]).await;
    let models = models(&server, Api::AnthropicMessages, &key, |_| {});
    let mut asked = with_tool(ask("read them"), "disk/read");
    let reply = models.complete(&asked, None).await.unwrap().message;
    assert_eq!((reply.content.as_str(), reply.tool_calls.len()), ("Two files.", 2));
    asked.messages.push(reply);
    asked.messages.extend(["c-1", "c-2"].map(|id| Message::tool(id, format!("text of {id}"), false)));
    models.complete(&asked, None).await.unwrap();
    let messages = server.asked()[1].body["messages"].as_array().unwrap().clone();
    assert_eq!(messages.len(), 3, "{messages:?}");
    let results = messages[2]["content"].as_array().unwrap();
    assert_eq!(results.iter().map(|result| &result["tool_use_id"]).collect::<Vec<_>>(), [&json!("c-1"), &json!("c-2")]);
}

#[tokio::test]
async fn tools_whose_names_become_the_same_on_the_wire_stay_apart() {
    let key = key();
    let server = Server::start(vec![Canned::json(openai_call("a_b_2", json!({"path": "x"})))]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
    let mut asked = ask("go");
    let tool = |name: &str| ToolDescription::new(name, "", json!({"type": "object"}));
    asked.session = std::sync::Arc::new(OpenedSession { tools: vec![tool("a/b"), tool("a.b")], ..session("") });
    let reply = models.complete(&asked, None).await.unwrap();
    assert_eq!(reply.message.tool_calls[0].name, "a.b");
    let sent = server.asked()[0].body["tools"].clone();
    assert_eq!((&sent[0]["function"]["name"], &sent[1]["function"]["name"]), (&json!("a_b"), &json!("a_b_2")));
}

#[tokio::test]
async fn what_a_provider_signed_goes_back_to_the_same_model_only() {
    let key = key();
    let call = Canned::json(gemini_call("read", json!({"path": "a"})));
    let server = Server::start(vec![call, Canned::json(gemini_text("done")), Canned::json(gemini_text("done"))]).await;
    let models = models(&server, Api::Gemini, &key, |_| {});
    let mut asked = with_tool(ask("read it"), "read");
    let reply = models.complete(&asked, None).await.unwrap();
    let id = reply.message.tool_calls[0].id.clone();
    asked.messages.push(reply.message);
    asked.messages.push(Message { role: Role::Tool, tool_call_id: Some(id), ..Message::user("text") });
    models.complete(&asked, None).await.unwrap();
    assert!(server.asked()[1].body.to_string().contains("sig-1"), "{}", server.asked()[1].body);
    asked.model = "test/m-2".to_owned();
    models.complete(&asked, None).await.unwrap();
    assert!(!server.asked()[2].body.to_string().contains("sig-1"), "{}", server.asked()[2].body);
}

#[tokio::test]
async fn calls_without_ids_of_their_own_stay_apart_in_a_conversation() {
    let key = key();
    let call = || Canned::json(gemini_call("read", json!({"path": "a"})));
    let server = Server::start(vec![call(), call()]).await;
    let models = models(&server, Api::Gemini, &key, |_| {});
    let mut asked = with_tool(ask("read it"), "read");
    let first = models.complete(&asked, None).await.unwrap().message;
    let id = first.tool_calls[0].id.clone();
    asked.messages.push(first);
    asked.messages.push(Message { role: Role::Tool, tool_call_id: Some(id.clone()), ..Message::user("text") });
    let second = models.complete(&asked, None).await.unwrap().message;
    assert_ne!(second.tool_calls[0].id, id);
}

#[tokio::test]
async fn a_rate_limit_is_waited_out_as_the_provider_asks_streaming_or_not() {
    let key = key();
    for wire in WIRES {
        for streamed in [false, true] {
            let limited =
                Canned::json(json!({"error": {"message": "slow down"}})).status(429).header("retry-after", "0.2");
            let good = if streamed { (wire.stream)(&["fine"]) } else { Canned::json((wire.text)("fine")) };
            let server = Server::start(vec![limited, good]).await;
            let models = models(&server, wire.api, &key, |_| {});
            let pieces = Pieces::default();
            let began = Instant::now();
            let reply = models.complete(&ask("go"), streamed.then_some(&pieces as &dyn TextSink)).await.unwrap();
            assert_eq!(reply.message.content, "fine");
            assert!(began.elapsed() >= Duration::from_millis(200), "{:?}", began.elapsed());
            assert_eq!(server.asked().len(), 2);
        }
    }
}

#[tokio::test]
async fn a_wait_beyond_the_limit_fails_at_once_and_says_so() {
    let key = key();
    let limited = Canned::json(json!({"error": "later"})).status(429).header("retry-after", "3600");
    let server = Server::start(vec![limited]).await;
    let failed = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!((failed.reason.as_ref(), failed.retriable), ("rate-limited", true));
    assert!(failed.message.contains("3600 s"), "{}", failed.message);
}

#[tokio::test]
async fn server_errors_are_repeated_a_bounded_number_of_times() {
    let key = key();
    let down = || Canned::json(json!({"error": "overloaded"})).status(529);
    let server = Server::start(vec![down(), down(), down(), down(), down()]).await;
    let failed = models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "provider-unavailable");
    assert!(failed.message.contains("status 529") && failed.message.contains("after 4 attempts"), "{}", failed.message);
    assert_eq!(server.asked().len(), 4);
}

#[tokio::test]
async fn a_refused_key_is_not_repeated_and_never_told() {
    let key = key();
    for (status, reason) in [(401, "unauthorized"), (400, "request-refused")] {
        let refused = Canned::json(json!({"error": {"message": format!("bad key {KEY}")}})).status(status);
        let server = Server::start(vec![refused]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let failed = models.complete(&ask("go"), None).await.unwrap_err();
        assert_eq!((failed.reason.as_ref(), failed.retriable), (reason, false));
        let reported = serde_json::to_string(&failed).unwrap();
        assert!(!reported.contains(KEY) && reported.contains("[redacted]"), "{reported}");
        assert_eq!(reported.contains("the key is from file:"), status == 401, "{reported}");
        assert_eq!(server.asked().len(), 1);
    }
}

/// Everything that is logged, at every level.
#[derive(Clone, Default)]
struct Log(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn a_key_that_a_provider_repeats_is_not_logged() {
    let log = Log::default();
    let written = log.clone();
    let subscriber =
        tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(move || log.clone()).finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let key = key();
    for streamed in [false, true] {
        let refused = || Canned::json(json!({"error": format!("bad key {KEY}")}));
        let server = Server::start(vec![refused().status(503), refused().status(401)]).await;
        let pieces = Pieces::default();
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        models.complete(&ask("go"), streamed.then_some(&pieces as &dyn TextSink)).await.unwrap_err();
    }
    let logged = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains("model request repeated"), "the log works: {logged}");
    assert!(!logged.contains(KEY), "{logged}");
}

#[tokio::test]
async fn ollama_is_reached_at_its_plain_address() {
    let key = key();
    let server = Server::start(vec![Canned::json(openai_text("hi"))]).await;
    let models = models(&server, Api::Ollama, &key, |provider| {
        provider.api_key = None;
        provider.base_url = Some(server.url.trim_end_matches("/v1").to_owned());
    });
    assert_eq!(models.complete(&ask("go"), None).await.unwrap().message.content, "hi");
    assert_eq!(server.asked()[0].line, "POST /v1/chat/completions HTTP/1.1");
}

#[test]
fn secrets_are_named_in_configuration_and_print_as_their_source() {
    let provider: ProviderConfig = serde_json::from_value(
        json!({"api": "gemini", "api-key": "env:SOME_KEY", "headers": {"x-team": "file:/run/team"}}),
    )
    .unwrap();
    let printed = format!("{provider:?}");
    assert!(printed.contains("env:SOME_KEY") && printed.contains("file:/run/team"), "{printed}");
    let literal =
        serde_json::from_value::<ProviderConfig>(json!({"api": "gemini", "api-key": KEY})).unwrap_err().to_string();
    assert!(literal.contains("`env:NAME` or `file:PATH`") && !literal.contains(KEY), "{literal}");
    assert_eq!(format!("{:?}", super::config::Secret(KEY.to_owned())), "[redacted]");
}

#[tokio::test]
async fn a_missing_key_says_where_it_should_be() {
    let server = Server::start(vec![]).await;
    let gone = Keyed { _folder: tempfile::TempDir::new().unwrap(), path: "/nowhere/key".into() };
    let failed = models(&server, Api::Gemini, &gone, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "missing-key");
    assert!(failed.message.contains("/nowhere/key"), "{}", failed.message);
}

#[tokio::test]
async fn a_redirect_is_not_followed_with_the_key() {
    let key = key();
    let thief = Server::start(vec![Canned::json(anthropic_text("stolen"))]).await;
    let redirect = Canned::json(json!({})).status(307).header("location", format!("{}/messages", thief.url));
    let server = Server::start(vec![redirect]).await;
    let failed = models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert!(failed.message.contains("307"), "{}", failed.message);
    assert!(thief.asked().is_empty());
}

#[tokio::test]
async fn a_provider_that_hangs_ends_at_the_deadline_and_when_the_run_is_cancelled() {
    let key = key();
    let server = Server::start(vec![]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |provider| provider.timeout_seconds = 1);
    let failed = models.complete(&ask("go"), None).await.unwrap_err();
    assert_eq!((failed.reason.as_ref(), failed.retriable), ("timeout", true), "another model may answer");
    let asked = ask("go");
    let cancel = asked.cancel.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(50)).await;
        cancel.cancel();
    });
    let failed = models.complete(&asked, None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "cancelled");
}

#[tokio::test]
async fn an_unreachable_provider_is_unavailable() {
    let key = key();
    let server = Server::start(vec![]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |provider| {
        provider.base_url = Some("http://127.0.0.1:9/".to_owned());
        provider.retry.max_attempts = 2;
    });
    for sink in [None, Some(&Pieces::default() as &dyn TextSink)] {
        let failed = models.complete(&ask("go"), sink).await.unwrap_err();
        assert_eq!((failed.reason.as_ref(), failed.retriable), ("provider-unavailable", true));
        assert!(failed.message.contains("after 2 attempts"), "{}", failed.message);
    }
}

#[tokio::test]
async fn an_answer_cut_short_is_a_failure_that_keeps_the_text() {
    let key = key();
    let mut cut = openai_text("half an ans");
    cut["choices"][0]["finish_reason"] = json!("length");
    let server = Server::start(vec![Canned::json(cut)]).await;
    let failed = models(&server, Api::OpenaiCompletions, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert_eq!(failed.reason.as_ref(), "answer-truncated");
    assert_eq!(failed.details.unwrap().get("text").and_then(Value::as_str), Some("half an ans"));
}

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
async fn settings_reach_the_provider_and_a_model_without_schemas_is_asked_in_the_prompt() {
    let key = key();
    let server = Server::start(vec![Canned::json(openai_text("{}"))]).await;
    let models = models(&server, Api::OpenaiCompletions, &key, |provider| {
        provider.models[0].supports_json_schema = Some(false);
        provider.models[0].max_tokens = Some(321);
        provider.headers.insert("x-team".to_owned(), SecretSource::File(key.path.clone()));
    });
    let mut asked = ask("go");
    let mut opened = session("You are tested.");
    opened.settings.temperature = Some(0.25);
    opened.settings.thinking_level = Some(ThinkingLevel::Low);
    opened.settings.response_mode = Some(ResponseMode::NonStreaming);
    asked.session = std::sync::Arc::new(opened);
    asked.schema = Some(("v".to_owned(), Value::from(json!({"type": "object", "title": "Shape"}))));
    let pieces = Pieces::default();
    models.complete(&asked, Some(&pieces)).await.unwrap();
    assert_eq!(pieces.0.into_inner().unwrap(), ["{}"], "an answer that is not streamed is shown whole");
    let request = &server.asked()[0];
    assert_eq!(request.body["temperature"], json!(0.25));
    assert_eq!(request.body["max_tokens"], json!(321));
    assert_eq!(request.body["reasoning_effort"], json!("low"));
    assert_eq!(request.body.get("response_format"), None);
    assert!(request.body["messages"][0]["content"].as_str().unwrap().contains("\"title\":\"Shape\""));
    assert_eq!(request.header("x-team"), Some(KEY));
}

#[test]
fn waits_double_up_to_a_limit_and_stop() {
    let retry = RetryConfig { max_attempts: 5, first_wait_ms: 100, max_wait_ms: 350 };
    let waits: Vec<_> = (1..=5).map(|attempt| retry.wait(attempt, None).map(|wait| wait.as_millis())).collect();
    assert_eq!(waits, [Some(100), Some(200), Some(350), Some(350), None]);
    assert_eq!(retry.wait(1, Some(Duration::from_millis(7))), Some(Duration::from_millis(7)));
    assert_eq!(retry.wait(1, Some(Duration::from_secs(1))), None);
}

#[test]
fn an_address_that_cannot_be_used_is_refused_when_it_is_configured() {
    for url in ["ftp://x/", "not a url", "http://user:pass@host/"] {
        let provider = ProviderConfig { base_url: Some(url.to_owned()), ..ProviderConfig::new(Api::Gemini, None) };
        let providers = [("p".to_owned(), provider)].into_iter().collect();
        let error = Models::new(ModelsConfig { default: None, providers }).err().unwrap().to_string();
        assert!(error.contains("`p`") && error.contains("base-url"), "{error}");
        assert!(!error.contains("pass@"), "{error}");
    }
}
