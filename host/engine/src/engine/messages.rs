//! The messages that others send to a run: signals, and answers to its questions.

use super::Engine;
use crate::error::RunError;
use opcell_core::{
    State,
    decide::ValueLimits,
    event::{CallAnswer, Event},
    id::Timestamp,
    message::{Message, approves},
    outcome::Question,
};
use opcell_journal::RunId;
use opcell_types::{InputAnswer, Value};
use std::sync::Arc;

/// The delivery of a signal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Delivery {
    /// This step waits for it now.
    Now(Arc<str>),
    /// A step that is not there yet; the signal is kept until then.
    Queued,
}

/// The sender of a signal; by default one without a name, who may not approve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sender {
    /// Name to record.
    pub by: Option<Arc<str>>,
    /// The key of the signal: a run takes the first of several with one key.
    pub key: Option<Arc<str>>,
    /// `true` if approvals take what the sender sends.
    pub may_approve: bool,
}

/// The data of an approval with its sender, as the host knows them, whatever the data says.
fn signed(data: Value, by: Option<&str>) -> Value {
    match (data, by) {
        (Value::Object(mut data), Some(by)) => {
            data.insert("by", Value::from(by));
            Value::Object(data)
        }
        (data, _) => data,
    }
}

impl Engine {
    /// Sends a message to a run, whichever process drives it; a run without a driver receives it when it is resumed.
    ///
    /// # Errors
    /// When the journal does not have the run, or a signal says more than any run accepts.
    pub async fn send(&self, run: &RunId, message: &Message) -> Result<(), RunError> {
        if let Message::Signal { name, data, .. } = message {
            accepts(&self.values, &format!("signal `{name}`"), data)?;
        }
        let payload = serde_json::to_string(message).unwrap_or_default();
        Ok(self.journal.post(run, self.ports.timer.now().0, payload.into()).await?)
    }

    /// The answer that an approval has already and that its step has not taken yet.
    async fn earlier_answer(
        &self,
        run: &RunId,
        state: &State,
        name: &Arc<str>,
        question: Option<&str>,
    ) -> Result<Option<RunError>, RunError> {
        // An answer to another question of this name is none to this one.
        let is_meant = |answered: &Option<Arc<str>>| {
            answered.as_deref().zip(question).is_none_or(|(answered, question)| answered == question)
        };
        let answered = |data: &Value, by: Option<Arc<str>>, at| RunError::AlreadyAnswered {
            run: run.clone(),
            signal: name.clone(),
            approved: approves(data),
            by,
            at,
        };
        if state.has_answer(name) {
            let history = self.shown_history(run, None).await?;
            let last = history.iter().rev().find_map(|recorded| match &recorded.event {
                Event::SignalReceived(signal) if signal.name == *name && signal.may_approve() => {
                    Some((signal, recorded.at))
                }
                _ => None,
            });
            let last = last.filter(|(signal, _)| is_meant(&signal.question));
            if let Some((signal, at)) = last {
                return Ok(Some(answered(&signal.data, signal.by.clone(), at)));
            }
        }
        let unread = self.journal.inbox(run).await?;
        Ok(unread.iter().find_map(|message| match serde_json::from_str(&message.payload) {
            Ok(Message::Signal { name: sent, data, by, question, may_approve, .. })
                if sent == *name && is_meant(&question) && (may_approve || question.is_some()) =>
            {
                Some(answered(&data, by, Timestamp(message.at)))
            }
            _ => None,
        }))
    }

    /// Sends a run a signal of a sender who may approve, whichever process drives it, after checking that a step of the
    /// run could ever take it: one that waits now, or one that comes to wait later. What others send is for
    /// [`Engine::signal_from`].
    ///
    /// # Errors
    /// As [`Engine::send`], when the run has ended, when no step waits for such a signal, or when it answers an
    /// approval that has an answer already.
    pub async fn signal(
        &self,
        run: &RunId,
        name: &Arc<str>,
        data: Value,
        by: Option<Arc<str>>,
    ) -> Result<Delivery, RunError> {
        // Without a key there is no earlier one.
        let sender = Sender { by, key: None, may_approve: true };
        Ok(self.signal_from(run, name, data, sender).await?.unwrap_or(Delivery::Queued))
    }

    /// As [`Engine::signal`], at most once per key: `None` when the run has received a signal with this key. Of two
    /// that are sent at the same time, the run takes the first. A run remembers its newest 1,024 keys.
    ///
    /// The sender's right to approve is kept with the signal: an approval, also one of a workflow that is chosen only
    /// later, takes no signal of a sender without it.
    ///
    /// # Errors
    /// As [`Engine::signal`], and when the signal is an approval and the sender may not approve.
    pub async fn signal_from(
        &self,
        run: &RunId,
        name: &Arc<str>,
        data: Value,
        sender: Sender,
    ) -> Result<Option<Delivery>, RunError> {
        let Sender { by, key, may_approve } = sender;
        let state = self.shown_state(run, None).await?;
        if key.as_deref().is_some_and(|key| state.has_signal_key(key)) {
            return Ok(None);
        }
        if state.status().has_ended() {
            return Err(RunError::Ended { run: run.clone(), status: state.status() });
        }
        let signals = state.signals();
        if !may_approve && signals.approvals.contains(name) {
            return Err(RunError::MayNotApprove { run: run.clone(), signal: name.clone() });
        }
        if !signals.open && !signals.names.contains(name) {
            let known = signals.names.iter().map(|name| format!("`{name}`")).collect();
            return Err(RunError::UnknownSignal { run: run.clone(), signal: name.clone(), known });
        }
        let asks_approval = state.questions().iter().any(
            |question| matches!(question, Question::Signal { name: wanted, approval: true, .. } if wanted == name),
        );
        if asks_approval
            && may_approve
            && let Some(earlier) = self.earlier_answer(run, &state, name, None).await?
        {
            return Err(earlier);
        }
        let message = Message::Signal { name: name.clone(), data, by, key, question: None, may_approve };
        self.send(run, &message).await?;
        let waits = state.questions().into_iter().find_map(|question| match question {
            Question::Signal { name: wanted, step, approval, .. } if wanted == *name && (may_approve || !approval) => {
                Some(step)
            }
            _ => None,
        });
        Ok(Some(waits.map_or(Delivery::Queued, Delivery::Now)))
    }

    /// Answers an approval of a run by the ID of its question, and no other: of two answers that are sent at the same
    /// time, the run takes the first, and the second approves nothing that is asked next. The workflow reads the sender
    /// as `by` of the data.
    ///
    /// # Errors
    /// As [`Engine::send`], when the run has ended, does not ask this (any more), or has an answer already.
    pub async fn answer(
        &self,
        run: &RunId,
        question: &str,
        data: Value,
        by: Option<Arc<str>>,
    ) -> Result<Delivery, RunError> {
        let state = self.state_at(run, None).await?;
        if state.status().has_ended() {
            return Err(RunError::Ended { run: run.clone(), status: state.status() });
        }
        let asked = state.questions().into_iter().find_map(|asked| match asked {
            Question::Signal { id, name, step, approval: true, .. } if *id == *question => Some((id, name, step)),
            _ => None,
        });
        let Some((id, name, step)) = asked else { return Err(RunError::NotAsked { run: run.clone() }) };
        if let Some(earlier) = self.earlier_answer(run, &state, &name, Some(question)).await? {
            return Err(earlier);
        }
        let key = Some(format!("answer:{id}").into());
        let data = signed(data, by.as_deref());
        self.send(run, &Message::Signal { name, data, by, key, question: Some(id), may_approve: true }).await?;
        Ok(Delivery::Now(step))
    }

    /// Answers a question about a call of a run's model by its ID, and no other: of two answers the run takes the
    /// first.
    ///
    /// # Errors
    /// As [`Engine::send`], when the run has ended, does not ask this (any more), has an answer already, or the answer
    /// cannot be taken.
    pub async fn answer_call(
        &self,
        run: &RunId,
        question: &str,
        answer: CallAnswer,
        by: Option<Arc<str>>,
        from: Option<Arc<str>>,
    ) -> Result<(), RunError> {
        let state = self.state_at(run, None).await?;
        if state.status().has_ended() {
            return Err(RunError::Ended { run: run.clone(), status: state.status() });
        }
        // No process may drive the run, so that nothing has ended the question yet.
        if state.asked_call(question).is_none() || state.call_is_overdue(question, self.ports.timer.now()) {
            return Err(RunError::NotAsked { run: run.clone() });
        }
        for message in self.journal.inbox(run).await? {
            let Ok(Message::Call { question: sent, answer, by: earlier, .. }) = serde_json::from_str(&message.payload)
            else {
                continue;
            };
            // Others may have to approve it as well.
            let is_of_same = state.people_for(question) < 2 || by.as_deref() == earlier.as_deref();
            if *sent == *question && (is_of_same || !matches!(answer, CallAnswer::Approve { .. })) {
                let approved = matches!(answer, CallAnswer::Approve { .. });
                let at = Timestamp(message.at);
                return Err(RunError::AlreadyAnswered { run: run.clone(), signal: sent, approved, by: earlier, at });
            }
        }
        let checked = state.check_call_answer(question, &answer, by.as_deref());
        checked.map_err(|problem| RunError::AnswerNotTaken { run: run.clone(), problem })?;
        self.send(run, &Message::Call { question: question.into(), answer, by, from }).await
    }

    /// Answers a form of a tool's request for input by the ID of its question, and no other: of two answers the run
    /// takes the first. Values that are left out are the form's defaults.
    ///
    /// # Errors
    /// As [`Engine::send`], when the run has ended, does not ask this (any more), has an answer already, or the values
    /// do not fit the form.
    pub async fn answer_input(
        &self,
        run: &RunId,
        question: &str,
        answer: &InputAnswer,
        by: Option<Arc<str>>,
        from: Option<Arc<str>>,
    ) -> Result<(), RunError> {
        let state = self.state_at(run, None).await?;
        if state.status().has_ended() {
            return Err(RunError::Ended { run: run.clone(), status: state.status() });
        }
        if state.asks_for_input(question).is_none() {
            return Err(RunError::NotAsked { run: run.clone() });
        }
        for message in self.journal.inbox(run).await? {
            if let Ok(Message::Input { question: signal, answer, by, .. }) = serde_json::from_str(&message.payload)
                && *signal == *question
            {
                let approved = matches!(answer, InputAnswer::Accept(_));
                let at = Timestamp(message.at);
                return Err(RunError::AlreadyAnswered { run: run.clone(), signal, approved, by, at });
            }
        }
        let checked = state.checked_input(question, answer);
        let answer = checked.map_err(|problem| RunError::AnswerNotTaken { run: run.clone(), problem })?;
        self.send(run, &Message::Input { question: question.into(), answer, by, from }).await
    }
}

pub(super) fn accepts(limits: &ValueLimits, what: &str, value: &Value) -> Result<(), RunError> {
    limits.check(value).map_err(|failure| RunError::TooMuch { what: what.to_owned(), problem: failure.message })
}
