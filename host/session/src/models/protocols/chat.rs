//! Answers of OpenAI's chat completions, and of the many servers that speak something like it.

use super::super::answer::{
    Answer, AnswerEnd, CallDrafts, CallPreview, Close, Event, Fault, Finish, Given, Ignored, Piece, Protocol, Show,
    Tokens, count, error_in, parse, parts_of, text_in, unwrapped, whole_number,
};
use super::super::config::Api;
use super::super::logprobs;
use super::chat_fields::Fields;
use opcell_engine::ports::AnswerPiece;
use opcell_types::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

/// Known fields of a choice, a message and a call; all others are counted.
const CHOICE_KEYS: [&str; 15] = [
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
    "tool_calls",
    "function_call",
    "usage",
];
const MESSAGE_KEYS: [&str; 19] = [
    "role",
    "content",
    "refusal",
    "tool_calls",
    "function_call",
    "reasoning_content",
    "reasoning",
    "thinking",
    "reasoning_details",
    "thinking_blocks",
    "extra_content",
    "annotations",
    "audio",
    "provider_specific_fields",
    "images",
    "name",
    "context",
    "obfuscation",
    "padding",
];
const CALL_KEYS: [&str; 7] = ["id", "index", "type", "function", "custom", "name", "arguments"];

/// Pieces that are held until it is clear whether they belong to the answer.
const MAX_LATER: usize = 1 << 16;

/// Fields of a call's function that its provider wants back: signatures of thoughts.
const FUNCTION_KEYS: [&str; 3] = ["provider_specific_fields", "extra_content", "thought_signature"];

/// A chat completion while it comes.
pub(super) struct Chat {
    /// The index of the choice that is read: the first one.
    choice: Option<i64>,
    /// Pieces of choices that followed the first one: others, or its next pieces where a server counts pieces.
    later: Vec<(i64, Json)>,
    /// True if a piece of the first choice came after one of another.
    has_several: bool,
    /// True if a piece was a delta, and no whole message.
    has_delta: bool,
    is_over: bool,
    text: String,
    refusal: String,
    calls: CallDrafts,
    /// The one call of the old form, which some servers still use, or send beside the new one.
    legacy: CallDrafts,
    preview: CallPreview,
    legacy_preview: CallPreview,
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
            later: Vec::new(),
            has_several: false,
            has_delta: false,
            is_over: false,
            text: String::new(),
            refusal: String::new(),
            calls: CallDrafts::new(known),
            legacy: CallDrafts::default(),
            preview: CallPreview::default(),
            legacy_preview: CallPreview::default(),
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

    /// Takes the choices of an event. No more than one is asked for; more of them are ignored.
    fn choices(&mut self, choices: &[Json], whole: bool, show: &mut Show<'_>) -> Result<(), Fault> {
        for (place, choice) in choices.iter().enumerate() {
            let index = whole_number(&choice["index"]);
            let first = *self.choice.get_or_insert(index.unwrap_or_default());
            if index.is_none_or(|index| index == first) && (place == 0 || index.is_some()) {
                let others = std::mem::take(&mut self.later);
                self.has_several |= !others.is_empty();
                others.iter().for_each(|_| self.ignored.note("choice"));
                self.choice(choice, whole, show)?;
            } else if let (0, Some(index), false) = (place, index, self.has_several || whole) {
                if self.later.len() >= MAX_LATER {
                    let what =
                        format!("it has more than {MAX_LATER} pieces in a row of choices that were not asked for");
                    return Err(Fault::malformed(what));
                }
                self.later.push((index, choice.clone()));
            } else {
                self.ignored.note("choice");
            }
        }
        Ok(())
    }

    /// Takes the pieces whose index is not the first one's: they are the one choice where each has the next index, as
    /// servers write that count pieces.
    fn take_later(&mut self) -> Result<(), Fault> {
        let later = std::mem::take(&mut self.later);
        let mut next = self.choice.unwrap_or_default();
        let mut counts = later.iter().all(|(index, _)| {
            next = next.saturating_add(1);
            *index == next
        });
        counts &= self.ending.finish == Finish::Unsaid;
        for (_, choice) in &later {
            // An event each: entries of one event are calls of their own.
            self.events += 1;
            match counts {
                true => self.choice(choice, false, &mut |_| {})?,
                false => self.ignored.note("choice"),
            }
        }
        Ok(())
    }

    fn choice(&mut self, choice: &Json, whole: bool, show: &mut Show<'_>) -> Result<(), Fault> {
        if let Some(fault) = choice.get("error").and_then(|_| error_in(choice, None, true)) {
            return Err(fault);
        }
        self.note_unknown(choice, &CHOICE_KEYS, "choice");
        let (message, is_whole) = match (&choice["delta"], &choice["message"]) {
            (delta @ Json::Object(entries), message) if !entries.is_empty() || !message.is_object() => (delta, false),
            (_, message @ Json::Object(_)) => (message, true),
            _ => (&Json::Null, false),
        };
        // An object with a type, as SGLang has it.
        let said = choice["finish_reason"].as_str().or_else(|| choice["finish_reason"]["type"].as_str());
        let said = said.map(AnswerEnd::of).unwrap_or_default();
        let is_end = said.finish != Finish::Unsaid;
        if is_whole && !whole && self.repeats(message, is_end) {
            self.ignored.note("message");
            self.repeated(message, show)?;
        } else {
            self.has_delta |= !is_whole && !message.is_null();
            self.message(message, whole, show)?;
            let bare = ["delta", "message", "text"].iter().find_map(|key| choice[*key].as_str());
            if let (Json::Null, Some(text)) = (message, bare) {
                self.say(text, show);
            }
            if ["tool_calls", "function_call"].iter().all(|key| is_without_calls(&message[*key])) {
                self.all_calls(choice, whole, show)?;
            }
        }
        self.ending.update(said);
        if let Some(native) = choice["native_finish_reason"].as_str() {
            // A gateway's own word for an ending hides what the provider said.
            let native = AnswerEnd::of(native);
            let says_more = matches!(
                native.finish,
                Finish::Refused | Finish::Malformed | Finish::Broken | Finish::ContextFull | Finish::TokenLimit
            );
            if says_more {
                self.ending.update(native);
            }
        }
        Ok(())
    }

    /// Returns `true` if a whole message in a stream repeats what came before it, as the last event of some servers
    /// does. Others stream messages in place of deltas: only their last one can be a repetition, as a piece may well
    /// begin with all that came before it.
    fn repeats(&self, message: &Json, is_end: bool) -> bool {
        let text = text_of(&message["content"]);
        let has_text = !self.text.is_empty()
            && (text.starts_with(&self.text) || !text.trim().is_empty() && text.trim() == self.text.trim());
        let has_calls = !self.calls.is_empty() && message["tool_calls"].is_array();
        has_text && (self.has_delta || is_end) || has_calls && self.has_delta
    }

    /// Takes what a repetition adds.
    fn repeated(&mut self, message: &Json, show: &mut Show<'_>) -> Result<(), Fault> {
        let text = text_of(&message["content"]);
        if text.trim() != self.text.trim() {
            let rest = text.strip_prefix(&self.text).unwrap_or(&text).to_owned();
            self.say(&rest, show);
        }
        match self.calls.is_empty() {
            true => self.all_calls(message, false, show),
            false => Ok(()),
        }
    }

    fn message(&mut self, message: &Json, whole: bool, show: &mut Show<'_>) -> Result<(), Fault> {
        self.note_unknown(message, &MESSAGE_KEYS, "message");
        self.fields.take(message, show);
        match &message["content"] {
            Json::Array(parts) => parts_of(parts).for_each(|part| self.part(part, show)),
            // An answer to a schema, which some servers unpack.
            Json::Object(entries)
                if !["type", "text"].iter().any(|key| entries.contains_key(*key)) && !entries.is_empty() =>
            {
                self.say(&message["content"].to_string(), show);
            }
            part => self.part(part, show),
        }
        if let Json::String(words) = &message["refusal"] {
            self.refusal.push_str(words);
        }
        self.all_calls(message, whole, show)
    }

    fn all_calls(&mut self, message: &Json, whole: bool, show: &mut Show<'_>) -> Result<(), Fault> {
        let event = self.events;
        match &message["tool_calls"] {
            Json::Array(calls) => {
                for call in calls {
                    self.call(call, event, whole, show)?;
                }
            }
            call @ Json::Object(_) => self.call(call, event, whole, show)?,
            // The list as a text.
            Json::String(text) => match parse(text.as_bytes()) {
                Ok(Json::Array(calls)) => {
                    for call in &calls {
                        self.call(call, event, whole, show)?;
                    }
                }
                Ok(call) => self.call(&call, event, whole, show)?,
                Err(_) => {}
            },
            _ => {}
        }
        if message["function_call"].is_object() {
            let piece = piece(&message["function_call"], Some(0), event, whole);
            let at = self.legacy.push(piece)?;
            if let (true, Some((at, (tool, arguments)))) =
                (self.calls.is_empty(), at.and_then(|at| Some((at, self.legacy.so_far(at)?))))
            {
                self.legacy_preview.update(at, tool, &arguments, show);
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Json, event: u64, whole: bool, show: &mut Show<'_>) -> Result<(), Fault> {
        if !call.is_object() {
            return Ok(());
        }
        let written = call["function"].as_str().and_then(|text| parse(text.as_bytes()).ok());
        let function = ["function", "custom"].iter().map(|key| &call[*key]).chain(&written);
        let function = function.into_iter().find(|function| function.is_object());
        let mut piece = piece(function.unwrap_or(call), whole_number(&call["index"]), event, whole);
        if let (true, Json::String(name)) = (piece.name.is_empty(), &call["function"]) {
            piece.name.clone_from(name);
        }
        piece.id = match &call["id"] {
            Json::String(id) => id.clone(),
            Json::Number(id) => id.to_string(),
            _ => String::new(),
        };
        let more = call.as_object().into_iter().flatten();
        let more = more.filter(|(key, value)| !CALL_KEYS.contains(&key.as_str()) && !value.is_null());
        piece.extra = more.map(|(key, value)| (key.clone(), value.clone())).collect();
        let signed = function.and_then(Json::as_object).into_iter().flatten();
        let signed = signed.filter(|(key, value)| FUNCTION_KEYS.contains(&key.as_str()) && !value.is_null());
        let signed: Map<String, Json> = signed.map(|(key, value)| (key.clone(), value.clone())).collect();
        if !signed.is_empty() {
            piece.extra.insert("function".to_owned(), signed.into());
        }
        let at = self.calls.push(piece)?;
        if let Some((at, (tool, arguments))) = at.and_then(|at| Some((at, self.calls.so_far(at)?))) {
            self.preview.update(at, tool, &arguments, show);
        }
        Ok(())
    }

    fn part(&mut self, part: &Json, show: &mut Show<'_>) {
        match (part["type"].as_str(), text_in(part)) {
            (None | Some("text" | "output_text"), Some(text)) => self.say(&text, show),
            (Some("refusal"), _) => self.refusal.push_str(part["refusal"].as_str().unwrap_or_default()),
            (Some("thinking" | "reasoning" | "reference"), _) => self.fields.part(part, show),
            _ if part.is_null() => {}
            (kind, _) => self.ignored.note(kind.unwrap_or("part")),
        }
    }

    fn say(&mut self, text: &str, show: &mut Show<'_>) {
        self.text.push_str(text);
        self.fields.said(text);
        show(AnswerPiece::Text(text));
    }

    fn note_unknown(&mut self, object: &Json, known: &[&str], of: &str) {
        for (key, value) in object.as_object().into_iter().flatten() {
            if !known.contains(&key.as_str()) && !value.is_null() {
                self.ignored.note(&format!("{of}.{key}"));
            }
        }
    }
}

/// Returns `true` if a field for calls has none.
fn is_without_calls(field: &Json) -> bool {
    match field {
        Json::Null => true,
        Json::Array(calls) => calls.is_empty(),
        _ => false,
    }
}

/// The text of a message's content.
fn text_of(content: &Json) -> String {
    match content {
        Json::Array(parts) => parts_of(parts).filter_map(text_in).collect(),
        part => text_in(part).unwrap_or_default(),
    }
}

/// The usage, wherever a server has it: Groq, Moonshot and Cohere have places of their own.
fn usage_of(document: &Json) -> &Json {
    let places = [&document["usage"]["tokens"], &document["usage"], &document["x_groq"]["usage"]];
    let places = places.into_iter().chain([&document["choices"][0]["usage"]]);
    places.into_iter().find(|usage| usage.is_object()).unwrap_or(&Json::Null)
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
    fn event(&mut self, event: Event<'_>, show: &mut Show<'_>) -> Result<(), Fault> {
        self.events += 1;
        let document = unwrapped(event.data, "choices");
        let has_choices = matches!(&document["choices"], Json::Array(choices) if !choices.is_empty());
        if let Some(fault) = error_in(&document, event.name, has_choices || document["usage"].is_object()) {
            return Err(fault);
        }
        let usage = usage_of(&document);
        let of = |names: [&str; 2]| names.iter().find_map(|name| count(&usage[*name]));
        self.tokens.update(of(["prompt_tokens", "input_tokens"]), of(["completion_tokens", "output_tokens"]));
        self.tokens.update(count(&document["prompt_eval_count"]), count(&document["eval_count"]));
        let details = [&usage["prompt_tokens_details"], &usage["input_tokens_details"]];
        let of_details = |name: &str| details.iter().find_map(|details| count(&details[name]));
        // Beside OpenAI's own: the names of DeepSeek and Moonshot, of OpenRouter and of LiteLLM.
        self.tokens.update_cached(
            of_details("cached_tokens").or_else(|| of(["prompt_cache_hit_tokens", "cached_tokens"])),
            of_details("cache_write_tokens").or_else(|| count(&usage["cache_creation_input_tokens"])),
        );
        if self.wants_logprobs && self.logprobs.is_none() {
            self.logprobs = logprobs::read(Api::OpenaiCompletions, &document);
        }
        self.has_whole |= event.whole;
        match &document["choices"] {
            Json::Array(choices) => self.choices(choices, event.whole, show),
            choice @ Json::Object(_) => self.choices(std::slice::from_ref(choice), event.whole, show),
            _ if document["message"].is_object() => {
                // The forms of Ollama's and Cohere's own interfaces, which some proxies pass on.
                let mut said = ["done_reason", "finish_reason"].iter().map(|key| &document[*key]);
                let said = said.find(|said| !said.is_null()).unwrap_or(&Json::Null);
                let choice = json!({"message": document["message"], "finish_reason": said});
                self.choices(&[choice], event.whole, show)?;
                self.is_over |= document["done"] == true;
                Ok(())
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
        self.take_later()?;
        // A word that is not known may be one for going on.
        if close == Close::Unmarked && matches!(self.ending.finish, Finish::Unsaid | Finish::Unknown) {
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
        self.is_over
    }

    fn ends_at_mark(&self) -> bool {
        true
    }
}
