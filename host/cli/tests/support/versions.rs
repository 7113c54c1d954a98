//! Versions of one plugin, and commands of its project.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a failed test")]
#![allow(dead_code, clippy::disallowed_methods, reason = "a test makes what it looks at, and uses a part of this")]

use crate::{guest, server::opcell};
use serde_json::{Value, json};
use std::{fs, path::Path, process::Output};

/// A component whose operation gives `says`, and which asks for `asks`.
pub fn version(folder: &Path, says: &str, asks: &str) -> Vec<u8> {
    let manifest = json!({
        "schema": 1, "name": "test", "version": "1.0.0",
        "capabilities": { "tools": if asks.is_empty() { json!([]) } else { json!([{"name": asks, "reason": "a test"}]) } },
    });
    let says = format!("\"{says}\"");
    let text = format!(
        ";; world operation-plugin\n(module\n(@custom \"opcell:manifest\" {:?})\n;; @memory\n;; @entry\n;; @describe\n\
         (data (i32.const 512) {says:?})\n(func (export \"opcell:plugin/operations@0.1.0#invoke\")\n\
         (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)\n\
         (call $ok (i32.const 512) (i32.const {})))\n)\n",
        manifest.to_string(),
        says.len(),
    );
    let source = folder.join("guest.wat");
    fs::write(&source, text).unwrap();
    let bytes = guest::component(&source);
    fs::remove_file(source).unwrap();
    bytes
}

/// As [`version`], under another name of the operation, of eight letters.
pub fn version_of(folder: &Path, says: &str, operation: &str) -> Vec<u8> {
    let bytes = version(folder, says, "");
    let at = bytes.windows(8).position(|bytes| bytes == b"test/run").unwrap();
    let mut bytes = bytes;
    bytes[at..at + 8].copy_from_slice(operation.as_bytes());
    bytes
}

/// As builds do it: whoever reads the file has all of one version.
pub fn put(folder: &Path, bytes: &[u8]) {
    fs::write(folder.join(".part"), bytes).unwrap();
    fs::rename(folder.join(".part"), folder.join("test.wasm")).unwrap();
}

pub fn run(folder: &Path, arguments: &[&str]) -> Output {
    opcell(folder).args(arguments).output().unwrap()
}

pub fn done(folder: &Path, arguments: &[&str]) {
    let output = run(folder, arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Returns the result of a run.
pub fn result(folder: &Path, name: &str) -> Value {
    let output = run(folder, &["runs", "show", name, "--json"]);
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{output:?}"));
    shown["result"].clone()
}
