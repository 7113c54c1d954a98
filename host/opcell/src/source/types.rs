//! Types of doc comments as JSON Schemas: `string`, `number[]`, `"a" | "b"`, `{name: string, age?: number}`.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Types that a source names by `@typedef`.
pub(super) type Named = BTreeMap<String, Value>;

/// Types inside of one another.
const MAX_DEPTH: usize = 32;

/// The names that a type may have.
const NAMES: &str = "string, number, integer, boolean, null, object, any, a quoted string, T[], Array<T>, \
                     Record<string, T>, {name: T, other?: T}, A | B, or the name of a @typedef";

/// The JSON Schema of a type.
///
/// # Errors
/// A sentence that names the part that is not a type.
pub(super) fn schema(text: &str, named: &Named) -> Result<Value, String> {
    let mut reader = Reader { text, at: 0, named, depth: 0 };
    let found = reader.union()?;
    reader.space();
    match reader.rest() {
        "" => Ok(found),
        rest => Err(format!("the type `{text}` has `{rest}` too much; expected {NAMES}")),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    named: &'a Named,
    depth: usize,
}

impl<'a> Reader<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn takes(&mut self, token: &str) -> bool {
        self.space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        match self.takes(token) {
            true => Ok(()),
            false => Err(format!("the type `{}` lacks a `{token}` before `{}`", self.text, self.rest())),
        }
    }

    fn union(&mut self) -> Result<Value, String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("types are nested more than {MAX_DEPTH} deep"));
        }
        self.takes("|");
        let mut choices = vec![self.postfix()?];
        while self.takes("|") {
            choices.push(self.postfix()?);
        }
        self.depth -= 1;
        Ok(one_of(choices))
    }

    fn postfix(&mut self) -> Result<Value, String> {
        let is_nullable = self.takes("?");
        let _ = self.takes("!");
        let mut found = self.primary()?;
        while self.takes("[]") {
            found = json!({"type": "array", "items": found});
        }
        Ok(if is_nullable { one_of(vec![found, json!({"type": "null"})]) } else { found })
    }

    fn primary(&mut self) -> Result<Value, String> {
        if self.takes("(") {
            let inner = self.union()?;
            self.expect(")")?;
            return Ok(inner);
        }
        if self.takes("{") {
            return self.record();
        }
        if self.takes("*") {
            return Ok(json!({}));
        }
        self.space();
        let rest = self.rest();
        match rest.chars().next() {
            Some(quote @ ('"' | '\'' | '`')) => self.literal(quote),
            Some(digit) if digit == '-' || digit.is_ascii_digit() => self.number(),
            _ => self.name(),
        }
    }

    fn literal(&mut self, quote: char) -> Result<Value, String> {
        let inner = self.rest().get(1..).unwrap_or_default();
        let end = inner.find(quote).ok_or_else(|| format!("the type `{}` has a string without an end", self.text))?;
        self.at += end + 2;
        Ok(json!({"const": inner.get(..end).unwrap_or_default()}))
    }

    fn number(&mut self) -> Result<Value, String> {
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_digit() || c == '-' || c == '.')).unwrap_or(rest.len());
        let digits = rest.get(..end).unwrap_or_default();
        self.at += end;
        let value: Value = serde_json::from_str(digits).map_err(|_| format!("`{digits}` is not a number"))?;
        Ok(json!({"const": value}))
    }

    /// After the brace of `{name: T, other?: T}`.
    fn record(&mut self) -> Result<Value, String> {
        let (mut properties, mut required) = (Map::new(), Vec::new());
        while !self.takes("}") {
            let name = match self.rest().trim_start().chars().next() {
                Some(quote @ ('"' | '\'')) => {
                    self.space();
                    self.literal(quote)?.get("const").and_then(Value::as_str).unwrap_or_default().to_owned()
                }
                _ => self.word().to_owned(),
            };
            if name.is_empty() {
                return Err(format!("the type `{}` lacks the name of a property before `{}`", self.text, self.rest()));
            }
            let is_optional = self.takes("?");
            let found = if self.takes(":") { self.union()? } else { json!({}) };
            if !is_optional {
                required.push(Value::from(name.clone()));
            }
            properties.insert(name, found);
            if !self.takes(",") && !self.takes(";") {
                self.expect("}")?;
                break;
            }
        }
        Ok(object(properties, required))
    }

    fn word(&mut self) -> &'a str {
        self.space();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len());
        self.at += end;
        rest.get(..end).unwrap_or_default()
    }

    fn name(&mut self) -> Result<Value, String> {
        let (name, of) = (self.word(), self.rest());
        if let Some(found) = self.named.get(name) {
            return Ok(found.clone());
        }
        Ok(match name {
            "string" | "String" => json!({"type": "string"}),
            "number" | "Number" => json!({"type": "number"}),
            "integer" | "int" => json!({"type": "integer"}),
            "boolean" | "Boolean" | "bool" => json!({"type": "boolean"}),
            "true" => json!({"const": true}),
            "false" => json!({"const": false}),
            "null" | "void" | "undefined" => json!({"type": "null"}),
            "any" | "unknown" | "Json" | "JSON" => json!({}),
            "Array" | "ReadonlyArray" => match self.parameters()?.pop() {
                Some(items) => json!({"type": "array", "items": items}),
                None => json!({"type": "array"}),
            },
            "Promise" => self.parameters()?.pop().unwrap_or_else(|| json!({})),
            "object" | "Object" | "Record" | "Map" => match self.parameters()?.pop() {
                Some(values) => json!({"type": "object", "additionalProperties": values}),
                None => json!({"type": "object"}),
            },
            "" => return Err(format!("the type `{}` has `{of}` where a type is expected: {NAMES}", self.text)),
            name => return Err(format!("`{name}` is not a type; expected {NAMES}")),
        })
    }

    /// `<A, B>` or `.<A, B>`; none where there is no bracket.
    fn parameters(&mut self) -> Result<Vec<Value>, String> {
        let mut found = Vec::new();
        if self.takes(".<") || self.takes("<") {
            loop {
                found.push(self.union()?);
                if !self.takes(",") {
                    break;
                }
            }
            self.expect(">")?;
        }
        Ok(found)
    }
}

/// The schema of an object with these properties and no others.
pub(super) fn object(properties: Map<String, Value>, required: Vec<Value>) -> Value {
    let required = (!required.is_empty()).then(|| ("required".to_owned(), Value::from(required)));
    let keys = [
        ("type".to_owned(), json!("object")),
        ("properties".to_owned(), Value::from(properties)),
        ("additionalProperties".to_owned(), json!(false)),
    ];
    Value::from_iter(keys.into_iter().chain(required))
}

fn one_of(mut choices: Vec<Value>) -> Value {
    if choices.len() == 1 {
        return choices.pop().unwrap_or_default();
    }
    let constant = |choice: &Value| choice.get("const").cloned();
    match choices.iter().map(constant).collect::<Option<Vec<Value>>>() {
        Some(values) => json!({"enum": values}),
        None => json!({"anyOf": choices}),
    }
}

#[cfg(test)]
mod tests {
    use super::{Named, schema};
    use serde_json::json;

    #[test]
    fn types_of_doc_comments_are_schemas() {
        let point = json!({"type": "object", "properties": {"x": {"type": "number"}}, "additionalProperties": false, "required": ["x"]});
        let named: Named = [("Point".to_owned(), point.clone())].into();
        for (text, expected) in [
            ("string", json!({"type": "string"})),
            (" integer ", json!({"type": "integer"})),
            ("*", json!({})),
            ("string[][]", json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}})),
            ("Array<Point>", json!({"type": "array", "items": point})),
            ("Promise<string>", json!({"type": "string"})),
            ("'a' | \"b\"", json!({"enum": ["a", "b"]})),
            ("?number", json!({"anyOf": [{"type": "number"}, {"type": "null"}]})),
            (
                "(string|number)[]",
                json!({"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "number"}]}}),
            ),
            ("Record<string, boolean>", json!({"type": "object", "additionalProperties": {"type": "boolean"}})),
            (
                "{a: string, 'b-c'?: 1 | 2}",
                json!({"type": "object", "properties": {"a": {"type": "string"}, "b-c": {"enum": [1, 2]}},
                    "additionalProperties": false, "required": ["a"]}),
            ),
        ] {
            assert_eq!(schema(text, &named), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_types_are_refused_with_the_part_that_is_wrong() {
        let deep = format!("{}string{}", "(".repeat(100), ")".repeat(100));
        for (text, part) in [
            ("Date", "`Date` is not a type"),
            ("{a: }", "where a type is expected"),
            ("string]", "`]` too much"),
            ("Array<string", "lacks a `>`"),
            ("'a", "a string without an end"),
            ("{: string}", "the name of a property"),
            ("1-2", "`1-2` is not a number"),
            (deep.as_str(), "nested more than 32 deep"),
        ] {
            let error = schema(text, &Named::new()).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
