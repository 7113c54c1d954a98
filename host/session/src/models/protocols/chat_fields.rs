//! Fields of a chat completion beside text and calls that its provider wants back: thoughts and their signatures.

use super::super::answer::Show;
use opcell_engine::ports::AnswerPiece;
use serde_json::{Map, Value as Json, json};

/// Fields of a message that are collected: texts in pieces.
const TEXTS: [&str; 3] = ["reasoning_content", "reasoning", "thinking"];

/// Fields of a message that go back where there is a signature in them.
const SIGNED: [&str; 2] = ["provider_specific_fields", "extra_content"];

/// Fields of a message that are collected: lists of blocks, in pieces.
const LISTS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// Texts of a block that come in pieces.
const PARTS: [&str; 5] = ["text", "thinking", "summary", "signature", "data"];

/// The collected fields.
#[derive(Debug, Default)]
pub(super) struct Fields {
    texts: Map<String, Json>,
    lists: Map<String, Json>,
    signed: Map<String, Json>,
    /// The content, where it has parts that are no text.
    parts: Vec<Json>,
    has_thoughts: bool,
}

impl Fields {
    /// Takes the fields of a message, or of a part of it, and shows the reasoning in them.
    pub(super) fn take(&mut self, message: &Json, show: &mut Show<'_>) {
        show_reasoning(message, show);
        for key in TEXTS {
            match &message[key] {
                Json::String(text) => append(&mut self.texts, key, text),
                Json::Array(parts) => {
                    parts
                        .iter()
                        .filter_map(|part| part["text"].as_str())
                        .for_each(|text| append(&mut self.texts, key, text));
                }
                _ => {}
            }
        }
        for key in SIGNED {
            let Json::Object(more) = &message[key] else { continue };
            if message[key].to_string().contains("signature") {
                match self.signed.entry(key).or_insert_with(|| json!({})) {
                    Json::Object(there) => there.extend(more.clone()),
                    there => *there = more.clone().into(),
                }
            }
        }
        for key in LISTS {
            let Json::Array(blocks) = &message[key] else { continue };
            let list = self.lists.entry(key).or_insert_with(|| json!([]));
            for block in blocks.iter().filter(|block| block.is_object()) {
                add(list, block);
            }
        }
    }

    /// A part of the content that is a thought.
    pub(super) fn part(&mut self, part: &Json, show: &mut Show<'_>) {
        match &part["thinking"] {
            Json::Array(thoughts) => thoughts.iter().for_each(|thought| show_texts(thought, show)),
            _ => show_texts(part, show),
        }
        self.has_thoughts = true;
        if let (Some(Json::Object(last)), Json::Object(more)) = (self.parts.last_mut(), part)
            && last.get("type") == more.get("type")
            && let (Some(Json::Array(there)), Some(Json::Array(thoughts))) =
                (last.get_mut("thinking"), more.get("thinking"))
        {
            for thought in thoughts {
                match (there.last_mut().and_then(|last| last.get_mut("text")), &thought["text"]) {
                    (Some(Json::String(text)), Json::String(more)) => text.push_str(more),
                    _ => there.push(thought.clone()),
                }
            }
            return;
        }
        self.parts.push(part.clone());
    }

    /// Text of the content, between its thoughts.
    pub(super) fn said(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.parts.last_mut() {
            Some(Json::Object(last)) if last.get("type") == Some(&json!("text")) => append(last, "text", text),
            _ => self.parts.push(json!({"type": "text", "text": text})),
        }
    }

    /// The fields to give back with the message. Thoughts as plain text go back only with calls, which they led to:
    /// DeepSeek refuses those of a finished answer.
    pub(super) fn continuation(&mut self, has_calls: bool, extras: Vec<Map<String, Json>>) -> Option<Json> {
        let mut kept = Map::new();
        let mut fields = std::mem::take(&mut self.lists);
        fields.retain(|_, list| list.as_array().is_some_and(|list| !list.is_empty()));
        fields.extend(std::mem::take(&mut self.signed));
        if has_calls {
            fields.extend(std::mem::take(&mut self.texts));
        }
        if !fields.is_empty() {
            kept.insert("fields".to_owned(), fields.into());
        }
        if self.has_thoughts {
            kept.insert("content".to_owned(), std::mem::take(&mut self.parts).into());
        }
        if extras.iter().any(|extra| !extra.is_empty()) {
            kept.insert("calls".to_owned(), extras.into_iter().map(Json::from).collect());
        }
        (!kept.is_empty()).then(|| kept.into())
    }
}

/// Shows the reasoning of a message once: many servers send it under several names.
fn show_reasoning(message: &Json, show: &mut Show<'_>) {
    for key in TEXTS {
        match &message[key] {
            Json::String(text) if !text.is_empty() => return show(AnswerPiece::Reasoning(text)),
            Json::Array(parts) if !parts.is_empty() => return parts.iter().for_each(|part| show_texts(part, show)),
            _ => {}
        }
    }
    let blocks = LISTS.iter().find_map(|key| message[*key].as_array().filter(|blocks| !blocks.is_empty()));
    blocks.into_iter().flatten().for_each(|block| show_texts(block, show));
}

/// Shows the readable texts of a block.
fn show_texts(block: &Json, show: &mut Show<'_>) {
    let texts = ["text", "thinking", "summary"].iter().filter_map(|key| block[*key].as_str());
    texts.for_each(|text| show(AnswerPiece::Reasoning(text)));
}

fn append(entries: &mut Map<String, Json>, key: &str, more: &str) {
    match entries.get_mut(key) {
        Some(Json::String(text)) => text.push_str(more),
        _ => drop(entries.insert(key.to_owned(), Json::from(more))),
    }
}

/// Adds a block to a list, or to the block that it continues.
fn add(list: &mut Json, block: &Json) {
    let Json::Array(list) = list else { return };
    let continues = |last: &Json| {
        last["type"] == block["type"]
            && last["index"] == block["index"]
            && (block["id"].is_null() || last["id"] == block["id"])
            && block["type"] != "redacted_thinking"
            // A signature closes a block.
            && last["signature"].as_str().is_none_or(str::is_empty)
    };
    match list.last_mut().filter(|last| continues(last)) {
        Some(Json::Object(last)) => {
            for (key, value) in block.as_object().into_iter().flatten() {
                match value {
                    Json::String(more) if PARTS.contains(&key.as_str()) => append(last, key, more),
                    Json::Null => {}
                    value => drop(last.insert(key.clone(), value.clone())),
                }
            }
        }
        _ => list.push(block.clone()),
    }
}
