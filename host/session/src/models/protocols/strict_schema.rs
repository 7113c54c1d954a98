//! Schemas as providers take them that hold answers to a schema: objects closed, and for OpenAI each property required.
//! Everything else stays as it is: the providers say what they do not accept.

use serde_json::{Map, Value as Json};

/// Keywords that hold schemas by name.
const BY_NAME: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords that hold a schema.
const ONE: [&str; 12] = [
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contains",
    "items",
    "additionalItems",
    "unevaluatedItems",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
];

/// Keywords that hold a list of schemas.
const LIST_KEYWORDS: [&str; 4] = ["allOf", "anyOf", "oneOf", "prefixItems"];

/// Annotations next to a `$ref`, which OpenAI takes only alone.
const NOTES: [&str; 4] = ["title", "description", "default", "nullable"];

/// References that are followed from one to the next.
const MAX_REFERENCES: usize = 32;

/// References that are replaced within each other.
const MAX_NESTED: usize = 16;

/// Schemas that one may unpack to, when references are replaced by what they name.
const MAX_SCHEMAS: usize = 10_000;

/// The schema, as a provider takes it. `requires_all`: OpenAI's way.
pub(super) fn strict(schema: &Json, requires_all: bool) -> Json {
    let mut closing = Closing { root: schema, requires_all, left: MAX_SCHEMAS, nested: 0 };
    closing.schema(schema)
}

/// Keywords of schemas by which OpenAI holds the arguments of tools exactly.
const HELD: [&str; 10] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "const",
    "description",
    "title",
    "anyOf",
];

/// Schemas within each other that OpenAI holds arguments to, as far as every version of its interface does.
const MAX_HELD_DEPTH: usize = 5;

/// Returns `true` if OpenAI can hold a tool's arguments to a schema as it is: nothing of its meaning would change.
pub(super) fn is_strict(schema: &Json) -> bool {
    let is_object = schema["type"] == "object" && schema["properties"].as_object().is_some_and(|it| !it.is_empty());
    if !is_object || strict(schema, true) != *schema {
        return false;
    }
    let mut open = vec![(schema, 1)];
    while let Some((schema, depth)) = open.pop() {
        let Some(entries) = schema.as_object() else { return false };
        if depth > MAX_HELD_DEPTH || !entries.keys().all(|key| HELD.contains(&key.as_str())) {
            return false;
        }
        // Others would be allowed.
        if entries.get("additionalProperties").is_some_and(|others| *others != false) {
            return false;
        }
        let properties = entries.get("properties").and_then(Json::as_object).into_iter().flat_map(Map::values);
        let any_of = entries.get("anyOf").and_then(Json::as_array).into_iter().flatten();
        open.extend(properties.chain(entries.get("items")).chain(any_of).map(|inner| (inner, depth + 1)));
    }
    true
}

/// The depth is that of the schema, which is bounded where it is read, and that of references within each other.
struct Closing<'a> {
    root: &'a Json,
    requires_all: bool,
    left: usize,
    nested: usize,
}

impl Closing<'_> {
    fn schema(&mut self, schema: &Json) -> Json {
        let Json::Object(entries) = schema else { return schema.clone() };
        self.left = self.left.saturating_sub(1);
        let may_inline = self.requires_all && self.left > 0 && self.nested < MAX_NESTED;
        let inlined = if may_inline { inlined(entries, self.root) } else { None };
        match inlined {
            Some(inlined) => {
                self.nested += 1;
                let closed = self.entries(&inlined);
                self.nested -= 1;
                closed
            }
            None => self.entries(entries),
        }
    }

    fn entries(&mut self, entries: &Map<String, Json>) -> Json {
        let one_of = entries.get("oneOf").filter(|_| !entries.contains_key("anyOf"));
        let becomes_any = one_of.is_some_and(|one_of| is_tagged(one_of, self.root));
        let mut out = Map::new();
        for (key, value) in entries {
            let name = key.as_str();
            let (name, value) = match value {
                Json::Object(named) if BY_NAME.contains(&name) => {
                    let named = named.iter().map(|(name, schema)| (name.clone(), self.schema(schema)));
                    (name, Json::Object(named.collect()))
                }
                Json::Array(schemas) if LIST_KEYWORDS.contains(&name) => {
                    let schemas = schemas.iter().map(|schema| self.schema(schema)).collect();
                    (if becomes_any && name == "oneOf" { "anyOf" } else { name }, schemas)
                }
                value if ONE.contains(&name) => (name, self.schema(value)),
                value => (name, value.clone()),
            };
            out.insert(name.to_owned(), value);
        }
        if out.get("type").and_then(Json::as_str) == Some("object") || out.contains_key("properties") {
            out.entry("additionalProperties").or_insert(Json::Bool(false));
            if self.requires_all {
                require_all(&mut out);
            }
        }
        Json::Object(out)
    }
}

/// A reference with notes next to it, replaced by what it names.
fn inlined(entries: &Map<String, Json>, root: &Json) -> Option<Map<String, Json>> {
    let reference = entries.get("$ref")?.as_str()?;
    let only_notes = entries.keys().all(|key| key == "$ref" || NOTES.contains(&key.as_str()));
    if entries.len() < 2 || !only_notes {
        return None;
    }
    let mut named = resolve(reference, root)?.as_object()?.clone();
    // A schema of which this is a part is not unpacked into itself.
    if names_itself(&named, reference) {
        return None;
    }
    named.extend(entries.iter().filter(|(key, _)| *key != "$ref").map(|(key, value)| (key.clone(), value.clone())));
    Some(named)
}

fn names_itself(entries: &Map<String, Json>, reference: &str) -> bool {
    let mut open: Vec<&Json> = entries.values().collect();
    while let Some(value) = open.pop() {
        match value {
            Json::Object(entries) => {
                if entries.get("$ref").and_then(Json::as_str) == Some(reference) {
                    return true;
                }
                open.extend(entries.values());
            }
            Json::Array(items) => open.extend(items),
            _ => {}
        }
    }
    false
}

fn require_all(object: &mut Map<String, Json>) {
    let Some(Json::Object(properties)) = object.get("properties") else { return };
    let mut required: Vec<Json> = properties.keys().map(|name| Json::from(name.as_str())).collect();
    match object.get("required") {
        Some(Json::Array(there)) if there.iter().all(Json::is_string) => {
            let more: Vec<Json> = there.iter().filter(|name| !required.contains(name)).cloned().collect();
            required.extend(more);
        }
        None => {}
        Some(_) => return,
    }
    object.insert("required".to_owned(), required.into());
}

/// Returns `true` if each branch of a `oneOf` requires a property with a constant of its own: no two can hold, so that
/// `anyOf`, which OpenAI takes, says the same.
fn is_tagged(one_of: &Json, root: &Json) -> bool {
    let Some(branches) = one_of.as_array().filter(|branches| branches.len() >= 2) else { return false };
    let branches: Vec<&Json> = branches.iter().map(|branch| followed(branch, root)).collect();
    let constant = |branch: &&Json, name: &str| {
        let is_required = branch["required"].as_array()?.iter().any(|required| required == name);
        branch["properties"][name].get("const").filter(|_| is_required).map(Json::to_string)
    };
    let Some(first) = branches.first().and_then(|first| first["properties"].as_object()) else { return false };
    first.keys().any(|name| {
        let constants: Option<Vec<String>> = branches.iter().map(|branch| constant(branch, name)).collect();
        constants.is_some_and(|mut constants| {
            let count = constants.len();
            constants.sort_unstable();
            constants.dedup();
            constants.len() == count
        })
    })
}

fn followed<'a>(schema: &'a Json, root: &'a Json) -> &'a Json {
    let alone = schema.as_object().filter(|entries| entries.len() == 1);
    let reference = alone.and_then(|entries| entries.get("$ref")).and_then(Json::as_str);
    reference.and_then(|reference| resolve(reference, root)).unwrap_or(schema)
}

fn resolve<'a>(reference: &str, root: &'a Json) -> Option<&'a Json> {
    let mut at = root.pointer(reference.strip_prefix('#')?)?;
    for _ in 0..MAX_REFERENCES {
        let alone = at.as_object().filter(|entries| entries.len() == 1);
        match alone.and_then(|entries| entries.get("$ref")).and_then(Json::as_str) {
            Some(next) => at = root.pointer(next.strip_prefix('#')?)?,
            None => return Some(at),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn objects_are_closed_and_for_openai_every_property_is_required() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string"},
            "nested": {"type": "object", "properties": {"value": {"type": "integer", "default": 3}}}},
            "required": ["external"]});
        let openai = strict(&schema, true);
        assert_eq!(openai["required"], json!(["name", "nested", "external"]));
        assert_eq!(openai["properties"]["nested"]["required"], json!(["value"]));
        assert_eq!(openai["properties"]["nested"]["additionalProperties"], json!(false));
        assert_eq!(openai["properties"]["nested"]["properties"]["value"]["default"], json!(3));
        let anthropic = strict(&schema, false);
        assert_eq!(anthropic["required"], json!(["external"]));
        assert_eq!(anthropic["additionalProperties"], json!(false));
        assert_eq!(
            strict(&json!({"type": "array", "items": {"type": "integer"}}), true)["items"],
            json!({"type": "integer"})
        );
    }

    #[test]
    fn a_reference_with_notes_is_replaced_and_one_to_itself_is_not() {
        let schema = json!({"type": "object", "properties": {
            "a": {"$ref": "#/$defs/A", "description": "the a"}, "b": {"$ref": "#/$defs/B", "title": "b"}},
            "$defs": {"A": {"type": "string"}, "B": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}}}});
        let openai = strict(&schema, true);
        assert_eq!(openai["properties"]["a"], json!({"type": "string", "description": "the a"}));
        assert_eq!(openai["properties"]["b"], json!({"$ref": "#/$defs/B", "title": "b"}));
    }

    #[test]
    fn branches_that_a_constant_tells_apart_become_any_of() {
        let branch =
            |tag: &str| json!({"type": "object", "properties": {"kind": {"const": tag}}, "required": ["kind"]});
        let tagged = strict(&json!({"oneOf": [branch("a"), branch("b")]}), true);
        assert!(tagged.get("anyOf").is_some() && tagged.get("oneOf").is_none(), "{tagged}");
        let same = strict(&json!({"oneOf": [branch("a"), branch("a")]}), true);
        assert!(same.get("oneOf").is_some(), "{same}");
    }

    #[test]
    fn schemas_that_unpack_without_end_stay_bounded() {
        let defs: Map<String, Json> = (0..40)
            .map(|at| {
                let next = json!({"$ref": format!("#/$defs/d{}", at + 1), "description": "x"});
                (format!("d{at}"), json!({"type": "object", "properties": {"a": next, "b": next}}))
            })
            .collect();
        let schema = json!({"$ref": "#/$defs/d0", "description": "x", "$defs": defs});
        assert!(strict(&schema, true).to_string().len() < 8 << 20);
    }
}
