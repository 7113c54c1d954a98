//! The command: its archive, its Debian package and its bill of materials.

use super::{Made, Release, sha256};
use crate::process::{cargo, output, root};
use anyhow::{Context as _, Result, anyhow, ensure};
use serde::Deserialize;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

/// The platform of the archive, the package and the image.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// Writes the archive, the names of the program's functions, and the installer that fetches the archive.
pub fn archive(release: &Release) -> Result<Made> {
    let archive = script("archive", release.binary()?, &release.out)?;
    let symbols = archive.with_extension("").with_extension("debug.gz");
    let installer = release.out.join("install.sh");
    fs::copy(root().join("packaging/install.sh"), &installer)?;
    Ok(Made::Files([archive, symbols, installer].into_iter().filter(|file| file.exists()).collect()))
}

/// Writes the Debian package.
pub fn package(release: &Release) -> Result<Made> {
    if output(Command::new("dpkg-deb").arg("--version")).is_none() {
        return Ok(Made::Skipped("dpkg-deb is missing; Debian and Ubuntu have it in the package dpkg".to_owned()));
    }
    Ok(Made::Files(vec![script("deb", release.binary()?, &release.out)?]))
}

/// Runs a script of `packaging/`; returns the path that it prints.
fn script(name: &str, binary: &Path, out: &Path) -> Result<PathBuf> {
    let script = root().join("packaging").join(name);
    let printed = Command::new(&script).arg(binary).arg(out).stderr(Stdio::inherit()).output();
    let printed = printed.with_context(|| format!("cannot start {}", script.display()))?;
    ensure!(printed.status.success(), "{} ended with {}", script.display(), printed.status);
    Ok(PathBuf::from(String::from_utf8(printed.stdout)?.trim()))
}

/// Writes the bill of materials: the crates that are compiled into the command or run while it is built.
pub fn bill(release: &Release) -> Result<Made> {
    let digest = sha256(&fs::read(release.binary()?)?);
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", TARGET]);
    let metadata =
        output(metadata.current_dir(root())).context("`cargo metadata --locked` fails: run it to see why")?;
    let used = used_by("opcell-cli", &serde_json::from_str(&metadata)?)?;
    let lock = only(&fs::read_to_string(root().join("Cargo.lock"))?, &used);
    let text = opcell_author::sbom::of_cargo_lock("opcell", release.version(), &digest, &lock);
    let file = release.out.join(format!("opcell-{}.cdx.json", release.version()));
    fs::write(&file, text.map_err(|error| anyhow!(error))?)?;
    Ok(Made::Files(vec![file]))
}

#[derive(Deserialize)]
struct Graph {
    packages: Vec<Node>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    name: String,
    version: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Edges>,
}

#[derive(Deserialize)]
struct Edges {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Returns the names and versions of everything that a package needs, tests excluded.
fn used_by(package: &str, graph: &Graph) -> Result<BTreeSet<(String, String)>> {
    let packages: BTreeMap<&str, &Node> = graph.packages.iter().map(|node| (node.id.as_str(), node)).collect();
    let edges: BTreeMap<&str, &Edges> = graph.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let start = graph.packages.iter().find(|node| node.name == package);
    let mut pending = vec![start.with_context(|| format!("the workspace has no package {package}"))?.id.as_str()];
    let mut seen = BTreeSet::new();
    while let Some(id) = pending.pop() {
        if !seen.insert(id) {
            continue;
        }
        let needed = edges.get(id).into_iter().flat_map(|edges| &edges.deps);
        let needed = needed.filter(|edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev")));
        pending.extend(needed.map(|edge| edge.pkg.as_str()));
    }
    Ok(seen.iter().filter_map(|id| packages.get(id)).map(|node| (node.name.clone(), node.version.clone())).collect())
}

/// Returns a lock file with these packages only.
fn only(lock: &str, used: &BTreeSet<(String, String)>) -> String {
    const SECTION: &str = "[[package]]\n";
    let value = |section: &str, key: &str| {
        let line = section.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \"")?.strip_suffix('"'));
        line.unwrap_or_default().to_owned()
    };
    let sections = lock.split(SECTION).skip(1);
    let kept = sections.filter(|section| used.contains(&(value(section, "name"), value(section, "version"))));
    kept.map(|section| format!("{SECTION}{section}")).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_bill_has_what_is_built_into_the_command_and_nothing_of_its_tests() {
        let node = |name: &str| json!({"id": name, "name": name, "version": "1.0.0"});
        let edge = |to: &str, kind: Option<&str>| json!({"pkg": to, "dep_kinds": [{"kind": kind}]});
        let graph = json!({
            "packages": [node("command"), node("library"), node("script"), node("probe"), node("other")],
            "resolve": {"nodes": [
                {"id": "command", "deps": [edge("library", None), edge("probe", Some("dev"))]},
                {"id": "library", "deps": [edge("script", Some("build")), edge("command", Some("dev"))]},
                {"id": "other", "deps": [edge("probe", None)]},
            ]},
        });
        let used = used_by("command", &serde_json::from_value(graph).unwrap()).unwrap();
        let names: Vec<&str> = used.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["command", "library", "script"]);

        let section =
            |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n");
        let lock =
            ["version = 4\n\n", &section("library", "0.9.0"), &section("library", "1.0.0"), &section("probe", "1.0.0")];
        assert_eq!(only(&lock.concat(), &used), section("library", "1.0.0"));
    }
}
