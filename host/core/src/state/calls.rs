//! Calls of models that wait for a person.

use super::{Conversation, Frame, State};
use crate::{
    approval::{Asking, CallArguments, ToolApproval, arguments_key, asking},
    conversation::{Role, ToolCallRequest},
    event::{AskedCall, AskedInnerCall, FrameId, Timestamp},
    outcome::Question,
    wire,
};
use opcell_ir::arguments::fit;
use opcell_types::{
    Value,
    text::{cleaned, printable},
};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, sync::Arc};

/// Questions about calls of one answer that are asked at the same time.
pub(crate) const MAX_QUESTIONS_AT_ONCE: usize = 16;

/// Questions about calls of one turn; further calls that need one are refused.
pub(crate) const MAX_QUESTIONS: u32 = 100;

/// Bytes of a digest that name a question about a call.
const ID_BYTES: usize = 16;

/// Bytes that are shown of the model's last text.
const MAX_SAID_BYTES: usize = 2_000;

/// A call that a person is asked about.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Ask {
    pub of: AskedCall,
    /// When the time for an answer is over.
    pub due: Option<Timestamp>,
    /// When it was asked.
    pub at: Timestamp,
    /// The people who have approved it, while others must as well.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved_by: Vec<Arc<str>>,
    pub answer: Option<AskAnswer>,
}

/// The end of a question.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum AskAnswer {
    Approved(#[serde(with = "wire")] Value),
    Refused { by: Option<Arc<str>>, reason: Option<Arc<str>> },
    Expired,
}

/// The person in a name such as `anna (uid 1000)`: what the host knows, and not what the sender says.
pub(crate) fn person(by: &str) -> &str {
    by.rsplit_once(" (").and_then(|(_, known)| known.strip_suffix(')')).unwrap_or(by)
}

fn digest(parts: &[&str]) -> Arc<str> {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    let digest = hash.finalize();
    digest.as_bytes().iter().take(ID_BYTES).map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

impl Ask {
    /// The call that it is about.
    pub(crate) fn request<'a>(&self, talk: &'a Conversation) -> Option<Cow<'a, ToolCallRequest>> {
        match &self.of.inner {
            None => talk.call(&self.of.call).map(Cow::Borrowed),
            Some(inner) => Some(Cow::Owned(inner.request(&self.of.call))),
        }
    }
}

impl AskedInnerCall {
    /// The call as the model's own calls are, under a name that tells it from the others of its question.
    pub(crate) fn request(&self, id: &str) -> ToolCallRequest {
        ToolCallRequest { id: id.to_owned(), name: self.tool.as_ref().to_owned(), arguments: self.arguments.clone() }
    }
}

impl Conversation {
    /// The rules for a tool of the session, if there are any.
    pub(crate) fn approval_of(&self, tool: &str) -> Option<&ToolApproval> {
        self.opened.as_ref()?.approvals.iter().find(|approval| approval.tool == tool)
    }

    /// The arguments that a call is made with: those of a tool whose shape the document declares are made to fit it.
    pub(crate) fn arguments_of(&self, call: &ToolCallRequest) -> Value {
        let shape = self.opened.as_ref().and_then(|opened| opened.settings.tool_shapes.get(&call.name));
        match shape {
            Some(shape) => fit(&(&shape.parameters).into(), &(&call.arguments).into()).into(),
            None => call.arguments.clone(),
        }
    }

    /// Returns what is asked about a call, unless it can be made at once.
    pub(crate) fn asking_about(&self, call: &ToolCallRequest) -> Option<Asking> {
        let approval = self.approval_of(&call.name)?;
        // Most calls are of tools that no rule asks about, whatever their arguments.
        if !approval.may_ask() {
            return None;
        }
        let arguments = self.arguments_of(call);
        let fitted = ToolCallRequest { arguments, ..call.clone() };
        // What is not an object is refused by whoever performs calls: nothing would be run.
        (fitted.not_an_object().is_none()).then(|| asking(approval, &fitted.arguments))?
    }

    /// Names a call by what is run: the tool as it was when the session opened, and the arguments.
    pub(crate) fn what_is_run(&self, call: &ToolCallRequest) -> Arc<str> {
        let identity = self.approval_of(&call.name).map_or("", |approval| &approval.identity);
        digest(&["call", &call.name, identity, &arguments_key(&self.arguments_of(call))])
    }

    /// The call is made, or has its answer: nothing is asked about it any more.
    pub(crate) fn forget_question(&mut self, call: &str) {
        let is_of = |ask: &Ask| ask.of.inner.is_none() && ask.of.call.as_ref() == call;
        let Some(at) = self.asks.iter().position(is_of) else { return };
        let ask = self.asks.remove(at);
        if matches!(ask.answer, Some(AskAnswer::Refused { .. } | AskAnswer::Expired))
            && let Some(request) = self.call(call)
        {
            let refused = self.what_is_run(request);
            self.refused.push(refused);
        }
    }

    /// The last text of the model.
    fn said(&self) -> Option<&str> {
        let said = self.record.messages.iter().rev().find(|message| message.role == Role::Assistant)?;
        Some(said.content.as_str()).filter(|text| !text.trim().is_empty())
    }
}

impl State {
    /// The ID of the question about a call: a digest of all that is shown of it, and of the tool that would run.
    pub(crate) fn call_question_id(
        &self,
        frame: FrameId,
        talk: &Conversation,
        call: &ToolCallRequest,
        (rule, budget): (&str, Option<&str>),
    ) -> Arc<str> {
        let (visit, attempt) = self.visit_of(frame);
        let identity = talk.approval_of(&call.name).map_or("", |approval| &approval.identity);
        // Which answer of the model it belongs to; the conversation itself grows while its calls are made.
        let rounds = format!("{}/{}", talk.turn_from, talk.rounds);
        digest(&[
            "call",
            &self.run,
            &frame.to_string(),
            &visit.to_string(),
            &attempt.to_string(),
            &rounds,
            &self.path_of(frame),
            &call.id,
            &call.name,
            identity,
            &arguments_key(&talk.arguments_of(call)),
            talk.said().unwrap_or_default(),
            rule,
            budget.unwrap_or_default(),
        ])
    }

    /// The used part of the run's budgets, in a few words; `None` when it has none.
    pub(crate) fn budget_line(&self) -> Option<Arc<str>> {
        let (limits, used) = (&self.limits, &self.used);
        let parts: Vec<String> = [
            limits.tool_calls.map(|max| format!("{} of {max} tool calls", used.tool_calls)),
            limits.tokens.map(|max| format!("{} of {max} tokens", used.tokens)),
            limits.cost.map(|max| format!("{} of {max} USD", used.cost)),
            limits.total_visits.map(|max| format!("{} of {max} visits", used.visits)),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!parts.is_empty()).then(|| parts.join(", ").into())
    }

    /// Every call that waits for a person.
    pub(crate) fn call_questions(&self) -> impl Iterator<Item = Question> + '_ {
        self.frames.iter().flat_map(|(id, frame)| self.calls_of(*id, frame))
    }

    fn calls_of(&self, id: FrameId, frame: &Frame) -> Vec<Question> {
        if !frame.is_asking() {
            return Vec::new();
        }
        let Some(talk) = self.conversation(id) else { return Vec::new() };
        let step = self.frame_step_name(id);
        let path: Arc<str> = self.path_of(id).into();
        let (visit, _) = self.visit_of(id);
        let said = talk.said().map(|text| printable(&cleaned(text), MAX_SAID_BYTES));
        let open: Vec<&Ask> = talk.asks.iter().filter(|ask| ask.answer.is_none()).collect();
        let calls = talk.calls_by_id(open.iter().map(|ask| &*ask.of.call).collect());
        let of = |ask: &Ask| {
            let call = match &ask.of.inner {
                None => Cow::Borrowed(*calls.get(&*ask.of.call)?),
                Some(inner) => Cow::Owned(inner.request(&ask.of.call)),
            };
            let arguments = talk.arguments_of(&call);
            Some(Question::Call {
                id: ask.of.id.clone(),
                step: step.clone(),
                path: path.clone(),
                visit,
                tool: call.name.as_str().into(),
                effects: talk.approval_of(&call.name).map(|approval| approval.effects).unwrap_or_default(),
                shown: Box::new(CallArguments::of(&arguments)),
                arguments,
                said: said.clone(),
                rule: ask.of.rule.clone(),
                budget: ask.of.budget.clone(),
                due: ask.due,
                people: ask.of.people,
                approved_by: ask.approved_by.clone(),
            })
        };
        open.into_iter().filter_map(of).collect()
    }

    /// The frame that asks a question about a call, while it has no answer.
    #[must_use]
    pub fn asked_call(&self, question: &str) -> Option<FrameId> {
        let asks = |id: &FrameId| {
            self.conversation(*id)
                .is_some_and(|talk| talk.asks.iter().any(|ask| ask.answer.is_none() && *ask.of.id == *question))
        };
        self.frames.iter().filter(|(_, frame)| frame.is_asking()).map(|(id, _)| *id).find(asks)
    }

    /// Different people who must approve a call that is asked about.
    #[must_use]
    pub fn people_for(&self, question: &str) -> u32 {
        let talk = self.asked_call(question).and_then(|frame| self.conversation(frame));
        let ask = talk.and_then(|talk| talk.asks.iter().find(|ask| *ask.of.id == *question));
        ask.map_or(1, |ask| ask.of.people)
    }

    /// Why an answer to a question about a call cannot be taken.
    ///
    /// # Errors
    /// In words for whoever answers.
    pub fn check_call_answer(
        &self,
        question: &str,
        answer: &crate::event::CallAnswer,
        by: Option<&str>,
    ) -> Result<(), String> {
        let unknown = || "the run does not ask this (any more)".to_owned();
        let frame = self.asked_call(question).ok_or_else(unknown)?;
        let talk = self.conversation(frame).ok_or_else(unknown)?;
        let ask = talk.asks.iter().find(|ask| *ask.of.id == *question).ok_or_else(unknown)?;
        let crate::event::CallAnswer::Approve { arguments, run } = answer else { return Ok(()) };
        if ask.of.people > 1 {
            // One person must not decide on later calls for the others.
            if *run {
                let people = ask.of.people;
                return Err(format!(
                    "{people} people approve this call alone: it cannot be approved for the whole run"
                ));
            }
            let Some(by) = by else {
                return Err(format!("{} people must approve this call, and this answer names none", ask.of.people));
            };
            if ask.approved_by.iter().any(|other| person(other) == person(by)) {
                return Err(format!("{by} has approved this call; another person must as well"));
            }
        }
        if *arguments == Value::Undefined {
            return Ok(());
        }
        if *run {
            return Err("changed arguments are approved for this one call, and not for the whole run".to_owned());
        }
        if ask.of.people > 1 {
            return Err(format!("{} people approve what was shown: refuse it, or approve it as it is", ask.of.people));
        }
        if arguments.as_object().is_none() {
            return Err("the arguments must be one JSON object".to_owned());
        }
        self.value_limits.check(arguments).map_err(|failure| failure.message)?;
        let call = ask.request(talk).ok_or_else(unknown)?;
        let opened = talk.opened.as_ref();
        let in_programs = opened.and_then(|opened| opened.code.as_ref()).filter(|_| ask.of.inner.is_some());
        let tools = in_programs.map(|code| &code.tools).or(opened.map(|opened| &opened.tools));
        let tool = tools.and_then(|tools| tools.iter().find(|tool| tool.name == call.name));
        match tool {
            Some(tool) => crate::structured::check(&tool.parameters, arguments)
                .map_err(|problem| format!("the arguments do not match the schema of `{}`: {problem}", call.name)),
            None => Ok(()),
        }
    }

    /// Returns `true` if the time for an answer about a call is over.
    #[must_use]
    pub fn answers_are_overdue(&self, now: Timestamp) -> bool {
        self.answers_due.is_some_and(|due| due <= now)
    }

    /// Returns `true` if the time for an answer to this question about a call is over.
    #[must_use]
    pub fn call_is_overdue(&self, question: &str, now: Timestamp) -> bool {
        let talk = self.asked_call(question).and_then(|frame| self.conversation(frame));
        talk.is_some_and(|talk| talk.asks.iter().any(|ask| *ask.of.id == *question && ask.is_overdue(now)))
    }

    /// The frame whose time for answers is over.
    pub(crate) fn overdue_answers(&self) -> Option<FrameId> {
        if self.answers_due.is_none_or(|due| due > self.now) {
            return None;
        }
        let is_over = |id: &FrameId| {
            self.conversation(*id).is_some_and(|talk| talk.asks.iter().any(|ask| ask.is_overdue(self.now)))
        };
        self.frames.keys().copied().find(is_over)
    }
}

impl Ask {
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        self.answer.is_none() && self.due.is_some_and(|due| due <= now)
    }
}
