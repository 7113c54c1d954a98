//! Running a program.

use super::{
    Context, ExprError, ExprErrorKind, UNDEFINED,
    parse::{Comparison, Op, Root},
};
use crate::js;
use opcell_types::value::{Number, Value};
use std::{borrow::Cow, sync::Arc};

pub(super) fn evaluate<'a>(program: &'a [Op], context: &Context<'a>) -> Result<Cow<'a, Value>, ExprError> {
    let mut stack: Vec<Cow<'a, Value>> = Vec::with_capacity(program.len().min(8));
    for op in program {
        let value = match op {
            Op::Literal(value) => Cow::Borrowed(value),
            Op::Root(Root::Inputs) => Cow::Borrowed(context.inputs),
            Op::Root(Root::Steps) => Cow::Borrowed(context.steps),
            Op::Root(Root::Item) => Cow::Borrowed(context.item),
            Op::Root(Root::Index) => Cow::Owned(context.index.map_or(Value::Undefined, count)),
            Op::Root(Root::Result) => Cow::Borrowed(context.result),
            Op::UnknownRoot(name) => {
                let message = format!("Unknown reference: ${name}");
                return Err(ExprError { kind: ExprErrorKind::Eval, message, position: None });
            }
            Op::Property(key) => property(pop(&mut stack), key),
            Op::Index => {
                let index = pop(&mut stack);
                element(pop(&mut stack), &index)
            }
            Op::Not => boolean(!is_truthy(&pop(&mut stack))),
            Op::Compare(comparison) => {
                let right = pop(&mut stack);
                boolean(compare(*comparison, &pop(&mut stack), &right))
            }
            Op::And => {
                let right = is_truthy(&pop(&mut stack));
                boolean(is_truthy(&pop(&mut stack)) && right)
            }
            Op::Or => {
                let right = is_truthy(&pop(&mut stack));
                boolean(is_truthy(&pop(&mut stack)) || right)
            }
        };
        stack.push(value);
    }
    Ok(pop(&mut stack))
}

/// The parser emits every operand before its operator, so the stack is never short.
fn pop<'a>(stack: &mut Vec<Cow<'a, Value>>) -> Cow<'a, Value> {
    stack.pop().unwrap_or(Cow::Borrowed(&UNDEFINED))
}

fn boolean<'a>(b: bool) -> Cow<'a, Value> {
    Cow::Owned(Value::Bool(b))
}

fn count(n: usize) -> Value {
    Value::Number(i64::try_from(n).map_or(Number::Unsigned(n as u64), Number::Integer))
}

fn undefined<'a>() -> Cow<'a, Value> {
    Cow::Borrowed(&UNDEFINED)
}

/// An own property: nothing is inherited, so `constructor` and `map` are undefined.
fn property<'a>(base: Cow<'a, Value>, key: &str) -> Cow<'a, Value> {
    match base {
        Cow::Borrowed(base) => own(base, key),
        // Operators make booleans and numbers only, and those have no properties.
        Cow::Owned(_) => undefined(),
    }
}

/// The language's `value.key`: entries of objects, elements and length of arrays, undefined for everything else.
pub(crate) fn own<'a>(base: &'a Value, key: &str) -> Cow<'a, Value> {
    match base {
        Value::Array(items) if key == "length" => Cow::Owned(count(items.len())),
        Value::Array(items) => {
            js::integer_key(key).and_then(|index| items.get(index as usize)).map_or_else(undefined, Cow::Borrowed)
        }
        Value::Object(entries) => entries.get(key).map_or_else(undefined, Cow::Borrowed),
        _ => undefined(),
    }
}

fn element<'a>(base: Cow<'a, Value>, index: &Value) -> Cow<'a, Value> {
    match index {
        Value::String(key) => property(base, key),
        Value::Number(n) => {
            let n = n.as_f64();
            // A double equals its truncation exactly when it is an index; the conversion saturates below 0 and above the maximum.
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                clippy::cast_precision_loss,
                reason = "compared back"
            )]
            match &base {
                Cow::Borrowed(Value::Array(items)) if (n as usize) as f64 == n => {
                    items.get(n as usize).map_or_else(undefined, Cow::Borrowed)
                }
                _ => property(base, &js::number_to_string(n)),
            }
        }
        _ => undefined(),
    }
}

/// The language's truthiness, of `!`, `&&` and `||`: null, undefined, false, 0, `""` and `[]` are false; NaN and `{}` are true.
/// Guards and filters follow [`js::is_truthy`] instead.
#[must_use]
pub fn is_truthy(value: &Value) -> bool {
    match value {
        Value::Undefined | Value::Null => false,
        Value::Bool(b) => *b,
        Value::Number(n) => n.as_f64() != 0.0,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(_) => true,
    }
}

fn compare(comparison: Comparison, left: &Value, right: &Value) -> bool {
    match comparison {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::Greater => magnitude(left) > magnitude(right),
        Comparison::GreaterOrEqual => magnitude(left) >= magnitude(right),
        Comparison::Less => magnitude(left) < magnitude(right),
        Comparison::LessOrEqual => magnitude(left) <= magnitude(right),
        Comparison::Contains => contains(left, right),
    }
}

/// `===`, and a number equals the text of a number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(n), Value::String(text)) | (Value::String(text), Value::Number(n)) => {
            n.as_f64() == js::string_to_number(text)
        }
        _ => strictly_equal(left, right),
    }
}

/// `===`: aggregates by identity, numbers as doubles.
fn strictly_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        _ => left.is_same(right),
    }
}

/// What `<` and its like compare: whatever is not a number, a text of one or a boolean counts as 0.
fn magnitude(value: &Value) -> f64 {
    match value {
        Value::Number(n) => n.as_f64(),
        Value::String(text) => Some(js::string_to_number(text)).filter(|n| !n.is_nan()).unwrap_or(0.0),
        Value::Bool(true) => 1.0,
        _ => 0.0,
    }
}

/// Membership in an array; else whether the left text has the right one in it, without regard to case.
fn contains(left: &Value, right: &Value) -> bool {
    if let Value::Array(items) = left {
        let is_nan = |value: &Value| matches!(value, Value::Number(n) if n.as_f64().is_nan());
        return items.iter().any(|item| strictly_equal(item, right) || (is_nan(item) && is_nan(right)));
    }
    text(left).to_lowercase().contains(&text(right).to_lowercase())
}

fn text(value: &Value) -> Arc<str> {
    match value {
        Value::Undefined | Value::Null => "".into(),
        Value::String(text) => text.clone(),
        other => js::to_text(other).into(),
    }
}
