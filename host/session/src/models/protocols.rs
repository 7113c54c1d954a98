//! The protocols of providers: what each is asked, and how its answers are read.

#![allow(clippy::indexing_slicing, reason = "an absent member of a `serde_json::Value` reads as null and never panics")]

mod anthropic;
mod anthropic_models;
mod anthropic_request;
mod attachments;
mod cache;
mod chat;
mod chat_fields;
mod chat_request;
mod gemini;
mod gemini_request;
mod request;
mod responses;
mod responses_request;
mod strict_schema;

pub(super) use request::{Ask, Outgoing, outgoing};

use super::answer::Protocol;
use super::config::Api;
use std::collections::HashSet;

/// A reader for an answer of an API. `known`: the names of the session's tools on the wire.
pub(super) fn reader(api: Api, known: HashSet<String>, wants_logprobs: bool) -> Box<dyn Protocol> {
    match api {
        Api::OpenaiCompletions | Api::Ollama => Box::new(chat::Chat::new(known, wants_logprobs)),
        Api::OpenaiResponses => Box::new(responses::Responses::new(wants_logprobs)),
        Api::AnthropicMessages => Box::new(anthropic::Anthropic::default()),
        Api::Gemini => Box::new(gemini::Gemini::new(wants_logprobs)),
    }
}

/// Lets go of the strict tools of a request that a provider refused because of them; returns `true` if it had any.
pub(super) fn without_strict_tools(api: Api, body: &mut serde_json::Value, said: &str) -> bool {
    api == Api::AnthropicMessages && anthropic_request::without_strict_tools(body, said)
}

/// Returns `true` if an unknown finish reason may be that of a complete answer: many servers speak chat completions,
/// each with words of its own.
pub(super) fn accepts_unknown_finish(api: Api) -> bool {
    matches!(api, Api::OpenaiCompletions | Api::Ollama)
}
