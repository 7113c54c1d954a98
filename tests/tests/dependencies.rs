//! `dependencies.toml` says of every dependency that reads bytes of others why it is trusted, for the version that is
//! in Cargo.lock and for no other: an update takes someone who looks at it.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a failed test")]

use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Reviewed {
    parses: BTreeMap<String, Parser>,
    rest: BTreeSet<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Parser {
    versions: BTreeSet<String>,
    reads: String,
    trust: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read<T: for<'de> Deserialize<'de>>(path: &str) -> T {
    toml_edit::de::from_str(&fs::read_to_string(root().join(path)).unwrap()).unwrap()
}

/// Versions by name, as they are locked.
fn locked() -> BTreeMap<String, BTreeSet<String>> {
    let lock: toml_edit::DocumentMut = fs::read_to_string(root().join("Cargo.lock")).unwrap().parse().unwrap();
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in lock["package"].as_array_of_tables().unwrap() {
        let text = |key: &str| package[key].as_str().unwrap().to_owned();
        versions.entry(text("name")).or_default().insert(text("version"));
    }
    versions
}

/// Returns the dependencies that the crates of the product name, without those that only their builds and tests need.
fn direct() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let folders = ["host", "bindings"].map(|folder| fs::read_dir(root().join(folder)).unwrap());
    let folders = folders.into_iter().flatten().map(|entry| entry.unwrap().path());
    for folder in folders.filter(|path| path.join("Cargo.toml").is_file()) {
        let manifest: toml_edit::DocumentMut = fs::read_to_string(folder.join("Cargo.toml")).unwrap().parse().unwrap();
        let targets = manifest.get("target").and_then(|targets| targets.as_table()).into_iter().flatten();
        let of_targets = targets.filter_map(|(_, target)| target.get("dependencies")?.as_table());
        let own = manifest.get("dependencies").and_then(|own| own.as_table());
        for (name, how) in own.into_iter().chain(of_targets).flat_map(|table| table.iter()) {
            let real = how.get("package").and_then(|real| real.as_str()).unwrap_or(name);
            if real != "opcell" && !real.starts_with("opcell-") {
                names.insert(real.to_owned());
            }
        }
    }
    names
}

#[test]
fn what_reads_bytes_of_others_is_locked_at_the_version_that_was_looked_at() {
    let (reviewed, locked) = (read::<Reviewed>("dependencies.toml"), locked());
    let mut wrong = Vec::new();
    for (name, parser) in &reviewed.parses {
        assert!(parser.reads.len() > 3 && parser.trust.len() > 10, "dependencies.toml says too little about {name}");
        let known = &parser.versions;
        match locked.get(name) {
            None => wrong.push(format!("{name} is no longer a dependency: take it out of dependencies.toml")),
            Some(locked) if locked == known => {}
            Some(locked) => wrong.push(format!(
                "Cargo.lock has {name} {locked:?}, dependencies.toml knows {known:?}: look at what changed, then write the \
                 new version there"
            )),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_direct_dependency_is_on_one_of_the_two_lists() {
    let Reviewed { parses, rest } = read("dependencies.toml");
    let (parses, direct): (BTreeSet<String>, _) = (parses.into_keys().collect(), direct());
    assert!(direct.len() > 50, "the manifests of the product were found: {direct:?}");
    let unknown: Vec<_> = direct.iter().filter(|name| !parses.contains(*name) && !rest.contains(*name)).collect();
    assert!(unknown.is_empty(), "say in dependencies.toml whether these read bytes of others: {unknown:?}");
    let gone: Vec<_> = rest.difference(&direct).collect();
    assert!(gone.is_empty(), "`rest` of dependencies.toml has what the product does not depend on: {gone:?}");
    let both: Vec<_> = parses.intersection(&rest).collect();
    assert!(both.is_empty(), "on both lists of dependencies.toml: {both:?}");
}
