//! Calls that ended at once: what entering, requesting, replying and finishing do one after the other, without the frame
//! and the effect in between.

use super::{Change, missing};
use crate::event::{Called, FrameId};
use crate::receipt::Receipt;
use crate::state::{Accepted, LineAt, Pause, Phase, Raw, State};
use opcell_types::Value;

impl State {
    pub(super) fn step_called(
        &mut self,
        frame: FrameId,
        parent: FrameId,
        step: u32,
        visit: u32,
        call: &Called,
    ) -> Change {
        let line = self.line_mut(parent)?;
        let LineAt::Before(at) = line.at else { return missing(format!("a place to enter in frame {parent}")) };
        let is_main = line.group.is_none();
        let id = self.frame_mut(parent)?.instance;
        if self.counts_visits(id) {
            self.charge(parent, |used| used.visits += 1);
        }
        self.call_ended(frame, parent, call);
        let instance = self.instance_mut(id)?;
        if is_main {
            instance.last = Some(step);
        }
        let Some(slot) = instance.memory.get_mut(step as usize) else { return missing(format!("step {step}")) };
        (slot.visits, slot.passed_by) = (visit, false);
        let accepted = Accepted {
            raw: Raw::Invoke(call.success.clone()),
            mapped: (!matches!(call.output, Value::Undefined)).then(|| call.output.clone()),
            receipt: call.receipt.as_ref().map(Receipt::without_record),
        };
        self.remember(id, step, accepted)?;
        self.move_on(parent, at)
    }

    pub(super) fn element_called(&mut self, frame: FrameId, parent: FrameId, index: u32, call: &Called) -> Change {
        let is_delayed = self.is_delayed(parent);
        let Phase::Each(each) = &mut self.step_mut(parent)?.phase else {
            return missing(format!("elements of frame {parent}"));
        };
        let Some(slot) = each.results.get_mut(index as usize) else { return missing(format!("element {index}")) };
        *slot = Some(call.element_output().clone());
        each.next = index + 1;
        each.pause = if is_delayed && (each.next as usize) < each.items.len() { Pause::Due } else { Pause::Over };
        self.call_ended(frame, parent, call);
        self.refresh(parent);
        Ok(())
    }

    /// Counts what a call used, and the frame and the effect that it would have been.
    fn call_ended(&mut self, frame: FrameId, parent: FrameId, call: &Called) {
        self.next_frame = self.next_frame.max(frame.0 + 1);
        self.next_effect = self.next_effect.max(call.effect.0 + 1);
        self.charge(parent, |used| used.tool_calls += 1);
        self.count_cell(parent, call.receipt.as_ref());
    }
}
