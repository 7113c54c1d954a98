//! Rounds share what providers can keep, and what these say of it is counted.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::provider_support::{anthropic_text, ask, gemini_text, key, models, openai_text, with_tool};
use super::test_server::{Asked, Canned, Server};
use super::*;
use crate::testing::Pieces;
use crate::tools::{FileRoot, FileRoots, file_tools};
use crate::{HostSessions, prompt::ContextFile};
use opcell_engine::conversation::Usage;
use opcell_engine::{Engine, Program, RunOptions, RunOutcome, Status};
use opcell_ir::source::SourceFile;
use opcell_types::{Value, quota::ThisProcess};
use opcell_workflow::{companions::NoCompanions, document};
use serde_json::{Value as Json, json};

const WORKFLOW: &str = r#"
{:name "ask" :description "Asks."
 :steps [{:name "s" :type :session :tools ["read"] :model "test/m-1" :system-prompt "Answer briefly."
          :contributions [{:type :template :text "Hi"}]}]}
"#;

/// A protocol: its calls, its last answer, and where a request has the conversation.
struct Wire {
    api: Api,
    call: fn(usize) -> Json,
    text: fn() -> Json,
    conversation: &'static str,
}

const WIRES: [Wire; 4] = [
    Wire {
        api: Api::OpenaiCompletions,
        call: |n| {
            let function = json!({"name": "read", "arguments": format!("{{\"path\":\"work/{n}.txt\"}}")});
            let call = json!({"id": format!("c-{n}"), "type": "function", "function": function});
            json!({"choices": [{"index": 0, "finish_reason": "tool_calls", "message": {"tool_calls": [call]}}],
                "usage": {"prompt_tokens": 100, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 64}}})
        },
        text: || openai_text("fine"),
        conversation: "messages",
    },
    Wire {
        api: Api::OpenaiResponses,
        call: |n| {
            let arguments = format!("{{\"path\":\"work/{n}.txt\"}}");
            let call = json!({"type": "function_call", "id": format!("fc-{n}"), "call_id": format!("c-{n}"),
                "name": "read", "arguments": arguments});
            json!({"object": "response", "status": "completed", "output": [call],
                "usage": {"input_tokens": 100, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 64}}})
        },
        text: || {
            let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "fine"}]});
            json!({"object": "response", "status": "completed", "output": [message]})
        },
        conversation: "input",
    },
    Wire {
        api: Api::AnthropicMessages,
        call: |n| {
            let input = json!({"path": format!("work/{n}.txt")});
            let call = json!({"type": "tool_use", "id": format!("c-{n}"), "name": "read", "input": input});
            json!({"type": "message", "content": [call], "stop_reason": "tool_use", "usage":
                {"input_tokens": 36, "cache_read_input_tokens": 64, "output_tokens": 1}})
        },
        text: || anthropic_text("fine"),
        conversation: "messages",
    },
    Wire {
        api: Api::Gemini,
        call: |n| {
            let call = json!({"functionCall": {"name": "read", "args": {"path": format!("work/{n}.txt")}}});
            json!({"candidates": [{"content": {"role": "model", "parts": [call]}, "finishReason": "STOP"}],
                "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 1, "cachedContentTokenCount": 64}})
        },
        text: || gemini_text("fine"),
        conversation: "contents",
    },
];

/// Runs the workflow, whose model reads two files and answers.
async fn run(server: &Server, api: Api) -> RunOutcome {
    let (key, work) = (key(), tempfile::TempDir::new().unwrap());
    for n in 0..2 {
        std::fs::write(work.path().join(format!("{n}.txt")), format!("text {n}")).unwrap();
    }
    let root = FileRoot::read("work", work.path().to_owned());
    let roots = FileRoots::open(&[root], &Arc::default(), &ThisProcess).unwrap();
    let sessions = HostSessions::builder()
        .models(models(server, api, &key, |_| {}))
        .tools(file_tools(roots, Arc::default()))
        .context_files(vec![ContextFile { path: "AGENTS.md".to_owned(), text: "Be kind.".to_owned() }])
        .build()
        .unwrap();
    let compiled = document::compile(&SourceFile::new("ask.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
    let engine = Engine::builder().sessions(Arc::new(sessions)).build();
    let input = Value::from_json("{}").unwrap();
    engine.start(program, input, RunOptions::default()).await.unwrap().finished().await.unwrap()
}

/// The places of a request that have a breakpoint.
fn breakpoints(value: &Json, at: &str, found: &mut Vec<String>) {
    match value {
        Json::Object(entries) => {
            if entries.contains_key("cache_control") {
                found.push(at.to_owned());
            }
            entries.iter().for_each(|(key, value)| breakpoints(value, &format!("{at}/{key}"), found));
        }
        Json::Array(items) => {
            items.iter().enumerate().for_each(|(n, value)| breakpoints(value, &format!("{at}/{n}"), found));
        }
        _ => {}
    }
}

fn breakpoints_of(asked: &Asked) -> Vec<String> {
    let mut found = Vec::new();
    breakpoints(&asked.body, "", &mut found);
    found
}

/// A request without breakpoints, which are not a part of what is kept.
fn unmarked(value: &Json) -> Json {
    match value {
        Json::Object(entries) => {
            let entries = entries.iter().filter(|(key, _)| *key != "cache_control");
            Json::Object(entries.map(|(key, value)| (key.clone(), unmarked(value))).collect())
        }
        Json::Array(items) => items.iter().map(unmarked).collect(),
        other => other.clone(),
    }
}

#[tokio::test]
async fn each_round_repeats_the_one_before_it_byte_for_byte_up_to_its_last_message() {
    for wire in WIRES {
        let answers = vec![(wire.call)(0), (wire.call)(1), (wire.text)()];
        let server = Server::start(answers.into_iter().map(Canned::json).collect()).await;
        let outcome = run(&server, wire.api).await;
        assert_eq!(outcome.status, Status::Completed, "{:?}: {:?}", wire.api, outcome.message);
        let asked = server.asked();
        assert_eq!(asked.len(), 3, "{:?}", wire.api);
        for pair in asked.windows(2) {
            let [before, after] = [&pair[0], &pair[1]].map(|asked| unmarked(&asked.body));
            let conversation = before[wire.conversation].to_string();
            let before = before.to_string();
            let end = before.find(&conversation).unwrap() + conversation.len() - "]".len();
            let prefix = &before[..end];
            assert!(prefix.contains("Be kind.") && prefix.contains("Answer briefly."), "{:?}: {prefix}", wire.api);
            assert!(prefix.contains(r#""name":"read""#), "{:?}: {prefix}", wire.api);
            assert!(after.to_string().starts_with(prefix), "{:?}:\n{prefix}\n{after}", wire.api);
        }
        let used = outcome.used;
        assert_eq!((used.cache_read_tokens, used.cache_write_tokens), (128, 0), "{:?}", wire.api);
    }
}

#[tokio::test]
async fn breakpoints_are_at_most_four_and_each_round_has_one_where_the_last_round_ended() {
    let wire = &WIRES[2];
    let answers = vec![(wire.call)(0), (wire.call)(1), (wire.text)()];
    let server = Server::start(answers.into_iter().map(Canned::json).collect()).await;
    run(&server, wire.api).await;
    let asked = server.asked();
    let last_tool = format!("/tools/{}", asked[0].body["tools"].as_array().unwrap().len() - 1);
    let system = asked[0].body["system"].as_array().unwrap();
    assert_eq!(system.len(), 2);
    let [shared, own] = [0, 1].map(|n| system[n]["text"].as_str().unwrap());
    assert!(shared.contains("Be kind.") && !shared.contains("Answer briefly."), "{shared}");
    assert!(own.contains("Answer briefly."), "{own}");
    let places: Vec<Vec<String>> = asked.iter().map(breakpoints_of).collect();
    let expected: [&[&str]; 3] = [
        &["/system/0", "/system/1", &last_tool, "/messages/0/content/0"],
        &["/system/0", &last_tool, "/messages/0/content/0", "/messages/2/content/0"],
        &["/system/0", &last_tool, "/messages/2/content/0", "/messages/4/content/0"],
    ];
    for (places, expected) in places.iter().zip(expected) {
        let sorted = |places: Vec<String>| places.into_iter().collect::<std::collections::BTreeSet<_>>();
        assert_eq!(sorted(places.clone()), sorted(expected.iter().map(|place| (*place).to_owned()).collect()));
    }
}

#[tokio::test]
async fn a_round_that_no_other_follows_does_not_pay_for_keeping_its_message() {
    let server = Server::start(vec![Canned::json(anthropic_text("fine"))]).await;
    models(&server, Api::AnthropicMessages, &key(), |_| {}).complete(&ask("hello"), None).await.unwrap();
    assert_eq!(breakpoints_of(&server.asked()[0]), ["/system/0"]);
}

#[tokio::test]
async fn an_empty_message_has_no_breakpoint_because_the_provider_refuses_it() {
    let server = Server::start(vec![Canned::json(anthropic_text("fine"))]).await;
    let asked = with_tool(ask(""), "disk/read");
    models(&server, Api::AnthropicMessages, &key(), |_| {}).complete(&asked, None).await.unwrap();
    assert_eq!(breakpoints_of(&server.asked()[0]), ["/system/0", "/tools/0"]);
}

#[tokio::test]
async fn the_operator_turns_caching_off_for_all_providers_or_for_one() {
    let key = key();
    for (all, own, marks) in [(None, None, true), (Some(false), None, false), (Some(false), Some(true), true)] {
        let server = Server::start(vec![Canned::json(anthropic_text("fine"))]).await;
        let provider = ProviderConfig {
            base_url: Some(server.url.clone()),
            api_key: Some(SecretSource::File(key.path.clone())),
            prompt_cache: own,
            ..ProviderConfig::new(Api::AnthropicMessages, None)
        };
        let providers = [("test".to_owned(), provider)].into_iter().collect();
        let models = Models::new(ModelsConfig { prompt_cache: all, providers, ..ModelsConfig::default() }).unwrap();
        models.complete(&with_tool(ask("hello"), "disk/read"), None).await.unwrap();
        assert_eq!(breakpoints_of(&server.asked()[0]).is_empty(), !marks, "{all:?} {own:?}");
    }
}

async fn usage(api: Api, answer: Canned, streams: bool) -> Usage {
    let server = Server::start(vec![answer]).await;
    let key = key();
    let models = models(&server, api, &key, |provider| provider.models[0].cache_read_cost = Some(0.5));
    let pieces = Pieces::default();
    models.complete(&ask("hello"), streams.then_some(&pieces as &dyn TextSink)).await.unwrap().usage
}

#[tokio::test]
async fn tokens_from_the_cache_have_their_own_count_and_price() {
    let with = |mut answer: Json, of: &str, usage: Json| {
        answer[of] = usage;
        Canned::json(answer)
    };
    let chat = |usage| with(openai_text("a"), "usage", usage);
    let cases = [
        (
            Api::OpenaiCompletions,
            chat(json!({"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 80}})),
        ),
        (
            Api::OpenaiCompletions,
            chat(json!({"prompt_tokens": 100, "completion_tokens": 5, "prompt_cache_hit_tokens": 80})),
        ),
        (
            Api::Gemini,
            with(
                gemini_text("a"),
                "usageMetadata",
                json!({"promptTokenCount": 100, "candidatesTokenCount": 5, "cachedContentTokenCount": 80}),
            ),
        ),
    ];
    for (api, answer) in cases {
        // 20 at 2 dollars, 80 at half a dollar, 5 at 10.
        let expected = Usage {
            input_tokens: 100,
            output_tokens: 5,
            cache_read_tokens: 80,
            cache_write_tokens: 0,
            cost: Some(130e-6),
        };
        assert_eq!(usage(api, answer, false).await, expected, "{api:?}");
    }
}

#[tokio::test]
async fn the_three_counts_of_an_anthropic_stream_are_one_input_whatever_its_last_event_leaves_out() {
    let start = json!({"type": "message", "role": "assistant", "content": [], "usage":
        {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 70, "output_tokens": 1}});
    let events = [
        ("message_start", json!({"type": "message_start", "message": start})),
        (
            "content_block_start",
            json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "a"}}),
        ),
        ("content_block_stop", json!({"type": "content_block_stop", "index": 0})),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
                "usage": {"input_tokens": 10, "output_tokens": 5}}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let found = usage(Api::AnthropicMessages, Canned::events(&events), true).await;
    // 10 at 2 dollars, 20 at 2.5, 70 at half a dollar, 5 at 10.
    let expected = Usage {
        input_tokens: 100,
        output_tokens: 5,
        cache_read_tokens: 70,
        cache_write_tokens: 20,
        cost: Some(155e-6),
    };
    assert_eq!(found, expected);
}

#[tokio::test]
async fn a_provider_that_counts_more_from_its_cache_than_it_read_is_not_believed() {
    let mut answer = openai_text("a");
    answer["usage"]["prompt_tokens_details"] = json!({"cached_tokens": u64::MAX, "cache_write_tokens": 7});
    let found = usage(Api::OpenaiCompletions, Canned::json(answer), false).await;
    assert_eq!((found.input_tokens, found.cache_read_tokens, found.cache_write_tokens), (11, 11, 0));
}
