//! Messages that a run takes.

use crate::event::{Answer, EffectId, GrantScope};
use opcell_types::Value;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Whether the data of a signal approves what it answers: `true`, or an object whose `approved` is `true`.
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
        /// What it says.
        data: Value,
        /// Who sends it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
        /// Of several signals with one key, a run takes the first.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<Arc<str>>,
        /// The only question that it answers: a run that does not ask it any more takes no notice.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
    },
    /// Stop.
    Cancel {
        /// Text for people; recorded with the run.
        reason: Arc<str>,
        /// Who says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// Whether a call gets what it was refused.
    Grant {
        /// Which effect's; absent: every one that asks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        /// For how long; absent: it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        grant: Option<GrantScope>,
        /// The only question that it answers: the same call may be refused something else next.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        question: Option<Arc<str>>,
        /// Who says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// What to do with an effect in doubt.
    Answer {
        /// Which; absent: every one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        effect: Option<EffectId>,
        /// Re-execute, skip or fail.
        answer: Answer,
        /// Who says so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
}
