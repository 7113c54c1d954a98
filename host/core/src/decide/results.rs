//! Reading long results: a call that the core answers itself, from what the conversation keeps.

use super::At;
use crate::{
    conversation::{Message, ToolCallRequest},
    event::{Event, Request},
    results::READ_RESULT,
    state::Conversation,
};

/// A call of the tool that reads long results, done; `None` for any other tool, and where there is nothing to read.
pub(super) fn call(at: &At<'_>, talk: &Conversation, call: &ToolCallRequest) -> Option<Vec<Event>> {
    if call.name != READ_RESULT || talk.kept.results.is_empty() {
        return None;
    }
    let limit = talk.opened.as_ref()?.result_limit? as usize;
    if let Some(reached) = super::limits::forbids(at, &Request::tool(&call.id)) {
        return Some(vec![reached]);
    }
    let read = match call.not_an_object() {
        Some(why) => Err(format!("the arguments of `{READ_RESULT}` cannot be used: {why}")),
        None => talk.kept.results.read(&call.arguments, limit),
    };
    let (text, is_error) = match read {
        Ok(text) => (text, false),
        Err(why) => (format!("invalid-arguments: {why}"), true),
    };
    let message = Box::new(Message::tool(call.id.as_str(), text, is_error));
    Some(vec![Event::Interjected { frame: at.id, message, retry: false }])
}
