//! Answers to what a suspended run asks, by the ID of a question or by its name.

use crate::{
    engine::{Delivery, Engine},
    error::RunError,
};
use opcell_core::{
    event::{Answer, CallAnswer, EffectId, GrantScope},
    message::Message,
    outcome::Question,
};
use opcell_journal::RunId;
use opcell_types::{InputAnswer, Value};
use std::sync::Arc;

/// The decision of a person on an approval, on a call that was refused something, on a call that a model asks for, or on
/// a form of a tool.
///
/// ```
/// use opcell_engine::Decision;
/// use opcell_types::Value;
///
/// let decision = Decision::approve().by("ann").why("the budget allows it");
/// // A call of a model, with other arguments than the model's.
/// let changed = Decision::approve().by("ann").arguments(Value::object([("amount", Value::from(20))]));
/// ```
///
/// | part | approval | refused grant | call of a model | form |
/// | --- | --- | --- | --- | --- |
/// | [`why`](Decision::why) | yes | | if it is refused | |
/// | [`for_the_run`](Decision::for_the_run) | | if it is approved | if it is approved as it is | |
/// | [`arguments`](Decision::arguments) | | | if it is approved | |
/// | [`values`](Decision::values) | | | | if it is approved |
///
/// A part that the question does not take is an error, and nothing is answered.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a decision does nothing until it is sent"]
pub struct Decision {
    approved: bool,
    why: Option<String>,
    by: Option<Arc<str>>,
    scope: GrantScope,
    arguments: Option<Value>,
    values: Option<Value>,
}

/// The part of a decision that a question may not take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Why,
    ForTheRun,
    Arguments,
    Values,
}

impl Part {
    /// The part as the subject of a sentence.
    fn subject(self) -> &'static str {
        match self {
            Self::Why => "a reason",
            Self::ForTheRun => "a decision for the whole run",
            Self::Arguments => "arguments",
            Self::Values => "values",
        }
    }
}

impl Decision {
    /// Yes. A call that was refused something gets it once, unless [`Decision::for_the_run`] says more.
    pub fn approve() -> Self {
        Self { approved: true, why: None, by: None, scope: GrantScope::Once, arguments: None, values: None }
    }

    /// No.
    pub fn refuse() -> Self {
        Self { approved: false, ..Self::approve() }
    }

    /// The reason: of an approval, for the step that asked and for the record; of a call of a model that is refused, for
    /// the model.
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

    /// Sets the arguments with which a model's call is made, an object that matches the tool's schema. The record keeps
    /// the model's arguments as well, and the model learns which ones ran.
    pub fn arguments(mut self, arguments: impl Into<Value>) -> Self {
        self.arguments = Some(arguments.into());
        self
    }

    /// Sets the values of a form, an object by their names. Values that are left out are the form's defaults.
    pub fn values(mut self, values: impl Into<Value>) -> Self {
        self.values = Some(values.into());
        self
    }

    /// Checks that the question takes every part.
    ///
    /// # Errors
    /// With a sentence about the first part that it does not take.
    fn fits(&self, question: &str, takes: &[Part]) -> Result<(), String> {
        let parts = [
            (Part::Why, self.why.is_some()),
            (Part::ForTheRun, self.scope == GrantScope::Run),
            (Part::Arguments, self.arguments.is_some()),
            (Part::Values, self.values.is_some()),
        ];
        match parts.into_iter().find(|(part, given)| *given && !takes.contains(part)) {
            Some((part, _)) => {
                let answer = if self.approved { "approval" } else { "refusal" };
                Err(format!("{} cannot be part of the {answer} of {question}", part.subject()))
            }
            None => Ok(()),
        }
    }

    fn of_call(&self) -> Result<CallAnswer, String> {
        if self.approved {
            self.fits("a model's call", &[Part::ForTheRun, Part::Arguments])?;
            let arguments = match &self.arguments {
                // The run would call it with the model's arguments.
                Some(arguments) if arguments.is_nullish() => {
                    return Err("the arguments must be one JSON object".to_owned());
                }
                given => given.clone().unwrap_or(Value::Undefined),
            };
            Ok(CallAnswer::Approve { arguments, run: self.scope == GrantScope::Run })
        } else {
            self.fits("a model's call", &[Part::Why])?;
            Ok(CallAnswer::Refuse { reason: self.why.as_deref().map(Into::into) })
        }
    }

    fn of_input(&self) -> Result<InputAnswer, String> {
        if self.approved {
            self.fits("a form", &[Part::Values])?;
            Ok(InputAnswer::Accept(self.values.clone().unwrap_or_else(|| Value::object::<&str>([]))))
        } else {
            self.fits("a form", &[])?;
            Ok(InputAnswer::Decline)
        }
    }

    fn of_grant(&self) -> Result<Option<GrantScope>, String> {
        let takes: &[Part] = if self.approved { &[Part::ForTheRun] } else { &[] };
        self.fits("what a plugin was refused", takes)?;
        Ok(self.approved.then_some(self.scope))
    }

    fn of_approval(&self) -> Result<Value, String> {
        self.fits("an approval", &[Part::Why])?;
        let approved = ("approved", Value::Bool(self.approved));
        let why = self.why.as_deref().map(|why| ("why", Value::from(why)));
        Ok(Value::object(std::iter::once(approved).chain(why)))
    }
}

impl Engine {
    /// Answers an open question of a run, whichever process drives it: an approval by its ID or its name; a call that was
    /// refused something, a call that a model asks for, or a form of a tool by the ID of its question. A run without a
    /// driver takes the answer when it is resumed. For an effect in doubt see [`Engine::settle`].
    ///
    /// # Errors
    /// When the journal does not have the run, when the run has ended, asks nothing of this ID or name (any more), asks
    /// several questions of this name, or has an answer already; when the decision has a part that the question does
    /// not take, or arguments or values that do not match its schema.
    pub async fn decide(&self, run: &RunId, question: &str, decision: &Decision) -> Result<Delivery, RunError> {
        let unfit = |problem| RunError::AnswerNotTaken { run: run.clone(), problem };
        let open = self.open_questions(run).await?;
        let by_id = open.iter().filter(|open| open.id().is_some_and(|id| **id == *question)).collect::<Vec<_>>();
        let named =
            |open: &&Question| matches!(open, Question::Signal { name, approval: true, .. } if **name == *question);
        let meant = if by_id.is_empty() { open.iter().filter(named).collect() } else { by_id };
        match meant.as_slice() {
            [] => Err(RunError::NotAsked { run: run.clone() }),
            [Question::Signal { id, approval: true, .. }] => {
                let data = decision.of_approval().map_err(unfit)?;
                self.answer(run, id, data, decision.by.clone()).await
            }
            [Question::Grant { effect, id, step, .. }] => {
                let grant = decision.of_grant().map_err(unfit)?;
                let (effect, question, by) = (Some(*effect), Some(id.clone()), decision.by.clone());
                self.send(run, &Message::Grant { effect, grant, question, by }).await?;
                Ok(Delivery::Now(step.clone()))
            }
            [Question::Call { id, step, .. }] => {
                let answer = decision.of_call().map_err(unfit)?;
                self.answer_call(run, id, answer, decision.by.clone(), None).await?;
                Ok(Delivery::Now(step.clone()))
            }
            [Question::Input { id, step, .. }] => {
                let answer = decision.of_input().map_err(unfit)?;
                self.answer_input(run, id, &answer, decision.by.clone(), None).await?;
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

    /// Answers an effect in doubt ([`Question::Doubt`]), which may have happened before a crash: repeat it, treat it as
    /// done, or fail. A run without a driver takes the answer when it is resumed.
    ///
    /// # Errors
    /// When the journal does not have the run, the run has ended, or the effect is not in doubt (any more).
    pub async fn settle(
        &self,
        run: &RunId,
        effect: EffectId,
        answer: Answer,
        by: Option<Arc<str>>,
    ) -> Result<Delivery, RunError> {
        let open = self.open_questions(run).await?;
        let step = open.into_iter().find_map(|open| match open {
            Question::Doubt { effect: doubted, step, .. } if doubted == effect => Some(step),
            _ => None,
        });
        let step = step.ok_or_else(|| RunError::NotAsked { run: run.clone() })?;
        self.send(run, &Message::Answer { effect: Some(effect), answer, by }).await?;
        Ok(Delivery::Now(step))
    }

    async fn open_questions(&self, run: &RunId) -> Result<Vec<Question>, RunError> {
        let state = self.state_at(run, None).await?;
        match state.status() {
            status if status.has_ended() => Err(RunError::Ended { run: run.clone(), status }),
            _ => Ok(state.questions()),
        }
    }
}
