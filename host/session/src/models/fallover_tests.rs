//! An overload in an answer falls over to the next candidate as the same overload by status does.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use super::test_server::{Canned, Server};
use super::*;
use crate::HostSessions;
use opcell_engine::event::{EffectId, EffectReply, Event, Recorded};
use opcell_engine::ports::RunText;
use opcell_engine::{Engine, Program, RunOptions, RunOutcome, Status};
use opcell_ir::source::SourceFile;
use opcell_types::Value;
use opcell_workflow::{companions::NoCompanions, document};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Asks the cheaper of two models first.
const WORKFLOW: &str = r#"
{:name "ask" :description "Asks."
 :steps [{:name "s" :type :session :tools []
          :model {:type :model-query :require [] :prefer [{:criterion :input-cost :prefer :lower}]}
          :contributions [{:type :template :text "Hi"}]}]}
"#;

/// A protocol: its error, the beginning of a stream with a text, and an answer.
struct Wire {
    api: Api,
    error: (&'static str, Json),
    begun: (&'static str, Json),
    answer: Json,
}

fn wires() -> Vec<Wire> {
    let chat = || Wire {
        api: Api::OpenaiCompletions,
        error: ("", json!({"error": {"message": "overloaded", "code": 503}})),
        begun: ("", json!({"choices": [{"index": 0, "delta": {"content": "half "}}]})),
        answer: json!({"choices": [{"index": 0, "finish_reason": "stop", "message": {"content": "fine"}}]}),
    };
    let message = json!({"type": "message", "id": "m", "content": [{"type": "output_text", "text": "fine"}]});
    vec![
        chat(),
        Wire { api: Api::Ollama, ..chat() },
        Wire {
            api: Api::OpenaiResponses,
            error: ("error", json!({"type": "error", "code": "server_error", "message": "overloaded"})),
            begun: (
                "response.output_text.delta",
                json!({"type": "response.output_text.delta", "output_index": 0, "item_id": "m", "delta": "half "}),
            ),
            answer: json!({"object": "response", "status": "completed", "output": [message]}),
        },
        Wire {
            api: Api::AnthropicMessages,
            error: ("error", json!({"type": "error", "error": {"type": "overloaded_error", "message": "overloaded"}})),
            begun: (
                "content_block_delta",
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "half "}}),
            ),
            answer: json!({"type": "message", "content": [{"type": "text", "text": "fine"}], "stop_reason": "end_turn"}),
        },
        Wire {
            api: Api::Gemini,
            error: ("", json!({"error": {"code": 503, "status": "UNAVAILABLE", "message": "overloaded"}})),
            begun: ("", json!({"candidates": [{"content": {"parts": [{"text": "half "}]}}]})),
            answer: json!({"candidates": [{"content": {"parts": [{"text": "fine"}]}, "finishReason": "STOP"}]}),
        },
    ]
}

struct Listener;

impl RunText for Listener {
    fn text(&self, _round: EffectId, _piece: &str) {}
}

/// Runs the workflow over two providers of a protocol, with this number of attempts at each; streamed if asked.
async fn run(api: Api, servers: [&Server; 2], streams: bool) -> RunOutcome {
    let provider = |server: &Server, cost: f64| ProviderConfig {
        base_url: Some(server.url.clone()),
        models: vec![ModelConfig { id: "m".to_owned(), input_cost: Some(cost), ..ModelConfig::default() }],
        retry: RetryConfig { first_wait_ms: 1, max_attempts: 2, ..RetryConfig::default() },
        ..ProviderConfig::new(api, None)
    };
    let [first, second] = servers;
    let providers = [("first", provider(first, 1.0)), ("second", provider(second, 2.0))];
    let providers = providers.into_iter().map(|(name, provider)| (name.to_owned(), provider)).collect();
    let models = Models::new(ModelsConfig { providers, ..ModelsConfig::default() }).unwrap();
    let sessions = HostSessions::builder().models(models).build().unwrap();
    let compiled = document::compile(&SourceFile::new("ask.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
    let engine = Engine::builder().sessions(Arc::new(sessions)).build();
    let sink = streams.then(|| Arc::new(Listener) as Arc<dyn RunText>);
    let options = RunOptions { sink, ..RunOptions::default() };
    engine.start(program, Value::from_json("{}").unwrap(), options).await.unwrap().finished().await.unwrap()
}

#[tokio::test]
async fn an_overload_within_an_answer_falls_over_to_the_next_model_as_one_by_status_does() {
    for wire in wires() {
        let by_status = || Canned::json(wire.error.1.clone()).status(503);
        let whole = || Canned::json(wire.error.1.clone());
        let stream = || Canned::events(std::slice::from_ref(&wire.error));
        let after_text = || Canned::events(&[wire.begun.clone(), wire.error.clone()]);
        let ways: [(&str, &dyn Fn() -> Canned, usize); 4] = [
            ("by status", &by_status, 2),
            ("in a whole answer", &whole, 2),
            ("in a stream", &stream, 2),
            // What was shown is not shown again.
            ("in a stream after some text", &after_text, 1),
        ];
        for (way, answer, attempts) in ways {
            let streams = way != "in a whole answer";
            let first = Server::start(vec![answer(), answer(), answer()]).await;
            let second = Server::start(vec![Canned::json(wire.answer.clone())]).await;
            let outcome = run(wire.api, [&first, &second], streams).await;
            let what = format!("{:?} {way}: {:?}", wire.api, outcome.message);
            assert_eq!((outcome.status, outcome.result), (Status::Completed, Value::from("fine")), "{what}");
            assert_eq!((first.asked().len(), second.asked().len()), (attempts, 1), "{what}");
        }
    }
}

#[tokio::test]
async fn a_request_that_suits_no_model_does_not_fall_over() {
    for wire in wires() {
        let refused = json!({"error": {"message": "no such field", "code": 400}});
        let first = Server::start(vec![Canned::json(refused)]).await;
        let second = Server::start(vec![Canned::json(wire.answer.clone())]).await;
        let outcome = run(wire.api, [&first, &second], false).await;
        assert_eq!(outcome.reason.as_deref(), Some("request-refused"), "{:?}", wire.api);
        assert_eq!((first.asked().len(), second.asked().len()), (1, 0), "{:?}", wire.api);
    }
}

/// Runs the workflow with one model of its own and another that the operator added. The outcome, and the answers and
/// failures of models that the run has recorded.
async fn run_with_fallback(first: &Server, second: &Server, on: Option<&[&str]>) -> (RunOutcome, Vec<String>) {
    let provider = |server: &Server, listed: bool| ProviderConfig {
        base_url: Some(server.url.clone()),
        models: listed
            .then(|| ModelConfig { id: "m".to_owned(), input_cost: Some(1.0), ..ModelConfig::default() })
            .into_iter()
            .collect(),
        retry: RetryConfig { first_wait_ms: 1, max_attempts: 1, ..RetryConfig::default() },
        ..ProviderConfig::new(Api::OpenaiCompletions, None)
    };
    let providers = [("first", provider(first, true)), ("second", provider(second, false))];
    let providers = providers.into_iter().map(|(name, provider)| (name.to_owned(), provider)).collect();
    let on = on.map(|on| on.iter().map(|reason| (*reason).to_owned()).collect());
    let fallback = Some(FallbackConfig { models: vec!["second/n".to_owned()], on });
    let models = Models::new(ModelsConfig { providers, fallback, ..ModelsConfig::default() }).unwrap();
    let sessions = HostSessions::builder().models(models).build().unwrap();
    let compiled = document::compile(&SourceFile::new("ask.edn", WORKFLOW), &NoCompanions);
    let program = Program::new(compiled.ir.unwrap_or_else(|| panic!("{:?}", compiled.diagnostics))).unwrap();
    let engine = Engine::builder().sessions(Arc::new(sessions)).build();
    let options = RunOptions { run: Some("r".parse().unwrap()), ..RunOptions::default() };
    let started = engine.start(program, Value::from_json("{}").unwrap(), options).await.unwrap();
    let outcome = started.finished().await.unwrap();
    let recorded = engine.history(&"r".into()).await.unwrap();
    let answers = recorded.iter().flat_map(Recorded::parts).filter_map(|part| match &part.event {
        Event::Replied { reply, .. } => match &**reply {
            EffectReply::Round(Ok(reply)) => Some(reply.model.clone()),
            EffectReply::Round(Err(failure)) => Some(failure.reason.to_string()),
            _ => None,
        },
        _ => None,
    });
    (outcome, answers.collect())
}

#[tokio::test]
async fn the_models_of_the_operator_follow_those_of_the_session_after_the_failures_that_are_named() {
    let unavailable = || Canned::json(json!({"error": {"message": "overloaded"}})).status(503);
    let refused = || Canned::json(json!({"error": {"message": "no such field"}})).status(400);
    type Case = (fn() -> Canned, &'static str, Option<&'static [&'static str]>, Option<&'static str>);
    let cases: [Case; 5] = [
        (unavailable, "provider-unavailable", None, None),
        (unavailable, "provider-unavailable", Some(&["provider-unavailable"]), None),
        (unavailable, "provider-unavailable", Some(&["timeout"]), Some("provider-unavailable")),
        (refused, "request-refused", None, Some("request-refused")),
        (refused, "request-refused", Some(&["request-refused"]), None),
    ];
    for (answer, reason, on, failure) in cases {
        let first = Server::start(vec![answer()]).await;
        let second = Server::start(vec![Canned::json(wires()[0].answer.clone())]).await;
        let (outcome, recorded) = run_with_fallback(&first, &second, on).await;
        let expected: Vec<&str> = [reason].into_iter().chain(failure.is_none().then_some("second/n")).collect();
        assert_eq!(recorded, expected, "{on:?}");
        assert_eq!(outcome.reason.as_deref(), failure, "{on:?}: {outcome:?}");
        assert_eq!(second.asked().len(), usize::from(failure.is_none()), "{on:?}");
    }
}

#[test]
fn a_fallback_that_is_not_there_and_a_failure_that_does_not_exist_are_named() {
    let of = |models: &[&str], on: &[&str]| {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let fallback = Some(FallbackConfig { models: owned(models), on: Some(owned(on)) });
        Models::new(ModelsConfig { fallback, ..ModelsConfig::default() }).err().unwrap().to_string()
    };
    let unknown = of(&["nowhere/m"], &[]);
    assert!(unknown.starts_with("[models.fallback]: there is no model `nowhere/m`"), "{unknown}");
    let typo = of(&[], &["rate-limit"]);
    assert!(typo.contains("did you mean `rate-limited`?"), "{typo}");
}
