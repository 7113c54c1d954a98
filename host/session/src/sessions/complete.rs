//! A model's round: shortened where the conversation nears the model's context, and once more where its provider has no
//! room for it.

use super::{HostSessions, failure};
use crate::compaction::{estimated, shortened};
use opcell_engine::call::CompactionReason;
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use opcell_types::Value;
use std::sync::atomic::{AtomicBool, Ordering};

/// Times that a round is shortened further because its provider has no room for it.
const ATTEMPTS: u32 = 4;

/// More than the tokens that are counted for a message beside its text.
const MESSAGE_BYTES: usize = 16;

/// A provider's count of fewer bytes says little of the model: what every request costs is in it.
const COUNTED_BYTES: usize = 16 << 10;

/// The most that is sent to a model in one round, in bytes: more than any model takes, and less than what a document's
/// templates could make.
const MAX_ROUND_BYTES: usize = 16 << 20;

/// The texts of a round: system prompt, messages with their calls and what a provider wants back, and the tools.
fn sent_bytes(round: &ModelRound) -> usize {
    let json = |value: &Value| value.to_json().len();
    let tools = round
        .session
        .tools
        .iter()
        .map(|tool| tool.name.len().saturating_add(tool.description.len()).saturating_add(json(&tool.parameters)));
    let messages = round.messages.iter().map(|message| {
        let calls = message
            .tool_calls
            .iter()
            .map(|call| call.id.len().saturating_add(call.name.len()).saturating_add(json(&call.arguments)));
        let kept = message.continuation.as_ref().map_or(0, json);
        calls.fold(message.content.len().saturating_add(kept), usize::saturating_add)
    });
    messages.chain(tools).fold(round.session.system.len(), usize::saturating_add)
}

/// Remembers whether anything was shown: what was is not shown again.
struct Watched<'a> {
    sink: &'a dyn TextSink,
    shown: &'a AtomicBool,
}

impl TextSink for Watched<'_> {
    fn text(&self, piece: &str) {
        self.shown.store(true, Ordering::Relaxed);
        self.sink.text(piece);
    }
}

impl HostSessions {
    pub(super) async fn complete_shortened(
        &self,
        round: &ModelRound,
        sink: Option<&dyn TextSink>,
    ) -> Result<ModelReply, Failure> {
        let shown = AtomicBool::new(false);
        let watched = sink.map(|sink| Watched { sink, shown: &shown });
        let sink = watched.as_ref().map(|watched| watched as &dyn TextSink);
        let rule = round.session.settings.compaction.unwrap_or_default();
        let window = self.models.context_window(&round.model);
        let mut reason = CompactionReason::Threshold;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let limit = self.windows.limit(round, &rule, window).filter(|_| rule.enabled);
            // Text has at least one byte per token: most rounds need no closer look.
            let most = sent_bytes(round).saturating_add(round.messages.len().saturating_mul(MESSAGE_BYTES)) as u64;
            let full = limit.filter(|limit| most > *limit);
            let short = full.and_then(|limit| shortened(round, &rule, limit, reason));
            let (sent, compacted) = short.map_or((None, None), |short| (Some(short.round), Some(short.compacted)));
            let sent = sent.as_ref().unwrap_or(round);
            let bytes = sent_bytes(sent);
            if bytes > MAX_ROUND_BYTES {
                let message =
                    format!("the conversation has {bytes} bytes; at most {MAX_ROUND_BYTES} are sent to a model");
                return Err(failure("prompt-too-large", message));
            }
            match self.answers.complete(sent, sink).await {
                Ok(mut reply) => {
                    if window.is_some() && bytes > COUNTED_BYTES {
                        self.windows.counted(&round.model, estimated(sent), reply.usage.input_tokens);
                    }
                    reply.compacted = compacted;
                    return Ok(reply);
                }
                Err(full) if &*full.reason == "context-full" && rule.enabled => {
                    let estimate = estimated(sent);
                    self.windows.refused(&round.model, estimate);
                    let next = self.windows.limit(round, &rule, window);
                    let shorter = next.and_then(|next| shortened(round, &rule, next, reason));
                    let is_shorter = shorter.is_some_and(|short| short.compacted.tokens_after < estimate);
                    if !is_shorter || attempt == ATTEMPTS || shown.load(Ordering::Relaxed) {
                        return Err(full);
                    }
                    reason = CompactionReason::ContextFull;
                }
                Err(other) => return Err(other),
            }
        }
    }
}
