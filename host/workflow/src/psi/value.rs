//! Nodes as data.

use super::report::{Place, Report};
use crate::edn::{Kind, Node};
use opcell_ir::js;
use opcell_types::value::{Map, Number, Value, is_rounded_integer};
use std::sync::Arc;

/// A node as a JSON value: keywords and symbols become their names, characters strings, sets and lists arrays, ratios
/// and decimals doubles, `#inst` and `#uuid` their text. What JSON cannot hold is an error: integers beyond 64 bits,
/// numbers that are not finite, keys that become equal. Recursion is bounded by the reader's depth limit.
pub(super) fn value(node: &Node, place: &Place, report: &mut Report) -> Option<Value> {
    Some(match &node.kind {
        Kind::Nil => Value::Null,
        Kind::Bool(b) => Value::Bool(*b),
        Kind::Integer(n) => Value::from(*n),
        Kind::BigInteger(text) => match text.parse::<u64>() {
            Ok(n) => Value::from(Number::from(n)),
            Err(_) => {
                report.invalid(node.span, place, format!("{text} does not fit 64 bits; write it as a string"));
                return None;
            }
        },
        Kind::Float(n) if n.is_finite() => Value::from(*n),
        Kind::Float(_) => {
            report.invalid(node.span, place, format!("{node} has no JSON value; expected a finite number"));
            return None;
        }
        Kind::Decimal(text) if is_rounded_integer(text) => {
            report.invalid(node.span, place, format!("{text} does not fit 64 bits; write it as a string"));
            return None;
        }
        Kind::Decimal(text) => Value::Number(js::parse_number(text)),
        Kind::Ratio(text) => {
            let (numerator, denominator) = text.split_once('/').unwrap_or((text, "1"));
            let float = |digits: &str| digits.parse::<f64>().unwrap_or(f64::NAN);
            Value::from(float(numerator) / float(denominator))
        }
        Kind::Char(c) => Value::from(c.to_string()),
        Kind::String(text) => Value::from(text.clone()),
        Kind::Keyword(name) | Kind::Symbol(name) => Value::from(name.to_arc()),
        Kind::List(items) | Kind::Vector(items) | Kind::Set(items) => {
            let items: Vec<Option<Value>> =
                items.iter().enumerate().map(|(i, item)| value(item, &place.index(i), report)).collect();
            Value::Array(items.into_iter().collect::<Option<_>>()?)
        }
        Kind::Map(entries) => Value::from(object(entries, place, report)?),
        Kind::Tagged(_, form) => value(form, place, report)?,
    })
}

fn object(entries: &[(Node, Node)], place: &Place, report: &mut Report) -> Option<Map> {
    let mut object = Map::with_capacity(entries.len());
    let mut complete = true;
    for (key, entry) in entries {
        let name: Arc<str> = match &key.kind {
            Kind::Keyword(name) | Kind::Symbol(name) => name.to_arc(),
            Kind::String(text) => text.clone(),
            Kind::Integer(_) | Kind::Bool(_) => key.to_string().into(),
            _ => {
                report.invalid(
                    key.span,
                    place,
                    format!("{} cannot be a key of data; use a keyword or a string", key.noun()),
                );
                complete = false;
                continue;
            }
        };
        match value(entry, &place.key(&name), report) {
            Some(_) if object.contains_key(name.as_ref()) => {
                report.invalid(key.span, place, format!("two keys become the same name `{name}` as data"));
                complete = false;
            }
            Some(value) => {
                object.insert(name.into(), value);
            }
            None => complete = false,
        }
    }
    complete.then_some(object)
}
