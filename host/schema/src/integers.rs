//! Whole numbers that are written with a fraction or an exponent, such as `5.0` and `1e3`.
//!
//! To JSON Schema they are integers; most languages read them as floating-point numbers, and fail where they expect an
//! integer. Models and JSON writers send them all the same. Where a schema says integer, they are written as integers.

use serde_json::{Map, Number, Value};
use std::collections::{HashMap, HashSet};

/// The places of integers that a schema knows. It says where one *may* be: branches are not told apart, since writing
/// `5.0` as `5` changes no value.
#[derive(Debug)]
pub(crate) struct Integers(Vec<Node>);

/// One schema and those that it applies.
#[derive(Debug, Default)]
struct Node {
    integer: bool,
    here: Vec<usize>,
    members: HashMap<Box<str>, usize>,
    other_members: Vec<usize>,
    first_elements: Vec<usize>,
    other_elements: Vec<usize>,
}

impl Integers {
    /// The places of a schema of draft 2020-12 whose references are pointers into it; `None` if it knows none.
    pub(crate) fn of(root: &Value) -> Option<Self> {
        let mut graph = Graph { root, index: HashMap::new(), found: Vec::new() };
        graph.node(root);
        let mut nodes = Vec::new();
        while let Some(schema) = graph.found.get(nodes.len()).copied() {
            nodes.push(schema.as_object().map(|map| graph.visit(map)).unwrap_or_default());
        }
        nodes.iter().any(|node| node.integer).then_some(Self(nodes))
    }

    /// Writes whole numbers at places of integers as such; returns `true` if there were any.
    pub(crate) fn write(&self, value: &mut Value) -> bool {
        has_whole_float(value) && self.at(value, &[0])
    }

    /// By recursion, as deep as parsers nest values.
    fn at(&self, value: &mut Value, schemas: &[usize]) -> bool {
        let applied = self.applied(schemas);
        let nodes = || applied.iter().filter_map(|at| self.0.get(*at));
        match value {
            Value::Number(number) if nodes().any(|node| node.integer) => match whole(number) {
                Some(integer) => {
                    *number = integer;
                    true
                }
                None => false,
            },
            Value::Array(list) => {
                let mut changed = false;
                for (at, element) in list.iter_mut().enumerate() {
                    let schemas: Vec<usize> = nodes()
                        .flat_map(|node| match node.first_elements.get(at) {
                            Some(first) => std::slice::from_ref(first),
                            None => &node.other_elements,
                        })
                        .copied()
                        .collect();
                    changed |= !schemas.is_empty() && self.at(element, &schemas);
                }
                changed
            }
            Value::Object(map) => {
                let mut changed = false;
                for (name, member) in map.iter_mut() {
                    let schemas: Vec<usize> = nodes()
                        .flat_map(|node| match node.members.get(name.as_str()) {
                            Some(member) => std::slice::from_ref(member),
                            None => &node.other_members,
                        })
                        .copied()
                        .collect();
                    changed |= !schemas.is_empty() && self.at(member, &schemas);
                }
                changed
            }
            _ => false,
        }
    }

    /// These schemas and all that they apply to the same place.
    fn applied(&self, schemas: &[usize]) -> Vec<usize> {
        let mut seen: HashSet<usize> = schemas.iter().copied().collect();
        let mut applied: Vec<usize> = seen.iter().copied().collect();
        let mut at = 0;
        while let Some(node) = applied.get(at).and_then(|at| self.0.get(*at)) {
            applied.extend(node.here.iter().filter(|inner| seen.insert(**inner)));
            at += 1;
        }
        applied
    }
}

struct Graph<'a> {
    root: &'a Value,
    index: HashMap<*const Value, usize>,
    found: Vec<&'a Value>,
}

impl<'a> Graph<'a> {
    fn node(&mut self, schema: &'a Value) -> usize {
        let next = self.found.len();
        *self.index.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.found.push(schema);
            next
        })
    }

    fn visit(&mut self, map: &'a Map<String, Value>) -> Node {
        let mut node = Node::default();
        for (keyword, value) in map {
            match (keyword.as_str(), value) {
                ("type", Value::String(name)) => node.integer |= name == "integer",
                ("type", Value::Array(names)) => node.integer |= names.iter().any(|name| name == "integer"),
                ("$ref", Value::String(reference)) => {
                    let target = reference.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
                    node.here.extend(target.map(|target| self.node(target)));
                }
                ("if" | "then" | "else", schema) => node.here.push(self.node(schema)),
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.here.extend(list.iter().map(|schema| self.node(schema)));
                }
                ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                    node.here.extend(map.values().map(|schema| self.node(schema)));
                }
                ("properties", Value::Object(map)) => {
                    node.members = map.iter().map(|(name, schema)| (name.as_str().into(), self.node(schema))).collect();
                }
                ("patternProperties", Value::Object(map)) => {
                    node.other_members.extend(map.values().map(|schema| self.node(schema)));
                }
                ("additionalProperties" | "unevaluatedProperties", schema) => {
                    node.other_members.push(self.node(schema))
                }
                ("prefixItems", Value::Array(list)) => {
                    node.first_elements = list.iter().map(|schema| self.node(schema)).collect();
                }
                ("items" | "contains" | "unevaluatedItems", schema) => node.other_elements.push(self.node(schema)),
                _ => {}
            }
        }
        node
    }
}

/// Returns `true` if any number in a value is whole and written as a floating-point number.
fn has_whole_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => whole(number).is_some(),
        Value::Array(list) => list.iter().any(has_whole_float),
        Value::Object(map) => map.values().any(has_whole_float),
        _ => false,
    }
}

/// The integer of 64 bits that a floating-point number is.
fn whole(number: &Number) -> Option<Number> {
    /// 2^64 and 2^63: the first floating-point numbers that are too large.
    const UNSIGNED_END: f64 = 18_446_744_073_709_551_616.0;
    const SIGNED_END: f64 = 9_223_372_036_854_775_808.0;
    if !number.is_f64() {
        return None;
    }
    let float = number.as_f64().filter(|float| float.fract() == 0.0)?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and in range")]
    if (-SIGNED_END..SIGNED_END).contains(&float) {
        Some((float as i64).into())
    } else if (SIGNED_END..UNSIGNED_END).contains(&float) {
        Some((float as u64).into())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::Schema;
    use serde_json::{Value, json};

    fn written(schema: &Value, text: &str) -> String {
        let schema = Schema::compile(schema).unwrap();
        let mut value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(schema.check(&value), Ok(()), "{text}");
        schema.write_integers(&mut value);
        value.to_string()
    }

    #[test]
    fn whole_numbers_at_places_of_integers_are_written_as_integers() {
        let schema = json!({
            "properties": {
                "n": {"type": "integer"},
                "optional": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
                "list": {"type": "array", "items": {"$ref": "#/$defs/row"}},
                "pair": {"prefixItems": [{"type": "integer"}, {"type": "number"}]},
                "x": {"type": "number"},
            },
            "additionalProperties": {"oneOf": [{"type": ["string", "integer"]}, {"type": "boolean"}]},
            "$defs": {"row": {"allOf": [{"properties": {"id": {"type": "integer"}}}]}},
        });
        for (given, expected) in [
            (r#"{"n":5.0}"#, r#"{"n":5}"#),
            (r#"{"n":1e3}"#, r#"{"n":1000}"#),
            (r#"{"n":-0.0}"#, r#"{"n":0}"#),
            (r#"{"n":18446744073709549568.0}"#, r#"{"n":18446744073709549568}"#),
            (r#"{"n":1e30}"#, r#"{"n":1e+30}"#),
            (r#"{"optional":2.0}"#, r#"{"optional":2}"#),
            (r#"{"list":[{"id":7.0,"x":7.0}]}"#, r#"{"list":[{"id":7,"x":7.0}]}"#),
            (r#"{"pair":[1.0,1.0]}"#, r#"{"pair":[1,1.0]}"#),
            (r#"{"x":5.0}"#, r#"{"x":5.0}"#),
            (r#"{"other":5.0}"#, r#"{"other":5}"#),
        ] {
            assert_eq!(written(&schema, given), expected, "{given}");
        }
    }

    #[test]
    fn trees_that_refer_to_themselves_are_followed_as_deep_as_the_value() {
        let tree =
            json!({"properties": {"n": {"type": "integer"}, "next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}}});
        let given = r#"{"n":1.0,"next":{"n":2.0,"next":{"n":3.0,"next":null}}}"#;
        assert_eq!(written(&tree, given), r#"{"n":1,"next":{"n":2,"next":{"n":3,"next":null}}}"#);
    }
}
