//! Questions that a run asks people, and their answers.

use crate::{id::EffectId, wire};
use opcell_ir::ir::Then;
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The duration of a grant that a run asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GrantScope {
    /// For the denied call.
    Once,
    /// For every call of the plugin in this run, from now on.
    Run,
}

/// A call that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AskedCall {
    /// The model's name for the call.
    pub call: Arc<str>,
    /// ID of the question: a digest of all that is shown.
    pub id: Arc<str>,
    /// The rules that ask.
    pub rule: Arc<str>,
    /// The part of its budgets that the run had used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Arc<str>>,
    /// Milliseconds for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// The consequence of no answer.
    #[serde(default)]
    pub then: Then,
    /// Different people who must approve it.
    #[serde(default = "one")]
    pub people: u32,
    /// The call, if a program of the model makes it; absent for a call that the model itself asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner: Option<Box<AskedInnerCall>>,
}

fn one() -> u32 {
    1
}

/// A call of an effect's cell that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AskedInnerCall {
    /// The effect.
    pub effect: EffectId,
    /// The place of the call among those of the cell, from 0.
    pub place: u32,
    /// The name that the cell calls.
    pub tool: Arc<str>,
    /// The arguments.
    #[serde(with = "wire")]
    pub arguments: Value,
}

/// A person's answer for a call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum CallAnswer {
    /// It is made.
    Approve {
        /// Other arguments than the model's.
        #[serde(with = "wire", default = "wire::undefined", skip_serializing_if = "wire::is_undefined")]
        arguments: Value,
        /// The same call of the same tool needs no further answer in this run.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        run: bool,
    },
    /// It is not made, and the model is told so.
    Refuse {
        /// The reason that the model is told.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<Arc<str>>,
    },
}

impl CallAnswer {
    /// Approval of the call as it was shown, this once.
    #[must_use]
    pub fn approve() -> Self {
        Self::Approve { arguments: Value::Undefined, run: false }
    }
}

/// The answer to an effect in doubt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// Repeat the effect.
    Retry,
    /// Treat it as done, with the result null.
    Skip,
    /// Treat it as failed.
    Fail,
}
