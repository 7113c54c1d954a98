//! A model conversation as data.

mod attachments;

pub use attachments::{
    AUDIO_TYPES, Attachment, AttachmentKind, DOCUMENT_TYPES, PICTURE_TYPES, blocks, take_attachments, with_blocks,
};

use attachments::{MAX_ATTACHMENT_BYTES, MAX_ATTACHMENTS};
use opcell_types::Value;
use rpds::VectorSync;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::ops::Range;

/// The author of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// A person, or the workflow on their behalf.
    User,
    /// The model.
    Assistant,
    /// A tool, answering a call.
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Message {
    /// The author of the message.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The calls that the model asks for; assistant messages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tool_calls: Vec<ToolCallRequest>,
    /// The call that this answers; tool messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_call_id: Option<String>,
    /// `true` if the tool failed; tool messages only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The pictures, documents and recordings of its result; tool messages only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// Attachments that the conversation had no room for any more.
    #[serde(default, skip_serializing_if = "is_none_of_them")]
    pub attachments_forgotten: u32,
    /// The part that the provider wants back unchanged with this message (signed reasoning, for one); opaque, assistant
    /// messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation: Option<Value>,
}

impl Message {
    /// A user message.
    #[must_use]
    pub fn user(content: impl Into<String>) -> Self {
        Self::plain(Role::User, content)
    }

    /// An assistant message without tool calls.
    #[must_use]
    pub fn assistant(content: impl Into<String>) -> Self {
        Self::plain(Role::Assistant, content)
    }

    /// A tool's answer to a call.
    #[must_use]
    pub fn tool(call: impl Into<String>, content: impl Into<String>, is_error: bool) -> Self {
        Self { tool_call_id: Some(call.into()), is_error, ..Self::plain(Role::Tool, content) }
    }

    fn plain(role: Role, content: impl Into<String>) -> Self {
        Self {
            role,
            content: content.into(),
            tool_calls: Vec::new(),
            tool_call_id: None,
            is_error: false,
            attachments: Vec::new(),
            attachments_forgotten: 0,
            continuation: None,
        }
    }

    /// The same without what only a provider understands and without attachments: what was said, for people and documents.
    #[must_use]
    pub fn said(&self) -> Self {
        Self {
            tool_calls: self.tool_calls.clone(),
            tool_call_id: self.tool_call_id.clone(),
            is_error: self.is_error,
            ..Self::plain(self.role, self.content.as_str())
        }
    }
}

/// Messages in order. A copy shares them, so that a conversation of any length is handed on and added to at the same
/// small cost: states of a pack hand theirs to the next one, and every model round is given all of it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Messages {
    said: VectorSync<Message>,
    /// The position of the user's last message.
    asked: Option<usize>,
    /// The positions of messages with attachments; at most as many as there may be attachments.
    attached: Vec<usize>,
}

impl Messages {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.said.len()
    }

    /// Returns `true` if there is no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// The newest one.
    #[must_use]
    pub fn last(&self) -> Option<&Message> {
        self.said.last()
    }

    /// Returns the user's last message.
    #[must_use]
    pub fn last_of_user(&self) -> Option<&Message> {
        self.said.get(self.asked?)
    }

    /// All of them, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Message> {
        self.said.iter()
    }

    /// Those at these places, oldest first; places where there is none are passed over.
    pub fn range(&self, places: Range<usize>) -> impl DoubleEndedIterator<Item = &Message> {
        let end = places.end.min(self.len());
        (places.start..end).filter_map(|at| self.said.get(at))
    }

    /// Those from this place on.
    pub fn since(&self, from: usize) -> impl DoubleEndedIterator<Item = &Message> {
        self.range(from..self.len())
    }

    /// Says the newest one in other words; what only its provider understands goes with the old ones.
    pub fn rewrite_last(&mut self, content: &str) {
        if let Some(last) = self.said.last().cloned() {
            self.said.drop_last_mut();
            self.said.push_back_mut(Message { content: content.to_owned(), continuation: None, ..last });
        }
    }

    /// Adds one.
    pub fn push(&mut self, message: Message) {
        if message.role == Role::User {
            self.asked = Some(self.said.len());
        }
        let has_attachments = !message.attachments.is_empty();
        self.said.push_back_mut(message);
        if has_attachments {
            self.attached.push(self.said.len() - 1);
            self.forget_attachments();
        }
    }

    /// Forgets the oldest attachments until the others have room; those of the newest result stay.
    fn forget_attachments(&mut self) {
        let (mut count, mut bytes) = (0_usize, 0_usize);
        let fits = |message: &Message| {
            count += message.attachments.len();
            bytes += message.attachments.iter().map(|attachment| attachment.data.len()).sum::<usize>();
            count <= MAX_ATTACHMENTS && bytes <= MAX_ATTACHMENT_BYTES
        };
        let messages = self.attached.iter().rev().filter_map(|at| self.said.get(*at));
        let kept = messages.map(fits).take_while(|fits| *fits).count().max(1);
        for at in self.attached.drain(..self.attached.len().saturating_sub(kept)) {
            if let Some(message) = self.said.get(at) {
                let forgotten = u32::try_from(message.attachments.len()).unwrap_or(u32::MAX);
                let message = Message { attachments_forgotten: forgotten, ..message.said() };
                self.said.set_mut(at, message);
            }
        }
    }
}

impl Extend<Message> for Messages {
    fn extend<T: IntoIterator<Item = Message>>(&mut self, messages: T) {
        messages.into_iter().for_each(|message| self.push(message));
    }
}

impl FromIterator<Message> for Messages {
    fn from_iter<T: IntoIterator<Item = Message>>(messages: T) -> Self {
        let mut all = Self::new();
        all.extend(messages);
        all
    }
}

impl<const N: usize> From<[Message; N]> for Messages {
    fn from(messages: [Message; N]) -> Self {
        messages.into_iter().collect()
    }
}

impl From<Vec<Message>> for Messages {
    fn from(messages: Vec<Message>) -> Self {
        messages.into_iter().collect()
    }
}

impl Serialize for Messages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Vec::deserialize(deserializer).map(Self::from)
    }
}

/// A call that a model asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolCallRequest {
    /// Unique within its conversation.
    pub id: String,
    /// The tool's name as the model gave it.
    pub name: String,
    /// The arguments as the model gave them: an object, or a text where they are not JSON.
    pub arguments: Value,
}

impl ToolCallRequest {
    /// The reason why the arguments are not an object, in words for the model; `None` when they are one, or absent.
    #[must_use]
    pub fn not_an_object(&self) -> Option<String> {
        const SHOWN_BYTES: usize = 200;
        let shown = |text: &str| opcell_types::text::one_line(text, SHOWN_BYTES);
        match &self.arguments {
            Value::Object(_) | Value::Null | Value::Undefined => None,
            Value::String(text) => Some(match serde_json::from_str::<Value>(text.as_str()) {
                Err(error) => {
                    format!("they are not JSON ({error}), got {}; write one JSON object", shown(text.as_str()))
                }
                Ok(_) => format!("they must be one JSON object, got {}", shown(text.as_str())),
            }),
            other => Some(format!("they must be one JSON object, got {}", shown(&other.to_json()))),
        }
    }
}

/// The usage of a model.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Usage {
    /// Tokens read, those from the provider's cache and those written to it included.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// The tokens read that came from the provider's cache.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_read_tokens: u64,
    /// The tokens read that the provider kept for later rounds and charges for, where it says so.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub cache_write_tokens: u64,
    /// US dollars, where the provider or the price list says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_none_of_them(count: &u32) -> bool {
    *count == 0
}

/// A count that is left out of the journal.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
