//! Models: what answers a round. A scripted one for tests, demos and replay; providers over HTTP for the rest.

#[cfg(feature = "providers")]
mod answer;
mod catalogue;
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "secrets are read by providers alone"))]
mod config;
#[cfg(feature = "providers")]
mod logprobs;
#[cfg(feature = "providers")]
mod protocols;
#[cfg(feature = "providers")]
mod provider;
mod query;
mod recorder;
mod script;
#[cfg(feature = "providers")]
mod transport;
#[cfg(not(feature = "providers"))]
mod unavailable;
#[cfg(feature = "providers")]
mod wire;

pub use catalogue::{ListedModel, Models, ModelsError, SelectError};
pub use config::{Api, ModelConfig, ModelsConfig, ProviderConfig, RetryConfig, SecretSource};
pub use query::{CRITERIA, QueryError};
pub use recorder::Recorder;
pub use script::{Order, Script, ScriptError, ScriptedModel, Turn, When};

use async_trait::async_trait;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};

/// Something that answers one round of a conversation.
#[async_trait]
pub trait Model: Send + Sync {
    /// Answers. Retries what is worth retrying, ends soon after the round is cancelled, and never puts a secret into a
    /// failure.
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure>;

    /// The wire format, where it has no token log probabilities.
    fn lacks_logprobs(&self) -> Option<&'static str> {
        None
    }
}

/// A failure of a round: a kebab-case reason and one sentence.
fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::host(reason, message)
}

#[cfg(test)]
mod catalogue_tests;
#[cfg(all(test, feature = "providers"))]
mod corpus_tests;
#[cfg(all(test, feature = "providers"))]
mod provider_tests;
#[cfg(test)]
mod script_tests;
#[cfg(test)]
mod test_server;
