//! All models of a host: which there are, which a session is given, and who answers for each.

use super::config::{FALLBACK_REASONS, ModelConfig, ModelsConfig, ProviderConfig, TenantKey};
use super::known;
#[cfg(feature = "providers")]
use super::provider::Provider;
use super::query::{self, Attributes, QueryError};
#[cfg(not(feature = "providers"))]
use super::unavailable::Provider;
use super::{Model, failure};
use async_trait::async_trait;
use indexmap::IndexMap;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use opcell_ir::ir::ModelSelection;
use opcell_types::Value;
use opcell_types::suggest::hint;
use std::sync::Arc;
use thiserror::Error;

/// Fallbacks of fallbacks that are followed.
const FALLBACKS: usize = 16;

/// A model that an operator listed.
#[derive(Debug, Clone, PartialEq)]
pub struct ListedModel {
    /// Its provider's name.
    pub provider: String,
    /// The wire format, as configured.
    pub api: &'static str,
    /// `true` if its provider's key is there.
    pub configured: bool,
    /// The operator's configuration, and the catalogue's where that says nothing.
    pub config: ModelConfig,
    /// The day of the catalogue, if the prices are from it.
    pub prices_of: Option<&'static str>,
}

impl ListedModel {
    /// `provider/model`.
    #[must_use]
    pub fn full_id(&self) -> String {
        format!("{}/{}", self.provider, self.config.id)
    }
}

impl Attributes for ListedModel {
    fn attribute(&self, criterion: &str) -> Option<Value> {
        let config = &self.config;
        let text = |text: &Option<String>| text.as_deref().map(Value::from);
        let whole = |number: Option<u64>| number.and_then(|number| i64::try_from(number).ok()).map(Value::from);
        match criterion {
            "provider" => Some(Value::from(self.provider.as_str())),
            "id" => Some(Value::from(config.id.as_str())),
            "name" => text(&config.name),
            "api" => Some(Value::from(self.api)),
            "configured" => Some(Value::from(self.configured)),
            "supports-text" => Some(Value::from(config.supports_text.unwrap_or(true))),
            "supports-images" => config.supports_images.map(Value::from),
            "supports-reasoning" => config.supports_reasoning.map(Value::from),
            "supports-json-schema" => Some(Value::from(config.supports_json_schema.unwrap_or(true))),
            "context-window" => whole(config.context_window),
            "max-tokens" => whole(config.max_tokens.map(u64::from)),
            "latency-tier" => text(&config.latency_tier),
            "cost-tier" => text(&config.cost_tier),
            "locality" => text(&config.locality),
            "input-cost" => config.input_cost.map(Value::from),
            "output-cost" => config.output_cost.map(Value::from),
            _ => None,
        }
    }
}

/// Why no model was found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// Nothing says which model to use.
    #[error("no model is chosen: the host has no default model, and the session names none")]
    NoDefault,
    /// No such provider or model.
    #[error(
        "there is no model `{id}`: name it as `provider/model` with one of the providers {providers}, or by an id listed under a provider's `models`{hint}"
    )]
    Unknown {
        /// As authored.
        id: String,
        /// Comma-separated.
        providers: String,
        /// "; did you mean …", or empty.
        hint: String,
    },
    /// No listed model passes.
    #[error("no model matches the query {query}; the listed models are: {listed}")]
    NonePasses {
        /// As authored.
        query: String,
        /// Ids, each with why it is out of the question if its key is missing.
        listed: String,
    },
    /// A clause cannot be read.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// Fallbacks nest too deeply.
    #[error("a model query's fallbacks nest deeper than {FALLBACKS}")]
    Depth,
}

/// Configuration that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ModelsError {
    /// The HTTP client could not be built.
    #[error("provider `{provider}`: {message}")]
    Provider {
        /// Its name.
        provider: String,
        /// The problem.
        message: String,
    },
    /// The models that are asked when others do not answer.
    #[error("[models.fallback]: {0}")]
    Fallback(String),
}

/// The model that answers a tenant's rounds instead of the host's.
#[derive(Clone)]
pub enum TenantModel {
    /// A model of the embedding program.
    Own(Arc<dyn Model>),
    /// The host's provider, with the tenant's key.
    Keyed(TenantKey),
}

impl std::fmt::Debug for TenantModel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Own(_) => "Own",
            Self::Keyed(_) => "Keyed",
        })
    }
}

/// The models of tenants.
pub trait TenantModels: Send + Sync {
    /// Returns the model that answers a tenant's rounds for models of a provider; `None`: the host's.
    ///
    /// # Errors
    /// When there is no such tenant.
    fn of(&self, tenant: &str, provider: &str) -> Result<Option<TenantModel>, Failure>;
}

/// A provider of the host.
enum Answering {
    Http(Box<Provider>),
    Own(Arc<dyn Model>),
}

impl Answering {
    fn lacks_logprobs(&self) -> Option<&'static str> {
        match self {
            Self::Http(provider) => provider.lacks_logprobs(),
            Self::Own(model) => model.lacks_logprobs(),
        }
    }

    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        match self {
            Self::Http(provider) => provider.complete(round, sink).await,
            Self::Own(model) => model.complete(round, sink).await,
        }
    }
}

/// The models of a host.
pub struct Models {
    default: Option<ModelSelection>,
    /// The models after those of every session, as `provider/model`.
    fallbacks: Vec<String>,
    /// The failures after which the next model is asked, where the operator said.
    fallback_on: Option<Vec<String>>,
    providers: IndexMap<String, Answering>,
    listed: Vec<ListedModel>,
    only: Option<Arc<dyn Model>>,
    tenants: Option<Arc<dyn TenantModels>>,
}

impl std::fmt::Debug for Models {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Models").finish_non_exhaustive()
    }
}

impl Models {
    /// Models as configured, beside the providers that need no configuration.
    ///
    /// # Errors
    /// When a provider's configuration cannot be used.
    pub fn new(config: ModelsConfig) -> Result<Self, ModelsError> {
        let mut providers = ProviderConfig::known();
        providers.extend(config.providers);
        let fallback = config.fallback.unwrap_or_default();
        let mut models = Self {
            default: config.default,
            fallbacks: Vec::new(),
            fallback_on: fallback.on,
            providers: IndexMap::new(),
            listed: Vec::new(),
            only: None,
            tenants: None,
        };
        for (name, mut provider) in providers {
            provider.prompt_cache = provider.prompt_cache.or(config.prompt_cache);
            let error = |message| ModelsError::Provider { provider: name.clone(), message };
            // What the project does not say of its models.
            let mut listed = std::mem::take(&mut provider.models);
            let from_catalogue: Vec<bool> = listed.iter_mut().map(|model| known::complete(&provider, model)).collect();
            provider.models = listed;
            for (model, has_known_prices) in provider.models.iter().zip(from_catalogue) {
                if model.id.is_empty() {
                    return Err(error("every entry of `models` needs an `id`".to_owned()));
                }
                models.listed.push(ListedModel {
                    provider: name.clone(),
                    api: provider.api.name(),
                    configured: provider.api_key.as_ref().is_none_or(super::SecretSource::is_set),
                    config: model.clone(),
                    prices_of: has_known_prices.then(known::date),
                });
            }
            let built = Provider::new(&name, provider).map_err(error)?;
            models.providers.insert(name.clone(), Answering::Http(Box::new(built)));
        }
        let known = fallback.models.iter().map(|id| models.find(id)).collect::<Result<_, _>>();
        models.fallbacks = known.map_err(|error| ModelsError::Fallback(error.to_string()))?;
        let reasons = models.fallback_on.iter().flatten();
        if let Some(unknown) = reasons.into_iter().find(|reason| !FALLBACK_REASONS.contains(&reason.as_str())) {
            let hint = hint(unknown, FALLBACK_REASONS);
            let all = FALLBACK_REASONS.join(", ");
            return Err(ModelsError::Fallback(format!("`on` has no failure `{unknown}`; it has: {all}{hint}")));
        }
        Ok(models)
    }

    /// Returns a failure of a round with the operator's word on whether the session's next model is asked; unchanged
    /// where there is no other, or where the operator says nothing.
    pub(crate) fn ruled(&self, round: &ModelRound, failure: Failure) -> Failure {
        let at = round.session.models.iter().position(|model| *model == round.model);
        let has_next = at.is_some_and(|at| at + 1 < round.session.models.len());
        match &self.fallback_on {
            Some(on) if has_next => {
                Failure { retriable: on.iter().any(|reason| **reason == *failure.reason), ..failure }
            }
            _ => failure,
        }
    }

    /// One model that answers whatever model a session declares: a scripted one, mostly.
    #[must_use]
    pub fn only(model: Arc<dyn Model>) -> Self {
        Self {
            default: None,
            fallbacks: Vec::new(),
            fallback_on: None,
            providers: IndexMap::new(),
            listed: Vec::new(),
            only: Some(model),
            tenants: None,
        }
    }

    /// Adds a provider that the embedding program implements: it answers for every model that is named `name/…`.
    ///
    /// # Errors
    /// When there is a provider of this name, or one model answers for all.
    pub fn with_provider(mut self, name: &str, model: Arc<dyn Model>) -> Result<Self, ModelsError> {
        let error = |message: &str| ModelsError::Provider { provider: name.to_owned(), message: message.to_owned() };
        if name.is_empty() || name.contains('/') {
            return Err(error("the name of a provider is not empty and has no `/`"));
        }
        if self.only.is_some() {
            return Err(error("another model answers for every provider already"));
        }
        if self.providers.contains_key(name) {
            return Err(error("there is a provider of this name already; choose another name"));
        }
        self.providers.insert(name.to_owned(), Answering::Own(model));
        Ok(self)
    }

    /// The same with an own model in place of a listed provider.
    #[cfg(test)]
    pub(crate) fn answered_by(mut self, provider: &str, model: Arc<dyn Model>) -> Self {
        self.providers.insert(provider.to_owned(), Answering::Own(model));
        self
    }

    /// Asks these for the models of rounds on behalf of a tenant.
    #[must_use]
    pub fn with_tenants(self, tenants: Arc<dyn TenantModels>) -> Self {
        Self { tenants: Some(tenants), ..self }
    }

    /// Returns `true` if sessions may name models of this provider.
    #[must_use]
    pub fn has_provider(&self, name: &str) -> bool {
        self.only.is_some() || self.providers.contains_key(name)
    }

    /// Returns `true` if the host asks this provider over HTTP, with a key.
    #[must_use]
    pub fn takes_key(&self, provider: &str) -> bool {
        self.only.is_none() && matches!(self.providers.get(provider), Some(Answering::Http(_)))
    }

    /// Returns `true` if a tenant has its own model or key for a provider.
    fn is_of(&self, tenant: Option<&str>, provider: &str) -> bool {
        let of = self.tenants.as_ref().zip(tenant);
        of.is_some_and(|(tenants, tenant)| matches!(tenants.of(tenant, provider), Ok(Some(_))))
    }

    /// Asks the model of a round's tenant, if it is not the host's.
    async fn complete_for_tenant(
        &self,
        round: &ModelRound,
        sink: Option<&dyn TextSink>,
    ) -> Result<Option<ModelReply>, Failure> {
        let (Some(tenants), Some(tenant)) = (&self.tenants, &round.context.tenant) else { return Ok(None) };
        let provider = round.model.split_once('/').map_or("", |(provider, _)| provider);
        match tenants.of(tenant, provider)? {
            None => Ok(None),
            Some(TenantModel::Own(model)) => model.complete(round, sink).await.map(Some),
            Some(TenantModel::Keyed(key)) => match self.providers.get(provider) {
                Some(Answering::Http(http)) => http.complete_with(round, sink, Some(&key)).await.map(Some),
                // The host's own model must not answer with what was meant for another.
                _ => {
                    let message = format!("the tenant has a key for `{provider}`, which takes none");
                    Err(failure("unknown-model", message))
                }
            },
        }
    }

    /// Models that an operator listed.
    #[must_use]
    pub fn listed(&self) -> &[ListedModel] {
        &self.listed
    }

    /// The ids, as `provider/model`, of the models for a session, best first. Models whose key is missing are left out
    /// of queries.
    ///
    /// # Errors
    /// When there is none, or the query cannot be read.
    pub fn select(&self, selection: Option<&ModelSelection>) -> Result<Vec<String>, SelectError> {
        self.select_for(selection, None)
    }

    /// As [`Self::select`], on behalf of a tenant: a model whose key the tenant has is not left out.
    ///
    /// # Errors
    /// As [`Self::select`].
    pub fn select_for(
        &self,
        selection: Option<&ModelSelection>,
        tenant: Option<&str>,
    ) -> Result<Vec<String>, SelectError> {
        if self.only.is_some() {
            return Ok(vec![match selection {
                Some(ModelSelection::Id(id)) => id.clone(),
                Some(ModelSelection::Query(_)) | None => "scripted".to_owned(),
            }]);
        }
        let mut ids = self.select_own(selection, tenant)?;
        let others = self.fallbacks.iter().filter(|id| !ids.contains(id)).cloned().collect::<Vec<_>>();
        ids.extend(others);
        Ok(ids)
    }

    /// As [`Self::select`], without the models that are asked when these do not answer.
    fn select_own(&self, selection: Option<&ModelSelection>, tenant: Option<&str>) -> Result<Vec<String>, SelectError> {
        let mut selection = selection.or(self.default.as_ref()).ok_or(SelectError::NoDefault)?;
        for _ in 0..FALLBACKS {
            let query = match selection {
                ModelSelection::Id(id) => return Ok(vec![self.find(id)?]),
                ModelSelection::Query(query) => query,
            };
            let ranked = query::rank(query, &self.listed)?;
            let is_configured = |model: &&ListedModel| model.configured || self.is_of(tenant, &model.provider);
            let ids: Vec<_> = ranked.into_iter().filter(is_configured).map(ListedModel::full_id).collect();
            match &query.fallback {
                _ if !ids.is_empty() => return Ok(ids),
                Some(fallback) => selection = fallback.as_ref(),
                None => {
                    let query = serde_json::to_string(query).unwrap_or_default();
                    return Err(SelectError::NonePasses { query, listed: self.describe_listed() });
                }
            }
        }
        Err(SelectError::Depth)
    }

    /// Checks that a selection names what is here: a model of a known provider, or criteria that a listed model meets.
    /// Keys are not looked for: a document is right or wrong wherever it is checked.
    ///
    /// # Errors
    /// As [`Models::select`].
    pub fn check(&self, selection: &ModelSelection) -> Result<(), SelectError> {
        let mut selection = Some(selection);
        for _ in 0..FALLBACKS {
            match selection {
                _ if self.only.is_some() => return Ok(()),
                None => return Ok(()),
                Some(ModelSelection::Id(id)) => return self.find(id).map(drop),
                Some(ModelSelection::Query(query)) => {
                    if query::rank(query, &self.listed)?.is_empty() && query.fallback.is_none() {
                        let query = serde_json::to_string(query).unwrap_or_default();
                        return Err(SelectError::NonePasses { query, listed: self.describe_listed() });
                    }
                    selection = query.fallback.as_deref();
                }
            }
        }
        Err(SelectError::Depth)
    }

    /// A model that is not listed, as the catalogue has it.
    fn known(&self, provider: &str, id: &str) -> Option<&'static ModelConfig> {
        match self.providers.get(provider)? {
            Answering::Http(http) => http.known(id),
            Answering::Own(_) => None,
        }
    }

    /// The tokens that a model takes and gives in one round, where an operator listed them or the catalogue has them.
    #[must_use]
    pub fn context_window(&self, model: &str) -> Option<u64> {
        let (provider, id) = model.split_once('/')?;
        let listed = self.listed.iter().find(|listed| listed.provider == provider && listed.config.id == id);
        match listed {
            Some(listed) => listed.config.context_window,
            None => self.known(provider, id)?.context_window,
        }
    }

    /// The model that a session would ask first, as it was listed or as the catalogue has it; `None` if neither.
    #[must_use]
    pub fn listed_for(&self, selection: Option<&ModelSelection>) -> Option<ListedModel> {
        let full_id = self.select(selection).ok()?.into_iter().next()?;
        if let Some(listed) = self.listed.iter().find(|model| model.full_id() == full_id) {
            return Some(listed.clone());
        }
        let (provider, id) = full_id.split_once('/')?;
        let Answering::Http(http) = self.providers.get(provider)? else { return None };
        let config = ModelConfig { id: id.to_owned(), ..http.known(id)?.clone() };
        let prices_of = config.input_cost.map(|_| known::date());
        Some(ListedModel { provider: provider.to_owned(), api: http.api(), configured: true, config, prices_of })
    }

    /// Why a model's answers come without the probabilities of their tokens, where its provider has none.
    #[must_use]
    pub fn lacks_logprobs(&self, model: &str) -> Option<String> {
        let name = model.split_once('/')?.0;
        let api = self.providers.get(name).filter(|_| self.only.is_none())?.lacks_logprobs()?;
        Some(format!(
            "token log probabilities are asked for, and the provider `{name}` ({api}) has none: `logprobs` is null"
        ))
    }

    /// A bare id is the first listed model that has it; `provider/model` needs only the provider.
    fn find(&self, id: &str) -> Result<String, SelectError> {
        if let Some(listed) = self.listed.iter().find(|model| model.config.id == id) {
            return Ok(listed.full_id());
        }
        if id
            .split_once('/')
            .is_some_and(|(provider, model)| self.providers.contains_key(provider) && !model.is_empty())
        {
            return Ok(id.to_owned());
        }
        let known: Vec<_> = self.listed.iter().flat_map(|model| [model.config.id.clone(), model.full_id()]).collect();
        Err(SelectError::Unknown {
            id: id.to_owned(),
            providers: self.providers.keys().map(String::as_str).collect::<Vec<_>>().join(", "),
            hint: hint(id, known.iter().map(String::as_str)),
        })
    }

    fn describe_listed(&self) -> String {
        let names = self.listed.iter().map(|model| match model.configured {
            true => model.full_id(),
            false => format!("{} (its key is not set)", model.full_id()),
        });
        match names.collect::<Vec<_>>().join(", ") {
            names if names.is_empty() => "none".to_owned(),
            names => names,
        }
    }
}

#[async_trait]
impl Model for Models {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        if let Some(reply) = self.complete_for_tenant(round, sink).await? {
            return Ok(reply);
        }
        if let Some(model) = &self.only {
            return model.complete(round, sink).await;
        }
        let provider = round.model.split_once('/').and_then(|(provider, _)| self.providers.get(provider));
        match provider {
            Some(model) => model.complete(round, sink).await,
            None => Err(failure("unknown-model", format!("there is no provider for the model `{}`", round.model))),
        }
    }
}
