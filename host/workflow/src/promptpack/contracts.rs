//! The schemas that a pack's compositions name (RFC 0010: "path or fragment reference"): what they take, what they
//! return, and what their prompts and agents answer.
//!
//! `schemas/letter.json` is a file in the pack's own folder, `schemas/all.json#/$defs/letter` a part of one,
//! `#/tools/send/parameters` a part of the pack itself. They become part of the execution model, so that a run keeps
//! what it started with.

use super::checks::Finding;
use super::composition::{Composition, Step};
use super::pack::Pack;
use crate::companions::Companions;
use crate::json::pointer_part;
use opcell_ir::diagnostic::Diagnostic;
use opcell_ir::print::go::quote;
use opcell_schema::{MAX_SCHEMA_BYTES, Schema};
use opcell_types::Value;
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The keys under which schemas keep the schemas that they refer to.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];

/// The schemas of a pack, by the reference that names them.
#[derive(Debug, Clone, Default)]
pub struct Contracts(BTreeMap<String, Value>);

impl Contracts {
    /// Reads every schema that a composition names, and weighs it; what cannot be checked is an error where it is first
    /// named.
    pub(super) fn read(pack: &Pack, document: &Json, beside: &dyn Companions) -> (Self, Vec<Finding>) {
        let (mut contracts, mut found) = (Self::default(), Vec::new());
        let (mut schemas, mut unread): (Vec<Schema>, Vec<&str>) = (Vec::new(), Vec::new());
        for (place, reference) in references(pack) {
            if contracts.0.contains_key(reference) || unread.contains(&reference) {
                continue;
            }
            let usable = read(reference, document, beside)
                .and_then(|json| Schema::compile_leniently(&json).map(|schema| (json, schema)))
                .and_then(|(json, schema)| {
                    for warning in schema.warnings() {
                        let message = format!("{} {}: {warning}", place.text, quote(reference));
                        let diagnostic = Diagnostic::warning("composition-schema", message);
                        found.push(Finding { diagnostic, pointer: place.pointer.clone() });
                    }
                    // A run checks what this host can.
                    let json = match schema.warnings() {
                        [] => json,
                        _ => Schema::checked_part(&json)?,
                    };
                    schemas.push(schema);
                    Schema::check_total(schemas.iter()).map(|()| json)
                });
            match usable {
                Ok(json) => drop(contracts.0.insert(reference.to_owned(), Value::from(json))),
                Err(problem) => {
                    let message = format!("{} {}: {problem}", place.text, quote(reference));
                    let diagnostic = Diagnostic::error("composition-schema", message);
                    found.push(Finding { diagnostic, pointer: place.pointer });
                    unread.push(reference);
                }
            }
        }
        (contracts, found)
    }

    /// The schema of this reference.
    #[must_use]
    pub fn get(&self, reference: &str) -> Option<&Value> {
        self.0.get(reference)
    }
}

/// The place at which a schema is named.
struct Place {
    pointer: String,
    text: String,
}

/// Every reference to a schema, with its place.
fn references(pack: &Pack) -> Vec<(Place, &str)> {
    let mut found = Vec::new();
    for (name, composition) in &pack.compositions {
        let pointer = format!("/compositions/{}", pointer_part(name));
        let text = format!("compositions[{}]", quote(name));
        let Composition { input_schema, output_schema, steps, .. } = composition;
        let mut named = |pointer: &str, text: &str, field: &str, reference| {
            found.push((Place { pointer: format!("{pointer}/{field}"), text: format!("{text}.{field}") }, reference));
        };
        named(&pointer, &text, "input_schema", input_schema.as_str());
        let mut waiting: Vec<(String, &Step)> = at(&format!("{pointer}/steps"), steps);
        while let Some((pointer, step)) = waiting.pop() {
            named(
                &pointer,
                &format!("{text}.steps[{}]", quote(&step.id)),
                "output_schema",
                step.output_schema.as_str(),
            );
            waiting.extend(at(&format!("{pointer}/branches"), &step.branches));
        }
        named(&pointer, &text, "output_schema", output_schema.as_str());
    }
    found.retain(|(_, reference)| !reference.is_empty());
    found
}

/// Steps with their pointers, the first one last.
fn at<'s>(list: &str, steps: &'s [Step]) -> Vec<(String, &'s Step)> {
    steps.iter().enumerate().rev().map(|(index, step)| (format!("{list}/{index}"), step)).collect()
}

fn read(reference: &str, document: &Json, beside: &dyn Companions) -> Result<Json, String> {
    let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
    if path.is_empty() {
        return part(document, fragment);
    }
    let text = beside.text(path).ok_or_else(|| format!("there is no file `{path}` in the pack's folder"))??;
    if text.len() > MAX_SCHEMA_BYTES {
        return Err(format!("`{path}` has {} bytes; a schema has at most {MAX_SCHEMA_BYTES}", text.len()));
    }
    let json: Json = serde_json::from_str(&text).map_err(|error| format!("`{path}` is not JSON: {error}"))?;
    part(&json, fragment)
}

/// A part of a document as a schema of its own: `#` in it is the part itself, which has what the document defines
/// beside it.
fn part(document: &Json, fragment: &str) -> Result<Json, String> {
    let mut schema = document.pointer(fragment).ok_or_else(|| format!("`#{fragment}` does not resolve"))?.clone();
    if let (false, Some(fields)) = (fragment.is_empty(), schema.as_object_mut()) {
        for key in DEFINITIONS {
            if let (Some(definitions), false) = (document.get(key), fields.contains_key(key)) {
                fields.insert(key.to_owned(), definitions.clone());
            }
        }
    }
    Ok(schema)
}
