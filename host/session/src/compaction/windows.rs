//! The tokens that models take, as listed and as their providers' answers taught.

use opcell_engine::ports::ModelRound;
use opcell_ir::ir::Compaction;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Models that are remembered: documents name them.
const MODELS: usize = 1_024;

/// The steps in which a provider's count corrects the estimate, per token: conversations keep their beginning between
/// two of them.
const STEPS: u64 = 8;

/// The most by which a count corrects an estimate: a provider may count what it adds itself.
const MOST: u64 = 8 * STEPS;

/// The lessons of this process's answers; lost with it, and learned again from the first round.
#[derive(Default)]
pub(crate) struct Windows {
    learned: Mutex<HashMap<String, Learned>>,
}

#[derive(Debug, Clone, Copy)]
struct Learned {
    /// Tokens per estimated token, in [`STEPS`]; only grows.
    ratio: u64,
    /// Estimated tokens that a provider refused as too many.
    refused: Option<u64>,
}

impl Windows {
    /// The estimated tokens at which a round is shortened. `None` where nothing is known of the model.
    pub(crate) fn limit(&self, round: &ModelRound, rule: &Compaction, window: Option<u64>) -> Option<u64> {
        let learned = self.lock().get(&round.model).copied();
        let percent = u64::from(rule.at_percent);
        let ratio = learned.map_or(STEPS, |learned| learned.ratio);
        let answer = round.session.settings.generation.max_tokens.map_or(0, u64::from);
        let listed = window.map(|window| {
            let tokens = (window / 100 * percent).min(window.saturating_sub(answer)).max(1);
            tokens.saturating_mul(STEPS) / ratio
        });
        let refused = learned.and_then(|learned| learned.refused).map(|tokens| tokens / 100 * percent);
        listed.into_iter().chain(refused).min()
    }

    /// Remembers a provider's count of a round.
    pub(crate) fn counted(&self, model: &str, estimate: u64, tokens: u64) {
        if estimate == 0 || tokens <= estimate {
            return;
        }
        let ratio = tokens.saturating_mul(STEPS).div_ceil(estimate).min(MOST);
        self.change(model, |learned| learned.ratio = learned.ratio.max(ratio));
    }

    /// Remembers that a provider had no room for this many tokens.
    pub(crate) fn refused(&self, model: &str, estimate: u64) {
        self.change(model, |learned| {
            learned.refused = Some(learned.refused.map_or(estimate, |refused| refused.min(estimate)));
        });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Learned>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, model: &str, change: impl FnOnce(&mut Learned)) {
        let mut learned = self.lock();
        if learned.len() >= MODELS && !learned.contains_key(model) {
            return;
        }
        change(learned.entry(model.to_owned()).or_insert(Learned { ratio: STEPS, refused: None }));
    }
}
