//! The cost of a schema that others wrote, known before it is built and before any value is checked.
//!
//! Schemas branch in place (`allOf`, `anyOf`, `$ref`, …) and call themselves on parts of a value. A few hundred bytes
//! can therefore ask for more steps than there are atoms, or recurse without ever looking at a part. This module finds
//! upper bounds: how many steps are spent on any one part of a value that is nested so and so deep, how deep such a
//! check recurses, and how many compiled schemas the validator makes of one.

use crate::{
    graph::{self, Node},
    patterns::Patterns,
};
use serde_json::Value;

/// Values are parsed to this depth at most.
const MAX_DEPTH: usize = 128;

/// Schemas that apply to the same place one through the other; each takes stack.
const MAX_CHAIN: usize = 100;

/// Ways in which schemas may apply to one place, each of them work for every value.
const MAX_PATHS: u64 = 10_000;

/// The same below one `unevaluated…`: the validator compiles a copy for each.
const MAX_TRACKED_PATHS: u64 = 256;

/// Compiled schemas that one schema, or all schemas of one plugin or document, may become; about a kilobyte each.
pub(crate) const MAX_COMPILED: u64 = 100_000;

/// The bounds of one schema.
#[derive(Debug)]
pub(crate) struct Cost {
    /// Steps per part, by depth of the value.
    steps: Vec<u64>,
    /// Schemas that are applied one inside the other, by depth of the value.
    nesting: Vec<u64>,
    /// Schemas that the validator compiles.
    pub(crate) compiled: u64,
    /// `true` if the reasons of a failed check may outnumber the parts of the value.
    pub(crate) lists_reasons: bool,
}

impl Cost {
    /// The bounds for a schema with these patterns.
    ///
    /// # Errors
    /// When it applies itself without end, or asks for more than a schema may.
    pub(crate) fn of(schema: &Value, patterns: &Patterns<'_>) -> Result<Self, String> {
        let mut nodes = graph::build(schema, patterns)?;
        let order = inner_first(&nodes)?;
        let paths = paths(&nodes, &order);
        let tracked = nodes.iter().zip(&paths).filter(|(node, _)| node.tracks);
        if tracked.map(|(_, paths)| *paths).max() > Some(MAX_TRACKED_PATHS) {
            return Err(format!(
                "more than {MAX_TRACKED_PATHS} schemas apply to the same place as one of its `unevaluated…` keywords; list the properties or items instead"
            ));
        }
        if paths.iter().max() > Some(&MAX_PATHS) {
            return Err(branches());
        }
        let compiled = compiled(&nodes)?;
        check_total(compiled)?;
        let lists_reasons = nodes.iter().any(|node| node.lists_reasons);
        let order = if nodes.iter().any(|node| node.tracks) {
            add_trackers(&mut nodes);
            let order = inner_first(&nodes)?;
            if self::paths(&nodes, &order).iter().max() > Some(&MAX_PATHS) {
                return Err(branches());
            }
            order
        } else {
            order
        };
        let steps = by_depth(&nodes, &order, u64::saturating_add);
        let nesting = by_depth(&nodes, &order, u64::max);
        Ok(Self { steps, nesting, compiled, lists_reasons })
    }

    /// Steps per part of a value of this depth, at most.
    pub(crate) fn at(&self, depth: usize) -> u64 {
        self.steps.get(depth).or(self.steps.last()).copied().unwrap_or(u64::MAX)
    }

    /// Steps per part of any value.
    pub(crate) fn worst(&self) -> u64 {
        self.at(MAX_DEPTH)
    }

    /// Schemas that are applied one inside the other in a check of a value of this depth, at most.
    pub(crate) fn nesting(&self, depth: usize) -> u64 {
        self.nesting.get(depth).or(self.nesting.last()).copied().unwrap_or(u64::MAX)
    }
}

fn branches() -> String {
    format!("its schemas apply to one place in more than {MAX_PATHS} ways; use fewer branches or references")
}

/// Checks whether this number of compiled schemas may be kept.
pub(crate) fn check_total(compiled: u64) -> Result<(), String> {
    if compiled > MAX_COMPILED {
        return Err(format!("it would be compiled to more than {MAX_COMPILED} schemas; use fewer or simpler ones"));
    }
    Ok(())
}

/// The bound per part for values of every depth: what `join` makes of what applies to the same place, and the dearer of
/// elements and members.
fn by_depth(nodes: &[Node], order: &[usize], join: fn(u64, u64) -> u64) -> Vec<u64> {
    let sums = join(1, 1) == 2;
    let sum = |list: &[usize], costs: &[u64]| list.iter().fold(0, |total, at| join(total, get(costs, *at)));
    let groups = |groups: &[Vec<usize>], costs: &[u64]| {
        let dearest = |group: &Vec<usize>| group.iter().map(|at| get(costs, *at)).max().unwrap_or(0);
        groups.iter().fold(0, |total, group| join(total, dearest(group)))
    };
    let mut here = vec![0_u64; nodes.len()];
    for &at in order {
        let Some(node) = nodes.get(at) else { continue };
        let own = if sums { node.own } else { 1 };
        let cost = own.saturating_add(sum(&node.here, &here));
        set(&mut here, at, cost);
    }
    let mut bound = vec![get(&here, 0)];
    let mut whole = here.clone();
    while bound.len() <= MAX_DEPTH {
        let (mut elements, mut members) = (vec![0; nodes.len()], vec![0; nodes.len()]);
        let mut next = vec![0; nodes.len()];
        for &at in order {
            let Some(node) = nodes.get(at) else { continue };
            let below = join(groups(&node.elements, &whole), sum(&node.here, &elements));
            set(&mut elements, at, below);
            let below = join(groups(&node.members, &whole), sum(&node.here, &members));
            set(&mut members, at, below);
            set(&mut next, at, get(&here, at).saturating_add(get(&elements, at).max(get(&members, at))));
        }
        bound.push(get(&next, 0));
        if next == whole {
            break;
        }
        whole = next;
    }
    bound
}

/// In how many ways each schema and those below it apply to one place.
fn paths(nodes: &[Node], order: &[usize]) -> Vec<u64> {
    let mut paths = vec![0_u64; nodes.len()];
    for &at in order {
        let Some(node) = nodes.get(at) else { continue };
        let ways = node.here.iter().fold(1_u64, |total, inner| total.saturating_add(get(&paths, *inner)));
        set(&mut paths, at, ways);
    }
    paths
}

/// Adds the second look of each `unevaluated…`: for every schema a second one that does what the validator does to find
/// out what the first has evaluated, which is to check everything that applies in place, and to look for the same in
/// each of them.
fn add_trackers(nodes: &mut Vec<Node>) {
    let count = nodes.len();
    let trackers: Vec<Node> = nodes
        .iter()
        .map(|node| {
            let mut tracker = Node { inline: Vec::new(), target: None, tracks: false, ..node.clone() };
            tracker.here.extend(node.here.iter().map(|inner| inner + count));
            tracker
        })
        .collect();
    for (at, node) in nodes.iter_mut().enumerate() {
        if node.tracks {
            node.here.push(at + count);
        }
    }
    nodes.extend(trackers);
}

/// Returns the number of schemas that the validator compiles.
///
/// Each is compiled once, except for those below an `unevaluated…`: these are compiled again for every way that leads
/// to them, with all that is written inside of them.
fn compiled(nodes: &[Node]) -> Result<u64, String> {
    let once = nodes.len() as u64;
    if !nodes.iter().any(|node| node.tracks) {
        return Ok(once);
    }
    // Two costs per schema: compiling it (`at`), and the tracker of what it evaluates (`at + count`).
    let count = nodes.len();
    let needs = |at: usize| -> Vec<usize> {
        let Some(node) = nodes.get(at % count) else { return Vec::new() };
        let written = node.inline.iter().copied().chain(node.parts());
        match at < count {
            true => written.chain(node.tracks.then_some(at + count)).collect(),
            false => {
                let trackers = node.inline.iter().copied().chain(node.target).map(|inner| inner + count);
                written.chain(trackers).collect()
            }
        }
    };
    let needs: Vec<Vec<usize>> = (0..2 * count).map(needs).collect();
    let order =
        topological(&needs).map_err(|_| "its `unevaluated…` keywords apply to one another without end".to_owned())?;
    let mut cost = vec![0_u64; 2 * count];
    for at in order {
        let inner = needs.get(at).into_iter().flatten();
        let total = inner.fold(1_u64, |total, inner| total.saturating_add(get(&cost, *inner)));
        set(&mut cost, at, total);
    }
    let tracked = nodes.iter().enumerate().filter(|(_, node)| node.tracks).map(|(at, _)| get(&cost, at + count));
    Ok(tracked.fold(once, u64::saturating_add))
}

fn get(costs: &[u64], at: usize) -> u64 {
    costs.get(at).copied().unwrap_or(0)
}

fn set(costs: &mut [u64], at: usize, cost: u64) {
    if let Some(slot) = costs.get_mut(at) {
        *slot = cost;
    }
}

/// Every schema after those that it applies in place.
fn inner_first(nodes: &[Node]) -> Result<Vec<usize>, String> {
    let needs: Vec<&[usize]> = nodes.iter().map(|node| node.here.as_slice()).collect();
    let order = topological(&needs).map_err(|_| "it refers to itself without descending into the value".to_owned())?;
    let mut chain = vec![0_u64; nodes.len()];
    for &at in &order {
        let inner = needs.get(at).copied().unwrap_or_default();
        let longest = inner.iter().map(|inner| get(&chain, *inner)).max().unwrap_or(0);
        set(&mut chain, at, longest + 1);
    }
    if chain.iter().any(|length| *length > MAX_CHAIN as u64) {
        return Err(format!("more than {MAX_CHAIN} of its schemas apply to the same place one through the other"));
    }
    Ok(order)
}

/// An order in which everything comes after what it needs.
fn topological(needs: &[impl AsRef<[usize]>]) -> Result<Vec<usize>, Endless> {
    let mut waits_for: Vec<usize> = needs.iter().map(|inner| inner.as_ref().len()).collect();
    let mut wanted_by: Vec<Vec<usize>> = vec![Vec::new(); needs.len()];
    for (at, inner) in needs.iter().enumerate() {
        for inner in inner.as_ref() {
            if let Some(list) = wanted_by.get_mut(*inner) {
                list.push(at);
            }
        }
    }
    let mut order: Vec<usize> = (0..needs.len()).filter(|at| waits_for.get(*at) == Some(&0)).collect();
    let mut done = 0;
    while let Some(&at) = order.get(done) {
        done += 1;
        for &outer in wanted_by.get(at).into_iter().flatten() {
            if let Some(waits) = waits_for.get_mut(outer) {
                *waits -= 1;
                if *waits == 0 {
                    order.push(outer);
                }
            }
        }
    }
    if order.len() < needs.len() { Err(Endless) } else { Ok(order) }
}

/// Something needs itself.
struct Endless;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Map, json};

    fn cost(schema: &Value) -> Result<Cost, String> {
        Cost::of(schema, &Patterns::of(schema)?.0)
    }

    #[test]
    fn ordinary_schemas_are_cheap_at_any_depth() {
        let flat =
            json!({"type": "object", "properties": {"a": {"type": "string"}, "b": {"items": {"type": "integer"}}}});
        assert!(cost(&flat).unwrap().worst() < 20);
        let tree = json!({"$ref": "#/$defs/tree", "$defs": {"tree": {"type": "object", "properties": {
            "left": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]},
            "right": {"anyOf": [{"$ref": "#/$defs/tree"}, {"type": "null"}]}}}}});
        assert!(cost(&tree).unwrap().worst() < 2_000);
        let json = json!({"anyOf": [{"type": ["string", "null"]}, {"items": {"$ref": "#"}}, {"additionalProperties": {"$ref": "#"}}]});
        assert!(cost(&json).unwrap().worst() < 2_000);
    }

    /// `levels` definitions, each of which applies the next one twice.
    fn doubling(levels: usize) -> Map<String, Value> {
        let mut defs = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            defs.insert(format!("d{level}"), json!({"allOf": [next, next]}));
        }
        defs.insert(format!("d{levels}"), json!(true));
        defs
    }

    #[test]
    fn branching_in_place_is_counted_by_the_ways_that_lead_to_a_place() {
        let schema = |levels| json!({"$ref": "#/$defs/d0", "$defs": doubling(levels)});
        assert!((1 << 10..1 << 15).contains(&cost(&schema(10)).unwrap().worst()));
        for levels in [13, 20, 40] {
            assert!(cost(&schema(levels)).unwrap_err().contains("more than 10000 ways"), "{levels}");
        }
    }

    #[test]
    fn what_is_unevaluated_must_be_found_out_in_few_ways() {
        for keyword in ["unevaluatedProperties", "unevaluatedItems"] {
            let schema = |levels| json!({"$ref": "#/$defs/d0", keyword: false, "$defs": doubling(levels)});
            assert!(cost(&schema(4)).is_ok());
            for levels in [8, 12, 20, 40] {
                assert!(cost(&schema(levels)).unwrap_err().contains("`unevaluated…`"), "{levels}");
            }
        }
        let ordinary = json!({"allOf": [{"$ref": "#/$defs/base"}], "properties": {"b": true}, "unevaluatedProperties": false,
            "$defs": {"base": {"properties": {"a": {"type": "string"}}}}});
        assert!(cost(&ordinary).unwrap().compiled < 50);
    }

    #[test]
    fn unevaluated_inside_of_unevaluated_is_counted_as_often_as_it_is_compiled() {
        let mut schema = json!({"unevaluatedProperties": false});
        for _ in 0..30 {
            schema = json!({"unevaluatedProperties": false, "anyOf": [{"properties": {"x": schema}}]});
        }
        assert!(cost(&schema).unwrap_err().contains("more than 100000 schemas"));
    }

    #[test]
    fn unevaluated_through_references_into_parts_is_counted() {
        // Every level is small; each is compiled for every way that leads through the level above.
        let mut defs = Map::new();
        for level in 0..12 {
            let next = json!({"$ref": format!("#/$defs/d{}", level + 1)});
            let inner = json!({"additionalProperties": {"unevaluatedProperties": false, "allOf": [next, next, next]}});
            defs.insert(format!("d{level}"), json!({"allOf": [inner, inner]}));
        }
        defs.insert("d12".to_owned(), json!(true));
        let schema = json!({"unevaluatedProperties": false, "$ref": "#/$defs/d0", "$defs": defs});
        assert!(cost(&schema).unwrap_err().contains("more than 100000 schemas"));
    }

    #[test]
    fn names_that_depend_on_others_are_looked_up_in_every_object() {
        let names: Map<String, Value> = (0..20_000).map(|at| (format!("n{at}"), json!([]))).collect();
        for keyword in ["dependentRequired", "dependencies"] {
            assert!(cost(&json!({"items": {keyword: names}})).unwrap().at(2) >= 20_000, "{keyword}");
        }
    }

    #[test]
    fn dividing_by_a_fraction_is_dear_and_comparing_elements_is_counted_at_every_depth() {
        assert!(cost(&json!({"items": {"multipleOf": 0.01}})).unwrap().at(1) >= 2_000);
        assert!(cost(&json!({"items": {"multipleOf": 5}})).unwrap().at(1) < 200);
        let unique = cost(&json!({"uniqueItems": true})).unwrap();
        assert!(unique.at(1) < 20 && unique.at(50) > 300, "{unique:?}");
    }

    #[test]
    fn how_deep_a_check_recurses_is_known() {
        let flat = json!({"properties": {"a": {"items": {"type": "string"}}}});
        assert!(cost(&flat).unwrap().nesting(100) <= 3);
        let tree = json!({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}}]});
        let tree = cost(&tree).unwrap();
        assert!(tree.nesting(2) < 10 && tree.nesting(100) > 200, "{tree:?}");
    }

    #[test]
    fn recursion_through_the_same_part_twice_doubles_with_every_level_of_the_value() {
        let schema = json!({"allOf": [{"properties": {"a": {"$ref": "#"}}}, {"additionalProperties": {"$ref": "#"}}]});
        let cost = cost(&schema).unwrap();
        assert!(cost.at(3) < 200 && cost.at(60) > 1 << 60);
    }

    #[test]
    fn a_schema_that_refers_to_itself_in_place_is_refused() {
        for schema in [
            json!({"$ref": "#"}),
            json!({"anyOf": [{"type": "string"}, {"$ref": "#"}]}),
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}),
        ] {
            assert!(cost(&schema).unwrap_err().contains("refers to itself"), "{schema}");
        }
    }

    #[test]
    fn a_long_chain_in_place_is_refused() {
        let mut defs = Map::new();
        for level in 0..5_000 {
            defs.insert(format!("d{level}"), json!({"$ref": format!("#/$defs/d{}", level + 1)}));
        }
        defs.insert("d5000".to_owned(), json!(true));
        assert!(cost(&json!({"$ref": "#/$defs/d0", "$defs": defs})).unwrap_err().contains("one through the other"));
    }

    #[test]
    fn references_stay_within_the_schema() {
        for reference in ["https://example.com/s", "other.json", "#anchor", "#/$defs/none", "#/%24defs/a"] {
            assert!(cost(&json!({"$ref": reference})).is_err(), "{reference}");
        }
        assert!(cost(&json!({"$dynamicRef": "#x"})).is_err());
    }
}
