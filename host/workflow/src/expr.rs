//! The expression language: WorkflowSkill's, offered to every document.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An expression as authored. Parsing it never fails: a document may carry a wrong expression that no run ever reaches,
/// so the error is kept and returned when it is evaluated (and reported by the static checks).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Expression {
    text: Arc<str>,
}

impl Expression {
    /// Takes the text of an expression.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self { text: text.into() }
    }

    /// The expression as authored.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl From<String> for Expression {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Expression> for String {
    fn from(expression: Expression) -> Self {
        expression.text.as_ref().to_owned()
    }
}
