//! Requests of OpenAI's responses.

use super::attachments::responses_part;
use super::cache;
use super::chat_request::effort;
use super::request::{Ask, Outgoing, Turn, sent_arguments, set, set_some};
use super::strict_schema::{is_strict, strict};
use opcell_engine::conversation::{Message, ToolCallRequest};
use serde_json::{Value as Json, json};

/// Models that think, by the beginning of their names: asked for encrypted thoughts, others refuse.
const THINKING: [&str; 7] = ["gpt-5", "gpt-6", "gpt-oss", "o1", "o3", "o4", "codex"];

pub(super) fn outgoing(ask: &Ask<'_>) -> Outgoing {
    // Nothing is stored: a conversation is this host's.
    let mut body = json!({"store": false, "model": ask.id, "stream": ask.streamed});
    let system = ask.system();
    if !system.is_empty() {
        set(&mut body, "instructions", system);
    }
    if let Some(word) = ask.effort_word().or_else(|| ask.effort().map(effort)) {
        set(&mut body, "reasoning", json!({"effort": word}));
    }
    set_some(&mut body, "service_tier", ask.service_tier());
    let named_so = THINKING.iter().any(|name| ask.id.starts_with(name)) && !ask.id.contains("-chat");
    let thinks = ask.model.and_then(|model| model.supports_reasoning);
    if thinks.unwrap_or(ask.effort().is_some() || ask.effort_word().is_some() || named_so) {
        set(&mut body, "include", json!(["reasoning.encrypted_content"]));
    }
    let tools = ask.tools().map(|(name, description, parameters)| {
        let strict = is_strict(&parameters);
        json!({"type": "function", "name": name, "description": description, "parameters": parameters, "strict": strict})
    });
    let tools: Vec<Json> = tools.collect();
    if !tools.is_empty() {
        set(&mut body, "tools", tools);
    }
    set_some(&mut body, "tool_choice", ask.must_call().then_some("required"));
    set(&mut body, "input", input(ask));
    if let Some((name, schema)) = ask.schema() {
        let format = json!({"type": "json_schema", "name": name, "strict": true, "schema": strict(&schema, true)});
        set(&mut body, "text", json!({ "format": format }));
    }
    set_some(&mut body, "temperature", ask.round.session.settings.temperature);
    set_some(&mut body, "max_output_tokens", ask.max_tokens());
    set_some(&mut body, "top_p", ask.generation().top_p);
    let cache_key = ask.caches.then(|| cache::openai_key(ask.base_url, &ask.round.session)).flatten();
    set_some(&mut body, "prompt_cache_key", cache_key);
    let mut outgoing = ask.finish(body, "responses");
    outgoing.headers.extend(ask.key.map(|key| ("authorization", format!("Bearer {key}"))));
    outgoing
}

fn input(ask: &Ask<'_>) -> Vec<Json> {
    let mut input = Vec::new();
    for turn in ask.turns() {
        match turn {
            Turn::User(text) => input.push(json!({"role": "user", "content": text})),
            Turn::Assistant(message) => input.extend(assistant(ask, message)),
            Turn::Results(results) => input.extend(results.into_iter().map(|result| {
                let output = output(ask, result);
                json!({"type": "function_call_output", "call_id": result.tool_call_id, "output": output})
            })),
        }
    }
    input
}

/// The text of a result, and its attachments.
fn output(ask: &Ask<'_>, result: &Message) -> Json {
    let text = ask.result_text(result);
    let attachments = ask.attachments(result);
    match attachments.is_empty() {
        true => text.into(),
        false => {
            let text = json!({"type": "input_text", "text": text});
            std::iter::once(text).chain(attachments.into_iter().map(responses_part)).collect()
        }
    }
}

fn assistant(ask: &Ask<'_>, message: &Message) -> Vec<Json> {
    let mut calls = message.tool_calls.iter();
    if let Some(Json::Array(items)) = ask.continuation(message) {
        let item = |item: Json| match item["type"] == "function_call" {
            true => calls.next().map(|made| call(ask, made)),
            false => Some(item),
        };
        let mut sent: Vec<Json> = items.into_iter().filter_map(item).collect();
        sent.extend(calls.map(|made| call(ask, made)));
        return sent;
    }
    let text = (!message.content.is_empty()).then(|| {
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": message.content}]})
    });
    text.into_iter().chain(calls.map(|made| call(ask, made))).collect()
}

fn call(ask: &Ask<'_>, call: &ToolCallRequest) -> Json {
    json!({"type": "function_call", "call_id": call.id, "name": ask.names.to_wire(&call.name),
        "arguments": sent_arguments(call).to_string()})
}
