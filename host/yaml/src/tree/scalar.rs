//! The value of a scalar, by YAML 1.2's core schema.

use opcell_ir::js;
use opcell_types::{
    Value,
    value::{NumberKind, is_rounded_integer},
};
use serde_saphyr::granit_parser::{ScalarStyle, Tag};

/// The kind of a scalar, which tells apart those that are written alike as a key of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ScalarKind {
    Null,
    Bool,
    Number,
    Text,
}

impl ScalarKind {
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Undefined | Value::Null => Self::Null,
            Value::Bool(_) => Self::Bool,
            // Not a number equals nothing, itself included.
            Value::Number(number) if number.as_f64().is_nan() => return None,
            Value::Number(_) => Self::Number,
            Value::String(_) => Self::Text,
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// Returns the value of a scalar: plain ones by the core schema, quoted and block ones text, tagged ones what their tag
/// says if they fit it.
pub(super) fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    let typed = match tag {
        None if style == ScalarStyle::Plain => core_schema(text),
        None => None,
        Some(tag) => tag.core_suffix().and_then(|suffix| {
            core_schema(text).filter(|value| match (suffix, value) {
                ("null", Value::Null) | ("bool", Value::Bool(_)) => true,
                ("int", Value::Number(_)) => !is_float(text),
                ("float", Value::Number(_)) => is_float(text),
                _ => false,
            })
        }),
    };
    typed.unwrap_or_else(|| text.into())
}

fn core_schema(text: &str) -> Option<Value> {
    let value = match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" => Value::from(f64::NAN),
        _ => match number(text)? {
            // An integer that a double would round is kept whole, as far as 64 bits go.
            n if n.fract() == 0.0 && n.abs() > js::MAX_SAFE_INTEGER as f64 => match of_radix(text) {
                Some(whole) => Value::Number(whole.into()),
                None => Value::Number(js::parse_number(text.strip_prefix('+').unwrap_or(text))),
            },
            n => js::number(n),
        },
    };
    Some(value)
}

/// An integer of base 8 or 16, if it has 64 bits.
fn of_radix(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.strip_prefix("0o").and_then(|digits| u64::from_str_radix(digits, 8).ok()),
    }
}

/// `true` if a scalar is an integer of more than 64 bits that the double that was read of it does not print.
pub(super) fn is_rounded(value: &Value, text: &str) -> bool {
    let Value::Number(number) = value else { return false };
    match number.kind() {
        NumberKind::Float(double) if double.abs() > js::MAX_SAFE_INTEGER as f64 && !is_float(text) => {
            let decimal = text.strip_prefix('+').unwrap_or(text);
            decimal.starts_with("0x") || decimal.starts_with("0o") || is_rounded_integer(decimal)
        }
        _ => false,
    }
}

/// Returns `true` if a number's text is one of YAML's floats; the others are its integers.
fn is_float(text: &str) -> bool {
    text.contains('.') || (!text.starts_with("0x") && text.contains(['e', 'E']))
}

fn number(text: &str) -> Option<f64> {
    let digits = |text: &str, radix: u32| !text.is_empty() && text.chars().all(|c| c.is_digit(radix));
    if let Some(rest) = text.strip_prefix("0o") {
        return digits(rest, 8).then(|| js::string_to_number(text));
    }
    if let Some(rest) = text.strip_prefix("0x") {
        return digits(rest, 16).then(|| js::string_to_number(text));
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return Some(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY });
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let is_mantissa = (digits(whole, 10) && (fraction.is_empty() || digits(fraction, 10)))
        || (whole.is_empty() && digits(fraction, 10));
    let is_exponent = exponent.is_none_or(|exponent| digits(exponent.strip_prefix(['+', '-']).unwrap_or(exponent), 10));
    (is_mantissa && is_exponent).then(|| js::string_to_number(text))
}
