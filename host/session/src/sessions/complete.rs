//! A model's round: shortened where the conversation nears the model's context, and once more where its provider has no
//! room for it.

use super::{HostSessions, failure};
use crate::compaction::{Plan, counted, estimated, limit, plan, refused, shortened, with_summary};
use crate::models::Shown;
use opcell_engine::call::{CompactionReason, ModelWindow};
use opcell_engine::ports::{Failure, ModelReply, ModelRound, TextSink};
use opcell_ir::ir::Compaction;
use opcell_types::Value;
use std::time::Duration;

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

impl HostSessions {
    /// The context window of a model, as this process knows it.
    pub(super) fn window_of(&self, model: &str) -> ModelWindow {
        let tokens = self.models.context_window(model);
        ModelWindow { model: model.to_owned(), tokens, lesson: self.windows.lesson(model) }
    }

    pub(super) async fn complete_shortened(
        &self,
        round: &ModelRound,
        sink: Option<&dyn TextSink>,
    ) -> Result<ModelReply, Failure> {
        let shown = sink.map(Shown::new);
        let sink = shown.as_ref().map(|shown| shown as &dyn TextSink);
        let rule = round.session.settings.compaction.clone().unwrap_or_default();
        let window = round.window.clone().unwrap_or_else(|| self.window_of(&round.model));
        let mut lesson = window.lesson;
        let summarised = with_summary(round);
        let mut reason = CompactionReason::Threshold;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let limit = limit(round, &rule, window.tokens, lesson).filter(|_| rule.enabled);
            // Text has at least one byte per token: most rounds need no closer look.
            let messages = summarised.messages.len().saturating_mul(MESSAGE_BYTES);
            let most = sent_bytes(&summarised).saturating_add(messages) as u64;
            let full = limit.filter(|limit| most > *limit);
            if let Some(limit) = full.filter(|limit| estimated(&summarised) > *limit)
                && let Some(plan) = plan(round, &rule, limit, reason)
            {
                let reply = self.summarise(round, &rule, &plan).await?;
                self.windows.learn(&round.model, lesson);
                return Ok(ModelReply { lesson: (lesson != window.lesson).then_some(lesson), ..reply });
            }
            let short = full.and_then(|limit| shortened(&summarised, &rule, limit, reason));
            let (sent, compacted) = short.map_or((None, None), |short| (Some(short.round), Some(short.compacted)));
            let sent = sent.as_ref().unwrap_or(&summarised);
            let bytes = sent_bytes(sent);
            if bytes > MAX_ROUND_BYTES {
                let message =
                    format!("the conversation has {bytes} bytes; at most {MAX_ROUND_BYTES} are sent to a model");
                return Err(failure("prompt-too-large", message));
            }
            match self.answers.complete(sent, sink).await {
                Ok(mut reply) => {
                    if window.tokens.is_some() && bytes > COUNTED_BYTES {
                        lesson = counted(lesson, estimated(sent), reply.usage.input_tokens);
                    }
                    self.windows.learn(&round.model, lesson);
                    reply.compacted = compacted;
                    reply.lesson = (lesson != window.lesson).then_some(lesson);
                    return Ok(reply);
                }
                Err(full) if &*full.reason == "context-full" && rule.enabled => {
                    let estimate = estimated(sent);
                    lesson = refused(lesson, estimate);
                    self.windows.learn(&round.model, lesson);
                    let next = self::limit(round, &rule, window.tokens, lesson);
                    let shorter = next.and_then(|next| shortened(&summarised, &rule, next, reason));
                    let is_shorter = shorter.is_some_and(|short| short.compacted.tokens_after < estimate);
                    if !is_shorter || attempt == ATTEMPTS || !shown.as_ref().is_none_or(Shown::may_restart) {
                        return Err(full);
                    }
                    shown.iter().for_each(Shown::restart);
                    reason = CompactionReason::ContextFull;
                }
                Err(other) => return Err(other),
            }
        }
    }

    /// Asks for a summary, within its time. One that fails, or is of no use, is an answer that says so: the rule does
    /// without it.
    async fn summarise(&self, round: &ModelRound, rule: &Compaction, plan: &Plan) -> Result<ModelReply, Failure> {
        let model = rule.model.as_deref().unwrap_or(&round.model);
        let known = round.session.windows.iter().find(|window| window.model == model);
        let window = match &round.window {
            Some(own) if own.model == model => own.clone(),
            _ => known.cloned().unwrap_or_else(|| self.window_of(model)),
        };
        let question = plan.question(round, rule, &window);
        let limit = Duration::from_secs(rule.timeout_seconds.into());
        let answered = tokio::time::timeout(limit, self.answers.complete(&question, None)).await;
        let answered = answered.unwrap_or_else(|_| {
            Err(failure("timeout", format!("`{model}` wrote no summary within {} s", limit.as_secs())))
        });
        if let Err(cancelled) = &answered
            && (&*cancelled.reason == "cancelled" || round.cancel.is_cancelled())
        {
            return Err(cancelled.clone());
        }
        let reply = plan.judged(rule, answered, model);
        if let Some(failed) = reply.summary.as_ref().and_then(|summary| summary.failure.as_ref()) {
            tracing::warn!(
                %model,
                reason = %failed.reason,
                "a summary failed; older parts of the conversation are left out by rule"
            );
        }
        Ok(reply)
    }
}
