//! Calls of cells that have not ended.

use super::StepTrace;
use crate::{
    event::{EffectId, InnerRequest},
    failure::Failure,
};
use opcell_types::{Effects, Value};
use serde::Serialize;
use std::sync::Arc;

/// A call that the cell of an effect made.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct InnerCallTrace {
    /// The effect.
    pub effect: EffectId,
    /// The place of the call among those of the cell, from 0.
    pub place: u32,
    /// The name that the cell called.
    pub tool: Arc<str>,
    /// The arguments.
    pub arguments: Value,
    /// The effect of repeating it.
    pub effects: Effects,
    /// The result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Value>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl InnerCallTrace {
    pub(super) fn of(effect: EffectId, call: &InnerRequest) -> Self {
        Self {
            effect,
            place: call.place,
            tool: call.tool.clone(),
            arguments: call.arguments.clone(),
            effects: call.effects,
            result: None,
            failure: None,
        }
    }
}

impl StepTrace {
    /// A call is requested; one that waited for a person a second time, when it begins.
    pub(super) fn inner_call_requested(&mut self, effect: EffectId, call: &InnerRequest) {
        let requested = InnerCallTrace::of(effect, call);
        let mut calls = self.inner_calls.iter_mut();
        match calls.find(|known| known.effect == effect && known.place == call.place) {
            Some(known) => *known = requested,
            None => self.inner_calls.push(requested),
        }
    }

    pub(super) fn inner_call_ended(&mut self, effect: EffectId, place: u32, result: &Result<Value, Failure>) {
        let mut calls = self.inner_calls.iter_mut();
        let Some(call) = calls.find(|call| call.effect == effect && call.place == place) else { return };
        match result {
            Ok(value) => call.result = Some(value.clone()),
            Err(failure) => call.failure = Some(failure.clone()),
        }
    }
}
