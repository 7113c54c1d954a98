//! What a run asks of people: signals that it waits for, effects in doubt, and grants.

use super::{Frame, Pending, Stage, State};
use crate::{
    dialogue::MESSAGE_SIGNAL,
    event::{EffectId, EffectReply, FrameId, Request},
    outcome::Question,
};
use opcell_types::denial::Remedy;
use opcell_workflow::{
    ir::{Form, Judge, Orchestration, Step},
    names::Outcome,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A call that was refused something which may still be granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub reply: EffectReply,
    pub why: Option<Arc<str>>,
}

/// What was granted while the run lasted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub remedy: Remedy,
    /// The only effect that has it; absent: every one.
    pub effect: Option<EffectId>,
}

impl State {
    /// What the run waits for.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let doubts = self.effects.iter().filter(|(_, effect)| effect.in_doubt).map(|(id, effect)| {
            let (effect_id, step) = (*id, self.frame_step_name(effect.frame));
            match effect.asked.as_ref().and_then(|asked| Some((asked, asked.reply.denial()?))) {
                Some((asked, denial)) => Question::Grant {
                    effect: effect_id,
                    step,
                    what: self.describe_request(effect),
                    denial: Box::new(denial.clone()),
                    why: asked.why.clone(),
                },
                None => Question::Doubt { effect: effect_id, step, what: self.describe_request(effect) },
            }
        });
        let waits = self.frames.iter().flat_map(|(id, frame)| self.waits(*id, frame));
        doubts.chain(waits).collect()
    }

    /// Effects in doubt, oldest first.
    pub fn doubts(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.iter().filter(|(_, effect)| effect.in_doubt && effect.asked.is_none()).map(|(id, _)| *id)
    }

    /// Effects that were refused something which may still be granted, oldest first.
    pub fn asking(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.iter().filter(|(_, effect)| effect.asked.is_some()).map(|(id, _)| *id)
    }

    /// The operation or judge that an effect calls.
    #[must_use]
    pub fn called(&self, effect: EffectId) -> Option<&Arc<str>> {
        let pending = self.effects.get(&effect)?;
        match (&pending.request, self.step_of(pending.frame)?.1) {
            (Request::Invoke { .. }, Step { form: Form::Invoke { invoke }, .. })
            | (Request::Judge { .. }, Step { judge: Some(Judge::Invoke { invoke }), .. }) => Some(&invoke.operation),
            _ => None,
        }
    }

    /// What an effect has been granted while the run lasted.
    pub(crate) fn granted_to(&self, effect: EffectId) -> Vec<Remedy> {
        let of = self.granted.iter().filter(|granted| granted.effect.is_none_or(|only| only == effect));
        of.map(|granted| granted.remedy.clone()).collect()
    }

    /// The signals that a frame waits for.
    fn waits(&self, id: FrameId, frame: &Frame) -> Vec<Question> {
        let Some((_, step)) = self.step_of(id).filter(|_| frame.is_waiting()) else { return Vec::new() };
        let signal = |name: &Arc<str>, question: Option<String>, approval: bool| Question::Signal {
            name: name.clone(),
            step: step.name.clone(),
            question,
            approval,
        };
        let events = || {
            step.on.iter().filter_map(|route| match &route.outcome {
                Outcome::Text(event) => Some(signal(event, None, false)),
                Outcome::Keyword(_) => None,
            })
        };
        match frame.work().map(|work| &work.stage) {
            Some(Stage::Talking(talk)) => {
                let said = talk.record.turns.last().map(|turn| turn.text.as_ref().to_owned());
                let takes_events = crate::dialogue::of(step).is_some_and(|(who, _)| who != Orchestration::Internal);
                let events: Vec<_> = events().filter(|_| takes_events).collect();
                std::iter::once(signal(&MESSAGE_SIGNAL.into(), said, false)).chain(events).collect()
            }
            Some(Stage::Waiting { question, .. }) => match &step.form {
                Form::Wait { wait } => {
                    vec![signal(&wait.signal, question.as_deref().map(str::to_owned), wait.approval)]
                }
                _ => Vec::new(),
            },
            // The step is done, and its judge waits for an event.
            _ => events().collect(),
        }
    }

    fn describe_request(&self, effect: &Pending) -> String {
        let form = self.step_of(effect.frame).map(|(_, step)| &step.form);
        match (&effect.request, form) {
            (Request::Invoke { .. }, Some(Form::Invoke { invoke })) => format!("operation {}", invoke.operation),
            (Request::Judge { .. }, _) => "the judge's operation".to_owned(),
            (Request::Tool { call }, _) => match self.conversation(effect.frame).and_then(|talk| talk.call(call)) {
                Some(request) => format!("tool {}", request.name),
                None => "a tool call".to_owned(),
            },
            _ => "an effect".to_owned(),
        }
    }
}
