//! Findings about a document: where, what was expected, how to fix it.

use crate::source::Span;
pub use opcell_types::suggest::did_you_mean;
use opcell_types::text::printable;
use serde::Serialize;
use std::cell::Cell;

/// Findings of each severity that are listed one by one.
pub const MAX_FINDINGS: usize = 1_000;

/// Bytes of a message: names of documents stand in it, and need not be short.
const MESSAGE_BYTES: usize = 2_000;

thread_local! {
    /// Errors and warnings that the piece of work on this thread may still describe; `None` outside of one.
    static LEFT: Cell<Option<[usize; 2]>> = const { Cell::new(None) };
}

/// Does a piece of work that describes the first findings only, [`MAX_FINDINGS`] of each severity: of the others
/// nothing but their severity, code and place are kept. [`listed`] leaves them out.
pub fn bounded<T>(work: impl FnOnce() -> T) -> T {
    /// Ends the piece of work, also when it panics.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            LEFT.set(None);
        }
    }
    if LEFT.get().is_some() {
        return work();
    }
    let _end = End;
    LEFT.set(Some([MAX_FINDINGS; 2]));
    work()
}

/// The first findings of each severity, and how many more there are.
#[must_use]
pub fn listed(findings: Vec<Diagnostic>) -> Vec<Diagnostic> {
    if findings.len() <= MAX_FINDINGS {
        return findings;
    }
    let (mut kept, mut more) = ([0_usize; 2], [0_usize; 2]);
    let mut listed = findings;
    listed.retain(|finding| {
        let of = usize::from(finding.severity == Severity::Error);
        let is_kept = finding.is_described() && kept.get(of).is_some_and(|kept| *kept < MAX_FINDINGS);
        if let Some(count) = if is_kept { kept.get_mut(of) } else { more.get_mut(of) } {
            *count += 1;
        }
        is_kept
    });
    let [warnings, errors] = more;
    if errors > 0 {
        listed.push(Diagnostic::error("more-findings", format!("{errors} more errors are not listed")));
    }
    if warnings > 0 {
        listed.push(Diagnostic::warning("more-findings", format!("{warnings} more warnings are not listed")));
    }
    listed
}

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
        let of = usize::from(severity == Severity::Error);
        if let Some(mut left) = LEFT.get()
            && let Some(left_of) = left.get_mut(of)
        {
            if *left_of == 0 {
                return Self::of(severity, code, String::new());
            }
            *left_of -= 1;
            LEFT.set(Some(left));
        }
        let message = message.into();
        let message = if message.len() <= MESSAGE_BYTES { message } else { printable(&message, MESSAGE_BYTES) };
        Self::of(severity, code, message)
    }

    fn of(severity: Severity, code: &'static str, message: String) -> Self {
        Self { severity, code, message, span: None, path: None, help: None, related: Vec::new() }
    }

    /// `false` for a finding beyond those that a piece of work describes.
    fn is_described(&self) -> bool {
        !self.message.is_empty()
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
        if self.is_described() {
            self.path = Some(path.into());
        }
        self
    }

    /// Says how to fix it.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        if self.is_described() {
            self.help = Some(help.into());
        }
        self
    }

    /// Adds another place.
    #[must_use]
    pub fn related(mut self, span: Span, label: impl Into<String>) -> Self {
        if self.is_described() {
            self.related.push((span, label.into()));
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_findings_the_first_are_described_and_the_others_counted() {
        let mut found = Vec::new();
        let used = allocation_counter::measure(|| {
            found = bounded(|| {
                let warning =
                    |at| Diagnostic::warning("w", format!("{at} {}", "x".repeat(9_000))).path("y".repeat(9_000));
                (0..5_000).map(warning).chain([Diagnostic::error("e", "wrong")]).collect()
            });
        });
        assert!(used.bytes_current < 16 << 20, "{used:?}");
        let listed = listed(found);
        assert_eq!(listed.len(), MAX_FINDINGS + 2);
        assert!(listed[0].message.len() <= MESSAGE_BYTES + 4 && listed[0].message.starts_with("0 xxx"));
        assert_eq!(listed[MAX_FINDINGS].message, "wrong", "an error is not hidden by warnings");
        assert_eq!(listed[MAX_FINDINGS + 1].message, "4000 more warnings are not listed");
        assert!(Diagnostic::error("e", "after it").path("p").path.is_some());
    }
}
