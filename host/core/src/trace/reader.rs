//! The trace of a run as it is read off its events, one after the other.

use super::{CallTrace, ConversationTrace, InputTrace, JudgeTrace, Round, SentMessage, StepTrace, Transition, What};
use crate::{
    augment,
    conversation::{Message, Role},
    event::{Answer, Destination, EffectReply, Event, FrameId, Recorded, Request, Settled, Timestamp},
    located::Located,
    outcome::Question,
    program::Program,
    receipt::Receipt,
    state::{State, settled, tool_message},
};
use opcell_ir::ir::Form;
use opcell_types::Value;
use std::{collections::HashMap, sync::Arc};

/// The parent of a line of steps.
#[derive(Clone, Default)]
struct Place {
    workflow: Arc<str>,
    inside: Option<FrameId>,
}

/// The trace so far.
#[derive(Default)]
pub(super) struct Reader {
    pub(super) state: State,
    pub(super) steps: Vec<StepTrace>,
    pub(super) messages: Vec<SentMessage>,
    at: HashMap<FrameId, usize>,
    lines: HashMap<FrameId, Place>,
    programs: HashMap<Arc<str>, Arc<Program>>,
    /// The calls that a person was asked about, as they were shown, by the ID of the question.
    asked: HashMap<Arc<str>, AskedAbout>,
    /// The forms that a person was asked to fill in, by the ID of the question: the server, its tool, and the message.
    forms: HashMap<Arc<str>, AskedForm>,
}

#[derive(Clone)]
struct AskedForm {
    server: Arc<str>,
    tool: Arc<str>,
    message: Arc<str>,
}

#[derive(Clone)]
struct AskedAbout {
    tool: Arc<str>,
    arguments: Value,
    rule: Arc<str>,
}

impl Reader {
    pub(super) fn read(&mut self, located: &Located<'_>) {
        let recorded = located.recorded.as_ref();
        let (seq, at) = (recorded.seq, recorded.at);
        match &recorded.event {
            Event::RunStarted(started) => {
                let workflow = started.program.name().clone();
                self.programs.insert(workflow.clone(), started.program.clone());
                self.lines.insert(FrameId(0), Place { workflow, inside: None });
            }
            Event::DefinitionPinned { name, program: Some(program) } => {
                self.programs.insert(name.clone(), program.clone());
            }
            Event::StepEntered { frame, parent, step, name, visit } => {
                let entry = StepTrace { frame: *frame, visit: *visit, ..self.entry(*parent, *step, name, recorded) };
                self.add(entry);
            }
            Event::StepSkipped { parent, step, name } => {
                let entry = StepTrace { skipped: true, ..self.entry(*parent, *step, name, recorded) };
                self.steps.push(entry);
            }
            Event::ElementEntered { frame, parent, index } => {
                let Some(step) = self.step(*parent, at).cloned() else { return };
                self.add(StepTrace {
                    frame: *frame,
                    inside: Some(*parent),
                    depth: step.depth + 1,
                    form: "element",
                    element: Some(*index),
                    workflow: step.workflow,
                    step: step.step,
                    visit: step.visit,
                    target: step.target,
                    seq,
                    began: at,
                    ended: at,
                    ..StepTrace::default()
                });
            }
            Event::GroupEntered { frame, parent, .. } => {
                let workflow = self.step(*parent, at).map(|step| step.workflow.clone()).unwrap_or_default();
                self.lines.insert(*frame, Place { workflow, inside: Some(*parent) });
            }
            Event::InstanceStarted { frame, parent, workflow, input, original, .. } => {
                self.lines.insert(*frame, Place { workflow: workflow.clone(), inside: Some(*parent) });
                if let Some(step) = self.step(*parent, at) {
                    step.target = Some(workflow.clone());
                    step.arguments = Some(input.clone());
                    step.context = (!original.is_nullish() && original != input).then(|| original.clone());
                }
            }
            Event::InstanceFinished { end, .. } => {
                if let Some(step) = located.frame.and_then(|frame| self.step(frame, at)) {
                    step.result = Some(end.result.clone());
                }
            }
            Event::StepPrepared { frame, inputs } => {
                if let Some(step) = self.step(*frame, at) {
                    step.arguments = Some(inputs.clone());
                }
            }
            Event::EachStarted { frame, items } => {
                if let Some(step) = self.step(*frame, at) {
                    step.arguments = Some(Value::object([("over", items.clone())]));
                }
            }
            Event::Requested { frame, request, .. } => {
                if let Some(step) = self.step(*frame, at) {
                    match request {
                        Request::Invoke { arguments } => step.arguments = Some(arguments.clone()),
                        Request::Judge { arguments } => step.judging().arguments = Some(arguments.clone()),
                        Request::Open { .. }
                        | Request::Authorize { .. }
                        | Request::Augment { .. }
                        | Request::Round { .. }
                        | Request::Tool { .. }
                        | Request::Sleep { .. }
                        | Request::Timeout { .. }
                        | Request::Find { .. } => {}
                    }
                }
            }
            Event::InnerStarted { .. } | Event::InnerSlept { .. } => {}
            Event::InnerRequested { effect, call } => {
                if let Some(step) = located.frame.and_then(|frame| self.step(frame, at)) {
                    step.inner_call_requested(*effect, call);
                }
            }
            Event::InnerReplied { effect, place, reply } => {
                if let Some(step) = located.frame.and_then(|frame| self.step(frame, at)) {
                    step.inner_call_ended(*effect, *place, &reply.result);
                }
            }
            Event::Replied { effect: ended, reply } => {
                if let (Some(frame), Some((effect, request))) = (located.frame, &located.request)
                    && let Some(step) = self.step(frame, at)
                {
                    step.inner_calls.retain(|call| call.effect != *ended);
                    step.replied(*effect, request, reply);
                }
            }
            Event::Abandoned { receipt, .. } => {
                if let (Some(frame), Some((effect, request))) = (located.frame, &located.request)
                    && let Some(step) = self.step(frame, at)
                {
                    step.add_receipt(*effect, request, receipt.as_ref());
                }
            }
            Event::Retrying { frame, failure, .. } => {
                if let Some(step) = self.step(*frame, at) {
                    step.retried.push(failure.clone());
                }
            }
            Event::TurnStarted { frame, messages, .. } => self.say(*frame, at, messages),
            Event::Interjected { frame, message, .. } => self.say(*frame, at, std::slice::from_ref(&**message)),
            Event::Guarded { frame, text, .. } => {
                if let Some(said) = self.step(*frame, at).and_then(|step| step.conversation_mut().messages.last_mut()) {
                    text.as_ref().clone_into(&mut said.content);
                }
            }
            Event::TurnFinished { frame, text, structured } => {
                if let Some(step) = self.step(*frame, at).filter(|step| !step.done) {
                    step.result = Some(structured.clone().unwrap_or_else(|| Value::from(text.clone())));
                }
            }
            Event::ElementFinished { frame, result } => {
                if let Some(step) = self.step(*frame, at) {
                    match result {
                        Settled::Ok(value) => step.result = Some(value.clone()),
                        Settled::Failed(failure) => step.failure = Some(failure.clone()),
                    }
                }
            }
            Event::StepFinished { frame, result } => {
                self.went_on(*frame);
                if let Some(step) = self.step(*frame, at) {
                    step.done = true;
                    let computed = [&result.mapped, &result.value];
                    let computed = computed.into_iter().find(|value| !matches!(value, Value::Undefined));
                    step.result = computed.cloned().or(step.result.take());
                    step.failure.clone_from(&result.failure);
                    step.ignored = result.ignored;
                }
            }
            Event::Judged { frame, verdict } => {
                if let Some(step) = self.step(*frame, at) {
                    let judge = step.judging();
                    match verdict {
                        Ok(verdict) => {
                            judge.outcome = Some(verdict.outcome.clone());
                            judge.rationale.clone_from(&verdict.rationale);
                        }
                        Err(failure) => judge.failure = Some(failure.clone()),
                    }
                }
            }
            Event::Routed { frame, outcome, to, redirected, original_target, .. } => {
                self.went_on(*frame);
                let workflow = self.step(*frame, at).map(|step| step.workflow.clone()).unwrap_or_default();
                let to = match to {
                    Destination::Done => ":done".into(),
                    Destination::Step(step) => self.step_named(&workflow, *step).map_or_else(|| "?".into(), |s| s.0),
                };
                if let Some(step) = self.step(*frame, at) {
                    step.transition = Some(Transition {
                        seq,
                        outcome: outcome.clone(),
                        to,
                        redirected: redirected.clone(),
                        original_target: original_target.clone(),
                    });
                }
            }
            Event::WaitStarted { frame, question } => {
                if let Some(step) = self.step(*frame, at) {
                    step.question.clone_from(question);
                }
            }
            Event::SignalReceived(signal) => {
                let what = What::Signal { id: signal.id, name: signal.name.clone(), data: signal.data.clone() };
                self.messages.push(SentMessage { seq, at, by: signal.by.clone(), what, taken_by: None });
            }
            Event::SignalTaken { frame, signal } => {
                let Some(step) = self.step(*frame, at).map(|step| step.step.clone()) else { return };
                let taken =
                    self.messages.iter_mut().find(|sent| matches!(&sent.what, What::Signal { id, .. } if id == signal));
                if let Some(reported) = taken {
                    reported.taken_by = Some(step.clone());
                    if let What::Signal { data, .. } = &reported.what {
                        let data = data.clone();
                        // What a user says to a state is not a result of it.
                        if let Some(step) = self.step(*frame, at).filter(|step| step.form == "wait") {
                            step.result = Some(data);
                        }
                    }
                }
            }
            Event::Answered { effect, answer, by } => {
                // Where it was a call of its cell that was in doubt, the effect itself continues.
                if let Some((number, request)) = located.request.as_ref().filter(|_| *answer != Answer::Retry)
                    && !self.state.wants(*effect)
                    && let Some(step) = located.frame.and_then(|frame| self.step(frame, at))
                {
                    step.replied(*number, request, &settled(request, *answer));
                }
                let what = What::Answer { effect: *effect, answer: *answer };
                self.messages.push(SentMessage { seq, at, by: by.clone(), what, taken_by: None });
            }
            Event::GrantAnswered { effect, grant, by } => {
                let what = What::Grant { effect: *effect, grant: *grant };
                self.messages.push(SentMessage { seq, at, by: by.clone(), what, taken_by: None });
            }
            Event::CallAnswered { question, answer, by, from, .. } => {
                let Some(asked) = self.asked.get(question).cloned() else { return };
                let what = What::Call(Box::new(CallTrace {
                    question: question.clone(),
                    tool: asked.tool,
                    arguments: asked.arguments,
                    rule: asked.rule,
                    answer: answer.clone(),
                    from: from.clone(),
                }));
                self.messages.push(SentMessage { seq, at, by: by.clone(), what, taken_by: None });
            }
            Event::InputAsked { .. } => self.see_forms(),
            Event::InputAnswered { question, answer, by, from, .. } => {
                self.see_forms();
                let Some(AskedForm { server, tool, message }) = self.forms.get(question).cloned() else { return };
                let (question, answer, from) = (question.clone(), answer.clone(), from.clone());
                let what = What::Input(Box::new(InputTrace { question, server, tool, message, answer, from }));
                self.messages.push(SentMessage { seq, at, by: by.clone(), what, taken_by: None });
            }
            Event::CallsAsked { .. } => {
                for question in self.state.call_questions() {
                    if let Question::Call { id, tool, arguments, rule, .. } = question {
                        self.asked.insert(id, AskedAbout { tool, arguments, rule });
                    }
                }
            }
            Event::CancelRequested { reason, by } => {
                let what = What::Cancel { reason: reason.clone() };
                self.messages.push(SentMessage { seq, at, by: by.clone(), what, taken_by: None });
            }
            Event::RunRepinned(moved) => {
                let what = What::Repin { pins: moved.pins.clone() };
                self.messages.push(SentMessage { seq, at, by: moved.by.clone(), what, taken_by: None });
            }
            Event::DefinitionPinned { .. }
            | Event::Chosen { .. }
            | Event::GroupFinished { .. }
            | Event::EventRaised { .. }
            | Event::ArtifactSet { .. }
            | Event::InDoubt { .. }
            | Event::GrantAsked { .. }
            | Event::CallsExpired { .. }
            | Event::LimitReached { .. }
            | Event::Ticked
            | Event::RunFinished(_)
            // Read part by part.
            | Event::StepCalled { .. }
            | Event::ElementCalled { .. } => {}
        }
    }

    /// Notes the forms that are open now: the next one opens when the one before it is answered.
    fn see_forms(&mut self) {
        for question in self.state.questions() {
            if let Question::Input { id, server, tool, message, .. } = question {
                self.forms.insert(id, AskedForm { server, tool, message });
            }
        }
    }

    fn went_on(&mut self, frame: FrameId) {
        let (used, artifacts) = (self.state.used(), Value::from(self.state.artifacts().clone()));
        if let Some(step) = self.at.get(&frame).and_then(|at| self.steps.get_mut(*at)) {
            (step.used, step.artifacts) = (Some(used), Some(artifacts));
        }
    }

    fn add(&mut self, entry: StepTrace) {
        self.at.insert(entry.frame, self.steps.len());
        self.steps.push(entry);
    }

    /// The entry that an event is about; its end moves to now.
    fn step(&mut self, frame: FrameId, now: Timestamp) -> Option<&mut StepTrace> {
        let step = self.steps.get_mut(*self.at.get(&frame)?)?;
        step.ended = now;
        Some(step)
    }

    fn step_named(&self, workflow: &Arc<str>, step: u32) -> Option<(Arc<str>, &Form)> {
        let step = self.programs.get(workflow)?.step(step)?;
        Some((step.name.clone(), &step.form))
    }

    fn entry(&self, line: FrameId, step: u32, name: &Arc<str>, recorded: &Recorded) -> StepTrace {
        let Place { workflow, inside } = self.lines.get(&line).cloned().unwrap_or_default();
        let around = inside.and_then(|frame| self.steps.get(*self.at.get(&frame)?));
        let (form, target) = self.step_named(&workflow, step).map_or(("", None), |(_, form)| form_and_target(form));
        StepTrace {
            inside,
            depth: around.map_or(0, |step| step.depth + 1),
            workflow,
            step: name.clone(),
            form,
            target,
            seq: recorded.seq,
            began: recorded.at,
            ended: recorded.at,
            ..StepTrace::default()
        }
    }

    fn say(&mut self, frame: FrameId, now: Timestamp, messages: &[Message]) {
        if let Some(step) = self.step(frame, now) {
            messages.iter().for_each(|message| step.conversation_mut().add(message.clone()));
        }
    }
}

impl StepTrace {
    fn judging(&mut self) -> &mut JudgeTrace {
        self.judge.get_or_insert_default()
    }

    /// The conversation under way: the step's, or its judge's once the step is done.
    fn conversation_mut(&mut self) -> &mut ConversationTrace {
        if self.done {
            self.judging().conversation.get_or_insert_default()
        } else {
            self.conversation.get_or_insert_default()
        }
    }

    /// Adds a call's receipt to those of the step or of its judge, in the order of the calls.
    fn add_receipt(&mut self, effect: u64, request: &Request, receipt: Option<&Receipt>) {
        let Some(receipt) = receipt.map(Receipt::without_record) else { return };
        let (receipts, effects) = if self.done || matches!(request, Request::Judge { .. }) {
            (&mut self.judge.get_or_insert_default().receipts, &mut self.order.judge)
        } else {
            (&mut self.receipts, &mut self.order.step)
        };
        let place = effects.partition_point(|before| *before <= effect);
        effects.insert(place, effect);
        receipts.insert(place, receipt);
    }

    fn replied(&mut self, effect: u64, request: &Request, reply: &EffectReply) {
        match reply {
            EffectReply::Invoke(reply) if matches!(request, Request::Augment { .. }) => {
                self.add_receipt(effect, request, reply.receipt.as_ref());
                let talk = self.conversation_mut();
                match augment::added(&reply.result) {
                    Ok(added) => talk.messages.extend(added.map(|text| Message::user(text.as_ref()))),
                    Err(failure) => talk.failures.push(failure),
                }
            }
            EffectReply::Invoke(reply) => {
                self.add_receipt(effect, request, reply.receipt.as_ref());
                match &reply.result {
                    Ok(success) => self.result = Some(success.data.clone()),
                    Err(failure) => self.failure = Some(failure.clone()),
                }
            }
            EffectReply::Judge(reply) => self.add_receipt(effect, request, reply.receipt.as_ref()),
            EffectReply::Open(Ok(opened)) => {
                // Another attempt is another conversation.
                *self.conversation_mut() = ConversationTrace {
                    system: opened.system.clone(),
                    sections: opened.sections.clone(),
                    models: opened.models.clone(),
                    tools: opened.tools.iter().map(|tool| tool.name.clone()).collect(),
                    ..ConversationTrace::default()
                };
            }
            EffectReply::Round(Ok(answer)) => {
                let talk = self.conversation_mut();
                let compacted = answer.compacted.clone();
                let summary = answer.summary.clone();
                let is_answer = summary.is_none();
                let (model, usage, warnings) = (answer.model.clone(), answer.usage, answer.warnings.clone());
                talk.rounds.push(Round { model, usage, compacted, summary, warnings });
                if is_answer {
                    talk.messages.push(answer.message.said());
                }
            }
            EffectReply::Open(Err(failure)) | EffectReply::Round(Err(failure)) => {
                self.conversation_mut().failures.push(failure.clone());
            }
            EffectReply::Tool(reply) => {
                self.conversation_mut().add(tool_message(request, &reply.result).said());
                self.add_receipt(effect, request, reply.receipt.as_ref());
            }
            EffectReply::Slept | EffectReply::Found => {}
        }
    }
}

impl ConversationTrace {
    /// Takes in what was said; answers of tools in the order of the calls, whichever came first.
    fn add(&mut self, answer: Message) {
        if answer.role != Role::Tool {
            return self.messages.push(answer);
        }
        let asked = self.messages.iter().rposition(|message| message.role == Role::Assistant).unwrap_or_default();
        let calls = self.messages.get(asked).map_or(&[][..], |message| &message.tool_calls);
        let place = |answer: &Message| calls.iter().position(|call| answer.tool_call_id.as_deref() == Some(&call.id));
        let behind = self.messages.iter().skip(asked + 1).filter(|before| place(before) > place(&answer)).count();
        self.messages.insert(self.messages.len() - behind, answer);
    }

    /// The last thing that the model said.
    #[must_use]
    pub fn answer(&self) -> Option<&str> {
        let said = self.messages.iter().rfind(|message| message.role == Role::Assistant)?;
        Some(&said.content)
    }
}

fn form_and_target(form: &Form) -> (&'static str, Option<Arc<str>>) {
    match form {
        Form::Invoke { invoke } => ("invoke", Some(invoke.operation.clone())),
        Form::Session { .. } => ("session", None),
        Form::Delegate { .. } => ("delegate", None),
        Form::Transform { .. } => ("transform", None),
        Form::Branch { .. } => ("branch", None),
        Form::Parallel { .. } => ("parallel", None),
        Form::Exit { .. } => ("exit", None),
        Form::Wait { wait } => ("wait", Some(wait.signal.clone())),
    }
}
