//! Attachments in requests: who sees, reads and hears them, and the sentence for whoever does not.

use super::super::config::Api;
use super::{anthropic_models::AnthropicModel, request::Ask};
use opcell_engine::conversation::{Attachment, AttachmentKind, Message, Role};
use serde_json::{Value as Json, json};
use std::sync::Arc;

/// Parts of the names of models that see pictures, for the protocol that all kinds of models are served by.
const SEEING: [&str; 19] = [
    "gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4", "claude", "gemini", "gemma-3", "gemma3", "gemma-4",
    "grok-4", "llama-4", "llava", "pixtral", "vision", "-vl", "vl:",
];

/// The same of models that read documents.
const READING: [&str; 9] = ["gpt-4o", "gpt-4.1", "gpt-5", "gpt-6", "o1", "o3", "o4", "claude", "gemini"];

/// The same of models that hear.
const HEARING: [&str; 3] = ["-audio", "gpt-audio", "gemini"];

impl<'a> Ask<'a> {
    /// Returns `true` if a part of the model's name is one of these; `o` followed by a number only at its beginning.
    fn is_named(&self, parts: &[&str]) -> bool {
        let name = self.id.rsplit('/').next().unwrap_or_default().to_ascii_lowercase();
        parts.iter().any(|part| match part.starts_with('o') {
            true => name.starts_with(part),
            false => name.contains(part),
        })
    }

    /// Returns `true` if the model takes attachments of a kind: as the operator says, else as far as its protocol and
    /// its name tell.
    fn takes_kind(&self, kind: AttachmentKind) -> bool {
        let is_general = matches!(self.api, Api::OpenaiCompletions | Api::Ollama);
        let (said, by_protocol, names) = match kind {
            AttachmentKind::Picture => (self.model.and_then(|model| model.supports_images), !is_general, &SEEING[..]),
            AttachmentKind::Document => {
                (self.model.and_then(|model| model.supports_documents), !is_general, &READING[..])
            }
            AttachmentKind::Audio => {
                (self.model.and_then(|model| model.supports_audio), self.api == Api::Gemini, &HEARING[..])
            }
        };
        said.unwrap_or_else(|| by_protocol || (is_general && self.is_named(names)))
    }

    /// Returns `true` if an attachment is sent: the model takes its kind, and the protocol its format.
    fn takes(&self, attachment: &Attachment) -> bool {
        let kind = attachment.kind();
        let has_format = match (kind, self.api) {
            (AttachmentKind::Picture | AttachmentKind::Document, _) | (AttachmentKind::Audio, Api::Gemini) => true,
            (AttachmentKind::Audio, Api::OpenaiCompletions | Api::Ollama) => audio_format(attachment).is_some(),
            (AttachmentKind::Audio, Api::OpenaiResponses | Api::AnthropicMessages) => false,
        };
        has_format && self.takes_kind(kind)
    }

    /// The attachments of a result that are sent.
    pub(super) fn attachments(&self, result: &'a Message) -> Vec<&'a Attachment> {
        result.attachments.iter().filter(|attachment| self.takes(attachment)).collect()
    }

    /// The number of a result's attachments of a kind that the model is not sent.
    fn unseen(&self, result: &Message, kind: AttachmentKind) -> usize {
        result.attachments.iter().filter(|it| it.kind() == kind && !self.takes(it)).count()
    }

    /// The text of a tool's result, with a sentence about attachments that the model is not shown.
    pub(super) fn result_text(&self, result: &Message) -> String {
        let mut text = match result.is_error {
            true => format!("Error: {}", result.content),
            false => result.content.clone(),
        };
        for kind in AttachmentKind::ALL {
            let count = self.unseen(result, kind);
            if count > 0 {
                let why = match kind {
                    AttachmentKind::Picture => "reads text only",
                    AttachmentKind::Document => "reads no documents",
                    AttachmentKind::Audio => "hears no recordings of this format",
                };
                text.push_str(&format!("\n[{} not shown: this model {why}.]", counted(count, kind.noun())));
            }
        }
        let forgotten = result.attachments_forgotten as usize;
        if forgotten > 0 {
            let forgotten = counted(forgotten, "attachment");
            text.push_str(&format!("\n[{forgotten} not shown: the conversation has no room for them any more.]"));
        }
        text
    }

    /// The warnings about what the model is not sent, for people: attachments of the newest results, and settings that
    /// its protocol has no place for.
    pub(in super::super) fn warnings(&self) -> Vec<Arc<str>> {
        let newest = self.round.messages.iter().rev().take_while(|message| message.role == Role::Tool);
        let newest: Vec<&Message> = newest.collect();
        let warning = |kind: AttachmentKind| {
            let count: usize = newest.iter().map(|result| self.unseen(result, kind)).sum();
            let key = match kind {
                AttachmentKind::Picture => "supports-images",
                AttachmentKind::Document => "supports-documents",
                AttachmentKind::Audio => "supports-audio",
            };
            (count > 0).then(|| {
                let count = counted(count, kind.noun());
                format!(
                    "{count} not shown to `{}`, which takes none of this format by `{}` as far as is known; `{key}` of the \
                     model says otherwise",
                    self.round.model,
                    self.api.name()
                )
                .into()
            })
        };
        let is_first = !self.round.messages.iter().any(|message| message.role == Role::Assistant);
        let has_no_speed = is_first && self.speed().is_some() && matches!(self.api, Api::Gemini | Api::Ollama);
        let speed = has_no_speed.then(|| {
            format!("`speed-mode` is not sent to `{}`: `{}` has none", self.round.model, self.api.name()).into()
        });
        let untaken = if is_first { self.untaken() } else { Vec::new() };
        AttachmentKind::ALL.into_iter().filter_map(warning).chain(speed).chain(untaken).collect()
    }

    /// The settings of the session that the API refuses for this model.
    fn untaken(&self) -> Vec<Arc<str>> {
        if self.api != Api::AnthropicMessages {
            return Vec::new();
        }
        let model = AnthropicModel::parse(self.id);
        let (generation, temperature) = (self.generation(), self.round.session.settings.temperature);
        let set = [
            ("temperature", temperature.is_some()),
            ("top_p", generation.top_p.is_some()),
            ("top_k", generation.top_k.is_some()),
        ];
        let unsent = set.into_iter().filter(|(_, is_set)| *is_set && !model.has_sampling());
        let unsent =
            unsent.map(|(name, _)| format!("`{name}` is not sent to `{}`, which takes none", self.round.model));
        let unforced = (self.must_call() && !model.has_forced_calls())
            .then(|| format!("`{}` cannot be made to call a tool, so it is only asked to", self.round.model));
        unsent.chain(unforced).map(Arc::from).collect()
    }
}

fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun} is"),
        count => format!("{count} {noun}s are"),
    }
}

/// An attachment as OpenAI's protocols take it.
pub(super) fn data_url(attachment: &Attachment) -> String {
    format!("data:{};base64,{}", attachment.mime_type.as_str(), attachment.data.as_str())
}

/// The name of a recording's format in chat completions, which take two of them.
fn audio_format(attachment: &Attachment) -> Option<&'static str> {
    match attachment.mime_type.as_str() {
        "audio/wav" => Some("wav"),
        "audio/mpeg" => Some("mp3"),
        _ => None,
    }
}

/// The name of a document, which OpenAI's protocols want.
const DOCUMENT_NAME: &str = "document.pdf";

/// An attachment as chat completions take it.
pub(super) fn chat_part(attachment: &Attachment) -> Json {
    match attachment.kind() {
        AttachmentKind::Picture => json!({"type": "image_url", "image_url": {"url": data_url(attachment)}}),
        AttachmentKind::Document => {
            json!({"type": "file", "file": {"filename": DOCUMENT_NAME, "file_data": data_url(attachment)}})
        }
        AttachmentKind::Audio => {
            let format = audio_format(attachment).unwrap_or("wav");
            json!({"type": "input_audio", "input_audio": {"data": attachment.data.as_str(), "format": format}})
        }
    }
}

/// An attachment as responses take it.
pub(super) fn responses_part(attachment: &Attachment) -> Json {
    match attachment.kind() {
        AttachmentKind::Document => {
            json!({"type": "input_file", "filename": DOCUMENT_NAME, "file_data": data_url(attachment)})
        }
        AttachmentKind::Picture | AttachmentKind::Audio => {
            json!({"type": "input_image", "image_url": data_url(attachment)})
        }
    }
}

/// An attachment as Anthropic takes it.
pub(super) fn anthropic_part(attachment: &Attachment) -> Json {
    let kind = match attachment.kind() {
        AttachmentKind::Document => "document",
        AttachmentKind::Picture | AttachmentKind::Audio => "image",
    };
    let (media_type, data) = (attachment.mime_type.as_str(), attachment.data.as_str());
    json!({"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}})
}

/// An attachment as Gemini takes it.
pub(super) fn gemini_part(attachment: &Attachment) -> Json {
    let mime_type = match attachment.mime_type.as_str() {
        "audio/mpeg" => "audio/mp3",
        other => other,
    };
    json!({"inlineData": {"mimeType": mime_type, "data": attachment.data.as_str()}})
}
