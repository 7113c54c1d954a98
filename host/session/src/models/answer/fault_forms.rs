//! Documents of errors as clouds and gateways write them, in the form of most providers.

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
    if !document["error"].is_null() {
        return document;
    }
    match error_of(&document) {
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

/// The error of a document that has it elsewhere.
fn error_of(document: &Json) -> Option<Json> {
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
