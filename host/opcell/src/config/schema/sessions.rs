//! `[models]` and the settings of sessions.

use super::{about, approve, by_default, flag, named, number, table, text, texts};
use opcell_session::models::{Api, FALLBACK_REASONS, ProviderConfig, RetryConfig};
use serde_json::{Value, json};

/// `[models]`.
pub fn models() -> Value {
    table(
        &[],
        json!({
            "default": model("The model of sessions that name none: `PROVIDER/MODEL`, or a query."),
            "prompt-cache": by_default(flag("Asks providers to keep what later requests repeat: the tools, the stable part of the prompt, the conversation so far."), true),
            "fallback": about(table(&[], json!({
                "models": texts("Models as `PROVIDER/MODEL`, asked in this order after those of the session."),
                "on": {"type": "array", "items": {"enum": FALLBACK_REASONS}, "description": "The failures after which the next model is asked; by default those that another request may not meet again."},
            })), "The models that Opcell asks when those of a session do not answer. The run records each failure, and the model that answered."),
            "providers": named("provider", "Providers by name; openai, anthropic, gemini and ollama need no entry. An entry of the same name replaces the known one."),
        }),
    )
}

/// `[models.providers.NAME]`.
pub fn provider() -> Value {
    let ProviderConfig { timeout_seconds, .. } = ProviderConfig::new(Api::Ollama, None);
    table(
        &["api"],
        json!({
            "api": {
                "enum": ["openai-completions", "openai-responses", "anthropic-messages", "gemini", "ollama"],
                "description": "The provider's wire format. Services that call themselves compatible with OpenAI mostly mean `openai-completions`.",
            },
            "base-url": text("The provider's address, up to and including the version; by default the public one, and for `ollama` `http://localhost:11434/v1/`."),
            "api-key": text("The source of the key: `env:NAME` or `file:PATH`. Without it Opcell sends no key. Opcell refuses a key itself."),
            "headers": {"type": "object", "additionalProperties": {"type": "string"}, "description": "Headers of every request; values are `env:NAME` or `file:PATH` too."},
            "models": {"type": "array", "items": listed(), "description": "Models that queries can choose from. A model that is not listed can still be named."},
            "prompt-cache": flag("Asks this provider to keep what later requests repeat; by default as `[models]` says."),
            "retry": about(retry(), "Repetition of requests: on 408, 409, 429, 5xx, and if the network failed before any text was shown."),
            "timeout-seconds": by_default(number("Seconds that one request may take, its answer included."), timeout_seconds),
        }),
    )
}

fn retry() -> Value {
    let RetryConfig { max_attempts, first_wait_ms, max_wait_ms } = RetryConfig::default();
    table(
        &[],
        json!({
            "max-attempts": by_default(number("Requests in all; 1 never repeats."), max_attempts),
            "first-wait-ms": by_default(number("Milliseconds before the first repetition; doubled for each further one."), first_wait_ms),
            "max-wait-ms": by_default(number("The longest wait in milliseconds; if the provider asks for more, the round fails at once."), max_wait_ms),
        }),
    )
}

/// `[[models.providers.NAME.models]]`.
fn listed() -> Value {
    let dollars = |about: &str| json!({"type": "number", "minimum": 0, "description": about});
    let tier = |values: &[&str], about: &str| json!({"enum": values, "description": about});
    table(
        &[],
        json!({
            "id": text("The model's name at the provider."),
            "name": text("A name for people."),
            "supports-text": by_default(flag("Reads and writes text."), true),
            "supports-images": {"type": "boolean", "description": "Sees images."},
            "supports-documents": {"type": "boolean", "description": "Reads PDF documents."},
            "supports-audio": {"type": "boolean", "description": "Accepts recordings."},
            "textual-tool-calls": {"type": "array", "items": {"enum": ["xml"]}, "description": "Forms of tool calls in the text of its answers, as local servers leave them; answers are not streamed then."},
            "supports-reasoning": {"type": "boolean", "description": "Accepts a thinking level."},
            "supports-json-schema": by_default(flag("The provider enforces a JSON Schema; otherwise the prompt asks for one."), true),
            "context-window": number("Tokens of prompt and answer together."),
            "max-tokens": number("Tokens of an answer; also sent as the limit."),
            "latency-tier": tier(&["low", "medium", "high"], "The class of latency."),
            "cost-tier": tier(&["zero", "low", "medium", "high"], "The class of cost."),
            "locality": tier(&["local", "cloud"], "Where it runs."),
            "input-cost": dollars("US dollars per million tokens read; with `output-cost`, runs know their cost."),
            "output-cost": dollars("US dollars per million tokens written."),
            "cache-read-cost": dollars("US dollars per million tokens read that come from the provider's cache; by default `input-cost`."),
            "cache-write-cost": dollars("US dollars per million tokens read that the provider keeps in its cache; by default 1.25 times `input-cost`."),
        }),
    )
}

fn model(about: &str) -> Value {
    json!({
        "description": about,
        "anyOf": [{"type": "string"}, {"type": "object"}],
    })
}

/// `[sessions.defaults]` and each of `[sessions.profiles]`: settings that make sense outside of a document. A step may
/// have them too, and counts first.
pub fn settings() -> Value {
    let mut settings = table(
        &[],
        json!({
            "model": model("The model: `PROVIDER/MODEL`, or a query."),
            "session-profile": text("Another profile, whose settings count where this one says nothing."),
            "tools": texts("Tools that a session has, by name."),
            "skills": texts("Skills that a session has, by name."),
            "extensions": texts("Extensions that a session has, by name."),
            "workflows": texts("Workflows that a session may delegate to, by name."),
            "system-prompt": text("Instructions before those of the workflow."),
            "replace-system-prompt": text("Replaces the whole system prompt."),
            "prompt-mode": {"enum": ["lambda", "prose"], "default": "lambda", "description": "The form in which prompts are written."},
            "prompt-component-selection": {"description": "The components of the prompt that are kept, as in psi; all by default."},
            "thinking-level": {"enum": ["off", "minimal", "low", "medium", "high", "xhigh"], "description": "The model's thinking level; by default as the provider decides, and `off` for judges."},
            "effort-override": {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,32}$", "description": "The provider's own word for the effort of thinking, sent in place of the one for `thinking-level`."},
            "speed-mode": {"enum": ["standard", "fast"], "description": "The speed that a provider sells: `service_tier` of OpenAI's protocols, `speed` of Anthropic's."},
            "temperature": {"type": "number", "minimum": 0, "maximum": 2, "description": "By default as the provider decides."},
            "response-mode": {"enum": ["streaming", "non-streaming"], "description": "Streamed answers, or whole ones."},
            "logprobs": {"type": "boolean", "description": "Asks for the log probabilities of tokens."},
            "top-logprobs": {"type": "integer", "minimum": 1, "maximum": 20, "description": "Alternatives per token."},
            "max-rounds": by_default(number("Model rounds of one turn."), 100),
            "max-tool-calls": by_default(number("Tool calls of one turn; further ones are refused with a message to the model."), 1_000),
            "code": {"enum": ["javascript", "python", "off"], "description": "Models call their tools by programs in this language, which run in cells, instead of one by one; by default `off`. For Python, run `opcell code install python` once."},
            "compaction": about(table(&[], json!({
                "enabled": by_default(flag("Shortens conversations. Without it, one that its model has no room for fails."), true),
                "at-percent": {"type": "integer", "minimum": 10, "maximum": 100, "default": 80, "description": "The share of the model's `context-window` at which it begins."},
                "keep-rounds": by_default(number("The newest rounds, which stay whole for as long as there is room."), 4),
                "by": {"enum": ["rule", "model"], "default": "rule", "description": "Who shortens: a rule, or a model that summarises older messages."},
                "model": text("The model that writes summaries; by default the one that the session asks."),
                "summary-tokens": {"type": "integer", "minimum": 100, "maximum": 100_000, "default": 2_000, "description": "Maximum tokens of a summary."},
                "timeout-seconds": {"type": "integer", "minimum": 1, "maximum": 3_600, "default": 120, "description": "Seconds that a summary may take."},
                "pin": about(table(&[], json!({
                    "containing": texts("Texts: messages of people and answers of the model with one of them stay. At most 16, each of 1 to 200 bytes."),
                    "tools": texts("Tools, at most 16: their results stay, with the calls."),
                })), "Messages that are neither left out nor summarised."),
            })), "Shortens requests when a conversation nears its model's context: old tool results first, then old rounds; the run keeps all of it."),
            "result-limit": {"type": "integer", "minimum": 1_000, "maximum": 1_000_000, "default": 65_536, "description": "Bytes of a tool's result that a model is shown; of a longer one it is shown the beginning, the end and a handle, by which it reads the rest with `read_result`."},
            "approve": approve("Rules for tool calls that wait for a person; the rules of all places apply, and the strictest decides."),
            "generation": about(table(&[], json!({
                "max-tokens": number("Tokens of one answer."),
                "top-p": {"type": "number", "minimum": 0, "maximum": 1, "description": "The probability mass that tokens are drawn from."},
                "top-k": number("The most probable tokens that one is drawn from."),
                "frequency-penalty": {"type": "number", "minimum": -2, "maximum": 2, "description": "Makes repeated tokens less likely."},
                "presence-penalty": {"type": "number", "minimum": -2, "maximum": 2, "description": "Makes tokens less likely that are in the text already."},
                "tool-required": flag("The first round of a turn must call a tool."),
            })), "Settings of generation, except the temperature."),
        }),
    );
    // What only a document can say, such as its contributions, is taken by the reader and has no place here.
    if let Some(settings) = settings.as_object_mut() {
        settings.insert("additionalProperties".to_owned(), json!(true));
    }
    settings
}
