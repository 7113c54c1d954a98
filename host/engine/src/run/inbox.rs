//! The messages to a run that is driven: signals, answers, grants, and requests to cancel.

use super::{Batch, Driver};
use crate::error::RunError;
use opcell_core::{
    event::{Event, Signal},
    id::EffectId,
    message::Message,
};

impl Driver {
    pub(super) fn receive(&mut self, batch: &mut Batch, message: Message) -> Result<(), RunError> {
        match message {
            Message::Signal { key: Some(key), .. } if self.state.has_signal_key(&key) => Ok(()),
            Message::Signal { question: Some(question), name, .. } if !self.state.asks(&question) => {
                tracing::info!(run = %self.run, signal = %name, "an answer came to a question that is not asked any more");
                Ok(())
            }
            Message::Signal { name, data, by, key, question, may_approve } => {
                if let Err(failure) = self.state.value_limits().check(&data) {
                    tracing::warn!(run = %self.run, signal = %name, problem = failure.message, "a signal is not accepted");
                    return Ok(());
                }
                let id = self.state.next_signal();
                // An answer of an earlier version does not say it, and was sent by someone who may approve.
                let may_approve = Some(may_approve || question.is_some());
                self.record(batch, Event::SignalReceived(Signal { id, name, data, by, key, question, may_approve }))
            }
            Message::Cancel { reason, by } if !self.state.is_cancelled() => {
                self.cancel.cancel();
                self.record(batch, Event::CancelRequested { reason, by })
            }
            Message::Cancel { .. } => Ok(()),
            Message::Answer { effect, answer, by } => {
                let doubts: Vec<EffectId> =
                    self.state.doubts().filter(|doubt| effect.is_none_or(|effect| effect == *doubt)).collect();
                for effect in doubts {
                    self.resumed_effects.push(effect);
                    self.record(batch, Event::Answered { effect, answer, by: by.clone() })?;
                }
                Ok(())
            }
            Message::Call { question, answer, by, from } => {
                let Some(frame) = self.state.asked_call(&question) else {
                    tracing::info!(run = %self.run, %question, "an answer came to a question that is not asked any more");
                    return Ok(());
                };
                if let Err(problem) = self.state.check_call_answer(&question, &answer, by.as_deref()) {
                    tracing::warn!(run = %self.run, %question, problem, "an answer is not accepted");
                    return Ok(());
                }
                self.resumed_effects.extend(self.state.waiting_cells(frame));
                self.record(batch, Event::CallAnswered { frame, question, answer, by, from })
            }
            Message::Input { question, answer, by, from } => {
                let Some(effect) = self.state.asks_for_input(&question) else {
                    tracing::info!(run = %self.run, %question, "an answer came to a question that is not asked any more");
                    return Ok(());
                };
                let answer = match self.state.checked_input(&question, &answer) {
                    Ok(answer) => answer,
                    Err(problem) => {
                        tracing::warn!(run = %self.run, %question, problem, "an answer is not accepted");
                        return Ok(());
                    }
                };
                self.resumed_effects.push(effect);
                self.record(batch, Event::InputAnswered { effect, question, answer, by, from })
            }
            Message::Grant { effect, grant, by, question } => {
                let is_meant = |asking: &EffectId| {
                    effect.is_none_or(|effect| effect == *asking)
                        && question.as_deref().is_none_or(|question| self.state.asks_of(*asking, question))
                };
                let asking: Vec<EffectId> = self.state.asking().filter(is_meant).collect();
                for effect in asking {
                    self.resumed_effects.push(effect);
                    self.record(batch, Event::GrantAnswered { effect, grant, by: by.clone() })?;
                }
                Ok(())
            }
        }
    }

    pub(super) async fn read_inbox(&mut self, batch: &mut Batch) -> Result<(), RunError> {
        let messages = self.journal.inbox(&self.run).await?;
        for entry in messages {
            match serde_json::from_str(&entry.payload) {
                Ok(message) => self.receive(batch, message)?,
                Err(error) => {
                    tracing::warn!(run = %self.run, message = entry.id, %error, "an inbox message cannot be read")
                }
            }
            batch.inbox = Some(entry.id);
        }
        Ok(())
    }
}
