//! The providers and models, as an operator configures them.

use indexmap::IndexMap;
use opcell_ir::ir::ModelSelection;
use opcell_types::files::read_text_bounded;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The most that is read of a key file.
const KEY_BYTES: u64 = 64 << 10;

/// The `models` table of a project's configuration.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelsConfig {
    /// The model of sessions that declare none.
    pub default: Option<ModelSelection>,
    /// `true` if providers are asked to keep what later requests repeat; the default. A provider may say otherwise.
    pub prompt_cache: Option<bool>,
    /// The models that are asked when those of a session do not answer.
    pub fallback: Option<FallbackConfig>,
    /// By the name that precedes the `/` of a model's id. A provider configured here replaces a known one of its name.
    pub providers: IndexMap<String, ProviderConfig>,
}

/// The models that are asked when those of a session do not answer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct FallbackConfig {
    /// Models, as `provider/model` or by an id that a provider lists, in the order in which they are asked.
    pub models: Vec<String>,
    /// The failures after which the next model is asked, by their reason; absent: those that another request may not
    /// meet again.
    pub on: Option<Vec<String>>,
}

/// The failures of rounds after which another model can be asked.
pub const FALLBACK_REASONS: [&str; 13] = [
    "provider-unavailable",
    "rate-limited",
    "malformed-reply",
    "timeout",
    "context-full",
    "answer-stopped",
    "answer-too-large",
    "answer-truncated",
    "answer-refused",
    "answer-paused",
    "request-refused",
    "unauthorized",
    "missing-key",
];

/// The wire format that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    /// OpenAI's chat completions, and the many services that speak the same.
    OpenaiCompletions,
    /// OpenAI's responses.
    OpenaiResponses,
    /// Anthropic's messages.
    AnthropicMessages,
    /// Google's `generateContent`.
    Gemini,
    /// Ollama, through its OpenAI-compatible endpoint: its own drops JSON schemas.
    Ollama,
}

impl Api {
    /// The name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::OpenaiCompletions => "openai-completions",
            Self::OpenaiResponses => "openai-responses",
            Self::AnthropicMessages => "anthropic-messages",
            Self::Gemini => "gemini",
            Self::Ollama => "ollama",
        }
    }

    /// Returns the URL at which the provider itself serves it.
    #[must_use]
    pub fn default_base_url(self) -> &'static str {
        match self {
            Self::OpenaiCompletions | Self::OpenaiResponses => "https://api.openai.com/v1/",
            Self::AnthropicMessages => "https://api.anthropic.com/v1/",
            Self::Gemini => "https://generativelanguage.googleapis.com/v1beta/",
            Self::Ollama => "http://localhost:11434/v1/",
        }
    }
}

/// One provider.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProviderConfig {
    /// The protocol that it speaks.
    pub api: Api,
    /// The URL; the provider's own unless set.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The source of its key: `env:NAME` or `file:PATH`. Absent: it needs none.
    #[serde(default)]
    pub api_key: Option<SecretSource>,
    /// Sent with every request; values are `env:NAME` or `file:PATH` too, so that none is in a file by accident.
    #[serde(default)]
    pub headers: IndexMap<String, SecretSource>,
    /// The models that it serves. A model that is not listed can still be named; queries see listed ones only.
    #[serde(default)]
    pub models: Vec<ModelConfig>,
    /// `true` if it is asked to keep what later requests repeat; as for all providers unless set.
    #[serde(default)]
    pub prompt_cache: Option<bool>,
    /// When a request is repeated.
    #[serde(default)]
    pub retry: RetryConfig,
    /// Seconds that one request may take, its answer included.
    #[serde(default = "ten_minutes")]
    pub timeout_seconds: u64,
}

fn ten_minutes() -> u64 {
    600
}

impl ProviderConfig {
    /// A provider at its own address, with its key in an environment variable.
    #[must_use]
    pub fn new(api: Api, key: Option<&str>) -> Self {
        Self {
            api,
            base_url: None,
            api_key: key.map(|name| SecretSource::Environment(name.to_owned())),
            headers: IndexMap::new(),
            models: Vec::new(),
            prompt_cache: None,
            retry: RetryConfig::default(),
            timeout_seconds: ten_minutes(),
        }
    }

    /// Every secret that is sent to it.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        self.api_key.iter().chain(self.headers.values())
    }

    /// The providers that need no configuration, with the variables in which people keep their keys.
    #[must_use]
    pub fn known() -> IndexMap<String, Self> {
        [
            ("openai", Self::new(Api::OpenaiCompletions, Some("OPENAI_API_KEY"))),
            ("anthropic", Self::new(Api::AnthropicMessages, Some("ANTHROPIC_API_KEY"))),
            ("gemini", Self::new(Api::Gemini, Some("GEMINI_API_KEY"))),
            ("ollama", Self::new(Api::Ollama, None)),
        ]
        .into_iter()
        .map(|(name, provider)| (name.to_owned(), provider))
        .collect()
    }
}

/// A form of tool calls in the text of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TextualCalls {
    /// `<tool_call>` with `{"name", "arguments"}`, or with `<function=NAME>` and `<parameter=KEY>`.
    Xml,
}

/// One model of a provider. Attributes that are not said are unknown: no query that asks for them holds.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct ModelConfig {
    /// As the provider names it.
    pub id: String,
    /// For people.
    pub name: Option<String>,
    /// `true` if it reads and writes text; the default.
    pub supports_text: Option<bool>,
    /// `true` if it sees images.
    pub supports_images: Option<bool>,
    /// `true` if it reads PDF documents.
    pub supports_documents: Option<bool>,
    /// `true` if it hears recordings.
    pub supports_audio: Option<bool>,
    /// Forms of tool calls in the text of its answers, as servers leave them that do not read them.
    pub textual_tool_calls: Vec<TextualCalls>,
    /// `true` if it takes a thinking level.
    pub supports_reasoning: Option<bool>,
    /// `true` if the provider holds answers to a JSON schema; the default. Otherwise the prompt asks for it.
    pub supports_json_schema: Option<bool>,
    /// Tokens of prompt and answer together.
    pub context_window: Option<u64>,
    /// Tokens of an answer; also sent as the limit.
    pub max_tokens: Option<u32>,
    /// `low`, `medium` or `high`.
    pub latency_tier: Option<String>,
    /// `zero`, `low`, `medium` or `high`.
    pub cost_tier: Option<String>,
    /// `local` or `cloud`.
    pub locality: Option<String>,
    /// US dollars per million tokens read.
    pub input_cost: Option<f64>,
    /// US dollars per million tokens written.
    pub output_cost: Option<f64>,
    /// US dollars per million tokens read that come from the provider's cache; `input_cost` unless set.
    pub cache_read_cost: Option<f64>,
    /// US dollars per million tokens read that the provider keeps in its cache; 1.25 times `input_cost` unless set.
    pub cache_write_cost: Option<f64>,
}

/// The price of a token that a provider keeps in its cache, as a multiple of one that it only reads.
const CACHE_WRITE_FACTOR: f64 = 1.25;

impl ModelConfig {
    /// US dollars per million tokens read, from the provider's cache or into it.
    #[must_use]
    pub fn cache_costs(&self) -> Option<(f64, f64)> {
        let read = self.input_cost?;
        Some((self.cache_read_cost.unwrap_or(read), self.cache_write_cost.unwrap_or(read * CACHE_WRITE_FACTOR)))
    }
}

/// When a request is repeated: on 408, 409, 425, 429, 498, 5xx, where the network failed, and where an answer under
/// status 200 is an error of these kinds, is cut, or is not an answer; never once text has been shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields, default)]
pub struct RetryConfig {
    /// Requests in all; 1 never repeats.
    pub max_attempts: u32,
    /// Milliseconds before the first repetition; doubled for each further one.
    pub first_wait_ms: u64,
    /// Milliseconds that are waited at most, also when the provider asks for more: then the round fails at once and
    /// says so.
    pub max_wait_ms: u64,
}

impl Default for RetryConfig {
    fn default() -> Self {
        Self { max_attempts: 4, first_wait_ms: 500, max_wait_ms: 60_000 }
    }
}

impl RetryConfig {
    /// Returns the time to wait after an attempt, from 1, that failed and may be repeated; `None` gives up.
    #[must_use]
    pub fn wait(&self, attempt: u32, asked: Option<Duration>) -> Option<Duration> {
        if attempt >= self.max_attempts {
            return None;
        }
        let longest = Duration::from_millis(self.max_wait_ms);
        match asked {
            Some(asked) => (asked <= longest).then_some(asked),
            None => {
                let doubled = self.first_wait_ms.saturating_mul(1_u64.checked_shl(attempt - 1).unwrap_or(u64::MAX));
                Some(Duration::from_millis(doubled).min(longest))
            }
        }
    }
}

/// The source of a secret. The secret itself is read when it is needed and kept by no one.
#[derive(Clone, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable.
    Environment(String),
    /// A file; white space around the secret is dropped.
    File(PathBuf),
}

impl SecretSource {
    /// Returns `true` if the secret is there, without reading a file's text.
    #[must_use]
    pub fn is_set(&self) -> bool {
        match self {
            Self::Environment(name) => std::env::var_os(name).is_some_and(|value| !value.is_empty()),
            Self::File(path) => path.is_file(),
        }
    }

    /// Reads the secret; the error says where it should be.
    pub(super) async fn read(&self) -> Result<Secret, String> {
        let text = match self {
            Self::Environment(name) => {
                std::env::var(name).map_err(|_| format!("the environment variable {name} is not set"))?
            }
            Self::File(path) => {
                let read =
                    |error: std::io::Error| format!("cannot read the key file {}: {}", path.display(), error.kind());
                let file = path.clone();
                let text = tokio::task::spawn_blocking(move || read_text_bounded(&file, KEY_BYTES)).await;
                text.map_err(|error| read(error.into())).and_then(|text| text.map_err(read))?
            }
        };
        match text.trim() {
            "" => Err(format!("{self} is empty")),
            text => Ok(Secret(text.to_owned())),
        }
    }
}

impl fmt::Display for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
        }
    }
}

impl fmt::Debug for SecretSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<'de> Deserialize<'de> for SecretSource {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if let Some(name) = text.strip_prefix("env:").filter(|name| !name.is_empty()) {
            return Ok(Self::Environment(name.to_owned()));
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Self::File(path.into()));
        }
        // The text is not repeated: it may be the secret.
        Err(D::Error::custom("a configuration must not contain a secret; write `env:NAME` or `file:PATH`"))
    }
}

/// The key of a tenant for a provider, in memory. Prints as dots.
#[derive(Clone, PartialEq, Eq)]
pub struct TenantKey(Arc<str>);

impl TenantKey {
    /// A key as the provider gave it; white space around it is dropped. `None` if it is empty.
    #[must_use]
    pub fn new(key: &str) -> Option<Self> {
        Some(key.trim()).filter(|key| !key.is_empty()).map(|key| Self(key.into()))
    }

    #[cfg(feature = "providers")]
    pub(super) fn secret(&self) -> Secret {
        Secret(self.0.as_ref().to_owned())
    }
}

impl fmt::Debug for TenantKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

/// A secret while it is used. Prints as dots.
pub(super) struct Secret(pub(super) String);

impl Secret {
    /// The text with the secret taken out: providers repeat keys in their messages.
    pub(super) fn redact(&self, text: &str) -> String {
        text.replace(&self.0, "[redacted]")
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}
