//! One provider over HTTP: secrets, deadlines and repetitions around the protocols.

use super::answer::{Answer, AnswerReader, Fault};
use super::config::{Api, ModelConfig, ProviderConfig, Secret, TenantKey};
use super::known;
use super::protocols::{self, Ask, Outgoing};
use super::wire::{self, WireNames};
use super::{Model, Shown, failure, logprobs, textual, transport};
use async_trait::async_trait;
use opcell_engine::ports::{AnswerPiece, Failure, ModelReply, ModelRound, TextSink};
use opcell_ir::ir::ResponseMode;
use opcell_types::Value;
use opcell_types::text::printable;
use opcell_types::trace::{self, TRACEPARENT};
use reqwest::Url;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;
use tracing::instrument::WithSubscriber as _;
use tracing::subscriber::NoSubscriber;

/// The most bytes of a provider's words that are shown.
const WORDS_SHOWN: usize = 600;

/// One provider and its models.
pub(super) struct Provider {
    name: String,
    config: ProviderConfig,
    base_url: Url,
    /// Made when it is first needed: reading the system's certificates takes longer than most commands.
    client: OnceCell<reqwest::Client>,
}

impl Provider {
    pub(super) fn new(name: &str, config: ProviderConfig) -> Result<Self, String> {
        let base_url = config.base_url.clone().unwrap_or_else(|| config.api.default_base_url().to_owned());
        let mut url = Url::parse(&base_url).map_err(|error| format!("`base-url` {base_url:?}: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("`base-url` {base_url:?} must start with http:// or https://"));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("`base-url` must not contain a user or password; use `api-key` or `headers`".to_owned());
        }
        // People give Ollama's address as its own clients take it.
        if config.api == Api::Ollama && url.path() == "/" {
            url.set_path("/v1/");
        }
        Ok(Self { name: name.to_owned(), config, base_url: url, client: OnceCell::new() })
    }

    async fn client(&self) -> Result<&reqwest::Client, Fault> {
        let made = async {
            let made = tokio::task::spawn_blocking(transport::client).await;
            made.unwrap_or_else(|_| Err(Fault::unavailable("cannot create an HTTP client")))
        };
        self.client.get_or_try_init(|| made).await
    }

    fn model(&self, id: &str) -> Option<&ModelConfig> {
        self.config.models.iter().find(|model| model.id == id).or_else(|| self.known(id))
    }

    /// A model of the catalogue.
    pub(super) fn known(&self, id: &str) -> Option<&'static ModelConfig> {
        known::find(&self.config, id)
    }

    /// The name of its protocol.
    pub(super) fn api(&self) -> &'static str {
        self.config.api.name()
    }

    /// The secrets for one round, read now so that a changed key counts at once. A tenant's key is sent alone: headers
    /// may be the host's own credentials.
    async fn secrets(&self, of_tenant: Option<&TenantKey>) -> Result<(Option<Secret>, Vec<(String, Secret)>), Failure> {
        if let Some(key) = of_tenant {
            return Ok((Some(key.secret()), Vec::new()));
        }
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

    /// Asks once.
    async fn ask(
        &self,
        outgoing: &Outgoing,
        headers: &[(String, String)],
        reader: AnswerReader<'_>,
    ) -> Result<Answer, Fault> {
        let response = transport::send(self.client().await?, outgoing, headers).await?;
        transport::read(response, reader).await
    }

    /// The failure for a fault. Secrets are taken out first: providers repeat keys in their messages.
    fn failure(&self, fault: Fault, secrets: &[&Secret], of_tenant: bool, attempts: u32) -> Failure {
        let said = secrets.iter().fold(fault.said, |text, secret| secret.redact(&text));
        let said = printable(&said, WORDS_SHOWN);
        let help = match (fault.reason, &self.config.api_key) {
            ("unauthorized", _) if of_tenant => " (the key is the tenant's own)".to_owned(),
            ("unauthorized", Some(source)) => format!(" (the key is from {source})"),
            ("unauthorized", None) => " (no `api-key` is configured)".to_owned(),
            _ => String::new(),
        };
        let status = fault.status.map(|status| format!(" with status {status}")).unwrap_or_default();
        let mut message = match fault.is_of_answer {
            true => said,
            false => format!("provider `{}` failed{status}{help}: {said}", self.name),
        };
        if attempts > 1 {
            message.push_str(&format!(" (after {attempts} attempts)"));
        }
        if let Some(wait) = fault.wait {
            message.push_str(&format!("; the provider asks to wait {} s", wait.as_secs()));
        }
        Failure { retriable: fault.retriable, details: fault.details, ..failure(fault.reason, message) }
    }

    async fn attempts(
        &self,
        round: &ModelRound,
        shown: Option<&Shown<'_>>,
        received: &Received,
        of_tenant: Option<&TenantKey>,
    ) -> Result<ModelReply, Failure> {
        let id = round.model.split_once('/').map_or(round.model.as_str(), |(_, id)| id);
        let model = self.model(id);
        let names = WireNames::new(round.session.tools.iter().map(|tool| tool.name.as_str()));
        let (key, headers) = self.secrets(of_tenant).await?;
        let mut sent: Vec<_> = headers.iter().map(|(name, secret)| (name.clone(), secret.0.clone())).collect();
        let is_traced = sent.iter().any(|(name, _)| name.eq_ignore_ascii_case(TRACEPARENT));
        sent.extend(trace::outgoing(&round.context).filter(|_| !is_traced).map(|own| (TRACEPARENT.to_owned(), own)));
        let secrets: Vec<&Secret> = key.iter().chain(headers.iter().map(|(_, secret)| secret)).collect();
        let settings = &round.session.settings;
        // Not every provider says in a stream how likely its tokens were.
        let asks_logprobs = logprobs::asked(settings) && logprobs::has(self.config.api);
        // Text that may be a call is not shown before it is known to be none.
        let textual = model.is_some_and(|model| !model.textual_tool_calls.is_empty());
        let may_stream = settings.response_mode != Some(ResponseMode::NonStreaming) && !asks_logprobs && !textual;
        let streamed = shown.filter(|_| may_stream);
        let api = self.config.api;
        let ask = Ask {
            round,
            names: &names,
            api,
            base_url: &self.base_url,
            id,
            model,
            key: key.as_ref().map(|key| key.0.as_str()),
            streamed: streamed.is_some(),
            caches: self.config.prompt_cache.unwrap_or(true),
        };
        let (mut outgoing, mut warnings) = (protocols::outgoing(&ask), ask.warnings());
        let limit = Duration::from_secs(self.config.timeout_seconds);

        let mut attempt = 1;
        loop {
            let show = |piece: AnswerPiece<'_>| {
                let tool;
                let piece = match piece {
                    AnswerPiece::CallBegan { call, tool: wire } => {
                        tool = names.to_ours(wire);
                        AnswerPiece::CallBegan { call, tool: &tool }
                    }
                    other => other,
                };
                received.add(piece);
                if let Some(streamed) = streamed {
                    streamed.piece(piece);
                }
            };
            let reader = AnswerReader::new(protocols::reader(api, names.known(), asks_logprobs), show);
            // The HTTP client logs what it sends and gets, and keys are among it.
            let asked = self.ask(&outgoing, &sent, reader).with_subscriber(NoSubscriber::new());
            let answered = match tokio::time::timeout(limit, asked).await {
                Ok(answered) => answered,
                Err(_) => {
                    let message = format!("provider `{}` did not answer within {} s", self.name, limit.as_secs());
                    // Not asked again, but another model may be.
                    Err(Fault { retriable: true, ..Fault::of_answer("timeout", message) })
                }
            };
            let accepts_unknown = protocols::accepts_unknown_finish(api);
            let answered = match textual {
                true => answered.and_then(|answer| textual::with_calls(answer, &round.session.tools, &names)),
                false => answered,
            };
            let fault = match answered.and_then(|answer| answer.judged(&round.model, accepts_unknown)) {
                Ok(answer) => return Ok(ModelReply { warnings, ..finish(round, &names, answer, model, shown) }),
                Err(fault) => fault,
            };
            if fault.status == Some(400) && protocols::without_strict_tools(api, &mut outgoing.body, &fault.said) {
                tracing::warn!(provider = %self.name, said = %fault.said, "model request repeated without strict tools");
                let model = &round.model;
                warnings.push(
                    format!("`{model}` refused the tools' schemas as strict ones: they are sent as others").into(),
                );
                received.clear();
                continue;
            }
            // A repetition would show the beginning of the answer twice, unless that is taken back.
            let repeat = fault.repeat && shown.is_none_or(Shown::may_restart);
            let Some(wait) = self.config.retry.wait(attempt, fault.wait).filter(|_| repeat) else {
                return Err(self.failure(fault, &secrets, of_tenant.is_some(), attempt));
            };
            tracing::warn!(provider = %self.name, attempt, wait_ms = wait.as_millis(), reason = %fault.reason, "model request repeated");
            tokio::time::sleep(wait).await;
            shown.into_iter().for_each(Shown::restart);
            received.clear();
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
        self.complete_with(round, sink, None).await
    }
}

impl Provider {
    /// Answers with a tenant's key instead of the configured one, if there is one.
    pub(super) async fn complete_with(
        &self,
        round: &ModelRound,
        sink: Option<&dyn TextSink>,
        of_tenant: Option<&TenantKey>,
    ) -> Result<ModelReply, Failure> {
        let (shown, received) = (sink.map(Shown::new), Received::default());
        let reply = tokio::select! {
            biased;
            () = round.cancel.cancelled() => Err(failure("cancelled", "the run was cancelled")),
            reply = self.attempts(round, shown.as_ref(), &received, of_tenant) => reply,
        };
        reply.map_err(|failure| received.with_received(failure))
    }
}

/// The most bytes of an answer that are kept with its failure.
const RECEIVED_BYTES: usize = 64 << 10;

/// The calls of an answer that are kept with its failure.
const RECEIVED_CALLS: usize = 32;

/// The answer so far: what came before it failed is kept with the failure. Reasoning is not.
#[derive(Default)]
struct Received(Mutex<SoFar>);

#[derive(Default)]
struct SoFar {
    text: String,
    /// Tool, arguments, and `true` once they were complete.
    calls: Vec<(String, String, bool)>,
    bytes: usize,
}

impl Received {
    fn so_far(&self) -> MutexGuard<'_, SoFar> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, piece: AnswerPiece<'_>) {
        let mut all = self.so_far();
        let SoFar { text, calls, bytes } = &mut *all;
        let room = RECEIVED_BYTES.saturating_sub(*bytes);
        let within = |part: &str| part.split_at(part.floor_char_boundary(room)).0.to_owned();
        let at = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let added = match piece {
            AnswerPiece::Text(part) => {
                let part = within(part);
                text.push_str(&part);
                part.len()
            }
            AnswerPiece::CallBegan { call, tool } => {
                let (tool, len) = (within(tool), tool.len());
                let begun = (tool, String::new(), false);
                if let Some(there) = calls.get_mut(at(call)) {
                    *there = begun;
                } else if calls.len() < RECEIVED_CALLS {
                    calls.push(begun);
                }
                len
            }
            AnswerPiece::CallArguments { call, text: part } => {
                let part = within(part);
                if let Some((_, arguments, _)) = calls.get_mut(at(call)) {
                    arguments.push_str(&part);
                }
                part.len()
            }
            AnswerPiece::CallEnded { call } => {
                if let Some((_, _, ended)) = calls.get_mut(at(call)) {
                    *ended = true;
                }
                0
            }
            _ => 0,
        };
        *bytes = bytes.saturating_add(added);
    }

    /// Forgets what came of an attempt that is repeated.
    fn clear(&self) {
        *self.so_far() = SoFar::default();
    }

    fn with_received(&self, failure: Failure) -> Failure {
        let all = self.so_far();
        if failure.details.is_some() || all.text.is_empty() && all.calls.is_empty() {
            return failure;
        }
        let call = |(tool, arguments, ended): &(String, String, bool)| {
            Value::object([
                ("tool", Value::from(tool.as_str())),
                ("arguments", Value::from(arguments.as_str())),
                ("complete", Value::from(*ended)),
            ])
        };
        let mut details = vec![("received", Value::from(all.text.as_str()))];
        if !all.calls.is_empty() {
            details.push(("received-calls", Value::array(all.calls.iter().map(call))));
        }
        Failure { details: Some(Value::object(details)), ..failure }
    }
}

/// The reply to the engine. Text that was not shown while it came is shown now.
fn finish(
    round: &ModelRound,
    names: &WireNames,
    mut answer: Answer,
    model: Option<&ModelConfig>,
    shown: Option<&Shown<'_>>,
) -> ModelReply {
    if !answer.ignored.is_empty() {
        tracing::debug!(model = %round.model, ignored = %answer.ignored, "parts of a model's answer are not known");
    }
    let (usage, logprobs) = (wire::usage(answer.tokens, model), answer.logprobs.take());
    let message = wire::reply(round, names, answer);
    if let Some(shown) = shown.filter(|shown| !shown.has_text() && !message.content.is_empty()) {
        shown.text(&message.content);
    }
    ModelReply { message, usage, logprobs, ..ModelReply::text(round.model.clone(), "") }
}
