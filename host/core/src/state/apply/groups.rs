//! Elements and groups of steps.

use super::{Change, missing};
use crate::event::{FrameId, Settled};
use crate::state::{Body, Each, Element, Frame, Groups, Line, LineAt, Pause, Phase, State, Work};
use opcell_ir::ir::Form;
use opcell_types::Value;

impl State {
    pub(super) fn start_each(&mut self, id: FrameId, items: &Value) -> Change {
        let Value::Array(items) = items else { return missing("an array of elements") };
        let concurrency =
            self.step_of(id).and_then(|(_, step)| step.each.as_ref()).and_then(|each| each.concurrency).unwrap_or(1);
        let each = Each {
            items: items.clone(),
            results: vec![None; items.len()],
            next: 0,
            running: 0,
            concurrency: concurrency.max(1),
            failure: None,
            pause: Pause::Over,
        };
        self.step_mut(id)?.phase = Phase::Each(each);
        self.refresh(id);
        Ok(())
    }

    /// Returns `true` if there is a pause between a step's elements.
    pub(super) fn is_delayed(&self, frame: FrameId) -> bool {
        self.step_of(frame).is_some_and(|(_, step)| step.each.as_ref().is_some_and(|each| each.delay_ms.is_some()))
    }

    pub(super) fn enter_element(&mut self, id: FrameId, parent: FrameId, index: u32) -> Change {
        let now = self.now;
        let delayed = self.is_delayed(parent);
        let instance = self.frame_mut(parent)?.instance;
        let Phase::Each(each) = &mut self.step_mut(parent)?.phase else {
            return missing(format!("elements of frame {parent}"));
        };
        let Some(item) = each.items.get(index as usize).cloned() else { return missing(format!("element {index}")) };
        each.next = index + 1;
        each.running += 1;
        each.pause = if delayed && (each.next as usize) < each.items.len() { Pause::Due } else { Pause::Over };
        self.refresh(parent);
        let body = Body::Element(Box::new(Element { index, item, work: Work::new(now) }));
        self.add(id, Frame { parent: Some(parent), instance, body });
        Ok(())
    }

    pub(super) fn finish_element(&mut self, id: FrameId, result: &Settled) -> Change {
        let frame = self.remove(id)?;
        let (Some(parent), Body::Element(element)) = (frame.parent, frame.body) else {
            return missing(format!("element {id}"));
        };
        let Phase::Each(each) = &mut self.step_mut(parent)?.phase else {
            return missing(format!("elements of frame {parent}"));
        };
        each.running = each.running.saturating_sub(1);
        let output = match result {
            Settled::Ok(value) => value.clone(),
            Settled::Failed(failure) => {
                each.failure = Some(failure.clone());
                Value::Null
            }
        };
        if let Some(slot) = each.results.get_mut(element.index as usize) {
            *slot = Some(output);
        }
        self.refresh(parent);
        Ok(())
    }

    pub(super) fn enter_group(&mut self, id: FrameId, parent: FrameId, group: u32) -> Change {
        let Some((_, step)) = self.step_of(parent) else { return missing(format!("frame {parent}")) };
        let (wanted, concurrency) = match &step.form {
            Form::Parallel { parallel } => {
                let branches = u32::try_from(parallel.branches.len()).unwrap_or(u32::MAX);
                ((0..branches).collect(), parallel.concurrency.unwrap_or(branches).max(1))
            }
            _ => (vec![group], 1),
        };
        let instance = self.frame_mut(parent)?.instance;
        let entry = self.step_mut(parent)?;
        if !matches!(entry.phase, Phase::Groups(_)) {
            let results = vec![None; wanted.len()];
            entry.phase = Phase::Groups(Groups { wanted, results, next: 0, running: 0, concurrency, halted: None });
        }
        if let Phase::Groups(groups) = &mut entry.phase {
            groups.next += 1;
            groups.running += 1;
        }
        self.refresh(parent);
        let body = Body::Line(Line { group: Some(group), at: LineAt::Before(0) });
        self.add(id, Frame { parent: Some(parent), instance, body });
        Ok(())
    }

    pub(super) fn finish_group(&mut self, id: FrameId, result: &Settled, halted: bool) -> Change {
        let frame = self.remove(id)?;
        let (Some(parent), Body::Line(Line { group: Some(group), .. })) = (frame.parent, frame.body) else {
            return missing(format!("group {id}"));
        };
        let Phase::Groups(groups) = &mut self.step_mut(parent)?.phase else {
            return missing(format!("groups of frame {parent}"));
        };
        let at = groups.wanted.iter().position(|wanted| *wanted == group).unwrap_or(0);
        groups.running = groups.running.saturating_sub(1);
        if let Some(slot) = groups.results.get_mut(at) {
            *slot = Some(result.clone());
        }
        if halted && groups.halted.is_none() {
            groups.halted = u32::try_from(at).ok();
        }
        let orphans: Vec<FrameId> =
            self.frames.iter().filter(|(_, frame)| frame.parent == Some(id)).map(|(id, _)| *id).collect();
        for orphan in orphans {
            self.drop_tree(orphan);
        }
        self.refresh(parent);
        Ok(())
    }
}
