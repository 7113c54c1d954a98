//! Messages that a run takes.

use crate::event::{Answer, CallAnswer, EffectId, GrantScope};
use opcell_types::{InputAnswer, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Returns `true` if the data of a signal is an approval: `true`, or an object whose `approved` is `true`.
#[must_use]
pub fn approves(data: &Value) -> bool {
    data.get("approved") == Some(&Value::Bool(true)) || *data == Value::Bool(true)
}

/// A message to a run from outside; also the payload of an inbox message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Message {
    /// A signal.
    Signal {
        /// Its name.
        name: Arc<str>,
        /// The data.
        data: Value,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The key of a signal: a run takes the first of several with one key.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Arc<str>>,
        /// The only question that it answers: a run that does not ask it any more takes no notice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
        /// `true` if its sender may approve: an approval takes no other.
        #[serde(rename = "may-approve", default, skip_serializing_if = "std::ops::Not::not")]
        may_approve: bool,
    },
    /// Stop.
    Cancel {
        /// Text for people; recorded with the run.
        reason: Arc<str>,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The answer to a call that asks for what it was refused.
    Grant {
        /// The effect; absent: every one that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        /// For how long; absent: it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<GrantScope>,
        /// The only question that it answers: the same call may be refused something else next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// The answer about a call of a model.
    Call {
        /// ID of the question; a run that does not ask it any more takes no notice.
        question: Arc<str>,
        /// Approve or refuse.
        answer: CallAnswer,
        /// The sender of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The place of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// The answer to a form of a tool's request for input.
    Input {
        /// ID of the question; a run that does not ask it any more takes no notice.
        question: Arc<str>,
        /// The values, or that there are none.
        answer: InputAnswer,
        /// The sender of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// The place of the answer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        from: Option<Arc<str>>,
    },
    /// The answer to an effect in doubt.
    Answer {
        /// The effect; absent: every one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        /// Re-execute, skip or fail.
        answer: Answer,
        /// The sender.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
}
