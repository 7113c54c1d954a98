//! Input that tools ask people for in the middle of their calls.

use super::{Pending, State, questions::digest};
use crate::{
    event::{EffectId, EffectReply, Timestamp},
    outcome::Question,
    structured,
};
use opcell_types::{GivenInput, InputAnswer, InputForm, InputRequest};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The number of times that a tool may ask in one call: people tire of a server that asks forever.
pub const MAX_ROUNDS: u32 = 8;

/// Forms of one request.
pub(crate) const MAX_FORMS: usize = 16;

/// Bytes of JSON of the values for one form: more than a person types, and what a journal keeps of each.
const MAX_VALUES_BYTES: u64 = 64 << 10;

/// A call that waits for input, or continues with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Inputs {
    /// The number of times that its tool has asked.
    pub rounds: u32,
    pub request: InputRequest,
    /// The answers to the first forms of the request, as many as there are.
    pub answers: Vec<InputAnswer>,
    /// When it was asked.
    pub at: Timestamp,
}

impl Inputs {
    /// The next form that has no answer.
    pub(super) fn open(&self) -> Option<&InputForm> {
        self.request.forms.get(self.answers.len())
    }

    /// Returns `true` if the call continues as a task of its server: it is polled for, which may be repeated.
    pub(super) fn is_task(&self) -> bool {
        self.request.task.is_some() && self.open().is_none()
    }

    /// The answers with which the call continues.
    pub(super) fn given(&self) -> Option<Arc<GivenInput>> {
        if self.open().is_some() {
            return None;
        }
        let keys = self.request.forms.iter().map(|form| form.key.clone());
        let answers = keys.zip(self.answers.iter().cloned()).collect();
        Some(Arc::new(GivenInput { state: self.request.state.clone(), answers, task: self.request.task.clone() }))
    }
}

impl Pending {
    /// Returns `true` if a person decides whether the effect is repeated.
    pub(crate) fn is_doubted(&self) -> bool {
        self.in_doubt && self.asked.is_none() && self.open_inputs().next().is_none() && !self.is_asking()
    }

    /// The questions to a person: for the call itself, and for those of its cell, with their places.
    pub(super) fn open_inputs(&self) -> impl Iterator<Item = (Option<u32>, &Inputs)> {
        let own = self.input.as_deref().filter(|inputs| inputs.open().is_some()).map(|inputs| (None, inputs));
        let inner = self.inner.iter().flat_map(|inner| inner.open_inputs());
        own.into_iter().chain(inner.map(|(place, inputs)| (Some(place), inputs)))
    }

    /// The input that the call's tool asked for, or that of a call in progress of its cell; `None` if there is no such
    /// call.
    pub(super) fn input_of(&mut self, place: Option<u32>) -> Option<&mut Option<Box<Inputs>>> {
        match place {
            None => Some(&mut self.input),
            Some(place) => self.inner.as_mut()?.input_of(place),
        }
    }

    /// Returns `true` if the call continues as a task of its server.
    pub(crate) fn is_task(&self) -> bool {
        self.input.as_ref().is_some_and(|inputs| inputs.is_task())
    }

    /// The answers with which the call continues.
    pub(crate) fn given_input(&self) -> Option<Arc<GivenInput>> {
        self.input.as_ref()?.given()
    }
}

impl EffectReply {
    /// The input that a call needs before it can continue.
    #[must_use]
    pub fn input(&self) -> Option<&InputRequest> {
        let failure = match self {
            Self::Invoke(reply) => reply.result.as_ref().err(),
            Self::Tool(reply) => reply.result.as_ref().err(),
            Self::Judge(_) | Self::Open(_) | Self::Round(_) | Self::Slept | Self::Found => None,
        };
        failure?.input.as_deref()
    }

    /// The same as a failure for good, where the tool has asked too often.
    #[must_use]
    pub fn without_input(mut self) -> Self {
        let failure = match &mut self {
            Self::Invoke(reply) => reply.result.as_mut().err(),
            Self::Tool(reply) => reply.result.as_mut().err(),
            Self::Judge(_) | Self::Open(_) | Self::Round(_) | Self::Slept | Self::Found => None,
        };
        if let Some(failure) = failure
            && let Some(request) = failure.input.take()
        {
            failure.message = format!(
                "tool `{}` of MCP server `{}` asked for input {MAX_ROUNDS} times in one call, and asks again",
                request.tool, request.server
            );
        }
        self
    }
}

impl State {
    /// Returns `true` if the tool of an effect may ask for input, and has not done so too often.
    #[must_use]
    pub fn may_ask_for_input(&self, effect: EffectId) -> bool {
        let asked = self.effects.get(&effect).and_then(|pending| pending.input.as_ref());
        asked.is_none_or(|inputs| inputs.rounds < MAX_ROUNDS)
    }

    /// The questions about the next forms of an effect, with the places of the calls of its cell that ask.
    pub(super) fn input_questions<'a>(
        &'a self,
        id: EffectId,
        effect: &'a Pending,
    ) -> impl Iterator<Item = (Option<u32>, Question)> + 'a {
        effect.open_inputs().filter_map(move |(at, inputs)| Some((at, self.input_question((id, at), effect, inputs)?)))
    }

    fn input_question(&self, at: (EffectId, Option<u32>), effect: &Pending, inputs: &Inputs) -> Option<Question> {
        let form = inputs.open()?;
        let (id, call) = at;
        let InputRequest { server, tool, .. } = &inputs.request;
        let (schema, path) = (form.schema.to_json(), self.path_of(effect.frame));
        let call = call.map_or_else(String::new, |place| format!("/{}", u64::from(place) + 1));
        let place = [format!("{id}{call}"), inputs.rounds.to_string(), inputs.answers.len().to_string()];
        let [effect_id, round, position] = &place;
        let (visit, _) = self.visit_of(effect.frame);
        Some(Question::Input {
            effect: id,
            id: digest(&[
                "input",
                &self.run,
                effect_id,
                round,
                position,
                &path,
                server,
                tool,
                &form.key,
                &form.message,
                &schema,
            ]),
            step: self.frame_step_name(effect.frame),
            path: path.into(),
            visit,
            server: server.clone(),
            tool: tool.clone(),
            message: form.message.clone(),
            schema: form.schema.clone(),
            round: inputs.rounds,
        })
    }

    /// The effect whose tool asks a question, while it has no answer.
    #[must_use]
    pub fn asks_for_input(&self, question: &str) -> Option<EffectId> {
        self.asked_input(question).map(|(effect, _)| effect)
    }

    /// The call that asks a question, while it has no answer: an effect's, or one of the effect's cell.
    pub(super) fn asked_input(&self, question: &str) -> Option<(EffectId, Option<u32>)> {
        let is_asked = |asked: &Question| asked.id().is_some_and(|id| **id == *question);
        self.effects.iter().filter(|(_, effect)| effect.in_doubt).find_map(|(id, effect)| {
            let asked = self.input_questions(*id, effect).find(|(_, asked)| is_asked(asked));
            asked.map(|(place, _)| (*id, place))
        })
    }

    /// The answer to a question of a tool as the tool gets it: completed by the defaults of the form.
    ///
    /// # Errors
    /// In words for whoever answers, where the values do not fit the form.
    pub fn checked_input(&self, question: &str, answer: &InputAnswer) -> Result<InputAnswer, String> {
        let unknown = || "the run does not ask this (any more)".to_owned();
        let (effect, place) = self.asked_input(question).ok_or_else(unknown)?;
        let open = self.effects.get(&effect).and_then(|effect| effect.open_inputs().find(|(at, _)| *at == place));
        let form = open.and_then(|(_, inputs)| inputs.open()).ok_or_else(unknown)?;
        let InputAnswer::Accept(values) = answer else { return Ok(answer.clone()) };
        if values.as_object().is_none() {
            return Err("the values must be one JSON object".to_owned());
        }
        if values.measure().bytes() > MAX_VALUES_BYTES {
            return Err(format!("the values have more than {MAX_VALUES_BYTES} bytes"));
        }
        let completed = form.completed(values);
        self.value_limits.check(&completed).map_err(|failure| failure.message)?;
        structured::check(&form.schema, &completed)
            .map_err(|problem| format!("the values do not match the form: {problem}"))?;
        Ok(InputAnswer::Accept(completed))
    }
}
