//! Compaction: a conversation that nears its model's context is sent shortened. The run keeps all of it.
//!
//! The shortened form is a function of what the journal has: the messages, their newest summary, and the context window
//! with the lessons of earlier answers. It is decided message by message, as earlier rounds saw it, so that consecutive
//! rounds share their beginning (which providers cache) and a run that is resumed elsewhere sends the same.

mod fit;
mod pin;
mod summary;
mod windows;

pub(crate) use summary::{Plan, plan, with_summary};
pub(crate) use windows::{Windows, counted, limit, refused};

use opcell_engine::call::{Compacted, CompactionReason};
use opcell_engine::ports::ModelRound;
use opcell_ir::ir::Compaction;

/// A shortened round.
pub(crate) struct Shortened {
    /// The round with the messages that are sent.
    pub(crate) round: ModelRound,
    /// The parts that were left out.
    pub(crate) compacted: Box<Compacted>,
}

/// The estimated tokens of a round, before a provider's count corrects it.
pub(crate) fn estimated(round: &ModelRound) -> u64 {
    round.messages.iter().map(fit::tokens).fold(fit::fixed(round), u64::saturating_add)
}

/// Shortens a round for a model that has room for `tokens`, as estimated. `None` if it fits, or if nothing can be left
/// out.
pub(crate) fn shortened(
    round: &ModelRound,
    rule: &Compaction,
    tokens: u64,
    reason: CompactionReason,
) -> Option<Shortened> {
    let short = fit::shorten(&round.messages, fit::fixed(round), tokens, rule)?;
    let compacted = Compacted {
        reason,
        results: short.results,
        rounds: short.rounds,
        tokens_before: short.before,
        tokens_after: short.after,
        limit: tokens,
    };
    let mut sent = round.clone();
    sent.messages = short.messages;
    Some(Shortened { round: sent, compacted: Box::new(compacted) })
}
