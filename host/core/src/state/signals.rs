//! The signals that a run can take.

use super::State;
use crate::dialogue::MESSAGE_SIGNAL;
use opcell_workflow::{
    ir::{DelegateTarget, Form, Judge},
    names::Outcome,
};
use std::{collections::BTreeSet, sync::Arc};

/// The signals that a run's steps take.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Signals {
    /// By name.
    pub names: BTreeSet<Arc<str>>,
    /// Whether a workflow that is only known later may take others.
    pub open: bool,
}

impl State {
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
                Form::Wait { wait } => drop(signals.names.insert(wait.signal.clone())),
                Form::Delegate { delegate } => {
                    signals.open |= matches!(delegate.target, DelegateTarget::Dynamic(_));
                }
                _ => {}
            }
        }
        signals
    }
}
