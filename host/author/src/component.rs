//! From what a tool chain made to a component that carries its manifest.

use crate::{AuthorError, Project, template::CONTRACT};
use serde_json::Value;
use std::{borrow::Cow, fmt::Write as _, path::Path};
use wasm_encoder::{CustomSection, Section as _};
use wasmparser::{Encoding, Parser, Payload};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::{PackageId, PackageMetadata, Resolve};

/// The custom section of the manifest.
pub const MANIFEST: &str = "opcell:manifest";

/// Bytes of a Cargo.toml that is looked at.
const MAX_CARGO: u64 = 1 << 20;

/// Bytes of a manifest, as the sandbox reads them.
const MAX_MANIFEST: usize = 64 << 10;

/// Makes a component: a core module becomes one, and the manifest of `plugin.toml` is embedded, with the requests of its
/// source where the file has none. What both say must be the same.
///
/// # Errors
/// [`AuthorError::Component`] or [`AuthorError::Disagreement`].
pub fn finish(project: &Project, path: &Path, bytes: &[u8]) -> Result<Vec<u8>, AuthorError> {
    let wrong = |message: String| AuthorError::Component { path: path.to_owned(), message };
    let mut manifest = project.manifest.clone();
    let bytes = match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => bytes.to_vec(),
        Some(Ok(_)) => {
            let (module, said) = without_manifest(bytes).map_err(wrong)?;
            if let Some(said) = said {
                manifest = agreed(manifest, &said)?;
            }
            encode(&module).map_err(wrong)?
        }
        _ => return Err(wrong("it is not WebAssembly".to_owned())),
    };
    Ok(with_manifest(bytes, &manifest))
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
    // One document for each version, of a folder each: what the newest builds on comes first.
    let folder = |(name, _): &(&str, &str)| name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let mut newest = Err("there is no contract".to_owned());
    for version in contract.chunk_by(|one, other| folder(one) == folder(other)) {
        let text: String = version.iter().map(|(_, text)| *text).collect();
        let name = version.first().map(folder).unwrap_or_default();
        newest = Ok(resolve.push_str(format!("{name}.wit"), &text).map_err(|error| format!("{error:#}"))?);
    }
    newest
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

/// Adds the doc comments of a WIT package, a file or a folder, to a component of it or to a core module that becomes
/// one. They lie in the custom section that the tools of WIT use, and hosts show them as summaries.
///
/// # Errors
/// A sentence, when it is not WebAssembly, or the package cannot be read.
pub fn with_docs(bytes: &[u8], wit: &Path) -> Result<Vec<u8>, String> {
    let mut component = match Parser::new(0).parse_all(bytes).next() {
        Some(Ok(Payload::Version { encoding: Encoding::Component, .. })) => bytes.to_vec(),
        _ => of_module(bytes)?,
    };
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(wit).map_err(|error| format!("{error:#}"))?;
    let docs = PackageMetadata::extract(&resolve, package).encode().map_err(|error| format!("{error:#}"))?;
    let section = CustomSection { name: Cow::Borrowed(PackageMetadata::SECTION_NAME), data: Cow::Owned(docs) };
    section.append_to(&mut component);
    Ok(component)
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

/// The version of a crate whose Cargo.toml has none.
const NO_VERSION: &str = "0.0.0";

/// Checks name and version of `Cargo.toml` against `plugin.toml` before anything is compiled. What is not there, or is
/// inherited from a workspace, is left to the check of the compiled module.
///
/// # Errors
/// [`AuthorError::Disagreement`].
pub(crate) fn agrees_with_cargo(project: &Project) -> Result<(), AuthorError> {
    let path = project.folder.join("Cargo.toml");
    let Ok(text) = opcell_types::files::read_text_bounded(&path, MAX_CARGO) else { return Ok(()) };
    let Ok(document) = toml_edit::Document::parse(text) else { return Ok(()) };
    let Some(package) = document.as_table().get("package").and_then(|item| item.as_table_like()) else { return Ok(()) };
    let mut said = serde_json::Map::new();
    for key in ["name", "version"] {
        if let Some(value) = package.get(key).and_then(|item| item.as_str()) {
            said.insert(key.to_owned(), value.into());
        }
    }
    agreed(project.manifest.clone(), &Value::Object(said)).map(drop)
}

/// Returns the manifest of `plugin.toml` with what only the source says.
fn agreed(mut file: Value, source: &Value) -> Result<Value, AuthorError> {
    let differ = |what, file: String, source_says: String| {
        let remedy = match what {
            "name" | "version" => "write the same in plugin.toml and in Cargo.toml, or no version in Cargo.toml",
            _ => "remove them from one of the two, or make both the same",
        };
        Err(AuthorError::Disagreement { what, file, source_says, remedy })
    };
    for what in ["name", "version"] {
        let of = |value: &Value| value.get(what).cloned().unwrap_or_default();
        if !of(source).is_null() && of(source) != NO_VERSION && of(source) != of(&file) {
            return differ(what, of(&file).to_string(), of(source).to_string());
        }
    }
    for what in ["capabilities", "limits"] {
        // A kind of which nothing is asked may be absent or empty.
        let asked = |value: &Value| {
            let mut parts = value.get(what).and_then(Value::as_object).cloned().unwrap_or_default();
            parts.retain(|_, part| part.as_array().is_none_or(|list| !list.is_empty()));
            parts
        };
        let (of_file, of_source) = (asked(&file), asked(source));
        if of_file.is_empty()
            && !of_source.is_empty()
            && let Some(file) = file.as_object_mut()
        {
            file.insert(what.to_owned(), Value::Object(of_source));
        } else if !of_source.is_empty() && of_file != of_source {
            return differ(what, as_toml(what, &of_file), as_toml(what, &of_source));
        }
    }
    Ok(file)
}

/// Requests or limits as `plugin.toml` has them.
fn as_toml(what: &str, parts: &serde_json::Map<String, Value>) -> String {
    let mut text = String::new();
    for (key, part) in parts {
        let Some(list) = part.as_array() else {
            let _ = write!(text, "\n  [{what}] {key} = {part}");
            continue;
        };
        for request in list {
            let _ = write!(text, "\n  [[{what}.{key}]]");
            for (key, value) in request.as_object().into_iter().flatten() {
                let _ = write!(text, "\n  {key} = {value}");
            }
        }
    }
    text
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
    fn requests_stand_in_the_source_or_in_the_file_and_in_both_they_must_agree() {
        let tool = json!({"name": "http.fetch", "reason": "asks"});
        let file = json!({"name": "a", "version": "1", "capabilities": {"tools": [tool]}});
        let of_macro = |tools: Value| json!({"name": "a", "version": "1", "capabilities": {"tools": tools, "skills": [], "files": []}, "limits": {}});
        assert_eq!(agreed(file.clone(), &of_macro(json!([]))).unwrap(), file);
        assert_eq!(agreed(file.clone(), &of_macro(json!([tool]))).unwrap(), file);
        let silent = json!({"name": "a", "version": "1"});
        assert_eq!(agreed(silent, &of_macro(json!([tool]))).unwrap(), file);
        let error = agreed(file.clone(), &of_macro(json!([{"name": "other", "reason": "asks"}]))).unwrap_err();
        assert!(matches!(error, AuthorError::Disagreement { what: "capabilities", .. }), "{error}");
        assert!(error.to_string().contains("[[capabilities.tools]]\n  name = \"other\""), "{error}");
        let error = agreed(file.clone(), &json!({"name": "a", "version": "2"})).unwrap_err();
        assert!(error.to_string().contains(r#"plugin.toml says "1", the source says "2""#), "{error}");
        agreed(file, &json!({"name": "a", "version": NO_VERSION})).unwrap();
    }

    #[test]
    fn what_cargo_says_is_compared_before_anything_is_compiled() {
        let folder = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| std::fs::write(folder.path().join(file), text).unwrap();
        write("plugin.toml", "[plugin]\nname = \"a\"\nversion = \"1.0.0\"\n[build]\nlanguage = \"rust\"\n");
        let project = Project::read(folder.path()).unwrap();
        for (cargo, agrees) in [
            ("[package]\nname = \"a\"\nversion = \"1.0.0\"\n", true),
            ("[package]\nname = \"a\"\n", true),
            ("[package]\nname = \"a\"\nversion.workspace = true\n", true),
            ("[package]\nname = \"a\"\nversion = \"1.0.1\"\n", false),
            ("[package]\nname = \"b\"\n", false),
        ] {
            write("Cargo.toml", cargo);
            assert_eq!(agrees_with_cargo(&project).is_ok(), agrees, "{cargo}");
        }
    }

    #[test]
    fn doc_comments_of_wit_are_added_to_a_component() {
        let wit = tempfile::Builder::new().suffix(".wit").tempfile().unwrap();
        let text =
            "package acme:geo@1.0.0;\ninterface shapes {\n  /// Doubles a number.\n  twice: func(n: u32) -> u32;\n}\n";
        std::fs::write(wit.path(), text).unwrap();
        let component = with_docs(b"\0asm\x0d\0\x01\0", wit.path()).unwrap();
        let text = String::from_utf8_lossy(&component);
        assert!(text.contains("package-docs") && text.contains("Doubles a number."), "{text}");
        assert!(with_docs(b"\0asm\x0d\0\x01\0", Path::new("/nowhere")).is_err());
        assert!(with_docs(b"#!/bin/sh", wit.path()).unwrap_err().contains("not WebAssembly"));
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
