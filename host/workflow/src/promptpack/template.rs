//! `{{name}}` templates.
//!
//! [`render`] is the rule of the engine: the template is read once from left to right, a value is text and never a
//! template, so a hostile artifact can neither pull in another variable nor blow the prompt up. [`render_nested`] is
//! the reference's older rule, in which values are templates too, kept for hosts that depend on it and bounded.

use opcell_ir::print::go::list;
use std::collections::{BTreeMap, BTreeSet};

/// Names to texts.
pub type Variables = BTreeMap<String, String>;

/// The most that [`render_nested`] may produce, in bytes. The reference has no bound: a 75-byte value makes 156 MB.
pub const MAX_NESTED_OUTPUT: usize = 4 << 20;

const NESTED_PASSES: usize = 10;

/// Why a template could not be rendered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// Tokens that name nothing.
    #[error("unresolved template placeholders: {}", list(.0))]
    Unresolved(Vec<String>),
    /// Declared as required, and absent or empty.
    #[error("missing required variables: {}", list(.0))]
    MissingRequired(Vec<String>),
    /// Values that contain tokens grew without end.
    #[error("template values expand to more than {MAX_NESTED_OUTPUT} bytes")]
    TooLarge,
}

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece<'t> {
    /// Text as it is.
    Text(&'t str),
    /// `{{name}}`: the name, and the token as a whole.
    Token {
        /// Between the braces, spaces included.
        name: &'t str,
        /// With the braces.
        whole: &'t str,
    },
}

/// The pieces of a template, from left to right. A `{{` that is never closed is text.
pub fn pieces(template: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = template;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let opened = rest.find("{{").and_then(|at| Some((at, at + 2 + rest.get(at + 2..)?.find("}}")? + 2)));
        let (piece, end) = match opened {
            Some((0, end)) => {
                let whole = rest.get(..end)?;
                (Piece::Token { name: whole.get(2..end - 2)?, whole }, end)
            }
            Some((at, _)) => (Piece::Text(rest.get(..at)?), at),
            None => (Piece::Text(rest), rest.len()),
        };
        rest = rest.get(end..)?;
        Some(piece)
    })
}

/// Returns `true` if a template may have this name without a value: artifacts that are not set yet, and the summary
/// that a transition may carry.
fn may_be_unset(name: &str) -> bool {
    name.starts_with("artifacts.") || name == "workflow_context"
}

/// Renders a template in one pass. Unset artifacts and an absent `workflow_context` are empty.
///
/// # Errors
/// When another token names nothing.
pub fn render(template: &str, variables: &Variables) -> Result<String, TemplateError> {
    let mut text = String::with_capacity(template.len());
    let mut unresolved = Vec::new();
    for piece in pieces(template) {
        match piece {
            Piece::Text(literal) => text.push_str(literal),
            Piece::Token { name, whole } => match variables.get(name) {
                Some(value) => text.push_str(value),
                None if may_be_unset(name) => {}
                None => unresolved.push(whole.to_owned()),
            },
        }
    }
    if unresolved.is_empty() { Ok(text) } else { Err(TemplateError::Unresolved(unresolved)) }
}

/// The result of [`render_nested`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// The text.
    pub text: String,
    /// Variables that nothing used, sorted.
    pub unused: Vec<String>,
}

/// Renders a template by the reference's rule: every variable's token is replaced everywhere, ten times over, values
/// included.
///
/// # Errors
/// When a token is left at the end, or the text outgrows [`MAX_NESTED_OUTPUT`].
pub fn render_nested(template: &str, variables: &Variables) -> Result<Rendered, TemplateError> {
    let mut text = template.to_owned();
    let mut used = BTreeSet::new();
    for _ in 0..NESTED_PASSES {
        let mut changed = false;
        for (name, value) in variables {
            let token = format!("{{{{{name}}}}}");
            let count = text.matches(&token).count();
            if count == 0 {
                continue;
            }
            if text.len().saturating_add(count.saturating_mul(value.len())) > MAX_NESTED_OUTPUT {
                return Err(TemplateError::TooLarge);
            }
            text = text.replace(&token, value);
            used.insert(name.as_str());
            changed = true;
        }
        if !changed {
            break;
        }
    }
    let unresolved: Vec<String> = pieces(&text)
        .filter_map(|piece| match piece {
            Piece::Token { whole, .. } => Some(whole.to_owned()),
            Piece::Text(_) => None,
        })
        .collect();
    if !unresolved.is_empty() {
        return Err(TemplateError::Unresolved(unresolved));
    }
    let unused = variables.keys().filter(|name| !used.contains(name.as_str())).cloned().collect();
    Ok(Rendered { text, unused })
}

/// Checks that required variables are there and not empty.
///
/// # Errors
/// Names all that are not, in the order in which they were asked for.
pub fn require(required: &[String], variables: &Variables) -> Result<(), TemplateError> {
    let missing: Vec<String> =
        required.iter().filter(|name| variables.get(*name).is_none_or(String::is_empty)).cloned().collect();
    if missing.is_empty() { Ok(()) } else { Err(TemplateError::MissingRequired(missing)) }
}

/// Cuts a text to at most `max` bytes without splitting a character, and says so with `...`.
#[must_use]
pub fn shorten(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{}...", text.get(..text.floor_char_boundary(max)).unwrap_or(""))
}
