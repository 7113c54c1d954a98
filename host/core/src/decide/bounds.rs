//! Bounds on the cost of values: none may be so large or so deep that writing, keeping or reading it again could end
//! the process.
//!
//! Values share their parts, so a few steps can make a text of 2^40 bytes out of nothing. Every aggregate knows what it
//! would take to write it, so a look at each value that a decision makes is enough.

use super::{At, failure, step};
use crate::{
    call::{Reply, Success},
    event::{EffectReply, Event, Request, Settled},
    failure::Failure,
    outcome::{RunEnd, Status},
    state::State,
};
use opcell_ir::ir::Step;
use opcell_types::{
    Value,
    value::{MAX_BYTES, MAX_DEPTH},
};
use serde::{Deserialize, Serialize};

/// The limits on a run's values, as bytes of JSON. How deep they nest is not a setting: what is written must be read
/// back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct ValueLimits {
    /// Bytes of one value: what a step makes, a reply, an artifact, what a signal says.
    pub bytes: u64,
    /// Bytes of all values that the run's steps make.
    pub run_bytes: u64,
}

impl Default for ValueLimits {
    fn default() -> Self {
        Self { bytes: MAX_BYTES, run_bytes: 2 << 30 }
    }
}

impl ValueLimits {
    /// Returns `true` if these are the limits of a run that sets none.
    #[must_use]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The lower of each.
    #[must_use]
    pub fn tighter(&self, other: &Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), run_bytes: self.run_bytes.min(other.run_bytes) }
    }

    /// Why a value is not accepted, wherever it comes from.
    ///
    /// # Errors
    /// `value-too-deep` or `value-too-large`.
    pub fn check(&self, value: &Value) -> Result<(), Failure> {
        self.check_measures(value.measure().bytes(), value.measure().depth())
    }

    /// The same of what an operation returned.
    pub(super) fn accept(&self, success: &Success) -> Result<(), Failure> {
        self.check(&success.data)?;
        success.details.as_ref().map_or(Ok(()), |details| self.check(details))
    }

    #[inline]
    fn check_measures(&self, bytes: u64, depth: u32) -> Result<(), Failure> {
        if depth > MAX_DEPTH {
            let message = format!("a value nests {depth} levels deep; at most {MAX_DEPTH} are allowed");
            return Err(failure("value-too-deep", message));
        }
        if bytes > self.bytes {
            let message = format!("a value takes {bytes} bytes as JSON; at most {} are allowed", self.bytes);
            return Err(failure("value-too-large", message));
        }
        Ok(())
    }
}

/// A reply, or the failure of an effect that brings more than the run's limits allow.
#[must_use]
pub fn accepted(state: &State, request: &Request, reply: EffectReply) -> EffectReply {
    let limits = &state.value_limits;
    let refused = match &reply {
        EffectReply::Invoke(Reply { result: Ok(success), .. }) => limits.accept(success),
        EffectReply::Tool(Reply { result: Ok(value), .. }) => limits.check(value),
        EffectReply::Round(Ok(reply)) => {
            let calls = reply.message.tool_calls.iter().map(|call| limits.check(&call.arguments));
            let summary = reply.summary.as_ref().map_or(0, |summary| summary.text.len() as u64);
            let said = limits.check_measures((reply.message.content.len() as u64).max(summary), 0);
            calls.fold(said, Result::and)
        }
        _ => Ok(()),
    };
    match (refused, reply) {
        (Ok(()), reply) => reply,
        // What the call used and touched is known all the same.
        (Err(failure), EffectReply::Invoke(reply)) => {
            EffectReply::Invoke(Reply { result: Err(failure), receipt: reply.receipt })
        }
        (Err(failure), EffectReply::Tool(reply)) => {
            EffectReply::Tool(Reply { result: Err(failure), receipt: reply.receipt })
        }
        (Err(failure), _) => EffectReply::failed(request, failure),
    }
}

/// Returns the decided events, or the failure of the step that made too much.
pub(super) fn checked(at: &At<'_>, step: Option<&Step>, events: Vec<Event>) -> Vec<Event> {
    let Some(problem) = events.iter().find_map(|event| problem(at.state, event)) else { return events };
    match step {
        Some(step) => vec![step::failed(at, step, problem)],
        None => events.into_iter().map(|event| without_result(event, &problem)).collect(),
    }
}

/// Bytes of the values that an event makes.
pub(crate) fn made(event: &Event) -> u64 {
    let mut bytes = 0_u64;
    each_value(event, |value| bytes = bytes.saturating_add(value.measure().bytes()));
    bytes
}

/// Checks whether values that are about to be made are within the bounds.
#[inline]
pub(super) fn fit<const N: usize>(state: &State, values: [&Value; N]) -> bool {
    let mut all = state.made;
    values.into_iter().all(|value| {
        let measure = value.measure();
        all = all.saturating_add(measure.bytes());
        state.value_limits.check_measures(measure.bytes(), measure.depth()).is_ok()
    }) && all <= state.value_limits.run_bytes
}

fn problem(state: &State, event: &Event) -> Option<Failure> {
    let (mut largest, mut deepest, mut all) = (0, 0, state.made);
    each_value(event, |value| {
        let measure = value.measure();
        largest = largest.max(measure.bytes());
        deepest = deepest.max(measure.depth());
        all = all.saturating_add(measure.bytes());
    });
    if let Err(failure) = state.value_limits.check_measures(largest, deepest) {
        return Some(failure);
    }
    let most = state.value_limits.run_bytes;
    if all > most {
        let message = format!("the run's steps have made {all} bytes of values as JSON; at most {most} are allowed");
        return Some(failure("values-too-large", message));
    }
    None
}

#[inline]
fn each_value(event: &Event, mut look: impl FnMut(&Value)) {
    match event {
        Event::StepPrepared { inputs: value, .. }
        | Event::EachStarted { items: value, .. }
        | Event::ArtifactSet { value, .. }
        | Event::ElementFinished { result: Settled::Ok(value), .. }
        | Event::Requested {
            request: Request::Invoke { arguments: value } | Request::Judge { arguments: value },
            ..
        } => {
            look(value);
        }
        Event::StepFinished { result, .. } => {
            look(&result.value);
            look(&result.mapped);
        }
        Event::StepCalled { call, .. } => {
            look(&call.arguments);
            look(&Value::Undefined);
            look(&call.output);
        }
        Event::ElementCalled { call, .. } => {
            look(&call.arguments);
            look(call.element_output());
        }
        Event::InstanceStarted { input, original, .. } => {
            look(input);
            look(original);
        }
        Event::RunFinished(end) | Event::InstanceFinished { end, .. } => look(&end.result),
        _ => {}
    }
}

/// An end without the result that is too large.
fn without_result(event: Event, problem: &Failure) -> Event {
    let failed = |end: Box<RunEnd>| {
        Box::new(RunEnd {
            status: Status::Failed,
            reason: Some(problem.reason.clone()),
            message: Some(problem.message.clone()),
            result: Value::Null,
            ..*end
        })
    };
    match event {
        Event::RunFinished(end) => Event::RunFinished(failed(end)),
        Event::InstanceFinished { instance, end } => Event::InstanceFinished { instance, end: failed(end) },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        call::ModelReply,
        conversation::{Message, ToolCallRequest},
    };

    fn nested(levels: u32) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::array([inner]))
    }

    #[test]
    fn a_value_is_refused_by_its_bytes_as_json_and_by_its_depth() {
        let limits = ValueLimits { bytes: 10, ..ValueLimits::default() };
        assert_eq!(limits.check(&Value::from("x".repeat(8))), Ok(()));
        assert_eq!(limits.check(&Value::from("x".repeat(9))).unwrap_err().reason.as_ref(), "value-too-large");
        let limits = ValueLimits::default();
        assert_eq!(limits.check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(limits.check(&nested(MAX_DEPTH + 1)).unwrap_err().reason.as_ref(), "value-too-deep");
        assert_eq!(limits.check(&nested(60_000)).unwrap_err().reason.as_ref(), "value-too-deep");
    }

    #[test]
    fn shared_parts_count_wherever_they_are_written() {
        let doubled = (0..40).fold(Value::from("text"), |inner, _| Value::array([inner.clone(), inner]));
        let failure = ValueLimits::default().check(&doubled).unwrap_err();
        assert_eq!(failure.reason.as_ref(), "value-too-large");
    }

    #[test]
    fn a_reply_that_is_too_large_is_a_failure_of_its_effect_and_keeps_its_receipt() {
        let mut state = State::default();
        state.value_limits.bytes = 10;
        let request = Request::Invoke { arguments: Value::Null };
        let reply = |text: &str| {
            let success = Success { data: Value::from(text), summary: None, details: None };
            EffectReply::Invoke(Reply { result: Ok(success), receipt: Some(Value::from("receipt").into()) })
        };
        assert_eq!(accepted(&state, &request, reply("short")), reply("short"));
        let EffectReply::Invoke(refused) = accepted(&state, &request, reply("longer than ten")) else { unreachable!() };
        assert_eq!(refused.result.unwrap_err().reason.as_ref(), "value-too-large");
        assert!(refused.receipt.is_some());
    }

    #[test]
    fn an_answer_of_a_model_that_is_too_large_is_a_failure_of_its_round() {
        let mut state = State::default();
        state.value_limits.bytes = 10;
        let answer = |message: Message| {
            let reply = ModelReply { message, ..ModelReply::text("m", "") };
            EffectReply::Round(Ok(Box::new(reply)))
        };
        let reason = |message: Message| match accepted(&state, &Request::Round { model: 0 }, answer(message)) {
            EffectReply::Round(reply) => reply.err().map(|failure| failure.reason.as_ref().to_owned()),
            _ => unreachable!(),
        };
        assert_eq!(reason(Message::assistant("short")), None);
        assert_eq!(reason(Message::assistant("longer than ten")).as_deref(), Some("value-too-large"));
        let arguments = Value::from("longer than ten");
        let call = ToolCallRequest { id: "1".to_owned(), name: "t".to_owned(), arguments };
        let calling = Message { tool_calls: vec![call], ..Message::assistant("short") };
        assert_eq!(reason(calling).as_deref(), Some("value-too-large"));
    }
}
