//! Arguments that are sent as headers of HTTP as well, for whatever is between client and server and reads no bodies. A
//! tool's schema names them with `x-mcp-header`.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The key of a property that is sent as a header.
const ANNOTATION: &str = "x-mcp-header";

/// The begin of the headers' names.
const PREFIX: &str = "mcp-param-";

/// Bytes of a header's name in a sentence.
const SHOWN_BYTES: usize = 100;

/// One argument that is sent as a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ParamHeader {
    /// The names of the properties that lead to it.
    path: Vec<String>,
    /// The header's whole name, in lower case.
    name: String,
}

impl ParamHeader {
    /// The header for a call with these arguments; none for an argument that is absent or `null`.
    pub(super) fn of(&self, arguments: &Map<String, Json>) -> Option<(&str, String)> {
        let (first, rest) = self.path.split_first()?;
        let value = rest.iter().try_fold(arguments.get(first)?, |value, key| value.get(key))?;
        let text = match value {
            Json::String(text) => text.clone(),
            Json::Bool(truth) => truth.to_string(),
            Json::Number(number) => number.to_string(),
            Json::Null | Json::Array(_) | Json::Object(_) => return None,
        };
        Some((&self.name, encoded(text)))
    }
}

/// A value as a header carries it: in Base64 where it is more than printable ASCII, or would lose blanks at its ends.
fn encoded(text: String) -> String {
    let is_plain = text.bytes().all(|byte| (b' '..=b'~').contains(&byte)) && text.trim() == text;
    let looks_encoded = text.starts_with("=?base64?") && text.ends_with("?=");
    if is_plain && !looks_encoded { text } else { format!("=?base64?{}?=", STANDARD.encode(text)) }
}

/// The arguments of a tool that are sent as headers, by the schema of its arguments.
///
/// # Errors
/// With the reason why the schema is none that a client may use.
pub(super) fn in_schema(schema: &Json) -> Result<Vec<ParamHeader>, String> {
    let (mut found, mut names) = (Vec::new(), HashSet::new());
    // Parts of the schema, with the path to those that nothing but `properties` leads to.
    let mut open = vec![(schema, Some(Vec::new()))];
    while let Some((part, path)) = open.pop() {
        let entries = match part {
            Json::Object(entries) => entries,
            Json::Array(items) => {
                open.extend(items.iter().map(|item| (item, None)));
                continue;
            }
            _ => continue,
        };
        for (key, value) in entries {
            match key.as_str() {
                ANNOTATION => {
                    let path = path.clone().filter(|path| !path.is_empty());
                    let path = path.ok_or_else(|| format!("`{ANNOTATION}` is at something else than a property"))?;
                    let header = header(path, entries, value)?;
                    if !names.insert(header.name.clone()) {
                        return Err(format!("two properties have the same `{ANNOTATION}`, `{}`", shown(value)));
                    }
                    found.push(header);
                }
                "properties" => open.extend(value.as_object().into_iter().flatten().map(|(name, property)| {
                    let path = path.as_ref().map(|path| path.iter().cloned().chain([name.clone()]).collect());
                    (property, path)
                })),
                "$defs" | "definitions" | "dependencies" | "dependentSchemas" | "patternProperties" => {
                    open.extend(value.as_object().into_iter().flatten().map(|(_, part)| (part, None)));
                }
                // Data, and names of properties.
                "const" | "default" | "dependentRequired" | "enum" | "examples" => {}
                _ => open.push((value, None)),
            }
        }
    }
    Ok(found)
}

/// The annotation of one property.
fn header(path: Vec<String>, property: &Map<String, Json>, said: &Json) -> Result<ParamHeader, String> {
    let place = path.join("/");
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let name = said.as_str().filter(|name| !name.is_empty() && name.bytes().all(is_token));
    let name = name.ok_or_else(|| {
        format!("`{ANNOTATION}` of `{}` must be the name of a header, and is {}", shown(&place.into()), shown(said))
    })?;
    match property.get("type").and_then(Json::as_str) {
        Some("string" | "integer" | "boolean") => {
            Ok(ParamHeader { path, name: format!("{PREFIX}{}", name.to_ascii_lowercase()) })
        }
        _ => Err(format!("`{ANNOTATION}` of `{}` takes the type string, integer or boolean", path.join("/"))),
    }
}

fn shown(value: &Json) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    opcell_types::text::one_line(&text, SHOWN_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arguments_become_headers_in_the_form_that_survives_the_way() {
        let text = |name: &str| json!({"type": "string", ANNOTATION: name});
        let schema = json!({"type": "object", "properties": {
            "region": text("Region"), "zone": {"type": "object", "properties": {"name": text("Zone")}},
            "n": {"type": "integer", ANNOTATION: "N"}, "on": {"type": "boolean", ANNOTATION: "On"},
            "city": text("City"), "pad": text("Pad"), "odd": text("Odd"), "none": text("None"), "left": text("Left"),
            "empty": text("Empty"), "x-mcp-header": {"type": "string"}, "free": {"default": {ANNOTATION: 7}},
        }});
        let Json::Object(arguments) = json!({
            "region": "us west", "zone": {"name": "b"}, "n": 42, "on": false, "city": "Zürich", "pad": " a", "none": null,
            "odd": "=?base64?x?=", "empty": "", "x-mcp-header": "no",
        }) else {
            unreachable!()
        };
        let headers = in_schema(&schema).unwrap();
        let mut sent: Vec<_> = headers.iter().filter_map(|header| header.of(&arguments)).collect();
        sent.sort();
        let expected = [
            ("mcp-param-city", "=?base64?WsO8cmljaA==?="),
            ("mcp-param-empty", ""),
            ("mcp-param-n", "42"),
            ("mcp-param-odd", "=?base64?PT9iYXNlNjQ/eD89?="),
            ("mcp-param-on", "false"),
            ("mcp-param-pad", "=?base64?IGE=?="),
            ("mcp-param-region", "us west"),
            ("mcp-param-zone", "b"),
        ];
        assert_eq!(sent, expected.map(|(name, value)| (name, value.to_owned())));
    }

    #[test]
    fn a_schema_whose_headers_cannot_be_sent_is_refused_with_the_place() {
        let of = |property: Json| json!({"properties": {"a": property}});
        let string = |name: Json| json!({"type": "string", ANNOTATION: name});
        for (schema, words) in [
            (of(string(json!(""))), "`a` must be the name of a header"),
            (of(string(json!("A b"))), "must be the name of a header, and is A b"),
            (of(string(json!("A:b"))), "must be the name"),
            (of(string(json!("Ä"))), "must be the name"),
            (of(string(json!(7))), "must be the name"),
            (of(json!({"type": "number", ANNOTATION: "A"})), "takes the type"),
            (of(json!({"type": "array", "items": string(json!("A"))})), "something else than a property"),
            (json!({ANNOTATION: "A"}), "something else than a property"),
            (json!({"$defs": {"a": string(json!("A"))}}), "something else than a property"),
            (json!({"properties": {"a": string(json!("A")), "b": string(json!("a"))}}), "the same"),
        ] {
            let refused = in_schema(&schema).unwrap_err();
            assert!(refused.contains(words), "{schema}: {refused}");
        }
    }
}
