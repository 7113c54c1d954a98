//! Doc comments of a source: the summary, parameters and result of each exported function, as schemas of an operation.
//!
//! Only comments are read, and the declaration after each: the engine says which names the source exports, and a name
//! that a comment gives and the source does not export is never used.

use super::types::{self, Named};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// An exported function as its comment describes it.
#[derive(Debug, PartialEq)]
pub(super) struct Function {
    pub id: String,
    pub summary: String,
    pub arguments: Value,
    pub data: Value,
    pub effects: &'static str,
    pub parameters: Vec<String>,
}

/// A comment that cannot be used, with its line from 1.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DocError {
    pub line: usize,
    pub message: String,
}

/// A doc comment: its text, its line, and the function that is declared after it.
struct Comment<'a> {
    text: &'a str,
    line: usize,
    declared: Option<Declared<'a>>,
}

struct Declared<'a> {
    name: &'a str,
    is_exported: bool,
}

/// A tag of a comment with its text: `@param {string} name`.
struct Tag {
    name: String,
    text: String,
    line: usize,
}

/// The functions of a source that have a comment, by their names.
pub(super) fn functions(source: &str, plugin: &str) -> Result<BTreeMap<String, Function>, DocError> {
    let comments = comments(source);
    let mut named = Named::new();
    for comment in &comments {
        for tag in tags(comment).1.iter().filter(|tag| tag.name == "typedef") {
            let at = |message| DocError { line: tag.line, message };
            let (text, name) = typed(&tag.text).map_err(at)?;
            let found = types::schema(text.unwrap_or("object"), &named).map_err(at)?;
            named.insert(name.split_whitespace().next().unwrap_or_default().to_owned(), found);
        }
    }
    let mut functions = BTreeMap::new();
    // Where two functions have a name, the exported one is at the top of the module.
    for of_exports in [true, false] {
        for comment in &comments {
            let Some(declared) = comment.declared.as_ref().filter(|declared| declared.is_exported == of_exports) else {
                continue;
            };
            if functions.contains_key(declared.name) {
                continue;
            }
            match function(comment, declared.name, plugin, &named) {
                Ok(found) => functions.insert(declared.name.to_owned(), found),
                Err(error) if of_exports => return Err(error),
                // A function of the source's own may have comments of any form.
                Err(_) => None,
            };
        }
    }
    Ok(functions)
}

/// Every doc comment, and the declaration that follows it.
fn comments(source: &str) -> Vec<Comment<'_>> {
    let (mut found, mut at, mut line) = (Vec::new(), 0, 1);
    while let Some((before, rest)) = source.get(at..).and_then(|rest| rest.split_once("/**")) {
        let Some((text, after)) = rest.split_once("*/") else { break };
        line += before.matches('\n').count();
        found.push(Comment { text, line, declared: declared(after) });
        line += text.matches('\n').count();
        at = source.len() - after.len();
    }
    found
}

/// `export async function NAME`, `export const NAME =`, with or without `export`.
fn declared(after: &str) -> Option<Declared<'_>> {
    let mut rest = after.trim_start();
    let mut word = |expected: &str| match rest.strip_prefix(expected) {
        Some(after) if !after.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '$') => {
            rest = after.trim_start();
            true
        }
        _ => false,
    };
    let is_exported = word("export");
    let is_default = is_exported && word("default");
    word("async");
    let is_function = word("function");
    let is_value = !is_function && !is_default && (word("const") || word("let") || word("var"));
    if !is_function && !is_value && !is_default {
        return None;
    }
    let rest = rest.trim_start_matches('*').trim_start();
    let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
    match rest.get(..end).unwrap_or_default() {
        name if is_default && (name.is_empty() || !is_function) => Some(Declared { name: "default", is_exported }),
        "" => None,
        name => Some(Declared { name, is_exported }),
    }
}

/// The text before the first tag, and the tags.
fn tags(comment: &Comment<'_>) -> (String, Vec<Tag>) {
    let (mut summary, mut tags): (String, Vec<Tag>) = (String::new(), Vec::new());
    for (offset, line) in comment.text.lines().enumerate() {
        let text = line.trim().trim_start_matches('*').trim();
        if let Some(tag) = text.strip_prefix('@') {
            let (name, text) = tag.split_once(char::is_whitespace).unwrap_or((tag, ""));
            tags.push(Tag { name: name.to_owned(), text: text.trim().to_owned(), line: comment.line + offset });
            continue;
        }
        let into = tags.last_mut().map_or(&mut summary, |tag| &mut tag.text);
        if !into.is_empty() && !text.is_empty() {
            into.push(' ');
        }
        into.push_str(text);
    }
    (summary, tags)
}

/// `{type} rest` as the type and the rest.
fn typed(text: &str) -> Result<(Option<&str>, &str), String> {
    let Some(inner) = text.strip_prefix('{') else { return Ok((None, text)) };
    let mut depth = 1;
    for (at, c) in inner.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (text, rest) = inner.split_at(at);
            return Ok((Some(text), rest.get(1..).unwrap_or_default().trim_start()));
        }
    }
    Err(format!("the type `{{{inner}` has no closing brace"))
}

/// Arguments of an operation while they are read.
#[derive(Default)]
struct Arguments {
    properties: Map<String, Value>,
    required: Vec<Value>,
    parameters: Vec<String>,
}

impl Arguments {
    /// Adds `{type} name description`, `{type} [name=default]`, or a property of one before: `options.name`.
    fn add(&mut self, text: &str, named: &Named) -> Result<(), String> {
        let (of_type, rest) = typed(text)?;
        let (name, description) = match rest.strip_prefix('[') {
            Some(inner) => {
                let end = closing(inner).ok_or_else(|| format!("`@param {text}` has no closing bracket"))?;
                (inner.get(..end).unwrap_or_default(), inner.get(end + 1..).unwrap_or_default())
            }
            None => rest.split_once(char::is_whitespace).unwrap_or((rest, "")),
        };
        let is_optional = rest.starts_with('[') || of_type.is_some_and(|of_type| of_type.trim_end().ends_with('='));
        let (name, default) = name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
        let name = name.trim();
        if name.is_empty() {
            return Err(format!("`@param {text}` names no parameter; expected `@param {{type}} name description`"));
        }
        let of_type = of_type.map_or("any", |of_type| of_type.trim_end().trim_end_matches('='));
        let mut schema = types::schema(of_type, named)?;
        let description = description.trim().trim_start_matches('-').trim();
        if let (Some(map), false) = (schema.as_object_mut(), description.is_empty()) {
            map.insert("description".to_owned(), description.into());
        }
        if let (Some(map), Some(default)) = (schema.as_object_mut(), default.and_then(json_of)) {
            map.insert("default".to_owned(), default);
        }
        match name.split_once('.') {
            Some((outer, inner)) => self.add_inner(outer, inner, schema, is_optional),
            None => {
                if self.properties.insert(name.to_owned(), schema).is_some() {
                    return Err(format!("there are two parameters `{name}`"));
                }
                self.parameters.push(name.to_owned());
                if !is_optional {
                    self.required.push(name.into());
                }
                Ok(())
            }
        }
    }

    fn add_inner(&mut self, outer: &str, inner: &str, schema: Value, is_optional: bool) -> Result<(), String> {
        let Some(object) = self.properties.get_mut(outer).and_then(Value::as_object_mut) else {
            return Err(format!("`{outer}.{inner}` is of a parameter that has no `@param` before it"));
        };
        if inner.contains('.') {
            return Err(format!("`{outer}.{inner}` is too deep; write the type of `{outer}` as `{{name: type}}`"));
        }
        object.insert("type".to_owned(), "object".into());
        object.insert("additionalProperties".to_owned(), false.into());
        if let Some(properties) = object.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
            properties.insert(inner.to_owned(), schema);
        }
        if !is_optional && let Some(required) = object.entry("required").or_insert_with(|| json!([])).as_array_mut() {
            required.push(inner.into());
        }
        Ok(())
    }
}

/// The place of the bracket that closes the one before the text.
fn closing(inner: &str) -> Option<usize> {
    let mut depth = 1;
    inner.char_indices().find_map(|(at, c)| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// A default as JSON; nothing for any other expression.
fn json_of(default: &str) -> Option<Value> {
    let text = default.trim();
    let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''));
    inner.map(Value::from).or_else(|| serde_json::from_str(text).ok())
}

fn function(comment: &Comment<'_>, name: &str, plugin: &str, named: &Named) -> Result<Function, DocError> {
    let (summary, tags) = tags(comment);
    let (mut arguments, mut data, mut effects) = (Arguments::default(), json!({}), "once");
    for tag in &tags {
        let at = |message| DocError { line: tag.line, message };
        match tag.name.as_str() {
            "param" | "arg" | "argument" => arguments.add(&tag.text, named).map_err(at)?,
            "returns" | "return" => {
                let (of_type, description) = typed(&tag.text).map_err(at)?;
                data = types::schema(of_type.unwrap_or("any"), named).map_err(at)?;
                if let (Some(map), false) = (data.as_object_mut(), description.is_empty()) {
                    map.insert("description".to_owned(), description.trim_start_matches('-').trim().into());
                }
            }
            "effects" => {
                effects = match tag.text.as_str() {
                    "pure" => "pure",
                    "idempotent" => "idempotent",
                    "once" => "once",
                    other => return Err(at(format!("`@effects {other}`: expected pure, idempotent or once"))),
                }
            }
            _ => {}
        }
    }
    if summary.is_empty() {
        let message =
            format!("the comment of `{name}` has no summary: begin it with a sentence on what the function does");
        return Err(DocError { line: comment.line, message });
    }
    let Arguments { properties, required, parameters } = arguments;
    let id = format!("{plugin}/{}", kebab(name));
    Ok(Function { id, summary, arguments: types::object(properties, required), data, effects, parameters })
}

/// `findMarkers` and `find_markers` as `find-markers`.
pub(super) fn kebab(name: &str) -> String {
    let mut made = String::new();
    for c in name.chars() {
        let is_break = c.is_uppercase() || c == '_' || c == '$';
        if is_break && !made.is_empty() && !made.ends_with('-') {
            made.push('-');
        }
        made.extend(c.to_lowercase().filter(|c| c.is_alphanumeric()));
    }
    made.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::functions;
    use serde_json::json;

    const SOURCE: &str = "
/** @typedef {{x: number, y: number}} Point */

/**
 * Finds markers
 * in a text.
 * @param {string} text The text,
 *   of any length.
 * @param {Point} [from]
 * @param {object} options - Options
 * @param {string[]} options.words
 * @param {boolean} [options.all=false] Also those in words
 * @param {number} [most=10]
 * @returns {{line: number}[]} The lines.
 * @effects pure
 */
export async function findMarkers(text, from, options, most = 10) {}

/** Not of this plugin. @param x */
function inner() {}

/** Says hello. */
export const say_hello = (name) => name;

/** Does it all. */
export default function () {}
";

    #[test]
    fn a_comment_gives_the_schemas_of_an_operation() {
        let found = functions(SOURCE, "op").unwrap();
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["default", "findMarkers", "inner", "say_hello"]);
        let markers = &found["findMarkers"];
        assert_eq!((markers.id.as_str(), markers.effects), ("op/find-markers", "pure"));
        assert_eq!(markers.summary, "Finds markers in a text.");
        assert_eq!(markers.parameters, ["text", "from", "options", "most"]);
        let arguments = json!({
            "type": "object",
            "properties": {
                "text": {"type": "string", "description": "The text, of any length."},
                "from": {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}},
                    "additionalProperties": false, "required": ["x", "y"]},
                "options": {"type": "object", "description": "Options", "additionalProperties": false,
                    "properties": {
                        "words": {"type": "array", "items": {"type": "string"}},
                        "all": {"type": "boolean", "default": false, "description": "Also those in words"},
                    },
                    "required": ["words"]},
                "most": {"type": "number", "default": 10},
            },
            "additionalProperties": false,
            "required": ["text", "options"],
        });
        assert_eq!(markers.arguments, arguments);
        assert_eq!(markers.data["description"], "The lines.");
        assert_eq!(found["say_hello"].id, "op/say-hello");
        assert_eq!(
            found["say_hello"].arguments,
            json!({"type": "object", "properties": {}, "additionalProperties": false})
        );
        assert_eq!(found["say_hello"].data, json!({}));
    }

    #[test]
    fn a_comment_that_cannot_be_used_is_named_with_its_line() {
        for (comment, line, part) in [
            ("@param {string} a", 2, "has no summary"),
            ("A\n * @param {Date} a", 3, "`Date` is not a type"),
            ("A\n * b\n * @param {string", 4, "no closing brace"),
            ("A\n * @param {string}", 3, "names no parameter"),
            ("A\n * @param {string} [a", 3, "no closing bracket"),
            ("A\n * @param {string} a\n * @param {string} a", 4, "two parameters `a`"),
            ("A\n * @param {string} a.b", 3, "has no `@param` before it"),
            ("A\n * @effects never", 3, "expected pure, idempotent or once"),
        ] {
            let source = format!("\n/** {comment}\n */\nexport function f(a) {{}}\n");
            let error = functions(&source, "op").unwrap_err();
            assert!(error.line == line && error.message.contains(part), "{comment}: {error:?}");
        }
    }

    #[test]
    fn a_comment_of_a_function_that_is_not_exported_does_not_matter() {
        assert!(functions("/** x @param {Date} a\n * @param {Date} b */\nfunction f() {}\n", "op").unwrap().is_empty());
    }
}
