//! The common parts of all protocols' requests.

use super::super::config::{Api, ModelConfig};
use super::super::logprobs;
use super::super::wire::WireNames;
use super::{anthropic_request, chat_request, gemini_request, responses_request};
use opcell_engine::conversation::{Message, Role, ToolCallRequest};
use opcell_engine::ports::ModelRound;
use opcell_ir::ir::{Generation, SpeedMode, ThinkingLevel};
use opcell_types::Value;
use reqwest::Url;
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use std::fmt::Write as _;

/// A request before it is sent.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) struct Outgoing {
    pub url: Url,
    pub headers: Vec<(&'static str, String)>,
    pub body: Json,
}

/// One round, for one model of one provider.
pub(in super::super) struct Ask<'a> {
    pub round: &'a ModelRound,
    pub names: &'a WireNames,
    pub api: Api,
    pub base_url: &'a Url,
    /// As the provider names the model.
    pub id: &'a str,
    pub model: Option<&'a ModelConfig>,
    pub key: Option<&'a str>,
    pub streamed: bool,
    /// True if the provider is asked to keep what later requests repeat.
    pub caches: bool,
}

/// The effort of thinking that a model is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    ExtraHigh,
}

/// One message, or the results of all calls of one: Anthropic refuses those one by one.
pub(super) enum Turn<'a> {
    User(&'a str),
    Assistant(&'a Message),
    Results(Vec<&'a Message>),
}

/// The request for a round.
pub(in super::super) fn outgoing(ask: &Ask<'_>) -> Outgoing {
    match ask.api {
        Api::OpenaiCompletions | Api::Ollama => chat_request::outgoing(ask),
        Api::OpenaiResponses => responses_request::outgoing(ask),
        Api::AnthropicMessages => anthropic_request::outgoing(ask),
        Api::Gemini => gemini_request::outgoing(ask),
    }
}

impl<'a> Ask<'a> {
    /// The address of a path below the provider's own; a query of the provider's address is kept.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        if url.path().trim_end_matches('/').ends_with(&format!("/{path}")) {
            // People paste the whole address.
            return url;
        }
        let below = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&below);
        url
    }

    pub(super) fn generation(&self) -> &'a Generation {
        &self.round.session.settings.generation
    }

    /// The limit of tokens for the answer. What a session declares wins over what the operator said of the model, whose
    /// limit holds all the same.
    pub(super) fn max_tokens(&self) -> Option<u32> {
        [self.generation().max_tokens, self.model.and_then(|model| model.max_tokens)].into_iter().flatten().min()
    }

    fn prompts_schema(&self) -> bool {
        self.model.is_some_and(|model| model.supports_json_schema == Some(false))
    }

    /// The system prompt.
    pub(super) fn system(&self) -> String {
        let mut system = self.round.session.system.clone();
        if let Some((name, schema)) = self.round.schema.as_ref().filter(|_| self.prompts_schema()) {
            let _ = write!(
                system,
                "\n\nAnswer with one JSON value that passes this JSON Schema ({name}), without any other text:\n{}",
                schema.to_json()
            );
        }
        system
    }

    /// The schema that the provider holds the answer to, with its name.
    pub(super) fn schema(&self) -> Option<(String, Json)> {
        let (name, schema) = self.round.schema.as_ref().filter(|_| !self.prompts_schema())?;
        Some((super::super::wire::plain(name), Json::from(schema)))
    }

    /// The tools, by their names on the wire.
    pub(super) fn tools(&self) -> impl Iterator<Item = (String, &'a str, Json)> {
        let tools = self.round.session.tools.iter();
        tools.map(|tool| (self.names.to_wire(&tool.name), tool.description.as_str(), Json::from(&tool.parameters)))
    }

    /// Only the first round of a turn: one that must call a tool forever never answers.
    pub(super) fn must_call(&self) -> bool {
        let begins = self.round.messages.last().is_none_or(|message| message.role == Role::User);
        self.generation().tool_required && begins && !self.round.session.tools.is_empty()
    }

    /// A model that does not think is asked for no thinking by leaving the parameter out: many refuse it.
    pub(super) fn effort(&self) -> Option<Effort> {
        let supports = self.model.and_then(|model| model.supports_reasoning);
        match (self.round.session.settings.thinking_level?, supports) {
            (_, Some(false)) | (ThinkingLevel::Off, None) => None,
            (ThinkingLevel::Off, Some(true)) => Some(Effort::Off),
            (ThinkingLevel::Minimal, _) => Some(Effort::Minimal),
            (ThinkingLevel::Low, _) => Some(Effort::Low),
            (ThinkingLevel::Medium, _) => Some(Effort::Medium),
            (ThinkingLevel::High, _) => Some(Effort::High),
            (ThinkingLevel::Xhigh, _) => Some(Effort::ExtraHigh),
        }
    }

    /// The provider's own word for the effort, where the session has one and the model thinks.
    pub(super) fn effort_word(&self) -> Option<&'a str> {
        let thinks = self.model.and_then(|model| model.supports_reasoning) != Some(false);
        self.round.session.settings.effort_override.as_deref().filter(|_| thinks)
    }

    /// The speed that the session asks for.
    pub(super) fn speed(&self) -> Option<SpeedMode> {
        self.round.session.settings.speed_mode
    }

    /// The tier that OpenAI's protocols call the speed.
    pub(super) fn service_tier(&self) -> Option<&'static str> {
        self.speed().filter(|_| self.api != Api::Ollama).map(|speed| match speed {
            SpeedMode::Standard => "default",
            SpeedMode::Fast => "priority",
        })
    }

    /// The conversation.
    pub(super) fn turns(&self) -> Vec<Turn<'a>> {
        let mut turns: Vec<Turn<'a>> = Vec::new();
        for message in self.round.messages.iter() {
            match (message.role, turns.last_mut()) {
                (Role::User, _) => turns.push(Turn::User(&message.content)),
                (Role::Assistant, _) => turns.push(Turn::Assistant(message)),
                (Role::Tool, Some(Turn::Results(results))) => results.push(message),
                (Role::Tool, _) => turns.push(Turn::Results(vec![message])),
            }
        }
        turns
    }

    /// The wire names of all calls of the conversation, by id.
    pub(super) fn called(&self) -> HashMap<&'a str, String> {
        let calls = self.round.messages.iter().flat_map(|message| &message.tool_calls);
        calls.map(|call| (call.id.as_str(), self.names.to_wire(&call.name))).collect()
    }

    /// The provider's own form of a message, when it was this model that said it.
    pub(super) fn continuation(&self, message: &Message) -> Option<Json> {
        let kept = message.continuation.as_ref()?;
        (kept.get("model").and_then(Value::as_str) == Some(&self.round.model)).then_some(())?;
        kept.get("kept").map(Json::from)
    }

    /// Sets what a protocol has no place of its own for: parameters of the generation, and log probabilities.
    pub(super) fn finish(&self, mut body: Json, path: &str) -> Outgoing {
        if let Some(asked) = logprobs::request(self.api, &self.round.session.settings) {
            merge(&mut body, asked);
        }
        Outgoing { url: self.url(path), headers: Vec::new(), body }
    }
}

/// The arguments of a call as a provider accepts them back: an object. What is none is put into one, for many servers
/// refuse a conversation whose arguments are not JSON.
pub(super) fn sent_arguments(call: &ToolCallRequest) -> Json {
    match Json::from(&call.arguments) {
        object @ Json::Object(_) => object,
        other => json!({ "invalid_arguments": other }),
    }
}

/// Sets an entry of a body.
pub(super) fn set(body: &mut Json, key: &str, value: impl Into<Json>) {
    if let Some(body) = body.as_object_mut() {
        body.insert(key.to_owned(), value.into());
    }
}

/// Sets an entry of a body, if there is a value.
pub(super) fn set_some<T: Into<Json>>(body: &mut Json, key: &str, value: Option<T>) {
    if let Some(value) = value {
        set(body, key, value);
    }
}

/// Puts the entries of one object into another, one level deep.
pub(super) fn merge(body: &mut Json, more: Json) {
    let (Some(body), Json::Object(more)) = (body.as_object_mut(), more) else { return };
    for (key, value) in more {
        match (body.get_mut(&key), value) {
            (Some(Json::Object(there)), Json::Object(value)) => there.extend(value),
            (Some(Json::Array(there)), Json::Array(value)) => there.extend(value),
            (_, value) => drop(body.insert(key, value)),
        }
    }
}

/// The entries of an object.
pub(super) fn entries(value: &Json) -> Map<String, Json> {
    value.as_object().cloned().unwrap_or_default()
}
