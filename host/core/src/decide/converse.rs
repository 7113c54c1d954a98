//! States that speak (PromptPack): a session step whose judge is an event.
//!
//! The conversation belongs to the workflow and continues from state to state. A state speaks, and then waits for the
//! user, unless the model raised an event: its transition tool only schedules it, and the end of the round follows it.
//! A state that is entered by an event speaks at once when it is the agent's turn or the end, and waits for the user
//! otherwise.

use super::{At, session, step};
use crate::{
    conversation::{Message, Role, ToolCallRequest},
    dialogue::{self, MESSAGE_SIGNAL},
    event::{Event, RaisedBy, Request},
    failure::Failure,
    offer::{ARTIFACT_TOOL, SKILL_TOOL, TRANSITION_TOOL},
    state::{Conversation, Permit, Raw},
};
use opcell_ir::{
    arguments::fit,
    ir::{ArtifactMode, Control, Form, Session, Step},
    routing::EventTable as _,
};
use opcell_types::{
    Value,
    value::{Map, Object},
};
use std::sync::Arc;

/// Returns `true` if the model raised an event and its round is over.
pub(super) fn is_committed(talk: &Conversation) -> bool {
    talk.record.raised.is_some() && talk.calls.is_empty()
}

/// The model's last words in a turn that ends with an event rather than an answer.
pub(super) fn last_words(talk: &Conversation) -> Arc<str> {
    let spoken = talk.record.messages.iter().rev().find(|message| message.role == Role::Assistant);
    spoken.map_or("", |message| message.content.as_str()).into()
}

/// Nothing is in flight: the state ends, speaks, or waits.
pub(super) fn idle(at: &At<'_>, step: &Step, session: &Session, talk: &Conversation, control: Control) -> Vec<Event> {
    let has_spoken = !talk.record.turns.is_empty();
    if talk.record.raised.is_some() || (has_spoken && step.terminal) {
        let raw = Raw::Session(Box::new(talk.record.clone()));
        return vec![step::finished(at, step, &raw, Value::Undefined, None)];
    }
    if has_spoken {
        return listen(at, talk);
    }
    let speak = |messages| vec![Event::TurnStarted { frame: at.id, group: None, messages }];
    let was_led_here = at.instance.memory.iter().map(|memory| memory.visits).sum::<u32>() > 1;
    let speaks_at_once = step.terminal || control == Control::Agent;
    if was_led_here && !speaks_at_once {
        return listen(at, talk);
    }
    if !at.instance.log.is_empty() {
        return speak(Vec::new());
    }
    match session::messages(&session.contributions, &at.view(None)) {
        // No one has said anything yet: what led here is what there is to speak about.
        Ok(messages) if messages.iter().all(|message| message.content.is_empty()) && was_led_here => {
            speak(vec![Message::user(at.instance.brief.as_ref())])
        }
        Ok(messages) if messages.iter().all(|message| message.content.is_empty()) => listen(at, talk),
        Ok(messages) => speak(messages),
        Err(failure) => vec![step::failed(at, step, failure)],
    }
}

/// Takes what the user said or the host raised; waits when there is neither.
pub(super) fn listen(at: &At<'_>, talk: &Conversation) -> Vec<Event> {
    let Some(signal) = at.state.waiting_signal(at.id) else {
        return vec![Event::WaitStarted { frame: at.id, question: None }];
    };
    let taken = Event::SignalTaken { frame: at.id, signal: signal.id };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_json(), str::to_owned);
    if signal.name.as_ref() == MESSAGE_SIGNAL {
        let messages = vec![Message::user(text(&signal.data))];
        return vec![taken, Event::TurnStarted { frame: at.id, group: None, messages }];
    }
    let context: Arc<str> = signal.data.get("context").map(text).unwrap_or_default().into();
    match permit(at, talk, &signal.name, &context, RaisedBy::Signal) {
        Err(asked) => return asked,
        // The state keeps waiting for something else.
        Ok(Some(_)) => return vec![taken, Event::WaitStarted { frame: at.id, question: None }],
        Ok(None) => {}
    }
    let raised = Event::EventRaised {
        frame: at.id,
        event: signal.name.clone(),
        context,
        extras: Value::Object(Object::default()),
    };
    vec![taken, raised]
}

/// The reason why a transition is refused, or `None` if it may take place.
///
/// # Errors
/// With the events that ask first, none if they have asked.
fn permit(
    at: &At<'_>,
    talk: &Conversation,
    event: &Arc<str>,
    context: &Arc<str>,
    by: RaisedBy,
) -> Result<Option<Arc<str>>, Vec<Event>> {
    match &talk.permit {
        _ if at.state.authorizer.is_none() => Ok(None),
        None => Err(vec![at.request(Request::Authorize { event: event.clone(), context: context.clone(), by })]),
        Some(Permit::Asked) => Err(Vec::new()),
        Some(Permit::Given) => Ok(None),
        Some(Permit::Refused(why)) => Ok(Some(why.clone())),
    }
}

/// The effect of one of the engine's own tools: an event, if it makes one, and the answer to the model.
type OwnTool = fn(&At<'_>, &Step, &Value) -> Result<(Option<Event>, Value), Failure>;

/// Returns the event that a call of the transition tool raises, with its context, if it can.
fn raised(at: &At<'_>, step: &Step, arguments: &Value) -> Result<(Arc<str>, Arc<str>), Failure> {
    let (event, context) = (text_of(arguments, "event")?, text_of(arguments, "context")?);
    one_of("event", &event, &at.instance.program.events(&step.name))?;
    Ok((event, context))
}

/// A call of one of the engine's own tools, done; `None` for any other tool.
pub(super) fn call(at: &At<'_>, talk: &Conversation, call: &ToolCallRequest) -> Option<Vec<Event>> {
    let (_, step) = at.state.step_of(at.id)?;
    let offered = talk.opened.as_ref()?.tools.iter().find(|tool| tool.name == call.name)?;
    dialogue::of(step)?;
    let tool: OwnTool = match call.name.as_str() {
        TRANSITION_TOOL => raise,
        ARTIFACT_TOOL => set_artifact,
        SKILL_TOOL => read_skill,
        _ => return None,
    };
    if let Some(reached) = super::limits::forbids(at, &Request::tool(&call.id)) {
        return Some(vec![reached]);
    }
    let done = match call.not_an_object() {
        Some(why) => {
            Err(super::failure("invalid-arguments", format!("the arguments of `{}` cannot be used: {why}", call.name)))
        }
        None => {
            let arguments: Value = fit(&(&offered.parameters).into(), &(&call.arguments).into()).into();
            let moves = (call.name == TRANSITION_TOOL).then(|| raised(at, step, &arguments).ok()).flatten();
            let refused = moves.map(|(event, context)| permit(at, talk, &event, &context, RaisedBy::Model));
            match refused.transpose() {
                Err(asked) => return Some(asked),
                Ok(Some(Some(why))) => {
                    Err(super::failure("transition-refused", format!("this transition is not allowed: {why}")))
                }
                Ok(_) => tool(at, step, &arguments),
            }
        }
    };
    let (event, text, is_error) = match done {
        Ok((event, result)) => (event, result.to_json(), false),
        Err(failure) => (None, format!("{}: {}", failure.reason, failure.message), true),
    };
    let reported = Event::Interjected {
        frame: at.id,
        message: Box::new(Message::tool(call.id.as_str(), text, is_error)),
        retry: false,
    };
    Some(event.into_iter().chain([reported]).collect())
}

fn text_of(arguments: &Value, key: &str) -> Result<Arc<str>, Failure> {
    let given = arguments.get(key).filter(|value| !value.is_nullish());
    given.and_then(Value::as_str).map(Arc::from).ok_or_else(|| {
        let message = match given {
            None => format!("`{key}` is missing: it is a required text"),
            Some(other) => format!("`{key}` must be a string, got {}", other.to_json()),
        };
        super::failure("invalid-arguments", message)
    })
}

fn one_of(key: &str, word: &str, words: &[&str]) -> Result<(), Failure> {
    if words.contains(&word) {
        return Ok(());
    }
    let message = format!("`{key}` must be one of {}, got `{word}`", words.join(", "));
    Err(super::failure("invalid-arguments", message))
}

/// Schedules an event of the state. The target is the state's own; a limit of the target may still lead elsewhere.
fn raise(at: &At<'_>, step: &Step, arguments: &Value) -> Result<(Option<Event>, Value), Failure> {
    let program = &at.instance.program;
    let (event, context) = raised(at, step, arguments)?;
    let target = program.target(&step.name, &event).unwrap_or_default();
    let reported = Value::object([
        ("status", Value::from("transition_scheduled")),
        ("event", Value::from(event.clone())),
        ("target_state", Value::from(target)),
    ]);
    let mut extras: Map = arguments.as_object().map(Object::to_map).unwrap_or_default();
    extras.retain(|key, _| !matches!(key.as_ref(), "event" | "context"));
    Ok((Some(Event::EventRaised { frame: at.id, event, context, extras: Value::from(extras) }), reported))
}

/// Sets an artifact at once.
fn set_artifact(at: &At<'_>, _step: &Step, arguments: &Value) -> Result<(Option<Event>, Value), Failure> {
    let declared = &at.instance.program.ir().artifacts;
    let (name, text) = (text_of(arguments, "name")?, text_of(arguments, "value")?);
    let names: Vec<&str> = declared.keys().map(AsRef::as_ref).collect();
    one_of("name", &name, &names)?;
    let before = at.state.artifacts.get(name.as_ref()).and_then(Value::as_str).unwrap_or("");
    let value = match declared.get(&name).map(|artifact| artifact.mode) {
        Some(ArtifactMode::Append) => Value::from(format!("{before}{text}")),
        _ => Value::from(text),
    };
    let reported = Value::object([("status", Value::from("artifact_set")), ("artifact", Value::from(name.clone()))]);
    Ok((Some(Event::ArtifactSet { frame: at.id, name, value }), reported))
}

/// Returns the instructions of a skill.
fn read_skill(_at: &At<'_>, step: &Step, arguments: &Value) -> Result<(Option<Event>, Value), Failure> {
    let Form::Session { session } = &step.form else {
        return Err(super::failure("unknown-skill", "there are no skills here"));
    };
    let name = text_of(arguments, "name")?;
    let names: Vec<&str> = session.own_skills.keys().map(String::as_str).collect();
    one_of("name", &name, &names)?;
    let instructions = session.own_skills.get(name.as_ref()).map_or("", |skill| &skill.instructions);
    let reported = [("instructions", Value::from(instructions)), ("added_tools", Value::array([]))];
    Ok((None, Value::object(reported)))
}
