//! Running a program.

use super::{
    Context, ExprError, ExprErrorKind, UNDEFINED,
    parse::{Comparison, Op, Root},
};
use crate::js;
use opcell_types::value::{Number, NumberKind, Object, Shape, Value, is_rounded_integer};
use std::{borrow::Cow, cmp::Ordering};

/// One program that is evaluated again and again: its stack is kept, and so is where each property was found, which for
/// rows of one shape is where it is found again.
pub(super) struct Machine<'a> {
    program: &'a [Op],
    stack: Vec<Operand<'a>>,
    found: Vec<Option<(&'a Shape, usize)>>,
}

/// An operand on the stack: a part of the context, or the result of an operator. Operators make booleans and numbers
/// only.
#[derive(Clone, Copy)]
pub(super) enum Operand<'a> {
    Part(&'a Value),
    Bool(bool),
    Count(usize),
}

impl<'a> Operand<'a> {
    pub(super) fn into_cow(self) -> Cow<'a, Value> {
        match self {
            Self::Part(value) => Cow::Borrowed(value),
            Self::Bool(b) => Cow::Owned(Value::Bool(b)),
            Self::Count(n) => Cow::Owned(count(n)),
        }
    }

    /// As a guard or a filter takes it: [`js::is_truthy`].
    pub(super) fn holds(self) -> bool {
        match self {
            Self::Part(value) => js::is_truthy(value),
            Self::Bool(b) => b,
            Self::Count(n) => n != 0,
        }
    }

    fn is_truthy(self) -> bool {
        match self {
            Self::Part(value) => is_truthy(value),
            Self::Bool(b) => b,
            Self::Count(n) => n != 0,
        }
    }
}

impl<'a> Machine<'a> {
    pub(super) fn new(program: &'a [Op]) -> Self {
        Self { program, stack: Vec::with_capacity(program.len().min(8)), found: Vec::new() }
    }

    pub(super) fn run(&mut self, context: &Context<'a>) -> Result<Operand<'a>, ExprError> {
        self.stack.clear();
        if let Some(work) = context.work {
            work.spend(self.program.len())?;
        }
        for (at, op) in self.program.iter().enumerate() {
            let value = match op {
                Op::Literal(value) => Operand::Part(value),
                Op::Root(root) => part(*root, context),
                Op::UnknownRoot(name) => {
                    let message = format!("Unknown reference: ${name}");
                    return Err(ExprError { kind: ExprErrorKind::Eval, message, position: None });
                }
                Op::Property(key) => match self.pop() {
                    Operand::Part(Value::Object(entries)) => self.entry(at, entries, key),
                    base => property(base, key),
                },
                Op::Index => {
                    let index = self.pop();
                    element(self.pop(), index)
                }
                Op::Not => Operand::Bool(!self.pop().is_truthy()),
                Op::Compare(comparison) => {
                    let right = self.pop();
                    let left = self.pop();
                    if let Some(work) = context.work {
                        work.spend(steps(*comparison, left, right))?;
                    }
                    Operand::Bool(compare(*comparison, left, right))
                }
                Op::And => {
                    let right = self.pop().is_truthy();
                    Operand::Bool(self.pop().is_truthy() && right)
                }
                Op::Or => {
                    let right = self.pop().is_truthy();
                    Operand::Bool(self.pop().is_truthy() || right)
                }
            };
            self.stack.push(value);
        }
        Ok(self.pop())
    }

    /// The parser emits every operand before its operator, so the stack is never short.
    fn pop(&mut self) -> Operand<'a> {
        self.stack.pop().unwrap_or(Operand::Part(&UNDEFINED))
    }

    /// An entry of an object, at the place where the same instruction found it in the last object of the same shape.
    fn entry(&mut self, at: usize, entries: &'a Object, key: &str) -> Operand<'a> {
        if let Some(Some((shape, place))) = self.found.get(at)
            && shape.is_same(entries.shape())
        {
            return entries.value_at(*place).map_or(UNDEFINED_PART, Operand::Part);
        }
        let Some(place) = entries.shape().place(key) else { return UNDEFINED_PART };
        if self.found.len() <= at {
            self.found.resize(self.program.len(), None);
        }
        if let Some(found) = self.found.get_mut(at) {
            *found = Some((entries.shape(), place));
        }
        entries.value_at(place).map_or(UNDEFINED_PART, Operand::Part)
    }
}

/// Returns the value of a root.
fn part<'a>(root: Root, context: &Context<'a>) -> Operand<'a> {
    match root {
        Root::Inputs => Operand::Part(context.inputs),
        Root::Steps => Operand::Part(context.steps),
        Root::Item => Operand::Part(context.item),
        Root::Index => context.index.map_or(UNDEFINED_PART, Operand::Count),
        Root::Result => Operand::Part(context.result),
    }
}

/// Evaluates a program that is a root and properties of it, as most are: without a stack. Nothing for any other, and
/// where work is counted.
pub(super) fn path<'a>(program: &'a [Op], context: &Context<'a>) -> Option<Operand<'a>> {
    let (Op::Root(root), properties) = program.split_first()? else { return None };
    if context.work.is_some() || !properties.iter().all(|op| matches!(op, Op::Property(_))) {
        return None;
    }
    let keys = properties.iter().filter_map(|op| match op {
        Op::Property(key) => Some(key),
        _ => None,
    });
    Some(keys.fold(part(*root, context), |base, key| property(base, key)))
}

const UNDEFINED_PART: Operand<'static> = Operand::Part(&UNDEFINED);

fn count(n: usize) -> Value {
    Value::from(Number::from(n as u64))
}

/// An own property: nothing is inherited, so `constructor` and `map` are undefined.
fn property<'a>(base: Operand<'a>, key: &str) -> Operand<'a> {
    let Operand::Part(base) = base else { return UNDEFINED_PART };
    match base {
        Value::Array(items) if key == "length" => Operand::Count(items.len()),
        Value::Array(items) => {
            js::integer_key(key).and_then(|index| items.get(index as usize)).map_or(UNDEFINED_PART, Operand::Part)
        }
        Value::Object(entries) => entries.get(key).map_or(UNDEFINED_PART, Operand::Part),
        _ => UNDEFINED_PART,
    }
}

/// The language's `value.key`: entries of objects, elements and length of arrays, undefined for everything else.
pub(crate) fn own<'a>(base: &'a Value, key: &str) -> Cow<'a, Value> {
    property(Operand::Part(base), key).into_cow()
}

fn element<'a>(base: Operand<'a>, index: Operand<'a>) -> Operand<'a> {
    let number = match index {
        Operand::Part(Value::String(key)) => return property(base, key),
        Operand::Part(Value::Number(n)) => *n,
        Operand::Count(n) => Number::from(n as u64),
        _ => return UNDEFINED_PART,
    };
    let n = number.as_f64();
    // A double equals its truncation exactly when it is an index; the conversion saturates below 0 and above the
    // maximum.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "compared back"
    )]
    match base {
        Operand::Part(Value::Array(items)) if (n as usize) as f64 == n => {
            items.get(n as usize).map_or(UNDEFINED_PART, Operand::Part)
        }
        base => {
            let mut key = String::new();
            js::write_number(number, &mut key);
            property(base, &key)
        }
    }
}

/// The language's truthiness, of `!`, `&&` and `||`: null, undefined, false, 0, `""` and `[]` are false; NaN and `{}`
/// are true. Guards and filters follow [`js::is_truthy`] instead.
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

/// The elements and bytes that a comparison may look at.
fn steps(comparison: Comparison, left: Operand<'_>, right: Operand<'_>) -> usize {
    let text = |operand: Operand<'_>| match operand {
        Operand::Part(Value::String(text)) => text.len(),
        _ => 1,
    };
    let printed = |operand: Operand<'_>| match operand {
        Operand::Part(value @ Value::Array(_)) => usize::try_from(value.measure().bytes()).unwrap_or(usize::MAX),
        operand => text(operand),
    };
    match (comparison, left, right) {
        (Comparison::Contains, Operand::Part(Value::Array(items)), _) => items.len(),
        (Comparison::Contains, left, right) => printed(left).saturating_add(printed(right)),
        // Texts are compared many bytes at a time, aggregates by identity.
        (
            Comparison::Equal | Comparison::NotEqual,
            left @ Operand::Part(Value::String(_)),
            right @ Operand::Part(Value::String(_)),
        ) => text(left).min(text(right)) / 16,
        (_, left, right) => text(left).saturating_add(text(right)),
    }
}

fn compare(comparison: Comparison, left: Operand<'_>, right: Operand<'_>) -> bool {
    match comparison {
        Comparison::Greater => order(left, right).is_some_and(Ordering::is_gt),
        Comparison::GreaterOrEqual => order(left, right).is_some_and(Ordering::is_ge),
        Comparison::Less => order(left, right).is_some_and(Ordering::is_lt),
        Comparison::LessOrEqual => order(left, right).is_some_and(Ordering::is_le),
        Comparison::Equal => equal(&left.into_cow(), &right.into_cow()),
        Comparison::NotEqual => !equal(&left.into_cow(), &right.into_cow()),
        Comparison::Contains => contains(&left.into_cow(), &right.into_cow()),
    }
}

/// `===`, and a number equals the text of a number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(n), Value::String(text)) | (Value::String(text), Value::Number(n)) => {
            let read = js::parse_number(text);
            match read.kind() {
                NumberKind::Float(_) if is_rounded_integer(text.trim_matches(js::is_space)) => false,
                // A published case wants it: beyond 64 bits with a sign, texts are doubles, as in JavaScript.
                NumberKind::Unsigned(_) => n.as_f64() == read.as_f64(),
                NumberKind::Integer(_) | NumberKind::Float(_) => *n == read,
            }
        }
        _ => strictly_equal(left, right),
    }
}

/// `===`: aggregates by identity, numbers by their exact values.
fn strictly_equal(left: &Value, right: &Value) -> bool {
    left.is_same(right)
}

fn order(left: Operand<'_>, right: Operand<'_>) -> Option<Ordering> {
    match (left, right) {
        (Operand::Part(Value::Number(left)), Operand::Part(Value::Number(right))) => left.compare(*right),
        _ => order_of_long_integers(left, right).or_else(|| magnitude(left).compare(magnitude(right))),
    }
}

/// The order of two integers of which one is a text with more than 64 bits: as doubles, neighbours would be equal.
fn order_of_long_integers(left: Operand<'_>, right: Operand<'_>) -> Option<Ordering> {
    let text = |operand| match operand {
        Operand::Part(Value::String(text)) => Some(Cow::Borrowed(text.trim_matches(js::is_space))),
        Operand::Part(Value::Number(number)) => match number.kind() {
            NumberKind::Integer(n) => Some(Cow::Owned(n.to_string())),
            NumberKind::Unsigned(n) => Some(Cow::Owned(n.to_string())),
            NumberKind::Float(_) => None,
        },
        Operand::Part(_) | Operand::Bool(_) | Operand::Count(_) => None,
    };
    let is_long = |operand| match operand {
        Operand::Part(Value::String(text)) => is_rounded_integer(text.trim_matches(js::is_space)),
        _ => false,
    };
    if !is_long(left) && !is_long(right) {
        return None;
    }
    let (left, right) = (text(left)?, text(right)?);
    let ((left_is_below, left), (right_is_below, right)) = (digits(&left)?, digits(&right)?);
    let size = |a: &str, b: &str| a.len().cmp(&b.len()).then_with(|| a.cmp(b));
    Some(match (left_is_below, right_is_below) {
        (false, false) => size(left, right),
        (true, true) => size(right, left),
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
    })
}

/// The sign of an integer's text, and its digits from the first that counts; `None` for another text.
fn digits(text: &str) -> Option<(bool, &str)> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let significant = digits.trim_start_matches('0');
    is_integer.then_some((text.len() > digits.len() && !significant.is_empty(), significant))
}

/// Returns the number that `<` and its like compare: whatever is not a number, a text of one or a boolean counts as 0.
fn magnitude(value: Operand<'_>) -> Number {
    match value {
        Operand::Part(Value::Number(n)) => *n,
        Operand::Part(Value::String(text)) => match js::parse_number(text) {
            n if n.as_f64().is_nan() => Number::from(0_u64),
            n => n,
        },
        Operand::Part(Value::Bool(b)) => Number::from(u64::from(*b)),
        Operand::Bool(b) => Number::from(u64::from(b)),
        Operand::Count(n) => Number::from(n as u64),
        Operand::Part(_) => Number::from(0_u64),
    }
}

/// Membership in an array; else whether the left text has the right one in it, without regard to case.
fn contains(left: &Value, right: &Value) -> bool {
    if let Value::Array(items) = left {
        let is_nan = |value: &Value| matches!(value, Value::Number(n) if n.as_f64().is_nan());
        return items.iter().any(|item| strictly_equal(item, right) || (is_nan(item) && is_nan(right)));
    }
    let (left, right) = (text(left), text(right));
    // Short texts without accents need no copies.
    if left.len().saturating_mul(right.len()) <= 4096 && left.is_ascii() && right.is_ascii() {
        return right.is_empty()
            || left.as_bytes().windows(right.len()).any(|part| part.eq_ignore_ascii_case(right.as_bytes()));
    }
    left.to_lowercase().contains(&right.to_lowercase())
}

fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Undefined | Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text.as_str()),
        other => Cow::Owned(js::to_text(other)),
    }
}
