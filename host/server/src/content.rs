//! The content of conversations for traces: messages, prompts, arguments and results of tools. Off unless an operator
//! asks for it, and bounded: of a conversation its newest part, of a long text its beginning.
//!
//! The form is that of the conventions for generative AI. Pictures, documents and recordings are named by their type
//! alone, and what a provider wants back unread (signed reasoning) is left out.

use crate::{genai, spans::Spans};
use opcell_engine::conversation::{Message, Role};
use opcell_engine::event::{EffectId, EffectReply, Event, FrameId, Request};
use opcell_types::Value;
use serde_json::{Value as Json, json};
use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

/// The environment variable by which programs with OpenTelemetry are told to record content.
pub const CAPTURE_VARIABLE: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";

/// Bytes of one text; of a longer one, its beginning is kept.
const MAX_TEXT: usize = 4 << 10;

/// Bytes of one attribute: of a conversation, the newest messages that fit.
const MAX_ATTRIBUTE: usize = 16 << 10;

/// Bytes of all content of a trace. What comes later is left out, and its spans say so.
const MAX_CONTENT: usize = 16 << 20;

/// The attribute of spans whose content had no more room.
const OMITTED: &str = "opcell.content";

/// Returns `true` if the value of [`CAPTURE_VARIABLE`] asks for content in spans.
///
/// # Errors
/// When it is none of the known values, or asks for content in events, which Opcell does not send.
pub fn is_captured(value: &str) -> Result<bool, String> {
    match value.trim().to_ascii_lowercase().as_str() {
        "" | "false" | "no_content" => Ok(false),
        "true" | "span_only" | "span_and_event" => Ok(true),
        "event_only" => Err(format!("{CAPTURE_VARIABLE} is `{value}`, and Opcell records content in spans only")),
        _ => Err(format!("{CAPTURE_VARIABLE} is `{value}`, which is not known")),
    }
}

/// The conversations of a run while its events come.
#[derive(Default)]
pub(crate) struct Capture {
    used: usize,
    /// By the span around them.
    conversations: HashMap<usize, Conversation>,
    /// Arguments of calls that models asked for and that were not made yet, by the span around them.
    asked: HashMap<(usize, Arc<str>), String>,
    /// The models' names for the calls that are in flight.
    called: HashMap<EffectId, Arc<str>>,
}

#[derive(Default)]
struct Conversation {
    system: String,
    /// As JSON, newest last.
    messages: VecDeque<String>,
    bytes: usize,
}

impl Conversation {
    fn say(&mut self, message: &Json) {
        let text = message.to_string();
        self.bytes += text.len();
        self.messages.push_back(text);
        while self.bytes > MAX_ATTRIBUTE {
            let Some(oldest) = self.messages.pop_front() else { break };
            self.bytes -= oldest.len();
        }
    }

    fn written(&self) -> String {
        let messages: Vec<&str> = self.messages.iter().map(String::as_str).collect();
        format!("[{}]", messages.join(","))
    }
}

impl Capture {
    /// Takes in an event that the spans have seen, and gives them the content that belongs to it.
    pub(crate) fn observe(&mut self, spans: &mut Spans, event: &Event) {
        match event {
            Event::TurnStarted { frame, messages, .. } => {
                let conversation = self.conversation(spans, *frame);
                messages.iter().for_each(|said| conversation.say(&message(said)));
            }
            Event::Interjected { frame, message: said, .. } => self.conversation(spans, *frame).say(&message(said)),
            Event::Requested { effect, frame, request: Request::Round { .. } } => {
                let conversation = self.conversation(spans, *frame);
                let (system, messages) = (conversation.system.clone(), conversation.written());
                self.keep(
                    spans,
                    spans.of_effect(*effect),
                    [(genai::SYSTEM_INSTRUCTIONS, system), (genai::INPUT_MESSAGES, messages)],
                );
            }
            Event::Requested { effect, frame, request: Request::Tool { call, arguments, .. } } => {
                // Unless a person changed them, the arguments are those of the model's answer.
                let asked = match arguments.is_nullish() {
                    true => self.asked.remove(&(spans.index_of(*frame), call.clone())),
                    false => Some(cut(&arguments.to_json())),
                };
                self.called.insert(*effect, call.clone());
                self.keep(spans, spans.of_effect(*effect), asked.map(|asked| (genai::TOOL_ARGUMENTS, asked)));
            }
            Event::Replied { effect, reply } => {
                let Some((index, around)) = spans.of_effect(*effect).and_then(|index| spans.around_of(index)) else {
                    return;
                };
                match &**reply {
                    EffectReply::Open(Ok(opened)) => {
                        let system = json!([{"type": "text", "content": cut(&opened.system)}]).to_string();
                        *self.conversations.entry(around).or_default() =
                            Conversation { system, ..Conversation::default() };
                    }
                    EffectReply::Round(Ok(reply)) if reply.summary.is_none() => {
                        let said = message(&reply.message);
                        for call in &reply.message.tool_calls {
                            self.asked.insert((around, call.id.as_str().into()), cut(&call.arguments.to_json()));
                        }
                        self.conversations.entry(around).or_default().say(&said);
                        self.keep(spans, Some(index), [(genai::OUTPUT_MESSAGES, json!([said]).to_string())]);
                    }
                    EffectReply::Tool(reply) => {
                        let result = match &reply.result {
                            Ok(value) => value.as_str().map_or_else(|| value.to_json(), str::to_owned),
                            Err(failure) => format!("{}: {}", failure.reason, failure.message),
                        };
                        let result = cut(&result);
                        let part = json!({"type": "tool_call_response", "id": self.called.remove(effect).as_deref(), "response": result});
                        self.conversations.entry(around).or_default().say(&json!({"role": "tool", "parts": [part]}));
                        self.keep(spans, Some(index), [(genai::TOOL_RESULT, result)]);
                    }
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn conversation(&mut self, spans: &Spans, frame: FrameId) -> &mut Conversation {
        self.conversations.entry(spans.index_of(frame)).or_default()
    }

    fn keep(
        &mut self,
        spans: &mut Spans,
        index: Option<usize>,
        content: impl IntoIterator<Item = (&'static str, String)>,
    ) {
        let Some(index) = index else { return };
        for (key, text) in content.into_iter().filter(|(_, text)| !text.is_empty()) {
            if self.used + text.len() > MAX_CONTENT {
                spans.say_once(index, OMITTED, "omitted: the trace has no more room for content");
                continue;
            }
            self.used += text.len();
            spans.say_once(index, key, &text);
        }
    }
}

/// A message in the form of the conventions.
fn message(said: &Message) -> Json {
    let role = match said.role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    };
    let mut parts = Vec::new();
    if said.role == Role::Tool {
        parts.push(json!({"type": "tool_call_response", "id": said.tool_call_id, "response": cut(&said.content)}));
    } else if !said.content.is_empty() {
        parts.push(json!({"type": "text", "content": cut(&said.content)}));
    }
    parts.extend(said.tool_calls.iter().map(
        |call| json!({"type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments(&call.arguments)}),
    ));
    parts.extend(said.attachments.iter().map(|attachment| {
        json!({"type": "attachment", "mime_type": attachment.mime_type.as_str(), "bytes": attachment.data.len() / 4 * 3})
    }));
    json!({"role": role, "parts": parts})
}

/// Arguments of a call: as they are, or the beginning of their text where that is long.
fn arguments(value: &Value) -> Json {
    let text = value.to_json();
    match text.len() > MAX_TEXT {
        true => Json::String(cut(&text)),
        false => serde_json::from_str(&text).unwrap_or(Json::Null),
    }
}

/// A text, or the beginning of a long one with its whole size.
fn cut(text: &str) -> String {
    match text.len() > MAX_TEXT {
        true => format!("{}… ({} bytes)", text.get(..text.floor_char_boundary(MAX_TEXT)).unwrap_or(""), text.len()),
        false => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_says_whether_content_is_recorded() {
        for (value, expected) in
            [("", false), ("false", false), ("NO_CONTENT", false), ("true", true), ("SPAN_ONLY", true)]
        {
            assert_eq!(is_captured(value), Ok(expected), "{value}");
        }
        assert!(is_captured("EVENT_ONLY").unwrap_err().contains("in spans only"));
        assert!(is_captured("yes please").unwrap_err().contains("not known"));
    }

    #[test]
    fn a_conversation_keeps_its_newest_messages_and_of_long_ones_the_beginning() {
        let mut conversation = Conversation::default();
        for at in 0..1_000 {
            conversation.say(&message(&Message::user(format!("{at} {}", "ä".repeat(MAX_TEXT)))));
            assert!(conversation.written().len() <= MAX_ATTRIBUTE + conversation.messages.len() + 2);
        }
        let written: Json = serde_json::from_str(&conversation.written()).unwrap();
        let last = written.as_array().unwrap().last().unwrap();
        let text = last["parts"][0]["content"].as_str().unwrap();
        assert!(text.starts_with("999 ä") && text.ends_with("… (8196 bytes)"), "{text}");
    }

    #[test]
    fn what_a_provider_wants_back_and_bytes_of_pictures_are_not_content() {
        let mut said = Message::assistant("Done.");
        said.continuation = Some(Value::from("signed"));
        let picture = opcell_engine::conversation::Attachment { mime_type: "image/png".into(), data: "AAAA".into() };
        said.attachments.push(picture);
        let shown = message(&said).to_string();
        assert!(!shown.contains("signed") && !shown.contains("AAAA") && shown.contains("image/png"), "{shown}");
    }
}
