//! The crates that are published: their order, and the rules that crates.io has for them.

use super::{Made, Release};
use crate::process::{cargo, output, root, run, target_directory};
use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The part of `cargo metadata` that publishing needs.
#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

/// A member of the workspace.
#[derive(Clone, Deserialize)]
pub struct Package {
    /// Name on crates.io.
    pub name: String,
    /// Version of this release.
    pub version: String,
    manifest_path: PathBuf,
    /// `None`: to every registry; an empty list: to none.
    publish: Option<Vec<String>>,
    description: Option<String>,
    license: Option<String>,
    repository: Option<String>,
    dependencies: Vec<Dependency>,
}

#[derive(Clone, Deserialize)]
struct Dependency {
    name: String,
    req: String,
    kind: Option<String>,
    path: Option<PathBuf>,
}

impl Dependency {
    fn is_for_tests(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }

    /// Cargo removes dependencies of tests on members without a version from what it packages.
    fn is_removed(&self) -> bool {
        self.is_for_tests() && self.path.is_some() && self.req == "*"
    }
}

/// Returns the published crates, each after those it depends on.
///
/// # Errors
/// If crates.io would refuse one of them.
pub fn in_publish_order() -> Result<Vec<Package>> {
    let metadata =
        output(cargo().args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).current_dir(root()));
    let metadata = metadata.context("`cargo metadata --locked` fails: run it to see why")?;
    let metadata: Metadata = serde_json::from_str(&metadata)?;
    let published: Vec<Package> = metadata.packages.into_iter().filter(|package| package.publish.is_none()).collect();
    let problems = problems(&published);
    ensure!(problems.is_empty(), "crates.io would refuse these crates:\n  {}", problems.join("\n  "));
    sorted(published)
}

/// Returns a line for each rule that a crate breaks.
fn problems(published: &[Package]) -> Vec<String> {
    let names: BTreeSet<&str> = published.iter().map(|package| package.name.as_str()).collect();
    let mut problems = Vec::new();
    for package in published {
        let mut problem = |text: String| problems.push(format!("{}: {text}", package.manifest_path.display()));
        let fields =
            [("description", &package.description), ("license", &package.license), ("repository", &package.repository)];
        for (field, value) in fields {
            if value.as_ref().is_none_or(|value| value.trim().is_empty()) {
                problem(format!("expected `{field}`"));
            }
        }
        let folder = package.manifest_path.parent().unwrap_or(Path::new(""));
        if !folder.join("LICENSE").is_file() {
            problem("expected a file LICENSE beside it, a link to the one of the repository".to_owned());
        }
        for dependency in package.dependencies.iter().filter(|dependency| dependency.path.is_some()) {
            if dependency.is_removed() {
                continue;
            }
            if dependency.req == "*" {
                problem(format!("the dependency `{}` has a path without a version; add `version`", dependency.name));
            } else if !names.contains(dependency.name.as_str()) {
                problem(format!(
                    "the dependency `{0}` is not published; publish it, or for tests name it by its path without a version",
                    dependency.name
                ));
            }
        }
    }
    problems
}

/// Orders crates by their dependencies, then by name.
fn sorted(mut pending: Vec<Package>) -> Result<Vec<Package>> {
    pending.sort_by(|one, other| one.name.cmp(&other.name));
    let mut order: Vec<Package> = Vec::new();
    while !pending.is_empty() {
        let waiting: BTreeSet<String> = pending.iter().map(|package| package.name.clone()).collect();
        let (ready, blocked): (Vec<Package>, Vec<Package>) = pending.into_iter().partition(|package| {
            let needed = package.dependencies.iter().filter(|dependency| !dependency.is_removed());
            needed.into_iter().all(|dependency| !waiting.contains(&dependency.name) || dependency.name == package.name)
        });
        if ready.is_empty() {
            let names: Vec<&str> = blocked.iter().map(|package| package.name.as_str()).collect();
            bail!(
                "these crates depend on each other, so that none can be published first: {}; \
                 name a dependency of tests by its path without a version",
                names.join(", ")
            );
        }
        order.extend(ready);
        pending = blocked;
    }
    Ok(order)
}

/// Packages every published crate, into `crates/` with their order in `ORDER`.
pub fn pack(release: &Release) -> Result<Made> {
    let packages = in_publish_order()?;
    let mut command = cargo();
    command.args(["package", "--locked", "--offline", "--no-verify"]).current_dir(root());
    if release.is_trial() {
        command.arg("--allow-dirty");
    }
    for package in &packages {
        command.args(["--package", &package.name]);
    }
    run(&mut command)?;
    let built = target_directory()?.join("package");
    let folder = release.out.join("crates");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    let (mut files, mut order) = (Vec::new(), String::new());
    for package in &packages {
        let name = format!("{}-{}.crate", package.name, package.version);
        let file = folder.join(&name);
        fs::copy(built.join(&name), &file).with_context(|| built.join(&name).display().to_string())?;
        order.push_str(&name);
        order.push('\n');
        files.push(file);
    }
    let list = folder.join("ORDER");
    fs::write(&list, order)?;
    files.push(list);
    Ok(Made::Files(files))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed test")]
mod tests {
    use super::*;
    use serde_json::json;

    fn package(name: &str, dependencies: &serde_json::Value) -> Package {
        let manifest = root().join("xtask/Cargo.toml");
        serde_json::from_value(json!({
            "name": name, "version": "0.1.0", "manifest_path": manifest, "publish": null, "description": "A crate",
            "license": "Apache-2.0", "repository": "https://example.com", "dependencies": dependencies,
        }))
        .unwrap()
    }

    fn names(packages: &[Package]) -> Vec<&str> {
        packages.iter().map(|package| package.name.as_str()).collect()
    }

    #[test]
    fn crates_io_would_take_every_published_crate_of_this_workspace() {
        let packages = in_publish_order().unwrap();
        let names = names(&packages);
        let at = |name: &str| names.iter().position(|found| *found == name).unwrap();
        assert!(at("opcell-types") < at("opcell-sandbox") && at("opcell-sandbox") < at("opcell"));
        assert!(at("opcell-sdk-macros") < at("opcell-sdk") && at("opcell") < at("opcell-cli"));
        assert!(!names.contains(&"xtask") && !names.contains(&"opcell-tests"));
    }

    #[test]
    fn a_crate_is_published_after_what_it_needs_and_tests_need_no_published_crate() {
        let path = root();
        let needs_b = json!([{"name": "b", "req": "^0.1.0", "kind": null, "path": path}]);
        let tests_with_a = json!([{"name": "a", "req": "*", "kind": "dev", "path": path}]);
        let order = sorted(vec![package("a", &needs_b), package("b", &tests_with_a)]).unwrap();
        assert_eq!(names(&order), ["b", "a"]);

        let tests_with_published_a = json!([{"name": "a", "req": "^0.1.0", "kind": "dev", "path": path}]);
        let refused = sorted(vec![package("a", &needs_b), package("b", &tests_with_published_a)]);
        assert!(refused.is_err_and(|error| error.to_string().contains("a, b")));
    }

    #[test]
    fn a_dependency_without_a_version_or_outside_of_crates_io_is_named() {
        let path = root();
        let found = problems(&[package(
            "a",
            &json!([
                {"name": "bare", "req": "*", "kind": null, "path": path},
                {"name": "inner", "req": "^0.1.0", "kind": "dev", "path": path},
                {"name": "serde", "req": "^1", "kind": null, "path": null},
            ]),
        )]);
        let [license, bare, inner] = found.as_slice() else { unreachable!("{found:?}") };
        assert!(license.contains("LICENSE"), "{license}");
        assert!(bare.contains("`bare` has a path without a version"), "{bare}");
        assert!(inner.contains("`inner` is not published"), "{inner}");
    }
}
