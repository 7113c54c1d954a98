//! Between the engine's conversations and genai's.

use super::config::{Api, ModelConfig};
use super::logprobs;
use super::script::round_number;
use genai::chat::{
    ChatMessage, ChatOptions, ChatRequest, ChatResponseFormat, ContentPart, JsonSpec, MessageContent, ReasoningEffort,
    Tool, ToolCall, ToolChoice, ToolResponse,
};
use indexmap::IndexMap;
use opcell_engine::conversation::{Message, Role, ToolCallRequest, Usage};
use opcell_engine::ports::ModelRound;
use opcell_types::Value;
use opcell_workflow::ir::{Generation, ThinkingLevel};
use std::collections::HashSet;
use std::fmt::Write as _;

/// Providers accept at most this many characters in a tool's name.
const TOOL_NAME_LIMIT: usize = 64;

/// Names of tools and schemas as every provider accepts them: letters, digits, `_` and `-`. A plugin's
/// `github/find-issue` is called `github_find-issue` on the wire, and told apart by a number where two names become the
/// same.
pub(super) struct WireNames {
    wire_to_ours: IndexMap<String, String>,
}

impl WireNames {
    pub(super) fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut wire_to_ours = IndexMap::new();
        for name in names {
            let plain = plain(name);
            let mut wire = plain.clone();
            let mut number = 2;
            while wire_to_ours.contains_key(&wire) {
                let end = format!("_{number}");
                wire = plain.chars().take(TOOL_NAME_LIMIT - end.len()).chain(end.chars()).collect();
                number += 1;
            }
            wire_to_ours.insert(wire, name.to_owned());
        }
        Self { wire_to_ours }
    }

    fn to_wire(&self, name: &str) -> String {
        self.wire_to_ours.iter().find(|(_, ours)| *ours == name).map_or_else(|| plain(name), |(wire, _)| wire.clone())
    }

    fn to_ours(&self, wire: &str) -> String {
        self.wire_to_ours.get(wire).cloned().unwrap_or_else(|| wire.to_owned())
    }
}

fn plain(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .take(TOOL_NAME_LIMIT)
        .collect()
}

/// The whole conversation as a request.
pub(super) fn request(round: &ModelRound, names: &WireNames, prompted_schema: bool) -> ChatRequest {
    let mut system = round.session.system.clone();
    if let Some((name, schema)) = round.schema.as_ref().filter(|_| prompted_schema) {
        let _ = write!(
            system,
            "\n\nAnswer with one JSON value that passes this JSON Schema ({name}), without any other text:\n{}",
            schema.to_json()
        );
    }
    let mut messages: Vec<ChatMessage> = Vec::new();
    let mut called: IndexMap<&str, &str> = IndexMap::new();
    let mut responses: Vec<ToolResponse> = Vec::new();
    for message in round.messages.iter() {
        // Answers to the calls of one message belong in one message: Anthropic refuses them one by one.
        if message.role != Role::Tool && !responses.is_empty() {
            messages.push(ChatMessage::from(std::mem::take(&mut responses)));
        }
        match message.role {
            Role::User => messages.push(ChatMessage::user(message.content.clone())),
            Role::Assistant => {
                called.extend(message.tool_calls.iter().map(|call| (call.id.as_str(), call.name.as_str())));
                messages.push(ChatMessage::assistant(assistant(message, round, names)));
            }
            Role::Tool => {
                let id = message.tool_call_id.clone().unwrap_or_default();
                let text = match message.is_error {
                    true => format!("Error: {}", message.content),
                    false => message.content.clone(),
                };
                let name = called.get(id.as_str()).map(|name| names.to_wire(name));
                let response = ToolResponse::new(id, text);
                responses.push(match name {
                    Some(name) => response.with_fn_name(name),
                    None => response,
                });
            }
        }
    }
    if !responses.is_empty() {
        messages.push(ChatMessage::from(responses));
    }
    let request = ChatRequest::new(messages).with_system(system);
    if round.session.tools.is_empty() {
        return request;
    }
    request.with_tools(round.session.tools.iter().map(|tool| {
        Tool::new(names.to_wire(&tool.name))
            .with_description(tool.description.clone())
            .with_schema(serde_json::Value::from(&tool.parameters))
    }))
}

/// What the provider said, as it said it, when it was this model; else rebuilt from text and calls.
fn assistant(message: &Message, round: &ModelRound, names: &WireNames) -> MessageContent {
    let kept =
        message.continuation.as_ref().filter(|kept| kept.get("model").and_then(Value::as_str) == Some(&round.model));
    if let Some(parts) = kept.and_then(|kept| kept.get("parts"))
        && let Ok(parts) = serde_json::from_value::<Vec<ContentPart>>(serde_json::Value::from(parts))
    {
        return MessageContent::from_parts(parts);
    }
    let text = (!message.content.is_empty()).then(|| ContentPart::Text(message.content.clone()));
    let calls = message.tool_calls.iter().map(|call| {
        ContentPart::ToolCall(ToolCall {
            call_id: call.id.clone(),
            fn_name: names.to_wire(&call.name),
            fn_arguments: serde_json::Value::from(&call.arguments),
            thought_signatures: None,
        })
    });
    MessageContent::from_parts(text.into_iter().chain(calls).collect::<Vec<_>>())
}

/// The answer as a message. Calls get ids that are unique in the conversation: not every provider gives any.
pub(super) fn reply(round: &ModelRound, names: &WireNames, content: MessageContent) -> Message {
    let mut ids: HashSet<String> =
        round.messages.iter().flat_map(|message| &message.tool_calls).map(|call| call.id.clone()).collect();
    let number = round_number(round);
    let mut parts = content.into_parts();
    let (mut texts, mut tool_calls) = (Vec::new(), Vec::new());
    let mut signed = false;
    for part in &mut parts {
        match part {
            ContentPart::Text(text) => texts.push(text.clone()),
            ContentPart::ToolCall(call) => {
                if call.call_id.is_empty() || !ids.insert(call.call_id.clone()) {
                    call.call_id = format!("call-{number}-{}", tool_calls.len());
                    ids.insert(call.call_id.clone());
                }
                signed |= call.thought_signatures.is_some();
                tool_calls.push(ToolCallRequest {
                    id: call.call_id.clone(),
                    name: names.to_ours(&call.fn_name),
                    arguments: Value::from(call.fn_arguments.clone()),
                });
            }
            ContentPart::ThoughtSignature(_) | ContentPart::ReasoningContent(_) | ContentPart::Custom(_) => {
                signed = true
            }
            ContentPart::Binary(_) | ContentPart::ToolResponse(_) => {}
        }
    }
    let continuation = signed
        .then(|| serde_json::to_value(&parts).ok())
        .flatten()
        .map(|parts| Value::object([("model", Value::from(round.model.as_str())), ("parts", Value::from(parts))]));
    Message { tool_calls, continuation, ..Message::assistant(texts.join("\n")) }
}

/// Temperature, thinking and the rest. What a session declares wins over what the operator said of the model,
/// whose limit of tokens holds all the same.
pub(super) fn options(round: &ModelRound, api: Api, model: Option<&ModelConfig>, prompted_schema: bool) -> ChatOptions {
    let settings = &round.session.settings;
    let generation = &settings.generation;
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(true);
    options.temperature = settings.temperature;
    options.top_p = generation.top_p;
    options.max_tokens = [generation.max_tokens, model.and_then(|model| model.max_tokens)].into_iter().flatten().min();
    options.extra_body = extra_body(api, generation);
    if let Some(asked) = logprobs::request(api, settings) {
        options.extra_body = Some(match options.extra_body.take() {
            Some(mut body) => {
                merge(&mut body, asked);
                body
            }
            None => asked,
        });
        options.capture_raw_body = Some(true);
    }
    options.tool_choice = must_call(round).then_some(ToolChoice::Required);
    options.reasoning_effort =
        settings.thinking_level.and_then(|level| effort(level, model.and_then(|model| model.supports_reasoning)));
    if let Some((name, schema)) = round.schema.as_ref().filter(|_| !prompted_schema) {
        let format = JsonSpec::new(plain(name), serde_json::Value::from(schema));
        options.response_format = Some(ChatResponseFormat::JsonSpec(format));
    }
    options
}

/// Puts the entries of one object into another, one level deep.
fn merge(body: &mut serde_json::Value, more: serde_json::Value) {
    let (Some(body), serde_json::Value::Object(more)) = (body.as_object_mut(), more) else { return };
    for (key, value) in more {
        match (body.get_mut(&key), value) {
            (Some(serde_json::Value::Object(there)), serde_json::Value::Object(value)) => there.extend(value),
            (_, value) => drop(body.insert(key, value)),
        }
    }
}

/// Parameters that genai has no field for, where the provider's API has one.
fn extra_body(api: Api, generation: &Generation) -> Option<serde_json::Value> {
    let mut body = serde_json::Map::new();
    let mut add = |name: &str, value: Option<serde_json::Value>| {
        if let Some(value) = value {
            body.insert(name.to_owned(), value);
        }
    };
    let (top_k, frequency, presence) = (
        generation.top_k.map(serde_json::Value::from),
        generation.frequency_penalty.map(serde_json::Value::from),
        generation.presence_penalty.map(serde_json::Value::from),
    );
    match api {
        Api::OpenaiCompletions | Api::Ollama => {
            add("frequency_penalty", frequency);
            add("presence_penalty", presence);
        }
        Api::AnthropicMessages => add("top_k", top_k),
        Api::Gemini => {
            add("topK", top_k);
            add("frequencyPenalty", frequency);
            add("presencePenalty", presence);
            return (!body.is_empty()).then(|| serde_json::json!({ "generationConfig": body }));
        }
        Api::OpenaiResponses => {}
    }
    (!body.is_empty()).then(|| body.into())
}

/// Only the first round of a turn: one that must call a tool forever never answers.
fn must_call(round: &ModelRound) -> bool {
    let begins = round.messages.last().is_none_or(|message| message.role == Role::User);
    round.session.settings.generation.tool_required && begins && !round.session.tools.is_empty()
}

/// A model that does not think is asked for no thinking by leaving the parameter out: many refuse it.
fn effort(level: ThinkingLevel, supports_reasoning: Option<bool>) -> Option<ReasoningEffort> {
    match (level, supports_reasoning) {
        (_, Some(false)) | (ThinkingLevel::Off, None) => None,
        (ThinkingLevel::Off, Some(true)) => Some(ReasoningEffort::Zero),
        (ThinkingLevel::Minimal, _) => Some(ReasoningEffort::Minimal),
        (ThinkingLevel::Low, _) => Some(ReasoningEffort::Low),
        (ThinkingLevel::Medium, _) => Some(ReasoningEffort::Medium),
        (ThinkingLevel::High, _) => Some(ReasoningEffort::High),
        (ThinkingLevel::Xhigh, _) => Some(ReasoningEffort::XHigh),
    }
}

/// Tokens as the provider counted them, and their price where the operator said it.
pub(super) fn usage(usage: &genai::chat::Usage, model: Option<&ModelConfig>) -> Usage {
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or(0);
    let (input_tokens, output_tokens) = (count(usage.prompt_tokens), count(usage.completion_tokens));
    let price = model.and_then(|model| Some((model.input_cost?, model.output_cost?)));
    let cost = price.map(|(input, output)| (input_tokens as f64 * input + output_tokens as f64 * output) / 1e6);
    Usage { input_tokens, output_tokens, cost }
}
