#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests and what they share")]

use super::provider_support::*;
use super::test_server::{Asked, Canned, Server};
use super::*;
use crate::testing::{Pieces, session};
use opcell_engine::conversation::{Message, Role};
use opcell_engine::ports::OpenedSession;
use opcell_ir::ir::{ResponseMode, ThinkingLevel};
use opcell_types::{ToolDescription, Value};
use serde_json::{Value as Json, json};
use std::time::{Duration, Instant};

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
        let error = Models::new(ModelsConfig { providers, ..ModelsConfig::default() }).err().unwrap().to_string();
        assert!(error.contains("`p`") && error.contains("base-url"), "{error}");
        assert!(!error.contains("pass@"), "{error}");
    }
}

#[tokio::test]
async fn an_error_by_status_is_as_fine_as_its_body_says() {
    let key = key();
    for (status, body, reason, requests) in [
        (400, json!({"error": {"code": "content_filter", "message": "filtered"}}), "answer-refused", 1),
        (
            400,
            json!({"error": {"code": "tool_use_failed", "message": "Failed to call a function"}}),
            "malformed-reply",
            4,
        ),
        (
            400,
            json!({"error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens"}}),
            "context-full",
            1,
        ),
        (429, json!({"error": {"code": "insufficient_quota", "message": "no money"}}), "request-refused", 1),
        (400, json!({"error": {"status": "INVALID_ARGUMENT", "message": "API key not valid."}}), "unauthorized", 1),
    ] {
        let server = Server::start((0..5).map(|_| Canned::json(body.clone()).status(status)).collect()).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let failed = models.complete(&ask("go"), None).await.unwrap_err();
        assert_eq!((failed.reason.as_ref(), server.asked().len()), (reason, requests), "{body}");
        assert!(failed.message.contains(&status.to_string()), "{}", failed.message);
    }
}

#[tokio::test]
async fn a_wait_in_the_body_of_an_error_is_waited() {
    let key = key();
    let body = json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "quota",
        "details": [{"@type": "x"}, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3600s"}]}});
    let server = Server::start(vec![Canned::json(body).status(429)]).await;
    let failed = models(&server, Api::Gemini, &key, |_| {}).complete(&ask("go"), None).await.unwrap_err();
    assert!(failed.message.contains("asks to wait 3600 s"), "{}", failed.message);
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_of_amazon_s_own_form_is_refused_with_what_to_do() {
    let key = key();
    // A message: the lengths of all of it and of its headers, a sum, a header with its name's length, and the payload.
    let mut body = vec![0, 0, 0, 90, 0, 0, 0, 40, 1, 2, 3, 4, 11];
    body.extend_from_slice(b":event-type\x07\x00\x05chunk\r\n{\"bytes\":\"aGk=\"}");
    for kind in ["application/vnd.amazon.eventstream", "text/event-stream"] {
        let server = Server::start(vec![Canned::body(kind, body.clone())]).await;
        let models = models(&server, Api::AnthropicMessages, &key, |_| {});
        let pieces = Pieces::default();
        let failed = models.complete(&ask("go"), Some(&pieces)).await.unwrap_err();
        assert_eq!(
            (failed.reason.as_ref(), server.asked().len()),
            ("request-refused", 1),
            "{kind}: {}",
            failed.message
        );
        assert!(failed.message.contains("Amazon's own event stream"), "{kind}: {}", failed.message);
    }
}

/// A provider that fills a connection with responses that end no request keeps busy whatever drives the connection.
#[tokio::test]
async fn a_connection_to_a_provider_is_no_task_of_the_runtime_that_asks() {
    let key = key();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", listener.local_addr().unwrap());
    let answered = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            std::io::Read::read_exact(&mut stream, &mut byte).unwrap();
            head.push(byte[0]);
        }
        let body = openai_text("a").to_string();
        let early = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1_000);
        let kept =
            format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        std::io::Write::write_all(&mut stream, format!("{early}{kept}{body}").as_bytes()).unwrap();
        // Open for as long as the test looks.
        stream
    });
    let unused = Server::start(Vec::new()).await;
    let models = models(&unused, Api::OpenaiCompletions, &key, |provider| provider.base_url = Some(url));
    let before = tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let reply = models.complete(&ask("go"), None).await.unwrap();
    assert_eq!(reply.message.content, "a");
    assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), before);
    drop(answered.join().unwrap());
}

/// The question that is sent in a session with these settings.
async fn asked_with(api: Api, settings: opcell_ir::ir::Session) -> (Asked, Vec<String>) {
    let key = key();
    let wire = WIRES.iter().find(|wire| wire.api == api);
    let answer = wire.map_or_else(
        || {
            let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "fine"}]});
            json!({"object": "response", "status": "completed", "output": [message]})
        },
        |wire| (wire.text)("fine"),
    );
    let server = Server::start(vec![Canned::json(answer)]).await;
    let models = models(&server, api, &key, |_| {});
    let mut asked = ask("go");
    let mut opened = session("You are tested.");
    opened.settings = settings;
    asked.session = std::sync::Arc::new(opened);
    let reply = models.complete(&asked, None).await.unwrap();
    (server.asked().remove(0), reply.warnings.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn effort_in_the_provider_s_own_word_and_speed_go_where_a_protocol_has_them() {
    let settings = opcell_ir::ir::Session {
        thinking_level: Some(ThinkingLevel::Low),
        effort_override: Some("max".to_owned()),
        speed_mode: Some(opcell_ir::ir::SpeedMode::Fast),
        ..opcell_ir::ir::Session::default()
    };
    for (api, effort, word, speed, tier, warnings) in [
        (Api::OpenaiCompletions, "/reasoning_effort", "max", "/service_tier", Some("priority"), 0),
        (Api::OpenaiResponses, "/reasoning/effort", "max", "/service_tier", Some("priority"), 0),
        (Api::AnthropicMessages, "/output_config/effort", "max", "/speed", Some("fast"), 0),
        (Api::Gemini, "/generationConfig/thinkingConfig/thinkingLevel", "MAX", "/service_tier", None, 1),
        (Api::Ollama, "/reasoning_effort", "max", "/service_tier", None, 1),
    ] {
        let (asked, warned) = asked_with(api, settings.clone()).await;
        assert_eq!(asked.body.pointer(effort), Some(&json!(word)), "{api:?}: {:#}", asked.body);
        assert_eq!(asked.body.pointer(speed).and_then(Json::as_str), tier, "{api:?}");
        let is_beta = asked.header("anthropic-beta") == Some("fast-mode-2026-02-01");
        assert_eq!((is_beta, warned.len()), (api == Api::AnthropicMessages, warnings), "{api:?}: {warned:?}");
    }
    let (plain, _) = asked_with(Api::AnthropicMessages, opcell_ir::ir::Session::default()).await;
    assert!(plain.header("anthropic-beta").is_none() && plain.body.get("speed").is_none());
}

#[tokio::test]
async fn the_arguments_of_a_tool_are_held_to_a_schema_that_says_everything() {
    let closed = json!({"type": "object", "properties": {"path": {"type": "string", "enum": ["a"]},
        "of": {"type": "array", "items": {"anyOf": [{"type": "null"}, {"type": "integer"}]}}},
        "required": ["path", "of"], "additionalProperties": false});
    let mut open = closed.clone();
    open["required"] = json!(["path"]);
    let mut pattern = closed.clone();
    pattern["properties"]["path"]["pattern"] = json!("^a");
    let mut others = closed.clone();
    others["additionalProperties"] = json!({"type": "string"});
    let mut deep = json!({"type": "string"});
    for _ in 0..5 {
        deep = json!({"type": "object", "properties": {"a": deep}, "required": ["a"], "additionalProperties": false});
    }
    let empty = json!({"type": "object", "properties": {}, "required": [], "additionalProperties": false});
    for (schema, strict) in
        [(closed, true), (open, false), (pattern, false), (others, false), (deep, false), (empty, false)]
    {
        let key = key();
        let server = Server::start(vec![Canned::json(openai_text("fine"))]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let mut asked = ask("go");
        let tools = vec![ToolDescription::new("t", "Does.", Value::from(schema.clone()))];
        asked.session = std::sync::Arc::new(OpenedSession { tools, ..session("") });
        models.complete(&asked, None).await.unwrap();
        let sent = &server.asked()[0].body["tools"][0]["function"];
        assert_eq!((&sent["strict"], &sent["parameters"]), (&json!(strict), &schema));
    }
}

#[tokio::test]
async fn anthropic_holds_the_first_tools_with_closed_schemas_of_models_that_can() {
    let property = json!({"type": "string"});
    let closed =
        json!({"type": "object", "properties": {"q": property}, "required": ["q"], "additionalProperties": false});
    let open = json!({"type": "object", "properties": {"q": property}});
    for (model, held) in [("claude-sonnet-4-5", 20), ("claude-3-7-sonnet-latest", 0), ("m-1", 0)] {
        let key = key();
        let server = Server::start(vec![Canned::json(anthropic_text("fine"))]).await;
        let models = models(&server, Api::AnthropicMessages, &key, |_| {});
        let mut asked = ask("go");
        asked.model = format!("test/{model}");
        let tool = |number: usize| {
            let schema = if number == 1 { &open } else { &closed };
            ToolDescription::new(format!("t{number}"), "Does.", Value::from(schema.clone()))
        };
        asked.session = std::sync::Arc::new(OpenedSession { tools: (0..25).map(tool).collect(), ..session("") });
        models.complete(&asked, None).await.unwrap();
        let body = &server.asked()[0].body;
        let strict: Vec<usize> = (0..25).filter(|at| body["tools"][*at]["strict"] == true).collect();
        assert_eq!(strict.len(), held, "{model}");
        assert!(!strict.contains(&1) && strict.iter().all(|at| *at <= held), "{strict:?}");
    }
}

#[tokio::test]
async fn strict_tools_that_anthropic_refuses_are_sent_once_more_as_others() {
    let key = key();
    let refused = |said: &str| Canned::json(json!({"type": "error", "error": {"message": said}})).status(400);
    let closed = json!({
        "type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"], "additionalProperties": false,
    });
    let mut asked = ask("go");
    asked.model = "test/claude-opus-5-5".to_owned();
    let tools = vec![ToolDescription::new("t", "Does.", Value::from(closed))];
    asked.session = std::sync::Arc::new(OpenedSession { tools, ..session("") });
    let server =
        Server::start(vec![refused("Compiled grammar is too large"), Canned::json(anthropic_text("fine"))]).await;
    let reply = models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&asked, None).await.unwrap();
    let sent: Vec<Json> = server.asked().iter().map(|asked| asked.body["tools"][0]["strict"].clone()).collect();
    assert_eq!(sent, [json!(true), Json::Null]);
    assert!(reply.warnings.iter().any(|warning| warning.contains("strict")), "{:?}", reply.warnings);
    // Another refusal is one: nothing is asked again.
    for said in ["max_tokens is too high", "Too many strict tools (21)"] {
        let server = Server::start(vec![refused(said), refused(said), refused(said)]).await;
        models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&asked, None).await.unwrap_err();
        assert_eq!(server.asked().len(), if said.contains("strict") { 2 } else { 1 }, "{said}");
    }
}

#[tokio::test]
async fn what_a_model_of_anthropic_refuses_is_left_out_with_a_warning() {
    let settings = || opcell_ir::ir::Session { temperature: Some(0.5), ..opcell_ir::ir::Session::default() };
    for (model, taken) in [("claude-sonnet-4-6", true), ("claude-opus-5-5", false)] {
        let key = key();
        let server = Server::start(vec![Canned::json(anthropic_text("fine"))]).await;
        let mut asked = ask("go");
        asked.model = format!("test/{model}");
        asked.session = std::sync::Arc::new(OpenedSession { settings: settings(), ..session("") });
        let reply = models(&server, Api::AnthropicMessages, &key, |_| {}).complete(&asked, None).await.unwrap();
        assert_eq!(server.asked()[0].body["temperature"].is_number(), taken, "{model}");
        assert_eq!(reply.warnings.iter().any(|warning| warning.contains("`temperature`")), !taken, "{model}");
    }
}

#[tokio::test]
async fn a_failure_has_what_was_received_before_the_stream_failed() {
    let piece = |text: &str| ("", json!({"choices": [{"index": 0, "delta": {"content": text}}]}));
    let broken = ("", json!({"error": {"message": "overloaded", "type": "overloaded_error"}}));
    for events in [vec![piece("half "), piece("an answer"), broken], vec![piece("half "), piece("an answer")]] {
        let key = key();
        let server = Server::start(vec![Canned::events(&events), Canned::events(&events)]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |_| {});
        let pieces = Pieces::default();
        let failed = models.complete(&ask("go"), Some(&pieces)).await.unwrap_err();
        assert_eq!(&*failed.reason, "provider-unavailable");
        let received = failed.details.as_ref().and_then(|details| details.get("received"));
        assert_eq!(received, Some(&Value::from("half an answer")), "{failed:?}");
        assert_eq!(server.asked().len(), 1, "what was shown is not asked for again");
    }
}

#[tokio::test]
async fn calls_in_the_text_are_read_of_models_that_write_them_there_and_no_others() {
    let text = "I read.\n<tool_call>{\"name\": \"a_b\", \"arguments\": {\"path\": \"x\"}}</tool_call>";
    for (forms, calls) in [(vec![TextualCalls::Xml], 1), (Vec::new(), 0)] {
        let key = key();
        let server = Server::start(vec![Canned::json(openai_text(text))]).await;
        let models = models(&server, Api::OpenaiCompletions, &key, |provider| {
            provider.models[0].textual_tool_calls.clone_from(&forms);
        });
        let pieces = Pieces::default();
        let reply = models.complete(&with_tool(ask("go"), "a/b"), Some(&pieces)).await.unwrap();
        assert_eq!(reply.message.tool_calls.len(), calls);
        let shown: String = pieces.0.into_inner().unwrap().concat();
        assert_eq!(shown, reply.message.content);
        if let [call] = reply.message.tool_calls.as_slice() {
            assert_eq!((call.name.as_str(), call.arguments.to_json().as_str()), ("a/b", r#"{"path":"x"}"#));
            assert_eq!(reply.message.content, "I read.");
            assert_eq!(server.asked()[0].body["stream"], json!(false));
        }
    }
}
