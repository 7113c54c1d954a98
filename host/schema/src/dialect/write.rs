//! Writing a document down as draft 2020-12: each schema once for every scope that it is reached in, what references
//! lead to under `$defs`.

use super::draft::{Draft, Holds, holds};
use super::index::{Found, Index, Unresolved};
use super::{MAX_DEPTH, Reading, lenient};
use crate::{cost::MAX_COMPILED, patterns::Patterns};
use opcell_types::text::one_line;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, HashMap, HashSet};

/// The place of the document itself in the list of schemas.
const ROOT: usize = 0;

/// Sets of targets that dynamic references may have in one document.
const MAX_SCOPES: usize = 64;

/// Names of dynamic anchors that references of one document use.
const MAX_DYNAMIC_NAMES: usize = 16;

/// Times that a document is written until what is left out changes nothing more.
const MAX_PASSES: usize = 16;

/// Patterns of one document that cannot be matched: each took some work to find out.
const MAX_UNMATCHED: usize = 64;

/// The name of `$recursiveAnchor` among those of dynamic anchors, which are never empty.
const RECURSIVE: &str = "";

/// Longest name or pattern in a warning.
const SHOWN_BYTES: usize = 120;

/// Keywords that check values, and hold no schemas.
const ASSERTIONS: &[&str] = &[
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "minimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "minContains",
    "maxContains",
    "dependentRequired",
    "required",
    // Where they have a form that is written as it is, for the meta-schema to refuse.
    "exclusiveMaximum",
    "exclusiveMinimum",
    "$ref",
    "$dynamicRef",
];

/// A schema in a scope: the same text means something else where dynamic references lead elsewhere.
type Key = (usize, usize);

/// The target of a reference: a schema, or the dynamic anchor of a name and the schema that has it by default.
#[derive(Debug, Clone)]
struct Target<'a> {
    schema: usize,
    dynamic: Option<&'a str>,
}

/// The targets of dynamic references, by name.
type Scope<'a> = BTreeMap<&'a str, usize>;

pub(super) struct Writer<'a> {
    reading: Reading,
    index: Index<'a>,
    targets: HashMap<(usize, &'static str), Result<Target<'a>, Unresolved>>,
    /// Schemas that references lead to.
    referenced: HashSet<usize>,
    /// Names of dynamic anchors that references use.
    names: HashSet<&'a str>,
    scopes: Vec<Scope<'a>>,
    /// Names under `$defs`; the root has none.
    definitions: HashMap<Key, usize>,
    waiting: Vec<Key>,
    written: u64,
    /// Schemas that let more through than their authors meant, and those that hold them.
    wider: HashSet<Key>,
    holders: HashMap<Key, Vec<Key>>,
    /// Those of them whose `patternProperties` lacks a pattern.
    lacking: HashSet<Key>,
    root: Key,
    /// The patterns that are matched, for a lenient reading.
    patterns: Patterns<'a>,
    states: u64,
    /// The patterns that are not, with the reason.
    unmatched: HashMap<&'a str, String>,
    warnings: Vec<String>,
    /// Those of them that were there before anything was written.
    first_warnings: usize,
}

impl<'a> Writer<'a> {
    /// Finds all schemas of a document and what their references lead to.
    pub(super) fn new(root: &'a Value, reading: Reading) -> Result<Self, String> {
        let mut warnings = Vec::new();
        let draft = match root.get("$schema") {
            None => Draft::Undeclared,
            Some(named) => match named.as_str().and_then(Draft::named) {
                Some(draft) => draft,
                None => {
                    let shown = one_line(&named.to_string(), SHOWN_BYTES);
                    if reading == Reading::Strict {
                        return Err(format!(
                            "`$schema` names {shown}, which is not known here; name draft-04, -06, -07, 2019-09, 2020-12 or OpenAPI 3.0, or leave it out for 2020-12"
                        ));
                    }
                    warnings.push(format!("`$schema` names {shown}, which is not known here: it is read as 2020-12"));
                    Draft::Undeclared
                }
            },
        };
        let index = Index::new(root, draft)?;
        let mut writer = Self {
            reading,
            index,
            targets: HashMap::new(),
            referenced: HashSet::new(),
            names: HashSet::new(),
            scopes: vec![Scope::new()],
            definitions: HashMap::new(),
            waiting: Vec::new(),
            written: 0,
            wider: HashSet::new(),
            holders: HashMap::new(),
            lacking: HashSet::new(),
            root: (0, 0),
            patterns: Patterns::default(),
            states: 0,
            unmatched: HashMap::new(),
            first_warnings: warnings.len(),
            warnings,
        };
        writer.follow()?;
        Ok(writer)
    }

    /// Resolves every reference. The list of schemas grows by what references lead to.
    fn follow(&mut self) -> Result<(), String> {
        let mut at = 0;
        while let Some(Found { value, resource }) = self.index.found.get(at).copied() {
            if at as u64 > MAX_COMPILED {
                return Err(too_many());
            }
            for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
                let Some(reference) = value.get(keyword).and_then(Value::as_str) else { continue };
                if !self.index.draft(at).knows(keyword) {
                    continue;
                }
                let mut target = self
                    .index
                    .resolve(reference, resource)?
                    .map(|(schema, dynamic)| Target { schema, dynamic: dynamic.filter(|_| keyword == "$dynamicRef") });
                if let Ok(target) = &mut target {
                    if keyword == "$recursiveRef" && self.recursive(target.schema) {
                        target.dynamic = Some(RECURSIVE);
                    }
                    self.referenced.insert(target.schema);
                    self.names.extend(target.dynamic);
                }
                self.targets.insert((at, keyword), target);
            }
            at += 1;
        }
        if self.names.len() > MAX_DYNAMIC_NAMES {
            return Err(format!("its dynamic references use more than {MAX_DYNAMIC_NAMES} names of anchors"));
        }
        for resource in &self.index.resources {
            let named = resource.dynamic.iter().filter(|(name, _)| self.names.contains(*name)).map(|(_, id)| *id);
            self.referenced.extend(named);
            self.referenced.extend(resource.recursive.filter(|_| self.names.contains(RECURSIVE)));
        }
        Ok(())
    }

    fn recursive(&self, schema: usize) -> bool {
        let resource = self.index.found.get(schema).and_then(|found| self.index.resources.get(found.resource));
        resource.is_some_and(|resource| resource.recursive == Some(schema))
    }

    /// The document as draft 2020-12.
    ///
    /// A keyword that is left out lets more values through, which must refuse none elsewhere, as below a `not`: it is
    /// written again until nothing more is left out.
    pub(super) fn write(&mut self) -> Result<Value, String> {
        for _ in 0..MAX_PASSES {
            let before = self.wider.len();
            let written = self.pass()?;
            self.spread();
            if self.wider.len() == before {
                return Ok(written);
            }
        }
        Err("too much of it depends on keywords that cannot be checked".to_owned())
    }

    fn pass(&mut self) -> Result<Value, String> {
        (self.definitions, self.waiting, self.written, self.states) = (HashMap::new(), Vec::new(), 0, 0);
        self.warnings.truncate(self.first_warnings);
        self.root = (0, self.scope(0, 0)?);
        let mut written = self.schema(self.root, 0)?;
        let mut definitions = Map::new();
        let mut at = 0;
        while let Some(key) = self.waiting.get(at).copied() {
            definitions.insert(at.to_string(), self.schema(key, 0)?);
            at += 1;
        }
        if !definitions.is_empty()
            && let Some(root) = written.as_object_mut()
        {
            root.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(written)
    }

    /// The keywords that are not checked; of many, the first.
    pub(super) fn warnings(mut self, most: usize) -> Vec<String> {
        let mut seen = HashSet::new();
        self.warnings.retain(|warning| seen.insert(warning.clone()));
        let more = self.warnings.len().saturating_sub(most);
        self.warnings.truncate(most);
        if more > 0 {
            self.warnings.push(format!("and {more} more keywords are not checked"));
        }
        self.warnings
    }

    /// Marks the holders of schemas that let more through: they do so as well.
    fn spread(&mut self) {
        let mut left: Vec<Key> = self.wider.iter().copied().collect();
        while let Some(key) = left.pop() {
            for holder in self.holders.get(&key).into_iter().flatten() {
                if self.wider.insert(*holder) {
                    left.push(*holder);
                }
            }
        }
    }

    /// The scope of a schema that is reached in another: the resource it belongs to adds its anchors, and those of
    /// outer ones count first.
    fn scope(&mut self, schema: usize, outer: usize) -> Result<usize, String> {
        let (Some(found), Some(around)) = (self.index.found.get(schema), self.scopes.get(outer)) else {
            return Ok(outer);
        };
        let Some(resource) = self.index.resources.get(found.resource) else { return Ok(outer) };
        if self.names.is_empty() {
            return Ok(outer);
        }
        let mut scope = around.clone();
        for name in &self.names {
            let own = match *name {
                RECURSIVE => resource.recursive,
                name => resource.dynamic.get(name).copied(),
            };
            if let Some(own) = own {
                scope.entry(name).or_insert(own);
            }
        }
        if let Some(known) = self.scopes.iter().position(|known| *known == scope) {
            return Ok(known);
        }
        if self.scopes.len() >= MAX_SCOPES {
            return Err(format!("its dynamic references have more than {MAX_SCOPES} sets of targets; use `$ref`"));
        }
        self.scopes.push(scope);
        Ok(self.scopes.len() - 1)
    }

    /// A reference to a schema in a scope.
    fn reference(&mut self, key: Key, holder: Key) -> Value {
        self.holders.entry(key).or_default().push(holder);
        if key == self.root {
            return json!({"$ref": "#"});
        }
        let next = self.waiting.len();
        let at = *self.definitions.entry(key).or_insert(next);
        if at == next {
            self.waiting.push(key);
        }
        json!({"$ref": format!("#/$defs/{at}")})
    }

    /// A schema in its place within another one.
    fn inner(&mut self, schema: &Value, holder: Key, depth: usize) -> Result<Value, String> {
        let Some(id) = self.index.id(schema) else { return Ok(schema.clone()) };
        let key = (id, self.scope(id, holder.1)?);
        if self.referenced.contains(&id) {
            return Ok(self.reference(key, holder));
        }
        self.holders.entry(key).or_default().push(holder);
        self.schema(key, depth)
    }

    /// A schema. Those in it are written by recursion, as deep as documents nest.
    fn schema(&mut self, key: Key, depth: usize) -> Result<Value, String> {
        self.written += 1;
        if self.written > MAX_COMPILED {
            return Err(too_many());
        }
        if depth > MAX_DEPTH {
            return Err(format!("it is nested more than {MAX_DEPTH} deep"));
        }
        let Some(Found { value, .. }) = self.index.found.get(key.0).copied() else { return Ok(Value::Bool(true)) };
        let Value::Object(map) = value else { return Ok(value.clone()) };
        let draft = self.index.draft(key.0);
        let mut out = Map::new();
        let alone = draft.ref_stands_alone() && map.contains_key("$ref");
        for (keyword, value) in map {
            if !draft.knows(keyword) || (alone && keyword != "$ref") || self.is_odd(key, keyword, value) {
                continue;
            }
            self.keyword(key, (keyword, value), map, &mut out, depth)?;
        }
        if draft.knows("nullable") && map.get("nullable") == Some(&Value::Bool(true)) && !alone {
            return Ok(json!({"anyOf": [{"type": "null"}, out]}));
        }
        Ok(Value::Object(out))
    }

    fn keyword(
        &mut self,
        key: Key,
        (keyword, value): (&'a str, &'a Value),
        map: &'a Map<String, Value>,
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let depth = depth + 1;
        match (keyword, value) {
            ("$ref" | "$dynamicRef" | "$recursiveRef", Value::String(_)) => return self.refer(key, keyword, out),
            ("items", Value::Array(list)) => {
                let first: Vec<Value> =
                    list.iter().map(|schema| self.inner(schema, key, depth)).collect::<Result<_, _>>()?;
                if !first.is_empty() {
                    put(out, "prefixItems", Value::Array(first));
                }
                if let Some(others) = map.get("additionalItems")
                    && !self.is_odd(key, "additionalItems", others)
                {
                    let others = self.inner(others, key, depth)?;
                    put(out, "items", others);
                }
            }
            ("prefixItems" | "allOf", Value::Array(list)) if list.is_empty() => {}
            // Says nothing beside an `items` that is no list.
            ("additionalItems" | "definitions" | "$defs" | "contentSchema", _) => {}
            ("exclusiveMinimum" | "exclusiveMaximum", Value::Bool(exclusive)) => {
                let inclusive = if keyword == "exclusiveMinimum" { "minimum" } else { "maximum" };
                if let (true, Some(limit)) = (*exclusive, map.get(inclusive)) {
                    out.insert(keyword.to_owned(), limit.clone());
                }
            }
            ("exclusiveMinimum" | "exclusiveMaximum", _) => drop(out.insert(keyword.to_owned(), value.clone())),
            ("required", Value::Array(names)) => {
                // Generators repeat names.
                let mut seen = HashSet::new();
                let names: Vec<Value> =
                    names.iter().filter(|name| name.as_str().is_none_or(|name| seen.insert(name))).cloned().collect();
                out.insert(keyword.to_owned(), Value::Array(names));
            }
            ("pattern", Value::String(pattern)) if self.reading == Reading::Lenient => {
                if self.matches(key, pattern)? {
                    put(out, keyword, value.clone());
                }
            }
            ("unevaluatedItems" | "unevaluatedProperties", _) if !self.wider.is_empty() => {
                // They look at all that applies here, near and far.
                self.let_go(key, keyword);
            }
            ("not" | "if", schema) if self.is_wider(schema, key)? => self.let_go(key, keyword),
            ("then" | "else", _) if self.is_wider_at("if", map, key)? => self.let_go(key, keyword),
            ("maxContains", _) if self.is_wider_at("contains", map, key)? => self.let_go(key, keyword),
            ("oneOf", Value::Array(list)) if self.is_any_wider(list, key)? => {
                // That at least one of them fits is all that is known.
                let any = list.iter().map(|schema| self.inner(schema, key, depth)).collect::<Result<Vec<_>, _>>()?;
                also(out, json!({"anyOf": any}));
            }
            ("patternProperties", Value::Object(schemas)) if self.reading == Reading::Lenient => {
                let mut matched = Map::new();
                for (pattern, schema) in schemas {
                    if self.matches(key, pattern)? {
                        matched.insert(pattern.clone(), self.inner(schema, key, depth)?);
                    } else {
                        self.lacking.insert(key);
                    }
                }
                put(out, keyword, Value::Object(matched));
            }
            ("additionalProperties", _) if self.lacking.contains(&key) => self.let_go(key, keyword),
            _ => self.plain(key, (keyword, value), out, depth)?,
        }
        Ok(())
    }

    /// A keyword that means the same in all drafts.
    fn plain(
        &mut self,
        key: Key,
        (keyword, value): (&str, &'a Value),
        out: &mut Map<String, Value>,
        depth: usize,
    ) -> Result<(), String> {
        let written = match (holds(self.index.draft(key.0), keyword), value) {
            (Holds::One, schema) => self.inner(schema, key, depth)?,
            (Holds::List, Value::Array(list)) => {
                Value::Array(list.iter().map(|schema| self.inner(schema, key, depth)).collect::<Result<_, _>>()?)
            }
            (Holds::Map, Value::Object(schemas)) => {
                let inner = schemas.iter().map(|(name, schema)| Ok((name.clone(), self.inner(schema, key, depth)?)));
                Value::Object(inner.collect::<Result<_, String>>()?)
            }
            (Holds::Other, _) if !ASSERTIONS.contains(&keyword) => return Ok(()),
            // What has the wrong form is left to the meta-schema.
            _ => value.clone(),
        };
        put(out, keyword, written);
        Ok(())
    }

    fn refer(&mut self, key: Key, keyword: &str, out: &mut Map<String, Value>) -> Result<(), String> {
        let known = ["$ref", "$dynamicRef", "$recursiveRef"].into_iter().find(|known| *known == keyword);
        let target = known.and_then(|keyword| self.targets.get(&(key.0, keyword))).cloned();
        let target = match target {
            None => return Ok(()),
            Some(Ok(target)) => target,
            // The schema is elsewhere, and its owner checks against it. A schema that is only such a reference is refused.
            Some(Err(unresolved))
                if self.reading == Reading::Lenient
                    && (matches!(unresolved, Unresolved::Missing(_)) || key.0 != ROOT) =>
            {
                self.let_through(key, unresolved.text());
                return Ok(());
            }
            Some(Err(unresolved)) => return Err(unresolved.text()),
        };
        let bound = target.dynamic.and_then(|name| self.scopes.get(key.1)?.get(name)).copied();
        let schema = bound.unwrap_or(target.schema);
        let scope = self.scope(schema, key.1)?;
        let written = self.reference((schema, scope), key);
        match written.get("$ref") {
            Some(pointer) if !out.contains_key("$ref") => drop(out.insert("$ref".to_owned(), pointer.clone())),
            _ => also(out, written),
        }
        Ok(())
    }

    /// Returns `true` for a keyword of a form that says nothing, and notes it.
    fn is_odd(&mut self, key: Key, keyword: &str, value: &Value) -> bool {
        if self.reading == Reading::Strict {
            return false;
        }
        let Some(expected) = lenient::expected(keyword, value) else { return false };
        let shown = one_line(&value.to_string(), SHOWN_BYTES);
        self.let_through(key, format!("`{keyword}` is not checked here: it is {shown}, expected {expected}"));
        true
    }

    /// Returns `true` for a pattern that is matched here.
    fn matches(&mut self, key: Key, pattern: &'a str) -> Result<bool, String> {
        if !self.unmatched.contains_key(pattern) {
            match self.patterns.weigh(pattern) {
                Ok(states) => {
                    self.states = self.states.saturating_add(states);
                    match crate::patterns::check_total(self.states) {
                        Ok(()) => return Ok(true),
                        Err(why) => drop(self.unmatched.insert(pattern, why)),
                    }
                }
                Err(why) => drop(self.unmatched.insert(pattern, why)),
            }
        }
        if self.unmatched.len() > MAX_UNMATCHED {
            return Err(format!("more than {MAX_UNMATCHED} of its patterns cannot be matched here"));
        }
        let why = self.unmatched.get(pattern).cloned().unwrap_or_default();
        self.let_through(key, format!("not checked here: {why}"));
        Ok(false)
    }

    fn let_through(&mut self, key: Key, warning: String) {
        self.wider.insert(key);
        self.warnings.push(warning);
    }

    /// Leaves out a keyword that refuses what is let through elsewhere.
    fn let_go(&mut self, key: Key, keyword: &str) {
        self.let_through(key, format!("`{keyword}` is not checked here: it depends on what is not checked"));
    }

    /// Returns `true` for a schema in another that lets more through than its author meant.
    fn is_wider(&mut self, schema: &Value, holder: Key) -> Result<bool, String> {
        if self.wider.is_empty() {
            return Ok(false);
        }
        let Some(id) = self.index.id(schema) else { return Ok(false) };
        let key = (id, self.scope(id, holder.1)?);
        Ok(self.wider.contains(&key))
    }

    fn is_wider_at(&mut self, keyword: &str, map: &Map<String, Value>, holder: Key) -> Result<bool, String> {
        map.get(keyword).map_or(Ok(false), |schema| self.is_wider(schema, holder))
    }

    fn is_any_wider(&mut self, list: &[Value], holder: Key) -> Result<bool, String> {
        for schema in list {
            if self.is_wider(schema, holder)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Writes a keyword; where another keyword is written as the same one, both must fit.
fn put(out: &mut Map<String, Value>, keyword: &str, value: Value) {
    if let Some(already) = out.insert(keyword.to_owned(), value) {
        also(out, json!({keyword: already}));
    }
}

/// Adds a schema that must fit as well.
fn also(out: &mut Map<String, Value>, schema: Value) {
    match out.entry("allOf").or_insert_with(|| json!([])) {
        Value::Array(list) => list.push(schema),
        other => *other = json!([schema]),
    }
}

fn too_many() -> String {
    format!("it would be compiled to more than {MAX_COMPILED} schemas; use fewer or simpler ones")
}
