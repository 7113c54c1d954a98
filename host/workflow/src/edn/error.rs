//! Why a text is not EDN.

use opcell_ir::{diagnostic::Diagnostic, source::Span};

/// The problem of a text that is not EDN. Where Clojure's reader has a message for it, that message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Problem {
    #[error("EOF while reading")]
    Unclosed { open: &'static str },
    #[error("EOF while reading string")]
    UnclosedString,
    #[error("EOF while reading: `{after}` must be followed by a form")]
    EndAfter { after: &'static str },
    #[error("`{after}` must be followed by a form, found `{found}`")]
    MissingForm { after: &'static str, found: char },
    #[error("Unmatched delimiter: {found}")]
    Unmatched { found: char },
    #[error("Unmatched delimiter: {found}, expected {expected}")]
    Mismatched { found: char, expected: char },
    #[error("Map literal must contain an even number of forms")]
    OddMap,
    #[error("Duplicate key: {0}")]
    DuplicateKey(String),
    #[error("Duplicate element in set: {0}")]
    DuplicateElement(String),
    #[error("Invalid token: {0}")]
    InvalidToken(String),
    #[error("Invalid number: {0}")]
    InvalidNumber(String),
    #[error("Divide by zero: {0}")]
    ZeroDenominator(String),
    #[error("Invalid leading character: {0}")]
    InvalidCharacter(char),
    #[error("Unsupported escape character: \\{0}")]
    InvalidEscape(String),
    #[error("Invalid unicode escape: \\u{0}")]
    InvalidUnicode(String),
    #[error("Unsupported character: \\{0}")]
    UnsupportedCharacter(String),
    #[error("Unknown symbolic value: ##{0}")]
    UnknownSymbolic(String),
    #[error("No dispatch macro for: {0}")]
    NoDispatch(char),
    #[error("Regular expressions (#\"…\") are Clojure, not EDN")]
    Regex,
    #[error("Reader conditionals (#?) are Clojure, not EDN")]
    ReaderConditional,
    #[error("Unreadable form")]
    Unreadable,
    #[error("Reader tag must be a symbol")]
    TagNotASymbol,
    #[error("Namespaced map must specify a valid namespace: {0}")]
    InvalidMapNamespace(String),
    #[error("Namespaced map must specify a map")]
    NamespaceWithoutMap,
    #[error("Metadata must be a symbol, keyword, string or map")]
    InvalidMetadata,
    #[error("Metadata can only be applied to a symbol or a collection")]
    MetadataTarget,
    #[error("Unrecognized date/time syntax: {0}")]
    InvalidInstant(String),
    #[error("Invalid UUID string: {0}")]
    InvalidUuid(String),
    #[error("nested deeper than {} levels", super::MAX_DEPTH)]
    TooDeep,
    #[error("{bytes} bytes long; the limit is {}", super::MAX_BYTES)]
    TooLong { bytes: usize },
}

/// A [`Problem`] and its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct ReadError {
    /// The problem.
    pub problem: Problem,
    /// Byte range in the source text.
    pub span: Span,
    /// Another place that matters: the bracket that was opened, the first of two equal keys.
    pub related: Option<(Span, &'static str)>,
}

impl ReadError {
    pub(super) fn new(problem: Problem, span: Span) -> Self {
        Self { problem, span, related: None }
    }

    pub(super) fn related(mut self, span: Span, label: &'static str) -> Self {
        self.related = Some((span, label));
        self
    }

    /// The diagnostic, its message after `prefix`.
    #[must_use]
    pub fn diagnostic(&self, code: &'static str, prefix: &str) -> Diagnostic {
        let diagnostic = Diagnostic::error(code, format!("{prefix}{self}")).at(self.span);
        match self.related {
            Some((span, label)) => diagnostic.related(span, label),
            None => diagnostic,
        }
    }
}
