//! Calls that ended at once: what entering, requesting, replying and finishing do one after the other, without the
//! frame and the effect in between.

use super::{Change, missing};
use crate::event::{Called, FrameId};
use crate::receipt::Receipt;
use crate::state::{Accepted, Body, Frame, LineAt, Pause, Phase, Raw, State};
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
        let Some(Frame { instance: id, body: Body::Line(line), .. }) = self.frames.get_mut(&parent) else {
            return missing(format!("frame {parent} as a line"));
        };
        let id = *id;
        let Some(instance) = self.instances.get_mut(&id) else { return missing(format!("instance {id}")) };
        let LineAt::Before(at) = line.at else { return missing(format!("a place to enter in frame {parent}")) };
        let is_main = line.group.is_none();
        // The line was ready, and is.
        line.at = LineAt::Before(if is_main { instance.program.after(at) } else { at + 1 });
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
        instance.remember(step, accepted)?;
        let visits = u64::from(self.counts_visits(id));
        self.call_ended(frame, parent, visits, call);
        Ok(())
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
        self.call_ended(frame, parent, 0, call);
        self.refresh(parent);
        Ok(())
    }

    /// Counts what a call used, and the frame and the effect that it would have been.
    fn call_ended(&mut self, frame: FrameId, parent: FrameId, visits: u64, call: &Called) {
        self.next_frame = self.next_frame.max(frame.0 + 1);
        self.next_effect = self.next_effect.max(call.effect.0 + 1);
        self.charge(parent, |used| {
            used.visits += visits;
            used.tool_calls += 1;
        });
        if call.receipt.is_some() {
            self.count_cell(parent, call.receipt.as_ref());
        }
    }
}
