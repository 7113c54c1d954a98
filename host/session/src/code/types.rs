//! JSON Schemas as types of TypeScript or Python, for models: what a schema says beyond types is left out.

use opcell_types::text::one_line;
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;

/// Schemas inside of each other that are written out.
const MAX_DEPTH: u32 = 6;

/// Members of a union, and literals of an enumeration, that are written out.
const MAX_MEMBERS: usize = 24;

/// Longest literal, in bytes.
const MAX_LITERAL: usize = 100;

/// Longest comment on a property, in bytes.
const MAX_COMMENT: usize = 160;

/// The language of declarations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Syntax {
    TypeScript,
    /// Objects are written as `{"name": str, "age?": int}`: shorter than a `TypedDict`, and read as well.
    Python,
}

impl Syntax {
    pub(super) fn unknown(self) -> &'static str {
        self.either("unknown", "Any")
    }

    fn either<T>(self, typescript: T, python: T) -> T {
        match self {
            Self::TypeScript => typescript,
            Self::Python => python,
        }
    }

    /// The type of this name in a schema.
    fn scalar(self, name: &str) -> &'static str {
        match name {
            "string" => self.either("string", "str"),
            "integer" => self.either("number", "int"),
            "number" => self.either("number", "float"),
            "boolean" => self.either("boolean", "bool"),
            "null" => self.either("null", "None"),
            _ => self.unknown(),
        }
    }

    fn list(self, item: &str) -> String {
        self.either(format!("{}[]", grouped(item)), format!("list[{item}]"))
    }

    fn tuple(self, items: &[String]) -> String {
        let items = items.join(", ");
        self.either(format!("[{items}]"), format!("tuple[{items}]"))
    }

    fn map(self, values: &str) -> String {
        self.either(format!("Record<string, {values}>"), format!("dict[str, {values}]"))
    }

    /// An object of these members.
    fn object(self, members: &[String]) -> String {
        match (self, members) {
            (Self::TypeScript, []) => "{}".to_owned(),
            (Self::TypeScript, members) => format!("{{ {} }}", members.join("; ")),
            (Self::Python, members) => format!("{{{}}}", members.join(", ")),
        }
    }

    fn member(self, name: &str, is_required: bool, of: &str) -> String {
        let mark = if is_required { "" } else { "?" };
        match self {
            Self::TypeScript => format!("{}{mark}: {of}", key(name)),
            Self::Python => format!("{}: {of}", quoted(&format!("{name}{mark}"))),
        }
    }

    fn literal(self, value: &Json) -> Option<String> {
        let text = match (self, value) {
            (_, Json::Array(_) | Json::Object(_)) => return None,
            (Self::Python, Json::Null) => "None".to_owned(),
            (Self::Python, Json::Bool(true)) => "True".to_owned(),
            (Self::Python, Json::Bool(false)) => "False".to_owned(),
            (_, scalar) => scalar.to_string(),
        };
        (text.len() <= MAX_LITERAL).then_some(text)
    }

    fn literals(self, literals: Vec<String>) -> String {
        match self {
            Self::TypeScript => self.union(literals),
            Self::Python => format!("Literal[{}]", literals.join(", ")),
        }
    }

    fn union(self, members: Vec<String>) -> String {
        let mut known = BTreeSet::new();
        let members: Vec<String> = members.into_iter().filter(|member| known.insert(member.clone())).collect();
        if members.is_empty() || members.iter().any(|member| member == self.unknown()) {
            return self.unknown().to_owned();
        }
        members.join(" | ")
    }
}

/// A writer of the types of one schema.
pub(super) struct Types<'a> {
    root: &'a Json,
    /// Bytes that are left for what is inside; with none, the rest is `unknown`.
    left: usize,
    comments: bool,
    syntax: Syntax,
}

impl<'a> Types<'a> {
    /// A writer for `root`, whose text has about `most` bytes at most.
    pub(super) fn new(syntax: Syntax, root: &'a Json, most: usize, comments: bool) -> Self {
        Self { root, left: most, comments: comments && syntax == Syntax::TypeScript, syntax }
    }

    /// The type of the whole schema.
    pub(super) fn write(mut self) -> String {
        self.schema(self.root, 0)
    }

    /// The type of a part of the schema.
    pub(super) fn of(mut self, part: &Json) -> String {
        self.schema(part, 1)
    }

    fn schema(&mut self, schema: &Json, depth: u32) -> String {
        let written = match schema {
            Json::Bool(false) => self.syntax.either("never", "Never").to_owned(),
            Json::Object(schema) if depth <= MAX_DEPTH && self.left > 0 => self.object_schema(schema, depth),
            _ => self.syntax.unknown().to_owned(),
        };
        self.left = self.left.saturating_sub(written.len().min(MAX_LITERAL));
        written
    }

    fn object_schema(&mut self, schema: &Map<String, Json>, depth: u32) -> String {
        let (syntax, unknown) = (self.syntax, self.syntax.unknown());
        if let Some(target) = schema.get("$ref").and_then(Json::as_str) {
            let root = self.root;
            let found = target.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
            return found.map_or_else(|| unknown.to_owned(), |found| self.schema(found, depth + 1));
        }
        if let Some(value) = schema.get("const") {
            return syntax.literal(value).map_or_else(|| unknown.to_owned(), |one| syntax.literals(vec![one]));
        }
        if let Some(values) = schema.get("enum").and_then(Json::as_array) {
            let literals: Option<Vec<String>> = values.iter().map(|value| syntax.literal(value)).collect();
            if let Some(literals) = literals.filter(|all| !all.is_empty() && all.len() <= MAX_MEMBERS) {
                return syntax.literals(literals);
            }
        }
        let own = self.typed(schema, depth);
        let members = |key: &str| schema.get(key).and_then(Json::as_array).filter(|all| all.len() <= MAX_MEMBERS);
        let any = ["anyOf", "oneOf"].into_iter().find_map(members);
        let alternatives = any.map(|all| {
            let all = all.iter().map(|member| self.schema(member, depth + 1)).collect::<Vec<_>>();
            syntax.union(all)
        });
        let all = members("allOf").map(|all| all.iter().map(|one| self.schema(one, depth + 1)).collect::<Vec<_>>());
        let parts = own.into_iter().chain(alternatives).chain(all.unwrap_or_default());
        let mut parts: Vec<String> = parts.filter(|part| part != unknown).collect();
        let mut known = BTreeSet::new();
        parts.retain(|part| known.insert(part.clone()));
        let written = match parts.as_slice() {
            [] => return unknown.to_owned(),
            [one] => one.clone(),
            several => several.iter().map(|part| grouped(part)).collect::<Vec<_>>().join(" & "),
        };
        match schema.get("nullable") {
            Some(Json::Bool(true)) => syntax.union(vec![written, syntax.scalar("null").to_owned()]),
            _ => written,
        }
    }

    /// The type by `type`, or by the keywords that only one type has; `None` where there are none.
    fn typed(&mut self, schema: &Map<String, Json>, depth: u32) -> Option<String> {
        let types: Vec<&str> = match schema.get("type") {
            Some(Json::String(one)) => vec![one.as_str()],
            Some(Json::Array(several)) => several.iter().filter_map(Json::as_str).take(MAX_MEMBERS).collect(),
            _ if schema.contains_key("properties") => vec!["object"],
            _ if schema.contains_key("items") || schema.contains_key("prefixItems") => vec!["array"],
            _ => return None,
        };
        let types = types.into_iter().map(|name| match name {
            "array" => self.array(schema, depth),
            "object" => self.object(schema, depth),
            scalar => self.syntax.scalar(scalar).to_owned(),
        });
        let types = types.collect();
        Some(self.syntax.union(types))
    }

    fn array(&mut self, schema: &Map<String, Json>, depth: u32) -> String {
        if let Some(items) = schema.get("prefixItems").and_then(Json::as_array).filter(|all| all.len() <= MAX_MEMBERS) {
            let items: Vec<String> = items.iter().map(|item| self.schema(item, depth + 1)).collect();
            return self.syntax.tuple(&items);
        }
        let unknown = self.syntax.unknown();
        let item = schema.get("items").map_or_else(|| unknown.to_owned(), |item| self.schema(item, depth + 1));
        self.syntax.list(&item)
    }

    fn object(&mut self, schema: &Map<String, Json>, depth: u32) -> String {
        let none = Map::new();
        let properties = schema.get("properties").and_then(Json::as_object).unwrap_or(&none);
        let mut parts = Vec::new();
        for (name, is_required) in in_order(schema, properties) {
            if self.left == 0 {
                parts.push(self.syntax.either("/* more */", "...").to_owned());
                break;
            }
            let Some(property) = properties.get(name) else { continue };
            let comment = property.get("description").and_then(Json::as_str).filter(|_| self.comments);
            let comment = comment.map(|text| format!("/** {} */ ", in_comment(text, MAX_COMMENT))).unwrap_or_default();
            self.left = self.left.saturating_sub(comment.len() + name.len());
            let of = self.schema(property, depth + 1);
            parts.push(format!("{comment}{}", self.syntax.member(name, is_required, &of)));
        }
        match schema.get("additionalProperties") {
            Some(Json::Bool(false)) => {}
            None | Some(Json::Bool(true)) if !parts.is_empty() => {}
            None | Some(Json::Bool(true)) => return self.syntax.map(self.syntax.unknown()),
            Some(others) => {
                let others = self.schema(others, depth + 1);
                if parts.is_empty() {
                    return self.syntax.map(&others);
                }
                parts.push(match self.syntax {
                    Syntax::TypeScript => format!("[name: string]: {others} | unknown"),
                    Syntax::Python => "...".to_owned(),
                });
            }
        }
        self.syntax.object(&parts)
    }
}

/// The properties of an object: those that are required as the schema lists them, then the others by name. Servers that
/// keep them in hash maps give them in another order each time.
pub(super) fn in_order<'a>(schema: &'a Map<String, Json>, properties: &'a Map<String, Json>) -> Vec<(&'a str, bool)> {
    let listed = schema.get("required").and_then(Json::as_array);
    let mut seen = BTreeSet::new();
    let required = listed.into_iter().flatten().filter_map(Json::as_str);
    let required: Vec<&str> = required.filter(|name| properties.contains_key(*name) && seen.insert(*name)).collect();
    let mut others: Vec<&str> = properties.keys().map(String::as_str).filter(|name| !seen.contains(name)).collect();
    others.sort_unstable();
    required.into_iter().map(|name| (name, true)).chain(others.into_iter().map(|name| (name, false))).collect()
}

/// Returns `true` if the schema of arguments lets a call be made without any.
pub(super) fn needs_nothing(schema: &Json) -> bool {
    schema.get("required").and_then(Json::as_array).is_none_or(Vec::is_empty)
}

/// A type as part of another one.
fn grouped(part: &str) -> String {
    if part.contains(" | ") || part.contains(" & ") { format!("({part})") } else { part.to_owned() }
}

/// The name of a property: quoted unless it is an identifier.
fn key(name: &str) -> String {
    if is_identifier(name) { name.to_owned() } else { quoted(name) }
}

/// Returns `true` for what may follow a dot in a program.
pub(super) fn is_identifier(name: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$';
    name.chars().all(is_part) && name.chars().next().is_some_and(|first| !first.is_ascii_digit())
}

/// A text as a literal of a program.
pub(super) fn quoted(text: &str) -> String {
    Json::from(text).to_string()
}

/// A text in a comment, which it cannot end.
pub(super) fn in_comment(text: &str, most: usize) -> String {
    one_line(text.trim(), most).replace("*/", "* /")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn types(schema: &Json) -> String {
        Types::new(Syntax::TypeScript, schema, 4_000, true).write()
    }

    #[test]
    fn schemas_become_types_of_python() {
        let cases = [
            (json!({"type": ["integer", "null"]}), "int | None"),
            (json!({"enum": ["a", true, null]}), r#"Literal["a", True, None]"#),
            (json!({"const": "x"}), r#"Literal["x"]"#),
            (json!({"type": "array", "items": {"type": ["string", "number"]}}), "list[str | float]"),
            (json!({"type": "array", "prefixItems": [{"type": "string"}, {}]}), "tuple[str, Any]"),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), "dict[str, float]"),
            (json!({"type": "object", "additionalProperties": false}), "{}"),
            (
                json!({"properties": {"b": {"type": "string", "description": "x"}, "z": {}}, "required": ["z"]}),
                r#"{"z": Any, "b?": str}"#,
            ),
            (json!({"type": "string", "nullable": true}), "str | None"),
            (json!(false), "Never"),
        ];
        for (schema, expected) in cases {
            assert_eq!(Types::new(Syntax::Python, &schema, 4_000, true).write(), expected, "{schema}");
        }
    }

    #[test]
    fn schemas_become_types() {
        let cases = [
            (json!({"type": "string"}), "string"),
            (json!({"type": ["integer", "null"]}), "number | null"),
            (json!({"enum": ["a", "b", 3, null]}), r#""a" | "b" | 3 | null"#),
            (json!({"const": "x"}), r#""x""#),
            (json!({"type": "array", "items": {"type": ["string", "number"]}}), "(string | number)[]"),
            (json!({"type": "array"}), "unknown[]"),
            (json!({"type": "array", "prefixItems": [{"type": "string"}, {}]}), "[string, unknown]"),
            (json!({"type": "object"}), "Record<string, unknown>"),
            (json!({"type": "object", "additionalProperties": {"type": "number"}}), "Record<string, number>"),
            (json!({"type": "object", "additionalProperties": false}), "{}"),
            (
                json!({"properties": {"b": {"type": "string"}, "a-b": {"type": "boolean"}, "z": {}}, "required": ["z"]}),
                r#"{ z: unknown; "a-b"?: boolean; b?: string }"#,
            ),
            (json!({"anyOf": [{"type": "string"}, {"type": "number"}]}), "string | number"),
            (json!({"anyOf": [{"type": "string"}, {}]}), "unknown"),
            (
                json!({"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"properties": {"b": {}}, "required": ["b"]}]}),
                "{ a: unknown } & { b: unknown }",
            ),
            (json!({"$ref": "#/$defs/x", "$defs": {"x": {"type": "number"}}}), "number"),
            (json!({"$ref": "https://elsewhere.example/x"}), "unknown"),
            (json!({"type": "string", "nullable": true}), "string | null"),
            (json!(true), "unknown"),
            (json!(false), "never"),
        ];
        for (schema, expected) in cases {
            assert_eq!(types(&schema), expected, "{schema}");
        }
    }

    #[test]
    fn a_schema_that_refers_to_itself_ends() {
        let schema = json!({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"next": {"$ref": "#/$defs/t"}}}}});
        assert_eq!(types(&schema), "{ next?: { next?: { next?: unknown } } }");
    }

    #[test]
    fn a_wide_schema_is_cut() {
        let leaf = json!({"type": "string", "description": "x".repeat(100)});
        let wide: Map<String, Json> = (0..1_000).map(|at| (format!("property{at}"), leaf.clone())).collect();
        let deep = json!({"type": "object", "properties": {"in": {"type": "object", "properties": wide}}});
        let text = types(&deep);
        assert!(text.len() < 6_000 && text.contains("/* more */"), "{}", text.len());
    }

    #[test]
    fn a_description_cannot_end_its_comment() {
        let schema = json!({"properties": {"a": {"description": "x */ } declare const y: {\n /* "}}});
        assert_eq!(types(&schema), "{ /** x * / } declare const y: {  /* */ a?: unknown }");
    }
}
