//! Calls that ended at once: one event for what four say of a call that takes longer.

use super::{EffectReply, Event, Recorded, Request, Settled, StepResult};
use crate::{
    call::{Reply, Success},
    id::{EffectId, Timestamp},
    receipt::Receipt,
    wire,
};
use opcell_types::Value;
use serde::{Deserialize, Serialize};

/// A call of an operation that ended, well, at once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Called {
    /// ID of the effect.
    pub effect: EffectId,
    /// An object.
    #[serde(with = "wire")]
    pub arguments: Value,
    /// The result of the operation.
    pub success: Success,
    /// The receipt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Receipt>,
    /// The outputs of a step, computed from the result; the output of an element, where that is not the result.
    #[serde(with = "wire", default = "wire::undefined", skip_serializing_if = "wire::is_undefined")]
    pub output: Value,
    /// Microseconds from the entry to the end.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub took: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's skip_serializing_if passes the field by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Called {
    fn request(&self) -> Request {
        Request::Invoke { arguments: self.arguments.clone() }
    }

    fn reply(&self) -> EffectReply {
        EffectReply::Invoke(Reply { result: Ok(self.success.clone()), receipt: self.receipt.clone() })
    }

    /// The output of the element that made this call.
    pub(crate) fn element_output(&self) -> &Value {
        match &self.output {
            Value::Undefined => &self.success.data,
            output => output,
        }
    }
}

/// Returns the events that the event of a direct call stands for, in order; `None` for any other event.
pub(super) fn parts(recorded: &Recorded) -> Option<[Recorded; 4]> {
    let (entered, frame, call, finished) = match &recorded.event {
        Event::StepCalled { frame, parent, step, name, visit, call } => {
            let entered =
                Event::StepEntered { frame: *frame, parent: *parent, step: *step, name: name.clone(), visit: *visit };
            let result = StepResult { mapped: call.output.clone(), ..StepResult::default() };
            (entered, *frame, call, Event::StepFinished { frame: *frame, result: Box::new(result) })
        }
        Event::ElementCalled { frame, parent, index, call } => {
            let entered = Event::ElementEntered { frame: *frame, parent: *parent, index: *index };
            let result = Settled::Ok(call.element_output().clone());
            (entered, *frame, call, Event::ElementFinished { frame: *frame, result })
        }
        _ => return None,
    };
    let took = i64::try_from(call.took).unwrap_or(i64::MAX);
    let began = Timestamp(recorded.at.0.saturating_sub(took));
    let requested = Event::Requested { effect: call.effect, frame, request: call.request() };
    let replied = Event::Replied { effect: call.effect, reply: Box::new(call.reply()) };
    let part = |at, event| Recorded::new(recorded.seq, at, event);
    Some([part(began, entered), part(began, requested), part(recorded.at, replied), part(recorded.at, finished)])
}
