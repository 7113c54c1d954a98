//! The authorizer: a judge of the project that is asked before each transition of a pack.

use crate::{call::Verdict, event::RaisedBy, failure::Failure, id::FrameId, state::State};
use opcell_ir::{names::Outcome, routing::EventTable as _};
use opcell_types::Value;
use std::sync::Arc;

/// The outcome that lets a transition take place; every other one refuses it.
const ALLOW: &str = "allow";

/// The facts about a transition that its authorizer decides by.
pub(crate) fn arguments(state: &State, frame: FrameId, event: &str, context: &str, by: RaisedBy) -> Option<Value> {
    let (instance, step) = state.step_of(frame)?;
    let to = instance.program.target(&step.name, event).map_or(Value::Null, Value::from);
    Some(Value::object([
        ("workflow", Value::from(instance.program.name().clone())),
        ("from", Value::from(step.name.clone())),
        ("event", Value::from(event)),
        ("to", to),
        ("context", Value::from(context)),
        ("by", Value::from(by.as_str())),
        ("artifacts", Value::from(state.artifacts.clone())),
    ]))
}

/// Reads an answer of the authorizer.
///
/// # Errors
/// With the reason of the refusal. An authorizer that fails refuses.
pub(crate) fn allowed(answer: &Result<Verdict, Failure>) -> Result<(), Arc<str>> {
    match answer {
        Ok(Verdict { outcome: Outcome::Text(word) | Outcome::Keyword(word), rationale }) => match word.trim() {
            ALLOW => Ok(()),
            word => Err(rationale.clone().unwrap_or_else(|| format!("the authorizer answered `{word}`")).into()),
        },
        Err(failure) => Err(format!("{}: {}", failure.reason, failure.message).into()),
    }
}
