//! From what a tool chain made to a component that carries its manifest.

use crate::{AuthorError, Project, template::CONTRACT};
use serde_json::Value;
use std::{borrow::Cow, path::Path};
use wasm_encoder::{CustomSection, Section as _};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, Resolve};

/// The custom section of the manifest.
pub const MANIFEST: &str = "opcell:manifest";

/// Bytes of a manifest, as the sandbox reads them.
const MAX_MANIFEST: usize = 64 << 10;

/// Makes a component: a core module becomes one, what its source says about a manifest is held against `plugin.toml`,
/// and `plugin.toml`'s is embedded.
///
/// # Errors
/// [`AuthorError::Component`] or [`AuthorError::Disagreement`].
pub fn finish(project: &Project, path: &Path, bytes: &[u8]) -> Result<Vec<u8>, AuthorError> {
    let wrong = |message: String| AuthorError::Component { path: path.to_owned(), message };
    let bytes = match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => bytes.to_vec(),
        Some(Ok(_)) => {
            let (module, said) = without_manifest(bytes).map_err(wrong)?;
            if let Some(said) = said {
                agree(&project.manifest, &said)?;
            }
            encode(&module).map_err(wrong)?
        }
        _ => return Err(wrong("it is not WebAssembly".to_owned())),
    };
    Ok(with_manifest(bytes, &project.manifest))
}

/// Describes a plugin's interface in a core module that was made without it: what wit-bindgen does for Rust.
///
/// # Errors
/// A sentence, when the contract cannot be read or the module is not one.
pub fn describe(module: &mut Vec<u8>, contract: &[(&str, &str)], world: &str) -> Result<(), String> {
    let mut resolve = Resolve::default();
    let package = push_contract(&mut resolve, contract)?;
    embed(module, &resolve, package, world)
}

/// As [`describe`], for a world of another document: a plugin with further imports.
///
/// # Errors
/// As [`describe`], and when the document cannot be read.
pub fn describe_as(module: &mut Vec<u8>, document: &str, world: &str) -> Result<(), String> {
    let mut resolve = Resolve::default();
    push_contract(&mut resolve, &CONTRACT)?;
    let package = resolve.push_str("world.wit", document).map_err(|error| format!("{error:#}"))?;
    embed(module, &resolve, package, world)
}

fn embed(module: &mut Vec<u8>, resolve: &Resolve, package: PackageId, world: &str) -> Result<(), String> {
    let embedded = resolve
        .select_world(&[package], Some(world))
        .and_then(|world| embed_component_metadata(module, resolve, world, StringEncoding::UTF8, false));
    embedded.map_err(|error| format!("{error:#}"))
}

fn push_contract(resolve: &mut Resolve, contract: &[(&str, &str)]) -> Result<PackageId, String> {
    // One document for each version, what the newest builds on first.
    let text = |below: bool| -> String {
        contract.iter().filter(|(name, _)| name.starts_with("deps/") == below).map(|(_, text)| *text).collect()
    };
    let pushed = resolve.push_str("opcell-plugin-0.1.0.wit", &text(true));
    pushed.and_then(|_| resolve.push_str("opcell-plugin.wit", &text(false))).map_err(|error| format!("{error:#}"))
}

/// Makes a component of a core module that carries its interface, and its manifest if it has one.
///
/// # Errors
/// A sentence, when it is not such a module.
pub fn of_module(bytes: &[u8]) -> Result<Vec<u8>, String> {
    match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => Err("it is a component already".to_owned()),
        Some(Ok(_)) => encode(bytes),
        _ => Err("it is not WebAssembly".to_owned()),
    }
}

fn encode(module: &[u8]) -> Result<Vec<u8>, String> {
    let encoded = ComponentEncoder::default().validate(true).module(module).and_then(|encoder| encoder.encode());
    encoded.map_err(|error| format!("{error:#}"))
}

/// A core module without its manifest, and the manifest.
fn without_manifest(bytes: &[u8]) -> Result<(Vec<u8>, Option<Value>), String> {
    let mut kept = bytes.get(..8).unwrap_or_default().to_vec();
    let mut said = None;
    let mut end = 8;
    for payload in Parser::new(0).parse_all(bytes) {
        let payload = payload.map_err(|error| error.to_string())?;
        if let Payload::CustomSection(section) = &payload
            && section.name() == MANIFEST
        {
            if section.data().len() > MAX_MANIFEST {
                return Err(format!("its manifest has more than {MAX_MANIFEST} bytes"));
            }
            said = Some(
                serde_json::from_slice(section.data()).map_err(|error| format!("its manifest is not JSON: {error}"))?,
            );
            end = place(section.range().end);
            continue;
        }
        // The bodies of functions lie inside the code section, which comes as a whole.
        let Some((_, range)) = payload.as_section() else { continue };
        // A section begins with its id and length, where the one before it ended.
        kept.extend_from_slice(bytes.get(end..place(range.end)).unwrap_or_default());
        end = place(range.end);
    }
    Ok((kept, said))
}

/// An offset into a file that is in memory.
fn place(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

/// Checks that the source agrees with `plugin.toml`; a source that requests nothing leaves it to the file.
fn agree(file: &Value, source: &Value) -> Result<(), AuthorError> {
    let differ = |what, file: Value, source: Value| {
        Err(AuthorError::Disagreement { what, file: file.to_string(), source_says: source.to_string() })
    };
    for what in ["name", "version"] {
        let of = |value: &Value| value.get(what).cloned().unwrap_or_default();
        if !of(source).is_null() && of(source) != of(file) {
            return differ(what, of(file), of(source));
        }
    }
    for what in ["capabilities", "limits"] {
        // A kind of which nothing is asked may be absent or empty.
        let asked = |value: &Value| {
            let mut parts = value.get(what).and_then(Value::as_object).cloned().unwrap_or_default();
            parts.retain(|_, part| part.as_array().is_none_or(|list| !list.is_empty()));
            parts
        };
        let (of_file, of_source) = (asked(file), asked(source));
        if !of_source.is_empty() && of_file != of_source {
            return differ(what, Value::Object(of_file), Value::Object(of_source));
        }
    }
    Ok(())
}

fn with_manifest(mut component: Vec<u8>, manifest: &Value) -> Vec<u8> {
    let data = manifest.to_string();
    let section = CustomSection { name: Cow::Borrowed(MANIFEST), data: Cow::Borrowed(data.as_bytes()) };
    section.append_to(&mut component);
    component
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_source_that_asks_for_nothing_leaves_it_to_the_file_and_any_other_must_agree() {
        let tool = json!({"name": "http.fetch", "reason": "asks"});
        let file = json!({"name": "a", "version": "1", "capabilities": {"tools": [tool]}});
        let of_macro = |tools: Value| json!({"name": "a", "version": "1", "capabilities": {"tools": tools, "skills": [], "files": []}, "limits": {}});
        agree(&file, &of_macro(json!([]))).unwrap();
        agree(&file, &of_macro(json!([tool]))).unwrap();
        let error = agree(&file, &of_macro(json!([{"name": "other", "reason": "asks"}]))).unwrap_err();
        assert!(matches!(error, AuthorError::Disagreement { what: "capabilities", .. }), "{error}");
        let error = agree(&file, &json!({"name": "a", "version": "2"})).unwrap_err();
        assert!(error.to_string().contains(r#"plugin.toml says "1", the macro says "2""#), "{error}");
    }

    #[test]
    fn what_is_no_core_module_with_an_interface_does_not_become_a_component() {
        for (bytes, expected) in [
            (&b"\0asm\x0d\0\x01\0"[..], "a component already"),
            (b"#!/bin/sh", "not WebAssembly"),
            (b"", "not WebAssembly"),
        ] {
            assert!(of_module(bytes).unwrap_err().contains(expected));
        }
    }
}
