//! Texts, numbers and wrappings in the forms that servers have for them.

use serde_json::Value as Json;

/// Members in which gateways put the answer of another server.
const WRAPPINGS: [&str; 5] = ["response", "data", "result", "output", "body"];

/// The text that a part of a content is, or that is in it. A number or a boolean is one that a server read out of the
/// model's JSON.
pub(in super::super) fn text_in(part: &Json) -> Option<String> {
    let mut at = part;
    for _ in 0..3 {
        match at {
            Json::String(text) => return Some(text.clone()),
            Json::Number(_) | Json::Bool(_) => return Some(at.to_string()),
            Json::Object(entries) => {
                let texts = ["text", "content", "value"].iter().filter_map(|key| entries.get(*key));
                at = texts.into_iter().find(|text| !text.is_null())?;
            }
            Json::Null | Json::Array(_) => return None,
        }
    }
    None
}

/// The parts of a content, with those of lists within it.
pub(in super::super) fn parts_of(parts: &[Json]) -> impl Iterator<Item = &Json> {
    parts.iter().flat_map(|part| match part {
        Json::Array(inner) => inner.as_slice(),
        part => std::slice::from_ref(part),
    })
}

/// A whole number, however a server writes it.
pub(in super::super) fn whole_number(value: &Json) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|at| at as i64)).or_else(|| value.as_str()?.trim().parse().ok())
}

/// A member under its name in camel case or in snake case.
pub(in super::super) fn either<'a>(of: &'a Json, camel: &str, snake: &str) -> &'a Json {
    if of[camel].is_null() { &of[snake] } else { &of[camel] }
}

/// The answer that has a member of this name, out of what a gateway wraps it in: an object, or its text. Usage that the
/// gateway gives beside it is kept. Any other document is what it was.
pub(in super::super) fn unwrapped(document: Json, member: &str) -> Json {
    if !document.is_object() || !document[member].is_null() || document["type"].is_string() {
        return document;
    }
    let inner = WRAPPINGS.iter().find_map(|key| {
        let inner = match &document[*key] {
            Json::String(text) if text.trim_start().starts_with('{') => super::parse(text.as_bytes()).ok()?,
            inner => inner.clone(),
        };
        (!inner[member].is_null()).then_some(inner)
    });
    let Some(mut inner) = inner else { return document };
    if let (Json::Object(entries), true) = (&mut inner, document["usage"].is_object()) {
        entries.entry("usage").or_insert_with(|| document["usage"].clone());
    }
    inner
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_text_is_found_in_every_form() {
        for part in [
            json!("hi"),
            json!({"text": "hi"}),
            json!({"type": "text", "text": {"value": "hi"}}),
            json!({"text": null, "content": "hi"}),
        ] {
            assert_eq!(text_in(&part).as_deref(), Some("hi"), "{part}");
        }
        assert_eq!(text_in(&json!(42)).as_deref(), Some("42"));
        for part in [json!(null), json!([]), json!({"a": 1}), json!({"text": {"text": {"text": {"text": "deep"}}}})] {
            assert_eq!(text_in(&part), None, "{part}");
        }
        let parts = json!(["a", ["b", "c"], "d"]);
        assert_eq!(
            parts_of(parts.as_array().unwrap_or(&Vec::new())).filter_map(Json::as_str).collect::<String>(),
            "abcd"
        );
    }

    #[test]
    fn an_answer_is_taken_out_of_its_wrapping_and_nothing_else_is() {
        let answer = json!({"choices": [1]});
        for wrapped in [
            answer.clone(),
            json!({"code": 200, "data": answer, "msg": "success"}),
            json!({"statusCode": 200, "body": answer.to_string()}),
        ] {
            assert_eq!(unwrapped(wrapped, "choices"), answer);
        }
        let with_usage = json!({"output": answer, "usage": {"input_tokens": 3}});
        assert_eq!(unwrapped(with_usage, "choices"), json!({"choices": [1], "usage": {"input_tokens": 3}}));
        for other in [json!([1]), json!({"data": {"a": 1}}), json!({"type": "event", "response": {"choices": [1]}})] {
            assert_eq!(unwrapped(other.clone(), "choices"), other);
        }
    }
}
