//! Pictures in the results of tools: parts of a message that a model sees beside its text.

use opcell_types::{
    Value,
    value::{Map, Text},
};
use serde::{Deserialize, Serialize};

/// The formats of pictures that providers take.
pub const PICTURE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The most pictures of one conversation, and their bytes in base64 together: older ones are forgotten first.
pub(super) const MAX_PICTURES: usize = 20;
pub(super) const MAX_PICTURE_BYTES: usize = 16 << 20;

/// A picture.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Picture {
    /// One of [`PICTURE_TYPES`].
    pub mime_type: Text,
    /// Its bytes in base64.
    pub data: Text,
}

impl Picture {
    /// The block of a tool's result that holds it, as the Model Context Protocol writes it.
    #[must_use]
    pub fn to_block(&self) -> Value {
        Value::object([
            ("type", Value::from("image")),
            ("mimeType", Value::String(self.mime_type.clone())),
            ("data", Value::String(self.data.clone())),
        ])
    }

    fn of(block: &Value) -> Option<Self> {
        let text = |key: &str| match block.get(key)? {
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        (text("type")?.as_str() == "image").then_some(())?;
        let mime_type = text("mimeType").filter(|kind| PICTURE_TYPES.contains(&kind.as_str()))?;
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

/// Takes the pictures out of a tool's result: the rest, in which each has its number, and the pictures in order. `None`
/// if it has none.
#[must_use]
pub fn take_pictures(result: &Value) -> Option<(Value, Vec<Picture>)> {
    let blocks = blocks(result)?;
    let mut pictures: Vec<Picture> = Vec::new();
    let rest = blocks.iter().map(|block| match Picture::of(block) {
        None => block.clone(),
        Some(picture) => {
            let kind = Value::String(picture.mime_type.clone());
            pictures.push(picture);
            let number = i64::try_from(pictures.len()).unwrap_or(i64::MAX);
            Value::object([("type", Value::from("image")), ("mimeType", kind), ("picture", Value::from(number))])
        }
    });
    let rest: Vec<Value> = rest.collect();
    (!pictures.is_empty()).then(|| (with_blocks(result, rest), pictures))
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
        let (left, pictures) = take_pictures(&json(blocks)).unwrap();
        assert_eq!((left.to_json().as_str(), pictures.len(), pictures[0].data.as_str()), (rest, 1, "aGk="));
        let warned = format!(r#"{{"warnings":["odd"],"result":{blocks}}}"#);
        let (left, pictures) = take_pictures(&json(&warned)).unwrap();
        assert_eq!((left.to_json(), pictures.len()), (format!(r#"{{"warnings":["odd"],"result":{rest}}}"#), 1));
        assert_eq!(pictures[0].to_block(), json(r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#));
    }

    #[test]
    fn anything_else_is_no_picture() {
        for other in [
            r#"{"type":"image","mimeType":"image/png","data":"aGk="}"#,
            r#"[{"type":"image","mimeType":"image/svg+xml","data":"aGk="}]"#,
            r#"[{"type":"image","mimeType":"image/png","data":7}]"#,
            r#"[{"type":"audio","mimeType":"image/png","data":"aGk="}]"#,
            r#"[["image"], "image", null]"#,
            r#""[{\"type\":\"image\"}]""#,
        ] {
            assert_eq!(take_pictures(&json(other)), None, "{other}");
        }
    }

    #[test]
    fn a_conversation_forgets_its_oldest_pictures_and_says_so() {
        let picture = |bytes: usize| Picture { mime_type: "image/png".into(), data: "x".repeat(bytes).into() };
        let shows = |pictures: Vec<Picture>| Message { pictures, ..Message::tool("c", "text", false) };
        let seen = |messages: &Messages| -> Vec<(usize, u32)> {
            messages.iter().map(|message| (message.pictures.len(), message.pictures_forgotten)).collect()
        };
        let mut messages: Messages = (0..3).map(|_| shows(vec![picture(9); 10])).collect();
        assert_eq!(seen(&messages), [(0, 10), (10, 0), (10, 0)]);
        messages.push(Message::user("more"));
        messages.push(shows(vec![picture(MAX_PICTURE_BYTES - 5)]));
        assert_eq!(seen(&messages), [(0, 10), (0, 10), (0, 10), (0, 0), (1, 0)]);
        let again: Messages = serde_json::from_str(&serde_json::to_string(&messages).unwrap()).unwrap();
        assert_eq!(again, messages);
        // One that is too large by itself stays: a result has a limit of its own.
        messages.push(shows(vec![picture(MAX_PICTURE_BYTES + 1)]));
        assert_eq!(seen(&messages).last(), Some(&(1, 0)));
    }
}
