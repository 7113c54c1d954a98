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
const MAX_ROUNDS: u32 = 8;

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
    fn open(&self) -> Option<&InputForm> {
        self.request.forms.get(self.answers.len())
    }
}

impl Pending {
    /// Returns `true` if a person decides whether the effect is repeated.
    pub(crate) fn is_doubted(&self) -> bool {
        self.in_doubt && self.asked.is_none() && self.open_form().is_none() && !self.is_asking()
    }

    fn open_form(&self) -> Option<(&Inputs, &InputForm)> {
        let inputs = self.input.as_deref()?;
        Some((inputs, inputs.open()?))
    }

    /// Returns `true` if the call continues as a task of its server: it is polled for, which may be repeated.
    pub(crate) fn is_task(&self) -> bool {
        self.input.as_ref().is_some_and(|inputs| inputs.request.task.is_some() && inputs.open().is_none())
    }

    /// The answers with which the call continues.
    pub(crate) fn given_input(&self) -> Option<Arc<GivenInput>> {
        let inputs = self.input.as_ref().filter(|inputs| inputs.open().is_none())?;
        let keys = inputs.request.forms.iter().map(|form| form.key.clone());
        let answers = keys.zip(inputs.answers.iter().cloned()).collect();
        Some(Arc::new(GivenInput { state: inputs.request.state.clone(), answers, task: inputs.request.task.clone() }))
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

    /// The question about the next form of an effect.
    pub(super) fn input_question(&self, id: EffectId, effect: &Pending) -> Option<Question> {
        let (inputs, form) = effect.open_form()?;
        let InputRequest { server, tool, .. } = &inputs.request;
        let (schema, path) = (form.schema.to_json(), self.path_of(effect.frame));
        let place = [id.to_string(), inputs.rounds.to_string(), inputs.answers.len().to_string()];
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
        let asks = |(id, effect): (&EffectId, &Pending)| {
            let asked = self.input_question(*id, effect).filter(|_| effect.in_doubt);
            asked.is_some_and(|asked| asked.id().is_some_and(|id| **id == *question)).then_some(*id)
        };
        self.effects.iter().find_map(asks)
    }

    /// The answer to a question of a tool as the tool gets it: completed by the defaults of the form.
    ///
    /// # Errors
    /// In words for whoever answers, where the values do not fit the form.
    pub fn checked_input(&self, question: &str, answer: &InputAnswer) -> Result<InputAnswer, String> {
        let unknown = || "the run does not ask this (any more)".to_owned();
        let effect = self.asks_for_input(question).ok_or_else(unknown)?;
        let (_, form) = self.effects.get(&effect).and_then(Pending::open_form).ok_or_else(unknown)?;
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
