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
    /// The request of the effect that the event is about, with the number of the event that made it.
    pub request: Option<(u64, Request)>,
}

/// Follows the frames, effects and instances of a run, event by event.
///
/// Elements and groups are forgotten when they end, and effects when they have a reply, so that a reader of a long run
/// holds only what is open, and its steps.
#[derive(Debug, Default, Clone)]
pub struct Locator {
    steps: HashMap<FrameId, Arc<str>>,
    effects: HashMap<EffectId, (FrameId, u64, Request)>,
    instances: HashMap<InstanceId, FrameId>,
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
        self.steps.values()
    }

    fn part<'a>(&mut self, recorded: Cow<'a, Recorded>) -> Located<'a> {
        let mut request = None;
        let frame = match &recorded.event {
            Event::StepEntered { frame, name, .. } => {
                self.steps.insert(*frame, name.clone());
                Some(*frame)
            }
            Event::ElementEntered { frame, parent, .. } | Event::GroupEntered { frame, parent, .. } => {
                self.inside(*frame, *parent);
                Some(*frame)
            }
            Event::InstanceStarted { instance, frame, parent, .. } => {
                self.inside(*frame, *parent);
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
        let step = frame.and_then(|frame| self.steps.get(&frame)).cloned();
        if let Event::ElementFinished { frame, .. } | Event::GroupFinished { frame, .. } = &recorded.event {
            self.steps.remove(frame);
        }
        Located { recorded, frame, step, request }
    }

    fn inside(&mut self, frame: FrameId, parent: FrameId) {
        if let Some(step) = self.steps.get(&parent).cloned() {
            self.steps.insert(frame, step);
        }
    }
}

/// The events of a run with their places, in order; of one that has parts, these.
pub fn located<'a>(events: impl IntoIterator<Item = &'a Recorded>) -> impl Iterator<Item = Located<'a>> {
    let mut locator = Locator::default();
    events.into_iter().flat_map(move |recorded| locator.locate(recorded))
}
