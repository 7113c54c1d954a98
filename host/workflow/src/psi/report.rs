//! The findings of compiling, and their places.

use opcell_ir::{
    diagnostic::Diagnostic,
    source::{SourceMap, Span},
};
use opcell_types::text::one_line;
use std::{borrow::Cow, fmt::Write};

/// Bytes of a place, and of a name in it: each part of a document has one, with the names of all that is around it.
const PLACE_BYTES: usize = 2_000;
const NAME_BYTES: usize = 200;

/// A name as it is, unless it is long.
fn short(name: &str) -> Cow<'_, str> {
    if name.len() <= NAME_BYTES { name.into() } else { one_line(name, NAME_BYTES).into() }
}

/// A place in the compiled workflow, as IR paths and as psi write it: `steps[0].name` and `:steps 0 :name`.
#[derive(Debug, Clone, Default)]
pub(super) struct Place {
    ir: String,
    edn: String,
}

impl Place {
    pub(super) fn key(&self, key: &str) -> Self {
        let mut place = self.clone();
        if place.is_long() {
            return place;
        }
        let key = short(key);
        if !place.ir.is_empty() {
            place.ir.push('.');
        }
        place.ir.push_str(&key);
        place.push_edn(&format!(":{key}"));
        place
    }

    /// `true` if nothing is added any more: the place of a part is that of what is around it then.
    fn is_long(&self) -> bool {
        self.ir.len() > PLACE_BYTES
    }

    pub(super) fn index(&self, index: usize) -> Self {
        self.entry(index, &index.to_string())
    }

    /// An entry that the IR numbers and psi names.
    pub(super) fn entry(&self, index: usize, name: &str) -> Self {
        let mut place = self.clone();
        if place.is_long() {
            return place;
        }
        let _ = write!(place.ir, "[{index}]");
        place.push_edn(&short(name));
        place
    }

    fn push_edn(&mut self, segment: &str) {
        if !self.edn.is_empty() {
            self.edn.push(' ');
        }
        self.edn.push_str(segment);
    }

    pub(super) fn ir(&self) -> &str {
        &self.ir
    }
}

/// The findings so far.
#[derive(Debug, Default)]
pub(super) struct Report {
    diagnostics: Vec<Diagnostic>,
    spans: SourceMap,
    /// Name and index of the step being compiled.
    step: Option<(String, usize)>,
}

impl Report {
    pub(super) fn into_parts(self) -> (Vec<Diagnostic>, SourceMap) {
        (self.diagnostics, self.spans)
    }

    pub(super) fn push(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// Returns the number of findings.
    pub(super) fn len(&self) -> usize {
        self.diagnostics.len()
    }

    /// Adds a sentence of help to the findings from one on.
    pub(super) fn add_help(&mut self, from: usize, help: &str) {
        for finding in self.diagnostics.iter_mut().skip(from) {
            finding.help = Some(match finding.help.take() {
                Some(earlier) => format!("{earlier}; {help}"),
                None => help.to_owned(),
            });
        }
    }

    /// Records where a part of the workflow stands.
    pub(super) fn stands(&mut self, place: &Place, span: Span) {
        self.spans.insert(place.ir(), span);
    }

    pub(super) fn enter_step(&mut self, name: Option<&str>, index: usize) {
        self.step = name.map(|name| (short(name).into_owned(), index));
    }

    /// psi refuses the file.
    pub(super) fn load_error(&mut self, span: Span, message: impl Into<String>) {
        self.push(Diagnostic::error("load-error", message).at(span));
    }

    /// Returns the number of times [`Report::load_error`] was called.
    pub(super) fn load_errors(&self) -> usize {
        self.diagnostics.iter().filter(|diagnostic| diagnostic.code == "load-error").count()
    }

    /// psi refuses the step; its name and index go in front of the message.
    pub(super) fn compile_error(&mut self, span: Span, place: &Place, message: &str, help: impl Into<String>) {
        let message = match &self.step {
            Some((name, index)) => format!("Step '{name}' (index {index}): {message}"),
            None => message.to_owned(),
        };
        self.push(Diagnostic::error("compile-error", message).at(span).path(place.ir()).help(help));
    }

    /// A value that has the wrong shape.
    pub(super) fn invalid(&mut self, span: Span, place: &Place, expected: impl Into<String>) {
        self.structural(span, place, "invalid value", expected);
    }

    /// A key that is not there.
    pub(super) fn missing(&mut self, span: Span, place: &Place, expected: impl Into<String>) {
        self.structural(span, place, "missing-key", expected);
    }

    fn structural(&mut self, span: Span, place: &Place, what: &str, expected: impl Into<String>) {
        let message = format!("Structural error at [{}]: {what}", place.edn);
        self.push(Diagnostic::error("structural-error", message).at(span).path(place.ir()).help(expected));
    }

    /// psi accepts it; the author had better not.
    pub(super) fn warn(&mut self, code: &'static str, span: Span, place: &Place, message: impl Into<String>) {
        self.push(Diagnostic::warning(code, message).at(span).path(place.ir()));
    }
}
