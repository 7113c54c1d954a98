//! Traces whose values are cut: parts that values share are written wherever they are.

use super::{ConversationTrace, JudgeTrace, StepTrace, Trace, What};
use crate::large::{ELIDED, LARGE};
use opcell_types::Value;

/// Bytes of JSON that large values may still take.
struct Room(u64);

impl Trace {
    /// The trace with `…` for large values that would take more than a number of bytes of JSON together, the first ones
    /// first.
    #[must_use]
    pub fn within(mut self, max_bytes: u64) -> Self {
        let mut room = Room(max_bytes);
        room.fit(&mut self.input);
        room.fit(&mut self.end.result);
        room.fit_some(&mut self.end.details);
        room.fit(&mut self.artifacts);
        for step in &mut self.steps {
            room.fit_step(step);
        }
        for sent in &mut self.messages {
            if let What::Signal { data, .. } = &mut sent.what {
                room.fit(data);
            }
        }
        self
    }
}

impl Room {
    fn fit(&mut self, value: &mut Value) {
        let bytes = value.measure().bytes();
        if bytes < LARGE {
            return;
        }
        match self.0.checked_sub(bytes) {
            Some(left) => self.0 = left,
            None => *value = Value::from(ELIDED),
        }
    }

    fn fit_some(&mut self, value: &mut Option<Value>) {
        if let Some(value) = value {
            self.fit(value);
        }
    }

    fn fit_step(&mut self, step: &mut StepTrace) {
        self.fit_some(&mut step.arguments);
        self.fit_some(&mut step.context);
        self.fit_some(&mut step.result);
        self.fit_some(&mut step.artifacts);
        for call in &mut step.inner_calls {
            self.fit(&mut call.arguments);
            self.fit_some(&mut call.result);
        }
        if let Some(talk) = &mut step.conversation {
            self.fit_conversation(talk);
        }
        if let Some(JudgeTrace { arguments, conversation, .. }) = &mut step.judge {
            self.fit_some(arguments);
            if let Some(talk) = conversation {
                self.fit_conversation(talk);
            }
        }
    }

    fn fit_conversation(&mut self, talk: &mut ConversationTrace) {
        self.fit(&mut talk.sections);
        for call in talk.messages.iter_mut().flat_map(|message| &mut message.tool_calls) {
            self.fit(&mut call.arguments);
        }
    }
}
