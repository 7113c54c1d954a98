//! Conversations that near a model's context are sent shortened, and answers about length lead there too.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]

use super::provider_support::{Keyed, anthropic_text, ask, key, models, openai_text};
use super::test_server::{Canned, Server};
use super::*;
use crate::HostSessions;
use crate::testing::{Pieces, session};
use opcell_engine::call::{Compacted, CompactionReason};
use opcell_engine::conversation::{Message, ToolCallRequest};
use opcell_engine::ports::{OpenedSession, Sessions as _};
use opcell_ir::ir::{Compaction, Session};
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// A conversation of rounds that each read a file of 2,000 bytes: about 525 tokens each.
fn long(rounds: usize, compaction: Option<Compaction>) -> ModelRound {
    let mut asked = ask("Find the fault.");
    for round in 0..rounds {
        let mut answer = Message::assistant(format!("File {round}."));
        let arguments = Value::from_json("{}").unwrap();
        answer.tool_calls.push(ToolCallRequest { id: format!("c{round}"), name: "read".to_owned(), arguments });
        asked.messages.push(answer);
        asked.messages.push(Message::tool(format!("c{round}"), "x".repeat(2_000), false));
    }
    let settings = Session { compaction, ..Session::default() };
    asked.session = Arc::new(OpenedSession { settings, ..session("You are tested.") });
    asked
}

fn sessions(server: &Server, api: Api, key: &Keyed, window: Option<u64>) -> HostSessions {
    let models = models(server, api, key, |provider| provider.models[0].context_window = window);
    HostSessions::builder().models(models).build().unwrap()
}

fn full() -> Canned {
    let message = "This model's maximum context length is 8192 tokens";
    Canned::json(json!({"error": {"message": message, "code": "context_length_exceeded"}})).status(400)
}

fn bytes(asked: &Json) -> usize {
    asked.to_string().len()
}

#[tokio::test]
async fn a_conversation_that_nears_the_context_is_sent_without_its_oldest_results() {
    let server = Server::start(vec![Canned::json(openai_text("fine")), Canned::json(openai_text("fine"))]).await;
    let key = key();
    let sessions = sessions(&server, Api::OpenaiCompletions, &key, Some(20_000));
    let short = sessions.complete(long(10, None), None).await.unwrap();
    assert_eq!(short.compacted, None);
    let reply = sessions.complete(long(40, None), None).await.unwrap();
    let compacted = *reply.compacted.unwrap();
    assert_eq!(compacted.reason, CompactionReason::Threshold);
    assert!((10..36).contains(&compacted.results) && compacted.rounds == 0, "{compacted:?}");
    assert!(compacted.tokens_before > 20_000 && compacted.tokens_after <= 16_000, "{compacted:?}");
    let asked = &server.asked()[1].body["messages"];
    assert_eq!(asked[3]["content"], "[The result of `read` was removed to make room; it had 2000 bytes.]");
    assert_eq!(asked[81]["content"], "x".repeat(2_000));
}

#[tokio::test]
async fn an_answer_about_length_leads_to_a_shorter_request_and_is_remembered() {
    for (api, text) in [
        (Api::OpenaiCompletions, openai_text as fn(&str) -> Json),
        (Api::AnthropicMessages, anthropic_text as fn(&str) -> Json),
    ] {
        let fine = || Canned::json(text("fine"));
        let server = Server::start(vec![full(), full(), fine(), fine()]).await;
        let key = key();
        let sessions = sessions(&server, api, &key, None);
        let reply = sessions.complete(long(40, None), None).await.unwrap();
        assert_eq!(reply.message.content, "fine");
        assert_eq!(reply.compacted.unwrap().reason, CompactionReason::ContextFull);
        let asked = server.asked();
        assert_eq!(asked.len(), 3);
        assert!(bytes(&asked[2].body) < bytes(&asked[1].body) && bytes(&asked[1].body) < bytes(&asked[0].body));
        // The next round does not try what was refused.
        let next = sessions.complete(long(41, None), None).await.unwrap();
        assert!(matches!(next.compacted.as_deref(), Some(Compacted { reason: CompactionReason::Threshold, .. })));
        assert_eq!(server.asked().len(), 4);
    }
}

#[tokio::test]
async fn a_conversation_that_cannot_be_shortened_fails_as_before() {
    let off = Compaction { enabled: false, ..Compaction::default() };
    for (rounds, rule) in [(0, None), (40, Some(off))] {
        let server = Server::start(vec![full(), full()]).await;
        let key = key();
        let sessions = sessions(&server, Api::OpenaiCompletions, &key, Some(1_000));
        let failure = sessions.complete(long(rounds, rule.clone()), None).await.unwrap_err();
        assert_eq!((&*failure.reason, server.asked().len()), ("context-full", 1), "{rounds} {rule:?}");
    }
}

#[tokio::test]
async fn a_model_that_always_has_no_room_is_asked_four_times_at_most() {
    let server = Server::start((0..9).map(|_| full()).collect()).await;
    let key = key();
    let sessions = sessions(&server, Api::OpenaiCompletions, &key, None);
    let failure = sessions.complete(long(400, None), None).await.unwrap_err();
    assert_eq!((&*failure.reason, server.asked().len()), ("context-full", 4));
}

#[tokio::test]
async fn text_that_was_shown_is_not_asked_for_again() {
    let begun = json!({"choices": [{"index": 0, "delta": {"content": "half "}}]});
    let message = "This model's maximum context length is 8192 tokens";
    let cut = json!({"error": {"message": message, "code": "context_length_exceeded"}});
    let server = Server::start(vec![Canned::events(&[("", begun), ("", cut)]), full()]).await;
    let key = key();
    let sessions = sessions(&server, Api::OpenaiCompletions, &key, None);
    let pieces = Pieces::default();
    let failure = sessions.complete(long(40, None), Some(&pieces)).await.unwrap_err();
    assert_eq!((&*failure.reason, server.asked().len()), ("context-full", 1));
}

#[tokio::test]
async fn a_count_of_the_provider_corrects_the_estimate() {
    let counted = |tokens: u64| {
        let mut answer = openai_text("fine");
        answer["usage"]["prompt_tokens"] = json!(tokens);
        Canned::json(answer)
    };
    // About 10,500 tokens by the estimate: half of what the provider counts.
    let server = Server::start(vec![counted(21_000), counted(9_000)]).await;
    let key = key();
    let sessions = sessions(&server, Api::OpenaiCompletions, &key, Some(20_000));
    assert_eq!(sessions.complete(long(20, None), None).await.unwrap().compacted, None);
    let compacted = sessions.complete(long(20, None), None).await.unwrap().compacted.unwrap();
    assert!(compacted.tokens_after <= 8_000, "{compacted:?}");
}
