//! Filter, map and sort over arrays: pure, one pass, no expression parsed twice, long arrays on several threads.

mod parts;

use crate::{
    expr::{Context, Evaluation, ExprError, ExprErrorKind, Expression, Work, own},
    ir::{Transform, TransformOperation},
    js,
};
use opcell_types::value::{self, Array, Number, NumberKind, Object, Value};
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, cmp::Ordering};

/// The shape that a map gives each element: texts that start with `$` are expressions, objects are made field by field,
/// everything else (arrays whole) is taken as it is.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Value", into = "Value")]
pub struct Shape {
    authored: Value,
    compiled: Node,
}

#[derive(Debug, Clone)]
enum Node {
    Expression(Expression),
    /// The keys, which all results share, and what each holds.
    Object(value::Shape, Vec<Node>),
    Literal(Value),
}

impl Node {
    /// Depth is the authored value's, which its parser has limited.
    fn of(value: &Value) -> Self {
        match value {
            Value::String(text) if text.starts_with('$') => Self::Expression(Expression::new(text)),
            Value::Object(entries) => Self::Object(entries.shape().clone(), entries.values().map(Self::of).collect()),
            other => Self::Literal(other.clone()),
        }
    }

    fn collect_expressions<'a>(&'a self, into: &mut Vec<&'a Expression>) {
        match self {
            Self::Expression(expression) => into.push(expression),
            Self::Object(_, fields) => fields.iter().for_each(|node| node.collect_expressions(into)),
            Self::Literal(_) => {}
        }
    }

    fn maker(&self) -> Maker<'_> {
        match self {
            Self::Expression(expression) => Maker::Expression(Box::new(expression.evaluation())),
            Self::Literal(value) => Maker::Literal(value),
            Self::Object(shape, fields) => Maker::Object(
                shape.unshared(),
                fields.iter().map(Self::maker).collect(),
                Vec::with_capacity(fields.len()),
            ),
        }
    }
}

/// A node that makes many values.
enum Maker<'a> {
    Expression(Box<Evaluation<'a>>),
    /// With room for the values of one object.
    Object(value::Shape, Vec<Maker<'a>>, Vec<Value>),
    Literal(&'a Value),
}

impl<'a> Maker<'a> {
    fn make(&mut self, context: &Context<'a>) -> Result<Value, ExprError> {
        Ok(match self {
            Self::Expression(evaluation) => evaluation.value(context)?.into_owned(),
            Self::Literal(value) => value.clone(),
            Self::Object(shape, fields, values) => {
                values.clear();
                for field in fields {
                    values.push(field.make(context)?);
                }
                Value::Object(Object::of_all(shape.clone(), values))
            }
        })
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

/// Steps that the expressions of one transform may take: a second or two. A filter that looks for each of a million
/// elements in a million others would take days, and nothing could stop it.
const MAX_WORK: u64 = 400_000_000;

/// Runs a transform on its resolved inputs. The result is an object with the array under `key`, the first output that
/// the step declares, or under `items`. What it makes may have up to about `most` bytes as JSON.
///
/// # Errors
/// The first expression's that has no value; [`ExprErrorKind::Size`] or [`ExprErrorKind::Work`] where it would make or
/// do too much.
pub fn run(
    transform: &Transform,
    inputs: &Object,
    key: Option<&std::sync::Arc<str>>,
    context: &Context<'_>,
    most: u64,
) -> Result<Value, ExprError> {
    let bounds = Bounds { steps: Some(MAX_WORK), bytes: most };
    let array = within(&transform.operation, &elements(inputs), context, bounds)?;
    Ok(Value::object([(key.map_or("items", AsRef::as_ref), Value::Array(array))]))
}

/// The array to work on: `items` if it is one, else the first array, else the first input alone, else nothing.
fn elements(inputs: &Object) -> Cow<'_, [Value]> {
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
pub fn apply(operation: &TransformOperation, items: &[Value], context: &Context<'_>) -> Result<Array, ExprError> {
    within(operation, items, context, Bounds { steps: None, bytes: u64::MAX })
}

/// The bounds on the work and the size of a transform, or of a part of one.
#[derive(Clone, Copy)]
struct Bounds {
    /// Steps of its expressions; without it they are not counted.
    steps: Option<u64>,
    /// Bytes of what it makes, as JSON.
    bytes: u64,
}

fn within(
    operation: &TransformOperation,
    items: &[Value],
    context: &Context<'_>,
    bounds: Bounds,
) -> Result<Array, ExprError> {
    if let TransformOperation::Sort { field, descending } = operation {
        return Ok(sort(items, field, *descending));
    }
    let parts = parts::count(items.len()) as u64;
    if parts > 1 {
        let share = Bounds { steps: bounds.steps.map(|steps| steps / parts), bytes: bounds.bytes / parts };
        let made = parts::each(items, |from, items| part(operation, from, items, context, share));
        if let Ok(made) = made.into_iter().collect::<Result<Vec<_>, _>>() {
            return Ok(made.concat().into());
        }
        // A part that fails, or takes more than its share, says nothing about the whole. What does must not depend on
        // how many processors there are.
    }
    part(operation, 0, items, context, bounds).map(Array::from).map_err(|error| named(error, operation, items.len()))
}

/// The error, which says of too much work whose it is.
fn named(error: ExprError, operation: &TransformOperation, elements: usize) -> ExprError {
    if error.kind != ExprErrorKind::Work {
        return error;
    }
    let what = match operation {
        TransformOperation::Filter { condition } => format!("`{}`", condition.text()),
        TransformOperation::Map { .. } | TransformOperation::Sort { .. } => "the expressions of the map".to_owned(),
    };
    let message = format!(
        "evaluating {what} for {elements} elements takes more than {MAX_WORK} steps; compare with fewer elements, or let \
         a plugin do it"
    );
    ExprError { message, ..error }
}

/// Filters or maps elements, the first of which is at the position `from`.
fn part(
    operation: &TransformOperation,
    from: usize,
    items: &[Value],
    context: &Context<'_>,
    bounds: Bounds,
) -> Result<Vec<Value>, ExprError> {
    let work = bounds.steps.map(Work::of);
    let context = match &work {
        Some(work) => context.with_work(work),
        None => *context,
    };
    match operation {
        TransformOperation::Filter { condition } => {
            let mut condition = condition.evaluation();
            let mut kept = Vec::new();
            for (index, item) in (from..).zip(items) {
                if condition.holds(&context.with_item(item, index))? {
                    kept.push(item.clone());
                }
            }
            Ok(kept)
        }
        TransformOperation::Map { expression } => {
            let mut maker = expression.compiled.maker();
            let mut made = Vec::with_capacity(items.len());
            // Each element may be made of thousands of parts: what is too much is known long before all are there.
            let mut bytes = 0_u64;
            for (index, item) in (from..).zip(items) {
                let value = maker.make(&context.with_item(item, index))?;
                bytes = bytes.saturating_add(value.measure().bytes());
                if bytes > bounds.bytes {
                    let message = format!("a value would take more than {} bytes as JSON", bounds.bytes);
                    return Err(ExprError { kind: ExprErrorKind::Size, message, position: None });
                }
                made.push(value);
            }
            Ok(made)
        }
        TransformOperation::Sort { .. } => Ok(items.to_vec()),
    }
}

/// The key by which an element sorts.
#[derive(Debug, Clone, PartialEq)]
enum Key<'a> {
    Number(Number),
    Text(Cow<'a, str>),
    /// Null and undefined: last in both directions.
    Missing,
}

impl<'a> Key<'a> {
    fn of(value: Cow<'a, Value>) -> Self {
        match value {
            Cow::Borrowed(Value::String(text)) => Self::Text(Cow::Borrowed(text.as_str())),
            value => match value.as_ref() {
                Value::Undefined | Value::Null => Self::Missing,
                Value::Number(n) => Self::Number(*n),
                Value::Bool(b) => Self::Number(Number::from(u64::from(*b))),
                other => Self::Text(Cow::Owned(js::to_text(other))),
            },
        }
    }

    fn number(&self) -> Number {
        match self {
            Self::Number(n) => *n,
            Self::Text(text) => js::parse_number(text),
            Self::Missing => Number::from(f64::NAN),
        }
    }

    /// JavaScript's `<` and `>`: texts by code unit, everything else as numbers; what is neither less nor greater is
    /// equal.
    fn compare(&self, other: &Self, descending: bool) -> Ordering {
        let order = match (self, other) {
            (Self::Missing, Self::Missing) => return Ordering::Equal,
            (Self::Missing, _) => return Ordering::Greater,
            (_, Self::Missing) => return Ordering::Less,
            (Self::Text(a), Self::Text(b)) => js::compare_strings(a, b),
            (a, b) => a.number().compare(b.number()).unwrap_or(Ordering::Equal),
        };
        if descending { order.reverse() } else { order }
    }
}

/// A field of elements, found where the last element of the same shape had it.
struct Field<'a> {
    path: Vec<(&'a str, Option<(value::Shape, usize)>)>,
}

impl<'a> Field<'a> {
    fn new(path: &'a str) -> Self {
        Self { path: path.split('.').map(|name| (name, None)).collect() }
    }

    fn of<'v>(&mut self, item: &'v Value) -> Cow<'v, Value> {
        let mut value = Cow::Borrowed(item);
        for (name, found) in &mut self.path {
            value = match value {
                Cow::Borrowed(Value::Object(entries)) => {
                    let shape = entries.shape();
                    let place = match found {
                        Some((last, place)) if last.is_same(shape) => Some(*place),
                        _ => shape.place(name).inspect(|place| *found = Some((shape.clone(), *place))),
                    };
                    place.and_then(|place| entries.value_at(place)).map_or(Cow::Owned(Value::Undefined), Cow::Borrowed)
                }
                Cow::Borrowed(value) => own(value, name),
                Cow::Owned(_) => Cow::Owned(Value::Undefined),
            };
        }
        value
    }
}

fn sort(items: &[Value], field: &str, descending: bool) -> Array {
    if let Some(mut ranks) = ranks(items, field, |key| number_rank(key, descending)) {
        parts::sort_by(&mut ranks, Ord::cmp);
        return Array::in_order(items, ranks.into_iter().map(|(_, at)| at));
    }
    if let Some(mut ranks) = ranks(items, field, |key| wide_rank(key, descending)) {
        parts::sort_by(&mut ranks, Ord::cmp);
        return Array::in_order(items, ranks.into_iter().map(|(_, at)| at));
    }
    let keys: Vec<Key<'_>> = parts::each(items, |_, items| {
        let mut field = Field::new(field);
        items.iter().map(|item| Key::of(field.of(item))).collect::<Vec<_>>()
    })
    .into_iter()
    .flatten()
    .collect();
    let order = match keys.iter().map(text_of).collect::<Option<Vec<_>>>() {
        Some(texts) => sort_texts(&texts, descending),
        None => {
            let mut order: Vec<usize> = (0..items.len()).collect();
            sort_without_total_order(&mut order, |a, b| match (keys.get(*a), keys.get(*b)) {
                (Some(a), Some(b)) => a.compare(b, descending),
                _ => Ordering::Equal,
            });
            order
        }
    };
    Array::in_order(items, order.into_iter())
}

/// The ranks of all items with their positions; `None` where `rank` has none for one of them.
fn ranks<R: Clone + Send>(
    items: &[Value],
    field: &str,
    rank: impl Fn(&Key<'_>) -> Option<R> + Sync,
) -> Option<Vec<(R, usize)>> {
    let parts = parts::each(items, |from, items| {
        let mut field = Field::new(field);
        let mut ranks = Vec::with_capacity(items.len());
        for (at, item) in (from..).zip(items) {
            ranks.push((rank(&Key::of(field.of(item)))?, at));
        }
        Some(ranks)
    });
    parts.into_iter().collect::<Option<Vec<_>>>().map(|ranks| ranks.concat())
}

/// Integers that order as the numbers do, missing ones last; `None` where the key is another, or an integer that is no
/// double.
fn number_rank(key: &Key<'_>, descending: bool) -> Option<u64> {
    let n = match key {
        Key::Missing => return Some(u64::MAX),
        Key::Number(n) if is_exact(*n) => n.as_f64(),
        _ => return None,
    };
    let ascending = double_rank(n);
    Some(if descending { !ascending } else { ascending })
}

/// The same for all numbers. An integer that is no double has the rank of the nearest one, and then its distance from
/// it: rounding keeps the order.
fn wide_rank(key: &Key<'_>, descending: bool) -> Option<u128> {
    let n = match key {
        Key::Missing => return Some(u128::MAX),
        Key::Number(n) if !n.as_f64().is_nan() => *n,
        _ => return None,
    };
    let rounded = n.as_f64();
    #[expect(clippy::cast_possible_truncation, reason = "a double that an integer of 64 bits was rounded to is whole")]
    let distance = match n.kind() {
        NumberKind::Integer(n) => i128::from(n) - rounded as i128,
        NumberKind::Unsigned(n) => i128::from(n) - rounded as i128,
        NumberKind::Float(_) => 0,
    };
    let middle = u128::from(u64::MAX / 2);
    let ascending = (u128::from(double_rank(rounded)) << 64) | middle.saturating_add_signed(distance);
    Some(if descending { !ascending } else { ascending })
}

/// Returns `true` if a number is a double, and one that has an order.
fn is_exact(n: Number) -> bool {
    match n.kind() {
        NumberKind::Integer(n) => n.unsigned_abs() <= js::MAX_SAFE_INTEGER,
        NumberKind::Unsigned(_) => false,
        NumberKind::Float(n) => !n.is_nan(),
    }
}

/// Integers that order as doubles do.
fn double_rank(n: f64) -> u64 {
    // Both zeros are equal; positive numbers order as their bits do, negative ones the other way round.
    let bits = (n + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn text_of<'k>(key: &'k Key<'_>) -> Option<Option<&'k str>> {
    match key {
        Key::Text(text) => Some(Some(text)),
        Key::Missing => Some(None),
        Key::Number(_) => None,
    }
}

/// The positions of elements in the order of their ranks; `ties` decides between equal ranks, and then the position.
fn sorted_by(ranks: &[u64], ties: impl Fn(usize, usize) -> Ordering + Sync) -> Vec<usize> {
    let mut order: Vec<(u64, usize)> = ranks.iter().copied().zip(0..).collect();
    parts::sort_by(&mut order, |(a, i), (b, j)| a.cmp(b).then_with(|| ties(*i, *j)).then_with(|| i.cmp(j)));
    order.into_iter().map(|(_, at)| at).collect()
}

/// Texts by code unit, missing ones last: most are told apart by eight bytes after the beginning that all share.
fn sort_texts(texts: &[Option<&str>], descending: bool) -> Vec<usize> {
    let mut present = texts.iter().flatten();
    let first = present.next().copied().unwrap_or_default();
    let shared = present.fold(first.len(), |shared, text| {
        first.bytes().zip(text.bytes()).take(shared).take_while(|(a, b)| a == b).count()
    });
    let ranks: Vec<u64> = texts
        .iter()
        .map(|text| {
            let Some(text) = text else { return u64::MAX };
            let rest = text.as_bytes().get(shared..).unwrap_or_default();
            let rank =
                (0..8).fold(0, |rank, at| rank << 8 | rest.get(at).map_or(0, |byte| js::byte_rank(*byte).into()));
            if descending { !rank } else { rank }
        })
        .collect();
    sorted_by(&ranks, |a, b| match (texts.get(a).copied().flatten(), texts.get(b).copied().flatten()) {
        (Some(a), Some(b)) if descending => js::compare_strings(b, a),
        (Some(a), Some(b)) => js::compare_strings(a, b),
        // Greater than every text, also in the other direction.
        (a, b) => a.is_none().cmp(&b.is_none()),
    })
}

/// Mixed keys have no total order (`"b"` equals 1 and 2), for which the standard library's sort may panic. This one is
/// stable and gives what V8's `Array.prototype.sort` gives for fewer than 64 elements.
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
        Ok(Value::Array(out).to_json())
    }

    fn run_on(operation: &str, items: Value, most: u64) -> Result<Value, ExprError> {
        let operation: TransformOperation = serde_json::from_str(operation).unwrap();
        let (inputs, steps) = (Value::object([("items", items)]), Value::object::<&str>([]));
        let context = Context::new(&inputs, &steps);
        run(&Transform { inputs: Default::default(), operation }, inputs.as_object().unwrap(), None, &context, most)
    }

    #[test]
    fn a_map_that_makes_too_much_ends_before_it_is_made() {
        let shape: Vec<String> = (0..1000).map(|key| format!("\"k{key}\":\"$item\"")).collect();
        let map = format!("{{\"operation\":\"map\",\"expression\":{{{}}}}}", shape.join(","));
        let items = |count: i64| Value::array((0..count).map(Value::from));
        assert!(run_on(&map, items(10), 1 << 20).is_ok());
        // A hundred million values, were they made.
        let error = run_on(&map, items(100_000), 1 << 20).unwrap_err();
        assert_eq!(
            (error.kind, error.message.as_str()),
            (ExprErrorKind::Size, "a value would take more than 1048576 bytes as JSON")
        );
    }

    #[test]
    fn a_filter_that_would_never_end_is_stopped() {
        let filter = r#"{"operation":"filter","where":"$inputs.items contains $item"}"#;
        let items = |count: i64| Value::array((0..count).map(Value::from));
        assert!(run_on(filter, items(1000), u64::MAX).is_ok());
        let error = run_on(filter, items(1_000_000), u64::MAX).unwrap_err();
        assert_eq!(error.kind, ExprErrorKind::Work, "{error}");
        let expected = "evaluating `$inputs.items contains $item` for 1000000 elements takes more than 400000000 steps";
        assert!(error.message.starts_with(expected), "{error}");
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
    fn integers_that_are_no_doubles_are_compared_and_sorted_whole() {
        let items = r#"[{"k":9007199254740993,"i":0},{"k":9007199254740992,"i":1},{"k":null,"i":2},
            {"k":18446744073709551615,"i":3},{"k":-9007199254740993,"i":4},{"k":9007199254740992.0,"i":5},
            {"k":18446744073709551614,"i":6},{"k":true,"i":7},{"k":-9007199254740992,"i":8}]"#;
        let order = |descending: bool| {
            let sort = format!(r#"{{"operation":"sort","field":"k","descending":{descending}}}"#);
            let sorted = Value::from_json(&run_json(&sort, items).unwrap()).unwrap();
            sorted.as_array().unwrap().iter().map(|v| v.get("i").unwrap().to_json()).collect::<String>()
        };
        assert_eq!(order(false), "487150632");
        assert_eq!(order(true), "360157842");
        // Texts of numbers beside numbers, which have no total order, are compared whole as well.
        let mixed = r#"[{"k":"9007199254740993"},{"k":9007199254740992}]"#;
        let sorted = run_json(r#"{"operation":"sort","field":"k"}"#, mixed).unwrap();
        assert_eq!(sorted, r#"[{"k":9007199254740992},{"k":"9007199254740993"}]"#);
        for condition in ["$item.k == 9007199254740993", "$item.k > 9007199254740992", "$item.k == '9007199254740993'"]
        {
            let filter = format!(r#"{{"operation":"filter","where":"{condition}"}}"#);
            let two = r#"[{"k":9007199254740992},{"k":9007199254740993}]"#;
            assert_eq!(run_json(&filter, two).unwrap(), r#"[{"k":9007199254740993}]"#, "{condition}");
        }
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
            let sorted = sort(&items, "k", false);
            let sorted = sorted.iter().map(|item| item.get("k").unwrap().clone());
            assert_eq!(Value::array(sorted).to_json().replace(".0", ""), expected);
        }
    }

    #[test]
    fn an_array_that_is_worked_on_in_parts_comes_to_the_same_as_its_elements_alone() {
        let (inputs, steps) = (Value::object([("min", Value::from(500))]), Value::object::<&str>([]));
        let context = Context::new(&inputs, &steps);
        let item = |at: i64| Value::object([("n", Value::from(at * 7_919 % 1_000)), ("at", Value::from(at))]);
        let items: Vec<Value> = (0..40_000).map(item).collect();
        for operation in [
            r#"{"operation":"filter","where":"$item.n >= $inputs.min"}"#,
            r#"{"operation":"map","expression":{"n":"$item.n","more":{"at":"$item.at","text":"longer than fifteen bytes"}}}"#,
        ] {
            let operation: TransformOperation = serde_json::from_str(operation).unwrap();
            let whole = apply(&operation, &items, &context).unwrap();
            let alone = items.chunks(1).map(|item| apply(&operation, item, &context).unwrap());
            assert_eq!(whole, alone.flat_map(|part| part.to_vec()).collect());
        }
        let by_index: TransformOperation =
            serde_json::from_str(r#"{"operation":"map","expression":"$index"}"#).unwrap();
        let indices = apply(&by_index, &items, &context).unwrap();
        assert_eq!(indices, (0..40_000_i64).map(Value::from).collect());
        let failing: TransformOperation = serde_json::from_str(r#"{"operation":"filter","where":"$item =="}"#).unwrap();
        assert!(apply(&failing, &items, &context).is_err());
        for descending in [false, true] {
            let sorted = sort(&items, "n", descending);
            let keys = |item: &Value| (item.get("n").map(Value::to_json), item.get("at").map(Value::to_json));
            let mut expected = items.clone();
            let number = |item: &Value| item.get("n").map_or(0.0, |n| js::string_to_number(&n.to_json()));
            expected.sort_by(|a, b| {
                let order = number(a).total_cmp(&number(b));
                if descending { order.reverse() } else { order }
            });
            assert!(sorted.iter().map(keys).eq(expected.iter().map(keys)));
            assert_eq!(sorted.measure(), Array::from(expected).measure());
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
