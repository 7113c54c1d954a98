//! How an event changes the state.

use super::{
    Accepted, Body, Conversation, ConversationStage, Each, Element, Frame, Groups, Instance, Judging, Line, LineAt,
    Pending, Phase, Raw, Stage, State, StepFrame, TurnRecord, Work,
    memory::{Raised, StepMemory},
    work::Pause,
};
use crate::{
    conversation::{Message, Role},
    decide::dialogue,
    effect::failed_reply,
    event::{
        Answer, Destination, EffectId, EffectReply, Event, FrameId, InstanceId, Recorded, Request, RunStarted, Settled,
        Signal, StepResult,
    },
    outcome::{RunEnd, Status},
    ports::{Failure, Reply, Success},
};
use opcell_workflow::{
    Value,
    ir::{Form, Orchestration, Session, Step},
    names::Outcome,
    value::Map,
};
use std::{mem, sync::Arc};

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
        /// The event.
        seq: u64,
        /// Its kind.
        kind: &'static str,
        /// What it names.
        what: String,
    },
}

/// What an event names and the state lacks.
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
        self.seq = recorded.seq;
        self.now = recorded.at;
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
            Event::StepPrepared { .. } | Event::Ticked => {}
            Event::EachStarted { frame, items } => return self.start_each(*frame, items),
            Event::ElementEntered { frame, parent, index } => return self.enter_element(*frame, *parent, *index),
            Event::ElementFinished { frame, result } => return self.finish_element(*frame, result),
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
                talk.failed_answers = 0;
                talk.stage = ConversationStage::Turn;
                self.refresh(*frame);
            }
            Event::Interjected { frame, message, retry } => {
                let talk = self.conversation_mut(*frame)?;
                if message.role == Role::Tool {
                    talk.calls.pop_front();
                }
                talk.failed_answers += u32::from(*retry);
                talk.record.messages.push(message.clone());
                talk.stage = ConversationStage::Turn;
                // In a state that speaks, calls that the engine answers or refuses count as well (PromptPack).
                let speaks = self.step_of(*frame).is_some_and(|(_, step)| dialogue::of(step).is_some());
                self.used.tool_calls += u64::from(speaks && message.role == Role::Tool);
                self.refresh(*frame);
            }
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
                self.artifacts.insert(name.clone(), value.clone());
            }
            Event::SignalReceived(signal) => {
                self.next_signal = self.next_signal.max(signal.id + 1);
                self.signals.push_back(signal.clone());
                self.wake_waiting();
            }
            Event::SignalTaken { frame, signal } => return self.take_signal(*frame, *signal),
            Event::WaitStarted { frame, question } => {
                match self.phase_mut(*frame)? {
                    Some(Phase::Judging(judging)) => *judging = Judging::Waiting { came: false },
                    Some(Phase::Work(Work { stage: Stage::Talking(talk), .. })) => {
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
            Event::Abandoned { effect } => {
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
        self.max_depth = start.max_depth;
        self.visit_bound = start.visit_bound;
        self.pins = start.pins.clone();
        self.session.clone_from(&start.session);
        self.next_signal = 1;
        let instance = Instance {
            program: start.program.clone(),
            parent: None,
            depth: 0,
            input: start.input.clone(),
            original: start.original.clone(),
            inputs: start.inputs.clone(),
            outputs: Value::Object(Arc::default()),
            memory: vec![StepMemory::default(); start.program.ir().steps.len()],
            last: None,
            log: Vec::new(),
            brief: "".into(),
            exited: None,
            failed: None,
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
        self.ready.remove(&id);
        self.frames.remove(&id).map_or_else(|| missing(format!("frame {id}")), Ok)
    }

    fn refresh(&mut self, id: FrameId) {
        if self.frames.get(&id).is_some_and(Frame::is_ready) {
            self.ready.insert(id);
        } else {
            self.ready.remove(&id);
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

    fn enter_step(&mut self, id: FrameId, parent: FrameId, step: u32, visit: u32) -> Change {
        let line = self.line_mut(parent)?;
        let LineAt::Before(at) = line.at else { return missing(format!("a place to enter in frame {parent}")) };
        line.at = LineAt::In(at);
        let is_main = line.group.is_none();
        self.refresh(parent);
        let instance = self.frame_mut(parent)?.instance;
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
        self.used.visits += 1;
        let body = Body::Step(Box::new(StepFrame { step, visit, at, phase: Phase::Entered }));
        self.add(id, Frame { parent: Some(parent), instance, body });
        Ok(())
    }

    fn skip_step(&mut self, parent: FrameId, step: u32) -> Change {
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
                Arc::make_mut(outputs).shift_remove(&name);
            }
        } else if is_main {
            instance.last = Some(step);
        }
        if let Some(slot) = instance.memory.get_mut(step as usize) {
            slot.passed_by = passes_by;
        }
        self.move_on(parent, at)
    }

    fn choose(&mut self, frame: FrameId, group: u32) -> Change {
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

    /// Moves a line behind the step at `at`.
    fn move_on(&mut self, line: FrameId, at: u32) -> Change {
        let instance = self.frame_mut(line)?.instance;
        let next_main = self.instance(instance).map_or(u32::MAX, |instance| instance.program.after(at));
        let line_mut = self.line_mut(line)?;
        line_mut.at = LineAt::Before(if line_mut.group.is_some() { at + 1 } else { next_main });
        self.refresh(line);
        Ok(())
    }

    fn remember(&mut self, instance: InstanceId, step: u32, accepted: Accepted) -> Change {
        let instance = self.instance_mut(instance)?;
        let Some(definition) = instance.program.step(step) else { return missing(format!("step {step}")) };
        let output = accepted.expression_output(definition, instance.program.is_sequential());
        let entry = Value::object([("output", output)]);
        if let Value::Object(outputs) = &mut instance.outputs {
            Arc::make_mut(outputs).insert(definition.name.clone(), entry);
        }
        if let Some(slot) = instance.memory.get_mut(step as usize) {
            slot.accepted = Some(accepted);
        }
        Ok(())
    }

    fn start_each(&mut self, id: FrameId, items: &Value) -> Change {
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

    fn enter_element(&mut self, id: FrameId, parent: FrameId, index: u32) -> Change {
        let now = self.now;
        let delayed = self
            .step_of(parent)
            .is_some_and(|(_, step)| step.each.as_ref().is_some_and(|each| each.delay_ms.is_some()));
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

    fn finish_element(&mut self, id: FrameId, result: &Settled) -> Change {
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

    fn enter_group(&mut self, id: FrameId, parent: FrameId, group: u32) -> Change {
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

    fn finish_group(&mut self, id: FrameId, result: &Settled, halted: bool) -> Change {
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

    fn request(&mut self, id: EffectId, frame: FrameId, request: &Request) -> Change {
        self.next_effect = self.next_effect.max(id.0 + 1);
        match request {
            Request::Invoke { .. } | Request::Find { .. } => self.work_mut(frame)?.stage = Stage::Calling(id),
            Request::Judge { .. } => self.step_mut(frame)?.phase = Phase::Judging(Judging::Calling(id)),
            Request::Open { .. } => {
                let mut talk = Box::new(Conversation { stage: ConversationStage::Busy(id), ..Conversation::default() });
                if let Some((instance, step)) = self.step_of(frame)
                    && dialogue::of(step).is_some()
                {
                    talk.record.messages.clone_from(&instance.log);
                }
                match self.phase_mut(frame)? {
                    Some(Phase::Judging(judging)) => *judging = Judging::Llm(talk),
                    _ => self.work_mut(frame)?.stage = Stage::Talking(talk),
                }
            }
            Request::Round { .. } => {
                self.used.rounds += 1;
                let talk = self.conversation_mut(frame)?;
                talk.rounds += 1;
                talk.stage = ConversationStage::Busy(id);
            }
            Request::Tool { .. } => {
                self.used.tool_calls += 1;
                self.conversation_mut(frame)?.stage = ConversationStage::Busy(id);
            }
            Request::Sleep { .. } => match self.phase_mut(frame)? {
                Some(Phase::Each(each)) => each.pause = Pause::Running(id),
                _ => self.work_mut(frame)?.stage = Stage::Pausing(id),
            },
            Request::Timeout { .. } => {
                if let Stage::Waiting { timer, .. } = &mut self.work_mut(frame)?.stage {
                    *timer = Some(id);
                }
            }
        }
        self.effects.insert(id, Pending { frame, request: request.clone(), at: self.now, in_doubt: false });
        self.refresh(frame);
        Ok(())
    }

    fn reply(&mut self, pending: &Pending, reply: &EffectReply) -> Change {
        let frame = pending.frame;
        match reply {
            EffectReply::Invoke(reply) => {
                self.count_cell(reply.receipt.as_ref());
                let work = self.work_mut(frame)?;
                work.receipt.clone_from(&reply.receipt);
                work.stage = match &reply.result {
                    Ok(success) => Stage::Produced(Raw::Invoke(success.clone())),
                    Err(failure) => Stage::Failed(failure.clone()),
                };
            }
            EffectReply::Judge(reply) => {
                self.count_cell(reply.receipt.as_ref());
                self.step_mut(frame)?.phase =
                    Phase::Judging(Judging::Called(reply.result.clone(), reply.receipt.clone()));
            }
            EffectReply::Open(opened) => {
                let talk = self.conversation_mut(frame)?;
                match opened {
                    Ok(opened) => {
                        talk.opened = Some(opened.clone());
                        talk.stage = ConversationStage::Idle;
                    }
                    Err(failure) => talk.stage = ConversationStage::Failed(failure.clone()),
                }
            }
            EffectReply::Round(Ok(reply)) => {
                self.used.tokens += reply.usage.input_tokens + reply.usage.output_tokens;
                self.used.cost += reply.usage.cost.unwrap_or_default();
                let talk = self.conversation_mut(frame)?;
                talk.calls = reply.message.tool_calls.iter().cloned().collect();
                talk.record.messages.push(reply.message.clone());
                talk.stage = ConversationStage::Turn;
            }
            EffectReply::Round(Err(failure)) => {
                let talk = self.conversation_mut(frame)?;
                let models = talk.opened.as_ref().map_or(0, |opened| opened.models.len());
                talk.model_failures.push(failure.clone());
                if failure.retriable && (talk.model as usize) + 1 < models {
                    talk.model += 1;
                    talk.stage = ConversationStage::Turn;
                } else {
                    talk.stage = ConversationStage::Failed(failure.clone());
                }
            }
            EffectReply::Tool(reply) => {
                self.count_cell(reply.receipt.as_ref());
                let talk = self.conversation_mut(frame)?;
                let call = talk.calls.pop_front();
                talk.record.messages.push(tool_message(call.map(|call| call.id), &reply.result));
                talk.stage = ConversationStage::Turn;
            }
            EffectReply::Found => self.work_mut(frame)?.stage = Stage::Start,
            EffectReply::Slept => match self.phase_mut(frame)? {
                Some(Phase::Each(each)) => each.pause = Pause::Over,
                _ => {
                    let work = self.work_mut(frame)?;
                    work.stage = match work.stage {
                        Stage::Waiting { .. } => Stage::Failed(Failure {
                            reason: "timeout".into(),
                            message: "The signal did not come in time".to_owned(),
                            details: None,
                            retriable: false,
                        }),
                        _ => Stage::Start,
                    };
                }
            },
        }
        self.refresh(frame);
        Ok(())
    }

    fn count_cell(&mut self, receipt: Option<&Value>) {
        let Some(receipt) = receipt else { return };
        self.used.cells += 1;
        if let Some(Value::Number(calls)) = receipt.get("host-calls") {
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
            let calls = calls.as_f64().max(0.0) as u64;
            self.used.host_calls += calls;
        }
    }

    fn finish_turn(&mut self, frame: FrameId, text: &Arc<str>, structured: Option<&Value>) -> Change {
        let name = {
            let group = self.conversation_mut(frame)?.group;
            let form = self.step_of(frame).map(|(_, step)| &step.form);
            match (form, group) {
                (Some(Form::Session { session }), Some(group)) => {
                    session.prompts.get(group as usize).map(|group| group.name.clone())
                }
                _ => None,
            }
        };
        let talk = self.conversation_mut(frame)?;
        let (from, to) = (talk.turn_from, talk.record.messages.len());
        talk.record.turns.push(TurnRecord { name, text: text.clone(), from, to });
        talk.record.structured = structured.cloned();
        talk.stage = ConversationStage::Idle;
        self.refresh(frame);
        Ok(())
    }

    fn start_instance(
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
            Form::Delegate { delegate } => inherit(caller.inherited.as_ref(), &delegate.session),
            _ => None,
        };
        let instance = Instance {
            parent: Some(parent),
            depth: caller.depth + 1,
            input: input.clone(),
            original: original.clone(),
            inputs: program.bind_inputs(input),
            outputs: Value::Object(Arc::default()),
            memory: vec![StepMemory::default(); program.ir().steps.len()],
            last: None,
            log: Vec::new(),
            brief: "".into(),
            exited: None,
            failed: None,
            inherited,
            program,
        };
        self.work_mut(parent)?.stage = Stage::Delegating(id);
        self.refresh(parent);
        self.open(id, line, instance);
        Ok(())
    }

    fn finish_instance(&mut self, id: InstanceId, end: &RunEnd) -> Change {
        let Some(parent) = self.instances.get(&id).and_then(|instance| instance.parent) else {
            return missing(format!("instance {id}"));
        };
        let Some(workflow) = self.instances.get(&id).map(|instance| instance.program.name().clone()) else {
            return missing(format!("instance {id}"));
        };
        self.close(id);
        self.work_mut(parent)?.stage = if end.status == Status::Completed {
            Stage::Produced(Raw::Delegate(Box::new(end.clone())))
        } else {
            Stage::Failed(delegate_failure(&workflow, end))
        };
        self.refresh(parent);
        Ok(())
    }

    /// Takes away an instance, what it opened, and what they wanted.
    fn close(&mut self, id: InstanceId) {
        let mut open = vec![id];
        while let Some(id) = open.pop() {
            self.instances.remove(&id);
            let gone: Vec<FrameId> =
                self.frames.iter().filter(|(_, frame)| frame.instance == id).map(|(id, _)| *id).collect();
            for frame in &gone {
                self.frames.remove(frame);
                self.ready.remove(frame);
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

    fn finish_step(&mut self, id: FrameId, result: &StepResult) -> Change {
        let Some((_, step)) = self.step_of(id) else { return missing(format!("frame {id}")) };
        let speaks = dialogue::of(step).is_some();
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
        let accepted = accepted(produced, result);
        for group in open_groups(self, id) {
            self.drop_tree(group);
        }
        if let (true, Raw::Session(record)) = (speaks, &accepted.raw) {
            let (log, raised) = (record.messages.clone(), record.raised.clone());
            let memory = self.instance_mut(instance)?;
            memory.log = log;
            memory.brief = raised.map_or_else(|| "".into(), |raised| raised.context);
        }
        self.remember(instance, index, accepted)?;
        if let (true, None) = (is_exit, &result.failure) {
            self.instance_mut(instance)?.exited = Some(index);
        }
        let to = match (&result.failure, halted) {
            (Some(failure), _) if !result.ignored => {
                self.instance_mut(instance)?.failed = Some(index);
                LineAt::Failed(index, failure.clone())
            }
            (_, Some(Settled::Failed(failure))) => {
                LineAt::Failed(self.instance_mut(instance)?.failed.unwrap_or(index), failure)
            }
            (_, Some(Settled::Ok(_))) => LineAt::Exited(index),
            (None, None) if is_exit => LineAt::Exited(index),
            _ if ends => LineAt::Done(index),
            _ if has_judge => {
                self.refresh(id);
                return Ok(());
            }
            _ => {
                self.remove(id)?;
                return self.move_on(parent, at);
            }
        };
        self.remove(id)?;
        self.line_mut(parent)?.at = to;
        self.refresh(parent);
        Ok(())
    }

    /// Takes away a frame, everything under it, and what they wanted.
    fn drop_tree(&mut self, root: FrameId) {
        let mut open = vec![root];
        while let Some(id) = open.pop() {
            open.extend(self.frames.iter().filter(|(_, frame)| frame.parent == Some(id)).map(|(id, _)| *id));
            self.frames.remove(&id);
            self.ready.remove(&id);
            self.effects.retain(|_, effect| effect.frame != id);
            self.instances.retain(|_, instance| instance.parent != Some(id));
        }
    }

    fn route(&mut self, id: FrameId, to: &Destination, bounded: bool) -> Change {
        let frame = self.remove(id)?;
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

    /// Tells every waiting step whether its signal is there.
    fn wake_waiting(&mut self) {
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
            Form::Wait { wait } => self.signals.iter().find(|signal| signal.name == wait.signal),
            _ => match dialogue::of(step) {
                Some((orchestration, _)) => self.signals.iter().find(|signal| {
                    signal.name.as_ref() == dialogue::MESSAGE_SIGNAL
                        || (orchestration != Orchestration::Internal && is_event(step, &signal.name))
                }),
                None => self.event_signal(step),
            },
        }
    }

    /// The oldest signal that is one of a step's outcomes.
    pub(crate) fn event_signal(&self, step: &Step) -> Option<&Signal> {
        self.signals.iter().find(|signal| is_event(step, &signal.name))
    }

    fn take_signal(&mut self, frame: FrameId, id: u64) -> Change {
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

    fn answer(&mut self, id: EffectId, answer: Answer) -> Change {
        if answer == Answer::Retry {
            self.pending_mut(id)?.in_doubt = false;
            return Ok(());
        }
        let Some(pending) = self.effects.remove(&id) else { return missing(format!("effect {id}")) };
        let failure = Failure {
            reason: "interrupted".into(),
            message: "The host stopped while this was under way, and it was decided to take it as failed".to_owned(),
            details: None,
            retriable: false,
        };
        let reply = match (&pending.request, answer) {
            (Request::Invoke { .. }, Answer::Skip) => EffectReply::Invoke(Reply {
                result: Ok(Success { data: Value::Null, summary: None, details: None }),
                receipt: None,
            }),
            (Request::Tool { .. }, Answer::Skip) => EffectReply::Tool(Reply { result: Ok(Value::Null), receipt: None }),
            // A judge that decided nothing cannot be skipped: nobody would know where to go.
            (request, _) => failed_reply(request, failure),
        };
        self.reply(&pending, &reply)
    }

    fn finish(&mut self, end: &RunEnd) {
        self.frames.clear();
        self.ready.clear();
        self.effects.clear();
        self.instances.retain(|id, _| *id == InstanceId(0));
        self.end = Some(end.clone());
    }
}

fn is_event(step: &Step, name: &Arc<str>) -> bool {
    step.on.iter().any(|route| matches!(&route.outcome, Outcome::Text(text) if text == name))
}

/// Groups that are still open under a step that ends early.
fn open_groups(state: &State, step: FrameId) -> Vec<FrameId> {
    match state.step_of(step) {
        Some((_, Step { form: Form::Parallel { .. } | Form::Branch { .. }, .. })) => {
            state.frames.iter().filter(|(_, frame)| frame.parent == Some(step)).map(|(id, _)| *id).collect()
        }
        _ => Vec::new(),
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

fn tool_message(call: Option<String>, result: &Result<Value, Failure>) -> Message {
    let (content, is_error) = match result {
        Ok(Value::String(text)) => (text.as_ref().to_owned(), false),
        Ok(value) => (value.to_json(), false),
        Err(failure) => (format!("{}: {}", failure.reason, failure.message), true),
    };
    Message::tool(call.unwrap_or_default(), content, is_error)
}

fn taken(signal: &Signal, approval: bool) -> Stage {
    let approved = signal.data.get("approved") == Some(&Value::Bool(true)) || signal.data == Value::Bool(true);
    if !approval || approved {
        return Stage::Produced(Raw::Value(signal.data.clone()));
    }
    let who = signal.by.as_deref().unwrap_or("somebody");
    let why = signal.data.get("why").and_then(Value::as_str).map_or_else(String::new, |why| format!(": {why}"));
    Stage::Failed(Failure {
        reason: "refused".into(),
        message: format!("{who} refused{why}"),
        details: Some(signal.data.clone()),
        retriable: false,
    })
}

fn delegate_failure(workflow: &Arc<str>, end: &RunEnd) -> Failure {
    let verb = if end.status == Status::Cancelled { "cancelled" } else { "failed" };
    let why = end.message.as_deref().or(end.reason.as_deref()).unwrap_or("no reason was given");
    let mut details: Map = [("target".into(), Value::String(workflow.clone()))].into_iter().collect();
    if let Some(reason) = &end.reason {
        details.insert("reason".into(), Value::String(reason.clone()));
    }
    if let Some(step) = &end.step {
        details.insert("step".into(), Value::String(step.clone()));
    }
    if let Some(inner) = &end.details {
        details.insert("details".into(), inner.clone());
    }
    Failure {
        reason: format!("delegate-{verb}").into(),
        message: format!("Delegated workflow {verb}: `{workflow}`: {why}"),
        details: Some(Value::Object(Arc::new(details))),
        retriable: false,
    }
}

/// Session settings of the delegating step over those that it inherits itself.
fn inherit(outer: Option<&Session>, own: &Session) -> Option<Session> {
    let mut session = outer.cloned().unwrap_or_default();
    if own.model.is_some() {
        session.model.clone_from(&own.model);
    }
    if own.session_profile.is_some() {
        session.session_profile.clone_from(&own.session_profile);
    }
    if own.thinking_level.is_some() {
        session.thinking_level = own.thinking_level;
    }
    (session != Session::default()).then_some(session)
}
