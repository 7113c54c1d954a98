//! The context windows of models, as listed and as their providers' answers taught.

use opcell_engine::call::WindowLesson;
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
const MAX_EIGHTHS: u64 = 8 * STEPS;

/// The lessons of this process's answers, with which new conversations begin. A conversation has its own from then on,
/// in its run's journal: where it is cut does not depend on the process that drives it.
#[derive(Default)]
pub(crate) struct Windows {
    learned: Mutex<HashMap<String, WindowLesson>>,
}

impl Windows {
    /// The lesson of a model's answers.
    pub(crate) fn lesson(&self, model: &str) -> WindowLesson {
        self.lock().get(model).copied().unwrap_or_default()
    }

    /// Remembers a lesson for conversations that begin later.
    pub(crate) fn learn(&self, model: &str, lesson: WindowLesson) {
        let mut learned = self.lock();
        if learned.len() >= MODELS && !learned.contains_key(model) {
            return;
        }
        let known = learned.entry(model.to_owned()).or_default();
        *known = known.and(lesson);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, WindowLesson>> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The estimated tokens at which a round is shortened. `None` where nothing is known of the model.
pub(crate) fn limit(round: &ModelRound, rule: &Compaction, tokens: Option<u64>, lesson: WindowLesson) -> Option<u64> {
    let answer = round.session.settings.generation.max_tokens.map_or(0, u64::from);
    limit_beside(answer, rule, tokens, lesson)
}

/// The same beside an answer of this many tokens.
pub(super) fn limit_beside(answer: u64, rule: &Compaction, tokens: Option<u64>, lesson: WindowLesson) -> Option<u64> {
    let percent = u64::from(rule.at_percent);
    let listed = tokens.map(|window| {
        let tokens = (window / 100 * percent).min(window.saturating_sub(answer)).max(1);
        tokens.saturating_mul(STEPS) / lesson.eighths.clamp(STEPS, MAX_EIGHTHS)
    });
    let refused = lesson.refused.map(|tokens| tokens / 100 * percent);
    listed.into_iter().chain(refused).min()
}

/// A lesson after a provider's count of a round.
pub(crate) fn counted(lesson: WindowLesson, estimate: u64, tokens: u64) -> WindowLesson {
    if estimate == 0 || tokens <= estimate {
        return lesson;
    }
    let eighths = tokens.saturating_mul(STEPS).div_ceil(estimate).min(MAX_EIGHTHS);
    lesson.and(WindowLesson { eighths, refused: None })
}

/// A lesson after a provider had no room for this many tokens.
pub(crate) fn refused(lesson: WindowLesson, estimate: u64) -> WindowLesson {
    lesson.and(WindowLesson { refused: Some(estimate), ..WindowLesson::default() })
}
