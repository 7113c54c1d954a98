//! Answers of Anthropic's messages.

use super::super::answer::{
    Answer, AnswerEnd, Call, CallPreview, Close, Event, Fault, Finish, Given, Ignored, Protocol, Show, Tokens,
    arguments, arguments_of_text, count, error_in, parts_of, text_in, unwrapped, whole_number,
};
use opcell_engine::ports::AnswerPiece;
use serde_json::{Map, Value as Json, json};

/// A block of the content.
#[derive(Debug, Default)]
struct Block {
    index: Option<i64>,
    /// As it began.
    start: Map<String, Json>,
    kind: String,
    text: String,
    thinking: String,
    signature: String,
    /// The input of a call, as JSON in pieces.
    input: String,
    /// Citations of a text that the provider wants back: those of its own search, which it knows by their index.
    citations: Vec<Json>,
    /// True if a part of it is not known, so that it cannot be given back.
    is_partial: bool,
}

impl Block {
    fn cite(&mut self, citation: &Json) {
        if citation["encrypted_index"].is_string() {
            self.citations.push(citation.clone());
        }
    }

    fn call(&self) -> Option<Call> {
        let text = |key: &str| self.start.get(key).and_then(Json::as_str).unwrap_or_default().to_owned();
        let arguments = match self.input.trim().is_empty() {
            true => {
                // As other protocols name it.
                let input = ["input", "arguments", "parameters", "args"].iter().find_map(|key| self.start.get(*key));
                arguments(input.cloned().unwrap_or_default())
            }
            false => arguments_of_text(&self.input),
        };
        (self.kind == "tool_use").then(|| Call { id: text("id"), name: text("name"), arguments })
    }
}

/// A message while it comes.
#[derive(Debug, Default)]
pub(super) struct Anthropic {
    blocks: Vec<Block>,
    preview: CallPreview,
    has_begun: bool,
    has_text: bool,
    /// True if a block other than text came since the last text.
    is_apart: bool,
    tokens: Tokens,
    /// Input that is neither from the cache nor kept in it: Anthropic counts the three separately.
    uncached: u64,
    ending: AnswerEnd,
    is_over: bool,
    ignored: Ignored,
}

impl Anthropic {
    fn begin(&mut self, index: Option<i64>, block: &Json, show: &mut Show<'_>) {
        let Json::Object(start) = block else { return };
        let text = |key: &str| block[key].as_str().unwrap_or_default().to_owned();
        let kind = match text("type") {
            kind if !kind.is_empty() => kind,
            _ => ["text", "thinking"].into_iter().find(|key| start.contains_key(*key)).unwrap_or("unknown").to_owned(),
        };
        let is_same = |there: &Block| {
            let same_id = start.get("id").is_some_and(|id| id.is_string() && there.start.get("id") == Some(id));
            same_id && there.kind == kind && there.index == index
        };
        if index.is_some() && self.blocks.iter().any(is_same) {
            // The same block begun twice.
            return;
        }
        if !matches!(kind.as_str(), "text" | "tool_use" | "thinking" | "redacted_thinking") {
            self.ignored.note(&kind);
        }
        let mut begun = Block { index, start: start.clone(), kind, ..Block::default() };
        for key in ["text", "thinking", "signature"] {
            begun.start.remove(key);
        }
        block["citations"].as_array().into_iter().flatten().for_each(|citation| begun.cite(citation));
        (begun.thinking, begun.signature) = (text("thinking"), text("signature"));
        let is_text = begun.kind == "text";
        show(AnswerPiece::Reasoning(&begun.thinking));
        self.blocks.push(begun);
        self.show_call(self.blocks.len() - 1, show);
        self.is_apart |= !is_text;
        if is_text {
            self.say(self.blocks.len() - 1, &text_in(block).unwrap_or_default(), show);
        }
    }

    fn say(&mut self, at: usize, text: &str, show: &mut Show<'_>) {
        if text.is_empty() {
            return;
        }
        if self.is_apart && self.has_text {
            show(AnswerPiece::Text("\n"));
        }
        (self.has_text, self.is_apart) = (true, false);
        if let Some(block) = self.blocks.get_mut(at) {
            block.text.push_str(text);
        }
        show(AnswerPiece::Text(text));
    }

    fn delta(&mut self, index: Option<i64>, delta: &Json, show: &mut Show<'_>) {
        let kind = match delta["type"].as_str() {
            Some(kind) => kind,
            None if delta["text"].is_string() => "text_delta",
            None if !delta["partial_json"].is_null() => "input_json_delta",
            None if delta["thinking"].is_string() => "thinking_delta",
            None if delta["signature"].is_string() => "signature_delta",
            None => "unknown_delta",
        };
        let wanted = match kind {
            "text_delta" => "text",
            "thinking_delta" | "signature_delta" => "thinking",
            _ => "",
        };
        let of_index = |block: &Block| index.is_none() || block.index == index;
        let fits = |block: &Block| wanted.is_empty() || block.kind == wanted;
        let found = self.blocks.iter().rposition(|block| of_index(block) && fits(block));
        let at = match found {
            Some(at) => at,
            None if wanted.is_empty() => return self.ignored.note(kind),
            None => {
                // A delta of a block that was never begun.
                self.begin(index, &json!({"type": wanted}), show);
                self.blocks.len() - 1
            }
        };
        let text = |key: &str| delta[key].as_str().unwrap_or_default();
        if kind == "text_delta" {
            return self.say(at, &text_in(delta).unwrap_or_default(), show);
        }
        let Some(block) = self.blocks.get_mut(at) else { return };
        match kind {
            "thinking_delta" => {
                block.thinking.push_str(text("thinking"));
                show(AnswerPiece::Reasoning(text("thinking")));
            }
            "signature_delta" => block.signature.push_str(text("signature")),
            "input_json_delta" => match Given::of(delta.get("partial_json").or_else(|| delta.get("input"))) {
                Given::Text(part) => {
                    // Some begin with an empty object and then send the real one.
                    if block.input.trim() == "{}" && part.trim_start().starts_with('{') {
                        block.input.clear();
                    }
                    block.input.push_str(&part);
                    self.show_call(at, show);
                }
                Given::Value(input) => drop(block.start.insert("input".to_owned(), input)),
                Given::Nothing => {}
            },
            "citations_delta" => block.cite(&delta["citation"]),
            other => {
                block.is_partial = true;
                self.ignored.note(other);
            }
        }
    }

    /// Shows what is new about a call.
    fn show_call(&mut self, at: usize, show: &mut Show<'_>) {
        let Some(block) = self.blocks.get(at).filter(|block| block.kind == "tool_use") else { return };
        let tool = block.start.get("name").and_then(Json::as_str).unwrap_or_default();
        self.preview.update(at, tool, &block.input, show);
    }

    /// Takes a call's input from the event that ends its block, where no other had it.
    fn finished(&mut self, index: Option<i64>, block: &Json, show: &mut Show<'_>) {
        let at = self.blocks.iter().rposition(|open| index.is_none() || open.index == index);
        let Some((at, open)) = at.and_then(|at| Some((at, self.blocks.get_mut(at)?))) else { return };
        if open.kind != "tool_use" {
            return;
        }
        let has_entries = |input: &Json| input.as_object().is_some_and(|entries| !entries.is_empty());
        if open.input.trim().is_empty() {
            if let Some(input) = block.get("input").filter(|input| has_entries(input)) {
                open.start.insert("input".to_owned(), input.clone());
            }
            if let Some(input) = open.start.get("input").filter(|input| has_entries(input)) {
                let tool = open.start.get("name").and_then(Json::as_str).unwrap_or_default();
                self.preview.update(at, tool, &input.to_string(), show);
            }
        }
        self.preview.end(at, show);
    }

    fn usage(&mut self, usage: &Json) {
        let of = |name: &str| count(&usage[name]);
        self.uncached = of("input_tokens").filter(|tokens| *tokens > 0).unwrap_or(self.uncached);
        self.tokens.update_cached(of("cache_read_input_tokens"), of("cache_creation_input_tokens"));
        let Tokens { cache_read, cache_write, .. } = self.tokens;
        let input = self.uncached.saturating_add(cache_read).saturating_add(cache_write);
        self.tokens.update(Some(input), of("output_tokens"));
    }

    fn stop(&mut self, of: &Json) {
        let Some(said) = of["stop_reason"].as_str() else { return };
        let details = &of["stop_details"];
        let words = details["explanation"].as_str().or(details["message"].as_str()).map(str::to_owned);
        self.ending.update(AnswerEnd { words, ..AnswerEnd::of(said) });
    }

    fn message(&mut self, message: &Json, show: &mut Show<'_>) {
        self.has_begun = true;
        self.usage(&message["usage"]);
        match &message["content"] {
            Json::String(text) => self.begin(None, &json!({"type": "text", "text": text}), show),
            block @ Json::Object(_) => self.begin(None, block, show),
            Json::Array(blocks) => {
                for block in parts_of(blocks) {
                    match block {
                        Json::String(text) => self.begin(None, &json!({"type": "text", "text": text}), show),
                        block => self.begin(None, block, show),
                    }
                }
            }
            _ => {}
        }
        self.stop(message);
    }

    /// The content to give back: all blocks, if one of them is more than text or a call.
    fn continuation(&self) -> Option<Json> {
        let has_more = |block: &Block| !matches!(block.kind.as_str(), "text" | "tool_use") && !block.is_partial;
        if !self.blocks.iter().any(has_more) {
            return None;
        }
        let block = |block: &Block| match block.kind.as_str() {
            "text" if block.text.is_empty() => None,
            "text" if block.citations.is_empty() => Some(json!({"type": "text", "text": block.text})),
            "text" => Some(json!({"type": "text", "text": block.text, "citations": block.citations})),
            "tool_use" => Some(json!({"type": "tool_use"})),
            "thinking" => {
                let mut thought = json!({"type": "thinking", "thinking": block.thinking});
                if let (Some(thought), false) = (thought.as_object_mut(), block.signature.is_empty()) {
                    thought.insert("signature".to_owned(), block.signature.as_str().into());
                }
                Some(thought)
            }
            _ if block.is_partial => None,
            _ => {
                let mut other = block.start.clone();
                other.insert("type".to_owned(), block.kind.as_str().into());
                if !block.input.is_empty() {
                    other.insert("input".to_owned(), Json::from(&arguments_of_text(&block.input)));
                }
                if !block.text.is_empty() {
                    other.insert("text".to_owned(), block.text.as_str().into());
                }
                Some(other.into())
            }
        };
        Some(self.blocks.iter().filter_map(block).collect())
    }

    fn text(&self) -> String {
        let (mut text, mut is_apart) = (String::new(), false);
        for block in &self.blocks {
            match block.kind == "text" {
                true if block.text.is_empty() => {}
                true => {
                    if is_apart && !text.is_empty() {
                        text.push('\n');
                    }
                    text.push_str(&block.text);
                    is_apart = false;
                }
                false => is_apart = true,
            }
        }
        text
    }

    fn calls(&self) -> Vec<Call> {
        self.blocks.iter().filter_map(Block::call).collect()
    }

    /// The same call said twice is one.
    fn drop_repeated_calls(&mut self) {
        let mut seen: Vec<Call> = Vec::new();
        self.blocks.retain(|block| match block.call() {
            Some(call) if !call.id.is_empty() && seen.contains(&call) => false,
            call => {
                seen.extend(call);
                true
            }
        });
    }
}

impl Protocol for Anthropic {
    fn event(&mut self, event: Event<'_>, show: &mut Show<'_>) -> Result<(), Fault> {
        let document = unwrapped(event.data, "content");
        let kind = document["type"].as_str().or(event.name).unwrap_or_default().to_owned();
        // The type of a problem document is an address.
        let is_kind = !kind.is_empty() && kind != "error" && !kind.contains(':');
        let has_answer = is_kind || document["content"].is_array();
        if let Some(fault) = error_in(&document, event.name, has_answer) {
            return Err(fault);
        }
        let index = whole_number(&document["index"]);
        match kind.as_str() {
            "message_start" => self.message(&document["message"], show),
            "content_block_start" => {
                self.has_begun = true;
                self.begin(index, &document["content_block"], show);
            }
            "content_block_delta" => {
                self.has_begun = true;
                self.delta(index, &document["delta"], show);
            }
            "content_block_stop" => self.finished(index, &document["content_block"], show),
            "ping" => {}
            "message_delta" => {
                self.usage(&document["usage"]);
                self.stop(if document["delta"].is_object() { &document["delta"] } else { &document });
            }
            "message_stop" => self.is_over = true,
            _ if kind == "message" || !document["content"].is_null() => self.message(&document, show),
            other => self.ignored.note(if other.is_empty() { "event" } else { other }),
        }
        Ok(())
    }

    fn end(&mut self, close: Close) -> Result<Option<Answer>, Fault> {
        if close == Close::Unmarked && self.ending.finish == Finish::Unsaid {
            return Ok(None);
        }
        if !self.has_begun {
            return Err(Fault::malformed("it has no content"));
        }
        self.drop_repeated_calls();
        Ok(Some(Answer {
            text: self.text(),
            calls: self.calls(),
            kept: self.continuation(),
            tokens: self.tokens,
            ending: std::mem::take(&mut self.ending),
            logprobs: None,
            ignored: std::mem::take(&mut self.ignored),
        }))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}
