//! The questions of a run to people: signals that it waits for, effects in doubt, and grants.

use super::{Body, Frame, Pending, Stage, State};
use crate::{
    dialogue::MESSAGE_SIGNAL,
    event::{EffectId, EffectReply, FrameId, Request, Signal},
    outcome::Question,
};
use opcell_ir::{
    ir::{Form, Judge, Orchestration, Step},
    names::Outcome,
};
use opcell_types::denial::Remedy;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Bytes of a digest that name a question.
const ID_BYTES: usize = 8;

/// The name of a question: a digest of where it is asked, and of what.
pub(super) fn digest(parts: &[&str]) -> Arc<str> {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    digest.as_bytes().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The key of an answered approval among those of a run.
pub(crate) fn answered_approval(name: &str) -> Arc<str> {
    format!("approval {name}").into()
}

/// The key of an answered grant among those of a run.
pub(crate) fn answered_grant(capability: &str) -> Arc<str> {
    format!("grant {capability}").into()
}

/// A call that was refused something which may still be granted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Asked {
    pub reply: EffectReply,
    pub why: Option<Arc<str>>,
}

/// A grant that was given while the run lasted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Granted {
    pub remedy: Remedy,
    /// The only effect that has it; absent: every one.
    pub effect: Option<EffectId>,
}

impl State {
    /// Returns the questions that the run waits for.
    #[must_use]
    pub fn questions(&self) -> Vec<Question> {
        let inputs = self.effects.iter().filter(|(_, effect)| effect.in_doubt);
        let inputs = inputs.flat_map(|(id, effect)| self.input_questions(*id, effect)).map(|(_, question)| question);
        let asks = |effect: &Pending| effect.in_doubt && !effect.is_asking() && effect.open_inputs().next().is_none();
        let doubts = self.effects.iter().filter(|(_, effect)| asks(effect)).map(|(id, effect)| {
            let (effect_id, step) = (*id, self.frame_step_name(effect.frame));
            match effect.asked.as_ref().and_then(|asked| Some((asked, asked.reply.denial()?))) {
                Some((asked, denial)) => Question::Grant {
                    effect: effect_id,
                    step,
                    what: self.describe_request(effect),
                    denial: Box::new(denial.clone()),
                    why: asked.why.clone(),
                    id: {
                        let remedy = serde_json::to_string(&denial.remedy).unwrap_or_default();
                        digest(&["grant", &effect_id.to_string(), &denial.capability, &denial.rule, &remedy])
                    },
                    again: self.answered.contains(&answered_grant(&denial.capability)),
                },
                None => Question::Doubt { effect: effect_id, step, what: self.describe_request(effect) },
            }
        });
        let waits = self.frames.iter().flat_map(|(id, frame)| self.waits(*id, frame));
        inputs.chain(doubts).chain(waits).chain(self.call_questions()).collect()
    }

    /// Effects in doubt, oldest first.
    pub fn doubts(&self) -> impl Iterator<Item = EffectId> + '_ {
        self.effects.iter().filter(|(_, effect)| effect.is_doubted()).map(|(id, _)| *id)
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

    /// Returns the remedies that an effect has been granted while the run lasted.
    pub(crate) fn granted_to(&self, effect: EffectId) -> Vec<Remedy> {
        let of = self.granted.iter().filter(|granted| granted.effect.is_none_or(|only| only == effect));
        of.map(|granted| granted.remedy.clone()).collect()
    }

    /// Returns `true` if anything of this kind, `approval` or `grant`, was answered before.
    #[must_use]
    pub fn has_answered(&self, kind: &str) -> bool {
        self.answered.iter().any(|key| key.strip_prefix(kind).is_some_and(|rest| rest.starts_with(' ')))
    }

    /// Returns `true` if the run asks this now.
    #[must_use]
    pub fn asks(&self, question: &str) -> bool {
        self.questions().iter().any(|asked| asked.id().is_some_and(|id| **id == *question))
    }

    /// Returns `true` if an effect asks this now.
    #[must_use]
    pub fn asks_of(&self, wanted: EffectId, question: &str) -> bool {
        self.questions()
            .iter()
            .any(|asked| matches!(asked, Question::Grant { effect, id, .. } if *effect == wanted && **id == *question))
    }

    /// Returns `true` if a signal answers what a frame waits for: it is for nothing in particular, or for this
    /// question.
    pub(crate) fn is_for(&self, signal: &Signal, frame: FrameId) -> bool {
        signal.question.as_ref().is_none_or(|question| self.question_of(frame).is_some_and(|id| id == *question))
    }

    /// The ID of the question that a waiting step asks.
    fn question_of(&self, frame: FrameId) -> Option<Arc<str>> {
        let waits = self.frames.get(&frame).map(|waiting| self.waits(frame, waiting))?;
        waits.first().and_then(Question::id).cloned()
    }

    /// The step of a frame after those that it belongs to, outermost first.
    pub(super) fn path_of(&self, frame: FrameId) -> String {
        let mut parts: Vec<String> = Vec::new();
        let mut index = String::new();
        let mut at = Some(frame);
        while let Some(frame) = at.and_then(|at| self.frames.get(&at)) {
            match &frame.body {
                Body::Step(step) => {
                    parts.push(format!("{}{}", self.step_name(frame.instance, step.step), std::mem::take(&mut index)));
                }
                Body::Element(element) => index = format!("[{}]{index}", element.index),
                Body::Line(_) => {}
            }
            at = frame.parent.or_else(|| self.instances.get(&frame.instance)?.parent);
        }
        parts.reverse();
        parts.join("/")
    }

    /// The number of times that the step of a frame has been entered, and how often it has been tried since.
    pub(super) fn visit_of(&self, frame: FrameId) -> (u32, u32) {
        let attempt = self.frames.get(&frame).and_then(Frame::work).map_or(0, |work| work.attempt);
        let of = |frame: &Frame| match &frame.body {
            Body::Step(step) => Some(step.visit),
            _ => self.step_frame_of(frame).map(|step| step.visit),
        };
        (self.frames.get(&frame).and_then(of).unwrap_or(1), attempt)
    }

    /// The signals that a frame waits for.
    fn waits(&self, at: FrameId, frame: &Frame) -> Vec<Question> {
        let Some((_, step)) = self.step_of(at).filter(|_| frame.is_waiting()) else { return Vec::new() };
        let path = self.path_of(at);
        let (visit, attempt) = self.visit_of(at);
        let signal = |name: &Arc<str>, question: Option<String>, approval: bool| Question::Signal {
            name: name.clone(),
            step: step.name.clone(),
            id: {
                let (at, visit, attempt) = (at.to_string(), visit.to_string(), attempt.to_string());
                let kind = if approval { "approval" } else { "signal" };
                digest(&[kind, &at, &visit, &attempt, &path, name, question.as_deref().unwrap_or_default()])
            },
            path: path.as_str().into(),
            visit,
            again: approval && self.answered.contains(&answered_approval(name)),
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
        let inner = effect.inner.as_ref().and_then(|inner| inner.describe_open());
        let whole = match (&effect.request, form) {
            (Request::Invoke { .. }, Some(Form::Invoke { invoke })) => format!("operation {}", invoke.operation),
            (Request::Judge { .. }, _) => "the judge's operation".to_owned(),
            (Request::Tool { call, .. }, _) => match self.conversation(effect.frame).and_then(|talk| talk.call(call)) {
                Some(request) => format!("tool {}", request.name),
                None => "a tool call".to_owned(),
            },
            _ => "an effect".to_owned(),
        };
        inner.unwrap_or_default() + &whole
    }
}
