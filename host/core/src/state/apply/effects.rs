//! Effects: wanted, ended, answered.

use super::{Change, missing};
use crate::call::{Reply, Success};
use crate::conversation::{Message, take_attachments};
use crate::dialogue;
use crate::event::{Answer, EffectId, EffectReply, FrameId, GrantScope, RaisedBy, Request};
use crate::failure::Failure;
use crate::receipt::Receipt;
use crate::state::questions::answered_grant;
use crate::state::{
    Conversation, ConversationStage, Granted, Judging, Pause, Pending, Permit, Phase, Raw, Stage, State, TurnRecord,
};
use crate::{augment, authorize};
use opcell_ir::ir::Form;
use opcell_types::Value;
use std::sync::Arc;

impl State {
    pub(super) fn request(&mut self, id: EffectId, frame: FrameId, request: &Request) -> Change {
        self.next_effect = self.next_effect.max(id.0 + 1);
        let mut share = None;
        match request {
            Request::Invoke { .. } => {
                self.charge(frame, |used| used.tool_calls += 1);
                self.work_mut(frame)?.stage = Stage::Calling(id);
            }
            Request::Find { .. } => self.work_mut(frame)?.stage = Stage::Calling(id),
            Request::Judge { .. } => self.step_mut(frame)?.phase = Phase::Judging(Judging::Calling(id)),
            Request::Open { .. } => {
                let mut talk = Box::new(Conversation { stage: ConversationStage::Busy(id), ..Conversation::default() });
                if let Some((instance, step)) = self.step_of(frame)
                    && dialogue::of(step).is_some()
                {
                    talk.record.messages = instance.log.clone();
                    talk.kept = instance.kept.clone();
                }
                match self.phase_mut(frame)? {
                    Some(Phase::Judging(judging)) => *judging = Judging::Llm(talk),
                    _ => self.work_mut(frame)?.stage = Stage::Talking(talk),
                }
            }
            Request::Authorize { .. } => match self.phase_mut(frame)? {
                Some(Phase::Judging(judging)) => *judging = Judging::Calling(id),
                _ => {
                    let talk = self.conversation_mut(frame)?;
                    (talk.permit, talk.stage) = (Some(Permit::Asked), ConversationStage::Busy(id));
                }
            },
            Request::Augment { .. } => {
                self.charge(frame, |used| used.tool_calls += 1);
                self.conversation_mut(frame)?.stage = ConversationStage::Busy(id);
            }
            Request::Round { .. } => {
                self.charge(frame, |used| used.rounds += 1);
                let talk = self.conversation_mut(frame)?;
                talk.rounds += 1;
                talk.stage = ConversationStage::Busy(id);
            }
            Request::Tool { call, .. } => {
                self.charge(frame, |used| used.tool_calls += 1);
                share = self.share(frame, call);
                let talk = self.conversation_mut(frame)?;
                talk.forget_question(call);
                talk.call_made(id);
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
        let pending = Pending {
            frame,
            request: request.clone(),
            at: self.now,
            in_doubt: false,
            asked: None,
            input: None,
            inner: None,
            share,
        };
        self.effects.insert(id, pending);
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn reply(&mut self, pending: &Pending, reply: &EffectReply) -> Change {
        let frame = pending.frame;
        match reply {
            EffectReply::Invoke(reply) if let Request::Augment { at } = pending.request => {
                self.count_cell(frame, reply.receipt.as_ref());
                let talk = self.conversation_mut(frame)?;
                talk.augmented = at + 1;
                talk.stage = match augment::added(&reply.result) {
                    Ok(added) => {
                        augment::add(&mut talk.record.messages, added);
                        ConversationStage::Turn
                    }
                    Err(failure) => ConversationStage::Failed(failure),
                };
            }
            EffectReply::Invoke(reply) => {
                self.count_cell(frame, reply.receipt.as_ref());
                let work = self.work_mut(frame)?;
                work.receipt = reply.receipt.as_ref().map(Receipt::without_record);
                work.stage = match &reply.result {
                    Ok(success) => Stage::Produced(Raw::Invoke(success.clone())),
                    Err(failure) => Stage::Failed(failure.clone()),
                };
            }
            EffectReply::Judge(reply)
                if let Request::Authorize { by, .. } = pending.request
                    && let Ok(talk) = self.conversation_mut(frame) =>
            {
                talk.permit = Some(match authorize::allowed(&reply.result) {
                    Ok(()) => Permit::Given,
                    Err(why) => Permit::Refused(why),
                });
                talk.stage = match by {
                    RaisedBy::Model => ConversationStage::Turn,
                    RaisedBy::Output | RaisedBy::Signal => ConversationStage::Waiting { came: true },
                };
                self.count_cell(frame, reply.receipt.as_ref());
            }
            EffectReply::Judge(reply) => {
                self.count_cell(frame, reply.receipt.as_ref());
                self.step_mut(frame)?.phase = Phase::Judging(Judging::Called(
                    reply.result.clone(),
                    reply.receipt.as_ref().map(Receipt::without_record),
                ));
            }
            EffectReply::Open(opened) => {
                let talk = self.conversation_mut(frame)?;
                match opened {
                    Ok(opened) => talk.opened(opened),
                    Err(failure) => talk.stage = ConversationStage::Failed(failure.clone()),
                }
            }
            EffectReply::Round(Ok(reply)) => {
                let usage = &reply.usage;
                self.charge(frame, |used| {
                    used.tokens += usage.input_tokens + usage.output_tokens;
                    used.cache_read_tokens += usage.cache_read_tokens;
                    used.cache_write_tokens += usage.cache_write_tokens;
                    used.cost += usage.cost.unwrap_or_default();
                });
                let talk = self.conversation_mut(frame)?;
                if let Some(lesson) = reply.lesson {
                    talk.learn(lesson);
                }
                if let Some(summary) = &reply.summary {
                    let messages = talk.record.messages.len();
                    talk.kept.summaries.add(summary, messages);
                    // The model was not asked yet.
                    talk.rounds = talk.rounds.saturating_sub(1);
                    talk.stage = ConversationStage::Turn;
                    self.refresh(frame);
                    return Ok(());
                }
                talk.logprobs.clone_from(&reply.logprobs);
                talk.guarded = false;
                talk.calls = reply.message.tool_calls.iter().cloned().collect();
                (talk.asked, talk.answers, talk.asks) = (0, Vec::new(), Vec::new());
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
                // Only some tools run a cell.
                self.count_cell(frame, reply.receipt.as_ref());
                let inner = reply.receipt.as_ref().map_or(0, Receipt::inner_calls);
                self.charge(frame, |used| used.tool_calls = used.tool_calls.saturating_add(inner));
                let newest = EffectId(self.next_effect);
                let talk = self.conversation_mut(frame)?;
                talk.turn_calls = talk.turn_calls.saturating_add(usize::try_from(inner).unwrap_or(usize::MAX));
                let mut answer = tool_message(&pending.request, &reply.result);
                talk.shorten(&mut answer);
                talk.call_answered(answer, newest);
            }
            EffectReply::Found => self.work_mut(frame)?.stage = Stage::Start,
            EffectReply::Slept => match self.phase_mut(frame)? {
                Some(Phase::Each(each)) => each.pause = Pause::Over,
                _ => {
                    let work = self.work_mut(frame)?;
                    work.stage = match work.stage {
                        Stage::Waiting { .. } => {
                            Stage::Failed(Failure::engine("timeout", "The signal did not arrive in time"))
                        }
                        _ => Stage::Start,
                    };
                }
            },
        }
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn count_cell(&mut self, frame: FrameId, receipt: Option<&Receipt>) {
        if let Some(started) = receipt.and_then(Receipt::used_by_started_run) {
            self.charge(frame, |used| used.add(&started));
        }
        let Some(calls) = receipt.and_then(Receipt::host_calls) else { return };
        self.charge(frame, |used| {
            used.cells += 1;
            used.host_calls += calls;
        });
    }

    pub(super) fn guard(&mut self, frame: FrameId, text: &str) -> Change {
        let talk = self.conversation_mut(frame)?;
        talk.record.messages.rewrite_last(text);
        // What was said is no longer what these tokens spell.
        (talk.guarded, talk.logprobs) = (true, None);
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn finish_turn(&mut self, frame: FrameId, text: &Arc<str>, structured: Option<&Value>) -> Change {
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
        talk.record.turns.push(TurnRecord { name, text: text.clone(), from, to, logprobs: talk.logprobs.take() });
        talk.record.structured = structured.cloned();
        talk.stage = ConversationStage::Idle;
        self.refresh(frame);
        Ok(())
    }

    pub(super) fn answer_grant(&mut self, id: EffectId, grant: Option<GrantScope>) -> Change {
        let pending = self.pending_mut(id)?;
        let (frame, Some(asked)) = (pending.frame, pending.asked.take()) else {
            return missing(format!("effect {id} as one that asks"));
        };
        if let Some(denial) = asked.reply.denial() {
            self.answered.insert(answered_grant(&denial.capability));
        }
        let pending = self.pending_mut(id)?;
        let Some(scope) = grant else {
            let Some(pending) = self.effects.remove(&id) else { return missing(format!("effect {id}")) };
            return self.reply(&pending, &asked.reply);
        };
        pending.in_doubt = false;
        if let Some(inner) = &mut pending.inner {
            inner.forget_refused();
        }
        if let Some(denial) = asked.reply.denial() {
            let effect = (scope == GrantScope::Once).then_some(id);
            self.granted.push(Granted { remedy: denial.remedy.clone(), effect });
        }
        // What the refused call used has been used.
        let receipt = match &asked.reply {
            EffectReply::Invoke(reply) => reply.receipt.as_ref(),
            EffectReply::Judge(reply) => reply.receipt.as_ref(),
            _ => None,
        };
        self.count_cell(frame, receipt);
        Ok(())
    }

    pub(super) fn answer(&mut self, id: EffectId, answer: Answer) -> Change {
        let pending = self.pending_mut(id)?;
        if answer == Answer::Retry {
            pending.in_doubt = false;
            return Ok(());
        }
        // The call that its cell was making is in doubt, and the cell continues with the answer.
        if let Some(inner) = pending.inner.as_mut().filter(|inner| inner.is_in_doubt()) {
            inner.settle(answer);
            pending.in_doubt = false;
            return Ok(());
        }
        let Some(pending) = self.effects.remove(&id) else { return missing(format!("effect {id}")) };
        let reply = settled(&pending.request, answer);
        self.reply(&pending, &reply)
    }
}

/// The reply that a person gives an effect in doubt which is not repeated.
pub(crate) fn settled(request: &Request, answer: Answer) -> EffectReply {
    match (request, answer) {
        (Request::Invoke { .. }, Answer::Skip) => EffectReply::Invoke(Reply {
            result: Ok(Success { data: Value::Null, summary: None, details: None }),
            receipt: None,
        }),
        (Request::Tool { .. }, Answer::Skip) => EffectReply::Tool(Reply { result: Ok(Value::Null), receipt: None }),
        // A judge that decided nothing cannot be skipped: no one would know where to go.
        (request, _) => EffectReply::failed(request, settled_as_failed()),
    }
}

/// The failure of something that a person settled as failed.
pub(in crate::state) fn settled_as_failed() -> Failure {
    let message = "The host stopped while this was in progress, and it was settled as failed";
    Failure::engine("interrupted", message)
}

/// The answer to a call for its model, which learns what was run where a person changed that.
pub(crate) fn tool_message(request: &Request, result: &Result<Value, Failure>) -> Message {
    let (call, changed) = match request {
        Request::Tool { call, arguments, .. } => (call.as_ref(), (!arguments.is_nullish()).then_some(arguments)),
        _ => ("", None),
    };
    let mut attachments = Vec::new();
    let (content, is_error) = match result {
        Ok(Value::String(text)) => (text.as_ref().to_owned(), false),
        Ok(value) => match take_attachments(value) {
            Some((rest, taken)) => {
                attachments = taken;
                (rest.to_json(), false)
            }
            None => (value.to_json(), false),
        },
        Err(failure) => (format!("{}: {}", failure.reason, failure.message), true),
    };
    let content = match changed {
        Some(arguments) => {
            format!("[A person changed the arguments of this call. It ran with: {}]\n{content}", arguments.to_json())
        }
        None => content,
    };
    Message { attachments, ..Message::tool(call, content, is_error) }
}
