//! "Did you mean", as the end of a sentence.

use opcell_workflow::diagnostic;

/// "; did you mean `x`?" for a misspelt name, or nothing when no known name is near.
pub(crate) fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    diagnostic::did_you_mean(name, known).map(|meant| format!("; did you mean `{meant}`?")).unwrap_or_default()
}
