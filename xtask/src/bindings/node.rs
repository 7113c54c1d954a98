//! The npm package.

use super::{Built, Language, PATH_WITHOUT_RUST};
use crate::process::{output, root, run};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The oldest Node.js that the package is for.
const OLDEST: u32 = 20;

/// The libraries that adapters of the package are tested with, as npm names them.
const ADAPTED: [&str; 2] = ["ai@6", "zod@4"];

/// Checks that there are npm and a Node.js that the package is for.
pub fn missing() -> Result<()> {
    let version = output(Command::new("node").arg("--version"));
    let version =
        version.context("there is no `node` on the PATH: install Node.js 20 or later from https://nodejs.org")?;
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    if major.unwrap_or(0) < OLDEST {
        bail!("`node` is {}, and the package is for {OLDEST} or later", version.trim());
    }
    output(Command::new("npm").arg("--version")).context("there is no `npm` on the PATH: it is a part of Node.js")?;
    Ok(())
}

/// Packs the package, and tests it if asked.
pub fn package(built: &Built, folder: &Path, tests: bool) -> Result<()> {
    let archive = archive(built, &folder.join("npm"))?;
    eprintln!("bindings: {} bytes  {}", fs::metadata(&archive)?.len(), archive.display());
    if tests { tested(&archive, &folder.join("npm-empty"), &folder.join("home")) } else { Ok(()) }
}

/// Removes a folder, if it is there, and makes it again.
fn emptied(folder: &Path) -> Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    Ok(fs::create_dir_all(folder)?)
}

/// The package as `npm pack` writes it: the sources, the native module, and the program that compiles plugins.
fn archive(built: &Built, folder: &Path) -> Result<PathBuf> {
    emptied(folder)?;
    let (source, package) = (root().join("bindings/node"), folder.join("package"));
    let manifest: serde_json::Value = serde_json::from_slice(&fs::read(source.join("package.json"))?)?;
    let version = manifest.get("version").and_then(serde_json::Value::as_str);
    ensure!(version == Some(env!("CARGO_PKG_VERSION")), "bindings/node/package.json has the version {version:?}");
    let listed = manifest.get("files").and_then(serde_json::Value::as_array).context("package.json has no `files`")?;
    let listed = listed.iter().filter_map(serde_json::Value::as_str).filter(|name| *name != "native");
    for name in listed.chain(["package.json", "README.md"]) {
        copied(&source.join(name), &package.join(name))?;
    }
    copied(&root().join("LICENSE"), &package.join("LICENSE"))?;
    copied(&built.library(Language::Node), &package.join("native/opcell.linux-x64-gnu.node"))?;
    copied(&built.compiler(), &package.join("native/opcell-compile"))?;
    run(Command::new("npm").args(["pack", "--silent", "--pack-destination"]).arg(folder).current_dir(&package))?;
    fs::remove_dir_all(&package)?;
    Ok(fs::read_dir(folder)?.next().context("npm wrote no archive")??.path())
}

/// Copies a file, or the files of a folder.
fn copied(from: &Path, to: &Path) -> Result<()> {
    if from.is_dir() {
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copied(&from.join(&name), &to.join(&name))?;
        }
        return Ok(());
    }
    fs::create_dir_all(to.parent().unwrap_or(to))?;
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
    Ok(())
}

/// Installs packages into a project.
fn install(project: &Path) -> Command {
    let mut install = Command::new("npm");
    install.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]).current_dir(project);
    install
}

/// Installs the package into an empty project, and runs the tests there, with nothing of Rust on the path.
fn tested(archive: &Path, project: &Path, home: &Path) -> Result<()> {
    emptied(project)?;
    fs::write(project.join("package.json"), "{\"private\": true}\n")?;
    run(install(project).arg("--offline").arg(archive))?;
    copied(&root().join("bindings/node/tests"), &project.join("tests"))?;
    fs::create_dir_all(home)?;
    let temporary = project.join("tmp");
    fs::create_dir_all(&temporary)?;
    let node = output(Command::new("node").args(["--print", "process.execPath"])).context("`node` does not run")?;
    let mut tests = Command::new(node.trim());
    tests.args(["--test", "tests/cases.test.js", "tests/opcell.test.js"]);
    // What the adapters are for comes from the registry.
    if run(install(project).args(["--prefer-offline", "--fetch-retries=0"]).args(ADAPTED)).is_ok() {
        tests.arg("tests/ai-sdk.test.js");
    } else {
        eprintln!("SKIPPED: the adapter for the AI SDK was not tested: npm cannot install {}", ADAPTED.join(" and "));
    }
    tests.env_clear().env("HOME", home).env("PATH", PATH_WITHOUT_RUST).env("TMPDIR", temporary);
    run(tests.env("OPCELL_REPOSITORY", root()).current_dir(project))
}
