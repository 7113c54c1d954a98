//! Answers to what a suspended run asks, by the ID of a question or by its name.

use crate::{
    engine::{Delivery, Engine},
    error::RunError,
};
use opcell_core::{
    event::{CallAnswer, GrantScope},
    message::Message,
    outcome::Question,
};
use opcell_journal::RunId;
use opcell_types::{InputAnswer, Value};
use std::sync::Arc;

/// The decision of a person on an approval, on a call that was refused something, or on a call that a model asks for.
///
/// ```
/// use opcell_engine::Decision;
///
/// let decision = Decision::approve().by("ann").why("the budget allows it");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a decision does nothing until it is sent"]
pub struct Decision {
    approved: bool,
    why: Option<String>,
    by: Option<Arc<str>>,
    scope: GrantScope,
}

impl Decision {
    /// Yes. A call that was refused something gets it once, unless [`Decision::for_the_run`] says more.
    pub fn approve() -> Self {
        Self { approved: true, why: None, by: None, scope: GrantScope::Once }
    }

    /// No.
    pub fn refuse() -> Self {
        Self { approved: false, ..Self::approve() }
    }

    /// The reason, for the step that asked and for the record.
    pub fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into());
        self
    }

    /// The person who decides, for the record.
    pub fn by(mut self, by: impl Into<Arc<str>>) -> Self {
        self.by = Some(by.into());
        self
    }

    /// Grants what a call was refused to every later call of the plugin in this run as well; of a model's call, approves
    /// every one that is the same.
    pub fn for_the_run(mut self) -> Self {
        self.scope = GrantScope::Run;
        self
    }

    fn of_call(&self) -> CallAnswer {
        match self.approved {
            true => CallAnswer::Approve { arguments: Value::Undefined, run: self.scope == GrantScope::Run },
            false => CallAnswer::Refuse { reason: self.why.as_deref().map(Into::into) },
        }
    }

    /// A form without values of its own: those that it has by default, or a refusal to give any.
    fn of_input(&self) -> InputAnswer {
        if self.approved { InputAnswer::Accept(Value::object::<&str>([])) } else { InputAnswer::Decline }
    }

    fn data(&self) -> Value {
        let approved = ("approved", Value::Bool(self.approved));
        let why = self.why.as_deref().map(|why| ("why", Value::from(why)));
        Value::object(std::iter::once(approved).chain(why))
    }
}

impl Engine {
    /// Answers an open question of a run, whichever process drives it: an approval by its ID or its name; a call that was
    /// refused something, or that a model asks for, by the ID of its question. A run without a driver takes the answer when it is resumed.
    ///
    /// # Errors
    /// When the journal does not have the run, when the run has ended, asks nothing of this ID or name (any more), asks
    /// several questions of this name, or has an answer already; as [`Engine::answer_call`] for a call of a model, and
    /// as [`Engine::answer_input`] for a form of a tool, which is approved with the values that it has by default.
    pub async fn decide(&self, run: &RunId, question: &str, decision: &Decision) -> Result<Delivery, RunError> {
        let state = self.state_at(run, None).await?;
        if state.status().has_ended() {
            return Err(RunError::Ended { run: run.clone(), status: state.status() });
        }
        let open = state.questions();
        let by_id = open.iter().filter(|open| open.id().is_some_and(|id| **id == *question)).collect::<Vec<_>>();
        let named =
            |open: &&Question| matches!(open, Question::Signal { name, approval: true, .. } if **name == *question);
        let meant = if by_id.is_empty() { open.iter().filter(named).collect() } else { by_id };
        match meant.as_slice() {
            [] => Err(RunError::NotAsked { run: run.clone() }),
            [Question::Signal { id, approval: true, .. }] => {
                self.answer(run, id, decision.data(), decision.by.clone()).await
            }
            [Question::Grant { effect, id, step, .. }] => {
                let grant = decision.approved.then_some(decision.scope);
                let (effect, question, by) = (Some(*effect), Some(id.clone()), decision.by.clone());
                self.send(run, &Message::Grant { effect, grant, question, by }).await?;
                Ok(Delivery::Now(step.clone()))
            }
            [Question::Call { id, step, .. }] => {
                self.answer_call(run, id, decision.of_call(), decision.by.clone(), None).await?;
                Ok(Delivery::Now(step.clone()))
            }
            [Question::Input { id, step, .. }] => {
                self.answer_input(run, id, &decision.of_input(), decision.by.clone(), None).await?;
                Ok(Delivery::Now(step.clone()))
            }
            [_] => Err(RunError::NotAsked { run: run.clone() }),
            several => Err(RunError::SeveralQuestions {
                run: run.clone(),
                name: question.into(),
                ids: several.iter().filter_map(|open| open.id().cloned()).collect(),
            }),
        }
    }
}
