//! Pictures in requests: who sees them, and the sentence for whoever does not.

use super::super::config::Api;
use super::request::Ask;
use opcell_engine::conversation::{Message, Picture};
use serde_json::{Value as Json, json};

/// Parts of the names of models that see pictures, for the protocol that all kinds of models are served by.
const SEEING: [&str; 19] = [
    "gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4", "claude", "gemini", "gemma-3", "gemma3", "gemma-4",
    "grok-4", "llama-4", "llava", "pixtral", "vision", "-vl", "vl:",
];

impl<'a> Ask<'a> {
    /// Returns `true` if the model sees pictures: as the operator says, else as far as its name tells.
    pub(super) fn sees_pictures(&self) -> bool {
        let by_name = || match self.api {
            Api::AnthropicMessages | Api::Gemini | Api::OpenaiResponses => true,
            Api::OpenaiCompletions | Api::Ollama => {
                let name = self.id.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
                SEEING.iter().any(|part| match part.starts_with('o') {
                    true => name.starts_with(part),
                    false => name.contains(part),
                })
            }
        };
        self.model.and_then(|model| model.supports_images).unwrap_or_else(by_name)
    }

    /// The pictures of a result that are sent.
    pub(super) fn pictures(&self, result: &'a Message) -> &'a [Picture] {
        if self.sees_pictures() { &result.pictures } else { &[] }
    }

    /// The text of a tool's result, with a sentence about pictures that the model is not shown.
    pub(super) fn result_text(&self, result: &Message) -> String {
        let mut text = match result.is_error {
            true => format!("Error: {}", result.content),
            false => result.content.clone(),
        };
        let unseen = if self.sees_pictures() { 0 } else { result.pictures.len() };
        for (count, why) in [
            (unseen, "this model reads text only"),
            (result.pictures_forgotten as usize, "the conversation has no room for them any more"),
        ] {
            let pictures = match count {
                0 => continue,
                1 => "1 picture is".to_owned(),
                count => format!("{count} pictures are"),
            };
            text.push_str(&format!("\n[{pictures} not shown: {why}.]"));
        }
        text
    }
}

/// A picture as OpenAI's protocols take it.
pub(super) fn data_url(picture: &Picture) -> String {
    format!("data:{};base64,{}", picture.mime_type.as_str(), picture.data.as_str())
}

/// A picture as Anthropic takes it.
pub(super) fn source(picture: &Picture) -> Json {
    json!({"type": "base64", "media_type": picture.mime_type.as_str(), "data": picture.data.as_str()})
}
