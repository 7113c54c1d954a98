//! The calls that an effect's cell has made, in their order: with their answers, the cell can be run again.

use super::{Ask, AskAnswer, MAX_QUESTIONS, Pending, State, apply::settled_as_failed, inputs::Inputs};
use crate::{
    call::{OpenedSession, Reply},
    effect::Catalogue,
    event::{Answer, AskedCall, AskedInnerCall, EffectId, Event, FrameId, InnerRequest, Request, Timestamp},
    failure::Failure,
};
use opcell_types::{ClockReadings, Digest, Effects, GivenInput, Value, text::printable};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Characters of a call that a person is shown.
const MAX_SHOWN_CHARS: usize = 300;

/// The calls of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InnerCalls {
    /// The seed of the cell's random numbers, in hexadecimal.
    pub seed: Digest,
    /// The calls, by their place.
    pub calls: Vec<InnerCall>,
    /// The answers of people about calls, in order of their places.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<InnerApproval>,
    /// Calls that have ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    ended: u32,
    /// When the cell is run again, if it was dropped because it waited for nothing but time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asleep: Option<Timestamp>,
    /// `true` while a person is asked about a call.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_asking: bool,
}

/// The answer of a person about a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InnerApproval {
    /// The call as it was shown.
    pub asked: AskedInnerCall,
    /// The arguments to make it with, where a person changed them (`Undefined` if not); or why it is not made.
    pub answer: Result<Changed, Failure>,
}

/// Arguments that a person changed; `Undefined` if they did not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Changed(#[serde(with = "crate::wire")] pub Value);

/// The way of a call of a program that rules of its session ask about.
#[derive(Debug)]
pub enum InnerQuestion {
    /// A person has approved it for the whole run.
    Approved,
    /// It is not made, and no one is asked.
    Refused(Failure),
    /// A person is asked by this event.
    Asks(Event),
}

/// A call that a cell makes, or has made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InnerCall {
    /// The request.
    pub request: InnerRequest,
    /// Its end; absent while it is in progress, and if the host died before it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<Reply<Value>>,
    /// Its place in the order in which the calls ended. Of several calls at once, a cell learns in this order.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub nth: u32,
    /// The input that its tool has asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) input: Option<Box<Inputs>>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(count: &u32) -> bool {
    *count == 0
}

impl InnerRequest {
    /// The call for people: `bash {"command":"ls"}`.
    #[must_use]
    pub fn shown(&self) -> String {
        printable(&format!("{} {}", self.tool, self.arguments.to_json()), MAX_SHOWN_CHARS)
    }
}

impl InnerCalls {
    /// The calls of a cell that has made none.
    #[must_use]
    pub fn new(seed: Digest) -> Self {
        Self { seed, calls: Vec::new(), approvals: Vec::new(), ended: 0, asleep: None, is_asking: false }
    }

    /// Takes what happened to a call of a cell that belongs to no run.
    pub fn record(&mut self, event: &Event) {
        match event {
            Event::InnerRequested { call, .. } => self.request(call),
            Event::InnerReplied { place, reply, .. } => self.reply(*place, reply),
            _ => true,
        };
    }

    /// The cell is run again when its first timer ends, or to poll for a task; `false` if it has neither.
    pub(super) fn sleep(&mut self, until: Timestamp) -> bool {
        let is_timer = |call: &InnerCall| call.request.until.is_some() || call.is_task();
        let has_timer = self.calls.iter().any(|call| call.is_in_progress() && is_timer(call));
        self.asleep = Some(until);
        has_timer
    }

    /// When the cell is run again, if it sleeps.
    #[must_use]
    pub fn asleep(&self) -> Option<Timestamp> {
        self.asleep
    }

    /// Takes a request; `false` if another place is next, and no call of this one waits to begin.
    pub(super) fn request(&mut self, request: &InnerRequest) -> bool {
        let Ok(place) = usize::try_from(request.place) else { return false };
        let calls = self.calls.len();
        match self.calls.get_mut(place) {
            Some(call) if call.is_waiting() && !request.waits && call.request.tool == request.tool => {
                // The clocks were read before it took its place.
                let clocks = std::mem::take(&mut call.request.clocks);
                call.request = InnerRequest { clocks, ..request.clone() };
                true
            }
            None if place == calls => {
                self.calls.push(InnerCall { request: request.clone(), reply: None, nth: 0, input: None });
                true
            }
            _ => false,
        }
    }

    /// Takes a reply; `false` if no call of this place waits for one.
    pub(super) fn reply(&mut self, place: u32, reply: &Reply<Value>) -> bool {
        let call = usize::try_from(place).ok().and_then(|place| self.calls.get_mut(place));
        let Some(call) = call.filter(|call| call.is_in_progress()) else { return false };
        call.end(&mut self.ended, reply.clone());
        self.asleep = None;
        true
    }

    /// Returns `true` if a person can be asked about the call of this place: the next one, or one that waits to begin.
    pub(super) fn may_ask(&self, place: u32) -> bool {
        let Ok(place) = usize::try_from(place) else { return false };
        self.calls.get(place).map_or(place == self.calls.len(), InnerCall::is_waiting)
    }

    /// The input that the tool of a call in progress asked for.
    pub(super) fn input_of(&mut self, place: u32) -> Option<&mut Option<Box<Inputs>>> {
        let call = usize::try_from(place).ok().and_then(|place| self.calls.get_mut(place));
        call.filter(|call| call.is_in_progress()).map(|call| &mut call.input)
    }

    /// The calls whose tools wait for a person's input, with their places.
    pub(super) fn open_inputs(&self) -> impl Iterator<Item = (u32, &Inputs)> {
        let inputs = self.calls.iter().filter_map(|call| Some((call.request.place, call.input.as_deref()?)));
        inputs.filter(|(_, inputs)| inputs.open().is_some())
    }

    /// A person is asked about a call.
    pub(super) fn ask(&mut self) {
        self.is_asking = true;
    }

    /// Takes the answer about a call; `asks` if others have none yet.
    pub(super) fn settle_question(&mut self, approval: InnerApproval, asks: bool) {
        self.is_asking = asks;
        self.approvals.push(approval);
    }

    /// The readings of the cell's clocks, as far as they are recorded.
    #[must_use]
    pub fn clocks(&self) -> ClockReadings {
        let mut all = ClockReadings::default();
        self.calls.iter().for_each(|call| all.extend(&call.request.clocks));
        all
    }

    /// The first call that has not ended, for people, before the name of the whole.
    pub(super) fn describe_open(&self) -> Option<String> {
        let open = self.calls.iter().find(|call| call.is_in_progress())?;
        Some(format!("call {} (`{}`) of ", u64::from(open.request.place) + 1, open.request.shown()))
    }

    /// Returns `true` if a call has not ended that must not be made twice.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.calls.iter().any(InnerCall::is_in_doubt)
    }

    /// Returns `true` if the cell meets the refusal anew when it is run again: the refused call is not in the record,
    /// or is the last one in it, and did nothing.
    fn meets_again(&self, refused: &Failure) -> bool {
        let capability = |failure: &Failure| failure.denial.as_ref().map(|denial| denial.capability.clone());
        let is_refused = |call: &InnerCall| match &call.reply {
            Some(Reply { result: Err(failure), .. }) => capability(failure) == capability(refused),
            _ => false,
        };
        let place = self.calls.iter().position(is_refused);
        place.is_none_or(|place| place + 1 == self.calls.len() && self.last_did_nothing() && self.last_ended_last())
    }

    /// Returns `true` if the last call was also the last one to end, so that the cell learned of no other after it.
    fn last_ended_last(&self) -> bool {
        self.calls.last().is_some_and(|last| self.calls.iter().all(|call| call.nth <= last.nth))
    }

    /// Returns `true` if the last call was refused before it touched anything.
    fn last_did_nothing(&self) -> bool {
        let Some(Reply { result: Err(failure), receipt }) = self.calls.last().and_then(|last| last.reply.as_ref())
        else {
            return false;
        };
        let has_touched = receipt.as_ref().is_some_and(|receipt| receipt.get("touched").is_some());
        failure.denial.is_some() && !has_touched
    }

    /// Forgets the last call if it was refused: it was granted since, and is made when the cell is run again.
    pub(super) fn forget_refused(&mut self) {
        if self.last_did_nothing() {
            self.calls.pop();
        }
    }

    /// Gives the calls that are in doubt the answer of a person.
    pub(super) fn settle(&mut self, answer: Answer) {
        for call in self.calls.iter_mut().filter(|call| call.is_in_doubt()) {
            let result = match answer {
                Answer::Retry => continue,
                Answer::Skip => Ok(Value::Null),
                Answer::Fail => Err(settled_as_failed()),
            };
            call.end(&mut self.ended, result.into());
        }
    }
}

impl InnerCall {
    /// Returns `true` if it may have begun, and has no end.
    fn is_in_progress(&self) -> bool {
        self.reply.is_none() && !self.request.waits
    }

    /// Returns `true` if it has its place, and waits for a person before it begins.
    fn is_waiting(&self) -> bool {
        self.reply.is_none() && self.request.waits
    }

    fn is_in_doubt(&self) -> bool {
        // One whose tool waits for a person has not gone on, and polling for a task may be repeated.
        let continues = self.input.as_ref().is_some_and(|inputs| inputs.open().is_some() || inputs.is_task());
        self.is_in_progress() && self.request.effects == Effects::Once && !continues
    }

    /// Returns `true` if it continues as a task of its server.
    fn is_task(&self) -> bool {
        self.input.as_ref().is_some_and(|inputs| inputs.is_task())
    }

    /// The answers with which the call continues, where its tool asked for input.
    #[must_use]
    pub fn given_input(&self) -> Option<Arc<GivenInput>> {
        self.input.as_ref()?.given()
    }

    /// The number of times that its tool has asked for input.
    #[must_use]
    pub fn input_rounds(&self) -> u32 {
        self.input.as_ref().map_or(0, |inputs| inputs.rounds)
    }

    /// When its tool asked for input, or became a task.
    #[must_use]
    pub fn asked_at(&self) -> Option<Timestamp> {
        self.input.as_ref().map(|inputs| inputs.at)
    }

    fn end(&mut self, ended: &mut u32, reply: Reply<Value>) {
        self.input = None;
        self.reply = Some(reply);
        self.nth = *ended;
        *ended = ended.saturating_add(1);
    }
}

impl State {
    /// The calls of an effect's cell, where they are journaled.
    #[must_use]
    pub fn inner_calls(&self, effect: EffectId) -> Option<&InnerCalls> {
        self.effects.get(&effect)?.inner.as_deref()
    }

    /// The session of a call that a model asked for, and the name of the tool.
    #[must_use]
    pub fn tool_called(&self, effect: EffectId) -> Option<(&OpenedSession, &str)> {
        let pending = self.effects.get(&effect)?;
        let Request::Tool { call, .. } = &pending.request else { return None };
        let talk = self.conversation(pending.frame)?;
        Some((talk.opened.as_deref()?, talk.call(call)?.name.as_str()))
    }

    /// Returns `None` if the cell of an effect that was refused something would meet the same refusal again, whatever
    /// is granted: its record has it. Otherwise `true` if the cell continues with its record.
    #[must_use]
    pub fn continues_after_refusal(&self, effect: EffectId, refused: &Failure) -> Option<bool> {
        match self.inner_calls(effect) {
            None => Some(false),
            Some(inner) => inner.meets_again(refused).then_some(true),
        }
    }

    /// Returns `true` if an effect whose driver is gone may have done what must not be done twice. If the calls of its
    /// cell are journaled, that is a call which has no answer; the cell itself is run again with the others.
    #[must_use]
    pub fn may_have_happened(&self, effect: EffectId, known: &impl Catalogue) -> bool {
        self.repeatable(effect, known) == Effects::Once && self.inner_calls(effect).is_none_or(InnerCalls::is_in_doubt)
    }
}

/// The questions about calls of programs.
impl State {
    /// Decides whether a person is asked about the next call of an effect's cell.
    #[must_use]
    pub fn question_about(&self, inner: AskedInnerCall) -> InnerQuestion {
        let refused = |reason: &str, message: String| InnerQuestion::Refused(Failure::host(reason, message));
        let found = self.effects.get(&inner.effect).and_then(|pending| {
            let Request::Tool { call, .. } = &pending.request else { return None };
            Some((pending.frame, call, self.conversation(pending.frame)?))
        });
        let no_one = || refused("approval-needed", format!("no one can be asked about this call of `{}`", inner.tool));
        let Some((frame, call, talk)) = found else { return no_one() };
        let id: Arc<str> = format!("{call}/{}", u64::from(inner.place) + 1).into();
        let request = inner.request(&id);
        let what = talk.what_is_run(&request);
        if self.approved.contains(&what) {
            return InnerQuestion::Approved;
        }
        let Some(asking) = talk.asking_about(&request) else { return no_one() };
        if talk.refused.contains(&what) {
            let message = "this call was refused before in this turn; it is not asked again".to_owned();
            return refused("approval-refused", message);
        }
        if talk.questions >= MAX_QUESTIONS {
            return refused("approval-refused", format!("this turn has asked {MAX_QUESTIONS} questions"));
        }
        let budget = self.budget_line();
        let asked = AskedCall {
            id: self.call_question_id(frame, talk, &request, (&asking.rule, budget.as_deref())),
            call: id,
            rule: asking.rule,
            budget,
            within_ms: asking.within_ms,
            then: asking.then,
            people: asking.people,
            inner: Some(Box::new(inner)),
        };
        InnerQuestion::Asks(Event::CallsAsked { frame, calls: vec![asked] })
    }

    /// The effects whose cells wait for a person, in the frame that asks a question.
    #[must_use]
    pub fn waiting_cells(&self, frame: FrameId) -> Vec<EffectId> {
        let asks = |pending: &Pending| pending.frame == frame && pending.is_asking();
        self.effects.iter().filter(|(_, pending)| asks(pending)).map(|(id, _)| *id).collect()
    }
}

impl Pending {
    /// Returns `true` if its cell waits for a person's answer about a call, or to a tool that it calls.
    pub(super) fn is_asking(&self) -> bool {
        self.inner.as_ref().is_some_and(|inner| inner.is_asking || inner.open_inputs().next().is_some())
    }
}

impl InnerApproval {
    /// Returns the answer of a question that has one.
    pub(super) fn of(ask: &Ask) -> Option<Self> {
        let asked = ask.of.inner.as_deref()?.clone();
        let answer = match ask.answer.as_ref()? {
            AskAnswer::Approved(arguments) => Ok(Changed(arguments.clone())),
            AskAnswer::Refused { by, reason } => {
                let by = by.as_deref().map(|by| format!(" ({by})")).unwrap_or_default();
                let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
                Err(Failure::host("approval-refused", format!("a person{by} refused this call{reason}")))
            }
            AskAnswer::Expired => {
                Err(Failure::host("approval-timeout", "there was no answer in time whether this call may be made"))
            }
        };
        Some(Self { asked, answer })
    }
}
