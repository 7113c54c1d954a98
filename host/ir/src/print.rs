//! The printing of values that are not strings inside a text.
//!
//! psi prints EDN, the way Clojure's `str` does: a string as it is, null as nothing, `true` and `false` as words, and
//! everything else in its printed form, `["i-1" "i-2"]` and `{:ticket 123}`. An object's keys print as keywords where
//! they can be keywords. PromptPack prints JSON. Numbers are written in full in both.

pub mod go;

use crate::js;
use opcell_types::value::{Number, NumberKind, Object, Value};
use std::fmt::Write;

/// A value inside a text, as EDN.
#[must_use]
pub fn edn(value: &Value) -> String {
    match value {
        Value::Undefined | Value::Null => String::new(),
        Value::String(text) => text.as_ref().to_owned(),
        value => edn_form(value),
    }
}

/// A value in its printed form: strings stand in quotes, null is `nil`.
#[must_use]
pub fn edn_form(value: &Value) -> String {
    enum Work<'a> {
        Value(&'a Value),
        Key(&'a str),
        Text(&'static str),
    }
    fn sequence<'a>(items: &'a [Value], work: &mut Vec<Work<'a>>) {
        work.push(Work::Text("]"));
        for (i, item) in items.iter().enumerate().rev() {
            work.push(Work::Value(item));
            if i > 0 {
                work.push(Work::Text(" "));
            }
        }
        work.push(Work::Text("["));
    }
    fn entries<'a>(map: &'a Object, work: &mut Vec<Work<'a>>) {
        work.push(Work::Text("}"));
        for (i, (key, value)) in map.iter().enumerate().rev() {
            work.push(Work::Value(value));
            work.push(Work::Key(key));
            if i > 0 {
                work.push(Work::Text(", "));
            }
        }
        work.push(Work::Text("{"));
    }

    let mut out = String::new();
    // An explicit stack: values come from tools and models, and nest as deep as they like.
    let mut work = vec![Work::Value(value)];
    while let Some(next) = work.pop() {
        match next {
            Work::Text(text) => out.push_str(text),
            Work::Key(key) if is_keyword(key) => {
                let _ = write!(out, ":{key} ");
            }
            Work::Key(key) => {
                let _ = write!(out, "{} ", quoted(key));
            }
            Work::Value(Value::Undefined | Value::Null) => out.push_str("nil"),
            Work::Value(Value::Bool(b)) => {
                let _ = write!(out, "{b}");
            }
            Work::Value(Value::Number(n)) => out.push_str(&number(*n)),
            Work::Value(Value::String(text)) => out.push_str(&quoted(text)),
            Work::Value(Value::Array(items)) => sequence(items, &mut work),
            Work::Value(Value::Object(map)) => entries(map, &mut work),
        }
    }
    out
}

/// Returns `true` if a key can be written as an EDN keyword and read back.
fn is_keyword(key: &str) -> bool {
    let mut parts = key.splitn(2, '/');
    parts.all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || "*+!_?<>=-.&%$".contains(c))
            && part.chars().all(|c| c.is_alphanumeric() || "*+!_?<>=-.&%$#'".contains(c))
    })
}

fn number(n: Number) -> String {
    match n.kind() {
        NumberKind::Integer(n) => n.to_string(),
        NumberKind::Unsigned(n) => n.to_string(),
        NumberKind::Float(n) if n.is_finite() => {
            let text = decimal(n);
            if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
        }
        NumberKind::Float(n) => double(n),
    }
}

/// The least and the largest size of a double that is written without an exponent.
const PLAIN_SIZES: std::ops::Range<f64> = 1e-10..1e21;

/// A double with the fewest digits that give it back, and without an exponent where a person would write none. The
/// references print `1.2345678E7` and `1.2345678e+07`, which neither a model nor a URL should be sent.
fn decimal(n: f64) -> String {
    if n == 0.0 || PLAIN_SIZES.contains(&n.abs()) { n.to_string() } else { js::number_to_string(n) }
}

/// A value inside a text, as JSON: a string as it is, numbers as a person writes them, everything else as JSON.
#[must_use]
pub fn json(value: &Value) -> String {
    match value {
        Value::Undefined | Value::Null => "null".to_owned(),
        Value::String(text) => text.as_ref().to_owned(),
        Value::Number(n) => match n.kind() {
            NumberKind::Integer(n) => n.to_string(),
            NumberKind::Unsigned(n) => n.to_string(),
            NumberKind::Float(n) => decimal(n),
        },
        value => value.to_json(),
    }
}

/// A double as Clojure prints it: `1.0`, `0.25`, `1.0E10`, `##Inf`.
#[must_use]
pub fn double(n: f64) -> String {
    if n.is_nan() {
        return "##NaN".to_owned();
    }
    if n.is_infinite() {
        return if n > 0.0 { "##Inf" } else { "##-Inf" }.to_owned();
    }
    let size = n.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        return format!("{n:?}");
    }
    let text = format!("{n:e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => format!("{mantissa}E{exponent}"),
        Some((mantissa, exponent)) => format!("{mantissa}.0E{exponent}"),
        None => text,
    }
}

/// A string in quotes, escaped as Clojure does.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::{edn, edn_form};
    use opcell_types::Value;

    fn json(text: &str) -> Value {
        Value::from_json(text).unwrap()
    }

    #[test]
    fn a_string_prints_as_it_is_and_null_as_nothing() {
        assert_eq!(edn(&json(r#""a \"b\"""#)), "a \"b\"");
        assert_eq!(edn(&Value::Null), "");
        assert_eq!(edn(&Value::Undefined), "");
    }

    #[test]
    fn false_prints_as_a_word() {
        assert_eq!(edn(&json("false")), "false");
        assert_eq!(edn(&json("true")), "true");
    }

    #[test]
    fn aggregates_print_as_clojure_prints_them() {
        assert_eq!(edn(&json(r#"["i-1","i-2"]"#)), r#"["i-1" "i-2"]"#);
        assert_eq!(edn(&json(r#"{"ticket":123}"#)), "{:ticket 123}");
        assert_eq!(edn(&json(r#"{"a":null,"b c":[true,1.5,{}]}"#)), r#"{:a nil, "b c" [true 1.5 {}]}"#);
    }

    #[test]
    fn numbers_print_in_full_and_doubles_with_a_point() {
        for (text, printed) in [
            ("42", "42"),
            ("1.0", "1.0"),
            ("0.3", "0.3"),
            ("1e10", "10000000000.0"),
            ("12345678.0", "12345678.0"),
            ("1.25e-5", "0.0000125"),
            ("-1234567.5", "-1234567.5"),
            ("18446744073709551615", "18446744073709551615"),
            ("9007199254740993", "9007199254740993"),
            ("1e21", "1e+21"),
        ] {
            assert_eq!(edn(&json(text)), printed);
        }
    }

    #[test]
    fn a_value_in_json_has_no_exponent_that_no_one_wrote() {
        for (text, printed) in [
            ("12345678", "12345678"),
            ("12345678.5", "12345678.5"),
            ("1234567.0", "1234567"),
            ("0.00001", "0.00001"),
            ("2512292042121000001", "2512292042121000001"),
            (r#"{"b":[1,{"c":null}],"a":12345678}"#, r#"{"b":[1,{"c":null}],"a":12345678}"#),
            (r#""as it is""#, "as it is"),
            ("true", "true"),
            ("null", "null"),
        ] {
            assert_eq!(super::json(&json(text)), printed);
        }
    }

    #[test]
    fn keys_that_no_keyword_can_hold_are_strings() {
        assert_eq!(edn_form(&json(r#"{"ns/key":1,"1x":2,"":3,"a:b":4}"#)), r#"{:ns/key 1, "1x" 2, "" 3, "a:b" 4}"#);
    }

    #[test]
    fn depth_does_not_matter() {
        let mut value = Value::Null;
        for _ in 0..10_000 {
            value = Value::array([value]);
        }
        let printed = edn(&value);
        assert_eq!(printed.len(), 20_003);
    }
}
