//! Calls of tools that wait for a person: which do, what is shown of them, and the digest that binds the two.
//!
//! The rules come with the session ([`OpenedSession::approvals`](crate::call::OpenedSession::approvals)) and are
//! compared with the arguments here, as part of deciding. What the host cannot tell apart from what a rule is about
//! counts as that: a command that holds an expansion matches every `when` and is covered by no `unless`.

mod command;
mod path;
mod rule;
mod shown;

pub(crate) use rule::asking;
pub use rule::{Asking, asks};
pub(crate) use shown::arguments_key;
pub use shown::{CallArguments, MAX_SHOWN_BYTES};

use opcell_ir::ir::ApprovalRules;
use opcell_types::{Effects, Value};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

impl ToolApproval {
    /// Returns `true` if a rule asks about calls of the tool, at least with some arguments.
    #[must_use]
    pub(crate) fn may_ask(&self) -> bool {
        self.rules.rules().iter().any(|rule| rule.ask.applies_to(self.effects))
    }

    /// Returns what the rules ask of a call with these arguments; `None` when it needs no person.
    #[must_use]
    pub fn asking(&self, arguments: &Value) -> Option<Asking> {
        rule::asking(self, arguments)
    }

    /// Returns the rules for people: `asks: always ([sessions])`.
    #[must_use]
    pub fn describe(&self) -> String {
        let rules: Vec<String> = self.rules.rules().iter().map(opcell_ir::ir::ApprovalRule::describe).collect();
        let approved = match self.approved.len() {
            0 => String::new(),
            count => format!("; {count} approved for always"),
        };
        format!("asks: {}{approved}", rules.join("; "))
    }
}

/// The rules for one tool of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ToolApproval {
    /// The name that the model calls.
    pub tool: String,
    /// The effect of repeating a call; `unless-pure` goes by it.
    pub effects: Effects,
    /// Names the tool as it was when the session opened: who performs it, its description, its schema. A call that was
    /// approved is not made by another tool of the same name.
    pub identity: Arc<str>,
    /// The rules.
    pub rules: ApprovalRules,
    /// Arguments of calls that a person has approved for always.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approved: Vec<Value>,
}
