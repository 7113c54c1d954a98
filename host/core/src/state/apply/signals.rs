//! Signals and whoever waits for them.

use super::{Change, missing};
use crate::dialogue;
use crate::event::{FrameId, Signal};
use crate::failure::Failure;
use crate::message::approves;
use crate::state::questions::answered_approval;
use crate::state::{ConversationStage, Frame, Judging, Phase, Raw, Stage, State};
use opcell_ir::ir::{Form, Orchestration, Step};
use opcell_ir::names::Outcome;
use opcell_types::Value;
use std::mem;
use std::sync::Arc;

impl State {
    /// Tells every waiting step whether its signal is there.
    pub(super) fn wake_waiting(&mut self) {
        let waiting: Vec<(FrameId, bool)> = self
            .frames
            .iter()
            .filter(|(_, frame)| frame.is_waiting())
            .map(|(id, _)| (*id, self.waiting_signal(*id).is_some()))
            .collect();
        for (id, there) in waiting {
            if let Some(came) = self.frames.get_mut(&id).and_then(Frame::came_mut) {
                *came = there;
            }
            self.refresh(id);
        }
    }

    /// The oldest signal that a waiting step can take.
    pub(crate) fn waiting_signal(&self, frame: FrameId) -> Option<&Signal> {
        let (_, step) = self.step_of(frame)?;
        match &step.form {
            // The sender's right counts here, since the steps of a workflow that is chosen at run time are not known
            // when a signal is sent.
            Form::Wait { wait } => self.signals.iter().find(|signal| {
                signal.name == wait.signal && (!wait.approval || signal.may_approve()) && self.is_for(signal, frame)
            }),
            _ => match dialogue::of(step) {
                Some((orchestration, _)) => {
                    self.signals.iter().filter(|signal| signal.question.is_none()).find(|signal| {
                        signal.name.as_ref() == dialogue::MESSAGE_SIGNAL
                            || (orchestration != Orchestration::Internal && is_event(step, &signal.name))
                    })
                }
                None => self.event_signal(step),
            },
        }
    }

    /// The oldest signal that is one of a step's outcomes.
    pub(crate) fn event_signal(&self, step: &Step) -> Option<&Signal> {
        self.signals.iter().find(|signal| signal.question.is_none() && is_event(step, &signal.name))
    }

    pub(super) fn take_signal(&mut self, frame: FrameId, id: u64) -> Change {
        let Some(at) = self.signals.iter().position(|signal| signal.id == id) else {
            return missing(format!("signal {id}"));
        };
        let Some(signal) = self.signals.remove(at) else { return missing(format!("signal {id}")) };
        if let Some(Phase::Judging(judging)) = self.phase_mut(frame)? {
            *judging = Judging::Start;
            self.refresh(frame);
            self.wake_waiting();
            return Ok(());
        }
        let approval =
            self.step_of(frame).is_some_and(|(_, step)| matches!(&step.form, Form::Wait { wait } if wait.approval));
        if approval {
            self.answered.insert(answered_approval(&signal.name));
        }
        let work = self.work_mut(frame)?;
        if let Stage::Talking(talk) = &mut work.stage {
            talk.stage = ConversationStage::Idle;
            self.refresh(frame);
            self.wake_waiting();
            return Ok(());
        }
        let before = mem::replace(&mut work.stage, taken(&signal, approval));
        if let Stage::Waiting { timer: Some(timer), .. } = before {
            self.effects.remove(&timer);
        }
        self.refresh(frame);
        self.wake_waiting();
        Ok(())
    }
}

fn is_event(step: &Step, name: &Arc<str>) -> bool {
    step.on.iter().any(|route| matches!(&route.outcome, Outcome::Text(text) if text == name))
}

fn taken(signal: &Signal, approval: bool) -> Stage {
    if !approval || approves(&signal.data) {
        return Stage::Produced(Raw::Value(signal.data.clone()));
    }
    let who = signal.by.as_deref().unwrap_or("someone");
    let why = signal.data.get("why").and_then(Value::as_str).map_or_else(String::new, |why| format!(": {why}"));
    Stage::Failed(Failure::engine("refused", format!("{who} refused{why}")).with_details(signal.data.clone()))
}
