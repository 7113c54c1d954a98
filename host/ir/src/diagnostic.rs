//! Findings about a document: where, what was expected, how to fix it.

use crate::source::Span;
pub use opcell_types::suggest::did_you_mean;
use serde::Serialize;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The document runs; `--strict` turns it into an error.
    Warning,
    /// The document does not run.
    Error,
}

/// One finding about a document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// Stable kebab-case identifier, such as `non-prior-step-ref`.
    pub code: &'static str,
    /// One sentence; where a reference runtime has a message for it, that message.
    pub message: String,
    /// The place in the document, when it has one.
    pub span: Option<Span>,
    /// The place in the document's structure, as its language writes paths (`steps[0].tool`), when it has one.
    pub path: Option<String>,
    /// The remedy.
    pub help: Option<String>,
    /// Other places that matter, each with what it is ("first defined here").
    pub related: Vec<(Span, String)>,
}

impl Diagnostic {
    /// An error.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Error, code, message)
    }

    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(Severity::Warning, code, message)
    }

    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Self {
        Self { severity, code, message: message.into(), span: None, path: None, help: None, related: Vec::new() }
    }

    /// Points at a place.
    #[must_use]
    pub fn at(mut self, span: impl Into<Option<Span>>) -> Self {
        self.span = span.into();
        self
    }

    /// Names the place in the document's structure.
    #[must_use]
    pub fn path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }

    /// Says how to fix it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        self.related.push((span, label.into()));
        self
    }
}
