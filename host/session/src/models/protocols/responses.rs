//! Answers of OpenAI's responses.

use super::super::answer::{
    Answer, AnswerEnd, Call, CallPreview, Close, Event, Fault, Finish, Given, Ignored, Protocol, Show, Tokens,
    arguments, arguments_of_text, count, error_in, text_in, unwrapped, whole_number,
};
use super::super::config::Api;
use super::super::logprobs;
use opcell_engine::ports::AnswerPiece;
use opcell_types::Value;
use serde_json::{Map, Value as Json, json};
use std::collections::{HashMap, VecDeque};

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
    /// True once an event said that it has ended.
    has_ended: bool,
}

impl Item {
    /// An item of a whole response.
    fn whole(item: &Json) -> Self {
        Self { item: item.as_object().cloned().unwrap_or_default(), ..Self::default() }
    }

    /// Its kind with all that it says: items of equal contents are the same, whatever their ids. `None` for kinds of
    /// which that is not known.
    fn content(&self) -> Option<String> {
        match self.kind() {
            "message" => Some(format!("message {:?}", self.said())),
            "function_call" => {
                let call = self.call();
                Some(format!("call {:?} {}", call.name, Json::from(&call.arguments)))
            }
            _ => None,
        }
    }

    /// Its kind, with the name of what it calls.
    fn kind_and_name(&self) -> String {
        format!("{} {}", self.kind(), if self.kind() == "function_call" { self.text_of("name") } else { "" })
    }

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
                        None | Some("output_text" | "text") => text.push_str(&text_in(part).unwrap_or_default()),
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
    preview: CallPreview,
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
        let (index, id) = (place_of(event), event["item_id"].as_str().unwrap_or_default().to_owned());
        // Some proxies make up a new `item_id` for every event: the place counts then. Others have one place for all
        // items, so that an id that is known comes first.
        let by_id = self.items.iter().rposition(|item| !id.is_empty() && item.id == id);
        let by_index = || self.items.iter().rposition(|item| index.is_some() && item.index == index);
        by_id.or_else(by_index).unwrap_or_else(|| self.item(index, &id))
    }

    /// Takes an item as it began or ended, and returns its place; what it has is newer than what was collected.
    /// One that begins is never one that has begun with another id: some servers have one place for all.
    fn take_item(&mut self, index: Option<i64>, begins: bool, item: &Json) -> usize {
        let id = item["id"].as_str().unwrap_or_default();
        let is_open = |at: usize| {
            let there = self.items.get(at);
            !begins || there.is_some_and(|there| there.item.is_empty() || ["", id].contains(&there.id.as_str()))
        };
        let at = self.by_id(item, &|_| true).or_else(|| self.by_index(index, item, &is_open));
        self.update(at, index, item);
        at.unwrap_or(self.items.len().saturating_sub(1))
    }

    /// The last item that suits, of those that are free.
    fn find(&self, is_free: &dyn Fn(usize) -> bool, is_it: impl Fn(&Item) -> bool) -> Option<usize> {
        let mut free = self.items.iter().enumerate().rev().filter(|(at, _)| is_free(*at));
        free.find(|(_, item)| is_it(item)).map(|(at, _)| at)
    }

    /// The item that has the ids of a whole one.
    fn by_id(&self, item: &Json, is_free: &dyn Fn(usize) -> bool) -> Option<usize> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let (id, call) = (text("id"), text("call_id"));
        self.find(is_free, |item| !call.is_empty() && item.text_of("call_id") == call)
            .or_else(|| self.find(is_free, |item| !id.is_empty() && item.id == id))
    }

    /// The item at the place of a whole one, if it may be the same.
    fn by_index(&self, index: Option<i64>, item: &Json, is_free: &dyn Fn(usize) -> bool) -> Option<usize> {
        let text = |key: &str| item[key].as_str().unwrap_or_default();
        let (call, kind) = (text("call_id"), text("type"));
        self.find(is_free, |item| {
            index.is_some()
                && item.index == index
                && (item.item.is_empty() || item.text_of("type") == kind)
                && (call.is_empty() || item.text_of("call_id").is_empty() || item.text_of("call_id") == call)
        })
    }

    /// The items that those of a whole response are, of the ones that events told of; `None` for a new one. The list
    /// repeats what events told, and not always with the same ids or at the same places: some servers make up new ids
    /// for it, and leave out thoughts.
    fn places(&self, list: &[Json]) -> Vec<Option<usize>> {
        let mut free = vec![true; self.items.len()];
        let mut places: Vec<Option<usize>> = vec![None; list.len()];
        let settle = |place: &mut Option<usize>, free: &mut Vec<bool>, found: Option<usize>| {
            if let Some(at) = found.and_then(|at| free.get_mut(at)) {
                *at = false;
                *place = found;
            }
        };
        if self.items.is_empty() {
            return places;
        }
        for (item, place) in list.iter().zip(&mut places) {
            let found = self.by_id(item, &|at| free.get(at) == Some(&true));
            settle(place, &mut free, found);
        }
        let mut alike = queues(&self.items, &free, |item| item.content());
        for (item, place) in list.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let found = Item::whole(item).content().and_then(|content| alike.get_mut(&content)?.pop_front());
            settle(place, &mut free, found);
        }
        for (index, (item, place)) in list.iter().zip(&mut places).enumerate().filter(|(_, (_, place))| place.is_none())
        {
            let found = self.by_index(i64::try_from(index).ok(), item, &|at| free.get(at) == Some(&true));
            settle(place, &mut free, found);
        }
        // As many of a kind as events told of are the same ones in the same order, though a text was cut in the events.
        let all = vec![true; self.items.len()];
        let told = queues(&self.items, &all, |item| Some(item.kind_and_name()));
        let mut listed: HashMap<String, usize> = HashMap::new();
        list.iter().for_each(|item| *listed.entry(Item::whole(item).kind_and_name()).or_default() += 1);
        let mut rest = queues(&self.items, &free, |item| Some(item.kind_and_name()));
        for (item, place) in list.iter().zip(&mut places).filter(|(_, place)| place.is_none()) {
            let kind = Item::whole(item).kind_and_name();
            if told.get(&kind).map(VecDeque::len) == listed.get(&kind).copied() {
                settle(place, &mut free, rest.get_mut(&kind).and_then(VecDeque::pop_front));
            }
        }
        places
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

    fn say(&mut self, at: usize, text: &str, show: &mut Show<'_>) {
        if text.is_empty() {
            return;
        }
        if self.last_text.is_some_and(|last| last != at) {
            show(AnswerPiece::Text("\n"));
        }
        self.last_text = Some(at);
        if let Some(item) = self.items.get_mut(at) {
            item.text.push_str(text);
        }
        show(AnswerPiece::Text(text));
    }

    /// Shows what is new about a call.
    fn show_call(&mut self, at: usize, show: &mut Show<'_>) {
        let Some(item) = self.items.get(at).filter(|item| item.kind() == "function_call") else { return };
        let arguments = match item.text_of("arguments") {
            "" => &item.arguments,
            whole => whole,
        };
        self.preview.update(at, item.text_of("name"), arguments, show);
        if item.has_ended {
            self.preview.end(at, show);
        }
    }

    /// Takes the whole response, as the last event and an answer without a stream have it.
    fn response(&mut self, response: &Json) -> Result<(), Fault> {
        self.has_begun = true;
        let usage = &response["usage"];
        let of = |names: [&str; 2]| names.iter().find_map(|name| count(&usage[*name]));
        self.tokens.update(of(["input_tokens", "prompt_tokens"]), of(["output_tokens", "completion_tokens"]));
        let details = [&usage["input_tokens_details"], &usage["prompt_tokens_details"]];
        let of_details = |name: &str| details.iter().find_map(|details| count(&details[name]));
        self.tokens.update_cached(of_details("cached_tokens"), of_details("cache_write_tokens"));
        if self.wants_logprobs && self.logprobs.is_none() {
            self.logprobs = logprobs::read(Api::OpenaiResponses, response);
        }
        // Each item of the list is one of those that events told of, or a new one; never one of the list itself.
        let list = match &response["output"] {
            Json::Array(items) => items.as_slice(),
            item @ Json::Object(_) => std::slice::from_ref(item),
            _ => &[],
        };
        for (place, (item, at)) in list.iter().zip(self.places(list)).enumerate() {
            let index = i64::try_from(place).ok();
            self.update(at, index.filter(|_| at.is_some()), item);
        }
        if let (true, Json::String(text)) = (self.items.is_empty(), &response["output_text"]) {
            self.take_item(None, false, &json!({"type": "message", "content": text}));
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
        // The part of a message in the turn, such as a remark before calls, which OpenAI wants back.
        let has_phase = |item: &Item| item.kind() == "message" && !item.text_of("phase").is_empty();
        if !self.items.iter().any(|item| is_thought(item) || has_phase(item)) {
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
                let content = json!([{"type": "output_text", "text": text}]);
                let mut message = json!({"type": "message", "role": "assistant", "content": content});
                if let (Some(message), true) = (message.as_object_mut(), has_phase(item)) {
                    message.insert("phase".to_owned(), item.text_of("phase").into());
                }
                (!text.is_empty()).then_some(message)
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

/// The place that an event names; some servers write -1 for none.
fn place_of(event: &Json) -> Option<i64> {
    whole_number(&event["output_index"]).filter(|index| *index >= 0)
}

/// The places of the free items by a key, in their order.
fn queues(items: &[Item], free: &[bool], key: impl Fn(&Item) -> Option<String>) -> HashMap<String, VecDeque<usize>> {
    let mut queues: HashMap<String, VecDeque<usize>> = HashMap::new();
    for (at, (item, _)) in items.iter().zip(free).enumerate().filter(|(_, (_, free))| **free) {
        if let Some(key) = key(item) {
            queues.entry(key).or_default().push_back(at);
        }
    }
    queues
}

impl Protocol for Responses {
    fn event(&mut self, event: Event<'_>, show: &mut Show<'_>) -> Result<(), Fault> {
        let document = match event.name {
            // Its data has the response in a member of its own.
            Some(_) => event.data,
            None => unwrapped(event.data, "output"),
        };
        let kind = document["type"].as_str().or(event.name).unwrap_or_default().to_owned();
        let is_response = document["output"].is_array() || document["object"] == "response";
        if let Some(fault) = error_in(&document, event.name, is_response || kind.starts_with("response.")) {
            return Err(fault);
        }
        let text = |key: &str| document[key].as_str().unwrap_or_default();
        match kind.as_str() {
            "response.output_item.added" | "response.output_item.done" => {
                self.has_begun = true;
                let at = self.take_item(place_of(&document), kind.ends_with(".added"), &document["item"]);
                if let Some(item) = self.items.get_mut(at).filter(|_| kind.ends_with(".done")) {
                    item.has_ended = true;
                }
                self.show_call(at, show);
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
                self.show_call(at, show);
            }
            "response.function_call_arguments.done" => {
                let at = self.of_event(&document);
                if let (Some(item), Some(whole)) = (self.items.get_mut(at), document.get("arguments")) {
                    item.has_ended = true;
                    item.item.insert("arguments".to_owned(), whole.clone());
                    if let (Json::String(name), "") = (&document["name"], item.text_of("name")) {
                        item.item.insert("name".to_owned(), name.as_str().into());
                    }
                }
                self.show_call(at, show);
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
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" | "response.reasoning.delta" => {
                show(AnswerPiece::Reasoning(text("delta")));
            }
            "response.reasoning_summary_part.added" if document["summary_index"].as_u64().unwrap_or(0) > 0 => {
                show(AnswerPiece::Reasoning("\n\n"));
            }
            known if PASSING.contains(&known) || known.starts_with("response.reasoning") => {}
            "response.output_text.done" | "response.refusal.done" => {
                let at = self.of_event(&document);
                let Some(item) = self.items.get_mut(at) else { return Ok(()) };
                item.has_ended = true;
                // Only what no delta said.
                if kind == "response.refusal.done" {
                    if item.refusal.is_empty() {
                        item.refusal.push_str(text("refusal"));
                    }
                    return Ok(());
                }
                // The text of a later part does not begin with the parts before it.
                let is_first = document["content_index"].as_u64().unwrap_or(0) == 0;
                let said = if is_first { item.text.clone() } else { String::new() };
                if let Some(rest) =
                    text("text").strip_prefix(said.as_str()).filter(|_| is_first || item.text.is_empty())
                {
                    self.say(at, rest, show);
                }
            }
            _ if is_response => {
                self.is_over = true;
                self.response(&document)?;
            }
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

    fn ends_at_mark(&self) -> bool {
        // Gateways write the mark after a stream that broke off, too; items that have all ended are an answer.
        let mut said = self.items.iter().filter(|item| item.kind() != "reasoning").peekable();
        said.peek().is_some() && said.all(|item| item.has_ended)
    }
}
