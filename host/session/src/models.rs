//! Models: what answers a round. A scripted one for tests, demos and replay; providers over HTTP for the rest.

#[cfg(feature = "providers")]
mod answer;
mod catalogue;
#[cfg(feature = "providers")]
mod coding;
#[cfg_attr(not(feature = "providers"), expect(dead_code, reason = "secrets are read by providers alone"))]
mod config;
mod known;
#[cfg(feature = "providers")]
mod logprobs;
#[cfg(feature = "providers")]
mod protocols;
#[cfg(feature = "providers")]
mod provider;
mod query;
mod recorder;
mod script;
mod shown;
#[cfg(feature = "providers")]
mod textual;
#[cfg(feature = "providers")]
mod transport;
#[cfg(not(feature = "providers"))]
mod unavailable;
#[cfg(feature = "providers")]
mod wire;

/// Ways into the crate that only fuzz targets have.
#[cfg(feature = "fuzzing")]
pub mod fuzzing {
    use super::{Api, answer::AnswerReader, protocols};
    use opcell_engine::ports::AnswerPiece;
    use opcell_types::Value;

    /// An answer, as far as its readers must agree.
    #[derive(Debug, PartialEq)]
    pub struct Read {
        /// The text.
        pub text: String,
        /// Name and arguments of each call.
        pub calls: Vec<(String, Value)>,
        /// The text that was shown while it came.
        pub shown: String,
    }

    /// Reads the body of an answer in pieces of a size; an error is the reason of the failure.
    ///
    /// # Errors
    /// When the body is not an answer.
    pub fn answer(api: Api, body: &[u8], piece: usize) -> Result<Read, &'static str> {
        let shown = std::sync::Mutex::new(String::new());
        let show = |piece: AnswerPiece<'_>| {
            if let (Ok(mut shown), Some(text)) = (shown.lock(), piece.text()) {
                shown.push_str(text);
            }
        };
        let known = ["read".to_owned()].into_iter().collect();
        let mut reader = AnswerReader::new(protocols::reader(api, known, true), show);
        for bytes in body.chunks(piece.max(1)) {
            if reader.is_over() {
                break;
            }
            reader.push(bytes).map_err(|fault| fault.reason)?;
        }
        let answer = reader.end().and_then(|answer| answer.judged("m", protocols::accepts_unknown_finish(api)));
        let answer = answer.map_err(|fault| fault.reason)?;
        let calls = answer.calls.into_iter().map(|call| (call.name, call.arguments)).collect();
        let shown = shown.lock().map(|shown| shown.clone()).unwrap_or_default();
        Ok(Read { text: answer.text, calls, shown })
    }
}

pub use catalogue::{ListedModel, Models, ModelsError, SelectError, TenantModel, TenantModels};
pub use config::{
    Api, FALLBACK_REASONS, FallbackConfig, ModelConfig, ModelsConfig, ProviderConfig, RetryConfig, SecretSource,
    TenantKey, TextualCalls,
};
pub use query::{CRITERIA, QueryError};
pub use recorder::Recorder;
pub use script::{Order, SCHEMA as SCRIPT_SCHEMA, Script, ScriptError, ScriptedModel, Turn, When};
pub(crate) use shown::Shown;

use async_trait::async_trait;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use std::sync::Arc;

/// Something that answers one round of a conversation.
///
/// ```
/// use async_trait::async_trait;
/// use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
/// use opcell_session::models::Model;
///
/// /// Repeats what the user said last.
/// struct Parrot;
///
/// #[async_trait]
/// impl Model for Parrot {
///     async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
///         let said = round.messages.last_of_user().map(|message| message.content.clone()).unwrap_or_default();
///         // Pieces of the answer, for whoever follows the run while the answer comes.
///         if let Some(sink) = sink {
///             said.split_inclusive(' ').for_each(|piece| sink.text(piece));
///         }
///         Ok(ModelReply::text(&round.model, said))
///     }
/// }
/// ```
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

/// A model that several owners share.
#[async_trait]
impl<M: Model + ?Sized> Model for Arc<M> {
    async fn complete(&self, round: &ModelRound, sink: Option<&dyn TextSink>) -> Result<ModelReply, Failure> {
        (**self).complete(round, sink).await
    }

    fn lacks_logprobs(&self) -> Option<&'static str> {
        (**self).lacks_logprobs()
    }
}

/// A failure of a round: a kebab-case reason and one sentence.
fn failure(reason: &str, message: impl Into<String>) -> Failure {
    Failure::host(reason, message)
}

#[cfg(all(test, feature = "providers"))]
mod answer_tests;
#[cfg(all(test, feature = "providers"))]
mod attachment_tests;
#[cfg(all(test, feature = "providers"))]
mod cache_tests;
#[cfg(test)]
mod catalogue_tests;
#[cfg(all(test, feature = "providers"))]
mod compaction_tests;
#[cfg(all(test, feature = "providers"))]
mod corpus_tests;
#[cfg(all(test, feature = "providers"))]
mod fallover_tests;
#[cfg(all(test, feature = "providers"))]
mod provider_support;
#[cfg(all(test, feature = "providers"))]
mod provider_tests;
#[cfg(test)]
mod script_tests;
#[cfg(all(test, feature = "providers"))]
mod stream_tests;
#[cfg(test)]
mod summary_tests;
#[cfg(test)]
mod test_server;
