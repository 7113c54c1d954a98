//! Requests of tools for input, and their answers.

use super::{Change, missing};
use crate::event::{EffectId, EffectReply};
use crate::state::{Inputs, MAX_FORMS, State};
use opcell_types::InputAnswer;

impl State {
    pub(super) fn ask_for_input(&mut self, effect: EffectId, place: Option<u32>, reply: &EffectReply) -> Change {
        let now = self.now;
        let Some(request) = reply.input() else { return missing(format!("a request for input of effect {effect}")) };
        let forms = request.forms.len();
        let is_task = request.task.is_some();
        if (forms == 0 && !is_task) || forms > MAX_FORMS {
            return missing(format!("{forms} forms"));
        }
        let pending = self.pending_mut(effect)?;
        // A task continues without a person. Several calls of one cell may wait at once.
        let waits = forms > 0 || place.is_some() && pending.in_doubt;
        let Some(input) = pending.input_of(place) else { return missing(format!("call {place:?} of effect {effect}")) };
        let rounds = input.as_ref().map_or(0, |inputs| inputs.rounds).saturating_add(1);
        *input = Some(Box::new(Inputs { rounds, request: request.clone(), answers: Vec::new(), at: now }));
        pending.in_doubt = waits;
        Ok(())
    }

    pub(super) fn answer_input(&mut self, effect: EffectId, question: &str, answer: &InputAnswer) -> Change {
        let Some((_, place)) = self.asked_input(question).filter(|(asks, _)| *asks == effect) else {
            return missing(format!("question {question}"));
        };
        let now = self.now;
        let pending = self.pending_mut(effect)?;
        let Some(Some(inputs)) = pending.input_of(place) else {
            return missing(format!("effect {effect} as one that asks"));
        };
        inputs.answers.push(answer.clone());
        if inputs.answers.len() < inputs.request.forms.len() {
            return Ok(());
        }
        let waited = now.ms_since(inputs.at);
        let frame = pending.frame;
        pending.in_doubt = pending.is_asking();
        // The time in which a person thinks is not the step's. Several may think at the same time.
        if let Some(work) = self.frame_mut(frame)?.work_mut() {
            work.since = work.since.plus_ms(waited).min(now);
        }
        Ok(())
    }
}
