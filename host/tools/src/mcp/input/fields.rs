//! The fields of a form: texts, numbers, booleans and choices, as the protocol has them.

use opcell_types::text::{one_line, printable};
use serde_json::{Map, Value as Json, json};

/// Fields of one form.
const MAX_FIELDS: usize = 32;

/// Choices of one field.
const MAX_CHOICES: usize = 100;

/// Bytes of the name of a field, and of a choice: both go back to the server as they are.
const NAME_BYTES: usize = 200;

/// Bytes of a title, and of a description.
const TITLE_BYTES: usize = 200;
const DESCRIPTION_BYTES: usize = 1_000;

/// Characters of a text that a person gives.
const MAX_TEXT_LENGTH: u64 = 10_000;

/// Formats of texts that the protocol has.
const FORMATS: [&str; 4] = ["email", "uri", "date", "date-time"];

/// Words of names and titles of fields for secrets: forms are kept in the journal, and shown to whoever reads the run.
const SECRETS: [&str; 14] = [
    "password",
    "passwords",
    "passwd",
    "pwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "credential",
    "credentials",
    "apikey",
    "otp",
    "cvv",
    "cvc",
];

/// The same in two words.
const SECRET_PAIRS: [(&str, &str); 7] = [
    ("api", "key"),
    ("api", "token"),
    ("access", "key"),
    ("access", "token"),
    ("auth", "token"),
    ("bearer", "token"),
    ("private", "key"),
];

/// The schema of a form, put together from the parts that the protocol has.
///
/// # Errors
/// With the rest of a sentence, where it has other parts, too many, or asks for a secret.
pub(super) fn schema(requested: &Json) -> Result<Json, String> {
    let Some(properties) = requested.get("properties").and_then(Json::as_object) else {
        return Err("asks for input without a form: its schema has no `properties`".to_owned());
    };
    if requested.get("type").is_some_and(|kind| kind != "object") {
        return Err("asks for input with a form that is not an object".to_owned());
    }
    if properties.len() > MAX_FIELDS {
        return Err(format!(
            "asks for input with {} fields in a form; at most {MAX_FIELDS} are shown",
            properties.len()
        ));
    }
    let mut fields = Map::new();
    for (name, property) in properties {
        if name.is_empty() || one_line(name, NAME_BYTES) != *name {
            let shown = one_line(name, NAME_BYTES);
            return Err(format!("asks for input in a field whose name cannot be shown as it is: `{shown}`"));
        }
        let title = property.get("title").and_then(Json::as_str).unwrap_or_default();
        let is_hidden = property.get("format").is_some_and(|format| format == "password")
            || property.get("writeOnly") == Some(&Json::Bool(true));
        if is_hidden || is_secret(name) || is_secret(title) {
            return Err(format!(
                "asks for a secret (field `{name}`), and forms are kept in the journal; give it to the server in its \
                 configuration"
            ));
        }
        fields.insert(name.clone(), field(name, property)?);
    }
    let required = requested.get("required").and_then(Json::as_array);
    let required: Vec<&Json> = required
        .into_iter()
        .flatten()
        .filter(|name| name.as_str().is_some_and(|name| fields.contains_key(name)))
        .take(MAX_FIELDS)
        .collect();
    Ok(json!({"type": "object", "required": required, "properties": fields, "additionalProperties": false}))
}

/// Returns `true` if a text has a word for a secret.
fn is_secret(text: &str) -> bool {
    let mut spaced = String::new();
    let mut was_lower = false;
    for letter in text.chars().take(TITLE_BYTES) {
        if letter.is_uppercase() && was_lower {
            spaced.push(' ');
        }
        was_lower = letter.is_lowercase() || letter.is_numeric();
        spaced.push(if letter.is_alphanumeric() { letter } else { ' ' });
    }
    let spaced = spaced.to_lowercase();
    let words: Vec<&str> = spaced.split_whitespace().collect();
    words.iter().any(|word| SECRETS.contains(word))
        || words.windows(2).any(|pair| matches!(pair, [a, b] if SECRET_PAIRS.contains(&(*a, *b))))
}

fn field(name: &str, property: &Json) -> Result<Json, String> {
    let unusable = |what: &str| format!("asks for input in the field `{name}`, {what}");
    let kind = property.get("type").and_then(Json::as_str).unwrap_or("string");
    let mut made = Map::new();
    made.insert("type".to_owned(), Json::from(kind));
    for (key, bytes) in [("title", TITLE_BYTES), ("description", DESCRIPTION_BYTES)] {
        if let Some(text) = property.get(key).and_then(Json::as_str).filter(|text| !text.trim().is_empty()) {
            made.insert(key.to_owned(), Json::from(printable(text.trim(), bytes)));
        }
    }
    match kind {
        "string" => match choices(property).map_err(|what| unusable(&what))? {
            Some(choices) => drop(made.insert("oneOf".to_owned(), choices)),
            None => text(property, &mut made),
        },
        "number" | "integer" => {
            for bound in ["minimum", "maximum"] {
                if let Some(limit) = property.get(bound).filter(|limit| limit.is_number()) {
                    made.insert(bound.to_owned(), limit.clone());
                }
            }
        }
        "boolean" => {}
        "array" => {
            let items = property.get("items").unwrap_or(&Json::Null);
            let Some(choices) = choices(items).map_err(|what| unusable(&what))? else {
                return Err(unusable("a list of values that are not among choices"));
            };
            made.insert("items".to_owned(), json!({"type": "string", "oneOf": choices}));
            made.insert("uniqueItems".to_owned(), Json::Bool(true));
            for bound in ["minItems", "maxItems"] {
                if let Some(limit) = property.get(bound).and_then(Json::as_u64) {
                    made.insert(bound.to_owned(), Json::from(limit));
                }
            }
        }
        other => {
            let other = one_line(other, NAME_BYTES);
            return Err(unusable(&format!(
                "which is of the type `{other}`; forms have strings, numbers, booleans and choices"
            )));
        }
    }
    if let Some(default) = property.get("default").filter(|default| is_default(kind, default)) {
        made.insert("default".to_owned(), default.clone());
    }
    Ok(Json::Object(made))
}

/// The bounds of a text.
fn text(property: &Json, made: &mut Map<String, Json>) {
    let longest = property.get("maxLength").and_then(Json::as_u64).unwrap_or(MAX_TEXT_LENGTH).min(MAX_TEXT_LENGTH);
    made.insert("maxLength".to_owned(), Json::from(longest));
    if let Some(shortest) = property.get("minLength").and_then(Json::as_u64) {
        made.insert("minLength".to_owned(), Json::from(shortest));
    }
    let format = property.get("format").and_then(Json::as_str);
    if let Some(format) = format.filter(|format| FORMATS.contains(format)) {
        made.insert("format".to_owned(), Json::from(format));
    }
}

/// A default that a person sees as it is.
fn is_default(kind: &str, default: &Json) -> bool {
    let is_shown = |text: &str| text.len() <= DESCRIPTION_BYTES && printable(text, DESCRIPTION_BYTES) == text;
    match (kind, default) {
        ("string", Json::String(text)) => is_shown(text),
        ("number", Json::Number(_)) | ("boolean", Json::Bool(_)) => true,
        ("integer", Json::Number(number)) => number.is_i64() || number.is_u64(),
        ("array", Json::Array(items)) => {
            items.len() <= MAX_CHOICES && items.iter().all(|item| item.as_str().is_some_and(is_shown))
        }
        _ => false,
    }
}

/// The choices of a field, each with its title; `None` where it has none.
fn choices(property: &Json) -> Result<Option<Json>, String> {
    let list = |key: &str| property.get(key).and_then(Json::as_array);
    let of = |value: &Json, title: Option<&str>| {
        let value = value.as_str().unwrap_or_default();
        if value.is_empty() || one_line(value, NAME_BYTES) != value {
            return Err(format!("which has a choice that cannot be shown as it is: `{}`", one_line(value, NAME_BYTES)));
        }
        let title = one_line(title.unwrap_or(value).trim(), TITLE_BYTES);
        Ok(json!({"const": value, "title": title}))
    };
    let found: Vec<Result<Json, String>> = match (list("oneOf").or_else(|| list("anyOf")), list("enum")) {
        (Some(titled), _) => {
            let of_titled = |one: &Json| {
                let title = one.get("title").and_then(Json::as_str);
                of(one.get("const").unwrap_or(&Json::Null), title)
            };
            titled.iter().take(MAX_CHOICES + 1).map(of_titled).collect()
        }
        (None, Some(values)) => {
            // Revisions before 2025-11-25 gave titles beside the values.
            let title = |at: usize| list("enumNames")?.get(at)?.as_str();
            values.iter().take(MAX_CHOICES + 1).enumerate().map(|(at, value)| of(value, title(at))).collect()
        }
        (None, None) => return Ok(None),
    };
    if found.is_empty() || found.len() > MAX_CHOICES {
        return Err(format!("which has no choices, or more than {MAX_CHOICES}"));
    }
    Ok(Some(Json::Array(found.into_iter().collect::<Result<_, _>>()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(property: Json) -> Result<Json, String> {
        let made = schema(&json!({"type": "object", "properties": {"f": property}, "required": ["f", "g"]}))?;
        assert_eq!(made["required"], json!(["f"]));
        Ok(made["properties"]["f"].clone())
    }

    #[test]
    fn a_form_is_put_together_from_the_parts_that_the_protocol_has() {
        for (property, made) in [
            (
                json!({"type": "string", "pattern": "(a+)+", "$ref": "#", "minLength": 2, "maxLength": 1e9 as u64,
                    "format": "email", "title": " E\u{202e} ", "default": "a@b.example"}),
                json!({"type": "string", "minLength": 2, "maxLength": 10_000, "format": "email", "title": "E\u{fffd}",
                    "default": "a@b.example"}),
            ),
            (json!({"type": "string", "format": "regex"}), json!({"type": "string", "maxLength": 10_000})),
            (
                json!({"type": "integer", "minimum": 1, "maximum": 9, "default": 1.5}),
                json!({"type": "integer", "minimum": 1, "maximum": 9}),
            ),
            (json!({"type": "boolean", "default": true}), json!({"type": "boolean", "default": true})),
            (
                json!({"type": "string", "enum": ["a", "b"], "enumNames": ["A"]}),
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}, {"const": "b", "title": "b"}]}),
            ),
            (
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"}),
                json!({"type": "string", "oneOf": [{"const": "a", "title": "A"}], "default": "a"}),
            ),
            (
                json!({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}, "maxItems": 1}),
                json!({"type": "array", "items": {"type": "string", "oneOf": [{"const": "a", "title": "A"}]},
                    "uniqueItems": true, "maxItems": 1}),
            ),
        ] {
            assert_eq!(one(property.clone()), Ok(made), "{property}");
        }
    }

    #[test]
    fn a_secret_and_what_cannot_be_shown_is_refused_with_a_sentence() {
        for (name, property, sentence) in [
            ("password", json!({"type": "string"}), "asks for a secret (field `password`)"),
            ("userPassword", json!({}), "asks for a secret"),
            ("API_KEY", json!({}), "asks for a secret"),
            ("f", json!({"title": "Access token"}), "asks for a secret"),
            ("f", json!({"format": "password"}), "asks for a secret"),
            ("f", json!({"writeOnly": true}), "asks for a secret"),
            ("f", json!({"type": "object"}), "of the type `object`"),
            ("f", json!({"type": "array", "items": {"type": "string"}}), "not among choices"),
            ("f", json!({"enum": []}), "no choices"),
            ("f", json!({"enum": ["a\u{1b}"]}), "cannot be shown as it is: `a\u{fffd}`"),
            ("f\u{202e}", json!({}), "whose name cannot be shown"),
        ] {
            let why = schema(&json!({"properties": {name: property}})).unwrap_err();
            assert!(why.contains(sentence), "{name}: {why}");
        }
        // Words within other words are not meant.
        for name in ["passport", "tokens", "secretary", "keyboard", "private", "api"] {
            assert!(schema(&json!({"properties": {name: {"type": "string"}}})).is_ok(), "{name}");
        }
        let many: Map<String, Json> = (0..=MAX_FIELDS).map(|at| (format!("f{at}"), json!({}))).collect();
        assert!(schema(&json!({"properties": many})).unwrap_err().contains("33 fields"));
        assert!(schema(&json!({"type": "array", "properties": {}})).unwrap_err().contains("not an object"));
        let choices: Vec<String> = (0..=MAX_CHOICES).map(|at| at.to_string()).collect();
        assert!(schema(&json!({"properties": {"f": {"enum": choices}}})).unwrap_err().contains("more than 100"));
    }
}
