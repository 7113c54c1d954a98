//! Requests of OpenAI's chat completions.

use super::attachments::chat_part;
use super::cache;
use super::request::{Ask, Effort, Outgoing, Turn, entries, sent_arguments, set, set_some};
use super::strict_schema::{is_strict, strict};
use opcell_engine::conversation::Message;
use serde_json::{Map, Value as Json, json};

/// Models that take the limit of tokens under its newer name only.
const NEWER_LIMIT: [&str; 5] = ["gpt-5", "gpt-6", "o1", "o3", "o4"];

pub(super) fn outgoing(ask: &Ask<'_>) -> Outgoing {
    let mut body = json!({"model": ask.id, "stream": ask.streamed});
    set_some(&mut body, "reasoning_effort", ask.effort_word().or_else(|| ask.effort().map(effort)));
    set_some(&mut body, "service_tier", ask.service_tier());
    let tools: Vec<Json> =
        ask.tools().map(|(name, description, parameters)| tool(&name, description, parameters)).collect();
    if !tools.is_empty() {
        set(&mut body, "tools", tools);
    }
    set_some(&mut body, "tool_choice", ask.must_call().then_some("required"));
    set(&mut body, "messages", messages(ask));
    if let Some((name, schema)) = ask.schema() {
        let format = json!({"name": name, "strict": true, "schema": strict(&schema, true)});
        set(&mut body, "response_format", json!({"type": "json_schema", "json_schema": format}));
    }
    if ask.streamed {
        set(&mut body, "stream_options", json!({"include_usage": true}));
    }
    let generation = ask.generation();
    set_some(&mut body, "temperature", ask.round.session.settings.temperature);
    let limit = match NEWER_LIMIT.iter().any(|name| ask.id.starts_with(name)) {
        true => "max_completion_tokens",
        false => "max_tokens",
    };
    set_some(&mut body, limit, ask.max_tokens());
    set_some(&mut body, "top_p", generation.top_p);
    set_some(&mut body, "frequency_penalty", generation.frequency_penalty);
    set_some(&mut body, "presence_penalty", generation.presence_penalty);
    let cache_key = ask.caches.then(|| cache::openai_key(ask.base_url, &ask.round.session)).flatten();
    set_some(&mut body, "prompt_cache_key", cache_key);
    let mut outgoing = ask.finish(body, "chat/completions");
    outgoing.headers.extend(ask.key.map(|key| ("authorization", format!("Bearer {key}"))));
    outgoing
}

/// The word for an effort, of both of OpenAI's protocols.
pub(super) fn effort(effort: Effort) -> &'static str {
    match effort {
        Effort::Off => "none",
        Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
        Effort::ExtraHigh => "xhigh",
    }
}

fn tool(name: &str, description: &str, parameters: Json) -> Json {
    let strict = is_strict(&parameters);
    json!({"type": "function", "function": {
        "name": name, "description": description, "parameters": parameters, "strict": strict}})
}

fn messages(ask: &Ask<'_>) -> Vec<Json> {
    let system = ask.system();
    // Some servers refuse a message without a text.
    let system = (!system.is_empty()).then(|| json!({"role": "system", "content": system}));
    let mut messages: Vec<Json> = system.into_iter().collect();
    for turn in ask.turns() {
        match turn {
            Turn::User(text) => messages.push(json!({"role": "user", "content": text})),
            Turn::Assistant(message) => messages.push(assistant(ask, message)),
            Turn::Results(results) => {
                messages.extend(results.iter().map(|result| {
                    json!({"role": "tool", "content": ask.result_text(result), "tool_call_id": result.tool_call_id})
                }));
                messages.extend(attachments(ask, &results));
            }
        }
    }
    messages
}

/// The attachments of results, which have no place in the results themselves.
fn attachments<'a>(ask: &Ask<'a>, results: &[&'a Message]) -> Option<Json> {
    let mut parts: Vec<Json> = Vec::new();
    for result in results {
        let attachments = ask.attachments(result);
        if !attachments.is_empty() {
            let call = result.tool_call_id.as_deref().unwrap_or_default();
            parts.push(json!({"type": "text", "text": format!("The attachments of the result of call {call}:")}));
            parts.extend(attachments.into_iter().map(chat_part));
        }
    }
    (!parts.is_empty()).then(|| json!({"role": "user", "content": parts}))
}

fn assistant(ask: &Ask<'_>, message: &Message) -> Json {
    let kept = ask.continuation(message).unwrap_or_default();
    let content = match &kept["content"] {
        Json::Null => Json::from(message.content.as_str()),
        parts => parts.clone(),
    };
    let mut sent = json!({"role": "assistant", "content": content});
    let calls = message.tool_calls.iter().enumerate().map(|(at, call)| {
        let function = json!({"name": ask.names.to_wire(&call.name), "arguments": sent_arguments(call).to_string()});
        let mut sent = json!({"type": "function", "id": call.id, "function": function});
        let mut more = entries(&kept["calls"][at]);
        if let Some(signed) = more.remove("function") {
            add(&mut sent["function"], entries(&signed));
        }
        add(&mut sent, more);
        sent
    });
    let calls: Vec<Json> = calls.collect();
    if !calls.is_empty() {
        set(&mut sent, "tool_calls", calls);
    }
    add(&mut sent, entries(&kept["fields"]));
    sent
}

fn add(object: &mut Json, more: Map<String, Json>) {
    more.into_iter().for_each(|(key, value)| set(object, &key, value));
}
