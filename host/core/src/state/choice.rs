//! The question that an answer is meant for.

use super::State;
use crate::{event::EffectId, outcome::Question};
use opcell_types::Denial;
use std::sync::Arc;

/// The question that an answer names.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The name of an approval, or what is to be granted.
    pub name: Option<&'a str>,
    /// The step that asks, or its path.
    pub step: Option<&'a str>,
    /// The ID of the question, as it was shown.
    pub question: Option<&'a str>,
}

/// An approval that a run asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskedApproval {
    /// The ID of the question.
    pub id: Arc<str>,
    /// The name of the approval.
    pub name: Arc<str>,
    /// The step that asks, after those that it belongs to.
    pub path: Arc<str>,
}

/// A grant that a run asks for, by every call that was refused the same.
#[derive(Debug, Clone, PartialEq)]
pub struct AskedGrant {
    /// The refused call.
    pub denial: Denial,
    /// The calls, each with the ID of its question.
    pub calls: Vec<(EffectId, Arc<str>)>,
}

/// Why an answer is for no question.
#[derive(Debug, Clone, PartialEq)]
pub enum NotChosen<T> {
    /// The run asks nothing of that kind.
    Nothing,
    /// The question that was shown is not asked any more.
    Gone,
    /// It could be any of these.
    Several(Vec<T>),
    /// One of that name was answered before, so that this may be meant for that one.
    Again(T),
}

impl State {
    /// The one approval that an answer is for. A name or a step is enough until something of that name has been
    /// answered: an answer that is sent twice must not answer what is asked next.
    ///
    /// # Errors
    /// When it is for none, or may be for another.
    pub fn chosen_approval(&self, wanted: &Wanted<'_>) -> Result<AskedApproval, NotChosen<AskedApproval>> {
        let mut found: Vec<(AskedApproval, bool)> = Vec::new();
        for question in self.questions() {
            let Question::Signal { name, step, approval: true, id, path, again, .. } = question else { continue };
            let is_named = wanted.name.is_none_or(|wanted| *name == *wanted);
            let is_at = wanted.step.is_none_or(|wanted| *step == *wanted || *path == *wanted);
            let is_shown = wanted.question.is_none_or(|wanted| *id == *wanted);
            if is_named && is_at && is_shown {
                found.push((AskedApproval { id, name, path }, again));
            }
        }
        if found.len() > 1 {
            return Err(NotChosen::Several(found.into_iter().map(|(asked, _)| asked).collect()));
        }
        let Some((asked, again)) = found.pop() else {
            return match (wanted.question, wanted.name, wanted.step) {
                (Some(_), _, _) => Err(NotChosen::Gone),
                // What people type as the name may be the step, where no approval is called so.
                (None, Some(name), None) if !self.has_approval(name) => {
                    self.chosen_approval_of_step(name).unwrap_or(Err(NotChosen::Nothing))
                }
                _ => Err(NotChosen::Nothing),
            };
        };
        let is_unsure = again || (wanted.name.is_none() && wanted.step.is_none() && self.has_answered("approval"));
        if wanted.question.is_none() && is_unsure {
            return Err(NotChosen::Again(asked));
        }
        Ok(asked)
    }

    /// The approval of the step of this name, where a step has it.
    fn chosen_approval_of_step(&self, step: &str) -> Option<Result<AskedApproval, NotChosen<AskedApproval>>> {
        let asks = |question: &Question| matches!(question, Question::Signal { step: at, path, approval: true, .. } if **at == *step || **path == *step);
        self.questions()
            .iter()
            .any(asks)
            .then(|| self.chosen_approval(&Wanted { step: Some(step), ..Wanted::default() }))
    }

    fn has_approval(&self, name: &str) -> bool {
        self.signals().approvals.contains(name)
    }

    /// The one grant that an answer is for, by the rules of [`Self::chosen_approval`].
    ///
    /// # Errors
    /// When it is for none, or may be for another.
    #[expect(clippy::result_large_err, reason = "it is asked once for each answer of a person")]
    pub fn chosen_grant(&self, wanted: &Wanted<'_>) -> Result<AskedGrant, NotChosen<AskedGrant>> {
        let mut found: Vec<AskedGrant> = Vec::new();
        let mut is_again = false;
        for question in self.questions() {
            let Question::Grant { effect, step, denial, id, again, .. } = question else { continue };
            let is_named = wanted.name.is_none_or(|wanted| denial.capability == wanted);
            let is_at = wanted.step.is_none_or(|wanted| *step == *wanted);
            let is_shown = wanted.question.is_none_or(|wanted| *id == *wanted);
            if !(is_named && is_at && is_shown) {
                continue;
            }
            is_again |= again;
            match found.iter_mut().find(|asked| asked.denial == *denial) {
                Some(asked) => asked.calls.push((effect, id)),
                None => found.push(AskedGrant { denial: *denial, calls: vec![(effect, id)] }),
            }
        }
        if found.len() > 1 {
            return Err(NotChosen::Several(found));
        }
        let Some(asked) = found.pop() else {
            return Err(if wanted.question.is_some() { NotChosen::Gone } else { NotChosen::Nothing });
        };
        let is_unsure = is_again || (wanted.name.is_none() && wanted.step.is_none() && self.has_answered("grant"));
        if wanted.question.is_none() && is_unsure {
            return Err(NotChosen::Again(asked));
        }
        Ok(asked)
    }
}
