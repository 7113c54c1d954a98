//! Every schema of a document with the resource that it belongs to, and the addresses by which they can be found.

use super::draft::{Draft, schemas_of};
use super::meta;
use opcell_types::text::printable;
use serde_json::{Map, Value};
use std::collections::HashMap;
use url::Url;

/// The address of a document that has none.
const BASE: &str = "json-schema:///";

/// Longest address that is shown.
const SHOWN_BYTES: usize = 200;

/// A schema with an address of its own, and what is found within it.
#[derive(Debug)]
pub(super) struct Resource<'a> {
    base: Url,
    root: &'a Value,
    pub(super) draft: Draft,
    /// By `$anchor`, and by an `$id` that is only a fragment.
    anchors: HashMap<&'a str, usize>,
    /// By `$dynamicAnchor`.
    pub(super) dynamic: HashMap<&'a str, usize>,
    /// The root, where it has `$recursiveAnchor: true`.
    pub(super) recursive: Option<usize>,
}

/// A schema, by its place in the list of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found<'a> {
    pub(super) value: &'a Value,
    pub(super) resource: usize,
}

/// Why a reference is not followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unresolved {
    /// It leads out of the document.
    Outside(String),
    /// There is nothing where it leads.
    Missing(String),
}

impl Unresolved {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Outside(reference) => format!(
                "`{reference}` points outside the schema, and nothing is fetched; put what it names into the schema, and refer to it with `#/$defs/…`"
            ),
            Self::Missing(reference) => format!("`{reference}` does not resolve"),
        }
    }
}

/// All schemas and resources of one document, and of the meta-schemas that it refers to.
#[derive(Debug)]
pub(super) struct Index<'a> {
    pub(super) resources: Vec<Resource<'a>>,
    pub(super) found: Vec<Found<'a>>,
    ids: HashMap<*const Value, usize>,
    by_address: HashMap<String, usize>,
}

impl<'a> Index<'a> {
    /// Finds the schemas of a document, the root first.
    ///
    /// # Errors
    /// When two different schemas have one address.
    pub(super) fn new(root: &'a Value, draft: Draft) -> Result<Self, String> {
        let mut index =
            Self { resources: Vec::new(), found: Vec::new(), ids: HashMap::new(), by_address: HashMap::new() };
        let base = Url::parse(BASE).map_err(|error| error.to_string())?;
        let resource = index.add(base, root, draft)?;
        index.walk(root, resource)?;
        Ok(index)
    }

    /// The place of a schema in the list.
    pub(super) fn id(&self, schema: &Value) -> Option<usize> {
        self.ids.get(&std::ptr::from_ref(schema)).copied()
    }

    /// The draft that a schema is written in.
    pub(super) fn draft(&self, schema: usize) -> Draft {
        let resource = self.found.get(schema).and_then(|found| self.resources.get(found.resource));
        resource.map_or(Draft::Undeclared, |resource| resource.draft)
    }

    fn add(&mut self, base: Url, root: &'a Value, draft: Draft) -> Result<usize, String> {
        let address = base.as_str().trim_end_matches('#').to_owned();
        if let Some(known) = self.by_address.get(&address) {
            // Generators write a type as often as it is used.
            return match self.resources.get(*known) {
                Some(first) if first.root == root => Ok(*known),
                _ => Err(format!("two different schemas have the address `{}`", printable(&address, SHOWN_BYTES))),
            };
        }
        let (anchors, dynamic) = (HashMap::new(), HashMap::new());
        self.resources.push(Resource { base, root, draft, anchors, dynamic, recursive: None });
        self.by_address.insert(address, self.resources.len() - 1);
        Ok(self.resources.len() - 1)
    }

    /// Finds a schema and all that are in it, without recursion.
    fn walk(&mut self, start: &'a Value, resource: usize) -> Result<(), String> {
        let mut left = vec![(start, resource)];
        while let Some((schema, outer)) = left.pop() {
            let place = std::ptr::from_ref(schema);
            if self.ids.contains_key(&place) {
                continue;
            }
            let id = self.found.len();
            self.ids.insert(place, id);
            let mut resource = outer;
            if let Value::Object(map) = schema {
                resource = self.enter(map, schema, id, outer)?;
                let draft = self.resources.get(resource).map_or(Draft::Undeclared, |resource| resource.draft);
                for (keyword, value) in map {
                    left.extend(schemas_of(draft, keyword, value).into_iter().map(|inner| (inner, resource)));
                }
            }
            self.found.push(Found { value: schema, resource });
        }
        Ok(())
    }

    /// Notes the addresses that a schema gives itself; returns the resource that it belongs to.
    fn enter(
        &mut self,
        map: &'a Map<String, Value>,
        schema: &'a Value,
        id: usize,
        outer: usize,
    ) -> Result<usize, String> {
        let Some(around) = self.resources.get(outer) else { return Ok(outer) };
        let declared = map.get("$schema").and_then(Value::as_str).and_then(Draft::named);
        let mut draft = around.draft;
        let mut resource = outer;
        // A resource within a document may be of another draft; a `$schema` elsewhere says nothing.
        let keyword = declared.unwrap_or(draft).id();
        let own = keyword.and_then(|keyword| map.get(keyword)).and_then(Value::as_str);
        let counts = !(declared.unwrap_or(draft).ref_stands_alone() && map.contains_key("$ref"));
        if let Some(own) = own.filter(|_| counts) {
            let (address, fragment) = own.split_once('#').unwrap_or((own, ""));
            if !address.is_empty() {
                draft = declared.unwrap_or(draft);
                let base = around
                    .base
                    .join(address)
                    .map_err(|error| format!("`$id` is not an address: `{}` ({error})", printable(own, SHOWN_BYTES)))?;
                if base != around.base {
                    resource = self.add(base, schema, draft)?;
                }
            }
            if !fragment.is_empty() && !fragment.starts_with('/') {
                self.anchor(resource, fragment, id);
            }
        }
        if draft.knows("$anchor")
            && let Some(name) = map.get("$anchor").and_then(Value::as_str)
        {
            self.anchor(resource, name, id);
        }
        if let Some(resource) = self.resources.get_mut(resource) {
            if draft.knows("$dynamicAnchor")
                && let Some(name) = map.get("$dynamicAnchor").and_then(Value::as_str)
            {
                resource.dynamic.entry(name).or_insert(id);
            }
            if draft.knows("$recursiveAnchor")
                && map.get("$recursiveAnchor") == Some(&Value::Bool(true))
                && std::ptr::eq(resource.root, schema)
            {
                resource.recursive = Some(id);
            }
        }
        Ok(resource)
    }

    fn anchor(&mut self, resource: usize, name: &'a str, id: usize) {
        if let Some(resource) = self.resources.get_mut(resource) {
            resource.anchors.entry(name).or_insert(id);
        }
    }

    /// Follows a reference from within a resource; the second is the name of the dynamic anchor that it leads to.
    pub(super) fn resolve(
        &mut self,
        reference: &str,
        from: usize,
    ) -> Result<Result<(usize, Option<&'a str>), Unresolved>, String> {
        let shown = || printable(reference, SHOWN_BYTES);
        let (address, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let resource = if address.is_empty() {
            from
        } else {
            let base = self.resources.get(from).map(|resource| &resource.base);
            let Some(Ok(address)) = base.map(|base| base.join(address)) else {
                return Ok(Err(Unresolved::Outside(shown())));
            };
            match self.resource(address.as_str())? {
                Some(resource) => resource,
                None => return Ok(Err(Unresolved::Outside(shown()))),
            }
        };
        let Some(target) = self.resources.get(resource) else { return Ok(Err(Unresolved::Missing(shown()))) };
        let Some(fragment) = decoded(fragment) else { return Ok(Err(Unresolved::Missing(shown()))) };
        if !fragment.is_empty() && !fragment.starts_with('/') {
            let dynamic = target.dynamic.get_key_value(fragment.as_str());
            return Ok(match (dynamic, target.anchors.get(fragment.as_str())) {
                (Some((name, id)), _) => Ok((*id, Some(*name))),
                (None, Some(id)) => Ok((*id, None)),
                (None, None) => Err(Unresolved::Missing(shown())),
            });
        }
        let Some((schema, resource)) = self.at_pointer(resource, &fragment) else {
            return Ok(Err(Unresolved::Missing(shown())));
        };
        // A place that no keyword makes a schema becomes one by the reference.
        self.walk(schema, resource)?;
        Ok(self.id(schema).map(|id| (id, None)).ok_or_else(|| Unresolved::Missing(shown())))
    }

    /// The resource of an address; those of meta-schemas are added when they are first asked for.
    fn resource(&mut self, address: &str) -> Result<Option<usize>, String> {
        if let Some(known) = self.by_address.get(address) {
            return Ok(Some(*known));
        }
        for document in meta::documents(address) {
            let named = document.get("$schema").and_then(Value::as_str).and_then(Draft::named);
            let draft = named.unwrap_or(Draft::Draft2020);
            let own = draft.id().and_then(|keyword| document.get(keyword)).and_then(Value::as_str).unwrap_or_default();
            let base = Url::parse(own.trim_end_matches('#')).map_err(|error| error.to_string())?;
            if !self.by_address.contains_key(base.as_str()) {
                let resource = self.add(base, document, draft)?;
                self.walk(document, resource)?;
            }
        }
        Ok(self.by_address.get(address).copied())
    }

    /// A part of a resource, and the resource that the part belongs to.
    fn at_pointer(&self, resource: usize, pointer: &str) -> Option<(&'a Value, usize)> {
        let mut value = self.resources.get(resource)?.root;
        let mut within = resource;
        for token in pointer.split('/').skip(1) {
            let token = token.replace("~1", "/").replace("~0", "~");
            value = match value {
                Value::Object(map) => map.get(&token)?,
                Value::Array(list) => list.get(token.parse::<usize>().ok()?)?,
                _ => return None,
            };
            if let Some(found) = self.id(value).and_then(|id| self.found.get(id)) {
                within = found.resource;
            }
        }
        Some((value, within))
    }
}

/// A fragment without percent-encoding; `None` where it is no text.
fn decoded(fragment: &str) -> Option<String> {
    percent_encoding::percent_decode_str(fragment).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}
