//! Values that JSON does not have, as case files tag them: `{"$undefined": true}`, `{"$number": "NaN"}`, `{"$function":
//! true}`.

use opcell_types::{
    Value,
    value::{Map, Number},
};

/// A value without tags. A function, which the reference leaks from JavaScript's prototypes, is undefined here: see
/// `DEVIATIONS.md`.
pub(super) fn decode(value: &Value) -> Value {
    match value {
        Value::Array(items) => Value::array(items.iter().map(decode)),
        Value::Object(entries) => match entries.get_index(0) {
            Some((key, _)) if entries.len() == 1 && matches!(key.as_ref(), "$undefined" | "$function") => {
                Value::Undefined
            }
            Some((key, Value::String(name))) if entries.len() == 1 && key.as_ref() == "$number" => {
                Value::from(match name.as_ref() {
                    "Infinity" => f64::INFINITY,
                    "-Infinity" => f64::NEG_INFINITY,
                    "-0" => -0.0,
                    _ => f64::NAN,
                })
            }
            _ => {
                let entries: Map = entries.iter().map(|(key, value)| (key.clone(), decode(value))).collect();
                Value::from(entries)
            }
        },
        other => other.clone(),
    }
}

/// Returns `true` if two values are the same to JavaScript's `Object.is`, aggregates by what they hold: NaN is itself,
/// and -0 is not 0.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            let (a, b): (f64, f64) = (Number::as_f64(*a), Number::as_f64(*b));
            (a.is_nan() && b.is_nan()) || (a == b && a.is_sign_negative() == b.is_sign_negative())
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b.iter()).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        (a, b) => a == b,
    }
}

/// A value for people.
pub(super) fn show(value: &Value) -> String {
    match value {
        Value::Undefined => "undefined".to_owned(),
        Value::Number(n) if !n.as_f64().is_finite() || (n.as_f64() == 0.0 && n.as_f64().is_sign_negative()) => {
            format!("{}", n.as_f64())
        }
        other => other.to_json(),
    }
}
