//! Delegated workflows.

use super::{Change, missing};
use crate::event::{FrameId, InstanceId};
use crate::failure::Failure;
use crate::outcome::{RunEnd, Status, Used};
use crate::state::memory::StepMemory;
use crate::state::{ConversationStore, Instance, Raw, Stage, State};
use opcell_ir::ir::{Form, References, Session};
use opcell_types::Value;
use opcell_types::value::Map;
use std::sync::Arc;

impl State {
    pub(super) fn start_instance(
        &mut self,
        id: InstanceId,
        line: FrameId,
        parent: FrameId,
        workflow: &Arc<str>,
        input: &Value,
        original: &Value,
    ) -> Change {
        let Some(Some(program)) = self.definitions.get(workflow).cloned() else {
            return missing(format!("workflow `{workflow}`"));
        };
        let Some((caller, step)) = self.step_of(parent) else { return missing(format!("frame {parent}")) };
        let inherited = match &step.form {
            Form::Delegate { delegate } => Session::inherited(caller.inherited.as_ref(), &delegate.session),
            _ => None,
        };
        let instance = Instance {
            parent: Some(parent),
            depth: caller.depth + 1,
            input: input.clone(),
            original: original.clone(),
            inputs: program.bind_inputs(input),
            outputs: program.no_outputs(),
            memory: vec![StepMemory::default(); program.ir().steps.len()],
            last: None,
            log: crate::conversation::Messages::new(),
            kept: ConversationStore::default(),
            brief: "".into(),
            exited: None,
            failed: None,
            since: self.now,
            used: Used::default(),
            inherited,
            program,
        };
        self.work_mut(parent)?.stage = Stage::Delegating(id);
        self.refresh(parent);
        self.open(id, line, instance);
        Ok(())
    }

    pub(super) fn finish_instance(&mut self, id: InstanceId, end: &RunEnd) -> Change {
        let Some(parent) = self.instances.get(&id).and_then(|instance| instance.parent) else {
            return missing(format!("instance {id}"));
        };
        let is_composition = self
            .instances
            .get(&id)
            .is_some_and(|instance| instance.program.ir().dialect.references == References::Paths);
        let Some(workflow) = self.instances.get(&id).map(|instance| instance.program.name().clone()) else {
            return missing(format!("instance {id}"));
        };
        self.close(id);
        self.work_mut(parent)?.stage = if end.status == Status::Completed {
            Stage::Produced(Raw::Delegate(Box::new(end.clone())))
        } else {
            Stage::Failed(delegate_failure(&workflow, is_composition, end))
        };
        self.refresh(parent);
        Ok(())
    }

    /// Takes away an instance, what it opened, and what they wanted.
    pub(super) fn close(&mut self, id: InstanceId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            self.instances.remove(&id);
            let gone: Vec<FrameId> =
                self.frames.iter().filter(|(_, frame)| frame.instance == id).map(|(id, _)| *id).collect();
            for frame in &gone {
                self.frames.remove(frame);
                self.ready.remove(*frame);
            }
            self.effects.retain(|_, effect| !gone.contains(&effect.frame));
            open.extend(
                self.instances
                    .iter()
                    .filter(|(_, inner)| inner.parent.is_some_and(|p| gone.contains(&p)))
                    .map(|(id, _)| *id),
            );
        }
    }
}

fn delegate_failure(workflow: &Arc<str>, is_composition: bool, end: &RunEnd) -> Failure {
    let verb = match end.status {
        Status::Cancelled => "cancelled",
        Status::Blocked => "blocked",
        _ => "failed",
    };
    let why = end.message.as_deref().or(end.reason.as_deref()).unwrap_or("no reason was given");
    let mut details: Map = [("target".into(), Value::from(workflow.clone()))].into_iter().collect();
    if let Some(reason) = &end.reason {
        details.insert("reason".into(), Value::from(reason.clone()));
    }
    if let Some(step) = &end.step {
        details.insert("step".into(), Value::from(step.clone()));
    }
    if let Some(inner) = &end.details {
        details.insert("details".into(), inner.clone());
    }
    if let Some(source) = end.source {
        details.insert("source".into(), Value::from(source.as_str()));
    }
    // What the callee failed with is what the caller fails with.
    let reason = if end.status == Status::Cancelled { "delegate-cancelled" } else { "delegate-failed" };
    let reason = end.reason.clone().filter(|_| end.status != Status::Cancelled).unwrap_or_else(|| reason.into());
    // A document whose states run its own step graphs delegates to none.
    let message = match is_composition {
        true => format!("composition `{workflow}` {verb}: {why}"),
        false => format!("Delegated workflow {verb}: `{workflow}`: {why}"),
    };
    let failure = Failure::engine(reason, message).with_details(Value::from(details));
    Failure { denial: end.denial.clone(), ..failure }
}
