//! Answers of OpenAI's chat completions, and of the many servers that speak something like it.

use super::super::answer::{
    Answer, AnswerEnd, CallDrafts, Close, Event, Fault, Finish, Given, Ignored, Piece, Protocol, Tokens, count,
    error_in,
};
use super::super::config::Api;
use super::super::logprobs;
use super::chat_fields::Fields;
use opcell_types::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

/// Known fields of a choice, a message and a call; all others are counted.
const CHOICE_KEYS: [&str; 12] = [
    "index",
    "delta",
    "message",
    "text",
    "finish_reason",
    "native_finish_reason",
    "logprobs",
    "error",
    "stop_reason",
    "content_filter_results",
    "content_filter_offsets",
    "token_ids",
];
const MESSAGE_KEYS: [&str; 17] = [
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "reasoning_details",
    "thinking_blocks",
    "annotations",
    "audio",
    "provider_specific_fields",
    "images",
    "name",
    "context",
    "obfuscation",
    "padding",
];
const CALL_KEYS: [&str; 6] = ["id", "index", "type", "function", "name", "arguments"];

/// A chat completion while it comes.
pub(super) struct Chat {
    /// The index of the choice that is read: the first one.
    choice: Option<Option<i64>>,
    text: String,
    refusal: String,
    calls: CallDrafts,
    /// The one call of the old form, which some servers still use, or send beside the new one.
    legacy: CallDrafts,
    fields: Fields,
    tokens: Tokens,
    ending: AnswerEnd,
    ignored: Ignored,
    wants_logprobs: bool,
    logprobs: Option<Value>,
    events: u64,
    has_whole: bool,
}

impl Chat {
    pub(super) fn new(known: HashSet<String>, wants_logprobs: bool) -> Self {
        Self {
            choice: None,
            text: String::new(),
            refusal: String::new(),
            calls: CallDrafts::new(known),
            legacy: CallDrafts::default(),
            fields: Fields::default(),
            tokens: Tokens::default(),
            ending: AnswerEnd::default(),
            ignored: Ignored::default(),
            wants_logprobs,
            logprobs: None,
            events: 0,
            has_whole: false,
        }
    }

    fn choice(&mut self, choice: &Json, whole: bool, show: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let index = choice["index"].as_i64();
        if *self.choice.get_or_insert(index) != index {
            self.ignored.note("choice");
            return Ok(());
        }
        if let Some(fault) = choice.get("error").and_then(|_| error_in(choice, None, true)) {
            return Err(fault);
        }
        self.note_unknown(choice, &CHOICE_KEYS, "choice");
        let (message, is_whole) = match (&choice["delta"], &choice["message"]) {
            (delta @ Json::Object(entries), message) if !entries.is_empty() || !message.is_object() => (delta, false),
            (_, message @ Json::Object(_)) => (message, true),
            _ => (&Json::Null, false),
        };
        if is_whole && !whole && !(self.text.is_empty() && self.calls.is_empty()) {
            // The last event of some servers repeats the whole message.
            self.ignored.note("message");
        } else {
            self.message(message, is_whole, show)?;
            if let (Json::Null, Json::String(text)) = (message, &choice["text"]) {
                self.say(text, show);
            }
        }
        if let Some(said) = choice["finish_reason"].as_str() {
            self.ending.update(AnswerEnd::of(said));
        }
        if let Some(native) = choice["native_finish_reason"].as_str() {
            // A gateway's own word for an ending hides what the provider said.
            let native = AnswerEnd::of(native);
            if matches!(native.finish, Finish::Refused | Finish::Malformed | Finish::Broken | Finish::ContextFull) {
                self.ending.update(native);
            }
        }
        Ok(())
    }

    fn message(&mut self, message: &Json, whole: bool, show: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        self.note_unknown(message, &MESSAGE_KEYS, "message");
        self.fields.take(message);
        match &message["content"] {
            Json::String(text) => self.say(text, show),
            Json::Array(parts) => parts.iter().for_each(|part| self.part(part, show)),
            part @ Json::Object(_) => self.part(part, show),
            _ => {}
        }
        if let Json::String(words) = &message["refusal"] {
            self.refusal.push_str(words);
        }
        let event = self.events;
        match &message["tool_calls"] {
            Json::Array(calls) => {
                for call in calls {
                    self.call(call, event, whole)?;
                }
            }
            call @ Json::Object(_) => self.call(call, event, whole)?,
            _ => {}
        }
        if message["function_call"].is_object() {
            let piece = piece(&message["function_call"], Some(0), event, whole);
            self.legacy.push(piece)?;
        }
        Ok(())
    }

    fn call(&mut self, call: &Json, event: u64, whole: bool) -> Result<(), Fault> {
        if !call.is_object() {
            return Ok(());
        }
        let function = if call["function"].is_object() { &call["function"] } else { call };
        let index = &call["index"];
        let index =
            index.as_i64().or_else(|| index.as_f64().map(|at| at as i64)).or_else(|| index.as_str()?.parse().ok());
        let mut piece = piece(function, index, event, whole);
        piece.id = match &call["id"] {
            Json::String(id) => id.clone(),
            Json::Number(id) => id.to_string(),
            _ => String::new(),
        };
        let more = call.as_object().into_iter().flatten();
        let more = more.filter(|(key, value)| !CALL_KEYS.contains(&key.as_str()) && !value.is_null());
        piece.extra = more.map(|(key, value)| (key.clone(), value.clone())).collect();
        self.calls.push(piece)
    }

    fn part(&mut self, part: &Json, show: &mut dyn FnMut(&str)) {
        match (part["type"].as_str(), &part["text"]) {
            (None | Some("text" | "output_text"), Json::String(text)) => self.say(text, show),
            (Some("refusal"), _) => self.refusal.push_str(part["refusal"].as_str().unwrap_or_default()),
            (Some("thinking" | "reasoning" | "reference"), _) => self.fields.part(part),
            (kind, _) => self.ignored.note(kind.unwrap_or("part")),
        }
    }

    fn say(&mut self, text: &str, show: &mut dyn FnMut(&str)) {
        self.text.push_str(text);
        self.fields.said(text);
        show(text);
    }

    fn note_unknown(&mut self, object: &Json, known: &[&str], of: &str) {
        for (key, value) in object.as_object().into_iter().flatten() {
            if !known.contains(&key.as_str()) && !value.is_null() {
                self.ignored.note(&format!("{of}.{key}"));
            }
        }
    }
}

/// A piece of a call as `{name, arguments}` has it.
fn piece(function: &Json, index: Option<i64>, event: u64, whole: bool) -> Piece {
    // Models that were taught another form put the arguments elsewhere, and servers pass that on.
    let arguments = ["arguments", "parameters", "input", "args"].iter().find_map(|key| function.get(*key));
    Piece {
        id: String::new(),
        index,
        name: function["name"].as_str().unwrap_or_default().to_owned(),
        arguments: Given::of(arguments),
        event,
        whole,
        extra: Map::new(),
    }
}

impl Protocol for Chat {
    fn event(&mut self, event: Event<'_>, show: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        self.events += 1;
        let document = event.data;
        let has_choices = matches!(&document["choices"], Json::Array(choices) if !choices.is_empty());
        if let Some(fault) = error_in(&document, event.name, has_choices || document["usage"].is_object()) {
            return Err(fault);
        }
        let usage = if document["usage"].is_object() { &document["usage"] } else { &document["x_groq"]["usage"] };
        let of = |names: [&str; 2]| names.iter().find_map(|name| count(&usage[*name]));
        self.tokens.update(of(["prompt_tokens", "input_tokens"]), of(["completion_tokens", "output_tokens"]));
        if self.wants_logprobs && self.logprobs.is_none() {
            self.logprobs = logprobs::read(Api::OpenaiCompletions, &document);
        }
        self.has_whole |= event.whole;
        match &document["choices"] {
            Json::Array(choices) => choices.iter().try_for_each(|choice| self.choice(choice, event.whole, show)),
            choice @ Json::Object(_) => self.choice(choice, event.whole, show),
            _ if document["message"].is_object() => {
                // The form of Ollama's own interface, which some proxies pass on.
                let choice = json!({"message": document["message"], "finish_reason": document["done_reason"]});
                self.choice(&choice, event.whole, show)
            }
            _ => Ok(()),
        }
    }

    fn end(&mut self, close: Close) -> Result<Option<Answer>, Fault> {
        if self.choice.is_none() {
            return match close {
                Close::Unmarked => Ok(None),
                Close::Complete => Err(Fault::malformed("it has no choices")),
            };
        }
        if close == Close::Unmarked && self.ending.finish == Finish::Unsaid {
            return Ok(None);
        }
        let calls = if self.calls.is_empty() { &mut self.legacy } else { &mut self.calls };
        let (calls, extras) = std::mem::take(calls).finish();
        if !self.refusal.trim().is_empty() && calls.is_empty() {
            let refused =
                AnswerEnd { finish: Finish::Refused, said: "refusal".to_owned(), words: Some(self.refusal.clone()) };
            self.ending.update(refused);
        }
        Ok(Some(Answer {
            kept: self.fields.continuation(!calls.is_empty(), extras),
            text: std::mem::take(&mut self.text),
            calls,
            tokens: self.tokens,
            ending: std::mem::take(&mut self.ending),
            logprobs: self.logprobs.take(),
            ignored: std::mem::take(&mut self.ignored),
        }))
    }

    fn is_over(&self) -> bool {
        false
    }
}
