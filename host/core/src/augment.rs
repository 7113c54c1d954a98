//! Augmenters: operations of the project that each turn is shown to before its model is asked. They add to it, or refuse
//! it.

use crate::{
    call::Success,
    conversation::{Message, Messages, Role},
    failure::Failure,
    state::Conversation,
};
use opcell_ir::{ir::Step, resolve::noun};
use opcell_types::Value;
use std::sync::Arc;

/// The most bytes of a conversation that an augmenter is shown, newest messages first; the turn's own are always shown.
const MAX_SHOWN: usize = 256 << 10;

/// The most bytes that one augmenter adds to a turn.
const MAX_ADDED: usize = 64 << 10;

/// The arguments of an augmenter: the turn's messages, what was said before, and the system prompt.
pub(crate) fn arguments(talk: &Conversation, step: &Step) -> Value {
    let messages = &talk.record.messages;
    let mut room = MAX_SHOWN;
    let mut from = talk.turn_from;
    for message in messages.range(0..talk.turn_from).rev() {
        let Some(left) = room.checked_sub(message.content.len()) else { break };
        (room, from) = (left, from - 1);
    }
    let shown = |message: &Message| {
        Value::object([("role", Value::from(role(message.role))), ("content", Value::from(message.content.as_str()))])
    };
    let system = talk.opened.as_ref().map_or("", |opened| opened.system.as_str());
    Value::object([
        ("step", Value::from(step.name.clone())),
        ("turn", Value::from(i64::try_from(talk.record.turns.len() + 1).unwrap_or(i64::MAX))),
        ("system", Value::from(system)),
        ("earlier", Value::array(messages.range(from..talk.turn_from).map(shown))),
        ("omitted", Value::from(i64::try_from(from).unwrap_or(i64::MAX))),
        ("messages", Value::array(messages.since(talk.turn_from).map(shown))),
    ])
}

/// The text that an augmenter adds; `None` if it adds nothing.
///
/// # Errors
/// When it refuses the turn, fails, or returns something else.
pub(crate) fn added(result: &Result<Success, Failure>) -> Result<Option<Arc<str>>, Failure> {
    let refused = |message: String| Failure::engine("augmenter-failed", message);
    let data = match result {
        Ok(success) => &success.data,
        Err(failure) => return Err(failure.clone()),
    };
    if data.is_nullish() {
        return Ok(None);
    }
    let Some(object) = data.as_object() else {
        return Err(refused(format!("an augmenter returns an object with `add` or `refuse`, got {}", noun(data))));
    };
    if let Some(key) = object.keys().find(|key| !matches!(key.as_ref(), "add" | "refuse")) {
        return Err(refused(format!("an augmenter returns an object with `add` or `refuse`, got the key `{key}`")));
    }
    let text = |key: &str| match data.get(key).filter(|value| !value.is_nullish()) {
        None => Ok(None),
        Some(value) => match value.as_str() {
            Some(text) => Ok(Some(text)),
            None => Err(refused(format!("`{key}` of an augmenter must be a string, got {}", noun(value)))),
        },
    };
    if let Some(reason) = text("refuse")? {
        return Err(Failure::engine("turn-refused", format!("The turn was refused: {reason}")));
    }
    let added = text("add")?.filter(|text| !text.trim().is_empty());
    if let Some(text) = added.filter(|text| text.len() > MAX_ADDED) {
        return Err(refused(format!("an augmenter adds {} bytes; at most {MAX_ADDED} are sent", text.len())));
    }
    Ok(added.map(Arc::from))
}

/// Adds a text to the turn: to the user's message that is sent last, as models expect their messages to take turns.
pub(crate) fn add(messages: &mut Messages, added: Option<Arc<str>>) {
    let Some(added) = added else { return };
    match messages.last().filter(|message| message.role == Role::User) {
        Some(last) if last.content.is_empty() => messages.rewrite_last(&added),
        Some(last) => messages.rewrite_last(&format!("{}\n\n{added}", last.content)),
        None => messages.push(Message::user(added.as_ref())),
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use opcell_ir::ir::Form;

    fn answer(data: Value) -> Result<Option<Arc<str>>, Failure> {
        added(&Ok(Success { data, summary: None, details: None }))
    }

    #[test]
    fn an_augmenter_adds_a_text_refuses_the_turn_or_does_nothing() {
        assert_eq!(answer(Value::Null), Ok(None));
        assert_eq!(answer(Value::object::<&str>([])), Ok(None));
        assert_eq!(answer(Value::object([("add", Value::from(" "))])), Ok(None));
        assert_eq!(answer(Value::object([("add", Value::from("Be brief."))])), Ok(Some("Be brief.".into())));
        let both = Value::object([("add", Value::from("x")), ("refuse", Value::from("it names a person"))]);
        let refused = answer(both).unwrap_err();
        assert_eq!((refused.reason.as_ref(), refused.retriable), ("turn-refused", false));
        assert!(refused.message.ends_with("it names a person"));
    }

    #[test]
    fn anything_else_refuses_the_turn_too() {
        for data in [
            Value::from("Be brief."),
            Value::array([]),
            Value::object([("append", Value::from("x"))]),
            Value::object([("refuse", Value::from(true))]),
            Value::object([("add", Value::array([]))]),
            Value::object([("add", Value::from("x".repeat(MAX_ADDED + 1)))]),
        ] {
            assert_eq!(answer(data.clone()).unwrap_err().reason.as_ref(), "augmenter-failed", "{}", data.to_json());
        }
        let failure = Failure::engine("timeout", "late");
        assert_eq!(added(&Err(failure.clone())), Err(failure));
    }

    #[test]
    fn what_is_added_joins_the_message_of_the_user() {
        let mut messages = Messages::new();
        add(&mut messages, Some("one".into()));
        add(&mut messages, None);
        add(&mut messages, Some("two".into()));
        messages.push(Message::assistant("three"));
        add(&mut messages, Some("four".into()));
        let said: Vec<_> = messages.iter().map(|message| message.content.as_str()).collect();
        assert_eq!(said, ["one\n\ntwo", "three", "four"]);
    }

    #[test]
    fn an_augmenter_is_shown_the_turn_and_the_newest_of_what_came_before() {
        let mut talk = Conversation::default();
        for text in ["a", "b"] {
            talk.record.messages.push(Message::user(text.repeat(MAX_SHOWN / 2 + 1)));
        }
        talk.turn_from = 2;
        talk.record.messages.push(Message::user("c".repeat(MAX_SHOWN * 2)));
        let step = Step::new("talk", Form::Session { session: Box::default() });
        let shown = arguments(&talk, &step);
        let length = |key: &str| shown.get(key).and_then(Value::as_array).map(|list| list.len());
        assert_eq!((length("earlier"), length("messages")), (Some(1), Some(1)));
        assert_eq!(shown.get("omitted"), Some(&Value::from(1_i64)));
    }
}
