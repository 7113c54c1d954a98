//! Reading JSON values into typed ones by the reference's rules: keys match without regard to case, unknown keys and
//! `null`s are passed over, and the first value of a wrong type is reported in the reference's words.

use opcell_ir::print::go;
use opcell_types::value::{Map, NumberKind, Value};
use std::collections::BTreeMap;

/// A value that does not fit its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("json: cannot unmarshal {found} into Go {place} of type {expected}")]
pub struct DecodeError {
    /// The kind of value in the document.
    pub found: String,
    /// The place, as the reference names it.
    pub place: String,
    /// The reference's type of that place.
    pub expected: String,
}

/// A struct of the reference: its full type name, its bare name, and its fields.
#[derive(Debug, Clone, Copy)]
pub struct Struct {
    /// As a whole value of this type is named in errors.
    pub full: &'static str,
    /// As its fields are named in errors.
    pub name: &'static str,
    /// JSON keys.
    pub fields: &'static [&'static str],
}

impl Struct {
    fn field(&self, key: &str) -> Option<&'static str> {
        self.fields
            .iter()
            .find(|field| **field == key)
            .or_else(|| self.fields.iter().find(|field| field.eq_ignore_ascii_case(key)))
            .copied()
    }

    /// The entries of an object that no field takes.
    #[must_use]
    pub fn unknown(&self, value: &Value) -> Map {
        value
            .as_object()
            .map(|entries| {
                entries
                    .iter()
                    .filter(|(key, _)| self.field(key).is_none())
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect()
            })
            .unwrap_or_default()
    }
}

/// Collects the first error while everything that fits is read.
#[derive(Debug, Default)]
pub struct Decoder {
    path: Vec<&'static str>,
    owner: &'static str,
    error: Option<DecodeError>,
}

impl Decoder {
    /// The first error, if there was one.
    ///
    /// # Errors
    /// When a value did not fit its place.
    pub fn finish(self) -> Result<(), DecodeError> {
        self.error.map_or(Ok(()), Err)
    }

    fn mismatch(&mut self, found: String, expected: &str) {
        if self.error.is_none() {
            let place = if self.path.is_empty() {
                "value".to_owned()
            } else {
                format!("struct field {}.{}", self.owner, self.path.join("."))
            };
            self.error = Some(DecodeError { found, place, expected: expected.to_owned() });
        }
    }

    /// Reads a struct: `visit` is called with each known field, in the order of sorted keys.
    pub fn object(&mut self, value: &Value, shape: Struct, mut visit: impl FnMut(&mut Self, &'static str, &Value)) {
        let Some(entries) = self.entries(value, shape.full) else { return };
        let outer = std::mem::replace(&mut self.owner, shape.name);
        for (key, item) in entries {
            if let Some(field) = shape.field(key) {
                self.path.push(field);
                visit(self, field, item);
                self.path.pop();
                self.owner = shape.name;
            }
        }
        self.owner = outer;
    }

    /// Reads a map: `visit` is called with each entry, in the order of sorted keys.
    pub fn map(&mut self, value: &Value, expected: &str, mut visit: impl FnMut(&mut Self, &str, &Value)) {
        for (key, item) in self.entries(value, expected).unwrap_or_default() {
            visit(self, key, item);
        }
    }

    /// Reads a list.
    pub fn list(&mut self, value: &Value, expected: &str, mut visit: impl FnMut(&mut Self, &Value)) {
        match value {
            Value::Undefined | Value::Null => {}
            Value::Array(items) => items.iter().for_each(|item| visit(self, item)),
            other => self.mismatch(kind(other).to_owned(), expected),
        }
    }

    fn entries<'v>(&mut self, value: &'v Value, expected: &str) -> Option<Vec<(&'v str, &'v Value)>> {
        match value {
            Value::Undefined | Value::Null => None,
            Value::Object(entries) => {
                let mut sorted: Vec<_> = entries.iter().map(|(key, item)| (key.as_ref(), item)).collect();
                sorted.sort_by_key(|(key, _)| *key);
                Some(sorted)
            }
            other => {
                self.mismatch(kind(other).to_owned(), expected);
                None
            }
        }
    }

    /// Reads a string.
    pub fn string(&mut self, value: &Value, into: &mut String) {
        self.named_string(value, "string", into);
    }

    /// Reads a string of a named type.
    pub fn named_string(&mut self, value: &Value, expected: &str, into: &mut String) {
        match value {
            Value::Undefined | Value::Null => {}
            Value::String(text) => text.as_ref().clone_into(into),
            other => self.mismatch(kind(other).to_owned(), expected),
        }
    }

    /// Reads a list of strings.
    pub fn strings(&mut self, value: &Value, into: &mut Vec<String>) {
        self.list(value, "[]string", |decoder, item| {
            let mut text = String::new();
            decoder.string(item, &mut text);
            into.push(text);
        });
    }

    /// Reads a map of strings.
    pub fn string_map(&mut self, value: &Value, into: &mut BTreeMap<String, String>) {
        self.map(value, "map[string]string", |decoder, key, item| {
            let mut text = String::new();
            decoder.string(item, &mut text);
            into.insert(key.to_owned(), text);
        });
    }

    /// Reads an object of anything.
    pub fn any_map(&mut self, value: &Value, into: &mut Map) {
        match value {
            Value::Undefined | Value::Null => {}
            Value::Object(entries) => *into = entries.to_map(),
            other => self.mismatch(kind(other).to_owned(), "map[string]interface {}"),
        }
    }

    /// Reads an integer; a double that is whole counts as one, as it does once the reference has written it again.
    pub fn int(&mut self, value: &Value, into: &mut i64) {
        match value {
            Value::Undefined | Value::Null => {}
            Value::Number(n) => match n.kind() {
                NumberKind::Integer(n) => *into = n,
                NumberKind::Float(n) if n.fract() == 0.0 && n.abs() < 1e15 => *into = n as i64,
                NumberKind::Float(n) => self.mismatch(format!("number {}", go::float(n)), "int"),
                NumberKind::Unsigned(n) => self.mismatch(format!("number {n}"), "int"),
            },
            other => self.mismatch(kind(other).to_owned(), "int"),
        }
    }

    /// Reads a boolean.
    pub fn bool(&mut self, value: &Value, into: &mut bool) {
        match value {
            Value::Undefined | Value::Null => {}
            Value::Bool(b) => *into = *b,
            other => self.mismatch(kind(other).to_owned(), "bool"),
        }
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Undefined | Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}
