//! A schema as a graph: every schema in it, and which others each of them applies to the same place, to elements and to
//! members.

use crate::{PART_BYTES, patterns::Patterns};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Dividing one number by a fraction, in steps: it is done with big integers.
const FRACTION_STEPS: u64 = 2_000;

/// Dividing one number by a whole number, in steps: large floating-point values take the slow path.
const DIVISION_STEPS: u64 = 100;

/// Hashing and comparing one part of an element for `uniqueItems`, in steps.
const UNIQUE_STEPS: u64 = 8;

/// One schema and those that it applies.
#[derive(Debug, Default, Clone)]
pub(crate) struct Node {
    /// Steps of its own.
    pub(crate) own: u64,
    /// To the same place.
    pub(crate) here: Vec<usize>,
    /// To elements; of each group, only one schema applies to any one element.
    pub(crate) elements: Vec<Vec<usize>>,
    /// To members, likewise.
    pub(crate) members: Vec<Vec<usize>>,
    /// Those of `here` that are written inside of it.
    pub(crate) inline: Vec<usize>,
    /// The target of its `$ref`.
    pub(crate) target: Option<usize>,
    /// `true` if it has `unevaluatedProperties` or `unevaluatedItems`, which look once more at everything that applies
    /// here.
    pub(crate) tracks: bool,
    /// `true` if the reasons of a failed check may outnumber the parts of the value.
    pub(crate) lists_reasons: bool,
}

impl Node {
    fn inline(&mut self, schemas: impl IntoIterator<Item = usize>) {
        for schema in schemas {
            self.here.push(schema);
            self.inline.push(schema);
        }
    }

    /// Those for parts of the value.
    pub(crate) fn parts(&self) -> impl Iterator<Item = usize> + '_ {
        self.elements.iter().chain(&self.members).flatten().copied()
    }
}

/// Every schema that is applied, the root first.
///
/// # Errors
/// When a reference or an anchor is not followed here.
pub(crate) fn build(root: &Value, patterns: &Patterns<'_>) -> Result<Vec<Node>, String> {
    let mut graph = Graph { root, patterns, index: HashMap::new(), found: Vec::new() };
    graph.node(root);
    let mut nodes = Vec::new();
    let mut unique = Vec::new();
    while let Some(schema) = graph.found.get(nodes.len()) {
        let node = match schema {
            Value::Object(map) => {
                if map.get("uniqueItems") == Some(&Value::Bool(true)) {
                    unique.push(nodes.len());
                }
                graph.visit(map, nodes.is_empty())?
            }
            _ => Node { own: 1, ..Node::default() },
        };
        nodes.push(node);
    }
    if !unique.is_empty() {
        // As if it were a schema that applies itself to every part of every element.
        let hash = nodes.len();
        for at in unique {
            if let Some(node) = nodes.get_mut(at) {
                node.elements.push(vec![hash]);
            }
        }
        let (elements, members) = (vec![vec![hash]], vec![vec![hash]]);
        nodes.push(Node { own: UNIQUE_STEPS, elements, members, ..Node::default() });
    }
    Ok(nodes)
}

/// Finds every schema that is applied, without recursion.
struct Graph<'a> {
    root: &'a Value,
    patterns: &'a Patterns<'a>,
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

    fn visit(&mut self, map: &'a Map<String, Value>, is_root: bool) -> Result<Node, String> {
        let mut node = Node { own: 1, ..Node::default() };
        for (keyword, value) in map {
            node.own = node.own.saturating_add(1);
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let target = self.resolve(reference)?;
                    let target = self.node(target);
                    node.here.push(target);
                    node.target = Some(target);
                }
                ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor", _) => {
                    return Err(format!("`{keyword}` is not followed; use `$ref` with `#/$defs/…`"));
                }
                ("$id", _) if !is_root => return Err("`$id` is allowed only at the top of a schema".to_owned()),
                ("not" | "if" | "then" | "else", schema) => node.inline([self.node(schema)]),
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.lists_reasons |= keyword != "allOf";
                    node.inline(list.iter().map(|schema| self.node(schema)));
                }
                ("dependentRequired" | "dependencies" | "dependentSchemas", Value::Object(map)) => {
                    for dependent in map.values() {
                        // The name is looked up in every object, whether or not it is there.
                        let names = dependent.as_array().map_or(0, Vec::len) as u64;
                        node.own = node.own.saturating_add(1 + names);
                        if !dependent.is_array() {
                            node.inline([self.node(dependent)]);
                        }
                    }
                }
                ("prefixItems", Value::Array(list)) => {
                    node.elements.push(list.iter().map(|schema| self.node(schema)).collect());
                }
                ("items" | "contains" | "unevaluatedItems", schema) => {
                    node.tracks |= keyword == "unevaluatedItems";
                    node.elements.push(vec![self.node(schema)]);
                }
                ("properties", Value::Object(map)) => {
                    node.members.push(map.values().map(|schema| self.node(schema)).collect());
                }
                ("patternProperties", Value::Object(map)) => {
                    node.members.extend(map.values().map(|schema| vec![self.node(schema)]));
                    map.keys().for_each(|pattern| node.own = node.own.saturating_add(self.matching(pattern)));
                }
                ("additionalProperties" | "unevaluatedProperties" | "propertyNames", schema) => {
                    node.tracks |= keyword == "unevaluatedProperties";
                    node.members.push(vec![self.node(schema)]);
                }
                ("pattern", Value::String(pattern)) => node.own = node.own.saturating_add(self.matching(pattern)),
                ("enum" | "required", Value::Array(list)) => node.own = node.own.saturating_add(list.len() as u64),
                ("multipleOf", Value::Number(number)) => {
                    let steps = if number.is_f64() { FRACTION_STEPS } else { DIVISION_STEPS };
                    node.own = node.own.saturating_add(steps);
                }
                ("uniqueItems", _) => node.lists_reasons = true,
                _ => {}
            }
        }
        node.lists_reasons |= node.tracks;
        Ok(node)
    }

    /// Steps of matching one part of a text: a state is looked at in a quarter of a step, for every byte of the part.
    fn matching(&self, pattern: &str) -> u64 {
        self.patterns.states(pattern).saturating_mul(PART_BYTES as u64) / 4
    }

    fn resolve(&self, reference: &str) -> Result<&'a Value, String> {
        let shown = || opcell_types::text::printable(reference, 200);
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let Some(pointer) = pointer.filter(|pointer| pointer.is_empty() || pointer.starts_with('/')) else {
            return Err(format!("`{}` points outside the schema; use `$ref` with `#/$defs/…`", shown()));
        };
        self.root.pointer(pointer).ok_or_else(|| format!("`{}` does not resolve", shown()))
    }
}
