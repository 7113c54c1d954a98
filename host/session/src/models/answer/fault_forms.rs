//! Documents of errors as clouds and gateways write them, in the form of most providers.

use super::parse;
use serde_json::{Map, Value as Json, json};
use std::borrow::Cow;

/// Levels of a document whose names are looked at.
const LEVELS: usize = 4;

/// The document with names that begin in lower case and with its error under `error`.
pub(super) fn canonical(document: &Json) -> Cow<'_, Json> {
    let Json::Object(entries) = document else { return Cow::Borrowed(document) };
    let is_capital = |name: &String| name.starts_with(|c: char| c.is_ascii_uppercase());
    let document = match entries.keys().any(is_capital) {
        true => Cow::Owned(uncapitalized(document, LEVELS)),
        false => Cow::Borrowed(document),
    };
    let error = match &document["error"] {
        Json::Null => error_of(&document),
        Json::String(text) => error_within(text),
        _ => None,
    };
    match error {
        Some(error) => {
            let mut owned = document.into_owned();
            if let Json::Object(entries) = &mut owned {
                entries.insert("error".to_owned(), error);
            }
            Cow::Owned(owned)
        }
        None => document,
    }
}

/// The error in a text that is JSON once more.
fn error_within(text: &str) -> Option<Json> {
    let error = parse(text.trim_start().strip_prefix('{').map(|_| text)?.as_bytes()).ok()?;
    Some(if error["error"].is_object() { error["error"].clone() } else { error })
}

/// The error of an event of Bedrock's streams, which has the name of an exception, as gateways write it out.
fn exception_of(document: &Json) -> Option<Json> {
    let entries = document.as_object().filter(|entries| entries.len() == 1)?;
    let (name, body) = entries.iter().next().filter(|(name, body)| name.ends_with("Exception") && body.is_object())?;
    Some(json!({"type": name, "message": body["message"], "status": body["originalStatusCode"]}))
}

/// The error of a document that has it elsewhere.
fn error_of(document: &Json) -> Option<Json> {
    if let Some(exception) = exception_of(document) {
        return Some(exception);
    }
    let fault = &document["fault"];
    if fault.is_object() {
        return Some(json!({"message": fault["faultstring"], "code": fault["detail"]["errorcode"]}));
    }
    let says = |error: &&Json| {
        error.is_object() && ["message", "error", "msg", "code", "__type"].iter().any(|key| !error[*key].is_null())
    };
    let response = &document["response"];
    let places = [&document["errors"], &document["errors"][0], &document["detail"], &response["error"]];
    places.into_iter().find(says).cloned().or_else(|| {
        let output = &document["output"];
        (output["__type"].is_string()).then(|| json!({"type": output["__type"], "message": output["message"]}))
    })
}

/// The names of a document, each with a first letter in lower case.
fn uncapitalized(document: &Json, levels: usize) -> Json {
    match document {
        Json::Object(entries) if levels > 0 => {
            let renamed = entries.iter().map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|first| first.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect(), uncapitalized(value, levels - 1))
            });
            Json::Object(renamed.collect::<Map<String, Json>>())
        }
        other => other.clone(),
    }
}
