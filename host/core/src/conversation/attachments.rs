//! Attachments of tools' results: parts of a message that a model sees or hears beside its text.

use opcell_types::{
    Value,
    value::{Map, Text},
};
use serde::{Deserialize, Serialize};

/// The formats of pictures that providers take.
pub const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The formats of documents that providers take.
pub const DOCUMENT_TYPES: [&str; 1] = ["application/pdf"];

/// The formats of recordings that providers take.
pub const AUDIO_TYPES: [&str; 5] = ["audio/wav", "audio/mpeg", "audio/flac", "audio/ogg", "audio/aiff"];

/// The most attachments of one conversation, and their bytes in base64 together: older ones are forgotten first.
pub(super) const MAX_ATTACHMENTS: usize = 20;
pub(super) const MAX_ATTACHMENT_BYTES: usize = 16 << 20;

/// A picture, a document or a recording.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Attachment {
    /// One of [`PICTURE_TYPES`], [`DOCUMENT_TYPES`] or [`AUDIO_TYPES`].
    pub mime_type: Text,
    /// Its bytes in base64.
    pub data: Text,
}

/// The kind of an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttachmentKind {
    /// A model sees it.
    Picture,
    /// A model reads it.
    Document,
    /// A model hears it.
    Audio,
}

impl AttachmentKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Picture, Self::Document, Self::Audio];

    /// The noun.
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Self::Picture => "picture",
            Self::Document => "document",
            Self::Audio => "recording",
        }
    }

    /// The type of the blocks that hold it: for two of them as in the Model Context Protocol.
    #[must_use]
    pub fn block_type(self) -> &'static str {
        match self {
            Self::Picture => "image",
            Self::Document => "file",
            Self::Audio => "audio",
        }
    }

    /// The kind of a format.
    #[must_use]
    pub fn of(mime_type: &str) -> Option<Self> {
        let kinds = [
            (&PICTURE_TYPES[..], Self::Picture),
            (&DOCUMENT_TYPES[..], Self::Document),
            (&AUDIO_TYPES[..], Self::Audio),
        ];
        kinds.into_iter().find(|(types, _)| types.contains(&mime_type)).map(|(_, kind)| kind)
    }
}

impl Attachment {
    /// The kind; a picture if its format is not known, as those of earlier versions are.
    #[must_use]
    pub fn kind(&self) -> AttachmentKind {
        AttachmentKind::of(self.mime_type.as_str()).unwrap_or(AttachmentKind::Picture)
    }

    /// The block of a tool's result that holds it.
    #[must_use]
    pub fn to_block(&self) -> Value {
        Value::object([
            ("type", Value::from(self.kind().block_type())),
            ("mimeType", Value::String(self.mime_type.clone())),
            ("data", Value::String(self.data.clone())),
        ])
    }

    fn of(block: &Value) -> Option<Self> {
        let text = |key: &str| match block.get(key)? {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        let (block_type, mime_type) = (text("type")?, text("mimeType")?);
        let kind = AttachmentKind::of(mime_type.as_str())?;
        (block_type.as_str() == kind.block_type()).then_some(())?;
        Some(Self { mime_type, data: text("data")? })
    }
}

/// The blocks of a tool's result: the result itself, or its `result` where there are warnings beside it.
#[must_use]
pub fn blocks(result: &Value) -> Option<&[Value]> {
    result.as_array().or_else(|| result.get("result")?.as_array())
}

/// A tool's result with other blocks.
#[must_use]
pub fn with_blocks(result: &Value, blocks: Vec<Value>) -> Value {
    match result.as_object() {
        None => Value::array(blocks),
        Some(entries) => {
            let mut entries: Map =
                entries.iter().map(|(key, value)| (Text::from(key.as_str()), value.clone())).collect();
            entries.insert("result".into(), Value::array(blocks));
            Value::from(entries)
        }
    }
}

/// Takes the attachments out of a tool's result: the rest, in which each has its number among those of its kind, and the
/// attachments in order. `None` if it has none.
#[must_use]
pub fn take_attachments(result: &Value) -> Option<(Value, Vec<Attachment>)> {
    let blocks = blocks(result)?;
    let mut attachments: Vec<Attachment> = Vec::new();
    let rest = blocks.iter().map(|block| match Attachment::of(block) {
        None => block.clone(),
        Some(attachment) => {
            let (kind, mime_type) = (attachment.kind(), Value::String(attachment.mime_type.clone()));
            attachments.push(attachment);
            let number = attachments.iter().filter(|other| other.kind() == kind).count();
            let number = Value::from(i64::try_from(number).unwrap_or(i64::MAX));
            let told = [("type", Value::from(kind.block_type())), ("mimeType", mime_type), (kind.noun(), number)];
            Value::object(told)
        }
    });
    let rest: Vec<Value> = rest.collect();
    (!attachments.is_empty()).then(|| (with_blocks(result, rest), attachments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conversation::{Message, Messages};

    fn json(text: &str) -> Value {
        Value::from_json(text).unwrap()
    }

    #[test]
    fn a_result_gives_its_pictures_and_keeps_their_places() {
        let blocks = r#"[{"type":"text","text":"See"},{"type":"image","mimeType":"image/png","data":"aGk="}]"#;
        let rest = r#"[{"type":"text","text":"See"},{"type":"image","mimeType":"image/png","picture":1}]"#;
        let (left, pictures) = take_attachments(&json(blocks)).unwrap();
        assert_eq!((left.to_json().as_str(), pictures.len(), pictures[0].data.as_str()), (rest, 1, "aGk="));
        let warned = format!(r#"{{"warnings":["odd"],"result":{blocks}}}"#);
        let (left, pictures) = take_attachments(&json(&warned)).unwrap();
        assert_eq!((left.to_json(), pictures.len()), (format!(r#"{{"warnings":["odd"],"result":{rest}}}"#), 1));
        assert_eq!(pictures[0].to_block(), json(r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#));
    }

    #[test]
    fn documents_and_recordings_have_blocks_and_numbers_of_their_own() {
        let blocks = r#"[{"type":"file","mimeType":"application/pdf","data":"aGk="},{"type":"audio","mimeType":"audio/wav","data":"aGk="},{"type":"file","mimeType":"application/pdf","data":"aG8="}]"#;
        let rest = r#"[{"type":"file","mimeType":"application/pdf","document":1},{"type":"audio","mimeType":"audio/wav","recording":1},{"type":"file","mimeType":"application/pdf","document":2}]"#;
        let (left, taken) = take_attachments(&json(blocks)).unwrap();
        assert_eq!((left.to_json().as_str(), taken.len()), (rest, 3));
        let again: Vec<Value> = taken.iter().map(Attachment::to_block).collect();
        assert_eq!(Value::from(again), json(blocks));
    }

    #[test]
    fn anything_else_is_no_picture() {
        for other in [
            r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#,
            r#"[{"type":"image","mimeType":"image/svg+xml","data":"aGk="}]"#,
            r#"[{"type":"image","mimeType":"image/png","data":7}]"#,
            r#"[{"type":"audio","mimeType":"image/png","data":"aGk="}]"#,
            r#"[{"type":"file","mimeType":"text/plain","data":"aGk="}]"#,
            r#"[{"type":"image","mimeType":"application/pdf","data":"aGk="}]"#,
            r#"[["image"], "image", null]"#,
            r#""[{\"type\":\"image\"}]""#,
        ] {
            assert_eq!(take_attachments(&json(other)), None, "{other}");
        }
    }

    #[test]
    fn a_conversation_forgets_its_oldest_pictures_and_says_so() {
        let picture = |bytes: usize| Attachment { mime_type: "image/png".into(), data: "x".repeat(bytes).into() };
        let shows = |attachments: Vec<Attachment>| Message { attachments, ..Message::tool("c", "text", false) };
        let seen = |messages: &Messages| -> Vec<(usize, u32)> {
            messages.iter().map(|message| (message.attachments.len(), message.attachments_forgotten)).collect()
        };
        let mut messages: Messages = (0..3).map(|_| shows(vec![picture(9); 10])).collect();
        assert_eq!(seen(&messages), [(0, 10), (10, 0), (10, 0)]);
        messages.push(Message::user("more"));
        messages.push(shows(vec![picture(MAX_ATTACHMENT_BYTES - 5)]));
        assert_eq!(seen(&messages), [(0, 10), (0, 10), (0, 10), (0, 0), (1, 0)]);
        let again: Messages = serde_json::from_str(&serde_json::to_string(&messages).unwrap()).unwrap();
        assert_eq!(again, messages);
        // One that is too large by itself stays: a result has a limit of its own.
        messages.push(shows(vec![picture(MAX_ATTACHMENT_BYTES + 1)]));
        assert_eq!(seen(&messages).last(), Some(&(1, 0)));
    }
}
