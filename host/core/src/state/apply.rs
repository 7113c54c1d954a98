//! The change of the state by an event.

mod steps;

mod groups;

mod effects;

mod inner;

mod signals;

mod called;

mod calls;

mod inputs;

mod workflows;

pub(in crate::state) use effects::settled_as_failed;
pub(crate) use effects::{settled, tool_message};

use crate::conversation::{Message, Messages, Role};
use crate::dialogue;
use crate::event::{EffectId, Event, FrameId, InstanceId, Recorded, RunStarted};
use crate::outcome::{RunEnd, Used};
use crate::state::memory::{Raised, StepMemory};
use crate::state::{
    Asked, Body, Conversation, ConversationStage, ConversationStore, Frame, Instance, Judging, Line, LineAt, Pending,
    Phase, Stage, State, StepFrame, Work,
};

/// Why an event does not follow from the state: the journal is not one that this code wrote.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Numbers must have no gaps.
    #[error("event {got} does not follow event {last}")]
    OutOfOrder {
        /// The last one.
        last: u64,
        /// The next one.
        got: u64,
    },
    /// The event names something that is not there.
    #[error("event {seq} ({kind}) names {what}, which the run does not have")]
    Unknown {
        /// Number of the event, from 1.
        seq: u64,
        /// Its kind.
        kind: &'static str,
        /// The name that is unknown.
        what: String,
    },
}

/// A name in an event that the state lacks.
struct Missing(String);

type Change<T = ()> = Result<T, Missing>;

fn missing<T>(what: impl Into<String>) -> Change<T> {
    Err(Missing(what.into()))
}

impl State {
    /// Folds one more event in.
    ///
    /// # Errors
    /// When the event cannot follow; the state is then of no use any more.
    pub fn apply(&mut self, recorded: &Recorded) -> Result<(), ApplyError> {
        if recorded.seq != self.seq + 1 {
            return Err(ApplyError::OutOfOrder { last: self.seq, got: recorded.seq });
        }
        self.fold(recorded)
    }

    /// Folds one of the [parts](Recorded::parts) of an event in. After the last one the state is what it is after the
    /// whole event.
    ///
    /// # Errors
    /// As [`State::apply`].
    pub fn apply_part(&mut self, part: &Recorded) -> Result<(), ApplyError> {
        if part.seq == self.seq { self.fold(part) } else { self.apply(part) }
    }

    fn fold(&mut self, recorded: &Recorded) -> Result<(), ApplyError> {
        self.seq = recorded.seq;
        self.now = recorded.at;
        self.made = self.made.saturating_add(crate::decide::made(&recorded.event));
        self.change(&recorded.event).map_err(|Missing(what)| ApplyError::Unknown {
            seq: recorded.seq,
            kind: recorded.event.kind(),
            what,
        })
    }

    fn change(&mut self, event: &Event) -> Change {
        match event {
            Event::RunStarted(start) => self.start(start),
            Event::DefinitionPinned { name, program } => {
                self.definitions.insert(name.clone(), program.clone());
            }
            Event::StepEntered { frame, parent, step, visit, .. } => {
                return self.enter_step(*frame, *parent, *step, *visit);
            }
            Event::StepSkipped { parent, step, .. } => return self.skip_step(*parent, *step),
            Event::StepPrepared { .. } => {}
            Event::RunRepinned(moved) => self.pins.extend(moved.pins.clone()),
            // A frame that was asked about a call may be gone.
            Event::Ticked => self.see_when_answers_are_due(),
            Event::EachStarted { frame, items } => return self.start_each(*frame, items),
            Event::ElementEntered { frame, parent, index } => return self.enter_element(*frame, *parent, *index),
            Event::ElementFinished { frame, result } => return self.finish_element(*frame, result),
            Event::StepCalled { frame, parent, step, visit, call, .. } => {
                return self.step_called(*frame, *parent, *step, *visit, call);
            }
            Event::ElementCalled { frame, parent, index, call } => {
                return self.element_called(*frame, *parent, *index, call);
            }
            Event::GroupEntered { frame, parent, group } => return self.enter_group(*frame, *parent, *group),
            Event::Chosen { frame, group } => return self.choose(*frame, *group),
            Event::GroupFinished { frame, result, halted } => return self.finish_group(*frame, result, *halted),
            Event::Requested { effect, frame, request } => return self.request(*effect, *frame, request),
            Event::Replied { effect, reply } => {
                if let Some(pending) = self.effects.remove(effect) {
                    return self.reply(&pending, reply);
                }
            }
            Event::Retrying { frame, delay_ms, .. } => {
                let now = self.now;
                let work = self.work_mut(*frame)?;
                work.attempt += 1;
                work.since = now;
                work.stage = Stage::Pause { ms: *delay_ms };
                self.refresh(*frame);
            }
            Event::TurnStarted { frame, group, messages } => {
                let talk = self.conversation_mut(*frame)?;
                talk.turn_from = talk.record.messages.len();
                talk.record.messages.extend(messages.iter().cloned());
                talk.group = *group;
                talk.rounds = 0;
                talk.augmented = 0;
                talk.turn_calls = 0;
                talk.failed_answers = 0;
                talk.questions = 0;
                talk.refused = Vec::new();
                talk.stage = ConversationStage::Turn;
                self.refresh(*frame);
            }
            Event::Interjected { frame, message, retry } => {
                let newest = EffectId(self.next_effect);
                let talk = self.conversation_mut(*frame)?;
                talk.permit = None;
                talk.failed_answers += u32::from(*retry);
                if message.role == Role::Tool {
                    talk.forget_question(message.tool_call_id.as_deref().unwrap_or_default());
                    talk.asked += 1;
                    talk.turn_calls += 1;
                    talk.call_answered(Message::clone(message), newest);
                } else {
                    talk.record.messages.push(Message::clone(message));
                    talk.stage = ConversationStage::Turn;
                }
                // In a state that speaks, calls that the engine answers or refuses count as well (PromptPack).
                let speaks = self.step_of(*frame).is_some_and(|(_, step)| dialogue::of(step).is_some());
                if speaks && message.role == Role::Tool {
                    self.charge(*frame, |used| used.tool_calls += 1);
                }
                self.refresh(*frame);
            }
            Event::Guarded { frame, text, .. } => return self.guard(*frame, text),
            Event::TurnFinished { frame, text, structured } => {
                return self.finish_turn(*frame, text, structured.as_ref());
            }
            Event::InstanceStarted { instance, frame, parent, workflow, input, original } => {
                return self.start_instance(*instance, *frame, *parent, workflow, input, original);
            }
            Event::InstanceFinished { instance, end } => return self.finish_instance(*instance, end),
            Event::StepFinished { frame, result } => return self.finish_step(*frame, result),
            Event::Judged { frame, verdict } => {
                self.step_mut(*frame)?.phase = Phase::Judging(Judging::Decided(verdict.clone()));
                self.refresh(*frame);
            }
            Event::Routed { frame, to, bounded, .. } => return self.route(*frame, to, *bounded),
            Event::EventRaised { frame, event, context, extras } => {
                let raised = Raised { event: event.clone(), context: context.clone(), extras: extras.clone() };
                self.conversation_mut(*frame)?.record.raised = Some(raised);
                self.refresh(*frame);
            }
            Event::ArtifactSet { name, value, .. } => {
                self.artifacts.insert(name.into(), value.clone());
            }
            Event::SignalReceived(signal) => {
                self.next_signal = self.next_signal.max(signal.id + 1);
                self.signals.push_back(signal.clone());
                self.remember_key(signal);
                self.wake_waiting();
            }
            Event::SignalTaken { frame, signal } => return self.take_signal(*frame, *signal),
            Event::WaitStarted { frame, question } => {
                match self.phase_mut(*frame)? {
                    Some(Phase::Judging(judging)) => *judging = Judging::Waiting { came: false },
                    Some(Phase::Work(Work { stage: Stage::Talking(talk), .. })) => {
                        talk.permit = None;
                        talk.stage = ConversationStage::Waiting { came: false };
                    }
                    _ => {
                        self.work_mut(*frame)?.stage =
                            Stage::Waiting { timer: None, question: question.clone(), came: false }
                    }
                }
                self.refresh(*frame);
                self.wake_waiting();
            }
            Event::InDoubt { effect } => self.pending_mut(*effect)?.in_doubt = true,
            Event::Answered { effect, answer, .. } => return self.answer(*effect, *answer),
            Event::GrantAsked { effect, reply, why } => {
                let pending = self.pending_mut(*effect)?;
                pending.in_doubt = true;
                pending.asked = Some(Box::new(Asked { reply: reply.as_ref().clone(), why: why.clone() }));
            }
            Event::GrantAnswered { effect, grant, .. } => return self.answer_grant(*effect, *grant),
            Event::InputAsked { effect, place, reply } => return self.ask_for_input(*effect, *place, reply),
            Event::InputAnswered { effect, question, answer, .. } => {
                return self.answer_input(*effect, question, answer);
            }
            Event::InnerStarted { effect, seed } => return self.start_inner_calls(*effect, seed),
            Event::InnerRequested { effect, call } => return self.request_inner_call(*effect, call),
            Event::InnerSlept { effect, until } => return self.put_cell_to_sleep(*effect, *until),
            Event::InnerReplied { effect, place, reply } => return self.reply_inner_call(*effect, *place, reply),
            Event::CallsAsked { frame, calls } => return self.ask_about_calls(*frame, calls),
            Event::CallAnswered { frame, question, answer, by, .. } => {
                return self.answer_call(*frame, question, answer, by.as_ref());
            }
            Event::CallsExpired { frame } => return self.expire_calls(*frame),
            Event::Abandoned { effect, .. } => {
                self.effects.remove(effect);
            }
            Event::LimitReached { limit, used, max } => self.limit_reached = Some((*limit, *used, *max)),
            Event::CancelRequested { reason, .. } => self.cancel = Some(reason.clone()),
            Event::RunFinished(end) => self.finish(end),
        }
        Ok(())
    }

    fn start(&mut self, start: &RunStarted) {
        self.run = start.run.clone();
        self.started_at = self.now;
        self.limits = start.limits;
        self.value_limits = start.value_limits;
        self.max_depth = start.max_depth;
        self.visit_bound = start.visit_bound;
        self.pins = start.pins.clone();
        self.session.clone_from(&start.session);
        self.authorizer.clone_from(&start.authorizer);
        self.traceparent.clone_from(&start.traceparent);
        self.user.clone_from(&start.user);
        self.tenant.clone_from(&start.tenant);
        self.forked.clone_from(&start.forked);
        self.next_signal = 1;
        let own = start.program.own().iter().map(|own| (own.name().clone(), Some(own.clone())));
        self.definitions.extend(own);
        let instance = Instance {
            program: start.program.clone(),
            parent: None,
            depth: 0,
            input: start.input.clone(),
            original: start.original.clone(),
            inputs: start.inputs.clone(),
            outputs: start.program.no_outputs(),
            memory: vec![StepMemory::default(); start.program.ir().steps.len()],
            last: None,
            log: Messages::new(),
            kept: ConversationStore::default(),
            brief: "".into(),
            exited: None,
            failed: None,
            since: self.now,
            used: Used::default(),
            inherited: start.session.clone(),
        };
        self.open(InstanceId(0), FrameId(0), instance);
    }

    fn open(&mut self, id: InstanceId, line: FrameId, instance: Instance) {
        let entry = instance.program.entry();
        self.next_instance = self.next_instance.max(id.0 + 1);
        let parent = instance.parent;
        self.instances.insert(id, instance);
        let body = Body::Line(Line { group: None, at: LineAt::Before(entry) });
        self.add(line, Frame { parent, instance: id, body });
    }

    fn add(&mut self, id: FrameId, frame: Frame) {
        self.next_frame = self.next_frame.max(id.0 + 1);
        if frame.is_ready() {
            self.ready.insert(id);
        }
        self.frames.insert(id, frame);
    }

    fn remove(&mut self, id: FrameId) -> Change<Frame> {
        self.ready.remove(id);
        self.frames.remove(&id).map_or_else(|| missing(format!("frame {id}")), Ok)
    }

    fn refresh(&mut self, id: FrameId) {
        if self.frames.get(&id).is_some_and(Frame::is_ready) {
            self.ready.insert(id);
        } else {
            self.ready.remove(id);
        }
    }

    fn frame_mut(&mut self, id: FrameId) -> Change<&mut Frame> {
        self.frames.get_mut(&id).map_or_else(|| missing(format!("frame {id}")), Ok)
    }

    fn line_mut(&mut self, id: FrameId) -> Change<&mut Line> {
        match &mut self.frame_mut(id)?.body {
            Body::Line(line) => Ok(line),
            _ => missing(format!("frame {id} as a line")),
        }
    }

    fn step_mut(&mut self, id: FrameId) -> Change<&mut StepFrame> {
        match &mut self.frame_mut(id)?.body {
            Body::Step(step) => Ok(step),
            _ => missing(format!("frame {id} as a step")),
        }
    }

    fn phase_mut(&mut self, id: FrameId) -> Change<Option<&mut Phase>> {
        Ok(match &mut self.frame_mut(id)?.body {
            Body::Step(step) => Some(&mut step.phase),
            Body::Line(_) | Body::Element(_) => None,
        })
    }

    /// The work of a frame; a step that has only been entered starts working.
    fn work_mut(&mut self, id: FrameId) -> Change<&mut Work> {
        let now = self.now;
        let frame = self.frame_mut(id)?;
        if let Body::Step(step) = &mut frame.body
            && matches!(step.phase, Phase::Entered)
        {
            step.phase = Phase::Work(Work::new(now));
        }
        frame.work_mut().map_or_else(|| missing(format!("work of frame {id}")), Ok)
    }

    /// The conversation of a frame; opening one replaces whatever attempt was before.
    fn conversation_mut(&mut self, id: FrameId) -> Change<&mut Conversation> {
        let found = match &mut self.frame_mut(id)?.body {
            Body::Step(step) => match &mut step.phase {
                Phase::Work(Work { stage: Stage::Talking(talk), .. }) | Phase::Judging(Judging::Llm(talk)) => {
                    Some(talk)
                }
                _ => None,
            },
            Body::Element(element) => match &mut element.work.stage {
                Stage::Talking(talk) => Some(talk),
                _ => None,
            },
            Body::Line(_) => None,
        };
        found.map_or_else(|| missing(format!("conversation of frame {id}")), |talk| Ok(talk.as_mut()))
    }

    fn pending_mut(&mut self, id: EffectId) -> Change<&mut Pending> {
        self.effects.get_mut(&id).map_or_else(|| missing(format!("effect {id}")), Ok)
    }

    fn instance_mut(&mut self, id: InstanceId) -> Change<&mut Instance> {
        self.instances.get_mut(&id).map_or_else(|| missing(format!("instance {id}")), Ok)
    }

    fn finish(&mut self, end: &RunEnd) {
        self.frames.clear();
        self.ready.clear();
        self.effects.clear();
        self.instances.retain(|id, _| *id == InstanceId(0));
        self.end = Some(end.clone());
    }
}
