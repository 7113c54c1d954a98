//! The calls that the cells of effects make: recorded for them, and made durable before anything depends on them.

use super::{Batch, Driver};
use crate::{
    error::RunError,
    in_flight::InFlight,
    inner::{InnerEvents, InnerJournal, SuspendedCall, SuspendedFor, Unasked, seed},
};
use opcell_core::{
    effect::{Effect, Task},
    event::{Event, Request},
    id::EffectId,
    state::InnerQuestion,
};

impl Driver {
    /// Records, for each effect from `from` on whose cell can be run again, that the calls of the cell are journaled.
    /// The calls of an effect without this event are unknown.
    pub(super) fn journal_inner_calls(&mut self, batch: &mut Batch, from: EffectId) -> Result<(), RunError> {
        let resumable: Vec<EffectId> = self.state.wanted(from).filter(|effect| self.is_resumable(*effect)).collect();
        for effect in resumable {
            self.record(batch, Event::InnerStarted { effect, seed: seed() })?;
        }
        Ok(())
    }

    fn is_resumable(&self, effect: EffectId) -> bool {
        match self.state.request_of(effect) {
            // What a tenant grants may differ.
            Some(Request::Invoke { .. }) if self.state.tenant().is_none() => {
                self.state.called(effect).is_some_and(|operation| self.ports.operations.is_resumable(operation))
            }
            Some(Request::Tool { .. }) => self
                .state
                .tool_called(effect)
                .is_some_and(|(session, tool)| self.ports.sessions.is_resumable(session, tool)),
            _ => false,
        }
    }

    /// The journal of the calls that an effect's cell makes.
    pub(super) fn inner_journal(&self, effect: &Effect) -> Option<InnerJournal> {
        let known = self.state.inner_calls(effect.id)?;
        let key = match &effect.task {
            Task::Invoke(call) => &call.context.idempotency_key,
            Task::Tool(call) => &call.context.idempotency_key,
            _ => return None,
        };
        let limits = *self.state.value_limits();
        Some(InnerJournal::new(effect.id, key.clone(), known, limits, (self.inner.0.clone(), self.ports.timer.clone())))
    }

    /// Records what cells called and were answered, all that is there, and makes it durable; then they learn of it. A
    /// cell whose call waits for a person ends.
    pub(super) async fn record_inner(
        &mut self,
        in_flight: &mut InFlight,
        batch: &mut Batch,
        first: InnerEvents,
    ) -> Result<(), RunError> {
        let (mut next, mut durable) = (Some(first), Vec::new());
        while let Some(event) = next {
            match event {
                InnerEvents::Record { effect, events, durable: told } => {
                    // Nothing begins in a run that is being cancelled; what has happened is recorded.
                    let begins = !events.iter().any(|event| matches!(event, Event::InnerReplied { .. }));
                    if self.state.wants(effect) && !(begins && self.state.is_cancelled()) {
                        for event in events {
                            self.record(batch, event)?;
                        }
                        durable.push(told);
                    }
                }
                InnerEvents::Ask { effect, calls } => self.ask_about(in_flight, batch, effect, calls)?,
                InnerEvents::Sleep { effect, until } if self.state.wants(effect) && !self.state.is_cancelled() => {
                    in_flight.keep(|id| id != effect);
                    self.resumed_effects.push(effect);
                    self.record(batch, Event::InnerSlept { effect, until })?;
                }
                InnerEvents::Sleep { .. } => {}
            }
            next = self.inner.1.try_recv().ok();
        }
        self.flush(batch).await?;
        if !self.ownership.is_held() {
            return Err(self.lease_lost());
        }
        for told in durable {
            // The cell may have ended.
            let _ = told.send(());
        }
        Ok(())
    }

    /// Asks people about calls of a cell that can do nothing before they have answers. If one of the calls needs no
    /// answer, it continues first, and the cell with it.
    fn ask_about(
        &mut self,
        in_flight: &mut InFlight,
        batch: &mut Batch,
        effect: EffectId,
        calls: Vec<SuspendedCall>,
    ) -> Result<(), RunError> {
        if !self.state.wants(effect) || self.state.is_cancelled() {
            return Ok(());
        }
        let question = |waits: &SuspendedFor| match waits {
            SuspendedFor::Approval(call) => self.state.question_about(call.clone()),
            SuspendedFor::Input(asks) => InnerQuestion::Asks(asks.clone()),
        };
        let questions: Vec<InnerQuestion> = calls.iter().map(|suspended| question(&suspended.waits)).collect();
        if questions.iter().all(|question| matches!(question, InnerQuestion::Asks(_))) {
            in_flight.keep(|id| id != effect);
            for suspended in calls {
                match suspended.waits {
                    // The turn may have asked its last question: the cell learns of it when it is run again.
                    SuspendedFor::Approval(call) => {
                        if let InnerQuestion::Asks(event) = self.state.question_about(call) {
                            self.record(batch, event)?;
                        }
                    }
                    SuspendedFor::Input(asks) => self.record(batch, asks)?,
                }
            }
            return Ok(());
        }
        for (suspended, question) in calls.into_iter().zip(questions) {
            // The cell may have ended.
            let _ = suspended.told.send(match question {
                InnerQuestion::Approved => Unasked::Approved,
                InnerQuestion::Refused(failure) => Unasked::Refused(failure),
                InnerQuestion::Asks(_) => Unasked::Later,
            });
        }
        Ok(())
    }
}
