//! Entering, skipping, finishing and leaving steps.

use super::{Change, missing};
use crate::dialogue;
use crate::event::{Destination, FrameId, InstanceId, Settled, StepResult};
use crate::state::{
    Accepted, Body, ConversationStore, Frame, Instance, Judging, LineAt, Phase, Raw, Stage, State, StepFrame, Work,
};
use opcell_ir::ir::{Form, Judge, Step};
use opcell_types::{
    Value,
    value::{Object, Shape},
};
use std::mem;
use std::sync::Arc;

thread_local! {
    /// The one key of what `$steps.NAME` gives. A thread's own: every step counts it, and processors that count the
    /// same wait for each other.
    static OUTPUT: Shape = Shape::new(["output"]);
}

impl Instance {
    /// Keeps what a step came to, and shows it to expressions.
    pub(super) fn remember(&mut self, step: u32, accepted: Accepted) -> Change {
        let Some(definition) = self.program.step(step) else { return missing(format!("step {step}")) };
        let output = accepted.expression_output(definition, self.program.lifecycle());
        let entry = Value::Object(Object::of_slots(OUTPUT.with(Shape::clone), [output]));
        if let Value::Object(outputs) = &mut self.outputs {
            // Each step has its place, unless two have one name.
            match outputs.shape().key(step as usize) {
                Some(name) if name.as_str() == definition.name.as_ref() => outputs.set_at(step as usize, entry),
                _ => outputs.insert(&definition.name, entry),
            }
        }
        if let Some(slot) = self.memory.get_mut(step as usize) {
            slot.accepted = Some(accepted);
        }
        Ok(())
    }
}

impl State {
    pub(super) fn enter_step(&mut self, id: FrameId, parent: FrameId, step: u32, visit: u32) -> Change {
        let line = self.line_mut(parent)?;
        let LineAt::Before(at) = line.at else { return missing(format!("a place to enter in frame {parent}")) };
        line.at = LineAt::In(at);
        let is_main = line.group.is_none();
        self.refresh(parent);
        let instance = self.frame_mut(parent)?.instance;
        let counts = self.counts_visits(instance);
        let memory = self.instance_mut(instance)?;
        let yields = memory
            .program
            .step(step)
            .is_none_or(|step| !matches!(&step.form, Form::Branch { branch } if branch.in_place));
        if is_main && yields {
            memory.last = Some(step);
        }
        match memory.memory.get_mut(step as usize) {
            Some(slot) => {
                slot.visits = visit;
                slot.passed_by = false;
            }
            None => return missing(format!("step {step}")),
        }
        if counts {
            self.charge(parent, |used| used.visits += 1);
        }
        let since = self.now;
        let body = Body::Step(Box::new(StepFrame { step, visit, at, since, phase: Phase::Entered }));
        self.add(id, Frame { parent: Some(parent), instance, body });
        Ok(())
    }

    pub(super) fn skip_step(&mut self, parent: FrameId, step: u32) -> Change {
        let id = self.frame_mut(parent)?.instance;
        let line = self.line_mut(parent)?;
        let LineAt::Before(at) = line.at else { return missing(format!("a place to skip in frame {parent}")) };
        let is_main = line.group.is_none();
        let passes_by = self.instance(id).is_some_and(|instance| instance.passes_by(step));
        self.remember(id, step, Accepted::nothing())?;
        let instance = self.instance_mut(id)?;
        if passes_by {
            // A step that is passed by leaves nothing: no output, and no result of the workflow.
            let name = instance.program.step(step).map(|step| step.name.clone());
            if let (Value::Object(outputs), Some(name)) = (&mut instance.outputs, name) {
                outputs.insert(&name, Value::Undefined);
            }
        } else if is_main {
            instance.last = Some(step);
        }
        if let Some(slot) = instance.memory.get_mut(step as usize) {
            slot.passed_by = passes_by;
        }
        self.move_on(parent, at)
    }

    pub(super) fn choose(&mut self, frame: FrameId, group: u32) -> Change {
        let Some((instance, Step { form: Form::Branch { branch }, .. })) = self.step_of(frame) else {
            return missing(format!("the branch of frame {frame}"));
        };
        let (chosen, other) =
            if group == 0 { (&branch.then, &branch.otherwise) } else { (&branch.otherwise, &branch.then) };
        let places =
            |names: &[Arc<str>]| names.iter().filter_map(|name| instance.program.index(name)).collect::<Vec<_>>();
        let (chosen, other) = (places(chosen), places(other));
        let id = self.frame_mut(frame)?.instance;
        let instance = self.instance_mut(id)?;
        for (steps, excluded) in [(other, true), (chosen, false)] {
            for step in steps {
                if let Some(slot) = instance.memory.get_mut(step as usize) {
                    slot.excluded = excluded;
                }
            }
        }
        Ok(())
    }

    /// Moves a line past the step at `at`.
    pub(super) fn move_on(&mut self, line: FrameId, at: u32) -> Change {
        let instance = self.frame_mut(line)?.instance;
        let next_main = self.instance(instance).map_or(u32::MAX, |instance| instance.program.after(at));
        let line_mut = self.line_mut(line)?;
        line_mut.at = LineAt::Before(if line_mut.group.is_some() { at + 1 } else { next_main });
        self.refresh(line);
        Ok(())
    }

    pub(super) fn remember(&mut self, instance: InstanceId, step: u32, accepted: Accepted) -> Change {
        self.instance_mut(instance)?.remember(step, accepted)
    }

    pub(super) fn finish_step(&mut self, id: FrameId, result: &StepResult) -> Change {
        let Some((_, step)) = self.step_of(id) else { return missing(format!("frame {id}")) };
        let speaks = dialogue::of(step).is_some();
        let by_event = matches!(step.judge, Some(Judge::Event { .. }));
        let has_groups = matches!(step.form, Form::Parallel { .. } | Form::Branch { .. });
        let (is_exit, has_judge, ends) = (matches!(step.form, Form::Exit { .. }), step.judge.is_some(), step.terminal);
        let (instance, parent) = {
            let frame = self.frame_mut(id)?;
            (frame.instance, frame.parent)
        };
        let Some(parent) = parent else { return missing(format!("the line of frame {id}")) };
        let entry = self.step_mut(id)?;
        let (index, at) = (entry.step, entry.at);
        let produced = mem::replace(&mut entry.phase, Phase::Judging(Judging::Start));
        let halted = match &produced {
            Phase::Groups(groups) => groups.halted.and_then(|at| groups.results.get(at as usize).cloned().flatten()),
            _ => None,
        };
        let kept = match &produced {
            Phase::Work(Work { stage: Stage::Talking(talk), .. }) if speaks => talk.kept.clone(),
            _ => ConversationStore::default(),
        };
        let accepted = accepted(produced, result);
        if result.failure.is_some() || has_groups {
            self.clear_under(id);
        }
        if let (true, Raw::Session(record)) = (speaks, &accepted.raw) {
            let (log, raised) = (record.messages.clone(), record.raised.clone());
            let memory = self.instance_mut(instance)?;
            memory.log = log;
            memory.kept = kept;
            memory.brief = raised.map_or_else(|| "".into(), |raised| raised.context);
        }
        if let (true, Raw::Delegate(end)) = (by_event, &accepted.raw) {
            // What a composition found is what the next state should know.
            let context = end.result.get("context").unwrap_or(&end.result);
            self.instance_mut(instance)?.brief = match context {
                Value::String(text) => text.into(),
                Value::Null | Value::Undefined => "".into(),
                other => other.to_json().into(),
            };
        }
        self.remember(instance, index, accepted)?;
        if let (true, None) = (is_exit, &result.failure) {
            self.instance_mut(instance)?.exited = Some(index);
        }
        let to = match (&result.failure, halted) {
            (Some(failure), _) if !result.ignored => {
                self.instance_mut(instance)?.failed = Some(index);
                LineAt::Failed(index, Box::new(failure.clone()))
            }
            (_, Some(Settled::Failed(failure))) => {
                LineAt::Failed(self.instance_mut(instance)?.failed.unwrap_or(index), Box::new(failure))
            }
            (_, Some(Settled::Ok(_))) => LineAt::Exited(index),
            (None, None) if is_exit => LineAt::Exited(index),
            _ if ends => LineAt::Done(index),
            _ if has_judge => {
                self.refresh(id);
                return Ok(());
            }
            _ => {
                let frame = self.remove(id)?;
                self.note_time(&frame);
                return self.move_on(parent, at);
            }
        };
        let frame = self.remove(id)?;
        self.note_time(&frame);
        self.line_mut(parent)?.at = to;
        self.refresh(parent);
        Ok(())
    }

    pub(super) fn route(&mut self, id: FrameId, to: &Destination, bounded: bool) -> Change {
        let frame = self.remove(id)?;
        self.note_time(&frame);
        let (Some(parent), Body::Step(step)) = (frame.parent, frame.body) else { return missing(format!("step {id}")) };
        if !bounded {
            self.unbounded_transitions += 1;
        }
        let line = self.line_mut(parent)?;
        line.at = match to {
            Destination::Done => LineAt::Done(step.step),
            Destination::Step(_) if line.group.is_some() => LineAt::Before(step.at + 1),
            Destination::Step(target) => LineAt::Before(*target),
        };
        self.refresh(parent);
        Ok(())
    }

    /// Takes away all that a step opened and wanted.
    fn clear_under(&mut self, step: FrameId) {
        let children: Vec<FrameId> =
            self.frames.iter().filter(|(_, frame)| frame.parent == Some(step)).map(|(id, _)| *id).collect();
        for child in children {
            self.drop_tree(child);
        }
        self.effects.retain(|_, effect| effect.frame != step);
        self.instances.retain(|_, instance| instance.parent != Some(step));
    }

    /// Takes away a frame, everything under it, and what they wanted.
    pub(super) fn drop_tree(&mut self, root: FrameId) {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            open.extend(self.frames.iter().filter(|(_, frame)| frame.parent == Some(id)).map(|(id, _)| *id));
            self.frames.remove(&id);
            self.ready.remove(id);
            self.effects.retain(|_, effect| effect.frame != id);
            self.instances.retain(|_, instance| instance.parent != Some(id));
        }
    }
}

fn accepted(produced: Phase, result: &StepResult) -> Accepted {
    let mapped = (!matches!(result.mapped, Value::Undefined)).then(|| result.mapped.clone());
    let (raw, receipt) = match produced {
        Phase::Work(work) => {
            let raw = match work.stage {
                Stage::Produced(raw) => raw,
                Stage::Talking(talk) => Raw::Session(Box::new(talk.record)),
                _ => Raw::Nothing,
            };
            (raw, work.receipt)
        }
        Phase::Each(each) => (Raw::Value(Value::array(each.results.into_iter().map(Option::unwrap_or_default))), None),
        Phase::Entered | Phase::Groups(_) | Phase::Judging(_) => (Raw::Nothing, None),
    };
    let raw = match (&result.value, &result.failure) {
        (Value::Undefined, None) => raw,
        (Value::Undefined, Some(_)) => Raw::Nothing,
        (value, _) => Raw::Value(value.clone()),
    };
    Accepted { raw, mapped, receipt }
}
