//! Guests of `tests/cli`, made of text.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{fs, path::Path};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cli");

/// A core module in text, made a component of its world.
pub fn component(path: &Path) -> Vec<u8> {
    let text = fs::read_to_string(path).unwrap();
    let world = text.lines().next().unwrap().strip_prefix(";; world ").unwrap();
    let mut module = wat::parse_str(text.lines().map(with_part).collect::<String>()).unwrap();
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../wit")).unwrap();
    let world = resolve.select_world(&[package], Some(world)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}

/// The line, or the part of `tests/cli/shared/parts` that it names.
fn with_part(line: &str) -> String {
    match line.trim().strip_prefix(";; @") {
        Some(part) => fs::read_to_string(Path::new(CASES).join("shared/parts").join(format!("{part}.wat"))).unwrap(),
        None => format!("{line}\n"),
    }
}
