//! Events with the frames around them: what every reader of a run's history needs to know of the events before.

use crate::event::{EffectId, Event, FrameId, InstanceId, Recorded, Request};
use std::{borrow::Cow, collections::HashMap, sync::Arc};

/// An event, and the place in the run at which it happened.
#[derive(Debug, Clone)]
pub struct Located<'a> {
    /// The event; of one that has [parts](Recorded::parts), one of these.
    pub recorded: Cow<'a, Recorded>,
    /// The frame that the event is about: the one that is entered or left, that requested the effect, or that started
    /// the instance. `None` for events of the run as a whole.
    pub frame: Option<FrameId>,
    /// The name of the innermost step around that frame, itself included.
    pub step: Option<Arc<str>>,
    /// The frame of that step.
    pub step_frame: Option<FrameId>,
    /// The delegated workflow that the frame belongs to; `None`: the run's own.
    pub instance: Option<InstanceId>,
    /// The request of the effect that the event is about, with the number of the event that made it.
    pub request: Option<(u64, Request)>,
}

/// Follows the frames, effects and instances of a run, event by event.
///
/// Elements and groups are forgotten when they end, and effects when they have a reply, so that a reader of a long run
/// holds only what is open, and its steps.
#[derive(Debug, Default, Clone)]
pub struct Locator {
    frames: HashMap<FrameId, Around>,
    effects: HashMap<EffectId, (FrameId, u64, Request)>,
    instances: HashMap<InstanceId, FrameId>,
}

/// The step and the delegated workflow around a frame.
#[derive(Debug, Clone)]
struct Around {
    step: Arc<str>,
    step_frame: FrameId,
    instance: Option<InstanceId>,
}

impl Locator {
    /// Takes the next event of a run.
    pub fn locate<'a>(&mut self, recorded: &'a Recorded) -> impl Iterator<Item = Located<'a>> + use<'a> {
        // At most the four parts of a call: a list is simpler than an iterator that borrows two things.
        let parts: Vec<_> = recorded.parts().map(|part| self.part(part)).collect();
        parts.into_iter()
    }

    /// The names of the steps that were entered, each once for every entry.
    pub fn entered(&self) -> impl Iterator<Item = &Arc<str>> {
        self.frames.values().map(|around| &around.step)
    }

    /// The frame of the innermost step around an effect that has not ended.
    pub fn step_of(&self, effect: EffectId) -> Option<FrameId> {
        let (frame, ..) = self.effects.get(&effect)?;
        Some(self.frames.get(frame)?.step_frame)
    }

    fn part<'a>(&mut self, recorded: Cow<'a, Recorded>) -> Located<'a> {
        let mut request = None;
        let frame = match &recorded.event {
            Event::StepEntered { frame, parent, name, .. } => {
                let instance = self.frames.get(parent).and_then(|around| around.instance);
                self.frames.insert(*frame, Around { step: name.clone(), step_frame: *frame, instance });
                Some(*frame)
            }
            Event::ElementEntered { frame, parent, .. } | Event::GroupEntered { frame, parent, .. } => {
                self.inside(*frame, *parent, None);
                Some(*frame)
            }
            Event::InstanceStarted { instance, frame, parent, .. } => {
                self.inside(*frame, *parent, Some(*instance));
                self.instances.insert(*instance, *parent);
                Some(*parent)
            }
            Event::InstanceFinished { instance, .. } => self.instances.remove(instance),
            Event::Requested { effect, frame, request } => {
                self.effects.insert(*effect, (*frame, recorded.seq, request.clone()));
                Some(*frame)
            }
            Event::Replied { effect, .. } | Event::Abandoned { effect, .. } => {
                self.effects.remove(effect).map(|(frame, seq, asked)| {
                    request = Some((seq, asked));
                    frame
                })
            }
            Event::InDoubt { effect }
            | Event::Answered { effect, .. }
            | Event::GrantAsked { effect, .. }
            | Event::GrantAnswered { effect, .. }
            | Event::InputAsked { effect, .. }
            | Event::InputAnswered { effect, .. }
            | Event::InnerStarted { effect, .. }
            | Event::InnerRequested { effect, .. }
            | Event::InnerSlept { effect, .. }
            | Event::InnerReplied { effect, .. } => self.effects.get(effect).map(|(frame, seq, asked)| {
                request = Some((*seq, asked.clone()));
                *frame
            }),
            Event::StepSkipped { parent, .. } => Some(*parent),
            Event::StepPrepared { frame, .. }
            | Event::EachStarted { frame, .. }
            | Event::ElementFinished { frame, .. }
            | Event::Chosen { frame, .. }
            | Event::GroupFinished { frame, .. }
            | Event::StepCalled { frame, .. }
            | Event::ElementCalled { frame, .. }
            | Event::Retrying { frame, .. }
            | Event::TurnStarted { frame, .. }
            | Event::Interjected { frame, .. }
            | Event::Guarded { frame, .. }
            | Event::TurnFinished { frame, .. }
            | Event::StepFinished { frame, .. }
            | Event::Judged { frame, .. }
            | Event::Routed { frame, .. }
            | Event::EventRaised { frame, .. }
            | Event::ArtifactSet { frame, .. }
            | Event::SignalTaken { frame, .. }
            | Event::CallsAsked { frame, .. }
            | Event::CallAnswered { frame, .. }
            | Event::CallsExpired { frame }
            | Event::WaitStarted { frame, .. } => Some(*frame),
            Event::RunStarted(_)
            | Event::DefinitionPinned { .. }
            | Event::SignalReceived(_)
            | Event::LimitReached { .. }
            | Event::CancelRequested { .. }
            | Event::RunRepinned(_)
            | Event::Ticked
            | Event::RunFinished(_) => None,
        };
        let around = frame.and_then(|frame| self.frames.get(&frame));
        let (step, step_frame) = around.map(|around| (around.step.clone(), around.step_frame)).unzip();
        let instance = around.and_then(|around| around.instance);
        if let Event::ElementFinished { frame, .. } | Event::GroupFinished { frame, .. } = &recorded.event {
            self.frames.remove(frame);
        }
        Located { recorded, frame, step, step_frame, instance, request }
    }

    /// A frame belongs to the step of its parent, and, unless it is the first of a delegated workflow, to its workflow.
    fn inside(&mut self, frame: FrameId, parent: FrameId, instance: Option<InstanceId>) {
        if let Some(around) = self.frames.get(&parent).cloned() {
            self.frames.insert(frame, Around { instance: instance.or(around.instance), ..around });
        }
    }
}

/// The events of a run with their places, in order; of one that has parts, these.
pub fn located<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> impl Iterator<Item = Located<'a>> {
    let mut locator = Locator::default();
    events.into_iter().flat_map(move |recorded| locator.locate(recorded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Settled, Timestamp};
    use opcell_types::Value;

    fn entered(frame: u64, parent: u64, name: &str) -> Event {
        Event::StepEntered { frame: FrameId(frame), parent: FrameId(parent), step: 0, name: name.into(), visit: 1 }
    }

    #[test]
    fn an_event_is_located_in_its_innermost_step_and_its_delegated_workflow() {
        let each = Event::ElementEntered { frame: FrameId(4), parent: FrameId(3), index: 0 };
        let ended = Event::ElementFinished { frame: FrameId(4), result: Settled::Ok(Value::Null) };
        let request = Request::Sleep { ms: 1.0 };
        let pause = Event::Requested { effect: EffectId(7), frame: FrameId(4), request };
        let delegated = Event::InstanceStarted {
            instance: InstanceId(1),
            frame: FrameId(2),
            parent: FrameId(1),
            workflow: "inner".into(),
            input: Value::Null,
            original: Value::Null,
        };
        let events =
            [entered(1, 0, "outer"), delegated, entered(3, 2, "step"), each, pause, ended, entered(5, 0, "next")];
        let mut locator = Locator::default();
        let mut found = Vec::new();
        for (seq, event) in (1..).zip(events) {
            let recorded = Recorded::new(seq, Timestamp(0), event);
            let here = locator.locate(&recorded).next().map(|located| {
                let frame = located.step_frame.map(|frame| frame.0);
                (located.step.unwrap_or_default().to_string(), frame, located.instance.map(|instance| instance.0))
            });
            found.extend(here);
            if seq == 5 {
                assert_eq!(locator.step_of(EffectId(7)), Some(FrameId(3)));
            }
        }
        let (outer, step) = (("outer".to_owned(), Some(1), None), ("step".to_owned(), Some(3), Some(1)));
        let next = ("next".to_owned(), Some(5), None);
        assert_eq!(found, [outer.clone(), outer, step.clone(), step.clone(), step.clone(), step, next]);
    }
}
