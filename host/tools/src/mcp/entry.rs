//! One entry of a server's list of tools. An odd one is named with its reason, and takes nothing from its neighbours.

use super::{ListedTool, Listing, accepted, deep::TOO_DEEP, wire::kind};
use opcell_schema::{Schema, shown};
use opcell_types::{
    Value,
    text::{one_line, printable},
    value::is_rounded_integer,
};
use serde_json::{Map, Number, Value as Json, json};
use std::sync::Arc;

/// Bytes of a description that models are shown.
const DESCRIPTION_BYTES: usize = 4 << 10;

/// Bytes of a name.
const NAME_BYTES: usize = 128;

/// Sorts a list into tools that can be used, and reasons for the others.
pub(super) fn weigh(found: Vec<Json>) -> Listing {
    let mut listing = Listing::default();
    for (index, entry) in found.into_iter().enumerate() {
        let place = || format!("entry {}", index + 1);
        let mut entry = match entry {
            Json::Object(entry) => entry,
            other => {
                let what =
                    if is_too_deep(&other) { TOO_DEEP } else { &format!("{} instead of an object", kind(&other)) };
                listing.refused.insert(place(), format!("it is {what}"));
                continue;
            }
        };
        let name = match entry.remove("name") {
            Some(Json::String(name)) if !name.trim().is_empty() => name,
            Some(Json::String(_)) | Some(Json::Null) | None => {
                listing.refused.insert(place(), "it has no name".to_owned());
                continue;
            }
            Some(other) => {
                let shown = one_line(&other.to_string(), NAME_BYTES);
                listing.refused.insert(shown, format!("its name is {} instead of a string", kind(&other)));
                continue;
            }
        };
        let shown = printable(&name, NAME_BYTES);
        let read = if shown == name {
            tool(&name, &mut entry)
        } else {
            Err("its name is too long or cannot be printed".to_owned())
        };
        match read {
            // Refused before, in another form.
            _ if listing.refused.contains_key(&shown) => {}
            Ok(tool) => match listing.tools.get(&shown) {
                // Pages overlap, and lists repeat themselves.
                Some(known) if known.digest == tool.digest => {}
                Some(_) => {
                    listing.tools.shift_remove(&shown);
                    listing.refused.insert(shown, "it is listed twice, and not the same".to_owned());
                }
                None => {
                    listing.tools.insert(shown, tool);
                }
            },
            Err(why) => {
                listing.tools.shift_remove(&shown);
                listing.refused.insert(shown, why);
            }
        }
    }
    listing
}

fn tool(name: &str, entry: &mut Map<String, Json>) -> Result<ListedTool, String> {
    let mut warnings = Vec::new();
    let mut sent = match entry.remove("inputSchema").filter(|schema| !schema.is_null()) {
        Some(schema) => input_schema(Some(schema))?,
        None => {
            // As other interfaces of tools name it.
            let other = ["input_schema", "parameters"].into_iter().find_map(|key| Some((key, entry.remove(key)?)));
            warnings
                .extend(other.as_ref().map(|(key, _)| format!("its schema is under `{key}` instead of `inputSchema`")));
            input_schema(other.map(|(_, schema)| schema))?
        }
    };
    let mut output = entry.remove("outputSchema");
    let is_rounded = [Some(&mut sent), output.as_mut()].into_iter().flatten().fold(false, |so_far, schema| {
        let here = round_bounds(schema);
        so_far || here
    });
    if is_rounded {
        warnings.push("a bound of its schemas has more than 64 bits and is rounded here".to_owned());
    }
    // The server checks its arguments as well.
    let compiled = Schema::compile_leniently(&sent)?;
    warnings.extend(compiled.warnings().iter().cloned());
    let mut text = |key: &str| match entry.remove(key) {
        Some(Json::String(text)) => Some(text),
        Some(Json::Null) | None => None,
        Some(other) => {
            warnings.push(format!("its {key} is {} instead of a string", kind(&other)));
            None
        }
    };
    let (description, title) = (text("description"), text("title"));
    let description = description.or(title).unwrap_or_default();
    let mut results = None;
    let output = match output {
        None | Some(Json::Null) => None,
        Some(schema) if schema.is_object() => match Schema::compile_leniently(&schema) {
            Ok(compiled) => {
                results = Some(Value::from(shown::schema(&schema)));
                Some(Arc::new(compiled))
            }
            Err(why) => {
                warnings.push(format!("its results are not checked: outputSchema: {why}"));
                None
            }
        },
        Some(other) => {
            let what = if is_too_deep(&other) { TOO_DEEP } else { kind(&other) };
            warnings.push(format!("its results are not checked: outputSchema is {what}"));
            None
        }
    };
    Ok(ListedTool {
        // Of what was sent, also of what a person does not see.
        digest: accepted::digest(name, &description, &in_one_order(&sent)),
        name: name.to_owned(),
        description: printable(&description, DESCRIPTION_BYTES),
        parameters: Value::from(shown::schema(&sent)),
        schema: Arc::new(compiled),
        output,
        results,
        warnings,
    })
}

/// Returns `true` if something was nested too deep to be read.
fn is_too_deep(value: &Json) -> bool {
    value.as_str() == Some(TOO_DEEP)
}

/// A schema with the keys of its objects in one order: servers that keep them in hash maps list the same tool in another
/// order at each start. Lists keep theirs.
fn in_one_order(schema: &Json) -> String {
    let mut sorted = schema.clone();
    let mut open = vec![&mut sorted];
    while let Some(value) = open.pop() {
        match value {
            Json::Object(entries) => {
                entries.sort_keys();
                open.extend(entries.values_mut());
            }
            Json::Array(items) => open.extend(items.iter_mut()),
            _ => {}
        }
    }
    sorted.to_string()
}

/// Makes bounds that are texts of long integers, as messages are read here, numbers again; `true` if there was one.
/// They may be rounded: the server checks its arguments as well.
fn round_bounds(schema: &mut Json) -> bool {
    const BOUNDS: [&str; 4] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"];
    let mut found = false;
    let mut open = vec![schema];
    while let Some(value) = open.pop() {
        match value {
            Json::Object(entries) => {
                for (key, value) in entries.iter_mut() {
                    let digits = value.as_str().filter(|_| BOUNDS.contains(&key.as_str()));
                    let double =
                        digits.filter(|digits| is_rounded_integer(digits)).and_then(|digits| digits.parse().ok());
                    match double.and_then(Number::from_f64) {
                        Some(number) => {
                            found = true;
                            *value = Json::Number(number);
                        }
                        None => open.push(value),
                    }
                }
            }
            Json::Array(items) => open.extend(items.iter_mut()),
            _ => {}
        }
    }
    found
}

/// The schema of the arguments. A tool that has none takes an object.
fn input_schema(sent: Option<Json>) -> Result<Json, String> {
    match sent {
        None | Some(Json::Null | Json::Bool(true)) => Ok(json!({"type": "object"})),
        // PHP writes an empty object so.
        Some(Json::Array(items)) if items.is_empty() => Ok(json!({"type": "object"})),
        Some(Json::Object(mut schema)) => {
            // Generators write `null` for what there is not; the keywords themselves take no null.
            for key in ["properties", "required", "$defs", "definitions", "additionalProperties"] {
                if schema.get(key).is_some_and(Json::is_null) {
                    schema.remove(key);
                }
            }
            Ok(Json::Object(schema))
        }
        // A schema that was written as a text.
        Some(Json::String(text)) if text.trim_start().starts_with('{') => match super::repair::parse(text.as_bytes()) {
            Ok(schema @ Json::Object(_)) => Ok(schema),
            _ => Err("its inputSchema is a string that is not a schema".to_owned()),
        },
        Some(other) if is_too_deep(&other) => Err(format!("its inputSchema is {TOO_DEEP}")),
        Some(other) => Err(format!("its inputSchema is {} instead of an object", kind(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_is_found_where_other_interfaces_have_it() {
        let schema = json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]});
        let found = json!([
            {"name": "snake", "input_schema": schema},
            {"name": "openai", "parameters": schema},
            {"name": "own", "inputSchema": {}, "parameters": schema},
            {"name": "php", "inputSchema": []},
            {"name": "text", "inputSchema": schema.to_string()},
        ]);
        let Json::Array(found) = found else { unreachable!() };
        let listing = weigh(found);
        let refuses = |name: &str| listing.tools[name].schema.check(&json!({})).is_err();
        assert!(refuses("snake") && refuses("openai") && !refuses("own") && !refuses("php") && refuses("text"));
        let warnings: Vec<usize> = listing.tools.values().map(|tool| tool.warnings.len()).collect();
        assert_eq!(warnings, [1, 1, 0, 0, 0]);
    }

    #[test]
    fn the_order_of_keys_is_no_difference_between_two_descriptions_and_that_of_lists_is() {
        let digest = |schema: &str| {
            let schema: Json = serde_json::from_str(schema).unwrap();
            weigh(vec![json!({"name": "t", "inputSchema": schema})]).tools["t"].digest.clone()
        };
        let first = digest(r#"{"type":"object","properties":{"x":{"type":"string","enum":["a","b"]},"y":{}}}"#);
        let again = digest(r#"{"properties":{"y":{},"x":{"enum":["a","b"],"type":"string"}},"type":"object"}"#);
        let other = digest(r#"{"properties":{"y":{},"x":{"enum":["b","a"],"type":"string"}},"type":"object"}"#);
        assert_eq!(first, again);
        assert_ne!(first, other);
    }

    #[test]
    fn a_bound_with_more_than_64_bits_is_rounded_and_said_and_a_default_keeps_its_digits() {
        let text = br#"[{"name": "t", "inputSchema": {"properties": {"id": {"type": "integer", "maximum": 18446744073709551616,
            "default": 18446744073709551617}}}}]"#;
        let Ok(Json::Array(found)) = super::super::repair::parse(text) else { unreachable!() };
        let listing = weigh(found);
        let tool = &listing.tools["t"];
        assert!(tool.warnings.iter().any(|warning| warning.contains("rounded here")), "{:?}", tool.warnings);
        let id = |digits: u64| json!({"id": digits});
        assert_eq!(tool.schema.check(&id(u64::MAX)), Ok(()));
        assert!(tool.parameters.to_json().contains("\"18446744073709551617\""), "{}", tool.parameters.to_json());
    }

    #[test]
    fn an_odd_entry_is_named_and_takes_nothing_from_its_neighbours() {
        let add = json!({"name": "add", "inputSchema": {"type": "object"}});
        let found = json!([
            add, 7, null, {"inputSchema": {}}, {"name": "", "inputSchema": {}}, {"name": 12, "inputSchema": {}},
            {"name": "bare"}, {"name": "null", "inputSchema": null, "description": null, "annotations": "yes"},
            {"name": "odd", "inputSchema": "object", "title": 4},
            {"name": "told", "description": ["a"], "title": "Tells.", "inputSchema": {"properties": null}, "outputSchema": 7},
            add, {"name": "twice", "inputSchema": {}}, {"name": "twice", "inputSchema": {"type": "object"}},
            {"name": "twice", "inputSchema": {}}, {"name": "a\u{202e}b", "inputSchema": {}},
            {"name": "deep", "inputSchema": TOO_DEEP},
        ]);
        let Json::Array(found) = found else { unreachable!() };
        let listing = weigh(found);
        let usable: Vec<&str> = listing.tools.keys().map(String::as_str).collect();
        assert_eq!(usable, ["add", "bare", "null", "told"]);
        assert_eq!(listing.tools["told"].description, "Tells.");
        assert_eq!(listing.tools["told"].warnings.len(), 2, "{:?}", listing.tools["told"].warnings);
        let refused: Vec<String> = listing.refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
        let expected = [
            "entry 2: it is a number instead of an object",
            "entry 3: it is null instead of an object",
            "entry 4: it has no name",
            "entry 5: it has no name",
            "12: its name is a number instead of a string",
            "odd: its inputSchema is a string instead of an object",
            "twice: it is listed twice, and not the same",
            "a\u{fffd}b: its name is too long or cannot be printed",
            "deep: its inputSchema is nested deeper than 128 levels",
        ];
        assert_eq!(refused, expected);
    }

    #[test]
    fn a_schema_reaches_models_short_and_without_hidden_text_and_is_checked_as_it_was_sent() {
        let properties: Map<String, Json> = (0..5_000)
            .map(|number| (format!("p{number}"), json!({"type": "string", "description": "y".repeat(30)})))
            .collect();
        let listing = weigh(vec![
            json!({"name": "hides", "inputSchema": {"type": "object", "description": "a\u{e0041}b", "required": ["x"]}}),
            json!({"name": "long", "inputSchema": {"type": "object", "properties": properties}}),
        ]);
        let hides = listing.tools["hides"].parameters.to_json();
        assert!(hides.contains("a\u{fffd}b"), "{hides}");
        assert!(listing.tools["hides"].schema.check(&json!({})).is_err());
        if let Some(long) = listing.tools.get("long") {
            assert!(long.parameters.to_json().len() <= 32 << 10);
        } else {
            assert!(listing.refused["long"].contains("schema"), "{}", listing.refused["long"]);
        }
    }
}
