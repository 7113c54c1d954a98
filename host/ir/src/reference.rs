//! References by path: `${input.x}` and `${step.output.x}`, in documents whose dialect has them.

use crate::print::{self, go};
use opcell_types::Value;
use regex::Regex;
use std::sync::LazyLock;

/// The values that references see.
#[derive(Debug, Clone, Copy)]
pub struct Scope<'a> {
    /// `${input…}`.
    pub input: &'a Value,
    /// `${step…}`: each step that ran, by name, as `{"output": …}`.
    pub steps: &'a Value,
}

/// References that give nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", unresolved(.0))]
pub struct ReferenceError(pub Vec<String>);

impl ReferenceError {
    /// Returns the paths that they look for in the input, each dotted as in there.
    pub fn in_input(&self) -> impl Iterator<Item = &str> {
        let paths = self.0.iter().filter_map(|reference| strip(reference));
        paths.filter_map(|path| path.strip_prefix("input."))
    }
}

fn unresolved(references: &[String]) -> String {
    let lines: Vec<String> =
        references.iter().map(|reference| format!("unresolved reference {}", go::quote(reference))).collect();
    lines.join("\n")
}

#[expect(clippy::expect_used, reason = "a literal pattern, which every test of this module compiles")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a literal pattern")
}

static WHOLE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^\$\{[\t\n\x0c\r ]*([a-zA-Z_][a-zA-Z0-9_.]*?)[\t\n\x0c\r ]*\}$"));
static EMBEDDED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\$\{[\t\n\x0c\r ]*([a-zA-Z_][a-zA-Z0-9_.]*?)[\t\n\x0c\r ]*\}"));

/// The dotted path of a text that is exactly one reference.
#[must_use]
pub fn strip(text: &str) -> Option<&str> {
    WHOLE.captures(text)?.get(1).map(|path| path.as_str())
}

/// The dotted paths of all references in a text, each with its range.
pub(crate) fn embedded(text: &str) -> impl Iterator<Item = (std::ops::Range<usize>, &str)> {
    EMBEDDED.captures_iter(text).filter_map(|found| Some((found.get(0)?.range(), found.get(1)?.as_str())))
}

/// Returns the value of a dotted path. Only objects are entered: there is no index into an array.
#[must_use]
pub fn resolve_path<'s>(path: &str, scope: Scope<'s>) -> Option<&'s Value> {
    let mut segments = path.split('.');
    let mut value = match segments.next()? {
        "input" => scope.input,
        step => scope.steps.get(step)?,
    };
    for segment in segments {
        value = value.get(segment)?;
    }
    Some(value)
}

/// A text with its references replaced: one that is exactly a reference keeps the type of what it refers to, others are
/// printed into the text.
///
/// # Errors
/// When references give nothing.
pub fn resolve(text: &str, scope: Scope<'_>) -> Result<Value, ReferenceError> {
    if let Some(path) = strip(text) {
        return resolve_path(path, scope).cloned().ok_or_else(|| ReferenceError(vec![text.to_owned()]));
    }
    let mut out = String::with_capacity(text.len());
    let mut missing = Vec::new();
    let mut from = 0;
    for (range, path) in embedded(text) {
        out.push_str(text.get(from..range.start).unwrap_or(""));
        match resolve_path(path, scope) {
            Some(value) => out.push_str(&print::json(value)),
            None => missing.extend(text.get(range.clone()).map(str::to_owned)),
        }
        from = range.end;
    }
    out.push_str(text.get(from..).unwrap_or(""));
    if missing.is_empty() { Ok(out.into()) } else { Err(ReferenceError(missing)) }
}
