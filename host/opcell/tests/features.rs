//! The build of an embedder of cells alone: nothing that draws, measures, parses a command line, reaches a network or
//! keeps a database.

#![allow(clippy::unwrap_used, reason = "a failed test")]

use std::{collections::BTreeSet, process::Command};

fn dependencies(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--package", "opcell", "--edges", "normal", "--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn without_features_there_are_cells_and_workflows_and_nothing_else() {
    let built = dependencies(&["--no-default-features"]);
    assert!(built.contains("wasmtime"), "{built:?}");
    for other in [
        "clap",
        "plotters",
        "layout-rs",
        "libmimalloc-sys",
        "wat",
        "indicatif",
        "rmcp",
        "reqwest",
        "rustls",
        "rusqlite",
    ] {
        assert!(!built.contains(other), "a host of cells alone builds {other}");
    }
}

#[test]
fn each_feature_brings_its_own_library_and_not_those_of_others() {
    // Models are reached through the same client as `http.fetch`.
    let libraries = [("http", "reqwest"), ("mcp", "rmcp"), ("models", "reqwest"), ("sqlite", "rusqlite")];
    for (feature, library) in libraries {
        let built = dependencies(&["--no-default-features", "--features", feature]);
        assert!(built.contains(library), "{feature} does not bring {library}");
        for (_, foreign) in libraries {
            assert!(foreign == library || !built.contains(foreign), "{feature} brings {foreign}");
        }
    }
}

#[test]
fn the_default_is_every_capability_and_none_of_the_command() {
    let built = dependencies(&[]);
    for library in ["reqwest", "rmcp", "rusqlite"] {
        assert!(built.contains(library), "{library}");
    }
    for other in ["clap", "plotters", "layout-rs", "libmimalloc-sys", "wat", "indicatif"] {
        assert!(!built.contains(other), "an ordinary host builds {other}");
    }
}
