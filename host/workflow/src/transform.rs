//! Filter, map and sort over arrays: pure, one pass, no expression parsed twice.

use crate::{
    expr::{Context, ExprError, Expression, own},
    ir::{Transform, TransformOperation},
    js,
};
use opcell_types::value::{Map, Value};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cmp::Ordering, sync::Arc};

/// What a map makes of each element: texts that start with `$` are expressions, objects are made field by field, everything
/// else (arrays whole) is taken as it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub struct Shape {
    authored: Value,
    compiled: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Expression(Expression),
    Object(Vec<(Arc<str>, Node)>),
    Literal(Value),
}

impl Node {
    /// Depth is the authored value's, which its parser has limited.
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) if text.starts_with('$') => Self::Expression(Expression::new(text.clone())),
            Value::Object(entries) => Self::Object(entries.iter().map(|(k, v)| (k.clone(), Self::of(v))).collect()),
            other => Self::Literal(other.clone()),
        }
    }

    fn make(&self, context: &Context<'_>) -> Result<Value, ExprError> {
        Ok(match self {
            Self::Expression(expression) => expression.evaluate(context)?,
            Self::Literal(value) => value.clone(),
            Self::Object(fields) => {
                let mut entries = Map::with_capacity(fields.len());
                for (key, node) in fields {
                    entries.insert(key.clone(), node.make(context)?);
                }
                Value::Object(Arc::new(entries))
            }
        })
    }

    fn collect_expressions<'a>(&'a self, into: &mut Vec<&'a Expression>) {
        match self {
            Self::Expression(expression) => into.push(expression),
            Self::Object(fields) => fields.iter().for_each(|(_, node)| node.collect_expressions(into)),
            Self::Literal(_) => {}
        }
    }
}

impl Shape {
    /// Every expression in it, in order.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut all = Vec::new();
        self.compiled.collect_expressions(&mut all);
        all
    }
}

impl From<Value> for Shape {
    fn from(authored: Value) -> Self {
        Self { compiled: Node::of(&authored), authored }
    }
}

impl From<Shape> for Value {
    fn from(shape: Shape) -> Self {
        shape.authored
    }
}

impl PartialEq for Shape {
    fn eq(&self, other: &Self) -> bool {
        self.authored == other.authored
    }
}

/// Runs a transform on its resolved inputs. The result is an object with the array under `key`, the first output that the step
/// declares, or under `items`.
///
/// # Errors
/// The first expression's that has no value.
pub fn run(
    transform: &Transform,
    inputs: &Map,
    key: Option<&Arc<str>>,
    context: &Context<'_>,
) -> Result<Value, ExprError> {
    let array = apply(&transform.operation, &elements(inputs), context)?;
    Ok(Value::object([(key.cloned().unwrap_or_else(|| "items".into()), Value::Array(Arc::new(array)))]))
}

/// The array to work on: `items` if it is one, else the first array, else the first input alone, else nothing.
fn elements(inputs: &Map) -> Cow<'_, [Value]> {
    let named = inputs.get("items").and_then(Value::as_array);
    match named.or_else(|| inputs.values().find_map(Value::as_array)) {
        Some(items) => Cow::Borrowed(items),
        None => inputs
            .values()
            .next()
            .filter(|first| !first.is_nullish())
            .map_or(Cow::Borrowed(&[]), |first| Cow::Owned(vec![first.clone()])),
    }
}

/// Filters, maps or sorts.
///
/// # Errors
/// The first expression's that has no value; none on an empty array.
pub fn apply(operation: &TransformOperation, items: &[Value], context: &Context<'_>) -> Result<Vec<Value>, ExprError> {
    match operation {
        TransformOperation::Filter { condition } => {
            let mut kept = Vec::new();
            for (index, item) in items.iter().enumerate() {
                if js::is_truthy(condition.evaluate_cow(&context.with_item(item, index))?.as_ref()) {
                    kept.push(item.clone());
                }
            }
            Ok(kept)
        }
        TransformOperation::Map { expression } => items
            .iter()
            .enumerate()
            .map(|(index, item)| expression.compiled.make(&context.with_item(item, index)))
            .collect(),
        TransformOperation::Sort { field, descending } => Ok(sort(items, field, *descending)),
    }
}

/// What an element sorts by.
#[derive(Debug, Clone, PartialEq)]
enum Key {
    Number(f64),
    Text(Arc<str>),
    /// Null and undefined: last in both directions.
    Missing,
}

impl Key {
    fn of(item: &Value, field: &str) -> Self {
        let mut value = Cow::Borrowed(item);
        for name in field.split('.') {
            value = match value {
                Cow::Borrowed(value) => own(value, name),
                Cow::Owned(_) => Cow::Owned(Value::Undefined),
            };
        }
        match value.as_ref() {
            Value::Undefined | Value::Null => Self::Missing,
            Value::Number(n) => Self::Number(n.as_f64()),
            Value::Bool(b) => Self::Number(f64::from(u8::from(*b))),
            Value::String(text) => Self::Text(text.clone()),
            aggregate => Self::Text(js::to_text(aggregate).into()),
        }
    }

    fn number(&self) -> f64 {
        match self {
            Self::Number(n) => *n,
            Self::Text(text) => js::string_to_number(text),
            Self::Missing => f64::NAN,
        }
    }

    /// JavaScript's `<` and `>`: texts by code unit, everything else as numbers; what is neither less nor greater is equal.
    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Missing, Self::Missing) => return Ordering::Equal,
            (Self::Missing, _) => return Ordering::Greater,
            (_, Self::Missing) => return Ordering::Less,
            (Self::Text(a), Self::Text(b)) => js::compare_strings(a, b),
            (a, b) => a.number().partial_cmp(&b.number()).unwrap_or(Ordering::Equal),
        };
        if descending { order.reverse() } else { order }
    }
}

fn sort(items: &[Value], field: &str, descending: bool) -> Vec<Value> {
    let mut keyed: Vec<(Key, &Value)> = items.iter().map(|item| (Key::of(item, field), item)).collect();
    let is_number = |key: &Key| matches!(key, Key::Number(n) if !n.is_nan());
    let present = || keyed.iter().map(|(key, _)| key).filter(|key| **key != Key::Missing);
    if present().all(is_number) || present().all(|key| matches!(key, Key::Text(_))) {
        keyed.sort_by(|(a, _), (b, _)| a.compare(b, descending));
    } else {
        sort_without_total_order(&mut keyed, |(a, _), (b, _)| a.compare(b, descending));
    }
    keyed.into_iter().map(|(_, item)| item.clone()).collect()
}

/// Mixed keys have no total order (`"b"` equals 1 and 2), for which the standard library's sort may panic. This one is stable
/// and gives what V8's `Array.prototype.sort` gives for fewer than 64 elements.
fn sort_without_total_order<T: Clone>(items: &mut [T], compare: impl Fn(&T, &T) -> Ordering) {
    const RUN: usize = 63;
    for run in items.chunks_mut(RUN) {
        insertion_sort(run, &compare);
    }
    let mut width = RUN;
    while width < items.len() {
        for pair in items.chunks_mut(width * 2) {
            let Some((left, right)) = pair.split_at_checked(width) else { continue };
            let mut merged = Vec::with_capacity(pair.len());
            let (mut left, mut right) = (left.iter().peekable(), right.iter().peekable());
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                let from = if compare(b, a).is_lt() { &mut right } else { &mut left };
                merged.extend(from.next().cloned());
            }
            merged.extend(left.chain(right).cloned());
            pair.clone_from_slice(&merged);
        }
        width *= 2;
    }
}

fn insertion_sort<T>(items: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) {
    let mut pairs = items.windows(2).map(|pair| matches!(pair, [a, b] if compare(b, a).is_lt()));
    let falling = pairs.next().unwrap_or(false);
    let sorted = 2 + pairs.take_while(|falls| *falls == falling).count();
    if falling && let Some(run) = items.get_mut(..sorted) {
        run.reverse();
    }
    for next in sorted..items.len() {
        let (before, rest) = items.split_at(next);
        let Some(pivot) = rest.first() else { return };
        let at = before.partition_point(|item| !compare(pivot, item).is_lt());
        if let Some(range) = items.get_mut(at..=next) {
            range.rotate_right(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_json(operation: &str, items: &str) -> Result<String, ExprError> {
        let operation: TransformOperation = serde_json::from_str(operation).unwrap();
        let items = Value::from_json(items).unwrap();
        let (inputs, steps) = (Value::from_json(r#"{"min":2}"#).unwrap(), Value::object::<&str>([]));
        let out = apply(&operation, items.as_array().unwrap(), &Context::new(&inputs, &steps))?;
        Ok(Value::array(out).to_json())
    }

    #[test]
    fn filter_keeps_what_holds() {
        let filter = r#"{"operation":"filter","where":"$item.n >= $inputs.min && $index < 3"}"#;
        assert_eq!(run_json(filter, r#"[{"n":1},{"n":2},{"n":3},{"n":4}]"#).unwrap(), r#"[{"n":2},{"n":3}]"#);
        let aggregate = r#"{"operation":"filter","where":"$item"}"#;
        assert_eq!(run_json(aggregate, r#"[[],{},0,"",null,1]"#).unwrap(), "[[],{},1]");
    }

    #[test]
    fn a_wrong_expression_fails_only_when_there_is_an_element() {
        let filter = r#"{"operation":"filter","where":"$item =="}"#;
        assert_eq!(run_json(filter, "[]").unwrap(), "[]");
        assert!(run_json(filter, "[1]").is_err());
    }

    #[test]
    fn map_makes_objects_field_by_field() {
        let map = r#"{"operation":"map","expression":{"a":"$item.x","b":{"i":"$index"},"c":["$item"],"d":"plain","e":"$item.no"}}"#;
        assert_eq!(run_json(map, r#"[{"x":1}]"#).unwrap(), r#"[{"a":1,"b":{"i":0},"c":["$item"],"d":"plain"}]"#);
    }

    #[test]
    fn sort_is_stable_with_missing_keys_last_in_both_directions() {
        let items = r#"[{"k":2,"i":0},{"i":1},{"k":1,"i":2},{"k":2,"i":3},{"k":null,"i":4}]"#;
        let order = |descending: bool| {
            let sort = format!(r#"{{"operation":"sort","field":"k","descending":{descending}}}"#);
            let sorted = Value::from_json(&run_json(&sort, items).unwrap()).unwrap();
            sorted.as_array().unwrap().iter().map(|v| v.get("i").unwrap().to_json()).collect::<String>()
        };
        assert_eq!(order(false), "20314");
        assert_eq!(order(true), "03214");
    }

    #[test]
    fn keys_without_a_total_order_sort_as_v8_does() {
        // What node gives for `keys.sort((x, y) => x < y ? -1 : x > y ? 1 : 0)`.
        for (keys, expected) in [
            (r#"[3,"b",1,"2","a"]"#, r#"[3,"b",1,"2","a"]"#),
            (r#"["10",9,"b",2,"a",1,"3",0,"c",5]"#, r#"[0,1,2,5,9,"10","3","a","b","c"]"#),
            (r#"[5,"x",4,"y",3,2,1]"#, r#"[5,"x",1,2,4,"y",3]"#),
        ] {
            let items: Vec<Value> = serde_json::from_str(keys).unwrap();
            let items: Vec<Value> = items.into_iter().map(|key| Value::object([("k", key)])).collect();
            let sorted = sort(&items, "k", false).into_iter().map(|item| item.get("k").unwrap().clone());
            assert_eq!(Value::array(sorted).to_json().replace(".0", ""), expected);
        }
    }

    proptest::proptest! {
        #[test]
        fn sorting_anything_keeps_every_element(keys in proptest::collection::vec(proptest::option::of("[0-9a]{0,2}"), 0..300)) {
            let items: Vec<Value> = keys.iter().enumerate().map(|(i, key)| Value::object([
                ("k", match key { None => Value::Null, Some(k) if k.len() == 1 => Value::from(js::string_to_number(k)), Some(k) => k.as_str().into() }),
                ("i", Value::from(i as i64)),
            ])).collect();
            let sorted = sort(&items, "k", false);
            let mut seen: Vec<f64> = sorted.iter().map(|v| match v.get("i") { Some(Value::Number(n)) => n.as_f64(), _ => -1.0 }).collect();
            seen.sort_by(f64::total_cmp);
            proptest::prop_assert_eq!(seen, (0..items.len()).map(|i| i as f64).collect::<Vec<_>>());
        }
    }
}
