//! Arguments of tool calls: made to fit the tool's schema where a weak model only wrote them differently.

use opcell_types::value::{is_rounded_integer, rounded_integer};
use serde_json::{Map, Value as Json, json};

/// The arguments as the schema's top-level properties want them (the reference's rule): optional nulls and optional
/// empty texts that cannot be meant are left out, texts become the numbers, booleans, objects and arrays that they
/// spell, an enum's word may differ in case and surrounding space. What cannot be fitted stays as it is. Absent
/// arguments are an empty object.
#[must_use]
pub fn fit(schema: &Json, arguments: &Json) -> Json {
    let mut entries = match arguments {
        Json::Null => Map::new(),
        Json::Object(entries) => entries.clone(),
        other => return other.clone(),
    };
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        let Some(value) = entries.get(key) else { continue };
        if !required.contains(&key.as_str()) && is_left_out(property, value) {
            entries.shift_remove(key);
        } else if let Some(fitted) = fitted(property, value) {
            entries.insert(key.clone(), fitted);
        }
    }
    Json::Object(entries)
}

/// An optional value left out.
fn is_left_out(property: &Json, value: &Json) -> bool {
    let takes_empty = property["type"] == "string" && property.get("enum").is_none();
    value.is_null() || (value.as_str() == Some("") && !takes_empty)
}

fn fitted(property: &Json, value: &Json) -> Option<Json> {
    let wanted = property["type"].as_str()?;
    match (wanted, value) {
        ("string", Json::String(text)) => word_of(property["enum"].as_array()?, text),
        (_, Json::String(text)) => spelled(wanted, text),
        ("boolean", Json::Number(number)) => match number.as_f64() {
            Some(0.0) => Some(json!(false)),
            Some(1.0) => Some(json!(true)),
            _ => None,
        },
        ("array", Json::Array(items)) => {
            let wanted = property.pointer("/items/type").and_then(Json::as_str).filter(|wanted| *wanted != "string")?;
            let item =
                |item: &Json| item.as_str().and_then(|text| spelled(wanted, text)).unwrap_or_else(|| item.clone());
            Some(items.iter().map(item).collect())
        }
        _ => None,
    }
}

/// The one word of an enum that a text means.
fn word_of(words: &[Json], text: &str) -> Option<Json> {
    let text = text.trim();
    let words: Vec<&str> = words.iter().filter_map(Json::as_str).collect();
    if words.contains(&text) {
        return Some(json!(text));
    }
    let folded = text.to_lowercase();
    let mut near = words.into_iter().filter(|word| word.to_lowercase() == folded);
    near.next().filter(|_| near.next().is_none()).map(|word| json!(word))
}

/// Returns the value that a text spells, if it is of the wanted type.
fn spelled(wanted: &str, text: &str) -> Option<Json> {
    match wanted {
        "integer" => match text.parse::<i64>() {
            Ok(number) => Some(json!(number)),
            Err(_) if let Ok(number) = text.parse::<u64>() => Some(json!(number)),
            Err(_) => text.parse::<f64>().ok().and_then(whole).map(|number| json!(number)),
        },
        // An integer stays one: a double would round a long one.
        "number" if let Ok(number) = text.parse::<i64>() => Some(json!(number)),
        "number" if let Ok(number) = text.parse::<u64>() => Some(json!(number)),
        // A longer one stays a text, and the model is told.
        "number" if is_rounded_integer(text.trim()) => None,
        "number" => text.parse::<f64>().ok().filter(|number| number.is_finite()).map(|number| json!(number)),
        "boolean" => match text.trim().to_lowercase().as_str() {
            "true" | "t" | "1" | "yes" => Some(json!(true)),
            "false" | "f" | "0" | "no" => Some(json!(false)),
            _ => None,
        },
        "object" => json_of(text).filter(Json::is_object),
        "array" => Some(json_of(text).filter(Json::is_array).unwrap_or_else(|| json!([text]))),
        _ => None,
    }
}

/// A text as JSON, unless an integer of it would be rounded.
fn json_of(text: &str) -> Option<Json> {
    if rounded_integer(text.as_bytes()).is_some() { None } else { serde_json::from_str(text).ok() }
}

/// A double that is an integer that differs from its neighbours as a double.
#[expect(clippy::cast_possible_truncation, reason = "whole and far below 2^63")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use super::fit;
    use serde_json::{Value as Json, json};

    fn one(property: Json, value: Json) -> Json {
        fit(&json!({"properties": {"x": property}, "required": ["x"]}), &json!({"x": value}))["x"].clone()
    }

    #[test]
    fn texts_become_what_they_spell() {
        assert_eq!(one(json!({"type": "integer"}), json!("5.0")), json!(5));
        assert_eq!(one(json!({"type": "integer"}), json!("3.14")), json!("3.14"));
        assert_eq!(one(json!({"type": "integer"}), json!("18446744073709551615")), json!(u64::MAX));
        assert_eq!(one(json!({"type": "number"}), json!("9007199254740993")), json!(9_007_199_254_740_993_u64));
        let long = json!("123456789012345678901");
        assert_eq!(one(json!({"type": "number"}), long.clone()), long);
        assert_eq!(one(json!({"type": "integer"}), long.clone()), long);
        let inside = json!("{\"a\":123456789012345678901}");
        assert_eq!(one(json!({"type": "object"}), inside.clone()), inside);
        assert_eq!(one(json!({"type": "number"}), json!("0.8")), json!(0.8));
        assert_eq!(one(json!({"type": "number"}), json!("NaN")), json!("NaN"));
        assert_eq!(one(json!({"type": "boolean"}), json!(" Yes ")), json!(true));
        assert_eq!(one(json!({"type": "boolean"}), json!(0)), json!(false));
        assert_eq!(one(json!({"type": "object"}), json!(r#"{"a":1}"#)), json!({"a": 1}));
        assert_eq!(one(json!({"type": "array"}), json!("tag")), json!(["tag"]));
        assert_eq!(one(json!({"type": "array", "items": {"type": "integer"}}), json!(["1", 2])), json!([1, 2]));
    }

    #[test]
    fn an_enum_s_word_may_differ_in_case_and_space_unless_two_words_then_do_not() {
        assert_eq!(one(json!({"type": "string", "enum": ["Escalate"]}), json!(" escalate ")), json!("Escalate"));
        assert_eq!(one(json!({"type": "string", "enum": ["Go", "GO"]}), json!("go")), json!("go"));
        assert_eq!(one(json!({"type": "string", "enum": ["Go", "GO"]}), json!("GO")), json!("GO"));
    }

    #[test]
    fn optional_values_that_stand_for_none_are_left_out() {
        let properties =
            json!({"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "string", "enum": ["x"]}});
        let given = json!({"a": null, "b": "", "c": "", "extra": null});
        assert_eq!(fit(&json!({"properties": properties}), &given), json!({"b": "", "extra": null}));
    }
}
