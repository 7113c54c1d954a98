//! The catalogue: context, prices and abilities of well-known models on a day, as the table of the Python package
//! `litellm` 1.110.2 has them. A model whose price depends on the size of a request has no price. It is for models at
//! their vendors' own addresses, and for what the project does not say itself.

use super::config::{Api, ModelConfig, ProviderConfig};
use serde::Deserialize;
use std::sync::LazyLock;

/// The catalogue as data.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Catalogue {
    date: String,
    anthropic_messages: Vec<ModelConfig>,
    openai: Vec<ModelConfig>,
    gemini: Vec<ModelConfig>,
}

static CATALOGUE: LazyLock<Catalogue> =
    LazyLock::new(|| serde_json::from_str(include_str!("../../data/models.json")).unwrap_or_default());

/// The day of the catalogue, such as `2026-11-28`.
pub(super) fn date() -> &'static str {
    &CATALOGUE.date
}

/// The models of a provider that the catalogue has: none at an address that is not the vendor's.
fn models(provider: &ProviderConfig) -> &'static [ModelConfig] {
    match provider.api {
        _ if provider.base_url.is_some() => &[],
        Api::AnthropicMessages => &CATALOGUE.anthropic_messages,
        Api::OpenaiCompletions | Api::OpenaiResponses => &CATALOGUE.openai,
        Api::Gemini => &CATALOGUE.gemini,
        Api::Ollama => &[],
    }
}

/// A model by its id, or by its id with the date of a version after it (`claude-sonnet-4-5-20250929`,
/// `gpt-4o-2024-08-06`).
pub(super) fn find(provider: &ProviderConfig, id: &str) -> Option<&'static ModelConfig> {
    models(provider).iter().find(|model| {
        let version = id.strip_prefix(model.id.as_str());
        version.is_some_and(|version| {
            let digits = version.bytes().filter(u8::is_ascii_digit).count();
            let is_date = digits == 8 && version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
            version.is_empty() || version.starts_with('-') && is_date
        })
    })
}

/// Fills in what a project does not say of a model; returns `true` if its prices are those of the catalogue.
pub(super) fn complete(provider: &ProviderConfig, model: &mut ModelConfig) -> bool {
    let Some(known) = find(provider, &model.id) else { return false };
    // Prices belong together.
    let has_prices = model.input_cost.is_none() && model.output_cost.is_none() && known.input_cost.is_some();
    if has_prices {
        (model.input_cost, model.output_cost) = (known.input_cost, known.output_cost);
        model.cache_read_cost = model.cache_read_cost.or(known.cache_read_cost);
        model.cache_write_cost = model.cache_write_cost.or(known.cache_write_cost);
    }
    model.context_window = model.context_window.or(known.context_window);
    model.supports_images = model.supports_images.or(known.supports_images);
    model.supports_documents = model.supports_documents.or(known.supports_documents);
    model.supports_audio = model.supports_audio.or(known.supports_audio);
    model.supports_reasoning = model.supports_reasoning.or(known.supports_reasoning);
    has_prices
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test")]

    use super::*;

    #[test]
    fn the_catalogue_is_sound_and_has_its_day() {
        let catalogue: Catalogue = serde_json::from_str(include_str!("../../data/models.json")).unwrap();
        assert!(catalogue.date.len() == 10 && catalogue.date.starts_with("20"), "{}", catalogue.date);
        for model in [&catalogue.anthropic_messages, &catalogue.openai, &catalogue.gemini].into_iter().flatten() {
            assert!(model.context_window.is_some_and(|tokens| tokens >= 100_000), "{model:?}");
            assert_eq!(model.input_cost.is_some(), model.output_cost.is_some(), "{model:?}");
            assert!(model.input_cost <= model.output_cost && model.cache_read_cost <= model.input_cost, "{model:?}");
            // It would be sent as the limit of every answer.
            assert!(model.max_tokens.is_none(), "{model:?}");
        }
    }

    #[test]
    fn a_model_is_known_by_its_id_with_and_without_a_date_at_its_vendor_s_address_alone() {
        let vendor = ProviderConfig::new(Api::OpenaiCompletions, None);
        for (id, known) in [
            ("gpt-4o", Some("gpt-4o")),
            ("gpt-4o-2024-08-06", Some("gpt-4o")),
            ("gpt-4o-mini", Some("gpt-4o-mini")),
            ("gpt-4o-audio-preview", None),
            ("gpt-4", None),
            ("gpt-4o20240806", None),
        ] {
            assert_eq!(find(&vendor, id).map(|model| model.id.as_str()), known, "{id}");
        }
        let other = ProviderConfig { base_url: Some("http://localhost/v1/".to_owned()), ..vendor };
        assert!(find(&other, "gpt-4o").is_none());
        let anthropic = ProviderConfig::new(Api::AnthropicMessages, None);
        assert!(find(&anthropic, "claude-sonnet-4-5-20250929").is_some());
    }

    #[test]
    fn what_the_project_says_counts() {
        let vendor = ProviderConfig::new(Api::OpenaiCompletions, None);
        let of = |model: ModelConfig| {
            let mut model = ModelConfig { id: "gpt-4o".to_owned(), ..model };
            let used = complete(&vendor, &mut model);
            (used, model.input_cost, model.output_cost, model.context_window, model.supports_images)
        };
        assert_eq!(of(ModelConfig::default()), (true, Some(2.5), Some(10.0), Some(128_000), Some(true)));
        let own = ModelConfig {
            input_cost: Some(1.0),
            context_window: Some(9),
            supports_images: Some(false),
            ..ModelConfig::default()
        };
        assert_eq!(of(own), (false, Some(1.0), None, Some(9), Some(false)));
    }
}
