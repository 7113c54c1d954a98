//! One provider over HTTP, through genai. Retries, deadlines and secrets are ours.

use super::config::{Api, ModelConfig, ProviderConfig, Secret};
use super::wire::{self, WireNames};
use super::{Model, failure, logprobs};
use async_trait::async_trait;
use futures_util::StreamExt as _;
use genai::adapter::AdapterKind;
use genai::chat::{ChatOptions, ChatRequest, ChatStreamEvent, MessageContent, StopReason, Usage};
use genai::resolver::{AuthData, Endpoint};
use genai::{Headers, ModelIden, ServiceTarget};
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use opcell_types::Value;
use opcell_types::trace::{self, TRACEPARENT};
use opcell_workflow::ir::ResponseMode;
use reqwest::StatusCode;
use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::{Duration, SystemTime};
use tokio::sync::OnceCell;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// Time to reach a provider at all.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum characters of a provider's error body that are shown.
const BODY_SHOWN: usize = 600;

/// One provider and its models.
pub(super) struct Provider {
    name: String,
    config: ProviderConfig,
    base_url: String,
    /// Made when it is first needed: reading the system's certificates takes longer than most commands.
    client: OnceCell<genai::Client>,
}

/// What a provider answered.
struct Answer {
    content: MessageContent,
    usage: Usage,
    stop: Option<StopReason>,
    /// The whole answer as it came, where its probabilities are asked for.
    body: Option<serde_json::Value>,
}

/// Why a request failed, and what may be done about it.
struct Trouble {
    failure: Failure,
    repeat: bool,
    asked_wait: Option<Duration>,
}

impl Provider {
    pub(super) fn new(name: &str, config: ProviderConfig) -> Result<Self, String> {
        let mut base_url = config.base_url.clone().unwrap_or_else(|| config.api.default_base_url().to_owned());
        let url = reqwest::Url::parse(&base_url).map_err(|error| format!("`base-url` {base_url:?}: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`base-url` {base_url:?} must start with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("`base-url` must not contain a user or password; use `api-key` or `headers`".to_owned());
        }
        if !base_url.ends_with('/') {
            base_url.push('/');
        }
        // People give Ollama's address as its own clients take it.
        if config.api == Api::Ollama && url.path() == "/" {
            base_url.push_str("v1/");
        }
        Ok(Self { name: name.to_owned(), config, base_url, client: OnceCell::new() })
    }

    async fn client(&self) -> Result<&genai::Client, genai::Error> {
        let make = || {
            // A redirect would carry the key, which not every provider sends in the header that HTTP clients protect,
            // elsewhere.
            let http = genai::WebConfig::default()
                .with_connect_timeout(CONNECT_TIMEOUT)
                .apply_to_builder(reqwest::Client::builder())
                .redirect(reqwest::redirect::Policy::none())
                .build()
                .map_err(|error| genai::Error::Internal(format!("cannot create an HTTP client: {error}")))?;
            genai::Client::builder().with_reqwest(http).build()
        };
        let made = async {
            let made = tokio::task::spawn_blocking(make).await;
            made.unwrap_or_else(|_| Err(genai::Error::Internal("cannot create an HTTP client".to_owned())))
        };
        self.client.get_or_try_init(|| made).await
    }

    fn model(&self, id: &str) -> Option<&ModelConfig> {
        self.config.models.iter().find(|model| model.id == id)
    }

    fn target(&self, model: &str, key: Option<&Secret>) -> ServiceTarget {
        let adapter = match self.config.api {
            Api::OpenaiCompletions | Api::Ollama => AdapterKind::OpenAI,
            Api::OpenaiResponses => AdapterKind::OpenAIResp,
            Api::AnthropicMessages => AdapterKind::Anthropic,
            Api::Gemini => AdapterKind::Gemini,
        };
        ServiceTarget {
            endpoint: Endpoint::from_owned(self.base_url.as_str()),
            // genai wants a key of every provider; one without gets a word that says so.
            auth: AuthData::from_single(key.map_or("none", |key| key.0.as_str())),
            model: ModelIden::new(adapter, model),
        }
    }

    /// The secrets for one round, read now so that a changed key counts at once.
    async fn secrets(&self) -> Result<(Option<Secret>, Vec<(String, Secret)>), Failure> {
        let fail = |error| failure("missing-key", format!("provider `{}`: {error}", self.name));
        let key = match &self.config.api_key {
            Some(source) => Some(source.read().await.map_err(fail)?),
            None => None,
        };
        let mut headers = Vec::new();
        for (name, source) in &self.config.headers {
            headers.push((name.clone(), source.read().await.map_err(fail)?));
        }
        Ok((key, headers))
    }

    async fn ask(
        &self,
        target: ServiceTarget,
        request: ChatRequest,
        options: &ChatOptions,
        sink: Option<&Shown<'_>>,
    ) -> Result<Answer, genai::Error> {
        let Some(sink) = sink else {
            let response = self.client().await?.exec_chat(target, request, Some(options)).await?;
            let body = response.captured_raw_body;
            return Ok(Answer { content: response.content, usage: response.usage, stop: response.stop_reason, body });
        };
        let mut stream = self.client().await?.exec_chat_stream(target, request, Some(options)).await?.stream;
        let mut ended = None;
        while let Some(event) = stream.next().await {
            match event? {
                ChatStreamEvent::Chunk(chunk) => sink.text(&chunk.content),
                ChatStreamEvent::End(end) => ended = Some(end),
                ChatStreamEvent::Start
                | ChatStreamEvent::ReasoningChunk(_)
                | ChatStreamEvent::ThoughtSignatureChunk(_)
                | ChatStreamEvent::ToolCallChunk(_)
                | ChatStreamEvent::Heartbeat => {}
            }
        }
        let end = ended.ok_or_else(|| genai::Error::Internal("the stream ended before the answer did".to_owned()))?;
        Ok(Answer {
            content: end.captured_content.unwrap_or_default(),
            usage: end.captured_usage.unwrap_or_default(),
            stop: end.captured_stop_reason,
            body: None,
        })
    }

    fn trouble(&self, error: &genai::Error, secrets: &[&Secret]) -> Trouble {
        let http = http_error(error);
        let status = error.status().or(http.map(|(status, _)| status));
        let headers = error.headers().or(http.map(|(_, headers)| headers));
        let (reason, repeat) = match status {
            Some(StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => ("unauthorized", false),
            Some(StatusCode::TOO_MANY_REQUESTS) => ("rate-limited", true),
            Some(StatusCode::REQUEST_TIMEOUT | StatusCode::CONFLICT) => ("provider-unavailable", true),
            Some(status) if status.is_server_error() => ("provider-unavailable", true),
            Some(_) => ("request-refused", false),
            None if is_transport(error) => ("provider-unavailable", true),
            None => ("malformed-reply", false),
        };
        let shown = describe(error);
        let shown = secrets.iter().fold(shown, |text, secret| secret.redact(&text));
        let help = match (reason, &self.config.api_key) {
            ("unauthorized", Some(source)) => format!(" (the key is from {source})"),
            ("unauthorized", None) => " (no `api-key` is configured)".to_owned(),
            _ => String::new(),
        };
        let status = status.map(|status| format!(" with status {}", status.as_u16())).unwrap_or_default();
        let mut failure = failure(reason, format!("provider `{}` failed{status}{help}: {shown}", self.name));
        failure.retriable = repeat;
        Trouble { failure, repeat, asked_wait: headers.and_then(retry_after) }
    }

    async fn attempts(&self, round: &ModelRound, shown: Option<&Shown<'_>>) -> Result<ModelReply, Failure> {
        let id = round.model.split_once('/').map_or(round.model.as_str(), |(_, id)| id);
        let model = self.model(id);
        let prompted_schema = model.is_some_and(|model| model.supports_json_schema == Some(false));
        let names = WireNames::new(round.session.tools.iter().map(|tool| tool.name.as_str()));
        let request = wire::request(round, &names, prompted_schema);
        let (key, headers) = self.secrets().await?;
        let mut options = wire::options(round, self.config.api, model, prompted_schema);
        let mut sent: Vec<_> = headers.iter().map(|(name, secret)| (name.clone(), secret.0.clone())).collect();
        let is_traced = sent.iter().any(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
        sent.extend(trace::outgoing(&round.context).filter(|_| !is_traced).map(|own| (TRACEPARENT.to_owned(), own)));
        if !sent.is_empty() {
            options.extra_headers = Some(Headers::from(sent));
        }
        let secrets: Vec<&Secret> = key.iter().chain(headers.iter().map(|(_, secret)| secret)).collect();
        let settings = &round.session.settings;
        // A whole answer says how likely its tokens were; what genai makes of a stream does not.
        let asks_logprobs = logprobs::asked(settings) && logprobs::has(self.config.api);
        let streamed = shown.filter(|_| settings.response_mode != Some(ResponseMode::NonStreaming) && !asks_logprobs);
        let limit = Duration::from_secs(self.config.timeout_seconds);

        let mut attempt = 1;
        loop {
            let target = self.target(id, key.as_ref());
            // genai logs what providers answer, and some answer with the key that they refuse.
            let asked = self.ask(target, request.clone(), &options, streamed).with_subscriber(NoSubscriber::new());
            let asked = tokio::time::timeout(limit, asked).await;
            let trouble = match asked {
                Ok(Ok(mut answer)) => {
                    let said = answer.body.take();
                    let shown = shown.filter(|_| streamed.is_none());
                    let mut reply = finish(round, &names, answer, model, shown)?;
                    reply.logprobs = said.and_then(|body| logprobs::read(self.config.api, &body));
                    return Ok(reply);
                }
                Ok(Err(error)) => self.trouble(&error, &secrets),
                Err(_) => {
                    let message = format!("provider `{}` did not answer within {} s", self.name, limit.as_secs());
                    // Not asked again, but another model may be.
                    let failure = Failure { retriable: true, ..failure("timeout", message) };
                    Trouble { failure, repeat: false, asked_wait: None }
                }
            };
            // A repetition would show the beginning of the answer twice.
            let repeat = trouble.repeat && !shown.is_some_and(Shown::anything);
            let Some(wait) = self.config.retry.wait(attempt, trouble.asked_wait).filter(|_| repeat) else {
                return Err(given_up(trouble, attempt));
            };
            tracing::warn!(provider = %self.name, attempt, wait_ms = wait.as_millis(), reason = %trouble.failure.reason, "model request repeated");
            tokio::time::sleep(wait).await;
            attempt += 1;
        }
    }
}

#[async_trait]
impl Model for Provider {
    fn lacks_logprobs(&self) -> Option<&'static str> {
        (!logprobs::has(self.config.api)).then(|| self.config.api.name())
    }

    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        let shown = sink.map(Shown::new);
        tokio::select! {
            biased;
            () = round.cancel.cancelled() => Err(failure("cancelled", "the run was cancelled")),
            reply = self.attempts(round, shown.as_ref()) => reply,
        }
    }
}

/// A sink that remembers whether it was used.
struct Shown<'a> {
    sink: &'a dyn TextSink,
    used: std::sync::atomic::AtomicBool,
}

impl<'a> Shown<'a> {
    fn new(sink: &'a dyn TextSink) -> Self {
        Self { sink, used: std::sync::atomic::AtomicBool::new(false) }
    }

    fn text(&self, piece: &str) {
        self.used.store(true, std::sync::atomic::Ordering::Relaxed);
        self.sink.text(piece);
    }

    fn anything(&self) -> bool {
        self.used.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// An answer that the provider cut short is not an answer.
fn finish(
    round: &ModelRound,
    names: &WireNames,
    answer: Answer,
    model: Option<&ModelConfig>,
    shown: Option<&Shown<'_>>,
) -> Result<ModelReply, Failure> {
    let message = wire::reply(round, names, answer.content);
    let usage = wire::usage(&answer.usage, model);
    let cut = match answer.stop {
        Some(StopReason::MaxTokens(_)) => Some((
            "answer-truncated",
            format!("`{}` stopped at its limit of {} tokens; raise `max-tokens`", round.model, usage.output_tokens),
        )),
        Some(StopReason::ContentFilter(reason)) => {
            Some(("answer-refused", format!("`{}` or its provider refused to answer ({reason})", round.model)))
        }
        _ => None,
    };
    if let Some((reason, sentence)) = cut {
        let details = Value::object([
            ("text", Value::from(message.content)),
            ("input-tokens", count(usage.input_tokens)),
            ("output-tokens", count(usage.output_tokens)),
        ]);
        return Err(Failure { details: Some(details), ..failure(reason, sentence) });
    }
    if let Some(shown) = shown.filter(|_| !message.content.is_empty()) {
        shown.text(&message.content);
    }
    Ok(ModelReply { message, usage, model: round.model.clone(), logprobs: None })
}

fn count(tokens: u64) -> Value {
    Value::from(i64::try_from(tokens).unwrap_or(i64::MAX))
}

fn given_up(trouble: Trouble, attempts: u32) -> Failure {
    let mut failure = trouble.failure;
    if attempts > 1 {
        failure.message.push_str(&format!(" (after {attempts} attempts)"));
    }
    if let Some(wait) = trouble.asked_wait {
        failure.message.push_str(&format!("; the provider asks to wait {} s", wait.as_secs()));
    }
    failure
}

/// While streaming, genai wraps the HTTP error.
fn http_error(error: &genai::Error) -> Option<(StatusCode, &HeaderMap)> {
    let genai::Error::WebStream { error, .. } = error else { return None };
    match error.downcast_ref::<genai::Error>()? {
        genai::Error::HttpError { status, headers, .. } => Some((*status, headers)),
        _ => None,
    }
}

/// Whether the network failed, rather than the provider or us.
fn is_transport(error: &genai::Error) -> bool {
    match error {
        genai::Error::WebModelCall { webc_error, .. } => matches!(webc_error, genai::webc::Error::Reqwest(_)),
        genai::Error::WebStream { error, .. } => !error.is::<serde_json::Error>(),
        genai::Error::Internal(_) => true,
        _ => false,
    }
}

/// genai's own texts hold whole requests; only the provider's or the network's message is shown.
fn describe(error: &genai::Error) -> String {
    use genai::webc::Error as Web;
    let text = match error {
        genai::Error::WebModelCall { webc_error: Web::ResponseFailedStatus { body, .. }, .. } => body.clone(),
        genai::Error::WebModelCall { webc_error: Web::Reqwest(error), .. } => chain(error),
        genai::Error::WebModelCall { webc_error, .. } => webc_error.to_string(),
        genai::Error::WebStream { error, .. } => match error.downcast_ref::<genai::Error>() {
            Some(genai::Error::HttpError { body, .. }) => body.clone(),
            _ => chain(error.as_ref()),
        },
        genai::Error::ChatResponseGeneration { cause, .. } => format!("its answer is malformed: {cause}"),
        genai::Error::ChatResponse { body, .. } => body.to_string(),
        other => other.to_string(),
    };
    let mut shown: String = text.chars().take(BODY_SHOWN).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// `retry-after-ms`, or `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(millis) = text("retry-after-ms").and_then(|text| text.trim().parse().ok()) {
        return Some(Duration::from_millis(millis));
    }
    let after = text(RETRY_AFTER.as_str())?.trim();
    if let Some(seconds) = after.parse::<f64>().ok().filter(|seconds| seconds.is_finite() && *seconds >= 0.0) {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let date = jiff::fmt::rfc2822::parse(after).ok()?;
    let now = jiff::Timestamp::try_from(SystemTime::now()).ok()?;
    Duration::try_from(date.timestamp().duration_since(now)).ok().or(Some(Duration::ZERO))
}
