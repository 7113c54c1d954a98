//! The IR of a document, as it is printed, keeps to the schema that is published for it.

use opcell_ir::{SourceFile, ir};
use opcell_workflow::{companions::NoCompanions, document};
use std::path::{Path, PathBuf};

fn documents(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let name = entry.file_name();
        if path.is_dir() && name != "target" && name != "node_modules" {
            documents(&path, found);
        } else if ["edn", "md", "yaml", "json"]
            .iter()
            .any(|kind| path.extension().is_some_and(|ending| ending == *kind))
        {
            found.push(path);
        }
    }
}

#[test]
fn every_document_of_this_repository_compiles_to_what_the_schema_allows() {
    let schema: serde_json::Value = serde_json::from_str(ir::SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a JSON Schema");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths = Vec::new();
    for folder in ["examples", "workflows", "tests/e2e", "tests/cli"] {
        documents(&root.join(folder), &mut paths);
    }
    let mut compiled = 0;
    for path in paths {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let source = SourceFile::new(path.display().to_string(), text);
        let Some(ir) = document::compile(&source, &NoCompanions).ir else { continue };
        let json = serde_json::to_value(&*ir).expect("an IR is JSON");
        let found: Vec<String> =
            validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(found, Vec::<String>::new(), "{}", path.display());
        compiled += 1;
    }
    assert!(compiled > 20, "only {compiled} documents were compiled");
}

#[test]
fn what_is_no_ir_is_refused() {
    let schema: serde_json::Value = serde_json::from_str(ir::SCHEMA).expect("the schema is JSON");
    let validator = jsonschema::validator_for(&schema).expect("the schema is a JSON Schema");
    let good = serde_json::json!({"version": "workflow-ir/v1", "name": "w", "steps": [
        {"name": "a", "type": "invoke", "invoke": {"operation": "x/y", "args": {"n": {"value": 1}}}}]});
    assert!(validator.is_valid(&good));
    for (pointer, value) in [
        ("/version", serde_json::json!("workflow-ir/v2")),
        ("/steps", serde_json::json!([])),
        ("/steps/0/type", serde_json::json!("session")),
        ("/steps/0/invoke/args/n", serde_json::json!(1)),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect("it is there") = value;
        assert!(!validator.is_valid(&bad), "{pointer}");
    }
}
