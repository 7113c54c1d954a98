//! Conversations with models: what they say, with whom, and what they may use.

use super::{ApprovalRules, Contribution, Guard, ValueSpec, is_default, is_false};
use indexmap::IndexMap;
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A model conversation's configuration. `None` inherits; an empty list is none of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Session {
    /// The model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSelection>,
    /// A named set of session settings, resolved when the run starts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_profile: Option<String>,
    /// Tools by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Skills by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skills: Option<Vec<String>>,
    /// Extensions by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extensions: Option<Vec<String>>,
    /// Workflows the session may delegate to, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflows: Option<Vec<String>>,
    /// The workflow's instruction layer in the system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Takes the whole system prompt's place; explicit, never a default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replace_system_prompt: Option<String>,
    /// `lambda` or `prose`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_mode: Option<PromptMode>,
    /// The parts of the system prompt that are shown; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_component_selection: Option<Value>,
    /// `off`, `minimal`, `low`, `medium`, `high` or `xhigh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking_level: Option<ThinkingLevel>,
    /// The provider's own word for the effort of thinking, in place of the one for `thinking-level`.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "effort_override")]
    pub effort_override: Option<String>,
    /// `standard` or `fast`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speed_mode: Option<SpeedMode>,
    /// From 0.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// `streaming` or `non-streaming`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub response_mode: Option<ResponseMode>,
    /// `true` if token log probabilities are requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logprobs: Option<bool>,
    /// From 1 to 20.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_logprobs: Option<u32>,
    /// Values that fill `{{name}}` tokens of `system-prompt` (PromptPack).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub variables: IndexMap<Arc<str>, ValueSpec>,
    /// The most model rounds of one turn, 100 unless said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_rounds: Option<u32>,
    /// Maximum tool calls of one turn, 1000 by default; further ones are refused with a message to the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u32>,
    /// The way in which the model calls tools: by programs in this language instead of one by one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeMode>,
    /// When a conversation is sent shortened; by default once it nears its model's context.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compaction: Option<Compaction>,
    /// Maximum bytes of a tool's result that the model is shown, from 1,000 to 1,000,000: of a longer one it is shown
    /// the beginning, the end and a handle, by which it reads the rest.
    #[serde(skip_serializing_if = "Option::is_none", deserialize_with = "result_limit")]
    pub result_limit: Option<u32>,
    /// Rules for calls of tools that wait for a person. Those of every place count, the strictest decides.
    #[serde(skip_serializing_if = "ApprovalRules::is_empty")]
    pub approve: ApprovalRules,
    /// A tool whose call ends the conversation: its result is the session's answer (PromptPack RFC 0010).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub final_tool: Option<String>,
    /// The document's descriptions of tools that the host binds, by name: models receive this instead of the host's
    /// description.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub tool_shapes: IndexMap<String, ToolShape>,
    /// Agents of the document that the model may call, by the name of the tool for each (PromptPack RFC 0007).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<String, AgentTool>,
    /// Skills that the document brings along, by name (PromptPack).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub own_skills: IndexMap<String, OwnSkill>,
    /// Rules that every answer keeps to, or is rewritten by (PromptPack).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guards: Vec<Guard>,
    /// The pictures, documents and recordings that the model is shown; absent: all (PromptPack).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub media: Option<MediaLimits>,
    /// The settings that differ where a certain model answers, by its id (PromptPack).
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub model_overrides: IndexMap<String, ModelOverride>,
    /// The parameters of generation, temperature aside.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: Generation,
    /// One conversation, in order. Exactly one of this and `prompts` is non-empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub contributions: Vec<Contribution>,
    /// Several turns of one conversation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prompts: Vec<PromptGroup>,
}

impl Session {
    /// These settings inside of others, as a callee inherits them: capabilities are narrowed by both, instructions
    /// follow one another, and everything else counts where these say nothing.
    #[must_use]
    pub fn within(&self, outer: &Self) -> Self {
        let mut session = self.clone();
        macro_rules! narrow {
            ($($field:ident),*) => { $( session.$field = narrowed(session.$field.take(), outer.$field.as_ref()); )* };
        }
        macro_rules! or {
            ($($field:ident),*) => { $( if session.$field.is_none() { session.$field.clone_from(&outer.$field); } )* };
        }
        narrow!(tools, skills, extensions, workflows);
        or!(
            model,
            session_profile,
            prompt_mode,
            prompt_component_selection,
            thinking_level,
            effort_override,
            speed_mode,
            temperature,
            response_mode,
            logprobs,
            top_logprobs,
            max_rounds,
            max_tool_calls,
            code,
            compaction,
            result_limit
        );
        session.approve.add(&outer.approve);
        session.system_prompt = match (&outer.system_prompt, session.system_prompt.take()) {
            (Some(outer), Some(own)) => Some(format!("{outer}\n\n{own}")),
            (Some(outer), None) => Some(outer.clone()),
            (None, own) => own,
        };
        session
    }
}

/// Returns the entries of both lists; an absent list is everything.
fn narrowed(own: Option<Vec<String>>, outer: Option<&Vec<String>>) -> Option<Vec<String>> {
    match (own, outer) {
        (Some(own), Some(outer)) => Some(own.into_iter().filter(|name| outer.contains(name)).collect()),
        (Some(own), None) => Some(own),
        (None, outer) => outer.cloned(),
    }
}

/// When a conversation is sent shortened. What is left out stays in the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Compaction {
    /// `false`: conversations are sent whole, and fail once their model has no room for them.
    pub enabled: bool,
    /// The share of the model's context at which it begins, in percent, from 10 to 100.
    #[serde(deserialize_with = "percent")]
    pub at_percent: u8,
    /// The newest rounds, which stay whole for as long as there is room.
    pub keep_rounds: u32,
    /// `rule` or `model`.
    #[serde(skip_serializing_if = "is_default")]
    pub by: CompactionBy,
    /// The model that writes summaries; by default the one that the session asks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Maximum tokens of a summary, from 100 to 100,000.
    #[serde(deserialize_with = "summary_tokens", skip_serializing_if = "is_summary_tokens")]
    pub summary_tokens: u32,
    /// Seconds that a summary may take, from 1 to 3,600.
    #[serde(deserialize_with = "timeout_seconds", skip_serializing_if = "is_timeout_seconds")]
    pub timeout_seconds: u32,
    /// The messages that stay, whatever is left out.
    #[serde(skip_serializing_if = "is_default")]
    pub pin: Pin,
}

/// Messages that compaction neither shortens nor summarises.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Pin {
    /// Messages of people and answers of the model that contain one of these texts; at most 16, each of 1 to 200 bytes.
    #[serde(deserialize_with = "pinned_texts", skip_serializing_if = "Vec::is_empty")]
    pub containing: Vec<String>,
    /// Results of these tools, with the calls that they answer; at most 16.
    #[serde(deserialize_with = "pinned_texts", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl Pin {
    /// Returns `true` if it pins nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.containing.is_empty() && self.tools.is_empty()
    }
}

/// Texts of one list of pins, and the bytes of each.
const PINS: (usize, usize) = (16, 200);

fn pinned_texts<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let texts = Vec::<String>::deserialize(deserializer)?;
    let fits = texts.len() <= PINS.0 && texts.iter().all(|text| (1..=PINS.1).contains(&text.len()));
    match fits {
        true => Ok(texts),
        false => {
            Err(serde::de::Error::custom(format!("expected at most {} texts, each of 1 to {} bytes", PINS.0, PINS.1)))
        }
    }
}

/// The pictures, documents and recordings of tools that a session's model is shown. A kind without limits is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MediaLimits {
    /// Pictures.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pictures: Option<MediaLimit>,
    /// PDF documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub documents: Option<MediaLimit>,
    /// Recordings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audio: Option<MediaLimit>,
}

/// The limits of one kind, beside those of the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct MediaLimit {
    /// The most bytes of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// The media types that are shown; absent: all that models take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub types: Option<Vec<String>>,
    /// The most of one result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_count: Option<u32>,
}

/// The author of the shortened form of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CompactionBy {
    /// Old tool results are replaced by their size, then old rounds are left out.
    #[default]
    Rule,
    /// A model summarises older messages.
    Model,
}

/// Maximum tokens of a summary, unless a session says.
const SUMMARY_TOKENS: u32 = 2_000;

/// Seconds that a summary may take, unless a session says.
const SUMMARY_SECONDS: u32 = 120;

impl Default for Compaction {
    fn default() -> Self {
        Self {
            enabled: true,
            at_percent: 80,
            keep_rounds: 4,
            by: CompactionBy::Rule,
            model: None,
            summary_tokens: SUMMARY_TOKENS,
            timeout_seconds: SUMMARY_SECONDS,
            pin: Pin::default(),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_summary_tokens(tokens: &u32) -> bool {
    *tokens == SUMMARY_TOKENS
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_timeout_seconds(seconds: &u32) -> bool {
    *seconds == SUMMARY_SECONDS
}

fn within<'de, D: serde::Deserializer<'de>>(deserializer: D, least: u32, most: u32) -> Result<u32, D::Error> {
    let number = u64::deserialize(deserializer)?;
    let fits = u32::try_from(number).ok().filter(|number| (least..=most).contains(number));
    fits.ok_or_else(|| serde::de::Error::custom(format!("expected a whole number from {least} to {most}")))
}

fn effort_override<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let word = String::deserialize(deserializer)?;
    let is_word = (1..=32).contains(&word.len())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    match is_word {
        true => Ok(Some(word)),
        false => Err(serde::de::Error::custom("expected a word of 1 to 32 letters, digits, `-` or `_`")),
    }
}

fn summary_tokens<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 100, 100_000)
}

fn timeout_seconds<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    within(deserializer, 1, 3_600)
}

fn result_limit<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within(deserializer, 1_000, 1_000_000).map(Some)
}

fn percent<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<u8, D::Error> {
    let percent = u64::deserialize(deserializer)?;
    let fits = u8::try_from(percent).ok().filter(|percent| (10..=100).contains(percent));
    fits.ok_or_else(|| serde::de::Error::custom("expected a whole number from 10 to 100"))
}

/// A document's description of a tool that the host binds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ToolShape {
    /// The description of the tool.
    pub description: String,
    /// JSON Schema of its arguments; a call that does not pass it is refused.
    pub parameters: Value,
}

/// An agent of a document as a tool of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AgentTool {
    /// The description by which a model decides to read it.
    pub description: String,
    /// The workflow that the document brings along for it.
    pub workflow: Arc<str>,
}

/// A skill that a document brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct OwnSkill {
    /// One sentence; a model decides by it.
    pub description: String,
    /// The instructions.
    pub instructions: String,
    /// `true` if the system prompt holds it from the start, rather than when the model asks for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub preload: bool,
}

/// The settings that differ where a certain model answers. Texts are literal: no token in them is filled in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelOverride {
    /// Before the instruction layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// After it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub suffix: Option<String>,
    /// In its place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// In place of the session's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Each setting in place of the session's.
    #[serde(skip_serializing_if = "is_default")]
    pub generation: Generation,
}

/// The parameters by which a model generates. What a provider does not know is not sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct Generation {
    /// The most tokens of one answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The probability mass that tokens are drawn from, from 0.0 to 1.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_p: Option<f64>,
    /// The most probable tokens that one is drawn from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u32>,
    /// From -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frequency_penalty: Option<f64>,
    /// From -2.0 to 2.0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub presence_penalty: Option<f64>,
    /// `true` if the first round of a turn must call a tool; the provider enforces it.
    #[serde(skip_serializing_if = "is_false")]
    pub tool_required: bool,
}

/// One turn of a conversation with several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct PromptGroup {
    /// Unique within the step.
    pub name: Arc<str>,
    /// The turn's messages.
    pub contributions: Vec<Contribution>,
}

/// The preamble and the forms of a system prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PromptMode {
    /// Symbolic notation.
    #[default]
    Lambda,
    /// Plain sentences.
    Prose,
}

/// The language of the programs by which a model calls its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum CodeMode {
    /// JavaScript.
    Javascript,
    /// Python, on a runtime that is installed for the user.
    Python,
    /// No programs: tools are called one by one, whatever a profile says.
    Off,
}

/// The amount of thinking before an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ThinkingLevel {
    Off,
    Minimal,
    Low,
    Medium,
    High,
    Xhigh,
}

/// The speed at which a provider serves a session, where it sells several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum SpeedMode {
    Standard,
    Fast,
}

/// The delivery of the model's answer: streamed or whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[allow(missing_docs, reason = "the names say it")]
pub enum ResponseMode {
    Streaming,
    NonStreaming,
}

/// The model of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum ModelSelection {
    /// A model by its id.
    Id(String),
    /// The best model for a query.
    Query(ModelQuery),
}

/// A question to the model registry.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelQuery {
    /// The properties that a model must have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<Value>,
    /// The properties that rank one model before another, most important first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prefer: Vec<Value>,
    /// Asked when no model passes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fallback: Option<Box<ModelSelection>>,
}
