//! Questions about calls of models, and their answers.

use super::{Change, missing};
use crate::event::{AskedCall, CallAnswer, FrameId};
use crate::state::{Ask, AskAnswer, Conversation, MAX_QUESTIONS, MAX_QUESTIONS_AT_ONCE, State};
use std::sync::Arc;

impl State {
    pub(super) fn ask_about_calls(&mut self, frame: FrameId, calls: &[AskedCall]) -> Change {
        let now = self.now;
        let talk = self.conversation_mut(frame)?;
        // A journal from elsewhere may name as many as it has bytes, and each is compared with the others.
        let all = u64::from(talk.questions).saturating_add(calls.len() as u64);
        if calls.len() > MAX_QUESTIONS_AT_ONCE || all > u64::from(MAX_QUESTIONS) {
            return missing(format!("{} questions at once, and {all} in a turn", calls.len()));
        }
        for call in calls {
            talk.asks.retain(|ask| ask.of.call != call.call || ask.of.inner.is_some() != call.inner.is_some());
            talk.questions += 1;
            talk.asks.push(Ask {
                of: call.clone(),
                due: call.within_ms.map(|ms| now.plus_ms(ms as f64)),
                at: now,
                approved_by: Vec::new(),
                answer: None,
            });
        }
        for inner in calls.iter().filter_map(|call| call.inner.as_deref()) {
            self.ask_about_inner_call(frame, inner)?;
        }
        let talk = self.conversation_mut(frame)?;
        let due = talk.asks.iter().filter(|ask| ask.answer.is_none()).filter_map(|ask| ask.due).min();
        self.answers_due = self.answers_due.into_iter().chain(due).min();
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn answer_call(
        &mut self,
        frame: FrameId,
        question: &str,
        answer: &CallAnswer,
        by: Option<&Arc<str>>,
    ) -> Change {
        let talk = self.conversation_mut(frame)?;
        let open = |ask: &&mut Ask| *ask.of.id == *question && ask.answer.is_none();
        let Some(ask) = talk.asks.iter_mut().find(open) else { return missing(format!("question {question}")) };
        let at = ask.at;
        match answer {
            CallAnswer::Approve { arguments, run } => {
                ask.approved_by.extend(by.cloned());
                let approved = u32::try_from(ask.approved_by.len()).unwrap_or(u32::MAX).max(1);
                if approved >= ask.of.people {
                    ask.answer = Some(AskAnswer::Approved(arguments.clone()));
                }
                let is_remembered = *run && arguments.is_nullish() && ask.answer.is_some();
                let asked = ask.clone();
                let request = asked.request(talk).filter(|_| is_remembered);
                if let Some(what) = request.map(|request| talk.what_is_run(&request)) {
                    self.approved.insert(what);
                }
            }
            CallAnswer::Refuse { reason } => {
                ask.answer = Some(AskAnswer::Refused { by: by.cloned(), reason: reason.clone() });
            }
        }
        self.has_waited(frame, at)?;
        self.settle_inner_calls(frame)?;
        self.see_when_answers_are_due();
        Ok(())
    }

    pub(super) fn expire_calls(&mut self, frame: FrameId) -> Change {
        let now = self.now;
        let talk = self.conversation_mut(frame)?;
        let mut asked = now;
        for ask in talk.asks.iter_mut().filter(|ask| ask.is_overdue(now)) {
            ask.answer = Some(AskAnswer::Expired);
            asked = asked.min(ask.at);
        }
        self.has_waited(frame, asked)?;
        self.settle_inner_calls(frame)?;
        self.see_when_answers_are_due();
        Ok(())
    }

    /// The time in which a person thinks is not the step's.
    fn has_waited(&mut self, frame: FrameId, since: crate::event::Timestamp) -> Change {
        let is_over = self.conversation(frame).is_some_and(Conversation::is_ready);
        let waited = self.now.ms_since(since);
        if is_over && let Some(work) = self.frame_mut(frame)?.work_mut() {
            work.since = work.since.plus_ms(waited);
        }
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn see_when_answers_are_due(&mut self) {
        if self.answers_due.is_none() {
            return;
        }
        let dues = self.frames.keys().filter_map(|id| self.conversation(*id)).flat_map(|talk| &talk.asks);
        self.answers_due = dues.filter(|ask| ask.answer.is_none()).filter_map(|ask| ask.due).min();
    }
}
