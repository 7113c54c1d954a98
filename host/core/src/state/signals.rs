//! The signals that a run can take.

use super::{Frame, State};
use crate::{
    dialogue::MESSAGE_SIGNAL,
    event::{Event, Signal},
};
use opcell_ir::{
    ir::{DelegateTarget, Form, Judge},
    names::Outcome,
};
use std::{collections::BTreeSet, sync::Arc};

/// Keys of signals that a run remembers, the newest ones.
const KEYS: usize = 1024;

/// The signals that a run's steps take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// By name.
    pub names: BTreeSet<Arc<str>>,
    /// Those among them that a step takes as an approval, from senders who may approve.
    pub approvals: BTreeSet<Arc<str>>,
    /// `true` if a workflow that is only known later may take others.
    pub open: bool,
}

impl State {
    /// Returns `true` if a signal has arrived that an approval of this name can take, and no step has taken it yet.
    #[must_use]
    pub fn has_answer(&self, name: &str) -> bool {
        let is_awaited = |signal: &Signal| signal.question.as_ref().is_none_or(|question| self.asks(question));
        self.signals.iter().any(|signal| *signal.name == *name && signal.may_approve() && is_awaited(signal))
    }

    /// Returns `true` if the event is that an approval took a signal of which the journal does not say whether its
    /// sender may approve: so did earlier versions, which decided that when the signal was sent.
    #[must_use]
    pub fn approved_as_before(&self, event: &Event) -> bool {
        let Event::SignalTaken { frame, signal } = event else { return false };
        let Some((_, step)) = self.step_of(*frame) else { return false };
        let Form::Wait { wait } = &step.form else { return false };
        let is_waiting = self.frames.get(frame).is_some_and(Frame::is_waiting);
        let oldest = self.signals.iter().find(|queued| queued.name == wait.signal && self.is_for(queued, *frame));
        let is_of_before = |queued: &Signal| queued.id == *signal && queued.may_approve.is_none();
        wait.approval && is_waiting && oldest.is_some_and(is_of_before)
    }

    /// Returns `true` if a signal with this key has come.
    #[must_use]
    pub fn has_signal_key(&self, key: &str) -> bool {
        self.signal_keys.iter().any(|known| **known == *key)
    }

    pub(super) fn remember_key(&mut self, signal: &Signal) {
        let Some(key) = &signal.key else { return };
        if self.signal_keys.len() >= KEYS {
            self.signal_keys.pop_front();
        }
        self.signal_keys.push_back(key.clone());
    }

    /// The signals that any step of the run's workflows takes.
    #[must_use]
    pub fn signals(&self) -> Signals {
        let mut signals = Signals::default();
        let definitions = self.definitions.values().flatten();
        for step in self.program().into_iter().chain(definitions).flat_map(|program| &program.ir().steps) {
            let speaks = crate::dialogue::of(step).is_some();
            if speaks {
                signals.names.insert(MESSAGE_SIGNAL.into());
            }
            if speaks || matches!(step.judge, Some(Judge::Event { .. })) {
                let events = step.on.iter().filter_map(|route| match &route.outcome {
                    Outcome::Text(name) => Some(name.clone()),
                    Outcome::Keyword(_) => None,
                });
                signals.names.extend(events);
            }
            match &step.form {
                Form::Wait { wait } => {
                    signals.names.insert(wait.signal.clone());
                    if wait.approval {
                        signals.approvals.insert(wait.signal.clone());
                    }
                }
                Form::Delegate { delegate } => {
                    signals.open |= matches!(delegate.target, DelegateTarget::Dynamic(_));
                }
                _ => {}
            }
        }
        signals
    }
}
