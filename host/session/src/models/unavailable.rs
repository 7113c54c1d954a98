//! Stands where models over HTTP would be, in a program that is built without them.

use super::{
    Model, TenantKey,
    config::{ModelConfig, ProviderConfig},
    failure, known,
};
use async_trait::async_trait;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};

/// A provider that cannot be reached.
pub(super) struct Provider {
    name: String,
    config: ProviderConfig,
}

impl Provider {
    pub(super) fn new(name: &str, config: ProviderConfig) -> Result<Self, String> {
        Ok(Self { name: name.to_owned(), config })
    }

    /// A model of the catalogue.
    pub(super) fn known(&self, id: &str) -> Option<&'static ModelConfig> {
        known::find(&self.config, id)
    }

    /// The name of its protocol.
    pub(super) fn api(&self) -> &'static str {
        self.config.api.name()
    }
}

#[async_trait]
impl Model for Provider {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        self.complete_with(round, sink, None).await
    }
}

impl Provider {
    pub(super) async fn complete_with(
        &self,
        _round: &ModelRound,
        _sink: Option<&dyn TextSink>,
        _of_tenant: Option<&TenantKey>,
    ) -> Result<ModelReply, Failure> {
        let name = &self.name;
        Err(failure(
            "not-built-in",
            format!(
                "provider `{name}` cannot be reached: this program is built without models over HTTP (feature `models`)"
            ),
        ))
    }
}
