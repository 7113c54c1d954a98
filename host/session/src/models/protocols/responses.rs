//! Answers of OpenAI's responses.

use super::super::answer::{
    Answer, AnswerEnd, Call, Close, Event, Fault, Finish, Given, Ignored, Protocol, Tokens, arguments,
    arguments_of_text, count, error_in,
};
use super::super::config::Api;
use super::super::logprobs;
use opcell_types::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::HashSet;

/// Events that say nothing that other events do not say.
const PASSING: [&str; 8] = [
    "response.created",
    "response.in_progress",
    "response.queued",
    "response.content_part.added",
    "response.content_part.done",
    "response.output_text.annotation.added",
    "keepalive",
    "ping",
];

/// An item of the output.
#[derive(Debug, Default)]
struct Item {
    index: Option<i64>,
    id: String,
    item: Map<String, Json>,
    text: String,
    refusal: String,
    arguments: String,
}

impl Item {
    fn text_of(&self, key: &str) -> &str {
        self.item.get(key).and_then(Json::as_str).unwrap_or_default()
    }

    fn kind(&self) -> &str {
        match self.text_of("type") {
            "" if self.item.contains_key("arguments") || !self.arguments.is_empty() => "function_call",
            "" => "message",
            kind => kind,
        }
    }

    /// Text and refusal; those of the finished item are the whole ones.
    fn said(&self) -> (String, String) {
        let (mut text, mut refusal) = (String::new(), String::new());
        match self.item.get("content") {
            Some(Json::String(whole)) => text.push_str(whole),
            Some(Json::Array(parts)) => {
                for part in parts {
                    match part["type"].as_str() {
                        Some("refusal") => refusal.push_str(part["refusal"].as_str().unwrap_or_default()),
                        None | Some("output_text" | "text") => text.push_str(part["text"].as_str().unwrap_or_default()),
                        Some(_) => {}
                    }
                }
            }
            _ => {}
        }
        if text.is_empty() {
            text.clone_from(&self.text);
        }
        if refusal.is_empty() {
            refusal.clone_from(&self.refusal);
        }
        (text, refusal)
    }

    fn call(&self) -> Call {
        let whole = Given::of(self.item.get("arguments"));
        let arguments = match whole {
            Given::Value(value) => arguments(value),
            Given::Text(text) if !text.trim().is_empty() => arguments_of_text(&text),
            _ => arguments_of_text(&self.arguments),
        };
        let id = [self.text_of("call_id"), self.text_of("id"), &self.id].into_iter().find(|id| !id.is_empty());
        Call { id: id.unwrap_or_default().to_owned(), name: self.text_of("name").to_owned(), arguments }
    }
}

/// A response while it comes.
#[derive(Debug, Default)]
pub(super) struct Responses {
    items: Vec<Item>,
    last_text: Option<usize>,
    tokens: Tokens,
    ending: AnswerEnd,
    is_over: bool,
    has_begun: bool,
    ignored: Ignored,
    wants_logprobs: bool,
    logprobs: Option<Value>,
}

impl Responses {
    pub(super) fn new(wants_logprobs: bool) -> Self {
        Self { wants_logprobs, ..Self::default() }
    }

    /// The item that an event is about; a new one if there was none.
    fn item(&mut self, index: Option<i64>, id: &str) -> usize {
        let by_id = || self.items.iter().rposition(|item| !id.is_empty() && item.id == id);
        let by_index = || self.items.iter().rposition(|item| index.is_some() && item.index == index);
        // An item without an id is the one at its place; one with another id is another item.
        let at = by_id().or_else(|| {
            by_index().filter(|at| id.is_empty() || self.items.get(*at).is_some_and(|item| item.id.is_empty()))
        });
        let last = self.items.len().checked_sub(1);
        let at = at.or(if index.is_none() && id.is_empty() { last } else { None });
        at.unwrap_or_else(|| {
            self.items.push(Item { index, id: id.to_owned(), ..Item::default() });
            self.items.len() - 1
        })
    }

    fn of_event(&mut self, event: &Json) -> usize {
        let (index, id) = (event["output_index"].as_i64(), event["item_id"].as_str().unwrap_or_default().to_owned());
        // Some proxies make up a new `item_id` for every event: the place counts then.
        let by_index = self.items.iter().rposition(|item| index.is_some() && item.index == index);
        by_index.unwrap_or_else(|| self.item(index, &id))
    }

    /// Takes an item as it began or ended; what it has is newer than what was collected.
    fn take_item(&mut self, index: Option<i64>, item: &Json) {
        let at = self.place(index, item, &HashSet::new());
        self.update(at, index, item);
    }

    /// The item that a whole one is about, but for those that are taken; `None` when it is a new one.
    fn place(&self, index: Option<i64>, item: &Json, taken: &HashSet<usize>) -> Option<usize> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let (id, call, kind) = (text("id"), text("call_id"), text("type"));
        let find = |is_it: &dyn Fn(&Item) -> bool| {
            let free = self.items.iter().enumerate().rev().filter(|(at, _)| !taken.contains(at));
            free.into_iter().find(|(_, item)| is_it(item)).map(|(at, _)| at)
        };
        find(&|item| !call.is_empty() && item.text_of("call_id") == call)
            .or_else(|| find(&|item| !id.is_empty() && item.id == id))
            .or_else(|| {
                find(&|item| {
                    index.is_some()
                        && item.index == index
                        && (item.item.is_empty() || item.text_of("type") == kind)
                        && (call.is_empty() || item.text_of("call_id").is_empty() || item.text_of("call_id") == call)
                })
            })
    }

    fn update(&mut self, at: Option<usize>, index: Option<i64>, item: &Json) {
        let Json::Object(entries) = item else { return };
        let at = at.unwrap_or_else(|| {
            self.items.push(Item { index, ..Item::default() });
            self.items.len() - 1
        });
        if let Some(there) = self.items.get_mut(at) {
            there.item.extend(entries.clone());
            if there.id.is_empty() {
                there.id = item["id"].as_str().unwrap_or_default().to_owned();
            }
        }
    }

    fn say(&mut self, at: usize, text: &str, show: &mut dyn FnMut(&str)) {
        if text.is_empty() {
            return;
        }
        if self.last_text.is_some_and(|last| last != at) {
            show("\n");
        }
        self.last_text = Some(at);
        if let Some(item) = self.items.get_mut(at) {
            item.text.push_str(text);
        }
        show(text);
    }

    /// Takes the whole response, as the last event and an answer without a stream have it.
    fn response(&mut self, response: &Json) -> Result<(), Fault> {
        self.has_begun = true;
        let usage = &response["usage"];
        let of = |names: [&str; 2]| names.iter().find_map(|name| count(&usage[*name]));
        self.tokens.update(of(["input_tokens", "prompt_tokens"]), of(["output_tokens", "completion_tokens"]));
        if self.wants_logprobs && self.logprobs.is_none() {
            self.logprobs = logprobs::read(Api::OpenaiResponses, response);
        }
        // Each item of the list is one of those that events told of, or a new one; never one of the list itself.
        let known = self.items.len();
        let mut taken = HashSet::new();
        for (place, item) in response["output"].as_array().into_iter().flatten().enumerate() {
            let index = i64::try_from(place).ok();
            let at = if taken.len() < known { self.place(index, item, &taken) } else { None }.filter(|at| *at < known);
            taken.extend(at);
            self.update(at, index.filter(|_| at.is_some()), item);
        }
        if let (true, Json::String(text)) = (self.items.is_empty(), &response["output_text"]) {
            self.take_item(None, &json!({"type": "message", "content": text}));
        }
        let said = response["status"].as_str().unwrap_or_default();
        let ending = match said {
            "incomplete" => AnswerEnd::of(response["incomplete_details"]["reason"].as_str().unwrap_or("incomplete")),
            "queued" | "in_progress" => AnswerEnd { finish: Finish::Broken, ..AnswerEnd::of(said) },
            said => AnswerEnd::of(said),
        };
        self.ending.update(ending);
        Ok(())
    }

    fn continuation(&self) -> Option<Json> {
        let is_thought = |item: &Item| {
            let has_content = item.item.get("content").and_then(Json::as_array).is_some_and(|parts| !parts.is_empty());
            // Of a response that is not stored, the provider knows a thought only by its encrypted content.
            item.kind() == "reasoning" && (has_content || !item.text_of("encrypted_content").is_empty())
        };
        if !self.items.iter().any(is_thought) {
            return None;
        }
        let item = |item: &Item| match item.kind() {
            "reasoning" if is_thought(item) => {
                let mut thought = item.item.clone();
                thought.retain(|key, value| key != "status" && !value.is_null());
                thought.entry("summary").or_insert_with(|| json!([]));
                Some(thought.into())
            }
            "message" => {
                let (text, _) = item.said();
                (!text.is_empty()).then(|| {
                    json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]})
                })
            }
            "function_call" => Some(json!({"type": "function_call"})),
            _ => None,
        };
        Some(self.items.iter().filter_map(item).collect())
    }

    /// The same call said twice is one.
    fn drop_repeated_calls(&mut self) {
        let mut seen: Vec<Call> = Vec::new();
        self.items.retain(|item| {
            let call = (item.kind() == "function_call").then(|| item.call());
            match call {
                Some(call) if !call.id.is_empty() && seen.contains(&call) => false,
                call => {
                    seen.extend(call);
                    true
                }
            }
        });
    }
}

impl Protocol for Responses {
    fn event(&mut self, event: Event<'_>, show: &mut dyn FnMut(&str)) -> Result<(), Fault> {
        let document = event.data;
        let kind = document["type"].as_str().or(event.name).unwrap_or_default().to_owned();
        let is_response = document["output"].is_array() || document["object"] == "response";
        if let Some(fault) = error_in(&document, event.name, is_response || kind.starts_with("response.")) {
            return Err(fault);
        }
        let text = |key: &str| document[key].as_str().unwrap_or_default();
        match kind.as_str() {
            "response.output_item.added" | "response.output_item.done" => {
                self.has_begun = true;
                self.take_item(document["output_index"].as_i64(), &document["item"]);
            }
            "response.output_text.delta" => {
                self.has_begun = true;
                let at = self.of_event(&document);
                self.say(at, text("delta"), show);
            }
            "response.refusal.delta" => {
                let at = self.of_event(&document);
                if let Some(item) = self.items.get_mut(at) {
                    item.refusal.push_str(text("delta"));
                }
            }
            "response.function_call_arguments.delta" => {
                let at = self.of_event(&document);
                if let Some(item) = self.items.get_mut(at) {
                    item.arguments.push_str(text("delta"));
                }
            }
            "response.function_call_arguments.done" => {
                let at = self.of_event(&document);
                if let (Some(item), Some(whole)) = (self.items.get_mut(at), document.get("arguments")) {
                    item.item.insert("arguments".to_owned(), whole.clone());
                    if let (Json::String(name), "") = (&document["name"], item.text_of("name")) {
                        item.item.insert("name".to_owned(), name.as_str().into());
                    }
                }
            }
            "response.completed" | "response.incomplete" | "response.done" => {
                self.is_over = true;
                self.response(&document["response"])?;
                if self.ending.finish == Finish::Unsaid {
                    self.ending = AnswerEnd::of(kind.trim_start_matches("response."));
                }
            }
            "response.failed" | "response.cancelled" => {
                self.is_over = true;
                let response = &document["response"];
                let fault = error_in(response, None, true);
                return Err(fault.unwrap_or_else(|| Fault::unavailable(format!("the response is `{kind}`"))));
            }
            known if PASSING.contains(&known) || known.starts_with("response.reasoning") => {}
            "response.output_text.done" | "response.refusal.done" => {
                let at = self.of_event(&document);
                let Some(item) = self.items.get_mut(at) else { return Ok(()) };
                // Only what no delta said.
                if kind == "response.refusal.done" && item.refusal.is_empty() {
                    item.refusal.push_str(text("refusal"));
                } else if kind == "response.output_text.done" && item.text.is_empty() {
                    self.say(at, text("text"), show);
                }
            }
            _ if is_response => self.response(&document)?,
            other => self.ignored.note(if other.is_empty() { "event" } else { other }),
        }
        Ok(())
    }

    fn end(&mut self, close: Close) -> Result<Option<Answer>, Fault> {
        if close == Close::Unmarked {
            return Ok(None);
        }
        if !self.has_begun {
            return Err(Fault::malformed("it has no output"));
        }
        self.drop_repeated_calls();
        let (mut texts, mut refusal, mut calls) = (Vec::new(), String::new(), Vec::new());
        for item in &self.items {
            match item.kind() {
                "message" => {
                    let (text, refused) = item.said();
                    refusal.push_str(&refused);
                    if !text.is_empty() {
                        texts.push(text);
                    }
                }
                "function_call" => calls.push(item.call()),
                "reasoning" => {}
                other => self.ignored.note(other),
            }
        }
        if !refusal.trim().is_empty() && calls.is_empty() {
            self.ending.update(AnswerEnd { finish: Finish::Refused, said: "refusal".to_owned(), words: Some(refusal) });
        }
        Ok(Some(Answer {
            text: texts.join("\n"),
            calls,
            kept: self.continuation(),
            tokens: self.tokens,
            ending: std::mem::take(&mut self.ending),
            logprobs: self.logprobs.take(),
            ignored: std::mem::take(&mut self.ignored),
        }))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
