//! Schemas of other dialects, read once and written down as draft 2020-12 with references into `#/$defs` only.
//!
//! Servers, generators and people write draft 4, 6, 7, 2019-09, 2020-12 and the form of OpenAPI 3.0. Their differences
//! end here, so that everything after it (weights, the validator, the plain checks) knows one language. `$schema` says
//! which draft it is, for the document and for each resource with an `$id` in it; without one it is 2020-12, and a
//! keyword in a form that only another draft has (`items: [...]`, `exclusiveMinimum: true`, `nullable`) means what it
//! means there.
//!
//! References are followed within the document (`$id`, `$anchor`, pointers, percent-encoded or not) and into the
//! published meta-schemas; nothing is ever fetched. `$dynamicRef` and `$recursiveRef` depend on the way that leads to
//! them: a schema is written down once for each set of their targets, and these sets are counted.

mod draft;
mod index;
mod lenient;
mod meta;
mod write;

use draft::Draft;
use serde_json::{Map, Value};
use std::borrow::Cow;
use write::Writer;

/// Levels of values in one another; parsers allow no more.
const MAX_DEPTH: usize = 128;

/// Warnings about one schema that are kept.
const MAX_WARNINGS: usize = 5;

/// The judge of last resort of what a schema says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reading {
    /// This host alone checks values: what cannot be checked is an error.
    Strict,
    /// The owner of the schema checks values as well: what cannot be checked here is left to it, with a warning.
    Lenient,
}

/// A schema as draft 2020-12.
#[derive(Debug)]
pub(crate) struct Translated<'a> {
    pub(crate) schema: Cow<'a, Value>,
    /// Keywords that are not checked, each with the reason.
    pub(crate) warnings: Vec<String>,
}

/// Reads a schema of any dialect.
///
/// # Errors
/// When a reference leads nowhere or outside, or the schema takes too many forms.
pub(crate) fn read(schema: &Value, reading: Reading) -> Result<Translated<'_>, String> {
    if reading == Reading::Strict && !is_foreign(schema) {
        return Ok(Translated { schema: Cow::Borrowed(schema), warnings: Vec::new() });
    }
    let mut writer = Writer::new(schema, reading)?;
    let written = writer.write()?;
    Ok(Translated { schema: Cow::Owned(written), warnings: writer.warnings(MAX_WARNINGS) })
}

/// Returns `true` if anything in a schema is not of draft 2020-12 with plain pointers, or merely looks like it, for
/// example where a member is named `$id`.
fn is_foreign(schema: &Value) -> bool {
    let mut left = vec![schema];
    let mut is_root = true;
    while let Some(value) = left.pop() {
        match value {
            Value::Array(list) => left.extend(list),
            Value::Object(map) => {
                if map.iter().any(|(keyword, value)| marks_foreign(keyword, value, map, is_root)) {
                    return true;
                }
                left.extend(map.values());
            }
            _ => {}
        }
        is_root = false;
    }
    false
}

fn marks_foreign(keyword: &str, value: &Value, map: &Map<String, Value>, is_root: bool) -> bool {
    match keyword {
        "$schema" => value.as_str().is_none_or(|uri| Draft::named(uri) != Some(Draft::Draft2020)),
        "$id" => !is_root,
        "$anchor" | "$dynamicAnchor" | "$recursiveAnchor" | "$dynamicRef" | "$recursiveRef" => true,
        "$ref" => value.as_str().is_some_and(|uri| {
            !uri.strip_prefix('#').is_some_and(|pointer| pointer.is_empty() || pointer.starts_with('/'))
                || uri.contains('%')
        }),
        "items" => value.is_array(),
        // What generators write for tuples of nothing.
        "prefixItems" | "allOf" => value.as_array().is_some_and(Vec::is_empty),
        "exclusiveMinimum" | "exclusiveMaximum" => value.is_boolean(),
        "nullable" => value == &Value::Bool(true) && !map.contains_key("$schema"),
        _ => false,
    }
}

#[cfg(test)]
mod tests;
