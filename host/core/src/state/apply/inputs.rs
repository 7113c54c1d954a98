//! Requests of tools for input, and their answers.

use super::{Change, missing};
use crate::event::{EffectId, EffectReply};
use crate::state::{Inputs, MAX_FORMS, State};
use opcell_types::InputAnswer;

impl State {
    pub(super) fn ask_for_input(&mut self, effect: EffectId, reply: &EffectReply) -> Change {
        let now = self.now;
        let Some(request) = reply.input() else { return missing(format!("a request for input of effect {effect}")) };
        let forms = request.forms.len();
        let is_task = request.task.is_some();
        if (forms == 0 && !is_task) || forms > MAX_FORMS {
            return missing(format!("{forms} forms"));
        }
        let pending = self.pending_mut(effect)?;
        let rounds = pending.input.as_ref().map_or(0, |inputs| inputs.rounds).saturating_add(1);
        // A task continues without a person.
        pending.in_doubt = forms > 0;
        pending.input = Some(Box::new(Inputs { rounds, request: request.clone(), answers: Vec::new(), at: now }));
        Ok(())
    }

    pub(super) fn answer_input(&mut self, effect: EffectId, question: &str, answer: &InputAnswer) -> Change {
        if self.asks_for_input(question) != Some(effect) {
            return missing(format!("question {question}"));
        }
        let now = self.now;
        let pending = self.pending_mut(effect)?;
        let Some(inputs) = &mut pending.input else { return missing(format!("effect {effect} as one that asks")) };
        inputs.answers.push(answer.clone());
        if inputs.answers.len() < inputs.request.forms.len() {
            return Ok(());
        }
        let (frame, waited) = (pending.frame, now.ms_since(inputs.at));
        pending.in_doubt = false;
        // The time in which a person thinks is not the step's. Several may think at the same time.
        if let Some(work) = self.frame_mut(frame)?.work_mut() {
            work.since = work.since.plus_ms(waited).min(now);
        }
        Ok(())
    }
}
