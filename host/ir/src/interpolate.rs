//! Text with `${…}` references, and the rule by which WorkflowSkill reads any authored value.

use crate::{
    expr::{Context, ExprError, ExprErrorKind, Expression},
    ir::ValueSpec,
    js,
};
use opcell_types::{Value, value::MAX_BYTES};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cell::RefCell, fmt, sync::Arc};

/// The longest text whose place is kept for the next one, in bytes.
const MAX_RETAINED_BYTES: usize = 4 << 10;

/// A text with `${…}` references, compiled once. `$${` is a literal `${`. A text that is one reference keeps its
/// value's type; in any other, values print as JavaScript prints scalars and as JSON.
#[derive(Clone, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Interpolation {
    text: Arc<str>,
    parts: Arc<[Part]>,
}

#[derive(Debug, Clone)]
enum Part {
    Text(Arc<str>),
    Value(Expression),
}

/// The inside of the first `${…}` at the start of `text` and what follows it: `/^\$\{([^}]+)\}/`.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix("${")?.split_once('}').filter(|(inside, _)| !inside.is_empty())
}

impl Interpolation {
    /// Returns `true` if a text has a reference in it (an escaped one counts: it must be unescaped).
    #[must_use]
    pub fn is_in(text: &str) -> bool {
        text.match_indices("${").any(|(at, _)| text.get(at..).and_then(reference).is_some())
    }

    /// Takes and compiles a text. An error inside a reference is kept, and returned when the text is resolved.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let parts = match reference(&text) {
            Some((inside, "")) => vec![Part::Value(expression(inside))],
            _ => parts(&text),
        };
        Self { text, parts: parts.into() }
    }

    /// The text as authored.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The references' expressions, in order.
    pub fn expressions(&self) -> impl Iterator<Item = &Expression> {
        self.parts.iter().filter_map(|part| match part {
            Part::Value(expression) => Some(expression),
            Part::Text(_) => None,
        })
    }

    /// The expression of a text that is one reference and keeps its type.
    #[must_use]
    pub fn single(&self) -> Option<&Expression> {
        match self.parts.as_ref() {
            [Part::Value(expression)] => Some(expression),
            _ => None,
        }
    }

    /// The text with its references resolved.
    ///
    /// # Errors
    /// The first reference's that has no value.
    pub fn resolve(&self, context: &Context<'_>) -> Result<Value, ExprError> {
        if let Some(expression) = self.single() {
            return expression.evaluate(context);
        }
        // Most texts are short: they are put together in one place, and copied once.
        thread_local! {
            static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let mut out = TEXT.take();
        out.clear();
        let printed = self.print(context, &mut out).map(|()| Value::from(out.as_str()));
        if out.capacity() <= MAX_RETAINED_BYTES {
            TEXT.set(out);
        }
        printed
    }

    fn print(&self, context: &Context<'_>, out: &mut String) -> Result<(), ExprError> {
        for part in self.parts.iter() {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Value(expression) => {
                    let value = expression.evaluate_cow(context)?;
                    let bytes = (out.len() as u64).saturating_add(value.measure().bytes());
                    if bytes > MAX_BYTES {
                        let message = format!("a string would take {bytes} bytes; at most {MAX_BYTES} are allowed");
                        return Err(ExprError { kind: ExprErrorKind::Size, message, position: None });
                    }
                    match value.as_ref() {
                        Value::Number(number) => js::write_number(*number, out),
                        value => out.push_str(&stringify(value)),
                    }
                }
            }
        }
        Ok(())
    }
}

fn expression(inside: &str) -> Expression {
    Expression::new(format!("${inside}"))
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut literal = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at_checked(at).unwrap_or((rest, ""));
        literal.push_str(before);
        if let Some(after) = from.strip_prefix("$${") {
            literal.push_str("${");
            rest = after;
        } else if let Some((inside, after)) = reference(from) {
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Value(expression(inside)));
            rest = after;
        } else {
            literal.push('$');
            rest = from.get(1..).unwrap_or_default();
        }
    }
    literal.push_str(rest);
    if !literal.is_empty() || parts.is_empty() {
        parts.push(Part::Text(literal.into()));
    }
    parts
}

/// Prints a value inside a text: null and undefined as nothing, scalars as JavaScript prints them, aggregates as JSON.
#[must_use]
pub fn stringify(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Undefined | Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(_) | Value::Number(_) => Cow::Owned(js::to_text(value)),
        Value::Array(_) | Value::Object(_) => Cow::Owned(js::to_json(value)),
    }
}

/// Reads an authored value as WorkflowSkill does: a text that starts with `$$` loses one `$` and is otherwise taken as
/// it is; a text with `${…}` is an interpolation; a text that starts with `$` is an expression; everything else,
/// aggregates whole, is itself.
#[must_use]
pub fn value_spec(value: &Value) -> ValueSpec {
    let Value::String(text) = value else { return ValueSpec::Literal { value: value.clone() } };
    match text.strip_prefix('$') {
        Some(rest) if rest.starts_with('$') => ValueSpec::Literal { value: rest.into() },
        _ if Interpolation::is_in(text) => ValueSpec::Interpolation { interpolation: Interpolation::new(text.clone()) },
        Some(_) => ValueSpec::Expression { expression: Expression::new(text.clone()) },
        None => ValueSpec::Literal { value: value.clone() },
    }
}

impl fmt::Debug for Interpolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interpolation").field(&self.text).finish()
    }
}

impl PartialEq for Interpolation {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Interpolation {}

impl From<String> for Interpolation {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<Interpolation> for String {
    fn from(interpolation: Interpolation) -> Self {
        interpolation.text.as_ref().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(text: &str) -> Value {
        let inputs = Value::from_json(r#"{"n":7,"list":[1,{"a":null}],"none":null}"#).unwrap();
        let steps = Value::object::<&str>([]);
        Interpolation::new(text).resolve(&Context::new(&inputs, &steps)).unwrap()
    }

    #[test]
    fn a_single_reference_keeps_its_type() {
        assert_eq!(resolve("${inputs.n}"), Value::from(7));
        assert!(matches!(resolve("${inputs.nope}"), Value::Undefined));
    }

    #[test]
    fn values_print_inside_a_text() {
        assert_eq!(resolve("a${inputs.n}b${inputs.none}${inputs.nope}c"), Value::from("a7bc"));
        assert_eq!(resolve("=${inputs.list}"), Value::from(r#"=[1,{"a":null}]"#));
    }

    #[test]
    fn dollars_escape_and_empty_braces_are_text() {
        assert_eq!(resolve("$${inputs.n}"), Value::from("${inputs.n}"));
        assert_eq!(resolve("x=$$${inputs.n} ${} $"), Value::from("x=$${inputs.n} ${} $"));
        assert_eq!(resolve("${inputs.n}}"), Value::from("7}"));
    }

    #[test]
    fn authored_values_are_read_by_their_first_characters() {
        let literal = |value: Value| ValueSpec::Literal { value };
        assert_eq!(value_spec(&"$$${inputs.x}".into()), literal("$${inputs.x}".into()));
        assert_eq!(value_spec(&" $inputs.x".into()), literal(" $inputs.x".into()));
        assert_eq!(value_spec(&"$x".into()), ValueSpec::Expression { expression: Expression::new("$x") });
        assert!(matches!(value_spec(&"$x ${y}".into()), ValueSpec::Interpolation { .. }));
        let nested = Value::array([Value::from("$inputs.x")]);
        assert_eq!(value_spec(&nested), literal(nested.clone()));
    }

    proptest::proptest! {
        #[test]
        fn text_without_dollars_resolves_to_itself(text in "[^$]{0,40}") {
            proptest::prop_assert_eq!(resolve(&text), Value::from(text));
        }

        #[test]
        fn any_text_compiles(text in "[${}a. ]{0,40}") {
            let _ = Interpolation::new(text);
        }
    }
}
