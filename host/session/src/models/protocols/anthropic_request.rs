//! Requests of Anthropic's messages.

use super::anthropic_models::AnthropicModel;
use super::attachments::anthropic_part;
use super::cache;
use super::request::{Ask, Effort, Outgoing, Turn, sent_arguments, set, set_some};
use super::strict_schema::{is_strict, strict};
use opcell_engine::conversation::{Message, ToolCallRequest};
use opcell_ir::ir::SpeedMode;
use serde_json::{Map, Value as Json, json};

/// The version of the API that is spoken.
const VERSION: &str = "2023-06-01";

/// The word by which the API is asked for its fast mode, which it calls a beta.
const FAST_MODE: &str = "fast-mode-2026-02-01";

/// Tools of a request whose arguments the API holds to their schema: it refuses more.
const MAX_STRICT_TOOLS: usize = 20;

/// Tokens that an older model may think, by effort.
const THINK_LOW: u32 = 1024;
const THINK_MEDIUM: u32 = 8000;
const THINK_HIGH: u32 = 24_000;

pub(super) fn outgoing(ask: &Ask<'_>) -> Outgoing {
    let model = AnthropicModel::parse(ask.id);
    let mut body = json!({"model": ask.id, "stream": ask.streamed});
    let mut strict_tools = if model.has_strict_tools() { MAX_STRICT_TOOLS } else { 0 };
    let tools = ask.tools().map(|(name, description, schema)| {
        // The first ones, in every round the same: what is cached stays.
        let is_held = strict_tools > 0 && is_strict(&schema);
        strict_tools -= usize::from(is_held);
        tool(&name, description, schema, is_held)
    });
    let mut tools: Vec<Json> = tools.collect();
    let mut messages = messages(ask);
    let system = ask.system();
    if ask.caches {
        let mut blocks = system_blocks(ask, &system);
        cache::set_breakpoints(&mut tools, &mut blocks, &mut messages);
        set_some(&mut body, "system", Some(blocks).filter(|blocks| !blocks.is_empty()));
    } else if !system.is_empty() {
        set(&mut body, "system", system);
    }
    if !tools.is_empty() {
        set(&mut body, "tools", tools);
    }
    let forces_call = ask.must_call() && model.has_forced_calls();
    set_some(&mut body, "tool_choice", forces_call.then(|| json!({"type": "any"})));
    set(&mut body, "messages", messages);
    let mut output = Map::new();
    if let Some(effort) = ask.effort() {
        think(&mut body, &mut output, &model, effort);
    }
    if let Some(word) = ask.effort_word() {
        output.insert("effort".to_owned(), word.into());
    }
    let is_fast = ask.speed() == Some(SpeedMode::Fast);
    set_some(&mut body, "speed", is_fast.then_some("fast"));
    if let Some((_, schema)) = ask.schema() {
        output.insert("format".to_owned(), json!({"type": "json_schema", "schema": strict(&schema, false)}));
    }
    if !output.is_empty() {
        set(&mut body, "output_config", output);
    }
    if model.has_sampling() {
        set_some(&mut body, "temperature", ask.round.session.settings.temperature);
        set_some(&mut body, "top_p", ask.generation().top_p);
        set_some(&mut body, "top_k", ask.generation().top_k);
    }
    // The API wants a limit of every request.
    set(&mut body, "max_tokens", ask.max_tokens().unwrap_or_else(|| model.max_tokens()));
    let mut outgoing = ask.finish(body, "messages");
    outgoing.headers.push(("anthropic-version", VERSION.to_owned()));
    outgoing.headers.extend(is_fast.then(|| ("anthropic-beta", FAST_MODE.to_owned())));
    outgoing.headers.extend(ask.key.map(|key| ("x-api-key", key.to_owned())));
    outgoing
}

/// Words in which the API refuses schemas of strict tools that it could not compile together.
const STRICT_REFUSALS: [&str; 5] = [
    "too many strict tools",
    "schemas contains too many",
    "compiled grammar",
    "grammar compilation timed out",
    ".custom.strict",
];

/// Lets go of the strict tools of a request that the API refused because of them; returns `true` if it had any.
pub(super) fn without_strict_tools(body: &mut Json, said: &str) -> bool {
    let said = said.to_ascii_lowercase();
    if !STRICT_REFUSALS.iter().any(|words| said.contains(words)) {
        return false;
    }
    let tools = body.get_mut("tools").and_then(Json::as_array_mut).into_iter().flatten();
    tools.filter_map(|tool| tool.as_object_mut()?.remove("strict")).count() > 0
}

fn think(body: &mut Json, output: &mut Map<String, Json>, model: &AnthropicModel, effort: Effort) {
    if effort == Effort::Off {
        if model.thinks_by_default() && !model.always_thinks() {
            set(body, "thinking", json!({"type": "disabled"}));
        }
        return;
    }
    if model.has_effort() {
        let word = match effort {
            Effort::Off | Effort::Minimal | Effort::Low => "low",
            Effort::Medium => "medium",
            Effort::ExtraHigh if model.has_extra_effort() => "xhigh",
            Effort::High | Effort::ExtraHigh => "high",
        };
        output.insert("effort".to_owned(), word.into());
    }
    if model.has_adaptive_thinking() {
        set(body, "thinking", json!({"type": "adaptive", "display": "summarized"}));
    } else if !model.has_effort() {
        let budget = match effort {
            Effort::Off | Effort::Minimal | Effort::Low => THINK_LOW,
            Effort::Medium => THINK_MEDIUM,
            Effort::High | Effort::ExtraHigh => THINK_HIGH,
        };
        set(body, "thinking", json!({"type": "enabled", "budget_tokens": budget}));
    }
}

fn tool(name: &str, description: &str, schema: Json, is_strict: bool) -> Json {
    let mut tool = json!({"name": name, "input_schema": schema, "description": description});
    set_some(&mut tool, "strict", is_strict.then_some(true));
    tool
}

/// The system prompt: the part that other sessions share, and the rest.
fn system_blocks(ask: &Ask<'_>, text: &str) -> Vec<Json> {
    let (shared, rest) = text.split_at_checked(cache::stable_bytes(&ask.round.session)).unwrap_or(("", text));
    let parts = [shared, rest].into_iter().filter(|part| !part.trim().is_empty());
    parts.map(text_block).collect()
}

fn text_block(text: &str) -> Json {
    json!({"type": "text", "text": text})
}

fn messages(ask: &Ask<'_>) -> Vec<Json> {
    let mut messages = Vec::new();
    for turn in ask.turns() {
        match turn {
            // The form that takes a breakpoint, so that a message is the same with one and without.
            Turn::User(text) if ask.caches => messages.push(json!({"role": "user", "content": [text_block(text)]})),
            Turn::User(text) => messages.push(json!({"role": "user", "content": text})),
            Turn::Assistant(message) => messages.extend(assistant(ask, message)),
            Turn::Results(results) => {
                let results = results.into_iter().map(|result| {
                    let content = result_content(ask, result);
                    let mut sent =
                        json!({"type": "tool_result", "content": content, "tool_use_id": result.tool_call_id});
                    set_some(&mut sent, "is_error", result.is_error.then_some(true));
                    sent
                });
                messages.push(json!({"role": "user", "content": results.collect::<Vec<_>>()}));
            }
        }
    }
    messages
}

/// The text of a result, and its attachments.
fn result_content(ask: &Ask<'_>, result: &Message) -> Json {
    let text = ask.result_text(result);
    let attachments = ask.attachments(result);
    match attachments.is_empty() {
        true => text.into(),
        false => std::iter::once(text_block(&text)).chain(attachments.into_iter().map(anthropic_part)).collect(),
    }
}

fn assistant(ask: &Ask<'_>, message: &Message) -> Option<Json> {
    let mut calls = message.tool_calls.iter();
    let content: Vec<Json> = match ask.continuation(message) {
        Some(Json::Array(blocks)) => {
            let block = |block: Json| match block["type"] == "tool_use" {
                true => calls.next().map(|made| call(ask, made)),
                false => Some(block),
            };
            let mut sent: Vec<Json> = blocks.into_iter().filter_map(block).collect();
            sent.extend(calls.map(|made| call(ask, made)));
            sent
        }
        _ if calls.len() == 0 && !message.content.is_empty() => {
            return Some(json!({"role": "assistant", "content": message.content}));
        }
        // A text without anything in it is refused.
        _ => {
            let text = (!message.content.trim().is_empty()).then(|| text_block(&message.content));
            text.into_iter().chain(calls.map(|made| call(ask, made))).collect()
        }
    };
    (!content.is_empty()).then(|| json!({"role": "assistant", "content": content}))
}

fn call(ask: &Ask<'_>, call: &ToolCallRequest) -> Json {
    json!({"type": "tool_use", "id": call.id, "name": ask.names.to_wire(&call.name), "input": sent_arguments(call)})
}
