//! Requests of Google's `generateContent`.

use super::attachments::gemini_part;
use super::request::{Ask, Effort, Outgoing, Turn, sent_arguments, set, set_some};
use opcell_engine::conversation::{Attachment, Message, ToolCallRequest};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

/// Tokens that a model may think, by effort.
const THINK_LOW: u32 = 1000;
const THINK_MEDIUM: u32 = 8000;
const THINK_HIGH: u32 = 24_000;

/// The signature that newer models accept for a first call of a turn that has none, such as one of another model.
const UNSIGNED: &str = "skip_thought_signature_validator";

pub(super) fn outgoing(ask: &Ask<'_>) -> Outgoing {
    let mut body = json!({});
    let system = ask.system();
    if !system.is_empty() {
        set(&mut body, "systemInstruction", json!({"parts": [{"text": system}]}));
    }
    let tools = ask.tools().map(|(name, description, parameters)| {
        json!({"name": name, "description": description, "parametersJsonSchema": parameters})
    });
    let tools: Vec<Json> = tools.collect();
    if !tools.is_empty() {
        set(&mut body, "tools", json!([{"functionDeclarations": tools}]));
    }
    if ask.must_call() {
        set(&mut body, "toolConfig", json!({"functionCallingConfig": {"mode": "ANY"}}));
    }
    set(&mut body, "contents", contents(ask));
    let config = config(ask);
    if !config.is_empty() {
        set(&mut body, "generationConfig", config);
    }
    let method = if ask.streamed { "streamGenerateContent" } else { "generateContent" };
    let mut outgoing = ask.finish(body, &format!("models/{}:{method}", ask.id));
    if ask.streamed {
        outgoing.url.query_pairs_mut().append_pair("alt", "sse");
    }
    outgoing.headers.extend(ask.key.map(|key| ("x-goog-api-key", key.to_owned())));
    outgoing
}

fn config(ask: &Ask<'_>) -> Map<String, Json> {
    let mut config = json!({});
    match (ask.effort_word(), ask.effort()) {
        (Some(word), _) => set(&mut config, "thinkingConfig", json!({"thinkingLevel": word.to_ascii_uppercase()})),
        (None, Some(effort)) => set_some(&mut config, "thinkingConfig", thinking(ask.id, effort)),
        (None, None) => {}
    }
    if let Some((_, schema)) = ask.schema() {
        set(&mut config, "responseMimeType", "application/json");
        set(&mut config, "responseJsonSchema", schema);
    }
    let generation = ask.generation();
    set_some(&mut config, "temperature", ask.round.session.settings.temperature);
    set_some(&mut config, "maxOutputTokens", ask.max_tokens());
    set_some(&mut config, "topP", generation.top_p);
    set_some(&mut config, "topK", generation.top_k);
    set_some(&mut config, "frequencyPenalty", generation.frequency_penalty);
    set_some(&mut config, "presencePenalty", generation.presence_penalty);
    super::request::entries(&config)
}

fn thinking(model: &str, effort: Effort) -> Option<Json> {
    if ["gemini-3", "gemma-4"].iter().any(|name| model.contains(name)) {
        let level = match effort {
            Effort::Off => return None,
            Effort::Minimal => "MINIMAL",
            Effort::Low => "LOW",
            Effort::Medium => "MEDIUM",
            Effort::High | Effort::ExtraHigh => "HIGH",
        };
        return Some(json!({"thinkingLevel": level}));
    }
    let budget = match effort {
        Effort::Off => return None,
        Effort::Minimal | Effort::Low => THINK_LOW,
        Effort::Medium => THINK_MEDIUM,
        Effort::High | Effort::ExtraHigh => THINK_HIGH,
    };
    Some(json!({"thinkingBudget": budget}))
}

fn contents(ask: &Ask<'_>) -> Vec<Json> {
    let called = ask.called();
    // The ids that Gemini gave; calls without one are matched by their order.
    let mut given: HashMap<&str, String> = HashMap::new();
    let mut contents = Vec::new();
    for turn in ask.turns() {
        match turn {
            Turn::User(text) => contents.push(json!({"role": "user", "parts": [{"text": text}]})),
            Turn::Assistant(message) => {
                let parts = assistant(ask, message, &mut given);
                if !parts.is_empty() {
                    contents.push(json!({"role": "model", "parts": parts}));
                }
            }
            Turn::Results(results) => {
                let attachments: Vec<&Attachment> = results.iter().flat_map(|result| ask.attachments(result)).collect();
                let parts = results.into_iter().map(|result| {
                    let id = result.tool_call_id.as_deref().unwrap_or_default();
                    let name = called.get(id).map_or(id, String::as_str);
                    let mut answer =
                        json!({"name": name, "response": {"name": name, "content": ask.result_text(result)}});
                    set_some(&mut answer, "id", given.get(id).cloned());
                    json!({ "functionResponse": answer })
                });
                let attachments = attachments.into_iter().map(gemini_part);
                contents.push(json!({"role": "user", "parts": parts.chain(attachments).collect::<Vec<_>>()}));
            }
        }
    }
    contents
}

fn assistant<'a>(ask: &Ask<'a>, message: &'a Message, given: &mut HashMap<&'a str, String>) -> Vec<Json> {
    let mut calls = message.tool_calls.iter();
    let mut parts: Vec<Json> = Vec::new();
    if let Some(Json::Array(kept)) = ask.continuation(message) {
        for part in kept {
            if !part["functionCall"].is_object() {
                parts.push(part);
                continue;
            }
            let Some(made) = calls.next() else { continue };
            let id = part["functionCall"]["id"].as_str().map(str::to_owned);
            let mut sent = call(ask, made, id.as_deref());
            set_some(&mut sent, "thoughtSignature", part["thoughtSignature"].as_str());
            given.extend(id.map(|id| (made.id.as_str(), id)));
            parts.push(sent);
        }
    } else if !message.content.is_empty() {
        parts.push(json!({"text": message.content}));
    }
    parts.extend(calls.map(|made| call(ask, made, None)));
    // Newer models want the first call of a turn signed.
    let first = parts.iter_mut().find(|part| part["functionCall"].is_object());
    if let Some(first) = first.filter(|first| ask.id.contains("gemini-3") && first["thoughtSignature"].is_null()) {
        set(first, "thoughtSignature", UNSIGNED);
    }
    parts
}

fn call(ask: &Ask<'_>, call: &ToolCallRequest, id: Option<&str>) -> Json {
    let mut function = json!({"name": ask.names.to_wire(&call.name), "args": sent_arguments(call)});
    set_some(&mut function, "id", id);
    json!({ "functionCall": function })
}
