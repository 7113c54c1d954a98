//! Answers of Google's `generateContent`.

use super::super::answer::{
    Answer, AnswerEnd, Call, CallPreview, Close, Event, Fault, Finish, Ignored, Protocol, Show, Tokens, arguments,
    count, either, error_in, parts_of, text_in, unwrapped,
};
use super::super::config::Api;
use super::super::logprobs;
use opcell_engine::ports::AnswerPiece;
use opcell_types::Value;
use serde_json::{Value as Json, json};

/// An answer while it comes.
#[derive(Debug, Default)]
pub(super) struct Gemini {
    candidate: Option<Option<i64>>,
    text: String,
    calls: Vec<Call>,
    preview: CallPreview,
    /// The parts as they came, texts of one kind put together; calls without what the message has.
    parts: Vec<Json>,
    has_more: bool,
    tokens: Tokens,
    ending: AnswerEnd,
    is_blocked: bool,
    ignored: Ignored,
    wants_logprobs: bool,
    logprobs: Option<Value>,
}

impl Gemini {
    pub(super) fn new(wants_logprobs: bool) -> Self {
        Self { wants_logprobs, ..Self::default() }
    }

    fn candidate(&mut self, candidate: &Json, show: &mut Show<'_>) -> Result<(), Fault> {
        let index = candidate["index"].as_i64().filter(|index| *index != 0);
        if *self.candidate.get_or_insert(index) != index {
            self.ignored.note("candidate");
            return Ok(());
        }
        let contents = match &candidate["content"] {
            Json::Array(contents) => contents.as_slice(),
            content => std::slice::from_ref(content),
        };
        for content in contents {
            match &content["parts"] {
                Json::Array(parts) => parts_of(parts).try_for_each(|part| self.part(part, show))?,
                part @ (Json::Object(_) | Json::String(_)) => self.part(part, show)?,
                _ if content.is_string() => self.part(content, show)?,
                _ => {}
            }
        }
        let said = either(candidate, "finishReason", "finish_reason");
        if let Some(end) = said.as_str().map(AnswerEnd::of).or_else(|| said.as_u64().map(AnswerEnd::of_number)) {
            let words = candidate["finishMessage"].as_str().filter(|words| !words.is_empty()).map(str::to_owned);
            self.ending.update(AnswerEnd { words, ..end });
        }
        Ok(())
    }

    fn part(&mut self, part: &Json, show: &mut Show<'_>) -> Result<(), Fault> {
        let called = if part["functionCall"].is_object() { &part["functionCall"] } else { &part["function_call"] };
        let mut places = [part, called].into_iter();
        let signature =
            places.find_map(|place| place["thoughtSignature"].as_str().or(place["thought_signature"].as_str()));
        self.has_more |= signature.is_some();
        if called.is_object() {
            if ["partialArgs", "willContinue"].iter().any(|key| called.get(*key).is_some_and(|part| *part != false)) {
                return Err(Fault::malformed("it has arguments of a call in parts, which were not asked for"));
            }
            let text = |key: &str| called[key].as_str().unwrap_or_default().to_owned();
            let call = Call {
                id: text("id"),
                name: text("name"),
                arguments: arguments(
                    called.get("args").or_else(|| called.get("arguments")).cloned().unwrap_or_default(),
                ),
            };
            if !call.id.is_empty() && self.calls.contains(&call) {
                return Ok(());
            }
            let id = if call.id.is_empty() { json!({}) } else { json!({"id": call.id}) };
            self.parts.push(signed(json!({"functionCall": id}), signature));
            self.preview.update(self.calls.len(), &call.name, &call.arguments.to_json(), show);
            self.preview.end(self.calls.len(), show);
            self.calls.push(call);
            return Ok(());
        }
        let is_thought = part["thought"].as_bool().unwrap_or_else(|| part["thought"] == "true");
        if let Some(text) = text_in(part).filter(|_| part.is_string() || !part["text"].is_null()) {
            if is_thought {
                show(AnswerPiece::Reasoning(&text));
            } else {
                self.text.push_str(&text);
                show(AnswerPiece::Text(&text));
                // The message alone has its text before its calls.
                self.has_more |= !self.calls.is_empty() && !text.trim().is_empty();
            }
            self.collect(&text, is_thought, signature);
            return Ok(());
        }
        let said = part.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
        let mut keys = said.map(|(key, _)| key.as_str());
        match keys.find(|key| !matches!(*key, "thoughtSignature" | "thought_signature" | "thought")) {
            Some(kind) => {
                self.ignored.note(kind);
                self.has_more = true;
                self.parts.push(part.clone());
            }
            // A signature alone.
            None if signature.is_some() => self.collect("", is_thought, signature),
            None => self.ignored.note("part"),
        }
        Ok(())
    }

    /// Adds a text to the part before it, if that is of the same kind and not signed.
    fn collect(&mut self, text: &str, is_thought: bool, signature: Option<&str>) {
        let last = self.parts.last_mut().filter(|last| {
            last["text"].is_string()
                && last["thought"].as_bool().unwrap_or(false) == is_thought
                && last["thoughtSignature"].is_null()
        });
        match last.and_then(Json::as_object_mut) {
            Some(last) if signature.is_none() => {
                if let Some(Json::String(there)) = last.get_mut("text") {
                    there.push_str(text);
                }
            }
            _ => {
                let part = if is_thought { json!({"text": text, "thought": true}) } else { json!({"text": text}) };
                self.parts.push(signed(part, signature));
            }
        }
    }

    fn usage(&mut self, usage: &Json) {
        let of = |name: &str| count(&usage[name]);
        let sum = |names: [&str; 2]| {
            let counts: Vec<u64> = names.iter().filter_map(|name| of(name)).collect();
            (!counts.is_empty()).then(|| counts.into_iter().fold(0, u64::saturating_add))
        };
        self.tokens.update(
            sum(["promptTokenCount", "toolUsePromptTokenCount"]),
            sum(["candidatesTokenCount", "thoughtsTokenCount"]),
        );
        self.tokens.update_cached(of("cachedContentTokenCount"), None);
    }
}

/// The reason for which a prompt was blocked; also as the number that it has in Google's protocol buffers.
fn block_reason(said: &Json) -> Option<String> {
    match said {
        Json::String(reason) => {
            Some(reason.clone()).filter(|reason| !reason.is_empty() && !reason.ends_with("UNSPECIFIED"))
        }
        Json::Number(number) => (number.as_u64() != Some(0)).then(|| number.to_string()),
        _ => None,
    }
}

fn signed(mut part: Json, signature: Option<&str>) -> Json {
    if let (Some(part), Some(signature)) = (part.as_object_mut(), signature) {
        part.insert("thoughtSignature".to_owned(), signature.into());
    }
    part
}

impl Protocol for Gemini {
    fn event(&mut self, event: Event<'_>, show: &mut Show<'_>) -> Result<(), Fault> {
        // Vertex and Code Assist wrap it, also events that have no candidates.
        let document = match &event.data["response"] {
            wrapped @ Json::Object(_) => wrapped.clone(),
            _ => unwrapped(event.data, "candidates"),
        };
        let candidates = &document["candidates"];
        let feedback = either(&document, "promptFeedback", "prompt_feedback");
        let usage = either(&document, "usageMetadata", "usage_metadata");
        let has_answer = candidates.is_array() || feedback.is_object() || usage.is_object();
        if let Some(fault) = error_in(&document, event.name, has_answer) {
            return Err(fault);
        }
        self.usage(usage);
        if let Some(reason) = block_reason(either(feedback, "blockReason", "block_reason")) {
            self.is_blocked = true;
            let words = either(feedback, "blockReasonMessage", "block_reason_message");
            let words = words.as_str().unwrap_or("the prompt was blocked").to_owned();
            self.ending.update(AnswerEnd { finish: Finish::Refused, said: reason, words: Some(words) });
        }
        if self.wants_logprobs && self.logprobs.is_none() {
            self.logprobs = logprobs::read(Api::Gemini, &document);
        }
        match candidates {
            Json::Array(candidates) => candidates.iter().try_for_each(|candidate| self.candidate(candidate, show)),
            candidate @ Json::Object(_) => self.candidate(candidate, show),
            _ => Ok(()),
        }
    }

    fn end(&mut self, close: Close) -> Result<Option<Answer>, Fault> {
        if close == Close::Unmarked && self.ending.finish == Finish::Unsaid {
            return Ok(None);
        }
        if self.candidate.is_none() && !self.is_blocked {
            return Err(Fault::malformed("it has no candidates"));
        }
        let parts = std::mem::take(&mut self.parts);
        Ok(Some(Answer {
            text: std::mem::take(&mut self.text),
            calls: std::mem::take(&mut self.calls),
            tokens: self.tokens,
            ending: std::mem::take(&mut self.ending),
            kept: self.has_more.then(|| parts.into()),
            logprobs: self.logprobs.take(),
            ignored: std::mem::take(&mut self.ignored),
        }))
    }

    fn is_over(&self) -> bool {
        false
    }
}
