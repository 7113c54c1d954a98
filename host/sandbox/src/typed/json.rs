//! JSON values to values of WIT types and back. How deep both go is bounded by the types, which were checked when the
//! plugin was loaded.

use super::schema::{EXACT, LISTED_BYTES};
use crate::bindings::{exports::opcell::plugin0_1_0::operations::Success, opcell::plugin0_1_0::types::Failure};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, STANDARD_NO_PAD},
};
use opcell_types::text::{one_line, printable};
use serde_json::{Map, Number, Value};
use wasmtime::component::{Type, Val};

/// The longest message that is made of an error value.
const MESSAGE: usize = 1_000;

/// The parameters of a function from one JSON object.
pub(super) fn arguments(text: &str, parameters: &[(String, Type)]) -> Result<Vec<Val>, String> {
    let Ok(Value::Object(mut members)) = serde_json::from_str(text) else {
        return Err("the arguments are not an object".to_owned());
    };
    let value = |(name, of_type): &(String, Type)| field(&mut members, name, of_type);
    parameters.iter().map(value).collect()
}

fn field(members: &mut Map<String, Value>, name: &str, of_type: &Type) -> Result<Val, String> {
    match members.remove(name) {
        Some(value) => to_val(value, of_type).map_err(|message| format!("{name}: {message}")),
        None if matches!(of_type, Type::Option(_)) => Ok(Val::Option(None)),
        None => Err(format!("{name}: it is missing")),
    }
}

fn expected(what: &str, value: &Value) -> String {
    format!("expected {what}, got {}", one_line(&value.to_string(), 100))
}

fn to_val(value: Value, of_type: &Type) -> Result<Val, String> {
    let small = |what: &str| signed(&value).ok_or_else(|| expected(what, &value));
    Ok(match of_type {
        Type::Bool => Val::Bool(value.as_bool().ok_or_else(|| expected("true or false", &value))?),
        Type::S8 => Val::S8(narrow(small("an s8")?)?),
        Type::U8 => Val::U8(narrow(small("a u8")?)?),
        Type::S16 => Val::S16(narrow(small("an s16")?)?),
        Type::U16 => Val::U16(narrow(small("a u16")?)?),
        Type::S32 => Val::S32(narrow(small("an s32")?)?),
        Type::U32 => Val::U32(narrow(small("a u32")?)?),
        Type::S64 => Val::S64(wide(&value, signed(&value), "an s64")?),
        Type::U64 => Val::U64(wide(&value, unsigned(&value), "a u64")?),
        Type::Float32 => Val::Float32(single(float(&value)?)?),
        Type::Float64 => Val::Float64(float(&value)?),
        Type::Char => {
            let mut letters = value.as_str().unwrap_or_default().chars();
            match (letters.next(), letters.next()) {
                (Some(letter), None) => Val::Char(letter),
                _ => return Err(expected("one character", &value)),
            }
        }
        Type::String => match value {
            Value::String(text) => Val::String(text),
            value => return Err(expected("a string", &value)),
        },
        Type::List(list) => match (list.ty(), value) {
            (Type::U8, Value::String(text)) => Val::List(bytes(&text, None)?),
            (of_type, value) => Val::List(elements(value, std::iter::repeat(of_type), None)?),
        },
        Type::FixedLengthList(list) => {
            let length = usize::try_from(list.len()).ok();
            Val::FixedLengthList(match (list.ty(), value) {
                (Type::U8, Value::String(text)) => bytes(&text, length)?,
                (of_type, value) => elements(value, std::iter::repeat(of_type), length)?,
            })
        }
        Type::Tuple(tuple) => Val::Tuple(elements(value, tuple.types(), Some(tuple.types().len()))?),
        Type::Record(record) => {
            let Value::Object(mut members) = value else { return Err(expected("an object", &value)) };
            let fields =
                record.fields().map(|part| Ok((part.name.to_owned(), field(&mut members, part.name, &part.ty)?)));
            Val::Record(fields.collect::<Result<_, String>>()?)
        }
        Type::Variant(variant) => {
            let (name, payload) = match value {
                Value::String(name) => (name, None),
                Value::Object(members) if members.len() == 1 => {
                    let Some((name, payload)) = members.into_iter().next() else {
                        return Err("expected a case".to_owned());
                    };
                    (name, Some(payload))
                }
                value => return Err(expected("a case", &value)),
            };
            let Some(case) = variant.cases().find(|case| case.name == name) else {
                return Err(format!("there is no case `{}`", one_line(&name, 100)));
            };
            let payload = match (case.ty, payload) {
                (Some(of_type), Some(payload)) => Some(Box::new(to_val(payload, &of_type)?)),
                (None, None) => None,
                (Some(_), None) => return Err(format!("the case `{name}` needs a value: {{\"{name}\": …}}")),
                (None, Some(_)) => return Err(format!("the case `{name}` has no value: \"{name}\"")),
            };
            Val::Variant(name, payload)
        }
        Type::Enum(names) => match value {
            Value::String(name) if names.names().any(|known| known == name) => Val::Enum(name),
            value => return Err(expected("one of the names", &value)),
        },
        Type::Flags(flags) => {
            let Value::Array(list) = &value else { return Err(expected("a list of flags", &value)) };
            let known = |flag: &Value| {
                flag.as_str().filter(|name| flags.names().any(|known| known == *name)).map(str::to_owned)
            };
            let mut set = list
                .iter()
                .map(|flag| known(flag).ok_or_else(|| expected("a flag", flag)))
                .collect::<Result<Vec<_>, _>>()?;
            set.sort_unstable();
            set.dedup();
            Val::Flags(set)
        }
        Type::Option(option) => match value {
            Value::Null => Val::Option(None),
            value => {
                let inner = option.ty();
                let value = if matches!(inner, Type::Option(_)) { the_member(value, &["some"])?.1 } else { value };
                Val::Option(Some(Box::new(to_val(value, &inner)?)))
            }
        },
        Type::Result(result) => {
            let (which, value) = the_member(value, &["ok", "error"])?;
            let payload = |of_type: Option<Type>| match of_type {
                Some(of_type) => Ok::<_, String>(Some(Box::new(to_val(value, &of_type)?))),
                None => Ok(None),
            };
            Val::Result(if which == "ok" { Ok(payload(result.ok())?) } else { Err(payload(result.err())?) })
        }
        _ => return Err("the type cannot be made of JSON".to_owned()),
    })
}

/// The one member of an object, by one of these names.
fn the_member(value: Value, names: &[&str]) -> Result<(String, Value), String> {
    let Value::Object(members) = value else {
        return Err(expected(&format!("an object with `{}`", names.join("` or `")), &value));
    };
    match members.into_iter().next() {
        Some((name, value)) if names.contains(&name.as_str()) => Ok((name, value)),
        _ => Err(format!("expected an object with `{}`", names.join("` or `"))),
    }
}

fn elements(value: Value, types: impl Iterator<Item = Type>, length: Option<usize>) -> Result<Vec<Val>, String> {
    let Value::Array(list) = value else { return Err(expected("a list", &value)) };
    if let Some(length) = length.filter(|length| *length != list.len()) {
        return Err(format!("expected {length} elements, got {}", list.len()));
    }
    let element = |(at, (value, of_type)): (usize, (Value, Type))| {
        to_val(value, &of_type).map_err(|message| format!("{at}: {message}"))
    };
    list.into_iter().zip(types).enumerate().map(element).collect()
}

/// Bytes from their base64 text, with or without padding, in either alphabet, on one line or on several.
fn bytes(text: &str, length: Option<usize>) -> Result<Vec<Val>, String> {
    let plain = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).map(|byte| match byte {
        b'-' => b'+',
        b'_' => b'/',
        byte => byte,
    });
    let plain: Vec<u8> = plain.collect();
    let unpadded = plain.iter().rposition(|byte| *byte != b'=').map_or(0, |last| last + 1);
    let decoded = STANDARD_NO_PAD
        .decode(plain.get(..unpadded).unwrap_or_default())
        .map_err(|_| "expected base64 text or a list of numbers, and the text is not base64".to_owned())?;
    if let Some(length) = length.filter(|length| *length != decoded.len()) {
        return Err(format!("expected {length} bytes, got {}", decoded.len()));
    }
    Ok(decoded.into_iter().map(Val::U8).collect())
}

/// An integer, also one that is written with a fraction of zero.
fn signed(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() <= EXACT as f64)?;
        #[expect(clippy::cast_possible_truncation, reason = "whole and in range")]
        Some(float as i64)
    })
}

fn unsigned(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| signed(value).and_then(|number| u64::try_from(number).ok()))
}

/// A number as one of 32 bits, if that is not infinite where the number was finite.
fn single(number: f64) -> Result<f32, String> {
    #[expect(clippy::cast_possible_truncation, reason = "the type has fewer digits")]
    let single = number as f32;
    if single.is_infinite() && number.is_finite() {
        return Err(format!("{number:e} is out of range of an f32, whose largest is {:e}", f32::MAX));
    }
    Ok(single)
}

fn narrow<T: TryFrom<i64>>(number: i64) -> Result<T, String> {
    T::try_from(number).map_err(|_| format!("{number} is out of range"))
}

fn wide<T: std::str::FromStr>(value: &Value, number: Option<T>, what: &str) -> Result<T, String> {
    let text = || value.as_str().and_then(|text| text.parse().ok());
    number.or_else(text).ok_or_else(|| expected(&format!("{what} as a number or decimal text"), value))
}

fn float(value: &Value) -> Result<f64, String> {
    match value.as_str() {
        Some("NaN") => Ok(f64::NAN),
        Some("Infinity") => Ok(f64::INFINITY),
        Some("-Infinity") => Ok(f64::NEG_INFINITY),
        _ => value.as_f64().ok_or_else(|| expected("a number", value)),
    }
}

/// Returns the result of a function: data, or the failure that its `result` holds.
pub(super) fn reply(result: Option<Val>) -> Result<Success, Failure> {
    let value = match result {
        None | Some(Val::Result(Ok(None))) => Value::Null,
        Some(Val::Result(Ok(Some(value)))) => from_val(*value),
        Some(Val::Result(Err(error))) => return Err(failure(error.map(|error| *error))),
        Some(value) => from_val(value),
    };
    Ok(Success { data: value.to_string(), summary: None, details: None })
}

fn failure(error: Option<Val>) -> Failure {
    let Some(error) = error else {
        return Failure {
            reason: "failed".to_owned(),
            message: "the function returned an error".to_owned(),
            details: None,
        };
    };
    // A case is what a program can rely on; everything else is for people.
    let reason = match &error {
        Val::Enum(name) | Val::Variant(name, _) => name.to_ascii_lowercase(),
        _ => "failed".to_owned(),
    };
    let error = from_val(error);
    let message = match &error {
        Value::String(text) => printable(text, MESSAGE),
        other => printable(&other.to_string(), MESSAGE),
    };
    Failure { reason, message, details: Some(error.to_string()) }
}

fn from_val(value: Val) -> Value {
    let object = |name: String, value: Value| Value::Object(Map::from_iter([(name, value)]));
    let payload = |value: Option<Box<Val>>| value.map_or(Value::Null, |value| from_val(*value));
    match value {
        Val::Bool(flag) => flag.into(),
        Val::S8(number) => number.into(),
        Val::U8(number) => number.into(),
        Val::S16(number) => number.into(),
        Val::U16(number) => number.into(),
        Val::S32(number) => number.into(),
        Val::U32(number) => number.into(),
        Val::S64(number) if number.unsigned_abs() <= EXACT => number.into(),
        Val::S64(number) => number.to_string().into(),
        Val::U64(number) if number <= EXACT => number.into(),
        Val::U64(number) => number.to_string().into(),
        // The shortest digits that mean this number among those of 32 bits, as languages print it.
        Val::Float32(number) => of_float(number.to_string().parse().unwrap_or_else(|_| f64::from(number))),
        Val::Float64(number) => of_float(number),
        Val::Char(letter) => letter.to_string().into(),
        Val::String(text) | Val::Enum(text) => text.into(),
        Val::List(list) | Val::FixedLengthList(list) if list.len() > LISTED_BYTES && is_bytes(&list) => {
            let bytes: Vec<u8> =
                list.into_iter().filter_map(|byte| if let Val::U8(byte) = byte { Some(byte) } else { None }).collect();
            STANDARD.encode(bytes).into()
        }
        Val::List(list) | Val::Tuple(list) | Val::FixedLengthList(list) => list.into_iter().map(from_val).collect(),
        Val::Record(fields) => Value::Object(fields.into_iter().map(|(name, value)| (name, from_val(value))).collect()),
        Val::Variant(name, None) => name.into(),
        Val::Variant(name, Some(value)) => object(name, from_val(*value)),
        Val::Flags(names) => names.into_iter().map(Value::from).collect(),
        Val::Option(None) => Value::Null,
        Val::Option(Some(value)) => match *value {
            nested @ Val::Option(_) => object("some".to_owned(), from_val(nested)),
            value => from_val(value),
        },
        Val::Result(Ok(value)) => object("ok".to_owned(), payload(value)),
        Val::Result(Err(value)) => object("error".to_owned(), payload(value)),
        // Functions with these are not offered.
        Val::Map(_) | Val::Resource(_) | Val::Future(_) | Val::Stream(_) | Val::ErrorContext(_) => Value::Null,
    }
}

/// Returns `true` for a list of `u8`.
fn is_bytes(list: &[Val]) -> bool {
    list.iter().all(|value| matches!(value, Val::U8(_)))
}

fn of_float(number: f64) -> Value {
    match Number::from_f64(number) {
        Some(number) => Value::Number(number),
        None if number.is_nan() => "NaN".into(),
        None if number > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::typed::schema;
    use opcell_schema::Schema;
    use serde_json::json;
    use wasmtime::{
        Engine,
        component::{Component, types::ComponentItem},
    };

    /// The schema and the type of one parameter, named `a`.
    fn parameter(types: &str, of_type: &str) -> (Schema, Vec<(String, Type)>) {
        let engine = Engine::default();
        let wat = format!(r#"(component {types} (import "f" (func (param "a" {of_type}))))"#);
        let component = Component::new(&engine, wat::parse_str(wat).unwrap()).unwrap();
        let component_type = component.component_type();
        let function = component_type.imports(&engine).find_map(|(_, item)| match item.ty {
            ComponentItem::ComponentFunc(function) => Some(function),
            _ => None,
        });
        let function = function.unwrap();
        let (arguments, _) = schema::of_function(&function).unwrap();
        let types = function.params().map(|(name, of_type)| (name.to_owned(), of_type)).collect();
        (Schema::compile(&arguments).unwrap(), types)
    }

    fn survives(types: &str, of_type: &str, values: &[Value]) {
        let (schema, types) = parameter(types, of_type);
        for value in values {
            let given = json!({ "a": value });
            schema.check(&given).unwrap_or_else(|error| panic!("{value}: {error}"));
            let val = arguments(&given.to_string(), &types).unwrap_or_else(|error| panic!("{value}: {error}"));
            assert_eq!(from_val(val.into_iter().next().unwrap()), *value, "{of_type}");
        }
    }

    #[test]
    fn bytes_are_taken_as_base64_text_and_given_so_where_they_are_many() {
        let (schema, types) = parameter("", "(list u8)");
        let given = |value: Value| {
            let given = json!({ "a": value });
            schema.check(&given).unwrap();
            let val = arguments(&given.to_string(), &types).unwrap();
            from_val(val.into_iter().next().unwrap())
        };
        for text in ["AQID", "AQIDBA==", "AQIDBA", ""] {
            let bytes = STANDARD_NO_PAD.decode(text.trim_end_matches('=')).unwrap();
            assert_eq!(given(json!(text)), json!(bytes));
            assert_eq!(given(json!(bytes)), json!(bytes));
        }
        for text in ["_-8=", "_-8", "/+\r\n8=\n"] {
            assert_eq!(given(json!(text)), json!([0xff, 0xef]), "{text}");
        }
        let many = vec![7_u8; LISTED_BYTES + 1];
        assert_eq!(given(json!(many)), json!(STANDARD.encode(&many)));
        assert!(arguments(r#"{"a": "no base64!"}"#, &types).unwrap_err().contains("base64"));
    }

    #[test]
    fn numbers_of_32_bits_are_printed_shortest_and_never_become_infinite() {
        survives("", "f32", &[json!(0.1), json!(1.0e-45), json!(3.4028235e38), json!("Infinity")]);
        let (schema, types) = parameter("", "f32");
        assert!(schema.check(&json!({"a": 1e39})).is_err());
        assert!(arguments(r#"{"a": 1e39}"#, &types).unwrap_err().contains("out of range of an f32"));
    }

    #[test]
    fn whole_numbers_are_integers_however_they_are_written() {
        for of_type in ["u8", "s32", "u64", "s64"] {
            let (schema, types) = parameter("", of_type);
            for text in [r#"{"a": 5.0}"#, r#"{"a": 1e2}"#] {
                assert_eq!(schema.check(&serde_json::from_str(text).unwrap()), Ok(()));
                let val = arguments(text, &types).unwrap().into_iter().next().unwrap();
                assert!(matches!(from_val(val).as_u64(), Some(5 | 100)), "{of_type} {text}");
            }
            for text in [r#"{"a": 1e30}"#, r#"{"a": 0.5}"#, r#"{"a": -1e30}"#] {
                assert!(schema.check(&serde_json::from_str(text).unwrap()).is_err(), "{of_type} {text}");
            }
        }
    }

    #[test]
    fn a_value_of_every_type_survives_the_way_in_and_out_and_fits_its_schema() {
        survives("", "bool", &[json!(true), json!(false)]);
        survives("", "s8", &[json!(-128), json!(127)]);
        survives("", "u32", &[json!(0), json!(4_294_967_295_u32)]);
        survives("", "s64", &[json!(-5), json!("-9223372036854775808"), json!(9_007_199_254_740_991_i64)]);
        survives("", "u64", &[json!("18446744073709551615"), json!(0)]);
        survives("", "f64", &[json!(1.5), json!("NaN"), json!("-Infinity")]);
        survives("", "char", &[json!("☃")]);
        survives("", "(list (tuple u8 string))", &[json!([]), json!([[1, "a"], [2, "b"]])]);
        survives("", "(option string)", &[json!(null), json!("x")]);
        survives("", "(option (option u8))", &[json!(null), json!({"some": null}), json!({"some": 5})]);
        survives("", "(result u8 (error string))", &[json!({"ok": 5}), json!({"error": "no"})]);
        survives("", "(result)", &[json!({"ok": null}), json!({"error": null})]);
        let record =
            r#"(type $r (record (field "x" s32) (field "label" (option string)))) (import "r" (type $t (eq $r)))"#;
        survives(record, "$t", &[json!({"x": 1, "label": "l"}), json!({"x": 1, "label": null})]);
        let variant = r#"(type $v (variant (case "dot") (case "circle" f64))) (import "v" (type $t (eq $v)))"#;
        survives(variant, "$t", &[json!("dot"), json!({"circle": 1.5})]);
        survives(r#"(type $e (enum "red" "green")) (import "e" (type $t (eq $e)))"#, "$t", &[json!("green")]);
        survives(
            r#"(type $f (flags "r" "w")) (import "f-lags" (type $t (eq $f)))"#,
            "$t",
            &[json!([]), json!(["r", "w"])],
        );
    }

    #[test]
    fn a_value_that_does_not_fit_is_named_with_its_place() {
        let (_, types) = parameter("", "(list (tuple u8 (option bool)))");
        for (value, expected) in [
            (json!([[256, true]]), "a: 0: 0: 256 is out of range"),
            (json!([[1, true], [1]]), "a: 1: expected 2 elements, got 1"),
            (json!([[1, "x"]]), "a: 0: 1: expected true or false, got \"x\""),
            (json!("x"), "a: expected a list, got \"x\""),
        ] {
            assert_eq!(arguments(&json!({ "a": value }).to_string(), &types).unwrap_err(), expected);
        }
        assert_eq!(arguments("{}", &types).unwrap_err(), "a: it is missing");
    }

    #[test]
    fn types_that_grow_when_they_are_written_out_are_refused() {
        let mut types = "(type $t0 (tuple u8 u8))".to_owned();
        for at in 1..24 {
            types.push_str(&format!("(type $t{at} (tuple $t{0} $t{0}))", at - 1));
        }
        let engine = Engine::default();
        let wat = format!(r#"(component {types} (import "f" (func (param "a" (list $t15)))))"#);
        let Ok(component) = Component::new(&engine, wat) else { return };
        let component_type = component.component_type();
        let item = component_type.imports(&engine).next().unwrap().1.ty;
        let ComponentItem::ComponentFunc(function) = item else { panic!() };
        assert!(schema::of_function(&function).unwrap_err().contains("more than 4000 parts"));
    }
}
