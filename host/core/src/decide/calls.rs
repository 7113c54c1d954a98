//! Calls of tools: made at once, or when a person has approved what was shown.

use super::{
    At, failure, limits,
    session::{Turn, refused},
};
use crate::{
    conversation::ToolCallRequest,
    event::{AskedCall, Event, Request},
    state::{AskAnswer, Conversation, MAX_QUESTIONS, MAX_QUESTIONS_AT_ONCE},
};
use opcell_ir::ir::Then;
use opcell_types::Value;
use std::{collections::HashSet, sync::Arc};

/// Decides on a call that the session has a tool for.
pub(super) fn next<'a>(at: &At<'_>, talk: &Conversation, call: &ToolCallRequest) -> Turn<'a> {
    let request = |question: Option<Arc<str>>, arguments: Value| {
        at.request(Request::Tool { call: call.id.as_str().into(), question, arguments })
    };
    let is_approved = || at.state.approved.contains(&talk.what_is_run(call));
    let Some(asking) = talk.asking_about(call).filter(|_| !is_approved()) else {
        return Turn::Goes(vec![request(None, Value::Undefined)]);
    };
    let Some(ask) = talk.ask_of(&call.id) else { return ask(at, talk, call) };
    let budget = ask.of.budget.as_deref();
    // What is done is what was shown.
    let shown = at.state.call_question_id(at.id, talk, call, (&ask.of.rule, budget));
    match &ask.answer {
        Some(AskAnswer::Approved(arguments)) if shown == ask.of.id => {
            Turn::Goes(vec![request(Some(ask.of.id.clone()), arguments.clone())])
        }
        Some(AskAnswer::Refused { by, reason }) => {
            let by = by.as_deref().map(|by| format!(" ({by})")).unwrap_or_default();
            let reason = reason.as_deref().map(|reason| format!(": {reason}")).unwrap_or_default();
            Turn::Goes(vec![refused(at, call, format!("refused: a person{by} refused this call{reason}"))])
        }
        Some(AskAnswer::Expired) if asking.then == Then::Fail => {
            let message = format!("there was no answer in time whether `{}` may be called", call.name);
            Turn::Failed(failure("approval-timeout", message))
        }
        Some(AskAnswer::Expired) => {
            let text = "refused: there was no answer in time whether this call may be made".to_owned();
            Turn::Goes(vec![refused(at, call, text)])
        }
        // Not what was shown.
        Some(AskAnswer::Approved(_)) => self::ask(at, talk, call),
        None => Turn::Goes(Vec::new()),
    }
}

/// Asks about this call, and about those after it that need an answer too.
fn ask<'a>(at: &At<'_>, talk: &Conversation, call: &ToolCallRequest) -> Turn<'a> {
    if talk.refused.contains(&talk.what_is_run(call)) {
        let text = "refused: this call was refused before in this turn; it is not asked again".to_owned();
        return Turn::Goes(vec![refused(at, call, text)]);
    }
    if talk.questions >= MAX_QUESTIONS {
        let text = format!("refused: this turn has asked {MAX_QUESTIONS} questions; answer with what you have");
        return Turn::Goes(vec![refused(at, call, text)]);
    }
    // No one is asked about a call that no budget is left for.
    if let Some(reached) = limits::forbids(at, &Request::tool(&call.id)) {
        return Turn::Goes(vec![reached]);
    }
    let budget = at.state.budget_line();
    let tools = talk.opened.as_ref().map_or(&[][..], |opened| &opened.tools);
    // Calls are told apart by their ids; of two with one id, the second waits until the first has its answer, also when
    // the first is under way: what a person would be shown is the first.
    let mut ids: HashSet<&str> = talk.calls.iter().take(talk.asked).map(|call| call.id.as_str()).collect();
    let mut calls = Vec::new();
    for call in talk.calls.iter().skip(talk.asked) {
        let room = MAX_QUESTIONS_AT_ONCE.min((MAX_QUESTIONS - talk.questions.min(MAX_QUESTIONS)) as usize);
        if calls.len() >= room {
            break;
        }
        if !ids.insert(call.id.as_str()) || !tools.iter().any(|tool| tool.name == call.name) {
            continue;
        }
        let what = talk.what_is_run(call);
        if at.state.approved.contains(&what) || talk.refused.contains(&what) {
            continue;
        }
        let Some(asking) = talk.asking_about(call) else { continue };
        let id = at.state.call_question_id(at.id, talk, call, (&asking.rule, budget.as_deref()));
        calls.push(AskedCall {
            call: call.id.as_str().into(),
            id,
            rule: asking.rule,
            budget: budget.clone(),
            within_ms: asking.within_ms,
            then: asking.then,
            people: asking.people,
            inner: None,
        });
    }
    Turn::Goes(vec![Event::CallsAsked { frame: at.id, calls }])
}
