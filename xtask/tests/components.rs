//! Properties of the plugins once built: `cargo xtask guests` comes first, and `cargo xtask test` does so.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use wasmparser::{Operator, Parser, Payload};

fn dist() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../example-operations/dist")
}

fn component(name: &str) -> Vec<u8> {
    let path = dist().join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}; run `cargo xtask guests` first", path.display()))
}

fn all() -> Vec<String> {
    let plugins = std::fs::read_dir(dist()).unwrap_or_else(|_| panic!("run `cargo xtask guests` first"));
    let names =
        plugins.filter_map(|entry| entry.unwrap().path().file_stem().map(|stem| stem.to_string_lossy().into_owned()));
    names.collect()
}

#[test]
fn the_smallest_plugin_is_under_120_kb() {
    assert!(component("echo").len() < 120_000, "{} bytes", component("echo").len());
}

#[test]
fn a_plugin_imports_the_contract_and_nothing_else() {
    for name in all() {
        let bytes = component(&name);
        let (mut depth, mut imports) = (0, Vec::new());
        for payload in Parser::new(0).parse_all(&bytes) {
            match payload.unwrap() {
                Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
                Payload::End(_) => depth -= 1,
                Payload::ComponentImportSection(section) if depth == 0 => {
                    imports.extend(section.into_iter().map(|import| import.unwrap().name.name.to_owned()));
                }
                _ => {}
            }
        }
        assert!(imports.contains(&"opcell:plugin/log@0.1.0".to_owned()), "{name} imports {imports:?}");
        assert!(imports.iter().all(|import| import.starts_with("opcell:plugin/")), "{name} imports {imports:?}");
    }
}

#[test]
fn a_plugin_carries_its_manifest() {
    for name in all() {
        let bytes = component(&name);
        let manifests: Vec<serde_json::Value> = Parser::new(0)
            .parse_all(&bytes)
            .filter_map(|payload| match payload.unwrap() {
                Payload::CustomSection(section) if section.name() == "opcell:manifest" => {
                    Some(serde_json::from_slice(section.data()).unwrap())
                }
                _ => None,
            })
            .collect();
        let [manifest] = manifests.as_slice() else { panic!("{name} has {} manifests", manifests.len()) };
        assert_eq!((manifest["schema"].as_u64(), manifest["name"].as_str()), (Some(1), Some(name.as_str())));
    }
}

#[test]
fn a_fresh_plugin_is_small_its_stack_included() {
    for name in all() {
        let bytes = component(&name);
        // The first core module is the plugin; the others are the linker's glue.
        let mut payloads = Parser::new(0).parse_all(&bytes).map(Result::unwrap).peekable();
        let pages = payloads.find_map(|payload| match payload {
            Payload::MemorySection(memories) => memories.into_iter().next().map(|memory| memory.unwrap().initial),
            _ => None,
        });
        let stack = payloads.find_map(|payload| match payload {
            Payload::GlobalSection(globals) => {
                let stack_pointer = globals.into_iter().next().unwrap().unwrap();
                match stack_pointer.init_expr.get_operators_reader().read().unwrap() {
                    Operator::I32Const { value } => Some(value),
                    _ => None,
                }
            }
            _ => None,
        });
        assert_eq!((pages, stack), (Some(2), Some(64 * 1024)), "{name}");
    }
}
