//! How much work somebody's schema can make for the host, known before any value is checked.
//!
//! Schemas branch in place (`allOf`, `anyOf`, `$ref`, …) and call themselves on parts of a value. A few hundred bytes can therefore ask
//! for more steps than there are atoms, or recurse without ever looking at a part. This module finds an upper bound: how many steps are
//! spent on any one part of a value that is nested so and so deep.

use crate::{PART_BYTES, patterns::Patterns};
use serde_json::{Map, Value};
use std::collections::HashMap;

/// Values are parsed to this depth at most.
const MAX_DEPTH: usize = 128;

/// Schemas that apply to the same place one through the other; each takes stack.
const MAX_CHAIN: usize = 100;

/// The bound, by depth of the value.
#[derive(Debug)]
pub(crate) struct Effort(Vec<u64>);

/// One schema and those that it applies.
#[derive(Debug, Default)]
struct Node {
    /// Steps of its own.
    own: u64,
    /// To the same place.
    here: Vec<usize>,
    /// To elements; of each group, only one schema applies to any one element.
    elements: Vec<Vec<usize>>,
    /// To members, likewise.
    members: Vec<Vec<usize>>,
}

impl Effort {
    /// The bound for a schema with these patterns.
    pub(crate) fn of(schema: &Value, patterns: &Patterns<'_>) -> Result<Self, String> {
        let nodes = Graph::build(schema, patterns)?;
        let order = inner_first(&nodes)?;
        let mut here = vec![0_u64; nodes.len()];
        for &at in &order {
            let Some(node) = nodes.get(at) else { continue };
            let inner = sum(&node.here, &here);
            set(&mut here, at, node.own.saturating_add(inner));
        }
        let mut by_depth = vec![get(&here, 0)];
        let mut whole = here.clone();
        while by_depth.len() <= MAX_DEPTH {
            let (mut elements, mut members) = (vec![0; nodes.len()], vec![0; nodes.len()]);
            let mut next = vec![0; nodes.len()];
            for &at in &order {
                let Some(node) = nodes.get(at) else { continue };
                let below = groups(&node.elements, &whole).saturating_add(sum(&node.here, &elements));
                set(&mut elements, at, below);
                let below = groups(&node.members, &whole).saturating_add(sum(&node.here, &members));
                set(&mut members, at, below);
                set(&mut next, at, get(&here, at).saturating_add(get(&elements, at).max(get(&members, at))));
            }
            by_depth.push(get(&next, 0));
            if next == whole {
                break;
            }
            whole = next;
        }
        Ok(Self(by_depth))
    }

    /// Steps per part of a value of this depth, at most.
    pub(crate) fn at(&self, depth: usize) -> u64 {
        self.0.get(depth).or(self.0.last()).copied().unwrap_or(u64::MAX)
    }

    /// Steps per part of any value.
    pub(crate) fn worst(&self) -> u64 {
        self.at(MAX_DEPTH)
    }
}

fn get(costs: &[u64], at: usize) -> u64 {
    costs.get(at).copied().unwrap_or(0)
}

fn set(costs: &mut [u64], at: usize, cost: u64) {
    if let Some(slot) = costs.get_mut(at) {
        *slot = cost;
    }
}

fn sum(nodes: &[usize], costs: &[u64]) -> u64 {
    nodes.iter().fold(0, |total, at| total.saturating_add(get(costs, *at)))
}

fn groups(groups: &[Vec<usize>], costs: &[u64]) -> u64 {
    groups
        .iter()
        .fold(0, |total, group| total.saturating_add(group.iter().map(|at| get(costs, *at)).max().unwrap_or(0)))
}

/// Every schema after those that it applies in place.
fn inner_first(nodes: &[Node]) -> Result<Vec<usize>, String> {
    let mut waits_for: Vec<usize> = nodes.iter().map(|node| node.here.len()).collect();
    let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for inner in &node.here {
            if let Some(list) = wanted_by.get_mut(*inner) {
                list.push(at);
            }
        }
    }
    let mut order: Vec<usize> = (0..nodes.len()).filter(|at| waits_for.get(*at) == Some(&0)).collect();
    let mut chain = vec![1_usize; nodes.len()];
    let mut done = 0;
    while let Some(&at) = order.get(done) {
        done += 1;
        let length = chain.get(at).copied().unwrap_or(1) + 1;
        for &outer in wanted_by.get(at).into_iter().flatten() {
            if let (Some(waits), Some(longest)) = (waits_for.get_mut(outer), chain.get_mut(outer)) {
                *longest = (*longest).max(length);
                *waits -= 1;
                if *waits == 0 {
                    order.push(outer);
                }
            }
        }
    }
    if order.len() < nodes.len() {
        return Err("it refers to itself without descending into the value".to_owned());
    }
    if chain.iter().any(|length| *length > MAX_CHAIN) {
        return Err(format!("more than {MAX_CHAIN} of its schemas apply to the same place one through the other"));
    }
    Ok(order)
}

/// Finds every schema that is applied, without recursion.
struct Graph<'a> {
    root: &'a Value,
    patterns: &'a Patterns<'a>,
    index: HashMap<*const Value, usize>,
    found: Vec<&'a Value>,
}

impl<'a> Graph<'a> {
    fn build(root: &'a Value, patterns: &'a Patterns<'a>) -> Result<Vec<Node>, String> {
        let mut graph = Self { root, patterns, index: HashMap::new(), found: Vec::new() };
        graph.node(root);
        let mut nodes = Vec::new();
        while let Some(schema) = graph.found.get(nodes.len()) {
            let node = match schema {
                Value::Object(map) => graph.visit(map, nodes.is_empty())?,
                _ => Node { own: 1, ..Node::default() },
            };
            nodes.push(node);
        }
        Ok(nodes)
    }

    fn node(&mut self, schema: &'a Value) -> usize {
        let next = self.found.len();
        *self.index.entry(std::ptr::from_ref(schema)).or_insert_with(|| {
            self.found.push(schema);
            next
        })
    }

    fn visit(&mut self, map: &'a Map<String, Value>, is_root: bool) -> Result<Node, String> {
        let mut node = Node { own: 1, ..Node::default() };
        let mut looks_twice = false;
        for (keyword, value) in map {
            node.own = node.own.saturating_add(1);
            match (keyword.as_str(), value) {
                ("$ref", Value::String(reference)) => {
                    let target = self.resolve(reference)?;
                    node.here.push(self.node(target));
                }
                ("$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" | "$recursiveAnchor", _) => {
                    return Err(format!("`{keyword}` is not followed; use `$ref` with `#/$defs/…`"));
                }
                ("$id", _) if !is_root => return Err("`$id` is allowed only at the top of a schema".to_owned()),
                ("not" | "if" | "then" | "else", schema) => node.here.push(self.node(schema)),
                ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => {
                    node.here.extend(list.iter().map(|schema| self.node(schema)))
                }
                ("dependentSchemas" | "dependencies", Value::Object(map)) => {
                    node.here.extend(map.values().map(|schema| self.node(schema)));
                }
                ("prefixItems", Value::Array(list)) => {
                    node.elements.push(list.iter().map(|schema| self.node(schema)).collect())
                }
                ("items" | "contains" | "unevaluatedItems", schema) => {
                    looks_twice |= keyword == "unevaluatedItems";
                    node.elements.push(vec![self.node(schema)]);
                }
                ("properties", Value::Object(map)) => {
                    node.members.push(map.values().map(|schema| self.node(schema)).collect())
                }
                ("patternProperties", Value::Object(map)) => {
                    node.members.extend(map.values().map(|schema| vec![self.node(schema)]));
                    map.keys().for_each(|pattern| node.own = node.own.saturating_add(self.matching(pattern)));
                }
                ("additionalProperties" | "unevaluatedProperties" | "propertyNames", schema) => {
                    looks_twice |= keyword == "unevaluatedProperties";
                    node.members.push(vec![self.node(schema)]);
                }
                ("pattern", Value::String(pattern)) => node.own = node.own.saturating_add(self.matching(pattern)),
                ("enum" | "required", Value::Array(list)) => node.own = node.own.saturating_add(list.len() as u64),
                _ => {}
            }
        }
        if looks_twice {
            // What is evaluated already is found out by evaluating it once more.
            node.here.extend_from_within(..);
            node.elements.extend_from_within(..);
            node.members.extend_from_within(..);
        }
        Ok(node)
    }

    /// Steps of matching one part of a text: a state is looked at in a quarter of a step, for every byte of the part.
    fn matching(&self, pattern: &str) -> u64 {
        self.patterns.states(pattern).saturating_mul(PART_BYTES as u64) / 4
    }

    fn resolve(&self, reference: &str) -> Result<&'a Value, String> {
        let shown = || crate::printable(reference, 200);
        let pointer = reference.strip_prefix('#').filter(|pointer| !pointer.contains('%'));
        let Some(pointer) = pointer.filter(|pointer| pointer.is_empty() || pointer.starts_with('/')) else {
            return Err(format!("`{}` points outside the schema; use `$ref` with `#/$defs/…`", shown()));
        };
        self.root.pointer(pointer).ok_or_else(|| format!("`{}` does not resolve", shown()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn effort(schema: &Value) -> Result<Effort, String> {
        Effort::of(schema, &Patterns::of(schema)?.0)
    }

    #[test]
    fn ordinary_schemas_are_cheap_at_any_depth() {
        let flat =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}});
        assert!(effort(&flat).unwrap().worst() < 20);
        let tree = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
            "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "right": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}});
        assert!(effort(&tree).unwrap().worst() < 2_000);
        let json = json!({"anyOf": [{"type": ["string", "null"]}, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]});
        assert!(effort(&json).unwrap().worst() < 2_000);
    }

    #[test]
    fn branching_in_place_doubles_with_every_level() {
        let mut defs = Map::new();
        for level in 0..40 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [next, next]}));
        }
        defs.insert("d40".to_owned(), json!(true));
        let schema = json!({"$ref": "#/$defs/d0", "$defs": defs});
        assert!(effort(&schema).unwrap().worst() > 1 << 40);
    }

    #[test]
    fn recursion_through_the_same_part_twice_doubles_with_every_level_of_the_value() {
        let schema = json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]});
        let effort = effort(&schema).unwrap();
        assert!(effort.at(3) < 200 && effort.at(60) > 1 << 60);
    }

    #[test]
    fn a_schema_that_refers_to_itself_in_place_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            assert!(effort(&schema).unwrap_err().contains("refers to itself"), "{schema}");
        }
    }

    #[test]
    fn a_long_chain_in_place_is_refused() {
        let mut defs = Map::new();
        for level in 0..5_000 {
            defs.insert(format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1)}));
        }
        defs.insert("d5000".to_owned(), json!(true));
        assert!(effort(&json!({"$ref": "#/$defs/d0", "$defs": defs})).unwrap_err().contains("one through the other"));
    }

    #[test]
    fn references_stay_within_the_schema() {
        for reference in ["https://example.com/s", "other.json", "#anchor", "#/$defs/none", "#/%24defs/a"] {
            assert!(effort(&json!({"$ref": reference})).is_err(), "{reference}");
        }
        assert!(effort(&json!({"$dynamicRef": "#x"})).is_err());
    }
}
